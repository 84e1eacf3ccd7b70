//! Offline calibration of the schedulers that do not measure the SSD themselves, or not all of it: ReFlex, FlashFQ, PARDA,
//! level-calibrated.
//!
//! Each is calibrated once per profile. The baselines' cost models are those of the fragmented SSD, as in the
//! comparison of the Gimbal paper. A model that is right for the worst state charges too much in the best, which is the
//! price of such a model. Parameters are the best of several: full speed alone first, then fairness ([`gauge`]). The
//! speed of each scheduler alone is a separate table ([`check`]).
//!
//! ```text
//!  gimbal lab calibrate --profile dct983 ─► probes in virtual time, all cores ─► calibrations/dct983.toml
//! ```

mod check;
mod flashfq;
mod gauge;
mod level;
mod probe;
mod reflex;

pub use check::{Check, check};

use crate::runner::{Broken, Images, Progress};
use crate::scheduler::Setup;
use gauge::{Gauge, Verdict, best};
use probe::Probe;
use sched::{Calibration, PardaConfig};
use sim::{ClientChoice, LatencyScope, PolicyChoice};
use ssd::Profile;
use units::Nanos;

/// PARDA's period: about ten times the longest latency of a loaded SSD. The paper's 2 s suit disks with latencies of 30 ms; those of
/// an SSD are a thirtieth of that or less.
const PARDA_PERIOD: Nanos = Nanos::millis(20);
/// Thresholds that are tried for PARDA, µs.
const PARDA_THRESHOLDS_US: [u64; 8] = [200, 400, 800, 1_500, 3_000, 6_000, 12_000, 25_000];

/// Measures everything that these schedulers must know of an SSD of this profile. Reports every probe that ends to
/// `watch`.
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
    let (parda, of_parda) = latency_threshold(&gauge)?;
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
        level_calibrated: Some(level),
    })
}

/// PARDA's latency threshold: the best of several ([`gauge`]). The paper gives the same advice: as low as the full speed allows.
fn latency_threshold(gauge: &Gauge<'_>) -> Result<(PardaConfig, Verdict), Broken> {
    let candidates =
        PARDA_THRESHOLDS_US.map(|threshold| PardaConfig::new(Nanos::micros(threshold), PARDA_PERIOD));
    let settings = candidates.map(|config| Setup {
        auxiliary: None,
        policy: PolicyChoice::none(),
        clients: ClientChoice::Parda { config, scope: LatencyScope::AllHosts },
    });
    let verdicts = gauge.judge("PARDA's latency threshold", &settings)?;
    let best = best(&verdicts);
    Ok((candidates[best], verdicts[best]))
}

fn said(verdict: &Verdict) -> String {
    let least = 100.0 * verdict.least_alone();
    format!("reaches {least:.0} % at least and leaves the worst-off an f-Util of {:.2}", verdict.worst_off)
}
