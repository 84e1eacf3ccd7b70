//! A rack in virtual time: targets with SSDs, a metadata store, a network, and clients that are the real core.
//!
//! One clock, one seed. Every message takes a random time; connections break, targets lose power or are away, clients are
//! killed or paused, the store loses calls. The same seed gives the same run.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of the world")]

pub mod disk;
pub mod oracle;
pub mod store;
pub mod thread;

use blob::catalog::{self, Order, OrderError, Reply, SsdRecord, Standing};
use blob::store::{ModelStore, Store};
use blob::{
    Action, Class, Geometry, IoFault, IoId, IoKind, OpId, OrderId, Outcome, Request, Settings, SsdId, Volume,
};
use disk::Disk;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Instant, Nanos};

/// Small sizes, so that runs often meet every boundary.
pub const GEOMETRY: Geometry = Geometry { block: 128, micro: 512, mega: 131_072, slots: 4 };
/// The name of the volume.
pub const NAME: &str = "v";
/// Time without a response after which an IO fails at the client.
const IO_TIMEOUT: Nanos = Nanos::millis(20);
/// Maximum time that an IO is in flight. Must be less than the quarantine.
const STRAY_MAX: Nanos = Nanos::millis(50);

pub fn settings(who: &str) -> Settings {
    Settings {
        ttl: Nanos::millis(40),
        quarantine: Nanos::millis(60),
        patience: Nanos::millis(200),
        connect_patience: Nanos::millis(10),
        write_max: Bytes(384),
        read_max: Bytes(1024),
        window: Bytes(2048),
        reclaim_delay: Nanos::millis(1),
        away_max: Nanos::millis(80),
        repair_delay: Nanos::millis(2),
        ..Settings::new(NAME, who)
    }
}

pub type ClientId = usize;

enum Event {
    /// An IO arrives at its SSD.
    Arrive {
        client: ClientId,
        id: IoId,
        ssd: SsdId,
        kind: IoKind,
        back: Nanos,
    },
    /// The result of an IO arrives at the client.
    IoEnd {
        client: ClientId,
        id: IoId,
        epoch: u64,
        result: Result<Vec<u8>, IoFault>,
    },
    /// No result has arrived in time.
    Timeout {
        client: ClientId,
        id: IoId,
        ssd: SsdId,
    },
    /// An order arrives at the store.
    Order {
        client: ClientId,
        id: OrderId,
        order: Order,
        back: Nanos,
    },
    Reply {
        client: ClientId,
        id: OrderId,
        reply: Result<Reply, OrderError>,
    },
    Timer {
        client: ClientId,
    },
    /// A client learns that an SSD is up or down.
    Ssd {
        client: ClientId,
        ssd: SsdId,
    },
}

impl Event {
    fn client(&self) -> ClientId {
        match self {
            Event::Arrive { client, .. }
            | Event::IoEnd { client, .. }
            | Event::Timeout { client, .. }
            | Event::Order { client, .. }
            | Event::Reply { client, .. }
            | Event::Timer { client }
            | Event::Ssd { client, .. } => *client,
        }
    }
}

pub struct Target {
    pub is_up: bool,
    pub ssds: Vec<SsdId>,
}

pub struct Client {
    pub volume: Option<Volume>,
    pub is_paused: bool,
    held: Vec<Event>,
    ios: BTreeSet<IoId>,
    epochs: BTreeMap<SsdId, u64>,
    cut: BTreeSet<usize>,
    pub is_store_cut: bool,
    knows_ssds: bool,
    timer: Option<Instant>,
    next_op: u64,
    pub outcomes: BTreeMap<OpId, Outcome>,
    /// Running operations that acknowledge a change if they succeed; `check_fencing` checks them.
    promises: BTreeSet<OpId>,
    /// The time at which the store let another client mount.
    pub superseded: Option<Instant>,
}

