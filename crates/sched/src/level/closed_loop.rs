//! Whether a tenant keeps to a number of outstanding IOs: it sends one when another has ended, and only then. So it would take more than it gets.
//!
//! Either of two signs identifies such a tenant:
//!
//! - the number hardly varies. For a tenant whose IOs come at random, its variance is at least as large as its mean;
//! - it is often at its highest. An SSD may end many IOs at once, as when its write buffer has room again, and then the
//!   number goes from few to all and back. But it always comes back to the same number, while IOs that come at random
//!   reach their highest number only a few times.
//!
//! Holds: IOs that come at random are not taken for a closed loop, however many are outstanding
//!        (`what_comes_at_random_is_no_closed_loop`), and a closed loop is recognised however many IOs the SSD ends at
//!        once (`a_closed_loop_is_known_whatever_ends_at_once`).

/// More outstanding IOs than this count as this many.
const OUTSTANDING_MAX: u64 = 1 << 16;
/// Below this highest number, being at the highest says nothing.
const MOST_LEAST: u64 = 8;
/// Least number of times at the highest number for it to count.
const TIMES_LEAST: u64 = 32;

/// Numbers of its own outstanding IOs that a tenant's IOs found at arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClosedLoop {
    arrived: u64,
    found: u64,
    found_squared: u64,
    most: u64,
    /// IOs that found the most, and one less.
    at_most: [u64; 2],
}

impl ClosedLoop {
    /// Counts an IO that has arrived and found this many others outstanding.
    #[inline]
    pub(super) fn on_arrival(&mut self, outstanding: usize) {
        let outstanding = (outstanding as u64).min(OUTSTANDING_MAX);
        self.arrived += 1;
        self.found += outstanding;
        self.found_squared += outstanding * outstanding;
        if outstanding > self.most {
            let one_less = if outstanding == self.most + 1 { self.at_most[0] } else { 0 };
            (self.most, self.at_most) = (outstanding, [0, one_less]);
        }
        if let Some(times) = self.at_most.get_mut((self.most - outstanding) as usize) {
            *times += 1;
        }
    }

    /// Sum of the outstanding IOs that the IOs found, and number of these.
    pub(super) fn found(&self) -> [u64; 2] {
        [self.found, self.arrived]
    }

    /// Whether the IOs found at least this many halves on average.
    #[inline]
    pub(super) fn is_deeper_than(&self, halves: u64) -> bool {
        self.found * 2 > self.arrived * halves
    }

    /// Whether the tenant keeps to a number.
    pub(super) fn is_closed(&self) -> bool {
        self.is_even() || self.is_often_at_its_most()
    }

    fn is_even(&self) -> bool {
        let [n, sum, squares] = [self.arrived, self.found, self.found_squared].map(u128::from);
        let variance = (n * squares).saturating_sub(sum * sum);
        variance * 4 <= n * sum
    }

    /// Whether the IOs often found the most outstanding, or one less: if the number rose and fell evenly between none
    /// and the most, two in every `most` IOs would.
    fn is_often_at_its_most(&self) -> bool {
        let times = self.at_most[0] + self.at_most[1];
        self.most >= MOST_LEAST && times >= TIMES_LEAST && times * self.most * 2 >= self.arrived * 3
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn a_closed_loop_is_known_whatever_ends_at_once(depth in 12..300usize, ends in prop::collection::vec(1..300usize, 80..200)) {
            let mut seen = ClosedLoop::default();
            for ended in ends {
                let ended = ended.min(depth);
                (depth - ended..depth).for_each(|outstanding| seen.on_arrival(outstanding));
            }
            prop_assert!(seen.is_closed(), "{seen:?}");
        }
    }

    /// On average as many IOs arrive at a random moment as end then, so the number outstanding has a Poisson
    /// distribution.
    #[test]
    fn what_comes_at_random_is_no_closed_loop() {
        let mut taken = 0;
        for seed in 1..400u64 {
            let mean = 10 + seed as u32 % 91;
            let mut seen = ClosedLoop::default();
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut exponential = || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                -(1.0 - (random >> 11) as f64 / (1u64 << 53) as f64).ln()
            };
            let (mut now, mut ends) = (0.0, std::vec::Vec::<f64>::new());
            for n in 0..mean * 50 {
                now += exponential();
                ends.retain(|end| *end > now);
                if n >= mean * 20 {
                    seen.on_arrival(ends.len());
                }
                ends.push(now + f64::from(mean) * exponential());
            }
            taken += u32::from(seen.is_closed());
        }
        // Two periods in a row are needed before a tenant counts as busy.
        assert!(taken <= 2, "{taken} of 399");
    }
}
