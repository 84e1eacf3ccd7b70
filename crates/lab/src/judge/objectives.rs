//! Judges latency objectives: does a scheduler keep the objectives that it promises?
//!
//! The cases are those of the judge, with a light reader that has an objective: its 99th percentile must be at most x
//! at a given number of IOPS. The bound x is drawn between two values: one that the SSD cannot keep even for this
//! reader alone, and the one that it reaches without an objective. So in some cases no scheduler could keep it, in some
//! it is kept without effort, and in most the other tenants must do less.
//!
//! ```text
//!   0 s ──────── learns ──────── 10 s: the scheduler's statement ──────── measured ──────── 15 s
//! ```
//!
//! If the scheduler says that the objective cannot be kept, a further run checks this: all others are limited, by the
//! simulated world and not by the objective, to the least that an objective may leave them.
//!
//! Elsewhere: the SSD and the mix are `case`.

use super::case::{Case, Dice};
use super::{JudgeError, run, setup_of, verdict};
use crate::scheduler::Scheduler;
use sched::{ObjectiveState, Percentile, Share, Slo};
use serde::Serialize;
use sim::{Arrival, Network, Pattern, Results, TenantSpec, Workload};
use ssd::Image;
use units::{ByteRate, Bytes, Instant, Nanos};

/// Time under load before the scheduler's statement is read.
const LEARN: Nanos = Nanos::secs(10);
/// Length of the measurement after that.
const MEASURE: Nanos = Nanos::secs(5);
/// Separates the random numbers of the objective from those of the mix.
const OBJECTIVE: u64 = 0x6f62_6a65;
/// Least part of the SSD that an objective leaves to others: a 32nd for tenants that write, an eighth for those that
/// read.
const LEFT_TO_WRITERS: f64 = 1.0 / 32.0;
const LEFT_TO_READERS: f64 = 1.0 / 8.0;
/// Lower limit of the drawn bound, relative to the 99th percentile of the reader alone.
const STRICTEST: f64 = 0.7;
/// Upper limit of the drawn bound, relative to the 99th percentile without an objective.
const LOOSEST: f64 = 1.3;
/// Rate of the objective, relative to the average rate of the reader.
const ROOM: f64 = 1.3;

/// The scheduler's statement about the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// The objective is kept.
    Yes,
    /// The objective was missed in the last seconds.
    Missed,
    /// The objective cannot be kept.
    No,
    /// It is not known yet.
    Unknown,
}

/// The verdict on one case. Latencies are those seen by the reader, less the delay of the network.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectiveVerdict {
    /// The seed of the case.
    pub case: u64,
    /// The SSD and the mix.
    pub what: String,
    /// IOs per second for which the objective holds.
    pub iops: u64,
    /// The bound on the 99th percentile, µs.
    pub bound_us: f64,
    /// The reader's 99th percentile with the SSD to itself, µs.
    pub alone_us: f64,
    /// The same in the mix, without an objective.
    pub without_us: f64,
    /// The scheduler's statement about the objective after it has learnt.
    pub said: Said,
    /// Time since which it has said so without interruption, s.
    pub said_after_s: f64,
    /// The 99th percentile in the measured time, µs.
    pub p99_us: f64,
    /// Whether the objective was kept in the measured time.
    pub kept: bool,
    /// Its statement at the end of the measured time.
    pub said_at_the_end: Said,
    /// If it said no: whether the objective is kept if others are limited to the least that an objective may leave
    /// them.
    pub could_be_kept: Option<bool>,
    /// Bytes of all others, relative to those without an objective.
    pub others: f64,
}

/// The summary of many cases.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectiveSummary {
    /// Cases with an objective.
    pub cases: usize,
    /// Cases in which it said yes; of these, those in which the objective was kept.
    pub yes: [usize; 2],
    /// Cases in which it said no; of these, those in which the objective could have been kept.
    pub no: [usize; 2],
    /// Cases in which it said that it has missed the objective lately.
    pub missed: usize,
    /// Cases in which it did not know.
    pub unknown: usize,
    /// Cases with yes: bytes of others relative to those without an objective, median and least.
    pub others: [f64; 2],
    /// Cases with yes in which the objective would have been missed without it.
    pub needed: usize,
    /// The same median and least in those cases.
    pub others_where_needed: [f64; 2],
}

fn said(state: ObjectiveState) -> Said {
    match state {
        ObjectiveState::Kept => Said::Yes,
        ObjectiveState::Missed => Said::Missed,
        ObjectiveState::Lost | ObjectiveState::Refused(_) => Said::No,
        ObjectiveState::Unknown => Said::Unknown,
    }
}

