//! An SSD with an auxiliary store: the stage of the crate `ais` between the switch and the SSD.
//!
//! ```text
//!   submit(io) ──► Stage ──► steps ──┬──► SSD            (any device)
//!                    ▲               └──► log's device   (a file or block device), and a copy in memory
//!                    └── completions of both
//! ```
//!
//! The stage decides; here its steps are carried out and the data is kept. Data that goes back to the SSD is copied first, because reads
//! may need it meanwhile. Times are on the SSD's clock.
//!
//! Holds: a write that was answered and flushed survives a kill at any moment (`tests/auxiliary` of the crate `gimbal`).

mod open;

pub(crate) use open::{OpenAuxiliary, expect_log, load_drive, open};

use super::faulty::FaultyDevice;
use super::file::FileDevice;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, Quote};
use crate::stats::AuxiliaryStats;
use ais::{Gate, HostIo, Notice, Op, Piece, Stage, Step, Store};
use open::{LogNote, OpenedLog};
use reactor::{BufferPool, IoBuffer, Reactor, Token};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use tracing::{debug, error, info, warn};
use units::{Bytes, Instant, Nanos};

/// Tags on the SSD that are not those of hosts.
const OWN: u64 = 1 << 63;

/// A host's IO.
struct Host {
    started: Instant,
    /// `None` while it is on the SSD.
    io: Option<DeviceIo>,
    /// Pieces of the log that replace parts of the data read from the SSD.
    over: Vec<(Piece, Arc<IoBuffer>)>,
    /// Its completion on the SSD.
    done: Option<DeviceDone>,
}

/// An operation on the log's device.
enum Stored {
    /// The first block of a record.
    Head(u64),
    /// Its data.
    Data(u64),
    Job(u64),
}

/// A record on its way into the log.
struct Keeping {
    left: u32,
    is_ok: bool,
}

/// An SSD with an auxiliary store.
pub(crate) struct AuxiliaryDevice {
    name: String,
    ssd: Box<dyn Device>,
    clock: DeviceClock,
    /// Only of a log.
    store: Option<Box<dyn Device>>,
    /// The note that the log may have data of the SSD.
    note: Option<LogNote>,
    stage: Stage,
    hosts: HashMap<u64, Host>,
    records: HashMap<u64, Arc<IoBuffer>>,
    keeping: HashMap<u64, Keeping>,
    stored: HashMap<u64, Stored>,
    next_stored: u64,
    /// Steps that were not carried out yet.
    steps: VecDeque<Step>,
    /// Buffers of kept data, and of data on its way.
    pool: BufferPool,
    done: Vec<DeviceDone>,
    finished: Vec<DeviceDone>,
    is_diverting: bool,
    /// The latest known time, on the SSD's clock.
    now: Instant,
}

impl AuxiliaryDevice {
    /// Puts an open store before `ssd`.
    pub(crate) fn start(
        opened: OpenAuxiliary,
        name: String,
        ssd: Box<dyn Device>,
        (now, reactor): (Instant, &mut Reactor),
    ) -> io::Result<AuxiliaryDevice> {
        let clock = ssd.clock();
        // The stage limits kept data; data on its way is limited by the IOs that hosts may have outstanding.
        let mut pool = BufferPool::new(Bytes(u64::MAX));
        let mut records = HashMap::new();
        let (store, note, kept) = match opened.log {
            None => (None, None, Store::Memory(opened.size.get())),
            Some(OpenedLog { note, mut log, file, is_block, .. }) => {
                note.as_ref().map_or(Ok(()), LogNote::make)?;
                for found in log.take_found() {
                    let mut buffer = pool.take(found.bytes.len()).expect("the pool has no limit");
                    buffer.copy_from_slice(&found.bytes);
                    records.insert(found.sequence, Arc::new(buffer));
                }
                let device = FileDevice::start_store(file, is_block, &name, reactor)?;
                let device: Box<dyn Device> = match &opened.faults[..] {
                    [] => Box::new(device),
                    faults => Box::new(FaultyDevice::new(now, Box::new(device), faults)),
                };
                (Some(device), note, Store::Log(Box::new(log)))
            }
        };
        let device_now = clock.to_device(now);
        Ok(AuxiliaryDevice {
            name,
            ssd,
            clock,
            store,
            note,
            stage: Stage::new(Gate::new(opened.drive, device_now), kept, device_now),
            hosts: HashMap::new(),
            records,
            keeping: HashMap::new(),
            stored: HashMap::new(),
            next_stored: 0,
            steps: VecDeque::new(),
            pool,
            done: Vec::new(),
            finished: Vec::new(),
            is_diverting: false,
            now: device_now,
        })
    }

