//! A stage between random hosts, an SSD and a store, all with volatile caches, in which everything happens in a random order.

use crate::history::{History, Kept};
use crate::media::{Device, SECTOR};
use ais::{
    BLOCK, Drive, Gate, HostIo, LogError, LogOptions, Medium, Notice, Op, OpenLog, Piece, SIZE_MIN, Stage,
    Step, Store,
};
use probe::BufferModel;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use units::{Instant, Nanos};

/// Sectors of the SSD.
const SECTORS: usize = 2048;
const PER_BLOCK: usize = BLOCK as usize / SECTOR;

/// Plan of a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) has_log: bool,
    /// One in this many operations of the store fails, from a random moment on; none if zero.
    pub(crate) store_fails: u32,
    /// Whether it works again later.
    pub(crate) store_recovers: bool,
    /// One in this many write-backs and flushes of the SSD fails; none if zero.
    pub(crate) drive_fails: u32,
    /// Steps of a life.
    pub(crate) steps: u32,
    /// IOs under way at most.
    pub(crate) depth: usize,
    /// Of a thousand IOs.
    pub(crate) flushes: u32,
}

enum Pending {
    Host { tag: u64, over: Vec<(Piece, Rc<Vec<u8>>)>, cached: usize },
    Keep { sequence: u64, at: Option<u64>, bytes: Vec<u8> },
    Back { job: u64, offset: u64, bytes: Vec<u8> },
    FlushDrive { job: u64, cached: usize },
    FlushStore { job: u64, cached: usize },
    WriteStore { job: u64, at: u64, bytes: Vec<u8> },
}

struct Host {
    io: HostIo,
    id: u64,
    value: u64,
    began: u64,
    /// The result on the SSD, and what was read.
    is_ok: bool,
    read: Vec<u8>,
}

/// Counts of what happened in a life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) diverted: u64,
    pub(crate) returned: u64,
    pub(crate) served: u64,
    pub(crate) replayed: u64,
    pub(crate) given_up: u64,
    pub(crate) answered: u64,
}

pub(crate) struct World {
    plan: Plan,
    random: Xoshiro256PlusPlus,
    now: u64,
    drive: Device,
    store: Device,
    stage: Stage,
    kept: HashMap<u64, Rc<Vec<u8>>>,
    hosts: HashMap<u64, Host>,
    pending: Vec<Pending>,
    history: History,
    next: u64,
    is_failing: bool,
    not_voided: bool,
    /// The machine's start.
    boot: [u8; 16],
    /// The read after a crash, and what it has found.
    looking: Option<(u64, Vec<u8>)>,
    pub(crate) seen: Seen,
}

impl Medium for Device {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(Device::read(self, at, into.len() as u64));
        Ok(())
    }

    fn write_durably(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes, true);
        Ok(())
    }
}

fn gate(random: &mut Xoshiro256PlusPlus) -> Gate {
    // So small that nearly everything is a burst; whether rest pays is drawn.
    let buffer = BufferModel::steady(2.0 * BLOCK as f64, 1e-3, 5e-3, true);
    let slow = if random.random_bool(0.5) { 1e5 } else { 1e7 };
    Gate::new(Drive { buffer, fast: 1e8, slow }, Instant::ZERO)
}

pub(crate) fn options(boot: [u8; 16]) -> LogOptions {
    LogOptions {
        size: SIZE_MIN,
        identity: "the SSD".to_owned(),
        device_size: (SECTORS * SECTOR) as u64,
        name: [7; 16],
        boot,
        overwrite: false,
    }
}

