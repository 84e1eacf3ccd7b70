//! Bytes per second, and the two exact questions asked of it.

use crate::{Bytes, Nanos};
use core::fmt;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(pub u64);

impl ByteRate {
    /// `n` MiB/s.
    pub const fn mib_per_sec(n: u64) -> ByteRate {
        ByteRate(n << 20)
    }

    /// The bare bytes per second.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The rate at which `bytes` passed in `span`, rounded down; `None` for an empty span.
    pub fn measured(bytes: Bytes, span: Nanos) -> Option<ByteRate> {
        if span == Nanos::ZERO {
            return None;
        }
        Some(ByteRate(clamp(bytes.0 as u128 * NANOS_PER_SEC / span.0 as u128)))
    }

    /// Whole bytes earned in `span`, rounded down.
    pub fn earned_in(self, span: Nanos) -> Bytes {
        Bytes(clamp(self.0 as u128 * span.0 as u128 / NANOS_PER_SEC))
    }

    /// The least span in which at least `bytes` are earned; `None` if the rate is zero and `bytes` is not.
    pub fn time_to_earn(self, bytes: Bytes) -> Option<Nanos> {
        match (bytes.0, self.0) {
            (0, _) => Some(Nanos::ZERO),
            (_, 0) => None,
            (bytes, rate) => Some(Nanos(clamp((bytes as u128 * NANOS_PER_SEC).div_ceil(rate as u128)))),
        }
    }
}

fn clamp(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB/s", self.0 as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_to_earn_is_the_first_moment() {
        for rate in [1, 3, 999, 1_000_000_007, 4 << 30] {
            for bytes in [1, 7, 4096, 131_072, 1 << 30] {
                let (rate, bytes) = (ByteRate(rate), Bytes(bytes));
                let span = rate.time_to_earn(bytes).expect("the rate is not zero");
                assert!(rate.earned_in(span) >= bytes, "{rate:?} has not earned {bytes:?} in {span:?}");
                let before = Nanos(span.0 - 1);
                assert!(rate.earned_in(before) < bytes, "{rate:?} earned {bytes:?} before {span:?}");
            }
        }
    }

    #[test]
    fn a_rate_of_zero_never_earns() {
        assert_eq!(ByteRate(0).time_to_earn(Bytes(1)), None);
        assert_eq!(ByteRate(0).time_to_earn(Bytes::ZERO), Some(Nanos::ZERO));
    }

    #[test]
    fn nothing_is_measured_over_no_time() {
        assert_eq!(ByteRate::measured(Bytes(10), Nanos::ZERO), None);
        assert_eq!(ByteRate::measured(Bytes(10), Nanos::secs(2)), Some(ByteRate(5)));
    }
}
