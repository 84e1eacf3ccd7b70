//! The quality of a setting: the speed of each kind of work alone under it, and the f-Util of the worst-off group when
//! two kinds meet.
//!
//! A comparison with a baseline that wastes the SSD would not be fair, nor with one whose settings make it less fair
//! than it can be. So among the settings that reach [`ENOUGH`] of the SSD's speed with every kind of work alone, we
//! take the one with the highest f-Util of the worst-off group, averaged over the situations in which it will be
//! judged. If several reach [`ABOUT`] of the best, we take the tightest: it gives the same fairness at the shortest
//! latency.

use super::probe::{Outcome, Probe, Work, Workers};
use crate::runner::Broken;
use crate::scheduler::Setup;
use sim::Pattern;
use ssd::Condition;

/// Least share of the SSD's speed at which a scheduler does not waste the SSD.
pub(super) const ENOUGH: f64 = 0.95;
/// Least part of the best result that counts as about as good.
const ABOUT: f64 = 0.98;
/// Number of workers of one kind, as in the Gimbal paper.
const MANY: u32 = 16;
/// Number of the paper's large readers in a mix with small ones.
const FEW: u32 = 4;

/// The kinds of work of the Gimbal paper's figure 6.
pub(super) const KINDS: [Kind; 4] = [
    Kind::new("128 KiB reads, clean", Condition::Clean, 128, 100, Pattern::Random),
    Kind::new("128 KiB writes, clean", Condition::Clean, 128, 0, Pattern::Sequential),
    Kind::new("4 KiB reads, fragmented", Condition::Fragmented, 4, 100, Pattern::Random),
    Kind::new("4 KiB writes, fragmented", Condition::Fragmented, 4, 0, Pattern::Random),
];
/// A kind that is used only together with large reads.
const SMALL_CLEAN_READS: Kind = Kind::new("4 KiB reads, clean", Condition::Clean, 4, 100, Pattern::Random);
/// The situations of the paper's figure 7: two kinds, by their index in [`KINDS`] (its length means
/// `SMALL_CLEAN_READS`), and the number of workers of each.
const MEETINGS: [[(usize, u32); 2]; 3] =
    [[(KINDS.len(), MANY), (0, FEW)], [(0, MANY), (1, MANY)], [(2, MANY), (3, MANY)]];

/// One kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) condition: Condition,
    kib: u64,
    read_percent: u8,
    pattern: Pattern,
}

impl Kind {
    const fn new(
        name: &'static str,
        condition: Condition,
        kib: u64,
        read_percent: u8,
        pattern: Pattern,
    ) -> Kind {
        Kind { name, condition, kib, read_percent, pattern }
    }

    fn workers(&self, count: u32) -> Workers {
        Workers::saturating(count, self.kib, self.read_percent, self.pattern)
    }
}

/// The speed of the SSD for each kind of work without a scheduler.
pub(super) struct Gauge<'p> {
    probe: &'p Probe<'p>,
    /// IOs per second of each of [`KINDS`], then of `SMALL_CLEAN_READS`.
    most: Vec<f64>,
}

/// The result of a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    /// IOs per second of each kind alone, relative to the SSD's speed for it.
    pub(super) alone: [f64; KINDS.len()],
    /// f-Util of the worst-off group, averaged over the meetings.
    pub(super) worst_off: f64,
}

