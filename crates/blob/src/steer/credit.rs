//! The paper's rule: the copy whose SSD has more credit.
//!
//! At equal credit, the one with fewer IOs outstanding; at equal counts, by turns.
//!
//! Holds: `more_credit_wins`. Paper: Gimbal §4.3. How ties are decided is ours.

use super::{Load, Steering};
use crate::SsdId;
use std::cmp::Ordering;
use units::{Instant, Nanos};

/// A switch that says nothing is taken to give this much: the credit that the switch starts with.
const UNKNOWN: u32 = 32;

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
        let order = credit(one).cmp(&credit(other)).then(other.in_flight.cmp(&one.in_flight));
        match order {
            Ordering::Greater => 0,
            Ordering::Less => 1,
            Ordering::Equal => {
                self.turn ^= 1;
                self.turn
            }
        }
    }

    fn rank(&self, _: Instant, _: SsdId, load: Load) -> i64 {
        i64::from(credit(load)) * 1024 - i64::from(load.in_flight.min(1023))
    }

    fn on_completion(&mut self, _: Instant, _: SsdId, _: bool, _: u64, _: Nanos) {}

    fn on_ssds(&mut self, _: &[(SsdId, String)]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_credit_wins() {
        let mut policy = Credit::default();
        let copy = |credit, in_flight| (SsdId(0), Load { credit: Some(credit), in_flight, writing: 0 });
        assert_eq!(policy.read(Instant::ZERO, [copy(10, 0), copy(11, 9)]), 1);
        assert_eq!(policy.read(Instant::ZERO, [copy(10, 3), copy(10, 4)]), 0);
        let turns: usize = (0..10).map(|_| policy.read(Instant::ZERO, [copy(10, 3), copy(10, 3)])).sum();
        assert_eq!(turns, 5);
        assert!(
            policy.rank(Instant::ZERO, SsdId(0), copy(2, 9).1)
                > policy.rank(Instant::ZERO, SsdId(0), copy(1, 0).1)
        );
    }
}
