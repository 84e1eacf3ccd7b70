//! What it costs the target to take back what a host that goes has queued, of little and of much.
//!
//! A host of which one IO a second is let through fills its queues with commands that move no data, and closes all of its
//! connections at once: one, and 256 of them. What the target does then, from the first closed socket to the last IO that is
//! forgotten, is processor time per IO. If an IO were looked for among those that are queued, the larger crowd would cost hundreds
//! of times as much for each.

use crate::bringup::Association;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::Server;
use crate::stream::Load;
use anyhow::{Context, Result, ensure};
use nvme::pdu::Digests;
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
    about: "server CPU time per IO taken back when its host goes, of 256 K; and of 256 K / of 1 K",
    disturbed: true,
    run: withdrawal,
};

/// Entries of each queue, and so commands of each connection and one more.
const ENTRIES: u16 = 1024;
/// IO queues of a controller.
const QUEUES_EACH: u16 = 64;
/// Connections of the small crowd and of the large one.
const FEW: u16 = 1;
const MANY: u16 = 256;
/// The small crowd comes so many times, as once is little to measure.
const TIMES: u16 = 16;
/// A target that has used next to no processor time for so long has nothing to do.
const QUIET: Duration = Duration::from_millis(100);
/// What it uses meanwhile to see whether IOs that wait for their limit hang.
const IDLE: Duration = Duration::from_millis(2);
/// How long it may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the crowd queues stays queued.
const CROWD: &str = r#"
[[tenant]]
host = "nqn.2025-01.io.gimbal:bench-0"
limit_iops = 1
"#;

fn withdrawal(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.null_target_with(bench.cores, &bench.folder, CROWD)?;
    // The first crowd makes the target's tables as large as they become.
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

/// So many connections fill their queues and are closed; so many times. Answers nanoseconds for each IO.
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

/// As many commands as the queue takes.
fn fill(socket: &mut TcpStream) -> Result<()> {
    let capsules: Vec<u8> = (0..ENTRIES - 1).flat_map(Load::verify).collect();
    socket.write_all(&capsules).context("filling a queue")
}

/// Waits until the server does nothing; answers the processor time that it has used.
fn await_rest(server: &Server) -> Result<Duration> {
    let began = Instant::now();
    let mut used = server.processor_time()?;
    loop {
        thread::sleep(QUIET);
        let now = server.processor_time()?;
        if now.saturating_sub(used) <= IDLE {
            return Ok(used);
        }
        used = now;
        ensure!(began.elapsed() < PATIENCE, "the target does not come to rest within {PATIENCE:?}");
    }
}
