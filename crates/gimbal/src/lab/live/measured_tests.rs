use super::*;
use ::lab::Experiment;
use ::lab::plan::{Plan, Purpose};
use loadgen::{Job, Slice, Tally as BenchTally};
use units::{Bytes, Instant};

const EXPERIMENT: &str = r#"
title = "t"
source = "s"
about = "a"
profiles = ["dct983"]
seeds = [1]
warm_up = "10ms"
duration = "100ms"
interval = "20ms"
schedulers = ["none"]
[[case]]
name = "clean"
condition = "clean"
groups = [
    { name = "readers", count = 2, rw = "randread", bs = "4k" },
    { name = "idle", rw = "randwrite", bs = "4k" },
]
"#;

/// IOs of each reader in the measured window, and in each interval of 400 ms, which is 20 ms of the SSD's.
const IOS: u64 = 1000;
const PER_INTERVAL: u64 = 200;

fn world() -> World {
    let experiment = Experiment::parse(EXPERIMENT, "x", "x.toml").unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&experiment);
    let run = plan.runs.into_iter().find(|run| matches!(run.purpose, Purpose::Case { .. }));
    run.expect("there is a case").world
}

fn tally(ios: u64, latency: Nanos, service: Nanos) -> BenchTally {
    let histogram = |nanos: Nanos| {
        let mut histogram = Histogram::new(3).expect("three digits");
        histogram.record_n(nanos.0, ios).expect("it resizes");
        histogram
    };
    let bytes = Bytes::kib(4 * ios);
    BenchTally { ios, bytes, latency: histogram(latency), service: histogram(service) }
}

/// A reader whose IOs took 2 ms from sending and 4 ms in all, on this machine. The end of the warm-up was noticed 3 ms
/// late.
fn result(ios: u64) -> JobResult {
    let slice = Slice {
        ios: if ios == 0 { 0 } else { PER_INTERVAL },
        bytes: Bytes::kib(if ios == 0 { 0 } else { 4 * PER_INTERVAL }),
        service_mean: Nanos::millis(2),
        ..Slice::default()
    };
    let ends = [203, 600, 1001, 1400, 1800, 2200].map(Nanos::millis);
    let mut begin = Nanos::ZERO;
    let series = ends.map(|end| {
        let span = end.saturating_sub(begin);
        begin = end;
        Interval { end, span, slices: [slice, Slice::default(), Slice::default()], credit: None }
    });
    JobResult {
        job: Job::named("a"),
        nqn: String::new(),
        measured: Nanos::secs(2),
        tallies: [
            tally(ios, Nanos::millis(4), Nanos::millis(2)),
            tally(0, Nanos(0), Nanos(0)),
            tally(0, Nanos(0), Nanos(0)),
        ],
        series: series.to_vec(),
        trouble: Default::default(),
        verified: None,
        standalone: None,
        tenants: 3,
        found: None,
        members: Vec::new(),
    }
}

fn results(jobs: Vec<JobResult>) -> Results {
    Results { address: ([127, 0, 0, 1], 4420).into(), jobs, fatal: None, is_stopped: false }
}

#[test]
fn figures_are_in_the_ssds_time_and_on_the_simulators_grid() {
    let slow = Slow::parse("20").expect("it divides 1000");
    let results = results(vec![result(IOS), result(IOS), result(0)]);
    let device = Some(Nanos::micros(70));
    let added = Added { device: vec![[device, None], [device, None], [None, None]], view: None, busy: None };
    let whole = Whole { tenants: vec![Counters::default(); 3], late: measures::Histogram::default() };
    let measured = measured(&world(), &[2, 1], &results, (&vec![added; 6], &whole), slow);
    let [readers, idle] = &measured.groups[..] else { panic!("two groups") };
    assert_eq!(readers.bandwidths, [40_960_000.0; 2], "4,096,000 bytes in 100 ms");
    let read = readers.read.as_ref().expect("they read");
    assert_eq!((read.ios, readers.write.is_none(), idle.read.is_none()), (2 * IOS, true, true));
    let near = |ours: f64, expected: f64| assert!((ours / expected - 1.0).abs() < 0.001, "{ours} µs");
    near(read.network.mean_us, 100.0);
    near(read.end_to_end.p99_us, 200.0);
    assert_eq!(readers.series.len(), 5);
    for point in &readers.series {
        let ios = 2 * PER_INTERVAL;
        assert_eq!((point.read.ios, point.read.bytes), (ios, Bytes::kib(4 * ios)));
        assert_eq!(point.read.network_latency, Nanos::micros(100 * ios));
        assert_eq!(point.read.device_latency, Nanos::micros(70 * ios));
    }
    assert_eq!(measured.ios, 2 * 6 * PER_INTERVAL, "the warm-up's too");
    assert_eq!((measured.fingerprint, measured.views.len()), (None, 0));
}

#[test]
fn what_the_scheduler_shows_stands_at_its_moment_of_the_ssds_time() {
    let slow = Slow::parse("20").expect("it divides 1000");
    let results = results(vec![result(IOS), result(0), result(0)]);
    let policy = sched::Gimbal::new(sched::GimbalConfig::published(sched::DeviceConstants::DCT983));
    let added = Added {
        device: vec![[None, None]; 3],
        view: sched::Policy::ssd_view(&policy, Instant::ZERO),
        busy: None,
    };
    let whole = Whole { tenants: vec![Counters::default(); 3], late: measures::Histogram::default() };
    let measured = measured(&world(), &[2, 1], &results, (&vec![added; 6], &whole), slow);
    let moments: Vec<u64> = measured.views.iter().map(|(at, _)| at.0 / 1000).collect();
    assert_eq!(moments, [10_150, 30_000, 50_050, 70_000, 90_000, 110_000]);
}
