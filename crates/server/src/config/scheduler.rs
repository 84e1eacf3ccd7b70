//! The scheduler of a device: which one, and what it is to know of the SSD.

use sched::Cost;
use std::path::PathBuf;
use units::{ByteRate, Bytes, Nanos};

/// The scheduler of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which one.
    pub policy: PolicyKind,
    /// What was measured of the device, for the schedulers that do not measure by themselves: the path of a file.
    pub calibration: Option<PathBuf>,
    /// What `gimbal ssdtest` found of the device, for the scheduler that measures: where it begins. The path of a device profile.
    pub prior: Option<PathBuf>,
    /// Constants that replace those of the device's profile.
    pub overrides: SchedulerOverrides,
}

/// The schedulers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyKind {
    /// This project's own, without a calibration: it measures the device while it serves.
    #[default]
    Level,
    /// Gimbal as published, in the order of the authors' release.
    Gimbal,
    /// Gimbal in the order of the paper's text.
    GimbalText,
    /// This project's own: charges what an IO takes of the device. Needs a calibration.
    LevelCalibrated,
    /// ReFlex: tokens, with reservations for tenants with an objective. Needs a calibration.
    Reflex,
    /// FlashFQ: equal parts of the device's time. Needs a calibration.
    Flashfq,
    /// mClock: reservations, limits and weights.
    Mclock,
    /// First in, first out: what other targets do.
    None,
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
    /// How far the least-served tenant may lag behind another one that still goes on.
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

impl PolicyKind {
    /// All, the default first.
    pub const ALL: [PolicyKind; 8] = [
        PolicyKind::Level,
        PolicyKind::Gimbal,
        PolicyKind::GimbalText,
        PolicyKind::LevelCalibrated,
        PolicyKind::Reflex,
        PolicyKind::Flashfq,
        PolicyKind::Mclock,
        PolicyKind::None,
    ];

    /// As configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::Gimbal => "gimbal",
            PolicyKind::GimbalText => "gimbal-text",
            PolicyKind::LevelCalibrated => "level-calibrated",
            PolicyKind::Level => "level",
            PolicyKind::Reflex => "reflex",
            PolicyKind::Flashfq => "flashfq",
            PolicyKind::Mclock => "mclock",
            PolicyKind::None => "none",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            PolicyKind::Gimbal => "Gimbal as published: IOs that the token buckets cannot pay wait aside",
            PolicyKind::GimbalText => "Gimbal as its paper's text has it: all wait behind such an IO",
            PolicyKind::LevelCalibrated => "Fair shares of device time, by a calibrated model of the device",
            PolicyKind::Level => {
                "Fair shares of device time on any device: measures it now and then, for up to half a second"
            }
            PolicyKind::Reflex => "ReFlex: tokens, by a calibrated model of the device",
            PolicyKind::Flashfq => {
                "FlashFQ: equal shares of device time, by a calibrated model of the device"
            }
            PolicyKind::Mclock => "mClock: reservations, limits and weights of IOs, by tags",
            PolicyKind::None => "First in, first out",
        }
    }

    /// Whether it has the constants of [`SchedulerOverrides`].
    pub const fn reads_constants(self) -> bool {
        matches!(self, PolicyKind::Gimbal | PolicyKind::GimbalText | PolicyKind::LevelCalibrated)
    }

    /// Whether it learns what the device takes for an IO, and can be told.
    pub const fn learns(self) -> bool {
        matches!(self, PolicyKind::Level)
    }

    /// Whether it keeps reservations.
    pub const fn keeps_reservations(self) -> bool {
        self.reads_constants() || matches!(self, PolicyKind::Level | PolicyKind::Mclock)
    }

    /// Whether it keeps to objectives of latency.
    pub const fn keeps_objectives(self) -> bool {
        matches!(self, PolicyKind::Level | PolicyKind::Reflex)
    }

    /// Whether it reads the constant of this name.
    pub(super) fn reads(self, constant: &str) -> bool {
        match constant {
            "lag_max" => self == PolicyKind::LevelCalibrated,
            _ => self.reads_constants(),
        }
    }

    /// Whether it needs a calibration of the device.
    pub const fn needs_calibration(self) -> bool {
        matches!(self, PolicyKind::LevelCalibrated | PolicyKind::Reflex | PolicyKind::Flashfq)
    }
}
