//! Zipf's distribution as YCSB draws it: after Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994).
//!
//! Item 0 is the most popular. The method is an approximation: it is exact for the first two items and interpolates the
//! others. So a library's exact Zipf would not agree with YCSB (`tests/real.rs` would detect that).

use rand::Rng;

/// The exponent that YCSB uses everywhere.
pub(crate) const THETA: f64 = 0.99;

/// The sum of 1/iᶿ for i from `from + 1` to `to`, added to `sum`.
fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    (from..to).fold(sum, |sum, item| sum + 1.0 / ((item + 1) as f64).powf(theta))
}

/// Draws items by popularity.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// Number of items at the start.
    items: u64,
    theta: f64,
    zeta: f64,
    /// Number of items over which `zeta` is summed.
    summed: u64,
    eta: f64,
}

impl Zipf {
    /// A distribution over the items 0 to `items` − 1.
    pub(crate) fn new(items: u64, theta: f64) -> Zipf {
        Zipf::with_zeta(items, theta, zeta(0, items, theta, 0.0))
    }

    /// The same with a known sum.
    pub(crate) fn with_zeta(items: u64, theta: f64, zeta: f64) -> Zipf {
        let mut zipf = Zipf { items, theta, zeta, summed: items, eta: 0.0 };
        zipf.eta = zipf.eta();
        zipf
    }

    fn eta(&self) -> f64 {
        let two = zeta(0, 2, self.theta, 0.0);
        (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - two / self.zeta)
    }

    /// Draws an item.
    pub(crate) fn next(&mut self, rng: &mut impl Rng) -> u64 {
        self.next_of(self.items, rng)
    }

    /// Draws one of the current number of items. This number only grows; if it is smaller than before, the draw uses
    /// the old sum.
    pub(crate) fn next_of(&mut self, items: u64, rng: &mut impl Rng) -> u64 {
        if items > self.summed {
            self.zeta = zeta(self.summed, items, self.theta, self.zeta);
            self.summed = items;
            self.eta = self.eta();
        }
        let drawn: f64 = rng.random();
        let scaled = drawn * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (items as f64 * (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - self.theta))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn items_that_come_later_are_drawn_as_if_they_had_always_been_there() {
        let mut grown = Zipf::new(1000, THETA);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for items in 1000..=2000 {
            assert!(grown.next_of(items, &mut rng) < items);
        }
        let whole = Zipf::new(2000, THETA);
        assert!((grown.zeta - whole.zeta).abs() < 1e-9, "{} {}", grown.zeta, whole.zeta);
    }

    #[test]
    fn the_first_item_is_drawn_in_proportion_to_its_weight() {
        let mut zipf = Zipf::new(1000, THETA);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let first = (0..100_000).filter(|_| zipf.next(&mut rng) == 0).count() as f64;
        assert!((first / 100_000.0 - 1.0 / zipf.zeta).abs() < 0.005, "{first}");
    }
}
