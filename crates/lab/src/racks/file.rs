//! The vocabulary of a `rack.toml`, and the checks that make a [`RackExperiment`] of it.

use super::{RackClaim, RackExperiment, policy, workload};
use crate::experiment::ExperimentError;
use crate::scheduler::Scheduler;
use crate::ssds::CalibratedSsd;
use serde::Deserialize;
use ssd::Condition;
use std::path::Path;
use units::Nanos;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    source: String,
    about: String,
    profile: String,
    /// `clean` or `fragmented`.
    condition: String,
    seeds: Vec<u64>,
    schedulers: Vec<String>,
    policy: String,
    workloads: Vec<char>,
    databases: Vec<u32>,
    threads: u32,
    records: u64,
    warm_up: Nanos,
    duration: Nanos,
    quick: Quick,
    #[serde(rename = "claim", default)]
    claims: Vec<RackClaim>,
}

/// The differences with `--quick`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    pub(super) warm_up: Nanos,
    pub(super) duration: Nanos,
    /// Only these.
    pub(super) workloads: Option<Vec<char>>,
    /// Only these.
    pub(super) schedulers: Option<Vec<String>>,
    /// Only these.
    pub(super) databases: Option<Vec<u32>>,
}

pub(super) fn read(text: &str, name: &str) -> Result<RackExperiment, ExperimentError> {
    let file: File = toml::from_str(text).map_err(|error| ExperimentError::Syntax {
        origin: name.to_owned(),
        message: error.to_string().trim_end().to_owned(),
    })?;
    let wrong = |field: &str, problem: String| ExperimentError::Value {
        origin: name.to_owned(),
        field: field.to_owned(),
        problem,
    };
    let ssd = CalibratedSsd::find(&file.profile, Path::new(""))
        .map_err(|error| wrong("profile", error.to_string()))?;
    let condition = match file.condition.as_str() {
        "clean" => Condition::Clean,
        "fragmented" => Condition::Fragmented,
        other => return Err(wrong("condition", format!("{other} is neither clean nor fragmented"))),
    };
    let mut schedulers = Vec::new();
    for name in &file.schedulers {
        let scheduler = Scheduler::named(name).map_err(|error| wrong("schedulers", error.to_string()))?;
        scheduler.setup(&ssd).map_err(|error| wrong("schedulers", error.to_string()))?;
        schedulers.push(scheduler);
    }
    for name in &file.workloads {
        let workload =
            workload(*name, file.records).map_err(|error| wrong("workloads", error.to_string()))?;
        if workload.mix.scan > 0.0 {
            return Err(wrong("workloads", format!("{name} scans, which the model of RocksDB does not")));
        }
    }
    let (policy, _) =
        policy(&file.policy).ok_or_else(|| wrong("policy", format!("there is no policy {}", file.policy)))?;
    let empty = [
        ("seeds", file.seeds.is_empty()),
        ("schedulers", schedulers.is_empty()),
        ("workloads", file.workloads.is_empty()),
        ("databases", file.databases.is_empty()),
    ];
    if let Some((field, _)) = empty.into_iter().find(|(_, is_empty)| *is_empty) {
        return Err(wrong(field, "there is none; give at least one".to_owned()));
    }
    let known = |other: &String| schedulers.iter().any(|scheduler| scheduler.name() == other);
    if let Some(claim) = file.claims.iter().find(|claim| !claim.with.iter().all(known)) {
        return Err(wrong(
            &format!("claim {}", claim.id),
            "it is compared with a scheduler that is not run".to_owned(),
        ));
    }
    Ok(RackExperiment {
        name: name.to_owned(),
        title: file.title,
        source: file.source,
        about: file.about,
        ssd,
        condition,
        seeds: file.seeds,
        schedulers,
        policy,
        workloads: file.workloads,
        databases: file.databases,
        threads: file.threads,
        records: file.records,
        warm_up: file.warm_up,
        duration: file.duration,
        claims: file.claims,
        quick: file.quick,
    })
}
