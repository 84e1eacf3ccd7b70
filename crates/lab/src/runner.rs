//! Runs worlds on all cores and keeps the needed results of each.
//!
//! Threads take the next world from a shared counter; the results are in the order of the worlds. Conditioned
//! SSDs are shared: making a fragmented one takes longer than many runs.

use crate::measure::Measured;
use crate::plan::Run;
use sim::checkers::Violation;
use ssd::{Condition, Image};
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

/// A run that broke a rule of the simulator: a defect of a scheduler or of the model, never a result.
#[derive(Debug, thiserror::Error)]
#[error("{label} (seed {seed}) broke a rule of the simulator: {violation}")]
pub struct Broken {
    /// Which run.
    pub label: String,
    /// Its seed.
    pub seed: u64,
    /// The violation that occurred.
    pub violation: Violation,
}

/// The progress of the work.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Runs that have ended.
    pub done: usize,
    /// Runs in all.
    pub all: usize,
    /// The one that has just ended.
    pub label: &'a str,
}

/// SSDs conditioned so far, kept as long as the lab runs.
#[derive(Default)]
pub struct Images {
    made: Mutex<HashMap<ImageKey, Arc<OnceLock<Image>>>>,
}

/// The profile as text, as two profiles of one name may differ.
#[derive(PartialEq, Eq, Hash)]
struct ImageKey {
    profile: String,
    condition: Condition,
    seed: u64,
}

impl Images {
    fn of(&self, run: &Run) -> Image {
        let world = &run.world;
        // Nothing is random about a clean SSD.
        let seed = if world.condition == Condition::Clean { 0 } else { world.seed };
        let key = ImageKey { profile: world.profile.to_toml(), condition: world.condition, seed };
        let place = self.made.lock().expect("no thread dies here").entry(key).or_default().clone();
        // Outside the lock: others may need another SSD meanwhile.
        place.get_or_init(|| Image::new(&world.profile, world.condition, seed)).clone()
    }
}

/// Runs all, on as many threads as there are cores. Reports every run that ends to `watch`.
///
/// # Errors
/// The first run, in the order of `runs`, that broke a rule.
pub fn run_all(
    runs: &[Run],
    images: &Images,
    watch: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Vec<Measured>, Broken> {
    let labels: Vec<String> = runs.iter().map(|run| run.label.clone()).collect();
    on_all_cores(&labels, watch, |mine| run_one(&runs[mine], images)).into_iter().collect()
}

/// Does `work` for each label's index, on as many threads as there are cores. The results are in their order.
pub(crate) fn on_all_cores<T: Send + Sync>(
    labels: &[String],
    watch: &(dyn Fn(Progress<'_>) + Sync),
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let results: Vec<OnceLock<T>> = labels.iter().map(|_| OnceLock::new()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(labels.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let mine = next.fetch_add(1, Ordering::Relaxed);
                    let Some(label) = labels.get(mine) else { break };
                    let first = results[mine].set(work(mine)).is_ok();
                    assert!(first, "run {mine} was done twice");
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    watch(Progress { done, all: labels.len(), label });
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().expect("all have been taken")).collect()
}

fn run_one(run: &Run, images: &Images) -> Result<Measured, Broken> {
    let image = images.of(run);
    match run.world.policy.build(&image).and_then(|policy| sim::run_on(&run.world, policy, &image)) {
        Ok(results) => Ok(Measured::new(&results, &run.counts)),
        Err(violation) => Err(Broken { label: run.label.clone(), seed: run.world.seed, violation }),
    }
}
