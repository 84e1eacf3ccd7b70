//! How much may be on its way to one other thread: the rest waits here.
//!
//! Holds: at most `limit` are out at a time; what is pushed comes out once, in order, or is withdrawn
//!        (`mailbox`'s interleavings use it between threads).

use std::collections::VecDeque;

/// Things for another thread, of which a bounded number is out.
pub(crate) struct Window<T> {
    limit: usize,
    out: usize,
    waiting: VecDeque<T>,
}

impl<T> Window<T> {
    /// A window that lets `limit` out at a time.
    pub(crate) fn new(limit: usize) -> Window<T> {
        Window { limit, out: 0, waiting: VecDeque::new() }
    }

    /// One more waits.
    pub(crate) fn push(&mut self, item: T) {
        self.waiting.push_back(item);
    }

    /// The next one that may go, counted as out until [`Window::on_answer`].
    pub(crate) fn next(&mut self) -> Option<T> {
        if self.out == self.limit {
            return None;
        }
        let item = self.waiting.pop_front()?;
        self.out += 1;
        Some(item)
    }

    /// One that was out has been answered, or was not taken.
    pub(crate) fn on_answer(&mut self) {
        assert!(self.out > 0, "an answer to something that is not out");
        self.out -= 1;
    }

    /// Takes back those that wait and are `gone`.
    pub(crate) fn withdraw(&mut self, gone: impl Fn(&T) -> bool) -> Vec<T> {
        let (taken, kept): (VecDeque<T>, VecDeque<T>) = self.waiting.drain(..).partition(gone);
        self.waiting = kept;
        taken.into()
    }
}
