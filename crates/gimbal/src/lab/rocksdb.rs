//! `gimbal lab rocksdb`: databases on the SSDs of a rack in virtual time, as in the Gimbal paper's §5.6 (`rack`).
//!
//! The paper's claims about this are experiments of their own (`gimbal lab claims g10 g11`); here everything can be
//! set.

use super::progress::Bar;
use crate::beside::Beside;
use crate::output;
use ::lab::racks::{self, OPTIONS, Point, RackRecord, RackRun};
use ::lab::scheduler::Scheduler;
use ::lab::ssds::CalibratedSsd;
use anyhow::{Context, Result, ensure};
use blob::steer::Policy;
use clap::ValueEnum;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use rack::World;
use sched::Share;
use sim::Network;
use ssd::Image;
use std::path::Path;
use std::process::ExitCode;
use units::Nanos;
use ycsb::Workload;

/// Runs databases on the SSDs of several targets in virtual time, under each scheduler: YCSB's workloads, a model of
/// RocksDB, two copies of all data, reads balanced. Shows throughput and latency, and the ratios to the first scheduler
/// next to those of the Gimbal paper.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The schedulers; the others are compared with the first
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_values_t = ["gimbal", "level", "reflex-compared", "parda-compared", "flashfq-compared", "none"].map(str::to_owned))]
    scheduler: Vec<String>,
    /// Core workloads of YCSB; not E, because the model of RocksDB has no scans
    #[arg(long, value_name = "A-D,F", value_delimiter = ',', default_values_t = ['A', 'B', 'C', 'D', 'F'])]
    workload: Vec<char>,
    /// Number of databases: a run for each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [24], value_parser = clap::value_parser!(u32).range(1..=48))]
    databases: Vec<u32>,
    /// Threads of each database: a run for each number
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [16], value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Show the throughput at which the 99th percentile of reads is this, interpolated between the numbers of threads
    #[arg(long, value_name = "TIME")]
    p99: Option<Nanos>,
    /// When a write completes: `flushed` when both copies of the log have it, `buffered` when the client's buffer has
    /// it, as the plug-in's `flush` option
    #[arg(long, value_enum, default_value = "flushed")]
    log: LogMode,
    /// Records of each database, of 1140 bytes
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1000..=100_000))]
    records: u64,
    /// Targets
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    targets: u32,
    /// SSDs of each target
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    ssds: u32,
    /// Policy that chooses the copy to read and the place of new data: a run for each; `primary` is without load
    /// balancing
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_values_t = ["credit".to_owned()])]
    policy: Vec<String>,
    /// Profile of the SSDs; one of those that come with gimbal, for which the schedulers are calibrated
    #[arg(long, value_name = "NAME", default_value = "dct983")]
    profile: String,
    /// State of their flash at the start
    #[arg(long, value_enum, default_value = "fragmented")]
    condition: Condition,
    /// Each database says what it waits for: its log goes before its reads, and these before its compactions
    #[arg(long)]
    classes: bool,
    #[command(flatten)]
    beside: Beside,
    /// Virtual time before measuring
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    warm_up: Nanos,
    /// Virtual time that is measured
    #[arg(long, value_name = "TIME", default_value = "1s")]
    duration: Nanos,
    /// Seed of the workloads' random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object per run instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogMode {
    Flushed,
    Buffered,
}

#[derive(Clone, Copy, ValueEnum)]
enum Condition {
    Clean,
    Fragmented,
}

