//! The simulated world, as plain data. Together with its seed it determines every byte of the results.

use crate::auxiliary::AuxiliaryChoice;
use crate::checkers::Violation;
use crate::io_cost::io_cost_model;
use crate::network::Network;
use crate::workload::Workload;
use sched::{
    Calibration, DeviceConstants, Factory, Facts, Learnt, PardaConfig, Policy, Scheduler, Setup, Share,
    Unconfigured,
};
use ssd::{Condition, Image, Profile};
use units::{Instant, Nanos};

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct World {
    /// Determines every random choice of workloads, network and device.
    pub seed: u64,
    /// The SSD.
    pub profile: Profile,
    /// The initial state of its flash.
    pub condition: Condition,
    /// The scheduler.
    pub policy: PolicyChoice,
    /// The stage between it and the SSD, if there is one.
    pub auxiliary: Option<AuxiliaryChoice>,
    /// The clients' limit on their outstanding IOs.
    pub clients: ClientChoice,
    /// The network between the clients and the switch.
    pub network: Network,
    /// The tenants. The index of a tenant is its [`units::TenantId`].
    pub tenants: Vec<TenantSpec>,
    /// Not included in the results.
    pub warm_up: Nanos,
    /// Measured time after the warm-up. Then the workloads stop, and the run waits for outstanding IOs.
    pub duration: Nanos,
    /// Length of one point of the series. Never zero.
    pub interval: Nanos,
}

impl World {
    /// When the workloads stop.
    pub fn end(&self) -> Instant {
        Instant::ZERO + self.warm_up + self.duration
    }
}

/// The scheduler of a world.
#[derive(Clone, Debug)]
pub enum PolicyChoice {
    /// With these constants.
    Ready(Setup),
    /// Told the rates that are measured on the world's SSD ([`io_cost_model`]).
    Measured(&'static Scheduler),
}

impl<F: Factory + 'static> From<F> for PolicyChoice {
    fn from(factory: F) -> PolicyChoice {
        PolicyChoice::Ready(Setup::from(factory))
    }
}

impl PolicyChoice {
    /// First in, first out.
    pub fn none() -> PolicyChoice {
        PolicyChoice::from(Unconfigured)
    }

    /// The scheduler itself, for this SSD.
    ///
    /// # Errors
    /// Something must be measured of the SSD first, and that broke a rule of the simulator.
    ///
    /// # Panics
    /// A scheduler that needs rates needs something else.
    pub fn build(&self, image: &Image) -> Result<Box<dyn Policy>, Violation> {
        match self {
            PolicyChoice::Ready(setup) => Ok(setup.build()),
            PolicyChoice::Measured(scheduler) => {
                let facts = Facts {
                    constants: DeviceConstants::from(&image.profile().switch),
                    rate_start: None,
                    write_cost_best: None,
                    lag_max: None,
                    calibration: &Calibration::default(),
                    learnt: &Learnt::default(),
                    rates: Some(io_cost_model(image)?),
                };
                Ok(scheduler.set_up(&facts).expect("it needs rates").build())
            }
        }
    }

    /// Its row.
    pub fn scheduler(&self) -> &'static Scheduler {
        match self {
            PolicyChoice::Ready(setup) => setup.scheduler(),
            PolicyChoice::Measured(scheduler) => scheduler,
        }
    }
}

/// The clients' limit on their outstanding IOs.
#[derive(Clone, Debug, Default)]
pub enum ClientChoice {
    /// By the switch's credit; unlimited with a scheduler that gives none.
    #[default]
    Credits,
    /// By PARDA: a window per host, set by the latency that the hosts see. Credits are ignored.
    Parda {
        /// The same for every host.
        config: PardaConfig,
        /// The latency that a host uses.
        scope: LatencyScope,
    },
}

/// The latency that a host uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyScope {
    /// That of all hosts: at the end of a period, each host reads what all have published, without delay.
    AllHosts,
    /// Its own.
    OwnHost,
}

/// One tenant.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name in reports.
    pub name: String,
    /// Its workload.
    pub workload: Workload,
    /// Its share.
    pub share: Share,
    /// Whether its client obeys the credit or window. One that does not is like a host without either
    /// (Linux).
    pub obeys_credit: bool,
    /// With PARDA: tenants that name the same host are VMs on it, with their weights as shares. `None`: the
    /// tenant has its own host.
    pub host: Option<u32>,
    /// When it starts.
    pub start: Instant,
    /// When it stops; at the latest at the end of the run.
    pub stop: Instant,
    /// From the first instant until the second it asks for nothing: it goes away and comes back.
    pub away: Option<(Instant, Instant)>,
}

impl TenantSpec {
    /// A tenant that is active during the whole run, has an equal share, and obeys its credit.
    pub fn new(name: impl Into<String>, workload: Workload) -> TenantSpec {
        TenantSpec {
            name: name.into(),
            workload,
            share: Share::EQUAL,
            obeys_credit: true,
            host: None,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
            away: None,
        }
    }
}
