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
use super::disks::{Sequence, WriteError};
use super::files::{HandleId, Live, Risk, Unflushed, Unit, UnitState};
use crate::format::block::{self, Header};
use crate::format::record::{Layout, Record, Run};
use crate::steer::Data;
use crate::task::join;
use crate::{Class, Fault, FileId, Place};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::Instant;

/// Most units of a file that are on their way at the same time.
const UNITS_MAX: usize = 32;
/// So many of the last micro blobs of a file may have been left to be repaired when the file went on.
const ENDED_MAX: usize = 8;
/// So often a file is synced in the hope that nothing is written meanwhile.
const GO_ON_TRIES: usize = 16;

impl Core {
    /// Makes a file that may be written to.
    pub(crate) fn begin_writing(&self, file: FileId) -> Result<(), Fault> {
        let (layout, extents, is_sealed) = {
            let state = self.metadata.state();
            let entry = state.file(file).ok_or(Fault::NotFound)?;
            (entry.layout.clone(), entry.extents.len() as u64, entry.is_sealed)
        };
        let mut all = self.files.live.borrow_mut();
        let live = all.entry(file).or_insert_with(|| {
            let mut live = Live { must_begin_run: true, ..Live::default() };
            live.layout = layout;
            if is_sealed {
                // New blocks never share a micro blob with sealed ones: what is behind those need not be looked at.
                live.layout.next_block = extents * self.phase.geometry().micro_blocks();
            }
            live
        });
        live.writers += 1;
        Ok(())
    }

    fn seal_block(&self, file: FileId, of: (u64, u32), offset: u64, payload: &[u8], out: &mut Vec<u8>) {
        let identity = self.phase.identity();
        let header = Header {
            volume: identity.volume,
            file,
            index: of.0,
            era: of.1,
            offset,
            length: 0,
            generation: identity.generation,
        };
        block::seal(out, identity.geometry.block, &header, payload);
    }

    /// Takes bytes into the file's buffers. They are on their way when this returns, unless they are too few. After an error
    /// none was taken.
    pub(crate) async fn append(self: &Rc<Self>, file: FileId, bytes: &[u8]) -> Result<(), Fault> {
        if self.lease.is_fenced() {
            return Err(Fault::Fenced);
        }
        let turn = self.with_live(file, |live| {
            live.appends_asked += 1;
            live.appends_asked
        })?;
        let room = self.make_room(file, turn - 1).await;
        let taken = room.and_then(|()| self.take_bytes(file, bytes));
        let _ = self.with_live(file, |live| live.appends_ended = turn);
        self.files.gate.notify();
        taken
    }

    /// Appends that were asked for before, and wait for room, go first.
    pub(crate) async fn appended(&self, file: FileId) {
        let Ok(asked) = self.with_live(file, |live| live.appends_asked) else { return };
        let is_before = || self.with_live(file, |live| live.appends_ended < asked) == Ok(true);
        self.files.gate.wait(|| (!is_before()).then_some(())).await;
    }

    fn take_bytes(self: &Rc<Self>, file: FileId, mut bytes: &[u8]) -> Result<(), Fault> {
        let room = self.phase.geometry().payload() as usize;
        while !bytes.is_empty() {
            let taken = self.with_live(file, |live| {
                if live.tail.is_empty() {
                    live.tail_offset = live.layout.size;
                    if live.must_begin_run {
                        live.layout
                            .runs
                            .push(Run { block: live.layout.next_block, offset: live.layout.size });
                        live.must_begin_run = false;
                    }
                }
                let taken = bytes.len().min(room - live.tail.len());
                live.tail.extend_from_slice(&bytes[..taken]);
                live.layout.size += taken as u64;
                live.since_flush += taken as u64;
                live.is_tail_dirty = true;
                if live.tail.len() == room {
                    self.end_block(file, live);
                }
                taken
            })?;
            bytes = &bytes[taken..];
        }
        self.send(file);
        Ok(())
    }

    /// Waits while too much of a file is on its way, or fewer than `before` appends have ended.
    async fn make_room(&self, file: FileId, before: u64) -> Result<(), Fault> {
        let window = self.settings.window.0;
        self.files
            .gate
            .wait(|| {
                let live = self.files.live.borrow();
                let Some(live) = live.get(&file) else { return Some(Err(Fault::BadHandle)) };
                if live.appends_ended < before {
                    return None;
                }
                let failed = live.units.values().find_map(|unit| match unit.state {
                    UnitState::Failed(fault) => Some(fault),
                    _ => None,
                });
                match failed {
                    _ if live.bytes_in_units() <= window => Some(Ok(())),
                    Some(fault) => Some(Err(fault)),
                    None => None,
                }
            })
            .await
    }

