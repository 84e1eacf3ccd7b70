//! Ways for a task to wait: a gate that opens when a condition holds, an answer that is given once, several futures at
//! once.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tasks wait at a gate until a condition holds. After each change of state that a condition reads, `notify` must be
/// called.
#[derive(Clone, Default)]
pub(crate) struct Gate(Rc<RefCell<Vec<Waker>>>);

impl Gate {
    /// Waits until `condition` gives a value.
    pub(crate) async fn wait<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match condition() {
            Some(value) => Poll::Ready(value),
            None => {
                let mut waiting = self.0.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }

    /// Lets every waiting task check its condition again.
    pub(crate) fn notify(&self) {
        let waiting: Vec<Waker> = self.0.borrow_mut().drain(..).collect();
        waiting.into_iter().for_each(Waker::wake);
    }
}

struct AnswerState<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// A value that one task waits for and that is given once.
pub(crate) struct Answer<T>(Rc<RefCell<AnswerState<T>>>);

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Answer(Rc::clone(&self.0))
    }
}

impl<T> Answer<T> {
    pub(crate) fn new() -> Answer<T> {
        Answer(Rc::new(RefCell::new(AnswerState { value: None, waker: None })))
    }

    pub(crate) fn give(&self, value: T) {
        let mut state = self.0.borrow_mut();
        state.value = Some(value);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.borrow_mut();
        match state.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Runs futures at the same time; returns their results in the order of the futures.
pub(crate) async fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(move |context| {
        let mut all_done = true;
        for (future, result) in &mut running {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => all_done = false,
                }
            }
        }
        if !all_done {
            return Poll::Pending;
        }
        Poll::Ready(running.iter_mut().filter_map(|(_, result)| result.take()).collect())
    })
    .await
}
