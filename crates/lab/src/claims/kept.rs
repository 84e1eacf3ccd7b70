//! Verdicts kept in the tree, so that a change of an algorithm or a model that changes a verdict is detected.
//!
//! A line for each row of the claims table, without its numbers: numbers may move, but a change of a verdict must be
//! seen.
//!
//! ```text
//! # EXPERIMENT CLAIM PROFILE SCHEDULER VERDICT
//! g7a G7a-large-reflex dct983 gimbal holds
//! ```
//!
//! Runs are the same on every machine, so the verdicts must be exactly the same.

use super::Row;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The header of the file.
const HEADER: &str = "# EXPERIMENT CLAIM PROFILE SCHEDULER VERDICT, kept by `make verdicts`\n";
/// The key of a row: experiment, claim, profile, scheduler.
const NAMES: usize = 4;

/// Verdicts by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    verdicts: BTreeMap<[String; NAMES], String>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number} is not `EXPERIMENT CLAIM PROFILE SCHEDULER VERDICT`")]
pub struct BadLine {
    /// The number of the line, from 1.
    pub number: usize,
}

impl Kept {
    /// The verdicts of these rows.
    pub fn of(rows: &[Row]) -> Kept {
        let named = rows.iter().map(|row| (names(row), row.verdict.name().to_owned()));
        Kept { verdicts: named.collect() }
    }

    /// Reads what [`Kept::to_text`] wrote.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn parse(text: &str) -> Result<Kept, BadLine> {
        let mut verdicts = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let [names @ .., verdict] = &words[..] else { return Err(BadLine { number }) };
            let names = <[String; NAMES]>::try_from(names.to_vec()).map_err(|_| BadLine { number })?;
            verdicts.insert(names, verdict.clone());
        }
        Ok(Kept { verdicts })
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (names, verdict) in &self.verdicts {
            _ = writeln!(text, "{} {verdict}", names.join(" "));
        }
        text
    }

    /// The verdicts that changed, a line each. `experiments` have been run, and `rows` are their rows.
    pub fn changes(&self, experiments: &[String], rows: &[Row]) -> Vec<String> {
        let now = Kept::of(rows);
        let was = self.verdicts.iter().filter(|(names, _)| experiments.contains(&names[0]));
        let turned = was.filter_map(|(names, verdict)| {
            let found = now.verdicts.get(names).map_or("gone", String::as_str);
            (found != verdict).then(|| format!("{}: was {verdict}, is {found}", names.join(" ")))
        });
        let new = now.verdicts.iter().filter(|(names, _)| !self.verdicts.contains_key(*names));
        let new = new.map(|(names, verdict)| format!("{}: is new, {verdict}", names.join(" ")));
        turned.chain(new).collect()
    }
}

fn names(row: &Row) -> [String; NAMES] {
    [&row.experiment, &row.id, &row.profile, &row.scheduler].map(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Asked, Verdict};

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
        let kept = Kept::of(&[row("b", Verdict::Holds), row("a", Verdict::Weaker)]);
        assert_eq!(Kept::parse(&kept.to_text()), Ok(kept));
        assert_eq!(Kept::parse("# one\nx a p gimbal\n"), Err(BadLine { number: 2 }));
    }

    #[test]
    fn a_claim_that_turns_goes_or_comes_is_named() {
        let kept = Kept::of(&[row("a", Verdict::Holds), row("b", Verdict::Holds), row("c", Verdict::Weaker)]);
        let now = [row("a", Verdict::Differs), row("b", Verdict::Holds), row("d", Verdict::Stronger)];
        assert_eq!(
            kept.changes(&["x".into()], &now),
            [
                "x a p gimbal: was holds, is differs",
                "x c p gimbal: was weaker, is gone",
                "x d p gimbal: is new, stronger"
            ]
        );
        assert!(kept.changes(&["y".into()], &[]).is_empty(), "what was not run has not changed");
    }
}
