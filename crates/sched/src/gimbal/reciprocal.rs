//! Division by a number that seldom changes, without dividing.
//!
//! A 64-bit division takes the processor some forty cycles, a 128-bit one over a hundred; multiplying by the reciprocal, and
//! putting the estimate right, takes a few.
//!
//! Holds: quotient and remainder are exactly those of the division (`the_quotient_is_that_of_the_division`).

/// A divisor with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reciprocal {
    divisor: u64,
    /// (2⁶⁴ − 1) / divisor, rounded down.
    inverse: u64,
}

impl Reciprocal {
    /// # Panics
    /// If the divisor is zero.
    pub(super) const fn of(divisor: u64) -> Reciprocal {
        Reciprocal { divisor, inverse: u64::MAX / divisor }
    }

    pub(super) const fn divisor(&self) -> u64 {
        self.divisor
    }

    /// `n / divisor` and `n % divisor`.
    #[inline]
    pub(super) const fn div_rem(&self, n: u64) -> (u64, u64) {
        // Never too large, and too small by two at most.
        let mut quotient = ((n as u128 * self.inverse as u128) >> u64::BITS) as u64;
        let mut remainder = n - quotient * self.divisor;
        while remainder >= self.divisor {
            quotient += 1;
            remainder -= self.divisor;
        }
        (quotient, remainder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::random_cases(2000))]

        #[test]
        fn the_quotient_is_that_of_the_division(
            divisor in prop_oneof![1..10u64, Just(1 << 16), 1..(1u64 << 33), any::<u64>().prop_map(|n| n.max(1))],
            n in prop_oneof![0..10u64, any::<u64>(), Just(u64::MAX)],
            near in 0..3u64,
        ) {
            let reciprocal = Reciprocal::of(divisor);
            for n in [n, (n / divisor * divisor).saturating_sub(near), (n / divisor * divisor).saturating_add(near)] {
                prop_assert_eq!(reciprocal.div_rem(n), (n / divisor, n % divisor));
            }
        }
    }
}
