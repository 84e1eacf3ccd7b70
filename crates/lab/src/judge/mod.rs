//! The held-out judge: a scheduler without a calibration, on SSDs and mixes that are drawn at random.
//!
//! A *case* is drawn from one seed: an SSD of a known class (`Profile::random`), its condition, and a mix of tenants. The scheduler
//! learns for [`LEARN`] of load, is measured for [`MEASURE`], then a tenant goes away and comes back.
//!
//! ```text
//!   0 s ──────── learns ──────── 5 s ── measured ── 7 s ─ away ─ 7.4 s ── back ── 8 s
//! ```
//!
//! It is compared with runs of each group alone, and of the same mix under `none` (and `gimbal`). All runs are measured at the same
//! time after the same load, because buffers and caches fill over seconds. The judge uses no estimates of the schedulers:
//! bandwidths and latencies are those that the simulated clients see.
//!
//! Holds: a case and its verdict follow from the seed alone, and an unfair scheduler is found unfair (`tests/judge.rs`).
//! Elsewhere: the draw of a case is `case`, an SSD that changes is `changing`, the measurement is `verdict`, a light reader's tail and its floor are `tail`, the summary of many cases is `summary`.

mod case;
mod changing;
mod objectives;
mod summary;
mod tail;
mod verdict;

pub use case::{Case, Group, Guest, Inside};
pub use changing::{ChangingCase, ChangingReference, What};
pub use objectives::{ObjectiveSummary, ObjectiveVerdict, Said};
pub use summary::{Row, Summary, Unit};
pub use tail::{PartRow, Parts, Tail, TailRow, TailSummary, TailVerdict};
pub use verdict::{NoneFigures, Verdict};

use crate::runner::{Broken, Progress};
use crate::scheduler::{NotCalibrated, Scheduler, Setup};
use sched::{Calibration, Learnt};
use serde::{Deserialize, Serialize};
use sim::checkers::Violation;
use sim::{Change, PolicyChoice, ReadTime, Results, World};
use ssd::Image;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use units::{Nanos, TenantId};

/// Time under load before the measurement.
pub const LEARN: Nanos = Nanos::secs(5);
/// Length of the measurement after that.
pub const MEASURE: Nanos = Nanos::secs(2);
/// Time for which a tenant is away after that.
const AWAY: Nanos = Nanos::millis(400);
/// Added to the seed of a case to get a case with another SSD.
const OTHER: u64 = 1 << 32;
/// Time for which the tenant is observed after it came back.
const BACK: Nanos = Nanos::millis(600);

/// The scheduler's prior knowledge of the SSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    #[default]
    Nothing,
    /// The model from an earlier run of the case.
    Own,
    /// The model of an SSD of another case, under the same mix: a wrong belief.
    Other,
}

/// The reason why a case could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The scheduler needs a calibration, which does not exist for a random SSD.
    #[error("{} needs a calibration, and there is none for an SSD that is drawn at random", .0.scheduler.name())]
    NotCalibrated(NotCalibrated),
    /// The scheduler learns no model of an SSD that it could be given.
    #[error("{} learns nothing of an SSD, so it cannot be told anything; judge level", .0.name())]
    LearnsNothing(Scheduler),
    /// A rule of the simulator was broken.
    #[error(transparent)]
    Broken(Broken),
}

/// Judges a scheduler with the prior knowledge `told` by these cases, after `learn` of load ([`LEARN`] otherwise), on all cores. Reports
/// every case that ends to `watch`.
///
/// # Errors
/// The first case, in the order of `seeds`, that could not be judged.
pub fn judge(
    scheduler: Scheduler,
    told: Told,
    learn: Nanos,
    seeds: &[u64],
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<Verdict>, JudgeError> {
    each(seeds, &|seed| judge_one(scheduler, told, &Case { learn, ..Case::of(seed) }), watch)
}

/// Does the same by cases with an SSD that changes.
///
/// # Errors
/// The first case, in the order of `seeds`, that could not be judged.
pub fn judge_changing(
    scheduler: Scheduler,
    seeds: &[u64],
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<Verdict>, JudgeError> {
    let judge = |seed| {
        let case = ChangingCase::of(seed);
        // A scheduler that cannot be judged is refused before the long runs.
        setup_of(&case.case, scheduler)?;
        case.judge(scheduler, &case.reference()?)
    };
    each(seeds, &judge, watch)
}

/// Judges the scheduler's statements about objectives, and their outcome, by these cases: those with more than one tenant.
///
/// # Errors
/// As [`judge`].
pub fn judge_objectives(
    scheduler: Scheduler,
    seeds: &[u64],
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<ObjectiveVerdict>, JudgeError> {
    let verdicts = each(seeds, &|seed| objectives::judge_one(scheduler, seed), watch)?;
    Ok(verdicts.into_iter().flatten().collect())
}

/// Judges the light reader's tail under the scheduler by these cases: those with a light reader.
///
/// # Errors
/// As [`judge`].
pub fn judge_tails(
    scheduler: Scheduler,
    seeds: &[u64],
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<TailVerdict>, JudgeError> {
    let verdicts = each(seeds, &|seed| tail::judge_one(scheduler, seed), watch)?;
    Ok(verdicts.into_iter().flatten().collect())
}

/// Judges each seed, on all cores.
fn each<V: Send + Sync>(
    seeds: &[u64],
    judge: &(dyn Fn(u64) -> Result<V, JudgeError> + Sync),
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<V>, JudgeError> {
    let verdicts: Vec<OnceLock<Result<V, JudgeError>>> = seeds.iter().map(|_| OnceLock::new()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(seeds.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let mine = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(mine) else { break };
                    let first = verdicts[mine].set(judge(seed)).is_ok();
                    assert!(first, "case {seed} was judged twice");
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    watch(Progress { done, all: seeds.len(), label: &format!("case {seed}") });
                }
            });
        }
    });
    verdicts.into_iter().map(|verdict| verdict.into_inner().expect("all cases have been taken")).collect()
}

fn judge_one(scheduler: Scheduler, told: Told, case: &Case) -> Result<Verdict, JudgeError> {
    // A scheduler that cannot be judged is refused before the long runs.
    setup_of(case, scheduler)?;
    if told != Told::Nothing && scheduler != Scheduler::LEVEL {
        return Err(JudgeError::LearnsNothing(scheduler));
    }
    judge_against(scheduler, told, case, &Reference::of(case)?)
}

/// The reference runs of a case, which are the same for every scheduler.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reference {
    /// Bandwidth of each group's kind of work alone on the SSD, in bytes per second.
    pub alone: Vec<f64>,
    /// The same for the guest's kind of work.
    pub guest_alone: Option<f64>,
    /// The mix without a scheduler.
    pub none: NoneFigures,
    /// The light reader's 99th percentile under `gimbal`, µs.
    pub gimbal_p99_us: Option<f64>,
}

