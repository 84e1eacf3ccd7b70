//! The judge: the same seed gives the same verdict, and an unfair scheduler is found unfair.

use lab::judge::{Case, JudgeError, LEARN, Summary, Told, judge};
use lab::scheduler::Scheduler;

fn judged(scheduler: Scheduler, seeds: &[u64]) -> Vec<lab::judge::Verdict> {
    judge(scheduler, Told::Nothing, LEARN, seeds, &|_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// A mix with equal weights, so that it has a gap, on an SSD that is quick to simulate.
fn quick_mix() -> u64 {
    let is_quick = |seed: &u64| {
        let case = Case::of(*seed);
        !case.is_alone() && !case.is_weighted() && case.profile.description.contains("class sata,")
    };
    (0..).find(is_quick).expect("such cases are drawn")
}

#[test]
fn a_case_judged_again_gives_the_same_verdict() {
    let seed = quick_mix();
    assert_eq!(judged(Scheduler::NONE, &[seed]), judged(Scheduler::NONE, &[seed]));
}

#[test]
fn a_case_is_drawn_from_its_seed_alone() {
    assert_eq!(Case::of(5).to_line(), Case::of(5).to_line());
    assert_ne!(Case::of(5).to_line(), Case::of(6).to_line());
}

#[test]
fn first_in_first_out_wastes_nothing_and_is_found_unfair() {
    let seeds: Vec<u64> = (0..)
        .filter(|seed| {
            let case = Case::of(*seed);
            let depths: Vec<_> = case.groups.iter().map(|group| group.workload.sizes.only()).collect();
            let is_sata = case.profile.description.contains("class sata,");
            is_sata && !case.is_weighted() && depths.len() == 2 && depths[0] != depths[1]
        })
        .take(3)
        .collect();
    let verdicts = judged(Scheduler::NONE, &seeds);
    let summary = Summary::of(&verdicts);
    let gap = summary.row("gap").expect("mixes have one");
    assert!(gap.worst > 0.3 && !gap.met, "{gap:?}: {verdicts:#?}");
    let bytes = summary.row("bytes over none").expect("mixes have them");
    assert_eq!((bytes.median, bytes.worst), (1.0, 1.0), "compared with itself");
}

#[test]
fn what_needs_a_calibration_cannot_be_judged() {
    let refusal =
        judge(Scheduler::REFLEX, Told::Nothing, LEARN, &[1], &|_| ()).expect_err("there is no calibration");
    assert!(matches!(refusal, JudgeError::NotCalibrated(_)));
    assert!(refusal.to_string().starts_with("reflex needs a calibration"), "{refusal}");
}
