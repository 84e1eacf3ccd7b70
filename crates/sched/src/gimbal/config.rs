//! Every constant of Gimbal as published, with its source: the paper, or the authors' released prototype where the paper gives none.
//!
//! Constants of the device come from a profile file ([`DeviceConstants`]).

use crate::device::first_wrong;
use crate::drr::RoundConfig;
use crate::{Cost, DeviceConstants};
use units::{ByteRate, Bytes, Nanos};

/// A weight of 1/2ⁿ, as moving averages use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halvings(pub u32);

/// Treatment of other IOs while the bucket of the next IO cannot pay for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GimbalOrder {
    /// All wait behind it (the paper's text, §3.3).
    Text,
    /// It waits aside, with its slot and its deficit charged. So a read overtakes a write that waits, and the other way
    /// round (release; the authors measured with this order).
    Release,
}

/// Gimbal's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GimbalConfig {
    /// Constants of the SSD.
    pub device: DeviceConstants,

    /// `target_rate` at start. Release: 1000 MiB/s.
    pub rate_start: ByteRate,
    /// α_D, the weight of a new latency in the average. Paper §3.2: 1/2.
    pub latency_weight: Halvings,
    /// α_T, the rate at which the threshold follows the latency down; `None`: it stays at `thresh_max` (figure 17 of
    /// the paper argues against that). Release: 1/16.
    pub threshold_weight: Option<Halvings>,
    /// β, the growth of an under-utilised SSD's rate in multiples of that in congestion avoidance. Paper §3.2: 8.
    pub underutilised_growth: u64,
    /// Bytes completed per measurement of the completion rate. Release: 16 MiB.
    pub completion_window: Bytes,
    /// A measurement older than an idle spell of this length says nothing about the load that follows. Not published: 10 ms, a
    /// few times the latency of an overloaded SSD.
    pub completion_idle_max: Nanos,

    /// Scope of the wait for the buckets.
    pub order: GimbalOrder,
    /// Depth of each of the two token buckets. Paper §3.3 and Appendix C.1: 256 KiB.
    pub bucket_depth: Bytes,

    /// δ, the fall of the write cost in a good period. Paper §3.4: 0.5.
    pub write_cost_step: Cost,
    /// Interval at which the write cost is reconsidered. Release: 100 ms.
    pub write_cost_period: Nanos,

    /// Weighted size at which a virtual slot closes; the IO that fills it may overshoot. Paper §3.5: 128 KiB.
    pub slot_size: Bytes,
    /// IOs per slot assumed for the credit of a tenant that has not freed a slot yet. Release: 32 (4 KiB each).
    pub slot_ios_initial: u32,
    /// The round.
    pub round: RoundConfig,
}

impl GimbalConfig {
    /// Gimbal as published, in the order of the release; so is its lowest write cost, whatever that of `device`.
    pub const fn published(device: DeviceConstants) -> GimbalConfig {
        GimbalConfig {
            device: DeviceConstants { write_cost_best: Cost::ONE, ..device },
            rate_start: ByteRate::mib_per_sec(1000),
            latency_weight: Halvings(1),
            threshold_weight: Some(Halvings(4)),
            underutilised_growth: 8,
            completion_window: Bytes::mib(16),
            completion_idle_max: Nanos::millis(10),
            order: GimbalOrder::Release,
            bucket_depth: Bytes::kib(256),
            write_cost_step: Cost::ratio(1, 2),
            write_cost_period: Nanos::millis(100),
            slot_size: Bytes::kib(128),
            slot_ios_initial: 32,
            round: RoundConfig::STANDARD,
        }
    }