    /// The tail is not added to any more: it becomes a block.
    fn end_block(&self, file: FileId, live: &mut Live) {
        let index = live.layout.next_block;
        if live.full.is_empty() {
            (live.full_first, live.full_offset) = (index, live.tail_offset);
        }
        let tail = std::mem::take(&mut live.tail);
        live.must_begin_run |= (tail.len() as u64) < self.phase.geometry().payload();
        if live.is_tail_dirty {
            self.seal_block(file, (index, live.layout.era), live.tail_offset, &tail, &mut live.full);
        }
        live.is_tail_dirty = false;
        live.layout.next_block += 1;
        let is_full = live.full.len() as u64 >= self.settings.write_max.0;
        if is_full || live.layout.next_block.is_multiple_of(self.phase.geometry().micro_blocks()) {
            Core::cut_unit(live);
        }
    }

    fn cut_unit(live: &mut Live) {
        if live.full.is_empty() {
            return;
        }
        let bytes = Arc::new(std::mem::take(&mut live.full));
        let unit = Unit {
            first: live.full_first,
            offset: live.full_offset,
            bytes,
            is_durable: false,
            class: live.class(),
            state: UnitState::Waiting,
        };
        live.units.insert(live.next_unit, unit);
        live.next_unit += 1;
    }

    /// Puts everything that was appended into units. Answers the number behind the last of them.
    fn cut_all(&self, file: FileId, live: &mut Live, ends_block: bool) -> u64 {
        for unit in live.units.values_mut() {
            if matches!(unit.state, UnitState::Failed(_)) {
                unit.state = UnitState::Waiting;
            }
        }
        live.is_awaited = std::mem::take(&mut live.since_flush) <= self.settings.write_max.0;
        if !live.tail.is_empty() {
            live.is_log = true;
            if ends_block {
                self.end_block(file, live);
            } else if live.is_tail_dirty {
                if live.full.is_empty() {
                    (live.full_first, live.full_offset) = (live.layout.next_block, live.tail_offset);
                }
                let tail = std::mem::take(&mut live.tail);
                let of = (live.layout.next_block, live.layout.era);
                self.seal_block(file, of, live.tail_offset, &tail, &mut live.full);
                live.tail = tail;
                live.is_tail_dirty = false;
            }
        }
        Core::cut_unit(live);
        live.next_unit
    }

    /// All that is left to make durable is one unit that waits: then it is written durably, in place of a flush behind it.
    fn harden_single_unit(live: &mut Live) {
        if live.units.len() == 1 && live.unflushed.is_empty() {
            let waiting = live.units.values_mut().filter(|unit| unit.state == UnitState::Waiting);
            waiting.for_each(|unit| unit.is_durable = true);
        }
    }

    /// Sends the units that wait, unless that is going on already.
    fn send(self: &Rc<Self>, file: FileId) {
        let must_start = self.with_live(file, |live| {
            let is_work = live.units.values().any(|unit| unit.state == UnitState::Waiting);
            is_work && !std::mem::replace(&mut live.is_sending, true)
        });
        if must_start == Ok(true) {
            let core = Rc::clone(self);
            self.spawner.spawn(async move {
                let result = core.send_waiting(file).await;
                let _ = core.with_live(file, |live| {
                    live.is_sending = false;
                    if let Err(fault) = result {
                        let waiting = live.units.values_mut().filter(|unit| unit.state == UnitState::Waiting);
                        waiting.for_each(|unit| unit.state = UnitState::Failed(fault));
                    }
                });
                core.files.gate.notify();
            });
        }
    }

