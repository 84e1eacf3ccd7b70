//! BFQ: one tenant at a time has the SSD, for a budget of bytes; budgets come by weight.
//!
//! ```text
//!   waits ──chosen by B-WF2Q+──► is served ──► its budget is used up, its time (125 ms) is over, or it has no IO left
//!     ▲                                              │
//!     └── new budget: × 4, × 2, as used, or less ◄───┘        1/32 to all of `budget_max`
//! ```
//!
//! *Idling.* If all busy tenants have the same weight, a tenant without IOs left loses the SSD at once, as BFQ does
//! with SSDs that queue. If weights differ, it would lose its share with its turn. So the SSD stays reserved for it
//! until its IOs have ended, and 8 ms more.
//!
//! Service is counted in bytes, and a byte written is a byte read (Linux triples asynchronous writes; a target's are synchronous).
//!
//! *What Linux holds back with it.* As with mq-deadline: an NVMe drive takes all 256 requests of a queue ([`BfqConfig::NVME`]), so without idling nothing
//! waits where it could be chosen; a SATA drive takes 32 ([`BfqConfig::SATA`]).
//!
//! Holds: while tenants have IOs waiting, their service per weight differs by two budgets at most; it is idle with IOs
//!        queued only if `depth` IOs are inside or while it idles, and then names the instant at which that ends,
//!        unless an IO must end first (`tests/policies/bfq.rs`).
//! Elsewhere: virtual time is `round`.
//! Paper: Valente, Checconi, "High throughput disk scheduling with fair bandwidth distribution", IEEE Transactions on
//!        Computers 2010; and Linux's documentation of BFQ. Ours: the largest budget is the amount that the drive moves
//!        in the longest turn at its highest rate, which must be configured; the kernel estimates that rate. Left out:
//!        BFQ's measures for desktops (interactive and soft real-time queues are weighted up), merged queues, injection
//!        of others' IOs while it idles, limits on requests of a group, and the order of addresses.

mod round;

use crate::requests::Requests;
use crate::{Backlog, Credit, Done, Io, Next, Policy, Share, Ticket};
use alloc::vec::Vec;
use round::Round;
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// BFQ's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfqConfig {
    /// Requests of the queue. Never zero.
    pub nr_requests: u32,
    /// IOs that the drive takes at a time. Never zero.
    pub depth: u32,
    /// The largest budget: the bytes that the drive moves in the longest turn ([`BfqConfig::for_rate`]).
    pub budget_max: Bytes,
    /// Longest turn.
    pub timeout: Nanos,
    /// Time for which the SSD is kept for a tenant without IOs, if weights differ.
    pub slice_idle: Nanos,
}

impl BfqConfig {
    /// As Linux sets it up for an NVMe drive of unknown rate.
    pub const NVME: BfqConfig = BfqConfig {
        nr_requests: 256,
        depth: 1023,
        budget_max: Bytes::mib(8),
        timeout: Nanos::millis(125),
        slice_idle: Nanos::millis(8),
    };
    /// As Linux sets it up for a SATA drive.
    pub const SATA: BfqConfig = BfqConfig { nr_requests: 64, depth: 32, ..BfqConfig::NVME };

    /// The same for a drive of this rate.
    pub fn for_rate(self, rate: ByteRate) -> BfqConfig {
        let bytes = u128::from(rate.0) * u128::from(self.timeout.0) / u128::from(Nanos::secs(1).0);
        BfqConfig { budget_max: Bytes(bytes as u64), ..self }
    }

    fn budget_min(&self) -> Bytes {
        Bytes(self.budget_max.0 / 32)
    }
}

/// Reason for the end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    BudgetUsed,
    TimeIsOver,
    NothingLeft,
    /// No further IO came in the time that the SSD was kept for it.
    TooIdle,
}

/// The tenant that is served.
#[derive(Clone, Copy, Debug)]
struct Turn {
    tenant: TenantId,
    budget: Bytes,
    served: Bytes,
    since: Instant,
    /// When its last IO ended, or its turn began.
    quiet_since: Instant,
}

/// One SSD's BFQ.
#[derive(Clone, Debug)]
pub struct Bfq {
    config: BfqConfig,
    requests: Requests<1>,
    round: Round,
    /// Budgets by tenant; `None` before its first turn.
    budgets: Vec<Option<Bytes>>,
    turn: Option<Turn>,
}

impl Bfq {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If there are no requests, or the drive takes nothing.
    pub fn new(config: BfqConfig) -> Bfq {
        assert!(config.depth > 0, "{config:?} lets nothing through");
        let requests = Requests::new(config.nr_requests);
        Bfq { config, requests, round: Round::default(), budgets: Vec::new(), turn: None }
    }

