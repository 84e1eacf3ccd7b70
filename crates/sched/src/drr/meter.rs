//! A meter: how far a tenant is ahead of a rate it was given.
//!
//! The rate is per second of the tenant's time; the meter runs on the scheduler's clock, on which that second takes as long as
//! [`Share::second`](crate::Share::second) says.
//!
//! The meter keeps one instant, `due`: the time by which everything that was charged would have been served at exactly the
//! given rate. A *limit* forbids the next IO before `due`; a *reservation* is behind from `due` on. A tenant that used less
//! than its rate may save up at most `burst` of it.
//!
//! Holds: units charged at or after `due`, in any span of time t, are at most rate × (t + burst) and one IO
//!        (`a_limited_tenant_gets_its_rate_and_no_more`); on a slowed clock all of it is the same, only slower
//!        (`a_slowed_clock_changes_nothing_but_the_pace`).
//! Elsewhere: the effect of a limit and a reservation on the order is in `drr`.
//! Beyond the paper. The idea is the virtual clock of GCRA (ITU-T I.371).

use crate::policy::{SECOND, scaled};
use units::{Instant, Nanos};

/// One rate of one tenant, in any unit per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    rate: u64,
    /// Of the tenant's time, on the scheduler's clock.
    second: Nanos,
    /// On the scheduler's clock.
    burst: Nanos,
    due: Instant,
    /// Remainder that `due` leaves out, in `1 / rate` of a nanosecond.
    remainder: u128,
}

impl Meter {
    /// A meter with nothing charged yet; rate and burst are in the tenant's time, of which a second takes `second`
    /// here. A rate of zero counts as one unit per second: a tenant that may never be served would hold its IOs for
    /// ever.
    pub(crate) fn new(rate: u64, second: Nanos, burst: Nanos) -> Meter {
        let burst = scaled(burst, second, SECOND);
        Meter { rate: rate.max(1), second, burst, due: Instant::ZERO, remainder: 0 }
    }

    /// The same with nothing saved up.
    pub(crate) fn from(self, now: Instant) -> Meter {
        Meter { due: now, ..self }
    }

    /// The same service charged so far, at another rate from now on.
    pub(crate) fn at(self, rate: u64) -> Meter {
        Meter { rate: rate.max(1), remainder: 0, ..self }
    }

    /// When the next IO is due.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Charges `units` that are served now.
    pub(crate) fn charge(&mut self, now: Instant, units: u64) {
        let saved_up = now - self.burst;
        if self.due < saved_up {
            (self.due, self.remainder) = (saved_up, 0);
        }
        let parts = u128::from(units) * u128::from(self.second.0) + self.remainder;
        let rate = u128::from(self.rate);
        self.remainder = parts % rate;
        self.due += Nanos(u64::try_from(parts / rate).unwrap_or(u64::MAX));
    }

    /// Limits service beyond the rate to a burst. A tenant that once had the SSD to itself would else be without its
    /// reservation for as long as that was worth.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.due = self.due.min(now + self.burst);
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
        let mut meter = Meter::new(3, SECOND, Nanos::ZERO);
        let mut now = Instant(1_000_000_000);
        let start = now;
        for _ in 0..3_000 {
            meter.charge(now, 1);
            now = meter.due();
        }
        assert_eq!(now.since(start), Nanos::secs(1000), "rounding adds up");
    }

    #[test]
    fn what_was_served_beyond_a_reservation_is_forgiven_but_for_a_burst() {
        let mut meter = Meter::new(1_000_000, SECOND, BURST);
        let now = Instant(1_000_000_000);
        meter.charge(now, 100_000_000);
        meter.forgive(now);
        assert_eq!(meter.due(), now + BURST, "not a hundred seconds later");
    }

    #[test]
    fn what_is_saved_up_is_bounded_by_the_burst() {
        let mut meter = Meter::new(1_000_000, SECOND, BURST);
        let now = Instant(5_000_000_000);
        let mut ahead = 0;
        while meter.due() <= now {
            meter.charge(now, 1);
            ahead += 1;
        }
        assert_eq!(ahead, 1001);
    }

    #[test]
    fn a_slowed_clock_changes_nothing_but_the_pace() {
        // A thousandth, a twentieth, and a hundred times the speed of the tenant's clock.
        for thousandths in [1, 50, 100_000] {
            let second = Nanos(SECOND.0 / 1000 * thousandths);
            let scaled = |at: Instant| Instant(at.0 / 1000 * thousandths);
            for rate in [1, 3, 7, 1000, 999_999_937] {
                let (mut own, mut slowed) =
                    (Meter::new(rate, SECOND, BURST), Meter::new(rate, second, BURST));
                let mut now = Instant(1_000_000_000);
                for units in [1, 4096, 3, 100_000, 1, 1, 70_000] {
                    own.charge(now, units);
                    slowed.charge(scaled(now), units);
                    // The instants are whole numbers of nanoseconds of different length.
                    let coarse = Nanos(1000u64.max(thousandths));
                    let apart = own.due().0 as i128 * i128::from(thousandths) - slowed.due().0 as i128 * 1000;
                    assert!(
                        apart.unsigned_abs() <= u128::from(coarse.0),
                        "{rate} per second at {thousandths}/1000: {apart}"
                    );
                    now = Instant(own.due().0.next_multiple_of(1000)) + Nanos::millis(2);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn a_limited_tenant_gets_its_rate_and_no_more(
            rate in 1..2_000_000_000u64,
            offers in prop::collection::vec((0..3_000_000u64, 1..200_000u64), 1..100),
        ) {
            let mut meter = Meter::new(rate, SECOND, BURST);
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
                let bound = u128::from(rate) * span / u128::from(SECOND.0) + largest;
                prop_assert!(served <= bound, "{served} units served, bound {bound}");
            }
        }
    }
}
