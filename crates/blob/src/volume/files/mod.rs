//! Files in use: handles, open files, and the removal of files that have no name.
//!
//! Elsewhere: `open_file` is a file open for writing; `append`, `send` and `sync` write its bytes.

mod durability;
mod open_file;
mod tail;
mod units;
mod usage;

pub(crate) use open_file::OpenFile;
pub(crate) use units::{UnitState, UnitWrite};

use super::Settings;
use super::journal::{Journal, Lsn};
use super::metadata::Metadata;
use super::phase::Phase;
use super::space::Space;
use crate::format::record::{Layout, Record};
use crate::task::{Gate, Spawner};
use crate::{Fault, FileId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A handle, as the caller knows it.
pub type HandleId = u64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    pub(crate) file: FileId,
    pub(crate) is_writer: bool,
}

/// The files in use; see the module.
pub(crate) struct Files {
    settings: Rc<Settings>,
    spawner: Spawner,
    phase: Rc<Phase>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    handles: RefCell<BTreeMap<HandleId, Handle>>,
    next_handle: Cell<HandleId>,
    open: RefCell<BTreeMap<FileId, OpenFile>>,
    /// Number of handles and running operations of a file, which is not removed while there are any.
    pins: RefCell<BTreeMap<FileId, u32>>,
    /// Notified when an open file has changed.
    gate: Gate,
    next_file: Cell<u32>,
}

impl Files {
    pub(crate) fn new(
        settings: Rc<Settings>,
        spawner: Spawner,
        phase: Rc<Phase>,
        metadata: Rc<Metadata>,
        journal: Rc<Journal>,
        space: Rc<Space>,
    ) -> Rc<Files> {
        Rc::new(Files {
            settings,
            spawner,
            phase,
            metadata,
            journal,
            space,
            handles: RefCell::default(),
            next_handle: Cell::default(),
            open: RefCell::default(),
            pins: RefCell::default(),
            gate: Gate::default(),
            next_file: Cell::default(),
        })
    }

    /// An identifier for a new file.
    pub(crate) fn take_id(&self) -> FileId {
        self.next_file.set(self.next_file.get() + 1);
        FileId::new(self.phase.identity().generation, self.next_file.get())
    }

    pub(crate) fn open_handle(&self, file: FileId, is_writer: bool) -> HandleId {
        self.next_handle.set(self.next_handle.get() + 1);
        let id = self.next_handle.get();
        self.handles.borrow_mut().insert(id, Handle { file, is_writer });
        self.pin(file);
        id
    }

    /// The handle with this identifier, if it is open.
    pub(crate) fn handle(&self, id: HandleId) -> Result<Handle, Fault> {
        self.handles.borrow().get(&id).copied().ok_or(Fault::BadHandle)
    }

    /// The file of a handle for writing.
    pub(crate) fn writer(&self, id: HandleId) -> Result<FileId, Fault> {
        let handle = self.handle(id)?;
        if handle.is_writer { Ok(handle.file) } else { Err(Fault::BadHandle) }
    }

    /// Forgets a handle. Its pin stays.
    pub(crate) fn close_handle(&self, id: HandleId) -> Result<(), Fault> {
        self.handles.borrow_mut().remove(&id).map(drop).ok_or(Fault::BadHandle)
    }

    pub(crate) fn pin(&self, file: FileId) {
        *self.pins.borrow_mut().entry(file).or_default() += 1;
    }

    pub(crate) fn unpin(self: &Rc<Self>, file: FileId) {
        {
            let mut pins = self.pins.borrow_mut();
            let count = pins.get_mut(&file).expect("a pin is given back once");
            *count -= 1;
            if *count > 0 {
                return;
            }
            pins.remove(&file);
        }
        self.drop_if_unused(file);
    }

    /// Changes the metadata, and frees the space that nothing refers to any more.
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
    fn drop_if_unused(self: &Rc<Self>, file: FileId) {
        let has_name = self.metadata.state().file(file).is_none_or(|entry| entry.links > 0);
        if has_name || self.pins.borrow().contains_key(&file) {
            return;
        }
        let is_idle = |open: Option<&OpenFile>| open.is_none_or(OpenFile::is_idle);
        if !is_idle(self.open.borrow().get(&file)) {
            let files = Rc::clone(self);
            self.spawner.spawn(async move {
                files.wait(file, |open| is_idle(open).then_some(())).await;
                files.drop_if_unused(file);
            });
            return;
        }
        self.forget(file);
        let Some(entry) = self.metadata.remove(file) else { return };
        let lsn = self.journal.appended();
        for extent in entry.extents {
            extent.copies.into_iter().flatten().for_each(|place| self.space.free(place, lsn));
        }
    }

