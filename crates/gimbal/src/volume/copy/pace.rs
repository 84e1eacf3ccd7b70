//! A limit on bytes per second.
//!
//! A piece may go when the pieces before it have taken their time. After a delay up to [`CREDIT`] is made up for.
//!
//! Holds: in any span, at most the rate times span and credit passes, plus one piece (`no_span_has_more_than_the_rate`).

use units::{ByteRate, Bytes, Instant, Nanos};

/// Time that may be made up for after a delay.
const CREDIT: Nanos = Nanos::millis(100);

/// The limit; see the module.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// `None`: no limit.
    rate: Option<ByteRate>,
    next: Instant,
}

impl Pace {
    pub(super) fn new(rate: Option<Bytes>) -> Pace {
        Pace { rate: rate.map(|bytes| ByteRate(bytes.0)), next: Instant::ZERO }
    }

    /// Time until the next piece may go; zero if it may go now.
    pub(super) fn wait(&self, now: Instant) -> Nanos {
        self.next.saturating_since(now)
    }

    /// Notes that a piece goes now.
    pub(super) fn take(&mut self, now: Instant, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let earliest = Instant(now.0.saturating_sub(CREDIT.0));
        // A rate of zero is refused before.
        let time = rate.time_to_earn(Bytes(bytes)).unwrap_or(Nanos::ZERO);
        self.next = Instant(self.next.max(earliest).0.saturating_add(time.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn no_span_has_more_than_the_rate() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..50 {
            let rate = random.random_range(1_000..1_000_000_000);
            let mut pace = Pace::new(Some(Bytes(rate)));
            let mut now = Instant(random.random_range(1_000_000_000..10_000_000_000));
            let mut passed: Vec<(Instant, u64)> = Vec::new();
            for _ in 0..200 {
                let bytes = random.random_range(1..1 << 20);
                // The caller may come late.
                let late = if random.random_ratio(1, 5) { random.random_range(0..1_000_000_000) } else { 0 };
                now = Instant(now.0 + pace.wait(now).0 + late);
                assert_eq!(pace.wait(now), Nanos::ZERO);
                pace.take(now, bytes);
                passed.push((now, bytes));
            }
            for (first, (begin, _)) in passed.iter().enumerate() {
                let mut sum = 0;
                for (end, bytes) in &passed[first..] {
                    // Without the last piece, which is the one beyond the rate.
                    let most = ByteRate(rate).earned_in(Nanos(end.0 - begin.0 + CREDIT.0));
                    assert!(sum <= most.0 + 1, "{sum} bytes in {} ns at {rate}", end.0 - begin.0);
                    sum += bytes;
                }
            }
        }
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut pace = Pace::new(None);
        pace.take(Instant(5), u64::MAX);
        assert_eq!(pace.wait(Instant(5)), Nanos::ZERO);
    }
}
