//! Devices that the prober has never seen. Each is drawn by its seed: the size of its write buffer, how it drains and recovers, and what
//! IOs of each size cost. It shares no code with the prober, and the prober sees nothing of it but completions.
//!
//! Promised: buffer size within 5 %, recovery time within 10 %, costs within 10 %, and never more writes or time than the limits.
//!
//! A failure names its seed; `HIDDEN_SEED=7 cargo test -p probe --test hidden` probes only that device.

mod device;
mod prediction;

use device::{Hidden, Recovery};
use probe::{Config, Kind, Prober, Profile, drive};
use units::{Bytes, Nanos};

/// Enough for everything: what the limits do is tested below.
const TIME: Nanos = Nanos::secs(7200);
const WRITES: Bytes = Bytes::gib(2048);
const CAPACITY: Bytes = Bytes::gib(64);

fn probe(hidden: &mut Hidden, config: Config) -> Profile {
    let mut prober = Prober::new(config).expect("valid");
    let Ok(()) = drive(&mut prober, hidden, |_, _| Ok(()));
    prober.profile().expect("finished").clone()
}

/// Errors in the findings about the device with this seed.
fn faults(seed: u64) -> Vec<String> {
    let mut hidden = Hidden::drawn(seed);
    let config = Config::quick(CAPACITY, 4096).with_time_most(TIME).with_writes_most(WRITES).with_seed(seed);
    let profile = probe(&mut hidden, config);
    let truth = hidden.truth();
    let mut faults = Vec::new();
    let mut compare = |what: String, found: Option<f64>, truth: f64, tolerance: f64| match found {
        Some(found) if (found / truth - 1.0).abs() <= tolerance => {}
        _ => faults.push(format!("{what}: found {found:?}, is {truth:.3}")),
    };
    let buffer = profile.buffer.as_ref();
    let recovery = profile.recovery.as_ref();
    compare("buffer, MiB".to_owned(), buffer.map(|buffer| buffer.size_mib), truth.buffer_mib, 0.05);
    let time = recovery.and_then(|recovery| recovery.time_to_90_percent_ms);
    compare("recovery, ms".to_owned(), time, truth.recovery_ms, 0.1);
    for cost in &profile.cost {
        let is_write = matches!(cost.kind, Kind::RandomWrite | Kind::SequentialWrite);
        let truth = hidden.cost_ns(is_write, cost.size_kib << 10);
        compare(format!("cost of a {} of {} KiB, ns", cost.kind, cost.size_kib), Some(cost.ns), truth, 0.1);
    }
    if profile.cost.len() != 16 {
        faults.push(format!("{} costs instead of 16", profile.cost.len()));
    }
    if !profile.device.notes.is_empty() {
        faults.push(format!("left out: {:?}", profile.device.notes));
    }
    if !faults.is_empty() {
        faults.insert(0, format!("seed {seed}: {hidden:?}"));
        faults.push(format!("{:?}", profile.recovery));
    }
    faults
}

fn assert_found(seeds: impl Iterator<Item = u64>) {
    let only: Option<u64> =
        std::env::var("HIDDEN_SEED").ok().map(|seed| seed.parse().expect("HIDDEN_SEED is a number"));
    let seeds = seeds.filter(|seed| only.is_none_or(|only| only == *seed));
    let faults: Vec<String> = seeds.flat_map(faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn buffer_recovery_and_costs_of_unknown_devices_are_found() {
    assert_found(1..=8);
}

#[test]
#[ignore = "reason: long; 200 devices"]
fn buffer_recovery_and_costs_of_many_unknown_devices_are_found() {
    assert_found(1..=200);
}

#[test]
fn a_quick_probe_keeps_its_limits_on_every_device() {
    for seed in 1..=4 {
        let mut hidden = Hidden::drawn(seed);
        let most = Bytes::gib(if seed % 2 == 0 { 64 } else { 3 });
        let profile = probe(&mut hidden, Config::quick(CAPACITY, 4096).with_writes_most(most));
        assert!(hidden.written() <= most.get(), "seed {seed}: {} bytes of {most}", hidden.written());
        // IOs under way at the end of the time may still complete.
        assert!(profile.device.took_s < 120.0, "seed {seed}: {} s", profile.device.took_s);
        assert!(hidden.elapsed() < Nanos::secs(120), "seed {seed}: {}", hidden.elapsed());
    }
}

#[test]
fn a_read_only_probe_writes_nothing() {
    let mut hidden = Hidden::drawn(1);
    let profile = probe(&mut hidden, Config::quick(CAPACITY, 4096).read_only());
    assert_eq!(hidden.written(), 0);
    assert_eq!(profile.buffer, None);
    assert_eq!(profile.cost.len(), 8, "four sizes of random and of sequential reads");
    assert!(profile.load.iter().all(|load| load.writes_permille == 0) && !profile.load.is_empty());
}

#[test]
fn a_device_without_a_write_buffer_is_not_given_one() {
    let mut hidden = Hidden::drawn(3).with_recovery(Recovery::None);
    let profile = probe(&mut hidden, Config::quick(CAPACITY, 4096));
    assert_eq!(profile.buffer, None);
    assert!(
        profile.device.notes.iter().any(|note| note.contains("no end of a write buffer")),
        "{:?}",
        profile.device.notes
    );
}

#[test]
fn reads_are_seen_to_stop_a_recovery_that_needs_idleness() {
    let seed = (1..).find(|&seed| matches!(Hidden::drawn(seed).recovery(), Recovery::Linear { .. }));
    let seed = seed.expect("one of four is linear");
    let mut hidden = Hidden::drawn(seed);
    let profile =
        probe(&mut hidden, Config::quick(CAPACITY, 4096).with_time_most(TIME).with_writes_most(WRITES));
    let reads = profile.recovery.expect("found").reads;
    let share =
        |iops: u64| reads.iter().find(|reads| reads.reads_per_s == iops).expect("measured").recovered_share;
    assert!(share(5000) < 0.05, "the device is never idle: {reads:?}");
    assert!(share(1) > share(5000), "{reads:?}");
}
