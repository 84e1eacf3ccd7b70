//! Repair and scrub: restore two good copies of every micro blob.
//!
//! A copy that is missing or stale is replaced by a new one in another place, made from the good copy, and recorded
//! when it is complete and durable. So a repair can be interrupted anywhere. A micro blob that is being written to
//! cannot be copied. So a file whose last micro blob lacks a copy first continues in another one (a log or a manifest
//! may stay open for hours). Micro blobs on an SSD that has been away for too long are copied to a third target, if
//! there is one; the old copy counts until the new one is recorded. A scrub first reads and checks every copy of every
//! block.
//!
//! Holds: after a repair any one target may die (`tests/worlds.rs`); `a_scrub_finds_and_repairs_every_corrupt_block`.

mod copy;
mod scrub;

pub(crate) use copy::Copier;
pub(crate) use scrub::Scrubber;

use super::clock::Clock;
use super::disks::Disks;
use super::files::Files;
use super::journal::Journal;
use super::lease::Lease;
use super::metadata::Metadata;
use super::parts::Parts;
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use super::space::Space;
use super::state::Extent;
use super::write::Layouts;
use super::{Report, Settings};
use crate::format::record::Record;
use crate::{Fault, FileId, Place};
use std::cell::Cell;
use std::rc::Rc;
use units::Nanos;

/// Delay before a failed repair is tried again, in units of the usual delay: there may be space by then.
const AGAIN: u64 = 30;

/// The procedure of repair; see the module.
pub(crate) struct Repairer {
    settings: Rc<Settings>,
    clock: Rc<Clock>,
    phase: Rc<Phase>,
    lease: Rc<Lease>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    journal: Rc<Journal>,
    space: Rc<Space>,
    files: Rc<Files>,
    repair: Rc<RepairSignal>,
    layouts: Rc<Layouts>,
    copier: Rc<Copier>,
    /// Number of copies that were replaced.
    repaired: Cell<u64>,
}

impl Repairer {
    pub(crate) fn new(parts: &Parts, layouts: &Rc<Layouts>, copier: &Rc<Copier>) -> Rc<Repairer> {
        Rc::new(Repairer {
            settings: Rc::clone(&parts.settings),
            clock: Rc::clone(&parts.clock),
            phase: Rc::clone(&parts.phase),
            lease: Rc::clone(&parts.lease),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            journal: Rc::clone(&parts.journal),
            space: Rc::clone(&parts.space),
            files: Rc::clone(&parts.files),
            repair: Rc::clone(&parts.repair),
            layouts: Rc::clone(layouts),
            copier: Rc::clone(copier),
            repaired: Cell::default(),
        })
    }

    /// Number of copies replaced since the mount.
    pub(crate) fn repaired(&self) -> u64 {
        self.repaired.get()
    }

    /// Repairs whenever there are copies to repair, as long as the volume is mounted.
    pub(crate) async fn keep(self: Rc<Self>) {
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
            // The rest is tried again when an SSD comes back, or later.
            again = (!is_whole).then(|| {
                let at = self.clock.now() + Nanos(self.settings.repair_delay.0.saturating_mul(AGAIN));
                self.clock.notify_at(at, self.repair.gate());
                at
            });
        }
    }

    /// Replaces every copy that is missing or stale, where that is possible now.
    pub(crate) async fn repair(&self) -> Result<Report, Fault> {
        self.journal.heal().await;
        let mut report = Report { left: u64::from(!self.journal.has_two_copies()), ..Report::default() };
        let files: Vec<FileId> = self.metadata.files();
        for file in files {
            self.files.pin(file);
            if self.lacks_open_copy(file) {
                // If this fails, the copy is repaired when the file continues elsewhere by itself.
                let _ = self.layouts.go_on(file).await;
            }
            let result = self.repair_file(file, &mut report).await;
            self.files.unpin(file);
            result?;
        }
        report.away = self.away();
        Ok(report)
    }

    /// Number of micro blobs with a good copy on an SSD that cannot be reached now.
    fn away(&self) -> u64 {
        let state = self.metadata.state();
        let is_away = |extent: &&Extent| {
            (0..2).any(|side| extent.good(side).is_some_and(|place| !self.space.is_up(place.ssd)))
        };
        state.files().flat_map(|(_, entry)| &entry.extents).filter(is_away).count() as u64
    }

    /// Whether a copy is missing in a micro blob that is being written to, and the file could be written with both
    /// copies elsewhere.
    fn lacks_open_copy(&self, file: FileId) -> bool {
        let Some(settled) = self.files.settled(file) else { return false };
        let state = self.metadata.state();
        let mut open =
            state.file(file).into_iter().flat_map(|entry| entry.extents.iter().skip(settled as usize));
        open.any(|extent| !extent.is_whole()) && self.space.has_pairs()
    }

    async fn repair_file(&self, file: FileId, report: &mut Report) -> Result<(), Fault> {
        let is_settled = |index| self.files.settled(file).is_some_and(|settled| index < settled);
        for index in (0..).take_while(|&index| is_settled(index)) {
            let lacking = {
                let state = self.metadata.state();
                let extent = state.file(file).and_then(|entry| entry.extents.get(index as usize));
                let Some(extent) = extent else { return Ok(()) };
                let there = |side: usize| extent.good(side).filter(|place| !self.disks.is_gone(place.ssd));
                let lacking = (0..2).find(|&side| extent.good(side).is_none());
                // If both copies are on SSDs that are gone, both may come back.
                let lacking = lacking
                    .or_else(|| (0..2).find(|&side| there(side).is_none() && there(1 - side).is_some()));
                lacking.map(|side| (side, extent.good(1 - side)))
            };
            match lacking {
                None => {}
                Some((_, None)) => report.lost += 1,
                Some((side, Some(source))) => match self.copier.copy(file, index, source).await {
                    // The file was cut meanwhile, and this micro blob may be written to again.
                    Ok(place) if !is_settled(index) || !self.is_source(file, index, side, source) => {
                        self.space.free(place, self.journal.appended());
                    }
                    Ok(place) => {
                        let record = Record::Move { file, extent: index, side: side as u8, place };
                        let lsn = self.files.record(&record);
                        self.journal.written(lsn).await?;
                        report.repaired += 1;
                        self.repaired.set(self.repaired.get() + 1);
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
}
