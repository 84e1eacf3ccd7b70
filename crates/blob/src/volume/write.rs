//! Writing: from appended bytes to blocks on two SSDs.
//!
//! Full blocks go out in units as soon as a unit is full. *Flush* sends the rest: the last block goes out as it is, and
//! once more when there is more in it. So a crash of the client loses nothing that was flushed. *Sync* ends the last block,
//! so that nothing that is durable is ever written again, and makes the SSDs flush. It needs no write of metadata when the
//! micro blob was recorded before, which is done ahead of time for files that are flushed or synced in small pieces. A single unit
//! that is synced, or flushed where a sync followed the last time, is written durably: then nothing is left to flush.
//!
//! What is written of a file that is flushed or synced after each few bytes, as logs are, is urgent: somebody waits for it. The units of other files
//! are background, so that a log does not wait behind tables at the SSDs of a switch.
//!
//! A write that fails on one SSD counts when the other copy has it and the journal says that this one is stale.
//!
//! Holds: `tests/worlds.rs`; `tests/files.rs` counts the writes and flushes of a sync.

use super::core::Core;
use super::disks::WriteError;
use super::files::{HandleId, OpenFile, UnitState, UnitWrite};
use crate::format::record::Record;
use crate::steer::Data;
use crate::task::join;
use crate::{Fault, FileId};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// So many of the last micro blobs of a file may have been left to be repaired when the file went on.
const ENDED_MAX: usize = 8;
/// So often a file is synced in the hope that nothing is written meanwhile.
const GO_ON_TRIES: usize = 16;

impl Core {
    /// Takes bytes into the file's buffers. They are on their way when this returns, unless they are too few. After an error
    /// none was taken.
    pub(crate) async fn append(self: &Rc<Self>, file: FileId, bytes: &[u8]) -> Result<(), Fault> {
        if self.lease.is_fenced() {
            return Err(Fault::Fenced);
        }
        let turn = self.files.with(file, |open| open.begin_append())?;
        let room = self.make_room(file, turn - 1).await;
        let taken = room.and_then(|()| self.take_bytes(file, bytes));
        let _ = self.files.with(file, |open| open.end_append(turn));
        self.files.notify();
        taken
    }

    fn take_bytes(self: &Rc<Self>, file: FileId, bytes: &[u8]) -> Result<(), Fault> {
        self.files.with(file, |open| open.take(bytes))?;
        self.send(file);
        Ok(())
    }

    /// Waits while too much of a file is on its way, or the appends up to `before` have not completed.
    async fn make_room(&self, file: FileId, before: u64) -> Result<(), Fault> {
        let window = self.settings.window.0;
        let has_room = |open: Option<&OpenFile>| {
            let Some(open) = open else { return Some(Err(Fault::BadHandle)) };
            if !open.has_appended(before) {
                return None;
            }
            match open.units().fault() {
                _ if open.units().bytes() <= window => Some(Ok(())),
                Some(fault) => Some(Err(fault)),
                None => None,
            }
        };
        self.files.wait(file, has_room).await
    }

    /// Sends the units that wait, unless that is going on already.
    fn send(self: &Rc<Self>, file: FileId) {
        if self.files.with(file, |open| open.units_mut().begin_sending()) == Ok(true) {
            let core = Rc::clone(self);
            self.spawner.spawn(async move {
                let result = core.send_waiting(file).await;
                let _ = core.files.with(file, |open| open.units_mut().end_sending(result));
                core.files.notify();
            });
        }
    }

