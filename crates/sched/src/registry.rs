//! The table of schedulers: everything that lists schedulers walks it.
//!
//! ```text
//!   Scheduler (a row)  ── set_up(facts of an SSD) ──►  Setup (a scheduler with its constants)  ── build() ──►  dyn Policy
//! ```
//!
//! A new scheduler is its own file, with a [`Factory`] for its constants, and a row here. Configurations, simulated worlds, the lab, fuzzers and
//! instruction counts then have it.
//!
//! Holds: every row can be set up from the facts of the paper's drive, and builds a scheduler of its own name
//!        (`every_row_can_be_set_up`); elsewhere, that each has a test of its own against a naive model or of its
//!        invariants (`every_scheduler_is_tested` in `tests/policies/every.rs`).

use crate::{
    Bfq, BfqConfig, CalibratedConfig, Calibration, Cost, DeviceConstants, Fifo, Flashfq, FlashfqConfig,
    Gimbal, GimbalConfig, GimbalOrder, IoCost, IoCostConfig, Kyber, KyberConfig, Learnt, Level,
    LevelCalibrated, Mclock, MclockConfig, MqDeadline, MqDeadlineConfig, Policy, Reflex, ReflexConfig,
    SpdkQos,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt::Debug;
use units::{ByteRate, Bytes};

/// A scheduler that can be chosen by its name.
#[derive(Debug)]
pub struct Scheduler {
    /// As configurations and experiments write it.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// The constants of [`Facts`] that it reads, as configurations write them.
    pub constants: &'static [&'static str],
    /// Facts that it cannot do without.
    pub needs: Needs,
    /// Whether it learns the device time of IOs, and can take over the prices learnt by an earlier run.
    pub learns: bool,
    /// Whether it keeps reservations.
    pub keeps_reservations: bool,
    /// Whether it keeps to objectives of latency.
    pub keeps_objectives: bool,
    set_up: fn(&Facts<'_>) -> Option<Setup>,
}

/// Facts of an SSD that a scheduler cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// No facts.
    Nothing,
    /// [`Facts::calibration`], with a table for it.
    Calibration,
    /// [`Facts::rates`].
    Rates,
}

/// Facts of an SSD, and constants that its operator chose for the scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its constants.
    pub constants: DeviceConstants,
    /// The first target rate; `None`: the scheduler's own.
    pub rate_start: Option<ByteRate>,
    /// The cost of a written byte at its best, if it is not to be the scheduler's own.
    pub write_cost_best: Option<Cost>,
    /// The device time that the least-served tenant may be behind; `None`: the scheduler's own.
    pub lag_max: Option<Bytes>,
    /// Its calibration.
    pub calibration: &'a Calibration,
    /// The prices and reads that a scheduler has learnt of it.
    pub learnt: &'a Learnt,
    /// The rates of single streams.
    pub rates: Option<IoCostConfig>,
}

/// The error of a scheduler that needs facts that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing(pub Needs);

/// Makes a scheduler with its constants, any number of times.
pub trait Factory: Debug + Send + Sync {
    /// The row of the scheduler.
    fn scheduler(&self) -> &'static Scheduler;

    /// A new one, with nothing queued.
    fn build(&self) -> Box<dyn Policy>;

    /// Checks its constants for contradictions.
    ///
    /// # Errors
    /// They contradict each other.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Its constants as the table of a calibration, if they come from one.
    fn calibration(&self) -> Calibration {
        Calibration::default()
    }
}

/// A scheduler with its constants.
#[derive(Clone, Debug)]
pub struct Setup(Arc<dyn Factory>);

impl Setup {
    /// The row of the scheduler.
    pub fn scheduler(&self) -> &'static Scheduler {
        self.0.scheduler()
    }

    /// A new one, with nothing queued.
    pub fn build(&self) -> Box<dyn Policy> {
        self.0.build()
    }

    /// See [`Factory::check`].
    ///
    /// # Errors
    /// The constants contradict each other.
    pub fn check(&self) -> Result<(), &'static str> {
        self.0.check()
    }

    /// See [`Factory::calibration`].
    pub fn calibration(&self) -> Calibration {
        self.0.calibration()
    }
}

