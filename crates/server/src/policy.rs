//! Makes the scheduler that the configuration of a device asks for.

use crate::config::{DeviceConfig, DeviceKind, PolicyKind, Speed};
use crate::device::load_profile;
use sched::{
    CalibratedConfig, Calibration, CalibrationError, DeviceConstants, DeviceCosts, Fifo, Flashfq, Gimbal,
    GimbalConfig, GimbalOrder, Learnt, Level, LevelCalibrated, Mclock, Policy, Reflex,
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
                 [device.scheduler]: calibration = \"FILE\"", name = .0.name())]
    Uncalibrated(PolicyKind),
    /// The prior cannot be read.
    #[error("{0}")]
    Prior(probe::ProfileError),
    /// The calibration cannot be read.
    #[error("{0}")]
    Calibration(CalibrationError),
}

/// Makes a scheduler of kind `kind` for `device`. What was `learnt` of the device before counts more than the prior of the configuration.
///
/// # Errors
/// The profile, the calibration or the prior cannot be read, or the constants do not fit together.
pub(crate) fn policy(
    kind: PolicyKind,
    device: &DeviceConfig,
    learnt: Option<Learnt>,
) -> Result<Box<dyn Policy>, PolicyError> {
    let uncalibrated = || PolicyError::Uncalibrated(kind);
    Ok(match kind {
        PolicyKind::None => Box::new(Fifo::default()),
        PolicyKind::Mclock => Box::new(Mclock::default()),
        PolicyKind::Gimbal | PolicyKind::GimbalText => {
            let order = if kind == PolicyKind::Gimbal { GimbalOrder::Release } else { GimbalOrder::Text };
            let config = GimbalConfig { order, ..gimbal(device)? };
            config.check().map_err(PolicyError::Constants)?;
            Box::new(Gimbal::new(config))
        }
        PolicyKind::LevelCalibrated => {
            let costs = calibration(kind, device)?.level_calibrated.ok_or_else(uncalibrated)?;
            let config = level_calibrated(device, costs)?;
            config.check().map_err(PolicyError::Constants)?;
            Box::new(LevelCalibrated::new(config))
        }
        PolicyKind::Level => {
            let prior = prior(device)?;
            Box::new(Level::told(&learnt.or(prior).unwrap_or_default()))
        }
        PolicyKind::Reflex => {
            Box::new(Reflex::new(calibration(kind, device)?.reflex.ok_or_else(uncalibrated)?))
        }
        PolicyKind::Flashfq => {
            Box::new(Flashfq::new(calibration(kind, device)?.flashfq.ok_or_else(uncalibrated)?))
        }
    })
}

/// The highest rate that the scheduler of `device` ever allows, if it has a limit and can be made.
pub(crate) fn rate_max(device: &DeviceConfig) -> Option<ByteRate> {
    let reads_constants = device.scheduler.policy.reads_constants();
    let constants = reads_constants.then(|| constants(device).ok()).flatten()?;
    let speed = match &device.kind {
        DeviceKind::Emulated(emulated) => emulated.speed,
        DeviceKind::File { .. } | DeviceKind::Block { .. } | DeviceKind::Null { .. } => Speed::REAL_TIME,
    };
    let rate = u128::from(constants.device.rate_max.0) * u128::from(speed.thousandths());
    Some(ByteRate(u64::try_from(rate / u128::from(Speed::REAL_TIME.thousandths())).unwrap_or(u64::MAX)))
}

/// What the profile that the configuration names says of the device.
fn prior(device: &DeviceConfig) -> Result<Option<Learnt>, PolicyError> {
    let Some(file) = &device.scheduler.prior else { return Ok(None) };
    let profile = probe::Profile::load(file).map_err(PolicyError::Prior)?;
    Ok(Some(profile.learnt()))
}

