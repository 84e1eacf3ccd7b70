//! The cost of the network side: the target compared with the floor, and with itself in another configuration.
//!
//! Each contestant is a server on the server's core, with connections that stay open. Contestants take turns, in rounds; each round
//! starts with another contestant. The value of a line is the median, over the rounds, of the ratio within a round. So a slow minute
//! of the machine affects both sides.
//!
//! The floor (`crates/reactor/examples/floor`) runs with epoll and with io_uring; the better one counts.

use crate::client::{Client, Tally};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::stream::{Direction, Load};
use anyhow::Result;
use std::time::Duration;

/// CPU time per read.
pub(crate) const CPU_PER_READ: Measure = Measure {
    lines: &[Line::ratio("cpu_per_read_qd32", Goal::AtMost(1.25))],
    about: "server CPU time per 4 KiB read, QD 32, null device: target / floor",
    disturbed: true,
    run: cpu_per_read,
};

/// Latency.
pub(crate) const RTT: Measure = Measure {
    lines: &[Line::ratio("rtt_qd1", Goal::AtMost(1.15))],
    about: "mean latency of a 4 KiB read, QD 1, null device: target / floor",
    disturbed: true,
    run: rtt,
};

/// Many connections.
pub(crate) const CONNECTIONS: Measure = Measure {
    lines: &[Line::ratio("connections_64", Goal::AtLeast(0.8))],
    about: "IOPS of 4 KiB reads: 64 connections × QD 2 / 4 × QD 32",
    disturbed: true,
    run: connections,
};

/// Large reads.
pub(crate) const BULK_READ: Measure = Measure {
    lines: &[Line::ratio("bulk_read", Goal::AtLeast(0.9))],
    about: "bandwidth of 128 KiB reads, QD 4, null device: target / floor",
    disturbed: true,
    run: bulk_read,
};

/// Large writes.
pub(crate) const BULK_WRITE: Measure = Measure {
    lines: &[Line::ratio("bulk_write", Goal::AtLeast(0.9))],
    about: "bandwidth of 128 KiB writes, QD 4, null device: target / floor",
    disturbed: true,
    run: bulk_write,
};

/// Fairness.
pub(crate) const POLICY_COST: Measure = Measure {
    lines: &[Line::ratio("policy_cost", Goal::AtLeast(0.95))],
    about: "IOPS of 4 KiB reads, QD 32, null device: scheduler gimbal-fair / none",
    disturbed: true,
    run: policy_cost,
};

/// Data digests.
pub(crate) const DIGEST_COST: Measure = Measure {
    lines: &[Line::ratio("digest_cost", Goal::AtLeast(0.9))],
    about: "bandwidth of 128 KiB reads and writes, QD 4: with data digest / without",
    disturbed: true,
    run: digest_cost,
};

const NULL: [&str; 2] = ["--device", "null"];
/// A variant of the floor: its name, its backend, and how long it polls before it sleeps.
type Floor = (&'static str, &'static str, Duration);
/// Floors that sleep whenever there is nothing to do.
const SLEEPING: [Floor; 2] = [("epoll", "epoll", Duration::ZERO), ("io_uring", "io_uring", Duration::ZERO)];
/// Longer than a round trip takes, so that the floor never sleeps at QD 1.
const SPIN: Duration = Duration::from_micros(200);
const SLEEPING_OR_NOT: [Floor; 4] =
    [SLEEPING[0], SLEEPING[1], ("epoll awake", "epoll", SPIN), ("io_uring awake", "io_uring", SPIN)];
const KIB_4: Load =
    Load { direction: Direction::Read, length: 4096, depth: 32, digest: false, span: 1 << 40 };
const KIB_128: Load = Load { length: 128 << 10, depth: 4, ..KIB_4 };
fn cpu_per_read(bench: &Bench) -> Result<Vec<Reading>> {
    let against = against_floor(bench, KIB_4, &SLEEPING, Tally::cpu_per_io, Better::Less)?;
    let detail = format!("CPU ns per read (core used): {}", against.figures);
    Ok(vec![Reading::new(against.ratios, detail)])
}

fn rtt(bench: &Bench) -> Result<Vec<Reading>> {
    let load = Load { depth: 1, ..KIB_4 };
    let against = against_floor(bench, load, &SLEEPING_OR_NOT, Tally::latency, Better::Less)?;
    let detail = format!("ns (core used): {}", against.figures);
    Ok(vec![Reading::new(against.ratios, detail)])
}

fn connections(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.target(bench.cores, &NULL)?;
    let mut few = Client::of_target(&server, 4, KIB_4)?;
    let mut many = Client::of_target(&server, 64, Load { depth: 2, ..KIB_4 })?;
    let tallies = alternate(bench, &mut [&mut many, &mut few])?;
    let detail = format!(
        "{:.0}k with 64, {:.0}k with 4; core of the target {:.0} % and {:.0} % busy",
        median(&tallies[0], Tally::iops) / 1e3,
        median(&tallies[1], Tally::iops) / 1e3,
        median(&tallies[0], Tally::server_busy) * 100.0,
        median(&tallies[1], Tally::server_busy) * 100.0,
    );
    Ok(vec![Reading::new(ratios(&tallies[0], &tallies[1], Tally::iops), detail)])
}

fn bulk_read(bench: &Bench) -> Result<Vec<Reading>> {
    bulk(bench, KIB_128)
}