    async fn send_waiting(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let micro_blocks = self.phase.geometry().micro_blocks();
        let block = u64::from(self.phase.geometry().block);
        loop {
            let next = self.with_live(file, |live| {
                let mut waiting = live.units.iter().filter(|(_, unit)| unit.state == UnitState::Waiting);
                waiting
                    .next()
                    .map(|(&id, unit)| (id, unit.first, unit.first + unit.bytes.len() as u64 / block))
            });
            let Ok(Some((id, first, end))) = next else { return Ok(()) };
            let extent = first / micro_blocks;
            self.extend_to(file, extent).await?;
            if end - extent * micro_blocks > micro_blocks / 2
                && self.with_live(file, |live| live.is_log) == Ok(true)
            {
                self.extend_ahead(file, extent + 1);
            }
            // A block goes out again only after its last write has ended for good: else the older could overtake.
            if let Some(until) = self.risk_of(file, id, first, end) {
                self.clock.sleep_until(until).await;
            }
            self.files
                .gate
                .wait(|| {
                    let live = self.files.live.borrow();
                    let Some(live) = live.get(&file) else { return Some(()) };
                    let mut sending = live.units.values().filter(|unit| unit.state == UnitState::Sending);
                    let overlaps = |unit: &Unit| {
                        unit.first < end && first < unit.first + unit.bytes.len() as u64 / block
                    };
                    let count = sending.clone().count();
                    (count < UNITS_MAX && !sending.any(overlaps)).then_some(())
                })
                .await;
            // Older writes of the same block go first. Behind one that has failed it has to fail as well: else the retry of the
            // older one would undo it. While this task waited, a sync may have told the older one to try again.
            let state = self.with_live(file, |live| {
                let older = live.units.range(..id).map(|(_, unit)| unit);
                let mut overlapping = older
                    .filter(|unit| unit.first < end && first < unit.first + unit.bytes.len() as u64 / block);
                let state = overlapping.next().map_or(UnitState::Sending, |unit| unit.state);
                if let Some(unit) = live.units.get_mut(&id) {
                    unit.state = state;
                }
                state
            });
            if state != Ok(UnitState::Sending) {
                self.files.gate.notify();
                continue;
            }
            let core = Rc::clone(self);
            self.spawner.spawn(async move { core.write_unit(file, id).await });
        }
    }

    /// Until when another write of these blocks, which was given up, may still happen.
    fn risk_of(&self, file: FileId, id: u64, first: u64, end: u64) -> Option<Instant> {
        let now = self.clock.now();
        let risk = self.with_live(file, |live| {
            live.risks.retain(|risk| risk.until > now);
            let overlapping =
                live.risks.iter().filter(|risk| risk.unit != id && risk.first < end && first < risk.end);
            overlapping.map(|risk| risk.until).max()
        });
        risk.ok().flatten()
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
            self.files
                .gate
                .wait(|| (self.with_live(file, |live| live.is_extending) != Ok(true)).then_some(()))
                .await;
            let count = self.metadata.extents(file);
            if count.is_none_or(|count| count > extent) {
                return Ok(());
            }
            let is_log = self.with_live(file, |live| {
                live.is_extending = true;
                live.is_log
            })?;
            let reserved = self.space.reserve(if is_log { Data::Log } else { Data::Bulk }).await;
            let recorded =
                reserved.map(|copies| self.record(&Record::Extend { file, extents: vec![copies] }));
            let _ = self.with_live(file, |live| {
                live.is_extending = false;
                if let Ok(lsn) = recorded {
                    live.lsn = live.lsn.max(lsn);
                }
            });
            self.files.gate.notify();
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
        let Ok(Some((first, class, bytes, is_durable))) = self.with_live(file, |live| {
            let unit = live.units.get(&id)?;
            Some((unit.first, unit.class, Arc::clone(&unit.bytes), unit.is_durable))
        }) else {
            return;
        };
        let result = self.write_blocks(file, class, first, &bytes, is_durable).await;
        let _ = self.with_live(file, |live| match result {
            Ok(()) => drop(live.units.remove(&id)),
            Err(fault) => {
                if let Some(unit) = live.units.get_mut(&id) {
                    unit.state = UnitState::Failed(fault);
                    let end = first + (bytes.len() / self.phase.geometry().block as usize) as u64;
                    let until = self.clock.now() + self.settings.quarantine;
                    live.risks.push(Risk { unit: id, first, end, until });
                }
            }
        });
        self.files.gate.notify();
    }

