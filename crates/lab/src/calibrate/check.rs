//! The speed of a calibrated scheduler with one kind of work alone, relative to that without a scheduler.

use super::gauge::{ENOUGH, Gauge, KINDS};
use super::probe::Probe;
use crate::runner::{Broken, Images, Progress};
use crate::scheduler::{Scheduler, Setup};
use serde::Serialize;
use ssd::{Condition, Profile};

/// One kind of work, alone under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The scheduler.
    pub scheduler: &'static str,
    /// The kind of work.
    pub work: &'static str,
    /// Its IOs per second over those without a scheduler.
    pub share: f64,
    /// Whether the scheduler's paper promises the SSD's full speed.
    pub expected: bool,
}

impl Check {
    /// Whether the share agrees with the scheduler's paper.
    pub fn passes(&self) -> bool {
        !self.expected || self.share >= ENOUGH
    }
}

/// Measures the speed of each scheduler alone on an SSD of this profile. Reports every probe that ends to `watch`.
///
/// # Errors
/// A probe broke a rule of the simulator.
pub fn check(
    profile: &Profile,
    schedulers: &[(Scheduler, Setup)],
    images: &Images,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<Check>, Broken> {
    let probe = Probe::new(profile, images, watch);
    let gauge = Gauge::new(&probe)?;
    let settings: Vec<Setup> = schedulers.iter().map(|(_, setup)| setup.clone()).collect();
    let shares = gauge.alone("what each reaches alone", &settings)?;
    let rows = schedulers.iter().zip(shares).flat_map(|((scheduler, _), shares)| {
        KINDS.iter().zip(shares).map(|(kind, share)| Check {
            scheduler: scheduler.name(),
            work: kind.name,
            share,
            expected: is_full_speed(*scheduler, kind.condition),
        })
    });
    Ok(rows.collect())
}

/// Whether full speed is expected. ReFlex uses a model of the worst state, in which the cost grows with the size of an
/// IO, so full speed is expected only in the state for which it was calibrated. The others adapt, or limit only the IOs
/// in flight.
fn is_full_speed(scheduler: Scheduler, condition: Condition) -> bool {
    scheduler != Scheduler::REFLEX || condition == Condition::Fragmented
}
