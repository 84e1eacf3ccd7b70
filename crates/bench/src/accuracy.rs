//! Whether an emulated SSD keeps its time: `gimbal serve --device emulated` beside the same model in virtual time.
//!
//! Both get 4 KiB random reads at random moments (an open loop, Poisson), half as many as the device can do. The live device runs at
//! a fraction of its speed (`SPEED`), so that this machine's processors are not what is measured; its latencies are multiplied by
//! it. In virtual time the network takes what the wire takes live: half a round trip each way, as measured on a null device
//! at the same rate. Neither has a scheduler, so what differs is the emulation: late wake-ups, bundled events.

use crate::bringup::Association;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::open_loop::{self, Latencies};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::stream::{Direction, Load, Stream};
use anyhow::{Result, anyhow};
use sim::{Arrival, Network, Pattern, PolicyChoice, TenantSpec, Workload, World};
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
/// Of the most that the device can do.
const LOAD_FACTOR: f64 = 0.5;
/// IOs that may be outstanding: all that a queue of 128 entries holds. Half load needs a quarter of it.
const DEPTH: u32 = 127;
/// Enough of them to find the most that the device can do.
const SATURATING: u32 = 256;
/// A live turn is this long at least: 10,000 reads, a hundred of them beyond the 99th percentile.
const TURN_MIN: Duration = Duration::from_secs(2);
/// A turn on the null device.
const WIRE_TURN: Duration = Duration::from_millis(300);
/// Left out at the beginning of a turn.
const RAMP: Duration = Duration::from_millis(200);
/// Virtual time: a few hundred thousand reads.
const VIRTUAL: Nanos = Nanos::secs(2);
const VIRTUAL_RAMP: Nanos = Nanos::millis(20);
const SEED: u64 = 1;

fn accuracy(bench: &Bench) -> Result<Vec<Reading>> {
    let most = simulate(Arrival::Closed { depth: SATURATING }, Nanos::ZERO)?.rate;
    let iops = (most * LOAD_FACTOR) as u32;
    let rate = f64::from(iops) * SPEED;

    let speed = SPEED.to_string();
    let live = bench
        .programs
        .target(bench.cores, &["--device", "emulated", "--speed", &speed, "--scheduler", "none"])?;
    let null = bench.programs.target(bench.cores, &["--device", "null", "--scheduler", "none"])?;
    let (mut live, mut null) = (Peer::new(&live)?, Peer::new(&null)?);
    let (mut means, mut p99s, mut round_trips) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.rounds {
        let seed = round as u64;
        let latencies = live.run(rate, bench.span.max(TURN_MIN), seed)?;
        means.push(latencies.mean() * SPEED);
        p99s.push(latencies.percentile(99) * SPEED);
        round_trips.push(null.run(rate, WIRE_TURN, seed)?.mean());
    }
    let round_trip = Rounds::new(round_trips).median();
    let one_way = Nanos((round_trip * SPEED / 2.0) as u64);
    let expected = simulate(Arrival::Open { iops }, one_way)?;
    let line = |live: Vec<f64>, expected: f64| {
        let live = Rounds::new(live);
        let detail = format!(
            "{:.1} µs live, {:.1} µs in virtual time, at {:.0}k of {:.0}k IOPS; speed {SPEED}; wire {:.0} µs",
            live.median() / 1e3,
            expected / 1e3,
            f64::from(iops) / 1e3,
            most / 1e3,
            round_trip / 1e3,
        );
        Reading::new(live.scaled(1.0 / expected), detail)
    };
    Ok(vec![line(means, expected.mean), line(p99s, expected.p99)])
}

/// A target with one connection in an open loop.
struct Peer {
    stream: Stream,
    /// Held for its admin queue.
    _association: Association,
}

impl Peer {
    fn new(server: &Server) -> Result<Peer> {
        let length = SLOT_BYTES as u32;
        let span = Profile::default().geometry.capacity.get();
        let load = Load { direction: Direction::Read, length, depth: DEPTH, digest: false, span };
        let association = Association::new(server.address(), 0, 1)?;
        let stream = Stream::new(association.io_queue(1, load.digests())?, load, SEED)?;
        Ok(Peer { stream, _association: association })
    }

    fn run(&mut self, rate: f64, span: Duration, seed: u64) -> Result<Latencies> {
        open_loop::run(&mut self.stream, rate, RAMP, span, seed)
    }
}

/// What a run in virtual time gave.
struct Simulated {
    /// Reads per second.
    rate: f64,
    /// Latencies end to end, in nanoseconds.
    mean: f64,
    p99: f64,
}

fn simulate(arrival: Arrival, one_way: Nanos) -> Result<Simulated> {
    let reads = Workload { arrival, ..Workload::closed(1, Bytes(SLOT_BYTES), 100, Pattern::Random) };
    let world = World {
        seed: SEED,
        profile: Profile::default(),
        condition: Condition::Clean,
        policy: PolicyChoice::None,
        // The wire's time is in the delay: it carries at once what it is given.
        network: Network { delay: one_way, jitter: Nanos::ZERO, rate: ByteRate(u64::MAX) },
        tenants: vec![TenantSpec::new("reader", reads)],
        warm_up: VIRTUAL_RAMP,
        duration: VIRTUAL,
        interval: VIRTUAL,
    };
    let results = sim::run(&world).map_err(|violation| anyhow!("the world in virtual time: {violation}"))?;
    let read = &results.tenants[0].read;
    let latency = &read.latency.end_to_end;
    Ok(Simulated {
        rate: read.ios as f64 / VIRTUAL.as_secs_f64(),
        mean: latency.mean(),
        p99: latency.value_at_quantile(0.99) as f64,
    })
}
