//! The jobs that other threads pass to the volume's thread, and the outcomes that they wait for.

use blob::catalog::{OrderError, Reply};
use blob::{Fault, OrderId, Outcome, Request};
use host::Waker;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A job for the volume's thread.
pub(crate) enum Job {
    Request(Request, Answer),
    Reply(OrderId, Result<Reply, OrderError>),
    Stop,
}

/// Jobs in order. Closed when the volume's thread ends: after that, a job is dropped at once, and so its answer is
/// given.
pub(crate) struct Inbox {
    jobs: Mutex<Option<VecDeque<Job>>>,
    waker: Waker,
}

/// Locks a mutex, also after a panic: no code leaves the data behind these locks half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Inbox {
        Inbox { jobs: Mutex::new(Some(VecDeque::new())), waker }
    }

    /// Adds a job, and wakes the thread.
    pub(crate) fn put(&self, job: Job) {
        self.leave(job);
        self.knock();
    }

    /// Adds a job, which is taken when the thread wakes up.
    pub(crate) fn leave(&self, job: Job) {
        if let Some(jobs) = &mut *lock(&self.jobs) {
            jobs.push_back(job);
        }
    }

    /// Wakes the thread. Must be called without the lock, which the thread would find taken.
    pub(crate) fn knock(&self) {
        self.waker.wake();
    }

    pub(crate) fn take_all(&self) -> VecDeque<Job> {
        lock(&self.jobs).as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn close(&self) {
        drop(lock(&self.jobs).take());
    }
}

#[derive(Default)]
struct Slot {
    state: Mutex<SlotState>,
    is_there: Condvar,
}

#[derive(Default)]
struct SlotState {
    outcome: Option<Outcome>,
    /// Whether a thread sleeps until the outcome comes. If not, the system call to wake it is saved.
    is_awaited: bool,
}

/// The sender of the outcome of a request. If it is dropped without one, the outcome is that the volume is not mounted.
pub(crate) struct Answer(Option<Arc<Slot>>);

impl Answer {
    pub(crate) fn give(mut self, outcome: Outcome) {
        self.fill(outcome);
    }

    fn fill(&mut self, outcome: Outcome) {
        if let Some(slot) = self.0.take() {
            let is_awaited = {
                let mut state = lock(&slot.state);
                state.outcome = Some(outcome);
                state.is_awaited
            };
            if is_awaited {
                slot.is_there.notify_one();
            }
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.fill(Outcome::Failed(Fault::NotMounted));
    }
}

/// A request in progress.
pub struct Ticket(Arc<Slot>);

impl Ticket {
    pub(crate) fn new() -> (Ticket, Answer) {
        let slot = Arc::new(Slot::default());
        (Ticket(Arc::clone(&slot)), Answer(Some(slot)))
    }

    /// Waits for the outcome.
    pub fn wait(self) -> Outcome {
        let mut state = lock(&self.0.state);
        loop {
            match state.outcome.take() {
                Some(outcome) => return outcome,
                None => {
                    state.is_awaited = true;
                    state = self.0.is_there.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Whether the outcome has come, so that `wait` does not block.
    pub fn is_done(&self) -> bool {
        lock(&self.0.state).outcome.is_some()
    }
}
