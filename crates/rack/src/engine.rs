//! The main loop: take the earliest event, handle it, ask the schedulers, repeat. As in `sim`, with many SSDs.
//!
//! Within one instant, devices come first, then messages, then the schedulers.

use crate::asked::Asked;
use crate::client::Client;
use crate::database::Database;
use crate::files::{MICRO_SLOTS, SLOT};
use crate::neighbour::{Neighbour, Work};
use crate::path::{Path, Told};
use crate::results::Results;
use crate::world::World;
use blob::SsdId;
use blob::steer::Slow;
use sched::{
    Action, BusyPeriod, Credit, Done, Io, IoId, IoKind, LatencySample, Mark, ObjectiveState, Outcome,
    Priority, Refused, Share, Station, Turn,
};
use sim::{ClientChoice, LatencyScope, command};
use ssd::{Command, CommandKind, SLOT_BYTES, Ssd};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{Bytes, Instant, Nanos, TenantId};

/// Processor time of an operation without its IOs: about the time of a read from memory in `gimbal bench ycsb --dir`.
const PROCESSOR: Nanos = Nanos::micros(10);

/// Time for which clients believe that an SSD is slow, if the target does not know, and at most: as `host::BusyView`.
const BELIEVED: Nanos = Nanos::millis(500);
const BELIEVED_LONGEST: Nanos = Nanos::secs(5);

/// Charge of a target for a trim, whatever its length.
const TRIM_COST: Bytes = Bytes(SLOT);
/// Slots of the largest read that is one of a block.
const SMALL: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread of a database begins an operation.
    Begin(usize, usize),
    /// An IO reaches its target.
    Arrive(u64),
    /// Its completion reaches the client.
    Answer(u64),
    /// The end of a PARDA period.
    Period,
}

struct Flight {
    client: usize,
    asked: Asked,
    io: Io,
    generation: u32,
    asked_at: Instant,
    sent_at: Instant,
    arrived_at: Instant,
    submitted_at: Instant,
    told: Told,
}

struct Side {
    station: Station,
    ssd: Ssd,
    wake_at: Option<Instant>,
    /// Something has happened since the scheduler was asked.
    is_touched: bool,
    /// Latency of small reads of all clients lately: a moving average of weight 1/16.
    truth: Nanos,
}

struct Engine<'w> {
    world: &'w World,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    order: u64,
    sides: Vec<Side>,
    /// The databases, then the neighbours.
    clients: Vec<Client>,
    flights: Vec<Option<Flight>>,
    free: Vec<u64>,
    /// Objectives that were refused at once, one entry for each database and SSD.
    refused: Vec<Option<Refused>>,
    results: Results,
}

/// Runs a world, and returns the measurements.
pub fn run(world: &World) -> Results {
    let mut engine = Engine::new(world);
    engine.run();
    engine.results.learnt = engine.sides[0].station.policy().learnt();
    engine.results.objectives = engine.objectives();
    engine.results.copies_read =
        engine.clients.iter().map(Client::copies_read).fold([0; 2], |[a, b], of| [a + of[0], b + of[1]]);
    engine.results
}

