//! The summary of many cases: median, 95th percentile, worst, and the share of cases that meet the goal.

use super::verdict::Verdict;
use serde::Serialize;

/// A quantity, the bounds that it should keep, and a function that takes it from a verdict; cases without it do not
/// count.
#[derive(Clone, Copy, Debug)]
struct Goal {
    what: &'static str,
    unit: Unit,
    of: fn(&Verdict) -> Option<f64>,
    /// Whether less is better.
    less_is_better: bool,
    /// The bound of the median.
    median: Option<f64>,
    /// The bound of the 95th percentile, counted from the best.
    p95: Option<f64>,
    /// The bound for every case.
    worst: Option<f64>,
}

/// The format of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A fraction of one, shown as per cent.
    Percent,
    /// A ratio.
    Times,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The number as text.
    pub fn show(self, number: f64) -> String {
        match self {
            Unit::Percent => format!("{:.1} %", 100.0 * number),
            Unit::Times => format!("{number:.2}"),
            Unit::Millis => format!("{number:.0} ms"),
            Unit::Seconds => format!("{number:.1} s"),
        }
    }
}

/// One quantity over all cases with it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The quantity.
    pub what: &'static str,
    /// The format.
    pub unit: Unit,
    /// Number of cases with it.
    pub cases: usize,
    /// The median.
    pub median: f64,
    /// The value that 95 of a hundred cases reach or surpass.
    pub p95: f64,
    /// The worst.
    pub worst: f64,
    /// The seed of the worst case.
    pub worst_case: u64,
    /// Whether the worst case has an SSD that changes.
    pub is_changing: bool,
    /// The fraction of the cases that meet the bound of the worst case or, without one, of the 95th percentile.
    pub meet: Option<f64>,
    /// Whether all bounds are kept.
    pub met: bool,
    /// The bounds, in words.
    pub asked: String,
}

/// All quantities.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// One row for each goal that applies to any case.
    pub rows: Vec<Row>,
}

const GOALS: [Goal; 12] = [
    Goal {
        what: "f-Util gap of saturated groups",
        unit: Unit::Percent,
        of: |verdict| verdict.gap,
        less_is_better: true,
        median: Some(0.05),
        p95: Some(0.15),
        worst: None,
    },
    Goal {
        what: "weights' error",
        unit: Unit::Percent,
        of: |verdict| verdict.weights,
        less_is_better: true,
        median: None,
        p95: Some(0.10),
        worst: None,
    },
    Goal {
        what: "bytes over none",
        unit: Unit::Times,
        of: |verdict| verdict.bytes_over_none,
        less_is_better: false,
        median: Some(0.95),
        p95: None,
        worst: Some(0.85),
    },
    Goal {
        what: "device time over none",
        unit: Unit::Times,
        of: |verdict| verdict.time_over_none,
        less_is_better: false,
        median: Some(0.95),
        p95: None,
        worst: Some(0.85),
    },
    Goal {
        what: "one tenant over none, first second",
        unit: Unit::Times,
        of: |verdict| verdict.alone_first_second,
        less_is_better: false,
        median: None,
        p95: None,
        worst: Some(0.98),
    },
    Goal {
        what: "one tenant over none, later",
        unit: Unit::Times,
        of: |verdict| verdict.alone_later,
        less_is_better: false,
        median: None,
        p95: None,
        worst: Some(0.98),
    },
    Goal {
        what: "light reader's p99 over the better of none and gimbal",
        unit: Unit::Times,
        of: |verdict| verdict.p99_over_best,
        less_is_better: true,
        median: Some(0.7),
        p95: Some(1.1),
        worst: None,
    },
    Goal {
        what: "guest's f-Util in its bursts over the groups'",
        unit: Unit::Times,
        of: |verdict| verdict.guest_over_groups,
        less_is_better: false,
        median: None,
        p95: Some(0.8),
        worst: None,
    },
    Goal {
        what: "time until a tenant that comes back has its share",
        unit: Unit::Millis,
        of: |verdict| verdict.delta_ms,
        less_is_better: true,
        median: None,
        p95: None,
        worst: Some(50.0),
    },
    Goal {
        what: "time to learn (gap below 20 % for good)",
        unit: Unit::Seconds,
        of: |verdict| verdict.learnt_after_s,
        less_is_better: true,
        median: None,
        p95: Some(5.0),
        worst: None,
    },
    Goal {
        what: "the SSD changed: time until the gap is at most 15 % for good",
        unit: Unit::Seconds,
        of: |verdict| verdict.fair_after_change_s,
        less_is_better: true,
        median: None,
        p95: Some(5.0),
        worst: None,
    },
    Goal {
        what: "it changed back: the same",
        unit: Unit::Seconds,
        of: |verdict| verdict.fair_after_return_s,
        less_is_better: true,
        median: None,
        p95: Some(5.0),
        worst: None,
    },
];

