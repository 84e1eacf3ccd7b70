//! Counts on how many SSDs a claim holds: verdicts on drives drawn at random, kept as data.
//!
//! One fitted SSD says little about a claim that depends on an unknown number. So experiments are run again on SSDs
//! that could be the papers' one ([`ssd::Profile::plausible`]), and each verdict is kept: a line for each claim and
//! scheduler, a letter for each SSD.
//!
//! ```text
//! # EXPERIMENT CLAIM SCHEDULER, and the verdict on each plausible SSD from seed 1 on: H holds, S stronger, W weaker, D differs, …
//! g7c G7c gimbal HHDHDDHH
//! ```
//!
//! Holds: written data is read back, and a file of another form is refused (tests).

use crate::claims::{Row, Verdict};
use crate::ssds::CalibratedSsd;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::LazyLock;

/// The header of the file.
const HEADER: &str = "# EXPERIMENT CLAIM SCHEDULER, and the verdict on each plausible SSD from seed 1 on: H holds, S stronger, W weaker, D differs, \
                      M missed, O open, U unmeasured\n";
/// The file that comes with gimbal. docs/lab.md describes how it was made.
const KEPT: &str = include_str!("../../../experiments/sensitivity.txt");
/// The key of a line: experiment, claim, scheduler.
const NAMES: usize = 3;

/// Verdicts of one claim under one scheduler, by SSD.
pub type Verdicts = Vec<Verdict>;

/// Verdicts by claim, scheduler and SSD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensitivity {
    verdicts: BTreeMap<[String; NAMES], Verdicts>,
}

/// The error for a text that does not have this form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// A line cannot be read.
    #[error("line {0} is not `EXPERIMENT CLAIM SCHEDULER VERDICTS`, with a letter of HSWDMOU for each SSD")]
    Line(usize),
    /// The lines are about different numbers of SSDs.
    #[error(
        "line {line} has {found} verdicts, and the first has {expected}: every line has one for each SSD"
    )]
    Length {
        /// The number of the line, from 1.
        line: usize,
        /// Its number of verdicts.
        found: usize,
        /// The number of verdicts in the first line.
        expected: usize,
    },
}

/// The letter of a verdict.
fn letter(verdict: Verdict) -> char {
    match verdict {
        Verdict::Holds => 'H',
        Verdict::Stronger => 'S',
        Verdict::Weaker => 'W',
        Verdict::Differs => 'D',
        Verdict::Missed => 'M',
        Verdict::Open => 'O',
        Verdict::Unmeasured => 'U',
    }
}

/// The SSD of a seed, with the settings that the baselines of the Gimbal paper need. The calibration is that of the
/// fitted model, so its error is that of a calibration made on another drive of the same kind.
///
/// # Panics
/// Never: the fitted model is built in.
pub fn ssd(seed: u64) -> CalibratedSsd {
    let fitted = CalibratedSsd::find("dct983", std::path::Path::new("")).expect("built in");
    CalibratedSsd { profile: ssd::Profile::plausible(seed), ..fitted }
}

