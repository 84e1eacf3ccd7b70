//! The decisions of Gimbal and level-calibrated, done the obvious way: every question is answered by looking at every tenant.
//!
//! Nothing is taken from the switch under test: buckets, slots, device time in flight, round, service lag and
//! priorities are done again here, as is the line in which IOs wait aside in the order of Gimbal's release;
//! measurements (rate, write cost, fragmentation, the limit on the device time) in `measures`, prices in `costs`.

mod constants;
mod costs;
mod measures;

pub(crate) use constants::Constants;

use measures::Measures;
use sched::{Cost, GimbalOrder, Io, IoId, IoKind, Next};
use std::collections::{BTreeMap, VecDeque};
use units::{Instant, Nanos};

const NANO: i128 = 1_000_000_000;

/// Tokens in billionths of a byte.
#[derive(Clone, Debug)]
struct Buckets {
    read: i128,
    write: i128,
    /// Billionths of a byte × cost that came in since the split last began anew, and what of it the reads have had.
    parts: i128,
    read_share: i128,
    now: Instant,
    rate: i128,
    split: i128,
}

impl Buckets {
    fn until(&self, now: Instant, depth: i128) -> Buckets {
        let mut after = self.clone();
        let earned = self.rate * i128::from(now.since(self.now).0);
        after.now = now;
        after.parts += earned * self.split;
        after.read_share = after.parts / (self.split + i128::from(Cost::SCALE));
        let read = after.read_share - self.read_share;
        after.read += read;
        after.write += earned - read;
        if after.read > depth {
            after.write += after.read - depth;
            after.read = depth;
        }
        if after.write > depth {
            after.read = depth.min(after.read + after.write - depth);
            after.write = depth;
        }
        if after.read == depth && after.write == depth {
            after.split_anew();
        }
        after
    }

    fn split_anew(&mut self) {
        (self.parts, self.read_share) = (0, 0);
    }

    fn of(&mut self, kind: IoKind) -> &mut i128 {
        if kind == IoKind::Read { &mut self.read } else { &mut self.write }
    }
}

#[derive(Clone, Debug, Default)]
struct Slot {
    in_flight: Vec<(IoId, IoKind)>,
    weighted: u64,
    open: bool,
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    queues: [VecDeque<Io>; 4],
    served: [u32; 4],
    deficit: u64,
    slots: Vec<Slot>,
    /// Weighted bytes served; more if it was away while others were served.
    served_bytes: u64,
    /// All its slots were busy when its last IO left or, later, when one of them ended; nothing has arrived since.
    full: bool,
    /// Charge of each of its IOs in flight, where device time is counted.
    charges: BTreeMap<IoId, (IoKind, u64)>,
    /// A moving average of them, times sixteen.
    usual: u64,
}

impl Tenant {
    fn queued(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    fn in_flight(&self) -> usize {
        self.slots.iter().map(|slot| slot.in_flight.len()).sum::<usize>() + self.charges.len()
    }

    fn charged(&self) -> u64 {
        self.charges.values().map(|&(_, charge)| charge).sum()
    }

    fn busy(&self) -> u32 {
        self.slots.iter().filter(|slot| !slot.in_flight.is_empty()).count() as u32
    }

    fn may_submit(&self, allotment: u32) -> bool {
        let fills = self.slots.iter().any(|slot| slot.open && !slot.in_flight.is_empty());
        fills || self.busy() < allotment
    }

    fn class(&self, quotas: &[u32; 4]) -> usize {
        let backlogged = |class: &usize| !self.queues[*class].is_empty();
        (0..4)
            .filter(backlogged)
            .find(|&class| self.served[class] < quotas[class])
            .unwrap_or_else(|| (0..4).find(backlogged).expect("the tenant has backlog"))
    }
}

/// The naive switch.
pub(crate) struct Naive {
    config: Constants,
    weights: Vec<u32>,
    tenants: BTreeMap<u32, Tenant>,
    active: Vec<u32>,
    deferred: Vec<u32>,
    ahead: Vec<u32>,
    /// The most that the least-served tenant with backlog ever had (`service`).
    virtual_time: u64,
    buckets: Buckets,
    /// IOs that wait aside: their turn is over, and their bucket could not pay.
    aside: Vec<Io>,
    /// Whether one more may join them in this step.
    is_open: bool,
    /// When the next step begins, if nothing happens before.
    asked_for: Option<Instant>,
    pub(crate) measures: Measures,
}

impl Naive {
    /// A switch; its tenant `i` has the weight `weights[i]`.
    pub(crate) fn new(config: Constants, weights: &[u32]) -> Naive {
        let depth = i128::from(config.bucket_depth.0) * NANO;
        Naive {
            config,
            weights: weights.to_vec(),
            tenants: (0..weights.len() as u32).map(|id| (id, Tenant::default())).collect(),
            active: Vec::new(),
            deferred: Vec::new(),
            ahead: Vec::new(),
            virtual_time: 0,
            buckets: Buckets {
                read: depth,
                write: depth,
                parts: 0,
                read_share: 0,
                now: Instant::ZERO,
                rate: i128::from(config.rate_start.0),
                split: i128::from(config.device.write_cost_worst.fixed()),
            },
            aside: Vec::new(),
            is_open: true,
            asked_for: None,
            measures: Measures::new(config),
        }
    }

