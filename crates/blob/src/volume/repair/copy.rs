//! Makes a new copy of a micro blob in another place, from the good copy.

use crate::format::record::Layout;
use crate::volume::Settings;
use crate::volume::check::{self, Wanted};
use crate::volume::disks::{Disks, Sequence, WriteError};
use crate::volume::files::Files;
use crate::volume::journal::Journal;
use crate::volume::metadata::Metadata;
use crate::volume::parts::Parts;
use crate::volume::phase::Phase;
use crate::volume::space::Space;
use crate::{Class, Fault, FileId, Place};
use std::rc::Rc;
use std::sync::Arc;

/// The procedure; see the module.
pub(crate) struct Copier {
    settings: Rc<Settings>,
    phase: Rc<Phase>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    files: Rc<Files>,
}

impl Copier {
    pub(crate) fn new(parts: &Parts) -> Rc<Copier> {
        Rc::new(Copier {
            settings: Rc::clone(&parts.settings),
            phase: Rc::clone(&parts.phase),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            space: Rc::clone(&parts.space),
            files: Rc::clone(&parts.files),
        })
    }

    /// Copies a micro blob to a new place on another target. The copy is durable once this returns.
    pub(super) async fn copy(&self, file: FileId, index: u64, source: Place) -> Result<Place, Fault> {
        let place = self.space.reserve_copy(Some(source.ssd)).await?;
        let layout = self.files.with_layout(file, Layout::clone).unwrap_or_default();
        let wanted = check::wanted_blocks(&layout, index, &self.phase.geometry());
        let result = match self.is_walked(file, index) {
            true => self.copy_whole(file, index, &wanted, source, place).await,
            false => self.copy_blocks(file, &wanted, source, place).await,
        };
        if let Err(fault) = result {
            self.space.free(place, self.journal.appended());
            return Err(fault);
        }
        Ok(place)
    }

    /// Whether a mount would look for the end of the file in this micro blob.
    fn is_walked(&self, file: FileId, index: u64) -> bool {
        let micro_blocks = self.phase.geometry().micro_blocks();
        let state = self.metadata.state();
        state
            .file(file)
            .is_some_and(|entry| !entry.is_sealed && index >= entry.layout.next_block.div_ceil(micro_blocks))
    }

    /// Copies all blocks of a micro blob, including those that `WriteAt` has replaced, because a mount that looks for
    /// the end of the file takes a missing block for the end.
    /// takes a missing block for the end.
    async fn copy_whole(
        &self,
        file: FileId,
        index: u64,
        wanted: &[Wanted],
        source: Place,
        place: Place,
    ) -> Result<(), Fault> {
        let (identity, geometry) = (self.phase.identity(), self.phase.geometry());
        let era = self.metadata.state().file(file).map_or(0, |entry| entry.layout.era);
        let bytes = self.disks.read_micro(Class::Background, source).await.map_err(|_| Fault::Unreachable)?;
        self.trust(file, index, source).await?;
        let mut blocks = (index * geometry.micro_blocks()..).zip(bytes.chunks(geometry.block as usize));
        let is_good = |(index, bytes): (u64, &[u8])| {
            let mut wanted = wanted.iter().filter(|wanted| wanted.index == index);
            check::is_block(&identity, file, bytes, index, era)
                && wanted.all(|wanted| check::is_wanted(&identity, file, bytes, wanted))
        };
        if !blocks.all(is_good) {
            return Err(Fault::Corrupt);
        }
        let (mut at, mut first, mut last) = (geometry.byte_of(place), Sequence::MAX, 0);
        for piece in bytes.chunks(self.settings.write_max.0 as usize) {
            let sequence = self.write_copy(place, at, piece.to_vec()).await?;
            (first, last) = (first.min(sequence), last.max(sequence));
            at += piece.len() as u64;
        }
        self.disks.harden(place.ssd, first, last).await
    }

    /// Fails if writes to this copy may have been lost in a power loss before it was read, because an older version of
    /// a block looks valid.
    async fn trust(&self, file: FileId, index: u64, place: Place) -> Result<(), Fault> {
        let unflushed = self.files.with(file, |open| open.durability().unflushed_on(index, place.ssd));
        let Ok(Some(entry)) = unflushed else { return Ok(()) };
        if entry.is_lost {
            Err(Fault::Unreachable)
        } else {
            self.disks.harden(place.ssd, entry.first, entry.last).await
        }
    }

    /// Writes a part of a new copy.
    async fn write_copy(&self, place: Place, at: u64, bytes: Vec<u8>) -> Result<Sequence, Fault> {
        match self.disks.write(place.ssd, Class::Background, at, Arc::new(bytes)).await {
            Ok(sequence) => sequence.ok_or(Fault::Unreachable),
            Err(WriteError::Lease(fault)) => Err(fault),
            Err(WriteError::Disk(_)) => Err(Fault::Unreachable),
        }
    }

    async fn copy_blocks(
        &self,
        file: FileId,
        wanted: &[Wanted],
        source: Place,
        place: Place,
    ) -> Result<(), Fault> {
        let (identity, geometry) = (self.phase.identity(), self.phase.geometry());
        let block = u64::from(geometry.block);
        let (mut from, mut upto) = (u64::MAX, 0);
        for run in wanted.chunk_by(|one, next| one.index + 1 == next.index) {
            let within = run[0].index % geometry.micro_blocks() * block;
            let length = run.len() as u32 * geometry.block;
            let read = self
                .disks
                .read(source.ssd, Class::Background, geometry.byte_of(source) + within, length)
                .await;
            let bytes = read.map_err(|_| Fault::Unreachable)?;
            let mut checked = bytes.chunks(block as usize).zip(run);
            if !checked.all(|(bytes, wanted)| check::is_wanted(&identity, file, bytes, wanted)) {
                return Err(Fault::Corrupt);
            }
            let at = geometry.byte_of(place) + within;
            let sequence = self.write_copy(place, at, bytes).await?;
            (from, upto) = (from.min(sequence), upto.max(sequence));
        }
        self.disks.harden(place.ssd, from, upto).await
    }
}
