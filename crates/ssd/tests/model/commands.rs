//! What each kind of command does on an idle device.

use crate::small::{consumer_profile, finish, profile, time_alone};
use ssd::{Command, CommandKind, Condition, Image, Ssd};
use units::{Bytes, Instant, Nanos};

/// Long enough for a small device to empty its write buffer, or to fold its SLC cache.
const A_WHILE: Nanos = Nanos::secs(2);

#[test]
fn deallocated_slots_are_read_without_the_flash() {
    let mut ssd = Ssd::new(&profile(), Condition::Clean, 0);
    let mapped = time_alone(&mut ssd, Instant::ZERO, CommandKind::Read, 100, 4);
    assert!(mapped > Nanos::micros(50), "a sense takes that long, this read took {mapped}");
    let now = Instant::ZERO + A_WHILE;
    time_alone(&mut ssd, now, CommandKind::Deallocate, 100, 4);
    let deallocated = time_alone(&mut ssd, now + A_WHILE, CommandKind::Read, 100, 4);
    assert!(deallocated < Nanos::micros(30), "nothing is sensed, but this read took {deallocated}");
    ssd.assert_consistent();
}

#[test]
fn a_written_slot_is_read_from_the_buffer() {
    let mut ssd = Ssd::new(&profile(), Condition::Clean, 0);
    let written = time_alone(&mut ssd, Instant::ZERO, CommandKind::Write, 5, 1);
    let buffered = time_alone(&mut ssd, Instant::ZERO + written, CommandKind::Read, 5, 1);
    assert!(buffered < Nanos::micros(30), "it need not be sensed, but this read took {buffered}");
    assert_eq!(ssd.buffered(), Bytes::kib(4));
}

#[test]
fn with_power_loss_protection_a_flush_does_not_wait_for_the_flash() {
    let mut ssd = Ssd::new(&profile(), Condition::Clean, 0);
    let written = time_alone(&mut ssd, Instant::ZERO, CommandKind::Write, 0, 64);
    let flush = time_alone(&mut ssd, Instant::ZERO + written, CommandKind::Flush, 0, 0);
    assert!(flush < Nanos::micros(100), "the buffer is safe, but this flush took {flush}");
}

#[test]
fn without_power_loss_protection_a_flush_programs_what_was_written_before_it() {
    let mut ssd = Ssd::new(&consumer_profile(), Condition::Clean, 0);
    let written = time_alone(&mut ssd, Instant::ZERO, CommandKind::Write, 0, 3);
    assert_eq!(ssd.buffered(), Bytes::kib(12));
    let flush = time_alone(&mut ssd, Instant::ZERO + written, CommandKind::Flush, 0, 0);
    assert!(flush > consumer_profile().slc.program, "a program takes longer than {flush}");
    assert_eq!(ssd.buffered(), Bytes::ZERO);
    ssd.assert_consistent();
}

#[test]
fn a_write_larger_than_the_buffer_completes() {
    let mut ssd = Ssd::new(&profile(), Condition::Clean, 0);
    let slots = ssd.slots();
    let time = time_alone(&mut ssd, Instant::ZERO, CommandKind::Write, 0, slots);
    assert!(time > Nanos::millis(100), "64 MiB through four dies in {time}");
    let time = time_alone(&mut ssd, Instant::ZERO + A_WHILE, CommandKind::Read, 0, slots);
    assert!(time > Nanos::millis(10), "64 MiB over the link in {time}");
    ssd.assert_consistent();
}

