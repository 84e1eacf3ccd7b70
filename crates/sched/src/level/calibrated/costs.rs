//! Device time of an IO: the price that makes equal service equal f-Util.
//!
//! An SSD that does nothing else completes a certain number of IOs of one kind and size per second; the inverse is the
//! device time of one such IO. If each IO is charged that time, tenants with equal charges have equal parts of the
//! rates that the SSD would give each of them alone; f-Util measures just that. Bytes are no substitute: a 4 KiB read
//! takes as long as an 8 KiB one, and on a fragmented SSD a large read takes as long as the small ones it falls apart
//! into.
//!
//! ```text
//!   cost                ╱ fragmented
//!    ▲               ╱   ╱ half fragmented         a cost is counted in bytes of large reads on a clean SSD
//!    │            ╱  ╱  ╱                       (4 KiB written on a fragmented DCT983: 75 KiB)
//!    │         ╱ ╱   ╱ clean
//!    │▁▁▁▁▁╱ ╱   ╱
//!    └┬────┬────┬────┬──► size: 4, 8, 16 … 256 KiB; straight between two, in proportion beyond, no less than 4 KiB's
//! ```
//!
//! Both ends are measured once per device, clean and fragmented; the position between them is `fragmentation`.
//!
//! Holds: an IO never costs less because it is larger or the SSD more fragmented (`costs_rise_with_size_and_fragmentation`); at the
//!        measured sizes and ends the cost is the measured one (`the_measured_points_are_met`).

use super::fragmentation::Fragmentation;
use crate::IoKind;
use units::{ByteRate, Bytes};

/// Costs of IOs of 4, 8, 16, 32, 64, 128 and 256 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostCurve(pub [Bytes; CostCurve::SIZES]);

/// The costs of an SSD in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCosts {
    /// Of reads.
    pub reads: CostCurve,
    /// Of writes.
    pub writes: CostCurve,
}

/// The costs of an SSD in both its extreme states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCosts {
    /// The value of a second of the SSD: its bandwidth of large reads, clean.
    pub rate: ByteRate,
    /// Written once, in order.
    pub clean: StateCosts,
    /// In the steady state of random overwrites.
    pub fragmented: StateCosts,
}

impl CostCurve {
    /// The number of measured sizes.
    pub const SIZES: usize = 7;
    /// The least measured size.
    pub const SIZE_MIN: Bytes = Bytes::kib(4);

    /// The measured sizes, in order.
    pub fn sizes() -> [Bytes; CostCurve::SIZES] {
        core::array::from_fn(|n| Bytes(CostCurve::SIZE_MIN.0 << n))
    }

    const fn of_bytes(costs: [u64; CostCurve::SIZES]) -> CostCurve {
        let mut curve = CostCurve([Bytes::ZERO; CostCurve::SIZES]);
        let mut n = 0;
        while n < CostCurve::SIZES {
            curve.0[n] = Bytes(costs[n]);
            n += 1;
        }
        curve
    }

    #[inline]
    fn of(&self, length: Bytes) -> Bytes {
        let CostCurve(costs) = self;
        if length <= CostCurve::SIZE_MIN {
            return costs[0];
        }
        let below = (length.0 / CostCurve::SIZE_MIN.0).ilog2() as usize;
        let shift = CostCurve::SIZE_MIN.0.ilog2() as usize + below;
        match (costs.get(below), costs.get(below + 1)) {
            (Some(&low), Some(&high)) => {
                // Both products of numbers below 2³⁵ (`DeviceCosts::check`).
                low + Bytes(((high - low).0 * (length.0 - (1 << shift))) >> shift)
            }
            _ => {
                let largest = CostCurve::SIZE_MIN.0 << (CostCurve::SIZES - 1);
                let cost =
                    u128::from(costs[CostCurve::SIZES - 1].0) * u128::from(length.0) / u128::from(largest);
                Bytes(cost as u64)
            }
        }
    }

    fn is_sound(&self) -> bool {
        let sizes = CostCurve::sizes();
        self.0[0] > Bytes::ZERO
            && self.0.is_sorted()
            && self.0.iter().zip(sizes).all(|(cost, size)| cost.0 <= size.0 * u64::from(u16::MAX))
    }

    fn is_nowhere_above(&self, other: &CostCurve) -> bool {
        self.0.iter().zip(&other.0).all(|(cost, other)| cost <= other)
    }
}

impl StateCosts {
    #[inline]
    pub(super) fn of(&self, kind: IoKind, length: Bytes) -> Bytes {
        if kind.pays_as_write() { self.writes.of(length) } else { self.reads.of(length) }
    }
}

