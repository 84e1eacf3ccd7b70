//! Bounded service lag: no tenant with work to do falls far behind another one.
//!
//! Deficits are fair only among tenants that stay in the round. A tenant without room in the SSD leaves the round and loses its
//! deficit. The round then goes on with the tenants that are left and gives them as many quanta as they can spend. Where tenants
//! are out of room most of the time, the share of each follows how fast its IOs end, not the round.
//!
//! So every tenant also has a *service* counter: the cost of its submitted IOs, divided by its weight. The *virtual time* is the
//! least service among the tenants that *compete*: those with backlog, and no limit of their own in the way; those without room too.
//! A tenant whose service exceeds the virtual time by more than `max` is kept out of the round until the virtual time
//! has caught up.
//!
//! ```text
//!   service
//!      ▲        ┌─┐ ahead: waits                     a tenant that leaves stops counting;
//!      │┄┄┄┄┄┄┄┄┤ ├┄┄┄┄┄┄┄┄┄┄ virtual time + max     one that comes (back) starts at max(own service, virtual time):
//!      │  ┌─┐   │ │   ┌─┐                            nothing is saved up while away, and no debt is forgiven
//!      │──┤ ├───┤ ├───┤ ├─┬─┐ virtual time
//!      └──┴─┴───┴─┴───┴─┴─┴─┴──► competing tenants
//! ```
//!
//! Some clients keep to a credit so small that nothing of them waits here. For their tenants there are two additions: a tenant may
//! compete without backlog, and one that comes back may start `catch_up` below the virtual time, so that the tenant that is
//! furthest behind loses nothing by being away between two IOs.
//!
//! A tenant with IOs that the SSD does not end at all would hold the virtual time for ever. Once it is *excused*, it
//! does not compete until it moves again, as if it were away.
//!
//! A tenant that goes before the round (its reservation) is charged too. More than `max` and one IO above the virtual time is not
//! remembered, or the tenant would be kept out for hours when the reservation ends.
//!
//! Only differences count. A counter of 64 bits could be full within hours on a device without a medium, at the highest costs.
//! So when the virtual time has become large, every tenant's service is counted from it again.
//!
//! Cost: O(log n) per IO, n the competing tenants.
//!
//! Holds: the virtual time never falls, except when service is counted from it again, so a tenant that is let back is
//!        not sent out again before its next IO
//!        (`the_virtual_time_never_falls_and_no_tenant_lags_by_more_than_the_bound`); the service of any two competing
//!        tenants differs by at most `max`, `catch_up` and one IO, out of room or not (the same test, and
//!        `out_of_room_or_not_tenants_stay_close` in `drr`); a tenant with IOs that hang delays no other tenant once it
//!        is excused (`an_excused_tenant_delays_no_other` there); the least-served tenant is never kept out, so there
//!        is always a tenant that may go or has IOs in flight; counting anew changes nothing among the tenants that
//!        compete (`counting_anew_changes_nothing`).
//! Elsewhere: which list a tenant is in is `drr`.
//! The idea is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996).

use crate::drr::Place;
use crate::drr::ranking::Ranking;
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// The virtual time at which service is counted from it again. A tenant's service may exceed it by
/// [`ServiceLag::MAX_MAX`] and one IO at the highest cost, which is far less than the rest of 64 bits.
const VIRTUAL_TIME_MAX: Bytes = Bytes(1 << 62);

/// Service of one tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// Cost / weight.
    bytes: Bytes,
    /// Remainder of the division, in units of cost.
    remainder: u64,
}

/// The service of all tenants, and which of them are ahead.
#[derive(Clone, Debug)]
pub(crate) struct ServiceLag {
    /// Distance above the virtual time up to which a tenant may still submit.
    max: Bytes,
    /// Distance below the virtual time at which a tenant may come back.
    catch_up: Bytes,
    services: Vec<Service>,
    /// The service of those that compete.
    competing: Ranking<Bytes>,
    /// The service of those that are kept out of the round.
    ahead: Ranking<Bytes>,
    /// The least service among the tenants that compete; if none competes, the last value.
    virtual_time: Bytes,
}

impl ServiceLag {
    /// The largest bound: practically no bound, and the service of one tenant above another's still fits its counter.
    pub(crate) const MAX_MAX: Bytes = Bytes::gib(1 << 10);

    pub(crate) fn new(max: Bytes, catch_up: Bytes) -> ServiceLag {
        ServiceLag {
            max,
            catch_up,
            services: Vec::new(),
            competing: Ranking::default(),
            ahead: Ranking::default(),
            virtual_time: Bytes::ZERO,
        }
    }

