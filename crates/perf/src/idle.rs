//! The cost of idle connections: CPU time and memory.

use crate::client::Client;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::Settings;
use crate::stream::{Direction, Load};
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

/// CPU time.
pub(crate) const IDLE_CPU: Measure = Measure {
    lines: &[Line { name: "idle_cpu", unit: "%", goal: Goal::Below(1.0) }],
    about: "CPU of an idle target with 64 connections, null device",
    disturbed: false,
    run: idle_cpu,
};

/// Memory.
pub(crate) const MEM_PER_CONNECTION: Measure = Measure {
    lines: &[Line { name: "mem_per_connection", unit: "KiB", goal: Goal::AtMost(64.0) }],
    about: "resident memory per idle connection at 1,000",
    disturbed: false,
    run: mem_per_connection,
};

/// Every connection does a read before it is idle.
const LOAD: Load = Load { direction: Direction::Read, length: 4096, depth: 1, digest: false, span: 1 << 40 };
/// Time for which an idle target is watched.
const WATCHED: Duration = Duration::from_secs(6);
/// Wait after the last command, so that work left over from it is not counted.
const SETTLED: Duration = Duration::from_millis(500);
/// IO queues for the CPU time.
const QUEUES: u16 = 64;
/// Hosts for the memory, and IO queues of each; each host also has an admin queue.
const HOSTS: u16 = 20;
const QUEUES_EACH: u16 = 49;
/// All these hosts come from one address, which by default gets only a part of all connections.
const CROWDED: Settings<'_> = Settings {
    top: "",
    tables: "
[limits]
connections = 1024
connections_per_address = 1024
",
};

/// Measured with one thread, which polls for a moment before it sleeps, and with several; the value is the higher one.
fn idle_cpu(bench: &Bench) -> Result<Vec<Reading>> {
    let (mut most, mut details) = (0.0f64, Vec::new());
    for top in ["threads = 1\n", "threads = 4\n"] {
        let server =
            bench.programs.null_target_with(bench.cores, &bench.folder, &Settings { top, tables: "" })?;
        let mut client = Client::of_target(&server, QUEUES, LOAD)?;
        client.use_once()?;
        thread::sleep(SETTLED);
        let (began, used) = (Instant::now(), server.processor_time()?);
        thread::sleep(WATCHED);
        let used = server.processor_time()?.since(used).all;
        let elapsed = began.elapsed();
        most = most.max(100.0 * used.as_secs_f64() / elapsed.as_secs_f64());
        let (used, elapsed) = (used.as_secs_f64() * 1e3, elapsed.as_secs_f64());
        details.push(format!("{used:.1} ms of CPU in {elapsed:.1} s with {}", top.trim_end()));
    }
    Ok(vec![Reading::new(Rounds::new(vec![most]), details.join(", "))])
}

fn mem_per_connection(bench: &Bench) -> Result<Vec<Reading>> {
    let server = bench.programs.null_target_with(bench.cores, &bench.folder, &CROWDED)?;
    let before = server.resident()?;
    let mut clients = Vec::new();
    for host in 0..HOSTS {
        let mut client = Client::of_host(&server, host, QUEUES_EACH, LOAD)?;
        client.use_once()?;
        clients.push(client);
    }
    let after = server.resident()?;
    let connections = HOSTS * (QUEUES_EACH + 1);
    let each = (after.saturating_sub(before)) as f64 / f64::from(connections) / 1024.0;
    let detail = format!(
        "{:.1} MiB without, {:.1} MiB with {connections} connections of {HOSTS} hosts, each used before",
        before as f64 / f64::from(1 << 20),
        after as f64 / f64::from(1 << 20),
    );
    Ok(vec![Reading::new(Rounds::new(vec![each]), detail)])
}
