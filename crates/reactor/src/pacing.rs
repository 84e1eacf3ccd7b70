//! Whether to look again for a moment before going to sleep.
//!
//! A sleep and a wake-up cost several microseconds. While events come faster than that, looking again is quicker and costs no
//! more; when they come rarely it only burns the processor. So the last gap between events predicts the next one: if it was
//! within the budget, the reactor spins for at most the budget, else it sleeps at once. An idle reactor therefore spins at
//! most once and then uses no processor at all.

use units::{Instant, Nanos};

/// The decision and what it needs to remember.
#[derive(Debug)]
pub(crate) struct Pacing {
    budget: Nanos,
    last_gap: Nanos,
}

impl Pacing {
    pub(crate) fn new(budget: Nanos) -> Pacing {
        Pacing { budget, last_gap: Nanos(u64::MAX) }
    }

    /// Whether spinning is ever wanted; if not, no clock need be read.
    pub(crate) fn is_on(&self) -> bool {
        self.budget > Nanos::ZERO
    }

    /// When to stop looking and sleep; `None` to sleep at once.
    pub(crate) fn spin_until(&self, now: Instant) -> Option<Instant> {
        (self.is_on() && self.last_gap <= self.budget).then(|| now + self.budget)
    }

    /// Learns how long it took from the start of a wait to its end.
    pub(crate) fn on_gap(&mut self, gap: Nanos) {
        self.last_gap = gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_reactor_spins_once_and_then_sleeps() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        let now = Instant(1_000_000);
        assert_eq!(pacing.spin_until(now), None, "nothing is known yet");
        pacing.on_gap(Nanos::micros(5));
        assert_eq!(pacing.spin_until(now), Some(now + Nanos::micros(20)));
        pacing.on_gap(Nanos::millis(3));
        assert_eq!(pacing.spin_until(now), None);
        let off = Pacing::new(Nanos::ZERO);
        assert!(!off.is_on() && off.spin_until(now).is_none());
    }
}
