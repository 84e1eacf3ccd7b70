//! Steers by latency: reads the copy that is expected to complete sooner, relative to the usual latency of its SSD.
//!
//! An SSD's *expected* latency is the least seen lately; its *observed* latency is a moving average. Their ratio, the
//! *slowdown*, shows how busy others keep it, whatever its kind. This client's own outstanding work shows at once how
//! busy this client keeps it, whereas a latency is known only when it is over. So the score of a copy is the slowdown ×
//! the client's own *work* there. A written byte counts more than a byte read: a read queues behind the same tenant's
//! writes, in the client's window, in the scheduler and in the dies.
//!
//! If the SSD's switch reports a larger slowness, that counts instead: the client may have read little or nothing there
//! lately. New data goes where the work times the slowness of writes is least.
//!
//! Clients do not form a herd: the work differs from client to client and changes with every read. An observation fades
//! when it is not renewed, so an SSD that was slow once is tried again. New data goes where the client has the least
//! work; SSDs that are equal take turns (`pool`).
//!
//! Holds: `what_is_said_to_be_slow_is_avoided`, `the_less_slowed_down_ssd_is_read`, `own_work_counts_at_once`, `a_slow_ssd_is_tried_again`.
//! Like Sandook's (NSDI '26) steering by the load of an SSD; the ratio, its fading and the work are ours.

use super::{Data, Load, Steering};
use crate::SsdId;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// Weight of a new latency: 1/8.
const SHIFT: u32 = 3;
/// Time in which the expected latency may rise by 1/64 of itself, so that it follows an SSD that ages.
const RISE: Nanos = Nanos::millis(100);
/// Half-life of an observation that is not renewed.
const FADE: Nanos = Nanos::millis(20);
/// A ratio of 1.
const ONE: u64 = 1024;
/// Largest slowdown that counts; larger ones make no difference.
const SLOWDOWN_MAX: u64 = 64 * ONE;
/// Reads with more bytes than this are not observed: their latency depends more on their length than on the SSD.
const SMALL: u64 = 16 << 10;
/// Number of outstanding reads that double the score.
const READS: u64 = 4;
/// Bytes of outstanding writes that count as one read.
const WRITTEN: u64 = 16 << 10;

#[derive(Clone, Copy, Debug)]
struct Seen {
    observed: u64,
    expected: u64,
    at: Instant,
    raised: Instant,
}

/// Chooses by the ratio of observed to expected latency, and by own work.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    reads: BTreeMap<SsdId, Seen>,
    turn: usize,
}

/// The client's outstanding work, in units of a read.
pub(super) fn work(load: Load) -> u64 {
    u64::from(load.in_flight) + load.writing / WRITTEN
}

/// The client's outstanding work in quarters of a read, weighted by the slowness of writes.
pub(super) fn slowed(load: Load) -> i64 {
    let quarters = i64::from(load.writes.in_quarters());
    // With nothing outstanding, a slow SSD still ranks below others.
    work(load) as i64 * quarters + (quarters - 4)
}

impl Latency {
    /// The factor by which reads are slower than expected, in 1/1024.
    fn slowdown(&self, now: Instant, ssd: SsdId) -> u64 {
        let Some(seen) = self.reads.get(&ssd) else { return ONE };
        let ratio = seen.observed.saturating_mul(ONE) / seen.expected.max(1);
        let halvings = now.saturating_since(seen.at).0 / FADE.0;
        ONE + ((ratio.clamp(ONE, SLOWDOWN_MAX) - ONE) >> halvings.min(63))
    }

    pub(super) fn score(&self, now: Instant, ssd: SsdId, load: Load) -> u64 {
        let told = u64::from(load.reads.max(load.writes).in_quarters()) * ONE / 4;
        self.slowdown(now, ssd).max(told) * (READS + work(load))
    }
}

impl Steering for Latency {
    fn read(&mut self, now: Instant, copies: [(SsdId, Load); 2]) -> usize {
        let [one, other] = copies.map(|(ssd, load)| self.score(now, ssd, load));
        if one == other {
            self.turn ^= 1;
            return self.turn;
        }
        usize::from(other < one)
    }

