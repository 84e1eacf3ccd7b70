//! SSDs that change while they are used: `level` becomes fair again soon, and the judge finds a scheduler that shares
//! nothing unfair.

use lab::judge::{ChangingCase, Verdict, What, judge_changing};
use lab::scheduler::Scheduler;

/// Cases on SSDs that are quick to simulate: one becomes fragmented, two fill their cache.
const CASES: [u64; 3] = [9, 10, 97_009];

fn judged(scheduler: Scheduler, seeds: &[u64]) -> Vec<Verdict> {
    judge_changing(scheduler, seeds, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn level_is_fair_again_five_seconds_after_the_ssd_has_changed() {
    for verdict in judged(Scheduler::LEVEL, &CASES) {
        let after = [verdict.fair_after_change_s, verdict.fair_after_return_s];
        assert!(
            after.iter().all(|seconds| seconds.is_some_and(|seconds| seconds <= 5.0)),
            "{after:?} s; run again: gimbal lab judge --change {}  # {verdict:?}",
            verdict.case
        );
    }
}

#[test]
fn a_scheduler_that_shares_nothing_is_unfair_before_and_after() {
    let verdicts = judged(Scheduler::NONE, &CASES[..1]);
    let gaps = verdicts[0].phase_gaps.expect("an SSD that changes has phases");
    assert!(gaps.iter().all(|gap| *gap > 0.15), "{verdicts:?}");
    assert_eq!(verdicts[0].fair_after_change_s, Some(8.0), "never");
    assert_eq!(verdicts, judged(Scheduler::NONE, &CASES[..1]), "the same every time");
}

/// Otherwise no share changes, and there is nothing to judge.
#[test]
fn a_change_changes_what_a_group_can_do_alone() {
    let reference = |case: &ChangingCase| case.reference().unwrap_or_else(|error| panic!("{error}"));
    for seed in CASES {
        let case = ChangingCase::of(seed);
        let reference = reference(&case);
        let slows = |group: usize| reference.changed[group] < reference.first[group] / 1.2;
        assert!((0..reference.first.len()).any(slows), "case {seed}: {reference:?}");
    }
    let cases: Vec<ChangingCase> = (0..50).map(ChangingCase::of).collect();
    for case in &cases {
        let reads: Vec<u8> = case.case.groups.iter().map(|group| group.workload.read_percent).collect();
        assert!(reads[0] < 100 && reads[1] != reads[0], "{}", case.to_line());
    }
    for what in [What::Flash, What::Cache] {
        assert!(cases.iter().any(|case| case.what == what), "{what:?} is drawn");
    }
}
