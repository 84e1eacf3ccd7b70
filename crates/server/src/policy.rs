//! Makes the scheduler that the configuration of a device asks for.

use crate::config::{DeviceConfig, DeviceKind, SchedulerOverrides, Speed};
use crate::device::load_profile;
use sched::{
    Calibration, CalibrationError, DeviceConstants, Facts, Learnt, Missing, Policy, Scheduler, Setup,
};
use ssd::ProfileError;
use units::ByteRate;

/// The profile of a device without a configured profile.
const DEFAULT_PROFILE: &str = "dct983";

/// The assumed rate of a null device. It has no limit of its own; with the rate of an SSD, that rate would be measured.
const NULL_RATE: ByteRate = ByteRate::mib_per_sec(1 << 20);

/// Why a scheduler cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The profile with its constants cannot be read.
    #[error("{0}")]
    Profile(ProfileError),
    /// The constants contradict each other.
    #[error("the scheduler's constants do not fit together: {0}; change those of [device.scheduler]")]
    Constants(&'static str),
    /// The scheduler needs a calibration, and the configuration names none, or one without a table for it.
    #[error("the scheduler {name:?} needs a calibration of the device with a table [{name}]; name its file in \
                 [device.scheduler]: calibration = \"FILE\"", name = .0.name)]
    Uncalibrated(&'static Scheduler),
    /// The prior cannot be read.
    #[error("{0}")]
    Prior(probe::ProfileError),
    /// The calibration cannot be read.
    #[error("{0}")]
    Calibration(CalibrationError),
}

/// Makes the scheduler of this row for `device`. The model `learnt` before takes precedence over the prior of the configuration.
///
/// # Errors
/// The profile, the calibration or the prior cannot be read, or the constants do not fit together.
pub(crate) fn policy(
    row: &'static Scheduler,
    device: &DeviceConfig,
    learnt: Option<Learnt>,
) -> Result<Box<dyn Policy>, PolicyError> {
    let calibration =
        if row.needs_calibration() { calibration(row, device)? } else { Calibration::default() };
    let learnt = if row.learns { learnt.or(prior(device)?).unwrap_or_default() } else { Learnt::default() };
    let setup = set_up(row, device, &calibration, &learnt)?;
    setup.check().map_err(PolicyError::Constants)?;
    Ok(setup.build())
}

/// The scheduler with its constants.
fn set_up(
    row: &'static Scheduler,
    device: &DeviceConfig,
    calibration: &Calibration,
    learnt: &Learnt,
) -> Result<Setup, PolicyError> {
    let (constants, rate_start) = match row.constants {
        [] => (DeviceConstants::DCT983, None),
        _ => {
            let Constants { device, rate_start } = constants(device)?;
            (device, Some(rate_start))
        }
    };
    let SchedulerOverrides { lag_max, write_cost_best, .. } = device.scheduler.overrides;
    let facts = Facts { constants, rate_start, write_cost_best, lag_max, calibration, learnt, rates: None };
    row.set_up(&facts).map_err(|Missing(_)| PolicyError::Uncalibrated(row))
}

/// The highest rate that the scheduler of `device` ever allows, if it has a limit and can be made.
pub(crate) fn rate_max(device: &DeviceConfig) -> Option<ByteRate> {
    let policy = device.scheduler.policy;
    let is_limited = policy.keeps_reservations && policy.reads("rate_max");
    let constants = is_limited.then(|| constants(device).ok()).flatten()?;
    let speed = match &device.kind {
        DeviceKind::Emulated(emulated) => emulated.speed,
        DeviceKind::File { .. }
        | DeviceKind::Block { .. }
        | DeviceKind::Directory(_)
        | DeviceKind::NvmeTcp(_)
        | DeviceKind::Null { .. } => Speed::REAL_TIME,
    };
    let rate = u128::from(constants.device.rate_max.0) * u128::from(speed.thousandths());
    Some(ByteRate(u64::try_from(rate / u128::from(Speed::REAL_TIME.thousandths())).unwrap_or(u64::MAX)))
}

/// The knowledge of the device in the profile that the configuration names.
fn prior(device: &DeviceConfig) -> Result<Option<Learnt>, PolicyError> {
    let Some(file) = &device.scheduler.prior else { return Ok(None) };
    let profile = probe::Profile::load(file).map_err(PolicyError::Prior)?;
    Ok(Some(profile.learnt()))
}

fn calibration(kind: &'static Scheduler, device: &DeviceConfig) -> Result<Calibration, PolicyError> {
    let file = device.scheduler.calibration.as_ref().ok_or(PolicyError::Uncalibrated(kind))?;
    Calibration::load(file).map_err(PolicyError::Calibration)
}

