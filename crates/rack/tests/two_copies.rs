//! Two copies of the same data on two SSDs with caches, of which another host exhausts one by bursts of writes: which copy does a client read, with and
//! without what the switches say of busy periods, and how long do its reads take?
//!
//! Each SSD has a detector, as in a switch; scheduler: first in, first out, so that the SSD alone decides. The client's small reads come at random times (so that
//! steering does not change how many there are), each way takes 5 µs, and what a switch says comes with a completion.

use blob::SsdId;
use blob::steer::{Load, Policy, Slow, Steering};
use hdrhistogram::Histogram;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sched::{BusyDetector, IoKind, Outcome};
use ssd::{Command, CommandKind, Condition, Image, Profile, SLOT_BYTES, Ssd};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Instant, Nanos};

const WAY: Nanos = Nanos::micros(5);
/// Of the client, on average.
const BETWEEN: Nanos = Nanos::micros(100);
/// Load of the other host: the number of writes of 128 KiB at a time, their duration, and the pause after them.
const DEPTH: u32 = 8;
const WRITTEN: u32 = 32;
const BURST: Nanos = Nanos::secs(4);
const PAUSE: Nanos = Nanos::secs(2);
const LEARNS: Nanos = Nanos::secs(12);
const RUN: Nanos = Nanos::secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The client wants to read.
    Read,
    /// A read, or what it brought, arrives.
    Arrive(usize, Instant),
    Answer(usize, Instant, Option<(u8, u8, Instant)>),
    /// The other host begins a burst.
    Burst,
}

struct Side {
    ssd: Ssd,
    detector: BusyDetector,
    flights: Vec<(IoKind, Instant, Instant)>,
    free: Vec<usize>,
    // The client's knowledge.
    load: Load,
    slow: Option<Slow>,
}

struct World {
    sides: [Side; 2],
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    now: Instant,
    random: Xoshiro256PlusPlus,
    steering: Box<dyn Steering>,
    tells: bool,
    burst_until: Instant,
    latencies: Histogram<u64>,
    reads_of: [u64; 2],
}

/// Quantiles of the reads' latency in µs: 50, 99, 99.9 %; and the part of them that went to the SSD that is written.
fn measured(profile: &str, policy: Policy, tells: bool) -> ([u64; 3], f64) {
    let image = Image::new(&Profile::named(profile).expect("built in"), Condition::Clean, 1);
    let side = || Side {
        ssd: Ssd::from_image(&image),
        detector: BusyDetector::default(),
        flights: Vec::new(),
        free: Vec::new(),
        load: Load::default(),
        slow: None,
    };
    let mut world = World {
        sides: [side(), side()],
        events: BinaryHeap::new(),
        order: 0,
        now: Instant::ZERO,
        random: Xoshiro256PlusPlus::seed_from_u64(1),
        steering: policy.start(),
        tells,
        burst_until: Instant::ZERO,
        latencies: Histogram::new(3).expect("three digits"),
        reads_of: [0; 2],
    };
    world.run();
    let quantile = |part| world.latencies.value_at_quantile(part) / 1000;
    let [written, other] = world.reads_of;
    ([0.5, 0.99, 0.999].map(quantile), written as f64 / (written + other) as f64)
}

impl World {
    fn push(&mut self, at: Instant, event: Event) {
        self.events.push(Reverse((at, self.order, event)));
        self.order += 1;
    }

    fn run(&mut self) {
        self.push(self.now, Event::Read);
        self.push(self.now, Event::Burst);
        let mut completed = Vec::new();
        while self.now < Instant::ZERO + LEARNS + RUN {
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            let devices = self.sides.iter().filter_map(|side| side.ssd.next_event());
            self.now = devices.chain(event).min().expect("the client reads on").max(self.now);
            for at in 0..2 {
                self.sides[at].ssd.advance(self.now, &mut |completion| completed.push(completion.tag));
                completed.drain(..).for_each(|tag| self.on_completed(at, tag as usize));
            }
            while let Some(Reverse((at, _, event))) = self.events.peek().copied()
                && at <= self.now
            {
                self.events.pop();
                self.on_event(event);
            }
        }
    }

