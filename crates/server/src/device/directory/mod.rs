//! A directory as one device: each namespace is a file in it.
//!
//! ```text
//!   offset of the device = slot of the file ║ offset in the file        (46 bits)
//!   DirectoryDevice ── slot ──► FileDevice ──► reactor
//! ```
//!
//! So a namespace lies at a place of the device like on any other kind, and the switch, the scheduler and the placement of namespaces know
//! nothing of files. The file is opened when the namespace comes, and found by its slot, an index, for an IO.
//!
//! A *hold* is for a snapshot: changes of one file wait, those on their way are waited for, and others go on. A hold ends by itself after its time
//! limit, whatever the thread does that has asked for it.
//!
//! Holds: while a hold is in force no change of the file is on its way, and all that waited goes on in order
//!        (`a_snapshot_under_load_is_a_point_in_time` in `tests/directory.rs`).
//! Elsewhere: the files are the `pool`'s; what it remembers is the `register`; which directory is accepted is `opening` and `trial`; what is removed is `removal`; copies at a point in
//!            time are `snapshot`.

mod opening;
mod pool;
mod register;
mod removal;
mod snapshot;
#[cfg(test)]
mod tests;
mod trial;

pub(super) use opening::PoolOptions;
pub use pool::Room;
pub(crate) use pool::{Pool, Wanted, file_name};
pub use snapshot::{Snapshot, SnapshotError};
pub(crate) use snapshot::{Taking, expect_name as expect_snapshot_name};

use super::file::FileDevice;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, Quote};
use crate::device::erase::BYTES_PER_HOLE_BYTE;
use crate::stats::FileStats;
use reactor::{IoBuffer, Reactor, Token};
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::mpsc::Sender;
use units::{Bytes, Instant, Nanos};

/// log2 of the bytes of the device that each file has; it uses the lower half.
const SLOT_LOG2: u32 = 46;
/// The largest file: half of what it has, so that a place between two files belongs to the second one.
pub(crate) const FILE_MAX: Bytes = Bytes(1 << (SLOT_LOG2 - 1));
/// The most files of one directory.
const SLOTS_MAX: usize = 1 << (u64::BITS - SLOT_LOG2);

/// Where on the device the file of a slot begins.
pub(crate) fn offset_of(slot: usize) -> u64 {
    (slot as u64) << SLOT_LOG2
}

fn slot_of(offset: u64) -> usize {
    (offset >> SLOT_LOG2) as usize
}

/// A change of the files of a directory that is a device.
#[derive(Debug)]
pub(crate) enum FileChange {
    /// A file is in use from now on.
    Attach {
        /// Its slot, which is free.
        slot: usize,
        /// The file.
        file: File,
        /// Its name, for the log.
        name: String,
    },
    /// A file that has no IOs is closed.
    Detach {
        /// Its slot.
        slot: usize,
    },
    /// Changes of a file wait from now on.
    Hold {
        /// Its slot.
        slot: usize,
        /// Then the hold ends by itself.
        limit: Nanos,
        /// Told when no change is on its way any more.
        quiet: Sender<()>,
    },
    /// They go on.
    Release {
        /// The slot of the file.
        slot: usize,
        /// Told how long they have waited; `None` if the hold had ended before.
        held: Sender<Option<Nanos>>,
    },
}

/// Changes of a file that wait.
struct Hold {
    since: Instant,
    until: Instant,
    /// Taken when told.
    quiet: Option<Sender<()>>,
    waiting: VecDeque<DeviceIo>,
}

struct Place {
    file: FileDevice,
    hold: Option<Hold>,
    /// Whether it is in the list of files with something to collect.
    is_touched: bool,
}

/// A flush of all files.
struct WholeFlush {
    tag: u64,
    left: usize,
    done: DeviceDone,
}

/// See the module.
pub(crate) struct DirectoryDevice {
    name: String,
    places: Vec<Option<Place>>,
    slots: HashMap<Token, usize>,
    /// Files with something to collect, or to submit again.
    touched: Vec<usize>,
    /// Files whose changes wait.
    held: Vec<usize>,
    whole_flushes: Vec<WholeFlush>,
    done: Vec<DeviceDone>,
    stats: FileStats,
}

