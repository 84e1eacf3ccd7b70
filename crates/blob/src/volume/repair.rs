//! Repair and scrub: every micro blob has two good copies again.
//!
//! A copy that is missing or stale is made anew in another place, from the good copy, and recorded when it is complete and
//! durable. So a repair can be broken off anywhere. The micro blob that a file is being written to cannot be copied; so a file whose last micro
//! blob lacks a copy goes on in another one first (a log or a manifest may stay open for hours).
//! What lies on an SSD that has been away for too long is copied to a third target, if there is one. The copy there counts until the new one does.
//! Scrub reads and checks every copy of every block first.
//!
//! Holds: after a repair any one target may die (`tests/worlds.rs`); `a_scrub_finds_and_repairs_every_corrupt_block`.

use super::Report;
use super::check::{self, Wanted};
use super::core::Core;
use super::disks::{Sequence, WriteError};
use super::state::Extent;
use crate::format::record::{Layout, Record};
use crate::{Class, Fault, FileId, Place};
use std::rc::Rc;
use std::sync::Arc;
use units::Nanos;

/// What could not be repaired is tried again after so many times the usual delay: there may be space by then.
const AGAIN: u64 = 30;

impl Core {
    /// Repairs whenever there is something to repair, for as long as the volume is mounted.
    pub(crate) async fn keep_whole(self: Rc<Self>) {
        let mut again = None;
        loop {
            let is_due = || again.is_some_and(|at| self.clock.now() >= at);
            self.repair.wait(|| is_due() || self.phase.is_over()).await;
            if self.phase.is_over() || self.lease.is_fenced() {
                return;
            }
            self.clock.sleep(self.settings.repair_delay).await;
            self.repair.clear();
            let is_whole = self.repair().await.is_ok_and(|report| report.left == 0);
            // What is left is tried again when an SSD comes back, or later.
            again = (!is_whole).then(|| {
                let at = self.clock.now() + Nanos(self.settings.repair_delay.0.saturating_mul(AGAIN));
                self.clock.notify_at(at, self.repair.gate());
                at
            });
        }
    }

    /// The blocks of a micro blob that hold bytes of the file.
    fn wanted_blocks(&self, layout: &Layout, extent: u64) -> Vec<Wanted> {
        let (payload, micro_blocks) = (self.phase.geometry().payload(), self.phase.geometry().micro_blocks());
        let blocks = extent * micro_blocks..(extent + 1) * micro_blocks;
        blocks.filter_map(|index| check::wanted(layout, index, payload)).collect()
    }

    /// Makes every copy anew that is missing or stale, where that is possible now.
    pub(crate) async fn repair(self: &Rc<Self>) -> Result<Report, Fault> {
        self.journal.heal().await;
        let mut report = Report { left: u64::from(!self.journal.has_two_copies()), ..Report::default() };
        let files: Vec<FileId> = self.metadata.files();
        for file in files {
            self.files.pin(file);
            if self.lacks_open_copy(file) {
                // If it cannot, it is left for when the file goes on by itself.
                let _ = self.layouts.go_on(file).await;
            }
            let result = self.repair_file(file, &mut report).await;
            self.files.unpin(file);
            result?;
        }
        report.away = self.away();
        Ok(report)
    }

    /// Micro blobs with a good copy on an SSD that cannot be reached now.
    fn away(&self) -> u64 {
        let state = self.metadata.state();
        let is_away = |extent: &&Extent| {
            (0..2).any(|side| extent.good(side).is_some_and(|place| !self.space.is_up(place.ssd)))
        };
        state.files().flat_map(|(_, entry)| &entry.extents).filter(is_away).count() as u64
    }

    /// Whether a file is written to where a copy is missing, and could be written to where none is.
    fn lacks_open_copy(&self, file: FileId) -> bool {
        let Some(settled) = self.files.settled(file) else { return false };
        let state = self.metadata.state();
        let mut open =
            state.file(file).into_iter().flat_map(|entry| entry.extents.iter().skip(settled as usize));
        open.any(|extent| !extent.is_whole()) && self.space.has_pairs()
    }

    async fn repair_file(self: &Rc<Self>, file: FileId, report: &mut Report) -> Result<(), Fault> {
        let is_settled = |index| self.files.settled(file).is_some_and(|settled| index < settled);
        for index in (0..).take_while(|&index| is_settled(index)) {
            let lacking = {
                let state = self.metadata.state();
                let extent = state.file(file).and_then(|entry| entry.extents.get(index as usize));
                let Some(extent) = extent else { return Ok(()) };
                let there = |side: usize| extent.good(side).filter(|place| !self.disks.is_gone(place.ssd));
                let lacking = (0..2).find(|&side| extent.good(side).is_none());
                // Of two that are gone, both may come back.
                let lacking = lacking
                    .or_else(|| (0..2).find(|&side| there(side).is_none() && there(1 - side).is_some()));
                lacking.map(|side| (side, extent.good(1 - side)))
            };
            match lacking {
                None => {}
                Some((_, None)) => report.lost += 1,
                Some((side, Some(source))) => match self.copy_extent(file, index, source).await {
                    // The file was cut meanwhile, and may be written to here again.
                    Ok(place) if !is_settled(index) || !self.is_source(file, index, side, source) => {
                        self.space.free(place, self.journal.appended());
                    }
                    Ok(place) => {
                        let record = Record::Move { file, extent: index, side: side as u8, place };
                        let lsn = self.files.record(&record);
                        self.journal.written(lsn).await?;
                        report.repaired += 1;
                        self.counters.borrow_mut().repaired_extents += 1;
                    }
                    Err(fault @ (Fault::Fenced | Fault::LeaseUnsure)) => return Err(fault),
                    Err(Fault::Corrupt) => report.lost += 1,
                    Err(_) => report.left += 1,
                },
            }
        }
        Ok(())
    }

