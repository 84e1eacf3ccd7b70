//! `gimbal lab run --live`: the same experiment on the product and in the simulator.
//!
//! ```text
//!   experiment ─┬─► runs in virtual time ──────────────────────────────► records of the simulator ─┐
//!               └─► plan ─► run: switch, tenants over NVMe/TCP ─► measured ─► records of the product ─┴─► table
//! ```
//!
//! The product is a real switch in this process with an emulated SSD, and its tenants are hosts connected to it over loopback.
//! Everything is slowed down by a factor ([`slow`]) and shown in the SSD's own time. The simulator's network delay is
//! the one measured on loopback. f-Util is relative to the same stand-alone runs in virtual time on both sides.
//!
//! Elsewhere: `plan` and `measured` translate; `timekeeping` judges whether this machine was fast enough.

mod look;
mod measured;
mod plan;
mod progress;
mod run;
mod slow;
mod table;
mod timekeeping;
mod way;

pub(super) use slow::Slow;

use super::progress::Bar;
use crate::interrupt::Interrupt;
use crate::output::{self, Destination};
use ::lab::experiment::Experiment;
use ::lab::findings::Findings;
use ::lab::plan::{Plan, Purpose};
use ::lab::record::Record;
use ::lab::runner::{Images, run_all};
use anyhow::{Context, Result, bail};
use plan::{Live, check, offered};
use progress::Progress;
use serde::Serialize;
use slow::clock;
use std::process::ExitCode;
use timekeeping::Timekeeping;
use units::Nanos;
use way::Way;

/// A line with one side's record of a run.
#[derive(Serialize)]
struct Line<'r> {
    side: &'static str,
    slow: u32,
    #[serde(flatten)]
    record: &'r Record,
    /// Whether this machine kept time; `None` in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    timekeeping: Option<Timekeeping>,
}

/// The destinations of lines and tables.
pub(super) struct Output<'o> {
    /// A line for each side and run.
    pub(super) lines: Option<&'o mut Destination>,
    /// Prints text for people.
    pub(super) show: &'o dyn Fn(&str) -> Result<()>,
    /// Whether a reader or a file still receives the output of further runs.
    pub(super) is_wanted: &'o dyn Fn() -> bool,
}

/// Runs experiments on both sides.
pub(super) fn run(experiments: Vec<Experiment>, slow: Slow, mut output: Output<'_>) -> Result<ExitCode> {
    let experiments =
        experiments.into_iter().map(|experiment| livable(experiment, slow)).collect::<Result<Vec<_>>>()?;
    let way = Way::measure().context("measuring the way over loopback")?;
    let network = way.network(slow);
    (output.show)(&format!(
        "Live: {slow} times slower than the SSD; figures are in the SSD's time. The simulator's network is loopback's: a 4 KiB read \
         of a device that answers at once takes {} here; {} each way in the SSD's time.\n",
        way.small, network.delay,
    ))?;
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    let images = Images::default();
    for experiment in experiments {
        let experiment = Experiment { network, ..experiment };
        if !compare(experiment, slow, way, &images, &interrupt, &mut output)? {
            output::note("interrupted: only runs that had ended are shown");
            return Ok(interrupt.exit_code());
        }
        if !(output.is_wanted)() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves out, with a note, the schedulers that the product does not offer.
fn livable(mut experiment: Experiment, slow: Slow) -> Result<Experiment> {
    for case in &experiment.cases {
        check(case, slow).with_context(|| experiment.name.clone())?;
    }
    let name = &experiment.name;
    for scheduler in experiment.schedulers.iter().filter(|scheduler| offered(**scheduler).is_none()) {
        let scheduler = scheduler.name();
        output::note(format_args!(
            "{name}: {scheduler} is left out: `gimbal serve` and its hosts have nothing of that name"
        ));
    }
    experiment.schedulers.retain(|scheduler| offered(*scheduler).is_some());
    if experiment.schedulers.is_empty() {
        bail!("{name}: none of its schedulers can be run live");
    }
    Ok(experiment)
}

/// Runs one experiment on both sides and shows the results. Returns false if it was interrupted.
fn compare(
    experiment: Experiment,
    slow: Slow,
    way: Way,
    images: &Images,
    interrupt: &Interrupt,
    output: &mut Output<'_>,
) -> Result<bool> {
    let plan = Plan::new(&experiment);
    let bar = Bar::new();
    let simulated = run_all(&plan.runs, images, &|progress| bar.show(progress))?;
    drop(bar);
    let simulator = Findings::new(experiment, &plan, &simulated);
    let experiment = &simulator.experiment;
    let mut product = Findings { experiment: experiment.clone(), records: Vec::new() };
    let cases = || {
        plan.runs.iter().enumerate().filter_map(|(number, run)| match run.purpose {
            Purpose::Case { scheduler, .. } => {
                let kind = offered(experiment.schedulers[scheduler]).expect("others were left out");
                Some((number, run, Live::new(&run.world, kind, slow)))
            }
            Purpose::Maximum | Purpose::One => None,
        })
    };
    let span = Nanos(cases().map(|(_, _, live)| live.span().0).sum());
    output::note(format_args!(
        "{}: the live runs take {} (minutes and seconds)",
        experiment.name,
        clock(span)
    ));
    let mut progress = Progress::new(span);
    let (all, mut kept) = (simulator.records.len(), Vec::new());
    for ((number, run, live), twin) in cases().zip(&simulator.records) {
        let label = format!("{} on {}, seed {}", run.label, run.world.profile.name, run.world.seed);
        progress.begin(format!("{label} ({} of {all})", kept.len() + 1));
        let span = live.span();
        let found = run::run(live, run, slow, way, &mut progress, interrupt);
        let Some((measured, timekeeping)) = found.with_context(|| label.clone())? else { break };
        progress.end(span);
        let record = Record::new(experiment, &plan, number, &measured, &simulated);
        let record = record.expect("this run is a case");
        if let Some(lines) = &mut output.lines {
            let slow = slow.factor();
            let virtual_time = Line { side: "simulator", slow, record: twin, timekeeping: None };
            let live = Line { side: "product", slow, record: &record, timekeeping: Some(timekeeping) };
            for line in [virtual_time, live] {
                lines.line(serde_json::to_string(&line)?)?;
            }
            // Written at once, because a run takes long.
            lines.flush()?;
        }
        product.records.push(record);
        kept.push((label, timekeeping));
    }
    drop(progress);
    let whole = !interrupt.is_set();
    (output.show)(&format!("{}: {} ({})\n", experiment.name, experiment.title, experiment.source))?;
    (output.show)(&table::both(&simulator, &product))?;
    (output.show)(&table::claims(&simulator, &product))?;
    (output.show)(&table::timekeeping(&kept))?;
    Ok(whole)
}
