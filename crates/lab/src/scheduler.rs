//! Schedulers by name: what stands before the SSD in a run, made for the SSD at hand.

use sched::{DeviceConstants, GimbalConfig};
use sim::PolicyChoice;
use ssd::Profile;
use units::Nanos;

/// A scheduler that experiments can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// First in, first out.
    None,
    /// Gimbal as published.
    GimbalPaper,
    /// Gimbal as published, but with a threshold that does not follow the latency: what the paper's appendix holds against it.
    GimbalFixed,
    /// Gimbal as this project runs it.
    Gimbal,
}

/// The fixed threshold of [`Scheduler::GimbalFixed`] (Gimbal, figure 17).
const FIXED_THRESHOLD: Nanos = Nanos::millis(2);

impl Scheduler {
    /// All, the baselines first.
    pub const ALL: [Scheduler; 4] =
        [Scheduler::None, Scheduler::GimbalFixed, Scheduler::GimbalPaper, Scheduler::Gimbal];

    /// As experiments, results and `gimbal serve` call it.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::GimbalPaper => "gimbal-paper",
            Scheduler::GimbalFixed => "gimbal-fixed",
            Scheduler::Gimbal => "gimbal",
        }
    }

    /// The scheduler of a name.
    pub fn named(name: &str) -> Option<Scheduler> {
        Scheduler::ALL.into_iter().find(|scheduler| scheduler.name() == name)
    }

    /// Whether it is one of those that a paper's claims about Gimbal are judged by.
    pub fn is_gimbal(self) -> bool {
        matches!(self, Scheduler::GimbalPaper | Scheduler::Gimbal)
    }

    /// What stands before an SSD of this profile.
    pub fn policy(self, profile: &Profile) -> PolicyChoice {
        let device = || DeviceConstants::from(&profile.switch);
        match self {
            Scheduler::None => PolicyChoice::None,
            Scheduler::GimbalPaper => PolicyChoice::Gimbal(GimbalConfig::paper(device())),
            Scheduler::GimbalFixed => {
                let device = DeviceConstants { thresh_max: FIXED_THRESHOLD, ..device() };
                PolicyChoice::Gimbal(GimbalConfig { threshold_weight: None, ..GimbalConfig::paper(device) })
            }
            Scheduler::Gimbal => PolicyChoice::Gimbal(GimbalConfig::fair(device())),
        }
    }
}