impl<'p> Gauge<'p> {
    pub(super) fn new(probe: &'p Probe<'p>) -> Result<Gauge<'p>, Broken> {
        let kinds = KINDS.iter().chain([&SMALL_CLEAN_READS]);
        let works: Vec<Work> = kinds.map(|kind| Work::free(kind.condition, kind.workers(MANY))).collect();
        let outcomes = probe.run("what the SSD gives", &works)?;
        Ok(Gauge { probe, most: outcomes.iter().map(|outcome| outcome[0].iops).collect() })
    }

    /// The speed of each kind alone under each setting.
    pub(super) fn alone(&self, what: &str, settings: &[Setup]) -> Result<Vec<[f64; KINDS.len()]>, Broken> {
        let works: Vec<Work> = settings
            .iter()
            .flat_map(|setup| {
                KINDS.map(|kind| Work {
                    setup: setup.clone(),
                    ..Work::free(kind.condition, kind.workers(MANY))
                })
            })
            .collect();
        let outcomes = self.probe.run(what, &works)?;
        let shares = |of: &[Vec<Outcome>]| std::array::from_fn(|kind| of[kind][0].iops / self.most[kind]);
        Ok(outcomes.chunks(KINDS.len()).map(shares).collect())
    }

    /// The result of each setting.
    pub(super) fn judge(&self, what: &str, settings: &[Setup]) -> Result<Vec<Verdict>, Broken> {
        let alone = self.alone(what, settings)?;
        let kind = |place: usize| KINDS.get(place).unwrap_or(&SMALL_CLEAN_READS);
        let works: Vec<Work> = settings
            .iter()
            .flat_map(|setup| {
                MEETINGS.map(|meeting| Work {
                    condition: kind(meeting[0].0).condition,
                    workers: meeting.map(|(place, count)| kind(place).workers(count)).into(),
                    setup: setup.clone(),
                })
            })
            .collect();
        let outcomes = self.probe.run(what, &works)?;
        let worst_off = |of: &[Vec<Outcome>]| {
            let least = MEETINGS.iter().zip(of).map(|(meeting, outcome)| self.least(meeting, outcome));
            least.sum::<f64>() / MEETINGS.len() as f64
        };
        let worst_off = outcomes.chunks(MEETINGS.len()).map(worst_off);
        Ok(alone.into_iter().zip(worst_off).map(|(alone, worst_off)| Verdict { alone, worst_off }).collect())
    }

    /// The least f-Util of a meeting.
    fn least(&self, meeting: &[(usize, u32); 2], outcomes: &[Outcome]) -> f64 {
        let all: u32 = meeting.iter().map(|(_, count)| count).sum();
        let f_utils = meeting.iter().zip(outcomes).map(|((place, count), outcome)| {
            outcome.iops / self.most[*place] * f64::from(all) / f64::from(*count)
        });
        f_utils.fold(f64::INFINITY, f64::min)
    }
}

impl Verdict {
    /// The least relative speed of a kind alone.
    pub(super) fn least_alone(&self) -> f64 {
        self.alone.into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// Chooses the best of several verdicts, which are ordered from the tightest setting to the loosest: the first that
/// does not waste the SSD and is about as fair as the fairest. If each wastes some of it, the one that wastes least.
///
/// # Panics
/// If there is none.
pub(super) fn best(verdicts: &[Verdict]) -> usize {
    let wastes_nothing = |verdict: &&Verdict| verdict.least_alone() >= ENOUGH;
    let fairest = verdicts.iter().filter(wastes_nothing).map(|verdict| verdict.worst_off).fold(0.0, f64::max);
    let good = |verdict: &Verdict| wastes_nothing(&verdict) && verdict.worst_off >= ABOUT * fairest;
    let least_wasteful = || {
        let shares = verdicts.iter().map(Verdict::least_alone).enumerate();
        shares.max_by(|(_, one), (_, two)| one.total_cmp(two)).map(|(place, _)| place)
    };
    verdicts.iter().position(good).or_else(least_wasteful).expect("there is something to choose from")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(alone: f64, worst_off: f64) -> Verdict {
        Verdict { alone: [1.0, 1.0, alone, 1.0], worst_off }
    }

    #[test]
    fn the_tightest_that_wastes_nothing_and_is_about_as_fair_as_can_be_is_the_best() {
        assert_eq!(best(&[verdict(0.99, 0.4), verdict(0.96, 0.5), verdict(0.94, 0.9)]), 1);
        assert_eq!(best(&[verdict(0.96, 0.48), verdict(0.96, 0.496), verdict(0.99, 0.5)]), 1);
        assert_eq!(
            best(&[verdict(0.5, 0.9), verdict(0.9, 0.1)]),
            1,
            "if all waste, the one that wastes least"
        );
    }
}
