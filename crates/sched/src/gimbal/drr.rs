//! Virtual-slot DRR: whose IO goes to the SSD next.
//!
//! A slot is a bundle of one tenant's IOs, up to 128 KiB of cost. It frees only when every IO in it has completed. A tenant
//! with no free slot waits outside the round, so slow large writes cannot fill the device ahead of someone's 4 KiB reads.
//!
//! ```text
//!   idle ──arrival──► active ──last slot closes──► deferred ──a slot frees──► active ──queue empty──► idle
//!                        ├──a limit forbids──► limited ──its time comes──► active
//!                        └──too far ahead────► ahead ──the others catch up──► active
//! ```
//!
//! Inside the round: deficit round robin. The tenant in front submits while its deficit covers the weighted size of its
//! next IO; if it does not, it gets a quantum and goes to the back. Every active tenant is allotted
//! `slots × weight / Σ weights` slots, at least one.
//!
//! Beyond the paper, per tenant and off unless asked for: a *weight* scales quantum and allotment; a *limit* keeps the
//! tenant out of the round until it is due; a tenant behind its *reservation* goes before the round, and up to all slots
//! of the SSD instead of its allotment. Reservations that do not fit the SSD starve the others.
//!
//! Beyond the paper, for all tenants and off unless asked for: a *bounded lead* (`lead`) keeps shares equal across
//! deferral, where the round alone does not; a `window` stands in the place of slots: a tenant is then deferred when its part of the
//! device time in flight is used up.
//!
//! Cost: O(1) per IO; O(log n) with limits, reservations or the bounded lead. When nobody's deficit covers its next IO the
//! whole round is looked at three times, however many quanta are missing (`skip_rounds`). When a
//! tenant goes idle deferred tenants may gain a slot: at equal weights only fewer than `slots` of them are looked at, at
//! unequal weights possibly all.
//!
//! Holds: a tenant is in exactly one place (`lists`);
//!        backlogged tenants' cost differs by a fixed bound: while they hold slots (`equal_tenants_stay_close`), with the
//!        bounded lead always (`out_of_slots_or_not_tenants_stay_close`);
//!        without a head, whoever has backlog is out of slots, limited or ahead, and not all of them are ahead
//!        (`tests/worlds.rs`);
//!        every decision is the naive model's (`tests/against_naive.rs`).
//! Elsewhere: when an IO may leave is `bucket`; what a write costs is `write_cost`; a tenant's own order is `queue`.
//! Paper: Gimbal §3.5.

use super::GimbalConfig;
use super::costs::Prices;
use super::lead::Lead;
use super::lists::{Lists, Place};
use super::ranking::Ranking;
use super::tenant::Tenant;
use super::window::{Window, WindowSizes};
use crate::{Backlog, Credit, Io, IoKind, Share, TenantView, Ticket};
use alloc::vec::Vec;
use units::{Bytes, Instant, TenantId};

/// The IO that goes next, as soon as its bucket can pay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub tenant: TenantId,
    pub kind: IoKind,
    pub length: Bytes,
    /// What a reservation counts.
    reserved: Bytes,
    /// What it costs at present, with what every IO costs besides: what slots, deficit and service count.
    weighted: Bytes,
}

/// All tenants of one SSD and the order among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Drr {
    tenants: Vec<Tenant>,
    lists: Lists,
    /// When each limited tenant may rejoin the round.
    limits: Ranking<Instant>,
    /// When each tenant with a reservation, backlog and a slot falls behind.
    reservations: Ranking<Instant>,
    /// Who has been served how much; kept only with `lead_max`.
    lead: Lead,
    /// Σ of the weights of active tenants: backlog or IOs in flight, unless waiting for a limit with none in flight.
    active_weight: u64,
    /// The allotment of an active tenant of weight 1, which nearly all are, at this sum.
    allotment_common: u32,
    active_tenants: usize,
    /// Σ of the weights of tenants that have reads queued or in flight.
    read_weight: u64,
    /// The same for everything else.
    write_weight: u64,
    /// No tenant's weight is above this.
    weight_max: u32,
    backlog: Backlog,
    /// What is in the SSD; kept only with `window`.
    window: Window,
    /// The part of the window of an active tenant of weight 1.
    part_common: Bytes,
}