    fn buffer_of(&mut self, bytes: &[u8]) -> IoBuffer {
        let mut buffer = self.pool.take(bytes.len()).expect("the pool has no limit");
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Carries out operations that the stage asks for.
    fn carry_out(&mut self, now: Instant, reactor: &mut Reactor) {
        loop {
            self.look_at_steps(now);
            let Some(step) = self.steps.pop_front() else { break };
            self.step(now, reactor, step);
        }
        self.tell();
    }

    /// Takes the stage's steps. Answers need no reactor, and are given at once.
    fn look_at_steps(&mut self, now: Instant) {
        while let Some(step) = self.stage.next_step() {
            match step {
                Step::Finish { tag, is_ok } => self.finish(now, tag, is_ok),
                step => self.steps.push_back(step),
            }
        }
    }

    fn step(&mut self, now: Instant, reactor: &mut Reactor, step: Step) {
        match step {
            Step::Drive { tag, over } => {
                let pinned = |piece: Piece| (piece, Arc::clone(&self.records[&piece.sequence]));
                let over = over.into_iter().map(pinned).collect();
                let host = self.hosts.get_mut(&tag).expect("a host's IO is known until its end");
                host.over = over;
                let io = host.io.take().expect("it is on the SSD once");
                self.ssd.submit(now, reactor, io);
            }
            Step::Serve { tag, pieces } => {
                let Host { started, io, .. } = self.hosts.remove(&tag).expect("known until its end");
                let Some(DeviceIo { op: DeviceOp::Read(mut buffer), .. }) = io else {
                    unreachable!("only reads are served")
                };
                pieces.iter().for_each(|piece| put(&mut buffer, piece, &self.records[&piece.sequence]));
                self.end(now, tag, started, Ok(()), Some(buffer));
            }
            Step::Keep { tag, sequence, place } => {
                let io = self.hosts[&tag].io.as_ref().expect("it is not on the SSD");
                let DeviceOp::Write { buffer, .. } = &io.op else { unreachable!("only writes are kept") };
                let mut copy = self.pool.take(buffer.len()).expect("the pool has no limit");
                copy.copy_from_slice(buffer);
                let Some(place) = place else {
                    self.records.insert(sequence, Arc::new(copy));
                    return self.stage.on_kept(self.clock.to_device(now), sequence, true);
                };
                let head = self.buffer_of(&place.head(&copy)[..]);
                self.keeping.insert(sequence, Keeping { left: 2, is_ok: true });
                let data_at = place.at + ais::BLOCK;
                self.write_store(now, reactor, Stored::Head(sequence), (place.at, head, false));
                self.write_store(now, reactor, Stored::Data(sequence), (data_at, copy, false));
            }
            Step::Forget { sequence } => {
                self.records.remove(&sequence);
            }
            Step::Finish { .. } => unreachable!("given at once"),
            Step::WriteBack { job, sequence, from, offset, length } => {
                let record = Arc::clone(&self.records[&sequence]);
                let buffer = self.buffer_of(&record[from as usize..(from + length) as usize]);
                let op = DeviceOp::Write { buffer, durable: false };
                self.ssd.submit(now, reactor, DeviceIo { tag: OWN | job, offset, length, op });
            }
            Step::FlushDrive { job } => {
                let io = DeviceIo { tag: OWN | job, offset: 0, length: 0, op: DeviceOp::Flush };
                self.ssd.submit(now, reactor, io);
            }
            Step::FlushStore { job } => {
                let tag = self.name_stored(Stored::Job(job));
                let io = DeviceIo { tag, offset: 0, length: 0, op: DeviceOp::Flush };
                self.store_mut().submit(now, reactor, io);
            }
            Step::WriteStore { job, at, bytes } => {
                let buffer = self.buffer_of(&bytes);
                self.write_store(now, reactor, Stored::Job(job), (at, buffer, true));
            }
        }
    }

    fn store_mut(&mut self) -> &mut dyn Device {
        &mut **self.store.as_mut().expect("only a log is written")
    }

    fn name_stored(&mut self, stored: Stored) -> u64 {
        self.next_stored += 1;
        self.stored.insert(self.next_stored, stored);
        self.next_stored
    }

    fn write_store(
        &mut self,
        now: Instant,
        reactor: &mut Reactor,
        stored: Stored,
        (offset, buffer, durable): (u64, IoBuffer, bool),
    ) {
        let tag = self.name_stored(stored);
        let (length, op) = (buffer.len() as u64, DeviceOp::Write { buffer, durable });
        self.store_mut().submit(now, reactor, DeviceIo { tag, offset, length, op });
    }

    /// Passes completions of the SSD and of the log's device to the stage.
    fn collect(&mut self, now: Instant) {
        let at = self.clock.to_device(now);
        self.now = at;
        let mut finished = std::mem::take(&mut self.finished);
        self.ssd.take_finished(&mut finished);
        for done in finished.drain(..) {
            let (tag, is_ok) = (done.tag, done.result.is_ok());
            if tag & OWN != 0 {
                self.stage.on_done(at, tag & !OWN, is_ok);
            } else {
                self.hosts.get_mut(&tag).expect("the SSD finishes what it was given").done = Some(done);
                self.stage.on_driven(at, tag, is_ok);
            }
        }
        if let Some(store) = &mut self.store {
            store.take_finished(&mut finished);
        }
        for done in finished.drain(..) {
            let stored = self.stored.remove(&done.tag).expect("the store finishes what it was given");
            let is_ok = done.result.is_ok();
            if let Err(error) = done.result {
                warn!(device = %self.name, %error, "an operation of the auxiliary store has failed");
            }
            match stored {
                Stored::Job(job) => self.stage.on_done(at, job, is_ok),
                Stored::Head(sequence) => self.on_kept(at, sequence, is_ok),
                Stored::Data(sequence) => {
                    let buffer = done.buffer.expect("a write brings its buffer back");
                    self.records.insert(sequence, Arc::new(buffer));
                    self.on_kept(at, sequence, is_ok);
                }
            }
        }
        self.finished = finished;
        self.look_at_steps(now);
    }

    /// One of the two parts of a record is written, or not.
    fn on_kept(&mut self, at: Instant, sequence: u64, is_ok: bool) {
        let keeping = self.keeping.get_mut(&sequence).expect("it is on its way");
        keeping.left -= 1;
        keeping.is_ok &= is_ok;
        if keeping.left == 0 {
            let is_ok = keeping.is_ok;
            self.keeping.remove(&sequence);
            self.stage.on_kept(at, sequence, is_ok);
        }
    }

    fn finish(&mut self, now: Instant, tag: u64, is_ok: bool) {
        let Host { started, io, over, done } = self.hosts.remove(&tag).expect("known until its end");
        let failed = || io::Error::other("what the answer promises could not be made to last");
        match done {
            Some(mut done) => {
                if let Some(buffer) = &mut done.buffer {
                    over.iter().for_each(|(piece, record)| put(buffer, piece, record));
                }
                if !is_ok && done.result.is_ok() {
                    done.result = Err(failed());
                }
                done.latency = self.clock.to_device(now).saturating_since(started).max(done.latency);
                self.done.push(done);
            }
            None => {
                let buffer = match io.map(|io| io.op) {
                    Some(DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. }) => Some(buffer),
                    _ => None,
                };
                let result = if is_ok { Ok(()) } else { Err(failed()) };
                self.end(now, tag, started, result, buffer);
            }
        }
    }