    fn submit(&mut self, at: usize, kind: IoKind, slots: u32, asked: Instant) {
        let side = &mut self.sides[at];
        let places = u64::from(side.ssd.slots() / slots);
        let slot = ((u128::from(self.random.next_u64()) * u128::from(places)) >> 64) as u32 * slots;
        let flight = (kind, self.now, asked);
        let tag = side.free.pop().unwrap_or(side.flights.len());
        match side.flights.get_mut(tag) {
            Some(place) => *place = flight,
            None => side.flights.push(flight),
        }
        let kind = if kind == IoKind::Read { CommandKind::Read } else { CommandKind::Write };
        side.detector.on_submit(self.now);
        side.ssd.submit(self.now, Command { tag: tag as u64, kind, slot, slots });
    }

    fn on_completed(&mut self, at: usize, tag: usize) {
        let side = &mut self.sides[at];
        let (kind, since, asked) = side.flights[tag];
        side.free.push(tag);
        let slots = if kind == IoKind::Read { 1 } else { WRITTEN };
        let outcome = Outcome::Success { latency: self.now.since(since) };
        side.detector.on_end(self.now, kind, Bytes(u64::from(slots) * SLOT_BYTES), outcome);
        if kind == IoKind::Write {
            if self.now < self.burst_until {
                self.submit(at, IoKind::Write, WRITTEN, self.now);
            }
            return;
        }
        let period = side.detector.period(self.now).filter(|_| self.tells);
        let slow = period.map(|period| {
            let rest = period.for_about.unwrap_or(Nanos::millis(500)).min(Nanos::secs(5));
            (period.reads.in_quarters(), period.writes.in_quarters(), self.now + rest)
        });
        self.push(self.now + WAY, Event::Answer(at, asked, slow));
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Read => {
                let now = self.now;
                let copies = [0, 1].map(|at: usize| {
                    let side = &self.sides[at];
                    (SsdId(at as u32), side.load.told(now, side.slow))
                });
                let at = self.steering.read(now, copies);
                self.sides[at].load.in_flight += 1;
                self.push(now + WAY, Event::Arrive(at, now));
                // Between none and twice the mean.
                let gap = self.random.next_u64() % (2 * BETWEEN.0);
                self.push(now + Nanos(gap), Event::Read);
            }
            Event::Arrive(at, asked) => self.submit(at, IoKind::Read, 1, asked),
            Event::Answer(at, asked, slow) => {
                let latency = self.now.since(asked);
                let side = &mut self.sides[at];
                side.load.in_flight -= 1;
                side.slow = slow.map(|(reads, writes, until)| {
                    let [reads, writes] = [reads, writes].map(units::Slowdown::quarters);
                    Slow { reads, writes, until }
                });
                self.steering.on_completion(self.now, SsdId(at as u32), true, SLOT_BYTES, latency);
                if asked >= Instant::ZERO + LEARNS {
                    self.reads_of[at] += 1;
                    self.latencies.record(latency.0).expect("it fits");
                }
            }
            Event::Burst => {
                self.burst_until = self.now + BURST;
                (0..DEPTH).for_each(|_| self.submit(0, IoKind::Write, WRITTEN, self.now));
                self.push(self.now + BURST + PAUSE, Event::Burst);
            }
        }
    }
}

/// The 99th percentiles of all runs, without and with the signal.
fn compared(profiles: &[&str], policies: &[Policy]) -> Vec<[u64; 2]> {
    let mut found = Vec::new();
    for profile in profiles {
        for &policy in policies {
            let both = [false, true].map(|tells| {
                let ([p50, p99, p999], part) = measured(profile, policy, tells);
                println!(
                    "{profile}, {policy:?}, {}: p50 {p50}, p99 {p99}, p99.9 {p999} µs; {:.0} % of the reads to the written SSD",
                    if tells { "told" } else { "not told" },
                    100.0 * part
                );
                p99
            });
            found.push(both);
        }
    }
    found
}

#[test]
fn a_client_that_is_told_reads_sooner() {
    for [untold, told] in compared(&["consumer-qlc"], &[Policy::Credit]) {
        assert!(told * 100 <= untold * 80, "{told} instead of {untold} µs");
    }
}

#[test]
#[ignore = "a minute: three SSDs and three policies"]
fn a_client_that_is_told_reads_no_later() {
    let profiles = ["consumer-slc", "consumer-small", "consumer-qlc"];
    for [untold, told] in compared(&profiles, &[Policy::Credit, Policy::Latency, Policy::Isolation]) {
        assert!(told * 100 <= untold * 102, "{told} instead of {untold} µs");
    }
}
