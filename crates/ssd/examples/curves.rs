//! Prints latency against load: a real drive beside the model.
//!
//! ```text
//! cargo run --release -p ssd --example curves                # the two drives whose curves and profiles come with the crate
//! cargo run --release -p ssd --example curves -- --profile MINE.toml --drive MINE.csv
//! ```

#[expect(dead_code, reason = "an example of the tests' modules needs a part of them")]
#[path = "../tests/model/curves.rs"]
mod curves;
#[expect(dead_code, reason = "an example of the tests' modules needs a part of them")]
#[path = "../tests/model/driver.rs"]
mod driver;

use clap::Parser;
use curves::{Drive, Effort, KNEE_WITHIN, Knee, Model};
use ssd::Profile;
use std::error::Error;
use std::path::{Path, PathBuf};
use units::Nanos;

const EFFORT: Effort = Effort { commands: 40_000.0, span: Nanos::millis(60), warm_up: Nanos::millis(40) };
/// Searching the model's knee ends at this precision.
const KNEE_STEP: f64 = 0.02;
const DRIVES: [(&str, &str); 2] = [
    ("pm1725a", include_str!("../data/real-drives/samsung-pm1725a.csv")),
    ("sn200", include_str!("../data/real-drives/wd-sn200.csv")),
];

/// Latency against load of a real drive beside the model's: random reads and writes of 4 KiB in an open loop.
#[derive(Parser)]
struct Options {
    /// A built-in profile, or a file with one [default: those of the two drives that come with the crate]
    #[arg(long, requires = "drive")]
    profile: Option<String>,
    /// The drive's latencies: a CSV file like those in crates/ssd/data/real-drives
    #[arg(long, requires = "profile")]
    drive: Option<PathBuf>,
    /// Only these mixes, in thousandths of writes, with commas between
    #[arg(long, value_delimiter = ',', value_name = "PERMILLE")]
    only: Vec<u32>,
    /// Only how many loads of each mix hold, and the knees
    #[arg(long)]
    brief: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let (Some(profile), Some(path)) = (&options.profile, &options.drive) {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        return print(profile, &text, &options);
    }
    DRIVES.iter().try_for_each(|(profile, curves)| print(profile, curves, &options))
}

fn print(profile: &str, curves: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let profile = Profile::find(profile, Path::new(""))?;
    let drive = Drive::parse(curves)?;
    let model = Model::new(&profile, EFFORT);
    println!("{}; us, drive and model; `!` is off by more than 15 % (p50) or 35 % (p99)\n", profile.name);
    let is_wanted = |mix: &u32| options.only.is_empty() || options.only.contains(mix);
    let mixes: Vec<u32> = drive.mixes().into_iter().filter(is_wanted).collect();
    let mut summary = Vec::new();
    for &mix in &mixes {
        summary.push(print_mix(&model, &drive, mix, options.brief));
    }
    println!(
        "{:>7} {:>11} {:>11} {:>20}  {:>12}",
        "writes", "p50 holds", "p99 holds", "knee (IOPS)", "the model's"
    );
    summary.iter().for_each(|line| println!("{line}"));
    println!();
    Ok(())
}

/// Prints the loads of a mix, and returns what to say of all.
fn print_mix(model: &Model, drive: &Drive, mix: u32, brief: bool) -> String {
    let percent = f64::from(mix) / 10.0;
    let mark = |holds| if holds { ' ' } else { '!' };
    let (mut medians, mut p99s) = (0, 0);
    let below = drive.below_knee(mix);
    if !brief {
        println!("{percent:>5} % {:>8} {:>14} {:>15} {:>15}", "IOPS", "p50", "p99", "p99.9");
    }
    for point in &below {
        let made = model.at(mix, point.offered_iops);
        let (median, p99) = (made.meets_median_of(point), made.meets_p99_of(point));
        medians += u32::from(median);
        p99s += u32::from(p99);
        if !brief {
            println!(
                "{:>16.0} {:>6.0} {:>6.0}{} {:>7.0} {:>6.0}{} {:>7.0} {:>7.0}",
                point.offered_iops,
                point.p50_us,
                made.p50_us,
                mark(median),
                point.p99_us,
                made.p99_us,
                mark(p99),
                point.p999_us,
                made.p999_us
            );
        }
    }
    let knee = drive.knee(mix);
    let found = knee_of(model, mix, knee.load());
    let beyond = if let Knee::Beyond(_) = knee { "more than " } else { "" };
    let all = below.len();
    format!(
        "{percent:>5} % {:>11} {:>11} {:>20}  {found:>12.0}{}",
        format!("{medians}/{all}"),
        format!("{p99s}/{all}"),
        format!("{beyond}{:.0}", knee.load()),
        mark(model.meets_knee(mix, knee))
    )
}

/// The model's knee: it sustains this load, and not one that is 2 % higher.
fn knee_of(model: &Model, mix: u32, near: f64) -> f64 {
    let sustains = |load| model.at(mix, load).is_sustained();
    let (mut low, mut high) = (near, near);
    while !sustains(low) {
        low *= 1.0 - KNEE_WITHIN;
    }
    while low == high || sustains(high) {
        low = high;
        high *= 1.0 + KNEE_WITHIN;
    }
    while high > low * (1.0 + KNEE_STEP) {
        let middle = f64::midpoint(low, high);
        if sustains(middle) { low = middle } else { high = middle }
    }
    low
}
