//! The largest numbers that a configuration may hold.
//!
//! Larger ones would overflow something, or reserve more than any machine has: the arithmetic of the scheduler, a device's clock,
//! the table of a sparse memory. They are far beyond any useful value; a larger number is
//! usually a mistake in the unit. Numbers that are not here are bounded by their type, and used in arithmetic that saturates or is
//! wide enough for all of it: spans of time, weights and limits of tenants.
//!
//! Holds: a configuration that passes can be run, whatever its numbers are (`numbers_that_would_overflow_are_refused_by_name`
//!        in `tests`; the fuzz target `config`).
//! Elsewhere: what must hold between fields is `check`.

use super::problem::Problem;
use super::{
    Backing, Config, DeviceKind, EmulatedConfig, FaultConfig, FaultKind, FaultPattern, FaultRelease,
    SchedulerOverrides, Speed,
};
use sched::{CalibratedConfig, DeviceConstants};
use std::fmt::Display;
use units::Bytes;

/// The largest device, and the largest offset on one. Files have offsets of 63 bits, and a range ends at the sum of two sizes.
const SIZE_MAX: Bytes = Bytes::gib(1 << 30);
/// The largest device whose contents are in memory: its table of written blocks takes a 4096th of it at once.
const MEMORY_SIZE_MAX: Bytes = Bytes::gib(4 << 10);
/// The fastest emulated SSD. Its clock, of 64 bits of nanoseconds, then lasts for five years.
const SPEED_MAX: Speed = match Speed::from_thousandths(100_000) {
    Some(speed) => speed,
    None => panic!("above zero"),
};

/// The largest whole number: an integer of TOML. A larger one could not be written to a file.
pub(super) const COUNT_MAX: u64 = i64::MAX as u64;

/// Every number of `config` that is too large.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut beyond = Beyond(Vec::new());
    for (index, device) in config.devices.iter().enumerate() {
        let field = |name: &str| format!("device[{index}].{name}");
        beyond.device(field, &device.kind);
        beyond.faults(field("fault"), &device.faults);
        let of_store = device.ais.as_ref().map_or(&[][..], |ais| &ais.faults);
        beyond.faults(field("ais.fault"), of_store);
        beyond.scheduler(|name| field(&format!("scheduler.{name}")), &device.scheduler.overrides);
    }
    for (subsystem_index, subsystem) in config.subsystems.iter().enumerate() {
        for (index, namespace) in subsystem.namespaces.iter().enumerate() {
            let field = |name: &str| format!("subsystem[{subsystem_index}].namespace[{index}].{name}");
            beyond.check(field("offset"), Some(namespace.offset), SIZE_MAX);
            beyond.check(field("size"), namespace.size, SIZE_MAX);
        }
    }
    beyond.0
}

/// The problems that were found.
struct Beyond(Vec<Problem>);

impl Beyond {
    /// Whether `value`, if there is one, is at most `most`.
    fn check<T: PartialOrd + Display>(&mut self, field: String, value: Option<T>, most: T) {
        if let Some(value) = value.filter(|value| *value > most) {
            let what = format!("{value} is more than {most}");
            self.0.push(Problem::new(field, what, format!("write at most {most}")));
        }
    }

    fn device(&mut self, field: impl Fn(&str) -> String, kind: &DeviceKind) {
        let (size, most) = match kind {
            DeviceKind::File { size, .. } => (*size, SIZE_MAX),
            DeviceKind::Block { .. } | DeviceKind::Directory(_) | DeviceKind::NvmeTcp(_) => (None, SIZE_MAX),
            DeviceKind::Emulated(EmulatedConfig { size, backing: Backing::Ram, .. }) => {
                (Some(*size), MEMORY_SIZE_MAX)
            }
            DeviceKind::Emulated(EmulatedConfig { size, .. }) | DeviceKind::Null { size } => {
                (Some(*size), SIZE_MAX)
            }
        };
        self.check(field("size"), size, most);
        if let DeviceKind::Directory(directory) = kind {
            self.check(field("reserve"), Some(directory.reserve), SIZE_MAX);
        }
        if let DeviceKind::Emulated(emulated) = kind {
            self.check(field("speed"), Some(emulated.speed), SPEED_MAX);
            self.check(field("seed"), Some(emulated.seed), COUNT_MAX);
        }
    }

    fn faults(&mut self, path: String, faults: &[FaultConfig]) {
        for (index, fault) in faults.iter().enumerate() {
            let release = match fault.kind {
                FaultKind::Hang(FaultRelease::AtIo(io)) => Some(io),
                _ => None,
            };
            let every = match fault.pattern {
                FaultPattern::Every(every) => Some(every),
                FaultPattern::Thousandths(_) => None,
            };
            for (name, number) in [
                ("skip", Some(fault.skip)),
                ("every", every),
                ("count", fault.count),
                ("release_at", release),
                ("seed", Some(fault.seed)),
            ] {
                self.check(format!("{path}[{index}].{name}"), number, COUNT_MAX);
            }
        }
    }

    fn scheduler(&mut self, field: impl Fn(&str) -> String, overrides: &SchedulerOverrides) {
        for (name, value) in [("thresh_min", overrides.thresh_min), ("thresh_max", overrides.thresh_max)] {
            self.check(field(name), value, DeviceConstants::THRESHOLD_MAX);
        }
        for (name, value) in [("rate_min", overrides.rate_min), ("rate_max", overrides.rate_max)] {
            self.check(field(name), value, DeviceConstants::RATE_MAX);
        }
        self.check(field("slots"), overrides.slots, DeviceConstants::SLOTS_MAX);
        self.check(field("lag_max"), overrides.lag_max, CalibratedConfig::LAG_MAX_MAX);
    }
}