    fn end(
        &mut self,
        now: Instant,
        tag: u64,
        started: Instant,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        let latency = self.clock.to_device(now).saturating_since(started);
        self.done.push(DeviceDone { tag, result, buffer, latency, late: Nanos::ZERO });
    }

    /// Says what people may want to know.
    fn tell(&mut self) {
        let device = &self.name;
        for notice in self.stage.take_notices() {
            match notice {
                Notice::StoreFailed => error!(
                    %device, "the auxiliary store fails: its data is in memory and is written to the SSD; nothing is diverted any more"
                ),
                Notice::Voided => {
                    info!(%device, "the log of the auxiliary store is marked as given up");
                    self.note.iter().for_each(LogNote::take_back);
                }
                Notice::NotVoided => {
                    error!(
                        %device, "the log of the auxiliary store cannot be marked as given up: its data is old. Overwrite its first \
                        16 KiB, or remove the file, before the target starts with it again"
                    );
                    self.note.iter().for_each(LogNote::take_back);
                }
                Notice::NotWrittenBack => error!(
                    %device, "the SSD has refused data of the auxiliary store: it is kept, and tried again every second"
                ),
            }
        }
        let counters = self.stage.counters();
        if (counters.pending_bytes > 0) != self.is_diverting {
            self.is_diverting = !self.is_diverting;
            let (diverted, returned) = (Bytes(counters.diverted_bytes), Bytes(counters.returned_bytes));
            match self.is_diverting {
                true => {
                    debug!(%device, %diverted, %returned, "the auxiliary store has data that the SSD does not have")
                }
                false => debug!(%device, %diverted, %returned, "the SSD has all data of the auxiliary store"),
            }
        }
    }
}

