//! Queues of IOs from which one in the middle is taken at the price of one at the front.
//!
//! A host that disconnects takes back its queued IOs, which lie among the IOs of others and of its own other connections. Walking the
//! queue for that costs the square of its length when many connections end at once. So the IOs are in one table,
//! each with the places of its neighbours, and an arrival returns the IO's own place: its [`Ticket`].
//!
//! ```text
//!   spots:   [ io, ◄3, 2► │ free ─► … │ io, ◄0, ─ │ io, ─, 0► ]      ends of line 0: 3 … 2
//! ```
//!
//! An IO that is *lifted* has left its line, but keeps its spot, and so its ticket, until it is taken.
//!
//! Holds: lines keep their order when any IO is taken out (`lines_keep_their_order_whatever_is_taken_out`); no operation on one IO
//!        touches more than four spots (`a_withdrawal_costs_no_more_the_more_are_queued`).

use crate::{Io, Ticket};
use alloc::vec::Vec;

/// No spot.
const NONE: u32 = u32::MAX;
/// The previous one of an IO that was lifted; its next one is its number.
const LIFTED: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
struct Spot {
    /// `None`: the spot is free, and `next` the next free one.
    io: Option<Io>,
    previous: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// `N` lines of IOs in one table.
#[derive(Clone, Debug)]
pub(crate) struct Lines<const N: usize> {
    spots: Vec<Spot>,
    free: u32,
    ends: [Ends; N],
    len: usize,
}

impl<const N: usize> Default for Lines<N> {
    fn default() -> Lines<N> {
        Lines { spots: Vec::new(), free: NONE, ends: [Ends { first: NONE, last: NONE }; N], len: 0 }
    }
}

impl<const N: usize> Lines<N> {
    /// IOs in all lines.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether no line has an IO.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this line has no IO.
    #[inline]
    pub(crate) fn is_line_empty(&self, line: usize) -> bool {
        self.ends[line].first == NONE
    }

    /// Puts an IO at the end of a line.
    #[inline]
    pub(crate) fn push(&mut self, line: usize, io: Io) -> Ticket {
        let last = self.ends[line].last;
        let spot = Spot { io: Some(io), previous: last, next: NONE };
        let own = match self.free {
            NONE => {
                self.spots.push(spot);
                u32::try_from(self.spots.len() - 1).expect("more IOs than a ticket can name")
            }
            own => {
                let place = self.spot(own);
                let next_free = place.next;
                *place = spot;
                self.free = next_free;
                own
            }
        };
        match last {
            NONE => self.ends[line].first = own,
            last => self.spot(last).next = own,
        }
        self.ends[line].last = own;
        self.len += 1;
        Ticket(own)
    }

    /// The first IO of a line.
    #[inline]
    pub(crate) fn front(&self, line: usize) -> Option<&Io> {
        match self.ends[line].first {
            NONE => None,
            first => self.spots[first as usize].io.as_ref(),
        }
    }

    /// The first IO of a line and its ticket.
    #[inline]
    pub(crate) fn front_ticket(&self, line: usize) -> Option<(Ticket, &Io)> {
        self.front(line).map(|io| (Ticket(self.ends[line].first), io))
    }

    /// Takes the first IO of a line.
    #[inline]
    pub(crate) fn pop(&mut self, line: usize) -> Option<Io> {
        let first = self.ends[line].first;
        if first == NONE {
            return None;
        }
        let free = core::mem::replace(&mut self.free, first);
        let spot = self.spot(first);
        let next = core::mem::replace(&mut spot.next, free);
        let io = spot.io.take();
        self.ends[line].first = next;
        match next {
            NONE => self.ends[line].last = NONE,
            next => self.spot(next).previous = NONE,
        }
        self.len -= 1;
        io
    }

    /// Takes the first IO of a line out of it, but leaves it its ticket. Until [`Lines::take_lifted`] it has this `number`.
    pub(crate) fn lift(&mut self, line: usize, number: u32) -> Option<(Ticket, Io)> {
        let first = self.ends[line].first;
        if first == NONE {
            return None;
        }
        let spot = self.spot(first);
        let io = spot.io.expect("spots in lines are taken");
        let next = core::mem::replace(&mut spot.next, number);
        spot.previous = LIFTED;
        self.ends[line].first = next;
        match next {
            NONE => self.ends[line].last = NONE,
            next => self.spot(next).previous = NONE,
        }
        self.len -= 1;
        Some((Ticket(first), io))
    }

