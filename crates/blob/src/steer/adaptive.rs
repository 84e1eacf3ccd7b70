//! Adaptive: `isolation` where it serves more than `latency`, found by trying both.
//!
//! Isolation helps where reads suffer from writes, and harms where the SSDs that take the writes become the limit. The
//! better one depends on the SSDs, the load and the scheduler, and no measurement of a single client shows it. So all
//! clients try both at the same time, now and then, and each keeps to the one under which more of its work was served:
//!
//! ```text
//!   of each CYCLE by the wall clock
//!     │ isolation      │ latency        │ the one that served more …                                    │
//!       settle counted   settle counted
//! ```
//!
//! All clients must try the same policy at the same time, because the writes of the other clients decide whether a
//! spared SSD serves reads sooner. The wall clock sets the times, so no client has to lead.
//!
//! The measure is the work served: small reads by their number, small writes (the log) by their bytes. In a database
//! whose threads do one operation after the other, both are proportional to its operations. Large IOs, of compactions,
//! do not count. If reads and writes come from different threads, the two ratios have the same weight. Isolation has
//! shorter tails at the same throughput, so it is chosen if it serves [`WORTH`] as much. Older trials still count, with
//! decreasing weight, so a burst in one of them does not decide.
//!
//! A trial costs at most the loss by the worse policy during one [`TRIAL`] of each [`CYCLE`], a 32nd of the time. Until
//! a client has seen a whole trial it steers by load, like `latency`.
//!
//! Holds: `what_serves_more_is_kept_to`, `trials_are_at_the_same_time_for_all`, `reads_and_writes_have_the_same_weight`, `one_odd_trial_does_not_decide`.

use super::{Data, Isolation, Load, Steering};
use crate::SsdId;
use units::{Instant, Nanos};

/// The time for which one policy is tried.
const TRIAL: Nanos = Nanos::millis(250);
/// The first part of a trial, which does not count: IOs that end in it were begun, or placed, under the other policy.
const SETTLES: Nanos = Nanos::millis(100);
/// Period in which each policy is tried once.
const CYCLE: Nanos = Nanos::secs(8);
/// IOs with more bytes than this belong to compactions.
const SMALL: u64 = 32 << 10;
/// With fewer reads, or fewer writes, a trial does not count for them.
const FEW: u64 = 32;
/// Least ratio of the work served by isolation to that by load alone at which isolation is chosen.
const WORTH: [u64; 2] = [49, 50];

/// Work served.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    reads: u64,
    writes: u64,
    written: u64,
}

/// Steers by isolation or by load alone.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    isolation: Isolation,
    /// The number of the current cycle.
    cycle: u64,
    /// Work served in this cycle's trials of isolation and of load, and in earlier trials, which count less.
    current: [Served; 2],
    remembered: [Served; 2],
    isolates: bool,
}

/// The policy on trial at this time, if any: 0 isolation, 1 load. Also whether IOs that complete now count.
fn trial(now: Instant) -> Option<(usize, bool)> {
    let at = now.0 % CYCLE.0;
    let which = usize::try_from(at / TRIAL.0).ok().filter(|which| *which < 2)?;
    Some((which, at % TRIAL.0 >= SETTLES.0))
}

impl Served {
    /// Adds older trials, which lose a quarter of their weight each time.
    fn and(self, older: Served) -> Served {
        let add = |new: u64, old: u64| new + old - old / 4;
        Served {
            reads: add(self.reads, older.reads),
            writes: add(self.writes, older.writes),
            written: add(self.written, older.written),
        }
    }
}

/// Whether isolation has served enough, compared with load alone: by the geometric mean of both ratios, or by one if
/// the other has too few IOs.
fn is_worth([isolation, load]: [Served; 2]) -> bool {
    let reads = (isolation.reads.max(load.reads) >= FEW).then_some([isolation.reads, load.reads]);
    let writes = (isolation.writes.max(load.writes) >= FEW).then_some([isolation.written, load.written]);
    let worth = |[one, other]: [u64; 2]| {
        let [one, other] = [one, other].map(|served| u128::from(served.max(1)));
        [one * u128::from(WORTH[1]), other * u128::from(WORTH[0])]
    };
    let ratios = [reads, writes].into_iter().flatten().map(worth);
    let [one, other] = ratios.fold([1; 2], |[a, b], [c, d]| [a * c, b * d]);
    one >= other
}

impl Adaptive {
    fn isolates(&self, now: Instant) -> bool {
        match trial(now) {
            Some((which, _)) => which == 0,
            None => self.isolates,
        }
    }

