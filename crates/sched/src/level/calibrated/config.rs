//! Every constant of LevelCalibrated, with its reason. The device time of IOs comes from a calibration ([`DeviceCosts`]).

use super::costs::DeviceCosts;
use crate::DeviceConstants;
use crate::device::first_wrong;
use crate::drr::RoundConfig;
use crate::level::in_flight::InFlightLimits;
use crate::level::service_lag::ServiceLag;
use units::Bytes;

/// LevelCalibrated's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalibratedConfig {
    /// Constants of the SSD.
    pub device: DeviceConstants,
    /// Device time of IOs.
    pub costs: DeviceCosts,
    /// Limits on device time in flight.
    pub in_flight: InFlightLimits,
    /// Service that a tenant may have had in excess of the least-served tenant and still stay in the round: 1 MiB of
    /// large reads is loose enough that the round decides the order, and tight enough to even out within milliseconds.
    pub lag_max: Bytes,
    /// Service by which a tenant may be behind the least-served one when it comes back from having nothing to do. A
    /// client held to one IO by its credit is away after each IO, and the tenant furthest behind would lose the most by
    /// it: on the model of a clean SSD, readers of 128 KiB had 4 % less than the writers they shared it with, and a
    /// seventh less than readers of 4 KiB. A quantum corrects that.
    pub lag_catch_up: Bytes,
    /// The round.
    pub round: RoundConfig,
}

impl CalibratedConfig {
    /// The largest bound on the service lag.
    pub const LAG_MAX_MAX: Bytes = ServiceLag::MAX_MAX;

    /// The standard values for this device.
    pub const fn new(device: DeviceConstants, costs: DeviceCosts) -> CalibratedConfig {
        CalibratedConfig {
            device,
            costs,
            in_flight: InFlightLimits::of(costs.rate, device.thresh_min),
            lag_max: Bytes::mib(1),
            lag_catch_up: Bytes::kib(128),
            round: RoundConfig::STANDARD,
        }
    }

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        self.device.check()?;
        self.costs.check()?;
        self.in_flight.check()?;
        self.round.check()?;
        first_wrong(&[
            (self.lag_max <= CalibratedConfig::LAG_MAX_MAX, "lag_max must be at most 1 TiB"),
            (self.lag_catch_up <= CalibratedConfig::LAG_MAX_MAX, "lag_catch_up must be at most 1 TiB"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ByteRate;

    const LEVEL: CalibratedConfig = CalibratedConfig::new(DeviceConstants::DCT983, DeviceCosts::DCT983);

    #[test]
    fn every_bound_is_the_last_number_that_is_accepted() {
        let most = Bytes::gib(1 << 10);
        assert_eq!(CalibratedConfig { lag_max: most, lag_catch_up: most, ..LEVEL }.check(), Ok(()));
        let beyond = most + Bytes(1);
        for (config, word) in [
            (CalibratedConfig { lag_max: beyond, ..LEVEL }, "lag_max"),
            (CalibratedConfig { lag_catch_up: beyond, ..LEVEL }, "lag_catch_up"),
        ] {
            assert!(config.check().is_err_and(|said| said.contains(word)), "{config:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_limits_costs_device_and_round_is_found_too() {
        let none = InFlightLimits { uniform: Bytes::ZERO, ..LEVEL.in_flight };
        let worthless = DeviceCosts { rate: ByteRate(0), ..DeviceCosts::DCT983 };
        let device = DeviceConstants { slots: 0, ..DeviceConstants::DCT983 };
        let round = RoundConfig { quantum: Bytes::ZERO, ..RoundConfig::STANDARD };
        for config in [
            CalibratedConfig { in_flight: none, ..LEVEL },
            CalibratedConfig { costs: worthless, ..LEVEL },
            CalibratedConfig { device, ..LEVEL },
            CalibratedConfig { round, ..LEVEL },
        ] {
            assert!(config.check().is_err(), "{config:?}");
        }
    }
}
