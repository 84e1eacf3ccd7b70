//! Whether to look again for a moment before going to sleep.
//!
//! A sleep and a wake-up cost several microseconds of processor time, and more of latency. While events come faster than that,
//! looking again is quicker and costs no more; when they come rarely it only burns the processor. Two things decide:
//!
//! - The last gap between events predicts the next one: only if it was within the budget, the reactor spins, for at most the
//!   budget. An idle reactor therefore spins at most once and then uses no processor at all.
//! - A spin that finds nothing is held against the next ones: after the first the reactor sleeps once without looking, then
//!   twice, four times and so on. So where spinning cannot pay, as when whoever is to answer waits for this very processor, it
//!   soon costs nothing; and where it does, one success brings it back.
//!
//! A deadline is known, so nothing need be guessed: a near one is looked for all the way, before a far one the reactor wakes up
//! early and looks for the rest. A thread on a virtual machine wakes up some 20 to 40 µs late; this way a deadline is met. It costs at most
//! a budget's worth of processor for each deadline.
//!
//! Holds: `an_idle_reactor_spins_once_and_then_sleeps`, `spins_in_vain_become_rare_and_one_success_forgives_them`,
//!        `a_near_deadline_is_looked_for_and_a_far_one_slept_for`, `a_reactor_that_may_not_spin_never_does`.

use units::{Instant, Nanos};

/// log2 of the most sleeps in a row after spins in vain.
const RESTS_LOG2_MAX: u32 = 10;

/// The decision and what it needs to remember.
#[derive(Debug)]
pub(crate) struct Pacing {
    budget: Nanos,
    last_gap: Nanos,
    /// Spins in vain since the last success.
    failures: u32,
    /// Waits to sleep through before the next spin.
    rests: u32,
}

impl Pacing {
    pub(crate) fn new(budget: Nanos) -> Pacing {
        Pacing { budget, last_gap: Nanos(u64::MAX), failures: 0, rests: 0 }
    }

    /// Whether spinning is ever wanted; if not, no clock need be read.
    pub(crate) fn is_on(&self) -> bool {
        self.budget > Nanos::ZERO
    }

    /// Whether `deadline` is so near that a sleep would end about when it has passed.
    pub(crate) fn is_near(&self, now: Instant, deadline: Instant) -> bool {
        let sleep_min = self.budget;
        self.is_on() && deadline <= now + self.budget + sleep_min
    }

    /// When to wake up in order to meet `deadline`, if nothing else happens.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> Instant {
        Instant(deadline.0.saturating_sub(self.budget.get()))
    }

    /// When to stop looking for an event and sleep; `None` to sleep at once.
    pub(crate) fn spin_until(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_on() || self.last_gap > self.budget {
            return None;
        }
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        Some(now + self.budget)
    }

    /// Learns whether a spin for the whole budget, or until it was cut short by an event, found one.
    pub(crate) fn on_spin(&mut self, found: bool) {
        if found {
            self.failures = 0;
        } else {
            self.rests = 1 << self.failures.min(RESTS_LOG2_MAX);
            self.failures += 1;
        }
    }

    /// Learns how long it took from the start of a wait to its end. A near deadline that passes says nothing of the gap between events.
    pub(crate) fn on_gap(&mut self, gap: Nanos) {
        self.last_gap = gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000);

    #[test]
    fn an_idle_reactor_spins_once_and_then_sleeps() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        assert_eq!(pacing.spin_until(NOW), None, "nothing is known yet");
        pacing.on_gap(Nanos::micros(5));
        assert_eq!(pacing.spin_until(NOW), Some(NOW + Nanos::micros(20)));
        pacing.on_gap(Nanos::millis(3));
        assert_eq!(pacing.spin_until(NOW), None);
    }

    #[test]
    fn a_near_deadline_is_looked_for_and_a_far_one_slept_for() {
        let pacing = Pacing::new(Nanos::micros(20));
        assert!(pacing.is_near(NOW, NOW) && pacing.is_near(NOW, NOW + Nanos::micros(40)));
        assert!(!pacing.is_near(NOW, NOW + Nanos::micros(41)));
        assert_eq!(pacing.sleep_until(NOW + Nanos::millis(1)), NOW + Nanos::micros(980));
        assert_eq!(pacing.sleep_until(Instant(3)), Instant::ZERO);
    }

    #[test]
    fn a_reactor_that_may_not_spin_never_does() {
        let mut off = Pacing::new(Nanos::ZERO);
        for gap in [Nanos::ZERO, Nanos::micros(1), Nanos::secs(1)] {
            off.on_gap(gap);
            assert!(!off.is_on() && off.spin_until(NOW).is_none() && !off.is_near(NOW, NOW));
        }
        assert_eq!(off.sleep_until(NOW), NOW, "it does not wake up early either");
    }

    #[test]
    fn spins_in_vain_become_rare_and_one_success_forgives_them() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        pacing.on_gap(Nanos::micros(5));
        let mut rests_before_spin = |found| {
            let rests = (0..).find(|_| pacing.spin_until(NOW).is_some());
            pacing.on_spin(found);
            rests.expect("every rest ends")
        };
        let rests: Vec<i32> = (0..14).map(|_| rests_before_spin(false)).collect();
        assert_eq!(rests, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        assert_eq!(rests_before_spin(true), 1024);
        assert_eq!([true, false, true].map(&mut rests_before_spin), [0, 0, 1]);
    }
}
