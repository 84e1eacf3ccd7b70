//! How tenants move between the places of the round, and what moving them entails.
//!
//! Whatever changes a tenant's queue, slots or share ends here: `settle` puts the tenant where it belongs; `enter` and `leave`
//! are the two cases that nearly every IO of a short queue meets. Around them stand the three reasons to be out of the round
//! (no slot, a limit, too far ahead), the timers that bring a tenant back, and the sum of active weights that allotments
//! come from.
//!
//! Elsewhere: who is next, and the picture of the places, is `drr`; the lists themselves are `lists`.

use super::{Drr, allotment, quantum};
use crate::Share;
use crate::gimbal::lists::Place;
use crate::gimbal::{DeferredDeficit, GimbalConfig, LeadAmong};
use units::{Bytes, Instant, TenantId};

impl Drr {
    /// Puts a tenant where its queue and slots say it belongs, after either has changed.
    pub(super) fn settle(&mut self, config: &GimbalConfig, id: TenantId) {
        if self.tenants[id.index()].queue.is_empty() {
            if self.lists.place(id) != Place::Idle {
                self.leave(config, id);
            }
            self.recount(config, id);
        } else if self.lists.place(id) == Place::Idle {
            self.enter(config, id);
        } else {
            self.recount(config, id);
            match (self.lists.place(id), self.may_submit(config, id)) {
                (Place::Active, false) => self.defer(config, id),
                (Place::Deferred, true) => self.move_to(config, id, Place::Active),
                _ => {}
            }
            self.watch_reservation(config, id);
        }
    }

    /// An idle tenant has backlog.
    pub(super) fn enter(&mut self, config: &GimbalConfig, id: TenantId) {
        self.rejoin(config, id);
        self.recount(config, id);
        if !self.may_submit(config, id) {
            self.defer(config, id);
        }
        self.watch_reservation(config, id);
    }

    /// A tenant's last IO has left its queue. Whether it is active still is for `recount` to say.
    pub(super) fn leave(&mut self, config: &GimbalConfig, id: TenantId) {
        self.tenants[id.index()].deficit = Bytes::ZERO;
        self.limits.set(id, None);
        self.lists.move_to_back(id, Place::Idle);
        if config.lead_max.is_some() {
            let competes = self.competes_idle(config, id);
            self.lead.on_idle(id, competes, config.lead_catch_up);
        }
        self.reservations.set(id, None);
    }

    /// Takes a tenant from one place to another; a timer that it had is over.
    #[inline]
    pub(super) fn move_to(&mut self, config: &GimbalConfig, id: TenantId, place: Place) {
        self.limits.set(id, None);
        self.lists.move_to_back(id, place);
        if config.lead_max.is_some() {
            self.lead.on_move(id, place, config.lead_catch_up);
        }
    }

    /// An IO of a tenant without backlog has ended; the leads of others may have been measured against it.
    #[inline]
    pub(super) fn stay_idle(&mut self, config: &GimbalConfig, id: TenantId) {
        if config.lead_max.is_some() && config.lead_among == LeadAmong::BackloggedOrFull {
            let competes = self.competes_idle(config, id);
            self.lead.on_idle(id, competes, config.lead_catch_up);
        }
    }

    /// Whether the leads of others are measured against a tenant without backlog: for as long as all its slots are busy, or it has
    /// half of its part of the window in the SSD.
    #[inline]
    fn competes_idle(&self, config: &GimbalConfig, id: TenantId) -> bool {
        if config.lead_among == LeadAmong::Backlogged {
            return false;
        }
        match config.window {
            Some(_) => self.tenants[id.index()].occupied.is_held_to(self.part(id)),
            None => !self.may_submit(config, id),
        }
    }

    /// Puts a tenant at the back of the round with one quantum.
    pub(super) fn rejoin(&mut self, config: &GimbalConfig, id: TenantId) {
        let tenant = &mut self.tenants[id.index()];
        tenant.deficit = quantum(config, tenant);
        self.move_to(config, id, Place::Active);
    }

    pub(super) fn defer(&mut self, config: &GimbalConfig, id: TenantId) {
        if config.deferred_deficit == DeferredDeficit::Lost {
            self.tenants[id.index()].deficit = Bytes::ZERO;
        }
        self.move_to(config, id, Place::Deferred);
    }

    /// Takes a tenant out of the round if one of its limits forbids its next IO now.
    #[inline]
    pub(super) fn hold_if_limited(&mut self, config: &GimbalConfig, now: Instant, id: TenantId) -> bool {
        let until = self.tenants[id.index()].limited_until().filter(|&until| until > now);
        if let Some(until) = until {
            self.hold(config, id, until);
        }
        until.is_some()
    }

    pub(super) fn hold(&mut self, config: &GimbalConfig, id: TenantId, until: Instant) {
        self.tenants[id.index()].deficit = Bytes::ZERO;
        self.move_to(config, id, Place::Limited);
        self.limits.set(id, Some(until));
        self.settle(config, id);
    }

