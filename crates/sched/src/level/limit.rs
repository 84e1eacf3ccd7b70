//! The limit on device time in flight, and what objectives have taken off it.

use super::ALONE_LIMIT;
use super::in_flight::{InFlightLimits, TenantTime, TimeInFlight};
use crate::{Credit, Mark, TimeInFlightView};
use units::Bytes;

/// Device time in flight, its limit, and the limit without objectives.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    time: TimeInFlight,
    charges: InFlightLimits,
    /// The limit without objectives.
    unsqueezed: Bytes,
    /// Whether an objective has lowered the limit.
    is_squeezed: bool,
}

impl Limit {
    /// The limit until a second tenant is served.
    pub(super) fn new() -> Limit {
        let charges =
            InFlightLimits { uniform: ALONE_LIMIT, mixed: ALONE_LIMIT, alone: ALONE_LIMIT, io_min: Bytes(1) };
        Limit { time: TimeInFlight::new(&charges), charges, unsqueezed: ALONE_LIMIT, is_squeezed: false }
    }

    /// Sets the limit, which objectives have lowered to `lowered`.
    pub(super) fn set(&mut self, limit: Bytes, lowered: Option<Bytes>) {
        self.unsqueezed = limit;
        self.is_squeezed = lowered.is_some();
        self.time.set_limit(lowered.map_or(limit, |lowered| lowered.min(limit)));
    }

    /// Lets a probe have this much in flight, and leaves the limit without objectives as it is.
    pub(super) fn set_for_probe(&mut self, limit: Bytes) {
        self.time.set_limit(limit);
    }

    /// The limit without objectives.
    #[inline]
    pub(super) fn unsqueezed(&self) -> Bytes {
        self.unsqueezed
    }

    /// Whether an objective has lowered the limit.
    #[inline]
    pub(super) fn is_squeezed(&self) -> bool {
        self.is_squeezed
    }

    /// The limit and the device time in flight.
    #[inline]
    pub(super) fn view(&self) -> TimeInFlightView {
        self.time.view()
    }

    /// Whether nothing more may go to the SSD.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.time.is_full()
    }

    /// A tenant's part of the limit.
    #[inline]
    pub(super) fn part(&self, weight: u32, active_weight: u64) -> Bytes {
        self.time.part(weight, active_weight)
    }

    /// The whole limit.
    #[inline]
    pub(super) fn whole(&self) -> Bytes {
        self.time.whole()
    }

    /// Charges an IO that goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, held: &mut TenantTime, cost: Bytes) -> Mark {
        let mark = self.charges.charge(cost);
        held.on_submit(&mut self.time, mark);
        mark
    }

    /// Takes an IO off that has ended.
    #[inline]
    pub(super) fn on_end(&mut self, held: &mut TenantTime, mark: Mark) {
        held.on_end(&mut self.time, mark);
    }

    /// The credit of a tenant with this part.
    #[inline]
    pub(super) fn credit(&self, held: &TenantTime, part: Bytes) -> Credit {
        held.credit(part, &self.charges)
    }

    /// Stops counting the tenant's IOs in the SSD: they may never end.
    pub(super) fn excuse(&mut self, held: &mut TenantTime) {
        held.excuse(&mut self.time);
    }

    /// Counts the tenant's IOs as promised, or as others'.
    pub(super) fn promise(&mut self, held: &mut TenantTime, is_promised: bool) {
        held.promise(&mut self.time, is_promised);
    }
}
