//! The claims of a source, or the goals for our own schedulers, as data, and whether they hold here.
//!
//! A claim names a *quantity* of one case (a group's deviation, the gap between readers and writers, a latency), how the
//! scheduler is *compared* with another (times more, per cent less), and the source's number. Where
//! no paper has a number, it names a *goal* of ours, which is met or not. Its row is computed from the records: median, least and
//! greatest over the seeds, on each profile, for each scheduler that the claim is about.
//!
//! ```toml
//! [[claim]]
//! id = "G7a-large-reflex"
//! what = "how much closer to their share the 128 KiB readers are than under ReFlex"
//! case = "clean"
//! quantity = { deviation = "large" }
//! compare = "times-less"
//! with = "reflex"
//! paper = 2.1
//! why = "…"                    # the cause, where it differs
//!
//! [[claim]]
//! id = "L-readers"
//! what = "bandwidth of a tenant limited to 50 MB/s"
//! case = "among readers, clean"
//! quantity = { bandwidth = "limited" }
//! compare = "at-most"
//! goal = 51.0                  # in the place of `paper`
//! ```
//!
//! The verdict: `holds` if the direction is the paper's and the size is within a factor of two of its (a ratio of ten or more is
//! judged by that factor downwards only); `stronger` and `weaker` if only the direction is; `differs` otherwise. A goal `holds` or is
//! `missed`. With `interval = true` the confidence interval over the seeds is judged: `open` if its ends would have different verdicts.

mod asked;
mod interval;
mod judge;
mod kept;
mod quantity;
#[cfg(test)]
mod tests;

pub use asked::{Asked, holding};
pub use interval::Interval;
pub use judge::{Compare, Verdict};
pub use kept::{BadLine, Kept};
pub use quantity::{Between, Gap, GroupStretch, Latency, Quantity, Ratio, Reading, Statistic, Stretch, Way};

use crate::findings::{Findings, Spread};
use crate::record::Record;
use crate::scheduler::Scheduler;
use crate::sensitivity::Sensitivity;
use crate::ssds::is_papers;
use quantity::Pair;
use serde::{Deserialize, Serialize};

/// Least number of IOs beyond a percentile, in the runs of all seeds together, for which it is judged.
const BEYOND: f64 = 100.0;

/// One claim of a source, or one goal of ours.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its identifier in the claims table.
    pub id: String,
    /// The claim, in words.
    pub what: String,
    /// The case that it is about.
    pub case: String,
    /// The measured quantity.
    pub quantity: Quantity,
    /// The comparison.
    pub compare: Compare,
    /// The scheduler with which it is compared; none for a comparison that needs none.
    pub with: Option<String>,
    /// The scheduler that it is about; none: every Gimbal of the experiment.
    pub about: Option<String>,
    /// The source's number, in the unit that `compare` gives.
    paper: Option<f64>,
    /// Our goal, if the source has no number; exactly one of the two is given.
    goal: Option<f64>,
    /// Whether the confidence interval over the seeds is judged. Then a percentile with fewer than 100 IOs beyond it is
    /// not judged at all.
    #[serde(default)]
    pub interval: bool,
    /// The reason why ours differs, with the evidence. Shown with rows that do not hold.
    pub why: Option<String>,
}

/// A claim and its result on one profile under one scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The claim's identifier.
    pub id: String,
    /// The claim in words.
    pub what: String,
    /// The experiment that it belongs to.
    pub experiment: String,
    /// The SSD's profile.
    pub profile: String,
    /// The scheduler that it is about.
    pub scheduler: String,
    /// The number to compare with: a field `paper` or `goal`.
    #[serde(flatten)]
    pub asked: Asked,
    /// Ours, over the seeds; none if there was nothing to measure.
    pub ours: Option<Spread>,
    /// The interval that decided the verdict, if the claim asks for one and there were enough seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The unit of both.
    pub unit: &'static str,
    /// Whether direction and size are the source's, or the goal is met.
    pub holds: bool,
    /// The verdict in detail.
    pub verdict: Verdict,
    /// The fraction of the SSDs that could be the source's on which it holds ([`Sensitivity`]); none if that was not
    /// judged.
    pub plausible: Option<f64>,
    /// The cause, if it does not hold.
    pub why: Option<String>,
}

impl Row {
    /// The spread, for people: the interval that decided the verdict, or the range from least to greatest.
    pub fn spread(&self) -> String {
        match (self.interval, self.ours) {
            (Some(of), _) => format!("{:.3} … {:.3} (95 %)", of.low, of.high),
            (None, Some(ours)) => format!("{:.2} … {:.2}", ours.least, ours.greatest),
            (None, None) => String::new(),
        }
    }
}

impl Claim {
    /// The number to compare with; none unless exactly one of paper and goal is given.
    pub fn asked(&self) -> Option<Asked> {
        match (self.paper, self.goal) {
            (Some(paper), None) => Some(Asked::Paper(paper)),
            (None, Some(goal)) => Some(Asked::Goal(goal)),
            _ => None,
        }
    }