    /// Decides at the end of a cycle's trials.
    fn note_time(&mut self, now: Instant) {
        let (cycle, is_trial) = (now.0 / CYCLE.0, trial(now).is_some());
        if cycle == self.cycle && is_trial {
            return;
        }
        if self.current.iter().all(|served| served.reads + served.writes >= FEW) {
            for (which, current) in self.current.iter().enumerate() {
                self.remembered[which] = current.and(self.remembered[which]);
            }
            self.isolates = is_worth(self.remembered);
        }
        (self.cycle, self.current) = (cycle, [Served::default(); 2]);
    }
}

impl Steering for Adaptive {
    fn read(&mut self, now: Instant, copies: [(SsdId, Load); 2]) -> usize {
        if self.isolates(now) {
            self.isolation.read(now, copies)
        } else {
            self.isolation.by_load().read(now, copies)
        }
    }

    fn rank(&self, now: Instant, ssd: SsdId, load: Load, data: Data) -> i64 {
        let by_load = self.isolation.load();
        if self.isolates(now) {
            self.isolation.rank(now, ssd, load, data)
        } else {
            by_load.rank(now, ssd, load, data)
        }
    }

    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos) {
        self.note_time(now);
        if let Some((which, true)) = trial(now)
            && bytes <= SMALL
        {
            let served = &mut self.current[which];
            if is_read {
                served.reads += 1;
            } else {
                (served.writes, served.written) = (served.writes + 1, served.written + bytes);
            }
        }
        self.isolation.on_completion(now, ssd, is_read, bytes, latency);
    }

    fn on_ssds(&mut self, ssds: &[(SsdId, String)]) {
        self.isolation.on_ssds(ssds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSD: SsdId = SsdId(0);

    fn at(cycle: u64, millis: u64) -> Instant {
        Instant(cycle * CYCLE.0 + Nanos::millis(millis).0)
    }

    /// Runs a cycle in which these numbers of reads and writes of 4 KiB complete in each trial: under isolation and
    /// under load. Returns the decision.
    fn run(policy: &mut Adaptive, cycle: u64, reads: [u64; 2], writes: [u64; 2]) -> bool {
        for which in 0..2 {
            let begun = 250 * which as u64;
            // IOs of the first part of a trial do not count.
            (0..1000).for_each(|_| policy.on_completion(at(cycle, begun + 99), SSD, true, 4096, Nanos(1)));
            let end = at(cycle, begun + 249);
            (0..reads[which]).for_each(|_| policy.on_completion(end, SSD, true, 4096, Nanos(1)));
            (0..writes[which]).for_each(|_| policy.on_completion(end, SSD, false, 4096, Nanos(1)));
            (0..50).for_each(|_| policy.on_completion(end, SSD, false, 128 << 10, Nanos(1)));
        }
        policy.on_completion(at(cycle, 500), SSD, true, 4096, Nanos(1));
        policy.isolates(at(cycle, 5000))
    }

    #[test]
    fn what_serves_more_is_kept_to() {
        for (reads, expected) in
            [([1000, 500], true), ([500, 1000], false), ([985, 1000], true), ([970, 1000], false)]
        {
            let mut policy = Adaptive::default();
            assert!(!policy.isolates(at(7, 3000)), "nothing was tried yet");
            assert_eq!(run(&mut policy, 8, reads, [0, 0]), expected, "{reads:?}");
            // An idle client keeps its decision.
            policy.on_completion(at(11, 4000), SSD, true, 4096, Nanos(1));
            assert_eq!(policy.isolates(at(11, 5000)), expected);
        }
    }

    #[test]
    fn trials_are_at_the_same_time_for_all() {
        let mut fond = Adaptive::default();
        run(&mut fond, 3, [1000, 500], [0, 0]);
        let fresh = Adaptive::default();
        for millis in (0..8000).step_by(50) {
            let both = [&fond, &fresh].map(|policy| policy.isolates(at(9, millis)));
            let expected = match millis {
                0..250 => [true; 2],
                250..500 => [false; 2],
                _ => [true, false],
            };
            assert_eq!(both, expected, "{millis} ms");
        }
    }

    #[test]
    fn reads_and_writes_have_the_same_weight() {
        for (reads, writes, expected) in [
            ([1500, 1000], [500, 1000], false),
            ([2200, 1000], [500, 1000], true),
            ([5, 1], [900, 1000], false),
        ] {
            assert_eq!(run(&mut Adaptive::default(), 0, reads, writes), expected, "{reads:?} {writes:?}");
        }
    }

    #[test]
    fn one_odd_trial_does_not_decide() {
        let mut policy = Adaptive::default();
        for cycle in 0..10 {
            assert!(run(&mut policy, cycle, [1000, 800], [0, 0]));
        }
        assert!(run(&mut policy, 10, [700, 1000], [0, 0]), "one");
        let odd = (11..20).position(|cycle| !run(&mut policy, cycle, [700, 1000], [0, 0]));
        assert!(odd.is_some_and(|times| times < 3), "{odd:?}");
    }
}
