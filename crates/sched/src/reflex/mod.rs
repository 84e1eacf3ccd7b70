//! ReFlex: tokens for every IO, reservations for latency-critical tenants, the rest for the others.
//!
//! ```text
//!                      reservations ──► account of each latency-critical tenant ──► its IOs, at once down to NEG_LIMIT
//!  supply (tokens/s) ──┤                        │ tokens that it does not need
//!                      └── the rest ──► pool ◄──┘ ──► best-effort tenants, by turns, as they can pay
//! ```
//!
//! The supply is the tokens per second that the SSD can spend at the strictest objective that was admitted.
//! Latency-critical tenants go first. If there are no best-effort tenants, they share the unreserved rest.
//!
//! The original goes through all tenants in a polling loop. Here nothing goes round: accounts and pool are counted on to the
//! present exactly, and when no tenant can pay, the exact instant is named at which the first can.
//!
//! Holds: the named instant is the first at which anything can go (`tests/policies/every.rs`); decisions are those of a polling
//!        model up to the length of its rounds (`tests/policies/reflex_naive.rs`); no IO is lost or reordered within a tenant.
//! Elsewhere: costs are `config`; supply, reservations and refusals are `admission`; a latency-critical tenant's tokens are
//!            `account`, the others' `pool`.
//! Paper: ReFlex (Klimovic, Litz, Kozyrakis, ASPLOS 2017) §3.2, §4.3. Ours: [`Share::weight`](crate::Share) divides the
//!        tokens for best-effort tenants; limits and reservations in bytes are ignored; within a tenant IOs go in order
//!        of arrival.

mod account;
mod admission;
mod amount;
mod config;
mod pool;

pub use config::{Millitokens, ReadOnlyLoad, ReflexConfig, SupplyPoint, TokenRate};

use crate::lines::Lines;
use crate::{Admitted, Backlog, Credit, Done, Io, IoKind, Next, Objective, Policy, Refused, Share, Ticket};
use account::Account;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use amount::Parts;
use pool::{Level, Pool};
use units::{Instant, TenantId};

/// One SSD's ReFlex.
#[derive(Clone, Debug)]
pub struct Reflex {
    config: ReflexConfig,
    now: Instant,
    tenants: Vec<Tenant>,
    critical: BTreeMap<TenantId, Critical>,
    pool: Pool,
    best_effort: usize,
    turns: u64,
    /// Writes queued or inside the SSD.
    writes: usize,
    last_write_at: Option<Instant>,
    is_read_only: bool,
    backlog: Backlog,
}

#[derive(Clone, Debug)]
struct Critical {
    objective: Objective,
    account: Account,
}

#[derive(Clone, Debug)]
struct Tenant {
    queue: Lines<1>,
    weight: u32,
    in_flight: usize,
    class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// A tenant that was never named.
    Unknown,
    /// In `Reflex::critical`.
    Critical,
    /// Best effort with nothing queued.
    Idle,
    /// Best effort, waiting in the pool.
    Waiting { due: Level, turn: u64 },
}

impl Tenant {
    fn new() -> Tenant {
        Tenant { queue: Lines::default(), weight: Share::EQUAL.weight, in_flight: 0, class: Class::Unknown }
    }
}

impl Reflex {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If [`ReflexConfig::check`] finds fault with `config`.
    pub fn new(config: ReflexConfig) -> Reflex {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        let mut reflex = Reflex {
            config,
            now: Instant::ZERO,
            tenants: Vec::new(),
            critical: BTreeMap::new(),
            pool: Pool::default(),
            best_effort: 0,
            turns: 0,
            writes: 0,
            last_write_at: None,
            is_read_only: false,
            backlog: Backlog::default(),
        };
        reflex.share_out();
        reflex
    }

    /// The constants it runs with.
    pub fn config(&self) -> &ReflexConfig {
        &self.config
    }

    /// Tokens (of mixed load) per second that the SSD can spend now.
    pub fn supply(&self) -> TokenRate {
        let bound = self.critical.values().map(|critical| critical.objective.latency()).min();
        self.config.supply_at(bound, self.is_read_only)
    }

    /// Tokens per second that are reserved for `tenant`; `None` if it is best effort.
    pub fn reserved(&self, tenant: TenantId) -> Option<TokenRate> {
        self.critical.get(&tenant).map(|critical| self.config.reservation(&critical.objective))
    }

    fn tenant(&mut self, id: TenantId) -> &mut Tenant {
        if self.tenants.len() <= id.index() {
            self.tenants.resize_with(id.index() + 1, Tenant::new);
        }
        &mut self.tenants[id.index()]
    }

