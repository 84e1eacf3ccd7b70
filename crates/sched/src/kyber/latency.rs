//! Lateness of a domain's IOs against the domain's target: counts in quarters of the target.
//!
//! A percentile is given once 500 IOs have ended, or a second after the first try with fewer; then the counts begin
//! anew.

use units::{Instant, Nanos};

/// Up to a quarter of the target, up to half of it, … , more than seven quarters.
const BUCKETS: usize = 8;
/// The first bucket that is beyond the target.
pub(super) const LATE: usize = 4;
const SAMPLES_MIN: u64 = 500;
const PATIENCE: Nanos = Nanos::secs(1);

/// One kind of latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Latencies([u64; BUCKETS]);

impl Latencies {
    pub(super) fn add(&mut self, latency: Nanos, target: Nanos) {
        let quarter = (target.0 / LATE as u64).max(1);
        let bucket = latency.0.saturating_sub(1) / quarter;
        self.0[bucket.min(BUCKETS as u64 - 1) as usize] += 1;
    }

    /// The bucket of a percentile; `None` while there are too few IOs. `asked` is the end of the wait for more of them.
    pub(super) fn percentile(
        &mut self,
        now: Instant,
        per_cent: u64,
        asked: &mut Option<Instant>,
    ) -> Option<usize> {
        let samples: u64 = self.0.iter().sum();
        if samples == 0 {
            return None;
        }
        let until = *asked.get_or_insert(now + PATIENCE);
        if samples < SAMPLES_MIN && now < until {
            return None;
        }
        *asked = None;
        let below = (samples * per_cent).div_ceil(100);
        let mut seen = 0;
        let bucket = self.0.iter().position(|count| {
            seen += count;
            seen >= below
        });
        *self = Latencies::default();
        bucket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_waits_for_five_hundred_or_a_second() {
        let (mut latencies, mut asked) = (Latencies::default(), None);
        let target = Nanos::millis(2);
        let at = |millis| Instant::ZERO + Nanos::millis(millis);
        assert_eq!(latencies.percentile(at(0), 90, &mut asked), None, "of nothing");
        (0..10).for_each(|n| latencies.add(Nanos::micros(500 + n), target));
        assert_eq!(latencies.percentile(at(100), 90, &mut asked), None);
        assert_eq!(latencies.percentile(at(1099), 90, &mut asked), None);
        assert_eq!(latencies.percentile(at(1100), 90, &mut asked), Some(1), "all but one beyond a quarter");
        assert_eq!(latencies.percentile(at(1100), 90, &mut asked), None, "they are forgotten");
        (0..495).for_each(|_| latencies.add(target, target));
        (0..5).for_each(|_| latencies.add(Nanos::secs(9), target));
        assert_eq!(
            latencies.clone().percentile(at(1200), 99, &mut None),
            Some(3),
            "exactly the target is in time"
        );
        latencies.add(Nanos::secs(9), target);
        assert_eq!(latencies.percentile(at(1200), 99, &mut None), Some(7));
    }
}