pub struct World {
    pub now: Instant,
    pub random: Xoshiro256PlusPlus,
    events: BTreeMap<(Instant, u64), Event>,
    sequence: u64,
    next_epoch: u64,
    pub disks: BTreeMap<SsdId, Disk>,
    pub targets: Vec<Target>,
    pub store: ModelStore,
    /// One call of the store in this many fails; 0: none.
    pub store_odds: u32,
    /// One IO in this many is in flight for long; 0: none.
    pub stray_odds: u32,
    pub clients: Vec<Client>,
    /// Number of reads and of writes, by class.
    pub reads: BTreeMap<Class, u64>,
    pub writes: BTreeMap<Class, u64>,
    pub handled: u64,
    /// Whether trimmed blocks keep their contents, as they may on real SSDs.
    pub ignores_trims: bool,
}

impl World {
    /// A rack of targets, each with SSDs of `megas` mega blobs, and one volume.
    pub fn new(seed: u64, targets: u32, ssds_each: u32, megas: u64) -> World {
        let mut world = World {
            now: Instant(1),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            events: BTreeMap::new(),
            sequence: 0,
            next_epoch: 1,
            disks: BTreeMap::new(),
            targets: Vec::new(),
            store: ModelStore::default(),
            store_odds: 0,
            stray_odds: 0,
            clients: Vec::new(),
            reads: BTreeMap::new(),
            writes: BTreeMap::new(),
            handled: 0,
            ignores_trims: false,
        };
        let lease = world.store.grant(Nanos::secs(1_000_000)).expect("the model answers");
        for target in 0..targets {
            let mut ssds = Vec::new();
            for n in 0..ssds_each {
                let record = SsdRecord {
                    uuid: format!("{target}-{n}"),
                    domain: format!("target-{target}"),
                    address: String::new(),
                    rdma_address: None,
                    subsystem: String::new(),
                    nsid: n + 1,
                    block_size: 128,
                    capacity: megas * GEOMETRY.mega,
                    mega: GEOMETRY.mega,
                };
                let id = catalog::register(&mut world.store, &record, lease, Standing::Started)
                    .expect("registered");
                world.disks.insert(id, Disk::new(GEOMETRY.block as usize));
                ssds.push(id);
            }
            world.targets.push(Target { is_up: true, ssds });
        }
        catalog::create(&mut world.store, NAME, GEOMETRY).expect("there is room for a volume");
        world
    }

