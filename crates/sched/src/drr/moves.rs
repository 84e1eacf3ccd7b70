//! Moves of tenants between the lists of the round.
//!
//! Every change of a tenant's queue, room or share ends here: `settle` puts the tenant where it belongs; `enter` and
//! `leave` are the two cases of nearly every IO of a short queue. Around them are the three reasons to be out of the
//! round (no room in the SSD, a limit, ahead of others), the timers that bring a tenant back, and the sum of active
//! weights, from which rooms follow.
//!
//! Elsewhere: which tenant is next, and the picture of the lists, is `drr`; the lists themselves are `lists`.

use super::{Drr, Place, Rules};
use units::{Bytes, Instant, TenantId};

impl<R: Rules> Drr<R> {
    /// Puts a tenant into the list that follows from its queue and its IOs in the SSD, after either has changed.
    pub(super) fn settle(&mut self, id: TenantId) {
        if self.tenants[id.index()].queue.is_empty() {
            if self.lists.place(id) != Place::Idle {
                self.leave(id);
            }
            self.recount(id);
        } else {
            self.settle_backlogged(id);
        }
    }

    /// As `settle`, of a tenant with backlog.
    #[inline]
    pub(super) fn settle_backlogged(&mut self, id: TenantId) {
        let mut place = self.lists.place(id);
        if place == Place::Idle {
            return self.enter(id);
        }
        if place == Place::Limited || !self.tenants[id.index()].counted {
            self.recount(id);
            place = self.lists.place(id); // it may have been promoted
        }
        let tenant = &self.tenants[id.index()];
        let (has_room, is_metered) = (self.has_room(tenant), tenant.is_metered());
        match (place, has_room) {
            (Place::Active, false) => self.defer(id),
            (Place::Deferred, true) => self.move_to(id, Place::Active),
            _ => {}
        }
        if is_metered {
            self.watch_reservation(id);
        }
    }

    /// Enters an idle tenant that has backlog: if it has room it goes into the round with one quantum, otherwise it
    /// waits for room.
    pub(super) fn enter(&mut self, id: TenantId) {
        if !self.tenants[id.index()].counted {
            self.count(id);
        }
        let tenant = &self.tenants[id.index()];
        let (has_room, is_metered) = (self.has_room(tenant), tenant.is_metered());
        let (place, deficit) = if has_room {
            (Place::Active, self.quantum(tenant.weight))
        } else {
            (Place::Deferred, Bytes::ZERO)
        };
        self.tenants[id.index()].deficit = deficit;
        self.lists.move_to_back(id, place);
        self.rules.on_move(id, place);
        if is_metered {
            self.watch_reservation(id);
        }
    }

    /// Cancels the timers of a tenant after its last IO has left its queue. `recount` decides whether it is still
    /// active.
    #[inline]
    pub(super) fn leave(&mut self, id: TenantId) {
        self.lists.move_to_back(id, Place::Idle);
        let tenant = &mut self.tenants[id.index()];
        tenant.deficit = Bytes::ZERO;
        if tenant.is_metered() {
            self.limits.clear(id);
            self.reservations.clear(id);
        }
        let room = self.active.room(&self.rules, tenant);
        self.rules.on_idle(id, &tenant.held, room);
    }

    /// Moves a tenant from one list to another; its timer, if any, is cancelled.
    #[inline]
    fn move_to(&mut self, id: TenantId, place: Place) {
        self.limits.clear(id);
        self.lists.move_to_back(id, place);
        self.rules.on_move(id, place);
    }

    /// Puts a tenant at the back of the round with one quantum.
    pub(super) fn rejoin(&mut self, id: TenantId) {
        let tenant = &self.tenants[id.index()];
        self.tenants[id.index()].deficit = self.quantum(tenant.weight);
        self.move_to(id, Place::Active);
    }

    pub(super) fn defer(&mut self, id: TenantId) {
        self.tenants[id.index()].deficit = Bytes::ZERO;
        self.move_to(id, Place::Deferred);
    }

    /// Takes a tenant out of the round if one of its limits forbids its next IO now.
    #[inline]
    pub(super) fn hold_if_limited(&mut self, now: Instant, id: TenantId) -> bool {
        let until = self.tenants[id.index()].limited_until().filter(|&until| until > now);
        if let Some(until) = until {
            self.hold(id, until);
        }
        until.is_some()
    }

    fn hold(&mut self, id: TenantId, until: Instant) {
        self.tenants[id.index()].deficit = Bytes::ZERO;
        self.move_to(id, Place::Limited);
        self.limits.set(id, until);
        self.settle(id);
    }

