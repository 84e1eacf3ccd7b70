//! The findings of an experiment: the records of all its runs.

use crate::claims::Row;
use crate::experiment::Experiment;
use crate::figure::Drawn;
use crate::measure::Measured;
use crate::plan::Plan;
use crate::record::Record;
use crate::runner::{Broken, Images, Progress, run_all};
use serde::Serialize;

/// An experiment and its records.
#[derive(Clone, Debug)]
pub struct Findings {
    /// The experiment that was run.
    pub experiment: Experiment,
    /// Profile by profile, case by case, scheduler by scheduler, seed by seed.
    pub records: Vec<Record>,
}

/// Runs an experiment on all cores. Reports every run that ends to `watch`.
///
/// # Errors
/// A run broke a rule of the simulator.
pub fn run(
    experiment: Experiment,
    images: &Images,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Findings, Broken> {
    let plan = Plan::new(&experiment);
    let measured = run_all(&plan.runs, images, watch)?;
    Ok(Findings::new(experiment, &plan, &measured))
}

impl Findings {
    /// The results of the runs of `plan`, in their order.
    pub fn new(experiment: Experiment, plan: &Plan, measured: &[Measured]) -> Findings {
        let results = measured.iter().enumerate();
        let records = results
            .filter_map(|(run, result)| Record::new(&experiment, plan, run, result, measured))
            .collect();
        Findings { experiment, records }
    }

    /// The records of one case on one profile under one scheduler, one for each seed.
    pub fn of<'a>(
        &'a self,
        profile: &'a str,
        case: &'a str,
        scheduler: &'a str,
    ) -> impl Iterator<Item = &'a Record> {
        self.records.iter().filter(move |record| {
            record.profile == profile && record.case == case && record.scheduler == scheduler
        })
    }

    /// The experiment's claims, each judged on every profile and for every scheduler that it is about.
    pub fn rows(&self) -> Vec<Row> {
        self.experiment.claims.iter().flat_map(|claim| claim.rows(self)).collect()
    }

    /// The experiment's figures, each on every profile.
    pub fn figures(&self) -> Vec<Drawn> {
        self.experiment.figures.iter().flat_map(|figure| figure.draw(self)).collect()
    }
}

/// The median of some values and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of some values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Spread { median, least, greatest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between_the_two_in_the_middle() {
        let spread = Spread { median: 2.5, least: 1.0, greatest: 9.0 };
        assert_eq!(Spread::of([9.0, 2.0, 1.0, 3.0]), Some(spread));
        assert_eq!(Spread::of([]), None);
    }
}
