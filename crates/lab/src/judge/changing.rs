//! A case with an SSD that changes while its tenants run, and changes back.
//!
//! ```text
//!   0 s ─── clean, learns ─── 6 s ─── fragmented ─── 14 s ─── clean ─── 22 s
//!   0 s ─── cache free ────── 6 s ─── cache full ─── 14 s ── recovered ─ 22 s
//! ```
//!
//! Each change is a step (`sim::Change`), so the time is known at which each group's fair share changes. The fair
//! shares are measured: each group alone, on the SSD in either state. A fragmented SSD is in the steady state of small
//! random writes. A full cache takes no writes at all, and one that is free or has recovered lasts longer than the
//! case, so that it does not fill by itself.
//!
//! Every mix has at least one group that writes, and one with other work: otherwise no share changes. These cases have
//! a seed stream of their own.
//!
//! Holds: the two states differ for one group at least, and a scheduler that shares by bytes is found unfair after a change (`tests/judge_changing.rs`).

use super::case::{BUFFERS_FILL, Dice, Group, workload};
use super::verdict::{Verdict, bandwidth, spread};
use super::{Case, JudgeError, run_changing, setup_of};
use crate::scheduler::Scheduler;
use serde::{Deserialize, Serialize};
use sim::{Change, Results, World};
use ssd::{Condition, Image, Profile};
use units::{Bytes, Instant, Nanos};

/// Separates the seeds of these cases from those of others.
const STREAM: u64 = 0x6368_616e_6765;
/// Time before the first change.
const BEFORE: Nanos = Nanos::secs(6);
/// Time from a change to the next one, or to the end.
const AFTER: Nanos = Nanos::secs(8);
/// Length of the window in which a gap is measured.
const WINDOW: Nanos = Nanos::secs(2);
const STEP: Nanos = Nanos::millis(100);
/// Largest gap that counts as fair again.
const FAIR: f64 = 0.15;
/// Size of one program of one bit per cell on one plane.
const PAGE: Bytes = Bytes::kib(16);

/// The kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Clean, fragmented, clean.
    Flash,
    /// The SLC cache is free, full, free.
    Cache,
}

/// One case.
#[derive(Clone, Debug)]
pub struct ChangingCase {
    /// The kind of change.
    pub what: What,
    /// The case, with the SSD in its first and last state.
    pub case: Case,
    /// The SSD in its state between the changes.
    pub changed: (Profile, Condition),
}

/// The speed of the groups of a case alone, in bytes per second, in the two states of the SSD.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangingReference {
    /// In the first and last state.
    pub first: Vec<f64>,
    /// In the state between the changes.
    pub changed: Vec<f64>,
}

impl ChangingCase {
    /// The case of a seed.
    pub fn of(seed: u64) -> ChangingCase {
        let dice = &mut Dice::of(seed ^ STREAM);
        let what = if dice.one_in(3) { What::Cache } else { What::Flash };
        let mut profile = loop {
            let profile = Profile::random(dice.seed());
            if (profile.slc.blocks_per_die > 0) == (what == What::Cache) {
                break profile;
            }
        };
        let changed = match what {
            What::Flash => (profile.clone(), Condition::Fragmented),
            What::Cache => {
                let mut full = profile.clone();
                full.slc.blocks_per_die = 0;
                profile.slc.blocks_per_die = lasting_cache(&profile);
                (full, Condition::Clean)
            }
        };
        // The size of writes for which the changed SSD keeps its state.
        let sizes = changed.1;
        let mut groups: Vec<Group> = Vec::new();
        for n in 0..dice.one_of(&[2, 2, 3]) {
            let workload = loop {
                let workload = workload(sizes, dice);
                let differs = |group: &Group| group.workload.read_percent != workload.read_percent;
                if if n == 0 { workload.read_percent < 100 } else { n > 1 || differs(&groups[0]) } {
                    break workload;
                }
            };
            groups.push(Group { workload, tenants: dice.one_of(&[1, 1, 2, 4]), weight: 1, pace: None });
        }
        let obeys_credit = !dice.one_in(2);
        let condition = Condition::Clean;
        let case = Case {
            seed,
            profile,
            condition,
            groups,
            light: None,
            guest: None,
            obeys_credit,
            leaver: 0,
            learn: BEFORE,
        };
        ChangingCase { what, case, changed }
    }

