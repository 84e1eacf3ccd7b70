//! The price of a written byte, in read bytes: a fixed-point number, so that replays are exact.

use core::fmt;
use units::Bytes;

const FRACTION_BITS: u32 = 16;
const ONE: u32 = 1 << FRACTION_BITS;

/// Cost of one byte relative to a byte read, in steps of 1/65 536. Between 0 and 65 536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u32);

impl Cost {
    /// The cost of a byte read.
    pub const ONE: Cost = Cost(ONE);

    /// `numerator / denominator`, rounded down.
    ///
    /// # Panics
    /// If the denominator is zero or the ratio does not fit.
    pub const fn ratio(numerator: u32, denominator: u32) -> Cost {
        let fixed = ((numerator as u64) << FRACTION_BITS) / denominator as u64;
        assert!(fixed <= u32::MAX as u64, "a cost above 65 536");
        Cost(fixed as u32)
    }

    /// The bare fixed-point number: this cost × [`Cost::SCALE`].
    pub const fn fixed(self) -> u32 {
        self.0
    }

    /// The fixed-point number that means 1.
    pub const SCALE: u32 = ONE;

    /// `bytes` at this price, rounded down.
    pub const fn of(self, bytes: Bytes) -> Bytes {
        Bytes(((bytes.0 as u128 * self.0 as u128) >> FRACTION_BITS) as u64)
    }

    /// Half way to `other`, rounded up so that repeated halving arrives.
    pub(crate) const fn midway(self, other: Cost) -> Cost {
        Cost((self.0 as u64 + other.0 as u64).div_ceil(2) as u32)
    }

    /// `self - other`, or zero.
    pub(crate) const fn saturating_sub(self, other: Cost) -> Cost {
        Cost(self.0.saturating_sub(other.0))
    }

    /// In thousandths, to the nearest: the `n` of [`Cost::ratio`]`(n, 1000)`.
    pub const fn thousandths(self) -> u64 {
        (self.0 as u64 * 1000 + (ONE / 2) as u64) >> FRACTION_BITS
    }

    /// The value as a number for plots; never for decisions.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(ONE)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_applied_without_rounding_where_it_divides() {
        assert_eq!(Cost::ONE.of(Bytes(4096)), Bytes(4096));
        assert_eq!(Cost::ratio(9, 1).of(Bytes::kib(4)), Bytes::kib(36));
        assert_eq!(Cost::ratio(3, 2).of(Bytes::kib(4)), Bytes::kib(6));
    }

    #[test]
    fn thousandths_survive_the_fixed_point() {
        for n in [1, 999, 1000, 1333, 2500, 65_535_999] {
            assert_eq!(Cost::ratio(n, 1000).thousandths(), u64::from(n));
        }
    }

    #[test]
    fn halving_the_distance_arrives() {
        let worst = Cost::ratio(9, 1);
        let mut cost = Cost::ONE;
        for _ in 0..32 {
            cost = cost.midway(worst);
        }
        assert_eq!(cost, worst);
    }
}
