//! A figure must name only things that its experiment has. It must have what its kind needs, and nothing that its kind does not show.

use super::{Figure, Kind, Mark, Measure};
use crate::claims::{Reading, Statistic};
use crate::experiment::{Case, Experiment};

/// The field that is wrong, and the reason.
///
/// # Errors
/// The first that is found.
pub(crate) fn check(experiment: &Experiment, figure: &Figure) -> Result<(), (&'static str, String)> {
    if figure.name.is_empty()
        || !figure.name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    {
        return Err(("name", "names files: letters, digits and - only".into()));
    }
    if experiment.figures.iter().filter(|other| other.name == figure.name).count() > 1 {
        return Err(("name", "there are two of it; every figure needs a name of its own".into()));
    }
    let cases = cases(experiment, figure)?;
    for name in &figure.groups {
        for case in &cases {
            has_group(case, name).map_err(|problem| ("groups", problem))?;
        }
    }
    for name in &figure.schedulers {
        runs(experiment, name).map_err(|problem| ("schedulers", problem))?;
    }
    shows(figure)?;
    for mark in &figure.marks {
        check_mark(experiment, figure, &cases, mark).map_err(|problem| ("marks", problem))?;
    }
    Ok(())
}

/// The figure's cases, if its kind can show them.
fn cases<'e>(experiment: &'e Experiment, figure: &Figure) -> Result<Vec<&'e Case>, (&'static str, String)> {
    for name in &figure.cases {
        if experiment.case(name).is_none() {
            return Err(("cases", format!("the experiment has no case {name}")));
        }
    }
    let wanted = |case: &&Case| figure.cases.is_empty() || figure.cases.contains(&case.name);
    let cases: Vec<&Case> = experiment.cases.iter().filter(wanted).collect();
    let kind = figure.kind.name();
    if figure.kind == Kind::Sweep {
        let over = cases[0].swept;
        if let Some(case) = cases.iter().find(|case| case.swept.is_none()) {
            return Err(("cases", format!("case {} is not swept; name those that are", case.name)));
        }
        if cases.iter().any(|case| case.swept != over) {
            return Err(("cases", "they are swept over different things; take a figure for each".into()));
        }
        return Ok(cases);
    }
    if let Some(case) = cases.iter().find(|case| case.swept.is_some()) {
        return Err(("cases", format!("case {} is swept; {kind} needs cases with one value", case.name)));
    }
    if matches!(figure.kind, Kind::TimeSeries | Kind::Threshold) && cases.len() != 1 {
        return Err(("cases", format!("a {kind} shows one case, and here are {}; name it", cases.len())));
    }
    Ok(cases)
}

/// Whether the kind can show the requested contents.
fn shows(figure: &Figure) -> Result<(), (&'static str, String)> {
    let kind = figure.kind.name();
    match (figure.kind, figure.of) {
        (Kind::Threshold, Some(_)) => {
            Err(("of", "is too much: a threshold figure shows the latency and its threshold".into()))
        }
        (Kind::Threshold, None) if figure.way.is_none() => {
            Err(("way", "is missing: the threshold of reads or of writes?".into()))
        }
        (Kind::Threshold, None) => Ok(()),
        (_, None) => Err(("of", "is missing: what does it show?".into())),
        (Kind::TimeSeries, Some(Measure::FUtil | Measure::Deviation)) => Err((
            "of",
            format!("a {kind} shows bandwidth, latency, write-cost, target-rate, fragmentation or window"),
        )),
        (Kind::TimeSeries, Some(Measure::Latency { statistic, reading })) => {
            let kept = statistic == Statistic::Mean && reading != Reading::EndToEnd;
            let problem = "over time only the mean latency is kept, seen from the network or in the device";
            if kept { Ok(()) } else { Err(("of", problem.into())) }
        }
        (Kind::TimeSeries, Some(_)) => Ok(()),
        (_, Some(Measure::WriteCost | Measure::TargetRate | Measure::Fragmentation | Measure::Window)) => {
            Err(("of", format!("is known over time only: {kind} cannot show it, a time-series can")))
        }
        (Kind::Tradeoff, Some(Measure::Latency { .. })) => Ok(()),
        (Kind::Tradeoff, Some(_)) => Err(("of", "a tradeoff shows a latency against bandwidth".into())),
        (Kind::Bars | Kind::Sweep, Some(_)) => Ok(()),
    }
}

fn check_mark(experiment: &Experiment, figure: &Figure, cases: &[&Case], mark: &Mark) -> Result<(), String> {
    if let Some(name) = &mark.case
        && !cases.iter().any(|case| case.name == *name)
    {
        return Err(format!("the figure has no case {name}"));
    }
    if let Some(name) = &mark.scheduler {
        runs(experiment, name)?;
    }
    if let Some(name) = &mark.group {
        let mut of = cases.iter().filter(|case| mark.case.as_ref().is_none_or(|name| *name == case.name));
        of.try_for_each(|case| has_group(case, name))?;
    }
    let (placed, timed) = (mark.x.is_some(), mark.from.is_some() || mark.to.is_some());
    match figure.kind {
        Kind::Bars if placed || timed => {
            Err("a bar's mark has a group and a scheduler, no x, from or to".into())
        }
        Kind::Bars if mark.scheduler.is_none() => Err("scheduler is missing: whose value is it?".into()),
        Kind::Sweep if !placed || timed => Err("a sweep's mark needs x, and has no from or to".into()),
        Kind::TimeSeries if placed => Err("a mark of a time-series has from and to, no x".into()),
        Kind::Threshold | Kind::Tradeoff => Err(format!("a {} has none", figure.kind.name())),
        _ => Ok(()),
    }
}

fn has_group(case: &Case, name: &str) -> Result<(), String> {
    if case.groups.iter().any(|group| group.name == name) {
        Ok(())
    } else {
        Err(format!("case {} has no group {name}", case.name))
    }
}

fn runs(experiment: &Experiment, name: &str) -> Result<(), String> {
    if experiment.schedulers.iter().any(|scheduler| scheduler.name() == name) {
        Ok(())
    } else {
        Err(format!("the experiment does not run {name}"))
    }
}
