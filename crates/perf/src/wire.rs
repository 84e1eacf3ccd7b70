//! The cost of the network side: the target compared with the floor, and with itself with another scheduler.

use crate::client::{Client, Tally};
use crate::contest::{
    Better, Contest, KIB_4, KIB_128, NULL, SLEEPING, SLEEPING_OR_NOT, alternate, median, ratios,
};
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::stream::{Direction, Load};
use anyhow::Result;

/// CPU time per read.
pub(crate) const CPU_PER_READ: Measure = Measure {
    lines: &[Line::ratio("cpu_per_read_qd32", Goal::AtMost(1.1))],
    about: "server CPU time per 4 KiB read, QD 32, null device: target / floor",
    disturbed: true,
    run: cpu_per_read,
};

/// Latency.
pub(crate) const RTT: Measure = Measure {
    lines: &[Line::ratio("rtt_qd1", Goal::AtMost(1.1))],
    about: "mean latency of a 4 KiB read, QD 1, null device: target / floor",
    disturbed: true,
    run: rtt,
};

/// Many connections.
pub(crate) const CONNECTIONS: Measure = Measure {
    lines: &[Line::ratio("connections_64", Goal::AtLeast(1.0))],
    about: "IOPS of 4 KiB reads, 64 connections × QD 2, null device: target / floor",
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

/// The calibration of a device that `level-calibrated` needs. A null device has no costs; a fast SSD's never make it wait here.
const CALIBRATION: &str = include_str!("../../../calibrations/dct983.toml");

/// Fairness.
pub(crate) const POLICY_COST: Measure = Measure {
    lines: &[Line::ratio("policy_cost", Goal::AtLeast(0.97))],
    about: "IOPS of 4 KiB reads, QD 32, null device: the slower scheduler / none",
    disturbed: true,
    run: policy_cost,
};

fn cpu_per_read(bench: &Bench) -> Result<Vec<Reading>> {
    let contest = Contest { load: KIB_4, floors: &SLEEPING, ..Contest::default() };
    let result = contest.run(bench, Tally::cpu_per_io, Better::Less)?;
    Ok(vec![Reading::new(result.ratios, format!("CPU ns per read (core used): {}", result.figures))])
}

fn rtt(bench: &Bench) -> Result<Vec<Reading>> {
    let load = Load { depth: 1, ..KIB_4 };
    let contest = Contest { load, floors: &SLEEPING_OR_NOT, ..Contest::default() };
    let result = contest.run(bench, Tally::latency, Better::Less)?;
    Ok(vec![Reading::new(result.ratios, format!("ns (core used): {}", result.figures))])
}

fn connections(bench: &Bench) -> Result<Vec<Reading>> {
    let load = Load { depth: 2, ..KIB_4 };
    bandwidth(bench, Contest { load, connections: 64, ..Contest::default() })
}

fn bulk_read(bench: &Bench) -> Result<Vec<Reading>> {
    bandwidth(bench, Contest { load: KIB_128, ..Contest::default() })
}

fn bulk_write(bench: &Bench) -> Result<Vec<Reading>> {
    let load = Load { direction: Direction::Write, ..KIB_128 };
    bandwidth(bench, Contest { load, ..Contest::default() })
}

fn bandwidth(bench: &Bench, contest: Contest) -> Result<Vec<Reading>> {
    let result = contest.run(bench, Tally::iops, Better::More)?;
    Ok(vec![Reading::new(result.ratios, format!("IOPS (core used): {}", result.figures))])
}

fn policy_cost(bench: &Bench) -> Result<Vec<Reading>> {
    const SCHEDULERS: [&str; 3] = ["none", "level", "level-calibrated"];
    let calibration = bench.scratch("calibration.toml", CALIBRATION)?;
    let with = |scheduler| {
        let mut arguments = vec![NULL[0], NULL[1], "--scheduler", scheduler];
        if scheduler == "level-calibrated" {
            arguments.extend(["--calibration", calibration.path()?]);
        }
        bench.programs.target(bench.cores, &arguments)
    };
    let servers = SCHEDULERS.into_iter().map(with).collect::<Result<Vec<_>>>()?;
    let clients = servers.iter().map(|server| Client::of_target(server, 1, KIB_4));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let tallies = alternate(bench, bench.span, &mut clients)?;
    let mut slowest: Option<Rounds> = None;
    let mut details = Vec::new();
    for (scheduler, of_it) in SCHEDULERS.iter().zip(&tallies) {
        let ratios = ratios(of_it, &tallies[0], Tally::iops);
        details.push(format!(
            "{scheduler} {:.2}: {:.0}k IOPS, {:.0} ns of CPU per read (core {:.0} % used)",
            ratios.median(),
            median(of_it, Tally::iops) / 1e3,
            median(of_it, Tally::cpu_per_io),
            median(of_it, Tally::server_busy) * 100.0,
        ));
        if *scheduler != "none" && slowest.as_ref().is_none_or(|slowest| ratios.median() < slowest.median()) {
            slowest = Some(ratios);
        }
    }
    Ok(vec![Reading::new(slowest.expect("there are schedulers"), details.join("; "))])
}
