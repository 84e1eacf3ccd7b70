//! The verdict of one case on a scheduler.

use super::case::{Case, POINT};
use super::{MEASURE, Reference};
use crate::scheduler::Scheduler;
use serde::{Deserialize, Serialize};
use sim::Results;
use units::Nanos;

/// The verdict on one case. Fields that do not apply to it are absent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The seed of the case.
    pub case: u64,
    /// The scheduler.
    pub scheduler: &'static str,
    /// The SSD and the mix.
    pub what: String,
    /// The part of its fair share that each group gets: bandwidth per tenant over (alone × weight / all weights).
    pub f_util: Vec<f64>,
    /// (most − least) / least of the f-Utils. For equal weights.
    pub gap: Option<f64>,
    /// The largest deviation of a group's share from its weight, relative to it. For unequal weights.
    pub weights: Option<f64>,
    /// Bytes of all tenants, relative to those under `none`.
    pub bytes_over_none: Option<f64>,
    /// Device time of all tenants (Σ bandwidth / alone), relative to that under `none`: fairness must not reduce it,
    /// however sizes are mixed.
    pub time_over_none: Option<f64>,
    /// Bytes in the first second of one tenant that has the SSD to itself, relative to those under `none`.
    pub alone_first_second: Option<f64>,
    /// The same after that.
    pub alone_later: Option<f64>,
    /// The light reader's 99th percentile, µs.
    pub p99_us: Option<f64>,
    /// The same, relative to the better of `none` and `gimbal`.
    pub p99_over_best: Option<f64>,
    /// f-Util of the guest while it is present, relative to the mean of the groups.
    pub guest_over_groups: Option<f64>,
    /// Time for which a tenant that comes back is short of its share, ms.
    pub delta_ms: Option<f64>,
    /// Time from which on the gap (or the weights' error) was at most a fifth, s; the whole time if never.
    pub learnt_after_s: Option<f64>,
    /// For an SSD that changes: time from the change until the gap stays at most 15 %, s; until the next change if
    /// never.
    pub fair_after_change_s: Option<f64>,
    /// The same after it has changed back.
    pub fair_after_return_s: Option<f64>,
    /// For an SSD that changes: the gap at the end of each phase (before the change, changed, changed back).
    pub phase_gaps: Option<[f64; 3]>,
}

/// The result of a run under `none`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoneFigures {
    /// Bytes per second of each group.
    pub bandwidths: Vec<f64>,
    /// The same of all together, in the first second.
    pub first_second: f64,
    /// The light reader's 99th percentile, µs.
    pub light_p99_us: Option<f64>,
}

/// Least fraction of its share at which a tenant that came back is not short of it.
const HAS_SHARE: f64 = 0.8;
/// Largest gap that counts as learnt.
const LEARNT: f64 = 0.2;
/// Length of the windows in which fairness is judged.
const LEARNT_WINDOW: Nanos = Nanos::millis(500);
const LEARNT_STEP: Nanos = Nanos::millis(100);

/// Bytes per second of all tenants.
pub(super) fn bandwidth(results: &Results) -> f64 {
    results.bandwidth().0 as f64
}

/// Bytes per second of the tenant between two instants of its series.
pub(super) fn rate(results: &Results, tenant: usize, from: Nanos, until: Nanos) -> f64 {
    let (first, end) = ((from.0 / POINT.0) as usize, (until.0 / POINT.0) as usize);
    let series = &results.tenants[tenant].series;
    let points = &series[first.min(series.len())..end.min(series.len())];
    let bytes: u64 = points.iter().map(|point| point.read.bytes.0 + point.write.bytes.0).sum();
    bytes as f64 / Nanos(until.0 - from.0).as_secs_f64()
}

impl Case {
    /// Bandwidth of each group, in bytes per second.
    pub(super) fn rates(&self, results: &Results, from: Nanos, until: Nanos) -> Vec<f64> {
        let rate = |tenant| rate(results, tenant, from, until);
        self.places().into_iter().map(|members| members.map(rate).sum()).collect()
    }

    /// The figures of the run under `none`.
    pub(super) fn none(&self, results: &Results) -> NoneFigures {
        NoneFigures {
            bandwidths: self.rates(results, self.learn, self.learn + MEASURE),
            first_second: self.rates(results, Nanos::ZERO, Nanos::secs(1)).iter().sum(),
            light_p99_us: self.light.map(|_| self.light_p99(results)),
        }
    }

    /// The 99th percentile of the light reader in the measured time, as its client sees it, µs.
    pub(super) fn light_p99(&self, results: &Results) -> f64 {
        let light = results.tenants.last().expect("the light tenant is the last");
        light.read.latency.network.value_at_quantile(0.99) as f64 / 1e3
    }

    /// The fraction of the SSD that is a fair share of weight 1, with or without the guest.
    fn part(&self, with_guest: bool) -> f64 {
        let weights: u32 = self.groups.iter().map(|group| group.tenants * group.weight).sum();
        1.0 / f64::from(weights + u32::from(with_guest))
    }

    /// The fair share of one tenant of the group, in bytes per second, if the guest is present for this fraction of the
    /// time.
    pub(super) fn fair_share(&self, group: usize, alone: &[f64], guest: f64) -> f64 {
        let part = guest * self.part(true) + (1.0 - guest) * self.part(false);
        alone[group] * f64::from(self.groups[group].weight) * part
    }

    /// The f-Util of each group with these bandwidths from `from` to `until`.
    pub(super) fn f_utils(&self, rates: &[f64], alone: &[f64], from: Nanos, until: Nanos) -> Vec<f64> {
        let guest = self.guest_is_there(from, until);
        let fair =
            |group: usize| self.fair_share(group, alone, guest) * f64::from(self.groups[group].tenants);
        rates.iter().enumerate().map(|(group, rate)| rate / fair(group).max(1.0)).collect()
    }