    /// Time passes.
    fn pass(&mut self, now: Instant) {
        self.measures.pass(now, self.in_flight());
    }

    /// IOs in the SSD. IOs that wait aside are in slots already.
    fn in_flight(&self) -> usize {
        self.tenants.values().map(Tenant::in_flight).sum::<usize>() - self.aside.len()
    }

    /// The device time in flight.
    pub(crate) fn charged(&self) -> u64 {
        self.tenants.values().map(Tenant::charged).sum()
    }

    /// Tenants with backlog or IOs in flight.
    pub(crate) fn active_tenants(&self) -> usize {
        self.tenants.values().filter(|tenant| tenant.queued() + tenant.in_flight() > 0).count()
    }

    /// Whole bytes that the buckets could pay.
    pub(crate) fn tokens(&self, now: Instant) -> [u64; 2] {
        let mut buckets = self.buckets.until(now, self.depth());
        [IoKind::Read, IoKind::Write].map(|kind| ((*buckets.of(kind)).max(0) / NANO) as u64)
    }

    pub(crate) fn on_arrival(&mut self, now: Instant, io: Io) {
        self.pass(now);
        self.is_open = true;
        let missed = self.missed(io.tenant.0);
        let tenant = self.tenant(io.tenant.0);
        let was_empty = tenant.queued() == 0;
        tenant.queues[io.priority.index()].push_back(io);
        if was_empty {
            if !std::mem::take(&mut tenant.full) {
                tenant.served_bytes = tenant.served_bytes.max(missed);
            }
            self.join(io.tenant.0);
        }
        self.raise_virtual_time();
    }

    /// One after the other: those who wait aside, as long as the first of them can be paid; then the round, until one more must wait.
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        self.pass(now);
        if self.asked_for.is_some_and(|at| at <= now) {
            self.is_open = true;
            self.asked_for = None;
        }
        if let Some(&first) = self.aside.first()
            && self.pays(now, &first)
        {
            self.pay(now, &first);
            if self.in_flight() == 0 {
                self.measures.on_busy();
            }
            self.aside.remove(0);
            return Next::Submit(first);
        }
        let next = if self.aside.is_empty() || self.is_open { self.next_of_round(now) } else { Next::Idle };
        let next = match (next, self.aside.first()) {
            (Next::Submit(io), _) => return Next::Submit(io),
            (_, Some(first)) => Next::WakeAt(self.first_instant_that_pays(now, first)),
            (next, None) => next,
        };
        if let Next::WakeAt(at) = next {
            self.asked_for = Some(at);
        }
        next
    }

