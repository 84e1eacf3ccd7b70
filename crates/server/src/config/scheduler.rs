//! The scheduler of a device, and its knowledge of the SSD.

use sched::{Cost, Needs, Scheduler};
use std::path::PathBuf;
use units::{ByteRate, Bytes, Nanos};

/// The scheduler of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which one.
    pub policy: &'static Scheduler,
    /// The path of a calibration of the device, for schedulers that do not measure by themselves.
    pub calibration: Option<PathBuf>,
    /// The path of a device profile that `gimbal ssdtest` wrote: the start of a scheduler that measures.
    pub prior: Option<PathBuf>,
    /// Constants that replace those of the device's profile.
    pub overrides: SchedulerOverrides,
}

/// Constants that replace those of the device's profile; `None` keeps the profile's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerOverrides {
    /// A profile (name or path) to take the constants from, for a device that is not emulated.
    pub profile: Option<String>,
    /// Device latency below which the SSD is under-utilised.
    pub thresh_min: Option<Nanos>,
    /// Device latency above which the SSD is overloaded.
    pub thresh_max: Option<Nanos>,
    /// Cost of a written byte against a read one at its best.
    pub write_cost_best: Option<Cost>,
    /// Cost of a written byte against a read one at its worst.
    pub write_cost_worst: Option<Cost>,
    /// Virtual slots that sequential reads need to fill the SSD.
    pub slots: Option<u32>,
    /// Upper bound for the lag of the least-served tenant behind another busy one.
    pub lag_max: Option<Bytes>,
    /// The lowest target rate.
    pub rate_min: Option<ByteRate>,
    /// The highest target rate.
    pub rate_max: Option<ByteRate>,
}

impl SchedulerOverrides {
    /// The names of those that are given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let SchedulerOverrides {
            profile,
            thresh_min,
            thresh_max,
            write_cost_best,
            write_cost_worst,
            slots,
            lag_max,
            rate_min,
            rate_max,
        } = self;
        let all = [
            ("profile", profile.is_some()),
            ("thresh_min", thresh_min.is_some()),
            ("thresh_max", thresh_max.is_some()),
            ("write_cost_best", write_cost_best.is_some()),
            ("write_cost_worst", write_cost_worst.is_some()),
            ("slots", slots.is_some()),
            ("lag_max", lag_max.is_some()),
            ("rate_min", rate_min.is_some()),
            ("rate_max", rate_max.is_some()),
        ];
        all.into_iter().filter_map(|(name, is_given)| is_given.then_some(name)).collect()
    }
}

/// The schedulers that a target can have: all but those that must be told rates, which only the simulator measures.
pub fn offered() -> impl Iterator<Item = &'static Scheduler> {
    Scheduler::ALL.into_iter().filter(|scheduler| scheduler.needs != Needs::Rates)
}