    fn advance(&mut self, now: Instant) {
        let span = now.since(self.now);
        self.now = now;
        let gifts = self.critical.values_mut().map(|critical| critical.account.advance(span).0).sum();
        self.pool.advance(span, Parts(gifts));
    }

    /// Sets what every tenant earns, after a change of tenants or of load.
    fn share_out(&mut self) {
        self.is_read_only = match self.config.read_only_load {
            ReadOnlyLoad::Declared => {
                self.best_effort == 0
                    && self.critical.values().all(|critical| critical.objective.slo.read_percent == 100)
            }
            ReadOnlyLoad::Observed(_) => self.is_read_only,
        };
        let supply = self.supply().0;
        let config = &self.config;
        let reserved: u64 =
            self.critical.values().map(|critical| config.reservation(&critical.objective).0).sum();
        let rest = supply.saturating_sub(reserved);
        let critical = self.critical.len() as u64;
        let extra = if self.best_effort == 0 { rest.checked_div(critical).unwrap_or(0) } else { 0 };
        for critical in self.critical.values_mut() {
            let rate = TokenRate(config.reservation(&critical.objective).0 + extra);
            critical.account.set_rate(config, rate);
        }
        self.pool.set_rate(TokenRate(rest));
    }

    /// Detects whether any tenant still writes, from the IOs queued and in flight.
    fn watch_writes(&mut self, now: Instant) {
        let ReadOnlyLoad::Observed(quiet) = self.config.read_only_load else { return };
        let is_quiet = self.last_write_at.is_none_or(|at| now.since(at) >= quiet);
        let is_read_only = self.writes == 0 && is_quiet;
        if is_read_only != self.is_read_only {
            self.is_read_only = is_read_only;
            self.share_out();
        }
    }

    /// Puts a best-effort tenant with queued IOs into the pool; `had` is the level up to which it has spent.
    fn wait(&mut self, id: TenantId, had: Level) {
        let tenant = &mut self.tenants[id.index()];
        let head = tenant.queue.front(0).expect("something is queued");
        let due = had.after(self.config.cost(head.kind, head.length).into(), tenant.weight);
        self.turns += 1;
        tenant.class = Class::Waiting { due, turn: self.turns };
        self.pool.add(due, self.turns, id, tenant.weight);
    }

    /// Takes a tenant out of the pool if it is in it.
    fn wait_no_more(&mut self, id: TenantId) {
        let tenant = self.tenant(id);
        if let Class::Waiting { due, turn } = tenant.class {
            tenant.class = Class::Idle;
            let weight = tenant.weight;
            self.pool.remove(due, turn, id, weight);
        }
    }

    /// Registers a tenant when it is first named.
    fn register(&mut self, id: TenantId) {
        if self.tenant(id).class == Class::Unknown {
            self.tenants[id.index()].class = Class::Idle;
            self.best_effort += 1;
            self.share_out();
        }
    }

    /// Resets the tenant, except for its queue.
    fn unregister(&mut self, id: TenantId) {
        self.wait_no_more(id);
        let tenant = self.tenant(id);
        match core::mem::replace(&mut tenant.class, Class::Unknown) {
            Class::Unknown => {}
            Class::Critical => _ = self.critical.remove(&id),
            Class::Idle | Class::Waiting { .. } => self.best_effort -= 1,
        }
        self.share_out();
    }

    fn submit(&mut self, id: TenantId) -> Io {
        let tenant = &mut self.tenants[id.index()];
        let io = tenant.queue.pop(0).expect("something is queued");
        tenant.in_flight += 1;
        self.backlog.queued -= 1;
        self.backlog.in_flight += 1;
        if let Class::Waiting { due, .. } = tenant.class {
            let is_empty = tenant.queue.is_empty();
            self.wait_no_more(id);
            if !is_empty {
                self.wait(id, due);
            }
        } else {
            let critical = self.critical.get_mut(&id).expect("a tenant without a place in the pool");
            critical.account.spend(self.config.cost(io.kind, io.length).into());
        }
        io
    }

    /// Accounts for IOs that have left a tenant's queue unserved: their number, and the number of writes among them;
    /// `head` was the first.
    fn on_withdrawn(&mut self, now: Instant, id: TenantId, head: Option<Io>, (ios, writes): (usize, usize)) {
        let tenant = &self.tenants[id.index()];
        let (class, weight, new_head) = (tenant.class, tenant.weight, tenant.queue.front(0).copied());
        self.backlog.queued -= ios;
        self.writes -= writes;
        if writes > 0 {
            self.last_write_at = Some(now);
        }
        if let (Class::Waiting { due, .. }, Some(head)) = (class, head)
            && new_head != Some(head)
        {
            self.wait_no_more(id);
            if new_head.is_some() {
                let had = due.before(self.config.cost(head.kind, head.length).into(), weight);
                self.wait(id, had);
            }
        }
    }

