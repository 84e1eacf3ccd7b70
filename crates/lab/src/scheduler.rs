//! Schedulers by name: the scheduler before the SSD in a run, and the client's half if there is one, set up for an SSD.

use sched::{Calibration, DeviceConstants, GimbalConfig, GimbalFairConfig, LevelConfig};
use sim::LatencyScope;
use sim::{ClientChoice, PolicyChoice};
use ssd::Profile;
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
    Gimbal,
    /// Gimbal with this project's repairs.
    GimbalFair,
    /// This project's own: charges what an IO takes of the SSD.
    Level,
    /// The same without a calibration: it finds out what an IO takes while it serves.
    LevelLearned,
}

/// What a scheduler is in a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Before the SSD.
    pub policy: PolicyChoice,
    /// In the clients.
    pub clients: ClientChoice,
}

/// A scheduler needs a calibration that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} was not calibrated for {profile}; the lab has its calibrations for {}", .scheduler.name(), calibrated(*.scheduler))]
pub struct NotCalibrated {
    /// Which.
    pub scheduler: Scheduler,
    /// For this profile.
    pub profile: String,
}

/// The profiles that a scheduler is calibrated for.
fn calibrated(scheduler: Scheduler) -> String {
    let is_calibrated = |name: &&str| Profile::named(name).is_ok_and(|other| scheduler.setup(&other).is_ok());
    let names: Vec<&str> = CALIBRATIONS.iter().map(|(name, _)| *name).filter(is_calibrated).collect();
    names.join(", ")
}

/// No scheduler is called that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", unknown(.name))]
pub struct UnknownScheduler {
    /// What was asked for.
    pub name: String,
}

/// Says the new name of an old one, or which names there are.
fn unknown(name: &str) -> String {
    if let Some(new) = sched::renamed(name) {
        return format!("the scheduler {name} is called {new} now: write {new}");
    }
    let known: Vec<&str> = Scheduler::ALL.iter().map(|scheduler| scheduler.name()).collect();
    format!("there is no scheduler {name}; the schedulers are {}", known.join(", "))
}

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
    pub const ALL: [Scheduler; 9] = [
        Scheduler::None,
        Scheduler::Reflex,
        Scheduler::Flashfq,
        Scheduler::Parda,
        Scheduler::GimbalFixed,
        Scheduler::Gimbal,
        Scheduler::GimbalFair,
        Scheduler::Level,
        Scheduler::LevelLearned,
    ];

    /// Its name in experiments, results and `gimbal serve`.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::Reflex => "reflex",
            Scheduler::Flashfq => "flashfq",
            Scheduler::Parda => "parda",
            Scheduler::GimbalFixed => "gimbal-fixed",
            Scheduler::Gimbal => "gimbal",
            Scheduler::GimbalFair => "gimbal-fair",
            Scheduler::Level => "level",
            Scheduler::LevelLearned => "level-learned",
        }
    }

    /// The scheduler of a name.
    ///
    /// # Errors
    /// No scheduler is called that, or not any more.
    pub fn named(name: &str) -> Result<Scheduler, UnknownScheduler> {
        let known = Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name);
        known.ok_or_else(|| UnknownScheduler { name: name.to_owned() })
    }

    /// Whether a paper's claims about Gimbal are judged under it.
    pub fn is_gimbal(self) -> bool {
        matches!(self, Scheduler::Gimbal | Scheduler::GimbalFair | Scheduler::Level | Scheduler::LevelLearned)
    }

    /// The scheduler for an SSD of this profile, with the calibration that comes with the lab.
    ///
    /// # Errors
    /// It needs a calibration, and there is none for this profile.
    pub fn setup(self, profile: &Profile) -> Result<Setup, NotCalibrated> {
        let known = CALIBRATIONS.iter().find(|(name, _)| *name == profile.name);
        let calibration = known.map(|(name, text)| {
            Calibration::parse(text, name).unwrap_or_else(|error| panic!("built in: {error}"))
        });
        self.setup_with(profile, &calibration.unwrap_or_default())
    }

    /// The same with your own calibration.
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
                PolicyChoice::Gimbal(GimbalConfig {
                    threshold_weight: None,
                    ..GimbalConfig::published(device)
                })
            }
            Scheduler::Gimbal => PolicyChoice::Gimbal(GimbalConfig::published(device)),
            Scheduler::GimbalFair => PolicyChoice::GimbalFair(GimbalFairConfig::new(device)),
            Scheduler::LevelLearned => PolicyChoice::LevelLearned,
            Scheduler::Level => {
                PolicyChoice::Level(LevelConfig::new(device, calibration.level.ok_or_else(missing)?))
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
    fn an_old_name_is_answered_with_the_new_one() {
        for (old, new) in [("gimbal-paper", "gimbal"), ("gimbal-next", "level")] {
            let said = Scheduler::named(old).expect_err("it was renamed").to_string();
            assert_eq!(said, format!("the scheduler {old} is called {new} now: write {new}"));
            assert_eq!(Scheduler::named(new).map(Scheduler::name), Ok(new));
        }
        let said = Scheduler::named("fifo").expect_err("there is none").to_string();
        assert!(said.starts_with("there is no scheduler fifo; the schedulers are none, reflex"), "{said}");
    }

    #[test]
    fn what_was_not_calibrated_is_said() {
        let mut profile = Profile::named("p3600").expect("a profile that comes with gimbal");
        profile.name = "mine".into();
        let error = |scheduler: Scheduler| scheduler.setup(&profile).expect_err("nobody did it").to_string();
        assert_eq!(
            error(Scheduler::Reflex),
            "reflex was not calibrated for mine; the lab has its calibrations for consumer-slc, dct983, dct983-b, p3600"
        );
        assert!(error(Scheduler::Parda).ends_with("for array, consumer-slc, dct983, dct983-b, p3600"));
        assert!(Scheduler::Gimbal.setup(&profile).is_ok(), "it measures by itself");
    }
}
