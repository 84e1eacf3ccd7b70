//! Requests as Linux's block layer counts them: an IO needs one before its scheduler sees it, and keeps it until it ends.
//!
//! ```text
//!   arrivals ──► [ without a request ] ──► [ lane 0 | lane 1 | … , each in order of arrival ] ──► SSD
//!                        as long as fewer than `nr_requests` are queued in lanes or in the SSD
//! ```
//!
//! A *lane* is a class of IOs that a scheduler distinguishes: reads and writes, say. Order is kept within a tenant's
//! lane, and not between its lanes.
//!
//! Holds: IOs with a request came before all those without one (`requests_are_given_in_order_of_arrival`); no more than
//!        `nr_requests` are given.
//! Source: Linux's documentation of `nr_requests`. Ours: there is one queue, where Linux has one for each processor or hardware queue.

use crate::lines::Lines;
use crate::{Backlog, Done, Io, Ticket};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::{Instant, TenantId};

/// All tenants' IOs, in `N` lanes.
#[derive(Clone, Debug)]
pub(crate) struct Requests<const N: usize> {
    nr_requests: usize,
    tenants: Vec<Tenant<N>>,
    /// Queued IOs with a request, by arrival.
    lanes: [BTreeMap<u64, TenantId>; N],
    /// Queued IOs without one, by arrival.
    waiting: BTreeMap<u64, (TenantId, Ticket)>,
    arrived: u64,
    in_flight: usize,
}

#[derive(Clone, Debug)]
struct Tenant<const N: usize> {
    line: Lines<N>,
    /// By ticket.
    notes: Vec<Note>,
    in_flight: usize,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    /// Its place among all arrivals.
    number: u64,
    lane: usize,
    /// When it got its request; before that, when it arrived.
    since: Instant,
}

/// A queued IO that has a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tenant: TenantId,
    /// Its place among all arrivals.
    pub(crate) number: u64,
    /// When it got its request.
    pub(crate) since: Instant,
}

impl<const N: usize> Tenant<N> {
    fn new() -> Tenant<N> {
        Tenant { line: Lines::default(), notes: Vec::new(), in_flight: 0 }
    }
}

impl<const N: usize> Requests<N> {
    /// # Panics
    /// If there are to be no requests.
    pub(crate) fn new(nr_requests: u32) -> Requests<N> {
        assert!(nr_requests > 0, "without requests nothing gets through");
        Requests {
            nr_requests: nr_requests as usize,
            tenants: Vec::new(),
            lanes: [(); N].map(|()| BTreeMap::new()),
            waiting: BTreeMap::new(),
            arrived: 0,
            in_flight: 0,
        }
    }

