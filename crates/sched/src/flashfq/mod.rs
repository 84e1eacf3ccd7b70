//! FlashFQ: start-time fair queueing that uses an SSD's parallelism.
//!
//! Every IO has a start tag in virtual time; the smallest goes first, so that tenants have equal parts of the device's time.
//! An SSD takes many IOs at once, and a tenant with a deep queue could run far ahead while another has one IO outstanding:
//! therefore no tenant may be more than a threshold T ahead of the active tenant that has progressed least, and at most D
//! IOs are inside the SSD.
//!
//! ```text
//!  idle ──arrival──► busy: queued or in flight ──the last IO completes──► anticipated: its start moves on with the clock
//!   ▲   start ← max(start, v)   ▲                                              │        │
//!   │                           └───────────────────arrival────────────────────┘        │
//!   └───────────────────────── nothing has come for `anticipation` ─────────────────────┘
//! ```
//!
//! A tenant that keeps one IO outstanding has nothing to dispatch whenever it thinks. Without anticipation it would
//! then be idle, virtual time would move on without it, and it would lose all that it is behind. While it is
//! anticipated it loses no more than the time that it thinks, and the others wait for it as soon as they are T ahead.
//!
//! Holds: it is idle only with nothing queued, D IOs inside, or the head more than T ahead of a tenant with IOs in flight; if it
//!        waits only for tenants that are anticipated, it names the instant at which the last of them has caught up or is given
//!        up; each decision is that of a naive model (`tests/policies/flashfq_naive.rs`).
//! Elsewhere: costs and constants are `config`, virtual time is `progress`.
//! Paper: FlashFQ (Shen, Park, USENIX ATC 2013) §3. Ours: within a tenant IOs go in order of arrival in all classes;
//!        the paper's weights are [`Share::weight`](crate::Share), limits and reservations are ignored; the others do
//!        not wait for a tenant with IOs that hang.

mod config;
mod progress;

pub use config::{FlashfqConfig, LinearCost};

use crate::lines::Lines;
use crate::{Backlog, Credit, Done, Io, Next, Policy, Share, Ticket};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use progress::{MovingTag, Progress, Tag};
use units::{Instant, TenantId};

/// One SSD's FlashFQ.
#[derive(Clone, Debug)]
pub struct Flashfq {
    config: FlashfqConfig,
    tenants: Vec<Tenant>,
    progress: Progress,
    /// Tenants with backlog: by start tag, then by the time at which they got it.
    backlogged: BTreeSet<(Tag, u64, TenantId)>,
    /// Ends of the anticipations, with their tenants.
    anticipated: BTreeSet<(Instant, TenantId)>,
    /// Counts the times that a tenant entered `backlogged`.
    turns: u64,
    queued: usize,
    in_flight: usize,
    /// Those in flight that were not reported as overdue.
    inside: u32,
}

#[derive(Clone, Debug)]
struct Tenant {
    queue: Lines<1>,
    weight: u32,
    /// Start tag of the next IO; while it is anticipated, as it was when the last one completed.
    start: Tag,
    /// Its place among the backlogged, while it has backlog.
    turn: u64,
    in_flight: u32,
    state: State,
}

/// Whether others wait for a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing queued or in flight, and nothing expected.
    Idle,
    /// An IO is queued or in flight.
    Busy,
    /// An IO is expected.
    Anticipated { until: Instant, start: MovingTag },
    /// An IO is in flight and may never end.
    Overdue,
}

impl Tenant {
    fn new() -> Tenant {
        Tenant {
            queue: Lines::default(),
            weight: Share::EQUAL.weight,
            start: Tag::default(),
            turn: 0,
            in_flight: 0,
            state: State::Idle,
        }
    }
}

