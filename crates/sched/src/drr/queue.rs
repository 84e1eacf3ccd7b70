//! One tenant's queue: four priority classes, served by weighted round robin.
//!
//! The most urgent class with backlog goes first, as long as it has quota left in this cycle; when no class with backlog
//! has any, a new cycle begins. So an urgent IO overtakes at once, and the least urgent class still gets its one in 23.
//!
//! Holds: order within a class is the order of arrival (`a_class_keeps_its_order`);
//!        under full backlog each cycle serves each class exactly its quota (`a_cycle_serves_each_class_its_quota`).
//! Elsewhere: which tenant is served is `drr`.
//! Paper: Gimbal §3.5; quotas 16/4/2/1 from the authors' release.

use crate::lines::Lines;
use crate::{Io, Mark, Priority, Ticket};

/// The IOs of one tenant that wait for submission.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassQueues {
    classes: Lines<{ Priority::CLASSES }>,
    /// IOs of each class that were served in this cycle.
    served: [u32; Priority::CLASSES],
    /// The classes with backlog.
    backlogged: Classes,
    /// The classes that have used up their quota in this cycle.
    spent: Classes,
}

impl ClassQueues {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, io: Io) -> Ticket {
        let class = io.priority.index();
        self.backlogged.add(class);
        self.classes.push(class, io)
    }

    /// The IO that [`ClassQueues::pop`] would take.
    #[inline]
    pub(super) fn head(&self) -> Option<&Io> {
        let class = self.backlogged.without(self.spent).first().or_else(|| self.backlogged.first())?;
        self.classes.front(class)
    }

    #[inline]
    pub(super) fn pop(&mut self, quotas: &[u32; Priority::CLASSES]) -> Option<Io> {
        let class = self.take_turn(quotas)?;
        let io = self.classes.pop(class);
        self.look_at(class);
        io
    }

    /// As [`ClassQueues::pop`], but the IO stays under its ticket, with this `number`, until [`ClassQueues::take_lifted`].
    pub(super) fn lift(&mut self, quotas: &[u32; Priority::CLASSES], number: u32) -> Option<(Ticket, Io)> {
        let class = self.take_turn(quotas)?;
        let lifted = self.classes.lift(class, number);
        self.look_at(class);
        lifted
    }

    /// The number of the IO with this ticket, if it was lifted.
    pub(super) fn lifted(&self, ticket: Ticket) -> Option<u32> {
        self.classes.lifted(ticket)
    }

    /// The IO with this ticket.
    pub(super) fn get(&self, ticket: Ticket) -> &Io {
        self.classes.get(ticket)
    }

    /// Gives an IO that was lifted its mark.
    pub(super) fn mark(&mut self, ticket: Ticket, mark: Mark) {
        self.classes.get_mut(ticket).mark = mark;
    }

    /// Takes an IO that was lifted.
    pub(super) fn take_lifted(&mut self, ticket: Ticket) -> Io {
        self.classes.take_lifted(ticket)
    }

    /// The class of the next IO; counts that IO against the class's quota.
    #[inline]
    fn take_turn(&mut self, quotas: &[u32; Priority::CLASSES]) -> Option<usize> {
        let class = match self.backlogged.without(self.spent).first() {
            Some(class) => class,
            None => {
                let class = self.backlogged.first()?;
                (self.served, self.spent) = ([0; Priority::CLASSES], Classes::default());
                class
            }
        };
        self.served[class] += 1;
        if self.served[class] >= quotas[class] {
            self.spent.add(class);
        }
        Some(class)
    }

    /// Updates the set of classes with backlog after an IO of this class has left the queue.
    #[inline]
    fn look_at(&mut self, class: usize) {
        if self.classes.is_line_empty(class) {
            self.backlogged.remove(class);
        }
    }

    /// Takes out one IO, wherever it is in the queue.
    pub(super) fn withdraw_one(&mut self, ticket: Ticket) -> Io {
        let class = self.classes.get(ticket).priority.index();
        let io = self.classes.take(class, ticket);
        self.look_at(class);
        io
    }

    /// Removes the IOs for which `gone` returns true; asks in class order, within a class in order of arrival.
    pub(super) fn withdraw(&mut self, gone: &mut dyn FnMut(&Io) -> bool) {
        for class in 0..Priority::CLASSES {
            self.classes.take_all(class, &mut *gone);
            self.look_at(class);
        }
    }
}

/// A set of classes, one bit each.
#[derive(Clone, Copy, Debug, Default)]
struct Classes(u8);

impl Classes {
    fn add(&mut self, class: usize) {
        self.0 |= 1 << class;
    }

    fn remove(&mut self, class: usize) {
        self.0 &= !(1 << class);
    }

    fn without(self, others: Classes) -> Classes {
        Classes(self.0 & !others.0)
    }

    /// The most urgent class in the set. (It is in range as it is; said so that the compiler has no range to check.)
    #[inline]
    fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize % Priority::CLASSES)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{IoId, IoKind};
    use std::vec::Vec;
    use units::{Bytes, TenantId};

    const QUOTAS: [u32; 4] = [16, 4, 2, 1];

    fn io(id: u64, class: u8) -> Io {
        Io {
            id: IoId(id),
            tenant: TenantId(0),
            priority: Priority::new(class).expect("there are four classes"),
            kind: IoKind::Read,
            length: Bytes::kib(4),
            mark: Mark::default(),
        }
    }

    fn full(per_class: u64) -> ClassQueues {
        let mut queue = ClassQueues::default();
        for id in 0..per_class * 4 {
            queue.push(io(id, (id % 4) as u8));
        }
        queue
    }

    #[test]
    fn a_cycle_serves_each_class_its_quota() {
        let mut queue = full(100);
        for cycle in 0..6 {
            let mut served = [0; 4];
            for _ in 0..23 {
                served[queue.pop(&QUOTAS).expect("there is backlog").priority.index()] += 1;
            }
            assert_eq!(served, QUOTAS, "in cycle {cycle}");
        }
    }

    #[test]
    fn a_class_keeps_its_order() {
        let mut queue = full(50);
        let mut last: [Option<IoId>; 4] = [None; 4];
        while let Some(io) = queue.pop(&QUOTAS) {
            let last = &mut last[io.priority.index()];
            assert!(*last < Some(io.id), "{io:?} after {last:?}");
            *last = Some(io.id);
        }
    }

    #[test]
    fn the_head_is_what_is_popped() {
        let mut queue = full(30);
        while let Some(&head) = queue.head() {
            assert_eq!(queue.pop(&QUOTAS), Some(head));
        }
        assert!(queue.is_empty() && queue.pop(&QUOTAS).is_none());
    }

    #[test]
    fn an_urgent_io_overtakes_at_once() {
        let mut queue = ClassQueues::default();
        queue.push(io(0, 3));
        queue.push(io(1, 0));
        assert_eq!(queue.pop(&QUOTAS).map(|io| io.id), Some(IoId(1)));
    }

    #[test]
    fn withdrawing_takes_what_it_is_asked_to_and_keeps_the_rest_in_order() {
        let mut queue = full(3);
        let mut gone = Vec::new();
        queue.withdraw(&mut |io| {
            let odd = io.id.0 % 2 == 1;
            if odd {
                gone.push(io.id.0);
            }
            odd
        });
        assert_eq!(gone, [1, 5, 9, 3, 7, 11]);
        assert_eq!(queue.len(), 6);
        let rest: Vec<u64> = std::iter::from_fn(|| queue.pop(&QUOTAS)).map(|io| io.id.0).collect();
        assert_eq!(rest, [0, 4, 8, 2, 6, 10]);
    }
}
