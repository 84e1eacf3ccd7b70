//! Expected state of every IO ever given to a scheduler, kept apart from the scheduler.

use crate::world::is_withdrawn;
use sched::{Backlog, Io, IoId, Order, Policy};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use units::{Instant, TenantId};

/// The books: each IO waits in a line of its tenant, is in flight, or has ended.
#[derive(Default)]
pub(crate) struct Books {
    /// Which IOs are in one line.
    order: Order,
    /// In order of arrival.
    queued: BTreeMap<(TenantId, usize), VecDeque<IoId>>,
    /// Submitted and not yet ended.
    pub(crate) in_flight: Vec<Io>,
    ended: BTreeSet<IoId>,
    arrived: usize,
}

impl Books {
    /// Of a scheduler that keeps this order.
    pub(crate) fn keeping(order: Order) -> Books {
        Books { order, ..Books::default() }
    }

    pub(crate) fn on_arrival(&mut self, io: &Io) {
        self.arrived += 1;
        self.queued.entry((io.tenant, self.order.line(io))).or_default().push_back(io.id);
    }

    /// Takes back those of a tenant's queued IOs that the world chooses.
    pub(crate) fn withdraw(&mut self, policy: &mut impl Policy, now: Instant, tenant: TenantId) {
        let (order, queued, ended) = (self.order, &mut self.queued, &mut self.ended);
        policy.withdraw(now, tenant, &mut |io| {
            assert_eq!(io.tenant, tenant, "{io:?} belongs to another tenant");
            let gone = is_withdrawn(io);
            if gone {
                let queue = queued.get_mut(&(tenant, order.line(io))).expect("it had arrived");
                let place = queue.iter().position(|&id| id == io.id).expect("it was queued");
                queue.remove(place);
                assert!(ended.insert(io.id), "{io:?} ended twice");
            }
            gone
        });
    }

    /// The scheduler has given out `io`: it must be the first of its line.
    pub(crate) fn on_submit(&mut self, io: Io) {
        let queue = self.queued.get_mut(&(io.tenant, self.order.line(&io)));
        let place = queue.as_ref().and_then(|queue| queue.iter().position(|&id| id == io.id));
        let place = place.unwrap_or_else(|| panic!("{io:?} is lost or repeated"));
        assert!(place == 0 || self.order == Order::None, "{io:?} is out of order within its line");
        queue.and_then(|queue| queue.remove(place));
        self.in_flight.push(io);
    }

    /// Ends an IO in flight.
    pub(crate) fn end(&mut self, index: usize) -> Io {
        let io = self.in_flight.swap_remove(index);
        assert!(self.ended.insert(io.id), "{io:?} ended twice");
        io
    }

    /// Tenants with queued IOs; one with IOs in several lines comes several times.
    pub(crate) fn backlogged(&self) -> impl Iterator<Item = TenantId> {
        self.queued.iter().filter(|(_, queue)| !queue.is_empty()).map(|((tenant, _), _)| *tenant)
    }

    /// The backlog of a scheduler that counts rightly.
    pub(crate) fn backlog(&self) -> Backlog {
        let queued = self.queued.values().map(VecDeque::len).sum();
        Backlog { queued, in_flight: self.in_flight.len() }
    }

    /// All that has arrived has ended.
    pub(crate) fn assert_settled(&self) {
        assert_eq!(self.ended.len(), self.arrived, "an IO was lost");
    }
}
