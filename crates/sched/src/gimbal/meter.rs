//! A meter: how far a tenant is ahead of a rate it was given.
//!
//! The meter keeps one instant, `due`: the time by which everything that was charged would have been served at exactly the
//! given rate. A *limit* forbids the next IO before `due`; a *reservation* is behind from `due` on. A tenant that used less
//! than its rate may save up at most `burst` of it.
//!
//! Holds: units charged at or after `due`, in any span of time t, are at most rate × (t + burst) and one IO
//!        (`a_limited_tenant_gets_its_rate_and_no_more`).
//! Elsewhere: what a limit and a reservation do to the order is `drr`.
//! Beyond the paper. The idea is the virtual clock of GCRA (ITU-T I.371).

use units::{Instant, Nanos};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// One rate of one tenant, in any unit per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    rate: u64,
    burst: Nanos,
    due: Instant,
    /// What `due` leaves out, in `1 / rate` of a nanosecond.
    remainder: u128,
}

impl Meter {
    /// A meter on which nothing was charged yet. A rate of zero counts as one unit per second: a tenant that may never be
    /// served would hold its IOs for ever.
    pub(super) fn new(rate: u64, burst: Nanos) -> Meter {
        Meter { rate: rate.max(1), burst, due: Instant::ZERO, remainder: 0 }
    }

    /// When the next IO is due.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// `units` are served now.
    pub(super) fn charge(&mut self, now: Instant, units: u64) {
        let saved_up = now - self.burst;
        if self.due < saved_up {
            (self.due, self.remainder) = (saved_up, 0);
        }
        let parts = u128::from(units) * NANOS_PER_SEC + self.remainder;
        let rate = u128::from(self.rate);
        self.remainder = parts % rate;
        self.due += Nanos(u64::try_from(parts / rate).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const BURST: Nanos = Nanos::millis(1);

    #[test]
    fn at_three_units_per_second_a_unit_is_due_three_times_per_second() {
        let mut meter = Meter::new(3, Nanos::ZERO);
        let mut now = Instant(1_000_000_000);
        let start = now;
        for _ in 0..3_000 {
            meter.charge(now, 1);
            now = meter.due();
        }
        assert_eq!(now.since(start), Nanos::secs(1000), "rounding adds up");
    }

    #[test]
    fn what_is_saved_up_is_bounded_by_the_burst() {
        let mut meter = Meter::new(1_000_000, BURST);
        let now = Instant(5_000_000_000);
        let mut ahead = 0;
        while meter.due() <= now {
            meter.charge(now, 1);
            ahead += 1;
        }
        assert_eq!(ahead, 1001);
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn a_limited_tenant_gets_its_rate_and_no_more(
            rate in 1..2_000_000_000u64,
            offers in prop::collection::vec((0..3_000_000u64, 1..200_000u64), 1..100),
        ) {
            let mut meter = Meter::new(rate, BURST);
            let mut now = Instant(1_000_000_000);
            let start = now;
            let (mut served, mut largest) = (0u128, 0u128);
            for (wait, units) in offers {
                now += Nanos(wait);
                if meter.due() <= now {
                    meter.charge(now, units);
                    served += u128::from(units);
                    largest = largest.max(u128::from(units));
                }
                let span = u128::from(now.since(start).0 + BURST.0);
                let bound = u128::from(rate) * span / NANOS_PER_SEC + largest;
                prop_assert!(served <= bound, "{served} units served, bound {bound}");
            }
        }
    }
}
