//! Builds a simulated SSD that a probe cannot tell from a device, within the limits of the model's parameters.
//!
//! ```text
//!  device profile ─► first guess: ssd::Profile ─► probe it ─► compare ─► turn the knobs ─┐
//!                                     ▲                                                  │
//!                                     └──────────────────────────────────────────────────┘
//! ```
//!
//! Each fitted quantity has one parameter of the model that moves it most: its *knob*. All knobs are turned at once, by the ratio (or for
//! latencies, by the difference) between the wanted value and the one that the probe of the model found; a few rounds are enough, because each
//! knob hardly moves the other quantities. The best round is kept.
//!
//! What the model has no parameter for is compared, but not fitted: the rate at which a buffer recovers follows from the time of a program,
//! and how much writes hurt reads from the dies. The capacity is scaled, as in all profiles of the model.
//!
//! Holds: built-in drives, and most drawn at random, are imitated within 10 % (`tests/imitate.rs`; docs/probe.md has the figures).

mod quantities;

use crate::config::Config;
use crate::device::drive;
use crate::prober::Prober;
use crate::profile::Profile;
use crate::simulated::Simulated;
use quantities::{COMPARED, FITTED, Quantity};
use sched::Cost;
use ssd::{Condition, ProfileError, Ssd};
use units::{ByteRate, Bytes, MIB, Nanos};

/// The model that is adapted: with an SLC cache, and without.
const WITH_CACHE: &str = "consumer-slc";
const WITHOUT: &str = "dct983";
const ROUNDS: usize = 8;
/// Close enough to stop.
const CLOSE: f64 = 0.02;
/// Good enough to choose by the quantities that are not fitted.
const GOOD: f64 = 0.05;
/// No knob is turned further at once.
const TURN_MOST: f64 = 3.0;
/// The cache may take this part of the capacity.
const CACHE_PART: u64 = 4;
/// The model's tables take 9 bytes for each 4 KiB.
const CAPACITY_MOST: Bytes = Bytes::gib(256);
/// Sensing takes this part of a lone read.
const SENSE_PART: f64 = 0.6;
/// Dies, and SLC programs, are faster than the part that shall limit.
const HEADROOM: f64 = 2.0;
const PAGE: f64 = 16384.0;
const SEED: u64 = 1;

/// A simulated SSD, and how like the device it is.
#[derive(Clone, Debug)]
pub struct Imitation {
    /// The SSD.
    pub ssd: ssd::Profile,
    /// The numbers, fitted ones first.
    pub rows: Vec<Likeness>,
}

impl Imitation {
    /// The greatest difference in a number that a parameter was fitted to, as a share of the device's.
    pub fn misfit(&self) -> f64 {
        let fitted = self.rows.iter().filter(|row| row.fitted);
        fitted.map(|row| row.difference().map_or(1.0, f64::abs)).fold(0.0, f64::max)
    }

    /// Misfit in what reads keep during writes.
    fn reads_off(&self) -> f64 {
        let rows = self.rows.iter().filter(|row| row.what.starts_with(quantities::KEEP));
        rows.filter_map(|row| Some((row.imitation?.max(1.0) / row.device.max(1.0)).ln().abs())).sum()
    }
}

/// One number of a device and of its imitation.
#[derive(Clone, Debug, PartialEq)]
pub struct Likeness {
    /// The quantity.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Of the device.
    pub device: f64,
    /// Of the simulated SSD; none if its probe did not find it.
    pub imitation: Option<f64>,
    /// Whether a parameter of the model was fitted to it.
    pub fitted: bool,
}

impl Likeness {
    /// Excess in the imitation, as a share of the device's value.
    pub fn difference(&self) -> Option<f64> {
        Some(self.imitation? / self.device - 1.0)
    }
}

