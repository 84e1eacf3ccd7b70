//! Limits of a profile: reads that the controller works on at once, its cores, suspensions, and the mapping in memory.

use crate::small::{finish, profile, time_alone};
use ssd::{Command, CommandKind, Completion, Condition, Profile, Ssd};
use units::{Bytes, Instant, Nanos};

/// Slots of a program unit of the small device.
const UNIT_SLOTS: u64 = 24;

/// A small device whose equal commands take equal times.
fn even(change: impl FnOnce(&mut Profile)) -> Ssd {
    let mut profile = Profile { variation: ssd::VariationProfile::default(), ..profile() };
    change(&mut profile);
    Ssd::new(&profile, Condition::Clean, 0)
}

/// Submits this many reads of one slot at once, on all dies. Returns the completions.
fn read_at_once(ssd: &mut Ssd, reads: u32) -> Vec<Completion> {
    for n in 0..reads {
        ssd.submit(Instant::ZERO, Command { tag: n.into(), kind: CommandKind::Read, slot: n * 4, slots: 1 });
    }
    let mut completions = Vec::new();
    finish(ssd, &mut |completion| completions.push(completion));
    completions
}

#[test]
fn with_one_place_reads_run_one_after_the_other_in_order() {
    const READS: u32 = 12;
    let limited = |limit| even(|profile| profile.firmware.reads_at_once = limit);
    let alone = time_alone(&mut limited(None), Instant::ZERO, CommandKind::Read, 0, 1);
    let one_by_one = read_at_once(&mut limited(Some(1)), READS);
    assert!(one_by_one.iter().map(|read| read.tag).eq(0..READS.into()), "{one_by_one:?}");
    let span = one_by_one.last().expect("all complete").at.since(Instant::ZERO);
    assert!(span > Nanos(alone.0 * u64::from(READS) * 9 / 10), "{READS} reads of {alone} took {span}");
    let together = read_at_once(&mut limited(None), READS);
    assert_eq!(read_at_once(&mut limited(Some(READS)), READS), together, "there is a place for each");
    assert!(together.last().expect("all complete").at.since(Instant::ZERO) < Nanos(span.0 / 2));
}

#[test]
fn cores_work_at_the_same_time() {
    const READS: u32 = 400;
    let span = |cores| {
        let mut ssd = even(|profile| {
            profile.firmware.cores = cores;
            profile.firmware.read_operation = Nanos::micros(200);
        });
        read_at_once(&mut ssd, READS).last().expect("all complete").at.since(Instant::ZERO).0
    };
    assert_eq!(span(None), span(Some(1)));
    let speed_up = span(Some(1)) as f64 / span(Some(4)) as f64;
    assert!((3.0..=4.0).contains(&speed_up), "four cores are {speed_up:.2} times as fast as one");
}

#[test]
fn a_program_is_suspended_no_more_often_than_the_profile_says() {
    let suspensions_per_program = |most| {
        let mut ssd = even(|profile| {
            profile.flash.suspend_slice = Nanos::micros(100);
            profile.flash.suspensions_most = most;
        });
        for n in 0..40_000_u32 {
            let now = Instant(u64::from(n) * 20_000);
            ssd.advance(now, &mut |_| {});
            let kind = if n % 8 == 0 { CommandKind::Write } else { CommandKind::Read };
            ssd.submit(now, Command { tag: n.into(), kind, slot: n * 7919 % ssd.slots(), slots: 1 });
        }
        let counters = ssd.counters();
        let programs = (counters.host_slots + counters.copied_slots) / UNIT_SLOTS;
        counters.suspensions as f64 / (programs + counters.erases) as f64
    };
    let unlimited = suspensions_per_program(None);
    assert!(unlimited > 3.0, "reads suspend a program {unlimited:.1} times");
    for most in [1, 3] {
        let limited = suspensions_per_program(Some(most));
        assert!(limited <= f64::from(most), "{limited:.2} suspensions per program, {most} are allowed");
        assert!(limited > 0.8 * f64::from(most), "only {limited:.2} of {most}");
    }
}

