//! Experiments with databases on a whole rack: the Gimbal paper's §5.6, by the crate `rack`.
//!
//! ```text
//!  rack.toml ─► RackExperiment ─► worlds of `rack` ─► all cores ─► a RackRecord for each ─► rows of claims
//! ```
//!
//! Like the other experiments ([`crate::experiment`]), they are folders of `experiments/` with a file of data. They
//! differ in the settings (workloads of YCSB, databases, threads, the policy for copies) and in the measure
//! (operations, not IOs).
//!
//! Holds: `experiments_that_come_with_the_lab_are_valid`, `an_operation_is_counted_once` (tests).
//! Elsewhere: `file` reads the data, `rows` judges claims, `knee` finds the throughput at a bound on latency.

mod file;
mod knee;
mod record;
mod rows;
#[cfg(test)]
mod tests;

pub use knee::{Point, knee};
pub use record::RackRecord;
pub use rows::{RackClaim, RackQuantity};

use crate::claims::Row;
use crate::experiment::ExperimentError;
use crate::runner::{Progress, on_all_cores};
use crate::scheduler::Scheduler;
use crate::ssds::CalibratedSsd;
use blob::steer::Policy;
use rack::World;
use sched::Share;
use sim::{Network, PolicyChoice};
use ssd::{Condition, Image};
use units::Nanos;
use ycsb::{Properties, PropertyError, Workload};

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, "/rack.toml")))),*]
    };
}

/// Name and text.
const BUILT_IN: &[(&str, &str)] = experiments!["g10", "g11"];

/// RocksDB's options in proportion to databases of 50,000 records: a 32nd of its defaults (memtables of 64 MiB, 256 MiB
/// in L1). So the flushes and compactions of hours happen within a second. The cache holds a seventh of a database.
pub const OPTIONS: lsm::Options = lsm::Options {
    key: 23,
    value: 1140,
    write_buffer: 2 << 20,
    l0_trigger: 4,
    level_base: 8 << 20,
    target_file: 2 << 20,
    block: 4096,
    cache: 8 << 20,
    filter_bits: 10,
};

/// One experiment, checked.
#[derive(Clone, Debug)]
pub struct RackExperiment {
    /// Its name: that of its folder.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Its source: paper and figure.
    pub source: String,
    /// The points to notice.
    pub about: String,
    /// Every SSD of the rack.
    pub ssd: CalibratedSsd,
    /// The state of their flash.
    pub condition: Condition,
    /// The seeds; at least one.
    pub seeds: Vec<u64>,
    /// The schedulers compared.
    pub schedulers: Vec<Scheduler>,
    /// The policy that chooses a copy.
    pub policy: &'static str,
    /// YCSB's core workloads.
    pub workloads: Vec<char>,
    /// Numbers of databases: a run for each.
    pub databases: Vec<u32>,
    /// Number of threads of each database.
    pub threads: u32,
    /// Number of records of each database.
    pub records: u64,
    /// Length of the warm-up, which is not measured.
    pub warm_up: Nanos,
    /// Length of the measurement.
    pub duration: Nanos,
    /// The claims of the source.
    pub claims: Vec<RackClaim>,
    quick: file::Quick,
}

/// One run.
#[derive(Clone)]
pub struct RackRun {
    /// Its workload.
    pub workload: char,
    /// The scheduler's name.
    pub scheduler: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// The SSDs' profile.
    pub profile: String,
    /// The simulated world.
    pub world: World,
}

/// A workload for the rack, which never ends by itself.
///
/// # Errors
/// There is none of that name.
pub fn workload(name: char, records: u64) -> Result<Workload, PropertyError> {
    let mut properties = Properties::core(name)?;
    properties.put("recordcount", records);
    properties.put("operationcount", 0);
    Workload::new(&properties)
}

/// The policy of a name, with the name.
pub fn policy(name: &str) -> Option<(&'static str, Policy)> {
    Policy::ALL.into_iter().find(|(known, _)| *known == name)
}

