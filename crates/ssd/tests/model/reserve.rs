//! A reserve of erased blocks: it hides the cost of writes until it is used up, and an SSD with nothing else to do refills it.

use crate::small::{finish, profile};
use ssd::{Command, CommandKind, Condition, Ssd};
use units::{Bytes, Instant, Nanos};

/// 18 MiB in blocks of 384 KiB on each of four dies.
const RESERVE_BLOCKS: u32 = 12;

fn fragmented(reserve: Option<u32>) -> Ssd {
    let mut profile = profile();
    profile.geometry.capacity = Bytes::mib(256);
    profile.geometry.spare_permille = 150;
    profile.collection.reserve = reserve;
    Ssd::new(&profile, Condition::Fragmented, 3)
}

/// Writes this much at random, 32 commands of 4 KiB at a time, from `now`. Returns the end.
fn write(ssd: &mut Ssd, random: &mut u32, mut now: Instant, bytes: Bytes) -> Instant {
    for _ in 0..bytes.0 / 4096 / 32 {
        ssd.advance(now, &mut |_| {});
        for tag in 0..32 {
            *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (*random >> 8) % ssd.slots();
            ssd.submit(now, Command { tag, kind: CommandKind::Write, slot, slots: 1 });
        }
        now = finish(ssd, &mut |_| {});
    }
    now
}

/// Time of each of `parts` parts of 4 MiB, written one after the other from `begin`.
fn times(ssd: &mut Ssd, random: &mut u32, begin: Instant, parts: usize) -> Vec<Nanos> {
    let mut now = begin;
    let mut times = Vec::new();
    for _ in 0..parts {
        let end = write(ssd, random, now, Bytes::mib(4));
        times.push(end.since(now));
        now = end;
    }
    times
}

fn mean(times: &[Nanos]) -> f64 {
    times.iter().map(|time| time.0 as f64).sum::<f64>() / times.len() as f64
}

#[test]
fn a_reserve_is_used_up_and_refilled_by_an_ssd_that_has_nothing_else_to_do() {
    let (mut ssd, mut random) = (fragmented(Some(RESERVE_BLOCKS)), 1);
    // The first part is not counted: the buffer absorbs some of it.
    let first = times(&mut ssd, &mut random, Instant::ZERO, 16);
    let [fresh, later] = [&first[1..5], &first[12..]].map(mean);
    assert!(fresh * 2.0 < later, "4 MiB take {fresh} ns from the reserve and {later} ns without: {first:?}");
    assert!(ssd.counters().copied_slots > 0);
    let now = Instant::ZERO + Nanos(first.iter().map(|time| time.0).sum());
    ssd.advance(now + Nanos::secs(5), &mut |_| {});
    let again = times(&mut ssd, &mut random, now + Nanos::secs(5), 5);
    assert!(mean(&again[1..]) < fresh * 1.2, "after a rest: {again:?}, fresh: {fresh} ns");
    ssd.assert_consistent();
}

#[test]
fn without_a_reserve_writes_are_as_slow_from_the_beginning() {
    let times = times(&mut fragmented(None), &mut 1, Instant::ZERO, 16);
    let [fresh, later] = [&times[1..5], &times[12..]].map(mean);
    assert!(fresh * 1.3 > later, "{times:?}");
}
