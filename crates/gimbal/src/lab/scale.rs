//! `gimbal lab scale`: measures how many IOs are simulated in a second of real time, and how this number changes as
//! tenants are added.
//!
//! One thread runs the worlds in turns, so that other work of the machine affects all of them alike.

use super::progress::Bar;
use crate::output;
use ::lab::findings::Spread;
use ::lab::runner::Progress;
use ::lab::scale::{Pace, TENANTS, Took, world};
use ::lab::scheduler::Scheduler;
use ::lab::ssds::CalibratedSsd;
use anyhow::{Context, Result, anyhow, bail};
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sim::World;
use ssd::Image;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use units::Nanos;

/// Maximum number of tenants of a world.
const TENANTS_MAX: i64 = 1 << 16;
/// Maximum number of rounds.
const ROUNDS_MAX: i64 = 1000;
/// The greatest length of the bar drawn after a number.
const BAR_MAX: f64 = 30.0;

/// Arguments of `gimbal lab scale`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of tenants: a world for each number
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = TENANTS, value_parser = clap::value_parser!(u32).range(1..=TENANTS_MAX))]
    tenants: Vec<u32>,
    /// The scheduler
    #[arg(long, value_name = "NAME", default_value = "level")]
    scheduler: String,
    /// The SSD: a profile that comes with gimbal, or the path of one
    #[arg(long, value_name = "NAME|FILE", default_value = "dct983")]
    profile: String,
    /// A calibration of that SSD, for schedulers that need one
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Virtual time of a run
    #[arg(long, value_name = "TIME", default_value = "2s")]
    span: Nanos,
    /// Number of runs of each world
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=ROUNDS_MAX))]
    rounds: u32,
    /// One JSON object per world instead of a table
    #[arg(long)]
    json: bool,
}

/// One world's line.
#[derive(Serialize)]
struct Line<'a> {
    profile: &'a str,
    scheduler: &'a str,
    tenants: u32,
    /// Virtual seconds of a run.
    virtual_seconds: f64,
    rounds: u32,
    /// IOs of a run, including the warm-up.
    ios: u64,
    /// Per second of real time.
    ios_per_second: Spread,
    /// Per second of processor time of the simulating thread.
    ios_per_processor_second: Spread,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if args.span == Nanos::ZERO {
        bail!("--span: in no time nothing happens; take some, for example 2s");
    }
    let mut ssd = CalibratedSsd::find(&args.profile, Path::new(""))?;
    if let Some(path) = &args.calibration {
        ssd.load_calibration(path)?;
    }
    let scheduler = Scheduler::named(&args.scheduler)?;
    let setup = scheduler.setup(&ssd)?;
    let worlds: Vec<World> =
        args.tenants.iter().map(|tenants| world(&ssd.profile, &setup, *tenants, args.span)).collect();
    let paces = paces(&worlds, args.rounds)?;
    if args.json {
        for pace in &paces {
            let line = Line {
                profile: &ssd.profile.name,
                scheduler: scheduler.name(),
                tenants: pace.tenants,
                virtual_seconds: args.span.as_secs_f64(),
                rounds: args.rounds,
                ios: pace.ios,
                ios_per_second: pace.per_second(),
                ios_per_processor_second: pace.per_processor_second(),
            };
            output::line(serde_json::to_string(&line)?)?;
        }
    } else {
        output::line(table(&paces))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs all worlds in turns, for a number of rounds.
fn paces(worlds: &[World], rounds: u32) -> Result<Vec<Pace>> {
    let first = worlds.first().context("there is no number of tenants")?;
    let image = Image::new(&first.profile, first.condition, first.seed);
    let mut paces: Vec<Pace> = worlds
        .iter()
        .map(|world| Pace { tenants: world.tenants.len() as u32, ios: 0, took: Vec::new() })
        .collect();
    let bar = Bar::new();
    let all = worlds.len() * rounds as usize;
    for round in 0..rounds as usize {
        for (n, (world, pace)) in worlds.iter().zip(&mut paces).enumerate() {
            let (began, busy) = (Instant::now(), thread_time());
            let results = world.policy.build(&image).and_then(|policy| sim::run_on(world, policy, &image));
            let results = results.map_err(|violation| {
                anyhow!("{} tenants broke a rule of the simulator: {violation}", pace.tenants)
            })?;
            let processor = (thread_time() - busy).as_secs_f64();
            pace.took.push(Took { wall: began.elapsed().as_secs_f64(), processor });
            pace.ios = results.ios;
            let label = format!("{} tenants", pace.tenants);
            bar.show(Progress { done: round * worlds.len() + n + 1, all, label: &label });
        }
    }
    Ok(paces)
}

fn table(paces: &[Pace]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "tenants",
        "IOs in a run",
        "IOs per second",
        "least … most",
        "per processor second",
        "",
    ]);
    let greatest = paces.iter().map(|pace| pace.per_second().median).fold(0.0, f64::max);
    for pace in paces {
        let Spread { median, least, greatest: most } = pace.per_second();
        let millions = |rate: f64| format!("{:.2} M", rate / 1e6);
        table.add_row([
            pace.tenants.to_string(),
            pace.ios.to_string(),
            millions(median),
            format!("{} … {}", millions(least), millions(most)),
            millions(pace.per_processor_second().median),
            "█".repeat((BAR_MAX * median / greatest).round() as usize),
        ]);
    }
    for column in table.column_iter_mut().take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The processor time that this thread has used.
fn thread_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
