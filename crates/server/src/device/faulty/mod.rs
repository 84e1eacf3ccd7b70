//! A device that misbehaves as configured. Tests put it between the switch and a device that works.
//!
//! ```text
//!   submit(io) ──► faults ──┬─ unchanged, late, torn ────────────► the device below
//!                           ├─ hangs: kept here until its release ──┤        │
//!                           ├─ volatile: kept until a flush ────────┘        │
//!                           └─ fails, or the device has vanished           │
//!   take_finished() ◄─────────────┴──── late IOs wait here ◄────────────────┘
//! ```
//!
//! A hanging IO keeps its buffer, as with a real device: the memory cannot be reused until the IO is over. After the device has vanished,
//! the IOs that are still on it fail, too, whether or not their data was moved.
//!
//! Holds: every IO that does not hang for ever finishes exactly once, with its buffer. The same IOs in the same order get the same
//!        faults (`tests/bad_devices` compares with a naive model).
//! Elsewhere: `fault` decides which IOs are affected, `cache` keeps volatile writes; `docs/fault-injection.md` explains the configuration.

mod cache;
mod fault;

use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, FileChange, Quote};
use crate::config::{FaultConfig, FaultError, FaultKind, FaultRelease};
use crate::stats::FileStats;
use cache::{Cache, Overlay, RUN_MAX};
use fault::Fault;
use reactor::{BufferPool, IoBuffer, Reactor, Token};
use std::collections::HashMap;
use std::io;
use units::{Bytes, Instant, Nanos};

/// A torn write ends between two of these: the unit that SSDs write at once.
const ATOM: usize = 4096;
/// The tag of our own writes of volatile data to the device below. No other tag has both highest bits set: keys have none, extra reads and an
/// auxiliary store one each.
const OWN: u64 = u64::MAX;

/// The state of an IO on the device below that this one does not know.
#[derive(Default)]
struct Altered {
    /// The IO finishes this much later than on the device below.
    delay: Nanos,
    /// The time that the IO was delayed before the device below got it.
    kept: Nanos,
    /// The torn write that it is a part of.
    torn: Option<IoBuffer>,
    /// Volatile data that a read must find.
    overlay: Overlay,
}

struct Hung {
    io: DeviceIo,
    /// On the device's clock, as all times here.
    since: Instant,
    until: Option<Instant>,
    until_io: Option<u64>,
}

/// A device and its faults.
pub(crate) struct FaultyDevice {
    inner: Box<dyn Device>,
    clock: DeviceClock,
    faults: Vec<Fault>,
    started: Instant,
    /// The latest known time.
    now: Instant,
    submitted: u64,
    is_gone: bool,
    altered: HashMap<u64, Altered>,
    hung: Vec<Hung>,
    late: Vec<(Instant, DeviceDone)>,
    done: Vec<DeviceDone>,
    cache: Cache,
    /// The result of our own write to the device below, until `poll`.
    written_back: Option<io::Result<()>>,
    /// Buffers for the written parts of torn writes.
    pool: BufferPool,
    /// The buffer for data that is written back.
    run: BufferPool,
}

impl FaultyDevice {
    /// Adds `faults` to `inner`. The first fault that affects an IO applies.
    pub(crate) fn new(now: Instant, inner: Box<dyn Device>, faults: &[FaultConfig]) -> FaultyDevice {
        let clock = inner.clock();
        let started = clock.to_device(now);
        FaultyDevice {
            inner,
            clock,
            faults: faults.iter().cloned().map(Fault::new).collect(),
            started,
            now: started,
            submitted: 0,
            is_gone: false,
            altered: HashMap::new(),
            hung: Vec::new(),
            late: Vec::new(),
            done: Vec::new(),
            cache: Cache::default(),
            written_back: None,
            pool: BufferPool::new(Bytes(BufferPool::LENGTH_MAX as u64)),
            run: BufferPool::new(Bytes(RUN_MAX)),
        }
    }

    fn strike(&mut self, io: &DeviceIo) -> Option<(usize, FaultKind)> {
        let age = self.now.saturating_since(self.started);
        self.faults.iter_mut().enumerate().find_map(|(index, fault)| Some((index, fault.strike(age, io)?)))
    }

    /// Ends an IO here and now.
    fn fail(&mut self, io: DeviceIo, error: io::Error, latency: Nanos) {
        self.done.push(ended(io, Err(error), latency));
    }

    fn hang(&mut self, io: DeviceIo, release: FaultRelease) {
        let (until, until_io) = match release {
            FaultRelease::Never => (None, None),
            FaultRelease::After(span) => (Some(self.now + span), None),
            FaultRelease::AtIo(number) => (None, Some(number)),
        };
        self.hung.push(Hung { io, since: self.now, until, until_io });
    }

