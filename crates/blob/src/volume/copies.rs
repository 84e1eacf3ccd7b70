//! Writes, flushes and reads of the two copies of a file's data; marks copies that lack data as stale.
//!
//! A write that fails on one SSD succeeds if the other copy has it and the journal records this one as stale.
//!
//! Holds: `tests/worlds.rs`.

use super::check::{self, Wanted};
use super::disks::{Disks, WriteError};
use super::files::{Files, OpenFile, UnitWrite};
use super::metadata::Metadata;
use super::parts::Parts;
use super::phase::Phase;
use super::repair_signal::RepairSignal;
use crate::format::block;
use crate::format::record::Record;
use crate::task::join;
use crate::{Class, Fault, FileId, Place};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Consecutive blocks that were read, each the one that was wanted. They stay where they were read to: a read of many blocks copies the
/// bytes of its file once, from here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    block: usize,
}

impl Blocks {
    /// The wanted bytes of the file in the block of this number.
    pub(crate) fn payload(&self, number: usize, wanted: &Wanted) -> &[u8] {
        block::payload(&self.bytes[number * self.block..], wanted.length as usize)
    }

    /// Adds the blocks behind them.
    pub(crate) fn append(&mut self, next: &mut Blocks) {
        self.bytes.append(&mut next.bytes);
    }
}

/// The procedures on both copies; see the module.
pub(crate) struct Copies {
    phase: Rc<Phase>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    files: Rc<Files>,
    repair: Rc<RepairSignal>,
    /// Number of copies that were marked stale.
    stale: Cell<u64>,
}

impl Copies {
    pub(crate) fn new(parts: &Parts) -> Rc<Copies> {
        Rc::new(Copies {
            phase: Rc::clone(&parts.phase),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            files: Rc::clone(&parts.files),
            repair: Rc::clone(&parts.repair),
            stale: Cell::default(),
        })
    }

    /// Number of copies that were marked stale since the mount.
    pub(crate) fn stale(&self) -> u64 {
        self.stale.get()
    }

    /// Writes blocks of one micro blob to the good copies. A failure of one of them is recorded.
    pub(crate) async fn write(&self, file: FileId, write: &UnitWrite) -> Result<(), Fault> {
        let UnitWrite { first, class, ref bytes, is_durable } = *write;
        let micro_blocks = self.phase.geometry().micro_blocks();
        let index = first / micro_blocks;
        let within = first % micro_blocks * u64::from(self.phase.geometry().block);
        let copies = self.metadata.good_copies(file, index);
        let writes = copies.iter().map(|&(_, place)| async move {
            let (at, bytes) = (self.phase.geometry().byte_of(place) + within, Arc::clone(bytes));
            if is_durable {
                self.disks.write_durably(place.ssd, class, at, bytes).await.map(|()| None)
            } else {
                self.disks.write(place.ssd, class, at, bytes).await
            }
        });
        let ends = join(writes).await;
        if let Some(Err(WriteError::Lease(fault))) =
            ends.iter().find(|end| matches!(end, Err(WriteError::Lease(_))))
        {
            return Err(*fault);
        }
        // Another unit may have marked a copy stale meanwhile. So the write must be on a copy that is still good.
        let good = self.metadata.good_copies(file, index);
        let is_held = copies.iter().zip(&ends).any(|(copy, end)| end.is_ok() && good.contains(copy));
        if !is_held {
            return Err(Fault::Unreachable);
        }
        for (copy, end) in copies.iter().zip(&ends) {
            let &(side, place) = copy;
            match end {
                Ok(sequence) if !is_durable && good.contains(copy) => {
                    let note = |open: &mut OpenFile| {
                        open.durability_mut().on_written((index, side), place.ssd, *sequence);
                    };
                    let _ = self.files.with(file, note);
                }
                Ok(_) => {}
                Err(_) => self.mark_stale(file, index, side),
            }
        }
        Ok(())
    }

    /// Records that a copy lacks data. Never marks the last good copy.
    pub(crate) fn mark_stale(&self, file: FileId, extent: u64, side: u8) {
        let is_news = self.metadata.state().file(file).is_some_and(|entry| {
            entry.extents.get(extent as usize).is_some_and(|extent| extent.is_whole() && side < 2)
        });
        if !is_news {
            return;
        }
        let lsn = self.files.record(&Record::Stale { file, extent, side });
        let _ = self.files.with(file, |open| {
            open.durability_mut().need(lsn);
            open.durability_mut().on_stale((extent, side));
        });
        self.stale.set(self.stale.get() + 1);
        self.repair.set();
    }

    /// Flushes the SSDs that have unflushed writes of a file.
    pub(crate) async fn flush(&self, file: FileId) -> Result<(), Fault> {
        let unflushed = self.files.with(file, |open| open.durability().unflushed())?;
        let mut ssds = BTreeMap::new();
        for (_, entry) in &unflushed {
            let last = ssds.entry(entry.ssd).or_insert(0);
            *last = entry.last.max(*last);
        }
        let flushes = ssds.iter().map(|(&ssd, &last)| self.disks.flush(ssd, last));
        let ends: BTreeMap<_, _> = ssds.keys().copied().zip(join(flushes).await).collect();
        let mut lacking: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        for ((extent, side), entry) in &unflushed {
            let may_lack = self.disks.may_lack(entry.ssd, entry.first, entry.last);
            if entry.is_lost || may_lack || ends[&entry.ssd].is_err() {
                lacking.entry(*extent).or_default().push(*side);
            }
        }
        for (extent, mut sides) in lacking {
            // A write may have marked one of them stale meanwhile.
            let good: Vec<u8> =
                self.metadata.good_copies(file, extent).into_iter().map(|(side, _)| side).collect();
            sides.retain(|side| good.contains(side));
            if sides.is_empty() {
                continue;
            }
            if sides.len() < good.len() {
                self.mark_stale(file, extent, sides[0]);
            } else if sides.iter().all(|side| {
                // A copy that was not reached is not lost: the next sync flushes it again.
                unflushed.iter().any(|(key, entry)| *key == (extent, *side) && ends[&entry.ssd].is_err())
            }) {
                return Err(Fault::Unreachable);
            } else {
                self.files.with(file, |open| open.durability_mut().lose())?;
            }
        }
        self.files.with(file, |open| open.durability_mut().on_flushed(&unflushed))
    }

    /// Reads blocks of one copy. Reads them twice before it reports them as damaged, because a block may be written
    /// while it is read.
    pub(crate) async fn read(
        &self,
        file: FileId,
        class: Class,
        place: Place,
        first: u64,
        blocks: &[Wanted],
    ) -> Result<Blocks, Fault> {
        let (identity, geometry) = (self.phase.identity(), self.phase.geometry());
        let block = geometry.block as usize;
        for _ in 0..2 {
            let at = geometry.byte_of(place) + first * u64::from(geometry.block);
            let read = self.disks.read(place.ssd, class, at, (blocks.len() * block) as u32).await;
            let bytes = read.map_err(|_| Fault::Unreachable)?;
            let mut found = bytes.chunks(block).zip(blocks);
            if found.all(|(bytes, wanted)| check::is_wanted(&identity, file, bytes, wanted)) {
                return Ok(Blocks { bytes, block });
            }
        }
        Err(Fault::Corrupt)
    }
}
