//! Settings of io.cost for an SSD: its cost model, and the quality of service to keep.
//!
//! A cost is *device time*: a base for every IO and as much for every page of 4 KiB. An SSD that does nothing else fits a second of it into a second.
//! The six figures are from the kernel's file `io.cost.model`, which the kernel's tool measures one stream at a time; so a mix may cost more, or
//! less, than its parts: `vrate` is for that.

use crate::IoKind;
use units::{ByteRate, Bytes, Nanos};

/// A page of the model.
const PAGE: u64 = 4096;
/// Parts of a nanosecond in which device time is counted.
pub(super) const FRACTION_BITS: u32 = 16;

/// Maximum rates of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCostRates {
    /// In large pieces, one after the other.
    pub rate: ByteRate,
    /// IOs of 4 KiB at random addresses per second.
    pub random_iops: u64,
}

/// The coefficients of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Coefficients {
    base: u128,
    page: u128,
}

impl IoCostRates {
    fn coefficients(&self) -> Coefficients {
        let second = u128::from(Nanos::secs(1).0) << FRACTION_BITS;
        let page = second.div_ceil(u128::from(self.rate.0.div_ceil(PAGE).max(1)));
        let whole = second.div_ceil(u128::from(self.random_iops.max(1)));
        Coefficients { base: whole.saturating_sub(page), page }
    }
}

/// When the SSD does too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCostQos {
    /// This part of reads, per cent, should take at most `read_latency`; 100 or less, 0 to ignore it.
    pub read_percent: u8,
    /// Latency target of reads.
    pub read_latency: Nanos,
    /// The same for writes.
    pub write_percent: u8,
    /// Latency target of writes.
    pub write_latency: Nanos,
    /// Device time per time, per cent: at least.
    pub vrate_min: u32,
    /// At most.
    pub vrate_max: u32,
}

impl IoCostQos {
    /// Latencies that the kernel has for fast SSDs; the percentile and the bounds that its documentation shows.
    pub const STANDARD: IoCostQos = IoCostQos {
        read_percent: 95,
        read_latency: Nanos::millis(5),
        write_percent: 95,
        write_latency: Nanos::millis(5),
        vrate_min: 50,
        vrate_max: 150,
    };

    /// Interval of judgements: long enough for a number of IOs.
    pub(super) fn period(&self) -> Nanos {
        let (percent, latency) = if self.read_latency >= self.write_latency {
            (self.read_percent, self.read_latency)
        } else {
            (self.write_percent, self.write_latency)
        };
        let times = if percent > 0 { u64::from(100 - percent.min(100)) / 5 } else { 0 };
        Nanos(latency.0.saturating_mul(times.max(2))).clamp(Nanos::millis(1), Nanos::secs(1))
    }
}

/// io.cost's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoCostConfig {
    /// Rates of reads.
    pub reads: IoCostRates,
    /// Rates of writes.
    pub writes: IoCostRates,
    /// When it does too much.
    pub qos: IoCostQos,
    /// Requests of the queue behind io.cost: an NVMe queue takes 1023. Never zero.
    pub nr_requests: u32,
}

impl IoCostConfig {
    /// The standard quality of service, in front of an NVMe queue.
    pub const fn new(reads: IoCostRates, writes: IoCostRates) -> IoCostConfig {
        IoCostConfig { reads, writes, qos: IoCostQos::STANDARD, nr_requests: 1023 }
    }

    /// Device time of an IO, in parts. Only reads and writes cost anything.
    pub(super) fn cost(&self, kind: IoKind, length: Bytes) -> u128 {
        let Coefficients { base, page } = match kind {
            IoKind::Read => self.reads.coefficients(),
            IoKind::Write => self.writes.coefficients(),
            IoKind::Management => return 0,
        };
        base + page * u128::from((length.0 / PAGE).max(1))
    }

    /// Device time of its size alone.
    pub(super) fn size_cost(&self, kind: IoKind, length: Bytes) -> Nanos {
        let page = match kind {
            IoKind::Read => self.reads.coefficients().page,
            IoKind::Write | IoKind::Management => self.writes.coefficients().page,
        };
        let cost = (page * u128::from(length.0 / PAGE)) >> FRACTION_BITS;
        Nanos(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: IoCostConfig = IoCostConfig::new(
        IoCostRates { rate: ByteRate(4_096_000_000), random_iops: 500_000 },
        IoCostRates { rate: ByteRate(1_024_000_000), random_iops: 100_000 },
    );

    #[test]
    fn a_second_of_what_was_measured_costs_a_second() {
        let second = Nanos::secs(1).0;
        let all = |kind, kib, count| ((CONFIG.cost(kind, Bytes::kib(kib)) * count) >> FRACTION_BITS) as u64;
        assert!(all(IoKind::Read, 4, 500_000).abs_diff(second) < 100_000);
        assert!(all(IoKind::Write, 4, 100_000).abs_diff(second) < 100_000);
        // A large IO is nearly its pages alone: 1 µs each, and 1 µs more.
        assert!(all(IoKind::Read, 1024, 1).abs_diff(257_000) < 10);
        assert_eq!(all(IoKind::Management, 1024, 1), 0);
    }

    #[test]
    fn periods_follow_the_laxer_latency() {
        let qos = IoCostQos::STANDARD;
        assert_eq!(qos.period(), Nanos::millis(10));
        assert_eq!(
            IoCostQos { write_latency: Nanos::millis(75), write_percent: 50, ..qos }.period(),
            Nanos::millis(750)
        );
        assert_eq!(IoCostQos { write_latency: Nanos::secs(75), ..qos }.period(), Nanos::secs(1));
    }
}