    fn next_of_round(&mut self, now: Instant) -> Next {
        loop {
            self.let_back_whoever_was_ahead();
            let Some(&id) = self.active.first() else { return Next::Idle };
            if !self.may_submit(id) {
                self.defer(id);
                continue;
            }
            if self.is_ahead(id) {
                self.active.remove(0);
                self.ahead.push(id);
                continue;
            }
            let (quotas, quantum) = (self.config.round.class_quotas, self.quantum(id));
            let class = self.tenants[&id].class(&quotas);
            let io = self.tenants[&id].queues[class][0];
            let weighted = self.price(&io);
            let tenant = self.tenant(id);
            if tenant.deficit < weighted {
                tenant.deficit += quantum;
                self.active.rotate_left(1);
                continue;
            }
            if self.config.in_flight.is_some() {
                if self.charged() >= self.measures.limit() {
                    return Next::Idle;
                }
                self.submit(id, class, weighted);
                return Next::Submit(io);
            }
            if !self.pays(now, &io) {
                if self.config.order == GimbalOrder::Release {
                    self.take_turn(id, class, weighted);
                    self.aside.push(io);
                    self.is_open = false;
                }
                return Next::WakeAt(self.first_instant_that_pays(now, &io));
            }
            self.pay(now, &io);
            self.submit(id, class, weighted);
            return Next::Submit(io);
        }
    }

    fn pay(&mut self, now: Instant, io: &Io) {
        self.buckets = self.buckets.until(now, self.depth());
        *self.buckets.of(io.kind) -= i128::from(io.length.0) * NANO;
    }

    /// An IO ended; without a latency it failed.
    pub(crate) fn on_completion(&mut self, now: Instant, io: &Io, latency: Option<Nanos>) {
        self.pass(now);
        self.is_open = true;
        if let Some(latency) = latency
            && io.kind != IoKind::Management
        {
            let charge = self.tenants[&io.tenant.0].charges.get(&io.id).map_or(0, |&(_, charge)| charge);
            let a_tenant_waits = self.tenants.values().any(|tenant| tenant.queued() > 0);
            let is_overloaded = self.measures.on_success(io, latency, charge, a_tenant_waits);
            self.set_pace(now);
            if is_overloaded {
                self.buckets.read = self.buckets.read.min(0);
                self.buckets.write = self.buckets.write.min(0);
            }
        }
        self.give_back(io);
        if self.active.contains(&io.tenant.0) && !self.may_submit(io.tenant.0) {
            self.defer(io.tenant.0);
        }
        self.undefer(io.tenant.0);
        if self.tenants[&io.tenant.0].queued() == 0 {
            self.look_if_full(io.tenant.0);
        }
        self.raise_virtual_time();
    }

    /// Takes the IO out of its slot and out of the device time in flight.
    fn give_back(&mut self, io: &Io) {
        let tenant = self.tenant(io.tenant.0);
        for slot in &mut tenant.slots {
            slot.in_flight.retain(|&(id, _)| id != io.id);
        }
        tenant.slots.retain(|slot| slot.open || !slot.in_flight.is_empty());
        tenant.charges.remove(&io.id);
    }

    /// An IO that waits aside leaves its slot as if it had ended.
    pub(crate) fn withdraw(&mut self, now: Instant, id: u32, gone: impl Fn(&Io) -> bool) {
        self.pass(now);
        for io in self.aside.clone().into_iter().filter(|io| io.tenant.0 == id && gone(io)) {
            self.aside.retain(|other| other.id != io.id);
            self.give_back(&io);
            if self.active.contains(&id) && !self.may_submit(id) {
                self.defer(id);
            }
            self.undefer(id);
        }
        let tenant = self.tenant(id);
        let had_backlog = tenant.queued() > 0;
        for queue in &mut tenant.queues {
            queue.retain(|io| !gone(io));
        }
        if tenant.queued() == 0 {
            if had_backlog {
                self.leave(id);
            }
        } else if self.active.contains(&id) && !self.may_submit(id) {
            self.defer(id);
        }
        self.undefer(id);
        self.raise_virtual_time();
    }

    pub(crate) fn busy(&self, id: u32) -> u32 {
        self.tenants[&id].busy()
    }

