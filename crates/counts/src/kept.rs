//! The file of saved counts, and the messages about changes of counts.

use crate::Count;
use anyhow::{Context, Result, bail};
use std::fmt::Write;

/// Allowed difference of a count, in percent.
pub(crate) const TOLERANCE_PERCENT: u64 = 2;

/// Parts of the names of works whose sides meet in one of a few ways, which can hold for a whole run and its repetitions, with the allowed
/// differences of their instructions and of their calls of the C library, in percent; the first that fits.
///
/// Connection and SSD on two threads: a read makes 6.7, 6.9 or 7.1 calls. A synced write of a volume: the answers of two targets come together, or
/// one after the other (33.7 and 34.5 thousand instructions). A read of a volume: the caller sleeps already when it is answered, or not.
const MEETING: [(&str, u64, u64); 3] =
    [(".apart.", TOLERANCE_PERCENT, 7), ("volume.synced-write.", 5, 7), ("volume.", TOLERANCE_PERCENT, 7)];

const HEAD: &str = "\
# Instructions of one unit of work, and its calls of the C library, as `make counts` found them.
# `make test` fails when one differs by more than 2 % (5 and 7 % for some of two threads). docs/instruction-counts.md says what to do then.
";
const COMPILER: &str = "compiler: ";

/// Counts with their names and subjects, and the compiler that produced them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) compiler: String,
    /// Sorted by name.
    pub(crate) lines: Vec<Line>,
}

/// One count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) count: Count,
    pub(crate) about: String,
}

impl Counts {
    pub(crate) fn parse(text: &str) -> Result<Counts> {
        let mut compiler = None;
        let mut lines = Vec::new();
        for (number, text) in text.lines().enumerate() {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(name) = text.strip_prefix(COMPILER) {
                compiler = Some(name.to_owned());
                continue;
            }
            let line = Line::parse(text);
            lines.push(line.with_context(|| format!("line {}: {text:?} is no count", number + 1))?);
        }
        let compiler = compiler.with_context(|| format!("no line begins with {COMPILER:?}"))?;
        Ok(Counts { compiler, lines })
    }

    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{HEAD}{COMPILER}{}\n\n", self.compiler);
        for Line { name, count, about } in &self.lines {
            let Count { instructions, calls_tenths } = *count;
            let calls = calls_tenths as f64 / 10.0;
            writeln!(text, "{name:32} {instructions:>7} instructions {calls:>6.1} calls  {about}")
                .expect("text takes all");
        }
        text
    }

    fn line(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// Whether a line of `found` is as it was kept, or is not to be compared.
    pub(crate) fn allows(&self, found: &Counts, name: &str) -> bool {
        let (Some(kept), Some(found)) = (self.line(name), found.line(name)) else { return true };
        changes(kept, found).is_empty()
    }

    /// Puts lines that were counted again in the place of those of the same names.
    pub(crate) fn replace(&mut self, lines: Vec<Line>) {
        for line in lines {
            let old = self.lines.iter_mut().find(|old| old.name == line.name);
            *old.expect("what is counted again was counted before") = line;
        }
    }

    /// The message about differences between `found` and these counts; `None` without a difference.
    pub(crate) fn complaint(&self, found: &Counts) -> Option<String> {
        let mut said = String::new();
        let mut say = |text: String| said.extend([text.as_str(), "\n"]);
        for line in &found.lines {
            match self.line(&line.name) {
                None => say(format!("  {:32} is not in the file", line.name)),
                Some(kept) => changes(kept, line).into_iter().for_each(&mut say),
            }
        }
        for kept in &self.lines {
            if found.line(&kept.name).is_none() {
                say(format!("  {:32} is in the file and not counted any more", kept.name));
            }
        }
        (!said.is_empty()).then_some(said)
    }
}

impl Line {
    fn parse(text: &str) -> Result<Line> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().context("it ends too early");
        let name = word()?.to_owned();
        let instructions = word()?.parse()?;
        expect(word()?, "instructions")?;
        let calls: f64 = word()?.parse()?;
        expect(word()?, "calls")?;
        let about = words.collect::<Vec<_>>().join(" ");
        Ok(Line { name, count: Count { instructions, calls_tenths: (calls * 10.0).round() as u64 }, about })
    }
}

fn expect(word: &str, expected: &str) -> Result<()> {
    if word == expected { Ok(()) } else { bail!("{word:?} where {expected:?} should be") }
}

/// Whether two counts are further apart than is allowed.
fn differ(kept: u64, found: u64, percent: u64) -> bool {
    kept.abs_diff(found) * 100 > kept * percent
}

/// The allowed differences of the work called `name`: of its instructions, and of its calls.
fn tolerances(name: &str) -> (u64, u64) {
    let meeting = MEETING.iter().find(|(part, ..)| name.contains(part));
    meeting.map_or((TOLERANCE_PERCENT, TOLERANCE_PERCENT), |(_, instructions, calls)| (*instructions, *calls))
}

