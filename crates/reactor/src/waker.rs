//! Waking a reactor from another thread.
//!
//! A word holds the reactor's state (`wake_word`, which also explains why no wake-up is lost); an eventfd ends its
//! sleep.

use crate::wake_word::WakeWord;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::Arc;

struct Shared {
    word: WakeWord,
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
        // SAFETY: `fd` is new and has no other owner.
        let eventfd = unsafe { File::from_raw_fd(fd) };
        Ok(Waker { shared: Arc::new(Shared { word: WakeWord::new(), eventfd }) })
    }

    /// Wakes the reactor. Once the reactor no longer exists this does nothing.
    pub fn wake(&self) {
        if self.shared.word.wake() {
            // An eventfd of ours does not fail, and is full only after 2^64 sleeps without a read.
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
        self.shared.word.take_notice()
    }

    /// Announces that the reactor is about to sleep; `false` if it must not, as there was a wake-up.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.shared.word.begin_sleep()
    }

    /// Marks the reactor as awake. Returns whether there was a wake-up meanwhile.
    pub(crate) fn end_sleep(&self) -> bool {
        self.shared.word.end_sleep()
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
