//! `gimbal demo`: the product's promise on one page, with nothing to set up.
//!
//! Starts the switch on an emulated SSD, connects four tenants to it over real NVMe/TCP, runs them under each
//! scheduler, and shows the results: live bars, a table, a report with plots. The same scenario runs in virtual time,
//! to find the bandwidth of each tenant alone, and to compare the product with the simulator.
//!
//! ```text
//!   scenario ─► live (switch + bench, per scheduler) ─┐
//!      └─────► virtual time (sim) ────────────────────┴─► figures ─► promises ─► terminal · report · json
//! ```

mod figures;
mod live;
mod page;
mod plots;
mod promises;
mod report;
mod scenario;
mod terminal;

use crate::machine::Watch;
use crate::output;
use anyhow::{Result, anyhow};
use figures::{Figures, LatencyFigures, Run, TenantFigures};
use loadgen::Results;
use page::Page;
use scenario::{SCHEDULERS, TENANTS, Window};
use sched::Scheduler;
use std::net::SocketAddr;
use std::path::PathBuf;
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
    #[arg(long, default_value_t = 0.1, value_parser = speed)]
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
    /// Serve the dashboard of the switch meanwhile, and open it in a browser if there is a desktop
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    watch: Option<SocketAddr>,
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
    output::check_writable(&args.report)
        .map_err(|error| anyhow!("{error:#}; name another place with --report"))?;
    if let Some(path) = args.json.as_deref().filter(|path| !output::is_stdout(path)) {
        output::check_writable(path)?;
    }
    let expected = terminal::expected_seconds(args.seconds, args.speed);
    output::note(format_args!("{}\nThis takes about {expected:.0} s.", scenario::description()));
    let page = args.watch.map(Page::open).transpose()?;
    let alone = scenario::standalone();
    let fair: Vec<f64> = alone.iter().map(|rate| rate * args.speed / TENANTS.len() as f64).collect();
    let watch = Watch::start();
    let mut runs = Vec::new();
    for scheduler in SCHEDULERS {
        let mut bars = Bars::new(scheduler.name, fair.clone());
        let results = live::run(scheduler, (args.speed, args.seconds, args.seed), page.as_ref(), &mut bars);
        bars.clear();
        let ramp = live::ramp(scheduler, args.speed);
        let window = Window {
            warm_up: device_time(ramp, args.speed),
            duration: device_time(Nanos::secs(args.seconds), args.speed),
        };
        let simulated = scenario::simulated_shares(scheduler, window);
        runs.push(figures_of(scheduler, &results?, &fair, &simulated, ramp));
    }
    let others = watch.and_then(|watch| watch.others());
    let promises = promises::judge(&runs[0], &runs[runs.len() - 1]);
    let kept = promises.iter().all(|promise| promise.kept);
    let figures = Figures {
        scenario: scenario::description(),
        speed: args.speed,
        seconds: args.seconds as f64,
        runs,
        promises,
        others,
    };
    show(&args, &figures)?;
    Ok(if args.check && !kept { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The time that passes on the SSD's clock during `span`.
fn device_time(span: Nanos, speed: f64) -> Nanos {
    Nanos((span.0 as f64 * speed) as u64)
}

fn show(args: &Args, figures: &Figures) -> Result<()> {
    // Files first: they are then complete even if standard output is a full disk.
    output::write_file(&args.report, report::page(figures)?.as_bytes())?;
    let summary = terminal::summary(figures);
    let json = serde_json::to_string_pretty(figures)?;
    match args.json.as_deref() {
        Some(path) if output::is_stdout(path) => {
            output::note(summary.trim_end());
            output::line(json)?;
        }
        Some(path) => {
            output::write_file(path, json.as_bytes())?;
            output::print(&summary)?;
        }
        None => output::print(&summary)?,
    }
    output::note(format_args!("report: {}", args.report.display()));
    Ok(())
}

fn figures_of(
    scheduler: &Scheduler,
    results: &Results,
    fair: &[f64],
    simulated: &[Vec<f64>],
    ramp: Nanos,
) -> Run {
    let total = results.bandwidth_total();
    let tenants: Vec<TenantFigures> = TENANTS
        .iter()
        .enumerate()
        .map(|(n, tenant)| {
            let job = &results.jobs[n];
            let bandwidth = job.bandwidth_total();
            let ramp = ramp.as_secs_f64();
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
    Run { scheduler: scheduler.name.into(), tenants, utilisation }
}
