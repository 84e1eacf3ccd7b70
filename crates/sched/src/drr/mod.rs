//! Deficit round robin over tenants: which tenant's IO goes to the SSD next. The schedulers with rounds share this part.
//!
//! ```text
//!   idle ──arrival──► active ──no room in the SSD──► deferred ──room again──► active ──queue empty──► idle
//!                        ├──a limit forbids──► limited ──its time comes──► active
//!                        └──ahead of others──► ahead ──the others catch up──► active
//! ```
//!
//! The tenant in front submits while its deficit covers the cost of its next IO. If the deficit is too small, the tenant gets a
//! quantum and goes to the back. A tenant without room in the SSD leaves the round, with deficit 0.
//!
//! Three decisions are the scheduler's own, made by its [`Rules`]: the cost of an IO, how much of a tenant may be in
//! the SSD, and whether a tenant can be ahead of others at all.
//!
//! Per tenant and off unless asked for: a *weight* scales quantum and room; a *limit* keeps the tenant out of the round until it is
//! due; a tenant behind its *reservation* goes before the round, and may have all the room of the SSD. Reservations
//! that do not fit the SSD starve the others.
//!
//! Cost: O(1) per IO; O(log n) with limits or reservations. When no tenant's deficit covers its next IO, the whole round is looked
//! at three times, however many quanta are missing (`skip_rounds`). When a tenant goes idle, deferred tenants may gain room: at equal
//! weights only fewer than `slots` of them are looked at, at unequal weights possibly all.
//!
//! Holds: a tenant is in exactly one place (`lists`);
//!        the cost of what backlogged tenants were served differs by a fixed bound while they have room (`equal_tenants_stay_close`);
//!        without a head, every tenant with backlog is deferred, limited or ahead, and not all of them are ahead
//!        (`tests/worlds.rs`);
//!        every decision is the naive model's (`tests/against_naive.rs`).
//! Elsewhere: a tenant's own order is `queue`.
//! Paper: Gimbal §3.5. Weight, limit and reservation go beyond it.

mod lists;
pub(crate) mod meter;
mod queue;
pub(crate) mod ranking;
mod tenant;

pub(crate) use lists::Place;
pub(crate) use tenant::ios;

use crate::{Backlog, Credit, Io, IoKind, Mark, Priority, Share, TenantView, Ticket, Wait};
use alloc::vec::Vec;
use core::fmt::Debug;
use lists::Lists;
use meter::Meter;
use ranking::Ranking;
use tenant::Tenant;
use units::{Bytes, Instant, Nanos, TenantId};

/// The constants of the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundConfig {
    /// Deficit added per round to a tenant of weight 1. Paper §3.5: 128 KiB.
    pub quantum: Bytes,
    /// IOs per class in one cycle of a tenant's own priorities. Release: 16/4/2/1.
    pub class_quotas: [u32; Priority::CLASSES],
    /// Span by which a tenant with a limit may run ahead of it after a pause. Ours: 1 ms.
    pub limit_burst: Nanos,
    /// Span for which a tenant with a reservation may save up unused reservation. Ours: 1 ms.
    pub reservation_burst: Nanos,
}

impl RoundConfig {
    /// As every scheduler of this crate runs it.
    pub const STANDARD: RoundConfig = RoundConfig {
        quantum: Bytes::kib(128),
        class_quotas: [16, 4, 2, 1],
        limit_burst: Nanos::millis(1),
        reservation_burst: Nanos::millis(1),
    };

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.quantum == Bytes::ZERO {
            return Err("the quantum must not be zero");
        }
        if self.class_quotas.contains(&0) {
            return Err("every class needs a quota");
        }
        Ok(())
    }
}

/// Decisions that are a scheduler's own: how much of a tenant may be in the SSD and, if it limits that, which tenants are ahead of others.
pub(crate) trait Rules: Clone + Debug {
    /// One tenant's IOs in the SSD.
    type Held: Clone + Debug + Default;
    /// Limit on these.
    type Room: Copy + Debug + Default;

    /// The room of a tenant of `weight` among active ones of `active_weight` in all, itself included.
    fn room(&self, weight: u32, active_weight: u64) -> Self::Room;

    /// The whole room of the SSD, for a tenant that is behind its reservation.
    fn whole(&self) -> Self::Room;

    /// Whether another IO may go to the SSD.
    fn may_submit(&self, held: &Self::Held, room: Self::Room) -> bool;

    /// Whether deferred tenants may have room because fewer tenants are active. If not, they see it when an IO of theirs ends.
    fn may_promote(&self, weight_max: u32, active_weight: u64) -> bool;

