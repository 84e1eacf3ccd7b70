//! One figure from many rounds: the median, and the spread of the rounds.

/// The values of the rounds of one measure. Never empty.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    /// One value for each round.
    ///
    /// # Panics
    /// If there are none, or one is NaN.
    pub(crate) fn new(mut values: Vec<f64>) -> Rounds {
        assert!(!values.is_empty() && values.iter().all(|value| !value.is_nan()), "rounds gave {values:?}");
        values.sort_by(f64::total_cmp);
        Rounds(values)
    }

    /// The middle value; for an even number of rounds, the mean of the two middle values.
    pub(crate) fn median(&self) -> f64 {
        let (low, high) = ((self.0.len() - 1) / 2, self.0.len() / 2);
        (self.0[low] + self.0[high]) / 2.0
    }

    /// The smallest and the largest.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.0[0], self.0[self.0.len() - 1])
    }

    /// The width of the middle half of the rounds, over the median. Like the median, it ignores a single bad round.
    pub(crate) fn spread(&self) -> f64 {
        let quarter = self.0.len() / 4;
        let (low, high) = (self.0[quarter], self.0[self.0.len() - 1 - quarter]);
        if self.median() == 0.0 { 0.0 } else { (high - low) / self.median().abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_round_moves_neither_median_nor_spread() {
        let rounds = Rounds::new(vec![1.02, 9.0, 1.0, 1.01, 0.99]);
        assert_eq!(rounds.median(), 1.01);
        assert!((rounds.spread() - 0.02 / 1.01).abs() < 1e-9, "{}", rounds.spread());
        assert_eq!(rounds.range(), (0.99, 9.0));
    }

    #[test]
    fn an_even_number_of_rounds_has_its_median_between_two() {
        assert_eq!(Rounds::new(vec![3.0, 1.0]).median(), 2.0);
        assert_eq!(Rounds::new(vec![5.0]).spread(), 0.0);
    }
}
