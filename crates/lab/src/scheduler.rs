//! Schedulers by name: the scheduler before the SSD in a run, and the client's half if there is one, set up for an SSD.

use crate::ssds::{CALIBRATIONS, CalibratedSsd};
use sched::{
    BfqConfig, CalibratedConfig, Calibration, DeviceConstants, Former, GimbalConfig, KyberConfig, Learnt,
    MclockConfig, MqDeadlineConfig,
};
use sim::LatencyScope;
use sim::{AuxiliaryChoice, ClientChoice, PolicyChoice};
use ssd::Profile;
use std::path::Path;
use units::{ByteRate, Bytes, Nanos};

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
    /// ReFlex as the Gimbal paper compared with it.
    ReflexCompared,
    /// FlashFQ as the Gimbal paper compared with it.
    FlashfqCompared,
    /// PARDA as the Gimbal paper compared with it: each host knows its own latency only.
    PardaCompared,
    /// mClock.
    Mclock,
    /// SPDK's limits: the highest rate that the constants name, divided among the tenants.
    SpdkQos,
    /// Linux's io.cost, told of the SSD as its tool measures it.
    IoCost,
    /// Linux's mq-deadline before an NVMe drive.
    MqDeadline,
    /// The same before a drive that takes 32 IOs at a time, as a SATA drive does.
    MqDeadline32,
    /// Linux's BFQ before an NVMe drive.
    Bfq,
    /// The same before a drive that takes 32 IOs at a time.
    Bfq32,
    /// Linux's Kyber.
    Kyber,
    /// Gimbal as published, but with a threshold that does not follow the latency: what the paper's figure 17 argues against.
    GimbalFixed,
    /// Gimbal as published, in the order of the authors' release, with which they measured.
    Gimbal,
    /// The same in the order of the paper's text.
    GimbalText,
    /// This project's own, before an SSD that was measured beforehand.
    LevelCalibrated,
    /// This project's own: finds out what an IO takes of the SSD while it serves.
    Level,
    /// First in, first out, and writes that would meet an exhausted buffer go to a store of 64 MiB.
    Ais64,
    /// The same with 128 MiB.
    Ais128,
    /// The same with 256 MiB.
    Ais256,
    /// The same with 512 MiB.
    Ais512,
}

/// The auxiliary store of an experiment: a small drive of its own, such as an old one for data centres.
const STORE_LATENCY: Nanos = Nanos::micros(20);
const STORE_RATE: ByteRate = ByteRate(2_000_000_000);

/// What a scheduler is in a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Before the SSD.
    pub policy: PolicyChoice,
    /// Between that and the SSD.
    pub auxiliary: Option<AuxiliaryChoice>,
    /// In the clients.
    pub clients: ClientChoice,
}

/// A scheduler needs a calibration that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} has no calibration for {profile}. {remedy}or leave {name} out. The lab has its calibrations for {}",
    calibrated(*.scheduler), name = .scheduler.name(), remedy = remedy(*.scheduler)
)]
pub struct NotCalibrated {
    /// Which.
    pub scheduler: Scheduler,
    /// For this profile.
    pub profile: String,
}

/// How to come by a calibration.
fn remedy(scheduler: Scheduler) -> &'static str {
    if scheduler.is_as_compared() {
        "It is a setting for the drive of the Gimbal paper, and there is none for others: choose another profile, "
    } else {
        "Make one with `gimbal lab calibrate --profile FILE --out CALIBRATION` and name it with --calibration, or with calibrations in \
         the experiment; "
    }
}

/// The profiles that a scheduler is calibrated for.
fn calibrated(scheduler: Scheduler) -> String {
    let is_calibrated = |name: &&str| {
        CalibratedSsd::find(name, Path::new("")).is_ok_and(|other| scheduler.setup(&other).is_ok())
    };
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
    if let Some(Former { now, what }) = Former::named(name) {
        return format!("the scheduler {name} {what}: write {now}");
    }
    let known: Vec<&str> = Scheduler::ALL.iter().map(|scheduler| scheduler.name()).collect();
    format!("there is no scheduler {name}; the schedulers are {}", known.join(", "))
}

/// What [`Scheduler::Level`] takes at most to measure two or three kinds of work twice, and to find its limit (docs/level.md).
const LEARNING: Nanos = Nanos::secs(5);
/// The fixed threshold of [`Scheduler::GimbalFixed`] (Gimbal, figure 17).
const FIXED_THRESHOLD: Nanos = Nanos::millis(2);

impl Scheduler {
    /// All, so that those of one experiment look different in figures: there are twelve looks, taken in turns.
    pub const ALL: [Scheduler; 24] = [
        Scheduler::None,
        Scheduler::Reflex,
        Scheduler::Flashfq,
        Scheduler::Parda,
        Scheduler::GimbalText,
        Scheduler::Gimbal,
        Scheduler::LevelCalibrated,
        Scheduler::Level,
        Scheduler::Ais64,
        Scheduler::ReflexCompared,
        Scheduler::FlashfqCompared,
        Scheduler::PardaCompared,
        Scheduler::Mclock,
        Scheduler::Ais128,
        Scheduler::Ais256,
        Scheduler::Ais512,
        Scheduler::GimbalFixed,
        Scheduler::SpdkQos,
        Scheduler::IoCost,
        Scheduler::MqDeadline,
        Scheduler::MqDeadline32,
        Scheduler::Kyber,
        Scheduler::Bfq,
        Scheduler::Bfq32,
    ];