fn value_of(sector: &[u8]) -> u64 {
    let value = u64::from_le_bytes(sector[..8].try_into().expect("eight bytes"));
    assert!(sector.chunks(8).all(|chunk| chunk == value.to_le_bytes()), "a sector of two writes");
    value
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
        let stage = Stage::new(gate(&mut random), Store::Memory(256 << 10), Instant::ZERO);
        let mut world = World {
            plan,
            random,
            now: 1,
            drive: Device::new(SECTORS * SECTOR),
            store: Device::new(SIZE_MIN as usize),
            stage,
            kept: HashMap::new(),
            hosts: HashMap::new(),
            pending: Vec::new(),
            history: History::new(std::iter::repeat_n(0, SECTORS)),
            next: 1,
            is_failing: false,
            not_voided: false,
            // Some machines cannot tell when they were started.
            boot: if plan.seed.is_multiple_of(7) { [0; 16] } else { [1; 16] },
            looking: None,
            seen: Seen::default(),
        };
        world.begin().expect("a new store opens");
        world
    }

    /// A life begins with what is in the store.
    fn begin(&mut self) -> Result<(), LogError> {
        self.kept.clear();
        self.pending.clear();
        self.hosts.clear();
        (self.is_failing, self.not_voided) = (false, false);
        let store = if self.plan.has_log {
            let mut log = OpenLog::open(&mut self.store, &options(self.boot))?;
            for found in log.take_found() {
                self.seen.replayed += 1;
                self.kept.insert(found.sequence, Rc::new(found.bytes));
            }
            Store::Log(Box::new(log))
        } else {
            Store::Memory(256 << 10)
        };
        self.stage = Stage::new(gate(&mut self.random), store, self.instant());
        Ok(())
    }

    fn instant(&self) -> Instant {
        Instant::ZERO + Nanos::micros(self.now)
    }

    /// A life: random IOs, which end in any order.
    pub(crate) fn live(&mut self) {
        let fails_at = self.random.random_range(0..self.plan.steps * 2);
        for step in 0..self.plan.steps {
            self.now += self.random.random_range(1..40);
            if self.plan.store_fails > 0 && step == fails_at {
                self.is_failing = true;
            }
            if self.plan.store_recovers && step > fails_at + 200 {
                self.is_failing = false;
            }
            if self.hosts.len() < self.plan.depth && self.random.random_bool(0.5) {
                self.ask();
            } else if !self.pending.is_empty() {
                self.end_one();
            } else if let Some(at) = self.stage.next_wake(self.instant()) {
                self.now = self.now.max(at.since(Instant::ZERO).get() / 1000 + 1);
                self.stage.poll(self.instant());
                self.carry_out();
            }
        }
        let counters = self.stage.counters();
        self.seen.diverted += counters.diverted;
        self.seen.returned += counters.returned_bytes;
        self.seen.served += counters.served;
    }

    /// Everything that is under way ends; then all is on the SSD.
    pub(crate) fn settle(&mut self) {
        self.drain();
        self.stage.settle();
        self.submit(Op::Flush, 0, 0);
        self.drain();
        assert!(self.hosts.is_empty(), "{:?}: the flush at the end is not answered", self.plan);
        if self.plan.drive_fails == 0 {
            assert_eq!(self.stage.counters().pending_bytes, 0, "{:?}", self.plan);
            assert_eq!(self.stage.kept_bytes(), 0, "{:?}", self.plan);
            let values: Vec<u64> = self.drive.current.chunks(SECTOR).map(value_of).collect();
            self.check_left(&values, Kept::Answered);
        }
    }

    fn drain(&mut self) {
        let mut idle = 0;
        while !self.hosts.is_empty() || !self.pending.is_empty() {
            self.now += 5;
            if !self.pending.is_empty() {
                idle = 0;
                self.end_one();
                continue;
            }
            idle += 1;
            assert!(
                idle < 1000,
                "{:?}: {} IOs are never answered: {:?}",
                self.plan,
                self.hosts.len(),
                self.stage
            );
            let at = self.stage.next_wake(self.instant()).expect("somebody waits");
            self.now = self.now.max(at.since(Instant::ZERO).get() / 1000 + 1);
            self.stage.poll(self.instant());
            self.carry_out();
        }
    }

    fn ask(&mut self) {
        let kind = self.random.random_range(0..1000);
        if kind < self.plan.flushes {
            return self.submit(Op::Flush, 0, 0);
        }
        let sectors = if self.random.random_bool(0.85) {
            PER_BLOCK * self.random.random_range(1..=4)
        } else {
            self.random.random_range(1..=20)
        };
        let mut sector = self.random.random_range(0..SECTORS - sectors);
        if self.random.random_bool(0.5) {
            // Many IOs meet in a small part.
            sector %= 256;
        }
        if sectors.is_multiple_of(PER_BLOCK) {
            sector -= sector % PER_BLOCK;
        }
        let op = match self.random.random_range(0..100) {
            0..30 => Op::Read,
            30..90 => Op::Write { durable: self.random.random_bool(0.05) },
            90..95 => Op::Discard,
            _ => Op::WriteZeroes,
        };
        self.submit(op, sector, sectors);
    }

    fn submit(&mut self, op: Op, sector: usize, sectors: usize) {
        let tag = self.next;
        self.next += 1;
        let value = if matches!(op, Op::Write { .. }) { tag } else { 0 };
        if matches!(op, Op::Write { .. } | Op::Discard | Op::WriteZeroes) {
            self.history.begin(sector..sector + sectors, value, tag, self.now);
        }
        let (offset, length) = ((sector * SECTOR) as u64, (sectors * SECTOR) as u64);
        let io = HostIo { tag, op, offset, length };
        let (began, read) = (self.now, Vec::new());
        self.hosts.insert(tag, Host { io, id: tag, value, began, is_ok: true, read });
        self.stage.submit(self.instant(), io);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(step) = self.stage.next_step() {
            match step {
                Step::Drive { tag, over } => {
                    let over =
                        over.into_iter().map(|piece| (piece, self.kept[&piece.sequence].clone())).collect();
                    self.pending.push(Pending::Host { tag, over, cached: self.drive.cached() });
                }
                Step::Serve { tag, pieces } => {
                    let length = self.hosts[&tag].io.length as usize;
                    let mut read = vec![0xEE; length];
                    pieces.iter().for_each(|piece| put(&mut read, piece, &self.kept[&piece.sequence]));
                    self.check_read(tag, read);
                }
                Step::Keep { tag, sequence, place } => {
                    let data = self.bytes(tag);
                    let bytes =
                        place.map(|place| [&place.head(&data)[..], &data].concat()).unwrap_or_default();
                    self.kept.insert(sequence, Rc::new(data));
                    self.pending.push(Pending::Keep { sequence, at: place.map(|place| place.at), bytes });
                }
                Step::Forget { sequence } => {
                    self.kept.remove(&sequence).expect("it was kept");
                }
                Step::Finish { tag, is_ok } => self.finish(tag, is_ok),
                Step::WriteBack { job, sequence, from, offset, length } => {
                    let bytes = self.kept[&sequence][from as usize..(from + length) as usize].to_vec();
                    self.pending.push(Pending::Back { job, offset, bytes });
                }
                Step::FlushDrive { job } => {
                    self.pending.push(Pending::FlushDrive { job, cached: self.drive.cached() });
                }
                Step::FlushStore { job } => {
                    self.pending.push(Pending::FlushStore { job, cached: self.store.cached() });
                }
                Step::WriteStore { job, at, bytes } => {
                    self.pending.push(Pending::WriteStore { job, at, bytes });
                }
            }
        }
        for notice in self.stage.take_notices() {
            self.seen.given_up += u64::from(notice == Notice::StoreFailed);
            match notice {
                Notice::NotVoided => self.not_voided = true,
                Notice::Voided => self.not_voided = false,
                Notice::StoreFailed | Notice::NotWrittenBack => {}
            }
        }
    }

    fn bytes(&self, tag: u64) -> Vec<u8> {
        let host = &self.hosts[&tag];
        host.value.to_le_bytes().repeat(host.io.length as usize / 8)
    }

    fn store_fails(&mut self) -> bool {
        self.is_failing && self.random.random_range(0..self.plan.store_fails) == 0
    }

    fn drive_fails(&mut self) -> bool {
        self.plan.drive_fails > 0 && self.random.random_range(0..self.plan.drive_fails) == 0
    }

    fn end_one(&mut self) {
        let index = self.random.random_range(0..self.pending.len());
        let pending = self.pending.swap_remove(index);
        let at = self.instant();
        match pending {
            Pending::Host { tag, over, cached } => {
                let io = self.hosts[&tag].io;
                let mut is_ok = true;
                match io.op {
                    Op::Read => {
                        let mut read = self.drive.read(io.offset, io.length).to_vec();
                        over.iter().for_each(|(piece, data)| put(&mut read, piece, data));
                        self.hosts.get_mut(&tag).expect("it waits").read = read;
                    }
                    Op::Flush => {
                        is_ok = !self.drive_fails();
                        if is_ok {
                            self.drive.flush(cached);
                        }
                    }
                    Op::Write { durable } => self.drive.write(io.offset, &self.bytes(tag), durable),
                    // A discard need not do anything; here it does.
                    Op::Discard | Op::WriteZeroes => self.drive.write(io.offset, &self.bytes(tag), false),
                }
                self.hosts.get_mut(&tag).expect("it waits").is_ok = is_ok;
                self.stage.on_driven(at, tag, is_ok);
            }
            Pending::Keep { sequence, at: place, bytes } => {
                let is_ok = !self.store_fails();
                if let (true, Some(place)) = (is_ok, place) {
                    self.store.write(place, &bytes, false);
                }
                self.stage.on_kept(at, sequence, is_ok);
            }
            Pending::Back { job, offset, bytes } => {
                let is_ok = !self.drive_fails();
                if is_ok {
                    self.drive.write(offset, &bytes, false);
                }
                self.stage.on_done(at, job, is_ok);
            }
            Pending::FlushDrive { job, cached } => {
                let is_ok = !self.drive_fails();
                if is_ok {
                    self.drive.flush(cached);
                }
                self.stage.on_done(at, job, is_ok);
            }
            Pending::FlushStore { job, cached } => {
                let is_ok = !self.store_fails();
                if is_ok {
                    self.store.flush(cached);
                }
                self.stage.on_done(at, job, is_ok);
            }
            Pending::WriteStore { job, at: place, bytes } => {
                let is_ok = !self.store_fails();
                if is_ok {
                    self.store.write(place, &bytes, true);
                }
                self.stage.on_done(at, job, is_ok);
            }
        }
        self.carry_out();
    }

    fn finish(&mut self, tag: u64, is_ok: bool) {
        let host = &self.hosts[&tag];
        let is_ok = is_ok && host.is_ok;
        let Host { io, id, began, .. } = *host;
        match io.op {
            Op::Read => {
                let read = host.read.clone();
                return self.check_read(tag, read);
            }
            Op::Flush if is_ok => self.history.flush(began),
            // It may have been done or not, as one that was never answered.
            _ if !is_ok => {}
            Op::Flush => {}
            Op::Write { durable } => self.history.end(sectors(&io), id, self.now, durable),
            Op::Discard | Op::WriteZeroes => self.history.end(sectors(&io), id, self.now, false),
        }
        self.seen.answered += 1;
        self.hosts.remove(&tag);
    }

    fn check_read(&mut self, tag: u64, read: Vec<u8>) {
        let host = self.hosts.remove(&tag).expect("it waits");
        if let Some((_, all)) = self.looking.as_mut().filter(|(looking, _)| *looking == tag) {
            *all = read;
            return;
        }
        for (n, sector) in read.chunks(SECTOR).enumerate() {
            let at = host.io.offset as usize / SECTOR + n;
            let value = value_of(sector);
            assert!(
                self.history.may_read(at, value, host.began, self.now),
                "{:?}: sector {at} reads as {value}, from {} to {}: {}",
                self.plan,
                host.began,
                self.now,
                self.history.of(at)
            );
        }
        self.seen.answered += 1;
    }

    /// The program ends at once, with the power or without. Then all that was promised is there.
    pub(crate) fn crash(&mut self, with_power: bool) {
        let (mut to_drive, mut to_store) = (Vec::new(), Vec::new());
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Host { tag, .. } => {
                    let io = self.hosts[&tag].io;
                    if matches!(io.op, Op::Write { .. } | Op::Discard | Op::WriteZeroes) {
                        to_drive.push((io.offset, self.bytes(tag)));
                    }
                }
                Pending::Back { offset, bytes, .. } => to_drive.push((offset, bytes)),
                Pending::Keep { at: Some(at), bytes, .. } | Pending::WriteStore { at, bytes, .. } => {
                    to_store.push((at, bytes));
                }
                Pending::Keep { .. } | Pending::FlushDrive { .. } | Pending::FlushStore { .. } => {}
            }
        }
        if with_power {
            self.boot = self.boot.map(|byte| if byte == 0 { 0 } else { byte + 1 });
            self.drive.fail_power(&to_drive, &mut self.random);
            self.store.fail_power(&to_store, &mut self.random);
        } else {
            self.drive.kill(&to_drive, &mut self.random);
            self.store.kill(&to_store, &mut self.random);
        }
        let had_failed = self.stage.has_failed();
        if self.not_voided {
            // People were told not to use it again.
            self.store = Device::new(SIZE_MIN as usize);
        }
        self.begin().unwrap_or_else(|error| panic!("{:?}: after a crash: {error}", self.plan));
        self.now += 1;
        let values = self.read_all();
        // A log keeps what was answered from a kill; memory does not, and neither does a log whose device has failed.
        let kept =
            if with_power || !self.plan.has_log || had_failed { Kept::Flushed } else { Kept::Answered };
        self.check_left(&values, kept);
        self.history = History::new(values.into_iter());
    }

    /// All that hosts would read now.
    fn read_all(&mut self) -> Vec<u64> {
        self.looking = Some((self.next, Vec::new()));
        self.submit(Op::Read, 0, SECTORS);
        while self.looking.as_ref().is_some_and(|(_, read)| read.is_empty()) {
            self.end_one();
        }
        let (_, read) = self.looking.take().expect("it was asked for");
        read.chunks(SECTOR).map(value_of).collect()
    }

    fn check_left(&self, values: &[u64], kept: Kept) {
        for (sector, value) in values.iter().enumerate() {
            assert!(
                self.history.may_leave(sector, *value, kept),
                "{:?}: sector {sector} is {value} after the crash, and {kept:?} has to stay: {}",
                self.plan,
                self.history.of(sector)
            );
        }
    }

    /// A flush, and everything that was asked for ends.
    pub(crate) fn flush(&mut self) {
        self.drain_hosts();
        self.submit(Op::Flush, 0, 0);
        self.drain_hosts();
    }

    fn drain_hosts(&mut self) {
        while !self.hosts.is_empty() {
            assert!(!self.pending.is_empty(), "{:?}: hosts wait for nothing", self.plan);
            self.end_one();
        }
    }

    /// A place in each block of a log that has to be found damaged if it changes.
    pub(crate) fn durable_blocks(&self, log: &OpenLog) -> Vec<u64> {
        log.durable_blocks().map(|at| at + 4000).collect()
    }

    /// For tests of damage.
    pub(crate) fn store(&mut self) -> &mut Device {
        &mut self.store
    }
}

fn put(read: &mut [u8], piece: &Piece, data: &[u8]) {
    let (to, from, length) = (piece.to as usize, piece.from as usize, piece.length as usize);
    read[to..to + length].copy_from_slice(&data[from..from + length]);
}

fn sectors(io: &HostIo) -> std::ops::Range<usize> {
    let first = io.offset as usize / SECTOR;
    first..first + io.length as usize / SECTOR
}
