//! The names that experiments compare: the schedulers of the table, and variants with another client's half, an auxiliary store, another drive's
//! queue, or other constants.

use crate::ssds::{CALIBRATIONS, CalibratedSsd};
use sched::{BfqConfig, Calibration, DeviceConstants, Facts, GimbalConfig, Learnt, MqDeadlineConfig, Needs};
use sim::LatencyScope;
use sim::{AuxiliaryChoice, ClientChoice, PolicyChoice};
use ssd::Profile;
use std::hash::{Hash, Hasher};
use std::path::Path;
use units::{ByteRate, Bytes, Nanos};

/// A scheduler that experiments can name, with its clients and its auxiliary store.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    name: &'static str,
    row: &'static sched::Scheduler,
    clients: Clients,
    store: Option<Bytes>,
    constants: Constants,
}

/// The way in which clients limit their outstanding IOs.
#[derive(Clone, Copy, Debug)]
enum Clients {
    /// By credits.
    Credits,
    /// By PARDA.
    Parda(LatencyScope),
}

/// The constants of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constants {
    /// Those of the table, with the calibration of the SSD.
    Usual,
    /// Those that the Gimbal paper used in its comparison.
    Compared,
    /// A threshold that does not follow the latency: the paper's figure 17 argues against it.
    FixedThreshold,
    /// Those of Linux for a drive that takes 32 IOs at a time, like a SATA drive.
    Sata,
}

/// The auxiliary store of an experiment: a small drive of its own, such as an old one for data centres.
const STORE_LATENCY: Nanos = Nanos::micros(20);
const STORE_RATE: ByteRate = ByteRate(2_000_000_000);

/// The form of a scheduler in a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The scheduler in front of the SSD.
    pub policy: PolicyChoice,
    /// The auxiliary store between scheduler and SSD.
    pub auxiliary: Option<AuxiliaryChoice>,
    /// The clients' part.
    pub clients: ClientChoice,
}

/// The error for a scheduler that needs a calibration that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name} has no calibration for {profile}. {remedy}or leave {name} out. The lab has its calibrations for {}",
    calibrated(*.scheduler), name = .scheduler.name(), remedy = remedy(*.scheduler)
)]
pub struct NotCalibrated {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The profile without a calibration.
    pub profile: String,
}

/// Advice on how to get a calibration.
fn remedy(scheduler: Scheduler) -> &'static str {
    if scheduler.is_as_compared() {
        "It is a setting for the drive of the Gimbal paper, and there is none for others: choose another profile, "
    } else {
        "Make one with `gimbal lab calibrate --profile FILE --out CALIBRATION` and name it with --calibration, or with calibrations in \
         the experiment; "
    }
}

/// The profiles for which a scheduler is calibrated.
fn calibrated(scheduler: Scheduler) -> String {
    let is_calibrated = |name: &&str| {
        CalibratedSsd::find(name, Path::new("")).is_ok_and(|other| scheduler.setup(&other).is_ok())
    };
    let names: Vec<&str> = CALIBRATIONS.iter().map(|(name, _)| *name).filter(is_calibrated).collect();
    names.join(", ")
}

/// The error for a name that no scheduler has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", unknown(.name))]
pub struct UnknownScheduler {
    /// The requested name.
    pub name: String,
}

/// Lists the known names.
fn unknown(name: &str) -> String {
    let known: Vec<&str> = Scheduler::all().map(Scheduler::name).collect();
    format!("there is no scheduler {name}; the schedulers are {}", known.join(", "))
}

/// The longest time in which [`Scheduler::LEVEL`] measures two or three kinds of work twice and finds its limit (docs/level.md).
const LEARNING: Nanos = Nanos::secs(5);
/// The fixed threshold of `gimbal-fixed` (Gimbal, figure 17).
const FIXED_THRESHOLD: Nanos = Nanos::millis(2);

