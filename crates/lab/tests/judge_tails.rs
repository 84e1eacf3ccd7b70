//! The floor of a light reader's tail: the same bytes of the others, evenly in time.

use lab::judge::{Tail, TailVerdict, judge_tails};
use lab::scheduler::Scheduler;

const SEEDS: [u64; 4] = [1, 2, 3, 4];

fn judged(name: &str) -> Vec<TailVerdict> {
    let scheduler = Scheduler::named(name).expect("it is a scheduler");
    judge_tails(scheduler, &SEEDS, &|_| {}).expect("it needs no calibration")
}

#[test]
fn a_tail_is_judged_by_the_bytes_of_its_own_run() {
    let [level, none] = ["level", "none"].map(judged);
    let cases = |all: &[TailVerdict]| all.iter().map(|verdict| verdict.case).collect::<Vec<_>>();
    assert!(!level.is_empty() && cases(&level) == cases(&none), "{level:#?}");
    for verdict in level.iter().chain(&none) {
        for tail in [verdict.judged, verdict.floor] {
            assert!(tail.in_ssd_p99_us < tail.p99_us && tail.p99_us <= tail.p999_us, "{verdict:#?}");
            assert!(tail.in_ssd_p99_us <= tail.in_ssd_p999_us, "{verdict:#?}");
            // The parts of the reads just around it; the histogram's step is a thousandth.
            let sum = tail.p99_parts.all();
            assert!((0.9..1.1).contains(&(sum / tail.p99_us)), "{verdict:#?}");
            assert!(tail.p999_parts.all() >= sum, "{verdict:#?}");
        }
    }
    for (level, none) in level.iter().zip(&none) {
        assert_eq!(level.best_p99_us, none.best_p99_us, "the references are those of the case");
        // Without a scheduler the others have more bytes where they crowd each other out, and the reader another floor.
        assert_ne!(level.floor.p99_us, none.floor.p99_us, "{level:#?} {none:#?}");
        assert!(none.judged.p99_us >= none.best_p99_us, "{none:#?}");
        let in_switch =
            |tail: Tail| tail.p999_parts.iter().find(|(part, _)| *part == "switch").map(|(_, time)| time);
        assert_eq!(in_switch(none.judged), Some(0.0), "nothing waits in a switch without a scheduler");
        assert_eq!(in_switch(level.floor), Some(0.0), "the floor is such a run");
    }
}
