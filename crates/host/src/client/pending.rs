//! An answer that is still to come: await it, or block until it is there.
//!
//! Holds: there is exactly one answer, even if the completer is dropped without one
//!        (`a_dropped_completer_still_answers`).

use super::{ClientError, ConnectFailure, Controller, Outcome, lock};
use crate::request::IoError;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use units::Nanos;

/// The answer if the completer is dropped.
pub(super) trait Forlorn {
    fn forlorn() -> Self;
}

impl Forlorn for Outcome {
    fn forlorn() -> Outcome {
        let result = Err(ClientError::Failed(IoError::ControllerGone));
        Outcome { result, buffer: None, service_time: Nanos::ZERO }
    }
}

impl Forlorn for () {
    fn forlorn() {}
}

impl Forlorn for Result<Controller, ConnectFailure> {
    fn forlorn() -> Self {
        Err(ConnectFailure::ClientEnded)
    }
}

struct State<T> {
    answer: Option<T>,
    waker: Option<Waker>,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    answered: Condvar,
}

/// The end that answers.
pub(super) struct Completer<T: Forlorn> {
    slot: Option<Arc<Slot<T>>>,
}

/// The end that waits: a future, or [`Pending::wait`]. Dropping it does not cancel the order.
#[must_use = "an order that is not awaited may fail unnoticed"]
pub struct Pending<T> {
    slot: Arc<Slot<T>>,
}

/// Creates both ends.
pub(super) fn pending<T: Forlorn>() -> (Completer<T>, Pending<T>) {
    let state = Mutex::new(State { answer: None, waker: None });
    let slot = Arc::new(Slot { state, answered: Condvar::new() });
    (Completer { slot: Some(Arc::clone(&slot)) }, Pending { slot })
}

impl<T> Slot<T> {
    fn answer(&self, answer: T) {
        let mut state = lock(&self.state);
        state.answer = Some(answer);
        let waker = state.waker.take();
        drop(state);
        self.answered.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T: Forlorn> Completer<T> {
    pub(super) fn complete(mut self, answer: T) {
        if let Some(slot) = self.slot.take() {
            slot.answer(answer);
        }
    }
}

impl<T: Forlorn> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.answer(T::forlorn());
        }
    }
}

impl<T> Pending<T> {
    /// Blocks the calling thread until there is an answer.
    pub fn wait(self) -> T {
        let mut state = lock(&self.slot.state);
        loop {
            match state.answer.take() {
                Some(answer) => return answer,
                None => state = self.slot.answered.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = lock(&self.slot.state);
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waiting_task_is_woken_once() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let mut context = Context::from_waker(&waker);
        let (completer, mut pending) = pending::<()>();
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        completer.complete(());
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(Pin::new(&mut pending).poll(&mut context).is_ready());
    }

    #[test]
    fn a_dropped_completer_still_answers() {
        let (completer, pending) = pending::<Outcome>();
        let waiter = std::thread::spawn(|| pending.wait());
        drop(completer);
        let outcome = waiter.join().expect("the thread only waits");
        assert_eq!(outcome.result, Err(ClientError::Failed(IoError::ControllerGone)));
    }
}