impl DirectoryDevice {
    /// The device called `name`, without files.
    pub(super) fn new(name: &str) -> DirectoryDevice {
        DirectoryDevice {
            name: name.to_owned(),
            places: Vec::new(),
            slots: HashMap::new(),
            touched: Vec::new(),
            held: Vec::new(),
            whole_flushes: Vec::new(),
            done: Vec::new(),
            stats: FileStats::default(),
        }
    }

    fn touch(&mut self, slot: usize) {
        if let Some(Some(place)) = self.places.get_mut(slot)
            && !place.is_touched
        {
            place.is_touched = true;
            self.touched.push(slot);
        }
    }

    /// Starts an IO in a file that has it.
    fn give(&mut self, now: Instant, reactor: &mut Reactor, slot: usize, io: DeviceIo) {
        let Some(Some(place)) = self.places.get_mut(slot) else {
            let gone = io::Error::from_raw_os_error(libc::ENODEV);
            return self.done.push(ended(io, Err(gone)));
        };
        place.file.submit(now, reactor, DeviceIo { offset: io.offset - offset_of(slot), ..io });
        self.touch(slot);
    }

    fn flush_all(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let slots: Vec<usize> = (0..self.places.len()).filter(|slot| self.places[*slot].is_some()).collect();
        let tag = io.tag;
        let done = ended(io, Ok(()));
        if slots.is_empty() {
            return self.done.push(done);
        }
        self.whole_flushes.push(WholeFlush { tag, left: slots.len(), done });
        for slot in slots {
            let io = DeviceIo { tag, offset: offset_of(slot), length: 0, op: DeviceOp::Flush };
            self.give(now, reactor, slot, io);
        }
    }

    fn attach(&mut self, reactor: &mut Reactor, slot: usize, file: File, name: &str) -> io::Result<()> {
        let file = FileDevice::start(file, &format!("{} ({name})", self.name), reactor)?;
        self.slots.insert(file.token(), slot);
        if self.places.len() <= slot {
            self.places.resize_with(slot + 1, || None);
        }
        self.places[slot] = Some(Place { file, hold: None, is_touched: false });
        Ok(())
    }

    /// Tells who waits for it that no change of the file is on its way.
    fn tell_if_quiet(&mut self, slot: usize) {
        if let Some(Some(Place { file, hold: Some(hold), .. })) = self.places.get_mut(slot)
            && !file.is_changing()
            && let Some(quiet) = hold.quiet.take()
        {
            // The one who asked may have given up.
            let _ = quiet.send(());
        }
    }

    /// Ends a hold. Returns how long it was.
    fn release(&mut self, now: Instant, reactor: &mut Reactor, slot: usize) -> Option<Nanos> {
        let Some(Some(place)) = self.places.get_mut(slot) else { return None };
        let hold = place.hold.take()?;
        self.held.retain(|other| *other != slot);
        hold.waiting.into_iter().for_each(|io| self.give(now, reactor, slot, io));
        let held = now.saturating_since(hold.since);
        self.stats.holds += 1;
        self.stats.held += held;
        Some(held)
    }

    /// Collects from a file.
    fn collect(&mut self, slot: usize) {
        let Some(Some(place)) = self.places.get_mut(slot) else { return };
        place.is_touched = false;
        let first = self.done.len();
        place.file.take_finished(&mut self.done);
        let (is_refused, is_held) = (place.file.is_refused(), place.hold.is_some());
        if is_refused {
            self.touch(slot);
        }
        if is_held {
            self.tell_if_quiet(slot);
        }
        if !self.whole_flushes.is_empty() {
            self.collect_flushes(first);
        }
    }

    /// Takes the parts of flushes of all files out of what has ended.
    fn collect_flushes(&mut self, first: usize) {
        let ended = self.done.split_off(first);
        for part in ended {
            let Some(index) = self.whole_flushes.iter().position(|flush| flush.tag == part.tag) else {
                self.done.push(part);
                continue;
            };
            let flush = &mut self.whole_flushes[index];
            flush.left -= 1;
            flush.done.latency = flush.done.latency.max(part.latency);
            if flush.done.result.is_ok() {
                flush.done.result = part.result;
            }
            if flush.left == 0 {
                self.done.push(self.whole_flushes.swap_remove(index).done);
            }
        }
    }
}

