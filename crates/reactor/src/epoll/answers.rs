//! Answers of the disk threads on their way to the reactor, and the bell that announces them.
//!
//! A thread puts its answer in, and rings if it was the first. The reactor empties the bell, and then takes all
//! answers. In this order no answer stays unannounced: one that comes before the taking is taken; one that comes after
//! it finds the list empty, and rings a bell that was emptied before.
//!
//! Holds: every answer is taken once, and the reactor never sleeps over one (`interleavings`, by loom on this very code).

use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// A list that threads share: the standard one, or one that a test runs in every interleaving.
pub(super) trait Shared<T> {
    fn locked<R>(&self, look: impl FnOnce(&mut Vec<T>) -> R) -> R;
}

/// An event to wait for: an eventfd, or one that a test runs in every interleaving.
pub(super) trait Bell {
    fn ring(&self);
    fn empty(&self);
}

impl<T> Shared<T> for Mutex<Vec<T>> {
    fn locked<R>(&self, look: impl FnOnce(&mut Vec<T>) -> R) -> R {
        // A panic under the lock can only be a failed push; the list is whole either way.
        look(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An eventfd.
pub(super) struct EventFd(File);

impl EventFd {
    fn new() -> io::Result<EventFd> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is new and has no other owner.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }
}

impl Bell for EventFd {
    fn ring(&self) {
        // An eventfd of ours that the reactor empties neither fills up nor fails.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    fn empty(&self) {
        let mut count = [0; mem::size_of::<u64>()];
        // Called when it is readable, so this does not block; the count does not matter.
        let _ = (&self.0).read(&mut count);
    }
}

/// The answers that wait to be taken.
pub(super) struct Answers<T, L = Mutex<Vec<T>>, B = EventFd> {
    list: L,
    bell: B,
    answer: PhantomData<fn(T)>,
}

impl<T> Answers<T> {
    /// A list without answers.
    pub(super) fn new() -> io::Result<Answers<T>> {
        Ok(Answers { list: Mutex::default(), bell: EventFd::new()?, answer: PhantomData })
    }

    /// The descriptor that is readable while there are answers.
    pub(super) fn fd(&self) -> RawFd {
        self.bell.0.as_raw_fd()
    }
}

impl<T, L: Shared<T>, B: Bell> Answers<T, L, B> {
    /// Adds an answer.
    pub(super) fn put(&self, answer: T) {
        let is_first = self.list.locked(|answers| {
            answers.push(answer);
            answers.len() == 1
        });
        if is_first {
            self.bell.ring();
        }
    }

    /// All that have come since the last call; to be called when the bell has rung.
    pub(super) fn take(&self) -> Vec<T> {
        self.bell.empty();
        self.list.locked(mem::take)
    }
}

#[cfg(test)]
mod interleavings {
    use super::*;
    use crate::explored::{self, explore};
    use loom::sync::{Arc, Mutex as LoomMutex};
    use loom::thread;

    /// Times that a thread which could go on has to give way to another.
    const PREEMPTIONS: usize = 3;

    impl<T> Shared<T> for LoomMutex<Vec<T>> {
        fn locked<R>(&self, look: impl FnOnce(&mut Vec<T>) -> R) -> R {
            look(&mut self.lock().expect("nobody panics"))
        }
    }

    impl Bell for explored::Bell {
        fn ring(&self) {
            explored::Bell::ring(self);
        }

        fn empty(&self) {
            assert!(explored::Bell::empty(self), "emptied without having been rung: an eventfd would block");
        }
    }

    #[test]
    fn every_answer_is_taken_once_and_none_is_slept_over() {
        explore(PREEMPTIONS, || {
            let list = LoomMutex::new(Vec::new());
            let answers: Answers<u8, _, _> =
                Answers { list, bell: explored::Bell::default(), answer: PhantomData };
            let answers = Arc::new(answers);
            let threads: Vec<_> = [&[1, 2][..], &[3][..]]
                .into_iter()
                .map(|jobs| {
                    let answers = Arc::clone(&answers);
                    thread::spawn(move || jobs.iter().for_each(|&job| answers.put(job)))
                })
                .collect();
            let mut taken = Vec::new();
            while taken.len() < 3 {
                answers.bell.wait();
                taken.extend(answers.take());
            }
            taken.sort_unstable();
            assert_eq!(taken, [1, 2, 3]);
            threads.into_iter().for_each(|thread| thread.join().expect("nobody panics"));
        });
    }
}