impl<'w> Engine<'w> {
    fn new(world: &'w World) -> Engine<'w> {
        let count = world.targets * world.ssds;
        let side = |number| Side {
            station: Station::new(
                world
                    .scheduler
                    .build(&world.image)
                    .expect("a scheduler is measured without breaking a rule of the simulator"),
                world.seed.wrapping_add(u64::from(number)),
                Bytes(u64::MAX),
                Nanos::secs(1),
            ),
            ssd: Ssd::from_image(&world.image),
            wake_at: None,
            is_touched: false,
            truth: Nanos::ZERO,
        };
        let mut sides: Vec<Side> = (0..count).map(side).collect();
        let mut refused = Vec::new();
        if world.share != Share::EQUAL {
            for side in &mut sides {
                for database in 0..world.databases {
                    // A refused objective is set aside, and the database is served without.
                    refused
                        .push(side.station.set_share(Instant::ZERO, TenantId(database), world.share).err());
                }
            }
        }
        let ssds: Vec<(SsdId, String)> =
            (0..count).map(|ssd| (SsdId(ssd), format!("target-{}", ssd / world.ssds))).collect();
        let paths = |number: u32| {
            let credit = |side: &Side| side.station.policy().credit(TenantId(number));
            sides.iter().map(|side| Path::new(&world.clients, credit(side))).collect()
        };
        let database =
            |number: u32| Client::Database(Box::new(Database::new(number, world, &ssds, paths(number))));
        let slots = u64::from(sides[0].ssd.slots());
        let neighbour = |(work, number): (&Work, u32)| {
            let seed = world.seed.wrapping_add(u64::from(number));
            Client::Neighbour(Neighbour::new(*work, seed, slots, paths(number)))
        };
        let neighbours = world.neighbours.iter().zip(world.databases..).map(neighbour);
        let clients: Vec<Client> = (0..world.databases).map(database).chain(neighbours).collect();
        let results = Results::new(world.databases as usize, world.neighbours.len(), sides.len());
        let mut engine = Engine {
            world,
            now: Instant::ZERO,
            events: BinaryHeap::new(),
            order: 0,
            sides,
            clients,
            flights: Vec::new(),
            free: Vec::new(),
            refused,
            results,
        };
        if let ClientChoice::Parda { config, .. } = &world.clients {
            engine.push(Instant::ZERO + config.period, Event::Period);
        }
        for client in 0..engine.clients.len() {
            engine.follow(client);
        }
        engine
    }

    fn push(&mut self, at: Instant, event: Event) {
        self.events.push(Reverse((at, self.order, event)));
        self.order += 1;
    }

    fn run(&mut self) {
        let end = Instant::ZERO + self.world.warm_up + self.world.duration;
        let mut completions = Vec::new();
        loop {
            self.now = self.next_instant().max(self.now);
            if self.now >= end {
                return;
            }
            for at in 0..self.sides.len() {
                let side = &mut self.sides[at];
                if side.ssd.next_event().is_some_and(|event| event <= self.now) {
                    side.ssd.advance(self.now, &mut |completion| completions.push(completion));
                }
                side.is_touched |= side.wake_at.is_some_and(|wake| wake <= self.now);
                for completion in completions.drain(..) {
                    self.on_completed(at, completion.tag, completion.at);
                }
            }
            while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((.., event))) = self.events.pop() else { break };
                self.on_event(event);
            }
            for at in 0..self.sides.len() {
                self.decide(at);
            }
        }
    }

    /// States of the objectives of all databases on all SSDs.
    fn objectives(&self) -> Vec<Option<ObjectiveState>> {
        if self.world.share.slo.is_none() {
            return Vec::new();
        }
        let of = |side: &Side, database| Some(side.station.policy().tenant_view(database)?.objective?.state);
        let databases = || (0..self.world.databases).map(TenantId);
        let said = self.sides.iter().flat_map(|side| databases().map(move |database| of(side, database)));
        let refused = self.refused.iter().map(|refused| refused.map(ObjectiveState::Refused));
        refused.zip(said).map(|(refused, said)| refused.or(said)).collect()
    }

    fn next_instant(&self) -> Instant {
        let messages = self.events.peek().map(|Reverse((at, ..))| *at);
        let sides = self.sides.iter().flat_map(|side| {
            let device = if side.ssd.outstanding() > 0 { side.ssd.next_event() } else { None };
            [device, side.wake_at]
        });
        sides.chain([messages]).flatten().min().unwrap_or(Instant::FAR_FUTURE)
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Begin(database, thread) => {
                let results = Engine::measured(self.world, self.now, &mut self.results);
                self.clients[database].begin(self.now, thread, results);
                self.follow(database);
            }
            Event::Arrive(id) => {
                let flight = self.flights[id as usize].as_mut().expect("it is on the way once");
                flight.arrived_at = self.now;
                let is_read = flight.asked.kind == IoKind::Read;
                let is_small = is_read && flight.asked.slots <= SMALL;
                if is_small && self.now >= Instant::ZERO + self.world.warm_up {
                    self.results.choices.arrived(self.now, flight.asked.place.ssd.0 as usize);
                }
                let side = &mut self.sides[flight.asked.place.ssd.0 as usize];
                side.station.arrive(self.now, flight.io);
                side.is_touched = true;
            }
            Event::Answer(id) => self.on_answered(id),
            Event::Period => self.on_period(),
        }
    }

    /// Where results go, while it is measured.
    fn measured<'r>(world: &World, now: Instant, results: &'r mut Results) -> Option<&'r mut Results> {
        (now >= Instant::ZERO + world.warm_up).then_some(results)
    }

    /// Sends the IOs that a client has asked for, and lets its threads go on.
    fn follow(&mut self, number: usize) {
        let (asked, idle) = self.clients[number].take();
        for thread in idle {
            self.push(self.now + PROCESSOR, Event::Begin(number, thread));
        }
        for asked in asked {
            let ssd = asked.place.ssd.0 as usize;
            if let Some((other, loads)) = asked.instead.filter(|_| asked.slots <= SMALL)
                && self.now >= Instant::ZERO + self.world.warm_up
            {
                let both = [ssd, other.0 as usize];
                let truths = both.map(|at| self.sides[at].truth);
                let ages = both.map(|at| self.now.since(self.clients[number].path(at).heard_at()));
                self.results.choices.chose(truths, loads, ages);
            }
            let id = self.free.pop().unwrap_or(self.flights.len() as u64);
            let io = Io {
                id: IoId(id),
                tenant: TenantId(number as u32),
                priority: if self.world.has_classes { asked.class() } else { Priority::default() },
                kind: asked.kind,
                length: if asked.kind == IoKind::Management { TRIM_COST } else { Bytes(asked.slots * SLOT) },
                mark: Mark::default(),
            };
            let flight = Flight {
                client: number,
                asked,
                io,
                generation: 0,
                asked_at: self.now,
                sent_at: self.now,
                arrived_at: self.now,
                submitted_at: self.now,
                told: Told { credit: Credit(0), slow: None },
            };
            match self.flights.get_mut(id as usize) {
                Some(place) => *place = Some(flight),
                None => self.flights.push(Some(flight)),
            }
            self.clients[number].path(ssd).ask(self.now, id, asked.written());
            self.send(number, ssd);
        }
    }

    fn send(&mut self, client: usize, ssd: usize) {
        while let Some(id) = self.clients[client].path(ssd).next() {
            let flight = self.flights[id as usize].as_mut().expect("it waits");
            flight.sent_at = self.now;
            let payload = Bytes(flight.asked.written());
            let at = self.now + self.delay(payload);
            self.push(at, Event::Arrive(id));
        }
    }

    fn delay(&self, payload: Bytes) -> Nanos {
        let network = &self.world.network;
        network.delay + network.rate.time_to_earn(payload).expect("a network carries something")
    }

    fn decide(&mut self, at: usize) {
        let side = &mut self.sides[at];
        if !std::mem::take(&mut side.is_touched) {
            return;
        }
        let mut turn = Turn::new();
        loop {
            match side.station.next(self.now, &mut turn) {
                Action::Submit(io) => {
                    let generation = side.station.generation();
                    let flight = self.flights[io.id.0 as usize].as_mut().expect("it has arrived");
                    (flight.io, flight.generation) = (io, generation);
                    flight.submitted_at = self.now;
                    let Asked { place, first, slots, kind, .. } = flight.asked;
                    // The SSD may be smaller than what all databases could have.
                    let slot = (place.micro * MICRO_SLOTS + first) % u64::from(side.ssd.slots())
                        / MICRO_SLOTS
                        * MICRO_SLOTS
                        + first;
                    let kind = match kind {
                        IoKind::Read => CommandKind::Read,
                        IoKind::Write => CommandKind::Write,
                        IoKind::Management => CommandKind::Deallocate,
                    };
                    let command = Command { tag: io.id.0, kind, slot: slot as u32, slots: slots as u32 };
                    if kind == CommandKind::Read {
                        side.station.on_read_submitted(io.tenant, (slot + slots) * SLOT_BYTES);
                    }
                    side.ssd.submit(self.now, command);
                }
                Action::Read(read) => side.ssd.submit(self.now, command(read)),
                Action::WakeAt(at) => {
                    side.wake_at = Some(at);
                    return;
                }
                Action::Idle => {
                    side.wake_at = None;
                    return;
                }
                // Nothing ends within a submission here, so the next turn is at once.
                Action::Pause => turn = Turn::new(),
            }
        }
    }

    fn on_completed(&mut self, at: usize, id: u64, when: Instant) {
        let side = &mut self.sides[at];
        if Station::is_extra(id) {
            side.is_touched = true;
            let latency = when.since(side.station.began(id));
            return side.station.on_read(self.now, id, Outcome::Success { latency });
        }
        let flight = self.flights[id as usize].as_mut().expect("it was submitted");
        let latency = when.since(flight.submitted_at);
        let outcome = Outcome::Success { latency };
        let side = &mut self.sides[at];
        let done = Done { io: flight.io, outcome };
        flight.told.credit = side.station.on_done(self.now, flight.generation, done);
        let period = side.station.busy(self.now);
        flight.told.slow = period.map(|BusyPeriod { reads, writes, for_about, .. }| Slow {
            reads,
            writes,
            until: self.now + for_about.unwrap_or(BELIEVED).min(BELIEVED_LONGEST),
        });
        side.is_touched = true;
        let is_read = flight.asked.kind == IoKind::Read;
        let is_small = is_read && flight.asked.slots <= SMALL;
        if is_small {
            side.truth = Nanos(side.truth.0 - side.truth.0 / 16 + when.since(flight.arrived_at).0 / 16);
        }
        if self.now >= Instant::ZERO + self.world.warm_up {
            let stay = self.results.stays.entry(flight.asked.purpose()).or_default();
            stay.ios += 1;
            stay.client += flight.sent_at.since(flight.asked_at);
            stay.switch += flight.submitted_at.since(flight.arrived_at);
            stay.ssd += latency;
            let moved = if flight.asked.kind == IoKind::Management { 0 } else { flight.io.length.0 };
            let (databases, neighbours) = &mut self.results.bytes;
            *neighbours
                .get_mut(flight.client.wrapping_sub(self.world.databases as usize))
                .unwrap_or(databases) += moved;
            self.results.reads_of[at] += u64::from(is_small);
        }
        match flight.asked.kind {
            IoKind::Read => self.results.ios[0] += 1,
            IoKind::Write => self.results.ios[1] += 1,
            IoKind::Management => {}
        }
        let payload = if is_read { flight.io.length } else { Bytes(0) };
        let answered = when + self.delay(payload);
        self.push(answered, Event::Answer(id));
    }

    fn on_answered(&mut self, id: u64) {
        let Flight { client: number, asked, asked_at, sent_at, told, .. } =
            self.flights[id as usize].take().expect("it is on the way once");
        self.free.push(id);
        let ssd = asked.place.ssd.0 as usize;
        let client = &mut self.clients[number];
        client.path(ssd).on_answer(self.now, told, self.now.since(sent_at), asked.written());
        let results = Engine::measured(self.world, self.now, &mut self.results);
        // A volume's knowledge of an IO includes the wait for credit.
        client.on_io(self.now, &asked, self.now.since(asked_at), results);
        self.send(number, ssd);
        self.follow(number);
    }

    /// The clients of each SSD exchange their latencies, if they do, and set their windows.
    fn on_period(&mut self) {
        let ClientChoice::Parda { config, scope } = &self.world.clients else { return };
        for ssd in 0..self.sides.len() {
            let samples: Vec<LatencySample> =
                self.clients.iter_mut().map(|client| client.path(ssd).publish()).collect();
            let all = samples.iter().copied().fold(LatencySample::default(), LatencySample::with);
            for (number, own) in samples.into_iter().enumerate() {
                let seen = match scope {
                    LatencyScope::AllHosts => all,
                    LatencyScope::OwnHost => own,
                };
                self.clients[number].path(ssd).on_period(self.now, seen);
                self.send(number, ssd);
            }
        }
        self.push(self.now + config.period, Event::Period);
    }
}
