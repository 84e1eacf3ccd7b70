//! One run of a rack as a line of the results: plain numbers with their units in their names.

use super::RackRun;
use rack::{Choices, Purpose, Results, Stay};
use sched::ObjectiveState;
use serde::Serialize;
use std::collections::BTreeMap;
use units::Nanos;
use ycsb::Kind;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RackRecord {
    /// The experiment's name; empty if the run does not belong to one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    /// YCSB's core workload.
    pub workload: char,
    /// Number of databases.
    pub databases: u32,
    /// Number of threads of each database.
    pub threads: u32,
    /// The scheduler.
    pub scheduler: &'static str,
    /// The policy that chooses a copy.
    pub policy: &'static str,
    /// The SSDs' profile.
    pub profile: String,
    /// The seed.
    pub seed: u64,
    /// Operations per second of virtual time.
    pub throughput: f64,
    /// Latencies of all operations, in microseconds.
    #[serde(flatten)]
    pub all: Latencies,
    /// The same for reads.
    pub reads: Latencies,
    /// Bytes that the databases read and write per second of virtual time.
    pub bytes: f64,
    /// The same of each neighbour.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<f64>,
    /// Number of objectives, one for each database and SSD, by their state at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub objectives: BTreeMap<String, usize>,
    /// Operations of the slowest database over those of the fastest.
    pub evenness: f64,
    /// The mean time of IOs, by their purpose.
    pub ios: BTreeMap<&'static str, IoRecord>,
    /// The benefit of choosing a copy.
    pub steering: SteeringRecord,
}

/// Latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// The IOs for one purpose, with their mean times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IoRecord {
    /// IOs per second of virtual time.
    pub per_s: f64,
    /// Time of waiting in the client for credit.
    pub client_us: f64,
    /// Time of waiting in the scheduler.
    pub switch_us: f64,
    /// Time in the SSD.
    pub ssd_us: f64,
}

/// The quality of the choices between copies; see [`Choices`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SteeringRecord {
    /// Fraction of the reads for which one SSD was better than the other.
    pub matters: f64,
    /// Of those, the fraction for which the better one was read.
    pub right: f64,
    /// Of those, the fraction in which the credits differed.
    pub credit_differs: f64,
    /// Of those, the fraction in which the SSD with more credit was the better one.
    pub credit_right: f64,
    /// Median age of the credit, in microseconds, for the copy that was read and for the other one.
    pub credit_age_us: [f64; 2],
    /// The credit: 10th, 50th and 90th percentile for the copy that was read, and for the other one.
    pub credit: [[u64; 3]; 2],
    /// Variance over mean of the number of reads that come to an SSD in a millisecond.
    pub dispersion: f64,
}

impl RackRecord {
    pub(super) fn of(run: &RackRun, results: &Results) -> RackRecord {
        let seconds = run.world.duration.as_secs_f64();
        let (least, most) = (results.operations.iter().min(), results.operations.iter().max());
        let none = hdrhistogram::Histogram::new(3).expect("three digits are possible");
        RackRecord {
            experiment: String::new(),
            workload: run.workload,
            databases: run.world.databases,
            threads: run.world.threads,
            scheduler: run.scheduler,
            policy: run.policy,
            profile: run.profile.clone(),
            seed: run.world.seed,
            throughput: results.all().len() as f64 / seconds,
            all: Latencies::of(&results.all()),
            reads: Latencies::of(results.kinds.get(&Kind::Read).unwrap_or(&none)),
            bytes: results.bytes.0 as f64 / seconds,
            objectives: count_by_state(&results.objectives),
            neighbours: results.bytes.1.iter().map(|bytes| *bytes as f64 / seconds).collect(),
            evenness: least.zip(most).map_or(0.0, |(least, most)| *least as f64 / (*most).max(1) as f64),
            ios: results
                .stays
                .iter()
                .map(|(purpose, stay)| (name(*purpose), IoRecord::of(stay, seconds)))
                .collect(),
            steering: SteeringRecord::of(&results.choices),
        }
    }
}

fn name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Get => "get",
        Purpose::Log => "log",
        Purpose::Merge => "merge",
        Purpose::Table => "table",
        Purpose::Trim => "trim",
        Purpose::Neighbour => "neighbour",
    }
}

impl Latencies {
    fn of(histogram: &hdrhistogram::Histogram<u64>) -> Latencies {
        let micros = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Latencies { mean: histogram.mean() / 1e3, p50: micros(0.5), p99: micros(0.99), p999: micros(0.999) }
    }
}

impl IoRecord {
    fn of(stay: &Stay, seconds: f64) -> IoRecord {
        let mean = |sum: Nanos| sum.0 as f64 / stay.ios.max(1) as f64 / 1e3;
        IoRecord {
            per_s: stay.ios as f64 / seconds,
            client_us: mean(stay.client),
            switch_us: mean(stay.switch),
            ssd_us: mean(stay.ssd),
        }
    }
}

impl SteeringRecord {
    fn of(choices: &Choices) -> SteeringRecord {
        let part = |some: u64, all: u64| some as f64 / all.max(1) as f64;
        SteeringRecord {
            matters: part(choices.matters, choices.all),
            right: part(choices.right, choices.matters),
            credit_differs: part(choices.credit_differs, choices.matters),
            credit_right: part(choices.credit_right, choices.credit_differs),
            credit_age_us: [0, 1].map(|copy| choices.ages[copy].value_at_quantile(0.5) as f64 / 1e3),
            credit: [0, 1]
                .map(|copy| [0.1, 0.5, 0.9].map(|part| choices.credits[copy].value_at_quantile(part))),
            dispersion: choices.dispersion(),
        }
    }
}

fn count_by_state(objectives: &[Option<ObjectiveState>]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for objective in objectives {
        let state = match objective {
            None => "accepted: this scheduler does not say whether it is kept".to_owned(),
            Some(ObjectiveState::Unknown) => "undecided".to_owned(),
            Some(ObjectiveState::Kept) => "kept".to_owned(),
            Some(ObjectiveState::Missed) => "missed".to_owned(),
            Some(ObjectiveState::Lost) => "given up".to_owned(),
            Some(ObjectiveState::Refused(reason)) => format!("refused: {reason}"),
        };
        *counts.entry(state).or_insert(0) += 1;
    }
    counts
}