    /// Lets the tenants whose limits have run out back into the round.
    #[inline]
    pub(super) fn release_limited(&mut self, config: &GimbalConfig, now: Instant) {
        while let Some((_, id)) = self.limits.first().filter(|&(at, _)| at <= now) {
            self.rejoin(config, id);
            self.settle(config, id);
        }
    }

    /// Takes a tenant out of the round if it has been served too much more than the others.
    #[inline]
    pub(super) fn hold_if_ahead(&mut self, config: &GimbalConfig, id: TenantId) -> bool {
        let ahead = config.lead_max.is_some_and(|lead_max| self.lead.of(id) > lead_max);
        if ahead {
            self.move_to(config, id, Place::Ahead);
        }
        ahead
    }

    /// Lets the tenants with whom the others have caught up back into the round.
    #[inline]
    pub(super) fn release_ahead(&mut self, config: &GimbalConfig) {
        let Some(lead_max) = config.lead_max else { return };
        while let Some(id) = self.lead.caught_up(lead_max) {
            self.rejoin(config, id);
            self.settle(config, id);
        }
    }

    /// The tenant that has been behind its reservation longest, among those that could submit.
    #[inline]
    pub(super) fn behind_reservation(&mut self, config: &GimbalConfig, now: Instant) -> Option<TenantId> {
        while let Some((_, id)) = self.reservations.first().filter(|&(at, _)| at <= now) {
            if !self.hold_if_limited(config, now, id) {
                return Some(id);
            }
        }
        None
    }

    /// Sets the reservation's timer if the tenant could make use of it.
    #[inline]
    pub(super) fn watch_reservation(&mut self, config: &GimbalConfig, id: TenantId) {
        let tenant = &self.tenants[id.index()];
        if !tenant.is_metered() {
            self.reservations.set(id, None);
            return;
        }
        let due = tenant.reservation_due().filter(|_| {
            matches!(self.lists.place(id), Place::Active | Place::Deferred | Place::Ahead)
                && match config.window {
                    Some(_) => tenant.occupied.may_submit(self.window.whole()),
                    None => tenant.slots.may_submit(config.slots()),
                }
        });
        self.reservations.set(id, due);
    }

    /// Counts the tenant's weight if it is active and only then.
    #[inline]
    pub(super) fn recount(&mut self, config: &GimbalConfig, id: TenantId) {
        let tenant = &mut self.tenants[id.index()];
        let waits_for_limit = self.lists.place(id) == Place::Limited;
        let active = tenant.in_flight > 0 || (!tenant.queue.is_empty() && !waits_for_limit);
        if active && !tenant.counted {
            tenant.counted = true;
            let active_weight = self.active_weight + u64::from(tenant.weight);
            self.set_active_weight(config, active_weight);
            self.active_tenants += 1;
        } else if !active && tenant.counted {
            self.uncount(config, id);
            self.promote_deferred(config);
        }
    }

    pub(super) fn uncount(&mut self, config: &GimbalConfig, id: TenantId) {
        let tenant = &mut self.tenants[id.index()];
        if core::mem::replace(&mut tenant.counted, false) {
            let active_weight = self.active_weight - u64::from(tenant.weight);
            self.set_active_weight(config, active_weight);
            self.active_tenants -= 1;
        }
    }

    pub(super) fn set_active_weight(&mut self, config: &GimbalConfig, active_weight: u64) {
        self.active_weight = active_weight;
        if active_weight > 0 {
            self.allotment_common = allotment(config, Share::EQUAL.weight, active_weight);
            self.part_common = self.window.part(Share::EQUAL.weight, active_weight);
        }
    }

    /// Fewer tenants are active, so those that remain may have been allotted another slot. (A larger part of the window is noticed when
    /// the next IO of the tenant ends; there is one, or it would not be deferred.)
    pub(super) fn promote_deferred(&mut self, config: &GimbalConfig) {
        if config.window.is_some() {
            return;
        }
        let slots = u64::from(config.slots());
        let allotment_min = u64::from(config.slots_per_tenant_min);
        if slots * u64::from(self.weight_max) < (allotment_min + 1) * self.active_weight {
            return; // nobody is allotted more than the least
        }
        let mut next = self.lists.front(Place::Deferred);
        while let Some(id) = next {
            next = self.lists.after(id);
            if self.may_submit(config, id) {
                self.move_to(config, id, Place::Active);
            }
        }
    }

    /// A tenant's weight has changed from `before` to `after`.
    pub(super) fn weight_changed(&mut self, config: &GimbalConfig, before: u32, after: u32) {
        if after >= self.weight_max {
            self.weight_max = after;
        } else if before == self.weight_max {
            let weights = self.tenants.iter().map(|tenant| tenant.weight);
            self.weight_max = weights.max().unwrap_or(after);
        }
        self.promote_deferred(config);
    }
}