/// Whether calls, in tenths, are further apart than is allowed. One tenth may be rounding, unless there was no call.
fn calls_differ(percent: u64, kept: u64, found: u64) -> bool {
    differ(kept, found, percent) && (kept == 0 || kept.abs_diff(found) > 1)
}

/// The changes of a line, as messages.
fn changes(kept: &Line, found: &Line) -> Vec<String> {
    let (old, new) = (kept.count, found.count);
    let mut changes = Vec::new();
    let (instructions, calls) = tolerances(&found.name);
    if differ(old.instructions, new.instructions, instructions) {
        changes.push(change(&found.name, "instructions", old.instructions as f64, new.instructions as f64));
    }
    if calls_differ(calls, old.calls_tenths, new.calls_tenths) {
        let tenths = |count: Count| count.calls_tenths as f64 / 10.0;
        changes.push(change(&found.name, "calls of the C library", tenths(old), tenths(new)));
    }
    changes
}

fn change(name: &str, what: &str, old: f64, new: f64) -> String {
    let direction = if new > old { "grew" } else { "shrank" };
    let percent =
        if old > 0.0 { format!("{:+.1} %", (new - old) / old * 100.0) } else { "from nothing".to_owned() };
    format!("  {name:32} {direction} by {percent}: {old} -> {new} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, u64, u64)]) -> Counts {
        let line = |&(name, instructions, calls_tenths): &(&str, u64, u64)| Line {
            name: name.to_owned(),
            count: Count { instructions, calls_tenths },
            about: "a thing, done once".to_owned(),
        };
        Counts { compiler: "rustc 1".to_owned(), lines: of.iter().map(line).collect() }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let counts = counts(&[("a.b", 1234, 5), ("c", 7, 120)]);
        assert_eq!(Counts::parse(&counts.to_text()).unwrap(), counts);
    }

    #[test]
    fn what_is_counted_again_takes_the_place_of_what_was_too_far_off() {
        let kept = counts(&[("a", 1000, 70), ("b", 1000, 70)]);
        let mut found = counts(&[("a", 1000, 66), ("b", 1030, 70), ("new", 5, 0)]);
        let off = |found: &Counts| ["a", "b", "new"].map(|name| !kept.allows(found, name));
        assert_eq!(off(&found), [true, true, false]);
        found.replace(counts(&[("a", 1001, 70), ("b", 1031, 70)]).lines);
        assert_eq!(off(&found), [false, true, false]);
        assert_eq!(found, counts(&[("a", 1001, 70), ("b", 1031, 70), ("new", 5, 0)]));
    }

    #[test]
    fn a_count_may_differ_by_two_percent_either_way_and_no_more() {
        let kept = counts(&[("a", 1000, 100)]);
        for (instructions, calls) in [(1000, 100), (1020, 102), (980, 98)] {
            assert_eq!(kept.complaint(&counts(&[("a", instructions, calls)])), None);
        }
        let rounded = counts(&[("a", 1000, 43)]).complaint(&counts(&[("a", 1000, 44)]));
        assert_eq!(rounded, None, "4.349 and 4.351 calls");
        for (instructions, calls, said) in [
            (1021, 100, "grew by +2.1 %: 1000 -> 1021 instructions"),
            (979, 100, "shrank by -2.1 %: 1000 -> 979 instructions"),
            (1000, 103, "grew by +3.0 %: 10 -> 10.3 calls of the C library"),
        ] {
            let complaint = kept.complaint(&counts(&[("a", instructions, calls)])).unwrap();
            assert!(complaint.contains(said), "{complaint}");
        }
    }

    #[test]
    fn sides_that_meet_in_several_ways_may_differ_by_more() {
        for (name, most, calls) in [
            ("x.apart.ssd", 1020, 107),
            ("volume.read.volume", 1020, 107),
            ("volume.synced-write.volume", 1050, 107),
        ] {
            let kept = counts(&[(name, 1000, 100)]);
            assert_eq!(kept.complaint(&counts(&[(name, most, calls)])), None);
            assert!(kept.complaint(&counts(&[(name, most + 1, 100)])).is_some(), "{name}");
            assert!(kept.complaint(&counts(&[(name, 1000, calls + 1)])).is_some(), "{name}");
        }
    }

    #[test]
    fn one_call_where_there_was_none_is_told() {
        assert!(counts(&[("a", 10, 0)]).complaint(&counts(&[("a", 10, 1)])).is_some());
    }

    #[test]
    fn a_count_that_comes_or_goes_is_told() {
        let (one, two) = (counts(&[("a", 1, 0)]), counts(&[("a", 1, 0), ("b", 1, 0)]));
        assert!(one.complaint(&two).unwrap().contains("b  "));
        assert!(two.complaint(&one).unwrap().contains("not counted any more"));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let error = Counts::parse("compiler: x\na 12 seconds\n").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