/// The schedulers that differ from their row of the table.
const VARIANTS: [Scheduler; 11] = [
    // Windows in the hosts, first in, first out before the SSD.
    Scheduler::PARDA,
    Scheduler { name: "reflex-compared", constants: Constants::Compared, ..Scheduler::REFLEX },
    Scheduler { name: "flashfq-compared", constants: Constants::Compared, ..Scheduler::FLASHFQ },
    // Each host knows only its own latency.
    Scheduler {
        name: "parda-compared",
        clients: Clients::Parda(LatencyScope::OwnHost),
        constants: Constants::Compared,
        ..Scheduler::NONE
    },
    Scheduler { name: "gimbal-fixed", constants: Constants::FixedThreshold, ..Scheduler::GIMBAL },
    Scheduler {
        name: "mq-deadline-32",
        constants: Constants::Sata,
        ..Scheduler::of(sched::Scheduler::MQ_DEADLINE)
    },
    Scheduler { name: "bfq-32", constants: Constants::Sata, ..Scheduler::of(sched::Scheduler::BFQ) },
    // Writes that would find the buffer exhausted go to a store of this size.
    Scheduler { name: "ais-64m", store: Some(Bytes::mib(64)), ..Scheduler::NONE },
    Scheduler { name: "ais-128m", store: Some(Bytes::mib(128)), ..Scheduler::NONE },
    Scheduler { name: "ais-256m", store: Some(Bytes::mib(256)), ..Scheduler::NONE },
    Scheduler { name: "ais-512m", store: Some(Bytes::mib(512)), ..Scheduler::NONE },
];

impl Scheduler {
    /// First in, first out.
    pub const NONE: Scheduler = Scheduler::of(sched::Scheduler::NONE);
    /// ReFlex, all tenants best-effort.
    pub const REFLEX: Scheduler = Scheduler::of(sched::Scheduler::REFLEX);
    /// FlashFQ.
    pub const FLASHFQ: Scheduler = Scheduler::of(sched::Scheduler::FLASHFQ);
    /// Gimbal as published.
    pub const GIMBAL: Scheduler = Scheduler::of(sched::Scheduler::GIMBAL);
    /// This project's own, for an SSD that was measured beforehand.
    pub const LEVEL_CALIBRATED: Scheduler = Scheduler::of(sched::Scheduler::LEVEL_CALIBRATED);
    /// This project's own.
    pub const LEVEL: Scheduler = Scheduler::of(sched::Scheduler::LEVEL);
    /// PARDA: windows in the hosts, first in, first out before the SSD.
    pub const PARDA: Scheduler =
        Scheduler { name: "parda", clients: Clients::Parda(LatencyScope::AllHosts), ..Scheduler::NONE };

    /// The scheduler of a row of the table, without changes.
    const fn of(row: &'static sched::Scheduler) -> Scheduler {
        let (clients, store, constants) = (Clients::Credits, None, Constants::Usual);
        Scheduler { name: row.name, row, clients, store, constants }
    }

    /// All schedulers: the table, then the variants.
    pub fn all() -> impl Iterator<Item = Scheduler> {
        sched::Scheduler::ALL.into_iter().map(Scheduler::of).chain(VARIANTS)
    }