    /// The same in the order of the paper's text.
    pub const fn as_written(device: DeviceConstants) -> GimbalConfig {
        GimbalConfig { order: GimbalOrder::Text, ..GimbalConfig::published(device) }
    }

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        self.device.check()?;
        self.round.check()?;
        first_wrong(&[
            (
                self.latency_weight.0 <= 16 && self.threshold_weight.is_none_or(|weight| weight.0 <= 16),
                "weights below 1/65536 do nothing",
            ),
            (self.completion_window > Bytes::ZERO, "the completion window must not be empty"),
            (self.bucket_depth > Bytes::ZERO, "the buckets must hold something"),
            (self.bucket_depth <= Bytes::gib(1), "the buckets must hold at most 1 GiB"),
            (self.write_cost_period > Nanos::ZERO, "the write-cost period must not be empty"),
            (self.slot_size > Bytes::ZERO, "a slot must hold something"),
            (self.slot_ios_initial > 0, "a slot holds at least one IO"),
        ])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A change of the constants that is still accepted, one that no longer is, and a word of the message that refuses
    /// it.
    type Bound = (fn(&mut GimbalConfig), fn(&mut GimbalConfig), &'static str);

    #[test]
    fn every_bound_is_the_last_number_that_is_accepted() {
        let bounds: Vec<Bound> = std::vec![
            (
                |c| c.device.thresh_min.0 = c.device.thresh_max.0 - 1,
                |c| c.device.thresh_min = c.device.thresh_max,
                "below thresh_max"
            ),
            (
                |c| c.device.thresh_max = Nanos::secs(3600),
                |c| c.device.thresh_max.0 = 3_600_000_000_001,
                "an hour"
            ),
            (
                |c| c.device.write_cost_best = Cost::ONE,
                |c| c.device.write_cost_best = Cost::ratio(65_535, 65_536),
                "at least 1"
            ),
            (
                |c| c.device.write_cost_best = Cost::ratio(9, 1),
                |c| c.device.write_cost_best = Cost::ratio(19, 2),
                "write_cost_worst"
            ),
            (|c| c.device.slots = 1, |c| c.device.slots = 0, "one slot"),
            (|c| c.device.slots = 1 << 16, |c| c.device.slots = (1 << 16) + 1, "65536"),
            (
                |c| c.device.rate_min = ByteRate(1),
                |c| c.device.rate_min = ByteRate(0),
                "rate_min must be above"
            ),
            (
                |c| c.device.rate_min = c.device.rate_max,
                |c| c.device.rate_min.0 = c.device.rate_max.0 + 1,
                "exceed rate_max"
            ),
            (
                |c| c.device.rate_max = ByteRate(1 << 40),
                |c| c.device.rate_max = ByteRate((1 << 40) + 1),
                "1 TiB/s"
            ),
            (|c| c.latency_weight = Halvings(16), |c| c.latency_weight = Halvings(17), "weights"),
            (
                |c| c.threshold_weight = Some(Halvings(16)),
                |c| c.threshold_weight = Some(Halvings(17)),
                "weights"
            ),
            (|c| c.completion_window = Bytes(1), |c| c.completion_window = Bytes(0), "completion window"),
            (|c| c.bucket_depth = Bytes(1), |c| c.bucket_depth = Bytes(0), "hold something"),
            (|c| c.bucket_depth = Bytes::gib(1), |c| c.bucket_depth = Bytes((1 << 30) + 1), "at most 1 GiB"),
            (|c| c.write_cost_period = Nanos(1), |c| c.write_cost_period = Nanos(0), "period"),
            (|c| c.slot_size = Bytes(1), |c| c.slot_size = Bytes(0), "a slot must"),
            (|c| c.round.quantum = Bytes(1), |c| c.round.quantum = Bytes(0), "quantum"),
            (|c| c.round.class_quotas = [1; 4], |c| c.round.class_quotas[2] = 0, "quota"),
            (|c| c.slot_ios_initial = 1, |c| c.slot_ios_initial = 0, "at least one IO"),
        ];
        for (within, beyond, word) in bounds {
            let mut config = GimbalConfig::published(DeviceConstants::DCT983);
            within(&mut config);
            assert_eq!(config.check(), Ok(()), "{word}");
            let mut config = GimbalConfig::published(DeviceConstants::DCT983);
            beyond(&mut config);
            let said = config.check().expect_err(word);
            assert!(said.contains(word), "{said}: nothing of {word}");
        }
    }

    #[test]
    fn the_lowest_write_cost_is_the_papers_whatever_the_device() {
        let config = GimbalConfig::published(DeviceConstants::DCT983);
        assert_eq!(
            (config.device.write_cost_best, DeviceConstants::DCT983.write_cost_best),
            (Cost::ONE, Cost::ratio(5, 2))
        );
    }
}