    /// Submits the IOs that have hung long enough to the device below, oldest first.
    fn release(&mut self, now: Instant, reactor: &mut Reactor) {
        let is_over = |hung: &Hung| {
            hung.until.is_some_and(|until| until <= self.now)
                || hung.until_io.is_some_and(|number| number <= self.submitted)
        };
        if !self.hung.iter().any(is_over) {
            return;
        }
        let (over, kept) = std::mem::take(&mut self.hung).into_iter().partition(is_over);
        self.hung = kept;
        let over: Vec<Hung> = over;
        for Hung { io, since, .. } in over {
            let kept = self.now.saturating_since(since);
            self.altered.insert(io.tag, Altered { kept, ..Altered::default() });
            self.pass(now, reactor, io);
        }
    }

    /// Gives an IO to the device below. Of volatile writes a read finds the bytes, a flush has them written first, and others overwrite them.
    fn pass(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let Some(io) = self.cache.hold(self.now, io, false) else { return };
        match io.op {
            DeviceOp::Read(_) => {
                let overlay = self.cache.overlay(&io);
                self.altered.entry(io.tag).or_default().overlay = overlay;
            }
            DeviceOp::Write { .. } | DeviceOp::Discard | DeviceOp::WriteZeroes => self.cache.forget(&io),
            DeviceOp::Flush => {
                return match self.cache.begin(self.now, io) {
                    Some(flush) => self.inner.submit(now, reactor, flush),
                    None => self.write_back(now, reactor),
                };
            }
        }
        self.inner.submit(now, reactor, io);
    }

    /// Caches the data of a write, and completes it for hosts.
    fn keep(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let Some(io) = self.cache.hold(self.now, io, true) else { return };
        if !self.cache.keep(&io) {
            return self.pass(now, reactor, io);
        }
        let latency = self.altered.remove(&io.tag).unwrap_or_default().kept;
        self.done.push(ended(io, Ok(()), latency));
    }

    /// Writes the next volatile bytes to the device below; after the last ones, the flush, and the IOs that waited for it.
    fn write_back(&mut self, now: Instant, reactor: &mut Reactor) {
        if let Some((offset, bytes)) = self.cache.next_run() {
            let mut buffer = self.run.take(bytes.len()).expect("one run at a time");
            buffer.copy_from_slice(&bytes);
            let op = DeviceOp::Write { buffer, durable: false };
            let io = DeviceIo { tag: OWN, offset, length: bytes.len() as u64, op };
            return self.inner.submit(now, reactor, io);
        }
        if let Some(flush) = self.cache.end() {
            self.altered.entry(flush.io.tag).or_default().kept += self.now.saturating_since(flush.since);
            self.inner.submit(now, reactor, flush.io);
        }
        while let Some(waited) = self.cache.next_waiting() {
            self.altered.entry(waited.io.tag).or_default().kept += self.now.saturating_since(waited.since);
            match waited.is_volatile {
                true => self.keep(now, reactor, waited.io),
                false => self.pass(now, reactor, waited.io),
            }
        }
    }

    /// Goes on after a write of ours.
    fn on_written_back(&mut self, now: Instant, reactor: &mut Reactor) {
        let Some(result) = self.written_back.take() else { return };
        // The flush may have been cancelled meanwhile.
        if let Err(error) = result
            && let Some(flush) = self.cache.end()
        {
            let latency = self.now.saturating_since(flush.since);
            let done = self.on_finished(ended(flush.io, Err(error), latency));
            self.done.extend(done);
        }
        self.write_back(now, reactor);
    }

    /// Removes the device. IOs on the device below fail when they come back.
    fn vanish(&mut self) {
        self.is_gone = true;
        for hung in std::mem::take(&mut self.hung) {
            let latency = self.now.saturating_since(hung.since);
            self.fail(hung.io, gone(), latency);
        }
        for waiting in self.cache.give_up() {
            let latency = self.now.saturating_since(waiting.since);
            let done = self.on_finished(ended(waiting.io, Err(gone()), latency));
            self.done.extend(done);
        }
    }

    /// Writes some blocks of a write, never all.
    fn tear(&mut self, now: Instant, reactor: &mut Reactor, index: usize, io: DeviceIo) {
        let DeviceIo { tag, offset, op, .. } = io;
        let DeviceOp::Write { buffer, durable } = op else { unreachable!("only writes are torn") };
        let written = self.faults[index].draw(buffer.len().div_ceil(ATOM) as u64) as usize * ATOM;
        let part = if written > 0 { self.pool.take(written) } else { None };
        let Some(mut part) = part else {
            let length = buffer.len() as u64;
            let op = DeviceOp::Write { buffer, durable };
            return self.fail(DeviceIo { tag, offset, length, op }, medium(), Nanos::ZERO);
        };
        part.copy_from_slice(&buffer[..written]);
        self.altered.insert(tag, Altered { torn: Some(buffer), ..Altered::default() });
        let op = DeviceOp::Write { buffer: part, durable };
        self.pass(now, reactor, DeviceIo { tag, offset, length: written as u64, op });
    }

