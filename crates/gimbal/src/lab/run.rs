//! `gimbal lab run` and `gimbal lab claims`.

use super::live::{self, Output, Slow};
use super::progress::Bar;
use super::select::Selection;
use super::tables;
use ::lab::Findings;
use ::lab::claims::Kept;
use ::lab::runner::Images;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
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
    /// Also against the product: a real switch with an emulated SSD, and hosts over loopback
    #[arg(long)]
    live: bool,
    /// How many times slower than the SSD a live run goes; divides 1000
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
    let experiments = args.selection.experiments()?;
    let mut lines: Option<Box<dyn Write>> = match &args.json {
        Some(path) if path.as_os_str() == "-" => Some(Box::new(std::io::stdout().lock())),
        Some(path) => {
            let file = File::create(path).with_context(|| format!("writing {}", path.display()))?;
            Some(Box::new(BufWriter::new(file)))
        }
        None => None,
    };
    let on_stdout = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let show = |text: &str| if on_stdout { eprintln!("{text}") } else { println!("{text}") };
    if args.live {
        let lines = lines.as_deref_mut().map(|lines| lines as &mut dyn Write);
        return live::run(experiments, args.slow, Output { lines, show: &show });
    }
    let images = Images::default();
    for experiment in experiments {
        let findings = conduct(experiment, &images)?;
        if let Some(lines) = &mut lines {
            for record in &findings.records {
                writeln!(lines, "{}", serde_json::to_string(record)?)?;
            }
        }
        show(&tables::records(&findings));
    }
    if let Some(lines) = &mut lines {
        lines.flush()?;
    }
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
    if args.json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        println!("{}", tables::claims(&rows));
    }
    if let Some(path) = &args.keep {
        fs::write(path, Kept::of(&rows).to_text()).with_context(|| format!("writing {}", path.display()))?;
    }
    let changes = kept.map_or(Vec::new(), |kept| kept.changes(&names, &rows));
    for change in &changes {
        eprintln!("{change}");
    }
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn expected(path: &Path) -> Result<Kept> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Kept::parse(&text).with_context(|| path.display().to_string())
}

/// Runs one experiment and shows how far it is.
pub(super) fn conduct(experiment: ::lab::Experiment, images: &Images) -> Result<Findings> {
    let bar = Bar::new();
    Ok(::lab::run(experiment, images, &|progress| bar.show(progress))?)
}
