extern crate std;
use super::*;
use crate::{IoId, IoKind, Priority};
use proptest::prelude::*;
use std::vec::Vec;

const SIZES: WindowSizes = WindowSizes::of(ByteRate(3_256_000_000), Nanos::micros(250));
const SMALL: Bytes = Bytes::kib(4);
const LARGE: Bytes = Bytes::kib(128);

fn io(tenant: u32, kind: IoKind, cost: Bytes) -> Io {
    let (id, priority, mark) = (IoId(0), Priority::default(), SIZES.charge(cost));
    Io { id, tenant: TenantId(tenant), priority, kind, length: cost, mark }
}

/// The size after a second in which these complete one after the other, over and over.
fn size_after(ios: &[Io]) -> Bytes {
    let mut window = Window::new(&SIZES);
    for n in 0..10_000 {
        let now = Instant::ZERO + Nanos(n * 100_000);
        window.on_completion(now, &SIZES, &ios[n as usize % ios.len()]);
    }
    window.view().size
}

#[test]
fn an_io_is_charged_a_page_at_least() {
    assert_eq!(SIZES.charge(SMALL), Mark(16 << 10));
    assert_eq!(SIZES.charge(LARGE), Mark(128 << 10));
    assert_eq!(SIZES.charge(Bytes::gib(100)), Mark(u32::MAX));
}

#[test]
fn the_size_follows_who_is_there_and_what_they_do() {
    let (read, write) = (IoKind::Read, IoKind::Write);
    let readers = [io(0, read, SMALL), io(1, read, LARGE)];
    let writers = [io(0, write, SMALL), io(1, write, LARGE)];
    let both = [io(0, read, LARGE), io(1, write, LARGE)];
    assert_eq!(size_after(&readers), SIZES.uniform);
    assert_eq!(size_after(&writers), SIZES.uniform);
    assert_eq!(size_after(&both), SIZES.mixed);
    assert_eq!(size_after(&readers[..1]), SIZES.alone);
    assert_eq!(size_after(&[io(0, read, LARGE), io(0, write, LARGE)]), SIZES.alone);
}

#[test]
fn a_few_writes_widen_the_window_a_little() {
    let mut ios = [io(0, IoKind::Read, SMALL); 100];
    (ios[0], ios[1]) = (io(1, IoKind::Write, SMALL), io(1, IoKind::Write, SMALL));
    let size = size_after(&ios);
    let eighth = Bytes((SIZES.mixed - SIZES.uniform).0 / 4);
    assert!(size > SIZES.uniform && size < SIZES.uniform + eighth, "{size}");
}

#[test]
fn a_second_tenant_narrows_the_window_at_once() {
    let mut window = Window::new(&SIZES);
    let mut now = Instant::ZERO;
    for _ in 0..1000 {
        now += Nanos::micros(100);
        window.on_completion(now, &SIZES, &io(0, IoKind::Read, SMALL));
    }
    assert_eq!(window.view().size, SIZES.alone);
    assert!(window.on_completion(now, &SIZES, &io(1, IoKind::Read, SMALL)));
    assert_eq!(window.view().size, SIZES.uniform);
}

#[test]
fn a_pause_makes_the_past_forgotten() {
    let mut window = Window::new(&SIZES);
    let both = [io(0, IoKind::Read, LARGE), io(1, IoKind::Write, LARGE)];
    let mut now = Instant::ZERO;
    for n in 0..2000 {
        now += Nanos::micros(100);
        window.on_completion(now, &SIZES, &both[n % 2]);
    }
    for n in 0..2000 {
        now += if n == 0 { Nanos::secs(1) } else { Nanos::micros(100) };
        window.on_completion(now, &SIZES, &io(n % 2, IoKind::Read, LARGE));
    }
    assert_eq!(window.view().size, SIZES.uniform);
}

#[test]
fn a_credit_is_what_fits_a_part() {
    let mut window = Window::new(&SIZES);
    let mut occupied = Occupied::default();
    let part = Bytes::kib(512);
    assert_eq!(occupied.credit(part, &SIZES), Credit(32), "before its first IO: of the least charge");
    for _ in 0..100 {
        let mark = SIZES.charge(LARGE);
        occupied.on_submit(&mut window, mark);
        occupied.on_end(&mut window, mark);
    }
    assert_eq!(occupied.credit(part, &SIZES), Credit(4));
    assert_eq!(occupied.credit(Bytes::kib(1), &SIZES), Credit(1));
}