/// The constants of a device, from its profile and its configuration.
struct Constants {
    device: DeviceConstants,
    rate_start: ByteRate,
}

/// The constants of the profile, with those replaced that the configuration sets.
fn constants(device: &DeviceConfig) -> Result<Constants, PolicyError> {
    let overrides = &device.scheduler.overrides;
    let of_model = match &device.kind {
        DeviceKind::Emulated(emulated) => Some(emulated.profile.as_str()),
        DeviceKind::File { .. }
        | DeviceKind::Block { .. }
        | DeviceKind::Directory(_)
        | DeviceKind::NvmeTcp(_)
        | DeviceKind::Null { .. } => None,
    };
    let name = overrides.profile.as_deref().or(of_model).unwrap_or(DEFAULT_PROFILE);
    let profile = load_profile(name).map_err(PolicyError::Profile)?.switch;
    let mut constants = DeviceConstants::from(&profile);
    let mut rate_initial = profile.rate_initial;
    if matches!(device.kind, DeviceKind::Null { .. }) && overrides.profile.is_none() {
        (constants.rate_max, rate_initial) = (NULL_RATE, NULL_RATE);
    }
    replace(&mut constants.thresh_min, overrides.thresh_min);
    replace(&mut constants.thresh_max, overrides.thresh_max);
    replace(&mut constants.write_cost_best, overrides.write_cost_best);
    replace(&mut constants.write_cost_worst, overrides.write_cost_worst);
    replace(&mut constants.slots, overrides.slots);
    replace(&mut constants.rate_min, overrides.rate_min);
    replace(&mut constants.rate_max, overrides.rate_max);
    let rate_start = rate_initial.clamp(constants.rate_min, constants.rate_max.max(constants.rate_min));
    Ok(Constants { device: constants, rate_start })
}

