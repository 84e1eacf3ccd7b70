//! The cost of a connection and its SSD on different threads.
//!
//! Two targets that differ in one setting: `threads = 1`, where the thread of the SSD carries the connection, and `threads = 2`, where
//! another thread carries it. The host has two IO queues and uses the second, which is the one that goes to the other thread; that it
//! did is checked by the CPU time of the threads.
//!
//! CPU time is compared without busy polling, because a thread that waits for another one by polling would be counted as work. The
//! latency is compared with busy polling if each thread can have a core in addition to the client's, and without it otherwise.

use crate::client::{Client, Tally};
use crate::contest::{KIB_4, alternate, median, ratios};
use crate::machine::Cores;
use crate::measure::{Bench, Goal, Line, Measure, Reading};
use crate::rounds::Rounds;
use crate::server::{Server, Settings};
use crate::stream::Load;
use anyhow::{Result, ensure};

/// CPU time.
pub(crate) const REMOTE_COST: Measure = Measure {
    lines: &[Line::ratio("remote_cost", Goal::AtMost(1.15))],
    about: "CPU of all threads per 4 KiB read, QD 32: connection and SSD on two threads / on one",
    disturbed: true,
    run: remote_cost,
};

/// The limit of an SSD.
pub(crate) const SSD_THREAD: Measure = Measure {
    lines: &[Line { name: "ssd_thread_ns", unit: "ns", goal: Goal::AtMost(350.0) }],
    about: "CPU per 4 KiB read of the SSD's thread, which holds no connection; null device, level",
    disturbed: true,
    run: ssd_thread,
};

/// Latency.
pub(crate) const REMOTE_RTT: Measure = Measure {
    lines: &[Line::ratio("remote_rtt_qd1", Goal::AtMost(1.25))],
    about: "mean latency of a 4 KiB read, QD 1: connection and SSD on two threads / on one",
    disturbed: true,
    run: remote_rtt,
};

const ONE: &str = "threads = 1\n";
const TWO: &str = "threads = 2\n";
const NO_POLLING: &str = "spin = \"0us\"\n";
/// Outstanding reads that keep the other thread busy all the time: so a batch for the SSD is as large as it is under full load.
const DEEP: u32 = 96;

fn target(bench: &Bench, cores: Cores, top: &[&str]) -> Result<Server> {
    bench.programs.null_target_with(cores, &bench.folder, &Settings { top: &top.concat(), tables: "" })
}

/// Both targets under this load, in turns: apart, together.
fn contest(bench: &Bench, cores: Cores, load: Load, more: &str) -> Result<[Vec<Tally>; 2]> {
    let servers = [target(bench, cores, &[TWO, more])?, target(bench, cores, &[ONE, more])?];
    let clients = servers.iter().map(|server| Client::of_second_queue(server, load));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let tallies: [Vec<Tally>; 2] =
        alternate(bench, bench.span, &mut clients)?.try_into().expect("two contestants");
    let used_two = |tally: &Tally| !tally.server.ssds.is_zero() && !tally.server.connections.is_zero();
    ensure!(tallies[0].iter().all(used_two), "the connection is not on another thread than its SSD");
    ensure!(!tallies[1].iter().any(used_two), "the connection is on another thread than its SSD");
    Ok(tallies)
}

fn remote_cost(bench: &Bench) -> Result<Vec<Reading>> {
    let (cores, count) = bench.cores.spread();
    let [apart, together] = contest(bench, cores, KIB_4, NO_POLLING)?;
    let detail = format!(
        "{:.0} ns (the SSD's thread {:.0}) and {:.0} ns, threads on {count} {}, no busy polling",
        median(&apart, Tally::cpu_per_io),
        median(&apart, Tally::ssd_cpu_per_io),
        median(&together, Tally::cpu_per_io),
        if count == 1 { "CPU" } else { "CPUs" },
    );
    Ok(vec![Reading::new(ratios(&apart, &together, Tally::cpu_per_io), detail)])
}

fn ssd_thread(bench: &Bench) -> Result<Vec<Reading>> {
    let (cores, _) = bench.cores.spread();
    let [apart, _] = contest(bench, cores, Load { depth: DEEP, ..KIB_4 }, NO_POLLING)?;
    let nanos = Rounds::new(apart.iter().map(Tally::ssd_cpu_per_io).collect());
    let detail = format!(
        "{:.2} M reads per second of CPU time of this thread; QD {DEEP}, {:.0}k IOPS, {:.0} ns in all threads",
        1e3 / nanos.median(),
        median(&apart, Tally::iops) / 1e3,
        median(&apart, Tally::cpu_per_io),
    );
    Ok(vec![Reading::new(nanos, detail)])
}

fn remote_rtt(bench: &Bench) -> Result<Vec<Reading>> {
    let (cores, count) = bench.cores.spread();
    let (more, how) = match count {
        1 => (NO_POLLING, "both threads on one CPU, no busy polling"),
        _ => ("", "a CPU for each thread"),
    };
    let [apart, together] = contest(bench, cores, Load { depth: 1, ..KIB_4 }, more)?;
    let detail = format!(
        "{:.1} and {:.1} µs; {how}",
        median(&apart, Tally::latency) / 1e3,
        median(&together, Tally::latency) / 1e3,
    );
    Ok(vec![Reading::new(ratios(&apart, &together, Tally::latency), detail)])
}