    fn tenant(&mut self, id: TenantId) -> &mut Tenant<N> {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, Tenant::new);
        }
        &mut self.tenants[id.index()]
    }

    /// Gives free requests to the IOs that wait for one.
    fn admit(&mut self, now: Instant) {
        while self.lanes.iter().map(BTreeMap::len).sum::<usize>() + self.in_flight < self.nr_requests
            && let Some((number, (id, ticket))) = self.waiting.pop_first()
        {
            let note = &mut self.tenants[id.index()].notes[ticket.0 as usize];
            note.since = now;
            self.lanes[note.lane].insert(number, id);
        }
    }

    pub(crate) fn on_arrival(&mut self, now: Instant, io: Io, lane: usize) -> Ticket {
        let number = self.arrived;
        self.arrived += 1;
        let tenant = self.tenant(io.tenant);
        let ticket = tenant.line.push(lane, io);
        let (place, note) = (ticket.0 as usize, Note { number, lane, since: now });
        if tenant.notes.len() <= place {
            tenant.notes.resize(place + 1, note);
        }
        tenant.notes[place] = note;
        self.waiting.insert(number, (io.tenant, ticket));
        self.admit(now);
        ticket
    }

    /// Number of tenants that may have been named.
    pub(crate) fn tenants(&self) -> usize {
        self.tenants.len()
    }

    /// The first of a tenant's lane, if it has a request.
    pub(crate) fn head(&self, id: TenantId, lane: usize) -> Option<(&Io, Request)> {
        let tenant = self.tenants.get(id.index())?;
        let (ticket, io) = tenant.line.front_ticket(lane)?;
        let Note { number, since, .. } = tenant.notes[ticket.0 as usize];
        let has_request = self.lanes[lane].contains_key(&number);
        has_request.then_some((io, Request { tenant: id, number, since }))
    }

    /// The first of all in a lane.
    pub(crate) fn first(&self, lane: usize) -> Option<Request> {
        let (_, id) = self.lanes[lane].first_key_value()?;
        self.head(*id, lane).map(|(_, request)| request)
    }

    /// Number of arrivals.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether a lane has no IO with a request.
    pub(crate) fn is_empty(&self, lane: usize) -> bool {
        self.lanes[lane].is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn in_flight_of(&self, id: TenantId) -> usize {
        self.tenants.get(id.index()).map_or(0, |tenant| tenant.in_flight)
    }

    /// Whether the tenant has neither queued IOs nor IOs in flight.
    pub(crate) fn is_idle(&self, id: TenantId) -> bool {
        self.tenants.get(id.index()).is_none_or(|tenant| tenant.line.is_empty() && tenant.in_flight == 0)
    }

    /// Gives out the first of a tenant's lane.
    ///
    /// # Panics
    /// If it has no request.
    pub(crate) fn submit(&mut self, id: TenantId, lane: usize) -> Io {
        let (_, Request { number, .. }) = self.head(id, lane).expect("something with a request is queued");
        self.lanes[lane].remove(&number);
        let tenant = &mut self.tenants[id.index()];
        tenant.in_flight += 1;
        self.in_flight += 1;
        tenant.line.pop(lane).expect("it is the first")
    }

    pub(crate) fn on_end(&mut self, now: Instant, done: &Done) {
        let tenant = self.tenant(done.io.tenant);
        assert!(tenant.in_flight > 0, "{done:?} ended but nothing was submitted");
        tenant.in_flight -= 1;
        self.in_flight -= 1;
        self.admit(now);
    }

    pub(crate) fn withdraw_one(&mut self, now: Instant, id: TenantId, ticket: Ticket) -> Io {
        let tenant = self.tenant(id);
        let Note { number, lane, .. } = tenant.notes[ticket.0 as usize];
        let io = tenant.line.take(lane, ticket);
        if self.waiting.remove(&number).is_none() {
            self.lanes[lane].remove(&number);
        }
        self.admit(now);
        io
    }

    pub(crate) fn withdraw(&mut self, now: Instant, id: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        for lane in 0..N {
            let tenant = self.tenant(id);
            let tickets = tenant.line.tickets(lane, &mut *gone);
            tickets.into_iter().for_each(|ticket| _ = self.withdraw_one(now, id, ticket));
        }
    }

    pub(crate) fn forget(&mut self, id: TenantId) {
        let tenant = self.tenant(id);
        let (queued, in_flight) = (tenant.line.len(), tenant.in_flight);
        assert!(
            queued == 0 && in_flight == 0,
            "{id} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        *tenant = Tenant::new();
    }

    pub(crate) fn backlog(&self) -> Backlog {
        let in_lanes: usize = self.lanes.iter().map(BTreeMap::len).sum();
        Backlog { queued: in_lanes + self.waiting.len(), in_flight: self.in_flight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoId, IoKind, Mark, Outcome, Priority};
    use units::{Bytes, Nanos};

    fn io(id: u64, tenant: u32) -> Io {
        Io {
            id: IoId(id),
            tenant: TenantId(tenant),
            priority: Priority::default(),
            kind: IoKind::Read,
            length: Bytes::kib(4),
            mark: Mark::default(),
        }
    }

    #[test]
    fn requests_are_given_in_order_of_arrival() {
        let mut requests = Requests::<2>::new(2);
        let at = |micros| Instant::ZERO + Nanos::micros(micros);
        let tickets: Vec<Ticket> =
            (0..5).map(|n| requests.on_arrival(at(n), io(n, n as u32 % 2), n as usize % 2)).collect();
        assert_eq!(requests.backlog(), Backlog { queued: 5, in_flight: 0 });
        let first = |requests: &Requests<2>, lane| requests.first(lane).map(|request| request.number);
        assert_eq!((first(&requests, 0), first(&requests, 1)), (Some(0), Some(1)));
        // The second of its lane has none yet, whatever becomes of the first.
        let read = requests.submit(TenantId(0), 0);
        assert_eq!(first(&requests, 0), None, "what is in the SSD keeps its request");
        requests.on_end(at(10), &Done { io: read, outcome: Outcome::Failed });
        assert_eq!(requests.first(0), Some(Request { tenant: TenantId(0), number: 2, since: at(10) }));
        // A withdrawal frees the request as well.
        requests.withdraw_one(at(20), TenantId(1), tickets[1]);
        assert_eq!(requests.first(1), Some(Request { tenant: TenantId(1), number: 3, since: at(20) }));
        requests.withdraw_one(at(30), TenantId(0), tickets[4]);
        assert_eq!(requests.backlog(), Backlog { queued: 2, in_flight: 0 });
    }
}
