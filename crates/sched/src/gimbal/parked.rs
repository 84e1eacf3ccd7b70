//! IOs that had their turn while their bucket could not pay: they wait aside, in one line, and others may overtake
//! them.
//!
//! ```text
//!   step (an arrival, a completion, or the instant that was asked for):
//!     1. from the line, in order, as long as its first IO can be paid
//!     2. from the round, as long as its head can be paid; the first that cannot joins the line, and ends the step
//! ```
//!
//! An IO in the line has its slot, and its deficit is charged. So a tenant can have no more IOs here than its slots hold.
//!
//! Holds: an IO that is taken back leaves no gap at which the line would stop (`the_line_keeps_its_order`).
//! Elsewhere: their IOs are in the queues of their tenants (`drr/parking.rs`).
//! From the authors' release; the paper's text has another order (`GimbalOrder`). The release polls every millisecond;
//! here every wait names its instant.

use crate::Ticket;
use alloc::collections::VecDeque;
use units::{Instant, TenantId};

/// The line, and the rest of the step.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    /// `None`: taken back.
    line: VecDeque<Option<(TenantId, Ticket)>>,
    /// The number of the first.
    first: u32,
    /// Whether an IO may still join in this step.
    is_open: bool,
    /// When the next step begins, if nothing happens before.
    asked_for: Option<Instant>,
}

impl Parked {
    /// An empty line.
    pub(super) fn new() -> Parked {
        Parked { line: VecDeque::new(), first: 0, is_open: true, asked_for: None }
    }

    /// Begins a step.
    #[inline]
    pub(super) fn step(&mut self) {
        self.is_open = true;
    }

    /// Begins a step if this is the instant that was asked for.
    #[inline]
    pub(super) fn step_if_due(&mut self, now: Instant) {
        if self.asked_for.is_some_and(|at| now >= at) {
            self.asked_for = None;
            self.is_open = true;
        }
    }

    /// Notes that the caller will come back at this instant.
    pub(super) fn ask_for(&mut self, at: Instant) {
        self.asked_for = Some(at);
    }

    /// Whether an IO may still join in this step.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The first of the line.
    #[inline]
    pub(super) fn front(&self) -> Option<(TenantId, Ticket)> {
        *self.line.front()?
    }

    /// The number of the next one that joins.
    pub(super) fn number(&self) -> u32 {
        self.first.wrapping_add(self.line.len() as u32)
    }

    /// Adds an IO to the line, which ends the step.
    pub(super) fn push(&mut self, id: TenantId, ticket: Ticket) {
        self.line.push_back(Some((id, ticket)));
        self.is_open = false;
    }

    /// Removes the first IO.
    pub(super) fn pop(&mut self) {
        self.remove(self.first);
    }

    /// Removes the IO with this number, wherever it is.
    pub(super) fn remove(&mut self, number: u32) {
        self.line[number.wrapping_sub(self.first) as usize] = None;
        while let Some(None) = self.line.front() {
            self.line.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The IOs of a tenant in the line, in its order.
    pub(super) fn of(&self, tenant: TenantId) -> impl Iterator<Item = Ticket> {
        self.line.iter().flatten().filter(move |(id, _)| *id == tenant).map(|(_, ticket)| *ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_keeps_its_order() {
        let mut parked = Parked { first: u32::MAX - 1, ..Parked::new() };
        let ids = [0, 1, 2, 3].map(TenantId);
        let numbers = ids.map(|id| {
            let number = parked.number();
            parked.push(id, Ticket(id.0));
            number
        });
        assert_eq!(numbers, [u32::MAX - 1, u32::MAX, 0, 1]);
        parked.remove(numbers[1]);
        parked.remove(numbers[2]);
        assert_eq!(parked.front(), Some((ids[0], Ticket(0))));
        assert_eq!(parked.of(ids[1]).count(), 0);
        parked.pop();
        assert_eq!(parked.front(), Some((ids[3], Ticket(3))));
        parked.remove(numbers[3]);
        assert_eq!((parked.front(), parked.line.len(), parked.number()), (None, 0, 2));
    }

    #[test]
    fn one_io_joins_in_a_step() {
        let mut parked = Parked::new();
        assert!(parked.is_open());
        parked.push(TenantId(0), Ticket(0));
        assert!(!parked.is_open());
        parked.ask_for(Instant(5));
        parked.step_if_due(Instant(4));
        assert!(!parked.is_open());
        parked.step_if_due(Instant(5));
        assert!(parked.is_open());
        parked.push(TenantId(0), Ticket(1));
        parked.step_if_due(Instant(9));
        assert!(!parked.is_open(), "that instant was asked for once");
        parked.step();
        assert!(parked.is_open());
    }
}
