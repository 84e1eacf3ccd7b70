//! ReFlex's model: the cost of a write in tokens, and tokens per second against the 95th percentile of read latency.
//!
//! For each mix of reads and writes, the percentile is measured once as a function of the load, in parts of the load that
//! saturates the SSD. The load that just keeps a bound is read from this curve. The cost of a write in tokens is the one that makes these
//! loads most nearly equal for all mixes; the remaining difference between a read-only load and a mixed one is the smaller cost of a
//! read without writes.
//!
//! The last row of the table means no bound, for best-effort tenants. It has the tokens of the mix on which the
//! saturated SSD spends most, including reads alone and writes alone, so that no mix is held below its speed.
//!
//! Paper: ReFlex §3.2.1 (from memory), figure 3.

use super::probe::{Outcome, Probe, Work, Workers};
use crate::runner::Broken;
use sched::{Millitokens, ReflexConfig, SupplyPoint, TokenRate};
use sim::Pattern;
use ssd::Condition;
use units::Nanos;

/// Per cent of reads in the mixes, reads alone first.
const MIXES: [u8; 5] = [100, 95, 90, 75, 50];
/// Bounds on the 95th percentile, µs.
const BOUNDS_US: [u64; 6] = [200, 300, 500, 1_000, 2_000, 5_000];
/// The bound in the last row, µs: larger than any useful one.
const NO_BOUND_US: u64 = 20_000;
/// Per cent of the saturating load at which the curve is measured.
const LOADS: [u32; 11] = [5, 15, 30, 45, 60, 70, 80, 85, 90, 95, 99];
/// Number of workers of a saturating load.
const WORKERS: u32 = 16;
/// Costs of a write that are tried, in tokens.
const WRITE_COSTS: std::ops::RangeInclusive<u32> = 1..=40;
/// Number of steps between two of these costs.
const PARTS: u32 = 4;

/// The throughput of a mix on the SSD.
struct Curve {
    reads: f64,
    /// Maximum of IOs per second.
    capacity: f64,
    /// Load, and the 95th percentile of the reads' latency, µs.
    points: Vec<(f64, f64)>,
}

pub(super) fn calibrate(probe: &Probe<'_>) -> Result<ReflexConfig, Broken> {
    let (curves, writes) = curves(probe)?;
    let (reads, mixes) = curves.split_first().expect("there are mixes");
    let write_cost = write_cost(mixes);
    let capacity = mean(mixes.iter().map(|mix| mix.tokens(mix.capacity, write_cost)));
    let read_cost = (capacity / reads.capacity).min(1.0);
    let supply = supply(reads, mixes, writes, read_cost, write_cost);
    let milli = |tokens: f64| Millitokens((tokens * 1000.0) as u64);
    Ok(ReflexConfig::new(milli(read_cost), milli(write_cost), supply))
}

/// The curves of all mixes, and the IOs per second of the SSD with writes alone.
fn curves(probe: &Probe<'_>) -> Result<(Vec<Curve>, f64), Broken> {
    let saturating = |read_percent: &u8| {
        let workers = Workers::saturating(WORKERS, 4, *read_percent, Pattern::Random);
        Work::free(Condition::Fragmented, workers)
    };
    let most: Vec<Work> = MIXES.iter().chain([&0]).map(saturating).collect();
    let most = probe.run("the load that saturates", &most)?;
    let most: Vec<f64> = most.iter().map(|outcome| outcome[0].iops).collect();
    let (writes, most) = most.split_last().expect("writes alone came last");
    let offered = |mix: usize, part: u32| most[mix] * f64::from(part) / 100.0;
    let works: Vec<Work> = (0..MIXES.len())
        .flat_map(|mix| LOADS.map(|part| Workers::offering(offered(mix, part) as u32, MIXES[mix])))
        .map(|workers| Work::free(Condition::Fragmented, workers))
        .collect();
    let outcomes = probe.run("ReFlex's tokens against latency", &works)?;
    let curve = |(mix, outcomes): (usize, &[Vec<Outcome>])| Curve {
        reads: f64::from(MIXES[mix]) / 100.0,
        capacity: most[mix],
        points: LOADS
            .iter()
            .zip(outcomes)
            .filter_map(|(part, outcome)| Some((offered(mix, *part), outcome[0].read_p95_us?)))
            .collect(),
    };
    Ok((outcomes.chunks(LOADS.len()).enumerate().map(curve).collect(), *writes))
}

