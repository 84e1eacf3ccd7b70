//! io.cost: weights of device time, by a cost model that is configured for the SSD, at a rate that follows the lateness
//! of IOs.
//!
//! ```text
//!   device time passes at `vrate`             an IO goes when its tenant's cursor, moved on by cost / share, does not pass device time
//!        │                                    a share is the tenant's weight over those of all that were active in this period or the last
//!        ▼
//!   every period (10 ms):   idle tenants leave, and budgets above half a period are cut
//!                           a tenant that uses less than its share gives the rest away, if others have too little; it gets it back at once
//!                           late IOs or full queues lower vrate, waiting tenants raise it                                       (`vrate`)
//! ```
//!
//! The model is given once: six figures of single streams (`config`). The effect of writes on reads, the cost of a mix
//! and the present state of the flash are left to vrate, which slows all tenants alike.
//!
//! Holds: no tenant's cursor passes device time, so all together use no more of it than passes, and half a period each
//!        (`tests/policies/io_cost.rs`, in every world); busy tenants' device time is as their weights; a tenant that uses a little does not
//!        hold the rest back.
//! Elsewhere: the cost of an IO is `config`, the speed of time is `vrate`, the part that a tenant gives away is
//!            `tenant`.
//! Source: Linux's documentation of `io.cost.model` and `io.cost.qos`, and the controller's behaviour in 5.x. Ours:
//!         tenants are one level of control groups. A scheduler here sees no addresses, so every IO costs as much as a
//!         random one. The share given away is found as before Linux 5.10, which solves for it exactly. Left out:
//!         merges, debts (of IOs that must not wait: swapping, journals), and the kernel's guesses about a drive that
//!         was not measured.

mod config;
mod tenant;
mod vrate;

pub use config::{IoCostConfig, IoCostQos, IoCostRates};

use crate::marks::Marks;
use crate::queues::Queues;
use crate::{Backlog, Credit, Done, Io, Next, Outcome, Policy, Share, Ticket};
use alloc::vec::Vec;
use config::FRACTION_BITS;
use tenant::{Account, WEIGHT_BITS, WHOLE};
use units::{Instant, Nanos, TenantId};
use vrate::{MILLION, Period, Vrate};

/// The most budget that is kept, in per cent of a period.
const BUDGET_PER_CENT: i128 = 50;
/// Budget in per cent of a period below which a tenant takes back the share that it gave away.
const SHORT_PER_CENT: i128 = 10;
/// Periods without a new IO after which a tenant with old IOs in the SSD no longer counts as lagging.
const LAGGING_PERIODS: i128 = 10;

/// One SSD's io.cost.
#[derive(Clone, Debug)]
pub struct IoCost {
    config: IoCostConfig,
    queues: Queues,
    accounts: Vec<Account>,
    /// For each IO in flight, the share of device time by which it moved the cursors.
    charged: Marks<i128>,
    vrate: Vrate,
    /// The begin of this period, and the device time at that moment.
    began: Instant,
    device: i128,
    /// Whether any tenant is active; otherwise periods do not end.
    runs: bool,
    /// Weights of the active tenants, in parts, without the parts given away.
    in_use: u128,
    /// Since when IOs have budget and no request; and the time before that in this period.
    without_request: Option<Instant>,
    waited: Nanos,
}

impl IoCost {
    /// A scheduler with nothing queued.
    ///
    /// # Panics
    /// If there are no requests.
    pub fn new(config: IoCostConfig) -> IoCost {
        assert!(config.nr_requests > 0, "{config:?} lets nothing through");
        IoCost {
            config,
            queues: Queues::default(),
            accounts: Vec::new(),
            charged: Marks::default(),
            vrate: Vrate::new(config.qos),
            began: Instant::ZERO,
            device: 0,
            runs: false,
            in_use: 0,
            without_request: None,
            waited: Nanos::ZERO,
        }
    }

    /// Device time per time, per million.
    pub fn vrate(&self) -> u64 {
        self.vrate.per_million()
    }

    fn account(&mut self, id: TenantId) -> &mut Account {
        if self.accounts.len() <= id.index() {
            self.accounts.resize_with(id.index() + 1, Account::default);
        }
        &mut self.accounts[id.index()]
    }

    fn weight(&self, id: TenantId) -> u64 {
        u64::from(self.queues.share(id).weight) << WEIGHT_BITS
    }

    /// Device time that passes in `span`.
    fn passes(&self, span: Nanos) -> i128 {
        ((i128::from(span.0) * i128::from(self.vrate.per_million())) << FRACTION_BITS) / i128::from(MILLION)
    }

    fn device_time(&self, now: Instant) -> i128 {
        self.device + self.passes(now.since(self.began))
    }

