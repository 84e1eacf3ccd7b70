//! The number that a claim asks for, and its source: a paper's result on other hardware, or a goal of ours.
//!
//! A paper's number is a result; ours may be near it or only have the same direction. A goal is met or missed, so it
//! suits comparisons without intermediate results.

use super::{Compare, Interval, Verdict};
use serde::Serialize;

/// A number to compare with ours. In JSON it is the single field `paper` or `goal`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Asked {
    /// The result of the source.
    Paper(f64),
    /// Our goal, for which no paper has a number.
    Goal(f64),
}

impl Asked {
    /// The number.
    pub fn number(self) -> f64 {
        match self {
            Asked::Paper(number) | Asked::Goal(number) => number,
        }
    }

    /// The source of the number, for people.
    pub fn whose(self) -> &'static str {
        match self {
            Asked::Paper(_) => "paper",
            Asked::Goal(_) => "our goal",
        }
    }

    /// Whether it is a goal of ours.
    pub fn is_goal(self) -> bool {
        matches!(self, Asked::Goal(_))
    }

    /// The verdict on a number that is only known to be in this interval.
    pub(super) fn judge_interval(self, compare: Compare, ours: Interval) -> Verdict {
        let (low, high) = (self.judge(compare, ours.low), self.judge(compare, ours.high));
        if low == high { low } else { Verdict::Open }
    }

    /// The verdict on `ours`.
    pub(super) fn judge(self, compare: Compare, ours: f64) -> Verdict {
        match (self, compare.judge(ours, self.number())) {
            (Asked::Goal(_), Verdict::Differs) => Verdict::Missed,
            (_, verdict) => verdict,
        }
    }
}

/// The number of rows that hold, for papers and for our goals, as text below or above the rows.
pub fn holding(rows: &[super::Row]) -> String {
    let count = |is_goal: bool| {
        let asked = || rows.iter().filter(move |row| row.asked.is_goal() == is_goal);
        (asked().filter(|row| row.holds).count(), asked().count())
    };
    let ((papers, of_papers), (goals, of_goals)) = (count(false), count(true));
    match (of_papers, of_goals) {
        (_, 0) => format!("{papers} of {of_papers} rows hold"),
        (0, _) => format!("{goals} of {of_goals} goals of our own are met"),
        _ => format!("{papers} of {of_papers} rows hold; {goals} of {of_goals} goals of our own are met"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_missed() {
        let judge = |ours| Asked::Goal(51.0).judge(Compare::AtMost, ours);
        assert_eq!([judge(51.0), judge(51.1)], [Verdict::Holds, Verdict::Missed]);
        assert_eq!(
            Asked::Paper(51.0).judge(Compare::AtMost, 51.1),
            Verdict::Differs,
            "nobody had to meet it"
        );
    }

    #[test]
    fn an_interval_around_the_bound_is_open() {
        let judge = |low, high| {
            let ours = Interval { mean: f64::midpoint(low, high), low, high };
            Asked::Goal(1.02).judge_interval(Compare::TimesAtMost, ours)
        };
        assert_eq!(judge(0.99, 1.02), Verdict::Holds);
        assert_eq!(judge(1.0, 1.03), Verdict::Open);
        assert_eq!(judge(1.03, 1.09), Verdict::Missed);
    }

    #[test]
    fn a_row_says_who_asks() {
        let json = |asked: Asked| serde_json::to_string(&asked).expect("a number");
        assert_eq!(json(Asked::Paper(2.4)), r#"{"paper":2.4}"#);
        assert_eq!(json(Asked::Goal(4.0)), r#"{"goal":4.0}"#);
    }
}