fn calibration(kind: PolicyKind, device: &DeviceConfig) -> Result<Calibration, PolicyError> {
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
        DeviceKind::File { .. } | DeviceKind::Block { .. } | DeviceKind::Null { .. } => None,
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

fn gimbal(device: &DeviceConfig) -> Result<GimbalConfig, PolicyError> {
    let Constants { device: constants, rate_start } = constants(device)?;
    let mut config = GimbalConfig { rate_start, ..GimbalConfig::published(constants) };
    replace(&mut config.device.write_cost_best, device.scheduler.overrides.write_cost_best);
    Ok(config)
}

fn level_calibrated(device: &DeviceConfig, costs: DeviceCosts) -> Result<CalibratedConfig, PolicyError> {
    let mut config = CalibratedConfig::new(constants(device)?.device, costs);
    replace(&mut config.lag_max, device.scheduler.overrides.lag_max);
    Ok(config)
}

fn replace<T>(constant: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *constant = by;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, DEFAULT_LISTEN, EmulatedConfig, SchedulerOverrides};
    use sched::Cost;
    use units::{Bytes, Nanos};

    fn device() -> DeviceConfig {
        let kind = DeviceKind::Emulated(EmulatedConfig::new(Bytes::gib(1)));
        DeviceConfig::new("a", kind)
    }

    #[test]
    fn a_null_device_has_the_rate_of_an_ssd_only_if_configured() {
        let kind = DeviceKind::Null { size: Bytes::gib(1) };
        let mut device = DeviceConfig { kind, ..device() };
        let config = gimbal(&device).expect("a profile that comes with the model");
        assert_eq!((config.device.rate_max, config.rate_start), (NULL_RATE, NULL_RATE));
        device.scheduler.overrides.profile = Some(DEFAULT_PROFILE.to_owned());
        let config = gimbal(&device).expect("a profile that comes with the model");
        assert_eq!(config.device.rate_max, DeviceConstants::DCT983.rate_max);
    }

    #[test]
    fn the_constants_are_the_profiles_unless_replaced() {
        let mut device = device();
        let costs = DeviceCosts::DCT983;
        let of_profile = DeviceConstants::DCT983;
        let known = "a profile that comes with the model";
        assert_eq!(gimbal(&device).expect(known), GimbalConfig::published(of_profile));
        assert_eq!(level_calibrated(&device, costs).expect(known), CalibratedConfig::new(of_profile, costs));
        device.scheduler.overrides = SchedulerOverrides {
            slots: Some(16),
            write_cost_best: Some(Cost::ratio(3, 1)),
            lag_max: Some(Bytes::mib(2)),
            ..SchedulerOverrides::default()
        };
        let replaced = DeviceConstants { slots: 16, write_cost_best: Cost::ratio(3, 1), ..of_profile };
        let published = GimbalConfig { device: replaced, ..GimbalConfig::published(of_profile) };
        assert_eq!(gimbal(&device).expect(known), published);
        let lag_max = Bytes::mib(2);
        let expected = CalibratedConfig { lag_max, ..CalibratedConfig::new(replaced, costs) };
        assert_eq!(level_calibrated(&device, costs).expect(known), expected);
    }

    #[test]
    fn the_largest_numbers_that_a_configuration_may_hold_make_a_scheduler() {
        let mut device = DeviceConfig { name: "ssd".to_owned(), ..device() };
        device.scheduler.policy = PolicyKind::Gimbal;
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
        policy(PolicyKind::Gimbal, &config.devices[0], None).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn a_scheduler_that_measures_needs_to_be_told_nothing() {
        let mut device = device();
        assert!(policy(PolicyKind::Level, &device, None).is_ok());
        device.scheduler.policy = PolicyKind::Level;
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
        for kind in [PolicyKind::LevelCalibrated, PolicyKind::Reflex, PolicyKind::Flashfq] {
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
        assert!(policy(PolicyKind::Flashfq, &device, None).is_ok());
        assert!(matches!(
            policy(PolicyKind::LevelCalibrated, &device, None),
            Err(PolicyError::Uncalibrated(_))
        ));
        assert!(matches!(policy(PolicyKind::Reflex, &device, None), Err(PolicyError::Uncalibrated(_))));
        std::fs::remove_file(file).expect("it was made above");
    }

    #[test]
    fn constants_that_contradict_each_other_are_refused() {
        let mut device = device();
        device.scheduler.overrides.thresh_max = Some(Nanos::micros(1));
        assert!(matches!(policy(PolicyKind::Gimbal, &device, None), Err(PolicyError::Constants(_))));
        assert!(policy(PolicyKind::None, &device, None).is_ok(), "no constants are needed");
    }
}
