//! The cost of cancelling the queued commands of a disconnected host, for few and for many connections.
//!
//! A host with a limit of one IO per second fills its queues with commands that move no data, and then closes all its connections at
//! once: one connection, or 256. The measure is the target's CPU time per IO, from the first closed socket to the last cancelled IO.
//! If the target scanned its queues for each IO, the 256 connections would cost hundreds of times as much per IO.

use crate::bringup::Association;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::{Server, Settings};
use crate::stream::Load;
use anyhow::{Context, Result, ensure};
use nvme::tcp::pdu::Digests;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// Both lines.
pub(crate) const WITHDRAWAL: Measure = Measure {
    lines: &[
        Line { name: "withdraw_ns", unit: "ns", goal: Goal::AtMost(5000.0) },
        Line::ratio("withdraw_scale", Goal::AtMost(1.5)),
    ],
    about: "server CPU time per IO cancelled when its host disconnects, of 256 K; and of 256 K / of 1 K",
    disturbed: true,
    run: withdrawal,
};

/// Entries of each queue: one more than the commands of each connection.
const ENTRIES: u16 = 1024;
/// IO queues of a controller.
const QUEUES_EACH: u16 = 64;
/// Connections in the small and in the large case.
const FEW: u16 = 1;
const MANY: u16 = 256;
/// Number of repetitions of the small case, because once is too short to measure.
const TIMES: u16 = 16;
/// A target that has used almost no CPU time for this long is idle.
const QUIET: Duration = Duration::from_millis(100);
/// The CPU time that an idle target still uses, to check for hanging IOs.
const IDLE: Duration = Duration::from_millis(2);
/// Longest wait until the target is idle.
const PATIENCE: Duration = Duration::from_secs(60);

/// The commands that the crowd queues stay queued.
const CROWD: Settings<'_> = Settings {
    top: "",
    tables: r#"
[[tenant]]
host = "nqn.2025-01.io.gimbal:bench-0"
limit_iops = 1
"#,
};

fn withdrawal(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.null_target_with(bench.cores, &bench.folder, &CROWD)?;
    // The first run grows the target's tables to their final size.
    leave(&server, MANY, 1)?;
    let (mut nanos, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..bench.rounds {
        let (few, many) = (leave(&server, FEW, TIMES)?, leave(&server, MANY, 1)?);
        nanos.push(many);
        ratios.push(many / few);
    }
    let (nanos, ratios) = (Rounds::new(nanos), Rounds::new(ratios));
    let ios = |connections: u16| u32::from(connections) * u32::from(ENTRIES - 1);
    let detail = format!("{} and {} IOs were queued", ios(FEW), ios(MANY));
    let cost = format!("{:.0} ns for each of {}", nanos.median(), ios(MANY));
    Ok(vec![Reading::new(nanos, cost), Reading::new(ratios, detail)])
}

/// Opens connections, fills their queues and closes them, several times. Returns nanoseconds per IO.
fn leave(server: &Server, connections: u16, times: u16) -> Result<f64> {
    let mut used = Duration::ZERO;
    for _ in 0..times {
        let mut hosts = Vec::new();
        let mut sockets = Vec::new();
        for first in (0..connections).step_by(usize::from(QUEUES_EACH)) {
            let queues = QUEUES_EACH.min(connections - first);
            let host = Association::new(server.address(), 0, queues)?;
            for id in 1..=queues {
                let mut socket = host.io_queue_of(id, ENTRIES, Digests::default())?;
                fill(&mut socket)?;
                sockets.push(socket);
            }
            hosts.push(host);
        }
        let before = await_rest(server)?;
        drop(sockets);
        used += await_rest(server)?.saturating_sub(before);
        drop(hosts);
        await_rest(server)?;
    }
    let ios = f64::from(times) * f64::from(connections) * f64::from(ENTRIES - 1);
    Ok(used.as_nanos() as f64 / ios)
}

/// Sends as many commands as the queue holds.
fn fill(socket: &mut TcpStream) -> Result<()> {
    let capsules: Vec<u8> = (0..ENTRIES - 1).flat_map(Load::verify).collect();
    socket.write_all(&capsules).context("filling a queue")
}

/// Waits until the server is idle, and returns the CPU time that it has used.
fn await_rest(server: &Server) -> Result<Duration> {
    let began = Instant::now();
    let mut used = server.processor_time()?.all;
    loop {
        thread::sleep(QUIET);
        let now = server.processor_time()?.all;
        if now.saturating_sub(used) <= IDLE {
            return Ok(used);
        }
        used = now;
        ensure!(began.elapsed() < PATIENCE, "the target is not idle after {PATIENCE:?}");
    }
}
