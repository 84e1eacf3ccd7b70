//! `gimbal lab rocksdb`: databases on the SSDs of a rack in virtual time, as in the Gimbal paper's §5.6 (`rack`).
//!
//! Not an experiment file: those have one SSD.

use super::progress::Bar;
use crate::output;
use ::lab::runner::Progress;
use ::lab::scheduler::Scheduler;
use ::lab::ssds::CalibratedSsd;
use anyhow::{Context, Result, ensure};
use blob::steer::Policy;
use clap::ValueEnum;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use rack::World;
use serde::Serialize;
use sim::Network;
use ssd::Image;
use std::path::Path;
use std::process::ExitCode;
use units::Nanos;
use ycsb::{Properties, Workload};

/// Runs databases on the SSDs of several targets in virtual time, under each scheduler: YCSB's workloads, a model of RocksDB, two copies of
/// everything, reads balanced. Shows throughput and latency, and against the first scheduler what the Gimbal paper says.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The schedulers; the others are compared with the first
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_values_t = ["gimbal", "level", "reflex", "parda", "flashfq", "none"].map(str::to_owned))]
    scheduler: Vec<String>,
    /// Core workloads of YCSB; E scans, which the model of RocksDB does not
    #[arg(long, value_name = "A-D,F", value_delimiter = ',', default_values_t = ['A', 'B', 'C', 'D', 'F'])]
    workload: Vec<char>,
    /// How many databases: a run for each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [24], value_parser = clap::value_parser!(u32).range(1..=48))]
    databases: Vec<u32>,
    /// Threads of each database
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Records of each database, of 1140 bytes
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1000..=100_000))]
    records: u64,
    /// Targets
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    targets: u32,
    /// SSDs of each target
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    ssds: u32,
    /// Which copy is read, and where new data goes: each of these is a run; `primary` is without load balancing
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_values_t = ["credit".to_owned()])]
    policy: Vec<String>,
    /// Profile of the SSDs; one of those that come with gimbal, which the schedulers are calibrated for
    #[arg(long, value_name = "NAME", default_value = "dct983")]
    profile: String,
    /// State of their flash at the start
    #[arg(long, value_enum, default_value = "fragmented")]
    condition: Condition,
    /// Virtual time before measuring
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    warm_up: Nanos,
    /// Virtual time that is measured
    #[arg(long, value_name = "TIME", default_value = "1s")]
    duration: Nanos,
    /// Where the choices of the workloads come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object per run instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Condition {
    Clean,
    Fragmented,
}

/// One run.
#[derive(Serialize)]
struct Line {
    workload: char,
    databases: u32,
    scheduler: &'static str,
    policy: &'static str,
    /// Operations per second of virtual time.
    throughput: f64,
    /// In microseconds.
    mean: f64,
    p50: f64,
    p99: f64,
    p999: f64,
    /// Operations of the slowest database over those of the fastest.
    evenness: f64,
}