fn put(read: &mut [u8], piece: &Piece, record: &[u8]) {
    let (to, from, length) = (piece.to as usize, piece.from as usize, piece.length as usize);
    read[to..to + length].copy_from_slice(&record[from..from + length]);
}

impl Device for AuxiliaryDevice {
    fn clock(&self) -> DeviceClock {
        self.clock
    }

    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote {
        self.ssd.quote(erase, offset, length, most)
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let op = match &io.op {
            DeviceOp::Read(_) => Op::Read,
            DeviceOp::Write { durable, .. } => Op::Write { durable: *durable },
            DeviceOp::Flush => Op::Flush,
            DeviceOp::Discard => Op::Discard,
            DeviceOp::WriteZeroes => Op::WriteZeroes,
        };
        let host = HostIo { tag: io.tag, op, offset: io.offset, length: io.length };
        let started = self.clock.to_device(now);
        self.hosts.insert(io.tag, Host { started, io: Some(io), over: Vec::new(), done: None });
        self.now = started;
        self.stage.submit(started, host);
        self.carry_out(now, reactor);
        // Some devices finish at once.
        self.collect(now);
        self.carry_out(now, reactor);
    }

    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        match &mut self.store {
            Some(store) if FileDevice::is_store_tag(tag) => store.on_disk(now, file, tag, result, buffer),
            _ => self.ssd.on_disk(now, file, tag, result, buffer),
        }
    }

    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        self.ssd.poll(now, reactor);
        if let Some(store) = &mut self.store {
            store.poll(now, reactor);
        }
        self.collect(now);
        self.stage.poll(self.clock.to_device(now));
        self.carry_out(now, reactor);
    }

    fn next_wake(&self) -> Option<Instant> {
        let at = self.stage.next_wake(self.now).map(|at| self.clock.to_real(at));
        let store = self.store.as_ref().and_then(|store| store.next_wake());
        [at, store, self.ssd.next_wake()].into_iter().flatten().min()
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }

    fn settle(&mut self) {
        self.stage.settle();
    }

    fn on_settled(&mut self) {
        self.note.iter().for_each(LogNote::take_back);
    }

    fn auxiliary(&self) -> Option<AuxiliaryStats> {
        let gate = self.stage.gate();
        Some(AuxiliaryStats {
            counters: self.stage.counters(),
            has_failed: self.stage.has_failed(),
            room: gate.remaining(self.now),
            is_exhausted: gate.is_exhausted(self.now, 128 << 10),
            foresight: gate.foresight(),
        })
    }
}
