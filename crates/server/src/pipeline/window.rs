//! How much may be on its way to one other thread: the rest waits here.
//!
//! Holds: at most `limit` are out at a time; what is pushed comes out once, in order, or is withdrawn
//!        (`mailbox`'s interleavings use it between threads).

use crate::intrusive_list::{Links, List};
use crate::slab::{Key, Slab};

/// Things for another thread, of which a bounded number is out.
pub(crate) struct Window<T> {
    limit: usize,
    out: usize,
    waiting: Slab<T>,
    links: Links,
    order: List,
}

impl<T> Window<T> {
    /// A window that lets `limit` out at a time.
    pub(crate) fn new(limit: usize) -> Window<T> {
        Window { limit, out: 0, waiting: Slab::new(), links: Links::default(), order: List::default() }
    }

    /// One more waits. Answers its name for as long as it does.
    pub(crate) fn push(&mut self, item: T) -> Key {
        let key = self.waiting.insert(item);
        self.links.push(&mut self.order, key);
        key
    }

    /// The next one that may go, counted as out until [`Window::on_answer`].
    pub(crate) fn next(&mut self) -> Option<T> {
        if self.out == self.limit {
            return None;
        }
        let item = self.withdraw(self.links.first(&self.order)?)?;
        self.out += 1;
        Some(item)
    }

    /// One that was out has been answered, or was not taken.
    pub(crate) fn on_answer(&mut self) {
        assert!(self.out > 0, "an answer to something that is not out");
        self.out -= 1;
    }

    /// Takes back one that waits; `None` if it has gone out.
    pub(crate) fn withdraw(&mut self, key: Key) -> Option<T> {
        let item = self.waiting.remove(key)?;
        self.links.remove(&mut self.order, key);
        Some(item)
    }

    /// Takes back all that wait, in order.
    pub(crate) fn withdraw_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.withdraw(self.links.first(&self.order)?)).collect()
    }
}
