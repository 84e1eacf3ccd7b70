//! The runs of an experiment: each case under each scheduler with each seed, and each group's kind of work alone.
//!
//! f-Util needs the speed of a group's kind of work when the SSD does nothing else. There are two readings: the
//! *maximum* that the device gives to many workers of that kind, and the speed of *one* worker of the group by itself
//! at its own queue depth. Both run without a scheduler. Groups of equal work share them.

use crate::experiment::{Experiment, Window};
use crate::scheduler::{Scheduler, Setup};
use crate::ssds::CalibratedSsd;
use sim::{Arrival, ClientChoice, TenantSpec, Workload, World};
use ssd::Condition;
use std::collections::HashMap;
use units::{Instant, Nanos};

/// Number of workers of one kind that reaches the device's maximum for that kind.
const SATURATING_WORKERS: usize = 16;
/// Queue depth of the closed workload that replaces an open one in the search for its maximum.
const SATURATING_DEPTH: u32 = 32;

/// One world to run, and its purpose.
#[derive(Clone, Debug)]
pub struct Run {
    /// The world.
    pub world: World,
    /// Its purpose.
    pub purpose: Purpose,
    /// The number of the world's tenants in each group, in order.
    pub counts: Vec<u32>,
    /// For the progress: `g7a: clean, gimbal`.
    pub label: String,
}

/// The purpose of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A case under a scheduler. Indices into the experiment's lists.
    Case {
        /// Which profile.
        profile: usize,
        /// Which case.
        case: usize,
        /// Which scheduler.
        scheduler: usize,
        /// The seed.
        seed: u64,
    },
    /// Many workers of one kind, alone.
    Maximum,
    /// One worker, alone.
    One,
}

/// The places of a group's stand-alone runs in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alone {
    /// The run of many workers.
    pub maximum: usize,
    /// The run of one worker.
    pub one: usize,
}

/// All runs of an experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// In the order in which their results are wanted.
    pub runs: Vec<Run>,
    /// By profile, case and group.
    alone: HashMap<(usize, usize, usize), Alone>,
}

impl Plan {
    /// The runs of `experiment`.
    pub fn new(experiment: &Experiment) -> Plan {
        let mut planner = Planner { experiment, runs: Vec::new(), known: HashMap::new() };
        let mut alone = HashMap::new();
        for (p, ssd) in experiment.ssds.iter().enumerate() {
            for (c, case) in experiment.cases.iter().enumerate() {
                for (g, group) in case.groups.iter().enumerate() {
                    let found = planner.alone(ssd, case.condition, &group.workload);
                    alone.insert((p, c, g), found);
                }
            }
        }
        for (p, ssd) in experiment.ssds.iter().enumerate() {
            for (c, case) in experiment.cases.iter().enumerate() {
                for s in 0..experiment.schedulers.len() {
                    for &seed in &case.seeds {
                        planner.case(ssd, Purpose::Case { profile: p, case: c, scheduler: s, seed });
                    }
                }
            }
        }
        Plan { runs: planner.runs, alone }
    }

    /// The stand-alone runs of a group.
    ///
    /// # Panics
    /// If there is no such profile, case or group.
    pub fn alone(&self, profile: usize, case: usize, group: usize) -> Alone {
        self.alone[&(profile, case, group)]
    }
}

struct Planner<'e> {
    experiment: &'e Experiment,
    runs: Vec<Run>,
    /// The key is everything that determines the result, as text.
    known: HashMap<String, Alone>,
}

impl Planner<'_> {
    fn alone(&mut self, ssd: &CalibratedSsd, condition: Condition, workload: &Workload) -> Alone {
        // Without tenants' limits: the device's own.
        let one = Workload { rate_max: None, bursts: None, ..workload.clone() };
        let key = format!("{} {condition:?} {one:?}", ssd.profile.name);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let many = match one.arrival {
            Arrival::Closed { .. } => one.clone(),
            Arrival::Open { .. } => {
                Workload { arrival: Arrival::Closed { depth: SATURATING_DEPTH }, ..one.clone() }
            }
        };
        let maximum = self.standalone(ssd, condition, vec![many; SATURATING_WORKERS], Purpose::Maximum);
        let one = self.standalone(ssd, condition, vec![one], Purpose::One);
        let found = Alone { maximum, one };
        self.known.insert(key, found);
        found
    }

    fn standalone(
        &mut self,
        ssd: &CalibratedSsd,
        condition: Condition,
        workloads: Vec<Workload>,
        purpose: Purpose,
    ) -> usize {
        let counts = vec![workloads.len() as u32];
        let tenants = workloads.into_iter().map(|workload| TenantSpec::new("alone", workload)).collect();
        let seed = self.experiment.seeds[0];
        let world = self.world(ssd, condition, Scheduler::NONE, tenants, self.experiment.alone, seed);
        let label = format!("{}: alone", self.experiment.name);
        self.runs.push(Run { world, purpose, counts, label });
        self.runs.len() - 1
    }

    fn case(&mut self, ssd: &CalibratedSsd, purpose: Purpose) {
        let Purpose::Case { case, scheduler, seed, .. } = purpose else {
            unreachable!("{purpose:?} is no case")
        };
        let (case, scheduler) = (&self.experiment.cases[case], self.experiment.schedulers[scheduler]);
        let world = self.world(ssd, case.condition, scheduler, case.tenants(), case.window, seed);
        let label = format!("{}: {}, {}", self.experiment.name, case.name, scheduler.name());
        let counts = case.groups.iter().map(|group| group.count).collect();
        self.runs.push(Run { world, purpose, counts, label });
    }

    fn world(
        &self,
        ssd: &CalibratedSsd,
        condition: Condition,
        scheduler: Scheduler,
        tenants: Vec<TenantSpec>,
        window: Window,
        seed: u64,
    ) -> World {
        let Setup { policy, auxiliary, mut clients } =
            scheduler.setup(ssd).expect("an experiment is refused if a scheduler of it was not calibrated");
        if let (ClientChoice::Parda { config, .. }, Some(threshold)) =
            (&mut clients, self.experiment.parda_threshold)
        {
            config.latency_threshold = threshold;
        }
        World {
            seed,
            profile: ssd.profile.clone(),
            condition,
            policy,
            auxiliary,
            clients,
            network: self.experiment.network,
            warm_up: warm_up(scheduler, &tenants, window.warm_up),
            tenants,
            duration: window.duration,
            interval: window.interval,
        }
    }
}

/// The time left out at the beginning of a run. A scheduler that learns gets the time to learn, unless tenants come and
/// go: then its behaviour at first is part of the experiment.
fn warm_up(scheduler: Scheduler, tenants: &[TenantSpec], warm_up: Nanos) -> Nanos {
    let is_steady = |tenant: &TenantSpec| tenant.start == Instant::ZERO && tenant.stop == Instant::FAR_FUTURE;
    if tenants.iter().all(is_steady) { warm_up.max(scheduler.learns_for()) } else { warm_up }
}