    fn ids(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.requests.tenants() as u32).map(TenantId)
    }

    fn head(&self, id: TenantId) -> Option<Bytes> {
        self.requests.head(id, 0).map(|(io, _)| io.length)
    }

    /// The budget of a tenant's next turn: enough for its first IO.
    fn budget(&mut self, id: TenantId) -> Bytes {
        if self.budgets.len() <= id.index() {
            self.budgets.resize(id.index() + 1, None);
        }
        let budget = self.budgets[id.index()].unwrap_or(Bytes(self.config.budget_max.0 / 3 * 2));
        budget.max(self.head(id).unwrap_or(Bytes::ZERO))
    }

    /// Enters tenants with queued IOs into the round, and takes out those without.
    fn update(&mut self) {
        let served = self.turn.map(|turn| turn.tenant);
        for id in self.ids().filter(|id| Some(*id) != served) {
            match (self.head(id).is_some(), self.round.is_active(id)) {
                (true, false) => {
                    let budget = self.budget(id);
                    self.round.enter(id, budget);
                }
                (false, true) => self.round.leave(id, Bytes::ZERO),
                _ => {}
            }
        }
    }

    /// Whether busy tenants have different weights.
    fn is_asymmetric(&self) -> bool {
        let served = self.turn.map(|turn| turn.tenant);
        let is_busy = |id: &TenantId| !self.requests.is_idle(*id) || Some(*id) == served;
        let mut weights = self.ids().filter(is_busy).map(|id| self.round.weight(id));
        weights.next().is_some_and(|first| weights.any(|weight| weight != first))
    }

    /// Ends the turn.
    fn end(&mut self, now: Instant, turn: Turn, why: End) {
        let Turn { tenant, budget, served, since, .. } = turn;
        let (least, most) = (self.config.budget_min(), self.config.budget_max);
        let had = self.budgets[tenant.index()].unwrap_or(budget);
        let next = match why {
            End::BudgetUsed => Bytes(had.0.saturating_mul(4)),
            End::TimeIsOver => Bytes(had.0.saturating_mul(2)),
            End::NothingLeft => served,
            End::TooIdle => Bytes(had.0.saturating_sub(4 * least.0)),
        };
        self.budgets[tenant.index()] = Some(next.max(least).min(most));
        let mut charged = served;
        if why == End::TimeIsOver && budget.saturating_sub(served) >= Bytes(budget.0 / 3) {
            // A slow one is charged for its time.
            let part = u128::from(now.since(since).0.min(self.config.timeout.0));
            let by_time = u128::from(most.0) * part / u128::from(self.config.timeout.0.max(1));
            charged = served.max(Bytes(by_time as u64));
            self.round.on_service(charged.saturating_sub(served));
        }
        self.turn = None;
        if self.head(tenant).is_some() {
            let budget = self.budget(tenant);
            self.round.again(tenant, charged, budget);
        } else {
            self.round.leave(tenant, charged);
        }
    }

    /// The next step for the tenant that is served.
    fn serve(&mut self, now: Instant, turn: Turn) -> Result<Io, Wait> {
        let Some(length) = self.head(turn.tenant) else {
            if !self.is_asymmetric() {
                return Err(Wait::Ended(End::NothingLeft));
            }
            let until = turn.quiet_since + self.config.slice_idle;
            return Err(match self.requests.in_flight_of(turn.tenant) {
                0 if now >= until => Wait::Ended(End::TooIdle),
                0 => Wait::Until(until),
                _ => Wait::ForAnEnd,
            });
        };
        if turn.served + length > turn.budget {
            return Err(Wait::Ended(End::BudgetUsed));
        }
        if now.since(turn.since) >= self.config.timeout && turn.served > Bytes::ZERO {
            return Err(Wait::Ended(End::TimeIsOver));
        }
        self.turn = Some(Turn { served: turn.served + length, ..turn });
        self.round.on_service(length);
        Ok(self.requests.submit(turn.tenant, 0))
    }
}

/// Reason why the tenant that is served does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Ended(End),
    Until(Instant),
    ForAnEnd,
}

impl Policy for Bfq {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.requests.on_arrival(now, io, 0)
    }

    fn next(&mut self, now: Instant) -> Next {
        if self.requests.in_flight() >= self.config.depth as usize || self.requests.is_empty(0) {
            return Next::Idle;
        }
        self.update();
        loop {
            let turn = match self.turn {
                Some(turn) => turn,
                None => {
                    let tenant = self.round.choose().expect("something is queued");
                    let budget = self.budget(tenant);
                    Turn { tenant, budget, served: Bytes::ZERO, since: now, quiet_since: now }
                }
            };
            self.turn = Some(turn);
            match self.serve(now, turn) {
                Ok(io) => return Next::Submit(io),
                Err(Wait::Ended(why)) => self.end(now, turn, why),
                Err(Wait::Until(instant)) => return Next::WakeAt(instant),
                Err(Wait::ForAnEnd) => return Next::Idle,
            }
        }
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.requests.on_end(now, &done);
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.tenant == done.io.tenant) {
            turn.quiet_since = now;
        }
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
        self.round.forget(tenant);
        if let Some(budget) = self.budgets.get_mut(tenant.index()) {
            *budget = None;
        }
        self.turn.take_if(|turn| turn.tenant == tenant);
    }

    fn set_share(&mut self, _now: Instant, tenant: TenantId, share: Share) {
        assert!(share.weight > 0, "{tenant} is given a weight of zero");
        self.round.set_weight(tenant, share.weight);
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.requests.backlog()
    }
}