    /// Its name in experiments, results and `gimbal serve`.
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::None => "none",
            Scheduler::Reflex => "reflex",
            Scheduler::Flashfq => "flashfq",
            Scheduler::Parda => "parda",
            Scheduler::ReflexCompared => "reflex-compared",
            Scheduler::FlashfqCompared => "flashfq-compared",
            Scheduler::PardaCompared => "parda-compared",
            Scheduler::Mclock => "mclock",
            Scheduler::SpdkQos => "spdk-qos",
            Scheduler::IoCost => "io-cost",
            Scheduler::MqDeadline => "mq-deadline",
            Scheduler::MqDeadline32 => "mq-deadline-32",
            Scheduler::Kyber => "kyber",
            Scheduler::Bfq => "bfq",
            Scheduler::Bfq32 => "bfq-32",
            Scheduler::GimbalFixed => "gimbal-fixed",
            Scheduler::Gimbal => "gimbal",
            Scheduler::GimbalText => "gimbal-text",
            Scheduler::LevelCalibrated => "level-calibrated",
            Scheduler::Level => "level",
            Scheduler::Ais64 => "ais-64m",
            Scheduler::Ais128 => "ais-128m",
            Scheduler::Ais256 => "ais-256m",
            Scheduler::Ais512 => "ais-512m",
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

    /// How long it must serve a mix before it is what it will be: it measures the SSD meanwhile.
    pub fn learns_for(self) -> Nanos {
        if self == Scheduler::Level { LEARNING } else { Nanos::ZERO }
    }

    /// Whether a paper's claims about Gimbal are judged under it.
    pub fn is_gimbal(self) -> bool {
        let ours = [Scheduler::Gimbal, Scheduler::GimbalText, Scheduler::LevelCalibrated, Scheduler::Level];
        ours.contains(&self)
    }

    /// The scheduler for this SSD.
    ///
    /// # Errors
    /// It needs a calibration, and there is none for this SSD.
    pub fn setup(self, ssd: &CalibratedSsd) -> Result<Setup, NotCalibrated> {
        let calibration = if self.is_as_compared() { &ssd.compared } else { &ssd.calibration };
        let setup = self.setup_with(&ssd.profile, calibration)?;
        let Some(size) = self.store() else { return Ok(setup) };
        let missing = || NotCalibrated { scheduler: self, profile: ssd.profile.name.clone() };
        let drive = ssd.drive.clone().ok_or_else(missing)?;
        let auxiliary = Some(AuxiliaryChoice { drive, size, latency: STORE_LATENCY, rate: STORE_RATE });
        Ok(Setup { auxiliary, ..setup })
    }

    /// Whether it is a baseline as the Gimbal paper compared with it. Such a setting was never made but for one drive.
    fn is_as_compared(self) -> bool {
        matches!(self, Scheduler::ReflexCompared | Scheduler::FlashfqCompared | Scheduler::PardaCompared)
    }

    /// The size of its auxiliary store.
    fn store(self) -> Option<Bytes> {
        match self {
            Scheduler::Ais64 => Some(Bytes::mib(64)),
            Scheduler::Ais128 => Some(Bytes::mib(128)),
            Scheduler::Ais256 => Some(Bytes::mib(256)),
            Scheduler::Ais512 => Some(Bytes::mib(512)),
            _ => None,
        }
    }

