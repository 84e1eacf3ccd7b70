//! A simulated SSD, hosts before it, and a detector that sees what passes. The true contents of the SSD's cache are looked at, too.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sched::{BusyDetector, BusyPeriod, IoKind, Outcome};
use ssd::{Command, CommandKind, Condition, Image, Profile, SLOT_BYTES, Ssd};
use units::{Bytes, Instant, Nanos};

/// Interval at which truth and statement are compared.
const LOOK: Nanos = Nanos::millis(5);

/// Hosts of one kind, with this many IOs in flight, always.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    pub(crate) kind: IoKind,
    pub(crate) depth: u32,
    pub(crate) slots: u32,
    pub(crate) in_order: bool,
}

impl Hosts {
    pub(crate) fn new(kind: IoKind, depth: u32, kib: u32) -> Hosts {
        Hosts { kind, depth, slots: kib / 4, in_order: false }
    }
}

/// The detector's report at one moment, and whether the cache has no room then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Instant,
    pub(crate) said: Option<BusyPeriod>,
    pub(crate) is_exhausted: bool,
}

pub(crate) struct Bench {
    ssd: Ssd,
    pub(crate) detector: BusyDetector,
    pub(crate) now: Instant,
    pub(crate) random: Xoshiro256PlusPlus,
    flights: Vec<(Hosts, Instant)>,
    free: Vec<usize>,
    next_slot: u32,
    /// Of the cache; 0 without one.
    pub(crate) cache: Bytes,
    looked: Instant,
    pub(crate) moments: Vec<Moment>,
}

impl Bench {
    pub(crate) fn new(profile: &Profile, condition: Condition, seed: u64) -> Bench {
        let ssd = Ssd::from_image(&Image::new(profile, condition, seed));
        Bench {
            cache: ssd.slc_free(),
            ssd,
            detector: BusyDetector::default(),
            now: Instant::ZERO,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            flights: Vec::new(),
            free: Vec::new(),
            next_slot: 0,
            looked: Instant::ZERO,
            moments: Vec::new(),
        }
    }

    fn submit(&mut self, hosts: Hosts) {
        let slots = self.ssd.slots();
        let slot = if hosts.in_order {
            let slot = self.next_slot;
            self.next_slot = (slot + hosts.slots) % (slots - 64);
            slot
        } else {
            self.random.random_range(0..(slots - hosts.slots) / hosts.slots) * hosts.slots
        };
        let kind = if hosts.kind == IoKind::Read { CommandKind::Read } else { CommandKind::Write };
        let flight = (hosts, self.now);
        let tag = self.free.pop().unwrap_or(self.flights.len());
        match self.flights.get_mut(tag) {
            Some(place) => *place = flight,
            None => self.flights.push(flight),
        }
        self.detector.on_submit(self.now);
        self.ssd.submit(self.now, Command { tag: tag as u64, kind, slot, slots: hosts.slots });
    }

    fn end(&mut self, tag: u64) -> Hosts {
        let (hosts, since) = self.flights[tag as usize];
        self.free.push(tag as usize);
        let outcome = Outcome::Success { latency: self.now.since(since) };
        let length = Bytes(u64::from(hosts.slots) * SLOT_BYTES);
        self.detector.on_end(self.now, hosts.kind, length, outcome);
        hosts
    }

    /// Lets these hosts do their IOs until `span` is over or, if that comes first, they have written `bytes`. Then all
    /// IOs end.
    pub(crate) fn run(&mut self, hosts: &[Hosts], span: Nanos, bytes: Bytes) {
        let until = self.now + span;
        let mut left = bytes.get();
        for hosts in hosts {
            (0..hosts.depth).for_each(|_| self.submit(*hosts));
        }
        let mut completed = Vec::new();
        while self.ssd.outstanding() > 0 {
            let at = self.ssd.next_event().expect("something is under way");
            self.now = at;
            self.ssd.advance(at, &mut |completion| completed.push(completion));
            for completion in completed.drain(..) {
                let hosts = self.end(completion.tag);
                if hosts.kind == IoKind::Write {
                    left = left.saturating_sub(u64::from(hosts.slots) * SLOT_BYTES);
                }
                if self.now < until && left > 0 {
                    self.submit(hosts);
                }
            }
            if self.now >= self.looked + LOOK {
                self.looked = self.now;
                // A stripe needs room on every die, so a little is always left.
                let is_exhausted =
                    self.cache > Bytes::ZERO && self.ssd.slc_free().get() < self.cache.get() / 50;
                let said = self.detector.period(self.now);
                self.moments.push(Moment { at: self.now, said, is_exhausted });
            }
        }
    }

    /// Lets `span` pass without IOs.
    pub(crate) fn pause(&mut self, span: Nanos) {
        self.now += span;
        self.ssd.advance(self.now, &mut |_| {});
        self.looked = self.now;
    }

    /// Between `least` and `most`.
    pub(crate) fn drawn(&mut self, least: f64, most: f64) -> f64 {
        self.random.random_range(least..most)
    }

    /// The share of moments at which it says slow, from `from` on.
    pub(crate) fn alarmed(&self, from: Instant) -> f64 {
        let later: Vec<_> = self.moments.iter().filter(|moment| moment.at >= from).collect();
        let alarms = later.iter().filter(|moment| moment.said.is_some()).count();
        alarms as f64 / later.len() as f64
    }
}