    pub(crate) fn allotment(&self, id: u32) -> u32 {
        if self.config.in_flight.is_some() {
            return 0;
        }
        let share = u64::from(self.config.slots) * self.weight(id) / self.active_weights_with(id);
        (share as u32).max(1)
    }

    /// Σ of the weights of active tenants, this one counted as active.
    fn active_weights_with(&self, id: u32) -> u64 {
        let is_active = |id: u32| self.tenants[&id].queued() + self.tenants[&id].in_flight() > 0;
        let others = self.tenants.keys().copied().filter(|&other| other != id && is_active(other));
        others.map(|id| self.weight(id)).sum::<u64>() + self.weight(id)
    }

    fn set_pace(&mut self, now: Instant) {
        let (rate, split) = (self.measures.target_rate(), i128::from(self.measures.write_cost().fixed()));
        self.buckets = self.buckets.until(now, self.depth());
        if split != self.buckets.split {
            self.buckets.split_anew();
        }
        (self.buckets.rate, self.buckets.split) = (i128::from(rate), split);
    }

    fn submit(&mut self, id: u32, class: usize, weighted: u64) {
        if self.in_flight() == 0 {
            self.measures.on_busy();
        }
        self.take_turn(id, class, weighted);
    }

    /// The tenant's turn is over: the IO is charged, and in a slot.
    fn take_turn(&mut self, id: u32, class: usize, weighted: u64) {
        let (quota, size) = (self.config.round.class_quotas[class], self.config.slot_size.0);
        let in_flight = self.config.in_flight;
        self.tenant(id).served_bytes += weighted;
        self.raise_virtual_time(); // even if it was the tenant's last IO
        let tenant = self.tenant(id);
        let io = tenant.queues[class].pop_front().expect("it is the head");
        if tenant.served[class] >= quota {
            tenant.served = [0; 4];
        }
        tenant.served[class] += 1;
        tenant.deficit -= weighted;
        if let Some(limits) = in_flight {
            let charge = weighted.max(limits.io_min.0);
            tenant.charges.insert(io.id, (io.kind, charge));
            let usual = if tenant.usual == 0 { 16 * charge } else { tenant.usual };
            tenant.usual = usual - usual / 16 + charge;
        } else {
            if !tenant.slots.iter().any(|slot| slot.open) {
                tenant.slots.push(Slot { open: true, ..Slot::default() });
            }
            let slot = tenant.slots.iter_mut().find(|slot| slot.open).expect("one is open");
            slot.in_flight.push((io.id, io.kind));
            slot.weighted += weighted;
            slot.open = slot.weighted < size;
        }
        if tenant.queued() == 0 {
            self.leave(id);
        } else if !self.may_submit(id) {
            self.defer(id);
        }
        self.raise_virtual_time();
    }

    /// Weighted bytes per weight.
    fn service(&self, id: u32) -> u64 {
        self.tenants[&id].served_bytes / self.weight(id)
    }

    fn raise_virtual_time(&mut self) {
        let competes = |tenant: &Tenant| tenant.queued() > 0 || tenant.full;
        let competing = self.tenants.keys().copied().filter(|id| competes(&self.tenants[id]));
        let least = competing.map(|id| self.service(id)).min();
        self.virtual_time = self.virtual_time.max(least.unwrap_or(0));
    }

    /// The service that a tenant has at least when it comes back, times its weight.
    fn missed(&self, id: u32) -> u64 {
        self.virtual_time.saturating_sub(self.config.lag_catch_up.0) * self.weight(id)
    }

    /// A tenant without backlog may compete because of its slots.
    fn look_if_full(&mut self, id: u32) {
        let counts = self.config.in_flight.is_some();
        let charged = self.tenants[&id].charged();
        let is_full = match self.config.in_flight {
            Some(_) => {
                let (part, usual) = (self.part(id), self.tenants[&id].usual.max(16));
                let credited = part * 16 / usual * usual / 16;
                charged > 0 && 2 * charged >= if credited == 0 { part } else { credited }
            }
            None => !self.may_submit(id),
        };
        let (full, missed) = (counts && is_full, self.missed(id));
        let tenant = self.tenant(id);
        if full && !tenant.full {
            tenant.served_bytes = tenant.served_bytes.max(missed);
        }
        tenant.full = full;
    }

