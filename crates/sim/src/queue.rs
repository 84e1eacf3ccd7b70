//! Future events in order of time; events at the same instant in order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::Instant;

pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    foreseen: u64,
}

struct Entry<E> {
    at: Instant,
    order: u64,
    event: E,
}

impl<E> EventQueue<E> {
    pub(crate) fn new() -> EventQueue<E> {
        EventQueue { heap: BinaryHeap::new(), foreseen: 0 }
    }

    pub(crate) fn push(&mut self, at: Instant, event: E) {
        self.heap.push(Reverse(Entry { at, order: self.foreseen, event }));
        self.foreseen += 1;
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next event, if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<E> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