    /// Lets tenants back into the round when their limits have run out.
    #[inline]
    pub(super) fn release_limited(&mut self, now: Instant) {
        while let Some((_, id)) = self.limits.first().filter(|&(at, _)| at <= now) {
            self.rejoin(id);
            self.settle(id);
        }
    }

    /// Takes a tenant out of the round if it has been served too much more than the others.
    #[inline]
    pub(super) fn hold_if_ahead(&mut self, id: TenantId) -> bool {
        let is_ahead = self.rules.is_ahead(id);
        if is_ahead {
            self.move_to(id, Place::Ahead);
        }
        is_ahead
    }

    /// Lets the tenants with whom the others have caught up back into the round.
    #[inline]
    pub(super) fn release_ahead(&mut self) {
        while let Some(id) = self.rules.caught_up() {
            let kept = self.tenants[id.index()].deficit;
            let keeps = self.rules.keeps_deficit(id);
            self.rejoin(id);
            if keeps {
                let tenant = &mut self.tenants[id.index()];
                tenant.deficit = tenant.deficit.max(kept);
            }
            self.settle(id);
        }
    }

    /// The tenant that has been behind its reservation longest, among those that could submit.
    #[inline]
    pub(super) fn behind_reservation(&mut self, now: Instant) -> Option<TenantId> {
        while let Some((_, id)) = self.reservations.first().filter(|&(at, _)| at <= now) {
            if !self.hold_if_limited(now, id) {
                return Some(id);
            }
        }
        None
    }

    /// The tenant that goes before the round, if it could submit.
    #[inline]
    pub(super) fn first_of_all(&mut self, now: Instant) -> Option<TenantId> {
        let id = self.rules.goes_first()?;
        let may_go = self.lists.place(id) == Place::Active && self.has_room(&self.tenants[id.index()]);
        (may_go && !self.hold_if_limited(now, id)).then_some(id)
    }

    /// Sets the reservation's timer if the tenant could make use of it.
    #[inline]
    pub(super) fn watch_reservation(&mut self, id: TenantId) {
        let tenant = &self.tenants[id.index()];
        let due = tenant.reservation_due().filter(|_| {
            matches!(self.lists.place(id), Place::Active | Place::Deferred | Place::Ahead)
                && self.rules.may_submit(&tenant.held, self.rules.whole())
        });
        match due {
            Some(due) => self.reservations.set(id, due),
            None => self.reservations.clear(id),
        }
    }

    /// Counts the tenant's weight if it is active and only then.
    pub(super) fn recount(&mut self, id: TenantId) {
        let tenant = &self.tenants[id.index()];
        let waits_for_limit = self.lists.place(id) == Place::Limited;
        let active = tenant.in_flight > 0 || (!tenant.queue.is_empty() && !waits_for_limit);
        if active && !tenant.counted {
            self.count(id);
        } else if !active && tenant.counted {
            self.uncount(id);
            self.promote_deferred();
        }
    }

    fn count(&mut self, id: TenantId) {
        let tenant = &mut self.tenants[id.index()];
        tenant.counted = true;
        self.active.weight += u64::from(tenant.weight);
        self.active.tenants += 1;
        self.on_rooms_changed();
    }

    pub(super) fn uncount(&mut self, id: TenantId) {
        let tenant = &mut self.tenants[id.index()];
        if core::mem::replace(&mut tenant.counted, false) {
            self.active.weight -= u64::from(tenant.weight);
            self.active.tenants -= 1;
            self.on_rooms_changed();
        }
    }

    /// Gives deferred tenants the room that has become free because fewer tenants are active.
    fn promote_deferred(&mut self) {
        if !self.rules.may_promote(self.weight_max, self.active.weight) {
            return;
        }
        let mut next = self.lists.front(Place::Deferred);
        while let Some(id) = next {
            next = self.lists.after(id);
            if self.has_room(&self.tenants[id.index()]) {
                self.move_to(id, Place::Active);
            }
        }
    }

    /// Adapts to a change of a tenant's weight from `before` to `after`.
    pub(super) fn weight_changed(&mut self, before: u32, after: u32) {
        if after >= self.weight_max {
            self.weight_max = after;
        } else if before == self.weight_max {
            let weights = self.tenants.iter().map(|tenant| tenant.weight);
            self.weight_max = weights.max().unwrap_or(after);
        }
        self.promote_deferred();
    }
}
