//! The write cost: the present cost of a written byte relative to a byte read.
//!
//! An SSD's buffer absorbs writes until it is full; then a write costs up to `write_cost_worst` reads. So the price falls by
//! a step in every period in which writes were fast, and goes half way back to the worst as soon as they are slow:
//! additive decrease, multiplicative increase.
//!
//! ```text
//!     worst ┤▔╲                    ▁▔▔
//!           │  ╲▁                 ▕         a period is judged at the first completion after its end;
//!      best ┤    ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔         one without completed writes changes nothing
//!             fast writes           slow
//! ```
//!
//! Holds: best ≤ cost ≤ worst (`the_cost_stays_between_the_best_and_the_worst`).
//! Elsewhere: IOs are charged at this cost in `bucket` and `drr`.
//! Paper: Gimbal §3.4: writes are slow when they take longer than `thresh_min` on average. The authors' release also asks for a
//! read in the same period, or for a mean above `thresh_max`; and it divides a count by itself, so that its cost always decays to
//! 1. Why we follow the text: docs/paper-map.md.

use crate::{Cost, DeviceConstants};
use units::{Instant, Nanos};

/// The cost of writes, and the observations of this period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteCost {
    cost: Cost,
    best: Cost,
    worst: Cost,
    step: Cost,
    period: Nanos,
    /// Writes that take longer on average are slow.
    thresh_min: Nanos,
    /// When the current period ends; `None` before the first completion.
    period_end: Option<Instant>,
    writes: u64,
    write_latency: u128,
}

impl WriteCost {
    /// The worst cost, to be reconsidered once per `period`.
    pub(crate) fn new(device: &DeviceConstants, step: Cost, period: Nanos) -> WriteCost {
        WriteCost {
            cost: device.write_cost_worst,
            best: device.write_cost_best,
            worst: device.write_cost_worst,
            step,
            period,
            thresh_min: device.thresh_min,
            period_end: None,
            writes: 0,
            write_latency: 0,
        }
    }

    pub(crate) fn cost(&self) -> Cost {
        self.cost
    }

    /// Notes that a read completed: the period may be over.
    pub(crate) fn on_read(&mut self, now: Instant) {
        self.close_period(now);
    }

    /// Learns from a write that completed after `latency` inside the SSD.
    pub(crate) fn on_write(&mut self, now: Instant, latency: Nanos) {
        self.close_period(now);
        self.writes += 1;
        self.write_latency += u128::from(latency.0);
    }

    /// Judges the period if it is over. Periods follow one another on a fixed grid; those that passed without any
    /// completion are skipped.
    fn close_period(&mut self, now: Instant) {
        let Some(end) = self.period_end else {
            self.period_end = Some(now + self.period);
            return;
        };
        if now < end {
            return;
        }
        self.judge();
        let periods = now.since(end).0 / self.period.0 + 1;
        (self.writes, self.write_latency) = (0, 0);
        self.period_end = Some(end + Nanos(periods.saturating_mul(self.period.0)));
    }

    fn judge(&mut self) {
        if self.writes == 0 {
            return;
        }
        let mean = self.write_latency / u128::from(self.writes);
        self.cost = if mean > u128::from(self.thresh_min.0) {
            self.cost.midway(self.worst)
        } else {
            self.cost.saturating_sub(self.step).max(self.best)
        };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const FAST: Nanos = Nanos::micros(100);
    const SLOWISH: Nanos = Nanos::micros(400);
    const SLOW: Nanos = Nanos::micros(2000);

    const PERIOD: Nanos = Nanos::millis(100);

    fn cost_on(device: DeviceConstants) -> WriteCost {
        WriteCost::new(&device, Cost::ratio(1, 2), PERIOD)
    }

    /// A cost in its first period, which has just begun; nothing counts before it.
    fn started() -> WriteCost {
        let device = DeviceConstants { write_cost_best: Cost::ONE, ..DeviceConstants::DCT983 };
        let mut cost = cost_on(device);
        cost.on_read(Instant::ZERO);
        cost
    }

    fn period(n: u64) -> Instant {
        Instant::ZERO + Nanos(PERIOD.0 * n)
    }

    /// Runs period `n` (the first is 0) with one write, and a read if asked, and lets the next one begin.
    fn run_period(cost: &mut WriteCost, n: u64, write: Nanos, read: bool) -> Cost {
        if read {
            cost.on_read(period(n) + Nanos(1));
        }
        cost.on_write(period(n) + Nanos(1), write);
        cost.close_period(period(n + 1));
        cost.cost()
    }

    #[test]
    fn absorbed_writes_become_as_cheap_as_reads_after_sixteen_periods() {
        let mut cost = started();
        assert_eq!(cost.cost(), Cost::ratio(9, 1));
        for n in 0..15 {
            assert!(run_period(&mut cost, n, FAST, true) > Cost::ONE, "after {} periods", n + 1);
        }
        assert_eq!(run_period(&mut cost, 15, FAST, true), Cost::ONE);
        assert_eq!(run_period(&mut cost, 16, FAST, true), Cost::ONE);
    }

    #[test]
    fn the_price_snaps_half_way_back_at_the_first_slow_period() {
        let mut cost = started();
        for n in 0..16 {
            run_period(&mut cost, n, FAST, false);
        }
        assert_eq!(run_period(&mut cost, 16, SLOW, false), Cost::ratio(5, 1));
        assert_eq!(run_period(&mut cost, 17, SLOW, false), Cost::ratio(7, 1));
    }

    #[test]
    fn writes_that_are_slow_only_among_themselves_are_slow() {
        for read in [false, true] {
            let mut cost = started();
            run_period(&mut cost, 0, FAST, false);
            assert_eq!(run_period(&mut cost, 1, SLOWISH, read), Cost::ratio(35, 4));
        }
    }

    #[test]
    fn a_period_without_writes_changes_nothing() {
        let mut cost = started();
        run_period(&mut cost, 0, FAST, false);
        let before = cost.cost();
        for n in 1..10 {
            cost.on_read(period(n) + Nanos(1));
        }
        assert_eq!(cost.cost(), before);
    }

    #[test]
    fn a_pause_is_one_period_however_long_it_lasts() {
        let mut cost = started();
        cost.on_write(Instant(1), FAST);
        cost.on_write(period(1000), FAST);
        assert_eq!(cost.cost(), Cost::ratio(17, 2));
        cost.on_write(period(1001) - Nanos(1), FAST);
        assert_eq!(cost.cost(), Cost::ratio(17, 2), "the period after the pause ended early");
        cost.on_write(period(1001), FAST);
        assert_eq!(cost.cost(), Cost::ratio(8, 1));
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_cost_stays_between_the_best_and_the_worst(
            best in 1000..9000u32,
            steps in prop::collection::vec((0..300_000_000u64, any::<bool>(), 0..4_000_000u64), 1..100),
        ) {
            let best = Cost::ratio(best, 1000);
            let device = DeviceConstants { write_cost_best: best, ..DeviceConstants::DCT983 };
            let mut cost = cost_on(device);
            let mut now = Instant::ZERO;
            for (wait, read, latency) in steps {
                now += Nanos(wait);
                if read {
                    cost.on_read(now);
                } else {
                    cost.on_write(now, Nanos(latency));
                }
                prop_assert!(cost.cost() >= best && cost.cost() <= Cost::ratio(9, 1));
            }
        }
    }
}