    /// Runs each group alone in either state of the SSD.
    ///
    /// # Errors
    /// A rule of the simulator was broken.
    pub fn reference(&self) -> Result<ChangingReference, JudgeError> {
        let alone = |image: &Image| {
            let one = |group: &Group| {
                let world = World { warm_up: BUFFERS_FILL, ..self.case.alone(&group.workload) };
                Ok(bandwidth(&run_changing(&self.case, "alone", &world, image, &[])?))
            };
            self.case.groups.iter().map(one).collect::<Result<Vec<f64>, JudgeError>>()
        };
        Ok(ChangingReference { first: alone(&self.first())?, changed: alone(&self.between())? })
    }

    /// Judges a scheduler by this case.
    ///
    /// # Errors
    /// The scheduler needs a calibration, or a rule of the simulator was broken.
    pub fn judge(&self, scheduler: Scheduler, reference: &ChangingReference) -> Result<Verdict, JudgeError> {
        let world = World {
            duration: Nanos(BEFORE.0 + 2 * AFTER.0),
            ..self.case.baseline(&setup_of(&self.case, scheduler)?)
        };
        let first = self.first();
        let changes = [
            Change { at: Instant::ZERO + BEFORE, image: self.between() },
            Change { at: Instant::ZERO + BEFORE + AFTER, image: first.clone() },
        ];
        let results = run_changing(&self.case, scheduler.name(), &world, &first, &changes)?;
        let ChangingReference { first, changed } = reference;
        let slower = self.fair_after(&results, BEFORE, changed);
        let again = self.fair_after(&results, BEFORE + AFTER, first);
        let end = |phase: u64| BEFORE + Nanos(AFTER.0 * phase);
        let f_utils = |end: Nanos, alone| self.f_utils(&results, Nanos(end.0 - WINDOW.0), alone);
        let last = f_utils(end(2), first);
        let gaps = [&f_utils(end(0), first), &f_utils(end(1), changed), &last].map(|f_utils| spread(f_utils));
        Ok(Verdict {
            fair_after_change_s: Some(slower.as_secs_f64()),
            fair_after_return_s: Some(again.as_secs_f64()),
            phase_gaps: Some(gaps),
            ..Verdict::empty(self.case.seed, scheduler, self.to_line(), last)
        })
    }

    /// The f-Utils in the window that begins at `at`.
    fn f_utils(&self, results: &Results, at: Nanos, alone: &[f64]) -> Vec<f64> {
        self.case.f_utils(&self.case.rates(results, at, at + WINDOW), alone, at, at + WINDOW)
    }

    /// Time from the change at `from` until the gap stays small; the whole time until the next change if it does not.
    fn fair_after(&self, results: &Results, from: Nanos, alone: &[f64]) -> Nanos {
        let end = from + AFTER;
        let mut at = Nanos(end.0 - WINDOW.0);
        let mut fair = end;
        while at >= from {
            if spread(&self.f_utils(results, at, alone)) > FAIR {
                break;
            }
            fair = at;
            at = Nanos(at.0 - STEP.0);
        }
        Nanos(fair.0 - from.0)
    }

    fn first(&self) -> Image {
        self.case.image()
    }

    fn between(&self) -> Image {
        let (profile, condition) = &self.changed;
        self.case.conditioned(profile, *condition)
    }

    /// The change, the SSD and the mix on one line.
    pub fn to_line(&self) -> String {
        let what = match self.what {
            What::Flash => "becomes fragmented and clean again",
            What::Cache => "fills its cache and recovers",
        };
        format!("{what}: {}", self.case.to_line())
    }
}

/// Blocks per die of a cache that can take all writes from one change to the next.
fn lasting_cache(profile: &Profile) -> u32 {
    let shape = &profile.geometry;
    let dies = u64::from(shape.channels * shape.dies_per_channel);
    // A page of every plane is programmed at once.
    let program = u64::from(shape.planes) * PAGE.0;
    let flash_rate = dies * program * 1_000_000_000 / profile.slc.program.0;
    let bytes = flash_rate.min(profile.link.write_rate.0) * AFTER.as_secs_f64() as u64;
    (bytes / (dies * program * u64::from(shape.units_per_block)) + 1) as u32
}
