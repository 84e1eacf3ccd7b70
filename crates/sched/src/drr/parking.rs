//! IOs that had their turn, are charged and have their room in the SSD, but wait for something else: they are *parked*.
//!
//! Outside of the scheduler a parked IO is still queued, under the ticket that it was given. Its tenant's next IO is
//! the tenant's head.
//!
//! Elsewhere: the scheduler decides which IOs are parked, and in which order they go (`gimbal`).

use super::{Drr, Head, Rules};
use crate::{Io, Mark, Ticket};
use units::{Instant, TenantId};

impl<R: Rules> Drr<R> {
    /// Takes the head out of the round, as if for the SSD, and parks it with this `number`.
    pub(crate) fn park(&mut self, now: Instant, head: &Head, number: u32) -> Ticket {
        let queue = &mut self.tenants[head.tenant.index()].queue;
        let (ticket, io) = queue.lift(&self.config.class_quotas, number).expect("the head is queued");
        let mark = self.charge(now, head, &io);
        self.tenants[head.tenant.index()].queue.mark(ticket, mark);
        ticket
    }

    /// A parked IO.
    pub(crate) fn parked(&self, id: TenantId, ticket: Ticket) -> &Io {
        self.tenants[id.index()].queue.get(ticket)
    }

    /// The number of an IO, if it is parked.
    pub(crate) fn parked_number(&self, id: TenantId, ticket: Ticket) -> Option<u32> {
        self.tenants.get(id.index())?.queue.lifted(ticket)
    }

    /// Gives out a parked IO to the SSD.
    pub(crate) fn submit_parked(&mut self, id: TenantId, ticket: Ticket) -> Io {
        self.backlog.queued -= 1;
        self.backlog.in_flight += 1;
        self.tenants[id.index()].queue.take_lifted(ticket)
    }

    /// Takes back a parked IO. Its slot counts it as one that has ended, and its cost is not given back.
    pub(crate) fn withdraw_parked(&mut self, id: TenantId, ticket: Ticket) -> Io {
        let io = self.tenants[id.index()].queue.take_lifted(ticket);
        self.backlog.queued -= 1;
        self.free(id, io.mark);
        Io { mark: Mark::default(), ..io }
    }
}