    /// Whether a run under this scheduler is needed to judge it.
    pub(crate) fn needs(&self, scheduler: Scheduler) -> bool {
        self.is_about(scheduler) || self.with.as_deref() == Some(scheduler.name())
    }

    fn is_about(&self, scheduler: Scheduler) -> bool {
        match &self.about {
            Some(name) => names(name, scheduler),
            None => scheduler.is_gimbal(),
        }
    }

    /// The rows of this claim.
    pub(crate) fn rows(&self, findings: &Findings) -> Vec<Row> {
        let experiment = &findings.experiment;
        let profiles = experiment.ssds.iter().map(|ssd| ssd.profile.name.as_str());
        let schedulers =
            || experiment.schedulers.iter().filter(|about| self.is_about(**about)).map(|about| about.name());
        profiles
            .flat_map(|profile| schedulers().map(move |scheduler| self.row(findings, profile, scheduler)))
            .collect()
    }

    /// Its numbers in `record`, each with the one for comparison: a single pair, or several of which the worst counts.
    fn pairs(&self, findings: &Findings, record: &Record) -> Vec<Option<Pair>> {
        let Some(other) = &self.with else {
            let alone = |mine| Pair { mine, other: 0.0, beyond: f64::INFINITY };
            return vec![self.quantity.of(record).map(alone)];
        };
        let Some(twin) = twin(findings, record, other) else { return Vec::new() };
        self.quantity.against(record, twin)
    }

    fn row(&self, findings: &Findings, profile: &str, scheduler: &str) -> Row {
        let records = findings.of(profile, &self.case, scheduler);
        let pairs: Vec<Vec<Option<Pair>>> = records.map(|record| self.pairs(findings, record)).collect();
        let asked = self.asked().expect("checked when the experiment was read");
        let worst = self.worst(asked, &pairs);
        let verdict = worst.map_or(Verdict::Unmeasured, |worst| worst.verdict);
        Row {
            id: self.id.clone(),
            what: self.what.clone(),
            experiment: findings.experiment.name.clone(),
            profile: profile.to_owned(),
            scheduler: scheduler.to_owned(),
            asked,
            ours: worst.map(|worst| worst.ours),
            interval: worst.and_then(|worst| worst.interval),
            unit: self.compare.unit(),
            holds: verdict == Verdict::Holds,
            verdict,
            plausible: is_papers(profile)
                .then(|| Sensitivity::kept().share(&findings.experiment.name, &self.id, scheduler))
                .flatten(),
            why: self.why.clone().filter(|_| verdict != Verdict::Holds),
        }
    }

    /// Of the numbers of all seeds, the one with the worst verdict; among equals the one with the greatest median.
    fn worst(&self, asked: Asked, pairs: &[Vec<Option<Pair>>]) -> Option<Judged> {
        let kinds = pairs.iter().map(Vec::len).max()?;
        let of_kind = |kind: usize| -> Vec<Pair> {
            pairs.iter().filter_map(|of_seed| of_seed.get(kind).copied().flatten()).collect()
        };
        let judged = (0..kinds).filter_map(|kind| self.judge(asked, &of_kind(kind)));
        judged.max_by(|one, two| {
            let by_verdict = one.verdict.place().cmp(&two.verdict.place());
            by_verdict.then(one.ours.median.total_cmp(&two.ours.median))
        })
    }

    /// Judges one number over all seeds.
    fn judge(&self, asked: Asked, pairs: &[Pair]) -> Option<Judged> {
        let ours = Spread::of(pairs.iter().map(|pair| self.compare.apply(pair.mine, pair.other)))?;
        if !self.interval {
            return Some(Judged { verdict: asked.judge(self.compare, ours.median), ours, interval: None });
        }
        if pairs.iter().map(|pair| pair.beyond).sum::<f64>() < BEYOND {
            return None;
        }
        let ratios: Vec<f64> = pairs.iter().map(|pair| pair.mine / pair.other).collect();
        // With one seed there is only a number and no interval.
        let interval = Interval::of(&ratios).map(|of| of.map(|ratio| self.compare.apply(ratio, 1.0)));
        let verdict = match interval {
            Some(interval) => asked.judge_interval(self.compare, interval),
            None => asked.judge(self.compare, ours.median),
        };
        Some(Judged { verdict, ours, interval })
    }
}

/// One number of a claim, and its judgement.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Judged {
    verdict: Verdict,
    ours: Spread,
    interval: Option<Interval>,
}

/// Whether a name in a claim means this scheduler. A `*` at its end matches any text.
pub(crate) fn names(word: &str, scheduler: Scheduler) -> bool {
    match word.strip_suffix('*') {
        Some(beginning) => scheduler.name().starts_with(beginning),
        None => scheduler.name() == word,
    }
}

/// The record of the same case, profile and seed under another scheduler.
fn twin<'f>(findings: &'f Findings, record: &Record, scheduler: &str) -> Option<&'f Record> {
    findings.records.iter().find(|other| {
        other.scheduler == scheduler
            && other.seed == record.seed
            && other.profile == record.profile
            && other.case == record.case
            && other.x == record.x
    })
}