impl RackExperiment {
    /// The names of all that come with the lab.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// An experiment that comes with the lab.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(name: &str) -> Result<RackExperiment, ExperimentError> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| ExperimentError::Unknown { name: name.to_owned() })?;
        file::read(text, name)
    }

    /// Shortens it: the first seed, and the settings of `quick` in its file. Claims about workloads that are left out
    /// are left out too.
    pub fn hurry(&mut self) {
        self.seeds.truncate(1);
        let file::Quick { warm_up, duration, workloads, schedulers, databases } = self.quick.clone();
        (self.warm_up, self.duration) = (warm_up, duration);
        if let Some(workloads) = workloads {
            self.claims.retain(|claim| claim.workload.is_none_or(|name| workloads.contains(&name)));
            self.workloads = workloads;
        }
        if let Some(databases) = databases {
            self.databases = databases;
        }
        if let Some(kept) = schedulers {
            self.schedulers.retain(|scheduler| kept.iter().any(|name| name == scheduler.name()));
        }
    }

    /// Runs it on all cores. Reports every run that ends to `watch`.
    pub fn run(self, watch: &(dyn Fn(Progress<'_>) + Sync)) -> RackFindings {
        let runs = self.runs();
        let records = measure(&runs, watch);
        let records =
            records.into_iter().map(|record| RackRecord { experiment: self.name.clone(), ..record });
        RackFindings { records: records.collect(), experiment: self }
    }

    fn runs(&self) -> Vec<RackRun> {
        let mut runs = Vec::new();
        for &seed in &self.seeds {
            let image = Image::new(&self.ssd.profile, self.condition, seed);
            let (policy, steering) = policy(self.policy).expect("checked when it was read");
            for &name in &self.workloads {
                let workload = workload(name, self.records).expect("checked when it was read");
                for (&databases, scheduler) in
                    self.databases.iter().flat_map(|n| self.schedulers.iter().map(move |s| (n, s)))
                {
                    let setup = scheduler.setup(&self.ssd).expect("checked when it was read");
                    let world = World {
                        seed,
                        image: image.clone(),
                        targets: 3,
                        ssds: 4,
                        scheduler: setup.policy,
                        clients: setup.clients,
                        steering,
                        network: Network::RDMA_100G,
                        databases,
                        threads: self.threads,
                        workload: workload.clone(),
                        options: OPTIONS,
                        share: Share::EQUAL,
                        has_classes: false,
                        neighbours: Vec::new(),
                        is_log_buffered: false,
                        warm_up: self.warm_up.max(scheduler.learns_for()),
                        duration: self.duration,
                    };
                    let (scheduler, profile) = (scheduler.name(), self.ssd.profile.name.clone());
                    runs.push(RackRun { workload: name, scheduler, policy, profile, world });
                }
            }
        }
        runs
    }
}

/// Runs all on all cores; returns the records in the order of the runs.
pub fn measure(runs: &[RackRun], watch: &(dyn Fn(Progress<'_>) + Sync)) -> Vec<RackRecord> {
    let labels: Vec<String> = runs
        .iter()
        .map(|run| format!("workload {}, {} databases, {}", run.workload, run.world.databases, run.scheduler))
        .collect();
    on_all_cores(&labels, watch, |at| RackRecord::of(&runs[at], &rack::run(&runs[at].world)))
}

/// The model of the SSDs that `level` learns in this world, with all the time that it needs. Other runs can start with
/// it, like a target that is restarted.
pub fn learn(world: &World) -> PolicyChoice {
    let world =
        World { warm_up: Scheduler::LEVEL.learns_for(), duration: Nanos::millis(10), ..world.clone() };
    PolicyChoice::from(rack::run(&world).learnt.unwrap_or_default())
}

/// The findings of an experiment.
#[derive(Clone, Debug)]
pub struct RackFindings {
    /// The experiment that was run.
    pub experiment: RackExperiment,
    /// A record for each run.
    pub records: Vec<RackRecord>,
}

impl RackFindings {
    /// The experiment's claims, each for every scheduler that it is about.
    pub fn rows(&self) -> Vec<Row> {
        self.experiment.claims.iter().flat_map(|claim| claim.rows(self)).collect()
    }
}
