//! An SSD whose buffer is no longer as it was probed: the prediction becomes wrong, and right again.
//!
//! A burst writes some of the buffer, 128 KiB each, eight under way; a pause brings some of it back. Both are drawn by seed. Before each write
//! the gate says whether it finds no room, and the SSD says whether it did. A second predictor gets no news of the SSD, for comparison.

use crate::gate::{Drive, Gate};
use probe::{BufferModel, IoKind, Predictor};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use units::{Bytes, Instant, MIB, Nanos};

const WRITE: u32 = 128 << 10;
const DEPTH: usize = 8;
const SIZE: f64 = 1024.0 * MIB as f64;
const WAIT_S: f64 = 0.05;
const SPAN_S: f64 = 4.0;
/// Bytes per second with room and without.
const FAST: f64 = 1.5e9;
const SLOW: f64 = 0.6e9;
const PROMISE: f64 = 0.95;

/// Number of predictions, and number of those that came true.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    hits: u32,
    alarms: u32,
    misses: u32,
}

impl Score {
    fn add(&mut self, predicted: bool, happened: bool) {
        match (predicted, happened) {
            (true, true) => self.hits += 1,
            (true, false) => self.alarms += 1,
            (false, true) => self.misses += 1,
            (false, false) => {}
        }
    }

    fn precision(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.hits + self.alarms)
    }

    fn recall(&self) -> f64 {
        f64::from(self.hits) / f64::from(self.hits + self.misses)
    }

    fn is_good(&self) -> bool {
        self.precision() >= PROMISE && self.recall() >= PROMISE
    }
}

/// An SSD that does one write after the other.
struct Ssd {
    size: f64,
    span_s: f64,
    /// After this many bytes of fast writes come this many bytes of slow ones, whatever the room.
    calm: f64,
    disturbed: f64,
    used: f64,
    free_at: Instant,
}

impl Ssd {
    /// When a write ends, and whether it found no room.
    fn write(&mut self, now: Instant) -> (Instant, bool) {
        let bytes = f64::from(WRITE);
        let idle_s = now.saturating_since(self.free_at).as_secs_f64();
        self.used = (self.used - self.size * (idle_s - WAIT_S).max(0.0) / self.span_s).clamp(0.0, self.size);
        let has_room = self.used + bytes <= self.size;
        self.calm -= bytes;
        let is_disturbed = self.calm < 0.0 && self.calm + self.disturbed > 0.0;
        self.used += if has_room { bytes } else { 0.0 };
        let rate = if has_room && !is_disturbed { FAST } else { SLOW };
        self.free_at = self.free_at.max(now) + Nanos((bytes / rate * 1e9) as u64);
        (self.free_at, !has_room)
    }
}

/// An SSD, and those who predict it.
struct World {
    ssd: Ssd,
    gate: Gate,
    /// Gets no observations.
    deaf: Predictor,
    now: Instant,
    random: Xoshiro256PlusPlus,
}

impl World {
    fn new() -> World {
        let buffer = BufferModel::steady(SIZE, WAIT_S, SPAN_S, true);
        let now = Instant::ZERO;
        World {
            ssd: Ssd { size: SIZE, span_s: SPAN_S, calm: 0.0, disturbed: 0.0, used: 0.0, free_at: now },
            gate: Gate::new(Drive { buffer: buffer.clone(), fast: FAST, slow: SLOW }, now),
            deaf: Predictor::new(buffer, now),
            now,
            random: Xoshiro256PlusPlus::seed_from_u64(7),
        }
    }

    fn drawn(&mut self, most: f64) -> f64 {
        most * (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Scores of the gate, and of the predictor without news.
    fn bursts(&mut self, count: u32) -> [Score; 2] {
        let mut scores = [Score::default(); 2];
        for _ in 0..count {
            let writes = self.drawn(1.6 * self.ssd.size / f64::from(WRITE)) as u32;
            let mut under_way = VecDeque::new();
            for _ in 0..writes {
                if under_way.len() == DEPTH {
                    self.end(&mut under_way);
                }
                let (said, happened) = self.write(&mut under_way);
                scores.iter_mut().zip(said).for_each(|(score, said)| score.add(said, happened));
            }
            while !under_way.is_empty() {
                self.end(&mut under_way);
            }
            let pause_s = self.drawn(1.5 * self.ssd.span_s);
            self.now += Nanos((pause_s * 1e9) as u64);
        }
        scores
    }

    /// Predictions of both, and the observation.
    fn write(&mut self, under_way: &mut VecDeque<Instant>) -> ([bool; 2], bool) {
        let bytes = Bytes(u64::from(WRITE));
        let said = [self.gate.remaining(self.now) < bytes, self.deaf.will_exhaust(self.now, bytes)];
        self.gate.on_submit(self.now, IoKind::Write, bytes.get());
        self.deaf.on_submit(self.now, IoKind::Write, WRITE);
        let (at, happened) = self.ssd.write(self.now);
        under_way.push_back(at);
        (said, happened)
    }

    fn end(&mut self, under_way: &mut VecDeque<Instant>) {
        self.now = under_way.pop_front().expect("some are under way");
        self.gate.on_done(self.now, IoKind::Write);
        self.deaf.on_done(self.now, IoKind::Write);
    }
}

/// An SSD that changes after 20 bursts: its scores before, right after, and after 20 more bursts, in which it is learnt.
fn drifts(what: &str, change: fn(&mut Ssd)) {
    let mut world = World::new();
    let before = world.bursts(20);
    change(&mut world.ssd);
    let after = world.bursts(20);
    let learnt = world.bursts(40);
    for (when, [gate, deaf]) in [("before", before), ("right after", after), ("later", learnt)] {
        println!(
            "{what}, {when}: precision {:.3}, recall {:.3}; without correction {:.3}, {:.3}",
            gate.precision(),
            gate.recall(),
            deaf.precision(),
            deaf.recall()
        );
    }
    assert!(before.iter().all(Score::is_good), "{what}: {before:?}");
    assert!(learnt[0].is_good(), "{what}: {:?}", learnt[0]);
    assert!(!learnt[1].is_good(), "{what}: without correction it would be as good: {:?}", learnt[1]);
}

#[test]
fn a_buffer_that_shrinks_is_learnt() {
    drifts("30 % smaller", |ssd| ssd.size *= 0.7);
}

#[test]
fn a_buffer_that_grows_is_learnt() {
    drifts("30 % larger", |ssd| ssd.size *= 1.3);
}

#[test]
fn a_recovery_that_becomes_slower_is_learnt() {
    drifts("recovery at 70 % of the speed", |ssd| ssd.span_s /= 0.7);
}

#[test]
fn slow_writes_of_another_cause_are_not_learnt() {
    let mut world = World::new();
    for _ in 0..20 {
        // In every other burst, the SSD tidies up for 100 MiB of writes.
        (world.ssd.calm, world.ssd.disturbed) = (150.0 * MIB as f64, 100.0 * MIB as f64);
        world.bursts(2);
    }
    let [score, _] = world.bursts(10);
    println!("disturbed before: precision {:.3}, recall {:.3}", score.precision(), score.recall());
    assert!(score.is_good(), "{score:?}");
    world.now += Nanos::secs(60);
    let size = world.gate.remaining(world.now).get() as f64;
    assert!((size / SIZE - 1.0).abs() < 0.05, "{size} instead of {SIZE}");
}