impl Device for DirectoryDevice {
    fn clock(&self) -> DeviceClock {
        DeviceClock::REAL
    }

    fn quote(&self, _erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        Quote::in_proportion(BYTES_PER_HOLE_BYTE, length, most)
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        // A read of a scheduler's own lies before the last one of a tenant, perhaps before the begin of its file.
        let is_before = io.offset - offset_of(slot_of(io.offset)) >= FILE_MAX.get();
        let offset = if is_before { offset_of(slot_of(io.offset) + 1) } else { io.offset };
        let io = DeviceIo { offset, ..io };
        let slot = slot_of(io.offset);
        match io.op {
            DeviceOp::Flush if io.length == 0 => return self.flush_all(now, reactor, io),
            DeviceOp::Flush | DeviceOp::Read(_) => {}
            DeviceOp::Write { .. } | DeviceOp::Discard | DeviceOp::WriteZeroes => {
                if !self.held.is_empty()
                    && let Some(Some(Place { hold: Some(hold), .. })) = self.places.get_mut(slot)
                {
                    return hold.waiting.push_back(io);
                }
            }
        }
        self.give(now, reactor, slot, io);
    }

    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        let slot = self.slots[&file];
        let place = self.places[slot].as_mut().expect("a file has no IOs when it is closed");
        place.file.on_disk(now, file, tag, result, buffer);
        self.touch(slot);
    }

    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        for index in 0..self.touched.len() {
            if let Some(place) = &mut self.places[self.touched[index]] {
                place.file.poll(now, reactor);
            }
        }
        let is_over = |slot: &usize| {
            let hold = self.places[*slot].as_ref().and_then(|place| place.hold.as_ref());
            hold.is_some_and(|hold| hold.until <= now)
        };
        let over: Vec<usize> = self.held.iter().copied().filter(is_over).collect();
        for slot in over {
            self.stats.expired += 1;
            self.release(now, reactor, slot);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let until = |slot: &usize| Some(self.places[*slot].as_ref()?.hold.as_ref()?.until);
        self.held.iter().filter_map(until).min()
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.drain(..).for_each(|slot| self.collect(slot));
        // Those that were touched again; the memory stays.
        touched.append(&mut self.touched);
        self.touched = touched;
        done.append(&mut self.done);
    }

    fn files(&self) -> Option<FileStats> {
        Some(FileStats { files: self.slots.len(), ..self.stats })
    }

    fn change_files(&mut self, now: Instant, reactor: &mut Reactor, change: FileChange) {
        match change {
            FileChange::Attach { slot, file, name } => {
                if let Err(error) = self.attach(reactor, slot, file, &name) {
                    tracing::error!(
                        device = %self.name, file = name, %error,
                        "the file cannot be used: IOs of its namespace fail; reload when that is repaired"
                    );
                }
            }
            FileChange::Detach { slot } => {
                self.release(now, reactor, slot);
                if let Some(place) = self.places.get_mut(slot).and_then(Option::take) {
                    self.slots.remove(&place.file.token());
                    reactor.close(place.file.token());
                }
            }
            FileChange::Hold { slot, limit, quiet } => {
                let Some(Some(place)) = self.places.get_mut(slot) else { return };
                // An earlier one that was given up. It ends by itself.
                if place.hold.is_some() {
                    return;
                }
                let (until, quiet) = (now + limit, Some(quiet));
                place.hold = Some(Hold { since: now, until, quiet, waiting: VecDeque::new() });
                self.held.push(slot);
                self.tell_if_quiet(slot);
            }
            // The one who asked may have given up.
            FileChange::Release { slot, held } => drop(held.send(self.release(now, reactor, slot))),
        }
    }
}

/// An IO that is over without a file.
fn ended(io: DeviceIo, result: io::Result<()>) -> DeviceDone {
    let buffer = match io.op {
        DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
        DeviceOp::Flush | DeviceOp::Discard | DeviceOp::WriteZeroes => None,
    };
    DeviceDone { tag: io.tag, result, buffer, latency: Nanos::ZERO, late: Nanos::ZERO }
}