impl Drr {
    pub(super) fn new(config: &GimbalConfig) -> Drr {
        let window = config.window.as_ref().map_or_else(Window::default, Window::new);
        Drr { window, ..Drr::default() }
    }

    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    pub(super) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(super) fn active_tenants(&self) -> usize {
        self.active_tenants
    }

    /// Whether somebody waits, and not for a limit of its own.
    #[inline]
    pub(super) fn is_held_back(&self) -> bool {
        self.backlog.queued > 0 && self.limits.first().is_none()
    }

    /// The weights of the tenants that have reads queued or in flight, and of those that have others.
    pub(super) fn weights_by_kind(&self) -> (u64, u64) {
        (self.read_weight, self.write_weight)
    }

    #[inline]
    pub(super) fn on_arrival(&mut self, config: &GimbalConfig, io: Io) -> Ticket {
        assert!(io.length > Bytes::ZERO, "{io:?} moves no bytes");
        self.make_room(io.tenant);
        self.on_outstanding(&io);
        let tenant = &mut self.tenants[io.tenant.index()];
        let had_backlog = !tenant.queue.is_empty();
        let ticket = tenant.queue.push(io);
        self.backlog.queued += 1;
        if !had_backlog {
            self.enter(config, io.tenant);
        }
        ticket
    }

    /// The IO that goes next at these prices. Asking again changes nothing.
    #[inline]
    pub(super) fn head(&mut self, config: &GimbalConfig, now: Instant, prices: Prices<'_>) -> Option<Head> {
        self.release_limited(config, now);
        if let Some(id) = self.behind_reservation(config, now) {
            return Some(self.head_of(config, id, prices));
        }
        let mut passed_over_first = None;
        loop {
            self.release_ahead(config);
            let id = self.lists.front(Place::Active)?;
            if !self.may_submit(config, id) {
                self.defer(config, id);
                passed_over_first = None;
                continue;
            }
            if self.hold_if_limited(config, now, id) || self.hold_if_ahead(config, id) {
                passed_over_first = None;
                continue;
            }
            let head = self.head_of(config, id, prices);
            if self.tenants[id.index()].deficit >= head.weighted {
                return Some(head);
            }
            if passed_over_first == Some(id) {
                self.skip_rounds(config, prices);
                passed_over_first = None;
                continue;
            }
            passed_over_first = passed_over_first.or(Some(id));
            let tenant = &mut self.tenants[id.index()];
            tenant.deficit += quantum(config, tenant);
            self.lists.move_to_back(id, Place::Active);
        }
    }

    /// Everybody in the round has been passed over, so the rounds that would pass over everybody again are taken at once:
    /// an IO of many quanta would keep the round spinning for long, and a hostile host can ask for millions.
    fn skip_rounds(&mut self, config: &GimbalConfig, prices: Prices<'_>) {
        let mut rounds = u64::MAX;
        let mut next = self.lists.front(Place::Active);
        while let Some(id) = next {
            next = self.lists.after(id);
            let tenant = &self.tenants[id.index()];
            let missing = self.head_of(config, id, prices).weighted.saturating_sub(tenant.deficit);
            rounds = rounds.min(missing.0.div_ceil(quantum(config, tenant).0));
        }
        let mut next = self.lists.front(Place::Active);
        while let Some(id) = next {
            next = self.lists.after(id);
            let tenant = &mut self.tenants[id.index()];
            let granted = Bytes(quantum(config, tenant).0.saturating_mul(rounds));
            tenant.deficit = tenant.deficit.saturating_add(granted);
        }
    }