impl Curve {
    /// The largest load, in IOs per second, that keeps the percentile within the bound: where the curve first reaches
    /// it.
    fn load(&self, bound_us: f64) -> Option<f64> {
        let meets = self.points.iter().position(|(_, p95)| *p95 > bound_us);
        match meets {
            None => Some(self.capacity),
            Some(0) => None,
            Some(n) => {
                let ((load, p95), (beyond, more)) = (self.points[n - 1], self.points[n]);
                Some(load + (beyond - load) * (bound_us - p95) / (more - p95))
            }
        }
    }

    /// Tokens per second that a load spends.
    fn tokens(&self, iops: f64, write_cost: f64) -> f64 {
        iops * (self.reads + write_cost * (1.0 - self.reads))
    }
}

/// The table. A bound that some mix cannot keep even at the smallest load has no row.
fn supply(reads: &Curve, mixes: &[Curve], writes: f64, read_cost: f64, write_cost: f64) -> Vec<SupplyPoint> {
    let rows = BOUNDS_US.into_iter().filter_map(|bound| {
        let tokens = |mix: &Curve| Some(mix.tokens(mix.load(bound as f64)?, write_cost));
        let tokens: Vec<f64> = mixes.iter().map(tokens).collect::<Option<_>>()?;
        Some((bound, mean(tokens.into_iter()), reads.load(bound as f64)? * read_cost))
    });
    let most =
        mixes.iter().map(|mix| mix.tokens(mix.capacity, write_cost)).fold(writes * write_cost, f64::max);
    let last = (NO_BOUND_US, most, reads.capacity * read_cost);
    let (mut most_mixed, mut most_read) = (0, 0);
    let rising = |(bound, mixed, read): (u64, f64, f64)| {
        // A falling rate can only be noise of the measurement.
        most_mixed = most_mixed.max(mixed as u64);
        most_read = most_read.max(read as u64);
        SupplyPoint {
            latency_p95: Nanos::micros(bound),
            mixed: TokenRate::tokens_per_sec(most_mixed),
            read_only: TokenRate::tokens_per_sec(most_read),
        }
    };
    rows.chain([last]).map(rising).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}

/// The cost at which the mixes' spending on the saturated SSD differs least, relative to the mean.
fn write_cost(mixes: &[Curve]) -> f64 {
    let spread = |cost: f64| {
        let tokens = mixes.iter().map(|mix| mix.tokens(mix.capacity, cost));
        let mean = mean(tokens.clone());
        tokens.map(|tokens| (tokens / mean - 1.0).powi(2)).sum::<f64>()
    };
    let costs =
        (*WRITE_COSTS.start() * PARTS..=*WRITE_COSTS.end() * PARTS).map(|n| f64::from(n) / f64::from(PARTS));
    costs.min_by(|a, b| spread(*a).total_cmp(&spread(*b))).expect("costs are tried")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(reads: f64, capacity: f64) -> Curve {
        let point = |part: f64| (capacity * part, 100.0 / (1.0 - part));
        Curve { reads, capacity, points: [0.1, 0.5, 0.75].map(point).into() }
    }

    #[test]
    fn a_device_that_is_linear_in_tokens_gives_its_own_cost() {
        let capacity = 400_000.0;
        let mixes =
            [0.95, 0.9, 0.75, 0.5].map(|reads| curve(reads, capacity / (reads + 9.0 * (1.0 - reads))));
        assert_eq!(write_cost(&mixes), 9.0);
        let reads = curve(1.0, 2.0 * capacity);
        let supply = supply(&reads, &mixes, capacity / 9.0, 0.5, 9.0);
        let last = supply.last().expect("a table has a last row");
        assert!((last.mixed.0 / 1000).abs_diff(400_000) < 2, "{last:?}");
        assert!((last.read_only.0 / 1000).abs_diff(400_000) < 2, "{last:?}");
    }

    #[test]
    fn the_load_at_a_bound_is_read_off_the_curve() {
        let curve = curve(1.0, 1_000.0);
        assert_eq!(curve.load(150.0), Some(100.0 + 400.0 * (150.0 - 100.0 / 0.9) / (200.0 - 100.0 / 0.9)));
        assert_eq!(curve.load(100.0), None, "an idle SSD is slower");
        assert_eq!(curve.load(500.0), Some(1_000.0), "no load is too much");
    }
}
