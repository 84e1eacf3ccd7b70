//! The word between a reactor that sleeps and the threads that wake it, so that a wake-up costs a system call only when
//! it must.
//!
//! ```text
//!   AWAKE --reactor goes to sleep--> ASLEEP --reactor comes back--> AWAKE
//!   any --wake()--> NOTIFIED (and, if it was ASLEEP, the waker has to ring)
//!   NOTIFIED --reactor reports Woken--> AWAKE
//! ```
//!
//! Why nothing is lost: the other thread first puts its message where the reactor's owner will look, then swaps in
//! NOTIFIED; the reactor swaps NOTIFIED out before it reports `Woken`, and the owner looks after that. All changes of
//! the word are read-modify-writes with acquire and release, so the reactor's swap sees every message with a `wake`
//! before it, even one that found NOTIFIED there already and did nothing more. A `wake` that comes after it leaves
//! NOTIFIED behind; then either the reactor's exchange AWAKE -> ASLEEP fails and it does not sleep, or the `wake` finds
//! ASLEEP and rings.
//!
//! Holds: in every interleaving with up to three forced switches, no wake-up is lost and each message is seen by the look that
//!        follows it (`no_wake_up_is_lost`, by loom on this very code).

use std::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// The operations that the word needs of an atomic byte: the standard one, or one that a test runs in every
/// interleaving.
pub(crate) trait AtomicByte {
    fn new(value: u8) -> Self;
    fn load(&self, order: Ordering) -> u8;
    fn swap(&self, value: u8, order: Ordering) -> u8;
    fn compare_exchange(&self, from: u8, to: u8, success: Ordering, failure: Ordering) -> Result<u8, u8>;
}

macro_rules! atomic_byte {
    ($atomic:ty) => {
        impl AtomicByte for $atomic {
            fn new(value: u8) -> Self {
                <$atomic>::new(value)
            }
            fn load(&self, order: Ordering) -> u8 {
                self.load(order)
            }
            fn swap(&self, value: u8, order: Ordering) -> u8 {
                self.swap(value, order)
            }
            fn compare_exchange(
                &self,
                from: u8,
                to: u8,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u8, u8> {
                self.compare_exchange(from, to, success, failure)
            }
        }
    };
}

atomic_byte!(AtomicU8);

/// The activity of a reactor.
pub(crate) struct WakeWord<A = AtomicU8>(A);

impl<A: AtomicByte> WakeWord<A> {
    /// Of a reactor that is awake.
    pub(crate) fn new() -> WakeWord<A> {
        WakeWord(A::new(AWAKE))
    }

    /// Leaves notice; whether the reactor sleeps, and has to be rung.
    pub(crate) fn wake(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// Whether there was a wake-up since the last call that said so.
    pub(crate) fn take_notice(&self) -> bool {
        self.0.load(Ordering::Relaxed) == NOTIFIED && self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Announces that the reactor is about to sleep; `false` if it must not, as there was a wake-up.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Marks the reactor as awake. Returns whether there was a wake-up meanwhile.
    pub(crate) fn end_sleep(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(test)]
mod interleavings {
    use super::*;
    use crate::explored::{self, Bell};
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU8 as LoomByte};
    use loom::thread;

    atomic_byte!(LoomByte);

    /// Times that a thread which could go on has to give way to another.
    const PREEMPTIONS: usize = 3;

    struct World {
        word: WakeWord<LoomByte>,
        bell: Bell,
        /// Messages: that they are seen is to follow from the word alone.
        posted: [AtomicBool; 2],
    }

    impl World {
        fn post(&self, which: usize) {
            self.posted[which].store(true, Ordering::Relaxed);
            if self.word.wake() {
                self.bell.ring();
            }
        }

        /// The steps of `Reactor::wait`; returns whether it reports `Woken`. `interrupted`: something else than the bell ends its sleep.
        fn wait(&self, interrupted: bool) -> bool {
            if self.word.take_notice() {
                return true;
            }
            if !self.word.begin_sleep() {
                return self.word.take_notice();
            }
            if !interrupted {
                self.bell.wait();
                self.bell.empty();
            }
            self.word.end_sleep()
        }

        /// Waits until both messages were seen. A wake-up that is lost leaves it asleep, which loom reports.
        fn owner(&self, interruptions: usize) {
            let mut looks = 0;
            let mut seen = [false; 2];
            while seen != [true; 2] {
                let woken = self.wait(looks < interruptions);
                looks += 1;
                if woken {
                    seen = [0, 1].map(|which| self.posted[which].load(Ordering::Relaxed));
                    assert!(seen.contains(&true), "woken, and there is nothing to be seen");
                }
            }
        }
    }

    fn explore(interruptions: usize, one_poster: bool) {
        explored::explore(PREEMPTIONS, move || {
            let posted = [AtomicBool::new(false), AtomicBool::new(false)];
            let world = Arc::new(World { word: WakeWord::new(), bell: Bell::default(), posted });
            let posters: &[&'static [usize]] = if one_poster { &[&[0, 1]] } else { &[&[0], &[1]] };
            let threads: Vec<_> = posters
                .iter()
                .map(|&messages| {
                    let world = Arc::clone(&world);
                    thread::spawn(move || messages.iter().for_each(|&message| world.post(message)))
                })
                .collect();
            world.owner(interruptions);
            threads.into_iter().for_each(|thread| thread.join().expect("nobody panics"));
        });
    }

    #[test]
    fn no_wake_up_is_lost() {
        explore(0, true);
        explore(0, false);
    }

    #[test]
    fn no_wake_up_is_lost_when_something_else_ends_the_sleep() {
        explore(1, true);
        explore(1, false);
    }
}