    /// Charges an IO that goes to the SSD. The returned mark is handed back when it ends.
    fn on_submit(&mut self, id: TenantId, held: &mut Self::Held, cost: Bytes, weight: u32) -> Mark;

    /// An IO that was submitted with `mark` has ended.
    fn on_end(&mut self, held: &mut Self::Held, mark: Mark);

    /// Number of IOs that the tenant may have outstanding.
    fn credit(&self, held: &Self::Held, room: Self::Room) -> Credit;

    /// Slots with an IO in flight and slots allotted, for display; zero without slots.
    fn slots(&self, _held: &Self::Held, _room: Self::Room) -> [u32; 2] {
        [0, 0]
    }

    /// Makes space for the records of this many tenants.
    fn grow(&mut self, _tenants: usize) {}

    /// Whether the tenant was served more than the bound allows and must wait for the others.
    fn is_ahead(&self, _id: TenantId) -> bool {
        false
    }

    /// A tenant that goes before the round, if it has backlog and room.
    fn goes_first(&self) -> Option<TenantId> {
        None
    }

    /// A tenant in [`Place::Ahead`] that need not wait any longer.
    fn caught_up(&self) -> Option<TenantId> {
        None
    }

    /// Whether a tenant that need not wait any longer goes on with the deficit that it had.
    fn keeps_deficit(&self, _id: TenantId) -> bool {
        false
    }

    /// Notes that the tenant has backlog, and is in this list now.
    fn on_move(&mut self, _id: TenantId, _place: Place) {}

    /// Notes that the tenant's last queued IO has left.
    fn on_idle(&mut self, _id: TenantId, _held: &Self::Held, _room: Self::Room) {}

    /// Notes the end of an IO of a tenant without backlog.
    fn on_end_without_backlog(&mut self, _id: TenantId, _held: &Self::Held, _room: Self::Room) {}

    /// Notes that the tenant's IOs may never end; `waits`: it waits for them.
    fn on_overdue(&mut self, _id: TenantId, _held: &mut Self::Held, _waits: bool) {}

    /// Forgets the tenant: its number may be given to another.
    fn forget(&mut self, _id: TenantId) {}

    /// Lag of the least-served tenant behind this one, for display.
    fn service_lag(&self, _id: TenantId) -> Bytes {
        Bytes::ZERO
    }
}

/// Cost of an IO now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// For deficit and room.
    pub cost: Bytes,
    /// For the tenant's reservation.
    pub reserved: Bytes,
}

/// The IO that goes next, as soon as the scheduler lets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub tenant: TenantId,
    pub kind: IoKind,
    pub length: Bytes,
    /// Whether it does not wait for its turn in the round ([`Rules::goes_first`]).
    pub goes_first: bool,
    /// The same, because of a reservation or an objective.
    pub is_promised: bool,
    price: Price,
}

impl Head {
    /// Its cost.
    pub(crate) fn cost(&self) -> Bytes {
        self.price.cost
    }
}

/// All tenants of one SSD and the order among them.
#[derive(Clone, Debug)]
pub(crate) struct Drr<R: Rules> {
    config: RoundConfig,
    rules: R,
    tenants: Vec<Tenant<R::Held>>,
    lists: Lists,
    /// When each limited tenant may rejoin the round.
    limits: Ranking<Instant>,
    /// When each tenant with a reservation, backlog and room falls behind.
    reservations: Ranking<Instant>,
    active: Active<R::Room>,
    /// Upper bound for the tenants' weights.
    weight_max: u32,
    backlog: Backlog,
}

/// The active tenants: backlog or IOs in flight, unless waiting for a limit with none in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Active<Room> {
    tenants: usize,
    /// Σ of their weights.
    weight: u64,
    /// The room of one of weight 1, which nearly all are, at this sum.
    room_common: Room,
}

impl<Room: Copy> Active<Room> {
    /// The room of a tenant, counting it as active.
    #[inline]
    fn room<R: Rules<Room = Room>>(&self, rules: &R, tenant: &Tenant<R::Held>) -> Room {
        match (tenant.counted, tenant.weight) {
            (true, weight) if weight == Share::EQUAL.weight => self.room_common,
            (true, weight) => rules.room(weight, self.weight),
            (false, weight) => rules.room(weight, self.weight + u64::from(weight)),
        }
    }
}

