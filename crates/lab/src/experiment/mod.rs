//! An experiment as data: devices, tenants, schedulers, time, and the results that the source claims.
//!
//! An experiment is a folder with an `experiment.toml`. Its *cases* are situations that are compared within one experiment (clean
//! and fragmented, say); a case may be swept over a parameter, which makes one case per value. Each case runs on every
//! profile, under every scheduler, with every seed.
//!
//! ```toml
//! title = "Small readers with large ones"
//! source = "Gimbal, SIGCOMM 2021, figure 7a"
//! profiles = ["dct983"]
//! seeds = [1, 2, 3]
//! warm_up = "300ms"
//! duration = "1s"
//! interval = "50ms"
//! schedulers = ["none", "level"]
//!
//! [[case]]
//! name = "clean"
//! condition = "clean"
//! groups = [
//!     { name = "small", count = 16, rw = "randread", bs = "4k", iodepth = 32 },
//!     { name = "large", count = 4, rw = "randread", bs = "128k", iodepth = 4 },
//! ]
//! ```
//!
//! Elsewhere: `file` has the vocabulary of the file. The experiments that come with the lab are the folders of
//! `experiments/`, built in here.

mod error;
mod file;
#[cfg(test)]
mod tests;

pub use error::ExperimentError;

use crate::claims::Claim;
use crate::figure::Figure;
use crate::scheduler::Scheduler;
use crate::ssds::CalibratedSsd;
use sched::Share;
use sim::{Network, TenantSpec, Workload};
use ssd::Condition;
use std::path::Path;
use units::{Instant, Nanos};

macro_rules! experiments {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../experiments/", $name, "/experiment.toml")))),*]
    };
}

/// Name and text of each experiment: first those of papers, in their order, then further ones.
const BUILT_IN: &[(&str, &str)] = experiments![
    "g6",
    "g7a",
    "g7c",
    "g9",
    "g14",
    "g15",
    "g17",
    "g18",
    "p3",
    "p8",
    "weights",
    "guarantees",
    "arrivals",
    "crowd",
    "deaf",
    "devices",
    "a1",
    "findings",
];

/// The names of all: first those of papers, in their order, then further ones.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// One experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: that of its folder.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Its source: paper and figure.
    pub source: String,
    /// The points to notice, in a sentence or two.
    pub about: String,
    /// The SSDs; claims are judged on the first, and shown for all.
    pub ssds: Vec<CalibratedSsd>,
    /// The seeds; at least one.
    pub seeds: Vec<u64>,
    /// The network between tenants and switch.
    pub network: Network,
    /// PARDA's latency threshold instead of the calibration's.
    pub parda_threshold: Option<Nanos>,
    /// The schedulers compared.
    pub schedulers: Vec<Scheduler>,
    /// The situations, in the order of the file; a swept case appears once per value.
    pub cases: Vec<Case>,
    /// Time window of the measurement of a group's stand-alone speed.
    pub alone: Window,
    /// Upper bound for the length of a case with `--quick`.
    pub quick_duration: Option<Nanos>,
    /// The results that the source claims.
    pub claims: Vec<Claim>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// A section of virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Length of the warm-up, which is left out of the results.
    pub warm_up: Nanos,
    /// Length of the measurement.
    pub duration: Nanos,
    /// Length of one point of a series.
    pub interval: Nanos,
}

/// One situation.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name; all values of a swept case share it.
    pub name: String,
    /// The swept parameter's value.
    pub x: Option<f64>,
    /// The swept parameter, for the axis of a plot.
    pub swept: Option<Parameter>,
    /// The state of the flash at the start.
    pub condition: Condition,
    /// Its seeds: the experiment's, or a number of its own.
    pub seeds: Vec<u64>,
    /// Length of the case.
    pub window: Window,
    /// The groups that take part.
    pub groups: Vec<Group>,
}

impl Case {
    /// All tenants, group after group.
    pub fn tenants(&self) -> Vec<TenantSpec> {
        self.groups.iter().flat_map(Group::tenants).collect()
    }

    /// Number of tenants.
    pub fn population(&self) -> u32 {
        self.groups.iter().map(|group| group.count).sum()
    }
}

