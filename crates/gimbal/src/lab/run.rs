//! `gimbal lab run` and `gimbal lab claims`.

use super::live::{self, Output, Slow};
use super::progress::Bar;
use super::select::Selection;
use super::tables;
use crate::interrupt::Interrupt;
use crate::output::{self, Destination};
use ::lab::Findings;
use ::lab::claims::Kept;
use ::lab::runner::Images;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `gimbal lab run`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Write the records as JSON lines, one per run (`-` is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also run on the product: a real switch with an emulated SSD, and hosts over loopback
    #[arg(long)]
    live: bool,
    /// Factor by which a live run is slower than the SSD; divides 1000
    #[arg(long, value_name = "FACTOR", default_value = "20", value_parser = Slow::parse, requires = "live")]
    slow: Slow,
}

/// Arguments of `gimbal lab claims`.
#[derive(clap::Args)]
pub(super) struct ClaimsArgs {
    #[command(flatten)]
    selection: Selection,
    /// One JSON object per row instead of a table
    #[arg(long)]
    json: bool,
    /// Write the verdicts, to be expected by later runs
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Fail if a verdict is not the one that was kept
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.selection.refuse_racks()?;
    let experiments = args.selection.experiments()?;
    let mut lines = args.json.as_deref().map(Destination::create).transpose()?;
    let on_stdout = args.json.as_deref().is_some_and(output::is_stdout);
    let lines_in_file = args.json.is_some() && !on_stdout;
    let show = |text: &str| {
        if on_stdout {
            output::note(text);
            return Ok(());
        }
        output::line(text)
    };
    // Output that is only printed: stop the work once its reader has closed it.
    let is_wanted = || lines_in_file || output::has_reader();
    if args.live {
        let output = Output { lines: lines.as_mut(), show: &show, is_wanted: &is_wanted };
        let code = live::run(experiments, args.slow, output)?;
        lines.map_or(Ok(()), Destination::close)?;
        return Ok(code);
    }
    let images = Images::default();
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    for experiment in experiments {
        if interrupt.is_set() {
            output::note("interrupted: only experiments that had ended are shown");
            lines.map_or(Ok(()), Destination::close)?;
            return Ok(interrupt.exit_code());
        }
        let findings = conduct(experiment, &images)?;
        if let Some(lines) = &mut lines {
            for record in &findings.records {
                lines.line(serde_json::to_string(record)?)?;
            }
        }
        show(&tables::records(&findings))?;
        if !is_wanted() {
            break;
        }
    }
    lines.map_or(Ok(()), Destination::close)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn claims(args: &ClaimsArgs) -> Result<ExitCode> {
    let kept = args.expect.as_deref().map(expected).transpose()?;
    let images = Images::default();
    let (mut rows, mut names) = (Vec::new(), Vec::new());
    for mut experiment in args.selection.experiments()? {
        if experiment.claims.is_empty() {
            continue;
        }
        experiment.keep_claimed();
        names.push(experiment.name.clone());
        rows.extend(conduct(experiment, &images)?.rows());
    }
    for rack in args.selection.racks()? {
        names.push(rack.name.clone());
        let bar = Bar::new();
        rows.extend(rack.run(&|progress| bar.show(progress)).rows());
    }
    if args.json {
        for row in &rows {
            output::line(serde_json::to_string(row)?)?;
        }
    } else {
        output::line(tables::claims(&rows))?;
    }
    if let Some(path) = &args.keep {
        output::write_file(path, Kept::of(&rows).to_text().as_bytes())?;
    }
    let changes = kept.map_or(Vec::new(), |kept| kept.changes(&names, &rows));
    for change in &changes {
        output::note(change);
    }
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn expected(path: &Path) -> Result<Kept> {
    let text = files::read_text(path).with_context(|| format!("reading {}", path.display()))?;
    Kept::parse(&text).with_context(|| path.display().to_string())
}

/// Runs one experiment and shows its progress.
pub(super) fn conduct(experiment: ::lab::Experiment, images: &Images) -> Result<Findings> {
    let bar = Bar::new();
    Ok(::lab::run(experiment, images, &|progress| bar.show(progress))?)
}
