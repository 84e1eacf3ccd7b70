//! One queue for each tenant, in order of arrival, and the counts that every scheduler keeps: the part that the
//! schedulers by others have in common and that decides nothing.
//!
//! Holds: each IO that arrives is queued, in flight or gone, once (`tests/policies/every.rs`).

use crate::lines::Lines;
use crate::{Backlog, Done, Io, Share, Ticket};
use alloc::vec::Vec;
use units::{Instant, TenantId};

/// All tenants' queues.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    tenants: Vec<Queue>,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Queue {
    line: Lines<1>,
    /// When each IO came, by its ticket.
    arrivals: Vec<Instant>,
    in_flight: usize,
    share: Share,
}

impl Queue {
    fn new() -> Queue {
        Queue { line: Lines::default(), arrivals: Vec::new(), in_flight: 0, share: Share::EQUAL }
    }
}

/// Result of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Withdrawn {
    /// Whether the first IO has changed or gone.
    pub(crate) head_changed: bool,
}

impl Queues {
    fn tenant(&mut self, id: TenantId) -> &mut Queue {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, Queue::new);
        }
        &mut self.tenants[id.index()]
    }

    /// Number of tenants that may have been named.
    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    pub(crate) fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.backlog.queued += 1;
        let queue = self.tenant(io.tenant);
        let ticket = queue.line.push(0, io);
        let place = ticket.0 as usize;
        if queue.arrivals.len() <= place {
            queue.arrivals.resize(place + 1, now);
        }
        queue.arrivals[place] = now;
        ticket
    }

    /// The first IO of a tenant and when it came.
    pub(crate) fn head(&self, id: TenantId) -> Option<(&Io, Instant)> {
        let queue = self.tenants.get(id.index())?;
        let (ticket, io) = queue.line.front_ticket(0)?;
        Some((io, queue.arrivals[ticket.0 as usize]))
    }

    /// Whether the tenant has neither queued IOs nor IOs in flight.
    pub(crate) fn is_idle(&self, id: TenantId) -> bool {
        self.tenants.get(id.index()).is_none_or(|queue| queue.line.is_empty() && queue.in_flight == 0)
    }

    /// Gives out a tenant's first IO.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn submit(&mut self, id: TenantId) -> Io {
        let queue = &mut self.tenants[id.index()];
        let io = queue.line.pop(0).expect("something is queued");
        queue.in_flight += 1;
        self.backlog.queued -= 1;
        self.backlog.in_flight += 1;
        io
    }

    pub(crate) fn on_end(&mut self, done: &Done) {
        let queue = self.tenant(done.io.tenant);
        assert!(queue.in_flight > 0, "{done:?} ended but nothing was submitted");
        queue.in_flight -= 1;
        self.backlog.in_flight -= 1;
    }

    pub(crate) fn withdraw_one(&mut self, id: TenantId, ticket: Ticket) -> (Io, Withdrawn) {
        let queue = self.tenant(id);
        let head_changed = queue.line.front_ticket(0).is_some_and(|(first, _)| first == ticket);
        let io = queue.line.take(0, ticket);
        self.backlog.queued -= 1;
        (io, Withdrawn { head_changed })
    }

    pub(crate) fn withdraw(&mut self, id: TenantId, gone: &mut dyn FnMut(&Io) -> bool) -> Withdrawn {
        let queue = self.tenant(id);
        let (before, head) = (queue.line.len(), queue.line.front(0).copied());
        queue.line.take_all(0, gone);
        let head_changed = queue.line.front(0).copied() != head;
        let withdrawn = before - queue.line.len();
        self.backlog.queued -= withdrawn;
        Withdrawn { head_changed }
    }

    pub(crate) fn forget(&mut self, id: TenantId) {
        let queue = self.tenant(id);
        let (queued, in_flight) = (queue.line.len(), queue.in_flight);
        assert!(
            queued == 0 && in_flight == 0,
            "{id} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        *queue = Queue::new();
    }

    pub(crate) fn set_share(&mut self, id: TenantId, share: Share) {
        assert!(share.weight > 0, "{id} is given a weight of zero");
        self.tenant(id).share = share;
    }

    pub(crate) fn share(&self, id: TenantId) -> Share {
        self.tenants.get(id.index()).map_or(Share::EQUAL, |queue| queue.share)
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }
}
