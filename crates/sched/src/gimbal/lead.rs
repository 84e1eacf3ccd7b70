//! The bounded lead: nobody with work to do falls far behind anybody else.
//!
//! Deficits are fair only among tenants that stay in the round. A tenant that is out of slots leaves it and loses its
//! deficit; the round then spins and gives whoever is left as many quanta as he can spend. Where tenants are out of slots
//! most of the time, the share of each is decided by how fast its slots come back, not by the round.
//!
//! So every tenant also has a *service* counter: weighted bytes submitted, divided by its weight. The least among those that
//! *compete* (backlog, and no limit of their own in the way; those out of slots too) is the *floor*. Who is more than
//! `lead_max` above it is kept out of the round until the floor has come up.
//!
//! ```text
//!   service
//!      ▲        ┌─┐ ahead: waits                     who leaves stops counting;
//!      │┄┄┄┄┄┄┄┄┤ ├┄┄┄┄┄┄┄┄┄┄ floor + lead_max       who comes (back) starts at max(own service, floor):
//!      │  ┌─┐   │ │   ┌─┐                            nothing is saved up while away, and no lead is forgiven
//!      │──┤ ├───┤ ├───┤ ├─┬─┐ floor
//!      └──┴─┴───┴─┴───┴─┴─┴─┴──► competing tenants
//! ```
//!
//! Two options for tenants whose clients keep to a credit so small that nothing of them waits here (off unless asked for): one whose
//! slots are all busy competes without backlog, and who comes back may start `catch_up` below the floor, so that he who is furthest
//! behind loses nothing by being away between two IOs.
//!
//! A tenant that is out of slots because the SSD does not end its IOs at all would hold the floor down for ever; once it is
//! *excused*, it does not compete until it moves again, as if it were away.
//!
//! A tenant that goes before the round (its reservation) is charged too; a lead of more than `lead_max` and one IO is not
//! remembered, or it would be kept out for hours when the reservation ends.
//!
//! Only differences count. A counter of 64 bits would be full within hours on a device without a medium, at the highest cost and
//! overhead that a configuration may name; so when the floor has come far, everybody's service is counted from it anew.
//!
//! Cost: O(log n) per IO, n the competing tenants. Not consulted at all unless `GimbalConfig::lead_max` is set.
//!
//! Holds: the floor never falls but when all is counted anew, so who is let back is not sent out again before its next IO (`the_floor_never_falls`);
//!        the service of any two competing tenants differs by at most `lead_max`, `catch_up` and one IO, deferred or not
//!        (`no_tenant_leads_by_more_than_the_bound` here, `out_of_slots_or_not_tenants_stay_close` in `drr_tests`);
//!        a tenant whose IOs hang keeps nobody waiting once it is excused (`an_excused_tenant_keeps_nobody_waiting` there);
//!        the least-served is never kept out, so somebody may always go or has IOs in flight;
//!        counting anew changes nothing among those who compete (`counting_anew_changes_nothing`).
//! Elsewhere: who is where is `drr`.
//! Beyond the paper. The idea is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996).

use super::lists::Place;
use super::ranking::Ranking;
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// The floor at which service is counted anew. What a tenant may be above it (`GimbalConfig::LEAD_MAX_MAX` and one IO at the
/// highest cost) is far less than what is left of 64 bits.
const FLOOR_MAX: Bytes = Bytes(1 << 62);

/// What one tenant has been served.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// Weighted bytes / weight.
    bytes: Bytes,
    /// What the division left over, in weighted bytes.
    remainder: u64,
}

/// The service of all tenants, and who is how far ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Lead {
    services: Vec<Service>,
    /// The service of those that compete.
    competing: Ranking<Bytes>,
    /// The service of those that are kept out of the round.
    ahead: Ranking<Bytes>,
    /// The least service among those that compete; while nobody does, as it was last.
    floor: Bytes,
}

impl Lead {
    /// Makes room for `tenants` tenants; new ones have had nothing.
    pub(super) fn grow(&mut self, tenants: usize) {
        self.services.resize(tenants, Service::default());
        self.competing.grow(tenants);
        self.ahead.grow(tenants);
    }

