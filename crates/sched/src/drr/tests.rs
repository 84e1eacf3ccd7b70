//! Claims about the round: slots, deficits, places, shares.

extern crate std;

use super::*;
use crate::gimbal::slots::SlotRules;
use crate::level::TimeRules;
use crate::{CalibratedConfig, Cost, DeviceConstants, DeviceCosts, GimbalConfig, InFlightLimits, IoId};
use proptest::prelude::*;
use std::vec::Vec;
use units::ByteRate;

const ONE: TenantId = TenantId(0);
const TWO: TenantId = TenantId(1);
const NOW: Instant = Instant(1_000_000_000);
const LAG_MAX: Bytes = Bytes::mib(1);
const LAG_CATCH_UP: Bytes = Bytes::kib(128);

/// A round before an SSD that takes every IO given out: nothing is paced.
struct Round<R: Rules> {
    drr: Drr<R>,
    cost: Cost,
    next_id: u64,
    in_flight: Vec<Io>,
}

fn with_slots(slots: u32) -> SlotRules {
    let device = DeviceConstants { slots, ..DeviceConstants::DCT983 };
    SlotRules::new(&GimbalConfig::published(device))
}

impl Round<SlotRules> {
    fn published() -> Round<SlotRules> {
        Round::new(with_slots(8))
    }

    /// More slots than any test needs: no tenant is ever deferred.
    fn without_deferral() -> Round<SlotRules> {
        Round::new(with_slots(1 << 20))
    }
}

impl Round<TimeRules> {
    /// Held to a bounded service lag, and to 2 MiB in flight for a tenant alone.
    fn with_bounded_lag() -> Round<TimeRules> {
        let (uniform, io_min) = (Bytes::mib(1), Bytes::kib(16));
        let in_flight = InFlightLimits { uniform, mixed: uniform, alone: uniform, io_min };
        let config = CalibratedConfig::new(DeviceConstants::DCT983, DeviceCosts::DCT983);
        Round::new(TimeRules::new(&CalibratedConfig {
            in_flight,
            lag_max: LAG_MAX,
            lag_catch_up: LAG_CATCH_UP,
            ..config
        }))
    }
}

impl<R: Rules> Round<R> {
    fn new(rules: R) -> Round<R> {
        let drr = Drr::new(RoundConfig::STANDARD, rules);
        Round { drr, cost: Cost::ONE, next_id: 0, in_flight: Vec::new() }
    }

    fn share(&mut self, tenant: TenantId, share: Share) {
        self.drr.set_share(tenant, share);
    }

    fn arrive(&mut self, tenant: TenantId, kind: IoKind, length: Bytes, count: usize) {
        for _ in 0..count {
            self.next_id += 1;
            let (id, priority, mark) = (IoId(self.next_id), Priority::default(), Mark::default());
            self.drr.on_arrival(Io { id, tenant, priority, kind, length, mark });
        }
    }

    fn reads(&mut self, tenant: TenantId, length: Bytes, count: usize) {
        self.arrive(tenant, IoKind::Read, length, count);
    }

    fn submit(&mut self, now: Instant) -> Option<Io> {
        let write_cost = self.cost;
        let price = |_: &_, _: TenantId, kind: IoKind, length: Bytes| {
            let cost = if kind.pays_as_write() { write_cost.of(length) } else { length };
            Price { cost, reserved: cost }
        };
        let head = self.drr.head(now, &price)?;
        let io = self.drr.submit(now, head);
        self.in_flight.push(io);
        Some(io)
    }

    /// Submits until no tenant may go on. Returns the tenants that submitted, in order.
    fn submit_all(&mut self, now: Instant) -> Vec<TenantId> {
        std::iter::from_fn(|| self.submit(now)).map(|io| io.tenant).collect()
    }

    fn complete(&mut self, index: usize) -> Credit {
        let io = self.in_flight.remove(index);
        self.drr.on_completion(&io)
    }

    fn place(&self, tenant: TenantId) -> Place {
        self.drr.lists.place(tenant)
    }

    /// The first IO in flight of the tenant.
    fn first_of(&self, tenant: TenantId) -> usize {
        self.in_flight.iter().position(|io| io.tenant == tenant).expect("one was submitted")
    }
}

fn count(tenants: &[TenantId], who: TenantId) -> usize {
    tenants.iter().filter(|&&tenant| tenant == who).count()
}

#[test]
fn alone_a_tenant_may_use_every_slot() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(128), 20);
    assert_eq!(round.submit_all(NOW).len(), 8);
    assert_eq!(round.place(ONE), Place::Deferred);
}

