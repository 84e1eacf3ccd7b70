//! One fault, and which of the matching IOs it affects.

use crate::config::{FaultConfig, FaultKind, FaultOp, FaultPattern};
use crate::device::{DeviceIo, DeviceOp};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use units::{Bytes, Nanos};

/// A probability of one, in thousandths.
const CERTAIN: u64 = 1000;

/// A fault, and how many IOs it has matched.
pub(super) struct Fault {
    config: FaultConfig,
    random: SplitMix64,
    matched: u64,
    struck: u64,
}

impl Fault {
    pub(super) fn new(config: FaultConfig) -> Fault {
        let random = SplitMix64::seed_from_u64(config.seed);
        Fault { config, random, matched: 0, struck: 0 }
    }

    /// The fault of `io`, submitted at `age`; `None` if it is not affected.
    pub(super) fn strike(&mut self, age: Nanos, io: &DeviceIo) -> Option<FaultKind> {
        if !self.matches(age, io) {
            return None;
        }
        let index = self.matched;
        self.matched += 1;
        let counted = index.checked_sub(self.config.skip)?;
        let is_chosen = match self.config.pattern {
            FaultPattern::Every(n) => counted.is_multiple_of(n),
            FaultPattern::Thousandths(n) => self.draw(CERTAIN) < u64::from(n),
        };
        if !is_chosen || self.config.count.is_some_and(|count| self.struck >= count) {
            return None;
        }
        self.struck += 1;
        Some(self.config.kind)
    }

    /// A number below `end`, from the fault's seed.
    pub(super) fn draw(&mut self, end: u64) -> u64 {
        // The bias of the remainder is negligible for such small ranges.
        self.random.next_u64() % end
    }

    fn matches(&self, age: Nanos, io: &DeviceIo) -> bool {
        let wanted = match self.config.op {
            FaultOp::Any => true,
            FaultOp::Read => matches!(io.op, DeviceOp::Read(_)),
            FaultOp::Write => matches!(io.op, DeviceOp::Write { .. }),
            FaultOp::Flush => matches!(io.op, DeviceOp::Flush),
            FaultOp::Discard => matches!(io.op, DeviceOp::Discard),
            FaultOp::WriteZeroes => matches!(io.op, DeviceOp::WriteZeroes),
        };
        let is_possible = match self.config.kind {
            FaultKind::Torn { .. } => matches!(io.op, DeviceOp::Write { .. }),
            FaultKind::Volatile => matches!(io.op, DeviceOp::Write { durable: false, .. }),
            _ => true,
        };
        let begin = self.config.offset.get();
        let end = self.config.size.map_or(u64::MAX, |Bytes(size)| begin.saturating_add(size));
        let is_inside =
            matches!(io.op, DeviceOp::Flush) || (io.offset < end && begin < io.offset + io.length);
        wanted && is_possible && is_inside && age >= self.config.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FaultError;

    fn strikes(config: FaultConfig, ios: u64) -> Vec<u64> {
        let mut fault = Fault::new(config);
        let io = |offset| DeviceIo { tag: 0, offset, length: 4096, op: DeviceOp::Discard };
        (0..ios).filter(|index| fault.strike(Nanos(*index), &io(index * 4096)).is_some()).collect()
    }

    fn error() -> FaultConfig {
        FaultConfig::new(FaultKind::Error(FaultError::Medium))
    }

    #[test]
    fn every_nth_io_is_affected_after_the_skipped_ones_up_to_the_limit() {
        let every = FaultPattern::Every(3);
        assert_eq!(strikes(FaultConfig { pattern: every, ..error() }, 8), [0, 3, 6]);
        assert_eq!(strikes(FaultConfig { pattern: every, skip: 2, count: Some(2), ..error() }, 99), [2, 5]);
        assert_eq!(strikes(FaultConfig { from: Nanos(6), ..error() }, 8), [6, 7]);
        assert!(strikes(FaultConfig { op: FaultOp::Read, ..error() }, 8).is_empty());
    }

    #[test]
    fn an_io_that_touches_the_range_is_affected() {
        let config =
            FaultConfig { offset: Bytes(8192), size: Some(Bytes(4097)), op: FaultOp::Discard, ..error() };
        assert_eq!(strikes(config, 8), [2, 3]);
    }

    #[test]
    fn chance_follows_the_seed_and_its_probability() {
        let chance = |seed| FaultConfig { pattern: FaultPattern::Thousandths(250), seed, ..error() };
        let first = strikes(chance(7), 10_000);
        assert_eq!(first, strikes(chance(7), 10_000));
        assert_ne!(first, strikes(chance(8), 10_000));
        assert!((2300..2700).contains(&first.len()), "{} of 10,000", first.len());
        assert_eq!(strikes(FaultConfig { pattern: FaultPattern::Thousandths(1000), ..error() }, 9).len(), 9);
    }
}
