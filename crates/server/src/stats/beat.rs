//! Whether a thread goes on: the turn that is under way.
//!
//! A thread notes when a turn begins, and when it begins to wait. So a reader sees that a thread hangs in a turn, for example in a system call of a
//! device, without asking it.

use measures::Gauge;
use std::sync::Arc;
use units::{Instant, Nanos};

/// Marks of a thread that has ended, or waits.
const ENDED: u64 = u64::MAX;
const WAITS: u64 = 0;

/// The writer's end. The thread has ended when it is dropped.
pub(crate) struct Beat(Arc<Gauge>);

/// The reader's end.
#[derive(Clone, Debug)]
pub(crate) struct Pulse(Arc<Gauge>);

impl Beat {
    /// A thread that waits.
    pub(crate) fn new() -> (Beat, Pulse) {
        let turn = Arc::new(Gauge::default());
        (Beat(Arc::clone(&turn)), Pulse(turn))
    }

    /// A turn begins.
    #[inline]
    pub(crate) fn begin(&self, now: Instant) {
        self.0.set(now.0.clamp(WAITS + 1, ENDED - 1));
    }

    /// The thread is about to wait.
    #[inline]
    pub(crate) fn wait(&self) {
        self.0.set(WAITS);
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.set(ENDED);
    }
}

impl Pulse {
    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.0.get() == ENDED
    }

    /// The time that the present turn has taken so far; zero if the thread waits.
    pub(crate) fn turn(&self, now: Instant) -> Nanos {
        match self.0.get() {
            WAITS | ENDED => Nanos::ZERO,
            began => now.saturating_since(Instant(began)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_or_is_in_a_turn_or_has_ended() {
        let (beat, pulse) = Beat::new();
        assert_eq!(pulse.turn(Instant(9)), Nanos::ZERO);
        beat.begin(Instant(5));
        assert_eq!((pulse.turn(Instant(9)), pulse.has_ended()), (Nanos(4), false));
        beat.wait();
        assert_eq!(pulse.turn(Instant(9)), Nanos::ZERO);
        drop(beat);
        assert!(pulse.has_ended());
    }
}
