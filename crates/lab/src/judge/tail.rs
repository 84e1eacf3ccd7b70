//! Judges the tail of a light reader against its floor.
//!
//! A light reader beside others waits in the switch, and in the SSD behind the others' IOs and the SSD's own work. No scheduler
//! before one SSD can change the latter as long as the others are served as many bytes. So each case is run again without a
//! scheduler, where every other tenant asks for the bytes that the scheduler gave it, evenly in time: the reader's tail in that run
//! is the *floor*. The scheduler is to blame for the rest.
//!
//! Both are divided into parts: the time of each read is the sum of its waits, from the network to the SSD's link. The parts of a percentile
//! are the means over the reads near it.
//!
//! Holds: the floor is that of the scheduler's own run, and the parts add up to about the percentile (`tests/judge_tails.rs`).

use super::case::Case;
use super::summary::at_rank;
use super::{JudgeError, MEASURE, Reference, run_following_last, setup_of, verdict};
use crate::scheduler::Scheduler;
use serde::ser::{Serialize, SerializeMap, Serializer};
use sim::{Direction, ReadTime, Results, TenantSpec};
use ssd::Part;
use units::ByteRate;

/// The tail in one case: latencies as the reader sees them, network included, unless they say that they are those of the SSD.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TailVerdict {
    /// The seed of the case.
    pub case: u64,
    /// The SSD and the mix.
    pub what: String,
    /// Under the scheduler.
    pub judged: Tail,
    /// With the same bytes of the others, evenly in time and without a scheduler.
    pub floor: Tail,
    /// The 99th percentile under the better of `none` and `gimbal`, µs.
    pub best_p99_us: f64,
}

/// Percentiles of the reads of a light reader, µs.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Tail {
    /// The 99th.
    pub p99_us: f64,
    /// The 99.9th.
    pub p999_us: f64,
    /// The 99th of the time in the SSD.
    pub in_ssd_p99_us: f64,
    /// The 99.9th of the time in the SSD.
    pub in_ssd_p999_us: f64,
    /// The parts of the 99th.
    pub p99_parts: Parts,
    /// The parts of the 99.9th.
    pub p999_parts: Parts,
}

/// The time of a light read by part, µs, in the order of its way: the means over reads that took about as long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts([f64; PARTS]);

/// Network and switch, and the parts of the SSD.
const PARTS: usize = 2 + Part::ALL.len();

/// Half of the width of the part of all reads whose means are the parts of a percentile.
const NEAR: f64 = 0.001;

impl Parts {
    /// Of the reads near this percentile, one at least; `times` are in order of length.
    fn of(times: &[ReadTime], percentile: f64) -> Parts {
        let at = |part: f64| (part.clamp(0.0, 1.0) * times.len() as f64) as usize;
        let Some(last) = times.len().checked_sub(1) else { return Parts::default() };
        let first = at(percentile - NEAR).min(last);
        let near = &times[first..at(percentile + NEAR).max(first + 1)];
        let mut parts = Parts::default();
        for read in near {
            let in_ssd = Part::ALL.map(|part| read.ssd.part(part));
            let of_read = [read.network(), read.switch].into_iter().chain(in_ssd);
            for (sum, time) in parts.0.iter_mut().zip(of_read) {
                *sum += time.0 as f64 / 1e3 / near.len() as f64;
            }
        }
        parts
    }

    /// Name and time of each part.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        ["network", "switch"].into_iter().chain(Part::ALL.map(Part::name)).zip(self.0)
    }

    /// The sum.
    pub fn all(&self) -> f64 {
        self.0.iter().sum()
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(PARTS))?;
        self.iter().try_for_each(|(name, time)| map.serialize_entry(name, &time))?;
        map.end()
    }
}

/// One quantity over all cases with a light reader.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TailRow {
    /// The quantity, a ratio.
    pub what: &'static str,
    /// The median.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The worst.
    pub worst: f64,
}

/// All quantities of the tails of many cases.
#[derive(Clone, Debug, serde::Serialize)]
pub struct TailSummary {
    /// Cases with a light reader.
    pub cases: usize,
    /// One row for each quantity; none without cases.
    pub rows: Vec<TailRow>,
    /// One row for each part; none without cases.
    pub parts: Vec<PartRow>,
}

/// One part of the tails over all cases with a light reader: its share of all parts, the mean over the cases.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PartRow {
    /// Its name.
    pub part: &'static str,
    /// Of the 99th percentile under the scheduler.
    pub p99: f64,
    /// Of the 99.9th.
    pub p999: f64,
    /// Of the floor's 99th.
    pub floor_p99: f64,
}

/// Takes a quantity from a verdict.
type Quantity = fn(&TailVerdict) -> f64;

const QUANTITIES: [(&str, Quantity); 5] = [
    ("p99 over the floor", TailVerdict::over_floor),
    ("p99 in the SSD over the floor's", TailVerdict::in_ssd_over_floor),
    ("p99.9 over the floor", TailVerdict::p999_over_floor),
    ("p99 over the better of none and gimbal", TailVerdict::over_best),
    ("the floor over the better of none and gimbal", TailVerdict::floor_over_best),
];