fn replace<T>(constant: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *constant = by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, DEFAULT_LISTEN, EmulatedConfig, offered};
    use sched::{CalibratedConfig, Cost, DeviceCosts, GimbalConfig, GimbalOrder};
    use units::{Bytes, Nanos};

    fn device() -> DeviceConfig {
        let kind = DeviceKind::Emulated(EmulatedConfig::new(Bytes::gib(1)));
        DeviceConfig::new("a", kind)
    }

    /// The constants of a scheduler, written out.
    fn made(row: &'static Scheduler, device: &DeviceConfig) -> String {
        let calibration =
            Calibration { level_calibrated: Some(DeviceCosts::DCT983), ..Calibration::default() };
        let setup = set_up(row, device, &calibration, &Learnt::default());
        format!("{:?}", setup.expect("a profile that comes with the model"))
    }

    #[test]
    fn a_null_device_has_the_rate_of_an_ssd_only_if_configured() {
        let kind = DeviceKind::Null { size: Bytes::gib(1) };
        let mut device = DeviceConfig { kind, ..device() };
        let constants = DeviceConstants { rate_max: NULL_RATE, ..DeviceConstants::DCT983 };
        let unlimited = GimbalConfig { rate_start: NULL_RATE, ..GimbalConfig::published(constants) };
        assert_eq!(made(Scheduler::GIMBAL, &device), format!("{:?}", Setup::from(unlimited)));
        device.scheduler.overrides.profile = Some(DEFAULT_PROFILE.to_owned());
        let of_ssd = GimbalConfig::published(DeviceConstants::DCT983);
        assert_eq!(made(Scheduler::GIMBAL, &device), format!("{:?}", Setup::from(of_ssd)));
    }

    #[test]
    fn the_constants_are_the_profiles_unless_replaced() {
        let mut device = device();
        let of_profile = DeviceConstants::DCT983;
        let calibrated = |constants| CalibratedConfig::new(constants, DeviceCosts::DCT983);
        let agree = |device: &DeviceConfig, gimbal: GimbalConfig, calibrated: CalibratedConfig| {
            let text = GimbalConfig { order: GimbalOrder::Text, ..gimbal };
            assert_eq!(made(Scheduler::GIMBAL, device), format!("{:?}", Setup::from(gimbal)));
            assert_eq!(made(Scheduler::GIMBAL_TEXT, device), format!("{:?}", Setup::from(text)));
            assert_eq!(made(Scheduler::LEVEL_CALIBRATED, device), format!("{:?}", Setup::from(calibrated)));
        };
        agree(&device, GimbalConfig::published(of_profile), calibrated(of_profile));
        device.scheduler.overrides = SchedulerOverrides {
            slots: Some(16),
            write_cost_best: Some(Cost::ratio(3, 1)),
            lag_max: Some(Bytes::mib(2)),
            ..SchedulerOverrides::default()
        };
        let replaced = DeviceConstants { slots: 16, write_cost_best: Cost::ratio(3, 1), ..of_profile };
        let gimbal = GimbalConfig { device: replaced, ..GimbalConfig::published(of_profile) };
        agree(&device, gimbal, CalibratedConfig { lag_max: Bytes::mib(2), ..calibrated(replaced) });
    }

    #[test]
    fn every_offered_scheduler_can_be_had() {
        let mut device = device();
        let file = std::env::temp_dir().join(format!("gimbal-offered-{}.toml", std::process::id()));
        let text = include_str!("../../../calibrations/dct983.toml");
        std::fs::write(&file, text).expect("there is room");
        for row in offered() {
            device.scheduler.calibration = row.needs_calibration().then(|| file.clone());
            policy(row, &device, None).unwrap_or_else(|error| panic!("{}: {error}", row.name));
        }
        std::fs::remove_file(file).expect("it was made above");
    }

    #[test]
    fn the_largest_numbers_that_a_configuration_may_hold_make_a_scheduler() {
        let mut device = DeviceConfig { name: "ssd".to_owned(), ..device() };
        device.scheduler.policy = Scheduler::GIMBAL;
        device.scheduler.overrides = SchedulerOverrides {
            thresh_max: Some(DeviceConstants::THRESHOLD_MAX),
            slots: Some(DeviceConstants::SLOTS_MAX),
            write_cost_worst: Some(Cost::ratio(65_535, 1)),
            rate_max: Some(DeviceConstants::RATE_MAX),
            ..SchedulerOverrides::default()
        };
        let config = Config {
            devices: vec![device],
            ..Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN)
        };
        config.check().unwrap_or_else(|error| panic!("{error}"));
        policy(Scheduler::GIMBAL, &config.devices[0], None).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn a_scheduler_that_measures_needs_to_be_told_nothing() {
        let mut device = device();
        assert!(policy(Scheduler::LEVEL, &device, None).is_ok());
        device.scheduler.policy = Scheduler::LEVEL;
        assert_eq!(rate_max(&device), None, "it has no limit of its own");
        device.scheduler.overrides.thresh_min = Some(Nanos::micros(1));
        let config = Config {
            devices: vec![device],
            ..Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN)
        };
        let refused = config.check().expect_err("it reads no constants").to_string();
        assert!(refused.contains("thresh_min") && refused.contains("level"), "{refused}");
    }

    #[test]
    fn a_scheduler_with_a_calibration_needs_its_file() {
        let mut device = device();
        for kind in [Scheduler::LEVEL_CALIBRATED, Scheduler::REFLEX, Scheduler::FLASHFQ] {
            assert!(matches!(policy(kind, &device, None), Err(PolicyError::Uncalibrated(_))));
            device.scheduler.calibration = Some("/nowhere/calibration.toml".into());
            assert!(matches!(policy(kind, &device, None), Err(PolicyError::Calibration(_))));
            device.scheduler.calibration = None;
        }
    }

    #[test]
    fn a_calibration_has_a_table_for_the_scheduler() {
        let mut device = device();
        let file = std::env::temp_dir().join(format!("gimbal-calibration-{}.toml", std::process::id()));
        let table = "[flashfq]\nread_base_ns = 2000\nread_per_kib_ns = 300\nwrite_base_ns = 4000\n\
                     write_per_kib_ns = 800\ndepth = 64\nthrottle_us = 1000\nanticipation_us = 200\n";
        std::fs::write(&file, format!("description = \"made up\"\n{table}")).expect("there is room");
        device.scheduler.calibration = Some(file.clone());
        assert!(policy(Scheduler::FLASHFQ, &device, None).is_ok());
        assert!(matches!(
            policy(Scheduler::LEVEL_CALIBRATED, &device, None),
            Err(PolicyError::Uncalibrated(_))
        ));
        assert!(matches!(policy(Scheduler::REFLEX, &device, None), Err(PolicyError::Uncalibrated(_))));
        std::fs::remove_file(file).expect("it was made above");
    }

    #[test]
    fn constants_that_contradict_each_other_are_refused() {
        let mut device = device();
        device.scheduler.overrides.thresh_max = Some(Nanos::micros(1));
        assert!(matches!(policy(Scheduler::GIMBAL, &device, None), Err(PolicyError::Constants(_))));
        assert!(policy(Scheduler::NONE, &device, None).is_ok(), "no constants are needed");
    }
}
