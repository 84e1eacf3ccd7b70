//! The parts of a read's time in the SSD.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::{Command, CommandKind, Completion, Condition, Part, Profile, Ssd, Waits};
use std::collections::HashMap;
use units::{Instant, Nanos};

/// Commands of a run.
const COMMANDS: u64 = 6_000;
/// One in this number is a read of one slot that may be followed.
const FOLLOWED: u64 = 4;

/// Completions, tag and parts of the followed reads, and when each command was submitted.
type Ran = (Vec<Completion>, Vec<(u64, Waits)>, HashMap<u64, Instant>);

/// Lets reads and writes of 4 to 128 KiB come at random moments, and follows some or not.
fn run(profile: &Profile, condition: Condition, seed: u64, is_followed: bool) -> Ran {
    let mut ssd = Ssd::new(profile, condition, seed);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut now, mut submitted) = (Instant::ZERO, HashMap::new());
    let (mut completions, mut parts) = (Vec::new(), Vec::new());
    for tag in 0..COMMANDS {
        now += Nanos(random.next_u64() % 60_000);
        ssd.advance(now, &mut |completion| completions.push(completion));
        parts.extend(ssd.followed());
        let is_small = tag % FOLLOWED == 0;
        let slots = if is_small { 1 } else { 1 + (random.next_u64() % 32) as u32 };
        let kind =
            if is_small || random.next_u64() % 2 == 0 { CommandKind::Read } else { CommandKind::Write };
        let slot = (random.next_u64() % u64::from(ssd.slots() - slots)) as u32;
        submitted.insert(tag, now);
        // The first ones are not: the dies have work by then.
        if is_small && is_followed && tag > COMMANDS / 4 {
            ssd.submit_followed(now, Command { tag, kind, slot, slots });
        } else {
            ssd.submit(now, Command { tag, kind, slot, slots });
        }
    }
    while ssd.outstanding() > 0 {
        let next = ssd.next_event().expect("something is under way");
        ssd.advance(next, &mut |completion| completions.push(completion));
    }
    parts.extend(ssd.followed());
    (completions, parts, submitted)
}

#[test]
fn the_parts_add_up_to_the_latency_and_change_nothing() {
    let mut seen = [Nanos::ZERO; Part::ALL.len()];
    for seed in 1..=16 {
        let profile = Profile::random(seed);
        for condition in [Condition::Clean, Condition::Fragmented] {
            let (completions, parts, submitted) = run(&profile, condition, seed, true);
            let without = run(&profile, condition, seed, false);
            assert_eq!(completions, without.0, "seed {seed}: to follow reads changes nothing");
            assert!(without.1.is_empty(), "none was followed");
            assert_eq!(parts.len() as u64, COMMANDS * 3 / 4 / FOLLOWED - 1, "each followed one, once");
            let ends: HashMap<u64, Instant> =
                completions.iter().map(|completion| (completion.tag, completion.at)).collect();
            for (tag, waits) in parts {
                let latency = ends[&tag].since(submitted[&tag]);
                assert_eq!(waits.all(), latency, "seed {seed}, {condition:?}, command {tag}: {waits:?}");
                for (sum, part) in seen.iter_mut().zip(Part::ALL) {
                    *sum += waits.part(part);
                }
            }
        }
    }
    assert!(seen.iter().all(|part| *part > Nanos::ZERO), "each part is there on some SSD: {seen:?}");
}

#[test]
fn a_read_alone_waits_for_nothing() {
    let mut ssd = Ssd::new(&Profile::random(1), Condition::Clean, 1);
    let mut ends = None;
    ssd.submit_followed(Instant::ZERO, Command { tag: 7, kind: CommandKind::Read, slot: 0, slots: 1 });
    while ends.is_none() {
        let next = ssd.next_event().expect("it is under way");
        ssd.advance(next, &mut |completion| ends = Some(completion.at));
    }
    let [(7, waits)] = ssd.followed()[..] else { panic!("one read was followed") };
    assert_eq!(waits.all(), ends.expect("it is complete").since(Instant::ZERO));
    for part in [Part::Reads, Part::Programs, Part::Collection] {
        assert_eq!(waits.part(part), Nanos::ZERO, "{part:?}");
    }
    assert!(ssd.followed().is_empty(), "once");
}

#[test]
#[should_panic(expected = "only a read of one slot")]
fn a_read_of_several_slots_cannot_be_followed() {
    let mut ssd = Ssd::new(&Profile::random(1), Condition::Clean, 1);
    ssd.submit_followed(Instant::ZERO, Command { tag: 7, kind: CommandKind::Read, slot: 0, slots: 2 });
}
