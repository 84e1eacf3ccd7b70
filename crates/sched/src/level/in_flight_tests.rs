extern crate std;
use super::*;
use crate::{IoId, IoKind, Priority};
use proptest::prelude::*;
use std::vec::Vec;

const LIMITS: InFlightLimits = InFlightLimits::of(ByteRate(3_256_000_000), Nanos::micros(250));
const SMALL: Bytes = Bytes::kib(4);
const LARGE: Bytes = Bytes::kib(128);

fn io(tenant: u32, kind: IoKind, cost: Bytes) -> Io {
    let (id, priority, mark) = (IoId(0), Priority::default(), LIMITS.charge(cost));
    Io { id, tenant: TenantId(tenant), priority, kind, length: cost, mark }
}

/// The limit after a second in which these complete one after the other, over and over.
fn limit_after(ios: &[Io]) -> Bytes {
    let mut time = TimeInFlight::new(&LIMITS);
    for n in 0..10_000 {
        let now = Instant::ZERO + Nanos(n * 100_000);
        time.on_completion(now, &LIMITS, &ios[n as usize % ios.len()]);
    }
    time.view().limit
}

#[test]
fn an_io_is_charged_a_page_at_least() {
    assert_eq!(LIMITS.charge(SMALL), Mark(16 << 10));
    assert_eq!(LIMITS.charge(LARGE), Mark(128 << 10));
    assert_eq!(LIMITS.charge(Bytes::gib(100)), Mark(u32::MAX));
}

#[test]
fn the_limit_follows_who_is_there_and_what_they_do() {
    let (read, write) = (IoKind::Read, IoKind::Write);
    let readers = [io(0, read, SMALL), io(1, read, LARGE)];
    let writers = [io(0, write, SMALL), io(1, write, LARGE)];
    let both = [io(0, read, LARGE), io(1, write, LARGE)];
    assert_eq!(limit_after(&readers), LIMITS.uniform);
    assert_eq!(limit_after(&writers), LIMITS.uniform);
    assert_eq!(limit_after(&both), LIMITS.mixed);
    assert_eq!(limit_after(&readers[..1]), LIMITS.alone);
    assert_eq!(limit_after(&[io(0, read, LARGE), io(0, write, LARGE)]), LIMITS.alone);
}

#[test]
fn a_few_writes_raise_the_limit_a_little() {
    let mut ios = [io(0, IoKind::Read, SMALL); 100];
    (ios[0], ios[1]) = (io(1, IoKind::Write, SMALL), io(1, IoKind::Write, SMALL));
    let limit = limit_after(&ios);
    let eighth = Bytes((LIMITS.mixed - LIMITS.uniform).0 / 4);
    assert!(limit > LIMITS.uniform && limit < LIMITS.uniform + eighth, "{limit}");
}

#[test]
fn a_second_tenant_lowers_the_limit_at_once() {
    let mut time = TimeInFlight::new(&LIMITS);
    let mut now = Instant::ZERO;
    for _ in 0..1000 {
        now += Nanos::micros(100);
        time.on_completion(now, &LIMITS, &io(0, IoKind::Read, SMALL));
    }
    assert_eq!(time.view().limit, LIMITS.alone);
    assert!(time.on_completion(now, &LIMITS, &io(1, IoKind::Read, SMALL)));
    assert_eq!(time.view().limit, LIMITS.uniform);
}

#[test]
fn a_pause_makes_the_past_forgotten() {
    let mut time = TimeInFlight::new(&LIMITS);
    let both = [io(0, IoKind::Read, LARGE), io(1, IoKind::Write, LARGE)];
    let mut now = Instant::ZERO;
    for n in 0..2000 {
        now += Nanos::micros(100);
        time.on_completion(now, &LIMITS, &both[n % 2]);
    }
    for n in 0..2000 {
        now += if n == 0 { Nanos::secs(1) } else { Nanos::micros(100) };
        time.on_completion(now, &LIMITS, &io(n % 2, IoKind::Read, LARGE));
    }
    assert_eq!(time.view().limit, LIMITS.uniform);
}

#[test]
fn a_credit_is_what_fits_a_part() {
    let mut time = TimeInFlight::new(&LIMITS);
    let mut tenant = TenantTime::default();
    let part = Bytes::kib(512);
    assert_eq!(tenant.credit(part, &LIMITS), Credit(32), "before its first IO: of the least charge");
    for _ in 0..100 {
        let mark = LIMITS.charge(LARGE);
        tenant.on_submit(&mut time, mark);
        tenant.on_end(&mut time, mark);
    }
    assert_eq!(tenant.credit(part, &LIMITS), Credit(4));
    assert_eq!(tenant.credit(part.max(tenant.usual(7)), &LIMITS), Credit(7), "its usual IOs");
    assert_eq!(tenant.credit(Bytes::kib(1), &LIMITS), Credit(1));
}

#[test]
fn one_io_may_always_go() {
    let (mut time, mut tenant) = (TimeInFlight::new(&LIMITS), TenantTime::default());
    assert!(tenant.may_submit(Bytes::ZERO));
    tenant.on_submit(&mut time, LIMITS.charge(SMALL));
    assert!(!tenant.may_submit(Bytes::ZERO));
    assert!(tenant.may_submit(Bytes::kib(17)));
}

