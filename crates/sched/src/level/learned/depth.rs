//! The limit on the device time in flight, found by trying: as little as the SSD needs to be as busy as it can be.
//!
//! What is in the SSD is beyond the reach of any order, and every IO there waits for the others. But an SSD is fast only with many IOs
//! in flight; how many, it does not say. So two limits are held against each other, in turns of a period each, by the device time
//! served under either:
//!
//! ```text
//!   limit    ▔▔▔▔▁▁▁▁▔▔▔▔▁▁▁▁▔▔▔▔▁▁▁▁▔▔▔▔▁▁▁▁  three quarters of it: serves as much?  → that is the limit now, and down again
//!            ▁▁▁▁▔▔▔▔▁▁▁▁▔▔▔▔▁▁▁▁▔▔▔▔▁▁▁▁▔▔▔▔  one and a half times it: serves more? → that is the limit now, and up again
//! ```
//!
//! The first way down is taken in halves, until one serves less: while too much is in flight, a tenant with few small IOs has all of
//! them in the SSD and none in the switch, where its share would be decided.
//!
//! Many small losses would add up. So a lower limit must also serve nearly as much as the best that was seen lately.
//!
//! Holds: the limit stays within its bounds (`the_limit_stays_within_its_bounds`), and finds the knee of an SSD that has one
//!        (`the_knee_is_found_from_above_and_from_below`).

use units::Bytes;

/// Before anything is known: more than most SSDs need, as bandwidth is promised first.
const INITIAL: Bytes = Bytes(4_000_000);
const LEAST: Bytes = Bytes(50_000);
const MOST: Bytes = Bytes(64_000_000);
/// Periods of either limit in one comparison.
const TURNS: u32 = 4;
/// On the first way down.
const COARSE_TURNS: u32 = 2;
/// Periods without a comparison after one that found nothing better in either direction.
const REST: u32 = 24;
/// A lower limit may serve so much less: one in so many.
const LOSS: u64 = 80;
/// In all, against the best seen lately.
const LOSS_IN_ALL: u64 = 40;
/// A higher limit must serve so much more.
const GAIN: u64 = 40;
/// The best is forgotten by one in so many per comparison.
const FORGET: u64 = 100;

/// The search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Depth {
    limit: Bytes,
    up: bool,
    /// On the first way down.
    coarse: bool,
    /// Whether the last comparison, in the other direction, found nothing either.
    settled: bool,
    rest: u32,
    turn: u32,
    /// Device time served and time passed under the limit, and under the other one.
    served: [u64; 2],
    span: [u64; 2],
    best: u64,
}

impl Depth {
    pub(super) fn new() -> Depth {
        Depth {
            limit: INITIAL,
            up: false,
            coarse: true,
            settled: false,
            rest: 0,
            turn: 0,
            served: [0; 2],
            span: [0; 2],
            best: 0,
        }
    }

    /// The limit for the period that begins.
    pub(super) fn limit(&self) -> Bytes {
        if self.rest == 0 && self.turn % 2 == 1 { self.other() } else { self.limit }
    }

    fn other(&self) -> Bytes {
        let other = match (self.up, self.coarse) {
            (true, _) => self.limit.0 * 3 / 2,
            (false, true) => self.limit.0 / 2,
            (false, false) => self.limit.0 * 3 / 4,
        };
        Bytes(other.clamp(LEAST.0, MOST.0))
    }

    /// What was seen under different circumstances is no longer compared.
    pub(super) fn restart(&mut self) {
        (self.turn, self.served, self.span) = (0, [0; 2], [0; 2]);
    }

    /// Prices have changed: device time is counted anew, and what was best says nothing.
    pub(super) fn forget(&mut self) {
        self.restart();
        (self.best, self.rest, self.settled, self.up, self.coarse) = (0, 0, false, false, true);
    }

    /// A period has ended: so much device time was served in so much time.
    pub(super) fn on_period(&mut self, served: u64, span: u64) {
        if self.rest > 0 {
            self.rest -= 1;
            return;
        }
        let which = (self.turn % 2) as usize;
        self.served[which] += served;
        self.span[which] += span;
        self.turn += 1;
        if self.turn == 2 * if self.coarse { COARSE_TURNS } else { TURNS } {
            self.decide();
            self.restart();
        }
    }

    fn decide(&mut self) {
        let [own, other] = [0, 1].map(|which| {
            let part = u128::from(self.served[which]) << 20;
            (part / u128::from(self.span[which].max(1))) as u64
        });
        self.best = (self.best - self.best / FORGET).max(own);
        let better = match self.up {
            true => other >= own + own / GAIN,
            false => other >= own - own / LOSS && other >= self.best - self.best / LOSS_IN_ALL,
        };
        // Too low already, whatever a lower one does.
        let starves = !self.up && own < self.best - self.best / LOSS_IN_ALL;
        if better && !starves && self.other() != self.limit {
            self.limit = self.other();
            self.settled = false;
            return;
        }
        self.up = !self.up;
        self.coarse = false;
        if core::mem::replace(&mut self.settled, !starves) {
            (self.rest, self.settled) = (REST, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Serves in proportion to the limit up to the knee, and no more beyond it.
    fn run(depth: &mut Depth, knee: u64, periods: u32) {
        for _ in 0..periods {
            let served = 1_000_000 * depth.limit().0.min(knee) / knee;
            depth.on_period(served, 1_000_000);
        }
    }

    #[test]
    fn the_knee_is_found_from_above_and_from_below() {
        let mut depth = Depth::new();
        run(&mut depth, 400_000, 400);
        assert!((390_000..=600_000).contains(&depth.limit.0), "{depth:?}");
        run(&mut depth, 3_000_000, 1000);
        assert!((2_900_000..=4_600_000).contains(&depth.limit.0), "{depth:?}");
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_limit_stays_within_its_bounds(
            periods in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..300),
        ) {
            let mut depth = Depth::new();
            for (served, span) in periods {
                depth.on_period(served, span);
                prop_assert!((LEAST..=MOST).contains(&depth.limit()));
            }
        }
    }
}