#[test]
fn two_tenants_share_the_slots_equally() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(128), 20);
    round.reads(TWO, Bytes::kib(4), 500);
    let submitted = round.submit_all(NOW);
    assert_eq!((count(&submitted, ONE), count(&submitted, TWO)), (4, 4 * 32));
}

#[test]
fn beyond_as_many_tenants_as_slots_everyone_has_one() {
    let mut round = Round::published();
    for tenant in 0..20 {
        round.reads(TenantId(tenant), Bytes::kib(128), 3);
    }
    let submitted = round.submit_all(NOW);
    for tenant in 0..20 {
        assert_eq!(count(&submitted, TenantId(tenant)), 1, "tenant {tenant}");
    }
}

#[test]
fn an_expensive_write_fills_a_slot_sooner() {
    let mut round = Round::published();
    round.cost = Cost::ratio(9, 1);
    round.arrive(ONE, IoKind::Write, Bytes::kib(4), 500);
    // Four writes of 4 KiB at a cost of 9 come to 144 KiB: the last one overshoots.
    assert_eq!(round.submit_all(NOW).len(), 8 * 4);
}

#[test]
fn a_deferred_tenant_rejoins_when_a_slot_frees() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(64), 30);
    assert_eq!(round.submit_all(NOW).len(), 16);
    round.complete(0);
    assert_eq!(round.place(ONE), Place::Deferred, "half a slot has ended");
    round.complete(0);
    assert_eq!(round.place(ONE), Place::Active);
    assert_eq!(round.submit_all(NOW).len(), 2);
}

#[test]
fn a_tenant_that_goes_leaves_its_slots_to_the_others() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(128), 20);
    round.reads(TWO, Bytes::kib(128), 1);
    round.submit_all(NOW);
    let second = round.first_of(TWO);
    assert_eq!(count(&round.submit_all(NOW), ONE), 0);
    round.complete(second);
    assert_eq!(round.submit_all(NOW).len(), 4, "the other four slots were not handed over");
}

#[test]
fn a_lowered_allotment_drains_before_anything_else_goes() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(128), 20);
    round.submit_all(NOW);
    round.reads(TWO, Bytes::kib(128), 20);
    assert_eq!(round.submit_all(NOW), [TWO; 4]);
    for busy in (4..8).rev() {
        round.complete(0);
        let view = round.drr.view(ONE).expect("it has been seen");
        assert_eq!((view.slots_busy, view.slots_allotted), (busy, 4));
        assert!(round.submit_all(NOW).is_empty(), "{busy} slots are busy");
    }
    round.complete(0);
    assert_eq!(round.submit_all(NOW), [ONE]);
}

#[test]
fn credit_is_slots_times_the_ios_of_the_last_freed_slot() {
    let mut round = Round::published();
    assert_eq!(round.drr.credit(ONE), Credit(8 * 32));
    round.reads(ONE, Bytes::kib(64), 2);
    round.submit_all(NOW);
    assert_eq!(round.complete(0), Credit(8 * 32), "the slot has not been freed yet");
    assert_eq!(round.complete(0), Credit(8 * 2));
    round.reads(TWO, Bytes::kib(128), 1);
    assert_eq!(round.drr.credit(ONE), Credit(4 * 2), "two would share the slots");
}

#[test]
fn a_reservation_has_credit_for_all_slots() {
    let mut round = Round::published();
    for tenant in 1..9 {
        round.reads(TenantId(tenant), Bytes::kib(4), 1);
    }
    assert_eq!(round.drr.credit(ONE), Credit(32), "one of eight slots");
    round.share(ONE, Share { reservation: Some(ByteRate::mib_per_sec(300)), ..Share::EQUAL });
    assert_eq!(round.drr.credit(ONE), Credit(8 * 32));
    round.share(ONE, Share::EQUAL);
    assert_eq!(round.drr.credit(ONE), Credit(32));
}

