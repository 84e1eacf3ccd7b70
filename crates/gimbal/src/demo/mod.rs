//! `gimbal demo`: the product's promise on one page, with nothing to set up.
//!
//! Starts the switch on an emulated SSD, connects four tenants to it over real NVMe/TCP, runs them under each scheduler, and
//! shows what came of it: live bars, a table, a report with plots. The same scenario runs in virtual time, to find what the SSD
//! gives each tenant alone, and to hold the product against the simulator.
//!
//! ```text
//!   scenario ─► live (switch + bench, per scheduler) ─┐
//!      └─────► virtual time (sim) ────────────────────┴─► figures ─► promises ─► terminal · report · json
//! ```

mod figures;
mod live;
mod plots;
mod promises;
mod report;
mod scenario;
mod terminal;

use crate::bench::Results;
use anyhow::{Context, Result};
use figures::{Figures, LatencyFigures, Run, TenantFigures};
use scenario::{Scheduler, TENANTS, Window};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use terminal::Bars;
use units::Nanos;

/// Arguments of `gimbal demo`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds to measure under each scheduler
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// Speed of the emulated SSD against the real one
    #[arg(long, default_value_t = 0.05, value_parser = speed)]
    speed: f64,
    /// Where the tenants' random choices come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "gimbal-demo.html")]
    report: PathBuf,
    /// Write all figures as JSON (`-` is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fail (exit code 1) if a promise is not kept
    #[arg(long)]
    check: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
    if (0.001..=1.0).contains(&speed) { Ok(speed) } else { Err("a speed lies between 0.001 and 1".into()) }
}

/// Runs the demo.
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    writable(&args.report)?;
    let expected = terminal::expected_seconds(Scheduler::ALL.len(), args.seconds);
    eprintln!("{}\nThis takes about {expected:.0} s.", scenario::description());
    let alone = scenario::standalone();
    let fair: Vec<f64> = alone.iter().map(|rate| rate * args.speed / TENANTS.len() as f64).collect();
    let window = Window {
        warm_up: device_time(live::RAMP, args.speed),
        duration: device_time(Nanos::secs(args.seconds), args.speed),
    };
    let mut runs = Vec::new();
    for scheduler in Scheduler::ALL {
        let mut bars = Bars::new(scheduler.name(), fair.clone());
        let results = live::run(scheduler, args.speed, args.seconds, args.seed, &mut bars);
        bars.clear();
        runs.push(figures_of(scheduler, &results?, &fair, &scenario::simulated_shares(scheduler, window)));
    }
    let promises = promises::judge(&runs[0], &runs[runs.len() - 1]);
    let kept = promises.iter().all(|promise| promise.kept);
    let figures = Figures {
        scenario: scenario::description(),
        speed: args.speed,
        seconds: args.seconds as f64,
        runs,
        promises,
    };
    show(&args, &figures)?;
    Ok(if args.check && !kept { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What passes on the SSD's clock in `span`.
fn device_time(span: Nanos, speed: f64) -> Nanos {
    Nanos((span.0 as f64 * speed) as u64)
}

/// Complains about a report that cannot be written before the work, not after it.
fn writable(path: &Path) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.append(true).create(true).open(path).map(drop).with_context(|| {
        format!("the report cannot be written to {}; name another place with --report", path.display())
    })
}

fn show(args: &Args, figures: &Figures) -> Result<()> {
    let json_on_stdout = args.json.as_deref() == Some(Path::new("-"));
    let summary = terminal::summary(figures);
    if json_on_stdout {
        eprint!("{summary}")
    } else {
        print!("{summary}")
    }
    let page = report::page(figures)?;
    fs::write(&args.report, page).with_context(|| format!("writing {}", args.report.display()))?;
    eprintln!("report: {}", args.report.display());
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(figures)?;
        if json_on_stdout {
            println!("{json}");
        } else {
            fs::write(path, json).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(())
}

fn figures_of(scheduler: Scheduler, results: &Results, fair: &[f64], simulated: &[Vec<f64>]) -> Run {
    let total = results.bandwidth_total();
    let tenants: Vec<TenantFigures> = TENANTS
        .iter()
        .enumerate()
        .map(|(n, tenant)| {
            let job = &results.jobs[n];
            let bandwidth = job.bandwidth_total();
            let ramp = live::RAMP.as_secs_f64();
            let measured = |second: &f64| *second > 0.0 && *second <= job.measured.as_secs_f64();
            let series = job
                .series
                .iter()
                .map(|interval| (interval.end.as_secs_f64() - ramp, interval.bytes_per_second() / 1e6))
                .filter(|(second, _)| measured(second));
            TenantFigures {
                name: tenant.name.into(),
                workload: tenant.summary(),
                mb_per_s: bandwidth / 1e6,
                iops: job.iops_total(),
                f_util: bandwidth / fair[n],
                share: bandwidth / total,
                shares_simulated: simulated[n].clone(),
                latency: LatencyFigures::of(&job.tally(tenant.direction()).latency),
                series: series.collect(),
            }
        })
        .collect();
    let utilisation = tenants.iter().map(|tenant| tenant.f_util).sum::<f64>() / tenants.len() as f64;
    Run { scheduler: scheduler.name().into(), tenants, utilisation }
}
