//! The figures of a demo: the measurements in the form in which they are printed, drawn, checked and written as JSON.

use hdrhistogram::Histogram;
use serde::Serialize;

/// All results of one demo.
#[derive(Serialize)]
pub(super) struct Figures {
    /// One sentence that describes the scenario.
    pub(super) scenario: String,
    /// The emulated SSD runs at this fraction of its real speed.
    pub(super) speed: f64,
    /// Measured seconds per scheduler, warm-up excluded.
    pub(super) seconds: f64,
    /// The first is the one that the others are compared with.
    pub(super) runs: Vec<Run>,
    /// The promises and whether they were kept.
    pub(super) promises: Vec<Promise>,
    /// The fraction of all processors' time that other processes, or other guests of the hypervisor, used meanwhile;
    /// `None` if the system does not report it.
    pub(super) others: Option<f64>,
}

impl Figures {
    /// A warning for the reader if the machine was busy with other work.
    pub(super) fn warning(&self) -> Option<String> {
        const BUSY: f64 = 0.1;
        let others = self.others.filter(|others| *others > BUSY)?;
        Some(format!(
            "Other processes used {:.0} % of this machine meanwhile. The figures are those of a busy machine: run the demo again when it \
             is idle.",
            others * 100.0
        ))
    }
}

/// One scheduler's run.
#[derive(Serialize)]
pub(super) struct Run {
    /// The scheduler.
    pub(super) scheduler: String,
    /// In the order of the scenario.
    pub(super) tenants: Vec<TenantFigures>,
    /// Mean of the tenants' f-Util: the part of the device's time that did useful work, 1 = all of it.
    pub(super) utilisation: f64,
}

impl Run {
    /// 10^6 bytes per second of all tenants together.
    pub(super) fn mb_per_s(&self) -> f64 {
        self.tenants.iter().map(|tenant| tenant.mb_per_s).sum()
    }
}

/// One tenant in one run.
#[derive(Serialize)]
pub(super) struct TenantFigures {
    /// Its name.
    pub(super) name: String,
    /// Its workload, in fio's terms.
    pub(super) workload: String,
    /// 10^6 bytes per second.
    pub(super) mb_per_s: f64,
    /// IOs per second.
    pub(super) iops: f64,
    /// Bandwidth divided by (bandwidth of this workload alone on the device / number of tenants): 1 is a fair share.
    pub(super) f_util: f64,
    /// Share of the run's bytes in the live run.
    pub(super) share: f64,
    /// The same in virtual time, for each seed.
    pub(super) shares_simulated: Vec<f64>,
    /// Latency seen by the tenant.
    pub(super) latency: LatencyFigures,
    /// Seconds since the start of the measurement, and 10^6 bytes per second in the interval that ends there.
    pub(super) series: Vec<(f64, f64)>,
}

impl TenantFigures {
    /// The smallest and the largest share in virtual time.
    pub(super) fn share_range(&self) -> (f64, f64) {
        let shares = || self.shares_simulated.iter().copied();
        (shares().fold(f64::INFINITY, f64::min), shares().fold(0.0, f64::max))
    }
}

/// Latency in microseconds.
#[derive(Serialize)]
pub(super) struct LatencyFigures {
    /// Arithmetic mean.
    pub(super) mean_us: f64,
    /// Median.
    pub(super) p50_us: f64,
    /// 99th percentile.
    pub(super) p99_us: f64,
    /// 99.9th percentile.
    pub(super) p999_us: f64,
    /// Latency, and the fraction of IOs that took no longer.
    pub(super) cdf: Vec<(f64, f64)>,
}

/// A promise of the product about these runs.
#[derive(Serialize)]
pub(super) struct Promise {
    /// The promise.
    pub(super) claim: String,
    /// The measured values, as text.
    pub(super) measured: String,
    /// Whether it was kept.
    pub(super) kept: bool,
}

impl LatencyFigures {
    /// From a histogram of nanoseconds.
    pub(super) fn of(histogram: &Histogram<u64>) -> LatencyFigures {
        let micros = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
        let steps = histogram.iter_recorded();
        let cdf = steps.map(|step| (step.value_iterated_to() as f64 / 1e3, step.quantile_iterated_to()));
        LatencyFigures {
            mean_us: histogram.mean() / 1e3,
            p50_us: micros(0.5),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            cdf: thin(cdf.collect()),
        }
    }
}

/// Maximum number of points of a curve: more cannot be seen, and the report stays small.
const CURVE_POINTS: usize = 400;

fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(CURVE_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    points
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % step == 0 || *n == last)
        .map(|(_, point)| point)
        .collect()
}
