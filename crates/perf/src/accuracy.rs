//! Accuracy of the emulated SSD: `gimbal serve --device emulated`, compared with the same model in virtual time.
//!
//! Both get 4 KiB random reads at random moments (an open loop, Poisson), at half of the rate that the device can do. The live device
//! runs at a fraction of its speed (`SPEED`), so that the CPUs of this machine are not the bottleneck; its latencies are multiplied by
//! that fraction. Neither has a scheduler.
//!
//! ```text
//!   live              request on the network ─ late? ─ SSD ─ woken late? ─ answer on the network
//!   in virtual time   (SSD alone, a distribution) + (network round trip, measured among the same live reads, a distribution)
//! ```
//!
//! So the difference is the emulation. The two distributions are added as independent ones. The round trip is measured at the same
//! moments, on an equally busy machine, to a thread that the SSD's completions keep equally awake.

use crate::bringup::Association;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::open_loop::{self, Latencies, Outcome};
use crate::rounds::Rounds;
use crate::stream::{Direction, Load, Stream};
use anyhow::{Result, anyhow};
use sim::{Arrival, ClientChoice, Network, Pattern, PolicyChoice, TenantSpec, Workload, World};
use ssd::{Condition, Profile, SLOT_BYTES};
use std::time::Duration;
use units::{ByteRate, Bytes, Nanos};

/// Both lines.
pub(crate) const ACCURACY: Measure = Measure {
    lines: &[
        Line::ratio("emulated_accuracy_mean", Goal::Within(0.95, 1.05)),
        Line::ratio("emulated_accuracy_p99", Goal::Within(0.9, 1.15)),
    ],
    about: "latency of an emulated SSD at half load, live / in virtual time",
    disturbed: true,
    run: accuracy,
};

/// Speed of the live device: as in the demo, a twentieth.
const SPEED: f64 = 0.05;
/// Part of the maximum rate of the device.
const LOAD_FACTOR: f64 = 0.5;
/// IOs that may be outstanding: as many as a queue of 128 entries holds. Half load needs a quarter of it.
const DEPTH: u32 = 127;
/// Enough outstanding IOs to find the maximum rate of the device.
const SATURATING: u32 = 256;
/// The minimum length of a turn: 20,000 reads, two hundred of them beyond the 99th percentile.
const TURN_MIN: Duration = Duration::from_secs(2);
/// Warm-up at the beginning of a turn.
const RAMP: Duration = Duration::from_millis(200);
/// Virtual time: a few hundred thousand reads.
const VIRTUAL: Nanos = Nanos::secs(2);
const VIRTUAL_RAMP: Nanos = Nanos::millis(20);
const SEED: u64 = 1;
/// Number of values that represent the distribution of latencies in virtual time, each for the same number of reads.
const QUANTILES: usize = 500;

fn accuracy(bench: &Bench) -> Result<Vec<Reading>> {
    let most = simulate(Arrival::Closed { depth: SATURATING })?.rate;
    let iops = (most * LOAD_FACTOR) as u32;
    let rate = f64::from(iops) * SPEED;
    let ssd = simulate(Arrival::Open { iops })?;

    let speed = SPEED.to_string();
    let server = bench
        .programs
        .target(bench.cores, &["--device", "emulated", "--speed", &speed, "--scheduler", "none"])?;
    let association = Association::new(server.address(), 0, 1)?;
    let load = Load {
        direction: Direction::Read,
        length: SLOT_BYTES as u32,
        depth: DEPTH,
        digest: false,
        span: Profile::default().geometry.capacity.get(),
    };
    let mut stream = Stream::new(association.io_queue(1, load.digests())?, load, SEED)?;
    let (mut means, mut p99s, mut ways) = (Compared::default(), Compared::default(), Vec::new());
    for round in 0..bench.rounds {
        let Outcome { ios, way } =
            open_loop::run(&mut stream, rate, RAMP, bench.span.max(TURN_MIN), round as u64)?;
        let expected = ssd.with_way(&way);
        means.add(ios.mean() * SPEED, expected.iter().sum::<f64>() / expected.len() as f64);
        p99s.add(ios.percentile(99) * SPEED, expected[(expected.len() - 1) * 99 / 100]);
        ways.push(way.mean());
    }
    let note = format!(
        "{:.0}k of {:.0}k IOPS; speed {SPEED}; network round trip {:.0} µs",
        f64::from(iops) / 1e3,
        most / 1e3,
        Rounds::new(ways).median() / 1e3,
    );
    Ok(vec![means.reading(&note), p99s.reading(&note)])
}

/// One figure of each round, live and as expected from virtual time, in nanoseconds of the device's clock.
#[derive(Default)]
struct Compared {
    live: Vec<f64>,
    expected: Vec<f64>,
}

impl Compared {
    fn add(&mut self, live: f64, expected: f64) {
        self.live.push(live);
        self.expected.push(expected);
    }

    fn reading(self, note: &str) -> Reading {
        let ratios = self.live.iter().zip(&self.expected).map(|(live, expected)| live / expected).collect();
        let [live, expected] = [self.live, self.expected].map(|nanos| Rounds::new(nanos).median() / 1e3);
        let detail = format!("{live:.1} µs live, {expected:.1} µs in virtual time, at {note}");
        Reading::new(Rounds::new(ratios), detail)
    }
}

/// The result of a run in virtual time.
struct Simulated {
    /// Reads per second.
    rate: f64,
    /// Latencies of the SSD alone, in nanoseconds.
    latencies: Vec<f64>,
}

impl Simulated {
    /// Latencies plus network round trips, sorted: each latency of the SSD with each round trip.
    fn with_way(&self, way: &Latencies) -> Vec<f64> {
        let each = |way: f64| self.latencies.iter().map(move |ssd| ssd + way * SPEED);
        let mut sums: Vec<f64> = way.nanos().flat_map(each).collect();
        sums.sort_unstable_by(f64::total_cmp);
        sums
    }
}

fn simulate(arrival: Arrival) -> Result<Simulated> {
    let reads = Workload { arrival, ..Workload::closed(1, Bytes(SLOT_BYTES), 100, Pattern::Random) };
    let world = World {
        seed: SEED,
        profile: Profile::default(),
        condition: Condition::Clean,
        policy: PolicyChoice::none(),
        auxiliary: None,
        clients: ClientChoice::Credits,
        // No network.
        network: Network { delay: Nanos::ZERO, jitter: Nanos::ZERO, rate: ByteRate(u64::MAX) },
        tenants: vec![TenantSpec::new("reader", reads)],
        warm_up: VIRTUAL_RAMP,
        duration: VIRTUAL,
        interval: VIRTUAL,
    };
    let results = sim::run(&world).map_err(|violation| anyhow!("the world in virtual time: {violation}"))?;
    let read = &results.tenants[0].read;
    let quantile = |n| (n as f64 + 0.5) / QUANTILES as f64;
    let latency = |n| read.latency.end_to_end.value_at_quantile(quantile(n)) as f64;
    Ok(Simulated {
        rate: read.ios as f64 / VIRTUAL.as_secs_f64(),
        latencies: (0..QUANTILES).map(latency).collect(),
    })
}