    fn of_period(&self, per_cent: i128) -> i128 {
        self.passes(self.config.qos.period()) * per_cent / 100
    }

    /// The first instant of this period at which device time reaches `moment`; if it does not, the end of the period.
    fn reaches(&self, moment: i128) -> Instant {
        let (period, way) = (self.config.qos.period(), moment - self.device);
        if way > self.passes(period) {
            return self.began + period;
        }
        let span = (way.max(0) * i128::from(MILLION)) as u128;
        Instant(self.began.0 + span.div_ceil(u128::from(self.vrate.per_million()) << FRACTION_BITS) as u64)
    }

    /// The share of an active tenant that is in use.
    fn share_in_use(&self, id: TenantId) -> u64 {
        let own = u128::from(self.accounts[id.index()].in_use) * u128::from(WHOLE);
        ((own / self.in_use.max(1)) as u64).clamp(1, WHOLE)
    }

    fn set_in_use(&mut self, id: TenantId, parts: u64) {
        let parts = parts.clamp(1, self.weight(id));
        let account = &mut self.accounts[id.index()];
        self.in_use = self.in_use - u128::from(account.in_use) + u128::from(parts);
        account.in_use = parts;
    }

    fn activate(&mut self, now: Instant, id: TenantId) {
        if !self.runs {
            (self.device, self.began, self.runs) = (self.device_time(now), now, true);
        }
        let (weight, least) = (self.weight(id), self.device_time(now) - self.of_period(BUDGET_PER_CENT));
        let account = self.account(id);
        account.is_active = true;
        if account.in_use == 0 {
            account.in_use = weight;
        }
        if account.cursor < least {
            account.shift(least - account.cursor);
        }
        account.counted = account.cursor;
        let in_use = account.in_use;
        self.in_use += u128::from(in_use);
    }

    fn deactivate(&mut self, id: TenantId) {
        let account = self.account(id);
        if core::mem::take(&mut account.is_active) {
            let in_use = account.in_use;
            self.in_use -= u128::from(in_use);
        }
    }

    /// Device time by which the cursor of an active tenant is moved for an IO.
    fn charge(&self, id: TenantId, io: &Io) -> i128 {
        let cost = self.config.cost(io.kind, io.length);
        (cost * self.in_use).div_ceil(u128::from(self.accounts[id.index()].in_use)) as i128
    }

    /// Of a tenant's first IO, the device time at which it may go, and its charge.
    fn head(&self, id: TenantId) -> Option<(i128, i128)> {
        let (io, _) = self.queues.head(id)?;
        let charge = self.charge(id, io);
        Some((self.accounts[id.index()].cursor + charge, charge))
    }

    fn ids(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.accounts.len() as u32).map(TenantId)
    }

    /// The tenant with the IO that may go first.
    fn first(&self) -> Option<(i128, TenantId, i128)> {
        let heads = self.ids().filter_map(|id| self.head(id).map(|(moment, charge)| (moment, id, charge)));
        heads.min()
    }

    /// Ends the period, if it is over.
    fn advance(&mut self, now: Instant) {
        if self.runs && now.since(self.began) >= self.config.qos.period() {
            self.end_period(now);
        }
    }

    fn end_period(&mut self, now: Instant) {
        let device = self.device_time(now);
        for id in self.ids() {
            let account = &self.accounts[id.index()];
            let is_idle = !account.has_asked && account.has_all_back() && self.queues.head(id).is_none();
            if account.is_active && is_idle {
                self.deactivate(id);
            }
        }
        let (shortages, donors, lagging) = self.take_stock(device);
        if shortages > 0 {
            donors.iter().for_each(|id| self.give_away(*id));
        }
        if let Some(since) = &mut self.without_request {
            self.waited += now.since(*since);
            *since = now;
        }
        let (length, waited) = (now.since(self.began), core::mem::take(&mut self.waited));
        self.vrate.on_period(&Period { length, waited, shortages, surpluses: donors.len(), lagging });
        (self.began, self.device) = (now, device);
        self.accounts.iter_mut().for_each(|account| account.has_asked = false);
        self.runs = self.accounts.iter().any(|account| account.is_active);
        if !self.runs {
            self.vrate.rest();
        }
    }

    /// Looks at what each tenant has used. Returns how many have too little, which have too much, and how many have old IOs in the SSD.
    fn take_stock(&mut self, device: i128) -> (usize, Vec<TenantId>, usize) {
        let passed = device - self.device;
        let least = device - self.of_period(BUDGET_PER_CENT);
        let (mut shortages, mut donors, mut lagging) = (0, Vec::new(), 0);
        for id in self.ids() {
            if !self.accounts[id.index()].is_active {
                continue;
            }
            let is_waiting = self.head(id).is_some_and(|(moment, _)| moment > device);
            let (share, full) = (self.share_in_use(id), self.weight(id));
            let account = &mut self.accounts[id.index()];
            let is_old =
                account.ended < device - passed && account.cursor > device - LAGGING_PERIODS * passed;
            lagging += usize::from(self.vrate.has_targets() && !account.has_all_back() && is_old);
            let used = account.count(if is_waiting { device } else { account.cursor }, share, passed);
            if !is_waiting && account.cursor < least {
                account.shift(least - account.cursor);
                if Account::surplus(used, share).is_some() {
                    donors.push(id);
                }
            } else if account.in_use < full {
                let wanted = if is_waiting { WHOLE } else { Account::kept(used).max(share) };
                let parts = u128::from(account.in_use) * u128::from(wanted) / u128::from(share);
                let least = account.in_use;
                self.set_in_use(id, u64::try_from(parts).unwrap_or(full).max(least));
            } else {
                shortages += 1;
            }
        }
        (shortages, donors, lagging)
    }

    fn give_away(&mut self, id: TenantId) {
        let share = self.share_in_use(id);
        let account = &self.accounts[id.index()];
        if let Some(left) = account.surplus_lately(share) {
            let parts = (u128::from(account.in_use) * u128::from(left)).div_ceil(u128::from(share));
            self.set_in_use(id, (parts as u64).min(account.in_use));
        }
    }
}