#[test]
fn weights_share_slots_and_turns_in_proportion() {
    let mut round = Round::published();
    round.share(TWO, Share { weight: 3, ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(128), 20);
    round.reads(TWO, Bytes::kib(128), 20);
    let submitted = round.submit_all(NOW);
    assert_eq!((count(&submitted, ONE), count(&submitted, TWO)), (2, 6));

    let mut round = Round::without_deferral();
    round.share(TWO, Share { weight: 3, ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(4), 4000);
    round.reads(TWO, Bytes::kib(128), 4000);
    let mut bytes = [0u64; 2];
    for _ in 0..3000 {
        let io = round.submit(NOW).expect("there is backlog");
        bytes[io.tenant.index()] += io.length.0;
    }
    let three_quanta = 3 * round.drr.config.quantum.0;
    assert!(bytes[1].abs_diff(3 * bytes[0]) <= 2 * three_quanta, "{bytes:?}");
}

#[test]
fn a_heavier_weight_takes_effect_at_once() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(128), 20);
    round.reads(TWO, Bytes::kib(128), 20);
    assert_eq!(round.submit_all(NOW).len(), 8);
    round.share(TWO, Share { weight: 3, ..Share::EQUAL });
    assert_eq!(round.submit_all(NOW), [TWO; 2]);
}