    /// Its name in experiments and results. One that is a row of the table has the same in `gimbal serve`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The row of the table, if this scheduler is that row without changes.
    pub fn row(self) -> Option<&'static sched::Scheduler> {
        (self.name == self.row.name).then_some(self.row)
    }

    /// Finds the scheduler with a name.
    ///
    /// # Errors
    /// No scheduler has this name (any more).
    pub fn named(name: &str) -> Result<Scheduler, UnknownScheduler> {
        let known = Scheduler::all().find(|scheduler| scheduler.name == name);
        known.ok_or_else(|| UnknownScheduler { name: name.to_owned() })
    }

    /// Time for which it must serve a mix to reach its final behaviour, because it measures the SSD meanwhile.
    pub fn learns_for(self) -> Nanos {
        if self.row.learns { LEARNING } else { Nanos::ZERO }
    }

    /// Whether a paper's claims about Gimbal are judged under it.
    pub fn is_gimbal(self) -> bool {
        ["gimbal", "gimbal-text", "level-calibrated", "level"].contains(&self.name)
    }

    /// The scheduler for this SSD.
    ///
    /// # Errors
    /// It needs a calibration, and there is none for this SSD.
    pub fn setup(self, ssd: &CalibratedSsd) -> Result<Setup, NotCalibrated> {
        let calibration = if self.is_as_compared() { &ssd.compared } else { &ssd.calibration };
        let setup = self.setup_with(&ssd.profile, calibration)?;
        let Some(size) = self.store else { return Ok(setup) };
        let missing = || NotCalibrated { scheduler: self, profile: ssd.profile.name.clone() };
        let drive = ssd.drive.clone().ok_or_else(missing)?;
        let auxiliary = Some(AuxiliaryChoice { drive, size, latency: STORE_LATENCY, rate: STORE_RATE });
        Ok(Setup { auxiliary, ..setup })
    }

    /// Whether it is a baseline with the Gimbal paper's settings. Such settings exist for one drive only.
    fn is_as_compared(self) -> bool {
        self.constants == Constants::Compared
    }

    /// The setup with another calibration.
    ///
    /// # Errors
    /// It needs one, and `calibration` has none for it.
    pub fn setup_with(self, profile: &Profile, calibration: &Calibration) -> Result<Setup, NotCalibrated> {
        let missing = || NotCalibrated { scheduler: self, profile: profile.name.clone() };
        let clients = match self.clients {
            Clients::Credits => ClientChoice::Credits,
            Clients::Parda(scope) => {
                ClientChoice::Parda { config: calibration.parda.ok_or_else(missing)?, scope }
            }
        };
        let device = DeviceConstants::from(&profile.switch);
        let facts = Facts {
            constants: device,
            rate_start: None,
            write_cost_best: None,
            lag_max: None,
            calibration,
            learnt: &Learnt::default(),
            rates: None,
        };
        let policy = match (self.constants, self.row.needs) {
            (Constants::Usual | Constants::Compared, Needs::Rates) => PolicyChoice::Measured(self.row),
            (Constants::Usual | Constants::Compared, _) => {
                PolicyChoice::Ready(self.row.set_up(&facts).map_err(|_| missing())?)
            }
            (Constants::FixedThreshold, _) => {
                let device = DeviceConstants { thresh_max: FIXED_THRESHOLD, ..device };
                let config = GimbalConfig { threshold_weight: None, ..GimbalConfig::published(device) };
                PolicyChoice::from(config)
            }
            (Constants::Sata, _) if self.row == sched::Scheduler::BFQ => {
                PolicyChoice::from(BfqConfig::SATA.for_rate(device.rate_max))
            }
            (Constants::Sata, _) => PolicyChoice::from(MqDeadlineConfig::SATA),
        };
        Ok(Setup { policy, auxiliary: None, clients })
    }
}

impl PartialEq for Scheduler {
    fn eq(&self, other: &Scheduler) -> bool {
        self.name == other.name
    }
}

impl Eq for Scheduler {}

impl Hash for Scheduler {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
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
            let can =
                |one: &Scheduler| (one.store.is_none() || has_buffer) && (!one.is_as_compared() || is_papers);
            for scheduler in Scheduler::all().filter(can) {
                scheduler.setup(&ssd).unwrap_or_else(|missing| panic!("{missing}"));
            }
        }
    }

    #[test]
    fn a_name_that_no_scheduler_has_is_answered_with_all_names() {
        let said = Scheduler::named("fifo").expect_err("there is none").to_string();
        assert!(said.starts_with("there is no scheduler fifo; the schedulers are level, gimbal"), "{said}");
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
        // A profile in a file has the name of the file.
        profile.name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        assert_eq!(found.profile, profile);
        found
    }

    #[test]
    fn a_changed_copy_of_a_built_in_profile_is_not_calibrated() {
        let ssd = changed_copy();
        let error = |scheduler: Scheduler| scheduler.setup(&ssd).expect_err("nobody did it").to_string();
        let said = error(Scheduler::REFLEX);
        let begins = format!(
            "reflex has no calibration for {}. Make one with `gimbal lab calibrate",
            ssd.profile.name
        );
        assert!(said.starts_with(&begins), "{said}");
        assert!(said.ends_with("for consumer-slc, dct983, dct983-b, p3600, pm1725a, sn200"), "{said}");
        assert!(
            error(Scheduler::PARDA)
                .ends_with("for array, consumer-slc, dct983, dct983-b, p3600, pm1725a, sn200")
        );
        let said = error(Scheduler::named("parda-compared").expect("it is a variant"));
        assert!(said.contains("choose another profile, or leave parda-compared out"), "{said}");
        assert!(said.ends_with("for dct983, dct983-b"), "{said}");
        assert!(Scheduler::GIMBAL.setup(&ssd).is_ok(), "it measures by itself");
    }
}
