//! Open files: handles, and what is known of a file beyond its recorded layout.
//!
//! ```text
//!   appended ─► tail: the block that is not full ─► full blocks ─► units on their way ─► written ─► flushed ─► recorded
//! ```

use super::core::Core;
use super::disks::Sequence;
use super::journal::Lsn;
use crate::format::record::{Layout, Record};
use crate::task::Gate;
use crate::{Class, Fault, FileId, SsdId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::Instant;

/// A handle, as the caller knows it.
pub type HandleId = u64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) file: FileId,
    pub(crate) is_writer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitState {
    Waiting,
    Sending,
    Failed(Fault),
}

/// Consecutive blocks of one micro blob that are written together.
pub(crate) struct Unit {
    pub(crate) first: u64,
    /// Offset in the file of the first byte.
    pub(crate) offset: u64,
    pub(crate) bytes: Arc<Vec<u8>>,
    /// It need not be flushed once it is written.
    pub(crate) is_durable: bool,
    pub(crate) class: Class,
    pub(crate) state: UnitState,
}

/// A unit failed on every copy; its writes may still happen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Risk {
    pub(crate) unit: u64,
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) until: Instant,
}

/// Writes to a copy of a micro blob that no flush has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unflushed {
    pub(crate) ssd: SsdId,
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    /// The connection was lost while one of them was on its way.
    pub(crate) is_lost: bool,
}

/// A file whose layout is ahead of its record.
#[derive(Default)]
pub(crate) struct Live {
    pub(crate) layout: Layout,
    /// Bytes of block `layout.next_block`, if there are any.
    pub(crate) tail: Vec<u8>,
    pub(crate) tail_offset: u64,
    /// Some bytes of the tail are in no unit.
    pub(crate) is_tail_dirty: bool,
    /// The next byte begins a new run.
    pub(crate) must_begin_run: bool,
    /// Sealed blocks that are in no unit, the first one's index and offset.
    pub(crate) full: Vec<u8>,
    pub(crate) full_first: u64,
    pub(crate) full_offset: u64,
    pub(crate) units: BTreeMap<u64, Unit>,
    pub(crate) next_unit: u64,
    pub(crate) is_sending: bool,
    pub(crate) risks: Vec<Risk>,
    /// By micro blob of the file and copy.
    pub(crate) unflushed: BTreeMap<(u64, u8), Unflushed>,
    /// Records up to here are needed to find the file as it is.
    pub(crate) lsn: Lsn,
    /// Blocks of the last micro blob are taken before it is full, so that a sync need not wait for a record.
    pub(crate) is_log: bool,
    /// Bytes that were appended since the last flush or sync.
    pub(crate) since_flush: u64,
    /// They were few the last time, so somebody waits for what is written.
    pub(crate) is_awaited: bool,
    /// A sync came behind the last flush, so one will probably come behind the next.
    pub(crate) is_synced: bool,
    /// A part that was written but never synced is lost.
    pub(crate) is_lost: bool,
    pub(crate) writers: u32,
    /// Appends end in the order in which they were asked for. So many were.
    pub(crate) appends_asked: u64,
    /// So many have ended; the others wait for room.
    pub(crate) appends_ended: u64,
    pub(crate) is_extending: bool,
}

impl Live {
    /// Bytes before this offset are on the SSDs.
    pub(crate) fn on_disk(&self) -> u64 {
        let mut least = self.layout.size;
        if self.is_tail_dirty {
            least = least.min(self.tail_offset);
        }
        if !self.full.is_empty() {
            least = least.min(self.full_offset);
        }
        self.units.values().fold(least, |least, unit| least.min(unit.offset))
    }

    /// How urgent a unit is that is cut now.
    pub(crate) fn class(&self) -> Class {
        if self.is_awaited { Class::Urgent } else { Class::Background }
    }

    pub(crate) fn bytes_in_units(&self) -> u64 {
        self.units.values().map(|unit| unit.bytes.len() as u64).sum()
    }
}