/// The Gimbal paper's comparison of Gimbal with these schedulers as its authors had configured them: ratio of the
/// throughputs, and reduction of average and p99.9 latency in percent.
const PAPER: [(&str, f64, f64, f64); 3] = [
    ("reflex-compared", 1.7, 34.9, 48.0),
    ("parda-compared", 2.1, 54.7, 30.2),
    ("flashfq-compared", 1.3, 20.1, 26.8),
];

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.duration > Nanos::ZERO, "--duration: in no time nothing happens; take some, for example 1s");
    let ssd = CalibratedSsd::find(&args.profile, Path::new(""))?;
    let condition = match args.condition {
        Condition::Clean => ssd::Condition::Clean,
        Condition::Fragmented => ssd::Condition::Fragmented,
    };
    let image = Image::new(&ssd.profile, condition, args.seed);
    let share = Share { slo: args.beside.objective()?, ..Share::EQUAL };
    let policies = args.policy.iter().map(|name| policy(name)).collect::<Result<Vec<_>>>()?;
    let mut runs = Vec::new();
    for scheduler in &args.scheduler {
        let scheduler = Scheduler::named(scheduler)?;
        let setup = scheduler.setup(&ssd)?;
        let mut learnt = None;
        for &name in &args.workload {
            let workload = workload(name, args.records)?;
            for &databases in &args.databases {
                for (&threads, &(policy, steering)) in args
                    .threads
                    .iter()
                    .flat_map(|threads| policies.iter().map(move |policy| (threads, policy)))
                {
                    let mut world = World {
                        seed: args.seed,
                        image: image.clone(),
                        targets: args.targets,
                        ssds: args.ssds,
                        scheduler: setup.policy.clone(),
                        clients: setup.clients.clone(),
                        steering,
                        network: Network::RDMA_100G,
                        databases,
                        threads,
                        workload: workload.clone(),
                        options: OPTIONS,
                        share,
                        has_classes: args.classes,
                        neighbours: args.beside.neighbours().to_vec(),
                        is_log_buffered: args.log == LogMode::Buffered,
                        warm_up: args.warm_up,
                        duration: args.duration,
                    };
                    if scheduler == Scheduler::LEVEL {
                        world.scheduler = learnt.get_or_insert_with(|| racks::learn(&world)).clone();
                    }
                    let (scheduler, profile) = (scheduler.name(), args.profile.clone());
                    runs.push(RackRun { workload: name, scheduler, policy, profile, world });
                }
            }
        }
    }
    let bar = Bar::new();
    let records = racks::measure(&runs, &|progress| bar.show(progress));
    drop(bar);
    if args.json {
        for record in &records {
            output::line(serde_json::to_string(record).context("a line of JSON")?)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    output::line(table(&records))?;
    for record in &records {
        for (state, count) in &record.objectives {
            let of: usize = record.objectives.values().sum();
            let RackRecord { workload, scheduler, databases, threads, .. } = record;
            output::line(format!(
                "{workload}, {scheduler}, {databases} databases, {threads} threads: {count} of {of} objectives {state}"
            ))?;
        }
    }
    if let Some(p99) = args.p99 {
        output::line(knees(&records, p99))?;
    }
    output::line(against_paper(&records))?;
    Ok(ExitCode::SUCCESS)
}

fn policy(name: &str) -> Result<(&'static str, Policy)> {
    racks::policy(name).with_context(|| {
        let known = Policy::ALL.map(|(name, _)| name).join(", ");
        format!("--policy: there is no policy {name}; there are {known}")
    })
}

fn workload(name: char, records: u64) -> Result<Workload> {
    let workload = racks::workload(name, records)?;
    ensure!(workload.mix.scan <= 0.0, "workload {name} scans, which the model of RocksDB does not");
    Ok(workload)
}

fn new_table<const N: usize>(header: [&str; N], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header);
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn table(records: &[RackRecord]) -> Table {
    let header = [
        "workload",
        "scheduler",
        "reads",
        "databases",
        "threads",
        "kops/s",
        "avg µs",
        "p50",
        "p99",
        "p99.9",
        "reads p99",
        "p99.9",
        "slowest / fastest",
        "MB/s",
        "neighbours' MB/s",
    ];
    let mut table = new_table(header, 3);
    for record in records {
        let micros = |value: f64| format!("{value:.0}");
        table.add_row([
            record.workload.to_string(),
            record.scheduler.to_owned(),
            record.policy.to_owned(),
            record.databases.to_string(),
            record.threads.to_string(),
            format!("{:.1}", record.throughput / 1e3),
            micros(record.all.mean),
            micros(record.all.p50),
            micros(record.all.p99),
            micros(record.all.p999),
            micros(record.reads.p99),
            micros(record.reads.p999),
            format!("{:.2}", record.evenness),
            format!("{:.0}", record.bytes / 1e6),
            record
                .neighbours
                .iter()
                .map(|bytes| format!("{:.0}", bytes / 1e6))
                .collect::<Vec<_>>()
                .join(", "),
        ]);
    }
    table
}

/// The throughput at a bound on the 99th percentile of reads, and its ratio to that of the first policy.
fn knees(records: &[RackRecord], p99: Nanos) -> Table {
    let title = format!("kops/s at p99 {p99} of reads");
    let mut table = new_table(["workload", "scheduler", "reads", "databases", &title, "times"], 3);
    let mut seen: Vec<(&RackRecord, Option<f64>)> = Vec::new();
    for record in records {
        let is_same = |other: &RackRecord| {
            (other.workload, other.scheduler, other.databases)
                == (record.workload, record.scheduler, record.databases)
        };
        if seen.iter().any(|(other, _)| is_same(other) && other.policy == record.policy) {
            continue;
        }
        let mut line: Vec<&RackRecord> =
            records.iter().filter(|other| is_same(other) && other.policy == record.policy).collect();
        line.sort_by_key(|record| record.threads);
        let points: Vec<Point> = line
            .iter()
            .map(|record| Point { throughput: record.throughput, latency: record.reads.p99.max(1e-3) })
            .collect();
        let found = racks::knee(&points, p99.0 as f64 / 1e3);
        let first = seen.iter().find(|(other, _)| is_same(other)).map_or(found, |(_, first)| *first);
        seen.push((record, found));
        table.add_row([
            record.workload.to_string(),
            record.scheduler.to_owned(),
            record.policy.to_owned(),
            record.databases.to_string(),
            found.map_or("–".to_owned(), |found| format!("{:.1}", found / 1e3)),
            found.zip(first).map_or("–".to_owned(), |(found, first)| format!("×{:.2}", found / first)),
        ]);
    }
    table
}

/// The first scheduler against the others, averaged over workloads, numbers of databases and policies; and the paper's
/// figures for Gimbal.
fn against_paper(lines: &[RackRecord]) -> Table {
    let header = ["against", "throughput", "paper", "average latency", "paper", "p99.9 latency", "paper"];
    let mut table = new_table(header, 1);
    let first = lines[0].scheduler;
    let same = |a: &RackRecord, b: &RackRecord| {
        (a.workload, a.databases, a.threads, a.policy) == (b.workload, b.databases, b.threads, b.policy)
    };
    let mut seen = vec![first];
    for line in lines {
        if seen.contains(&line.scheduler) {
            continue;
        }
        seen.push(line.scheduler);
        let others = lines.iter().filter(|other| other.scheduler == line.scheduler);
        let pairs: Vec<(&RackRecord, &RackRecord)> = others
            .filter_map(|other| {
                Some((lines.iter().find(|own| own.scheduler == first && same(own, other))?, other))
            })
            .collect();
        let average = |of: &dyn Fn(&RackRecord, &RackRecord) -> f64| {
            pairs.iter().map(|(own, other)| of(own, other)).sum::<f64>() / pairs.len().max(1) as f64
        };
        let less = |own: f64, other: f64| 100.0 * (1.0 - own / other);
        let paper = PAPER.iter().find(|(name, ..)| *name == line.scheduler && first == "gimbal");
        let said = |text: fn(&(&str, f64, f64, f64)) -> String| paper.map_or(String::new(), text);
        table.add_row([
            line.scheduler.to_owned(),
            format!("×{:.2}", average(&|own, other| own.throughput / other.throughput)),
            said(|(_, times, ..)| format!("×{times}")),
            format!("−{:.1} %", average(&|own, other| less(own.all.mean, other.all.mean))).replace("−-", "+"),
            said(|(_, _, mean, _)| format!("−{mean} %")),
            format!("−{:.1} %", average(&|own, other| less(own.all.p999, other.all.p999))).replace("−-", "+"),
            said(|(.., tail)| format!("−{tail} %")),
        ]);
    }
    table
}
