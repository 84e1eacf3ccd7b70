//! Schedulers by name: what stands before the SSD in a run, and what holds the clients back, made for the SSD at hand.

use sched::{DeviceConstants, GimbalConfig};
use sim::LatencyScope;
use sim::{ClientChoice, PolicyChoice};
use ssd::{Calibration, Profile};
use std::fmt;
use units::Nanos;

/// A scheduler that experiments can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// First in, first out.
    None,
    /// ReFlex, all tenants best-effort.
    Reflex,
    /// FlashFQ.
    Flashfq,
    /// PARDA: windows in the hosts, first in, first out before the SSD.
    Parda,
    /// Gimbal as published, but with a threshold that does not follow the latency: what the paper's figure 17 argues against.
    GimbalFixed,
    /// Gimbal as published.
    GimbalPaper,
    /// Gimbal as this project runs it.
    Gimbal,
    /// Gimbal that charges what an IO takes of the SSD.
    GimbalNext,
}

/// What a scheduler is in a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Before the SSD.
    pub policy: PolicyChoice,
    /// In the clients.
    pub clients: ClientChoice,
}

/// A scheduler needs a calibration that there is none of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCalibrated {
    /// Which.
    pub scheduler: Scheduler,
    /// For this profile.
    pub profile: String,
}

impl fmt::Display for NotCalibrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotCalibrated { scheduler, profile } = self;
        let is_calibrated =
            |name: &&str| Profile::named(name).is_ok_and(|other| scheduler.setup(&other).is_ok());
        let names: Vec<&str> = CALIBRATIONS.iter().map(|(name, _)| *name).filter(is_calibrated).collect();
        write!(
            f,
            "{} was not calibrated for {profile}; the lab has its calibrations for {}",
            scheduler.name(),
            names.join(", ")
        )
    }
}

impl std::error::Error for NotCalibrated {}

/// The fixed threshold of [`Scheduler::GimbalFixed`] (Gimbal, figure 17).
const FIXED_THRESHOLD: Nanos = Nanos::millis(2);

/// Profiles and their calibrations, made by `make calibrations`; the array's holds the constants of PARDA's paper.
const CALIBRATIONS: [(&str, &str); 5] = [
    ("array", include_str!("../../../calibrations/array.toml")),
    ("consumer-slc", include_str!("../../../calibrations/consumer-slc.toml")),
    ("dct983", include_str!("../../../calibrations/dct983.toml")),
    ("dct983-b", include_str!("../../../calibrations/dct983-b.toml")),
    ("p3600", include_str!("../../../calibrations/p3600.toml")),
];

impl Scheduler {
    /// All, the baselines first.
    pub const ALL: [Scheduler; 8] = [
        Scheduler::None,
        Scheduler::Reflex,
        Scheduler::Flashfq,
        Scheduler::Parda,
        Scheduler::GimbalFixed,
        Scheduler::GimbalPaper,
        Scheduler::Gimbal,
        Scheduler::GimbalNext,
    ];

    /// As experiments, results and `gimbal serve` call it.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::Reflex => "reflex",
            Scheduler::Flashfq => "flashfq",
            Scheduler::Parda => "parda",
            Scheduler::GimbalFixed => "gimbal-fixed",
            Scheduler::GimbalPaper => "gimbal-paper",
            Scheduler::Gimbal => "gimbal",
            Scheduler::GimbalNext => "gimbal-next",
        }
    }

    /// The scheduler of a name.
    pub fn named(name: &str) -> Option<Scheduler> {
        Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }

    /// Whether it is one of those that a paper's claims about Gimbal are judged by.
    pub fn is_gimbal(self) -> bool {
        matches!(self, Scheduler::GimbalPaper | Scheduler::Gimbal | Scheduler::GimbalNext)
    }

    /// The scheduler for an SSD of this profile, with the calibration that comes with the lab.
    ///
    /// # Errors
    /// It needs one, and there is none for this profile.
    pub fn setup(self, profile: &Profile) -> Result<Setup, NotCalibrated> {
        let known = CALIBRATIONS.iter().find(|(name, _)| *name == profile.name);
        let calibration = known.map(|(name, text)| {
            Calibration::parse(text, name).unwrap_or_else(|error| panic!("built in: {error}"))
        });
        self.setup_with(profile, &calibration.unwrap_or_default())
    }

    /// The same with a calibration of one's own.
    ///
    /// # Errors
    /// It needs one, and `calibration` has none for it.
    pub fn setup_with(self, profile: &Profile, calibration: &Calibration) -> Result<Setup, NotCalibrated> {
        let device = DeviceConstants::from(&profile.switch);
        let missing = || NotCalibrated { scheduler: self, profile: profile.name.clone() };
        let mut clients = ClientChoice::Credits;
        let policy = match self {
            Scheduler::None => PolicyChoice::None,
            Scheduler::Reflex => PolicyChoice::Reflex(calibration.reflex.clone().ok_or_else(missing)?),
            Scheduler::Flashfq => PolicyChoice::Flashfq(calibration.flashfq.ok_or_else(missing)?),
            Scheduler::Parda => {
                let config = calibration.parda.ok_or_else(missing)?;
                clients = ClientChoice::Parda { config, scope: LatencyScope::AllHosts };
                PolicyChoice::None
            }
            Scheduler::GimbalFixed => {
                let device = DeviceConstants { thresh_max: FIXED_THRESHOLD, ..device };
                PolicyChoice::Gimbal(GimbalConfig { threshold_weight: None, ..GimbalConfig::paper(device) })
            }
            Scheduler::GimbalPaper => PolicyChoice::Gimbal(GimbalConfig::paper(device)),
            Scheduler::Gimbal => PolicyChoice::Gimbal(GimbalConfig::fair(device)),
            Scheduler::GimbalNext => {
                PolicyChoice::Gimbal(GimbalConfig::next(device, calibration.gimbal_next.ok_or_else(missing)?))
            }
        };
        Ok(Setup { policy, clients })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_experiment_can_name_was_calibrated() {
        for name in ["dct983", "dct983-b", "p3600", "consumer-slc"] {
            let profile = Profile::named(name).expect("a profile that comes with gimbal");
            for scheduler in Scheduler::ALL {
                scheduler.setup(&profile).unwrap_or_else(|missing| panic!("{missing}"));
            }
        }
    }

    #[test]
    fn what_was_not_calibrated_is_said() {
        let mut profile = Profile::named("p3600").expect("a profile that comes with gimbal");
        profile.name = "mine".into();
        let complaint =
            |scheduler: Scheduler| scheduler.setup(&profile).expect_err("nobody did it").to_string();
        assert_eq!(
            complaint(Scheduler::Reflex),
            "reflex was not calibrated for mine; the lab has its calibrations for consumer-slc, dct983, dct983-b, p3600"
        );
        assert!(complaint(Scheduler::Parda).ends_with("for array, consumer-slc, dct983, dct983-b, p3600"));
        assert!(Scheduler::Gimbal.setup(&profile).is_ok(), "it measures by itself");
    }
}
