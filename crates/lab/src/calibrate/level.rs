//! The costs of level-calibrated: the device time of an IO of each size, on the clean and on the fragmented SSD.
//!
//! Device time is the inverse of the IOs that a saturated SSD completes per second, as in f-Util. In the steady state
//! of random overwrites, garbage collection comes in waves, so these probes are longer than others. Writes of a clean
//! SSD are sequential, because a clean SSD was written that way. If noise makes a larger IO or a fragmented SSD
//! cheaper, both get the same cost.

use super::probe::{Outcome, Probe, Work, Workers};
use crate::runner::Broken;
use sched::{CostCurve, DeviceCosts, StateCosts};
use sim::Pattern;
use ssd::Condition;
use units::{ByteRate, Bytes, Nanos};

const WORKERS: u32 = 16;
/// Long enough for several of the waves.
const DURATION: Nanos = Nanos::secs(1);
/// Size of the clean reads in whose bytes costs are counted.
const REFERENCE: Bytes = Bytes::kib(128);

pub(super) fn calibrate(probe: &Probe<'_>) -> Result<DeviceCosts, Broken> {
    let work = |condition, read_percent, pattern| {
        CostCurve::sizes().map(|size| {
            Work::free(
                condition,
                Workers::saturating(WORKERS, size.0 / Bytes::kib(1).0, read_percent, pattern),
            )
        })
    };
    let works = [
        work(Condition::Clean, 100, Pattern::Random),
        work(Condition::Clean, 0, Pattern::Sequential),
        work(Condition::Fragmented, 100, Pattern::Random),
        work(Condition::Fragmented, 0, Pattern::Random),
    ];
    let outcomes = probe.lasting(DURATION).run("what an IO takes", &works.concat())?;
    let iops: Vec<f64> = outcomes.iter().map(|of: &Vec<Outcome>| of[0].iops.max(1.0)).collect();
    Ok(costs(&iops))
}

/// Computes the costs from IOs per second of all sizes: reads and writes on the clean SSD, then on the fragmented one.
fn costs(iops: &[f64]) -> DeviceCosts {
    let place = CostCurve::sizes().iter().position(|size| *size == REFERENCE).expect("it is one of them");
    let reference = iops[place] * REFERENCE.0 as f64;
    let curve = |n: usize, least: Option<CostCurve>| {
        let mut curve = CostCurve([Bytes(1); CostCurve::SIZES]);
        let mut before = Bytes(1);
        for (size, iops) in iops[n * CostCurve::SIZES..][..CostCurve::SIZES].iter().enumerate() {
            let cost = Bytes((reference / iops).round() as u64).max(before);
            before = least.map_or(cost, |CostCurve(least)| cost.max(least[size]));
            curve.0[size] = before;
        }
        curve
    };
    let clean = StateCosts { reads: curve(0, None), writes: curve(1, None) };
    let fragmented = StateCosts { reads: curve(2, Some(clean.reads)), writes: curve(3, Some(clean.writes)) };
    DeviceCosts { rate: ByteRate(reference.round() as u64), clean, fragmented }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_the_inverse_of_what_is_completed() {
        let proportional = |mb_per_s: f64| CostCurve::sizes().map(|size| mb_per_s * 1e6 / size.0 as f64);
        let costs = costs(&[3200.0, 1600.0, 3200.0, 200.0].map(proportional).concat());
        assert_eq!(costs.rate, ByteRate(3_200_000_000));
        assert_eq!(costs.clean.reads.0, CostCurve::sizes());
        assert_eq!(costs.clean.writes.0, CostCurve::sizes().map(|size| Bytes(size.0 * 2)));
        assert_eq!(costs.fragmented.writes.0, CostCurve::sizes().map(|size| Bytes(size.0 * 16)));
    }

    #[test]
    fn noise_makes_no_costs_that_cannot_be() {
        let mut iops = [400e3, 390e3, 200e3, 100e3, 50e3, 25e3, 12e3].repeat(4);
        iops[1] = 410e3; // 8 KiB faster than 4
        iops[14] = 402e3; // fragmented faster than clean
        assert_eq!(costs(&iops).check(), Ok(()));
    }
}
