//! Time in which a thread did not run although it had something to do: the process was stopped (SIGSTOP), its virtual machine was
//! suspended, or the machine had no processor for it.
//!
//! Hosts have limits of time: for the data of a write, for replies, for the handshake, for keep-alive. A thread that does not run reads
//! nothing, so such time is not the host's. A thread says when it wants to go on at the latest; time beyond that is *missed*. All
//! limits of hosts that run at that moment are extended by it, and by as long again, at most [`CATCH_UP_MAX`], in which the thread reads what
//! arrived meanwhile.
//!
//! Holds: a host loses no more of its time to a stop than was left until the thread would have continued
//!        (`time_beyond_the_deadline_is_missed`, `a_stop_in_the_middle_of_a_turn_is_missed_too`); the limits of all parts are extended
//!        (tests named `..._is_extended`; `crates/gimbal/tests/stopped.rs` stops a target).
//! Costs: a comparison per turn, without a look at the clock; with missed time a step per connection and controller.
//! Elsewhere: devices and schedulers have the clock of the machine: a drive works on while the thread does not run.

use tracing::warn;
use units::{Instant, Nanos};

/// Less is the usual delay of a busy machine.
const MISSED_MIN: Nanos = Nanos::millis(100);
/// The longest extra time to read what arrived while the thread did not run.
const CATCH_UP_MAX: Nanos = Nanos::secs(1);
/// More is logged: the machine, or an administrator, has stopped the target.
const LOGGED_MIN: Nanos = Nanos::secs(1);

/// Notices time that a thread has missed.
pub(crate) struct MissedTime {
    /// The name of the thread, for the log.
    thread: String,
    turn_began: Instant,
}

impl MissedTime {
    /// A clock for a thread whose first turn begins.
    pub(crate) fn new(thread: String, now: Instant) -> MissedTime {
        MissedTime { thread, turn_began: now }
    }

    /// A turn begins, after a wait until `deadline`. Returns by how much the limits of hosts are extended, if at all.
    ///
    /// If the deadline has passed before the wait, the time counts since the last turn began. A turn is short (`pipeline::turn`).
    #[inline]
    pub(crate) fn on_turn(&mut self, deadline: Option<Instant>, now: Instant) -> Option<Nanos> {
        let began = std::mem::replace(&mut self.turn_began, now);
        let missed = now.saturating_since(deadline?.max(began));
        if missed < MISSED_MIN { None } else { Some(self.extension(missed)) }
    }

    #[cold]
    fn extension(&self, missed: Nanos) -> Nanos {
        if missed >= LOGGED_MIN {
            warn!(thread = %self.thread, %missed, "the target did not run: it, or its machine, was stopped or overloaded. The time limits of hosts are extended");
        }
        missed + missed.min(CATCH_UP_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Nanos::millis(millis)
    }

    fn started() -> MissedTime {
        MissedTime::new("a".to_owned(), at(1000))
    }

    #[test]
    fn time_beyond_the_deadline_is_missed() {
        let mut missed = started();
        assert_eq!(missed.on_turn(Some(at(9000)), at(9000)), None, "it wanted to sleep for so long");
        assert_eq!(missed.on_turn(Some(at(9500)), at(9599)), None, "a busy machine");
        assert_eq!(missed.on_turn(Some(at(10_000)), at(10_100)), Some(Nanos::millis(200)));
        assert_eq!(missed.on_turn(Some(at(10_500)), at(60_500)), Some(Nanos::millis(51_000)));
        assert_eq!(missed.on_turn(Some(at(70_000)), at(60_600)), None, "an event");
        assert_eq!(missed.on_turn(None, at(9_000_000)), None, "nothing was awaited");
    }

    #[test]
    fn a_stop_in_the_middle_of_a_turn_is_missed_too() {
        let mut missed = started();
        assert_eq!(missed.on_turn(Some(at(1000)), at(3000)), Some(Nanos::millis(3000)));
        assert_eq!(missed.on_turn(Some(Instant::ZERO), at(3001)), None, "it had something to do at once");
        assert_eq!(missed.on_turn(Some(Instant::ZERO), at(3301)), Some(Nanos::millis(600)));
        assert_eq!(missed.on_turn(Some(Instant::ZERO), at(3302)), None, "time is missed once");
    }
}