    /// Writes blocks of one micro blob to the copies that are good. What fails on one of them is recorded.
    async fn write_blocks(
        self: &Rc<Self>,
        file: FileId,
        class: Class,
        first: u64,
        bytes: &Arc<Vec<u8>>,
        is_durable: bool,
    ) -> Result<(), Fault> {
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
                    self.note_unflushed(file, (index, side), place, *sequence);
                }
                Ok(_) => {}
                Err(_) => self.mark_stale(file, index, side),
            }
        }
        Ok(())
    }

    fn note_unflushed(&self, file: FileId, key: (u64, u8), place: Place, sequence: Option<Sequence>) {
        let _ = self.with_live(file, |live| {
            let new = Unflushed { ssd: place.ssd, first: Sequence::MAX, last: 0, is_lost: false };
            let entry = live.unflushed.entry(key).or_insert(new);
            if entry.ssd != place.ssd {
                *entry = new;
            }
            match sequence {
                Some(sequence) => {
                    entry.first = entry.first.min(sequence);
                    entry.last = entry.last.max(sequence);
                }
                None => entry.is_lost = true,
            }
        });
    }

    /// A copy lacks something. Never the last good copy.
    pub(crate) fn mark_stale(self: &Rc<Self>, file: FileId, extent: u64, side: u8) {
        let is_news = self.metadata.state().file(file).is_some_and(|entry| {
            entry.extents.get(extent as usize).is_some_and(|extent| extent.is_whole() && side < 2)
        });
        if !is_news {
            return;
        }
        let lsn = self.record(&Record::Stale { file, extent, side });
        let _ = self.with_live(file, |live| {
            live.lsn = live.lsn.max(lsn);
            live.unflushed.remove(&(extent, side));
        });
        self.counters.borrow_mut().stale_copies += 1;
        self.repair.set();
    }

    async fn sent(&self, file: FileId, upto: u64) -> Result<(), Fault> {
        self.files
            .gate
            .wait(|| {
                let live = self.files.live.borrow();
                let Some(live) = live.get(&file) else { return Some(Ok(())) };
                let mut units = live.units.range(..upto).map(|(_, unit)| unit.state).peekable();
                if units.peek().is_none() {
                    return Some(Ok(()));
                }
                units.find_map(|state| match state {
                    UnitState::Failed(fault) => Some(Err(fault)),
                    _ => None,
                })
            })
            .await
    }

    /// Everything appended so far survives a crash of this client, also what an append that was asked for before has not taken yet.
    pub(crate) async fn flush(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        self.appended(file).await;
        let upto = self.with_live(file, |live| {
            let upto = self.cut_all(file, live, false);
            if std::mem::take(&mut live.is_synced) {
                Core::harden_single_unit(live);
            }
            upto
        })?;
        self.send(file);
        self.sent(file, upto).await?;
        // A file that is not live any more is recorded with all that was appended.
        let lsn = self.with_live(file, |live| live.lsn).unwrap_or(0);
        self.journal.written(lsn).await?;
        self.lease.may_write().await
    }

    /// Everything appended so far, as with `flush`, and the file itself, survive power losses.
    pub(crate) async fn sync(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        self.appended(file).await;
        let upto = self.with_live(file, |live| {
            let upto = self.cut_all(file, live, true);
            live.is_synced = true;
            Core::harden_single_unit(live);
            upto
        })?;
        self.send(file);
        self.sent(file, upto).await?;
        if !self.files.live.borrow().contains_key(&file) {
            return self.lease.may_write().await;
        }
        self.flush_copies_of(file).await?;
        let lsn =
            self.with_live(file, |live| if live.is_lost { Err(Fault::WritesLost) } else { Ok(live.lsn) })??;
        self.journal.durable(lsn).await?;
        self.lease.may_write().await
    }

    /// Flushes the SSDs that have unflushed writes of a file.
    async fn flush_copies_of(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let unflushed: Vec<((u64, u8), Unflushed)> =
            self.with_live(file, |live| live.unflushed.iter().map(|(key, entry)| (*key, *entry)).collect())?;
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
                self.with_live(file, |live| live.is_lost = true)?;
            }
        }
        self.with_live(file, |live| {
            for (key, before) in &unflushed {
                if live.unflushed.get(key).is_some_and(|entry| entry == before) {
                    live.unflushed.remove(key);
                } else if let Some(entry) = live.unflushed.get_mut(key) {
                    entry.first = entry.first.max(before.last + 1);
                }
            }
        })
    }

    /// Cuts the file. Durable when this returns.
    pub(crate) async fn truncate(self: &Rc<Self>, file: FileId, size: u64) -> Result<(), Fault> {
        self.appended(file).await;
        let before = self.size(file)?;
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
        let layout = self.with_live(file, |live| {
            live.layout.truncate(size.min(live.layout.size));
            live.must_begin_run = true;
            live.layout.era = live.layout.next_era();
            live.layout.clone()
        })?;
        let lsn = self.record(&Record::Layout { file, layout, time: self.clock.seconds() });
        let micro_blocks = self.phase.geometry().micro_blocks();
        self.with_live(file, |live| {
            live.lsn = live.lsn.max(lsn);
            live.layout.next_block = live.layout.next_block.next_multiple_of(micro_blocks);
        })?;
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
        self.appended(file).await;
        self.make_room(file, 0).await?;
        self.with_live(file, |live| {
            if offset > live.layout.size || offset + (bytes.len() as u64) < live.layout.size {
                return Err(Fault::Invalid);
            }
            if offset < live.layout.size {
                // The blocks stay where they are; the next block says that it begins earlier, and so takes their place.
                if !live.tail.is_empty() {
                    self.end_block(file, live);
                }
                Core::cut_unit(live);
                live.layout.truncate(offset);
                live.must_begin_run = true;
            }
            Ok(())
        })??;
        self.take_bytes(file, bytes)
    }

    /// Closes a handle. Everything appended survives a crash of this client; what was synced is recorded as such.
    pub(crate) async fn close(self: &Rc<Self>, id: HandleId) -> Result<(), Fault> {
        let handle = self.handle(id)?;
        let mut result = Ok(());
        if handle.is_writer {
            result = self.flush(handle.file).await;
        }
        if self.files.handles.borrow_mut().remove(&id).is_none() {
            return Err(Fault::BadHandle);
        }
        if handle.is_writer {
            let left = self.with_live(handle.file, |live| {
                live.writers -= 1;
                live.writers
            });
            if left == Ok(0) && !self.lease.is_fenced() {
                let core = Rc::clone(self);
                self.pin(handle.file);
                self.spawner.spawn(async move {
                    // If this fails, the next mount finds the end of the file by reading it.
                    let _ = core.record_layout(handle.file).await;
                    core.unpin(handle.file);
                });
            }
        }
        self.unpin(handle.file);
        result
    }

    /// Lets a file go on in another micro blob, so that the one that was being written to can be repaired. If something is written all
    /// the time, the file soon goes on by itself.
    pub(crate) async fn go_on(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        for _ in 0..GO_ON_TRIES {
            self.sync(file).await?;
            self.files
                .gate
                .wait(|| (self.with_live(file, |live| live.is_extending) != Ok(true)).then_some(()))
                .await;
            let Some(layout) = self.with_live(file, |live| self.end_micro(live))? else { continue };
            let lsn = self.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.with_live(file, |live| live.lsn = live.lsn.max(lsn))?;
            return self.journal.written(lsn).await;
        }
        Ok(())
    }

    /// The next block goes to another micro blob. Answers the layout to be recorded; `None` if something is not durable, or nobody writes.
    fn end_micro(&self, live: &mut Live) -> Option<Layout> {
        let is_durable = live.units.is_empty() && live.unflushed.is_empty() && !live.is_lost;
        let is_all_there = live.tail.is_empty() && live.on_disk() == live.layout.size;
        if live.writers == 0 || !is_durable || !is_all_there {
            return None;
        }
        live.must_begin_run = true;
        live.layout.era = live.layout.next_era();
        let layout = live.layout.clone();
        live.layout.next_block =
            live.layout.next_block.next_multiple_of(self.phase.geometry().micro_blocks());
        Some(layout)
    }

    /// Syncs a file that nobody writes to, and records its layout.
    async fn record_layout(self: &Rc<Self>, file: FileId) -> Result<(), Fault> {
        let has_name = self.metadata.state().file(file).is_some_and(|entry| entry.links > 0);
        if !has_name {
            return Ok(());
        }
        self.sync(file).await?;
        self.files
            .gate
            .wait(|| (self.with_live(file, |live| live.is_extending) != Ok(true)).then_some(()))
            .await;
        // Judged and recorded in one step: while this waited, somebody may have written more and closed the file again.
        let layout = self.with_live(file, |live| {
            let is_done =
                live.writers == 0 && live.units.is_empty() && live.unflushed.is_empty() && !live.is_lost;
            (is_done && live.on_disk() == live.layout.size).then(|| live.layout.clone())
        })?;
        if let Some(mut layout) = layout
            && self.metadata.state().file(file).is_some()
        {
            layout.era = layout.next_era();
            self.record(&Record::Layout { file, layout, time: self.clock.seconds() });
            self.files.live.borrow_mut().remove(&file);
            self.repair_ended(file);
        }
        Ok(())
    }
}
