//! The constants of all schedulers that share the round, side by side: what one of them does without is `None`.

use crate::world::Config;
use sched::{
    Cost, DeviceConstants, DeviceCosts, GimbalConfig, GimbalOrder, Halvings, InFlightLimits, RoundConfig,
};
use units::{ByteRate, Bytes, Nanos};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Constants {
    pub(super) device: DeviceConstants,
    pub(super) rate_start: ByteRate,
    pub(super) latency_weight: Halvings,
    pub(super) threshold_weight: Option<Halvings>,
    pub(super) underutilised_growth: u64,
    pub(super) completion_window: Bytes,
    pub(super) completion_idle_max: Nanos,
    pub(super) order: GimbalOrder,
    pub(super) bucket_depth: Bytes,
    pub(super) write_cost_step: Cost,
    pub(super) write_cost_period: Nanos,
    pub(super) slots: u32,
    pub(super) slot_size: Bytes,
    pub(super) lag_max: Option<Bytes>,
    pub(super) lag_catch_up: Bytes,
    /// With device time in flight in place of slots and tokens, and a tenant that is full competing without backlog.
    pub(super) in_flight: Option<InFlightLimits>,
    pub(super) costs: Option<DeviceCosts>,
    pub(super) round: RoundConfig,
}

impl Constants {
    pub(crate) fn of(config: &Config) -> Constants {
        match config {
            Config::Gimbal(config) => Constants::of_gimbal(config),
            Config::LevelCalibrated(config) => Constants {
                device: config.device,
                latency_weight: Halvings(4),
                lag_max: Some(config.lag_max),
                lag_catch_up: config.lag_catch_up,
                in_flight: Some(config.in_flight),
                costs: Some(config.costs),
                round: config.round,
                ..Constants::of_gimbal(&GimbalConfig::published(config.device))
            },
        }
    }

    fn of_gimbal(config: &GimbalConfig) -> Constants {
        Constants {
            device: config.device,
            rate_start: config.rate_start,
            latency_weight: config.latency_weight,
            threshold_weight: config.threshold_weight,
            underutilised_growth: config.underutilised_growth,
            completion_window: config.completion_window,
            completion_idle_max: config.completion_idle_max,
            order: config.order,
            bucket_depth: config.bucket_depth,
            write_cost_step: config.write_cost_step,
            write_cost_period: config.write_cost_period,
            slots: config.device.slots,
            slot_size: config.slot_size,
            lag_max: None,
            lag_catch_up: Bytes::ZERO,
            in_flight: None,
            costs: None,
            round: config.round,
        }
    }
}
