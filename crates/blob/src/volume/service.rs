//! Carries out requests: maps each to its procedure, and puts the procedures together.

use super::copies::Copies;
use super::files::Files;
use super::journal::Journal;
use super::metadata::Metadata;
use super::mount::{EndFinder, MetadataFinder, Mounter};
use super::names::Names;
use super::parts::Parts;
use super::phase::Phase;
use super::rack::Rack;
use super::read::Reader;
use super::repair::{Copier, Repairer, Scrubber};
use super::space::Space;
use super::state::Extent;
use super::write::{Appender, Extents, Layouts, Sender, Syncer};
use super::{Counters, Outcome, Request, Shown};
use crate::{Fault, FileId};
use std::rc::Rc;

/// All procedures of a volume; see the module.
pub(crate) struct Service {
    phase: Rc<Phase>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    files: Rc<Files>,
    copies: Rc<Copies>,
    appender: Rc<Appender>,
    syncer: Rc<Syncer>,
    layouts: Rc<Layouts>,
    names: Rc<Names>,
    reader: Rc<Reader>,
    repairer: Rc<Repairer>,
    scrubber: Rc<Scrubber>,
    mounter: Rc<Mounter>,
}

impl Service {
    pub(crate) fn new(parts: &Parts) -> Rc<Service> {
        let copies = Copies::new(parts);
        let extents = Extents::new(parts);
        let sender = Sender::new(parts, &extents, &copies);
        let appender = Appender::new(parts, &sender);
        let syncer = Syncer::new(parts, &copies, &sender);
        let layouts = Layouts::new(parts, &extents, &appender, &syncer);
        let names = Names::new(parts, &layouts);
        let reader = Reader::new(parts, &copies, &syncer);
        let repairer = Repairer::new(parts, &layouts, &Copier::new(parts));
        let scrubber = Scrubber::new(parts, &copies, &repairer);
        let (rack, metadata, ends) = (Rack::new(parts), MetadataFinder::new(parts), EndFinder::new(parts));
        let mounter = Mounter::new(parts, &rack, &metadata, &ends, &syncer, &repairer);
        Rc::new(Service {
            phase: Rc::clone(&parts.phase),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            space: Rc::clone(&parts.space),
            files: Rc::clone(&parts.files),
            copies,
            appender,
            syncer,
            layouts,
            names,
            reader,
            repairer,
            scrubber,
            mounter,
        })
    }

    /// Serves a request.
    pub(crate) async fn serve(&self, request: Request) -> Result<Outcome, Fault> {
        match request {
            Request::Mount => self.mounter.mount().await.map(|()| Outcome::Done),
            _ if !self.phase.is_mounted() => Err(Fault::NotMounted),
            Request::Create { path } => {
                self.names.create(&path).await.map(|handle| Outcome::Opened { handle, size: 0 })
            }
            Request::Reopen { path } => {
                let handle = self.names.reopen(&path).await?;
                Ok(Outcome::Opened { handle, size: self.files.size(self.files.handle(handle)?.file)? })
            }
            Request::Open { path } => {
                self.names.open(&path).map(|(handle, size)| Outcome::Opened { handle, size })
            }
            Request::Append { handle, bytes } => {
                self.appender.append(self.files.writer(handle)?, &bytes).await.map(|()| Outcome::Done)
            }
            Request::WriteAt { handle, offset, bytes } => self
                .appender
                .write_at(self.files.writer(handle)?, offset, &bytes)
                .await
                .map(|()| Outcome::Done),
            Request::Flush { handle } => {
                self.syncer.flush(self.files.writer(handle)?).await.map(|()| Outcome::Done)
            }
            Request::Sync { handle } => {
                self.syncer.sync(self.files.writer(handle)?).await.map(|()| Outcome::Done)
            }
            Request::Truncate { handle, size } => {
                self.layouts.truncate(self.files.writer(handle)?, size).await.map(|()| Outcome::Done)
            }
            Request::Close { handle } => self.layouts.close(handle).await.map(|()| Outcome::Done),
            Request::Read { handle, offset, length, class } => {
                let file = self.files.handle(handle)?.file;
                self.files.pin(file);
                self.files.appended(file).await;
                let result = self.reader.read(file, class, offset, length).await;
                self.files.unpin(file);
                result.map(Outcome::Bytes)
            }
            Request::Size { handle } => {
                let file = self.files.handle(handle)?.file;
                self.files.appended(file).await;
                self.files.size(file).map(Outcome::Size)
            }
            Request::Rename { from, to } => self.names.rename(&from, &to).await.map(|()| Outcome::Done),
            Request::Unlink { path } => self.names.unlink(&path).await.map(|()| Outcome::Done),
            Request::Link { from, to } => self.names.link(&from, &to).await.map(|()| Outcome::Done),
            Request::MakeDir { path } => self.names.make_dir(&path).await.map(|()| Outcome::Done),
            Request::RemoveDir { path } => self.names.remove_dir(&path).await.map(|()| Outcome::Done),
            Request::List { path } => self.names.list(&path),
            Request::Stat { path } => self.names.stat(&path).await.map(Outcome::Stat),
            Request::Free => self.space.free_bytes().await.map(Outcome::Size),
            Request::SyncNames => self.names.sync_names().await.map(|()| Outcome::Done),
            Request::Repair => self.repairer.repair().await.map(Outcome::Report),
            Request::Scrub => self.scrubber.scrub().await.map(Outcome::Report),
            Request::Show => Ok(Outcome::Shown(Box::new(self.show()))),
            Request::Unmount => self.mounter.unmount().await.map(|()| Outcome::Done),
        }
    }

    fn show(&self) -> Shown {
        let ids: Vec<FileId> = self.metadata.files();
        let bytes = ids.iter().filter_map(|file| self.files.size(*file).ok()).sum();
        let state = self.metadata.state();
        let extents = state.files().flat_map(|(_, file)| &file.extents);
        let good = |extent: &Extent| (0..2).filter(|&side| extent.good(side).is_some()).count();
        let (checkpoints, metadata_copies_lost) = self.journal.counts();
        let counters = Counters {
            checkpoints,
            metadata_copies_lost,
            degraded_extents: self.space.degraded(),
            stale_copies: self.copies.stale(),
            corrupt_blocks: self.reader.corrupt(),
            repaired_extents: self.repairer.repaired(),
        };
        Shown {
            files: ids.len() as u64,
            bytes,
            extents: extents.clone().count() as u64,
            degraded: extents.clone().filter(|extent| good(extent) == 1).count() as u64,
            lost: extents.filter(|extent| good(extent) == 0).count() as u64,
            metadata_copies: self.journal.count_copies(),
            ssds_up: self.space.count_up(),
            micros: self.space.micros(),
            counters,
        }
    }
}