impl Sensitivity {
    /// The data that comes with gimbal.
    pub fn kept() -> &'static Sensitivity {
        static READ: LazyLock<Sensitivity> =
            LazyLock::new(|| Sensitivity::parse(KEPT).unwrap_or_else(|error| panic!("built in: {error}")));
        &READ
    }

    /// Number of judged SSDs.
    pub fn ssds(&self) -> usize {
        self.verdicts.values().next().map_or(0, Vec::len)
    }

    /// The verdicts by experiment, claim and scheduler.
    pub fn lines(&self) -> impl Iterator<Item = (&[String; NAMES], &Verdicts)> {
        self.verdicts.iter()
    }

    /// The fraction of the SSDs on which a claim holds under a scheduler; `None` if it was not judged.
    pub fn share(&self, experiment: &str, claim: &str, scheduler: &str) -> Option<f64> {
        let names = [experiment, claim, scheduler].map(str::to_owned);
        self.verdicts.get(&names).map(|verdicts| share(verdicts, &[Verdict::Holds]))
    }

    /// Adds the verdicts on the next SSD. Claims that were not judged on it are unmeasured.
    pub fn add(&mut self, rows: &[Row]) {
        let ssds = self.ssds();
        for row in rows {
            self.verdicts
                .entry(names(row))
                .or_insert_with(|| vec![Verdict::Unmeasured; ssds])
                .push(row.verdict);
        }
        for verdicts in self.verdicts.values_mut() {
            verdicts.resize(ssds + 1, Verdict::Unmeasured);
        }
    }

    /// Reads what [`Sensitivity::to_text`] wrote.
    ///
    /// # Errors
    /// The first line that is not of the form.
    pub fn parse(text: &str) -> Result<Sensitivity, BadText> {
        let mut found = Sensitivity::default();
        for (line, text) in (1..).zip(text.lines()) {
            if text.starts_with('#') || text.trim().is_empty() {
                continue;
            }
            let words: Vec<&str> = text.split_whitespace().collect();
            let &[experiment, claim, scheduler, letters] = &words[..] else {
                return Err(BadText::Line(line));
            };
            let verdict = |of: char| Verdict::ALL.into_iter().find(|verdict| letter(*verdict) == of);
            let verdicts: Verdicts =
                letters.chars().map(verdict).collect::<Option<_>>().ok_or(BadText::Line(line))?;
            let expected = if found.verdicts.is_empty() { verdicts.len() } else { found.ssds() };
            if verdicts.len() != expected {
                return Err(BadText::Length { line, found: verdicts.len(), expected });
            }
            found.verdicts.insert([experiment, claim, scheduler].map(str::to_owned), verdicts);
        }
        Ok(found)
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (names, verdicts) in &self.verdicts {
            let letters: String = verdicts.iter().copied().map(letter).collect();
            _ = writeln!(text, "{} {letters}", names.join(" "));
        }
        text
    }
}

/// The fraction of the SSDs with one of these verdicts.
pub fn share(verdicts: &[Verdict], wanted: &[Verdict]) -> f64 {
    verdicts.iter().filter(|verdict| wanted.contains(verdict)).count() as f64 / verdicts.len().max(1) as f64
}

fn names(row: &Row) -> [String; NAMES] {
    [&row.experiment, &row.id, &row.scheduler].map(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Asked;

    fn row(id: &str, verdict: Verdict) -> Row {
        Row {
            id: id.into(),
            what: "w".into(),
            experiment: "x".into(),
            profile: "p".into(),
            scheduler: "gimbal".into(),
            asked: Asked::Paper(1.0),
            ours: None,
            interval: None,
            unit: "×",
            holds: verdict == Verdict::Holds,
            verdict,
            plausible: None,
            why: None,
        }
    }

    #[test]
    fn verdicts_survive_being_written() {
        let mut all = Sensitivity::default();
        all.add(&[row("a", Verdict::Holds)]);
        all.add(&[row("a", Verdict::Weaker), row("b", Verdict::Missed)]);
        all.add(&[row("b", Verdict::Holds)]);
        assert!(all.to_text().ends_with("\nx a gimbal HWU\nx b gimbal UMH\n"), "{}", all.to_text());
        assert_eq!(Sensitivity::parse(&all.to_text()), Ok(all.clone()));
        assert_eq!((all.ssds(), all.share("x", "a", "gimbal")), (3, Some(1.0 / 3.0)));
        assert_eq!(all.share("x", "c", "gimbal"), None);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        assert_eq!(Sensitivity::parse("# one\nx a gimbal HQ\n"), Err(BadText::Line(2)));
        assert_eq!(Sensitivity::parse("x a gimbal\n"), Err(BadText::Line(1)));
        let uneven = BadText::Length { line: 2, found: 1, expected: 2 };
        assert_eq!(Sensitivity::parse("x a gimbal HH\nx b gimbal H\n"), Err(uneven));
    }

    #[test]
    fn what_comes_with_gimbal_can_be_read() {
        assert!(Sensitivity::kept().ssds() >= 60);
    }

    #[test]
    fn a_plausible_ssd_can_be_judged_under_every_scheduler_of_the_papers() {
        let experiment = crate::Experiment::named("g7c").expect("it is built in");
        for scheduler in experiment.schedulers {
            scheduler.setup(&ssd(1)).unwrap_or_else(|missing| panic!("{missing}"));
        }
    }
}
