//! Fits a profile to a real drive's latency against load.
//!
//! ```text
//! cargo run --release -p ssd --example fit -- --profile START.toml --drive DRIVE.csv --out FITTED.toml --seconds 900
//! ```
//!
//! A random search: one to three fields change at a time, and the change stays if the profile misses the drive less. Steps become longer
//! after a success and shorter after a failure. The search sees up to seven of every second load of each mix, so the loads between them
//! can judge the result (`curves`). It starts from a profile whose structure is right: it changes numbers only, not the number of dies,
//! and adds no table or optional field.

#[expect(dead_code, reason = "an example of the tests' modules needs a part of them")]
#[path = "../tests/model/curves.rs"]
mod curves;
#[expect(dead_code, reason = "an example of the tests' modules needs a part of them")]
#[path = "../tests/model/driver.rs"]
mod driver;

use clap::Parser;
use curves::{Drive, Effort, Knee, Model, Point};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::Profile;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use toml::{Table, Value};
use units::Nanos;

const EFFORT: Effort = Effort { commands: 15_000.0, span: Nanos::millis(20), warm_up: Nanos::millis(25) };
/// Loads to fit, as shares of the knee.
const SHARES: [f64; 7] = [0.06, 0.15, 0.3, 0.45, 0.6, 0.78, 0.93];
/// The search wants the knee a little nearer than the goal does.
const KNEE_FROM: f64 = 0.93;
const KNEE_TO: f64 = 1.09;
/// What a knee outside costs; a median or p99 outside its bound costs 1.
const KNEE_MISSED: f64 = 2.0;
const FIELDS_AT_ONCE: usize = 3;

/// The fields that the search may change, and by about what share.
const FIELDS: [(&str, &str, f64); 26] = [
    ("buffer", "capacity_mib", 0.3),
    ("channel", "rate_mb_per_s", 0.2),
    ("channel", "transfer_overhead_ns", 0.3),
    ("firmware", "read_latency_ns", 0.1),
    ("firmware", "read_operation_ns", 0.05),
    ("firmware", "reads_at_once", 0.1),
    ("firmware", "write_command_ns", 0.1),
    ("firmware", "write_latency_ns", 0.05),
    ("flash", "erase_us", 0.3),
    ("flash", "program_us", 0.1),
    ("flash", "reads_between_slices", 0.3),
    ("flash", "sense_ns", 0.03),
    ("flash", "suspend_overhead_us", 0.3),
    ("flash", "suspend_slice_us", 0.2),
    ("flash", "suspensions_most", 0.3),
    ("geometry", "spare_permille", 0.1),
    ("link", "read_mb_per_s", 0.1),
    ("link", "write_mb_per_s", 0.1),
    ("memory", "read_mb_per_s", 0.2),
    ("memory", "write_mb_per_s", 0.2),
    ("variation", "housekeeping_gap_us", 0.3),
    ("variation", "housekeeping_us", 0.3),
    ("variation", "program_spread_permille", 0.3),
    ("variation", "read_retry_interval", 0.3),
    ("variation", "read_retry_us", 0.3),
    ("variation", "write_spread_ns", 0.3),
];

/// Fit a profile to a real drive's latency against load.
#[derive(Parser)]
struct Options {
    /// The profile to start from: a built-in one, or a file
    #[arg(long)]
    profile: String,
    /// The drive's latencies: a CSV file like those in crates/ssd/data/real-drives
    #[arg(long)]
    drive: PathBuf,
    /// Where the best profile so far is written
    #[arg(long)]
    out: PathBuf,
    /// How long to search
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Of the random changes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mixes that do not count, in thousandths of writes, with commas between
    #[arg(long, value_delimiter = ',', value_name = "PERMILLE")]
    without: Vec<u32>,
    /// Only these fields change, with commas between
    #[arg(long, value_delimiter = ',', value_name = "FIELD")]
    only: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let start = Profile::find(&options.profile, Path::new(""))?.to_toml().parse::<Table>()?;
    let text = std::fs::read_to_string(&options.drive)
        .map_err(|error| format!("{}: {error}", options.drive.display()))?;
    let goals = goals(&Drive::parse(&text)?, &options.without);
    let is_wanted = |field: &str| options.only.is_empty() || options.only.iter().any(|only| only == field);
    let has = |table: &str, field: &str| start.get(table).is_some_and(|table| table.get(field).is_some());
    let mut search = Search {
        fields: FIELDS
            .into_iter()
            .filter(|&(table, field, _)| has(table, field) && is_wanted(field))
            .collect(),
        random: Xoshiro256PlusPlus::seed_from_u64(options.seed),
        stride: 1.0,
    };
    if search.fields.is_empty() {
        return Err("no field is left to change: name fields of the profile with --only".into());
    }
    let mut least = misfit(&start, &goals, f64::INFINITY).ok_or("the profile to start from is not valid")?;
    println!("{} goals, {} fields; misfit {least:.3} at the start", goals.len(), search.fields.len());
    let mut best = start;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(options.seconds) {
        let mut next = best.clone();
        let changes = search.change(&mut next);
        match misfit(&next, &goals, least) {
            Some(found) if found < least => {
                (least, best) = (found, next);
                search.stride = (search.stride * 1.3).min(1.5);
                println!("{:>6} s {least:.3} {}", begun.elapsed().as_secs(), changes.join(", "));
                std::fs::write(&options.out, toml::to_string(&best)?)?;
            }
            _ => search.stride = (search.stride * 0.985).max(0.25),
        }
    }
    println!("misfit {least:.3} at the end");
    Ok(())
}