impl<F: Factory + 'static> From<F> for Setup {
    fn from(factory: F) -> Setup {
        Setup(Arc::new(factory))
    }
}

/// Constants of a device that Gimbal reads.
const OF_GIMBAL: &[&str] = &[
    "profile",
    "thresh_min",
    "thresh_max",
    "write_cost_best",
    "write_cost_worst",
    "slots",
    "rate_min",
    "rate_max",
];
/// The same of level-calibrated.
const OF_LEVEL_CALIBRATED: &[&str] = &[
    "profile",
    "thresh_min",
    "thresh_max",
    "write_cost_best",
    "write_cost_worst",
    "slots",
    "lag_max",
    "rate_min",
    "rate_max",
];
/// The same of those that go by the highest rate of the device.
const OF_RATE: &[&str] = &["profile", "rate_max"];

/// A row with nothing special, which the others change.
const PLAIN: Scheduler = Scheduler {
    name: "",
    about: "",
    constants: &[],
    needs: Needs::Nothing,
    learns: false,
    keeps_reservations: false,
    keeps_objectives: false,
    set_up: |_| None,
};

impl Scheduler {
    /// First in, first out.
    pub const NONE: &'static Scheduler = &Scheduler {
        name: "none",
        about: "First in, first out",
        set_up: |_| Some(Setup::from(Unconfigured)),
        ..PLAIN
    };
    /// ReFlex.
    pub const REFLEX: &'static Scheduler = &Scheduler {
        name: "reflex",
        about: "ReFlex: tokens, by a calibrated model of the device",
        needs: Needs::Calibration,
        keeps_objectives: true,
        set_up: |facts| facts.calibration.reflex.clone().map(Setup::from),
        ..PLAIN
    };
    /// FlashFQ.
    pub const FLASHFQ: &'static Scheduler = &Scheduler {
        name: "flashfq",
        about: "FlashFQ: equal shares of device time, by a calibrated model of the device",
        needs: Needs::Calibration,
        set_up: |facts| facts.calibration.flashfq.map(Setup::from),
        ..PLAIN
    };
    /// Gimbal in the order of the paper's text.
    pub const GIMBAL_TEXT: &'static Scheduler = &Scheduler {
        name: "gimbal-text",
        about: "Gimbal as its paper's text has it: all wait behind an IO that the token buckets cannot pay",
        constants: OF_GIMBAL,
        keeps_reservations: true,
        set_up: |facts| Some(Setup::from(gimbal(facts, GimbalOrder::Text))),
        ..PLAIN
    };
    /// Gimbal as published, in the order of the authors' release, with which they measured.
    pub const GIMBAL: &'static Scheduler = &Scheduler {
        name: "gimbal",
        about: "Gimbal as published: IOs that the token buckets cannot pay wait aside",
        constants: OF_GIMBAL,
        keeps_reservations: true,
        set_up: |facts| Some(Setup::from(gimbal(facts, GimbalOrder::Release))),
        ..PLAIN
    };
    /// This project's own, for a device that was measured beforehand.
    pub const LEVEL_CALIBRATED: &'static Scheduler = &Scheduler {
        name: "level-calibrated",
        about: "Fair shares of device time, by a calibrated model of the device",
        constants: OF_LEVEL_CALIBRATED,
        needs: Needs::Calibration,
        keeps_reservations: true,
        set_up: |facts| {
            let config = CalibratedConfig::new(facts.constants, facts.calibration.level_calibrated?);
            Some(Setup::from(CalibratedConfig { lag_max: facts.lag_max.unwrap_or(config.lag_max), ..config }))
        },
        ..PLAIN
    };
    /// This project's own, and the default: measures the device time of IOs while it serves.
    pub const LEVEL: &'static Scheduler = &Scheduler {
        name: "level",
        about: "Fair shares of device time on any device: measures it now and then, for up to half a second",
        learns: true,
        keeps_reservations: true,
        keeps_objectives: true,
        set_up: |facts| Some(Setup::from(facts.learnt.clone())),
        ..PLAIN
    };
    /// mClock.
    pub const MCLOCK: &'static Scheduler = &Scheduler {
        name: "mclock",
        about: "mClock: reservations, limits and weights of IOs, by tags",
        keeps_reservations: true,
        set_up: |_| Some(Setup::from(MclockConfig::STANDARD)),
        ..PLAIN
    };
    /// SPDK's limits.
    pub const SPDK_QOS: &'static Scheduler = &Scheduler {
        name: "spdk-qos",
        about: "SPDK's limits: tenants without one divide the highest rate of the device",
        constants: OF_RATE,
        set_up: |facts| Some(Setup::from(SpdkQosConfig { rate: Some(facts.constants.rate_max) })),
        ..PLAIN
    };
    /// Linux's io.cost.
    pub const IO_COST: &'static Scheduler = &Scheduler {
        name: "io-cost",
        about: "Linux's io.cost: weights of device time, by rates that its tool measures",
        needs: Needs::Rates,
        set_up: |facts| facts.rates.map(Setup::from),
        ..PLAIN
    };
    /// Linux's mq-deadline.
    pub const MQ_DEADLINE: &'static Scheduler = &Scheduler {
        name: "mq-deadline",
        about: "Linux's mq-deadline, before an NVMe drive",
        set_up: |_| Some(Setup::from(MqDeadlineConfig::NVME)),
        ..PLAIN
    };
    /// Linux's Kyber.
    pub const KYBER: &'static Scheduler = &Scheduler {
        name: "kyber",
        about: "Linux's Kyber, before an NVMe drive",
        set_up: |_| Some(Setup::from(KyberConfig::NVME)),
        ..PLAIN
    };
    /// Linux's BFQ.
    pub const BFQ: &'static Scheduler = &Scheduler {
        name: "bfq",
        about: "Linux's BFQ, before an NVMe drive",
        constants: OF_RATE,
        set_up: |facts| Some(Setup::from(BfqConfig::NVME.for_rate(facts.constants.rate_max))),
        ..PLAIN
    };

    /// All of them, the default first.
    pub const ALL: [&'static Scheduler; 13] = [
        Scheduler::LEVEL,
        Scheduler::GIMBAL,
        Scheduler::GIMBAL_TEXT,
        Scheduler::LEVEL_CALIBRATED,
        Scheduler::REFLEX,
        Scheduler::FLASHFQ,
        Scheduler::MCLOCK,
        Scheduler::SPDK_QOS,
        Scheduler::IO_COST,
        Scheduler::MQ_DEADLINE,
        Scheduler::KYBER,
        Scheduler::BFQ,
        Scheduler::NONE,
    ];

    /// The scheduler of a name.
    pub fn named(name: &str) -> Option<&'static Scheduler> {
        Scheduler::ALL.into_iter().find(|scheduler| scheduler.name == name)
    }

    /// Whether it reads the constant with this name in configurations.
    pub fn reads(&self, constant: &str) -> bool {
        self.constants.contains(&constant)
    }

    /// Whether it needs a calibration of the device.
    pub fn needs_calibration(&self) -> bool {
        self.needs == Needs::Calibration
    }

    /// The scheduler for an SSD of which this is known.
    ///
    /// # Errors
    /// It needs facts that are missing.
    pub fn set_up(&self, facts: &Facts<'_>) -> Result<Setup, Missing> {
        (self.set_up)(facts).ok_or(Missing(self.needs))
    }
}

