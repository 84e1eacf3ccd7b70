//! Claims about small racks.

use crate::{Purpose, Results, Work, World, run};
use blob::steer::Policy;
use sched::{DeviceConstants, GimbalConfig, Learnt, ObjectiveState, Percentile, Refused, Share, Slo};
use sim::{ClientChoice, Network, PolicyChoice};
use ssd::{Condition, Image, Profile};
use units::{Bytes, Nanos};
use ycsb::{Kind, Properties, Workload};

fn workload(name: char) -> Workload {
    let mut properties = Properties::core(name).expect("a core workload");
    properties.put("recordcount", 5000);
    properties.put("operationcount", 0);
    Workload::new(&properties).expect("it works")
}

fn world(name: char, scheduler: PolicyChoice) -> World {
    let mut profile = Profile::default();
    profile.geometry.capacity = Bytes::gib(1);
    profile.geometry.never_written = Bytes::gib(1);
    profile.geometry.dies_per_channel = 1;
    World {
        seed: 1,
        image: Image::new(&profile, Condition::Fragmented, 1),
        targets: 2,
        ssds: 1,
        scheduler,
        clients: ClientChoice::Credits,
        steering: Policy::Credit,
        network: Network::RDMA_100G,
        databases: 3,
        threads: 8,
        workload: workload(name),
        options: lsm::Options {
            key: 23,
            value: 1140,
            write_buffer: 256 << 10,
            l0_trigger: 4,
            level_base: 1 << 20,
            target_file: 256 << 10,
            block: 4096,
            cache: 256 << 10,
            filter_bits: 10,
        },
        share: Share::EQUAL,
        has_classes: false,
        neighbours: Vec::new(),
        is_log_buffered: false,
        warm_up: Nanos::millis(20),
        duration: Nanos::millis(100),
    }
}

fn gimbal() -> PolicyChoice {
    PolicyChoice::from(GimbalConfig::published(DeviceConstants::from(&Profile::default().switch)))
}

fn total(results: &Results) -> u64 {
    results.operations.iter().sum()
}

#[test]
fn a_seed_repeats_a_run() {
    let world = world('a', gimbal());
    let results = run(&world);
    assert_eq!(results, run(&world));
    assert_ne!(results, run(&World { seed: 2, ..world }));
}

#[test]
fn every_database_goes_on_with_every_workload_and_scheduler() {
    for scheduler in [PolicyChoice::none(), gimbal(), PolicyChoice::from(Learnt::default())] {
        for name in ['a', 'b', 'c', 'd', 'f'] {
            let results = run(&world(name, scheduler.clone()));
            let least = results.operations.iter().min().expect("databases");
            assert!(*least > 50, "{name} {}: {:?}", scheduler.scheduler().name, results.operations);
            assert_eq!(total(&results), results.all().len());
            assert_eq!(results.ios[1] > 0, name != 'c', "{name}: {:?}", results.ios);
            assert!(!results.kinds.contains_key(&Kind::Scan));
        }
    }
}

#[test]
fn without_balancing_only_primaries_are_read() {
    let balanced = run(&world('c', gimbal()));
    assert!(balanced.copies_read[0] > 0 && balanced.copies_read[1] > balanced.copies_read[0] / 2);
    let primary = run(&World { steering: Policy::Primary, ..world('c', gimbal()) });
    assert!(primary.copies_read[0] > 0 && primary.copies_read[1] == 0);
}

#[test]
fn databases_that_share_ssds_are_slower() {
    let alone = run(&World { databases: 1, threads: 64, ..world('b', PolicyChoice::none()) });
    let shared = run(&World { databases: 6, threads: 64, ..world('b', PolicyChoice::none()) });
    assert!(total(&shared) < 5 * total(&alone), "{} {}", total(&shared), total(&alone));
}

/// A second of databases, with other tenants.
fn beside(neighbours: &[Work], has_classes: bool, scheduler: PolicyChoice) -> Results {
    let duration = Nanos::secs(1);
    run(&World { neighbours: neighbours.to_vec(), has_classes, duration, ..world('a', scheduler) })
}

#[test]
fn neighbours_take_as_much_as_the_scheduler_lets_them() {
    let all = Work::ALL;
    let [none, level] = [PolicyChoice::none(), PolicyChoice::from(Learnt::default())];
    let alone = beside(&[], false, none.clone());
    assert!(alone.bytes.1.is_empty());
    let with_none = beside(&all, false, none);
    let with_level = beside(&all, false, level);
    for results in [&with_none, &with_level] {
        assert!(results.bytes.0 > 0 && results.bytes.1.iter().all(|bytes| *bytes > 0), "{:?}", results.bytes);
    }
    assert!(total(&with_none) < total(&alone) / 2, "{} {}", total(&with_none), total(&alone));
    assert!(total(&with_level) > total(&with_none), "{} {}", total(&with_level), total(&with_none));
}

#[test]
fn classes_put_the_log_before_compactions() {
    let wait = |has_classes| {
        let results = beside(&[Work::Batch], has_classes, PolicyChoice::from(Learnt::default()));
        let stay = |purpose| {
            let stay = results.stays[&purpose];
            stay.switch.0 as f64 / stay.ios as f64
        };
        stay(Purpose::Log) / stay(Purpose::Table)
    };
    let (with, without) = (wait(true), wait(false));
    assert!(with < without, "{with} {without}");
}

#[test]
fn a_refused_objective_is_in_the_results() {
    let meaningless =
        Slo { iops: 0, read_percent: 100, percentile: Percentile::P99, latency: Nanos::millis(1) };
    let states = |slo, scheduler| {
        let share = Share { slo, ..Share::EQUAL };
        run(&World { share, ..world('c', scheduler) }).objectives
    };
    let refused = Some(ObjectiveState::Refused(Refused::Meaningless(meaningless)));
    let level = || PolicyChoice::from(Learnt::default());
    assert_eq!(states(Some(meaningless), level()), vec![refused; 6], "three databases on two SSDs");
    assert_eq!(
        states(Some(meaningless), PolicyChoice::none()),
        vec![None; 6],
        "nothing is known of objectives"
    );
    assert_eq!(states(None, level()), vec![]);
}
