//! The volume's metadata in memory, shared by all parts.

use super::state::{Effects, File, Misfit, State};
use crate::format::record::Record;
use crate::{FileId, Place};
use std::cell::{Ref, RefCell};

/// The shared metadata; see the module.
#[derive(Default)]
pub(crate) struct Metadata(RefCell<State>);

impl Metadata {
    /// The state. Must not be held across an await.
    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.0.borrow()
    }

    /// Sets the state that a mount has found.
    pub(crate) fn set(&self, found: State) {
        *self.0.borrow_mut() = found;
    }

    /// Applies a record. `micro_blocks` is the number of blocks of a micro blob.
    pub(crate) fn apply(&self, record: &Record, micro_blocks: u64) -> Result<Effects, Misfit> {
        self.0.borrow_mut().apply(record, micro_blocks)
    }

    /// Marks a copy that lacks data, as found by a mount. Never marks the last good copy.
    pub(crate) fn find_stale(&self, file: FileId, extent: usize, side: usize) {
        self.0.borrow_mut().find_stale(file, extent, side);
    }

    /// Forgets a file that has no name.
    pub(crate) fn remove(&self, file: FileId) -> Option<File> {
        self.0.borrow_mut().remove(file)
    }

    /// All files.
    pub(crate) fn files(&self) -> Vec<FileId> {
        self.state().files().map(|(file, _)| file).collect()
    }

    /// Number of micro blobs of a file.
    pub(crate) fn extents(&self, file: FileId) -> Option<u64> {
        self.state().file(file).map(|entry| entry.extents.len() as u64)
    }

    /// The complete copies of a micro blob, with their places.
    pub(crate) fn good_copies(&self, file: FileId, extent: u64) -> Vec<(u8, Place)> {
        let state = self.state();
        let extent = state.file(file).and_then(|entry| entry.extents.get(extent as usize));
        extent.map_or_else(Vec::new, |extent| {
            (0..2).filter_map(|side| extent.good(side).map(|place| (side as u8, place))).collect()
        })
    }
}