fn bulk_write(bench: &Bench) -> Result<Vec<Reading>> {
    bulk(bench, Load { direction: Direction::Write, ..KIB_128 })
}

fn bulk(bench: &Bench, load: Load) -> Result<Vec<Reading>> {
    let against = against_floor(bench, load, &SLEEPING, Tally::iops, Better::More)?;
    let detail = format!("IOPS (core used): {}", against.figures);
    Ok(vec![Reading::new(against.ratios, detail)])
}

fn policy_cost(bench: &Bench) -> Result<Vec<Reading>> {
    let with = |scheduler| {
        let arguments = [NULL[0], NULL[1], "--scheduler", scheduler];
        bench.programs.target(bench.cores, &arguments)
    };
    let servers = [with("gimbal-fair")?, with("none")?];
    let mut gimbal = Client::of_target(&servers[0], 1, KIB_4)?;
    let mut none = Client::of_target(&servers[1], 1, KIB_4)?;
    let tallies = alternate(bench, &mut [&mut gimbal, &mut none])?;
    let detail = format!(
        "{:.0}k and {:.0}k IOPS; {:.0} and {:.0} ns of CPU per read; core of the target {:.0} % and {:.0} % busy",
        median(&tallies[0], Tally::iops) / 1e3,
        median(&tallies[1], Tally::iops) / 1e3,
        median(&tallies[0], Tally::cpu_per_io),
        median(&tallies[1], Tally::cpu_per_io),
        median(&tallies[0], Tally::server_busy) * 100.0,
        median(&tallies[1], Tally::server_busy) * 100.0,
    );
    Ok(vec![Reading::new(ratios(&tallies[0], &tallies[1], Tally::iops), detail)])
}

/// Measures reads and writes; the value is the one with the higher cost.
fn digest_cost(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.target(bench.cores, &NULL)?;
    let mut found = Vec::new();
    let mut details = Vec::new();
    for (what, direction) in [("reads", Direction::Read), ("writes", Direction::Write)] {
        let load = Load { direction, ..KIB_128 };
        let mut with = Client::of_target(&server, 1, Load { digest: true, ..load })?;
        let mut without = Client::of_target(&server, 1, load)?;
        let tallies = alternate(bench, &mut [&mut with, &mut without])?;
        let ratios = ratios(&tallies[0], &tallies[1], Tally::iops);
        details.push(format!("{what} {:.2}", ratios.median()));
        found.push(ratios);
    }
    let slower = found.into_iter().min_by(|a, b| a.median().total_cmp(&b.median())).expect("there are two");
    Ok(vec![Reading::new(slower, details.join(", "))])
}

/// What is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// The target against the better floor.
struct AgainstFloor {
    ratios: Rounds,
    /// Medians of all contestants, each with the part of its core that it used, as text.
    figures: String,
}

fn against_floor(
    bench: &Bench,
    load: Load,
    kinds: &[Floor],
    figure: fn(&Tally) -> f64,
    better: Better,
) -> Result<AgainstFloor> {
    let target = bench.programs.target(bench.cores, &NULL)?;
    let mut names = vec!["target"];
    let mut floors: Vec<Server> = Vec::new();
    let mut missing = String::new();
    for &(name, backend, spin) in kinds {
        match bench.programs.floor(bench.cores, backend, spin) {
            Ok(server) => {
                floors.push(server);
                names.push(name);
            }
            Err(error) => missing = format!("; no floor with {backend}: {error:#}"),
        }
    }
    anyhow::ensure!(!floors.is_empty(), "no floor runs{missing}");
    let mut clients = vec![Client::of_target(&target, 1, load)?];
    for floor in &floors {
        clients.push(Client::of_floor(floor, 1, load)?);
    }
    let tallies = alternate(bench, &mut clients.iter_mut().collect::<Vec<_>>())?;
    let medians: Vec<f64> = tallies.iter().map(|tallies| median(tallies, figure)).collect();
    let best = (1..medians.len()).min_by(|&a, &b| match better {
        Better::Less => medians[a].total_cmp(&medians[b]),
        Better::More => medians[b].total_cmp(&medians[a]),
    });
    let best = best.expect("there is a floor");
    let figures: Vec<String> = names
        .iter()
        .zip(&medians)
        .zip(&tallies)
        .map(|((name, value), tallies)| {
            format!("{name} {value:.0} ({:.0} %)", median(tallies, Tally::server_busy) * 100.0)
        })
        .collect();
    let figures = figures.join(", ") + &missing;
    Ok(AgainstFloor { ratios: ratios(&tallies[0], &tallies[best], figure), figures })
}

/// Gives each contestant its turn, round after round; each round starts with the next contestant. Returns the results of the turns
/// by contestant.
fn alternate(bench: &Bench, contestants: &mut [&mut Client<'_>]) -> Result<Vec<Vec<Tally>>> {
    let mut tallies = vec![Vec::new(); contestants.len()];
    for round in 0..bench.rounds {
        for turn in 0..contestants.len() {
            let who = (round + turn) % contestants.len();
            tallies[who].push(contestants[who].run(bench.span)?);
        }
    }
    Ok(tallies)
}

fn ratios(ours: &[Tally], theirs: &[Tally], figure: fn(&Tally) -> f64) -> Rounds {
    Rounds::new(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
}

fn median(tallies: &[Tally], figure: fn(&Tally) -> f64) -> f64 {
    Rounds::new(tallies.iter().map(figure).collect()).median()
}