    /// Makes room for `tenants` tenants; new ones have had no service.
    pub(crate) fn grow(&mut self, tenants: usize) {
        self.services.resize(tenants, Service::default());
        self.competing.grow(tenants);
        self.ahead.grow(tenants);
    }

    /// Notes that the tenant is now in `place`.
    #[inline]
    pub(crate) fn on_move(&mut self, id: TenantId, place: Place) {
        match place {
            Place::Ahead => {
                self.compete(id, true);
                self.ahead.set(id, self.services[id.index()].bytes);
            }
            Place::Active | Place::Deferred => {
                self.ahead.clear(id);
                self.compete(id, true);
            }
            Place::Limited | Place::Idle => self.on_idle(id, false),
        }
    }

    /// Notes that the tenant has no backlog, and whether it competes all the same.
    #[inline]
    pub(crate) fn on_idle(&mut self, id: TenantId, competes: bool) {
        // First: no tenant that does not compete is ahead when the virtual time rises.
        self.ahead.clear(id);
        self.compete(id, competes);
    }

    #[inline]
    fn compete(&mut self, id: TenantId, competes: bool) {
        if self.competing.contains(id) != competes {
            self.join_or_leave(id, competes);
        }
    }

    /// The tenant competes from now on, or no longer.
    #[inline(never)]
    fn join_or_leave(&mut self, id: TenantId, competes: bool) {
        if competes {
            let least = self.virtual_time.saturating_sub(self.catch_up);
            let service = &mut self.services[id.index()];
            if service.bytes < least {
                *service = Service { bytes: least, remainder: 0 };
            }
            // While it competes, its key is its service.
            self.competing.set(id, service.bytes);
        } else {
            self.competing.clear(id);
        }
        self.raise_virtual_time();
    }

    /// Others no longer wait for the tenant, until it moves or is given an IO.
    pub(crate) fn excuse(&mut self, id: TenantId) {
        self.competing.clear(id);
        self.raise_virtual_time();
    }

    /// A competing tenant (or one that was excused, and is back by this) has been given an IO.
    #[inline]
    pub(crate) fn on_submit(&mut self, id: TenantId, cost: Bytes, weight: u32) {
        let remembered = self.most();
        let service = &mut self.services[id.index()];
        let parts = cost.0.saturating_add(service.remainder);
        // Nearly every tenant has a weight of 1, and a division is slow.
        let (whole, remainder) =
            if weight == 1 { (parts, 0) } else { (parts / u64::from(weight), parts % u64::from(weight)) };
        let charged = service.bytes.min(remembered) + Bytes(whole);
        let bytes = service.bytes.max(charged).max(self.virtual_time.saturating_sub(self.catch_up));
        *service = Service { bytes, remainder };
        self.competing.set(id, bytes);
        if !self.ahead.is_empty() && self.ahead.contains(id) {
            self.ahead.set(id, bytes);
        }
        self.raise_virtual_time();
    }

    /// Forgets the service of the tenant: its number may be given to another.
    pub(crate) fn forget(&mut self, id: TenantId) {
        self.services[id.index()] = Service::default();
    }

    /// Lag of the virtual time behind the tenant's service.
    #[inline]
    pub(crate) fn behind(&self, id: TenantId) -> Bytes {
        self.services[id.index()].bytes.saturating_sub(self.virtual_time)
    }

    /// Whether the others' service lag is so large that the tenant must wait.
    #[inline]
    pub(crate) fn is_ahead(&self, id: TenantId) -> bool {
        self.behind(id) > self.max
    }

    /// The least-served of the tenants in [`Place::Ahead`], if it does not have to wait any longer.
    #[inline]
    pub(crate) fn caught_up(&self) -> Option<TenantId> {
        let (service, id) = self.ahead.first()?;
        (service <= self.most()).then_some(id)
    }

    /// A tenant that came back and has not caught up yet: it asks for less than its share.
    #[inline]
    pub(crate) fn returned(&self) -> Option<TenantId> {
        self.competing.first().filter(|&(service, _)| service < self.virtual_time).map(|(_, id)| id)
    }

    /// The largest service with which a tenant may still be in the round.
    #[inline]
    fn most(&self) -> Bytes {
        self.virtual_time.saturating_add(self.max)
    }

