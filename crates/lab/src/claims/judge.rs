//! Compares two numbers, and checks whether the result agrees with the source.

use serde::{Deserialize, Serialize};

/// The comparison of the scheduler's number with another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Mine over the other's: "2.4 times the bandwidth".
    TimesMore,
    /// The other's over mine: "2.1 times less deviation".
    TimesLess,
    /// Per cent by which mine is more.
    PercentMore,
    /// Per cent by which mine is less: "48.6 % less latency".
    PercentLess,
    /// Mine over the other's, claimed to be about as much: within a tenth is asked for.
    About,
    /// Mine over the other's, claimed as a bound: no more than the source's.
    TimesAtMost,
    /// Mine alone in per cent, claimed as a bound: no more than the source's.
    PercentAtMost,
    /// Mine alone in per cent, above or below 100: "22 % over its equal share".
    PercentOver,
    /// Mine alone, in its own unit, within a tenth of the source's.
    Equal,
    /// Mine alone, in its own unit, claimed as a bound: no more than the source's.
    AtMost,
    /// Mine alone, in its own unit, claimed as a bound: no less than the source's.
    AtLeast,
}

/// Whether a claim holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Direction and size are the source's.
    Holds,
    /// The direction is the source's, the effect is more than twice as large.
    Stronger,
    /// The direction is the source's, the effect is less than half as large.
    Weaker,
    /// The confidence interval contains both numbers that hold and numbers that do not.
    Open,
    /// The direction is not the source's, or a number that must be met is not.
    Differs,
    /// A goal of ours that is not met.
    Missed,
    /// There was nothing to measure.
    Unmeasured,
}

impl Verdict {
    /// All verdicts, the best first.
    pub const ALL: [Verdict; 7] = [
        Verdict::Holds,
        Verdict::Stronger,
        Verdict::Weaker,
        Verdict::Open,
        Verdict::Differs,
        Verdict::Missed,
        Verdict::Unmeasured,
    ];

    /// The rank of the verdict, from 0 for the best.
    pub(super) fn place(self) -> usize {
        Self::ALL.iter().position(|verdict| *verdict == self).expect("all are there")
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Stronger => "stronger",
            Verdict::Weaker => "weaker",
            Verdict::Open => "open",
            Verdict::Differs => "differs",
            Verdict::Missed => "missed",
            Verdict::Unmeasured => "unmeasured",
        }
    }
}

/// Factor within which ratios hold.
const FACTOR: f64 = 2.0;
/// From this ratio on, a larger one is the same result: an order of magnitude.
const LARGE: f64 = 10.0;
/// The relative tolerance for a number that must be met.
const TOLERANCE: f64 = 0.1;

impl Compare {
    /// Whether the comparison needs another scheduler.
    pub fn needs_other(self) -> bool {
        !matches!(
            self,
            Compare::PercentAtMost
                | Compare::PercentOver
                | Compare::Equal
                | Compare::AtMost
                | Compare::AtLeast
        )
    }

    /// Whether the number is either met or not, without intermediate results, as a goal needs it.
    pub fn is_met_or_not(self) -> bool {
        match self {
            Compare::About
            | Compare::Equal
            | Compare::TimesAtMost
            | Compare::PercentAtMost
            | Compare::AtMost
            | Compare::AtLeast => true,
            Compare::TimesMore
            | Compare::TimesLess
            | Compare::PercentMore
            | Compare::PercentLess
            | Compare::PercentOver => false,
        }
    }

    /// The unit of the result.
    pub fn unit(self) -> &'static str {
        match self {
            Compare::TimesMore | Compare::TimesLess | Compare::About | Compare::TimesAtMost => "×",
            Compare::PercentMore | Compare::PercentLess | Compare::PercentAtMost | Compare::PercentOver => {
                "%"
            }
            Compare::Equal | Compare::AtMost | Compare::AtLeast => "",
        }
    }

    /// The result of the comparison. A ratio to zero is infinite.
    pub(crate) fn apply(self, mine: f64, other: f64) -> f64 {
        match self {
            Compare::TimesMore | Compare::About | Compare::TimesAtMost => mine / other,
            Compare::TimesLess => other / mine,
            Compare::PercentMore => 100.0 * (mine / other - 1.0),
            Compare::PercentLess => 100.0 * (1.0 - mine / other),
            Compare::PercentAtMost => 100.0 * mine,
            Compare::PercentOver => 100.0 * (mine - 1.0),
            Compare::Equal | Compare::AtMost | Compare::AtLeast => mine,
        }
    }

    /// The verdict on `ours` if the source has `paper`.
    pub(crate) fn judge(self, ours: f64, paper: f64) -> Verdict {
        let effect = |ours: f64, paper: f64| match ours / paper {
            size if size < 1.0 / FACTOR => Verdict::Weaker,
            size if size > FACTOR && paper < LARGE => Verdict::Stronger,
            _ => Verdict::Holds,
        };
        let met = |met: bool| if met { Verdict::Holds } else { Verdict::Differs };
        match self {
            Compare::TimesMore | Compare::TimesLess => {
                if (ours > 1.0) != (paper > 1.0) {
                    Verdict::Differs
                } else if paper > 1.0 {
                    effect(ours, paper)
                } else {
                    effect(1.0 / ours, 1.0 / paper)
                }
            }
            Compare::PercentMore | Compare::PercentLess | Compare::PercentOver => {
                if (ours > 0.0) != (paper > 0.0) {
                    return Verdict::Differs;
                }
                match ours / paper {
                    size if size < 1.0 / FACTOR => Verdict::Weaker,
                    size if size > FACTOR => Verdict::Stronger,
                    _ => Verdict::Holds,
                }
            }
            Compare::About | Compare::Equal => met((ours / paper - 1.0).abs() <= TOLERANCE),
            Compare::TimesAtMost | Compare::PercentAtMost | Compare::AtMost => met(ours <= paper),
            Compare::AtLeast => met(ours >= paper),
        }
    }
}
