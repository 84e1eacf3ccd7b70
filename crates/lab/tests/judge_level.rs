//! What `level-learned` achieves on SSDs that nobody calibrated, so that it does not get worse unseen.
//!
//! A few small cases are judged against references (`judge/references.json`) that were made once with `Reference::of`: most of a case's
//! time is the runs of its groups alone and under `none` and `gimbal`.
//!
//! The bounds are what is achieved, not the goals: those are in `Summary`, and `docs/level-learned.md` says which are missed.

use lab::judge::{Case, Reference, Summary, Verdict, judge_against};
use lab::scheduler::Scheduler;
use std::collections::BTreeMap;
use std::thread;

const REFERENCES: &str = include_str!("judge/references.json");

fn references() -> BTreeMap<u64, Reference> {
    serde_json::from_str(REFERENCES).expect("references as serde writes them")
}

/// What is said of a case that is out of bounds: how to run it again.
fn replay(verdict: &Verdict) -> String {
    format!("gimbal lab judge --scheduler {} --case {}  # {verdict:?}", verdict.scheduler, verdict.case)
}

fn is_at_most(number: Option<f64>, bound: f64) -> bool {
    number.is_none_or(|number| number <= bound)
}

#[test]
fn level_learned_is_nearly_fair_on_drives_that_nobody_calibrated() {
    let verdicts: Vec<Verdict> = thread::scope(|scope| {
        let judged: Vec<_> = references()
            .into_iter()
            .map(|(seed, reference)| {
                scope.spawn(move || judge_against(Scheduler::LevelLearned, &Case::of(seed), &reference))
            })
            .collect();
        let verdict = |judge: thread::ScopedJoinHandle<'_, _>| judge.join().expect("no rule is broken");
        judged.into_iter().map(|judge| verdict(judge).unwrap_or_else(|error| panic!("{error}"))).collect()
    });
    let is_bad = |verdict: &&Verdict| {
        !is_at_most(verdict.gap, 0.3)
            || !is_at_most(verdict.delta_ms, 50.0)
            || !is_at_most(verdict.p99_over_best, 1.6)
            || verdict.time_over_none.is_some_and(|time| time < 0.6)
    };
    let bad: Vec<String> = verdicts.iter().filter(is_bad).map(replay).collect();
    assert!(bad.is_empty(), "out of bounds; run again:\n{}", bad.join("\n"));
    let summary = Summary::of(&verdicts);
    let gap = summary.row("gap").expect("the cases are mixes of equal weights");
    let replays: Vec<String> = verdicts.iter().map(replay).collect();
    assert!(gap.median <= 0.2, "median gap {:.3}; run again:\n{}", gap.median, replays.join("\n"));
}
