//! The work of a copy, from the lists of both places alone.
//!
//! Directories come before what is in them, and RocksDB's `CURRENT` files after all others: without it, RocksDB opens no
//! database.

use super::place::{ASIDE, Entry, Kind, Place, Stamp, is_current, is_log, is_part, part_of, split};
use std::collections::{BTreeMap, BTreeSet};

/// A file to be copied, and what the destination has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) path: String,
    pub(super) size: u64,
    pub(super) stamp: Option<Stamp>,
    /// Size of the file that the destination has under this name.
    pub(super) there: Option<u64>,
    /// Bytes that an interrupted copy has left.
    pub(super) part: Option<u64>,
}

impl Work {
    /// The file as it was listed.
    pub(super) fn listed(&self) -> Option<(u64, Stamp)> {
        self.stamp.map(|stamp| (self.size, stamp))
    }
}

/// The work of a copy; see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Directories to be made.
    pub(super) dirs: Vec<String>,
    pub(super) files: Vec<Work>,
    /// Number of directories of the source.
    pub(super) dirs_all: u64,
    /// Paths of the destination that the source does not have.
    pub(super) extra: Vec<String>,
    /// Whether the destination has anything that this copy could have made.
    pub(super) has_begun: bool,
}

impl Plan {
    /// The plan, or the reasons why there is none.
    pub(super) fn of(source: &[Entry], found: &[Entry], to: &dyn Place) -> Result<Plan, Vec<String>> {
        let mut found: BTreeMap<&str, Kind> =
            found.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        let mut plan = Plan::default();
        let mut problems = Vec::new();
        for Entry { path, kind } in source {
            if let Some(why) = to.refusal(path) {
                problems.push(why);
                continue;
            }
            let there = found.remove(path.as_str());
            plan.has_begun |= there.is_some();
            match (*kind, there) {
                (Kind::Dir, None) => {
                    plan.dirs_all += 1;
                    plan.dirs.push(path.clone());
                }
                (Kind::Dir, Some(Kind::Dir)) => plan.dirs_all += 1,
                (Kind::Dir, Some(Kind::File { .. })) => problems.push(format!(
                    "{} is a file, and a directory in the source: remove it, or copy to another directory",
                    to.name(path)
                )),
                (Kind::File { .. }, Some(Kind::Dir)) => problems.push(format!(
                    "{} is a directory, and a file in the source: remove it, or copy to another directory",
                    to.name(path)
                )),
                (Kind::File { .. }, _) if is_part(path) => problems.push(format!(
                    "{path} in the source is what an interrupted copy to there has left: complete that copy, or remove the file"
                )),
                (Kind::File { size, stamp }, there) => {
                    let part = found.remove(part_of(path).as_str());
                    plan.has_begun |= part.is_some();
                    let size_of = |kind: Option<Kind>| match kind {
                        Some(Kind::File { size, .. }) => Some(size),
                        _ => None,
                    };
                    let (there, part) = (size_of(there), size_of(part));
                    plan.files.push(Work { path: path.clone(), size, stamp, there, part });
                }
            }
        }
        plan.dirs.sort();
        plan.files.sort_by_key(|work| (is_current(&work.path), work.path.clone()));
        plan.extra = found.into_keys().map(str::to_owned).collect();
        if problems.is_empty() { Ok(plan) } else { Err(problems) }
    }

    /// The `CURRENT` files of the destination that must go before files beside them are replaced.
    pub(super) fn stale_currents(&self, differing: &BTreeSet<String>) -> BTreeSet<String> {
        let dirs: BTreeSet<&str> = differing.iter().map(|path| split(path).0).collect();
        let is_stale = |work: &&Work| {
            is_current(&work.path) && work.there.is_some() && dirs.contains(split(&work.path).0)
        };
        self.files.iter().filter(is_stale).map(|work| work.path.clone()).collect()
    }

    /// The logs beside the `CURRENT` files that are copied, of which the source has none, with other names for them. RocksDB
    /// replays every log with a high enough number into the database that it opens.
    pub(super) fn foreign_logs(&self, work: &[&Work]) -> Vec<(String, String)> {
        let currents = work.iter().filter(|work| is_current(&work.path));
        let dirs: BTreeSet<&str> = currents.map(|work| split(&work.path).0).collect();
        let logs = self.extra.iter().filter(|path| is_log(path) && dirs.contains(split(path).0));
        logs.map(|path| (path.clone(), self.aside(path))).collect()
    }

    /// A name that the destination does not have.
    fn aside(&self, path: &str) -> String {
        let mut aside = format!("{path}{ASIDE}");
        while self.extra.contains(&aside) {
            aside.push('+');
        }
        aside
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.to_owned(), kind: Kind::File { size, stamp: None } }
    }

    fn dir(path: &str) -> Entry {
        Entry { path: path.to_owned(), kind: Kind::Dir }
    }

    #[test]
    fn directories_come_first_and_current_last() {
        let source =
            [file("db/CURRENT", 1), dir("db"), file("z", 2), file("CURRENT", 3), file("db/a.sst", 4)];
        let plan = Plan::of(&source, &[], &Memory::default()).expect("nothing is there");
        assert_eq!(plan.dirs, ["db"]);
        let order: Vec<&str> = plan.files.iter().map(|work| work.path.as_str()).collect();
        assert_eq!(order, ["db/a.sst", "z", "CURRENT", "db/CURRENT"]);
        assert!(!plan.has_begun && plan.extra.is_empty());
    }

    #[test]
    fn parts_belong_to_their_files_and_all_else_is_extra() {
        let source = [file("a", 10), file("b", 10)];
        let found = [file("a.gimbal-part", 4), file("b", 9), file("c", 1), file("c.gimbal-part", 1)];
        let plan = Plan::of(&source, &found, &Memory::default()).expect("no conflicts");
        let there: Vec<_> = plan.files.iter().map(|work| (work.there, work.part)).collect();
        assert_eq!(there, [(None, Some(4)), (Some(9), None)]);
        assert_eq!(plan.extra, ["c", "c.gimbal-part"]);
    }

    #[test]
    fn files_and_directories_of_the_same_name_and_parts_in_the_source_are_refused() {
        let source = [file("a", 1), dir("b"), file("x.gimbal-part", 1)];
        let found = [dir("a"), file("b", 1)];
        let problems = Plan::of(&source, &found, &Memory::default()).expect_err("three reasons");
        assert_eq!(problems.len(), 3, "{problems:?}");
    }
}
