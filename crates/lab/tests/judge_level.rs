//! The fairness of `level` on SSDs without a calibration, so that a regression is detected.
//!
//! Twenty-four cases are judged against references (`judge/references.json`) that were made with `Reference::of`,
//! because most of a case's time is spent on the runs of its groups alone and under `none` and `gimbal`. A long test
//! makes them again.
//!
//! The scheduler was tried on these cases while it was changed. The bounds are the results there, not the goals: those
//! are in `Summary`. The results on held-out cases, and the goals that are missed, are in `docs/level.md`.

use lab::judge::{Case, Reference, Summary, Told, Verdict, judge_against};
use lab::scheduler::Scheduler;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const REFERENCES: &str = include_str!("judge/references.json");

/// Cases outside the bounds. 1 and 11 have consumer drives that move data out of their cache: the reads of a single
/// tenant that mostly reads, and those of a guest, are priced while the SSD has such internal work. In 12 fair shares
/// have 0.53 of the device time without a scheduler. In 6 a reader with four IOs has half of its share of a drive that does not suspend
/// programs, since that has a reserve. In 14 another reader with four IOs has half of its share, of a drive that collects in rounds.
const OUTSIDE: [u64; 5] = [1, 6, 11, 12, 14];

fn references() -> BTreeMap<u64, Reference> {
    serde_json::from_str(REFERENCES).expect("references as serde writes them")
}

/// The command that runs a case out of bounds again, with its verdict.
fn replay(verdict: &Verdict) -> String {
    format!("gimbal lab judge --scheduler {} --case {}  # {verdict:?}", verdict.scheduler, verdict.case)
}

fn is_at_most(number: Option<f64>, bound: f64) -> bool {
    number.is_none_or(|number| number <= bound)
}

#[test]
fn level_is_nearly_fair_on_drives_that_nobody_calibrated() {
    let (references, next) = (references(), AtomicUsize::new(0));
    let cases: Vec<(&u64, &Reference)> = references.iter().collect();
    let judge = |(seed, reference): &(&u64, &Reference)| {
        judge_against(Scheduler::LEVEL, Told::Nothing, &Case::of(**seed), reference)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let verdicts: Vec<Verdict> = thread::scope(|scope| {
        let one =
            || std::iter::from_fn(|| cases.get(next.fetch_add(1, Ordering::Relaxed)).map(judge)).collect();
        let threads: Vec<thread::ScopedJoinHandle<'_, Vec<Verdict>>> =
            (0..2).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no rule is broken")).collect()
    });
    let is_bad = |verdict: &&Verdict| {
        !is_at_most(verdict.gap, 0.25)
            || !is_at_most(verdict.weights, 0.16)
            || !is_at_most(verdict.delta_ms, 50.0)
            || !is_at_most(verdict.p99_over_best, 2.7)
            || verdict.guest_over_groups.is_some_and(|share| share < 0.8)
            || verdict.time_over_none.is_some_and(|time| time < 0.55)
    };
    let is_known = |verdict: &&Verdict| OUTSIDE.contains(&verdict.case);
    let bad: Vec<String> =
        verdicts.iter().filter(is_bad).filter(|verdict| !is_known(verdict)).map(replay).collect();
    assert!(bad.is_empty(), "out of bounds; run again:\n{}", bad.join("\n"));
    let summary = Summary::of(&verdicts);
    let median = |id: &str| summary.row(id).expect("the cases have it").median;
    let replays: Vec<String> = verdicts.iter().map(replay).collect();
    for (id, bound) in [("gap", 0.1), ("p99", 1.5), ("comes back", 10.0)] {
        let found = median(id);
        assert!(found <= bound, "median of {id}: {found:.3}; run again:\n{}", replays.join("\n"));
    }
    let bytes = median("bytes");
    assert!(bytes >= 0.85, "median of bytes over none: {bytes:.3}; run again:\n{}", replays.join("\n"));
}

/// Checks that today's SSD model gives the references.
#[test]
#[ignore = "long: runs every group of every case alone"]
fn the_references_are_those_of_this_ssd_model() {
    for (seed, stored) in references() {
        let made = Reference::of(&Case::of(seed)).unwrap_or_else(|error| panic!("{error}"));
        let [made, stored] =
            [made, stored].map(|reference| serde_json::to_value(reference).expect("plain numbers"));
        assert_eq!(made, stored, "case {seed}: judge/references.json is of another SSD model");
    }
}