/// What the Gimbal paper says of Gimbal against these: throughput times, average and p99.9 latency less by so many percent.
const PAPER: [(&str, f64, f64, f64); 3] =
    [("reflex", 1.7, 34.9, 48.0), ("parda", 2.1, 54.7, 30.2), ("flashfq", 1.3, 20.1, 26.8)];

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.duration > Nanos::ZERO, "--duration: in no time nothing happens; take some, for example 1s");
    let ssd = CalibratedSsd::find(&args.profile, Path::new(""))?;
    let condition = match args.condition {
        Condition::Clean => ssd::Condition::Clean,
        Condition::Fragmented => ssd::Condition::Fragmented,
    };
    let image = Image::new(&ssd.profile, condition, args.seed);
    let mut worlds = Vec::new();
    for &name in &args.workload {
        let workload = workload(name, args.records)?;
        for &databases in &args.databases {
            for scheduler in &args.scheduler {
                let scheduler = Scheduler::named(scheduler)?;
                let setup = scheduler.setup(&ssd)?;
                for policy in &args.policy {
                    let &(policy, steering) =
                        Policy::ALL.iter().find(|(known, _)| known == policy).with_context(|| {
                            format!("--policy: there is no policy {policy}; there are {}", policies())
                        })?;
                    let world = World {
                        seed: args.seed,
                        image: image.clone(),
                        targets: args.targets,
                        ssds: args.ssds,
                        scheduler: setup.policy.clone(),
                        clients: setup.clients.clone(),
                        steering,
                        network: Network::RDMA_100G,
                        databases,
                        threads: args.threads,
                        workload: workload.clone(),
                        options: OPTIONS,
                        is_log_buffered: false,
                        warm_up: args.warm_up.max(scheduler.learns_for()),
                        duration: args.duration,
                    };
                    worlds.push((name, scheduler.name(), policy, world));
                }
            }
        }
    }
    let lines = measure(&worlds);
    if args.json {
        for line in &lines {
            output::line(serde_json::to_string(line).context("a line of JSON")?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    output::line(table(&lines))?;
    output::line(against_paper(&lines))?;
    Ok(ExitCode::SUCCESS)
}

/// As `gimbal bench ycsb` sets RocksDB by default.
const OPTIONS: lsm::Options = lsm::Options {
    key: 23,
    value: 1140,
    write_buffer: 8 << 20,
    l0_trigger: 4,
    level_base: 32 << 20,
    target_file: 8 << 20,
    block: 4096,
    cache: 8 << 20,
    filter_bits: 10,
};

fn policies() -> String {
    Policy::ALL.map(|(name, _)| name).join(", ")
}

fn workload(name: char, records: u64) -> Result<Workload> {
    let mut properties = Properties::core(name)?;
    properties.put("recordcount", records);
    // The time ends it.
    properties.put("operationcount", 0);
    let workload = Workload::new(&properties)?;
    ensure!(workload.mix.scan <= 0.0, "workload {name} scans, which the model of RocksDB does not");
    Ok(workload)
}

fn measure(worlds: &[(char, &'static str, &'static str, World)]) -> Vec<Line> {
    let bar = Bar::new();
    let mut lines = Vec::new();
    for (done, (workload, scheduler, policy, world)) in worlds.iter().enumerate() {
        let label = format!("workload {workload}, {} databases, {scheduler}", world.databases);
        bar.show(Progress { done, all: worlds.len(), label: &label });
        let results = rack::run(world);
        let all = results.all();
        let micros = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
        let (least, most) = (results.operations.iter().min(), results.operations.iter().max());
        lines.push(Line {
            workload: *workload,
            databases: world.databases,
            scheduler,
            policy,
            throughput: all.len() as f64 / world.duration.as_secs_f64(),
            mean: all.mean() / 1e3,
            p50: micros(0.5),
            p99: micros(0.99),
            p999: micros(0.999),
            evenness: least.zip(most).map_or(0.0, |(least, most)| *least as f64 / (*most).max(1) as f64),
        });
    }
    lines
}

fn new_table<const N: usize>(header: [&str; N], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn table(lines: &[Line]) -> Table {
    let header = [
        "workload",
        "scheduler",
        "reads",
        "databases",
        "kops/s",
        "avg µs",
        "p50",
        "p99",
        "p99.9",
        "slowest / fastest",
    ];
    let mut table = new_table(header, 3);
    for line in lines {
        table.add_row([
            line.workload.to_string(),
            line.scheduler.to_owned(),
            line.policy.to_owned(),
            line.databases.to_string(),
            format!("{:.1}", line.throughput / 1e3),
            format!("{:.0}", line.mean),
            format!("{:.0}", line.p50),
            format!("{:.0}", line.p99),
            format!("{:.0}", line.p999),
            format!("{:.2}", line.evenness),
        ]);
    }
    table
}

/// The first scheduler against the others, averaged over workloads, numbers of databases and policies; and what the paper says of Gimbal.
fn against_paper(lines: &[Line]) -> Table {
    let header = ["against", "throughput", "paper", "average latency", "paper", "p99.9 latency", "paper"];
    let mut table = new_table(header, 1);
    let first = lines[0].scheduler;
    let same =
        |a: &Line, b: &Line| (a.workload, a.databases, a.policy) == (b.workload, b.databases, b.policy);
    let mut seen = vec![first];
    for line in lines {
        if seen.contains(&line.scheduler) {
            continue;
        }
        seen.push(line.scheduler);
        let others = lines.iter().filter(|other| other.scheduler == line.scheduler);
        let pairs: Vec<(&Line, &Line)> = others
            .filter_map(|other| {
                Some((lines.iter().find(|own| own.scheduler == first && same(own, other))?, other))
            })
            .collect();
        let average = |of: &dyn Fn(&Line, &Line) -> f64| {
            pairs.iter().map(|(own, other)| of(own, other)).sum::<f64>() / pairs.len().max(1) as f64
        };
        let less = |own: f64, other: f64| 100.0 * (1.0 - own / other);
        let paper = PAPER.iter().find(|(name, ..)| *name == line.scheduler && first == "gimbal");
        let said = |text: fn(&(&str, f64, f64, f64)) -> String| paper.map_or(String::new(), text);
        table.add_row([
            line.scheduler.to_owned(),
            format!("×{:.2}", average(&|own, other| own.throughput / other.throughput)),
            said(|(_, times, ..)| format!("×{times}")),
            format!("−{:.1} %", average(&|own, other| less(own.mean, other.mean))).replace("−-", "+"),
            said(|(_, _, mean, _)| format!("−{mean} %")),
            format!("−{:.1} %", average(&|own, other| less(own.p999, other.p999))).replace("−-", "+"),
            said(|(.., tail)| format!("−{tail} %")),
        ]);
    }
    table
}
