//! The paper's rule: the copy whose SSD has more credit.
//!
//! An SSD that its switch reports as slow is not read if the other is not slow. At equal credit, the SSD with fewer IOs
//! in flight is read; at equal counts, the two take turns.
//!
//! Holds: `more_credit_wins`, `what_is_slow_is_not_read`. Paper: Gimbal §4.3. Slow SSDs and ties are ours.

use super::{Data, Load, Steering};
use crate::SsdId;
use std::cmp::Ordering;
use units::{Instant, Nanos};

/// Credit assumed for a switch that reports none: the credit that the switch starts with.
const UNKNOWN: u32 = 32;

/// Larger than any credit, so that slowness decides first.
const SLOW: i64 = 1 << 50;

/// Chooses by credit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credit {
    turn: usize,
}

pub(super) fn credit(load: Load) -> u32 {
    load.credit.unwrap_or(UNKNOWN)
}

impl Steering for Credit {
    fn read(&mut self, _: Instant, copies: [(SsdId, Load); 2]) -> usize {
        let [one, other] = copies.map(|(_, load)| load);
        let by_slowness = other.is_slow().cmp(&one.is_slow());
        let order =
            by_slowness.then(credit(one).cmp(&credit(other))).then(other.in_flight.cmp(&one.in_flight));
        match order {
            Ordering::Greater => 0,
            Ordering::Less => 1,
            Ordering::Equal => {
                self.turn ^= 1;
                self.turn
            }
        }
    }

    fn rank(&self, _: Instant, _: SsdId, load: Load, _: Data) -> i64 {
        let slow = if load.writes.is_slow() { SLOW } else { 0 };
        i64::from(credit(load)) * 1024 - i64::from(load.in_flight.min(1023)) - slow
    }

    fn on_completion(&mut self, _: Instant, _: SsdId, _: bool, _: u64, _: Nanos) {}

    fn on_ssds(&mut self, _: &[(SsdId, String)]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Slowdown;

    #[test]
    fn more_credit_wins() {
        let mut policy = Credit::default();
        let copy =
            |credit, in_flight| (SsdId(0), Load { credit: Some(credit), in_flight, ..Load::default() });
        assert_eq!(policy.read(Instant::ZERO, [copy(10, 0), copy(11, 9)]), 1);
        assert_eq!(policy.read(Instant::ZERO, [copy(10, 3), copy(10, 4)]), 0);
        let turns: usize = (0..10).map(|_| policy.read(Instant::ZERO, [copy(10, 3), copy(10, 3)])).sum();
        assert_eq!(turns, 5);
        assert!(
            policy.rank(Instant::ZERO, SsdId(0), copy(2, 9).1, Data::Bulk)
                > policy.rank(Instant::ZERO, SsdId(0), copy(1, 0).1, Data::Bulk)
        );
    }

    #[test]
    fn what_is_slow_is_not_read() {
        let mut policy = Credit::default();
        let load = |credit, reads, writes| Load { credit: Some(credit), reads, writes, ..Load::default() };
        let (slow, usual) = (Slowdown::quarters(8), Slowdown::NONE);
        for busy in [load(60, slow, usual), load(60, usual, slow)] {
            assert_eq!(policy.read(Instant::ZERO, [(SsdId(0), busy), (SsdId(1), load(1, usual, usual))]), 1);
        }
        let rank = |load| policy.rank(Instant::ZERO, SsdId(0), load, Data::Bulk);
        assert!(rank(load(60, slow, slow)) < rank(load(1, slow, usual)));
        assert!(rank(load(60, slow, slow)) > rank(load(1, slow, slow)), "if all are slow, credit decides");
    }
}
