//! A histogram of durations: counts in buckets that grow with the value.
//!
//! Every power of two has eight buckets, so a quantile is at most an eighth too large. Recording is one addition, and the size is fixed.
//! Counts only grow: the histogram of an interval is the difference of two copies.

use units::Nanos;

/// log2 of the buckets per power of two.
const CUTS_LOG2: u32 = 3;
/// Values below this have a bucket each.
const LINEAR: u64 = 1 << CUTS_LOG2;
const BUCKETS: usize = ((64 - CUTS_LOG2 as usize) << CUTS_LOG2) + LINEAR as usize;

/// Counts of durations.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    /// The sum of all values, in nanoseconds.
    sum: u128,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), total: 0, sum: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    pub(crate) fn record(&mut self, value: Nanos) {
        self.counts[bucket_of(value.get())] += 1;
        self.total += 1;
        self.sum += u128::from(value.get());
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The value that `permille` of a thousand values do not exceed, at most an eighth too large; `None` if there are no values.
    pub fn quantile(&self, permille: u32) -> Option<Nanos> {
        let wanted = (u128::from(self.total) * u128::from(permille)).div_ceil(1000).max(1);
        let mut seen = 0u128;
        let bucket = self.counts.iter().position(|&count| {
            seen += u128::from(count);
            seen >= wanted
        })?;
        Some(Nanos(top_of(bucket)))
    }

    /// The exact arithmetic mean; `None` if there are no values.
    pub fn mean(&self) -> Option<Nanos> {
        let mean = self.sum.checked_div(u128::from(self.total))?;
        Some(Nanos(u64::try_from(mean).expect("no more than the greatest of 64-bit values")))
    }

    /// Adds all values of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(count, more)| *count += more);
        self.total += other.total;
        self.sum += other.sum;
    }

    /// The values since the copy `earlier` was made.
    #[must_use]
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut difference = self.clone();
        for (count, before) in difference.counts.iter_mut().zip(earlier.counts.iter()) {
            *count = count.saturating_sub(*before);
        }
        difference.total = difference.counts.iter().sum();
        difference.sum = self.sum.saturating_sub(earlier.sum);
        difference
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let quantiles = [500, 990, 999].map(|permille| self.quantile(permille));
        f.debug_struct("Histogram").field("count", &self.total).field("p50, p99, p99.9", &quantiles).finish()
    }
}

fn bucket_of(value: u64) -> usize {
    if value < LINEAR {
        return value as usize;
    }
    let power = value.ilog2();
    let cut = (value >> (power - CUTS_LOG2)) - LINEAR;
    (((power - CUTS_LOG2 + 1) as u64) << CUTS_LOG2 | cut) as usize
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> CUTS_LOG2) - 1;
    let bottom = u128::from(LINEAR + (bucket & (LINEAR - 1))) << shift;
    u64::try_from(bottom + (1u128 << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_that_ends_at_most_an_eighth_above() {
        for shift in 0..64 {
            for offset in [0, 1, 3, 1000] {
                let value = (1u64 << shift).saturating_add(offset);
                let top = top_of(bucket_of(value));
                assert!(top >= value && top - value <= value / 8, "{value} is counted as {top}");
            }
        }
        assert_eq!(top_of(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn the_mean_is_exact_and_that_of_a_sum_of_both() {
        let (mut histogram, mut other) = (Histogram::default(), Histogram::default());
        assert_eq!(histogram.mean(), None);
        [u64::MAX; 2].into_iter().for_each(|nanos| histogram.record(Nanos(nanos)));
        assert_eq!(histogram.mean(), Some(Nanos(u64::MAX)));
        [1001, 1003].into_iter().for_each(|nanos| other.record(Nanos(nanos)));
        let before = histogram.clone();
        histogram.add(&other);
        assert_eq!((histogram.count(), histogram.since(&before).mean()), (4, Some(Nanos(1002))));
    }

    #[test]
    fn quantiles_of_an_interval() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), None);
        histogram.record(Nanos::secs(1));
        let before = histogram.clone();
        (1..=7).for_each(|n| histogram.record(Nanos(n)));
        let interval = histogram.since(&before);
        assert_eq!(interval.count(), 7);
        assert_eq!((interval.quantile(500), interval.quantile(1000)), (Some(Nanos(4)), Some(Nanos(7))));
    }
}