    /// The tenant now stands in `place`. If it comes back, it may be `catch_up` below the floor.
    #[inline]
    pub(super) fn on_move(&mut self, id: TenantId, place: Place, catch_up: Bytes) {
        let competes = matches!(place, Place::Active | Place::Deferred | Place::Ahead);
        self.compete(id, competes, catch_up);
        let ahead = (place == Place::Ahead).then_some(self.services[id.index()].bytes);
        self.ahead.set(id, ahead);
        self.raise_floor(catch_up);
    }

    /// The tenant has no backlog, but may compete all the same.
    #[inline]
    pub(super) fn on_idle(&mut self, id: TenantId, competes: bool, catch_up: Bytes) {
        self.compete(id, competes, catch_up);
        self.ahead.set(id, None);
        self.raise_floor(catch_up);
    }

    #[inline]
    fn compete(&mut self, id: TenantId, competes: bool, catch_up: Bytes) {
        let least = self.floor.saturating_sub(catch_up);
        let service = &mut self.services[id.index()];
        if competes && service.bytes < least && !self.competing.contains(id) {
            *service = Service { bytes: least, remainder: 0 };
        }
        let bytes = service.bytes;
        self.competing.set(id, competes.then_some(bytes));
    }

    /// Others wait for the tenant no longer, until it moves or is given an IO.
    pub(super) fn excuse(&mut self, id: TenantId, catch_up: Bytes) {
        self.competing.set(id, None);
        self.raise_floor(catch_up);
    }

    /// A competing tenant (or one that was excused, and is back by this) has been given an IO.
    #[inline]
    pub(super) fn on_submit(
        &mut self,
        id: TenantId,
        weighted: Bytes,
        weight: u32,
        lead_max: Bytes,
        catch_up: Bytes,
    ) {
        let remembered = self.most(lead_max);
        let service = &mut self.services[id.index()];
        let parts = weighted.0.saturating_add(service.remainder);
        // Nearly everybody has a weight of 1, and a division is dear.
        let (whole, remainder) =
            if weight == 1 { (parts, 0) } else { (parts / u64::from(weight), parts % u64::from(weight)) };
        let charged = service.bytes.min(remembered) + Bytes(whole);
        let bytes = service.bytes.max(charged).max(self.floor.saturating_sub(catch_up));
        *service = Service { bytes, remainder };
        self.competing.set(id, Some(bytes));
        if self.ahead.contains(id) {
            self.ahead.set(id, Some(bytes));
        }
        self.raise_floor(catch_up);
    }

    /// The tenant's number may be given to another, who has had nothing.
    pub(super) fn forget(&mut self, id: TenantId) {
        self.services[id.index()] = Service::default();
    }

    /// How far the tenant is above the floor.
    #[inline]
    pub(super) fn of(&self, id: TenantId) -> Bytes {
        self.services[id.index()].bytes.saturating_sub(self.floor)
    }

    /// The least-served of the tenants in [`Place::Ahead`], if it need wait no longer.
    #[inline]
    pub(super) fn caught_up(&self, lead_max: Bytes) -> Option<TenantId> {
        let most = self.most(lead_max);
        self.ahead.first().filter(|&(service, _)| service <= most).map(|(_, id)| id)
    }

    /// The most that a tenant may have had and still be in the round.
    #[inline]
    fn most(&self, lead_max: Bytes) -> Bytes {
        self.floor.saturating_add(lead_max)
    }

    #[inline]
    fn raise_floor(&mut self, catch_up: Bytes) {
        if let Some((least, _)) = self.competing.first() {
            self.floor = self.floor.max(least); // who comes back to catch up is below it
            if self.floor >= FLOOR_MAX {
                self.count_anew(catch_up);
            }
        }
    }

