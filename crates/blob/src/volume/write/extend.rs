//! Takes micro blobs for a file that grows; for a log, the next one ahead of time.

use crate::format::record::Record;
use crate::steer::Data;
use crate::task::Spawner;
use crate::volume::files::Files;
use crate::volume::journal::Journal;
use crate::volume::metadata::Metadata;
use crate::volume::parts::Parts;
use crate::volume::repair_signal::RepairSignal;
use crate::volume::space::Space;
use crate::{Fault, FileId};
use std::rc::Rc;

/// Maximum number of micro blobs at the end of a file that are checked for a copy to repair.
const ENDED_MAX: usize = 8;

/// The procedure; see the module.
pub(crate) struct Extents {
    spawner: Spawner,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    files: Rc<Files>,
    repair: Rc<RepairSignal>,
}

impl Extents {
    pub(crate) fn new(parts: &Parts) -> Rc<Extents> {
        Rc::new(Extents {
            spawner: parts.spawner.clone(),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            space: Rc::clone(&parts.space),
            files: Rc::clone(&parts.files),
            repair: Rc::clone(&parts.repair),
        })
    }

    /// Takes and records the next micro blob before it is needed.
    pub(super) fn extend_ahead(self: &Rc<Self>, file: FileId, extent: u64) {
        let has = self.metadata.state().file(file).is_none_or(|entry| entry.extents.len() as u64 > extent);
        if has {
            return;
        }
        let extents = Rc::clone(self);
        self.spawner.spawn(async move {
            // If there is no space, this is reported when the space is needed.
            if extents.extend_to(file, extent).await.is_ok() {
                extents.journal.want_durable(extents.journal.appended());
            }
        });
    }

    /// Takes micro blobs until the file has this one.
    pub(super) async fn extend_to(&self, file: FileId, extent: u64) -> Result<(), Fault> {
        loop {
            self.files.extended(file).await;
            let count = self.metadata.extents(file);
            if count.is_none_or(|count| count > extent) {
                return Ok(());
            }
            let is_log = self.files.with(file, |open| {
                open.begin_extending();
                open.is_log()
            })?;
            let reserved = self.space.reserve(if is_log { Data::Log } else { Data::Bulk }).await;
            let recorded =
                reserved.map(|copies| self.files.record(&Record::Extend { file, extents: vec![copies] }));
            let _ = self.files.with(file, |open| {
                open.end_extending();
                if let Ok(lsn) = recorded {
                    open.durability_mut().need(lsn);
                }
            });
            self.files.notify();
            recorded?;
            self.repair_ended(file);
        }
    }

    /// After the file continues in another micro blob, or is closed: requests the repair of those that were being
    /// written to.
    pub(super) fn repair_ended(&self, file: FileId) {
        let state = self.metadata.state();
        let Some(entry) = state.file(file) else { return };
        if entry.extents.iter().rev().take(ENDED_MAX).any(|extent| !extent.is_whole()) {
            self.repair.set();
        }
    }
}
