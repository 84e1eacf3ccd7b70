//! The SSD model alone: 4 KiB random reads of a clean device in a closed loop.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::{Command, CommandKind, Condition, Image, Profile, Ssd};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// Reads outstanding.
const DEPTH: u32 = 32;
/// From a completion to the next read of the same loop.
const HOST_TURN: Nanos = Nanos::micros(18);
const SEED: u64 = 1;

/// Runs until `reads` have ended.
pub(crate) fn reads(reads: u32) {
    let mut ssd = Ssd::from_image(&Image::new(&Profile::default(), Condition::Clean, SEED));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut due: VecDeque<Instant> = (0..DEPTH).map(|n| Instant(u64::from(n) * 100)).collect();
    let mut done = 0;
    while done < reads {
        let now = due.front().copied().or(ssd.next_event()).expect("something is due or outstanding");
        ssd.advance(now, &mut |completion| {
            done += 1;
            due.push_back(completion.at + HOST_TURN);
        });
        if due.front() == Some(&now) {
            due.pop_front();
            let slot = ((u64::from(random.next_u32()) * u64::from(ssd.slots())) >> 32) as u32;
            ssd.submit(now, Command { tag: 0, kind: CommandKind::Read, slot, slots: 1 });
        }
    }
}
