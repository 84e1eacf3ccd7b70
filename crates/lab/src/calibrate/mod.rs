//! Offline calibration of the schedulers that do not measure the SSD themselves, or not all of it: ReFlex, FlashFQ, PARDA,
//! Level.
//!
//! Each is calibrated once per profile. The baselines' models of cost are those of the fragmented SSD, as in the comparison of the Gimbal
//! paper: a model that is right for the worst state overcharges in the best, which is what such a model costs. Knobs are the
//! best of some: full speed alone, and then fairness ([`gauge`]). What each reaches alone is also a table of its own ([`check`]).
//!
//! ```text
//!  gimbal lab calibrate --profile dct983 ─► probes in virtual time, all cores ─► calibrations/dct983.toml
//! ```

mod check;
mod flashfq;
mod gauge;
mod level;
mod parda;
mod probe;
mod reflex;

pub use check::{Check, check};

use crate::runner::{Broken, Images, Progress};
use gauge::{Gauge, Verdict};
use probe::Probe;
use sched::Calibration;
use ssd::Profile;

/// Measures everything that they must know of an SSD of this profile. Tells `watch` of every probe that ends.
///
/// # Errors
/// A probe broke a rule of the simulator.
pub fn calibrate(
    profile: &Profile,
    images: &Images,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Calibration, Broken> {
    let probe = Probe::new(profile, images, watch);
    let gauge = Gauge::new(&probe)?;
    let reflex = reflex::calibrate(&probe)?;
    let (flashfq, of_flashfq) = flashfq::calibrate(&probe, &gauge)?;
    let (parda, of_parda) = parda::calibrate(&gauge)?;
    let level = level::calibrate(&probe)?;
    Ok(Calibration {
        description: format!(
            "{name} in virtual time, by `gimbal lab calibrate --profile {name}`. Costs and ReFlex's table are of the fragmented SSD. \
             FlashFQ's depth and threshold and PARDA's threshold are the tightest of the fairest that reach 95 % of the SSD's speed \
             with every kind of work alone: FlashFQ {}, PARDA {}",
            said(&of_flashfq),
            said(&of_parda),
            name = profile.name
        ),
        reflex: Some(reflex),
        flashfq: Some(flashfq),
        parda: Some(parda),
        level: Some(level),
    })
}

fn said(verdict: &Verdict) -> String {
    let least = 100.0 * verdict.least_alone();
    format!("reaches {least:.0} % at least and leaves the worst-off an f-Util of {:.2}", verdict.worst_off)
}
