//! By latency: the copy whose SSD is slowed down less.
//!
//! An SSD's *expected* latency is the least that was seen lately; its *observed* latency is a moving average. Their ratio
//! says how busy it is, whatever its kind. IOs of our own that are outstanding count as well, since their latency is not
//! known yet. An observation fades when it is not renewed, so an SSD that was slow once is tried again.
//!
//! Holds: `the_less_slowed_down_ssd_is_read`, `a_slow_ssd_is_tried_again`.
//! Like Sandook's (NSDI '26) steering by the load of an SSD; the ratio and its fading are ours.

use super::{Load, Steering};
use crate::SsdId;
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// Weight 1/8 of a new latency.
const SHIFT: u32 = 3;
/// The expected latency may rise by 1/64 of itself per this long, so that it follows an SSD that ages.
const RISE: Nanos = Nanos::millis(100);
/// An observation is half forgotten after this long without a new one.
const FADE: Nanos = Nanos::millis(20);
/// A ratio of 1.
const ONE: u64 = 1024;

#[derive(Clone, Copy, Debug)]
struct Seen {
    observed: u64,
    expected: u64,
    at: Instant,
    raised: Instant,
}

/// Chooses by observed over expected latency.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    reads: BTreeMap<SsdId, Seen>,
    turn: usize,
}

impl Latency {
    /// How much slower than expected, in 1/1024.
    fn slowdown(&self, now: Instant, ssd: SsdId) -> u64 {
        let Some(seen) = self.reads.get(&ssd) else { return ONE };
        let ratio = seen.observed.saturating_mul(ONE) / seen.expected.max(1);
        let halvings = now.saturating_since(seen.at).0 / FADE.0;
        ONE + (ratio.saturating_sub(ONE) >> halvings.min(63))
    }

    fn score(&self, now: Instant, ssd: SsdId, load: Load) -> u64 {
        // Each IO of our own that is outstanding adds an eighth of an unloaded read.
        self.slowdown(now, ssd) + u64::from(load.in_flight) * (ONE / 8)
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

    fn rank(&self, now: Instant, ssd: SsdId, load: Load) -> i64 {
        -(self.score(now, ssd, load).min(1 << 40) as i64)
    }

    fn on_completion(&mut self, now: Instant, ssd: SsdId, is_read: bool, bytes: u64, latency: Nanos) {
        if !is_read {
            return;
        }
        // Longer reads take longer: compare what a read of 4 KiB would have taken.
        let latency = latency.0.saturating_mul(2) / (1 + bytes.div_ceil(4096));
        let seen = self.reads.entry(ssd).or_insert(Seen {
            observed: latency,
            expected: latency.max(1),
            at: now,
            raised: now,
        });
        seen.observed = seen.observed - (seen.observed >> SHIFT) + (latency >> SHIFT);
        if now.saturating_since(seen.raised) >= RISE {
            seen.expected += (seen.expected >> 6).max(1);
            seen.raised = now;
        }
        seen.expected = seen.expected.min(latency.max(1));
        seen.at = now;
    }

    fn on_ssds(&mut self, _: &[(SsdId, String)]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPIES: [(SsdId, Load); 2] =
        [(SsdId(0), Load { credit: None, in_flight: 0 }), (SsdId(1), Load { credit: None, in_flight: 0 })];

    fn slowed() -> (Latency, Instant) {
        let mut policy = Latency::default();
        let mut now = Instant::ZERO;
        for io in 0..200 {
            now += Nanos::micros(100);
            // SSD 0 is the faster kind, but loaded now.
            let first = Nanos::micros(if io < 100 { 80 } else { 400 });
            policy.on_completion(now, SsdId(0), true, 4096, first);
            policy.on_completion(now, SsdId(1), true, 4096, Nanos::micros(300));
        }
        (policy, now)
    }

    #[test]
    fn the_less_slowed_down_ssd_is_read() {
        let (mut policy, now) = slowed();
        assert_eq!(policy.read(now, COPIES), 1);
        let busy = [COPIES[0], (SsdId(1), Load { credit: None, in_flight: 60 })];
        assert_eq!(policy.read(now, busy), 0, "our own IOs count");
    }

    #[test]
    fn a_slow_ssd_is_tried_again() {
        let (mut policy, now) = slowed();
        let later = now + Nanos::secs(1);
        policy.on_completion(later, SsdId(1), true, 4096, Nanos::micros(600));
        assert_eq!(policy.read(later, COPIES), 0);
    }
}
