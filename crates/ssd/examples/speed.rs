//! Measures how many commands the model simulates per second of CPU time, for a few loads.
//!
//! ```text
//! cargo run --release -p ssd --example speed
//! ```

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use ssd::{Command, CommandKind, Condition, Image, Profile, Ssd};
use std::collections::VecDeque;
use units::{Instant, Nanos};

/// Time from a completion to the next command of the same closed loop.
const HOST_TURN: Nanos = Nanos::micros(18);
const SPAN: Nanos = Nanos::secs(4);

fn main() {
    let profile = Profile::default();
    let clean = timed("conditioning, clean", || Image::new(&profile, Condition::Clean, 1));
    let fragmented = timed("conditioning, fragmented", || Image::new(&profile, Condition::Fragmented, 1));
    timed("a device of an image", || Ssd::from_image(&clean));
    for (name, image, read_percent, slots, depth) in [
        ("4 KiB random read, QD 32, clean", &clean, 100, 1, 32),
        ("4 KiB random read, QD 256, clean", &clean, 100, 1, 256),
        ("4 KiB random read, QD 256, fragmented", &fragmented, 100, 1, 256),
        ("128 KiB random read, QD 8, clean", &clean, 100, 32, 8),
        ("4 KiB random write, QD 32, fragmented", &fragmented, 0, 1, 32),
        ("4 KiB 70:30 mix, QD 64, fragmented", &fragmented, 70, 1, 64),
    ] {
        let mut ssd = Ssd::from_image(image);
        let began = processor_time();
        closed_loop(&mut ssd, read_percent, slots, depth);
        let seconds = processor_time() - began;
        let done = ssd.counters();
        println!(
            "{name:40} {:8.2} M commands/s {:8.1} M events/s {:6.1} x real time",
            done.completed as f64 / seconds / 1e6,
            done.events as f64 / seconds / 1e6,
            SPAN.as_secs_f64() / seconds
        );
    }
}

fn closed_loop(ssd: &mut Ssd, read_percent: u32, slots: u32, depth: u32) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut below = |bound: u32| ((u64::from(random.next_u32()) * u64::from(bound)) >> 32) as u32;
    let mut arrivals: VecDeque<Instant> = (0..depth).map(|n| Instant(u64::from(n) * 100)).collect();
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + SPAN {
        now = arrivals.front().copied().or(ssd.next_event()).expect("a closed loop never dries up");
        ssd.advance(now, &mut |completion| arrivals.push_back(completion.at + HOST_TURN));
        if arrivals.front() == Some(&now) {
            arrivals.pop_front();
            let kind = if below(100) < read_percent { CommandKind::Read } else { CommandKind::Write };
            let slot = below(ssd.slots() / slots) * slots;
            ssd.submit(now, Command { tag: 0, kind, slot, slots });
        }
    }
}

fn timed<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let began = processor_time();
    let result = work();
    println!("{name:40} {:8.3} s", processor_time() - began);
    result
}

/// CPU time of this thread in seconds; other load on the machine does not count.
fn processor_time() -> f64 {
    let statistics =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux reports a thread's CPU time");
    let nanos = statistics.split(' ').next().and_then(|field| field.parse::<u64>().ok());
    nanos.expect("the first field is the time in nanoseconds") as f64 / 1e9
}