    fn post(&mut self, at: Instant, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    fn delay(&mut self) -> Nanos {
        Nanos::micros(self.random.random_range(10..100))
    }

    fn target_of(&self, ssd: SsdId) -> usize {
        self.targets.iter().position(|target| target.ssds.contains(&ssd)).expect("every SSD has a target")
    }

    fn is_linked(&self, client: ClientId, ssd: SsdId) -> bool {
        let target = self.target_of(ssd);
        self.targets[target].is_up && !self.clients[client].cut.contains(&target)
    }

    pub fn add_client(&mut self, settings: Settings) -> ClientId {
        self.clients.push(Client {
            volume: Some(Volume::new(settings)),
            is_paused: false,
            held: Vec::new(),
            ios: BTreeSet::new(),
            epochs: BTreeMap::new(),
            cut: BTreeSet::new(),
            is_store_cut: false,
            knows_ssds: false,
            timer: None,
            next_op: 0,
            outcomes: BTreeMap::new(),
            promises: BTreeSet::new(),
            superseded: None,
        });
        self.clients.len() - 1
    }

    pub fn submit(&mut self, client: ClientId, request: Request) -> OpId {
        let this = &mut self.clients[client];
        this.next_op += 1;
        let op = OpId(this.next_op);
        let now = self.now;
        let promises_nothing = matches!(
            request,
            Request::Append { .. } | Request::WriteAt { .. } | Request::Open { .. } | Request::Reopen { .. }
        );
        if !promises_nothing {
            this.promises.insert(op);
        }
        if let Some(volume) = &mut this.volume {
            volume.submit(now, op, request);
        }
        self.drain(client);
        op
    }

    /// Runs until an operation has ended.
    pub fn wait(&mut self, client: ClientId, op: OpId) -> Outcome {
        let limit = self.now + Nanos::secs(20);
        loop {
            if let Some(outcome) = self.clients[client].outcomes.remove(&op) {
                return outcome;
            }
            assert!(self.now < limit, "{op:?} of client {client} hangs");
            assert!(self.step(), "nothing happens any more, but {op:?} of client {client} has not ended");
        }
    }

    pub fn call(&mut self, client: ClientId, request: Request) -> Outcome {
        let op = self.submit(client, request);
        self.wait(client, op)
    }

    /// Lets virtual time pass.
    pub fn run_for(&mut self, span: Nanos) {
        let until = self.now + span;
        while self.events.keys().next().is_some_and(|&(at, _)| at <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Handles one event.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now = self.now.max(at);
        self.handled += 1;
        let client = event.client();
        let is_for_client = !matches!(event, Event::Arrive { .. } | Event::Order { .. });
        if is_for_client && self.clients[client].is_paused {
            self.clients[client].held.push(event);
            return true;
        }
        self.handle(event);
        self.drain(client);
        true
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Arrive { client, id, ssd, kind, back } => self.arrive(client, id, ssd, kind, back),
            Event::IoEnd { client, id, epoch, result } => {
                let this = &mut self.clients[client];
                if this.ios.remove(&id) {
                    // A completion on a connection that is closed does not arrive.
                    let is_old = this.epochs.values().all(|current| *current != epoch);
                    let result = if is_old { Err(IoFault::Unreachable) } else { result };
                    if let Some(volume) = &mut this.volume {
                        volume.on_io(now, id, epoch, result);
                    }
                }
            }
            Event::Timeout { client, id, ssd } => {
                if self.clients[client].ios.contains(&id) {
                    // The client closes the connection and opens a new one.
                    self.reconnect(client, ssd);
                    let this = &mut self.clients[client];
                    this.ios.remove(&id);
                    let epoch = this.epochs.get(&ssd).copied().unwrap_or(0);
                    if let Some(volume) = &mut this.volume {
                        volume.on_io(now, id, epoch, Err(IoFault::Unreachable));
                    }
                }
            }
            Event::Order { client, id, order, back } => {
                self.store.advance(now);
                let odds = if self.clients[client].is_store_cut { 1 } else { self.store_odds };
                let mut faulty = store::Faulty { store: &mut self.store, random: &mut self.random, odds };
                let reply = if self.clients[client].is_store_cut {
                    Err(OrderError::Unavailable("cut off".to_owned()))
                } else {
                    catalog::execute(&mut faulty, &order)
                };
                if let Ok(Reply::Acquired(_)) = reply {
                    for (other, this) in self.clients.iter_mut().enumerate() {
                        if other != client && this.superseded.is_none() {
                            this.superseded = Some(now);
                        }
                    }
                }
                self.post(now + back, Event::Reply { client, id, reply });
            }
            Event::Reply { client, id, reply } => {
                if let Some(volume) = &mut self.clients[client].volume {
                    volume.on_reply(now, id, reply);
                }
            }
            Event::Timer { client } => {
                let this = &mut self.clients[client];
                this.timer = None;
                if let Some(volume) = &mut this.volume {
                    volume.on_time(now);
                }
            }
            Event::Ssd { client, ssd } => {
                let is_up = self.is_linked(client, ssd);
                let this = &mut self.clients[client];
                let epoch = this.epochs.get(&ssd).copied().unwrap_or(0);
                if let Some(volume) = &mut this.volume {
                    volume.on_ssd(now, ssd, is_up, epoch);
                }
            }
        }
    }

    fn arrive(&mut self, client: ClientId, id: IoId, ssd: SsdId, kind: IoKind, back: Nanos) {
        let epoch = self.clients[client].epochs.get(&ssd).copied().unwrap_or(0);
        if !self.is_linked(client, ssd) {
            // The client waits for a response until the timeout.
            return;
        }
        let disk = self.disks.get_mut(&ssd).expect("the SSD exists");
        let result = match kind {
            IoKind::Read { at, length } => disk.read(at, length),
            IoKind::Write { at, bytes, durable } => {
                disk.write(at, &bytes, durable);
                Vec::new()
            }
            IoKind::Flush => {
                disk.flush();
                Vec::new()
            }
            IoKind::Trim { at, length } => {
                if !self.ignores_trims {
                    disk.trim(at, length);
                }
                Vec::new()
            }
        };
        let at = self.now + back;
        self.post(at, Event::IoEnd { client, id, epoch, result: Ok(result) });
    }

    /// Carries out the actions of a client.
    fn drain(&mut self, client: ClientId) {
        if self.clients[client].is_paused {
            return;
        }
        while let Some(action) = self.clients[client].volume.as_mut().and_then(Volume::next_action) {
            let now = self.now;
            match action {
                Action::Ssds(_) => {
                    self.clients[client].knows_ssds = true;
                    // The client is connected already to the SSDs that it knew.
                    let is_new = |ssd: &SsdId| !self.clients[client].epochs.contains_key(ssd);
                    let new: Vec<SsdId> = self.disks.keys().copied().filter(is_new).collect();
                    for ssd in new {
                        self.next_epoch += 1;
                        self.clients[client].epochs.insert(ssd, self.next_epoch);
                        let delay = self.delay();
                        self.post(now + delay, Event::Ssd { client, ssd });
                    }
                }
                Action::Io(io) => {
                    let (mut there, back) = (self.delay(), self.delay());
                    match io.kind {
                        IoKind::Read { .. } => *self.reads.entry(io.class).or_default() += 1,
                        IoKind::Write { .. } => *self.writes.entry(io.class).or_default() += 1,
                        IoKind::Flush | IoKind::Trim { .. } => {}
                    }
                    if self.stray_odds > 0 && self.random.random_ratio(1, self.stray_odds) {
                        there = Nanos(self.random.random_range(there.0..STRAY_MAX.0));
                    }
                    self.clients[client].ios.insert(io.id);
                    if self.is_linked(client, io.ssd) {
                        self.post(now + IO_TIMEOUT, Event::Timeout { client, id: io.id, ssd: io.ssd });
                        self.post(
                            now + there,
                            Event::Arrive { client, id: io.id, ssd: io.ssd, kind: io.kind, back },
                        );
                    } else {
                        self.post(now + there, Event::Timeout { client, id: io.id, ssd: io.ssd });
                    }
                }
                Action::Order(id, order) => {
                    let (there, back) = (self.delay(), self.delay());
                    self.post(now + there, Event::Order { client, id, order, back });
                }
                Action::Done(op, outcome) => {
                    self.check_fencing(client, op, &outcome);
                    self.clients[client].outcomes.insert(op, outcome);
                }
            }
        }
        let this = &self.clients[client];
        let next = this.volume.as_ref().and_then(Volume::next_timer);
        if let Some(next) = next
            && this.timer.is_none_or(|timer| next < timer)
        {
            self.clients[client].timer = Some(next);
            let at = next.max(self.now);
            self.post(at, Event::Timer { client });
        }
    }

    /// No client acknowledges a change after another one was let in.
    fn check_fencing(&self, client: ClientId, op: OpId, outcome: &Outcome) {
        let this = &self.clients[client];
        let promises =
            this.promises.contains(&op) && matches!(outcome, Outcome::Done | Outcome::Opened { .. });
        if let (true, Some(since)) = (promises, this.superseded) {
            panic!(
                "client {client} acknowledged {outcome:?} at {:?}, but was superseded at {since:?}",
                self.now
            );
        }
    }

    fn reconnect(&mut self, client: ClientId, ssd: SsdId) {
        self.next_epoch += 1;
        self.clients[client].epochs.insert(ssd, self.next_epoch);
        if self.clients[client].knows_ssds {
            let at = self.now + Nanos::micros(1);
            self.post(at, Event::Ssd { client, ssd });
        }
    }

    /// Kills the client's process. Its messages may still arrive.
    pub fn kill(&mut self, client: ClientId) {
        self.clients[client].volume = None;
        self.clients[client].ios.clear();
        self.clients[client].superseded = None;
    }

    pub fn pause(&mut self, client: ClientId) {
        self.clients[client].is_paused = true;
    }

    pub fn resume(&mut self, client: ClientId) {
        self.clients[client].is_paused = false;
        let now = self.now;
        for event in std::mem::take(&mut self.clients[client].held) {
            self.post(now, event);
        }
        self.drain(client);
    }

    fn relink(&mut self, target: usize) {
        let ssds = self.targets[target].ssds.clone();
        for client in 0..self.clients.len() {
            for ssd in &ssds {
                if self.clients[client].volume.is_some() {
                    self.reconnect(client, *ssd);
                }
            }
        }
    }

    /// Makes a target unreachable, or reachable again. It keeps its data.
    pub fn set_up(&mut self, target: usize, is_up: bool) {
        if self.targets[target].is_up != is_up {
            self.targets[target].is_up = is_up;
            self.relink(target);
        }
    }

    /// Makes a target lose power; it is back at once.
    pub fn lose_power(&mut self, target: usize) {
        for ssd in self.targets[target].ssds.clone() {
            let disk = self.disks.get_mut(&ssd).expect("the SSD exists");
            disk.lose_power(&mut self.random);
        }
        self.relink(target);
    }

    /// Cuts or restores the network between a client and a target.
    pub fn cut(&mut self, client: ClientId, target: usize, is_cut: bool) {
        let cut = &mut self.clients[client].cut;
        if if is_cut { cut.insert(target) } else { cut.remove(&target) } {
            for ssd in self.targets[target].ssds.clone() {
                self.reconnect(client, ssd);
            }
        }
    }

    pub fn open(&mut self, client: ClientId, path: &str) -> (u64, u64) {
        match self.call(client, Request::Open { path: path.to_owned() }) {
            Outcome::Opened { handle, size } => (handle, size),
            other => panic!("{path} cannot be opened: {other:?}"),
        }
    }

    pub fn create(&mut self, client: ClientId, path: &str) -> u64 {
        match self.call(client, Request::Create { path: path.to_owned() }) {
            Outcome::Opened { handle, .. } => handle,
            other => panic!("{path} cannot be created: {other:?}"),
        }
    }

    pub fn done(&mut self, client: ClientId, request: Request) {
        let text = format!("{request:?}");
        let outcome = self.call(client, request);
        assert_eq!(outcome, Outcome::Done, "{}", &text[..text.len().min(200)]);
    }

    /// Reads the whole file by a new handle.
    pub fn contents(&mut self, client: ClientId, path: &str) -> Vec<u8> {
        let (handle, size) = self.open(client, path);
        let outcome =
            self.call(client, Request::Read { handle, offset: 0, length: size, class: Class::Normal });
        let Outcome::Bytes(bytes) = outcome else { panic!("{path} cannot be read: {outcome:?}") };
        self.done(client, Request::Close { handle });
        bytes
    }
}

/// A rack of two targets without faults, and a client that has mounted the volume.
pub fn calm(seed: u64) -> (World, ClientId) {
    let mut world = World::new(seed, 2, 2, 16);
    let client = world.add_client(settings("first"));
    world.done(client, Request::Mount);
    (world, client)
}
