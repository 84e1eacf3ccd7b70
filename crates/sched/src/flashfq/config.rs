//! Facts about an SSD that FlashFQ needs: the cost of an IO, and how far tenants may be apart.
//!
//! A cost is *device time*: for how long an IO occupies an SSD that is busy with nothing but its like, which is the inverse of
//! the IOs per second at saturation. So the costs of all that a saturated SSD completes in a second add up to a second, and
//! tenants with equal cost have equal parts of the SSD. The model is static: it cannot know in what condition the flash is.
//!
//! Paper: FlashFQ (Shen, Park, USENIX ATC 2013); the linear model of cost is the paper's, to be calibrated on the device.

use crate::IoKind;
use units::{Bytes, Nanos};

/// The cost of one IO, linear in its size: `base + per_kib × size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearCost {
    /// K0: device time of an IO of any size.
    pub base: Nanos,
    /// K1: device time per KiB.
    pub per_kib: Nanos,
}

impl LinearCost {
    /// Device time of an IO of `length`, rounded up.
    pub fn of(&self, length: Bytes) -> Nanos {
        let by_size = (u128::from(self.per_kib.0) * u128::from(length.0)).div_ceil(u128::from(units::KIB));
        Nanos(self.base.0.saturating_add(u64::try_from(by_size).unwrap_or(u64::MAX)))
    }
}

/// FlashFQ's constants. All of them depend on the device; there is no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashfqConfig {
    /// Cost of reads.
    pub reads: LinearCost,
    /// Cost of everything else.
    pub writes: LinearCost,
    /// D: IOs that may be inside the SSD at a time.
    pub depth: u32,
    /// T: device time by which a tenant may be ahead of the active tenant that has progressed least.
    pub throttle: Nanos,
    /// Time for which a tenant is taken to be active after its last IO has completed.
    pub anticipation: Nanos,
}

impl FlashfqConfig {
    /// Device time of an IO, rounded up.
    pub fn cost(&self, kind: IoKind, length: Bytes) -> Nanos {
        if kind.pays_as_write() { self.writes.of(length) } else { self.reads.of(length) }
    }

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        const HOUR: Nanos = Nanos::secs(3600);
        let is_cost = |cost: &LinearCost| {
            (cost.base > Nanos::ZERO || cost.per_kib > Nanos::ZERO)
                && cost.base < HOUR
                && cost.per_kib < Nanos::secs(1)
        };
        let rules = [
            (is_cost(&self.reads), "a read must cost something, less than an hour and less than 1 s per KiB"),
            (
                is_cost(&self.writes),
                "a write must cost something, less than an hour and less than 1 s per KiB",
            ),
            (self.depth > 0, "at least one IO must be allowed inside the SSD"),
            (self.throttle < HOUR, "the throttling threshold must be below an hour"),
            (self.anticipation < HOUR, "the anticipation must be below an hour"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }
}