    /// Opens a file for writing.
    pub(crate) fn begin_writing(&self, file: FileId) -> Result<(), Fault> {
        let (mut layout, extents, is_sealed) = {
            let state = self.metadata.state();
            let entry = state.file(file).ok_or(Fault::NotFound)?;
            (entry.layout.clone(), entry.extents.len() as u64, entry.is_sealed)
        };
        let mut all = self.open.borrow_mut();
        let open = all.entry(file).or_insert_with(|| {
            let identity = self.phase.identity();
            if is_sealed {
                // New blocks never share a micro blob with sealed ones, so that a mount need not look at the space
                // behind those.
                layout.next_block = extents * identity.geometry.micro_blocks();
            }
            OpenFile::new(file, identity, self.settings.write_max.0, layout)
        });
        open.add_writer();
        Ok(())
    }

    /// Forgets an open file: it is not written to any more, and its layout is recorded.
    pub(crate) fn forget(&self, file: FileId) {
        self.open.borrow_mut().remove(&file);
    }

    /// Whether a file is open for writing, or was and is not recorded yet.
    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.open.borrow().contains_key(&file)
    }

    /// The files that are open for writing, or were and are not recorded yet.
    pub(crate) fn open_files(&self) -> Vec<FileId> {
        self.open.borrow().keys().copied().collect()
    }

    /// Reads or changes an open file. After a change that tasks may wait for, call `notify`.
    pub(crate) fn with<T>(&self, file: FileId, work: impl FnOnce(&mut OpenFile) -> T) -> Result<T, Fault> {
        self.open.borrow_mut().get_mut(&file).map(work).ok_or(Fault::BadHandle)
    }

    /// Waits until `condition` returns a value. It gets the open file, or `None` if the file is not open any more.
    pub(crate) async fn wait<T>(
        &self,
        file: FileId,
        mut condition: impl FnMut(Option<&OpenFile>) -> Option<T>,
    ) -> T {
        self.gate.wait(|| condition(self.open.borrow().get(&file))).await
    }

    /// Waits until no task is taking a micro blob for a file.
    pub(crate) async fn extended(&self, file: FileId) {
        self.wait(file, |open| (!open.is_some_and(OpenFile::is_extending)).then_some(())).await;
    }

    /// Waits until the appends requested so far have completed.
    pub(crate) async fn appended(&self, file: FileId) {
        let Ok(last) = self.with(file, |open| open.last_append()) else { return };
        self.wait(file, |open| open.is_none_or(|open| open.has_appended(last)).then_some(())).await;
    }

    /// Wakes the tasks that wait for a change of an open file.
    pub(crate) fn notify(&self) {
        self.gate.notify();
    }

    /// The size of a file, including bytes in buffers.
    pub(crate) fn size(&self, file: FileId) -> Result<u64, Fault> {
        self.with_layout(file, |layout| layout.size)
    }

    /// Reads the current layout of a file.
    pub(crate) fn with_layout<T>(&self, file: FileId, work: impl FnOnce(&Layout) -> T) -> Result<T, Fault> {
        if let Some(open) = self.open.borrow().get(&file) {
            return Ok(work(open.layout()));
        }
        self.metadata.state().file(file).map(|entry| work(&entry.layout)).ok_or(Fault::NotFound)
    }

    /// Offset up to which the bytes of a file are on the SSDs.
    pub(crate) fn on_disk(&self, file: FileId) -> u64 {
        self.open.borrow().get(&file).map_or(u64::MAX, OpenFile::on_disk)
    }

    /// Number of micro blobs of a file, from the first on, that are not being written to.
    pub(crate) fn settled(&self, file: FileId) -> Option<u64> {
        let extents = self.metadata.extents(file)?;
        let micro_blocks = self.phase.geometry().micro_blocks();
        let open = self.open.borrow();
        Some(open.get(&file).map_or(extents, |open| open.first_open_block() / micro_blocks))
    }
}