impl Flashfq {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If [`FlashfqConfig::check`] finds fault with `config`.
    pub fn new(config: FlashfqConfig) -> Flashfq {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        Flashfq {
            config,
            tenants: Vec::new(),
            progress: Progress::default(),
            backlogged: BTreeSet::new(),
            anticipated: BTreeSet::new(),
            turns: 0,
            queued: 0,
            in_flight: 0,
            inside: 0,
        }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &FlashfqConfig {
        &self.config
    }

    fn tenant(&mut self, id: TenantId) -> &mut Tenant {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, Tenant::new);
        }
        &mut self.tenants[id.index()]
    }

    /// Ends the anticipation of tenants from which no IO has come in time.
    fn give_up(&mut self, now: Instant) {
        while let Some(&(until, id)) = self.anticipated.first()
            && until <= now
        {
            self.set_state(now, id, State::Idle);
        }
    }

    /// Ends the state that a tenant is in and begins another.
    fn set_state(&mut self, now: Instant, id: TenantId, state: State) {
        let tenant = &mut self.tenants[id.index()];
        let (was, mut start) = (tenant.state, tenant.start);
        tenant.state = state;
        match was {
            State::Busy => self.progress.pause(start, id),
            State::Anticipated { until, start: moving } => {
                self.anticipated.remove(&(until, id));
                start = self.progress.expect_no_more(now, moving, id, until);
            }
            State::Idle | State::Overdue => {}
        }
        match (was, state) {
            (State::Busy | State::Anticipated { .. }, State::Busy) => self.progress.resume(start, id),
            (State::Idle | State::Overdue, State::Busy) => start = self.progress.join(now, start, id),
            (_, State::Anticipated { until, start: moving }) => {
                self.anticipated.insert((until, id));
                self.progress.expect(moving, id, until);
            }
            (_, State::Idle | State::Overdue) => {}
        }
        self.move_to(id, start);
    }

    /// Sets the start tag of a tenant and keeps its place among the backlogged in step.
    fn move_to(&mut self, id: TenantId, start: Tag) {
        let tenant = &mut self.tenants[id.index()];
        let was_backlogged = self.backlogged.remove(&(tenant.start, tenant.turn, id));
        tenant.start = start;
        if was_backlogged {
            self.backlogged.insert((start, tenant.turn, id));
        }
    }

    /// Accounts for this many IOs of a tenant that have left its queue unserved.
    fn on_withdrawn(&mut self, now: Instant, id: TenantId, withdrawn: usize) {
        let tenant = &self.tenants[id.index()];
        let (is_empty, in_flight, key) =
            (tenant.queue.is_empty(), tenant.in_flight, (tenant.start, tenant.turn, id));
        self.queued -= withdrawn;
        if withdrawn > 0 && is_empty {
            self.backlogged.remove(&key);
            if in_flight == 0 {
                self.set_state(now, id, State::Idle);
            }
        }
    }

    fn dispatch(&mut self, id: TenantId) -> Io {
        let tenant = &mut self.tenants[id.index()];
        self.backlogged.remove(&(tenant.start, tenant.turn, id));
        let io = tenant.queue.pop(0).expect("a backlogged tenant has something queued");
        let start = tenant.start;
        tenant.start = start.after(self.config.cost(io.kind, io.length), tenant.weight);
        tenant.in_flight += 1;
        if tenant.state == State::Busy {
            self.progress.pause(start, id);
            self.progress.resume(tenant.start, id);
            self.inside += 1;
        }
        if !tenant.queue.is_empty() {
            self.turns += 1;
            tenant.turn = self.turns;
            self.backlogged.insert((tenant.start, tenant.turn, id));
        }
        self.queued -= 1;
        self.in_flight += 1;
        io
    }
}

impl Policy for Flashfq {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.give_up(now);
        let id = io.tenant;
        let state = self.tenant(id).state;
        if matches!(state, State::Idle | State::Anticipated { .. }) {
            self.set_state(now, id, State::Busy);
        }
        let tenant = &mut self.tenants[id.index()];
        let ticket = tenant.queue.push(0, io);
        if tenant.queue.len() == 1 {
            self.turns += 1;
            tenant.turn = self.turns;
            self.backlogged.insert((tenant.start, tenant.turn, id));
        }
        self.queued += 1;
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        self.give_up(now);
        let Some(&(start, _, id)) = self.backlogged.first() else { return Next::Idle };
        let lead = self.config.throttle;
        if self.inside >= self.config.depth || self.progress.waits_for_busy(start, lead) {
            return Next::Idle;
        }
        match self.progress.waits_for_expected(now, start, lead) {
            Some(moment) => Next::WakeAt(moment),
            None => Next::Submit(self.dispatch(id)),
        }
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.give_up(now);
        let id = done.io.tenant;
        let tenant = self.tenant(id);
        assert!(tenant.in_flight > 0, "{done:?} ended but nothing was submitted");
        tenant.in_flight -= 1;
        let (in_flight, was_overdue) = (tenant.in_flight, tenant.state == State::Overdue);
        let is_busy = in_flight > 0 || !tenant.queue.is_empty();
        self.in_flight -= 1;
        if was_overdue {
            self.inside += in_flight;
            self.set_state(now, id, State::Busy);
        } else {
            self.inside -= 1;
        }
        if !is_busy {
            let start = MovingTag::from(self.tenants[id.index()].start, now);
            self.set_state(now, id, State::Anticipated { until: now + self.config.anticipation, start });
        }
        self.credit(id)
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        let io = self.tenant(tenant).queue.take(0, ticket);
        self.on_withdrawn(now, tenant, 1);
        io
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let queue = &mut self.tenant(tenant).queue;
        let before = queue.len();
        queue.take_all(0, gone);
        let withdrawn = before - queue.len();
        self.on_withdrawn(now, tenant, withdrawn);
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        let books = self.tenant(tenant);
        let (queued, in_flight) = (books.queue.len(), books.in_flight);
        assert!(
            queued == 0 && in_flight == 0,
            "{tenant} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        self.set_state(now, tenant, State::Idle);
        self.tenants[tenant.index()] = Tenant::new();
    }

    fn set_share(&mut self, _now: Instant, tenant: TenantId, share: Share) {
        assert!(share.weight > 0, "{tenant} is given a weight of zero");
        self.tenant(tenant).weight = share.weight;
    }

    fn on_overdue(&mut self, now: Instant, tenant: TenantId) {
        let books = self.tenant(tenant);
        if books.in_flight > 0 && books.state != State::Overdue {
            let in_flight = books.in_flight;
            self.inside -= in_flight;
            self.set_state(now, tenant, State::Overdue);
        }
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        Backlog { queued: self.queued, in_flight: self.in_flight }
    }
}
