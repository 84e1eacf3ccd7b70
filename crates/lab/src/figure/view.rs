//! The findings as a figure sees them: its cases, groups and schedulers on one profile.

use super::look::Look;
use super::{Figure, Kind, Mark, Measure};
use crate::claims::Way;
use crate::experiment::Case;
use crate::findings::{Findings, Spread};
use crate::measure::DirectionFigures;
use crate::record::{GroupRecord, Record};
use crate::scheduler::Scheduler;

/// A figure and the findings on one profile.
pub(super) struct View<'f> {
    pub(super) figure: &'f Figure,
    pub(super) findings: &'f Findings,
    pub(super) profile: &'f str,
}

/// A group, or one direction of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part<'f> {
    pub(super) group: &'f str,
    /// None: both together.
    pub(super) way: Option<Way>,
    /// Its name in the key or on an axis.
    pub(super) label: String,
}

impl<'f> View<'f> {
    pub(super) fn title(&self) -> String {
        let experiment = &self.findings.experiment;
        format!("{}: {}", experiment.name, experiment.title)
    }

    pub(super) fn subtitle(&self) -> String {
        let counts = || self.cases().into_iter().map(|case| case.seeds.len());
        let (fewest, most) = (counts().min().unwrap_or(1), counts().max().unwrap_or(1));
        let seeds = if fewest == most { fewest.to_string() } else { format!("{fewest} to {most}") };
        let rests_on = match self.figure.kind {
            Kind::TimeSeries | Kind::Threshold => format!("seed {}", self.findings.experiment.seeds[0]),
            _ if most == 1 => format!("seed {}", self.findings.experiment.seeds[0]),
            Kind::Bars | Kind::Tradeoff => {
                format!("median of {seeds} seeds, whiskers from the least to the greatest")
            }
            Kind::Sweep => format!("median of {seeds} seeds"),
        };
        format!("{}, {rests_on}", self.profile)
    }

    /// The cases; a swept case appears once.
    pub(super) fn cases(&self) -> Vec<&'f Case> {
        let mut cases: Vec<&Case> = Vec::new();
        for case in &self.findings.experiment.cases {
            let wanted = self.figure.cases.is_empty() || self.figure.cases.contains(&case.name);
            if wanted && cases.iter().all(|known| known.name != case.name) {
                cases.push(case);
            }
        }
        cases
    }

    /// The values of a swept case.
    pub(super) fn values(&self, case: &Case) -> Vec<f64> {
        let cases = self.findings.experiment.cases.iter().filter(|other| other.name == case.name);
        cases.filter_map(|case| case.x).collect()
    }

    pub(super) fn schedulers(&self) -> Vec<Scheduler> {
        let schedulers = self.findings.experiment.schedulers.iter().copied();
        let wanted = &self.figure.schedulers;
        schedulers
            .filter(|scheduler| wanted.is_empty() || wanted.iter().any(|name| name == scheduler.name()))
            .collect()
    }

    /// The groups of a case; for a latency or a bandwidth, direction by direction if a group has both.
    pub(super) fn parts(&self, case: &'f Case) -> Vec<Part<'f>> {
        let directed = matches!(self.figure.of, Some(Measure::Latency { .. } | Measure::Bandwidth));
        let wanted = |name: &String| self.figure.groups.is_empty() || self.figure.groups.contains(name);
        let mut parts = Vec::new();
        for group in case.groups.iter().map(|group| &group.name).filter(|name| wanted(name)) {
            let ways = self.ways(&case.name, group);
            match (directed, self.figure.way, &ways[..]) {
                (true, Some(way), _) => {
                    parts.push(Part { group, way: Some(way), label: group.clone() });
                }
                (true, None, [Way::Read, Way::Write]) => parts.extend(ways.iter().map(|way| Part {
                    group,
                    way: Some(*way),
                    label: format!("{group}, {}", name(*way)),
                })),
                (true, None, [way]) => parts.push(Part { group, way: Some(*way), label: group.clone() }),
                _ => parts.push(Part { group, way: None, label: group.clone() }),
            }
        }
        parts
    }

    /// The directions in which a group did something in any run.
    fn ways(&self, case: &str, group: &str) -> Vec<Way> {
        let groups = || {
            let records = self.findings.records.iter();
            records.filter(|record| record.case == case).filter_map(|record| record.group(group))
        };
        let ways = [Way::Read, Way::Write].into_iter();
        ways.filter(|way| groups().any(|group| directed(group, *way).is_some())).collect()
    }

    /// The records of a case under a scheduler.
    pub(super) fn records(&self, case: &str, x: Option<f64>, scheduler: Scheduler) -> Vec<&'f Record> {
        let of = |record: &&Record| {
            record.profile == self.profile
                && record.case == case
                && record.x == x
                && record.scheduler == scheduler.name()
        };
        self.findings.records.iter().filter(of).collect()
    }

    /// The measure over the seeds.
    pub(super) fn spread(
        &self,
        case: &str,
        x: Option<f64>,
        scheduler: Scheduler,
        part: &Part<'_>,
    ) -> Option<Spread> {
        let measure = self.figure.of?;
        let records = self.records(case, x, scheduler);
        Spread::of(records.into_iter().filter_map(|record| measure.of(record.group(part.group)?, part.way)))
    }

    /// The source's values in a case under a scheduler.
    pub(super) fn marks(&self, case: &str, scheduler: Option<Scheduler>) -> impl Iterator<Item = &'f Mark> {
        let names = |name: &Option<String>, is: &str| name.as_ref().is_none_or(|name| name == is);
        self.figure.marks.iter().filter(move |mark| {
            names(&mark.case, case)
                && scheduler.is_none_or(|scheduler| names(&mark.scheduler, scheduler.name()))
        })
    }
}

