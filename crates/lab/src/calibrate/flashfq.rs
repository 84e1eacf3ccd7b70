//! FlashFQ's model: device time of an IO, linear in its size, for reads and for writes; then its depth and its threshold.
//!
//! Device time is the inverse of the IOs that a saturated SSD completes per second. The line is fitted by least squares
//! of the relative
//! error, so a small IO counts as much as a large one. Depth and threshold are the best of several ([`super::gauge`]).

use super::gauge::{Gauge, Verdict, best};
use super::probe::{Outcome, Probe, Work, Workers};
use crate::runner::Broken;
use crate::scheduler::Setup;
use sched::{FlashfqConfig, LinearCost};
use sim::{ClientChoice, Pattern, PolicyChoice};
use ssd::Condition;
use units::Nanos;

const SIZES_KIB: [u64; 5] = [4, 16, 64, 128, 256];
const WORKERS: u32 = 16;
const DEPTHS: [u32; 4] = [32, 64, 128, 256];
/// Thresholds that are tried, in µs of device time.
const THRESHOLDS_US: [u64; 5] = [100, 400, 1_600, 6_400, 25_600];
/// Time to wait for a synchronous tenant: longer than a completion and the next request take over the network.
const ANTICIPATION: Nanos = Nanos::micros(50);
/// Least cost of an IO of any size.
const LEAST_NS: f64 = 1.0;

pub(super) fn calibrate(probe: &Probe<'_>, gauge: &Gauge<'_>) -> Result<(FlashfqConfig, Verdict), Broken> {
    let (reads, writes) = costs(probe)?;
    let throttles = THRESHOLDS_US.map(Nanos::micros);
    let pairs = DEPTHS.iter().flat_map(|depth| throttles.iter().map(move |throttle| (*depth, *throttle)));
    let candidates: Vec<FlashfqConfig> = pairs
        .map(|(depth, throttle)| FlashfqConfig { reads, writes, depth, throttle, anticipation: ANTICIPATION })
        .collect();
    let setup = |config: &FlashfqConfig| Setup {
        auxiliary: None,
        policy: PolicyChoice::from(*config),
        clients: ClientChoice::Credits,
    };
    let settings: Vec<Setup> = candidates.iter().map(setup).collect();
    let verdicts = gauge.judge("FlashFQ's depth and threshold", &settings)?;
    let best = best(&verdicts);
    Ok((candidates[best], verdicts[best]))
}

/// The costs of reads and of writes.
fn costs(probe: &Probe<'_>) -> Result<(LinearCost, LinearCost), Broken> {
    let work = |read_percent, kib| {
        let workers = Workers::saturating(WORKERS, kib, read_percent, Pattern::Random);
        Work::free(Condition::Fragmented, workers)
    };
    let (reads, writes) = (SIZES_KIB.map(|kib| work(100, kib)), SIZES_KIB.map(|kib| work(0, kib)));
    let outcomes = probe.run("device time against size", &[reads, writes].concat())?;
    let cost = |outcomes: &[Vec<Outcome>]| {
        let times = outcomes.iter().map(|outcome| 1e9 / outcome[0].iops.max(1.0));
        let points: Vec<(f64, f64)> = SIZES_KIB.iter().map(|kib| *kib as f64).zip(times).collect();
        let (base, per_kib) = line(&points);
        LinearCost { base: Nanos(base as u64), per_kib: Nanos(per_kib.max(LEAST_NS) as u64) }
    };
    let (reads, writes) = outcomes.split_at(SIZES_KIB.len());
    Ok((cost(reads), cost(writes)))
}

/// Fits a line with the least squares of the relative error; returns base and slope. The base is never negative: if it
/// would be, the line is the best one through the origin.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|&(x, y)| of(x, y) / (y * y)).sum::<f64>();
    let (w, x, y) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let slope = (w * xy - x * y) / (w * xx - x * x);
    let base = (y - slope * x) / w;
    if base < 0.0 { (0.0, xy / xx) } else { (base, slope) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let points: Vec<_> = [4.0, 64.0, 256.0].map(|x| (x, 2_000.0 + 300.0 * x)).into();
        let (base, slope) = line(&points);
        assert!((base - 2_000.0).abs() < 1e-3 && (slope - 300.0).abs() < 1e-6, "{base} + {slope} x");
        let below: Vec<_> = [4.0, 64.0, 256.0].map(|x| (x, 300.0 * x - 100.0)).into();
        let (base, slope) = line(&below);
        assert!(base == 0.0 && slope > 270.0 && slope < 300.0, "{base} + {slope} x");
    }
}
