//! From the configuration of a device to its scheduler.

use crate::config::{DeviceConfig, DeviceKind, PolicyKind};
use crate::device::load_profile;
use sched::{Cost, DeviceConstants, Fifo, Gimbal, GimbalConfig, Policy};
use ssd::ProfileError;
use std::fmt;

/// The profile of a device that names none.
const DEFAULT_PROFILE: &str = "dct983";

/// Why a scheduler cannot be had.
#[derive(Debug)]
pub enum PolicyError {
    /// The profile with its constants cannot be had.
    Profile(ProfileError),
    /// The constants contradict each other.
    Constants(&'static str),
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyError::Profile(error) => write!(f, "{error}"),
            PolicyError::Constants(wrong) => {
                write!(
                    f,
                    "the scheduler's constants do not fit together: {wrong}; change those of [device.scheduler]"
                )
            }
        }
    }
}

impl std::error::Error for PolicyError {}

/// A scheduler of kind `kind` for `device`.
///
/// # Errors
/// The profile cannot be read, or its constants do not fit together.
pub(crate) fn policy(kind: PolicyKind, device: &DeviceConfig) -> Result<Box<dyn Policy>, PolicyError> {
    match kind {
        PolicyKind::None => Ok(Box::new(Fifo::default())),
        PolicyKind::Gimbal => {
            let config = gimbal(device)?;
            config.check().map_err(PolicyError::Constants)?;
            Ok(Box::new(Gimbal::new(config)))
        }
    }
}

/// The constants: those of the profile, but for what the configuration replaces.
fn gimbal(device: &DeviceConfig) -> Result<GimbalConfig, PolicyError> {
    let overrides = &device.scheduler.overrides;
    let of_model = match &device.kind {
        DeviceKind::Emulated(emulated) => Some(emulated.profile.as_str()),
        DeviceKind::File { .. } | DeviceKind::Block { .. } | DeviceKind::Null { .. } => None,
    };
    let name = overrides.profile.as_deref().or(of_model).unwrap_or(DEFAULT_PROFILE);
    let profile = load_profile(name).map_err(PolicyError::Profile)?.switch;
    let constants = DeviceConstants {
        thresh_min: overrides.latency_min.unwrap_or(profile.thresh_min),
        thresh_max: overrides.latency_max.unwrap_or(profile.thresh_max),
        write_cost_best: Cost::ONE,
        write_cost_worst: Cost::ratio(overrides.write_cost_worst.unwrap_or(profile.write_cost_worst), 1),
        slots: overrides.slots.unwrap_or(profile.slots),
        rate_min: overrides.rate_min.unwrap_or(profile.rate_min),
        rate_max: overrides.rate_max.unwrap_or(profile.rate_max),
    };
    let rate_start =
        profile.rate_initial.clamp(constants.rate_min, constants.rate_max.max(constants.rate_min));
    Ok(GimbalConfig { rate_start, ..GimbalConfig::paper(constants) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EmulatedConfig, SchedulerConfig};
    use units::{Bytes, Nanos};

    fn device() -> DeviceConfig {
        let kind = DeviceKind::Emulated(EmulatedConfig::new(Bytes::gib(1)));
        DeviceConfig { name: "a".to_owned(), kind, scheduler: SchedulerConfig::default() }
    }

    #[test]
    fn the_constants_are_the_profiles_but_for_those_replaced() {
        let mut device = device();
        let plain = gimbal(&device).expect("a profile that comes with the model");
        let published = GimbalConfig::paper(DeviceConstants::DCT983).device;
        assert_eq!(plain.device, published);
        device.scheduler.overrides.slots = Some(16);
        let changed = gimbal(&device).expect("the same profile");
        assert_eq!(changed.device, DeviceConstants { slots: 16, ..published });
    }

    #[test]
    fn constants_that_contradict_each_other_are_refused() {
        let mut device = device();
        device.scheduler.overrides.latency_max = Some(Nanos::micros(1));
        assert!(matches!(policy(PolicyKind::Gimbal, &device), Err(PolicyError::Constants(_))));
        assert!(policy(PolicyKind::None, &device).is_ok(), "no constants are needed");
    }
}