/// The default.
impl Default for &'static Scheduler {
    fn default() -> &'static Scheduler {
        Scheduler::LEVEL
    }
}

impl PartialEq for Scheduler {
    fn eq(&self, other: &Scheduler) -> bool {
        self.name == other.name
    }
}

impl Eq for Scheduler {}

fn gimbal(facts: &Facts<'_>, order: GimbalOrder) -> GimbalConfig {
    let mut config = GimbalConfig { order, ..GimbalConfig::published(facts.constants) };
    config.device.write_cost_best = facts.write_cost_best.unwrap_or(config.device.write_cost_best);
    GimbalConfig { rate_start: facts.rate_start.unwrap_or(config.rate_start), ..config }
}

/// The empty constants of FIFO.
#[derive(Clone, Copy, Debug)]
pub struct Unconfigured;

/// SPDK's limits, as constants.
#[derive(Clone, Copy, Debug)]
pub struct SpdkQosConfig {
    /// Rest that tenants without a share divide among them.
    pub rate: Option<ByteRate>,
}

impl Factory for Unconfigured {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::NONE
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(Fifo::default())
    }
}

impl Factory for SpdkQosConfig {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::SPDK_QOS
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(SpdkQos::new(self.rate))
    }
}

impl Factory for GimbalConfig {
    fn scheduler(&self) -> &'static Scheduler {
        match self.order {
            GimbalOrder::Release => Scheduler::GIMBAL,
            GimbalOrder::Text => Scheduler::GIMBAL_TEXT,
        }
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(Gimbal::new(*self))
    }

    fn check(&self) -> Result<(), &'static str> {
        GimbalConfig::check(self)
    }
}

