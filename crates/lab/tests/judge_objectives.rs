//! On drives without a calibration, `level` keeps the latency objectives that it says it keeps.
//!
//! The scheduler was tried on these cases while it was made. The results on others are in `docs/level.md`.

use lab::judge::{ObjectiveSummary, Said, judge_objectives};
use lab::scheduler::Scheduler;

#[test]
#[ignore = "24 random SSDs with up to seven runs of 15 s each: some minutes"]
fn what_level_says_that_it_keeps_is_kept() {
    let seeds: Vec<u64> = (96_001..=96_024).collect();
    let verdicts =
        judge_objectives(Scheduler::LEVEL, &seeds, &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let summary = ObjectiveSummary::of(&verdicts);
    let replays: Vec<String> = verdicts
        .iter()
        .filter(|verdict| verdict.said == Said::Yes && !verdict.kept)
        .map(|verdict| format!("gimbal lab judge --objectives --case {}  # {verdict:?}", verdict.case))
        .collect();
    let [yes, kept] = summary.yes;
    assert!(yes >= 8, "it dares too little: {summary:?}");
    assert!(kept + 1 >= yes, "{summary:?}; run again:\n{}", replays.join("\n"));
    let [no, could] = summary.no;
    assert!(could * 3 <= no, "it refuses too much: {summary:?}");
}

/// First in, first out makes no statement about objectives, so there is none to keep.
#[test]
#[ignore = "three runs of 15 s: most of a minute where nothing is optimised"]
fn a_scheduler_without_objectives_says_nothing() {
    let verdicts =
        judge_objectives(Scheduler::NONE, &[96_002], &|_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].said, Said::Unknown);
}
