//! `gimbal lab imitate`: a simulated SSD like the device of a profile.

use crate::output;
use ::probe::{Likeness, Profile, imitate};
use anyhow::Result;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;

/// Relative difference above which a fitted number counts as a miss.
const CLOSE: f64 = 0.1;

/// Arguments of `gimbal lab imitate`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A device profile, as `gimbal ssdtest` writes it
    #[arg(value_name = "FILE")]
    device: PathBuf,
    /// Where to write the profile of the simulated SSD (`-` is standard output)
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let device = Profile::load(&args.device)?;
    if !output::is_stdout(&args.out) {
        output::check_writable(&args.out)?;
    }
    let style =
        ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("the template is a constant");
    let bar = ProgressBar::new_spinner().with_style(style);
    let mut round = 0;
    let made = imitate(&device, |misfit| {
        round += 1;
        bar.set_message(format!("round {round}: {:.1} % off at most", 100.0 * misfit));
        bar.tick();
    })?;
    bar.finish_and_clear();
    let text = made.ssd.to_toml();
    if output::is_stdout(&args.out) {
        output::print(&text)?;
    } else {
        output::write_file(&args.out, text.as_bytes())?;
    }
    output::note(table(&made.rows));
    let close = made.misfit() < CLOSE;
    if !close {
        output::note("the simulated SSD is NOT like the device: see the fitted numbers");
    }
    Ok(if close { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn table(rows: &[Likeness]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table.set_header(["", "unit", "device", "simulated", "difference", ""]);
    for row in rows {
        let number = |value: Option<f64>| value.map_or("not found".to_owned(), |value| format!("{value:.1}"));
        table.add_row([
            row.what.to_owned(),
            row.unit.to_owned(),
            number(Some(row.device)),
            number(row.imitation),
            row.difference().map_or(String::new(), |share| format!("{:+.1} %", 100.0 * share)),
            if row.fitted { "fitted" } else { "follows" }.to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
