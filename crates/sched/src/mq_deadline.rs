//! mq-deadline: batches of IOs of one direction, in the order of the device's addresses, until one has waited too long.
//!
//! ```text
//!   a batch goes on?                     ─ yes ─► the next IO of its direction, upwards          at most `batch` of them
//!        │ no
//!   reads, unless writes were passed over `writes_starved` times; writes if there are no reads   which direction
//!        │
//!   its oldest has waited for `expire`, or there is nothing further up? ─ yes ─► the oldest, and on from there
//!        │ no
//!   the next one, upwards
//! ```
//!
//! It knows no tenants and no weights. A scheduler here sees no addresses either, but tenants have their namespaces one after the other on an
//! SSD, so the order of addresses is first of all that of the tenants. Upwards of the last IO is therefore: what its tenant had
//! queued when the sweep came to it, as if addresses within a namespace were random; then the next tenant. IOs of one tenant and direction go in
//! order of arrival.
//!
//! *What Linux holds back with it.* An IO is given to the drive as soon as that has room. An NVMe drive takes 1023 at a
//! time, and a queue has 256 requests: there mq-deadline decides nothing, and IOs beyond 256 wait in order of arrival
//! ([`MqDeadlineConfig::NVME`]). A SATA drive takes 32, for which distributions use it ([`MqDeadlineConfig::SATA`]).
//!
//! Holds: it is idle only with nothing queued or `depth` IOs inside; an IO that has waited for `expire` goes before any younger one of its direction, after
//!        the batch that it finds (`tests/policies/elevators.rs`); each decision is that of a naive model (`tests/policies/mq_deadline_naive.rs`).
//! Source: Linux's documentation of the scheduler's parameters, and its behaviour in 6.x. Left out: classes of priority
//!         (IOs from a target have one), merges, zones, and the order within a namespace.

use crate::requests::{Request, Requests};
use crate::{Backlog, Credit, Done, Io, IoKind, Next, Order, Policy, Share, Ticket};
use units::{Instant, Nanos, TenantId};

/// mq-deadline's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqDeadlineConfig {
    /// Requests of the queue. Never zero.
    pub nr_requests: u32,
    /// IOs that the drive takes at a time. Never zero.
    pub depth: u32,
    /// Time after which a read has waited too long.
    pub read_expire: Nanos,
    /// The same for a write.
    pub write_expire: Nanos,
    /// Number of times that reads are preferred to writes that wait.
    pub writes_starved: u32,
    /// IOs of a batch.
    pub batch: u32,
}

impl MqDeadlineConfig {
    /// As Linux sets it up for an NVMe drive.
    pub const NVME: MqDeadlineConfig = MqDeadlineConfig {
        nr_requests: 256,
        depth: 1023,
        read_expire: Nanos::millis(500),
        write_expire: Nanos::secs(5),
        writes_starved: 2,
        batch: 16,
    };
    /// As Linux sets it up for a SATA drive.
    pub const SATA: MqDeadlineConfig =
        MqDeadlineConfig { nr_requests: 64, depth: 32, ..MqDeadlineConfig::NVME };

    fn expire(&self, direction: Direction) -> Nanos {
        if direction == READS { self.read_expire } else { self.write_expire }
    }
}

type Direction = usize;
const READS: Direction = 0;
const WRITES: Direction = 1;

/// Position of a direction's sweep.
#[derive(Clone, Copy, Debug)]
struct Sweep {
    /// In this tenant's namespace.
    tenant: TenantId,
    /// Later arrivals there lie behind.
    entered: u64,
}

/// One SSD's mq-deadline.
#[derive(Clone, Debug)]
pub struct MqDeadline {
    config: MqDeadlineConfig,
    requests: Requests<2>,
    sweeps: [Option<Sweep>; 2],
    direction: Direction,
    /// IOs of the batch so far.
    batched: u32,
    /// Number of times that writes were passed over.
    starved: u32,
}

impl MqDeadline {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If there are no requests, or the drive takes nothing.
    pub fn new(config: MqDeadlineConfig) -> MqDeadline {
        assert!(config.depth > 0, "{config:?} lets nothing through");
        let requests = Requests::new(config.nr_requests);
        MqDeadline { config, requests, sweeps: [None; 2], direction: WRITES, batched: 0, starved: 0 }
    }

    /// The next of a direction, upwards.
    fn upwards(&self, direction: Direction) -> Option<Request> {
        let Sweep { tenant, entered } = self.sweeps[direction]?;
        let head = |id| self.requests.head(id, direction).map(|(_, request)| request);
        let here = head(tenant).filter(|request| request.number < entered);
        here.or_else(|| (tenant.0 + 1..self.requests.tenants() as u32).find_map(|id| head(TenantId(id))))
    }

    /// The direction of a new batch.
    fn choose(&mut self) -> Option<Direction> {
        match [READS, WRITES].map(|direction| !self.requests.is_empty(direction)) {
            [true, true] if self.starved < self.config.writes_starved => {
                self.starved += 1;
                Some(READS)
            }
            [true, false] => Some(READS),
            [_, true] => {
                self.starved = 0;
                Some(WRITES)
            }
            [false, false] => None,
        }
    }

    /// The first of a new batch.
    fn begin(&mut self, now: Instant) -> Option<Request> {
        let direction = self.choose()?;
        let oldest = self.requests.first(direction).expect("the direction has something");
        (self.direction, self.batched) = (direction, 0);
        if now.since(oldest.since) >= self.config.expire(direction) {
            self.sweeps[direction] = None;
            return Some(oldest);
        }
        let upwards = self.upwards(direction);
        if upwards.is_none() {
            self.sweeps[direction] = None;
        }
        upwards.or(Some(oldest))
    }
}

impl Policy for MqDeadline {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        let direction = if io.kind == IoKind::Read { READS } else { WRITES };
        self.requests.on_arrival(now, io, direction)
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.requests.in_flight() >= self.config.depth as usize {
            return Next::Idle;
        }
        let goes_on = self.batched < self.config.batch;
        let batch = self.upwards(self.direction).filter(|_| goes_on);
        let Some(request) = batch.or_else(|| self.begin(now)) else { return Next::Idle };
        let sweep = &mut self.sweeps[self.direction];
        if sweep.is_none_or(|sweep| sweep.tenant != request.tenant) {
            *sweep = Some(Sweep { tenant: request.tenant, entered: self.requests.arrived() });
        }
        self.batched += 1;
        Next::Submit(self.requests.submit(request.tenant, self.direction))
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.requests.on_end(now, &done);
        Credit(u32::MAX)
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.requests.withdraw_one(now, tenant, ticket)
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.requests.withdraw(now, tenant, gone);
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.requests.forget(tenant);
    }

    fn set_share(&mut self, _now: Instant, _tenant: TenantId, _share: Share) {}

    fn order(&self) -> Order {
        Order::Kind
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.requests.backlog()
    }
}