impl IoCost {
    fn submit(&mut self, id: TenantId, charge: i128) -> Io {
        self.accounts[id.index()].cursor += charge;
        let io = self.queues.submit(id);
        Io { mark: self.charged.note(charge), ..io }
    }

    /// Notes that no IO waits for a request any more.
    fn has_requests(&mut self, now: Instant) {
        if let Some(since) = self.without_request.take() {
            self.waited += now.since(since);
        }
    }
}

impl Policy for IoCost {
    fn on_arrival(&mut self, now: Instant, io: Io) -> Ticket {
        self.advance(now);
        let id = io.tenant;
        if !self.account(id).is_active {
            self.activate(now, id);
        }
        let short = self.device_time(now) - self.of_period(SHORT_PER_CENT);
        let (weight, account) = (self.weight(id), self.account(id));
        account.has_asked = true;
        if account.in_use < weight && account.cursor >= short {
            self.set_in_use(id, weight);
        }
        self.queues.on_arrival(now, io)
    }

    fn next(&mut self, now: Instant) -> Next {
        self.advance(now);
        let first = self.first();
        let device = self.device_time(now);
        if let Some((_, id, charge)) = first.filter(|(moment, ..)| *moment <= device) {
            if self.queues.backlog().in_flight < self.config.nr_requests as usize {
                self.has_requests(now);
                return Next::Submit(self.submit(id, charge));
            }
            self.without_request.get_or_insert(now);
            return Next::Idle;
        }
        self.has_requests(now);
        first.map_or(Next::Idle, |(moment, ..)| Next::WakeAt(self.reaches(moment)))
    }

    fn on_completion(&mut self, now: Instant, done: Done) -> Credit {
        self.advance(now);
        let Io { tenant, kind, length, mark, .. } = done.io;
        self.accounts[tenant.index()].ended += self.charged.take(mark);
        if let Outcome::Success { latency } = done.outcome {
            self.vrate.on_end(kind, latency, self.config.size_cost(kind, length));
        }
        self.queues.on_end(&done);
        Credit(u32::MAX)
    }

    fn withdraw_one(&mut self, _now: Instant, tenant: TenantId, ticket: Ticket) -> Io {
        self.queues.withdraw_one(tenant, ticket).0
    }

    fn withdraw(&mut self, _now: Instant, tenant: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        self.queues.withdraw(tenant, gone);
    }

    fn forget(&mut self, _now: Instant, tenant: TenantId) {
        self.deactivate(tenant);
        *self.account(tenant) = Account::default();
        self.queues.forget(tenant);
        self.runs = self.accounts.iter().any(|account| account.is_active);
    }

    fn set_share(&mut self, _now: Instant, tenant: TenantId, share: Share) {
        let was_active = self.account(tenant).is_active;
        self.deactivate(tenant);
        self.queues.set_share(tenant, share);
        let weight = self.weight(tenant);
        let account = self.account(tenant);
        // It has all of its new weight until it is seen to use less.
        account.in_use = weight;
        account.is_active = was_active;
        if was_active {
            self.in_use += u128::from(weight);
        }
    }

    fn credit(&self, _tenant: TenantId) -> Credit {
        Credit(u32::MAX)
    }

    fn backlog(&self) -> Backlog {
        self.queues.backlog()
    }
}