    /// The latency-critical tenants with queued IOs, in the order of their numbers.
    fn critical_with_backlog(&self) -> impl Iterator<Item = (TenantId, &Account)> {
        let has_backlog = |id: TenantId| !self.tenants[id.index()].queue.is_empty();
        self.critical
            .iter()
            .filter(move |(id, _)| has_backlog(**id))
            .map(|(id, critical)| (*id, &critical.account))
    }
}

impl Policy for Reflex {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.advance(now);
        let id = io.tenant;
        self.register(id);
        self.writes += usize::from(io.kind != IoKind::Read);
        self.watch_writes(now);
        let level = self.pool.level();
        self.backlog.queued += 1;
        let tenant = &mut self.tenants[id.index()];
        let ticket = tenant.queue.push(0, io);
        if tenant.class == Class::Idle {
            self.wait(id, level);
        }
        ticket
    }

    fn next(&mut self, now: Instant) -> Next {
        self.advance(now);
        let first = self.critical_with_backlog().find(|(_, account)| account.may_spend());
        if let Some(id) = first.map(|(id, _)| id).or_else(|| self.pool.payable()) {
            return Next::Submit(self.submit(id));
        }
        let critical = self.critical_with_backlog().filter_map(|(_, account)| account.time_until_it_may());
        let pool = self.pool.time_until_payable(self.critical.values().map(|critical| &critical.account));
        critical.chain(pool).min().map_or(Next::Idle, |span| Next::WakeAt(now + span))
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.advance(now);
        let tenant = self.tenant(done.io.tenant);
        assert!(tenant.in_flight > 0, "{done:?} ended but nothing was submitted");
        tenant.in_flight -= 1;
        self.backlog.in_flight -= 1;
        if done.io.kind != IoKind::Read {
            self.writes -= 1;
            self.last_write_at = Some(now);
        }
        self.watch_writes(now);
        self.credit(done.io.tenant)
    }

    fn withdraw_one(&mut self, now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.advance(now);
        let queue = &mut self.tenant(tenant).queue;
        let head = queue.front(0).copied();
        let io = queue.take(0, ticket);
        self.on_withdrawn(now, tenant, head, (1, usize::from(io.kind != IoKind::Read)));
        io
    }

    fn withdraw(&mut self, now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.advance(now);
        let queue = &mut self.tenant(tenant).queue;
        let (mut withdrawn, mut writes) = (0, 0);
        let head = queue.front(0).copied();
        queue.take_all(0, |io| {
            let gone = gone(io);
            withdrawn += usize::from(gone);
            writes += usize::from(gone && io.kind != IoKind::Read);
            gone
        });
        self.on_withdrawn(now, tenant, head, (withdrawn, writes));
    }

    fn forget(&mut self, now: Instant, tenant: TenantId) {
        self.advance(now);
        let books = self.tenant(tenant);
        let (queued, in_flight) = (books.queue.len(), books.in_flight);
        assert!(
            queued == 0 && in_flight == 0,
            "{tenant} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        self.unregister(tenant);
        self.tenants[tenant.index()] = Tenant::new();
    }

    fn admission(&self, tenant: TenantId, share: &Share) -> Result<Admitted, Refused> {
        let Some(objective) = share.objective() else { return Ok(Admitted::Promised) };
        let others = self.critical.iter().filter(|(id, _)| **id != tenant);
        let is_best_effort = self
            .tenants
            .get(tenant.index())
            .is_some_and(|tenant| matches!(tenant.class, Class::Idle | Class::Waiting { .. }));
        let has_best_effort = self.best_effort > usize::from(is_best_effort);
        let others = others.map(|(_, critical)| critical.objective);
        self.config.admit(&objective, others, has_best_effort).map(|()| Admitted::Promised)
    }

    fn set_share(&mut self, now: Instant, tenant: TenantId, share: Share) {
        assert!(share.weight > 0, "{tenant} is given a weight of zero");
        self.advance(now);
        let is_admitted = self.admission(tenant, &share).is_ok();
        self.unregister(tenant);
        let books = &mut self.tenants[tenant.index()];
        books.weight = share.weight;
        let has_backlog = !books.queue.is_empty();
        match share.objective() {
            Some(objective) if is_admitted => {
                books.class = Class::Critical;
                let account = Account::new(&self.config);
                self.critical.insert(tenant, Critical { objective, account });
                self.share_out();
            }
            _ => {
                self.register(tenant);
                if has_backlog {
                    self.wait(tenant, self.pool.level());
                }
            }
        }
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }
}