    /// Whether this is still the good copy of a micro blob whose other copy is missing, stale or gone.
    fn is_source(&self, file: FileId, index: u64, side: usize, source: Place) -> bool {
        let state = self.metadata.state();
        let extent = state.file(file).and_then(|entry| entry.extents.get(index as usize));
        let is_lacking = |side: usize, extent: &Extent| {
            extent.good(side).is_none_or(|place| self.disks.is_gone(place.ssd))
        };
        extent.is_some_and(|extent| extent.good(1 - side) == Some(source) && is_lacking(side, extent))
    }

    /// Copies a micro blob to a new place on another target. Durable there when this returns.
    async fn copy_extent(self: &Rc<Self>, file: FileId, index: u64, source: Place) -> Result<Place, Fault> {
        let place = self.space.reserve_copy(Some(source.ssd)).await?;
        let layout = self.files.with_layout(file, Layout::clone).unwrap_or_default();
        let wanted = self.wanted_blocks(&layout, index);
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

    /// Copies all blocks of a micro blob, also those that `WriteAt` has replaced: a mount that looks for the end of the file
    /// takes a missing block for the end.
    async fn copy_whole(
        self: &Rc<Self>,
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
                && wanted.all(|wanted| check::open(&identity, file, bytes, wanted).is_some())
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

    /// Fails if writes to this copy may have been lost in a power loss before it was read: an older version of a block looks like a good one.
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
    async fn write_copy(self: &Rc<Self>, place: Place, at: u64, bytes: Vec<u8>) -> Result<Sequence, Fault> {
        match self.disks.write(place.ssd, Class::Background, at, Arc::new(bytes)).await {
            Ok(sequence) => sequence.ok_or(Fault::Unreachable),
            Err(WriteError::Lease(fault)) => Err(fault),
            Err(WriteError::Disk(_)) => Err(Fault::Unreachable),
        }
    }

    async fn copy_blocks(
        self: &Rc<Self>,
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
            if !checked.all(|(bytes, wanted)| check::open(&identity, file, bytes, wanted).is_some()) {
                return Err(Fault::Corrupt);
            }
            let at = geometry.byte_of(place) + within;
            let sequence = self.write_copy(place, at, bytes).await?;
            (from, upto) = (from.min(sequence), upto.max(sequence));
        }
        self.disks.harden(place.ssd, from, upto).await
    }

    /// Checks every copy of every block, and repairs what is not as it was written.
    pub(crate) async fn scrub(self: &Rc<Self>) -> Result<Report, Fault> {
        let mut report = Report::default();
        let files: Vec<FileId> = self.metadata.files();
        for file in files {
            self.files.pin(file);
            let Some(settled) = self.files.settled(file) else {
                self.files.unpin(file);
                continue;
            };
            let layout = self.files.with_layout(file, Layout::clone).unwrap_or_default();
            for extent in 0..settled {
                self.scrub_extent(file, extent, &layout, &mut report).await;
            }
            self.files.unpin(file);
        }
        let repaired = self.repair().await?;
        report.repaired += repaired.repaired;
        report.left += repaired.left;
        report.lost = report.lost.max(repaired.lost);
        report.away = repaired.away;
        Ok(report)
    }

    async fn scrub_extent(self: &Rc<Self>, file: FileId, extent: u64, layout: &Layout, report: &mut Report) {
        let copies = {
            let state = self.metadata.state();
            let entry = state.file(file).and_then(|entry| entry.extents.get(extent as usize));
            let Some(entry) = entry else { return };
            [entry.good(0), entry.good(1)]
        };
        let wanted = self.wanted_blocks(layout, extent);
        let micro_blocks = self.phase.geometry().micro_blocks();
        let mut corrupt = [0u64; 2];
        for run in wanted.chunk_by(|one, next| one.index + 1 == next.index) {
            for (side, place) in copies.iter().enumerate() {
                let Some(place) = place else { continue };
                let read =
                    self.copies.read(file, Class::Background, *place, run[0].index % micro_blocks, run).await;
                report.checked +=
                    if matches!(read, Ok(_) | Err(Fault::Corrupt)) { run.len() as u64 } else { 0 };
                if read == Err(Fault::Corrupt) {
                    for wanted in run {
                        let one = std::slice::from_ref(wanted);
                        let read = self
                            .copies
                            .read(file, Class::Background, *place, wanted.index % micro_blocks, one)
                            .await;
                        corrupt[side] += u64::from(read == Err(Fault::Corrupt));
                    }
                }
            }
        }
        report.corrupt += corrupt[0] + corrupt[1];
        match corrupt {
            [0, 0] => {}
            [_, 0] => self.copies.mark_stale(file, extent, 0),
            [0, _] => self.copies.mark_stale(file, extent, 1),
            _ => report.lost += 1,
        }
    }
}
