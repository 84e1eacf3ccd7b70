//! A measure, its goal, and its result.

use crate::machine::Cores;
use crate::rounds::Rounds;
use crate::server::Programs;
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// One or more lines of the table that come from the same runs.
pub(crate) struct Measure {
    /// Its lines.
    pub(crate) lines: &'static [Line],
    /// A short description.
    pub(crate) about: &'static str,
    /// Whether load by others changes its values.
    pub(crate) disturbed: bool,
    /// Measures, and returns one reading per line, in order. It must leave no child process.
    pub(crate) run: fn(&Bench) -> Result<Vec<Reading>>,
}

impl Measure {
    /// The names of its lines.
    pub(crate) fn names(&self) -> String {
        self.lines.iter().map(|line| line.name).collect::<Vec<_>>().join(", ")
    }
}

/// One line of the table, with its goal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) goal: Goal,
}

impl Line {
    /// A ratio of two things measured in turns.
    pub(crate) const fn ratio(name: &'static str, goal: Goal) -> Line {
        Line { name, unit: "ratio", goal }
    }
}

/// The state that all measures share.
pub(crate) struct Bench {
    pub(crate) cores: Cores,
    pub(crate) programs: Programs,
    /// Number of turns of each contestant.
    pub(crate) rounds: usize,
    /// Length of a turn.
    pub(crate) span: Duration,
    /// A folder on a disk, for temporary files.
    pub(crate) folder: PathBuf,
}

impl Bench {
    /// A file in the folder, which is removed when it is dropped.
    pub(crate) fn scratch(&self, name: &str, contents: &str) -> Result<Scratch> {
        fs::create_dir_all(&self.folder).with_context(|| format!("making {}", self.folder.display()))?;
        let file = Scratch(self.folder.join(format!("bench-{}-{name}", std::process::id())));
        fs::write(&file.0, contents).with_context(|| format!("writing {}", file.0.display()))?;
        // Some are keys, and a target warns of those that others can read.
        let owner_only = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&file.0, owner_only)
            .with_context(|| format!("protecting {}", file.0.display()))?;
        Ok(file)
    }

    /// A new folder for one measure.
    pub(crate) fn scratch_folder(&self, name: &str) -> Result<ScratchFolder> {
        let folder = ScratchFolder(self.folder.join(format!("bench-{}-{name}", std::process::id())));
        fs::create_dir_all(&folder.0).with_context(|| format!("making {}", folder.0.display()))?;
        Ok(folder)
    }
}

/// A folder that is removed at the end, with all that is in it.
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Its path.
    pub(crate) fn path(&self) -> Result<&str> {
        self.0.to_str().with_context(|| format!("the name of {} is not UTF-8", self.0.display()))
    }

    /// The path of a file in it.
    pub(crate) fn child(&self, name: &str) -> Result<String> {
        Ok(format!("{}/{name}", self.path()?))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // It may not exist, if the measure failed early.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A file that is removed at the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Its path.
    pub(crate) fn path(&self) -> Result<&str> {
        self.0.to_str().with_context(|| format!("the name of {} is not UTF-8", self.0.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may not exist, if the measure failed early.
        fs::remove_file(&self.0).ok();
    }
}

/// The result of one line.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) rounds: Rounds,
    /// The figures behind it, in words.
    pub(crate) detail: String,
    /// The reason why the goal holds although the value misses it, for goals that allow one.
    pub(crate) excuse: Option<&'static str>,
}

impl Reading {
    /// A reading without excuse.
    pub(crate) fn new(rounds: Rounds, detail: String) -> Reading {
        Reading { rounds, detail, excuse: None }
    }
}

/// The goal of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
    Within(f64, f64),
}

impl Goal {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Goal::AtMost(most) => value <= most,
            Goal::AtLeast(least) => value >= least,
            Goal::Below(limit) => value < limit,
            Goal::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Goal::AtMost(most) => write!(f, "≤ {most}"),
            Goal::AtLeast(least) => write!(f, "≥ {least}"),
            Goal::Below(limit) => write!(f, "< {limit}"),
            Goal::Within(least, most) => write!(f, "{least}–{most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_includes_its_bounds_but_for_below() {
        assert!(Goal::AtMost(1.25).holds(1.25) && !Goal::AtMost(1.25).holds(1.26));
        assert!(Goal::AtLeast(0.9).holds(0.9) && !Goal::AtLeast(0.9).holds(0.89));
        assert!(!Goal::Below(1.0).holds(1.0) && Goal::Below(1.0).holds(0.99));
        assert!(Goal::Within(0.95, 1.05).holds(0.95) && !Goal::Within(0.95, 1.05).holds(1.06));
    }
}