/// Judges `scheduler` by this case; `None` if the case has only one tenant.
///
/// # Errors
/// The scheduler needs a calibration, or a rule of the simulator was broken.
pub(super) fn judge_one(scheduler: Scheduler, seed: u64) -> Result<Option<ObjectiveVerdict>, JudgeError> {
    let case = Case::of(seed);
    if case.is_alone() {
        return Ok(None);
    }
    let dice = &mut Dice::of(seed ^ OBJECTIVE);
    let rate = case.light.unwrap_or_else(|| dice.within(500, 3000));
    let image = case.image();
    let setup = setup_of(&case, scheduler)?;
    let world = |tenants| case.world_of(&setup, tenants, LEARN, MEASURE);
    let reader = |slo| {
        let small = Workload::closed(1, Bytes::kib(4), 100, Pattern::Random);
        let workload = Workload { arrival: Arrival::Open { iops: rate }, ..small };
        let share = Share { slo, ..Share::EQUAL };
        TenantSpec { share, obeys_credit: case.obeys_credit, ..TenantSpec::new("light", workload) }
    };
    let with_others = |others: Vec<TenantSpec>, slo| {
        let mut tenants = others;
        tenants.push(reader(slo));
        world(tenants)
    };
    let alone = run(&case, "the reader alone", &world(vec![reader(None)]), &image)?;
    let without = run(&case, "without an objective", &with_others(case.group_specs(), None), &image)?;
    let (alone_us, without_us) = (p99(&alone), p99(&without));
    // Drawn uniformly on a logarithmic scale.
    let (least, most) = (STRICTEST * alone_us, (LOOSEST * without_us).max(1.5 * alone_us));
    let at = f64::from(dice.within(0, 1000)) / 1000.0;
    let bound_us = (least.ln() + (most.ln() - least.ln()) * at).exp();
    let iops = (f64::from(rate) * ROOM) as u64;
    let latency = Nanos((bound_us * 1e3) as u64);
    let slo = Some(Slo { iops, read_percent: 100, percentile: Percentile::P99, latency });
    let results = run(&case, "with an objective", &with_others(case.group_specs(), slo), &image)?;
    let states = &results.objectives;
    let state_at = |at: Nanos| {
        let before = states.iter().take_while(|(when, ..)| when.since(Instant::ZERO) <= at);
        before.last().map_or(Said::Unknown, |(_, _, view)| said(view.state))
    };
    let said_then = state_at(LEARN);
    let differs = states
        .iter()
        .rev()
        .find(|(when, _, view)| when.since(Instant::ZERO) <= LEARN && said(view.state) != said_then)
        .map(|(when, ..)| when.since(Instant::ZERO));
    let p99_us = p99(&results);
    let could_be_kept = match said_then {
        Said::No => {
            let mut others = case.group_specs();
            limit(&case, &mut others, &image)?;
            Some(p99(&run(&case, "others at the least", &with_others(others, None), &image)?) <= bound_us)
        }
        _ => None,
    };
    Ok(Some(ObjectiveVerdict {
        case: seed,
        what: case.to_line(),
        iops,
        bound_us,
        alone_us,
        without_us,
        said: said_then,
        said_after_s: differs.map_or(0.0, Nanos::as_secs_f64),
        p99_us,
        kept: p99_us <= bound_us,
        said_at_the_end: state_at(LEARN + MEASURE),
        could_be_kept,
        others: others(&results) / others(&without).max(1.0),
    }))
}

/// The 99th percentile of the last tenant, µs, less the delay of the network.
fn p99(results: &Results) -> f64 {
    let reader = results.tenants.last().expect("the reader is the last");
    let delay = 2 * Network::RDMA_100G.delay.0;
    reader.read.latency.network.value_at_quantile(0.99).saturating_sub(delay) as f64 / 1e3
}

/// Bytes of all tenants but the last.
fn others(results: &Results) -> f64 {
    let all = &results.tenants[..results.tenants.len() - 1];
    all.iter().map(|tenant| (tenant.read.bytes.0 + tenant.write.bytes.0) as f64).sum()
}

/// Limits each of the others to the least that an objective may leave it.
fn limit(case: &Case, others: &mut [TenantSpec], image: &Image) -> Result<(), JudgeError> {
    let tenants = case.tenants() as f64;
    for (group, places) in case.groups.iter().zip(case.places()) {
        let alone = verdict::bandwidth(&run(case, "alone", &case.alone(&group.workload), image)?);
        let writes = group.workload.read_percent < 100;
        let left = if writes { LEFT_TO_WRITERS } else { LEFT_TO_READERS };
        let rate = ByteRate((alone * left / tenants) as u64);
        others[places].iter_mut().for_each(|other| other.share.limit_rate = Some(rate));
    }
    Ok(())
}

impl ObjectiveSummary {
    /// Summarizes verdicts.
    pub fn of(verdicts: &[ObjectiveVerdict]) -> ObjectiveSummary {
        let count =
            |is: &dyn Fn(&ObjectiveVerdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
        let others = |is: &dyn Fn(&ObjectiveVerdict) -> bool| {
            let mut all: Vec<f64> =
                verdicts.iter().filter(|verdict| is(verdict)).map(|verdict| verdict.others).collect();
            all.sort_by(f64::total_cmp);
            [all.get(all.len() / 2).copied().unwrap_or(1.0), all.first().copied().unwrap_or(1.0)]
        };
        let is_yes = |verdict: &ObjectiveVerdict| verdict.said == Said::Yes;
        let is_no = |verdict: &ObjectiveVerdict| verdict.said == Said::No;
        let is_needed = |verdict: &ObjectiveVerdict| is_yes(verdict) && verdict.without_us > verdict.bound_us;
        ObjectiveSummary {
            cases: verdicts.len(),
            yes: [count(&is_yes), count(&|verdict| is_yes(verdict) && verdict.kept)],
            no: [count(&is_no), count(&|verdict| is_no(verdict) && verdict.could_be_kept == Some(true))],
            missed: count(&|verdict| verdict.said == Said::Missed),
            unknown: count(&|verdict| verdict.said == Said::Unknown),
            others: others(&is_yes),
            needed: count(&is_needed),
            others_where_needed: others(&is_needed),
        }
    }
}