impl<R: Rules> Drr<R> {
    pub(crate) fn new(config: RoundConfig, rules: R) -> Drr<R> {
        Drr {
            config,
            rules,
            tenants: Vec::new(),
            lists: Lists::default(),
            limits: Ranking::default(),
            reservations: Ranking::default(),
            active: Active::default(),
            weight_max: 0,
            backlog: Backlog::default(),
        }
    }

    pub(crate) fn rules(&self) -> &R {
        &self.rules
    }

    /// For changes that leave every room as it is; after others, call [`Drr::on_rooms_changed`].
    pub(crate) fn rules_mut(&mut self) -> &mut R {
        &mut self.rules
    }

    /// Adapts to a change of the total to share out.
    pub(crate) fn on_rooms_changed(&mut self) {
        if self.active.weight > 0 {
            self.active.room_common = self.rules.room(Share::EQUAL.weight, self.active.weight);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Number of IOs of the tenant that are queued or in flight.
    #[inline]
    pub(crate) fn outstanding(&self, id: TenantId) -> usize {
        self.tenants.get(id.index()).map_or(0, |tenant| tenant.queue.len() + tenant.in_flight)
    }

    pub(crate) fn active_tenants(&self) -> usize {
        self.active.tenants
    }

    /// Whether a tenant waits for something other than its own limit.
    #[inline]
    pub(crate) fn is_held_back(&self) -> bool {
        self.backlog.queued > 0 && self.limits.is_empty()
    }

    #[inline]
    pub(crate) fn on_arrival(&mut self, io: Io) -> Ticket {
        assert!(io.length > Bytes::ZERO, "{io:?} moves no bytes");
        self.make_space(io.tenant);
        let tenant = &mut self.tenants[io.tenant.index()];
        let had_backlog = !tenant.queue.is_empty();
        let ticket = tenant.queue.push(io);
        self.backlog.queued += 1;
        if !had_backlog {
            self.enter(io.tenant);
        }
        ticket
    }

    /// The IO that goes next at these prices. Asking again changes nothing.
    #[inline]
    pub(crate) fn head(
        &mut self,
        now: Instant,
        price: &impl Fn(&R, TenantId, IoKind, Bytes) -> Price,
    ) -> Option<Head> {
        if self.backlog.queued == 0 {
            return None; // all are idle, and none has a timer
        }
        if self.has_timers() {
            self.release_limited(now);
            if let Some(id) = self.behind_reservation(now) {
                // A promise, and bounded by its rate.
                return Some(Head { goes_first: true, is_promised: true, ..self.head_of(id, price) });
            }
        }
        if let Some(id) = self.first_of_all(now) {
            return Some(Head { goes_first: true, ..self.head_of(id, price) });
        }
        let mut passed_over_first = None;
        loop {
            self.release_ahead();
            let id = self.lists.front(Place::Active)?;
            let tenant = &self.tenants[id.index()];
            if !self.has_room(tenant) {
                self.defer(id);
                passed_over_first = None;
                continue;
            }
            if tenant.is_metered() && self.hold_if_limited(now, id) || self.hold_if_ahead(id) {
                passed_over_first = None;
                continue;
            }
            let tenant = &self.tenants[id.index()];
            let head = self.head_in(id, tenant, price);
            if tenant.deficit >= head.price.cost {
                return Some(head);
            }
            if passed_over_first == Some(id) {
                self.skip_rounds(price);
                passed_over_first = None;
                continue;
            }
            passed_over_first = passed_over_first.or(Some(id));
            let quantum = self.quantum(tenant.weight);
            self.tenants[id.index()].deficit += quantum;
            self.lists.move_to_back(id, Place::Active);
        }
    }

    /// Does in one step the rounds that would pass over all tenants again, after every tenant in the round was passed
    /// over: an IO of many quanta would keep the round spinning for long, and a hostile host can ask for millions.
    #[cold]
    fn skip_rounds(&mut self, price: &impl Fn(&R, TenantId, IoKind, Bytes) -> Price) {
        let mut rounds = u64::MAX;
        let mut next = self.lists.front(Place::Active);
        while let Some(id) = next {
            next = self.lists.after(id);
            let tenant = &self.tenants[id.index()];
            let missing = self.head_of(id, price).price.cost.saturating_sub(tenant.deficit);
            rounds = rounds.min(missing.0.div_ceil(self.quantum(tenant.weight).0));
        }
        let mut next = self.lists.front(Place::Active);
        while let Some(id) = next {
            next = self.lists.after(id);
            let granted = Bytes(self.quantum(self.tenants[id.index()].weight).0.saturating_mul(rounds));
            let tenant = &mut self.tenants[id.index()];
            tenant.deficit = tenant.deficit.saturating_add(granted);
        }
    }

    /// Gives out the head to the SSD.
    #[inline]
    pub(crate) fn submit(&mut self, now: Instant, head: Head) -> Io {
        let id = head.tenant;
        let tenant = &mut self.tenants[id.index()];
        let mut io = tenant.queue.pop(&self.config.class_quotas).expect("the head is queued");
        self.backlog.queued -= 1;
        self.backlog.in_flight += 1;
        io.mark = self.charge(now, &head, &io);
        io
    }

    /// Charges an IO that has left its tenant's queue, and gives it room in the SSD.
    #[inline]
    fn charge(&mut self, now: Instant, head: &Head, io: &Io) -> Mark {
        assert_eq!(io.length, head.length, "the head changed between the decision and the submission");
        let id = head.tenant;
        let tenant = &mut self.tenants[id.index()];
        let mark = self.rules.on_submit(id, &mut tenant.held, head.price.cost, tenant.weight);
        tenant.in_flight += 1;
        // Saturates for a tenant that went before the round because of its reservation.
        tenant.deficit = tenant.deficit.saturating_sub(head.price.cost);
        tenant.charge_meters(now, io, head.price.reserved);
        if tenant.queue.is_empty() {
            self.leave(id);
        } else {
            self.settle_backlogged(id);
        }
        mark
    }

    /// Ends a submitted IO. Returns the tenant's credit.
    #[inline]
    pub(crate) fn on_completion(&mut self, io: &Io) -> Credit {
        let id = io.tenant;
        let known = self.tenants.get_mut(id.index()).filter(|tenant| tenant.in_flight > 0);
        assert!(known.is_some(), "{io:?} ended, but none of its tenant is in flight");
        self.backlog.in_flight -= 1;
        self.free(id, io.mark);
        self.credit_of(&self.tenants[id.index()])
    }

    /// An IO gives back its room in the SSD.
    #[inline]
    fn free(&mut self, id: TenantId, mark: Mark) {
        let tenant = &mut self.tenants[id.index()];
        tenant.in_flight -= 1;
        self.rules.on_end(&mut tenant.held, mark);
        if !tenant.queue.is_empty() {
            self.settle_backlogged(id);
        } else {
            if tenant.in_flight == 0 {
                self.recount(id);
            }
            let tenant = &self.tenants[id.index()];
            let room = self.active.room(&self.rules, tenant);
            self.rules.on_end_without_backlog(id, &tenant.held, room);
        }
    }

    pub(crate) fn withdraw_one(&mut self, id: TenantId, ticket: Ticket) -> Io {
        let known = self.tenants.get_mut(id.index());
        let tenant = known.unwrap_or_else(|| panic!("{ticket:?} of {id}, which has nothing queued"));
        let io = tenant.queue.withdraw_one(ticket);
        self.backlog.queued -= 1;
        self.settle(id);
        io
    }

    pub(crate) fn withdraw(&mut self, id: TenantId, gone: &mut dyn FnMut(&Io) -> bool) {
        let Some(tenant) = self.tenants.get_mut(id.index()) else { return };
        let before = tenant.queue.len();
        tenant.queue.withdraw(gone);
        self.backlog.queued -= before - tenant.queue.len();
        self.settle(id);
    }

    pub(crate) fn forget(&mut self, id: TenantId) {
        let Some(tenant) = self.tenants.get_mut(id.index()) else { return };
        let (queued, in_flight) = (tenant.queue.len(), tenant.in_flight);
        assert!(
            !tenant.has_ios(),
            "{id} is to be forgotten with {queued} IOs queued and {in_flight} in flight"
        );
        let weight = tenant.weight;
        *tenant = Tenant::new();
        self.rules.forget(id);
        self.weight_changed(weight, Share::EQUAL.weight);
    }

    pub(crate) fn set_share(&mut self, id: TenantId, share: Share) {
        assert!(share.weight > 0, "{id} is given a weight of zero");
        self.make_space(id);
        self.uncount(id);
        let tenant = &mut self.tenants[id.index()];
        let weight = tenant.weight;
        tenant.set_share(share, &self.config);
        self.reservations.clear(id); // one without meters has no timers
        if self.lists.place(id) == Place::Limited {
            self.rejoin(id);
        }
        self.settle(id);
        self.weight_changed(weight, share.weight);
    }

    /// Lets the tenant's IOs go before the round until its share is set again, up to this many of 4 KiB per second of
    /// its own.
    pub(crate) fn promise(&mut self, id: TenantId, meter: Meter) {
        self.tenants[id.index()].promise(meter);
        self.settle(id);
    }

    /// The tenant's IOs in the SSD, as the scheduler counts them.
    pub(crate) fn held_mut(&mut self, id: TenantId) -> Option<(&mut R, &mut R::Held)> {
        let tenant = self.tenants.get_mut(id.index())?;
        Some((&mut self.rules, &mut tenant.held))
    }

    /// IOs of the tenant may never end. If it waits for them, the others no longer wait for it.
    pub(crate) fn on_overdue(&mut self, id: TenantId) {
        let Some(tenant) = self.tenants.get_mut(id.index()) else { return };
        let waits = matches!(self.lists.place(id), Place::Deferred | Place::Idle);
        self.rules.on_overdue(id, &mut tenant.held, waits);
    }

    /// Number of IOs that the tenant may have outstanding. A tenant with a reservation may have all of the SSD's room:
    /// with the credit of its part alone it could not ask for as much as was promised to it.
    #[inline]
    pub(crate) fn credit(&self, id: TenantId) -> Credit {
        match self.tenants.get(id.index()) {
            Some(tenant) => self.credit_of(tenant),
            None => self.credit_of(&Tenant::new()),
        }
    }

    #[inline]
    fn credit_of(&self, tenant: &Tenant<R::Held>) -> Credit {
        let is_reserved = tenant.reservation_due().is_some();
        let room = if is_reserved { self.rules.whole() } else { self.active.room(&self.rules, tenant) };
        self.rules.credit(&tenant.held, room)
    }

    /// The earliest instant after `now` at which time alone may bring another head: a limit ends, a reservation falls
    /// behind. (A tenant already behind is the head.)
    #[inline]
    pub(crate) fn next_timer(&self, now: Instant) -> Option<Instant> {
        if !self.has_timers() {
            return None;
        }
        let timers = [self.limits.least(), self.reservations.least()];
        timers.into_iter().flatten().filter(|&at| at > now).min()
    }

    /// Whether time alone may change something.
    #[inline]
    fn has_timers(&self) -> bool {
        !self.limits.is_empty() || !self.reservations.is_empty()
    }

    pub(crate) fn view(&self, id: TenantId) -> Option<TenantView> {
        let tenant = self.tenants.get(id.index())?;
        let room = self.active.room(&self.rules, tenant);
        let [slots_busy, slots_allotted] = self.rules.slots(&tenant.held, room);
        Some(TenantView {
            queued: tenant.queue.len(),
            in_flight: tenant.in_flight,
            slots_busy,
            slots_allotted,
            credit: self.credit(id),
            service_lag: self.rules.service_lag(id),
            waits_for: self.waits_for(id, tenant),
            objective: None,
        })
    }

    fn waits_for(&self, id: TenantId, tenant: &Tenant<R::Held>) -> Option<Wait> {
        let others = self.active.tenants - usize::from(tenant.counted);
        match self.lists.place(id) {
            Place::Idle => None,
            Place::Limited => Some(Wait::Limit),
            Place::Active | Place::Deferred | Place::Ahead if others > 0 => Some(Wait::Share),
            Place::Active | Place::Deferred | Place::Ahead => Some(Wait::Device),
        }
    }

    #[inline]
    fn make_space(&mut self, id: TenantId) {
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
        self.rules.grow(tenants);
        self.weight_max = self.weight_max.max(Share::EQUAL.weight);
    }

    #[inline]
    fn has_room(&self, tenant: &Tenant<R::Held>) -> bool {
        self.rules.may_submit(&tenant.held, self.active.room(&self.rules, tenant))
    }

    fn head_of(&self, id: TenantId, price: &impl Fn(&R, TenantId, IoKind, Bytes) -> Price) -> Head {
        self.head_in(id, &self.tenants[id.index()], price)
    }

    #[inline]
    fn head_in(
        &self,
        id: TenantId,
        tenant: &Tenant<R::Held>,
        price: &impl Fn(&R, TenantId, IoKind, Bytes) -> Price,
    ) -> Head {
        let head = tenant.queue.head();
        let &Io { kind, length, .. } = head.expect("a tenant without backlog is idle");
        let price = price(&self.rules, id, kind, length);
        Head { tenant: id, kind, length, goes_first: false, is_promised: false, price }
    }

    #[inline]
    fn quantum(&self, weight: u32) -> Bytes {
        Bytes(self.config.quantum.0.saturating_mul(u64::from(weight)))
    }
}

mod moves;
mod parking;

#[cfg(test)]
mod tests;
