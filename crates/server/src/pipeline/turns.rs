//! The length of turns: a thread that has much to do at once goes back to its connections after [`TURN_MAX`].

use crate::stats::TurnStats;
use units::{Instant, Nanos};

/// The longest that a turn runs its switch again for steps that are left. Other connections wait meanwhile. A run has
/// [`Turn::STEPS_MAX`](sched::Turn::STEPS_MAX) steps, so a turn is longer by one run at most.
const TURN_MAX: Nanos = Nanos::micros(500);

/// Turns that had more to do than one turn may.
#[derive(Default)]
pub(super) struct Turns(TurnStats);

impl Turns {
    /// Whether a turn that `began` then ends now, though there is more to do.
    pub(super) fn ends(&mut self, began: Instant, now: Instant) -> bool {
        let took = now.saturating_since(began);
        if took < TURN_MAX {
            return false;
        }
        self.0.cut += 1;
        self.0.longest = self.0.longest.max(took);
        true
    }

    pub(super) fn stats(&self) -> TurnStats {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_time_and_the_longest_is_known() {
        let mut turns = Turns::default();
        assert!(!turns.ends(Instant(5), Instant(5) + TURN_MAX.saturating_sub(Nanos(1))));
        assert!(turns.ends(Instant(5), Instant(5) + TURN_MAX + Nanos(2)));
        assert!(turns.ends(Instant(9), Instant(9) + TURN_MAX));
        assert_eq!(turns.stats(), TurnStats { cut: 2, longest: TURN_MAX + Nanos(2) });
    }
}
