//! Checks whether this machine kept time in a live run; if not, the figures show the machine and not the product.
//!
//! ```text
//!   tenant sends ─► wire ─► scheduler ─► model: "over at t" ─► known at t + late ─► wire ─► tenant looks
//!   └─ way ────────────┘                                                           └──── way ─────────┘
//! ```
//!
//! In virtual time nothing is late, and the network delay is that measured by [`super::way`] on an idle machine. So the
//! machine causes all further delay of an IO. A closed loop that waits longer for each IO asks for less by the same
//! factor.

use super::look::{TRANSFERS, Whole, middle, transferred};
use super::slow::Slow;
use super::way::Way;
use crate::machine;
use ::lab::measure::Measured;
use loadgen::Results;
use serde::Serialize;
use std::time::{Duration, Instant};
use units::Nanos;

/// Largest delay that counts as kept time, as a fraction of the shortest mean latency of any group.
const KEPT: f64 = 0.05;

/// How well the machine kept time in one run, in microseconds of the SSD's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Timekeeping {
    /// Mean delay until the switch noticed that an IO had ended on the emulated SSD.
    pub(super) late_us: f64,
    /// The 99th percentile of this delay, at most an eighth too large.
    pub(super) late_p99_us: f64,
    /// Mean delay of the way there and back, both ends included, beyond that on an idle machine.
    pub(super) way_us: f64,
    /// Sum of both delays, as a fraction of the shortest mean latency of any group.
    pub(super) added: f64,
    /// Average number of processors that tenants and switch used together.
    pub(super) processors: f64,
    /// Whether `added` is small enough for the figures to show the product.
    pub(super) kept: bool,
}

impl Timekeeping {
    /// The timekeeping of a run.
    pub(super) fn new(
        results: &Results,
        whole: &Whole,
        measured: &Measured,
        (way, ramp): (Way, Nanos),
        processors: f64,
        slow: Slow,
    ) -> Timekeeping {
        let own_time = |nanos: f64| nanos / f64::from(slow.factor()) / 1e3;
        let late = |nanos: Option<Nanos>| nanos.map_or(0.0, |nanos| nanos.0 as f64 / 1e3);
        let way_us = own_time(way_mean(results, whole, ramp) - way.small.0 as f64).max(0.0);
        let late_us = late(whole.late.mean());
        let figures = measured.groups.iter().flat_map(|group| [&group.read, &group.write]).flatten();
        let shortest = figures.map(|figures| figures.network.mean_us).fold(f64::INFINITY, f64::min);
        let (added, kept) = judge(late_us + way_us, shortest);
        let late_p99_us = late(whole.late.quantile(990));
        Timekeeping { late_us, late_p99_us, way_us, added, processors, kept }
    }
}

/// Returns `added_us` as a fraction of `shortest_us`, the latency that contains it, and whether the machine kept time.
fn judge(added_us: f64, shortest_us: f64) -> (f64, bool) {
    let added = added_us / shortest_us;
    (added, added <= KEPT)
}

/// Mean time outside of switch and SSD, in nanoseconds of this machine: the tenants' latency minus the switch's. Both
/// cover the intervals after `ramp` with their last IOs, as in the switch's counters: if latencies are long, a few more
/// IOs on one side would look like a long delay.
fn way_mean(results: &Results, whole: &Whole, ramp: Nanos) -> f64 {
    let (mut ios, mut outside) = (0, 0.0);
    for (job, books) in results.jobs.iter().zip(&whole.tenants) {
        let intervals = || job.series.iter().filter(|interval| middle(interval) >= ramp);
        for way in TRANSFERS {
            let slices = || intervals().map(|interval| &interval.slices[way.index()]);
            let seen: u64 = slices().map(|slice| slice.ios).sum();
            let service: f64 = slices().map(|slice| slice.service_mean.0 as f64 * slice.ios as f64).sum();
            if let Some(inside) = transferred(books, way).total_latency.mean() {
                ios += seen;
                outside += service - inside.0 as f64 * seen as f64;
            }
        }
    }
    if ios == 0 { 0.0 } else { outside / ios as f64 }
}

/// Processor time of this process relative to the wall clock.
pub(super) struct Processors {
    since: Instant,
    used: Duration,
}

impl Processors {
    /// Starts to measure.
    pub(super) fn watch() -> Processors {
        Processors { since: Instant::now(), used: used() }
    }

    /// The average number of processors kept busy since `watch`.
    pub(super) fn busy(&self) -> f64 {
        (used() - self.used).as_secs_f64() / self.since.elapsed().as_secs_f64()
    }
}

/// Processor time of this process so far; zero on systems without `/proc`.
fn used() -> Duration {
    machine::own_time().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_added_more_than_a_twentieth_did_not_keep_time() {
        assert_eq!(judge(5.0, 100.0), (0.05, true));
        assert_eq!(judge(6.0, 100.0), (0.06, false));
        assert!(judge(0.0, f64::INFINITY).1, "no tenant did anything, and nothing was late");
    }

    #[test]
    fn work_takes_processor_time() {
        let watch = Processors::watch();
        let mut sum = 0u64;
        while used() < watch.used + Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(watch.busy() > 0.0);
    }
}