    async fn send_waiting(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let micro_blocks = self.phase.geometry().micro_blocks();
        loop {
            let next = self.files.with(file, |open| open.units().next_waiting());
            let Ok(Some(span)) = next else { return Ok(()) };
            let extent = span.first / micro_blocks;
            self.extend_to(file, extent).await?;
            let is_half_full = span.end - extent * micro_blocks > micro_blocks / 2;
            if is_half_full && self.files.with(file, |open| open.is_log()) == Ok(true) {
                self.extend_ahead(file, extent + 1);
            }
            let now = self.clock.now();
            if let Ok(Some(until)) = self.files.with(file, |open| open.units_mut().risk(span, now)) {
                self.clock.sleep_until(until).await;
            }
            let has_room = |open: Option<&OpenFile>| open.is_none_or(|open| open.units().has_room(span));
            self.files.wait(file, |open| has_room(open).then_some(())).await;
            let state = self.files.with(file, |open| open.units_mut().claim(span));
            if state != Ok(UnitState::Sending) {
                self.files.notify();
                continue;
            }
            let core = Rc::clone(self);
            self.spawner.spawn(async move { core.write_unit(file, span.unit).await });
        }
    }

    /// Takes the next micro blob before it is needed, and has it recorded.
    fn extend_ahead(self: &Rc<Self>, file: FileId, extent: u64) {
        let has = self.metadata.state().file(file).is_none_or(|entry| entry.extents.len() as u64 > extent);
        if has {
            return;
        }
        let core = Rc::clone(self);
        self.spawner.spawn(async move {
            // If there is no space, that is reported when the space is needed.
            if core.extend_to(file, extent).await.is_ok() {
                core.journal.want_durable(core.journal.appended());
            }
        });
    }

    /// Takes micro blobs until the file has this one.
    async fn extend_to(self: &Rc<Self>, file: FileId, extent: u64) -> Result<(), Fault> {
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

    /// The file goes on to another micro blob, or is closed: those that were being written to can be repaired now.
    fn repair_ended(&self, file: FileId) {
        let state = self.metadata.state();
        let Some(entry) = state.file(file) else { return };
        if entry.extents.iter().rev().take(ENDED_MAX).any(|extent| !extent.is_whole()) {
            self.repair.set();
        }
    }

    /// Writes a unit to both copies.
    async fn write_unit(self: Rc<Self>, file: FileId, id: u64) {
        let Ok(Some(write)) = self.files.with(file, |open| open.units().write_of(id)) else { return };
        let result = self.write_blocks(file, &write).await;
        let risky_until = self.clock.now() + self.settings.quarantine;
        let _ = self.files.with(file, |open| open.units_mut().on_written(id, result, risky_until));
        self.files.notify();
    }

    /// Writes blocks of one micro blob to the copies that are good. What fails on one of them is recorded.
    async fn write_blocks(self: &Rc<Self>, file: FileId, write: &UnitWrite) -> Result<(), Fault> {
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
        // Another unit may have marked a copy stale meanwhile: then this one counts only if the copy that is left has it.
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

    /// A copy lacks something. Never the last good copy.
    pub(crate) fn mark_stale(self: &Rc<Self>, file: FileId, extent: u64, side: u8) {
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
        self.counters.borrow_mut().stale_copies += 1;
        self.repair.set();
    }

    /// Waits until the units of a file before this one are written.
    async fn sent(&self, file: FileId, upto: u64) -> Result<(), Fault> {
        self.files.wait(file, |open| open.map_or(Some(Ok(())), |open| open.units().written(upto))).await
    }

    /// Everything appended so far survives a crash of this client, also what an append that was asked for before has not taken yet.
    pub(crate) async fn flush(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        self.files.appended(file).await;
        let upto = self.files.with(file, |open| open.cut_for_flush())?;
        self.send(file);
        self.sent(file, upto).await?;
        // A file that is not open any more is recorded with all that was appended.
        let lsn = self.files.with(file, |open| open.durability().needed()).unwrap_or(0);
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Everything appended so far, as with `flush`, and the file itself, survive power losses.
    pub(crate) async fn sync(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        self.files.appended(file).await;
        let upto = self.files.with(file, |open| open.cut_for_sync())?;
        self.send(file);
        self.sent(file, upto).await?;
        if !self.files.is_open(file) {
            return self.lease.may_write().await;
        }
        self.flush_copies_of(file).await?;
        let lsn = self.files.with(file, |open| {
            open.durability().check()?;
            Ok(open.durability().needed())
        })??;
        self.journal.durable(lsn).await?;
        self.lease.may_write().await
    }

    /// Flushes the SSDs that have unflushed writes of a file.
    async fn flush_copies_of(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
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
                // Not reached is not lost: the next sync asks again.
                unflushed.iter().any(|(key, entry)| *key == (extent, *side) && ends[&entry.ssd].is_err())
            }) {
                return Err(Fault::Unreachable);
            } else {
                self.files.with(file, |open| open.durability_mut().lose())?;
            }
        }
        self.files.with(file, |open| open.durability_mut().on_flushed(&unflushed))
    }

