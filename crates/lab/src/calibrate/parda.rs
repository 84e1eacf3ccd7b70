//! PARDA's latency threshold: the best of some ([`super::gauge`]), which is the paper's own advice as well: as low as the full speed
//! allows.
//!
//! The paper's period of 2 s suits disks with latencies of 30 ms; an SSD's are a thirtieth and less of that, and so is the period here.

use super::gauge::{Gauge, Verdict, best};
use crate::runner::Broken;
use crate::scheduler::Setup;
use sched::PardaConfig;
use sim::LatencyScope;
use sim::{ClientChoice, PolicyChoice};
use units::Nanos;

/// Some ten times the longest latency of a loaded SSD.
const PERIOD: Nanos = Nanos::millis(20);
/// Thresholds that are tried, µs.
const THRESHOLDS_US: [u64; 8] = [200, 400, 800, 1_500, 3_000, 6_000, 12_000, 25_000];

pub(super) fn calibrate(gauge: &Gauge<'_>) -> Result<(PardaConfig, Verdict), Broken> {
    let candidates = THRESHOLDS_US.map(|threshold| PardaConfig::new(Nanos::micros(threshold), PERIOD));
    let settings = candidates.map(|config| Setup {
        policy: PolicyChoice::None,
        clients: ClientChoice::Parda { config, scope: LatencyScope::AllHosts },
    });
    let verdicts = gauge.judge("PARDA's latency threshold", &settings)?;
    let best = best(&verdicts);
    Ok((candidates[best], verdicts[best]))
}