#[test]
fn collection_holds_reads_where_the_profile_says_so() {
    /// One read in this number waits for longer than returned.
    const ONE_IN: usize = 100;
    let slow = |holds_reads| {
        let mut profile = Profile { variation: ssd::VariationProfile::default(), ..profile() };
        profile.collection.holds_reads = holds_reads;
        let mut ssd = Ssd::new(&profile, Condition::Fragmented, 0);
        let mut submitted = std::collections::HashMap::new();
        let mut waits = Vec::new();
        for n in 0..40_000_u32 {
            let now = Instant(u64::from(n) * 100_000);
            ssd.advance(now, &mut |done| {
                waits.extend(submitted.remove(&done.tag).map(|at| done.at.since(at)));
            });
            let kind = if n % 8 == 0 { CommandKind::Write } else { CommandKind::Read };
            if kind == CommandKind::Read {
                submitted.insert(u64::from(n), now);
            }
            ssd.submit(now, Command { tag: n.into(), kind, slot: n * 7919 % ssd.slots(), slots: 1 });
        }
        assert!(ssd.counters().copied_slots > 0, "the SSD collects");
        waits.sort_unstable();
        waits[waits.len() - waits.len() / ONE_IN]
    };
    let [held, suspended] = [slow(true), slow(false)];
    let whole = profile().flash.program;
    assert!(held > Nanos(whole.0 / 2) && held > Nanos(suspended.0 * 3 / 2), "{held} and {suspended}");
}

#[test]
fn nothing_ends_for_a_while_where_all_dies_collect_at_once() {
    /// Longest time in which no read ends, with reads of one slot every 100 µs and a write for every eighth of them; and slots copied.
    fn longest(change: impl FnOnce(&mut Profile)) -> (Nanos, u64) {
        let mut profile = Profile { variation: ssd::VariationProfile::default(), ..profile() };
        change(&mut profile);
        let mut ssd = Ssd::new(&profile, Condition::Fragmented, 0);
        let (mut last, mut longest) = (Instant::ZERO, Nanos::ZERO);
        for n in 0..40_000_u32 {
            let now = Instant(u64::from(n) * 100_000);
            ssd.advance(now, &mut |done| {
                if done.tag % 8 != 0 {
                    longest = longest.max(done.at.since(last));
                    last = done.at;
                }
            });
            let kind = if n % 8 == 0 { CommandKind::Write } else { CommandKind::Read };
            ssd.submit(now, Command { tag: n.into(), kind, slot: n * 7919 % ssd.slots(), slots: 1 });
        }
        (longest, ssd.counters().copied_slots)
    }
    let [(rounds, copied), (held, copied_alone)] = [
        longest(|profile| profile.collection.in_rounds = true),
        longest(|profile| profile.collection.holds_reads = true),
    ];
    assert!(
        copied > copied_alone / 2 && copied < copied_alone * 2,
        "{copied} and {copied_alone} slots are copied"
    );
    let program = profile().flash.program;
    assert!(rounds > Nanos(program.0 * 4) && rounds > Nanos(held.0 * 3), "{rounds} and {held}");
}

#[test]
fn a_read_whose_mapping_is_not_in_memory_senses_it_first() {
    let time = |mapping: Option<ssd::MappingProfile>, slots: [u32; 3]| {
        let mut ssd = even(|profile| profile.mapping = mapping);
        let mut now = Instant::ZERO;
        slots.map(|slot| {
            now += Nanos::millis(10);
            time_alone(&mut ssd, now, CommandKind::Read, slot, 1)
        })
    };
    let small = Some(ssd::MappingProfile { cached: Bytes::mib(4), page: Bytes::mib(4) });
    let slots = [0, 1, 8192];
    let [alone, ..] = time(None, slots);
    let [first, second, far] = time(small.clone(), slots);
    let sense = profile().flash.sense[0];
    assert!(
        first > alone + Nanos(sense.into()) && far > alone + Nanos(sense.into()),
        "{first}, {far}, {alone}"
    );
    // The sense of another kind of page takes some microseconds more or less.
    assert!(second < alone + Nanos(u64::from(sense) / 2), "{second}, {alone}");
    // There is room for one page.
    let [.., again] = time(small, [0, 8192, 1]);
    assert!(again > alone + Nanos(sense.into()), "{again}, {alone}");
}