#[derive(Default)]
pub(crate) struct Files {
    pub(crate) handles: RefCell<BTreeMap<HandleId, Handle>>,
    next_handle: Cell<HandleId>,
    pub(crate) live: RefCell<BTreeMap<FileId, Live>>,
    /// Handles and running operations of a file: it is not removed while there are any.
    pins: RefCell<BTreeMap<FileId, u32>>,
    pub(crate) gate: Gate,
    pub(crate) next_file: Cell<u32>,
}

impl Core {
    pub(crate) fn open_handle(&self, file: FileId, is_writer: bool) -> HandleId {
        self.files.next_handle.set(self.files.next_handle.get() + 1);
        let id = self.files.next_handle.get();
        self.files.handles.borrow_mut().insert(id, Handle { file, is_writer });
        self.pin(file);
        id
    }

    pub(crate) fn handle(&self, id: HandleId) -> Result<Handle, Fault> {
        self.files.handles.borrow().get(&id).copied().ok_or(Fault::BadHandle)
    }

    pub(crate) fn writer(&self, id: HandleId) -> Result<FileId, Fault> {
        let handle = self.handle(id)?;
        if handle.is_writer { Ok(handle.file) } else { Err(Fault::BadHandle) }
    }

    pub(crate) fn pin(&self, file: FileId) {
        *self.files.pins.borrow_mut().entry(file).or_default() += 1;
    }

    pub(crate) fn unpin(self: &Rc<Self>, file: FileId) {
        {
            let mut pins = self.files.pins.borrow_mut();
            let count = pins.get_mut(&file).expect("a pin is given back once");
            *count -= 1;
            if *count > 0 {
                return;
            }
            pins.remove(&file);
        }
        self.drop_if_unused(file);
    }

    /// Changes the metadata, and frees what nothing refers to any more.
    pub(crate) fn record(self: &Rc<Self>, record: &Record) -> Lsn {
        let (lsn, effects) = self.journal.record(record);
        for place in effects.freed {
            self.space.free(place, lsn);
        }
        if let Some(file) = effects.unlinked {
            self.drop_if_unused(file);
        }
        lsn
    }

    /// Frees a file that has neither a name nor a handle.
    pub(crate) fn drop_if_unused(self: &Rc<Self>, file: FileId) {
        let has_name = self.metadata.state().file(file).is_none_or(|entry| entry.links > 0);
        if has_name || self.files.pins.borrow().contains_key(&file) {
            return;
        }
        let is_sending = self.files.live.borrow().get(&file).is_some_and(|live| {
            live.units.values().any(|unit| unit.state == UnitState::Sending) || live.is_extending
        });
        if is_sending {
            let core = Rc::clone(self);
            self.spawner.spawn(async move {
                core.files
                    .gate
                    .wait(|| {
                        let live = core.files.live.borrow();
                        let is_idle = live.get(&file).is_none_or(|live| {
                            !live.is_extending
                                && live.units.values().all(|unit| unit.state != UnitState::Sending)
                        });
                        is_idle.then_some(())
                    })
                    .await;
                core.drop_if_unused(file);
            });
            return;
        }
        self.files.live.borrow_mut().remove(&file);
        let Some(entry) = self.metadata.remove(file) else { return };
        let lsn = self.journal.appended();
        for extent in entry.extents {
            extent.copies.into_iter().flatten().for_each(|place| self.space.free(place, lsn));
        }
    }

    pub(crate) fn size(&self, file: FileId) -> Result<u64, Fault> {
        if let Some(live) = self.files.live.borrow().get(&file) {
            return Ok(live.layout.size);
        }
        self.metadata.state().file(file).map(|entry| entry.layout.size).ok_or(Fault::NotFound)
    }

    pub(crate) fn with_live<T>(&self, file: FileId, work: impl FnOnce(&mut Live) -> T) -> Result<T, Fault> {
        self.files.live.borrow_mut().get_mut(&file).map(work).ok_or(Fault::BadHandle)
    }
}
