//! `gimbal lab sensitivity`: counts on how many SSDs that could be the papers' one each claim holds.

use super::run::conduct;
use crate::output;
use ::lab::Experiment;
use ::lab::claims::Verdict;
use ::lab::racks::RackExperiment;
use ::lab::runner::Images;
use ::lab::scheduler::Scheduler;
use ::lab::sensitivity::{Sensitivity, share, ssd};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The Gimbal paper's experiments with one SSD.
const EXPERIMENTS: [&str; 4] = ["g6", "g7a", "g7c", "g9"];

/// Arguments of `gimbal lab sensitivity`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Experiments by name [default: those of the Gimbal paper on one SSD: g6, g7a, g7c and g9]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Only these schedulers
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    scheduler: Vec<String>,
    /// Number of SSDs, with the seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    ssds: u64,
    /// Keep the verdicts in this file after each SSD; SSDs that it already contains are not run again
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// One JSON object per claim and scheduler instead of a table
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let experiments = experiments(args)?;
    let mut all = args.keep.as_deref().map_or(Ok(Sensitivity::default()), begun)?;
    for seed in all.ssds() as u64 + 1..=args.ssds {
        let images = Images::default();
        let mut rows = Vec::new();
        for experiment in &experiments {
            let mut experiment = experiment.clone();
            experiment.ssds = vec![ssd(seed)];
            rows.extend(conduct(experiment, &images)?.rows());
        }
        all.add(&rows);
        if let Some(path) = &args.keep {
            output::write_file(path, all.to_text().as_bytes())?;
        }
        output::note(format_args!("{seed} of {} SSDs", args.ssds));
    }
    if args.json {
        json(&all)?;
    } else {
        output::line(table(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Quick forms of the experiments, reduced to the runs that the claims need.
fn experiments(args: &Args) -> Result<Vec<Experiment>> {
    let names: Vec<&str> = match &args.experiments[..] {
        [] => EXPERIMENTS.to_vec(),
        named => named.iter().map(String::as_str).collect(),
    };
    let asked = args.scheduler.iter().map(|name| Scheduler::named(name)).collect::<Result<Vec<_>, _>>()?;
    let mut experiments = Vec::new();
    for name in names {
        if RackExperiment::names().any(|rack| rack == name) {
            bail!("{name} has many SSDs; name experiments with one, as `gimbal lab list` shows them");
        }
        let mut experiment = Experiment::named(name)?;
        experiment.hurry();
        experiment.keep_claimed();
        if !asked.is_empty() {
            let is_compared = |other: &Scheduler| {
                experiment.claims.iter().any(|claim| claim.with.as_deref() == Some(other.name()))
            };
            experiment.schedulers.retain(|scheduler| asked.contains(scheduler) || is_compared(scheduler));
        }
        if experiment.claims.is_empty() || experiment.schedulers.is_empty() {
            bail!("{name} has no claims under these schedulers");
        }
        experiments.push(experiment);
    }
    Ok(experiments)
}

/// The results that a file already contains; none if it does not exist.
fn begun(path: &Path) -> Result<Sensitivity> {
    let named = || path.display().to_string();
    match files::read_text(path) {
        Ok(text) => Sensitivity::parse(&text).with_context(named),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            output::check_writable(path)?;
            Ok(Sensitivity::default())
        }
        Err(error) => Err(error).with_context(named),
    }
}

/// Verdicts that agree with the source about the direction.
const DIRECTION: [Verdict; 3] = [Verdict::Holds, Verdict::Stronger, Verdict::Weaker];

fn json(all: &Sensitivity) -> Result<()> {
    for ([experiment, claim, scheduler], verdicts) in all.lines() {
        output::line(serde_json::json!({
            "experiment": experiment,
            "claim": claim,
            "scheduler": scheduler,
            "ssds": verdicts.len(),
            "holds": share(verdicts, &[Verdict::Holds]),
            "direction": share(verdicts, &DIRECTION),
        }))?;
    }
    Ok(())
}

fn table(all: &Sensitivity) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "experiment".to_owned(),
        "claim".to_owned(),
        "under".to_owned(),
        format!("holds on so many of {} SSDs", all.ssds()),
        "direction is the source's".to_owned(),
    ]);
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    for ([experiment, claim, scheduler], verdicts) in all.lines() {
        table.add_row([
            experiment.clone(),
            claim.clone(),
            scheduler.clone(),
            percent(share(verdicts, &[Verdict::Holds])),
            percent(share(verdicts, &DIRECTION)),
        ]);
    }
    table
}