impl Reference {
    /// Runs the case's groups alone, and the mix under `none` and `gimbal`.
    ///
    /// # Errors
    /// A rule of the simulator was broken.
    pub fn of(case: &Case) -> Result<Reference, JudgeError> {
        let image = case.image();
        let alone = |workload| Ok(verdict::bandwidth(&run(case, "alone", &case.alone(workload), &image)?));
        let guest_alone = case.guest.as_ref().map(|guest| alone(&guest.workload)).transpose()?;
        let alone = case
            .groups
            .iter()
            .map(|group| alone(&group.workload))
            .collect::<Result<Vec<f64>, JudgeError>>()?;
        let case = &case.paced(&alone);
        let none = case.baseline(&setup_of(case, Scheduler::NONE)?);
        let none = case.none(&run(case, "none", &none, &image)?);
        let gimbal_p99_us = match case.light {
            Some(_) => {
                let gimbal = case.baseline(&setup_of(case, Scheduler::GIMBAL)?);
                Some(case.light_p99(&run(case, "gimbal", &gimbal, &image)?))
            }
            None => None,
        };
        Ok(Reference { alone, guest_alone, none, gimbal_p99_us })
    }
}

/// Judges a scheduler by a case with a given reference.
///
/// # Errors
/// The scheduler needs a calibration, or a rule of the simulator was broken.
pub fn judge_against(
    scheduler: Scheduler,
    told: Told,
    case: &Case,
    reference: &Reference,
) -> Result<Verdict, JudgeError> {
    let case = &case.paced(&reference.alone);
    let mut setup = setup_of(case, scheduler)?;
    if let Some(learnt) = learnt(scheduler, told, case)? {
        setup.policy = PolicyChoice::from(learnt);
    }
    let world = case.world(&setup);
    let image = case.image();
    let results = run(case, scheduler.name(), &world, &image)?;
    Ok(Verdict::new(case, scheduler, &results, reference))
}

/// The prior knowledge for the scheduler in this case.
fn learnt(scheduler: Scheduler, told: Told, case: &Case) -> Result<Option<Learnt>, JudgeError> {
    let teacher = match told {
        Told::Nothing => return Ok(None),
        Told::Own => case.clone(),
        Told::Other => {
            let other = Case::of(case.seed.wrapping_add(OTHER));
            Case { profile: other.profile, condition: other.condition, ..case.clone() }
        }
    };
    let image = teacher.image();
    let world = teacher.world(&setup_of(&teacher, scheduler)?);
    Ok(run(&teacher, "to learn", &world, &image)?.learnt)
}

fn setup_of(case: &Case, scheduler: Scheduler) -> Result<Setup, JudgeError> {
    scheduler.setup_with(&case.profile, &Calibration::default()).map_err(JudgeError::NotCalibrated)
}

fn run(case: &Case, what: &str, world: &World, image: &Image) -> Result<Results, JudgeError> {
    run_changing(case, what, world, image, &[])
}

fn run_changing(
    case: &Case,
    what: &str,
    world: &World,
    image: &Image,
    changes: &[Change],
) -> Result<Results, JudgeError> {
    let results =
        world.policy.build(image).and_then(|policy| sim::run_changing(world, policy, image, changes));
    results.map_err(|violation| broken(case, what, violation))
}

/// Runs a world, and follows the reads of its last tenant.
fn run_following_last(
    case: &Case,
    what: &str,
    world: &World,
    image: &Image,
) -> Result<(Results, Vec<ReadTime>), JudgeError> {
    let last = TenantId(world.tenants.len() as u32 - 1);
    let results = world.policy.build(image).and_then(|policy| sim::run_following(world, policy, image, last));
    results.map_err(|violation| broken(case, what, violation))
}

fn broken(case: &Case, what: &str, violation: Violation) -> JudgeError {
    let (seed, label) = (case.seed, format!("case {}, {what}", case.seed));
    JudgeError::Broken(Broken { label, seed, violation })
}