    /// The number of the IO with this ticket, if it was lifted.
    pub(crate) fn lifted(&self, ticket: Ticket) -> Option<u32> {
        let spot = self.spots.get(ticket.0 as usize).filter(|spot| spot.io.is_some())?;
        (spot.previous == LIFTED).then_some(spot.next)
    }

    /// Takes an IO that was lifted.
    ///
    /// # Panics
    /// If it was not.
    pub(crate) fn take_lifted(&mut self, ticket: Ticket) -> Io {
        assert!(self.lifted(ticket).is_some(), "{ticket:?} was not lifted");
        let free = core::mem::replace(&mut self.free, ticket.0);
        let spot = self.spot(ticket.0);
        spot.next = free;
        spot.previous = NONE;
        spot.io.take().expect("it was looked at")
    }

    /// The IO with this ticket.
    ///
    /// # Panics
    /// If it is in no line: the caller's bug.
    pub(crate) fn get(&self, ticket: Ticket) -> &Io {
        let spot = self.spots.get(ticket.0 as usize).and_then(|spot| spot.io.as_ref());
        spot.unwrap_or_else(|| panic!("{ticket:?} is not queued"))
    }

    /// As [`Lines::get`].
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> &mut Io {
        let spot = self.spots.get_mut(ticket.0 as usize).and_then(|spot| spot.io.as_mut());
        spot.unwrap_or_else(|| panic!("{ticket:?} is not queued"))
    }

    /// Takes the IO with this ticket out of its line.
    ///
    /// # Panics
    /// If it is in no line: the caller's bug.
    #[inline]
    pub(crate) fn take(&mut self, line: usize, ticket: Ticket) -> Io {
        let free = self.free;
        let spot = self.spot(ticket.0);
        let io = spot.io.take().unwrap_or_else(|| panic!("{ticket:?} is not queued"));
        let (previous, next) = (spot.previous, spot.next);
        spot.next = free;
        self.free = ticket.0;
        match previous {
            NONE => self.ends[line].first = next,
            previous => self.spot(previous).next = next,
        }
        match next {
            NONE => self.ends[line].last = previous,
            next => self.spot(next).previous = previous,
        }
        self.len -= 1;
        io
    }

    /// Takes those IOs of a line for which `gone` returns true, asking from the first to the last.
    pub(crate) fn take_all(&mut self, line: usize, mut gone: impl FnMut(&Io) -> bool) {
        let mut next = self.ends[line].first;
        while next != NONE {
            let own = next;
            let spot = self.spot(own);
            next = spot.next;
            if spot.io.as_ref().is_some_and(&mut gone) {
                self.take(line, Ticket(own));
            }
        }
    }

    /// The tickets of those IOs of a line for which `wanted` returns true, asking from the first to the last.
    pub(crate) fn tickets(&self, line: usize, mut wanted: impl FnMut(&Io) -> bool) -> Vec<Ticket> {
        let mut tickets = Vec::new();
        let mut next = self.ends[line].first;
        while next != NONE {
            let own = next;
            let spot = &self.spots[own as usize];
            next = spot.next;
            if spot.io.as_ref().is_some_and(&mut wanted) {
                tickets.push(Ticket(own));
            }
        }
        tickets
    }

    #[inline]
    fn spot(&mut self, spot: u32) -> &mut Spot {
        #[cfg(test)]
        touched::count();
        &mut self.spots[spot as usize]
    }
}

/// Number of spots touched on this thread.
#[cfg(test)]
pub(crate) mod touched {
    extern crate std;
    use core::cell::Cell;

    std::thread_local!(static TOUCHED: Cell<u64> = const { Cell::new(0) });

    pub(super) fn count() {
        TOUCHED.set(TOUCHED.get() + 1);
    }