#[test]
fn what_hangs_does_not_count_until_all_has_ended() {
    let (mut time, mut hung, mut other) =
        (TimeInFlight::new(&LIMITS), TenantTime::default(), TenantTime::default());
    let mark = LIMITS.charge(LARGE);
    hung.on_submit(&mut time, mark);
    hung.on_submit(&mut time, mark);
    other.on_submit(&mut time, mark);
    hung.excuse(&mut time);
    hung.excuse(&mut time);
    assert_eq!(time.view().in_flight, LARGE);
    hung.on_end(&mut time, mark);
    hung.on_submit(&mut time, mark);
    hung.on_end(&mut time, mark);
    hung.on_end(&mut time, mark);
    assert_eq!(time.view().in_flight, LARGE);
    hung.on_submit(&mut time, mark);
    assert_eq!(time.view().in_flight, LARGE + LARGE, "it counts again");
}

proptest! {
    #![proptest_config(crate::random_cases(200))]

    #[test]
    fn what_was_charged_is_taken_off(
        steps in prop::collection::vec((0..3usize, 0..4u32, 0..5_000_000_000u64), 1..200),
    ) {
        let mut time = TimeInFlight::new(&LIMITS);
        let mut tenants = [TenantTime::default(); 3];
        let mut in_flight: Vec<(usize, Mark)> = Vec::new();
        for (tenant, step, cost) in steps {
            match step {
                0 | 1 => {
                    let mark = LIMITS.charge(Bytes(cost));
                    tenants[tenant].on_submit(&mut time, mark);
                    in_flight.push((tenant, mark));
                }
                2 if !in_flight.is_empty() => {
                    let (tenant, mark) = in_flight.swap_remove(cost as usize % in_flight.len());
                    tenants[tenant].on_end(&mut time, mark);
                }
                2 => {}
                _ => tenants[tenant].excuse(&mut time),
            }
            let counted = in_flight.iter().filter(|(tenant, _)| !tenants[*tenant].is_excused);
            let expected: Bytes = counted.map(|(_, mark)| charged(*mark)).sum();
            prop_assert_eq!(time.view().in_flight, expected);
        }
        for (tenant, mark) in in_flight {
            tenants[tenant].on_end(&mut time, mark);
        }
        prop_assert_eq!(time.view().in_flight, Bytes::ZERO);
        for tenant in tenants {
            prop_assert_eq!(tenant.charged, Bytes::ZERO);
        }
    }

    #[test]
    fn the_limit_stays_between_its_ends(
        steps in prop::collection::vec((0..3u32, any::<bool>(), 0..5_000_000_000u64, 0..200_000_000u64), 1..300),
    ) {
        let mut time = TimeInFlight::new(&LIMITS);
        let mut now = Instant::ZERO;
        for (tenant, is_read, cost, wait) in steps {
            now += Nanos(wait);
            let before = time.view().limit;
            let kind = if is_read { IoKind::Read } else { IoKind::Write };
            let changed = time.on_completion(now, &LIMITS, &io(tenant, kind, Bytes(cost)));
            let limit = time.view().limit;
            prop_assert_eq!(changed, limit != before);
            prop_assert!(limit >= LIMITS.uniform && (limit <= LIMITS.mixed || limit == LIMITS.alone));
        }
    }

    #[test]
    fn what_so_many_usual_ios_are_charged_lets_in_as_many(mean in 1..1u64 << 40, ios in 1..64u64) {
        let tenant = TenantTime { charged: Bytes::ZERO, is_excused: false, is_promised: false, mean };
        prop_assert_eq!(tenant.credit(tenant.usual(ios), &LIMITS), Credit(ios as u32));
    }

    #[test]
    fn the_limits_of_any_ssd_are_sound(rate in 1..=1u64 << 40, thresh_min in 0..3_600_000_000_000u64) {
        let limits = InFlightLimits::of(ByteRate(rate), Nanos(thresh_min));
        prop_assert_eq!(limits.check(), Ok(()));
    }
}

proptest! {
    #![proptest_config(crate::random_cases(1000))]

    #[test]
    fn who_is_held_to_the_credit_is_what_dividing_says(
        charged in 0..1u64 << 22,
        mean in 0..1u64 << 20,
        part in 1..1u64 << 23,
        near in any::<bool>(),
    ) {
        // Half of the cases lie around the bound.
        let part = Bytes(if near { (2 * charged).saturating_add(mean / MEAN_WEIGHT).saturating_sub(part % 64).max(1) } else { part });
        let tenant = TenantTime { charged: Bytes(charged), is_excused: false, is_promised: false, mean };
        let usual = mean.max(MEAN_WEIGHT);
        let credited = part.0 * MEAN_WEIGHT / usual * usual / MEAN_WEIGHT;
        let most = if credited == 0 { part.0 } else { credited };
        prop_assert_eq!(tenant.is_held_to(part), charged > 0 && 2 * charged >= most);
    }
}
