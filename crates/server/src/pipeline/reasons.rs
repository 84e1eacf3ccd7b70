//! The reasons for which a tenant has waited lately, so that a slow IO has them when it has ended.
//!
//! Holds: the reasons of a span are those that were in force in it (`a_span_has_the_reasons_that_were_in_force`).

use crate::stats::Waits;
use sched::Wait;
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// Changes that are remembered.
const CHANGES_MAX: usize = 16;

/// A reason, and whether the tenant had used up its credit as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) wait: Option<Wait>,
    pub(super) is_credit_used_up: bool,
}

/// See the module. A tenant that never waits holds no memory for it.
#[derive(Debug, Default)]
pub(super) struct Reasons(VecDeque<(Instant, Reason)>);

impl Reasons {
    /// From `now` on it is this.
    pub(super) fn set(&mut self, now: Instant, reason: Reason) {
        let last = self.0.back().map_or(Reason::default(), |(_, last)| *last);
        if last == reason {
            return;
        }
        if self.0.len() == CHANGES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, reason));
    }

    /// The time of each reason between `from` and `to`. Time for which none is known counts for that in force at the end.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Waits {
        let (mut waits, mut known) = (Waits::default(), Nanos::ZERO);
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([to]);
        for ((began, reason), end) in self.0.iter().zip(ends) {
            let span = end.min(to).saturating_since((*began).max(from));
            add(&mut waits, *reason, span);
            if reason.wait.is_some() {
                known += span;
            }
        }
        if let Some((_, last)) = self.0.back() {
            add(
                &mut waits,
                Reason { is_credit_used_up: false, ..*last },
                to.saturating_since(from).saturating_sub(known),
            );
        }
        waits
    }
}

fn add(waits: &mut Waits, reason: Reason, span: Nanos) {
    match reason.wait {
        Some(Wait::Share) => waits.share += span,
        Some(Wait::Limit) => waits.limit += span,
        Some(Wait::Device) => waits.device += span,
        None => {}
    }
    if reason.is_credit_used_up {
        waits.credit += span;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(1) + Nanos::millis(millis)
    }

    fn because(wait: Wait) -> Reason {
        Reason { wait: Some(wait), is_credit_used_up: false }
    }

    #[test]
    fn a_span_has_the_reasons_that_were_in_force() {
        let mut reasons = Reasons::default();
        assert_eq!(reasons.between(at(0), at(9)), Waits::default());
        for (millis, reason) in [
            (10, because(Wait::Share)),
            (20, Reason { is_credit_used_up: true, ..because(Wait::Limit) }),
            (30, because(Wait::Limit)),
            (35, because(Wait::Device)),
        ] {
            reasons.set(at(millis), reason);
            reasons.set(at(millis + 1), reason);
        }
        let of = |share, limit, device, credit| {
            let [share, limit, device, credit] = [share, limit, device, credit].map(Nanos::millis);
            Waits { share, limit, device, credit, ..Waits::default() }
        };
        assert_eq!(reasons.between(at(12), at(40)), of(8, 15, 5, 10));
        assert_eq!(reasons.between(at(22), at(24)), of(0, 2, 0, 2));
        // Nothing is known of the time before 10.
        assert_eq!(reasons.between(at(4), at(12)), of(2, 0, 6, 0));
        reasons.set(at(50), Reason::default());
        assert_eq!(reasons.between(at(48), at(60)), of(0, 0, 2, 0));
        for change in 0..100 {
            let reason = if change % 2 == 0 { because(Wait::Share) } else { Reason::default() };
            reasons.set(at(100 + change), reason);
        }
        assert_eq!(reasons.0.len(), CHANGES_MAX);
        assert_eq!(reasons.between(at(190), at(200)), of(5, 0, 0, 0));
    }
}
