//! Lengths of busy periods: the last sixteen of an SSD, and the mean rest of those that lasted longer than one has until now.
//!
//! Older ones are forgotten. The answer is never more than the longest of them.

use units::Nanos;

const KEPT: usize = 16;

/// The last periods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lasting {
    periods: [Nanos; KEPT],
    seen: usize,
}

impl Lasting {
    /// Adds the length of a period that is over.
    pub(super) fn add(&mut self, period: Nanos) {
        self.periods[self.seen % KEPT] = period;
        // Counts on after the last one is known, in turns.
        self.seen = if self.seen + 1 == 2 * KEPT { KEPT } else { self.seen + 1 };
    }

    /// Mean rest of a period that has lasted for `age`; `None` if none has lasted longer.
    pub(super) fn rest(&self, age: Nanos) -> Option<Nanos> {
        let known = &self.periods[..self.seen.min(KEPT)];
        let longer = known.iter().filter(|period| **period > age);
        let (sum, count) = longer.fold((0u128, 0u128), |(sum, count), period| {
            (sum + u128::from(period.get() - age.get()), count + 1)
        });
        // A mean of 64-bit numbers has 64 bits.
        (count > 0).then(|| Nanos((sum / count) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_that_of_periods_that_lasted_longer() {
        let mut lasting = Lasting::default();
        assert_eq!(lasting.rest(Nanos::ZERO), None);
        for ms in [100, 300, 500] {
            lasting.add(Nanos::millis(ms));
        }
        let rest = |ms| lasting.rest(Nanos::millis(ms));
        assert_eq!(rest(0), Some(Nanos::millis(300)));
        assert_eq!(rest(200), Some(Nanos::millis(200)));
        assert_eq!(rest(499), Some(Nanos::millis(1)));
        assert_eq!(rest(500), None);
    }

    #[test]
    fn old_periods_are_forgotten() {
        let mut lasting = Lasting::default();
        lasting.add(Nanos::secs(100));
        for _ in 0..40 {
            lasting.add(Nanos::secs(1));
        }
        assert_eq!(lasting.rest(Nanos::ZERO), Some(Nanos::secs(1)));
        for _ in 0..KEPT - 1 {
            lasting.add(Nanos::secs(3));
        }
        assert!(lasting.rest(Nanos::ZERO) < Some(Nanos::secs(3)), "one of a second is left");
        lasting.add(Nanos::secs(3));
        assert_eq!(lasting.rest(Nanos::ZERO), Some(Nanos::secs(3)));
    }
}