#[test]
fn an_io_limit_spaces_the_ios() {
    let mut round = Round::published();
    round.drr.config.limit_burst = Nanos::ZERO;
    round.share(ONE, Share { limit_iops: Some(1000), ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(4), 10);
    assert_eq!(round.submit_all(NOW).len(), 1);
    assert_eq!(round.place(ONE), Place::Limited);
    let due = NOW + Nanos::millis(1);
    assert_eq!(round.drr.next_timer(NOW), Some(due));
    assert_eq!(round.submit_all(due - Nanos(1)).len(), 0);
    assert_eq!(round.submit_all(due).len(), 1);
}

#[test]
fn a_limited_tenant_leaves_its_slots_to_the_others() {
    let mut round = Round::published();
    round.share(ONE, Share { limit_rate: Some(ByteRate(1)), ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(128), 10);
    round.submit_all(NOW);
    round.reads(TWO, Bytes::kib(128), 20);
    assert_eq!(round.submit_all(NOW).len(), 4);
    let first = round.first_of(ONE);
    round.complete(first);
    assert_eq!(round.submit_all(NOW).len(), 4, "a tenant that only waits for its limit still counts");
}

#[test]
fn a_tenant_that_waits_for_its_own_limit_does_not_wait_for_the_ssd() {
    let mut round = Round::published();
    round.share(ONE, Share { limit_iops: Some(1000), ..Share::EQUAL });
    assert!(!round.drr.is_held_back(), "nobody waits");
    round.reads(ONE, Bytes::kib(4), 10);
    assert!(round.drr.is_held_back(), "nothing was asked of the limit yet");
    round.submit_all(NOW);
    assert_eq!(round.place(ONE), Place::Limited);
    assert!(round.drr.backlog().queued > 0 && !round.drr.is_held_back());
    round.share(ONE, Share::EQUAL);
    assert!(round.drr.is_held_back(), "now it waits for its turn");
    round.submit_all(NOW);
    assert!(!round.drr.is_held_back(), "all have gone");
}

#[test]
fn a_lifted_limit_lets_the_tenant_go_at_once() {
    let mut round = Round::published();
    round.share(ONE, Share { limit_iops: Some(1), ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(4), 4);
    round.submit_all(NOW);
    assert_eq!(round.place(ONE), Place::Limited);
    round.share(ONE, Share::EQUAL);
    assert_eq!(round.submit_all(NOW).len(), 3);
    assert_eq!(round.drr.next_timer(NOW), None);
}

#[test]
fn a_tenant_behind_its_reservation_goes_first_and_beyond_its_allotment() {
    let mut round = Round::published();
    for tenant in 1..9 {
        round.reads(TenantId(tenant), Bytes::kib(128), 5);
    }
    // 128 KiB per millisecond, with a millisecond saved up.
    round.share(ONE, Share { reservation: Some(ByteRate(131_072_000)), ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(128), 5);
    assert_eq!(round.submit(NOW).map(|io| io.tenant), Some(ONE));
    assert_eq!(round.submit(NOW).map(|io| io.tenant), Some(ONE), "what it had saved up");
    assert_eq!(count(&round.submit_all(NOW), ONE), 0, "it is no longer behind");
    let behind = NOW + Nanos::millis(1);
    assert_eq!(round.drr.next_timer(NOW), Some(behind));
    assert_eq!(round.submit_all(behind), [ONE], "its one slot is busy, but it is behind");
}

#[test]
fn a_limit_goes_before_a_reservation() {
    let mut round = Round::published();
    let (limit_rate, reservation) = (Some(ByteRate(1000)), Some(ByteRate::mib_per_sec(100)));
    round.share(ONE, Share { limit_rate, reservation, ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(4), 5);
    assert_eq!(round.submit_all(NOW).len(), 1);
    assert_eq!(round.place(ONE), Place::Limited);
}

#[test]
fn withdrawing_the_last_io_takes_the_tenant_out_of_the_round() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(4), 5);
    round.reads(TWO, Bytes::kib(4), 5);
    round.drr.withdraw(ONE, &mut |_| true);
    assert_eq!(round.place(ONE), Place::Idle);
    assert_eq!(round.submit_all(NOW), [TWO; 5]);
    assert_eq!(round.drr.backlog(), Backlog { queued: 0, in_flight: 5 });
}

#[test]
fn a_forgotten_number_starts_afresh() {
    let mut round = Round::published();
    round.share(ONE, Share { weight: 7, ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(128), 1);
    round.submit_all(NOW);
    assert_eq!(round.complete(0), Credit(8));
    round.drr.forget(ONE);
    assert_eq!(round.drr.credit(ONE), Credit(8 * 32));
    round.reads(ONE, Bytes::kib(128), 20);
    round.reads(TWO, Bytes::kib(128), 20);
    assert_eq!(count(&round.submit_all(NOW), ONE), 4, "the old weight is still there");
}

#[test]
#[should_panic(expected = "1 IOs queued and 0 in flight")]
fn forgetting_a_tenant_with_ios_is_a_bug() {
    let mut round = Round::published();
    round.reads(ONE, Bytes::kib(4), 1);
    round.drr.forget(ONE);
}

/// Completes what ONE has in flight and submits, `times` over; TWO's IOs never end.
fn turn_over_room_of_one(round: &mut Round<impl Rules>, times: usize) -> usize {
    let mut submitted = 0;
    for _ in 0..times {
        while let Some(index) = round.in_flight.iter().position(|io| io.tenant == ONE) {
            round.complete(index);
        }
        submitted += count(&round.submit_all(NOW), ONE);
    }
    submitted
}

/// Number of IOs that the first of two tenants submits, while those of the second never end.
fn submitted_by_one_beside_a_stuck_tenant(mut round: Round<impl Rules>, room: usize) -> usize {
    round.reads(ONE, Bytes::kib(128), 1000);
    round.reads(TWO, Bytes::kib(128), 1000);
    let submitted = round.submit_all(NOW);
    assert_eq!((count(&submitted, ONE), count(&submitted, TWO)), (room, room));
    room + turn_over_room_of_one(&mut round, 100)
}

#[test]
fn a_tenant_whose_room_comes_back_faster_gets_more_unless_the_service_lag_is_bounded() {
    assert_eq!(submitted_by_one_beside_a_stuck_tenant(Round::published(), 4), 4 + 100 * 4);
    // TWO has had eight IOs; eight more are 1 MiB, and one may begin exactly there.
    assert_eq!(submitted_by_one_beside_a_stuck_tenant(Round::with_bounded_lag(), 8), 8 + 8 + 1);
}

#[test]
fn a_tenant_ahead_goes_on_as_soon_as_the_others_catch_up_or_leave() {
    let stuck = || {
        let mut round = Round::with_bounded_lag();
        round.reads(ONE, Bytes::kib(128), 100);
        round.reads(TWO, Bytes::kib(128), 100);
        round.submit_all(NOW);
        turn_over_room_of_one(&mut round, 10);
        assert_eq!(round.place(ONE), Place::Ahead);
        round
    };
    let mut round = stuck();
    let second = round.first_of(TWO);
    round.complete(second);
    assert_eq!(round.submit_all(NOW), [TWO, ONE]);

    let mut round = stuck();
    round.drr.withdraw(TWO, &mut |_| true);
    assert_eq!(round.submit_all(NOW), [], "a tenant that is full competes without backlog");
    for _ in 0..5 {
        let second = round.first_of(TWO);
        round.complete(second);
    }
    let submitted = round.submit_all(NOW);
    assert!(!submitted.is_empty() && count(&submitted, ONE) == submitted.len(), "{submitted:?}");

    let mut round = stuck();
    let second = round.first_of(TWO);
    round.share(TWO, Share { limit_iops: Some(1), ..Share::EQUAL });
    round.complete(second);
    assert_eq!(round.submit_all(NOW)[0], TWO, "its limit allows this one");
    let second = round.first_of(TWO);
    round.complete(second);
    round.submit_all(NOW);
    assert_eq!(round.place(TWO), Place::Limited);
    assert_eq!(turn_over_room_of_one(&mut round, 3), 3 * 8, "a limited tenant holds the others back");
}

#[test]
fn a_reservation_goes_before_the_service_lag_and_counts_towards_it() {
    let mut round = Round::with_bounded_lag();
    // 128 KiB per millisecond, of which a second was saved up.
    round.drr.config.reservation_burst = Nanos::millis(1000);
    round.share(ONE, Share { reservation: Some(ByteRate(131_072_000)), ..Share::EQUAL });
    round.reads(ONE, Bytes::kib(128), 100);
    round.reads(TWO, Bytes::kib(128), 100);
    assert_eq!(count(&round.submit_all(NOW), ONE), 16, "up to all room in the SSD");
    assert!(turn_over_room_of_one(&mut round, 5) >= 5 * 8, "the service lag holds the reservation back");
    round.share(ONE, Share::EQUAL);
    assert_eq!(turn_over_room_of_one(&mut round, 1), 0, "what the reservation gave was not counted");
    while let Some(index) = round.in_flight.iter().position(|io| io.tenant == TWO) {
        round.complete(index);
    }
    assert_eq!(round.submit_all(NOW)[..2], [TWO, ONE], "more than the bound was counted");
}

#[test]
fn thousands_of_idle_tenants_change_nothing() {
    let run = |first: u32| {
        let mut round = Round::published();
        for tenant in 0..first {
            round.share(TenantId(tenant), Share::EQUAL);
        }
        round.reads(TenantId(first), Bytes::kib(4), 100);
        round.reads(TenantId(first + 1), Bytes::kib(128), 100);
        let submitted = round.submit_all(NOW).into_iter();
        submitted.map(|tenant| tenant.0 - first).collect::<Vec<_>>()
    };
    assert_eq!(run(0), run(10_000));
}

/// Numbers of IOs of `count` that a tenant submits one after the other beside a tenant without backlog that has all its
/// room in use, and of further ones once the latter is overdue.
fn served_beside_a_full_tenant(mut round: Round<impl Rules>, full: usize, count: usize) -> [usize; 2] {
    round.reads(ONE, Bytes::kib(128), full);
    assert_eq!(round.submit_all(NOW).len(), full);
    assert_eq!(round.place(ONE), Place::Idle);
    round.reads(TWO, Bytes::kib(128), count);
    let run_two = |round: &mut Round<_>| {
        let mut served = 0;
        while round.submit(NOW).is_some() {
            round.complete(round.in_flight.len() - 1);
            served += 1;
        }
        served
    };
    let before = run_two(&mut round);
    round.drr.on_overdue(ONE);
    [before, run_two(&mut round)]
}

#[test]
fn under_level_the_lag_counts_for_a_tenant_that_is_full_until_it_is_excused() {
    assert_eq!(served_beside_a_full_tenant(Round::published(), 8, 100), [100, 0]);
    let [before, after] = served_beside_a_full_tenant(Round::with_bounded_lag(), 16, 100);
    assert!(before < 100, "it competes without backlog");
    assert_eq!(before + after, 100, "nobody waits for IOs that hang");
}

#[test]
fn an_excused_tenant_delays_no_other() {
    let mut round = Round::with_bounded_lag();
    let count = 4000;
    round.reads(ONE, Bytes::kib(128), count);
    while round.submit(NOW).is_some() {}
    let stuck = round.in_flight.len();
    round.reads(TWO, Bytes::kib(64), count);
    let run_two = |round: &mut Round<_>| {
        let mut served = Bytes::ZERO;
        while let Some(io) = round.submit(NOW) {
            assert_eq!(io.tenant, TWO);
            served += io.length;
            round.complete(round.in_flight.len() - 1);
        }
        served
    };
    let before = run_two(&mut round);
    assert!(before <= LAG_MAX + LAG_CATCH_UP + Bytes::kib(64), "{before} are more than the bound");
    round.drr.on_overdue(ONE);
    round.drr.on_overdue(ONE);
    let after = run_two(&mut round);
    assert_eq!(before + after, Bytes::kib(64 * count as u64), "all of it, whatever hangs");
    // It comes back as an equal, with nothing saved up.
    round.reads(TWO, Bytes::kib(64), count);
    for _ in 0..stuck {
        round.complete(0);
    }
    let mut served = [Bytes::ZERO; 2];
    for _ in 0..1000 {
        let Some(io) = round.submit(NOW) else { panic!("both have work, and all has ended") };
        served[io.tenant.index()] += io.length;
        round.complete(round.in_flight.len() - 1);
    }
    let (most, least) = (served[0].max(served[1]), served[0].min(served[1]));
    assert!(most - least <= LAG_MAX + Bytes::kib(128), "{served:?}");
}

proptest! {
    #![proptest_config(crate::random_cases(100))]

    /// Backlogged tenants that always have a slot: within any interval their weighted bytes differ by at most two quanta
    /// and two of the largest IOs.
    #[test]
    fn equal_tenants_stay_close(
        lengths in prop::collection::vec((1..256u64, any::<bool>()), 2..8),
        cost in 1000..9000u32,
        from in 0..200usize,
        steps in 1..2000usize,
    ) {
        let mut round = Round::without_deferral();
        round.cost = Cost::ratio(cost, 1000);
        let mut largest = 0;
        for (tenant, &(kib, write)) in lengths.iter().enumerate() {
            let kind = if write { IoKind::Write } else { IoKind::Read };
            round.arrive(TenantId(tenant as u32), kind, Bytes::kib(kib), from + steps);
            largest = largest.max(if write { round.cost.of(Bytes::kib(kib)).0 } else { Bytes::kib(kib).0 });
        }
        let mut served = std::vec![0u64; lengths.len()];
        for step in 0..from + steps {
            let io = round.submit(NOW).expect("there is backlog");
            if step >= from {
                let cost = if io.kind.pays_as_write() { round.cost } else { Cost::ONE };
                served[io.tenant.index()] += cost.of(io.length).0;
            }
            let (least, most) = (served.iter().min().copied(), served.iter().max().copied());
            let bound = 2 * (round.drr.config.quantum.0 + largest);
            prop_assert!(most <= least.map(|least| least + bound), "{served:?} differ by more than {bound}");
        }
    }

    /// Tenants with backlog throughout, out of room or not, while any other tenants come and go and IOs end in any
    /// order: their service differs by at most the bound and one of the largest IOs.
    #[test]
    fn out_of_room_or_not_tenants_stay_close(
        lengths in prop::collection::vec((1..256u64, any::<bool>()), 2..6),
        steps in prop::collection::vec((0..10u32, any::<prop::sample::Index>(), 1000..9000u32), 1..1500),
    ) {
        let mut round = Round::with_bounded_lag();
        let passer_by = TenantId(lengths.len() as u32);
        for (tenant, &(kib, write)) in lengths.iter().enumerate() {
            let kind = if write { IoKind::Write } else { IoKind::Read };
            round.arrive(TenantId(tenant as u32), kind, Bytes::kib(kib), steps.len() + 1);
        }
        let (mut served, mut largest) = (std::vec![0u64; lengths.len() + 1], 0);
        for (step, which, cost) in steps {
            match step {
                0 => round.cost = Cost::ratio(cost, 1000),
                1 => round.reads(passer_by, Bytes::kib(64), 1 + cost as usize % 40),
                2 => round.drr.withdraw(passer_by, &mut |_| true),
                3..6 if !round.in_flight.is_empty() => {
                    round.complete(which.index(round.in_flight.len()));
                }
                _ => {
                    let Some(io) = round.submit(NOW) else {
                        let in_flight = round.in_flight.len();
                        prop_assert!(in_flight > 0, "there is backlog, nothing is in flight, and no tenant may go");
                        continue;
                    };
                    let cost = if io.kind.pays_as_write() { round.cost } else { Cost::ONE };
                    let weighted = cost.of(io.length).0;
                    served[io.tenant.index()] += weighted;
                    largest = largest.max(weighted);
                }
            }
            let stayed = &served[..lengths.len()];
            let (least, most) = (stayed.iter().min().copied(), stayed.iter().max().copied());
            let bound = LAG_MAX.0 + largest;
            prop_assert!(most <= least.map(|least| least + bound), "{stayed:?} differ by more than {bound}");
        }
    }
}

#[test]
fn an_io_of_a_thousand_million_quanta_does_not_spin_the_round_so_often() {
    // Spinning would take a minute and more; the order is that of spinning (`tests/against_naive.rs`).
    let mut round = Round::without_deferral();
    round.cost = Cost::ratio(9, 1);
    round.arrive(ONE, IoKind::Management, Bytes::gib(1 << 20), 1);
    round.arrive(TWO, IoKind::Management, Bytes::gib(1 << 19), 1);
    assert_eq!(round.submit_all(NOW), [TWO, ONE], "the smaller one is covered first");
    assert_eq!(round.drr.backlog().queued, 0);
}