    /// The f-Util of the guest while it is present, relative to the mean of the groups. `alone` is the bandwidth of its
    /// kind of work alone.
    fn guest_over_groups(&self, results: &Results, alone: f64, f_utils: &[f64]) -> f64 {
        let got = rate(results, self.guest_place(), self.learn, self.learn + MEASURE);
        let fair = alone * self.part(true) * self.guest_is_there(self.learn, self.learn + MEASURE);
        got / fair.max(1.0) / mean(f_utils)
    }

    /// Time for which a tenant that came back was short of its share: its fair share (with the guest present) times the
    /// mean f-Util of all groups before it left.
    fn delta(&self, results: &Results, alone: &[f64], f_utils: &[f64]) -> Nanos {
        let leaver = self.places()[self.leaver].start;
        let (_, back) = self.away();
        let back = back.since(units::Instant::ZERO);
        let guest = if self.guest.is_some() { 1.0 } else { 0.0 };
        let share = self.fair_share(self.leaver, alone, guest) * mean(f_utils);
        let io = self.groups[self.leaver].workload.sizes.only().map_or(0.0, |size| size.0 as f64);
        let series = &results.tenants[leaver].series[(back.0 / POINT.0) as usize..];
        let mut bytes = io;
        for (n, point) in series.iter().enumerate() {
            bytes += (point.read.bytes.0 + point.write.bytes.0) as f64;
            let passed = Nanos(POINT.0 * (n as u64 + 1));
            if bytes >= HAS_SHARE * share * passed.as_secs_f64() {
                return passed;
            }
        }
        Nanos(POINT.0 * series.len() as u64)
    }

    /// Time from which on the gap stayed small until the end of the measured time.
    fn learnt_after(&self, results: &Results, alone: &[f64]) -> Nanos {
        let mut at = self.learn + MEASURE;
        while at >= LEARNT_WINDOW {
            let from = Nanos(at.0 - LEARNT_WINDOW.0);
            if spread(&self.f_utils(&self.rates(results, from, at), alone, from, at)) > LEARNT {
                return at;
            }
            at = Nanos(at.0 - LEARNT_STEP.0);
        }
        Nanos::ZERO
    }
}

/// (most − least) / least.
pub(super) fn spread(f_utils: &[f64]) -> f64 {
    let most = f_utils.iter().copied().fold(0.0, f64::max);
    let least = f_utils.iter().copied().fold(f64::INFINITY, f64::min);
    (most - least) / least.max(1e-3)
}

fn mean(f_utils: &[f64]) -> f64 {
    f_utils.iter().sum::<f64>() / f_utils.len() as f64
}

/// The largest distance from the mean.
fn deviation(f_utils: &[f64]) -> f64 {
    let mean = mean(f_utils);
    f_utils.iter().map(|f_util| (f_util / mean - 1.0).abs()).fold(0.0, f64::max)
}

impl Verdict {
    /// Whether the case has an SSD that changes.
    pub fn is_changing(&self) -> bool {
        self.fair_after_change_s.is_some()
    }

    /// A verdict with only the f-Utils.
    pub(super) fn empty(case: u64, scheduler: Scheduler, what: String, f_util: Vec<f64>) -> Verdict {
        Verdict {
            case,
            scheduler: scheduler.name(),
            what,
            f_util,
            gap: None,
            weights: None,
            bytes_over_none: None,
            time_over_none: None,
            alone_first_second: None,
            alone_later: None,
            p99_us: None,
            p99_over_best: None,
            guest_over_groups: None,
            delta_ms: None,
            learnt_after_s: None,
            fair_after_change_s: None,
            fair_after_return_s: None,
            phase_gaps: None,
        }
    }

    pub(super) fn new(
        case: &Case,
        scheduler: Scheduler,
        results: &Results,
        reference: &Reference,
    ) -> Verdict {
        let Reference { alone, guest_alone, none, gimbal_p99_us } = reference;
        let rates = case.rates(results, case.learn, case.learn + MEASURE);
        let f_util = case.f_utils(&rates, alone, case.learn, case.learn + MEASURE);
        let is_mix = !case.is_alone();
        let time = |rates: &[f64]| rates.iter().zip(alone).map(|(rate, alone)| rate / alone).sum::<f64>();
        let total = |rates: &[f64]| rates.iter().sum::<f64>();
        let first_second: f64 = case.rates(results, Nanos::ZERO, Nanos::secs(1)).iter().sum();
        let p99_us = case.light.map(|_| case.light_p99(results));
        let best = none.light_p99_us.into_iter().chain(*gimbal_p99_us).reduce(f64::min);
        Verdict {
            gap: (is_mix && !case.is_weighted()).then(|| spread(&f_util)),
            weights: (is_mix && case.is_weighted()).then(|| deviation(&f_util)),
            bytes_over_none: is_mix.then(|| total(&rates) / total(&none.bandwidths)),
            time_over_none: is_mix.then(|| time(&rates) / time(&none.bandwidths)),
            alone_first_second: case.is_alone().then(|| first_second / none.first_second),
            alone_later: case.is_alone().then(|| total(&rates) / total(&none.bandwidths)),
            p99_us,
            p99_over_best: p99_us.zip(best).map(|(ours, best)| ours / best),
            guest_over_groups: guest_alone.map(|alone| case.guest_over_groups(results, alone, &f_util)),
            delta_ms: is_mix.then(|| case.delta(results, alone, &f_util).as_secs_f64() * 1e3),
            learnt_after_s: is_mix.then(|| case.learnt_after(results, alone).as_secs_f64()),
            ..Verdict::empty(case.seed, scheduler, case.to_line(), f_util.clone())
        }
    }
}
