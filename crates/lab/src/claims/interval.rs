//! The effect of chance on a comparison of two schedulers: the confidence interval over the seeds.
//!
//! One run of a workload has few IOs beyond its 99.99th percentile, so one more or less of them moves it by several per cent. Both
//! schedulers run each seed, so a seed gives one ratio. The interval is that of the mean of the ratios' logarithms (Student's t): seeds are
//! independent of each other, the IOs of one run are not.
//!
//! Holds: equal ratios have an interval without width; of normal ratios, 95 % of the intervals contain the true one
//! (`the_interval_contains_the_truth_as_often_as_it_says`).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// A mean over the seeds, and the interval in which the true value probably is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Geometric mean of the ratios, in the form in which the claim compares.
    pub mean: f64,
    /// One end.
    pub low: f64,
    /// The other end.
    pub high: f64,
}

impl Interval {
    /// The interval for the ratios of two schedulers, one for each seed; `None` for fewer than two, or if one is not
    /// positive.
    pub(super) fn of(ratios: &[f64]) -> Option<Interval> {
        let count = ratios.len() as f64;
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        if logs.len() < 2 || !logs.iter().all(|log| log.is_finite()) {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("two seeds or more");
        let half = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * (variance / count).sqrt();
        Some(Interval { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
    }

    /// Converts each number to the form in which the claim compares; `low` stays the smaller one.
    pub(super) fn map(self, compared: impl Fn(f64) -> f64) -> Interval {
        let (one, other) = (compared(self.low), compared(self.high));
        Interval { mean: compared(self.mean), low: one.min(other), high: one.max(other) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    #[test]
    fn equal_ratios_leave_nothing_to_chance() {
        assert_eq!(Interval::of(&[1.0; 3]), Some(Interval { mean: 1.0, low: 1.0, high: 1.0 }));
    }

    #[test]
    fn one_seed_or_nothing_measured_has_no_interval() {
        assert_eq!(Interval::of(&[1.3]), None);
        assert_eq!(Interval::of(&[1.3, 0.0]), None);
        assert_eq!(Interval::of(&[1.3, f64::INFINITY]), None);
    }

    #[test]
    fn the_interval_contains_the_truth_as_often_as_it_says() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        // Approximately normal: the sum of twelve uniform numbers.
        let mut ratio = || (0.04 * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).exp();
        let contains = |interval: Interval| interval.low <= 1.0 && 1.0 <= interval.high;
        for seeds in [3, 40] {
            let trials = 2000;
            let hits = (0..trials)
                .filter(|_| {
                    let ratios: Vec<f64> = (0..seeds).map(|_| ratio()).collect();
                    contains(Interval::of(&ratios).expect("enough"))
                })
                .count();
            let share = hits as f64 / f64::from(trials);
            assert!((share - CONFIDENCE).abs() < 0.015, "{seeds} seeds: {share}");
        }
    }

    #[test]
    fn a_reduction_turns_its_ends_around() {
        let of = Interval { mean: 0.5, low: 0.4, high: 0.6 }.map(|ratio| 100.0 * (1.0 - ratio));
        assert!((of.low - 40.0).abs() < 1e-9 && (of.high - 60.0).abs() < 1e-9 && of.mean == 50.0);
    }
}
