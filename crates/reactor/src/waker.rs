//! Waking a reactor from another thread.
//!
//! One atomic word says what the reactor is doing, so that a wake-up costs a system call only when the reactor sleeps:
//!
//!   AWAKE --reactor goes to sleep--> ASLEEP --reactor comes back--> AWAKE
//!   any --wake()--> NOTIFIED (and, if it was ASLEEP, a write to the eventfd the reactor sleeps on)
//!   NOTIFIED --reactor reports Woken--> AWAKE
//!
//! Why nothing is lost: the other thread first puts its message where the reactor's owner will look, then swaps in NOTIFIED;
//! the reactor swaps NOTIFIED out before it reports `Woken`, and the owner looks after that. All changes of the word are
//! read-modify-writes with acquire and release, so the reactor's swap sees every message whose `wake` came before it, even
//! one that found NOTIFIED there already and did nothing more. A `wake` that comes after it leaves NOTIFIED behind; then
//! either the reactor's exchange AWAKE -> ASLEEP fails and it does not sleep, or the `wake` finds ASLEEP and writes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

struct Shared {
    state: AtomicU8,
    eventfd: File,
}

/// Makes a reactor's `wait` return with [`Event::Woken`](crate::Event::Woken). Cheap to clone and to call: many calls before
/// the reactor looks are one event, and only the one that finds it asleep makes a system call. It may be used in a signal
/// handler: it is an atomic swap and a `write`.
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Waker> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is new and belongs to nobody else.
        let eventfd = unsafe { File::from_raw_fd(fd) };
        Ok(Waker { shared: Arc::new(Shared { state: AtomicU8::new(AWAKE), eventfd }) })
    }

    /// Wakes the reactor. After the reactor is gone this does nothing.
    pub fn wake(&self) {
        if self.shared.state.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP {
            // An eventfd of ours that the reactor empties after each sleep neither fills up nor fails.
            let _ = (&self.shared.eventfd).write(&1u64.to_ne_bytes());
        }
    }

    /// The descriptor that becomes readable when a sleeping reactor is woken.
    pub(crate) fn fd(&self) -> RawFd {
        self.shared.eventfd.as_raw_fd()
    }

    /// Empties the descriptor, which must be readable, so that it can announce the next wake-up.
    pub(crate) fn drain(&self) {
        let mut count = [0; size_of::<u64>()];
        // It is ours and readable, so this neither blocks nor fails; the count is of no interest.
        let _ = (&self.shared.eventfd).read(&mut count);
    }

    /// Whether there was a wake-up since the last call that said so.
    pub(crate) fn take_notice(&self) -> bool {
        self.shared.state.load(Ordering::Relaxed) == NOTIFIED
            && self.shared.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Announces that the reactor is about to sleep; `false` if it must not, as there was a wake-up.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.shared.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The reactor is back; whether there was a wake-up meanwhile.
    pub(crate) fn end_sleep(&self) -> bool {
        self.shared.state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sleeping_reactor_costs_a_write() {
        let waker = Waker::new().expect("an eventfd");
        waker.wake();
        waker.wake();
        assert!(!waker.begin_sleep(), "notified: must not sleep");
        assert!(waker.take_notice() && !waker.take_notice());
        assert!(waker.begin_sleep());
        waker.wake();
        waker.wake();
        assert!(waker.end_sleep());
        let mut count = [0; 8];
        (&waker.shared.eventfd).read_exact(&mut count).expect("one write is there");
        assert_eq!(u64::from_ne_bytes(count), 1);
    }
}
