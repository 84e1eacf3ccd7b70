//! Histograms of durations: counts in buckets that grow with the value.
//!
//! Every power of two from 1 µs to 69 s has eight buckets, so a quantile is at most an eighth too large. Below are eight of 128 ns; the last
//! bucket has everything above. Recording is two additions, and the size is fixed: 1.7 KB. Counts only grow, so the histogram of an
//! interval is the difference of two copies.

use crate::Counter;
use units::Nanos;

/// log2 of the buckets per power of two.
const CUTS_LOG2: u32 = 3;
/// log2 of the nanoseconds of the smallest buckets.
const UNIT_LOG2: u32 = 7;
/// Values below this many of the smallest buckets have one each.
const LINEAR: u64 = 1 << CUTS_LOG2;
/// log2 of the nanoseconds at which the last bucket begins.
const END_LOG2: u32 = 36;
const BUCKETS: usize = (((END_LOG2 - UNIT_LOG2 - CUTS_LOG2 + 1) as usize) << CUTS_LOG2) + 1;
/// log2 of the unit of the greater part of a sum, in nanoseconds.
const SUM_LOG2: u32 = 10;

/// A histogram that one thread writes and every thread reads.
#[derive(Debug)]
pub struct SharedHistogram {
    counts: [Counter; BUCKETS],
    /// The sum of all values in units of 1,024 ns: it is full after half a million years of one value a time.
    sum: Counter,
    /// The rest of the sum, in nanoseconds, below one unit.
    rest: crate::Gauge,
}

impl Default for SharedHistogram {
    fn default() -> SharedHistogram {
        let counts = std::array::from_fn(|_| Counter::default());
        SharedHistogram { counts, sum: Counter::default(), rest: crate::Gauge::default() }
    }
}

impl SharedHistogram {
    /// Counts one value.
    #[inline]
    pub fn record(&self, value: Nanos) {
        self.counts[bucket_of(value.get())].add(1);
        let rest = self.rest.get() + (value.get() & ((1 << SUM_LOG2) - 1));
        self.sum.add((value.get() >> SUM_LOG2) + (rest >> SUM_LOG2));
        self.rest.set(rest & ((1 << SUM_LOG2) - 1));
    }

    /// A copy of the present values.
    pub fn snapshot(&self) -> Histogram {
        let mut copy = Histogram::default();
        copy.counts.iter_mut().zip(&self.counts).for_each(|(to, from)| *to = from.get());
        copy.total = copy.counts.iter().sum();
        copy.sum = (u128::from(self.sum.get()) << SUM_LOG2) + u128::from(self.rest.get());
        copy
    }
}

/// A copy of a histogram, or a sum of several.
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
    pub fn record(&mut self, value: Nanos) {
        self.counts[bucket_of(value.get())] += 1;
        self.total += 1;
        self.sum += u128::from(value.get());
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The sum of all values, in nanoseconds. While values are recorded it may be ahead of the counts, or behind.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The number of values below `bound`, which is one of [`powers_of_two`].
    pub fn below(&self, bound: Nanos) -> u64 {
        let end = self.counts.len().min(bucket_of(bound.get()));
        self.counts[..end].iter().sum()
    }

    /// The buckets that have counts, in their order: the end of each, and its count. The last bucket, of everything above 69 s, is told with its beginning.
    pub fn counted(&self) -> impl Iterator<Item = (Nanos, u64)> {
        let counts = self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0);
        counts.map(|(bucket, count)| {
            (Nanos(if bucket == BUCKETS - 1 { 1 << END_LOG2 } else { top_of(bucket) + 1 }), count)
        })
    }

    /// The value that `permille` of a thousand values do not exceed, at most an eighth (or 128 ns) too large; `None` if there are no values.
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
        Some(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
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

/// Bounds between buckets that are powers of two, in nanoseconds: from `2^first` to `2^last`.
///
/// # Panics
/// If the bounds are not between 1 µs and 69 s.
pub fn powers_of_two(first: u32, last: u32) -> impl Iterator<Item = Nanos> {
    assert!((UNIT_LOG2 + CUTS_LOG2..=END_LOG2).contains(&first) && last <= END_LOG2, "2^{first} to 2^{last}");
    (first..=last).map(|power| Nanos(1 << power))
}

fn bucket_of(value: u64) -> usize {
    let units = value >> UNIT_LOG2;
    if units < LINEAR {
        return units as usize;
    }
    let power = units.ilog2();
    let cut = (units >> (power - CUTS_LOG2)) - LINEAR;
    let bucket = ((power - CUTS_LOG2 + 1) as u64) << CUTS_LOG2 | cut;
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let bucket = bucket as u64;
    let end = if bucket < LINEAR {
        bucket + 1
    } else {
        let shift = (bucket >> CUTS_LOG2) - 1;
        (LINEAR + (bucket & (LINEAR - 1)) + 1) << shift
    };
    (end << UNIT_LOG2) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_bucket_that_ends_at_most_an_eighth_above() {
        for shift in 0..END_LOG2 {
            for offset in [0, 1, 3, 1000] {
                let value = ((1u64 << shift) + offset).min((1 << END_LOG2) - 1);
                let top = top_of(bucket_of(value));
                assert!(top >= value && top - value <= (value / 8).max(127), "{value} is counted as {top}");
            }
        }
        for above in [1 << END_LOG2, u64::MAX] {
            assert_eq!(top_of(bucket_of(above)), u64::MAX);
        }
    }

    #[test]
    fn powers_of_two_lie_between_buckets() {
        let mut histogram = Histogram::default();
        for power in 10..=36 {
            [(1 << power) - 1, 1 << power].into_iter().for_each(|nanos| histogram.record(Nanos(nanos)));
        }
        for (index, bound) in powers_of_two(10, 36).enumerate() {
            assert_eq!(histogram.below(bound), 2 * index as u64 + 1, "below {bound}");
        }
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
    fn a_shared_one_has_the_values_that_were_recorded() {
        let (shared, mut plain) = (SharedHistogram::default(), Histogram::default());
        for nanos in [0, 1, 127, 128, 1023, 1024, 1025, 999_999, 5_000_000_001, u64::MAX, u64::MAX] {
            shared.record(Nanos(nanos));
            plain.record(Nanos(nanos));
        }
        let copy = shared.snapshot();
        assert_eq!((&copy.counts, copy.total, copy.sum), (&plain.counts, plain.total, plain.sum));
    }

    #[test]
    fn quantiles_of_an_interval() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500), None);
        histogram.record(Nanos::secs(1));
        let before = histogram.clone();
        (1..=7).for_each(|n| histogram.record(Nanos(128 * n)));
        let interval = histogram.since(&before);
        assert_eq!(interval.count(), 7);
        assert_eq!(
            (interval.quantile(500), interval.quantile(1000)),
            (Some(Nanos(5 * 128 - 1)), Some(Nanos(8 * 128 - 1)))
        );
    }
}
