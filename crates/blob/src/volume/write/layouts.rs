//! Records the layout of a file when it is cut, continues in another micro blob, or is closed.

use super::append::Appender;
use super::extend::Extents;
use super::sync::Syncer;
use crate::format::record::Record;
use crate::task::Spawner;
use crate::volume::clock::Clock;
use crate::volume::files::{Files, HandleId, OpenFile};
use crate::volume::journal::Journal;
use crate::volume::lease::Lease;
use crate::volume::metadata::Metadata;
use crate::volume::parts::Parts;
use crate::{Fault, FileId};
use std::rc::Rc;

/// Maximum number of syncs while other writers keep the file busy.
const GO_ON_TRIES: usize = 16;

/// The procedures; see the module.
pub(crate) struct Layouts {
    spawner: Spawner,
    clock: Rc<Clock>,
    lease: Rc<Lease>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    files: Rc<Files>,
    extents: Rc<Extents>,
    appender: Rc<Appender>,
    syncer: Rc<Syncer>,
}

impl Layouts {
    pub(crate) fn new(
        parts: &Parts,
        extents: &Rc<Extents>,
        appender: &Rc<Appender>,
        syncer: &Rc<Syncer>,
    ) -> Rc<Layouts> {
        Rc::new(Layouts {
            spawner: parts.spawner.clone(),
            clock: Rc::clone(&parts.clock),
            lease: Rc::clone(&parts.lease),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            files: Rc::clone(&parts.files),
            extents: Rc::clone(extents),
            appender: Rc::clone(appender),
            syncer: Rc::clone(syncer),
        })
    }

    /// Cuts the file. The change is durable once this returns.
    pub(crate) async fn truncate(&self, file: FileId, size: u64) -> Result<(), Fault> {
        self.files.appended(file).await;
        let before = self.files.size(file)?;
        if size > before {
            let zeroes = vec![0; (size - before).min(1 << 20) as usize];
            let mut left = size - before;
            while left > 0 {
                let piece = left.min(zeroes.len() as u64);
                self.appender.append(file, &zeroes[..piece as usize]).await?;
                left -= piece;
            }
            return self.syncer.flush(file).await;
        }
        self.syncer.sync(file).await?;
        let layout = self.files.with(file, |open| open.truncate(size))?;
        let lsn = self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
        self.files.with(file, |open| open.durability_mut().need(lsn))?;
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Closes a handle. All appended bytes survive a crash of this client; synced bytes are recorded as such.
    pub(crate) async fn close(self: &Rc<Self>, id: HandleId) -> Result<(), Fault> {
        let handle = self.files.handle(id)?;
        let mut result = Ok(());
        if handle.is_writer {
            result = self.syncer.flush(handle.file).await;
        }
        self.files.close_handle(id)?;
        if handle.is_writer {
            let left = self.files.with(handle.file, OpenFile::remove_writer);
            if left == Ok(0) && !self.lease.is_fenced() {
                let layouts = Rc::clone(self);
                self.files.pin(handle.file);
                self.spawner.spawn(async move {
                    // If this fails, the next mount finds the end of the file by reading it.
                    let _ = layouts.record_layout(handle.file).await;
                    layouts.files.unpin(handle.file);
                });
            }
        }
        self.files.unpin(handle.file);
        result
    }

    /// Makes a file continue in another micro blob, so that the one that was being written to can be repaired. If it is
    /// written to all the time, the file soon does so by itself.
    pub(crate) async fn go_on(&self, file: FileId) -> Result<(), Fault> {
        for _ in 0..GO_ON_TRIES {
            self.syncer.sync(file).await?;
            self.files.extended(file).await;
            let Some(layout) = self.files.with(file, OpenFile::end_micro)? else { continue };
            let lsn = self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.files.with(file, |open| open.durability_mut().need(lsn))?;
            return self.journal.written(lsn).await;
        }
        Ok(())
    }

    /// Syncs a file without writers, and records its layout.
    async fn record_layout(&self, file: FileId) -> Result<(), Fault> {
        let has_name = self.metadata.state().file(file).is_some_and(|entry| entry.links > 0);
        if !has_name {
            return Ok(());
        }
        self.syncer.sync(file).await?;
        self.files.extended(file).await;
        // Checked and recorded in one step: during the wait, the file may have been written and closed again.
        let layout = self.files.with(file, |open| open.final_layout())?;
        if let Some(mut layout) = layout
            && self.metadata.state().file(file).is_some()
        {
            layout.era = layout.next_era();
            self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.files.forget(file);
            self.extents.repair_ended(file);
        }
        Ok(())
    }
}