#[test]
fn the_slc_cache_fills_under_writes_and_recovers_only_when_idle() {
    for condition in [Condition::Clean, Condition::Fragmented] {
        let mut ssd = Ssd::new(&consumer_profile(), condition, 0);
        let write = |ssd: &mut Ssd, at: Instant, slots: u32| {
            for slot in 0..slots / 32 {
                ssd.submit(at, Command { tag: 0, kind: CommandKind::Write, slot: slot * 32, slots: 32 });
            }
            finish(ssd, &mut |_| {})
        };
        // A stripe in SLC mode takes all dies of its group, so one block per die may be unusable.
        let nearly_all = Bytes::mib(7);
        assert!(ssd.slc_free() > nearly_all, "{condition:?}: {} of 8 MiB at the start", ssd.slc_free());
        let begun = write(&mut ssd, Instant::ZERO, 1024);
        let full = write(&mut ssd, begun, 2048);
        assert!(ssd.slc_free() < Bytes::mib(1), "{condition:?}: {} are left when full", ssd.slc_free());
        let end = write(&mut ssd, full, 1024);
        let (fast, slow) = (begun.since(Instant::ZERO), end.since(full));
        assert!(
            slow > Nanos(2 * fast.0),
            "{condition:?}: 4 MiB take {slow} with the cache full, {fast} into the cache"
        );
        ssd.advance(end + A_WHILE, &mut |_| {});
        assert!(ssd.slc_free() > nearly_all, "{condition:?}: {} of 8 MiB after idling", ssd.slc_free());
        ssd.assert_consistent();
    }
}

#[test]
fn devices_of_one_image_do_not_share_their_state() {
    let image = Image::new(&profile(), Condition::Clean, 0);
    let mut written = Ssd::from_image(&image);
    time_alone(&mut written, Instant::ZERO, CommandKind::Write, 0, 500);
    let untouched = Ssd::from_image(&image);
    assert_eq!(untouched.buffered(), Bytes::ZERO);
    assert_ne!(written.counters(), untouched.counters());
}

#[test]
#[should_panic(expected = "is out of range of the device's 16384 slots")]
fn a_command_beyond_the_capacity_panics() {
    let mut ssd = Ssd::new(&profile(), Condition::Clean, 0);
    ssd.submit(Instant::ZERO, Command { tag: 0, kind: CommandKind::Read, slot: 16_380, slots: 5 });
}

/// Writes of 16 KiB leave what is read at once, where small writes have scattered it.
#[test]
fn an_image_that_was_overwritten_is_as_if_the_writes_had_been_simulated() {
    const SPAN: u32 = 4;
    let fragmented = Image::new(&profile(), Condition::Fragmented, 1);
    // As good as random: some are met several times, and a few never.
    let places = |ssd: &Ssd, times: u32| {
        let count = ssd.slots() / SPAN;
        let place = move |n: u32| (n.wrapping_mul(0x9e37_79b9) ^ (n << 7)).wrapping_mul(0x85eb_ca6b) >> 16;
        (0..count * times).map(move |n| place(n) % count * SPAN).collect::<Vec<u32>>()
    };
    let reads = |ssd: &mut Ssd, now: Instant| {
        for slot in places(ssd, 1) {
            ssd.submit(now, Command { tag: 0, kind: CommandKind::Read, slot, slots: SPAN });
        }
        finish(ssd, &mut |_| {}).since(now).0 as f64
    };
    let [at_first, image, small] = [
        fragmented.clone(),
        fragmented.overwritten(&[(Bytes::kib(16), 1)], 3),
        fragmented.overwritten(&[(Bytes::kib(4), 1)], 3),
    ]
    .map(|image| reads(&mut Ssd::from_image(&image), Instant::ZERO));
    let mut written = Ssd::from_image(&fragmented);
    let mut now = Instant::ZERO;
    for slot in places(&written, 3) {
        written.submit(now, Command { tag: 0, kind: CommandKind::Write, slot, slots: SPAN });
        now = finish(&mut written, &mut |_| {});
    }
    let simulated = reads(&mut written, now + A_WHILE);
    assert!(image < at_first / 1.5, "{at_first} ns, and {image} ns after the writes");
    assert!((image / simulated - 1.0).abs() < 0.1, "{image} ns, and {simulated} ns if they are simulated");
    assert!(
        (small / at_first - 1.0).abs() < 0.1,
        "small writes leave it as it is: {at_first} ns, {small} ns"
    );
}