    pub(crate) fn so_far() -> u64 {
        TOUCHED.get()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{IoId, IoKind, Mark, Priority};
    use proptest::prelude::*;
    use units::{Bytes, TenantId};

    fn io(id: u64) -> Io {
        Io {
            id: IoId(id),
            tenant: TenantId(0),
            priority: Priority::default(),
            kind: IoKind::Read,
            length: Bytes::kib(4),
            mark: Mark::default(),
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push(usize),
        Pop(usize),
        Take(usize, prop::sample::Index),
        TakeAll(usize, u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        let line = 0..3usize;
        prop_oneof![
            4 => line.clone().prop_map(Op::Push),
            2 => line.clone().prop_map(Op::Pop),
            2 => (line.clone(), any::<prop::sample::Index>()).prop_map(|(line, index)| Op::Take(line, index)),
            1 => (line, 1..5u64).prop_map(|(line, modulus)| Op::TakeAll(line, modulus)),
        ]
    }

    proptest! {
        #![proptest_config(crate::random_cases(300))]

        #[test]
        fn lines_keep_their_order_whatever_is_taken_out(ops in prop::collection::vec(op(), 0..200)) {
            let mut lines = Lines::<3>::default();
            let mut naive: [Vec<(Ticket, Io)>; 3] = [Vec::new(), Vec::new(), Vec::new()];
            for (id, op) in (0..).zip(ops) {
                match op {
                    Op::Push(line) => naive[line].push((lines.push(line, io(id)), io(id))),
                    Op::Pop(line) => {
                        let expected = (!naive[line].is_empty()).then(|| naive[line].remove(0).1);
                        prop_assert_eq!(lines.pop(line), expected);
                    }
                    Op::Take(line, index) if !naive[line].is_empty() => {
                        let (ticket, expected) = naive[line].remove(index.index(naive[line].len()));
                        prop_assert_eq!(*lines.get(ticket), expected);
                        prop_assert_eq!(lines.take(line, ticket), expected);
                    }
                    Op::Take(..) => {}
                    Op::TakeAll(line, modulus) => {
                        let mut asked = Vec::new();
                        lines.take_all(line, |io| {
                            asked.push(io.id);
                            io.id.0 % modulus == 0
                        });
                        prop_assert_eq!(asked, naive[line].iter().map(|(_, io)| io.id).collect::<Vec<_>>());
                        naive[line].retain(|(_, io)| io.id.0 % modulus != 0);
                    }
                }
                prop_assert_eq!(lines.len(), naive.iter().map(Vec::len).sum::<usize>());
                for (line, naive) in naive.iter().enumerate() {
                    prop_assert_eq!(lines.front(line), naive.first().map(|(_, io)| io));
                    prop_assert_eq!(lines.is_line_empty(line), naive.is_empty());
                }
            }
            prop_assert!(lines.spots.len() <= 200, "spots are not used again");
        }
    }

    #[test]
    fn what_was_lifted_keeps_its_ticket() {
        let mut lines = Lines::<2>::default();
        let tickets = [0, 1, 2].map(|id| lines.push(0, io(id)));
        let lifted = lines.lift(0, 7).expect("three are there");
        assert_eq!((lifted.0, lifted.1.id), (tickets[0], IoId(0)));
        assert_eq!(tickets.map(|ticket| lines.lifted(ticket)), [Some(7), None, None]);
        assert_eq!((lines.len(), lines.front(0).map(|io| io.id)), (2, Some(IoId(1))));
        assert_ne!(lines.push(1, io(3)), tickets[0], "the ticket is still in use");
        assert_eq!(lines.get(tickets[0]).id, IoId(0));
        assert_eq!(lines.take_lifted(tickets[0]).id, IoId(0));
        assert_eq!(lines.lifted(tickets[0]), None);
        assert_eq!(lines.push(1, io(4)), tickets[0], "the spot is used again");
        assert_eq!(
            (lines.pop(0).map(|io| io.id), lines.lift(1, 0).map(|(_, io)| io.id)),
            (Some(IoId(1)), Some(IoId(3)))
        );
        assert_eq!((lines.lift(0, 1).map(|(_, io)| io.id), lines.lift(0, 2)), (Some(IoId(2)), None));
    }

    #[test]
    fn spots_are_used_again() {
        let mut lines = Lines::<1>::default();
        let kept = lines.push(0, io(0));
        for id in 1..1000 {
            let ticket = lines.push(0, io(id));
            lines.take(0, ticket);
        }
        assert_eq!((lines.spots.len(), lines.take(0, kept).id), (2, IoId(0)));
    }
}