    /// The same with another calibration.
    ///
    /// # Errors
    /// It needs one, and `calibration` has none for it.
    pub fn setup_with(self, profile: &Profile, calibration: &Calibration) -> Result<Setup, NotCalibrated> {
        let device = DeviceConstants::from(&profile.switch);
        let missing = || NotCalibrated { scheduler: self, profile: profile.name.clone() };
        let mut clients = ClientChoice::Credits;
        let policy = match self {
            Scheduler::None
            | Scheduler::Ais64
            | Scheduler::Ais128
            | Scheduler::Ais256
            | Scheduler::Ais512 => PolicyChoice::None,
            Scheduler::Reflex | Scheduler::ReflexCompared => {
                PolicyChoice::Reflex(calibration.reflex.clone().ok_or_else(missing)?)
            }
            Scheduler::Flashfq | Scheduler::FlashfqCompared => {
                PolicyChoice::Flashfq(calibration.flashfq.ok_or_else(missing)?)
            }
            Scheduler::Parda | Scheduler::PardaCompared => {
                let config = calibration.parda.ok_or_else(missing)?;
                let scope =
                    if self == Scheduler::Parda { LatencyScope::AllHosts } else { LatencyScope::OwnHost };
                clients = ClientChoice::Parda { config, scope };
                PolicyChoice::None
            }
            Scheduler::Mclock => PolicyChoice::Mclock(MclockConfig::STANDARD),
            Scheduler::SpdkQos => PolicyChoice::SpdkQos(Some(device.rate_max)),
            Scheduler::IoCost => PolicyChoice::IoCost,
            Scheduler::MqDeadline => PolicyChoice::MqDeadline(MqDeadlineConfig::NVME),
            Scheduler::MqDeadline32 => PolicyChoice::MqDeadline(MqDeadlineConfig::SATA),
            Scheduler::Bfq => PolicyChoice::Bfq(BfqConfig::NVME.for_rate(device.rate_max)),
            Scheduler::Bfq32 => PolicyChoice::Bfq(BfqConfig::SATA.for_rate(device.rate_max)),
            Scheduler::Kyber => PolicyChoice::Kyber(KyberConfig::NVME),
            Scheduler::GimbalFixed => {
                let device = DeviceConstants { thresh_max: FIXED_THRESHOLD, ..device };
                PolicyChoice::Gimbal(GimbalConfig {
                    threshold_weight: None,
                    ..GimbalConfig::published(device)
                })
            }
            Scheduler::Gimbal => PolicyChoice::Gimbal(GimbalConfig::published(device)),
            Scheduler::GimbalText => PolicyChoice::Gimbal(GimbalConfig::as_written(device)),
            Scheduler::Level => PolicyChoice::Level(Learnt::default()),
            Scheduler::LevelCalibrated => PolicyChoice::LevelCalibrated(CalibratedConfig::new(
                device,
                calibration.level_calibrated.ok_or_else(missing)?,
            )),
        };
        Ok(Setup { policy, auxiliary: None, clients })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_experiment_can_name_was_calibrated() {
        for name in ["dct983", "dct983-b", "p3600", "pm1725a", "sn200", "consumer-slc"] {
            let ssd = CalibratedSsd::find(name, Path::new("")).expect("a profile that comes with gimbal");
            let has_buffer = ssd.drive.is_some();
            assert_eq!(has_buffer, name == "consumer-slc", "{name}");
            let is_papers = name.starts_with("dct983");
            let can = |one: &Scheduler| {
                (one.store().is_none() || has_buffer) && (!one.is_as_compared() || is_papers)
            };
            for scheduler in Scheduler::ALL.into_iter().filter(can) {
                scheduler.setup(&ssd).unwrap_or_else(|missing| panic!("{missing}"));
            }
        }
    }

    #[test]
    fn an_old_name_is_answered_with_the_new_one() {
        let renamed =
            [("gimbal-paper", "gimbal"), ("gimbal-next", "level-calibrated"), ("level-learned", "level")];
        for (old, new) in renamed {
            let said = Scheduler::named(old).expect_err("it was renamed").to_string();
            assert_eq!(said, format!("the scheduler {old} is called {new} now: write {new}"));
            assert_eq!(Scheduler::named(new).map(Scheduler::name), Ok(new));
        }
        let said = Scheduler::named("gimbal-fair").expect_err("it is gone").to_string();
        assert!(said.ends_with("is gone; level is fairer and needs no constants: write level"), "{said}");
        let said = Scheduler::named("fifo").expect_err("there is none").to_string();
        assert!(said.starts_with("there is no scheduler fifo; the schedulers are none, reflex"), "{said}");
    }

    /// A copy of a built-in profile in a file, with one number changed.
    fn changed_copy() -> CalibratedSsd {
        let mut profile = Profile::named("p3600").expect("a profile that comes with gimbal");
        profile.firmware.write_command += Nanos(1);
        let path = std::env::temp_dir().join(format!("gimbal-lab-{}.toml", std::process::id()));
        std::fs::write(&path, profile.to_toml()).expect("temporary files can be written");
        let found = CalibratedSsd::find(&path.display().to_string(), Path::new("/nowhere"));
        std::fs::remove_file(&path).expect("it was just written");
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        // A profile in a file is called as the file.
        profile.name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        assert_eq!(found.profile, profile);
        found
    }

    #[test]
    fn a_changed_copy_of_a_built_in_profile_is_not_calibrated() {
        let ssd = changed_copy();
        let error = |scheduler: Scheduler| scheduler.setup(&ssd).expect_err("nobody did it").to_string();
        let said = error(Scheduler::Reflex);
        let begins = format!(
            "reflex has no calibration for {}. Make one with `gimbal lab calibrate",
            ssd.profile.name
        );
        assert!(said.starts_with(&begins), "{said}");
        assert!(said.ends_with("for consumer-slc, dct983, dct983-b, p3600, pm1725a, sn200"), "{said}");
        assert!(
            error(Scheduler::Parda)
                .ends_with("for array, consumer-slc, dct983, dct983-b, p3600, pm1725a, sn200")
        );
        let said = error(Scheduler::PardaCompared);
        assert!(said.contains("choose another profile, or leave parda-compared out"), "{said}");
        assert!(said.ends_with("for dct983, dct983-b"), "{said}");
        assert!(Scheduler::Gimbal.setup(&ssd).is_ok(), "it measures by itself");
    }
}