    /// The head, whose bucket has paid, leaves for the SSD.
    #[inline]
    pub(super) fn submit(&mut self, config: &GimbalConfig, now: Instant, head: Head) -> Io {
        let id = head.tenant;
        let tenant = &mut self.tenants[id.index()];
        let mut io = tenant.queue.pop(&config.class_quotas).expect("the head is queued");
        assert_eq!(io.length, head.length, "the head changed between the decision and the submission");
        io.mark = match &config.window {
            Some(sizes) => {
                let mark = sizes.charge(head.weighted);
                tenant.occupied.on_submit(&mut self.window, mark);
                mark
            }
            None => tenant.slots.on_submit(head.weighted, config.slot_size),
        };
        tenant.in_flight += 1;
        // Saturates for a tenant that went before the round because of its reservation.
        tenant.deficit = tenant.deficit.saturating_sub(head.weighted);
        tenant.charge_meters(now, &io, head.reserved);
        if let Some(lead_max) = config.lead_max {
            self.lead.on_submit(id, head.weighted, tenant.weight, lead_max, config.lead_catch_up);
        }
        self.backlog.queued -= 1;
        self.backlog.in_flight += 1;
        if self.tenants[id.index()].queue.is_empty() {
            self.leave(config, id);
        } else {
            self.settle(config, id);
        }
        io
    }

    /// A submitted IO has ended. Answers the tenant's credit.
    #[inline]
    pub(super) fn on_completion(&mut self, config: &GimbalConfig, io: &Io) -> Credit {
        let known = self.tenants.get_mut(io.tenant.index()).filter(|tenant| tenant.in_flight > 0);
        let tenant = known.unwrap_or_else(|| panic!("{io:?} ended, but none of its tenant is in flight"));
        tenant.in_flight -= 1;
        if config.window.is_some() {
            tenant.occupied.on_end(&mut self.window, io.mark);
        } else {
            tenant.slots.on_completion(io.mark);
        }
        self.backlog.in_flight -= 1;
        let (has_backlog, has_ios) = (!tenant.queue.is_empty(), tenant.has_ios());
        self.on_ended(io);
        if has_backlog {
            self.settle(config, io.tenant);
        } else {
            if !has_ios {
                self.recount(config, io.tenant);
            }
            self.stay_idle(config, io.tenant);
        }
        self.credit(config, io.tenant)
    }

    /// A read or write completed: how large the window should be is found out from what does.
    #[inline]
    pub(super) fn on_window_completion(&mut self, sizes: &WindowSizes, now: Instant, io: &Io) {
        if self.window.on_completion(now, sizes, io) && self.active_weight > 0 {
            self.part_common = self.window.part(Share::EQUAL.weight, self.active_weight);
        }
    }

    pub(super) fn withdraw_one(&mut self, config: &GimbalConfig, id: TenantId, ticket: Ticket) -> Io {
        let known = self.tenants.get_mut(id.index());
        let tenant = known.unwrap_or_else(|| panic!("{ticket:?} of {id}, who has nothing queued"));
        let io = tenant.queue.withdraw_one(ticket);
        self.backlog.queued -= 1;
        self.on_ended(&io);
        self.settle(config, id);
        io
    }

    pub(super) fn withdraw(
        &mut self,
        config: &GimbalConfig,
        id: TenantId,
        gone: &mut dyn FnMut(&Io) -> bool,
    ) {
        let Some(tenant) = self.tenants.get_mut(id.index()) else { return };
        let mut queue = core::mem::take(&mut tenant.queue);
        let before = queue.len();
        queue.withdraw(&mut |io| {
            let is_gone = gone(io);
            if is_gone {
                self.on_ended(io);
            }
            is_gone
        });
        self.backlog.queued -= before - queue.len();
        self.tenants[id.index()].queue = queue;
        self.settle(config, id);
    }