    /// Takes from everybody's service what whoever comes back has at least. Who is below that is away or excused, and would be
    /// lifted to it on coming back.
    #[cold]
    fn count_anew(&mut self, catch_up: Bytes) {
        let least = self.floor.saturating_sub(catch_up);
        self.floor -= least;
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
    const LEAD_MAX: Bytes = Bytes::mib(1);
    /// Nobody may catch up.
    const NONE: Bytes = Bytes::ZERO;

    fn lead() -> Lead {
        let mut lead = Lead::default();
        lead.grow(4);
        lead
    }

    fn serve(lead: &mut Lead, id: TenantId, ios: usize) {
        for _ in 0..ios {
            lead.on_submit(id, IO, 1, LEAD_MAX, NONE);
        }
    }

    #[test]
    fn nothing_is_saved_up_while_away() {
        let mut lead = lead();
        lead.on_move(ONE, Place::Active, NONE);
        serve(&mut lead, ONE, 1000);
        lead.on_move(TWO, Place::Active, NONE);
        assert_eq!((lead.of(ONE), lead.of(TWO)), (Bytes::ZERO, Bytes::ZERO));
    }

    #[test]
    fn who_comes_back_may_catch_up_so_much_and_no_more() {
        let mut lead = lead();
        lead.on_move(TWO, Place::Active, IO);
        lead.on_move(TWO, Place::Idle, IO);
        lead.on_move(ONE, Place::Active, IO);
        serve(&mut lead, ONE, 1000);
        lead.on_move(TWO, Place::Active, IO);
        serve(&mut lead, ONE, 1);
        assert_eq!(lead.of(ONE), IO, "the floor does not fall for it");
        serve(&mut lead, TWO, 1);
        assert_eq!(lead.of(ONE), IO, "the first was to catch up");
        serve(&mut lead, TWO, 1);
        assert_eq!(lead.of(ONE), NONE);
    }

    #[test]
    fn who_is_full_competes_without_backlog() {
        let mut lead = lead();
        lead.on_move(TWO, Place::Active, NONE);
        lead.on_move(ONE, Place::Active, NONE);
        lead.on_idle(TWO, true, NONE);
        serve(&mut lead, ONE, 1);
        assert_eq!(lead.of(ONE), IO);
        lead.on_idle(TWO, false, NONE);
        assert_eq!(lead.of(ONE), NONE);
    }

    #[test]
    fn a_lead_is_not_forgiven_by_leaving() {
        let mut lead = lead();
        lead.on_move(ONE, Place::Active, NONE);
        lead.on_move(TWO, Place::Deferred, NONE);
        serve(&mut lead, ONE, 5);
        lead.on_move(ONE, Place::Idle, NONE);
        lead.on_move(ONE, Place::Active, NONE);
        assert_eq!(lead.of(ONE), Bytes(5 * IO.0));
    }

    #[test]
    fn only_those_who_compete_hold_the_floor_down() {
        for (place, holds) in [
            (Place::Active, true),
            (Place::Deferred, true),
            (Place::Ahead, true),
            (Place::Idle, false),
            (Place::Limited, false),
        ] {
            let mut lead = lead();
            lead.on_move(TWO, Place::Active, NONE);
            lead.on_move(ONE, Place::Active, NONE);
            lead.on_move(TWO, place, NONE);
            serve(&mut lead, ONE, 1);
            assert_eq!(lead.of(ONE) > Bytes::ZERO, holds, "{place:?}");
        }
    }

    #[test]
    fn who_is_ahead_is_let_back_by_the_very_io_that_makes_up_for_it() {
        let mut lead = lead();
        lead.on_move(TWO, Place::Active, NONE);
        lead.on_move(ONE, Place::Active, NONE);
        serve(&mut lead, ONE, 9);
        assert!(lead.of(ONE) > LEAD_MAX);
        lead.on_move(ONE, Place::Ahead, NONE);
        assert_eq!(lead.caught_up(LEAD_MAX), None);
        serve(&mut lead, TWO, 1);
        assert_eq!(lead.caught_up(LEAD_MAX), Some(ONE));
    }

    #[test]
    fn what_a_reservation_gave_beyond_the_bound_is_not_remembered() {
        let mut lead = lead();
        lead.on_move(TWO, Place::Active, NONE);
        lead.on_move(ONE, Place::Ahead, NONE);
        serve(&mut lead, ONE, 100_000);
        assert_eq!(lead.of(ONE), LEAD_MAX + IO);
    }

    #[test]
    fn a_heavy_tenant_is_charged_the_last_byte() {
        let mut lead = lead();
        lead.on_move(TWO, Place::Active, NONE);
        lead.on_move(ONE, Place::Active, NONE);
        for _ in 0..3000 {
            lead.on_submit(ONE, Bytes(1000), 3000, LEAD_MAX, NONE);
        }
        assert_eq!(lead.of(ONE), Bytes(1000));
    }

    /// As `lead`, when everybody has had so much.
    fn lead_at(floor: Bytes) -> Lead {
        let services = std::vec![Service { bytes: floor, remainder: 0 }; 4];
        Lead { services, floor, ..lead() }
    }

    proptest! {
        #![proptest_config(crate::random_cases(100))]

        #[test]
        fn counting_anew_changes_nothing(
            steps in prop::collection::vec((0..4u32, 0..8usize, 1..600_000u64, 1..5u32), 1..300),
            below in 0..10_000_000u64,
            catch_up in prop::sample::select(std::vec![NONE, IO]),
        ) {
            let (mut lead, mut late) = (lead(), lead_at(Bytes(FLOOR_MAX.0 - below)));
            let moves = [Place::Idle, Place::Active, Place::Deferred, Place::Limited, Place::Ahead];
            for (id, step, weighted, weight) in steps {
                let id = TenantId(id);
                for lead in [&mut lead, &mut late] {
                    match moves.get(step) {
                        Some(&to) => lead.on_move(id, to, catch_up),
                        None if lead.competing.contains(id) => {
                            lead.on_submit(id, Bytes(weighted), weight, LEAD_MAX, catch_up);
                        }
                        None => {}
                    }
                }
                prop_assert_eq!(lead.caught_up(LEAD_MAX), late.caught_up(LEAD_MAX));
                for id in (0..4).map(TenantId) {
                    prop_assert_eq!(lead.of(id), late.of(id));
                }
                prop_assert!(late.floor < FLOOR_MAX);
            }
        }
    }

    proptest! {
        #![proptest_config(crate::random_cases(300))]

        /// Tenants come, go, wait and are served whenever they are not too far ahead.
        #[test]
        fn the_floor_never_falls_and_no_tenant_leads_by_more_than_the_bound(
            steps in prop::collection::vec((0..4u32, 0..8usize, 1..600_000u64, 1..5u32), 1..300),
            catch_up in prop::sample::select(std::vec![NONE, IO]),
        ) {
            let mut lead = lead();
            let (mut places, mut floor, mut largest) = ([Place::Idle; 4], Bytes::ZERO, 0);
            for (id, step, weighted, weight) in steps {
                let place = &mut places[id as usize];
                let id = TenantId(id);
                let moves = [Place::Idle, Place::Active, Place::Deferred, Place::Limited];
                if let Some(&to) = moves.get(step) {
                    *place = to;
                    lead.on_move(id, to, catch_up);
                } else if *place == Place::Active {
                    if lead.of(id) > LEAD_MAX {
                        *place = Place::Ahead;
                        lead.on_move(id, Place::Ahead, catch_up);
                    } else {
                        largest = largest.max(weighted);
                        lead.on_submit(id, Bytes(weighted), weight, LEAD_MAX, catch_up);
                    }
                }
                prop_assert!(lead.floor >= floor);
                floor = lead.floor;
                for (id, place) in places.iter().enumerate() {
                    let ahead = lead.of(TenantId(id as u32));
                    let competes = matches!(place, Place::Active | Place::Deferred | Place::Ahead);
                    prop_assert!(
                        !competes || ahead <= LEAD_MAX + Bytes(largest),
                        "{ahead} ahead, {largest} in the largest IO"
                    );
                }
            }
        }
    }
}