impl Goal {
    fn is_met(&self, number: f64, bound: f64) -> bool {
        if self.less_is_better { number <= bound } else { number >= bound }
    }

    fn row(&self, verdicts: &[Verdict]) -> Option<Row> {
        let number = |verdict: &'_ Verdict| Some(((self.of)(verdict)?, verdict.case));
        let mut numbers: Vec<(f64, u64)> = verdicts.iter().filter_map(number).collect();
        let is_changing =
            verdicts.iter().any(|verdict| (self.of)(verdict).is_some() && verdict.is_changing());
        numbers.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        if !self.less_is_better {
            numbers.reverse();
        }
        let &(worst, worst_case) = numbers.last()?;
        let [(median, _), (p95, _)] = [0.5, 0.95].map(|part| at_rank(&numbers, part));
        let asked = [
            ("median", self.median, median),
            ("95th percentile", self.p95, p95),
            ("worst", self.worst, worst),
        ];
        let bounds = asked.iter().filter_map(|(which, bound, is)| Some((which, (*bound)?, *is)));
        let sign = if self.less_is_better { "≤" } else { "≥" };
        let words: Vec<String> = bounds
            .clone()
            .map(|(which, bound, _)| format!("{which} {sign} {}", self.unit.show(bound)))
            .collect();
        let met = bounds.clone().all(|(_, bound, is)| self.is_met(is, bound));
        let meet = self.worst.or(self.p95).map(|bound| {
            numbers.iter().filter(|(number, _)| self.is_met(*number, bound)).count() as f64
                / numbers.len() as f64
        });
        let (what, unit, cases, asked) = (self.what, self.unit, numbers.len(), words.join(", "));
        Some(Row { what, unit, cases, median, p95, worst, worst_case, is_changing, meet, met, asked })
    }
}

/// The value that this part of the sorted `values` reach or surpass.
///
/// # Panics
/// There are none.
pub(super) fn at_rank<T: Copy>(values: &[T], part: f64) -> T {
    values[((values.len() as f64 * part).ceil() as usize).clamp(1, values.len()) - 1]
}

impl Summary {
    /// The summary of these cases.
    pub fn of(verdicts: &[Verdict]) -> Summary {
        Summary { rows: GOALS.iter().filter_map(|goal| goal.row(verdicts)).collect() }
    }

    /// The row of this quantity.
    pub fn row(&self, what: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.what.contains(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::Scheduler;

    fn verdict(case: u64, gap: f64) -> Verdict {
        let empty = Verdict::empty(case, Scheduler::NONE, String::new(), Vec::new());
        Verdict { gap: Some(gap), bytes_over_none: Some(1.0 - gap), ..empty }
    }

    #[test]
    fn the_worst_is_the_largest_gap_and_the_smallest_bandwidth() {
        let verdicts: Vec<Verdict> = (0..20).map(|n| verdict(n, 0.01 * n as f64)).collect();
        let summary = Summary::of(&verdicts);
        let gap = summary.row("gap").expect("all have one");
        assert_eq!((gap.cases, gap.worst_case), (20, 19));
        assert!((gap.median - 0.09).abs() < 1e-9 && (gap.p95 - 0.18).abs() < 1e-9, "{gap:?}");
        assert!(!gap.met, "a median of 9 % is more than 5 %");
        assert!((gap.meet.expect("a bound") - 0.8).abs() < 1e-9, "16 of 20 are at most 15 %: {gap:?}");
        let bytes = summary.row("bytes").expect("all have them");
        assert_eq!(bytes.worst_case, 19);
        assert!(bytes.worst < bytes.p95 && bytes.p95 < bytes.median, "{bytes:?}");
        assert_eq!(summary.rows.len(), 2, "what no case has is not summed up");
    }
}
