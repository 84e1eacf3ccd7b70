//! What is simulated: a world is plain data, and together with its seed it determines every byte of the results.

use crate::network::Network;
use crate::workload::Workload;
use sched::{
    Fifo, Flashfq, FlashfqConfig, Gimbal, GimbalConfig, PardaConfig, Policy, Reflex, ReflexConfig, Share,
};
use ssd::{Condition, Profile};
use units::{Instant, Nanos};

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub struct World {
    /// Decides every random choice of workloads, network and device.
    pub seed: u64,
    /// The SSD.
    pub profile: Profile,
    /// The state its flash is in when the run starts.
    pub condition: Condition,
    /// The scheduler in front of it.
    pub policy: PolicyChoice,
    /// What holds the clients back.
    pub clients: ClientChoice,
    /// What lies between the clients and the switch.
    pub network: Network,
    /// Who uses it. A tenant's [`units::TenantId`] is its place here.
    pub tenants: Vec<TenantSpec>,
    /// Left out of the results.
    pub warm_up: Nanos,
    /// Measured time after the warm-up; then the workloads stop and what is outstanding is waited for.
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

/// Which scheduler.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one to a world")]
pub enum PolicyChoice {
    /// First in, first out.
    None,
    /// Gimbal with these constants.
    Gimbal(GimbalConfig),
    /// ReFlex with this calibration.
    Reflex(ReflexConfig),
    /// FlashFQ with this calibration.
    Flashfq(FlashfqConfig),
}

impl PolicyChoice {
    /// The scheduler itself.
    pub fn build(&self) -> Box<dyn Policy> {
        match self {
            PolicyChoice::None => Box::new(Fifo::default()),
            PolicyChoice::Gimbal(config) => Box::new(Gimbal::new(*config)),
            PolicyChoice::Reflex(config) => Box::new(Reflex::new(config.clone())),
            PolicyChoice::Flashfq(config) => Box::new(Flashfq::new(*config)),
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            PolicyChoice::None => "none",
            PolicyChoice::Gimbal(_) => "gimbal",
            PolicyChoice::Reflex(_) => "reflex",
            PolicyChoice::Flashfq(_) => "flashfq",
        }
    }
}

/// What holds the clients back.
#[derive(Clone, Debug, Default)]
pub enum ClientChoice {
    /// The switch's credit, which a scheduler that knows none leaves unbounded.
    #[default]
    Credits,
    /// PARDA: a window per host, by the latency that the hosts see. Credits are not looked at.
    Parda {
        /// The same for every host.
        config: PardaConfig,
        /// Whose latency a host goes by.
        scope: LatencyScope,
    },
}

/// Whose latency a host goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyScope {
    /// What all hosts have seen together: at the end of a period each reads what all have published, at once.
    AllHosts,
    /// What it has seen itself.
    OwnHost,
}

/// One tenant.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name in reports.
    pub name: String,
    /// What it does.
    pub workload: Workload,
    /// What it was promised.
    pub share: Share,
    /// Whether its client keeps to the credit or window; one that does not is what a host without either (Linux) looks like.
    pub obeys_credit: bool,
    /// With PARDA: tenants that name the same host are VMs on it, with their weights as shares. `None` is a host of its own.
    pub host: Option<u32>,
    /// From when it is active.
    pub start: Instant,
    /// Until when; the end of the run at the latest.
    pub stop: Instant,
}

impl TenantSpec {
    /// A tenant that is there from the start to the end, with an equal share, and keeps to its credit.
    pub fn new(name: impl Into<String>, workload: Workload) -> TenantSpec {
        TenantSpec {
            name: name.into(),
            workload,
            share: Share::EQUAL,
            obeys_credit: true,
            host: None,
            start: Instant::ZERO,
            stop: Instant::FAR_FUTURE,
        }
    }
}
