//! Claims about small racks, and about the files.

use super::*;
use crate::claims::Verdict;

fn small() -> RackExperiment {
    let mut experiment = RackExperiment::named("g10").expect("it is built in");
    experiment.hurry();
    experiment.workloads = vec!['C'];
    experiment.databases = vec![2];
    experiment.threads = 2;
    experiment.records = 20_000;
    (experiment.warm_up, experiment.duration) = (Nanos::millis(1), Nanos::millis(5));
    experiment
}

#[test]
fn experiments_that_come_with_the_lab_are_valid() {
    for name in RackExperiment::names() {
        let experiment = RackExperiment::named(name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!experiment.claims.is_empty() && experiment.schedulers.iter().any(|one| one.is_gimbal()));
    }
    assert!(RackExperiment::named("g99").is_err());
}

#[test]
fn what_is_quick_claims_only_what_it_runs() {
    let mut experiment = RackExperiment::named("g11").expect("it is built in");
    experiment.hurry();
    assert_eq!(experiment.seeds.len(), 1);
    let claimed: Vec<char> = experiment.claims.iter().filter_map(|claim| claim.workload).collect();
    assert_eq!(claimed, experiment.workloads);
}

#[test]
fn an_operation_is_counted_once() {
    let findings = small().run(&|_| {});
    assert_eq!(findings.records.len(), findings.experiment.schedulers.len());
    for record in &findings.records {
        assert!(record.throughput > 1000.0 && record.reads.p50 <= record.reads.p999, "{record:?}");
        assert_eq!(record.all, record.reads, "workload C only reads");
    }
    assert_eq!(findings.records, small().run(&|_| {}).records, "a seed repeats a run");
}

#[test]
fn a_claim_is_averaged_over_the_workloads() {
    let mut findings = small().run(&|_| {});
    let template = findings.records[0].clone();
    let record = |workload, scheduler, throughput, databases| RackRecord {
        workload,
        scheduler,
        throughput,
        databases,
        ..template.clone()
    };
    findings.records = vec![
        record('A', "gimbal", 300.0, 8),
        record('A', "reflex-compared", 100.0, 8),
        record('B', "gimbal", 200.0, 8),
        record('B', "reflex-compared", 200.0, 8),
        record('B', "gimbal", 250.0, 16),
    ];
    let rows = findings.rows();
    let row = rows.iter().find(|row| row.id == "G10-reflex").expect("it is in the file");
    assert_eq!(row.ours.map(|ours| ours.median), Some(2.0), "3 and 1; of 16 databases there is no other");
    assert_eq!(row.verdict, Verdict::Holds);
    let missing = rows.iter().find(|row| row.id == "G10-parda").expect("it is in the file");
    assert_eq!(missing.verdict, Verdict::Unmeasured);
}

#[test]
fn the_peak_is_the_number_of_databases() {
    let mut findings = small().run(&|_| {});
    findings.experiment = RackExperiment::named("g11").expect("it is built in");
    findings.experiment.seeds = vec![1];
    let template = RackRecord { workload: 'A', scheduler: "gimbal", ..findings.records[0].clone() };
    let record = |databases, throughput| RackRecord { databases, throughput, seed: 1, ..template.clone() };
    findings.records = vec![record(12, 100.0), record(20, 300.0), record(24, 200.0)];
    let rows = findings.rows();
    let row = rows.iter().find(|row| row.id == "G11-A").expect("it is in the file");
    assert_eq!((row.ours.map(|ours| ours.median), row.verdict), (Some(20.0), Verdict::Holds));
}
