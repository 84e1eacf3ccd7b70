//! The volatile cache of a device: writes that a power loss would take, until the next flush.
//!
//! ```text
//!   write ──► sectors ──flush──► writes to the device below, one run at a time ──► its own flush
//!                │
//!   read ◄── laid over the data read from the device below
//! ```
//!
//! The cache is in the memory of the target, so its data is lost when the process is killed: that is the power loss. While it is written
//! back, other changes of the device wait.
//!
//! Holds: a read finds the latest write, and after a flush the device below has it (`tests/bad_devices/volatile.rs`).

use crate::device::{DeviceIo, DeviceOp};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use units::Instant;

/// Unit of cached data: the smallest block of a namespace.
const SECTOR: u64 = 512;
/// Upper bound for cached sectors (64 MiB); other writes go to the device below, as with an SSD whose cache is full.
const SECTORS_MAX: usize = (64 << 20) / SECTOR as usize;
/// Sectors that are written back at once, at most.
const RUN_SECTORS: u64 = 256;
/// The same in bytes.
pub(super) const RUN_MAX: u64 = RUN_SECTORS * SECTOR;

/// Bytes that a read must find, and where they belong in its buffer.
#[derive(Default)]
pub(super) struct Overlay(Vec<(usize, Box<[u8]>)>);

impl Overlay {
    pub(super) fn lay_over(&self, buffer: &mut [u8]) {
        for (at, bytes) in &self.0 {
            buffer[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// An IO that waits for the end of a flush, or the flush itself.
pub(super) struct Waiting {
    pub(super) io: DeviceIo,
    pub(super) since: Instant,
    /// Whether it is to be kept.
    pub(super) is_volatile: bool,
}

struct WritingBack {
    flush: Waiting,
    /// The first sector that is not yet written back.
    next: u64,
}

#[derive(Default)]
pub(super) struct Cache {
    sectors: BTreeMap<u64, Box<[u8]>>,
    writing_back: Option<WritingBack>,
    waiting: VecDeque<Waiting>,
}

/// The sectors of an IO. Namespaces have blocks of whole sectors.
fn sectors_of(io: &DeviceIo) -> Range<u64> {
    io.offset / SECTOR..(io.offset + io.length) / SECTOR
}

impl Cache {
    /// Caches the data of a write, if there is space.
    pub(super) fn keep(&mut self, io: &DeviceIo) -> bool {
        let DeviceOp::Write { buffer, durable: false } = &io.op else { return false };
        let sectors = sectors_of(io);
        if self.sectors.len() + buffer.len() / SECTOR as usize > SECTORS_MAX {
            return false;
        }
        self.sectors.extend(sectors.zip(buffer.chunks(SECTOR as usize).map(Box::from)));
        true
    }

    /// Drops cached data of a range that was overwritten.
    pub(super) fn forget(&mut self, io: &DeviceIo) {
        // Of a discard hardly any are kept.
        let kept: Vec<u64> = self.sectors.range(sectors_of(io)).map(|(sector, _)| *sector).collect();
        for sector in kept {
            self.sectors.remove(&sector);
        }
    }

    pub(super) fn overlay(&self, io: &DeviceIo) -> Overlay {
        let kept = self.sectors.range(sectors_of(io));
        Overlay(kept.map(|(sector, bytes)| ((sector * SECTOR - io.offset) as usize, bytes.clone())).collect())
    }

    /// Takes an IO that has to wait for the end of a flush; gives back one that has not.
    pub(super) fn hold(&mut self, since: Instant, io: DeviceIo, is_volatile: bool) -> Option<DeviceIo> {
        if self.writing_back.is_none() || matches!(io.op, DeviceOp::Read(_)) {
            return Some(io);
        }
        self.waiting.push_back(Waiting { io, since, is_volatile });
        None
    }

    /// An IO that has waited, and need not any more.
    pub(super) fn next_waiting(&mut self) -> Option<Waiting> {
        if self.writing_back.is_some() { None } else { self.waiting.pop_front() }
    }

    /// Begins to write back, for a flush; gives it back if nothing is kept.
    pub(super) fn begin(&mut self, since: Instant, flush: DeviceIo) -> Option<DeviceIo> {
        if self.sectors.is_empty() {
            return Some(flush);
        }
        let flush = Waiting { io: flush, since, is_volatile: false };
        self.writing_back = Some(WritingBack { flush, next: 0 });
        None
    }

    /// The next run to write back, with its place; `None` after the last one.
    pub(super) fn next_run(&mut self) -> Option<(u64, Vec<u8>)> {
        let writing_back = self.writing_back.as_mut()?;
        let (&first, _) = self.sectors.range(writing_back.next..).next()?;
        let rest = self.sectors.range(first..first + RUN_SECTORS);
        let run = (first..).zip(rest).take_while(|(expected, (sector, _))| expected == *sector);
        let bytes = run.flat_map(|(_, (_, bytes))| bytes.iter().copied()).collect::<Vec<u8>>();
        writing_back.next = first + bytes.len() as u64 / SECTOR;
        Some((first * SECTOR, bytes))
    }

    /// The flush for which all was written back, or something could not be. Nothing is kept any more.
    pub(super) fn end(&mut self) -> Option<Waiting> {
        self.sectors.clear();
        self.writing_back.take().map(|ended| ended.flush)
    }

    /// Ends the cache with its device. Returns the IOs that wait.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.end().into_iter().chain(std::mem::take(&mut self.waiting))
    }
}