struct Search {
    fields: Vec<(&'static str, &'static str, f64)>,
    random: Xoshiro256PlusPlus,
    /// Scales all steps.
    stride: f64,
}

impl Search {
    /// Changes a few numbers at random. Returns what it changed.
    fn change(&mut self, profile: &mut Table) -> Vec<String> {
        let count = 1 + self.below(FIELDS_AT_ONCE);
        (0..count)
            .filter_map(|_| {
                let chosen = self.below(self.fields.len());
                let (table, field, step) = self.fields[chosen];
                let value = match profile.get_mut(table)?.get_mut(field)? {
                    Value::Array(values) => {
                        let at = self.below(values.len());
                        values.get_mut(at)?
                    }
                    value => value,
                };
                let old = value.as_integer()?;
                let exponent = 2.0 * step * self.stride * self.bell();
                let moved = (old as f64 * exponent.exp()).round() as i64;
                let new = if moved == old { old + exponent.signum() as i64 } else { moved };
                *value = Value::Integer(new);
                Some(format!("{field} {old} to {new}"))
            })
            .collect()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.uniform() * bound as f64) as usize
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Between -2 and 2, mostly near 0.
    fn bell(&mut self) -> f64 {
        (0..4).map(|_| self.uniform()).sum::<f64>() - 2.0
    }
}

/// One thing that the profile should do.
enum Goal {
    Latencies(Point),
    Sustain { mix: u32, load: f64 },
    NotSustain { mix: u32, load: f64 },
}

fn goals(drive: &Drive, without: &[u32]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for mix in drive.mixes().into_iter().filter(|mix| !without.contains(mix)) {
        goals.extend(drive.near(mix, &SHARES).into_iter().map(Goal::Latencies));
        match drive.knee(mix) {
            Knee::At(load) => {
                goals.push(Goal::Sustain { mix, load: KNEE_FROM * load });
                goals.push(Goal::NotSustain { mix, load: KNEE_TO * load });
            }
            Knee::Beyond(load) => goals.push(Goal::Sustain { mix, load }),
        }
    }
    goals
}

/// How much the profile misses its goals, on average over them. `None` if it is not valid, or misses them by more than `most`.
fn misfit(profile: &Table, goals: &[Goal], most: f64) -> Option<f64> {
    let profile = Profile::parse(&toml::to_string(profile).ok()?, "the changed profile").ok()?;
    let model = Model::new(&profile, EFFORT);
    let most = most * goals.len() as f64;
    let mut sum = 0.0;
    for goal in goals {
        sum += match *goal {
            Goal::Latencies(drive) => {
                let made = model.at(drive.writes_permille, drive.offered_iops);
                // With as many writes as reads, the median lies between the two: anywhere.
                let is_even = drive.writes_permille == 500;
                let median = if is_even { 0.0 } else { distance(made.p50_us, drive.p50_us, 0.15) };
                // The p99.9 has no bound, so it counts little.
                median
                    + distance(made.p99_us, drive.p99_us, 0.35)
                    + 0.15 * distance(made.p999_us, drive.p999_us, 0.5)
            }
            Goal::Sustain { mix, load } => {
                let made = model.at(mix, load);
                if made.is_sustained() { 0.0 } else { KNEE_MISSED + 20.0 * (1.0 - made.achieved_iops / load) }
            }
            Goal::NotSustain { mix, load } => {
                if model.at(mix, load).is_sustained() {
                    KNEE_MISSED
                } else {
                    0.0
                }
            }
        };
        if sum > most {
            return None;
        }
    }
    Some(sum / goals.len() as f64)
}

/// How far a latency is from the drive's, in bounds; beyond the bound, 1 more. Far away, it does not matter how far.
fn distance(made: f64, drive: f64, bound: f64) -> f64 {
    let bounds = (made / drive).ln().abs() / (1.0 + bound).ln();
    let bounds = bounds.min(4.0);
    0.3 * bounds * bounds.min(2.0) + f64::from(bounds > 1.0)
}