    pub(super) fn forget(&mut self, config: &GimbalConfig, id: TenantId) {
        let Some(tenant) = self.tenants.get_mut(id.index()) else { return };
        let (queued, in_flight) = (tenant.queue.len(), tenant.in_flight);
        assert!(
            !tenant.has_ios(),
            "{id} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        let weight = tenant.weight;
        *tenant = Tenant::new();
        self.lead.forget(id);
        self.weight_changed(config, weight, Share::EQUAL.weight);
    }

    pub(super) fn set_share(&mut self, config: &GimbalConfig, id: TenantId, share: Share) {
        assert!(share.weight > 0, "{id} is given a weight of zero");
        self.make_room(id);
        self.uncount(config, id);
        let tenant = &mut self.tenants[id.index()];
        let weight = tenant.weight;
        tenant.set_share(share, config);
        if tenant.reads > 0 {
            self.read_weight = self.read_weight - u64::from(weight) + u64::from(share.weight);
        }
        if tenant.writes > 0 {
            self.write_weight = self.write_weight - u64::from(weight) + u64::from(share.weight);
        }
        if self.lists.place(id) == Place::Limited {
            self.rejoin(config, id);
        }
        self.settle(config, id);
        self.weight_changed(config, weight, share.weight);
    }

    /// IOs of the tenant may never end. If it waits for them, the others no longer wait for it.
    pub(super) fn on_overdue(&mut self, config: &GimbalConfig, id: TenantId) {
        if let Some(tenant) = self.tenants.get_mut(id.index())
            && config.window.is_some()
        {
            tenant.occupied.excuse(&mut self.window);
        }
        let is_stuck =
            id.index() < self.tenants.len() && matches!(self.lists.place(id), Place::Deferred | Place::Idle);
        if config.lead_max.is_some() && is_stuck {
            self.lead.excuse(id, config.lead_catch_up);
        }
    }

    /// Slots that the tenant may have busy, counting it as active.
    #[inline]
    pub(super) fn allotment(&self, config: &GimbalConfig, id: TenantId) -> u32 {
        let (weight, counted) = self
            .tenants
            .get(id.index())
            .map_or((Share::EQUAL.weight, false), |tenant| (tenant.weight, tenant.counted));
        if counted && weight == Share::EQUAL.weight {
            return self.allotment_common;
        }
        let others = self.active_weight - if counted { u64::from(weight) } else { 0 };
        allotment(config, weight, others + u64::from(weight))
    }

    /// The part of the window that the tenant may have, counting it as active.
    #[inline]
    pub(super) fn part(&self, id: TenantId) -> Bytes {
        match self.tenants.get(id.index()) {
            Some(tenant) if tenant.counted && tenant.weight == Share::EQUAL.weight => self.part_common,
            Some(tenant) if tenant.counted => self.window.part(tenant.weight, self.active_weight),
            other => {
                let weight = other.map_or(Share::EQUAL.weight, |tenant| tenant.weight);
                self.window.part(weight, self.active_weight + u64::from(weight))
            }
        }
    }

    /// Slots allotted × IOs in the slot that was freed last, or the IOs that fit the tenant's part of the window. With a reservation
    /// the tenant may have all slots, or all of the window: with the credit of its allotment alone it could not ask for what it was
    /// promised.
    #[inline]
    pub(super) fn credit(&self, config: &GimbalConfig, id: TenantId) -> Credit {
        let tenant = self.tenants.get(id.index());
        let ios = tenant.and_then(|tenant| tenant.slots.last_freed_ios()).unwrap_or(config.slot_ios_initial);
        let is_reserved = tenant.is_some_and(|tenant| tenant.reservation_due().is_some());
        if let Some(sizes) = &config.window {
            let occupied = tenant.map(|tenant| tenant.occupied).unwrap_or_default();
            return occupied.credit(if is_reserved { self.window.whole() } else { self.part(id) }, sizes);
        }
        let allotted = self.allotment(config, id);
        let slots = if is_reserved { allotted.max(config.slots()) } else { allotted };
        Credit(slots.saturating_mul(ios))
    }

    /// The earliest instant after `now` at which time alone may bring another head: a limit ends, a reservation falls
    /// behind. (A tenant already behind is the head.)
    #[inline]
    pub(super) fn next_timer(&mut self, now: Instant) -> Option<Instant> {
        let timers = [self.limits.first(), self.reservations.first()];
        timers.into_iter().flatten().map(|(at, _)| at).filter(|&at| at > now).min()
    }

    pub(super) fn view(&self, config: &GimbalConfig, id: TenantId) -> Option<TenantView> {
        let tenant = self.tenants.get(id.index())?;
        Some(TenantView {
            queued: tenant.queue.len(),
            in_flight: tenant.in_flight,
            slots_busy: tenant.slots.busy(),
            slots_allotted: if config.window.is_some() { 0 } else { self.allotment(config, id) },
            credit: self.credit(config, id),
            lead: self.lead.of(id),
        })
    }

    fn on_outstanding(&mut self, io: &Io) {
        let tenant = &mut self.tenants[io.tenant.index()];
        let weight = u64::from(tenant.weight);
        let outstanding = tenant.outstanding(io.kind);
        *outstanding += 1;
        if *outstanding == 1 {
            *self.weight_of(io.kind) += weight;
        }
    }

    fn on_ended(&mut self, io: &Io) {
        let tenant = &mut self.tenants[io.tenant.index()];
        let weight = u64::from(tenant.weight);
        let outstanding = tenant.outstanding(io.kind);
        *outstanding -= 1;
        if *outstanding == 0 {
            *self.weight_of(io.kind) -= weight;
        }
    }

    fn weight_of(&mut self, kind: IoKind) -> &mut u64 {
        if kind.pays_as_write() { &mut self.write_weight } else { &mut self.read_weight }
    }

    #[inline]
    fn make_room(&mut self, id: TenantId) {
        if id.index() >= self.tenants.len() {
            self.grow(id.index() + 1);
        }
    }

    #[cold]
    fn grow(&mut self, tenants: usize) {
        self.tenants.resize_with(tenants, Tenant::new);
        self.lists.grow(tenants);
        self.limits.grow(tenants);
        self.reservations.grow(tenants);
        self.lead.grow(tenants);
        self.weight_max = self.weight_max.max(Share::EQUAL.weight);
    }

    #[inline]
    fn may_submit(&self, config: &GimbalConfig, id: TenantId) -> bool {
        let tenant = &self.tenants[id.index()];
        match config.window {
            Some(_) => tenant.occupied.may_submit(self.part(id)),
            None => tenant.slots.may_submit(self.allotment(config, id)),
        }
    }

    #[inline]
    fn head_of(&self, config: &GimbalConfig, id: TenantId, prices: Prices<'_>) -> Head {
        let head = self.tenants[id.index()].queue.head();
        let &Io { kind, length, .. } = head.expect("a tenant without backlog is idle");
        let weighted = prices.of(kind, length) + config.io_overhead;
        Head { tenant: id, kind, length, reserved: prices.reserved(kind, length), weighted }
    }
}

/// The slots of a tenant of this weight among active ones of `active_weight` in all, itself included.
fn allotment(config: &GimbalConfig, weight: u32, active_weight: u64) -> u32 {
    let share = u64::from(config.slots()) * u64::from(weight) / active_weight;
    config.slots_per_tenant_min.max(share as u32)
}

fn quantum(config: &GimbalConfig, tenant: &Tenant) -> Bytes {
    Bytes(config.quantum.0.saturating_mul(u64::from(tenant.weight)))
}

#[path = "drr_moves.rs"]
mod moves;

#[cfg(test)]
#[path = "drr_tests.rs"]
mod tests;