    /// Unit of slots, deficit and service.
    fn price(&self, io: &Io) -> u64 {
        if let Some(costs) = &self.config.costs {
            return costs::at(costs, self.measures.fragmentation(), io);
        }
        let cost = if io.kind == IoKind::Read { Cost::ONE } else { self.measures.write_cost() };
        (u128::from(io.length.0) * u128::from(cost.fixed()) / u128::from(Cost::SCALE)) as u64
    }

    fn is_ahead(&self, id: u32) -> bool {
        self.config.lag_max.is_some_and(|lag_max| self.service(id) > self.virtual_time + lag_max.0)
    }

    /// The least-served first.
    fn let_back_whoever_was_ahead(&mut self) {
        let mut back: Vec<u32> = self.ahead.iter().copied().filter(|&id| !self.is_ahead(id)).collect();
        back.sort_by_key(|&id| (self.service(id), id));
        self.ahead.retain(|id| !back.contains(id));
        for id in back {
            self.join(id);
        }
    }

    /// To the back of the round, with a quantum.
    fn join(&mut self, id: u32) {
        let quantum = self.quantum(id);
        self.tenant(id).deficit = quantum;
        self.active.push(id);
        if !self.may_submit(id) {
            self.defer(id);
        }
    }

    fn tenant(&mut self, id: u32) -> &mut Tenant {
        self.tenants.get_mut(&id).expect("tenants are known from the start")
    }

    fn depth(&self) -> i128 {
        i128::from(self.config.bucket_depth.0) * NANO
    }

    fn pays(&self, now: Instant, io: &Io) -> bool {
        let price = i128::from(io.length.0) * NANO;
        *self.buckets.until(now, self.depth()).of(io.kind) >= price.min(self.depth())
    }

    fn first_instant_that_pays(&self, now: Instant, io: &Io) -> Instant {
        let (mut too_early, mut early_enough) = (now, now + Nanos::secs(10_000));
        assert!(self.pays(early_enough, io), "{io:?} would never go");
        while early_enough.since(too_early) > Nanos(1) {
            let middle = too_early + Nanos(early_enough.since(too_early).0 / 2);
            if self.pays(middle, io) {
                early_enough = middle;
            } else {
                too_early = middle;
            }
        }
        early_enough
    }

    fn weight(&self, id: u32) -> u64 {
        u64::from(self.weights[id as usize])
    }

    fn quantum(&self, id: u32) -> u64 {
        self.config.round.quantum.0 * self.weight(id)
    }

    fn may_submit(&self, id: u32) -> bool {
        match self.config.in_flight {
            Some(_) => self.tenants[&id].charged() == 0 || self.tenants[&id].charged() < self.part(id),
            None => self.tenants[&id].may_submit(self.allotment(id)),
        }
    }

    /// Twice the tenant's share of the device time.
    fn part(&self, id: u32) -> u64 {
        2 * self.measures.limit() * self.weight(id) / self.active_weights_with(id)
    }

    fn leave(&mut self, id: u32) {
        self.active.retain(|&other| other != id);
        self.deferred.retain(|&other| other != id);
        self.ahead.retain(|&other| other != id);
        self.tenant(id).deficit = 0;
        self.tenant(id).full = true; // it has competed until now
        self.look_if_full(id);
    }

    fn defer(&mut self, id: u32) {
        self.active.retain(|&other| other != id);
        self.deferred.push(id);
        self.tenant(id).deficit = 0;
    }

    /// Moves each tenant that waited for a slot and has one now to the back of the round; of those that wait for their
    /// part of the device time, only the tenant `to`, whose state has changed.
    fn undefer(&mut self, to: u32) {
        let waiting = std::mem::take(&mut self.deferred);
        let (now_active, still_waiting): (Vec<u32>, Vec<u32>) = waiting
            .into_iter()
            .partition(|&id| (self.config.in_flight.is_none() || id == to) && self.may_submit(id));
        self.active.extend(now_active);
        self.deferred = still_waiting;
    }
}