/// Tenants with the same work.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of tenants.
    pub count: u32,
    /// The work of each of them.
    pub workload: Workload,
    /// The promises to each.
    pub share: Share,
    /// Whether their clients obey the credit.
    pub obeys_credit: bool,
    /// The time at which the first begins.
    pub start: Nanos,
    /// The delay of each further tenant.
    pub start_step: Nanos,
    /// The time at which the first stops; `None` is the end of the run.
    pub stop: Option<Nanos>,
    /// The delay of the stop of each further tenant.
    pub stop_step: Nanos,
}

impl Group {
    fn tenants(&self) -> impl Iterator<Item = TenantSpec> + '_ {
        (0..self.count).map(|n| {
            let after = |first: Nanos, step: Nanos| Instant::ZERO + first + Nanos(step.0 * u64::from(n));
            TenantSpec {
                share: self.share,
                obeys_credit: self.obeys_credit,
                start: after(self.start, self.start_step),
                stop: self.stop.map_or(Instant::FAR_FUTURE, |stop| after(stop, self.stop_step)),
                ..TenantSpec::new(format!("{} {}", self.name, n + 1), self.workload.clone())
            }
        })
    }
}

/// The parameter over which a case can be swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameter {
    /// Per cent of reads in a mix.
    RwMixRead,
    /// KiB per IO.
    Bs,
    /// IOs outstanding per tenant.
    IoDepth,
    /// Tenants of each group.
    Count,
}

impl Parameter {
    /// Its name on an axis.
    pub fn axis(self) -> &'static str {
        match self {
            Parameter::RwMixRead => "reads, per cent",
            Parameter::Bs => "size of an IO, KiB",
            Parameter::IoDepth => "queue depth",
            Parameter::Count => "tenants per group",
        }
    }
}

impl Experiment {
    /// An experiment that comes with the lab.
    ///
    /// # Errors
    /// [`ExperimentError::Unknown`] if there is none of that name.
    pub fn named(name: &str) -> Result<Experiment, ExperimentError> {
        let text = built_in(name).ok_or_else(|| ExperimentError::Unknown { name: name.to_owned() })?;
        Experiment::parse(text, name, name)
    }

    /// The experiment in a file, or in the `experiment.toml` of a folder.
    ///
    /// # Errors
    /// Unreadable file, or text that is not an experiment.
    pub fn load(path: &Path) -> Result<Experiment, ExperimentError> {
        let file = if path.is_dir() { path.join("experiment.toml") } else { path.to_owned() };
        let origin = file.display().to_string();
        let folder = file.parent().and_then(Path::file_name).or(file.file_stem());
        let name = folder.map_or_else(|| origin.clone(), |name| name.to_string_lossy().into_owned());
        match files::read_text(&file) {
            Ok(text) => Experiment::parse(&text, &name, &origin),
            Err(source) => Err(ExperimentError::Unreadable { origin, source }),
        }
    }

    /// The experiment written in `text`; `origin` names the text in errors.
    ///
    /// # Errors
    /// Text that is not an experiment: the field, the reason, the allowed values.
    pub fn parse(text: &str, name: &str, origin: &str) -> Result<Experiment, ExperimentError> {
        file::read(text, name, origin)
    }

    /// Shortens it: the first seed, the first profile, and cases no longer than `quick_duration`.
    pub fn hurry(&mut self) {
        self.take_seeds(&[self.seeds[0]]);
        self.ssds.truncate(1);
        if let Some(most) = self.quick_duration {
            for case in &mut self.cases {
                case.window.duration = case.window.duration.min(most);
            }
        }
    }

    /// Sets these seeds for every case.
    pub fn take_seeds(&mut self, seeds: &[u64]) {
        self.seeds = seeds.to_vec();
        self.cases.iter_mut().for_each(|case| case.seeds = seeds.to_vec());
    }

    /// Leaves out the cases and schedulers that no claim needs.
    pub fn keep_claimed(&mut self) {
        let claims = &self.claims;
        self.cases.retain(|case| claims.iter().any(|claim| claim.case == case.name));
        self.schedulers.retain(|scheduler| claims.iter().any(|claim| claim.needs(*scheduler)));
    }

    /// The case of a name (the first, if it is swept).
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }
}
