//! Rules of the round: charges, limits, and the tenants that wait or go first.
//!
//! Each part owns its cells: the limit on device time in flight (`limit`), the tenants that wait (`held`), who lags
//! (`service_lag`), the tenants' activity (`books`) and its prices (`prices`). The scheduler reaches them here, as the
//! round owns its rules.

use super::books::Books;
use super::held::Held;
use super::in_flight::TenantTime;
use super::limit::Limit;
use super::patience::Patience;
use super::prices::Prices;
use super::probe::Probe;
use super::service_lag::ServiceLag;
use crate::drr::{Place, Rules};
use crate::{Credit, Mark};
use units::{Bytes, TenantId};

/// Number of its usual IOs that a tenant may have in the SSD with any part of the limit. With fewer, the latency of an
/// IO would determine its share.
const IOS_LEAST: u64 = 4;
/// Device time by which a tenant may be served more than the least-served one: 1 ms, as a byte is a nanosecond.
const LAG_MAX: Bytes = Bytes(1_000_000);
/// Device time by which a tenant that comes back may be behind the least-served one.
const LAG_CATCH_UP: Bytes = LAG_MAX;

/// Rules of one SSD's round.
#[derive(Clone, Debug)]
pub(crate) struct LevelRules {
    pub(super) limit: Limit,
    pub(super) books: Books,
    pub(super) prices: Prices,
    pub(super) probe: Option<Probe>,
    pub(super) held: Held,
    /// For tenants that have all their IOs in the SSD.
    pub(super) patience: Patience,
    lag: ServiceLag,
    /// Whether several tenants were served in the last period.
    is_shared: bool,
    /// The charge of the most expensive usual IO among the tenants that were served in this period.
    dearest: Bytes,
}

impl LevelRules {
    /// The rules while no tenant is known.
    pub(super) fn new() -> LevelRules {
        LevelRules {
            limit: Limit::new(),
            books: Books::default(),
            prices: Prices::new(),
            probe: None,
            held: Held::default(),
            patience: Patience::new(),
            lag: ServiceLag::new(LAG_MAX, LAG_CATCH_UP),
            is_shared: false,
            dearest: Bytes::ZERO,
        }
    }

    /// Sets whether several tenants were served in the last period.
    pub(super) fn set_shared(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
    }

    /// Takes the charge of the most expensive usual IO of this period, and begins the next one.
    pub(super) fn take_dearest(&mut self) -> Bytes {
        core::mem::take(&mut self.dearest)
    }

    /// Whether the tenant waits until the probe is over.
    #[inline]
    pub(super) fn is_held(&self, id: TenantId) -> bool {
        match &self.probe {
            None => self.held.is_any_closed() && self.held.is_closed(self.class(id)),
            Some(probe) => self.books.is_busy(id) && self.books.kind(id) != probe.kind,
        }
    }

    /// Its class in [`Held`].
    #[inline]
    fn class(&self, id: TenantId) -> usize {
        usize::from(!self.books.kind(id).writes())
    }

    /// Whether the others wait for the tenant, which has nothing in the switch: it would take more than it gets, and
    /// its IOs are in the SSD.
    fn is_waited_for(&mut self, id: TenantId, held: &TenantTime) -> bool {
        self.is_shared
            && held.has_any()
            && self.probe.is_none()
            && self.books.is_busy(id)
            && self.patience.is_patient()
    }
}

/// The tenant's part, or [`IOS_LEAST`] of its usual IOs if they are more.
#[inline]
fn widened(held: &TenantTime, part: Bytes) -> Bytes {
    part.max(held.usual(IOS_LEAST))
}

impl Rules for LevelRules {
    type Held = TenantTime;
    /// The tenant's part of the device time.
    type Room = Bytes;

    #[inline]
    fn room(&self, weight: u32, active_weight: u64) -> Bytes {
        // Few tenants may have the SSD now, and they must keep it busy.
        if self.probe.is_some() { self.limit.whole() } else { self.limit.part(weight, active_weight) }
    }

    #[inline]
    fn whole(&self) -> Bytes {
        self.limit.whole().max(self.limit.unsqueezed())
    }

    #[inline]
    fn may_submit(&self, held: &TenantTime, part: Bytes) -> bool {
        held.may_submit(widened(held, part))
    }

    fn may_promote(&self, _weight_max: u32, _active_weight: u64) -> bool {
        false
    }

    #[inline]
    fn on_submit(&mut self, id: TenantId, held: &mut TenantTime, cost: Bytes, weight: u32) -> Mark {
        self.lag.on_submit(id, cost, weight);
        self.books.on_submit(id, cost, weight);
        let mark = self.limit.on_submit(held, cost);
        self.dearest = self.dearest.max(held.usual(1));
        mark
    }

    #[inline]
    fn on_end(&mut self, held: &mut TenantTime, mark: Mark) {
        self.limit.on_end(held, mark);
    }

    #[inline]
    fn credit(&self, held: &TenantTime, part: Bytes) -> Credit {
        self.limit.credit(held, widened(held, part))
    }

    fn grow(&mut self, tenants: usize) {
        self.lag.grow(tenants);
        self.held.grow(tenants);
        self.books.grow(tenants);
    }

    #[inline]
    fn is_ahead(&self, id: TenantId) -> bool {
        self.is_held(id) || self.lag.is_ahead(id)
    }

    #[inline]
    fn caught_up(&self) -> Option<TenantId> {
        match (&self.probe, self.held.first()) {
            (None, Some(held)) => Some(held),
            _ => self.lag.caught_up(),
        }
    }

    /// A tenant that is let go on for an IO at a time would never save up for a large one.
    #[inline]
    fn keeps_deficit(&self, id: TenantId) -> bool {
        self.held.contains(id)
    }

    #[inline]
    fn goes_first(&self) -> Option<TenantId> {
        self.lag.returned().filter(|id| !self.is_held(*id))
    }

    #[inline]
    fn on_move(&mut self, id: TenantId, place: Place) {
        self.held.release(id);
        if place == Place::Ahead && self.is_held(id) {
            // It does not compete: others are not to wait for it.
            let class = self.class(id);
            self.held.push(class, id);
            self.lag.on_idle(id, false);
        } else {
            self.lag.on_move(id, place);
        }
    }

    /// Lets a tenant held back by its credit compete without backlog.
    #[inline]
    fn on_idle(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        self.held.release(id);
        let is_held_to_credit = held.is_held_to(widened(held, part));
        if !is_held_to_credit {
            self.books.on_emptied(id);
        }
        let competes = is_held_to_credit || self.is_waited_for(id, held);
        self.lag.on_idle(id, competes);
    }

    #[inline]
    fn on_end_without_backlog(&mut self, id: TenantId, held: &TenantTime, part: Bytes) {
        let competes = held.is_held_to(widened(held, part)) || self.is_waited_for(id, held);
        self.lag.on_idle(id, competes);
    }

    fn on_overdue(&mut self, id: TenantId, held: &mut TenantTime, waits: bool) {
        self.limit.excuse(held);
        if waits {
            self.lag.excuse(id);
        }
    }

    fn forget(&mut self, id: TenantId) {
        self.lag.forget(id);
        self.books.forget(id);
    }

    fn service_lag(&self, id: TenantId) -> Bytes {
        self.lag.behind(id)
    }
}