impl DeviceCosts {
    /// Samsung DCT983, for tests and examples: within 1 % of what `gimbal lab calibrate` measures on the model of set A
    /// (`calibrations/dct983.toml`).
    pub const DCT983: DeviceCosts = DeviceCosts {
        rate: ByteRate(3_256_000_000),
        clean: StateCosts {
            reads: CostCurve::of_bytes([7961, 8373, 16_554, 32_913, 65_632, 131_072, 261_933]),
            writes: CostCurve::of_bytes([10_155, 20_318, 40_644, 81_305, 162_599, 325_231, 650_592]),
        },
        fragmented: StateCosts {
            reads: CostCurve::of_bytes([7961, 17_369, 34_740, 69_481, 138_954, 277_873, 555_841]),
            writes: CostCurve::of_bytes([76_551, 152_757, 305_342, 610_800, 1_229_443, 2_442_285, 4_895_588]),
        },
    };

    /// The cost of an IO on an SSD in this state.
    #[inline]
    pub(super) fn of(&self, fragmentation: Fragmentation, kind: IoKind, length: Bytes) -> Bytes {
        match fragmentation {
            Fragmentation::NONE => self.clean.of(kind, length),
            Fragmentation::FULL => self.fragmented.of(kind, length),
            between => between.blend(self.clean.of(kind, length), self.fragmented.of(kind, length)),
        }
    }

    /// A fault of these costs, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        let curves = [&self.clean.reads, &self.clean.writes, &self.fragmented.reads, &self.fragmented.writes];
        let grows = self.clean.reads.is_nowhere_above(&self.fragmented.reads)
            && self.clean.writes.is_nowhere_above(&self.fragmented.writes);
        let rules = [
            (self.rate > ByteRate(0), "the rate of large reads must be above zero"),
            (
                curves.into_iter().all(CostCurve::is_sound),
                "costs must be above zero, at most 65535 times the size, and must not fall as sizes rise",
            ),
            (grows, "no IO may cost less on a fragmented SSD than on a clean one"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const KINDS: [IoKind; 3] = [IoKind::Read, IoKind::Write, IoKind::Management];

    #[test]
    fn the_measured_points_are_met() {
        for (n, size) in CostCurve::sizes().into_iter().enumerate() {
            let costs = DeviceCosts::DCT983;
            assert_eq!(costs.of(Fragmentation::NONE, IoKind::Read, size), costs.clean.reads.0[n]);
            assert_eq!(costs.of(Fragmentation::FULL, IoKind::Write, size), costs.fragmented.writes.0[n]);
        }
    }

    #[test]
    fn beyond_the_measured_sizes_costs_are_in_proportion() {
        let largest = DeviceCosts::DCT983.clean.reads.0[CostCurve::SIZES - 1];
        let of = |length| DeviceCosts::DCT983.of(Fragmentation::NONE, IoKind::Read, length);
        assert_eq!(of(Bytes::mib(1)), Bytes(largest.0 * 4));
        assert_eq!(of(Bytes(1)), of(Bytes::kib(4)), "a short IO takes what the shortest measured one does");
    }

    #[test]
    fn costs_that_cannot_be_are_refused() {
        let mut falling = DeviceCosts::DCT983;
        falling.clean.reads.0[3] = Bytes(1);
        assert!(falling.check().is_err());
        let swapped = DeviceCosts {
            clean: DeviceCosts::DCT983.fragmented,
            fragmented: DeviceCosts::DCT983.clean,
            ..DeviceCosts::DCT983
        };
        assert!(swapped.check().is_err());
        assert_eq!(DeviceCosts::DCT983.check(), Ok(()));
    }

    proptest! {
        #![proptest_config(crate::random_cases(500))]

        #[test]
        fn costs_rise_with_size_and_fragmentation(
            kind in prop::sample::select(KINDS.to_vec()),
            length in 1..1u64 << 40,
            more in 0..1u64 << 20,
            one in 0..=1000u32,
            other in 0..=1000u32,
        ) {
            let (less, most) = (Fragmentation::ratio(one.min(other), 1000), Fragmentation::ratio(one.max(other), 1000));
            let of = |state, length| DeviceCosts::DCT983.of(state, kind, Bytes(length));
            prop_assert!(of(less, length) > Bytes::ZERO);
            prop_assert!(of(less, length) <= of(less, length + more));
            prop_assert!(of(less, length) <= of(most, length));
        }
    }
}