    /// Cuts the file. Durable when this returns.
    pub(crate) async fn truncate(self: &Rc<Self>, file: FileId, size: u64) -> Result<(), Fault> {
        self.files.appended(file).await;
        let before = self.files.size(file)?;
        if size > before {
            let zeroes = vec![0; (size - before).min(1 << 20) as usize];
            let mut left = size - before;
            while left > 0 {
                let piece = left.min(zeroes.len() as u64);
                self.append(file, &zeroes[..piece as usize]).await?;
                left -= piece;
            }
            return self.flush(file).await;
        }
        self.sync(file).await?;
        let layout = self.files.with(file, |open| open.truncate(size))?;
        let lsn = self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
        self.files.with(file, |open| open.durability_mut().need(lsn))?;
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Writes at an offset, at least up to the end of the file.
    pub(crate) async fn write_at(
        self: &Rc<Self>,
        file: FileId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        self.files.appended(file).await;
        self.make_room(file, 0).await?;
        self.files.with(file, |open| open.rewind(offset, bytes.len() as u64))??;
        self.take_bytes(file, bytes)
    }

    /// Closes a handle. Everything appended survives a crash of this client; what was synced is recorded as such.
    pub(crate) async fn close(self: &Rc<Self>, id: HandleId) -> Result<(), Fault> {
        let handle = self.files.handle(id)?;
        let mut result = Ok(());
        if handle.is_writer {
            result = self.flush(handle.file).await;
        }
        self.files.close_handle(id)?;
        if handle.is_writer {
            let left = self.files.with(handle.file, OpenFile::remove_writer);
            if left == Ok(0) && !self.lease.is_fenced() {
                let core = Rc::clone(self);
                self.files.pin(handle.file);
                self.spawner.spawn(async move {
                    // If this fails, the next mount finds the end of the file by reading it.
                    let _ = core.record_layout(handle.file).await;
                    core.files.unpin(handle.file);
                });
            }
        }
        self.files.unpin(handle.file);
        result
    }

    /// Lets a file go on in another micro blob, so that the one that was being written to can be repaired. If something is written all
    /// the time, the file soon goes on by itself.
    pub(crate) async fn go_on(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        for _ in 0..GO_ON_TRIES {
            self.sync(file).await?;
            self.files.extended(file).await;
            let Some(layout) = self.files.with(file, OpenFile::end_micro)? else { continue };
            let lsn = self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.files.with(file, |open| open.durability_mut().need(lsn))?;
            return self.journal.written(lsn).await;
        }
        Ok(())
    }

    /// Syncs a file that nobody writes to, and records its layout.
    async fn record_layout(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let has_name = self.metadata.state().file(file).is_some_and(|entry| entry.links > 0);
        if !has_name {
            return Ok(());
        }
        self.sync(file).await?;
        self.files.extended(file).await;
        // Judged and recorded in one step: while this waited, more may have been written and the file closed again.
        let layout = self.files.with(file, |open| open.final_layout())?;
        if let Some(mut layout) = layout
            && self.metadata.state().file(file).is_some()
        {
            layout.era = layout.next_era();
            self.files.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.files.forget(file);
            self.repair_ended(file);
        }
        Ok(())
    }
}
