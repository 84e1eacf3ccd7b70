//! No balancing: every read goes to the primary copy, as long as that can be reached.
//!
//! The baseline for the others. New data goes where the paper's rule puts it.
//!
//! Holds: `reads_never_leave_the_primary`.

use super::credit::Credit;
use super::{Data, Load, Steering};
use crate::SsdId;
use units::{Instant, Nanos};

/// Reads the first copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primary {
    placement: Credit,
}

impl Steering for Primary {
    fn read(&mut self, _: Instant, _: [(SsdId, Load); 2]) -> usize {
        0
    }

    fn rank(&self, now: Instant, ssd: SsdId, load: Load, data: Data) -> i64 {
        self.placement.rank(now, ssd, load, data)
    }

    fn on_completion(&mut self, _: Instant, _: SsdId, _: bool, _: u64, _: Nanos) {}

    fn on_ssds(&mut self, _: &[(SsdId, String)]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_never_leave_the_primary() {
        let mut policy = Primary::default();
        let copy = |ssd, credit| {
            (SsdId(ssd), Load { credit: Some(credit), in_flight: 64 - credit, ..Load::default() })
        };
        assert_eq!(policy.read(Instant::ZERO, [copy(0, 1), copy(1, 60)]), 0);
        let rank = |credit| policy.rank(Instant::ZERO, SsdId(0), copy(0, credit).1, Data::Bulk);
        assert!(rank(2) > rank(1));
    }
}
