//! The held-out judge: a scheduler that nobody calibrated, on SSDs and mixes that nobody chose.
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
//! Elsewhere: what is drawn is `case`, what is measured is `verdict`, what many cases say together is `summary`.

mod case;
mod summary;
mod verdict;

pub use case::{Case, Group};
pub use summary::{Row, Summary, Unit};
pub use verdict::Verdict;

use crate::runner::{Broken, Progress};
use crate::scheduler::{NotCalibrated, Scheduler};
use sched::Calibration;
use sim::Results;
use ssd::Image;
use std::num::NonZero;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use units::Nanos;

/// Load before anything is measured.
pub const LEARN: Nanos = Nanos::secs(5);
/// Measured after that.
pub const MEASURE: Nanos = Nanos::secs(2);
/// So long a tenant is away after that.
const AWAY: Nanos = Nanos::millis(400);
/// So long it is watched after it came back.
const BACK: Nanos = Nanos::millis(600);

/// A case could not be judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// The scheduler needs a calibration: nobody has one for a random SSD.
    #[error("{} needs a calibration, and there is none for an SSD that is drawn at random", .0.scheduler.name())]
    NotCalibrated(NotCalibrated),
    /// A rule of the simulator was broken.
    #[error(transparent)]
    Broken(Broken),
}

/// Judges a scheduler by these cases, on all cores. Tells `watch` of every case that ends.
///
/// # Errors
/// The first case, in the order of `seeds`, that could not be judged.
pub fn judge(
    scheduler: Scheduler,
    seeds: &[u64],
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<Verdict>, JudgeError> {
    let verdicts: Vec<OnceLock<Result<Verdict, JudgeError>>> =
        seeds.iter().map(|_| OnceLock::new()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(seeds.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let mine = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(mine) else { break };
                    let first = verdicts[mine].set(judge_one(scheduler, seed)).is_ok();
                    assert!(first, "case {seed} was judged twice");
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    watch(Progress { done, all: seeds.len(), label: &format!("case {seed}") });
                }
            });
        }
    });
    verdicts.into_iter().map(|verdict| verdict.into_inner().expect("all cases have been taken")).collect()
}

fn judge_one(scheduler: Scheduler, seed: u64) -> Result<Verdict, JudgeError> {
    let case = Case::of(seed);
    let image = Image::new(&case.profile, case.condition, seed);
    let run = |what: &str, world: sim::World| -> Result<Results, JudgeError> {
        let broken =
            |violation| JudgeError::Broken(Broken { label: format!("case {seed}, {what}"), seed, violation });
        sim::run_on(&world, world.policy.build(), &image).map_err(broken)
    };
    let setup_of = |scheduler: Scheduler| {
        scheduler.setup_with(&case.profile, &Calibration::default()).map_err(JudgeError::NotCalibrated)
    };
    let setup = setup_of(scheduler)?;
    let alone = (0..case.groups.len())
        .map(|group| Ok(verdict::bandwidth(&run("alone", case.alone(group))?)))
        .collect::<Result<Vec<f64>, JudgeError>>()?;
    let none = case.none(&run("none", case.baseline(&setup_of(Scheduler::None)?))?);
    let gimbal = match case.light {
        Some(_) => Some(case.light_p99(&run("gimbal", case.baseline(&setup_of(Scheduler::Gimbal)?))?)),
        None => None,
    };
    let results = run(scheduler.name(), case.world(&setup))?;
    Ok(Verdict::new(&case, scheduler, &results, &alone, &none, gimbal))
}