    #[inline]
    fn raise_virtual_time(&mut self) {
        if let Some(least) = self.competing.least() {
            self.virtual_time = self.virtual_time.max(least); // a tenant that comes back to catch up is below it
            if self.virtual_time >= VIRTUAL_TIME_MAX {
                self.count_anew();
            }
        }
    }

    /// Subtracts from every tenant's service the least that a tenant has when it comes back. A tenant below that is away or excused, and would
    /// be lifted to it on coming back.
    #[cold]
    fn count_anew(&mut self) {
        let least = self.virtual_time.saturating_sub(self.catch_up);
        self.virtual_time -= least;
        for service in &mut self.services {
            *service = match service.bytes < least {
                true => Service::default(),
                false => Service { bytes: service.bytes - least, ..*service },
            };
        }
        self.competing.shift(|bytes| bytes - least);
        self.ahead.shift(|bytes| bytes - least);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const ONE: TenantId = TenantId(0);
    const TWO: TenantId = TenantId(1);
    const IO: Bytes = Bytes::kib(128);
    const LAG_MAX: Bytes = Bytes::mib(1);
    /// No tenant may catch up.
    const NONE: Bytes = Bytes::ZERO;

    fn lag() -> ServiceLag {
        with_catch_up(NONE)
    }

    fn with_catch_up(catch_up: Bytes) -> ServiceLag {
        let mut lag = ServiceLag::new(LAG_MAX, catch_up);
        lag.grow(4);
        lag
    }

    fn serve(lag: &mut ServiceLag, id: TenantId, ios: usize) {
        for _ in 0..ios {
            lag.on_submit(id, IO, 1);
        }
    }

    #[test]
    fn nothing_is_saved_up_while_away() {
        let mut lag = lag();
        lag.on_move(ONE, Place::Active);
        serve(&mut lag, ONE, 1000);
        lag.on_move(TWO, Place::Active);
        assert_eq!((lag.behind(ONE), lag.behind(TWO)), (Bytes::ZERO, Bytes::ZERO));
    }

    #[test]
    fn a_tenant_that_comes_back_may_catch_up_so_much_and_no_more() {
        let mut lag = with_catch_up(IO);
        lag.on_move(TWO, Place::Active);
        lag.on_move(TWO, Place::Idle);
        lag.on_move(ONE, Place::Active);
        serve(&mut lag, ONE, 1000);
        lag.on_move(TWO, Place::Active);
        serve(&mut lag, ONE, 1);
        assert_eq!(lag.behind(ONE), IO, "the virtual time does not fall for it");
        assert_eq!(lag.returned(), Some(TWO));
        serve(&mut lag, TWO, 1);
        assert_eq!(lag.returned(), None, "it has caught up");
        assert_eq!(lag.behind(ONE), IO, "the first was to catch up");
        serve(&mut lag, TWO, 1);
        assert_eq!(lag.behind(ONE), NONE);
    }

    #[test]
    fn a_tenant_may_compete_without_backlog() {
        let mut lag = lag();
        lag.on_move(TWO, Place::Active);
        lag.on_move(ONE, Place::Active);
        lag.on_idle(TWO, true);
        serve(&mut lag, ONE, 1);
        assert_eq!(lag.behind(ONE), IO);
        lag.on_idle(TWO, false);
        assert_eq!(lag.behind(ONE), NONE);
    }

    #[test]
    fn a_debt_is_not_forgiven_by_leaving() {
        let mut lag = lag();
        lag.on_move(ONE, Place::Active);
        lag.on_move(TWO, Place::Deferred);
        serve(&mut lag, ONE, 5);
        lag.on_move(ONE, Place::Idle);
        lag.on_move(ONE, Place::Active);
        assert_eq!(lag.behind(ONE), Bytes(5 * IO.0));
    }

    #[test]
    fn only_those_that_compete_hold_the_virtual_time() {
        for (place, holds) in [
            (Place::Active, true),
            (Place::Deferred, true),
            (Place::Ahead, true),
            (Place::Idle, false),
            (Place::Limited, false),
        ] {
            let mut lag = lag();
            lag.on_move(TWO, Place::Active);
            lag.on_move(ONE, Place::Active);
            lag.on_move(TWO, place);
            serve(&mut lag, ONE, 1);
            assert_eq!(lag.behind(ONE) > Bytes::ZERO, holds, "{place:?}");
        }
    }

    #[test]
    fn a_tenant_ahead_is_let_back_by_the_very_io_that_makes_up_for_it() {
        let mut lag = lag();
        lag.on_move(TWO, Place::Active);
        lag.on_move(ONE, Place::Active);
        serve(&mut lag, ONE, 9);
        assert!(lag.behind(ONE) > LAG_MAX);
        lag.on_move(ONE, Place::Ahead);
        assert_eq!(lag.caught_up(), None);
        serve(&mut lag, TWO, 1);
        assert_eq!(lag.caught_up(), Some(ONE));
    }

    #[test]
    fn what_a_reservation_gave_beyond_the_bound_is_not_remembered() {
        let mut lag = lag();
        lag.on_move(TWO, Place::Active);
        lag.on_move(ONE, Place::Ahead);
        serve(&mut lag, ONE, 100_000);
        assert_eq!(lag.behind(ONE), LAG_MAX + IO);
    }

    #[test]
    fn a_heavy_tenant_is_charged_the_last_byte() {
        let mut lag = lag();
        lag.on_move(TWO, Place::Active);
        lag.on_move(ONE, Place::Active);
        for _ in 0..3000 {
            lag.on_submit(ONE, Bytes(1000), 3000);
        }
        assert_eq!(lag.behind(ONE), Bytes(1000));
    }

    /// A new one in which every tenant has been served this much.
    fn lag_at(virtual_time: Bytes, catch_up: Bytes) -> ServiceLag {
        let services = std::vec![Service { bytes: virtual_time, remainder: 0 }; 4];
        ServiceLag { services, virtual_time, ..with_catch_up(catch_up) }
    }

    proptest! {
        #![proptest_config(crate::random_cases(100))]

        #[test]
        fn counting_anew_changes_nothing(
            steps in prop::collection::vec((0..4u32, 0..8usize, 1..600_000u64, 1..5u32), 1..300),
            below in 0..10_000_000u64,
            catch_up in prop::sample::select(std::vec![NONE, IO]),
        ) {
            let early = with_catch_up(catch_up);
            let (mut early, mut late) = (early, lag_at(Bytes(VIRTUAL_TIME_MAX.0 - below), catch_up));
            let moves = [Place::Idle, Place::Active, Place::Deferred, Place::Limited, Place::Ahead];
            for (id, step, cost, weight) in steps {
                let id = TenantId(id);
                for lag in [&mut early, &mut late] {
                    match moves.get(step) {
                        Some(&to) => lag.on_move(id, to),
                        None if lag.competing.contains(id) => lag.on_submit(id, Bytes(cost), weight),
                        None => {}
                    }
                }
                prop_assert_eq!(early.caught_up(), late.caught_up());
                for id in (0..4).map(TenantId) {
                    prop_assert_eq!(early.behind(id), late.behind(id));
                }
                prop_assert!(late.virtual_time < VIRTUAL_TIME_MAX);
            }
        }
    }

    proptest! {
        #![proptest_config(crate::random_cases(300))]

        /// Tenants come, go, wait and are served whenever they are not ahead.
        #[test]
        fn the_virtual_time_never_falls_and_no_tenant_lags_by_more_than_the_bound(
            steps in prop::collection::vec((0..4u32, 0..8usize, 1..600_000u64, 1..5u32), 1..300),
            catch_up in prop::sample::select(std::vec![NONE, IO]),
        ) {
            let mut lag = with_catch_up(catch_up);
            let (mut places, mut virtual_time, mut largest) = ([Place::Idle; 4], Bytes::ZERO, 0);
            for (id, step, cost, weight) in steps {
                let place = &mut places[id as usize];
                let id = TenantId(id);
                let moves = [Place::Idle, Place::Active, Place::Deferred, Place::Limited];
                if let Some(&to) = moves.get(step) {
                    *place = to;
                    lag.on_move(id, to);
                } else if *place == Place::Active {
                    if lag.is_ahead(id) {
                        *place = Place::Ahead;
                        lag.on_move(id, Place::Ahead);
                    } else {
                        largest = largest.max(cost);
                        lag.on_submit(id, Bytes(cost), weight);
                    }
                }
                prop_assert!(lag.virtual_time >= virtual_time);
                virtual_time = lag.virtual_time;
                for (id, place) in places.iter().enumerate() {
                    let behind = lag.behind(TenantId(id as u32));
                    let competes = matches!(place, Place::Active | Place::Deferred | Place::Ahead);
                    prop_assert!(
                        !competes || behind <= LAG_MAX + Bytes(largest),
                        "the virtual time is {behind} behind, {largest} in the largest IO"
                    );
                }
            }
        }
    }
}