impl Factory for CalibratedConfig {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::LEVEL_CALIBRATED
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(LevelCalibrated::new(*self))
    }

    fn check(&self) -> Result<(), &'static str> {
        CalibratedConfig::check(self)
    }

    fn calibration(&self) -> Calibration {
        Calibration { level_calibrated: Some(self.costs), ..Calibration::default() }
    }
}

impl Factory for Learnt {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::LEVEL
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(Level::told(self))
    }
}

impl Factory for ReflexConfig {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::REFLEX
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(Reflex::new(self.clone()))
    }

    fn check(&self) -> Result<(), &'static str> {
        ReflexConfig::check(self)
    }

    fn calibration(&self) -> Calibration {
        Calibration { reflex: Some(self.clone()), ..Calibration::default() }
    }
}

impl Factory for FlashfqConfig {
    fn scheduler(&self) -> &'static Scheduler {
        Scheduler::FLASHFQ
    }

    fn build(&self) -> Box<dyn Policy> {
        Box::new(Flashfq::new(*self))
    }

    fn check(&self) -> Result<(), &'static str> {
        FlashfqConfig::check(self)
    }

    fn calibration(&self) -> Calibration {
        Calibration { flashfq: Some(*self), ..Calibration::default() }
    }
}

/// Factories with nothing of their own but the row and the scheduler.
macro_rules! plain_factories {
    ($($config:ty => $row:ident, $policy:ident;)*) => {$(
        impl Factory for $config {
            fn scheduler(&self) -> &'static Scheduler {
                Scheduler::$row
            }

            fn build(&self) -> Box<dyn Policy> {
                Box::new($policy::new(*self))
            }
        }
    )*};
}

plain_factories! {
    MclockConfig => MCLOCK, Mclock;
    IoCostConfig => IO_COST, IoCost;
    MqDeadlineConfig => MQ_DEADLINE, MqDeadline;
    KyberConfig => KYBER, Kyber;
    BfqConfig => BFQ, Bfq;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PapersDrive;

    #[test]
    fn every_row_can_be_set_up() {
        let drive = PapersDrive::new();
        for (place, row) in Scheduler::ALL.into_iter().enumerate() {
            let setup =
                row.set_up(&drive.facts()).unwrap_or_else(|missing| panic!("{}: {missing:?}", row.name));
            assert_eq!(setup.scheduler(), row);
            assert_eq!(setup.check(), Ok(()), "{}", row.name);
            assert_eq!(setup.build().backlog(), crate::Backlog::default(), "{}", row.name);
            assert_eq!(Scheduler::named(row.name), Some(row));
            assert!(!row.about.is_empty() && !Scheduler::ALL[..place].contains(&row), "{}", row.name);
        }
        assert_eq!(Scheduler::named("fifo"), None);
    }

    #[test]
    fn a_scheduler_says_which_facts_are_missing() {
        let (calibration, learnt) = (Calibration::default(), Learnt::default());
        let facts =
            Facts { calibration: &calibration, learnt: &learnt, rates: None, ..PapersDrive::new().facts() };
        for row in Scheduler::ALL {
            let missing = row.set_up(&facts).err().map_or(Needs::Nothing, |Missing(needs)| needs);
            assert_eq!(missing, row.needs, "{}", row.name);
        }
    }
}