    /// Collects completions of the device below.
    fn collect(&mut self) {
        let mut inner = Vec::new();
        self.inner.take_finished(&mut inner);
        for one in inner {
            if one.tag == OWN {
                self.written_back = Some(one.result);
            } else {
                let done = self.on_finished(one);
                self.done.extend(done);
            }
        }
    }

    /// The result of an IO that the device below has finished; `None` if it is delayed.
    fn on_finished(&mut self, mut done: DeviceDone) -> Option<DeviceDone> {
        let Altered { delay, kept, torn, overlay } = self.altered.remove(&done.tag).unwrap_or_default();
        done.latency = done.latency + kept + delay;
        if let Some(buffer) = &mut done.buffer {
            overlay.lay_over(buffer);
        }
        if torn.is_some() {
            done.result = Err(medium());
            done.buffer = torn;
        }
        if self.is_gone {
            done.result = Err(gone());
        } else if delay > Nanos::ZERO {
            self.late.push((self.now + delay, done));
            return None;
        }
        Some(done)
    }
}

impl Device for FaultyDevice {
    fn clock(&self) -> DeviceClock {
        self.clock
    }

    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote {
        self.inner.quote(erase, offset, length, most)
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        self.now = self.clock.to_device(now);
        self.submitted += 1;
        self.release(now, reactor);
        if self.is_gone {
            return self.fail(io, gone(), Nanos::ZERO);
        }
        match self.strike(&io) {
            None => self.pass(now, reactor, io),
            Some((_, FaultKind::Volatile)) => self.keep(now, reactor, io),
            Some((_, FaultKind::Delay(delay))) => {
                self.altered.insert(io.tag, Altered { delay, ..Altered::default() });
                self.pass(now, reactor, io);
            }
            Some((_, FaultKind::Error(FaultError::Medium))) => self.fail(io, medium(), Nanos::ZERO),
            Some((_, FaultKind::Error(FaultError::NoSpace))) => self.fail(io, no_space(), Nanos::ZERO),
            Some((_, FaultKind::Hang(release))) => self.hang(io, release),
            Some((_, FaultKind::Gone)) => {
                self.vanish();
                self.fail(io, gone(), Nanos::ZERO);
            }
            Some((index, FaultKind::Torn { then_gone })) => {
                self.tear(now, reactor, index, io);
                if then_gone {
                    self.vanish();
                }
            }
            Some((_, FaultKind::Reactor)) => {
                reactor.break_down(medium());
                self.hang(io, FaultRelease::Never);
            }
        }
    }

    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        self.now = self.clock.to_device(now);
        self.inner.on_disk(now, file, tag, result, buffer);
    }

    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        self.now = self.clock.to_device(now);
        self.inner.poll(now, reactor);
        self.collect();
        self.on_written_back(now, reactor);
        self.release(now, reactor);
        let is_due = |(due, _): &mut (Instant, DeviceDone)| *due <= self.now;
        self.done.extend(self.late.extract_if(.., is_due).map(|(_, done)| done));
    }

    fn files(&self) -> Option<FileStats> {
        self.inner.files()
    }

    fn change_files(&mut self, now: Instant, reactor: &mut Reactor, change: FileChange) {
        self.inner.change_files(now, reactor, change);
    }

    fn next_wake(&self) -> Option<Instant> {
        let late = self.late.iter().map(|(due, _)| *due);
        let released = self.hung.iter().filter_map(|hung| hung.until);
        let at_once = self.written_back.is_some().then_some(self.now);
        let own = late.chain(released).chain(at_once).min().map(|at| self.clock.to_real(at));
        [own, self.inner.next_wake()].into_iter().flatten().min()
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        self.collect();
        for mut own in self.done.drain(..) {
            if self.is_gone {
                own.result = Err(gone());
            }
            done.push(own);
        }
    }
}

/// An IO that is over without the device below.
fn ended(io: DeviceIo, result: io::Result<()>, latency: Nanos) -> DeviceDone {
    let buffer = match io.op {
        DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
        DeviceOp::Flush | DeviceOp::Discard | DeviceOp::WriteZeroes => None,
    };
    DeviceDone { tag: io.tag, result, buffer, latency, late: Nanos::ZERO }
}

fn medium() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

fn gone() -> io::Error {
    io::Error::from_raw_os_error(libc::ENODEV)
}