impl Measure {
    /// The number of a group, or of one direction of it; none if no IO with a latency came back.
    pub(super) fn of(self, group: &GroupRecord, way: Option<Way>) -> Option<f64> {
        match self {
            Measure::FUtil => Some(group.f_util),
            Measure::Deviation => Some(group.deviation),
            Measure::Bandwidth => Some(match way {
                Some(way) => directed(group, way).map_or(0.0, |figures| figures.mb_per_s),
                None => group.mb_per_s,
            }),
            Measure::Latency { statistic, reading } => {
                directed(group, way?).map(|figures| statistic.of(reading.of(figures)))
            }
            Measure::WriteCost | Measure::TargetRate | Measure::Fragmentation | Measure::Window => None,
        }
    }
}

/// One direction of a group.
pub(super) fn directed(group: &GroupRecord, way: Way) -> Option<&DirectionFigures> {
    match way {
        Way::Read => group.read.as_ref(),
        Way::Write => group.write.as_ref(),
    }
}

/// As a key calls it.
pub(super) fn name(way: Way) -> &'static str {
    match way {
        Way::Read => "reads",
        Way::Write => "writes",
    }
}

/// Schedulers in the order of their looks, so that those of one experiment look different: there are twelve looks, taken in turns. Others come
/// after these.
const LOOKS: [&str; 24] = [
    "none",
    "reflex",
    "flashfq",
    "parda",
    "gimbal-text",
    "gimbal",
    "level-calibrated",
    "level",
    "ais-64m",
    "reflex-compared",
    "flashfq-compared",
    "parda-compared",
    "mclock",
    "ais-128m",
    "ais-256m",
    "ais-512m",
    "gimbal-fixed",
    "spdk-qos",
    "io-cost",
    "mq-deadline",
    "mq-deadline-32",
    "kyber",
    "bfq",
    "bfq-32",
];

/// The look of a scheduler, the same in every figure.
pub(super) fn look(scheduler: Scheduler) -> Look {
    let chosen = LOOKS.iter().position(|name| *name == scheduler.name());
    let place = || Scheduler::all().position(|other| other == scheduler);
    Look::of(chosen.or_else(|| Some(LOOKS.len() + place()?)).expect("it is one of all"))
}
