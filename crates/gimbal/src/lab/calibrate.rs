//! `gimbal lab calibrate`.

use super::progress::Bar;
use crate::output;
use ::lab::calibrate;
use ::lab::runner::Images;
use ::lab::scheduler::Scheduler;
use anyhow::Result;
use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use sched::Calibration;
use ssd::Profile;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The schedulers that need a calibration.
const CALIBRATED: [Scheduler; 4] =
    [Scheduler::REFLEX, Scheduler::FLASHFQ, Scheduler::PARDA, Scheduler::LEVEL_CALIBRATED];

/// Arguments of `gimbal lab calibrate`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The SSD: a profile that comes with gimbal, or the path of one
    #[arg(long, value_name = "NAME|FILE")]
    profile: String,
    /// Where to write the calibration (`-` is standard output)
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Check this calibration instead of making one: print what each scheduler reaches alone with it
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    check: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let profile = Profile::find(&args.profile, Path::new(""))?;
    let images = Images::default();
    let calibration = match &args.check {
        Some(path) => Calibration::load(path)?,
        None => {
            if !output::is_stdout(&args.out) {
                output::check_writable(&args.out)?;
            }
            let bar = Bar::new();
            let made = calibrate::calibrate(&profile, &images, &|progress| bar.show(progress))?;
            drop(bar);
            let text = made.to_toml();
            if output::is_stdout(&args.out) {
                output::print(&text)?;
            } else {
                output::write_file(&args.out, text.as_bytes())?;
                output::note(format_args!("calibration: {}", args.out.display()));
            }
            made
        }
    };
    let setups = CALIBRATED
        .into_iter()
        .map(|scheduler| Ok((scheduler, scheduler.setup_with(&profile, &calibration)?)))
        .collect::<Result<Vec<_>>>()?;
    let bar = Bar::new();
    let checks = calibrate::check(&profile, &setups, &images, &|progress| bar.show(progress))?;
    drop(bar);
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["scheduler", "alone", "of what the SSD gives", "its paper says"]);
    for check in &checks {
        let claimed = if check.expected { "full speed" } else { "less: a static model" };
        table.add_row([check.scheduler, check.work, &format!("{:.1} %", 100.0 * check.share), claimed]);
    }
    output::note(table);
    let passes = checks.iter().all(calibrate::Check::passes);
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
