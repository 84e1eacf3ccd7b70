//! The window of credits: how many IOs a client may have outstanding at one SSD.
//!
//! The switch says with every completion how many IOs the tenant may have outstanding. The client keeps the rest to itself,
//! so that queues build up where they can still be reordered or sent to another replica.
//!
//! ```text
//!  an IO wants to go ── try_submit ──► yes: in flight     on_completion(credit) ──► room for this many waiting IOs
//!                                └───► busy: wait here ◄──────────────────────────────┘
//! ```
//!
//! Both numbers live in one 64-bit word and change together, so threads may share a window.
//!
//! Holds: never more IOs in flight than the last credit, except those that were already in flight when it was lowered
//!        (`a_lowered_credit_lets_the_excess_drain`, `threads_sharing_a_window_never_exceed_it`).
//! Elsewhere: the client decides which IOs wait, and in which order.
//! Paper: Gimbal §3.6, Appendix B, Algorithm 3.

use crate::Credit;
use core::sync::atomic::{AtomicU64, Ordering};

/// The window of one tenant at one SSD.
#[derive(Debug)]
pub struct CreditWindow {
    /// Credit in the upper half, IOs in flight in the lower.
    state: AtomicU64,
}

#[derive(Clone, Copy)]
struct State {
    credit: u32,
    in_flight: u32,
}

impl State {
    fn unpack(word: u64) -> State {
        State { credit: (word >> 32) as u32, in_flight: word as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.credit) << 32 | u64::from(self.in_flight)
    }

    fn room(self) -> u32 {
        self.credit.saturating_sub(self.in_flight)
    }
}

impl CreditWindow {
    /// A window with nothing in flight. `initial` holds until the first completion brings the switch's own word.
    pub fn new(initial: Credit) -> CreditWindow {
        let state = State { credit: initial.0.max(1), in_flight: 0 };
        CreditWindow { state: AtomicU64::new(state.pack()) }
    }

    /// Takes one place in the window. If the answer is no, the IO waits in the client until a completion makes room.
    #[must_use]
    pub fn try_submit(&self) -> bool {
        let taken = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let state = State::unpack(word);
            (state.room() > 0).then(|| State { in_flight: state.in_flight + 1, ..state }.pack())
        });
        taken.is_ok()
    }

    /// Ends an IO. `credit` is the one carried by its completion, `None` if it carried none (a failed IO, a switch
    /// without credits). Returns how many waiting IOs could go now.
    ///
    /// A credit of zero counts as one: with nothing in flight no completion would ever come to raise it.
    ///
    /// # Panics
    /// If nothing was in flight.
    pub fn on_completion(&self, credit: Option<Credit>) -> u32 {
        let next = |word| {
            let state = State::unpack(word);
            let credit = credit.map_or(state.credit, |credit| credit.0.max(1));
            Some(State { credit, in_flight: state.in_flight.checked_sub(1)? })
        };
        let before = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| next(word).map(State::pack))
            .expect("an IO ended but none was in flight");
        next(before).map_or(0, State::room)
    }

    /// The last credit received: the more, the less loaded the SSD.
    pub fn credit(&self) -> Credit {
        Credit(State::unpack(self.state.load(Ordering::Acquire)).credit)
    }

    /// IOs in flight.
    pub fn in_flight(&self) -> u32 {
        State::unpack(self.state.load(Ordering::Acquire)).in_flight
    }

    /// IOs that could go now.
    pub fn room(&self) -> u32 {
        State::unpack(self.state.load(Ordering::Acquire)).room()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_full_window_makes_the_next_io_wait() {
        let window = CreditWindow::new(Credit(2));
        assert!(window.try_submit() && window.try_submit());
        assert!(!window.try_submit(), "a third IO went out on a credit of 2");
        assert_eq!(window.on_completion(Some(Credit(2))), 1);
        assert!(window.try_submit());
    }

    #[test]
    fn a_lowered_credit_lets_the_excess_drain() {
        let window = CreditWindow::new(Credit(4));
        for _ in 0..4 {
            assert!(window.try_submit());
        }
        assert_eq!(window.on_completion(Some(Credit(2))), 0);
        assert!(!window.try_submit());
        assert_eq!(window.on_completion(Some(Credit(2))), 0);
        assert_eq!(window.on_completion(Some(Credit(2))), 1);
        assert_eq!(window.in_flight(), 1);
    }

    #[test]
    fn a_raised_credit_resumes_several_at_once() {
        let window = CreditWindow::new(Credit(1));
        assert!(window.try_submit());
        assert_eq!(window.on_completion(Some(Credit(8))), 8);
    }

    #[test]
    fn a_completion_without_credit_keeps_the_last_word() {
        let window = CreditWindow::new(Credit(3));
        assert!(window.try_submit());
        assert_eq!(window.on_completion(None), 3);
        assert_eq!(window.credit(), Credit(3));
    }

    #[test]
    fn a_credit_of_zero_does_not_strand_the_client() {
        let window = CreditWindow::new(Credit(0));
        assert!(window.try_submit());
        assert_eq!(window.on_completion(Some(Credit(0))), 1);
    }

    #[test]
    #[should_panic(expected = "none was in flight")]
    fn more_completions_than_submissions_is_a_bug() {
        CreditWindow::new(Credit(1)).on_completion(None);
    }

    #[test]
    fn threads_sharing_a_window_never_exceed_it() {
        const CREDIT: u32 = 3;
        // Miri sees in a few what others need luck for.
        const IOS: u32 = if cfg!(miri) { 50 } else { 10_000 };
        let window = CreditWindow::new(Credit(CREDIT));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut done = 0;
                    while done < IOS {
                        if window.try_submit() {
                            let in_flight = window.in_flight();
                            assert!(in_flight <= CREDIT, "{in_flight} in flight on a credit of {CREDIT}");
                            window.on_completion(Some(Credit(CREDIT)));
                            done += 1;
                        } else {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        assert_eq!(window.in_flight(), 0);
    }
}
