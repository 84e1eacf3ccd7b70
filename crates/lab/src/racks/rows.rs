//! The claims about a rack, and whether they hold here.
//!
//! Ratios are computed for each workload under the same seed, and averaged over the workloads, like the paper's
//! averages.

use super::{RackFindings, RackRecord};
use crate::claims::{Asked, Compare, Row, Verdict};
use crate::findings::Spread;
use crate::scheduler::Scheduler;
use serde::Deserialize;

/// One claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RackClaim {
    /// Its identifier in the claims table.
    pub id: String,
    /// The claim, in words.
    pub what: String,
    /// The measured quantity.
    pub quantity: RackQuantity,
    /// The only workload that it is about; `None` means all.
    pub workload: Option<char>,
    /// The comparison.
    pub compare: Compare,
    /// The scheduler with which it is compared.
    pub with: Option<String>,
    /// The source's number, in the unit that `compare` gives.
    pub paper: f64,
    /// The reason why ours differs.
    pub why: Option<String>,
}

/// One number of a run, or of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RackQuantity {
    /// Operations per second.
    Throughput,
    /// Mean latency of all operations.
    Mean,
    /// 99.9th percentile of all operations.
    P999,
    /// The number of databases with the highest throughput.
    Peak,
}

impl RackQuantity {
    fn of(self, record: &RackRecord) -> f64 {
        match self {
            RackQuantity::Throughput => record.throughput,
            RackQuantity::Mean => record.all.mean,
            RackQuantity::P999 => record.all.p999,
            RackQuantity::Peak => f64::from(record.databases),
        }
    }
}

impl RackClaim {
    /// A row for each scheduler of Gimbal's kind.
    pub(super) fn rows(&self, findings: &RackFindings) -> Vec<Row> {
        let schedulers = findings.experiment.schedulers.iter().copied();
        schedulers.filter(|about| about.is_gimbal()).map(|about| self.row(findings, about)).collect()
    }

    fn row(&self, findings: &RackFindings, about: Scheduler) -> Row {
        let experiment = &findings.experiment;
        let numbers = experiment.seeds.iter().filter_map(|seed| self.number(findings, about, *seed));
        let ours = Spread::of(numbers);
        let verdict = ours.map_or(Verdict::Unmeasured, |ours| self.compare.judge(ours.median, self.paper));
        Row {
            id: self.id.clone(),
            what: self.what.clone(),
            experiment: experiment.name.clone(),
            profile: experiment.ssd.profile.name.clone(),
            scheduler: about.name().to_owned(),
            asked: Asked::Paper(self.paper),
            ours,
            interval: None,
            unit: self.compare.unit(),
            holds: verdict == Verdict::Holds,
            verdict,
            plausible: None,
            why: self.why.clone().filter(|_| verdict != Verdict::Holds),
        }
    }

    /// Its number for one seed.
    fn number(&self, findings: &RackFindings, about: Scheduler, seed: u64) -> Option<f64> {
        let is_meant = |record: &&RackRecord| {
            record.seed == seed
                && record.scheduler == about.name()
                && self.workload.is_none_or(|only| only == record.workload)
        };
        let mine = || findings.records.iter().filter(is_meant);
        if self.quantity == RackQuantity::Peak {
            return mine()
                .max_by(|a, b| a.throughput.total_cmp(&b.throughput))
                .map(|record| RackQuantity::Peak.of(record));
        }
        let twin = |record: &RackRecord| {
            findings.records.iter().find(|other| {
                Some(other.scheduler) == self.with.as_deref()
                    && (other.seed, other.workload, other.databases)
                        == (seed, record.workload, record.databases)
            })
        };
        let compared = mine().filter_map(|record| {
            let other = twin(record).map_or(0.0, |other| self.quantity.of(other));
            (other > 0.0 || self.with.is_none()).then(|| self.compare.apply(self.quantity.of(record), other))
        });
        let compared: Vec<f64> = compared.collect();
        (!compared.is_empty()).then(|| compared.iter().sum::<f64>() / compared.len() as f64)
    }
}