/// Why a device cannot be imitated.
#[derive(Debug, thiserror::Error)]
pub enum ImitateError {
    /// Its profile lacks something.
    #[error(
        "the device profile does not say \"{0}\"; probe the device again, without --read-only and with higher limits"
    )]
    Lacking(&'static str),
    /// Its write buffer is too large to be simulated.
    #[error("the write buffer has {0} MiB; the model can have {most} MiB at most", most = CAPACITY_MOST.get() / CACHE_PART / MIB)]
    TooLarge(u64),
    /// The model cannot be like that.
    #[error("the model cannot be like this device: {0}")]
    Model(#[from] ProfileError),
}

/// Builds an SSD like the device of a profile. `observe` gets the misfit of each round.
///
/// # Errors
/// The profile lacks something, or the model cannot be like that.
pub fn imitate(device: &Profile, mut observe: impl FnMut(f64)) -> Result<Imitation, ImitateError> {
    let needed = if device.buffer.is_some() { FITTED.len() } else { FITTED.len() - 2 };
    if let Some(quantity) = FITTED[..needed].iter().find(|quantity| (quantity.of)(device).is_none()) {
        return Err(ImitateError::Lacking(quantity.what));
    }
    let suspending = fit(device, guess(device)?, &mut observe)?;
    // Whether reads interrupt programs decides how much writes hurt them. Nothing else shows it, so both are tried.
    let mut other = suspending.ssd.clone();
    other.flash.suspend = false;
    let other = fit(device, other, &mut observe)?;
    let is_better =
        other.misfit() < GOOD.max(suspending.misfit()) && other.reads_off() < suspending.reads_off();
    Ok(if is_better { other } else { suspending })
}

/// Turns the knobs of this SSD, and returns the best of the rounds.
fn fit(
    device: &Profile,
    mut ssd: ssd::Profile,
    observe: &mut impl FnMut(f64),
) -> Result<Imitation, ImitateError> {
    let mut best: Option<Imitation> = None;
    let knobs = knobs(device);
    for _ in 0..ROUNDS {
        ssd.check(&ssd.name)?;
        let found = probe(&ssd);
        let made = Imitation { ssd: ssd.clone(), rows: compare(device, &found) };
        let misfit = made.misfit();
        observe(misfit);
        if best.as_ref().is_none_or(|best| misfit < best.misfit()) {
            best = Some(made);
        }
        if misfit < CLOSE {
            break;
        }
        for (quantity, knob) in FITTED.iter().zip(&knobs) {
            if let (Some(wanted), Some(found)) = ((quantity.of)(device), (quantity.of)(&found)) {
                knob(&mut ssd, wanted, found);
            }
        }
    }
    Ok(best.expect("there is a round"))
}

/// Turns a parameter, by the wanted and the found value.
type Knob = fn(&mut ssd::Profile, f64, f64);

/// The parameter of each fitted quantity.
fn knobs(device: &Profile) -> [Knob; 8] {
    let sequential_writes: Knob = match device.buffer {
        Some(_) => |ssd, wanted, found| turn_rate(&mut ssd.link.write_rate, wanted / found),
        None => |ssd, wanted, found| turn_time(&mut ssd.flash.program, found / wanted, 1000),
    };
    let small_reads: Knob = if dies_limit(device) {
        |ssd, wanted, found| {
            let turned =
                ssd.flash.sense.iter().map(|&sense| (f64::from(sense) * turn(found / wanted)) as u32);
            ssd.flash.sense = turned.map(|sense| sense.max(1)).collect();
        }
    } else {
        |ssd, wanted, found| turn_time(&mut ssd.firmware.read_operation, found / wanted, 1)
    };
    [
        |ssd, wanted, found| add_micros(&mut ssd.firmware.read_latency, wanted - found),
        small_reads,
        |ssd, wanted, found| turn_rate(&mut ssd.link.read_rate, wanted / found),
        |ssd, wanted, found| {
            add_micros(&mut ssd.firmware.write_latency, wanted - found);
            ssd.variation.write_spread = ssd.variation.write_spread.min(ssd.firmware.write_latency);
        },
        |ssd, wanted, found| turn_time(&mut ssd.firmware.write_command, found / wanted, 1),
        sequential_writes,
        |ssd, wanted, found| {
            let blocks = f64::from(ssd.slc.blocks_per_die) * turn(wanted / found);
            ssd.slc.blocks_per_die = (blocks.round() as u32).max(1);
        },
        |ssd, wanted, found| turn_time(&mut ssd.flash.program, found / wanted, 1000),
    ]
}

/// Whether the dies limit small reads, and not the firmware: it would limit large reads to as many pages.
fn dies_limit(device: &Profile) -> bool {
    let [_, iops, mb, ..] = FITTED.map(|quantity| (quantity.of)(device).unwrap_or(0.0));
    mb * 1e6 / PAGE > iops
}

fn turn(ratio: f64) -> f64 {
    ratio.clamp(1.0 / TURN_MOST, TURN_MOST)
}

/// `unit`: the file has whole numbers of this many nanoseconds.
fn turn_time(time: &mut Nanos, ratio: f64, unit: u64) {
    let turned = (time.get() as f64 * turn(ratio) / unit as f64).round() as u64 * unit;
    // The least that the model allows for any of them.
    *time = Nanos(turned.max(unit.max(100)));
}

fn add_micros(time: &mut Nanos, micros: f64) {
    *time = Nanos((time.get() as f64 + micros * 1e3).max(0.0) as u64);
}

fn turn_rate(rate: &mut ByteRate, ratio: f64) {
    *rate = ByteRate(((rate.0 as f64 * turn(ratio) / 1e6).round() as u64).max(1) * 1_000_000);
}

/// An SSD that can be tuned to this device: enough dies for its reads, a cache of about its size.
fn guess(device: &Profile) -> Result<ssd::Profile, ImitateError> {
    let [read_us, read_iops, read_mb, write_us, _, write_mb, buffer_mib, exhausted_mb] =
        FITTED.map(|quantity| (quantity.of)(device).unwrap_or(0.0));
    let name = if buffer_mib > 0.0 { WITH_CACHE } else { WITHOUT };
    let mut ssd = ssd::Profile::named(name)?;
    ssd.name = "imitation".to_owned();
    ssd.description = format!("made from the device profile of {}", device.device.name);
    ssd.memory = None;
    let sense_ns = SENSE_PART * read_us * 1e3;
    ssd.flash.sense = vec![(sense_ns.max(1.0)) as u32; ssd.flash.sense.len()];
    // As many dies as the reads need, in whole stripes, and firmware for as many pages: one of the two with headroom.
    let (dies, pages) = match dies_limit(device) {
        true => (read_iops, HEADROOM * read_mb * 1e6 / PAGE),
        false => (HEADROOM * read_iops, read_iops),
    };
    let dies = (dies * sense_ns / 1e9).max(16.0);
    let geometry = &mut ssd.geometry;
    geometry.channels = geometry.stripe_dies;
    geometry.dies_per_channel = ((dies / f64::from(geometry.channels)).ceil() as u32).clamp(1, 256);
    let dies = f64::from(geometry.channels * geometry.dies_per_channel);
    let channel = HEADROOM * read_mb.max(write_mb) / f64::from(geometry.channels);
    ssd.channel.rate = ssd.channel.rate.max(ByteRate(channel as u64 * 1_000_000));
    let unit = PAGE * f64::from(geometry.planes) * ssd.flash.sense.len() as f64;
    let program = |bytes: f64, mb: f64| Nanos(((dies * bytes / mb * 1e3) as u64).max(1000) / 1000 * 1000);
    ssd.flash.program = program(unit, if exhausted_mb > 0.0 { exhausted_mb } else { write_mb });
    ssd.firmware.read_operation = Nanos((1e9 / pages) as u64).max(Nanos(100));
    ssd.firmware.read_latency = Nanos::micros((read_us * 0.15) as u64);
    ssd.firmware.write_latency = Nanos((write_us * 0.7e3) as u64);
    ssd.variation.write_spread = ssd.variation.write_spread.min(ssd.firmware.write_latency);
    ssd.link.read_rate = ByteRate(read_mb.max(1.0) as u64 * 1_000_000);
    if buffer_mib > 0.0 {
        let block = f64::from(geometry.planes * geometry.units_per_block) * PAGE;
        let capacity = CACHE_PART * buffer_mib as u64 * MIB;
        if capacity > CAPACITY_MOST.get() {
            return Err(ImitateError::TooLarge(buffer_mib as u64));
        }
        geometry.capacity = geometry.capacity.max(Bytes(capacity.next_multiple_of(1 << 30)));
        geometry.never_written = Bytes(geometry.capacity.get() / 4);
        ssd.slc.blocks_per_die = ((buffer_mib * MIB as f64 / block / dies).round() as u32).max(1);
        ssd.slc.program = program(PAGE * f64::from(geometry.planes), HEADROOM * write_mb);
        ssd.slc.sense = Nanos(ssd.slc.sense.get().min(sense_ns as u64).max(1000) / 1000 * 1000);
        let wait_ms = device.recovery.as_ref().and_then(|recovery| recovery.wait_ms).unwrap_or(1.0);
        ssd.slc.idle = Nanos::millis((wait_ms as u64).max(1));
        ssd.link.write_rate = ByteRate(write_mb.max(1.0) as u64 * 1_000_000);
    } else {
        ssd.link.write_rate = ByteRate((HEADROOM * write_mb.max(read_mb)) as u64 * 1_000_000);
    }
    if let Some(switch) = &device.switch {
        ssd.switch.thresh_min = Nanos::micros(switch.thresh_min_us);
        ssd.switch.thresh_max = Nanos::micros(switch.thresh_max_us);
        let worst = (switch.write_cost_worst.ceil() as u32).clamp(1, 1000);
        let best = switch.write_cost_best.clamp(1.0, f64::from(worst));
        ssd.switch.write_cost_best = Cost::ratio((best * 1e3) as u32, 1000);
        ssd.switch.write_cost_worst = worst;
    }
    Ok(ssd)
}

/// Findings of a quick probe.
fn probe(ssd: &ssd::Profile) -> Profile {
    let mut device = Simulated::new(Ssd::new(ssd, Condition::Clean, SEED));
    let config = Config::quick(device.size(), Config::IO_LEAST);
    let mut prober = Prober::new(config).expect("the model is large enough");
    let Ok(()) = drive(&mut prober, &mut device, |_, _| Ok(()));
    prober.profile().expect("a finished probe has a profile").clone()
}

fn compare(device: &Profile, found: &Profile) -> Vec<Likeness> {
    let row = |quantity: &Quantity, fitted| {
        let device = (quantity.of)(device)?;
        let imitation = (quantity.of)(found);
        Some(Likeness { what: quantity.what, unit: quantity.unit, device, imitation, fitted })
    };
    let fitted = FITTED.iter().filter_map(|quantity| row(quantity, true));
    fitted.chain(COMPARED.iter().filter_map(|quantity| row(quantity, false))).collect()
}