#[test]
fn one_io_may_always_go() {
    let (mut window, mut occupied) = (Window::new(&SIZES), Occupied::default());
    assert!(occupied.may_submit(Bytes::ZERO));
    occupied.on_submit(&mut window, SIZES.charge(SMALL));
    assert!(!occupied.may_submit(Bytes::ZERO));
    assert!(occupied.may_submit(Bytes::kib(17)));
}

#[test]
fn who_hangs_does_not_count_until_all_has_ended() {
    let (mut window, mut hung, mut other) = (Window::new(&SIZES), Occupied::default(), Occupied::default());
    let mark = SIZES.charge(LARGE);
    hung.on_submit(&mut window, mark);
    hung.on_submit(&mut window, mark);
    other.on_submit(&mut window, mark);
    hung.excuse(&mut window);
    hung.excuse(&mut window);
    assert_eq!(window.view().in_flight, LARGE);
    hung.on_end(&mut window, mark);
    hung.on_submit(&mut window, mark);
    hung.on_end(&mut window, mark);
    hung.on_end(&mut window, mark);
    assert_eq!(window.view().in_flight, LARGE);
    hung.on_submit(&mut window, mark);
    assert_eq!(window.view().in_flight, LARGE + LARGE, "it counts again");
}

proptest! {
    #![proptest_config(crate::random_cases(200))]

    #[test]
    fn what_was_charged_is_taken_off(
        steps in prop::collection::vec((0..3usize, 0..4u32, 0..5_000_000_000u64), 1..200),
    ) {
        let mut window = Window::new(&SIZES);
        let mut tenants = [Occupied::default(); 3];
        let mut in_flight: Vec<(usize, Mark)> = Vec::new();
        for (tenant, step, cost) in steps {
            match step {
                0 | 1 => {
                    let mark = SIZES.charge(Bytes(cost));
                    tenants[tenant].on_submit(&mut window, mark);
                    in_flight.push((tenant, mark));
                }
                2 if !in_flight.is_empty() => {
                    let (tenant, mark) = in_flight.swap_remove(cost as usize % in_flight.len());
                    tenants[tenant].on_end(&mut window, mark);
                }
                2 => {}
                _ => tenants[tenant].excuse(&mut window),
            }
            let counted = in_flight.iter().filter(|(tenant, _)| !tenants[*tenant].is_excused);
            let expected: Bytes = counted.map(|(_, mark)| charged(*mark)).sum();
            prop_assert_eq!(window.view().in_flight, expected);
        }
        for (tenant, mark) in in_flight {
            tenants[tenant].on_end(&mut window, mark);
        }
        prop_assert_eq!(window.view().in_flight, Bytes::ZERO);
        for occupied in tenants {
            prop_assert_eq!(occupied.charged, Bytes::ZERO);
        }
    }

    #[test]
    fn the_size_stays_between_its_ends(
        steps in prop::collection::vec((0..3u32, any::<bool>(), 0..5_000_000_000u64, 0..200_000_000u64), 1..300),
    ) {
        let mut window = Window::new(&SIZES);
        let mut now = Instant::ZERO;
        for (tenant, is_read, cost, wait) in steps {
            now += Nanos(wait);
            let before = window.view().size;
            let kind = if is_read { IoKind::Read } else { IoKind::Write };
            let resized = window.on_completion(now, &SIZES, &io(tenant, kind, Bytes(cost)));
            let size = window.view().size;
            prop_assert_eq!(resized, size != before);
            prop_assert!(size >= SIZES.uniform && (size <= SIZES.mixed || size == SIZES.alone));
        }
    }

    #[test]
    fn sizes_of_any_ssd_are_sound(rate in 1..=1u64 << 40, thresh_min in 0..3_600_000_000_000u64) {
        let sizes = WindowSizes::of(ByteRate(rate), Nanos(thresh_min));
        prop_assert_eq!(sizes.check(), Ok(()));
    }
}