    fn rank(&self, _: Instant, _: SsdId, load: Load, _: Data) -> i64 {
        -slowed(load)
    }

    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos) {
        if !is_read || bytes > SMALL {
            return;
        }
        let latency = latency.0.max(1);
        let seen = self.reads.entry(ssd).or_insert(Seen {
            observed: latency,
            expected: latency,
            at: now,
            raised: now,
        });
        seen.observed = seen.observed - (seen.observed >> SHIFT) + (latency >> SHIFT);
        if now.saturating_since(seen.raised) >= RISE {
            seen.expected += (seen.expected >> 6).max(1);
            seen.raised = now;
        }
        seen.expected = seen.expected.min(latency);
        seen.at = now;
    }

    fn on_ssds(&mut self, _: &[(SsdId, String)]) {}
}

#[cfg(test)]
mod tests {
    use super::super::Slow;
    use super::*;
    use units::Slowdown;

    const IDLE: Load =
        Load { credit: None, in_flight: 0, writing: 0, reads: Slowdown::NONE, writes: Slowdown::NONE };
    const COPIES: [(SsdId, Load); 2] = [(SsdId(0), IDLE), (SsdId(1), IDLE)];

    fn slowed() -> (Latency, Instant) {
        let mut policy = Latency::default();
        let mut now = Instant::ZERO;
        for io in 0..200 {
            now += Nanos::micros(100);
            // SSD 0 is the faster kind, but under load now.
            let first = Nanos::micros(if io < 100 { 80 } else { 250 });
            policy.on_completion(now, SsdId(0), true, 4096, first);
            policy.on_completion(now, SsdId(1), true, 4096, Nanos::micros(300));
        }
        (policy, now)
    }

    #[test]
    fn the_less_slowed_down_ssd_is_read() {
        let (mut policy, now) = slowed();
        assert_eq!(policy.read(now, COPIES), 1, "though the other one is as fast even now");
    }

    #[test]
    fn own_work_counts_at_once() {
        let (mut policy, now) = slowed();
        let with = |in_flight, writing| [COPIES[0], (SsdId(1), Load { in_flight, writing, ..IDLE })];
        assert_eq!(policy.read(now, with(60, 0)), 0, "reads");
        assert_eq!(policy.read(now, with(2, 256 << 10)), 0, "a few large writes");
        assert_eq!(policy.read(now, with(2, 8 << 10)), 1, "a few small writes");
        let rank = |load| policy.rank(now, SsdId(0), load, Data::Bulk);
        assert!(
            rank(Load { in_flight: 4, ..IDLE }) > rank(Load { in_flight: 1, writing: 128 << 10, ..IDLE })
        );
    }

    #[test]
    fn a_slow_ssd_is_tried_again() {
        let (mut policy, now) = slowed();
        let later = now + Nanos::secs(1);
        policy.on_completion(later, SsdId(1), true, 4096, Nanos::micros(600));
        assert_eq!(policy.read(later, COPIES), 0);
    }

    #[test]
    fn what_is_said_to_be_slow_is_avoided() {
        let mut policy = Latency::default();
        let now = Instant::ZERO;
        let slow = Load { reads: Slowdown::quarters(12), writes: Slowdown::quarters(12), ..IDLE };
        let with = |in_flight| [(SsdId(0), slow), (SsdId(1), Load { in_flight, ..IDLE })];
        assert_eq!(policy.read(now, with(0)), 1, "nothing was read yet");
        assert_eq!(policy.read(now, with(7)), 1);
        assert_eq!(policy.read(now, with(9)), 0, "too much to do elsewhere");
        let rank = |load| policy.rank(now, SsdId(0), load, Data::Bulk);
        assert!(rank(slow) < rank(IDLE));
        assert!(rank(Load { in_flight: 2, ..slow }) < rank(Load { in_flight: 5, ..IDLE }));
        assert!(rank(Load { in_flight: 2, ..slow }) > rank(Load { in_flight: 9, ..IDLE }));
    }

    #[test]
    fn what_was_said_is_forgotten() {
        let (now, writes) = (Instant(1_000), Slowdown::NONE);
        let slow = Slow { reads: Slowdown::quarters(9), writes, until: now + Nanos(5) };
        assert!(IDLE.told(now, Some(slow)).reads.is_slow());
        assert_eq!(IDLE.told(now + Nanos(5), Some(slow)), IDLE);
    }
}