impl TailSummary {
    /// The summary of these cases.
    pub fn of(verdicts: &[TailVerdict]) -> TailSummary {
        let row = |&(what, of): &(&'static str, Quantity)| {
            let mut values: Vec<f64> = verdicts.iter().map(of).collect();
            values.sort_unstable_by(f64::total_cmp);
            let &worst = values.last()?;
            Some(TailRow { what, median: at_rank(&values, 0.5), p95: at_rank(&values, 0.95), worst })
        };
        let mean = |part: usize, of: fn(&TailVerdict) -> Parts| {
            let shares = verdicts.iter().map(of).map(|parts| parts.0[part] / parts.all());
            shares.sum::<f64>() / verdicts.len() as f64
        };
        let names = verdicts.first().map(|verdict| verdict.floor.p99_parts);
        let names = names.iter().flat_map(Parts::iter).map(|(name, _)| name);
        let part = |(part, name): (usize, &'static str)| PartRow {
            part: name,
            p99: mean(part, |verdict| verdict.judged.p99_parts),
            p999: mean(part, |verdict| verdict.judged.p999_parts),
            floor_p99: mean(part, |verdict| verdict.floor.p99_parts),
        };
        TailSummary {
            cases: verdicts.len(),
            rows: QUANTITIES.iter().filter_map(row).collect(),
            parts: names.enumerate().map(part).collect(),
        }
    }
}

impl TailVerdict {
    /// The 99th percentile over that of the floor.
    pub fn over_floor(&self) -> f64 {
        self.judged.p99_us / self.floor.p99_us
    }

    /// The 99.9th percentile over that of the floor.
    fn p999_over_floor(&self) -> f64 {
        self.judged.p999_us / self.floor.p999_us
    }

    /// The 99th percentile of the time in the SSD over that of the floor: the part above one is due to bursts of the others' IOs.
    fn in_ssd_over_floor(&self) -> f64 {
        self.judged.in_ssd_p99_us / self.floor.in_ssd_p99_us
    }

    /// The 99th percentile over the better of `none` and `gimbal`.
    fn over_best(&self) -> f64 {
        self.judged.p99_us / self.best_p99_us
    }

    /// The floor over the better of `none` and `gimbal`: what fairness costs the reader, under any scheduler.
    fn floor_over_best(&self) -> f64 {
        self.floor.p99_us / self.best_p99_us
    }
}

impl Tail {
    /// The light reader is the last tenant, and `times` are those of its reads.
    fn of((results, mut times): (Results, Vec<ReadTime>)) -> Tail {
        let light: &Direction = &results.tenants.last().expect("a case has tenants").read;
        let [device, network] = [&light.latency.device, &light.latency.network]
            .map(|histogram| [0.99, 0.999].map(|part| histogram.value_at_quantile(part) as f64 / 1e3));
        times.sort_unstable_by_key(|read| read.whole);
        Tail {
            p99_us: network[0],
            p999_us: network[1],
            in_ssd_p99_us: device[0],
            in_ssd_p999_us: device[1],
            p99_parts: Parts::of(&times, 0.99),
            p999_parts: Parts::of(&times, 0.999),
        }
    }
}

/// Judges `scheduler` by this case; `None` if the case has no light reader.
///
/// # Errors
/// The scheduler needs a calibration, or a rule of the simulator was broken.
pub(super) fn judge_one(scheduler: Scheduler, seed: u64) -> Result<Option<TailVerdict>, JudgeError> {
    let case = Case::of(seed);
    if case.light.is_none() {
        return Ok(None);
    }
    let setup = setup_of(&case, scheduler)?;
    let Reference { alone, none, gimbal_p99_us, .. } = Reference::of(&case)?;
    let case = case.paced(&alone);
    let image = case.image();
    let judged = run_following_last(&case, scheduler.name(), &case.baseline(&setup), &image)?;
    let mut even = case.baseline(&setup_of(&case, Scheduler::NONE)?);
    for (tenant, spec) in even.tenants.iter_mut().enumerate().filter(|(_, spec)| is_other(spec)) {
        let rate = verdict::rate(&judged.0, tenant, case.learn, case.learn + MEASURE);
        let is_there =
            spec.workload.bursts.map_or(1.0, |_| case.guest_is_there(case.learn, case.learn + MEASURE));
        spec.workload.rate_max = Some(ByteRate((rate / is_there).max(1.0) as u64));
    }
    let floor = run_following_last(&case, "evenly", &even, &image)?;
    let best = none.light_p99_us.into_iter().chain(gimbal_p99_us).reduce(f64::min);
    Ok(Some(TailVerdict {
        case: seed,
        what: case.to_line(),
        judged: Tail::of(judged),
        floor: Tail::of(floor),
        best_p99_us: best.expect("a case with a light reader has its latency under none"),
    }))
}

/// Whether a tenant is not the light reader.
fn is_other(spec: &TenantSpec) -> bool {
    matches!(spec.workload.arrival, sim::Arrival::Closed { .. })
}
