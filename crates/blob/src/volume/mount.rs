//! Mounting: lock the volume, find its metadata, find the ends of the files that were being written, begin anew.
//!
//! ```text
//!  lock, new generation ─► SSDs come up ─► newest journal of the current copies ─► replay
//!     ─► ends of unsealed files ─► snapshot in this generation's own slot ─► the store says that it is current ─► mounted
//! ```
//!
//! The mount before may not know yet that it is over, and writes of it may still be on their way. Its journal is never
//! written by this mount, and its micro blobs that were free stay unused for a while (`quarantine`). Blocks that it adds to
//! its files after this mount has looked are not part of them.
//!
//! Where the two copies of the end of a file differ, the longer one wins, and the other is stale: whatever was acknowledged is on both, or
//! the journal says which copy lacks it. The shorter one is not written to, because a late write of the mount before could
//! undo that; a repair makes it anew elsewhere.
//!
//! Holds: `tests/worlds.rs`.

use super::core::Core;
use super::phase::Identity;
use super::state::{Extent, State};
use crate::catalog::{Acquired, Order, OrderError, Reply, SsdRecord};
use crate::format::block;
use crate::format::record::{Layout, Record, Run};
use crate::format::stream;
use crate::format::superblock::Superblock;
use crate::task::join;
use crate::{Class, Fault, FileId, Mega, Place, SsdId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::{Instant, Nanos};

/// While an SSD is away the store is asked where it is after this time, then after twice, four times as long and so on.
const LOOK_SOON: Nanos = Nanos::secs(2);
/// The longest time between two looks, and that while all can be reached: there may be new ones.
const LOOK_SELDOM: Nanos = Nanos::secs(60);

/// A journal that was found on one copy.
struct Found {
    checkpoint: u64,
    blocks: u64,
    stream: Vec<u8>,
}

/// A block at the end of a file.
struct End {
    length: u64,
    offset: u64,
}

impl Core {
    pub(crate) async fn mount(self: &Rc<Self>) -> Result<(), Fault> {
        let acquired = self.acquire().await?;
        let (lock, record) = (&acquired.lock, &acquired.record);
        let identity = Identity { volume: record.id, geometry: record.geometry, generation: lock.generation };
        self.phase.begin(identity);
        self.space.begin(identity);
        self.spawner.spawn(Rc::clone(&self.lease).keep());
        self.meet_ssds(&acquired).await;
        self.spawner.spawn(Rc::clone(self).keep_known());
        if record.meta_generation.0 != 0 {
            let ssds: Vec<SsdId> = record.meta.iter().map(|mega| mega.ssd).collect();
            let found = self.in_time(&ssds, async || self.find_state(&acquired).await).await?;
            self.metadata.set(found);
        }
        self.find_ends().await?;
        self.fill_pool(&acquired);
        let up: Vec<Mega> = record.meta.iter().copied().filter(|mega| self.space.is_up(mega.ssd)).collect();
        self.journal.begin(up);
        self.journal.checkpoint(&[]).await?;
        self.phase.mounted();
        self.journal.mounted();
        self.repair.set();
        self.spawner.spawn(Rc::clone(&self.journal).keep(Rc::clone(&self.space)));
        self.spawner.spawn(Rc::clone(&self.space).keep());
        self.spawner.spawn(Rc::clone(self).keep_whole());
        Ok(())
    }

    async fn acquire(self: &Rc<Self>) -> Result<Acquired, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        let in_use_until = self.clock.now() + self.settings.lock_patience;
        let pause = Nanos(self.settings.ttl.0 / 20);
        loop {
            let sent = self.clock.now();
            let (name, who, ttl) = (self.settings.name.clone(), self.settings.who.clone(), self.settings.ttl);
            match self.orders.send(Order::Acquire { name, who, ttl }).await {
                Ok(Reply::Acquired(acquired)) => {
                    self.lease.on_granted(sent, acquired.lock.clone());
                    return Ok(*acquired);
                }
                Ok(other) => unreachable!("not an answer to Acquire: {other:?}"),
                Err(OrderError::InUse(_)) if self.clock.now() < in_use_until => self.clock.sleep(pause).await,
                Err(OrderError::InUse(_)) => return Err(Fault::InUse),
                Err(OrderError::Absent) => return Err(Fault::NoVolume),
                Err(OrderError::Damaged(_)) => return Err(Fault::BadMetadata),
                Err(_) if self.clock.now() >= give_up => return Err(Fault::LeaseUnsure),
                Err(_) => self.clock.sleep(pause).await,
            }
        }
    }

    /// Tells the outside which SSDs there are, and waits until those of the volume are up, or for a while.
    async fn meet_ssds(self: &Rc<Self>, acquired: &Acquired) {
        self.know(acquired.ssds.iter().map(|ssd| (ssd.id, ssd.record.clone())).collect());
        let needed: BTreeSet<SsdId> = acquired.owned.iter().map(|mega| mega.ssd).collect();
        let give_up = self.clock.now() + self.settings.connect_patience;
        let are_up = || needed.iter().all(|ssd| self.space.is_up(*ssd));
        let is_over = || self.clock.now() >= give_up || self.phase.is_over();
        self.disks.reach_until(give_up, || are_up() || is_over()).await;
        let away = needed.into_iter().filter(|ssd| !self.space.is_up(*ssd));
        away.for_each(|ssd| self.disks.note_away(ssd));
    }

    /// Looks for what is on these SSDs; waits for those that are away if it cannot be reached.
    async fn in_time<T>(
        self: &Rc<Self>,
        ssds: &[SsdId],
        find: impl AsyncFn() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let give_up = self.clock.now() + self.settings.patience;
        loop {
            let found = find().await;
            let is_away = matches!(found, Err(Fault::Unreachable));
            if !is_away || !self.disks.wait_for_one(ssds, give_up).await {
                return found;
            }
        }
    }

    /// These SSDs exist.
    fn know(&self, ssds: Vec<(SsdId, SsdRecord)>) {
        self.space.know(&ssds);
        let domains: Vec<_> = ssds.iter().map(|(ssd, record)| (*ssd, record.domain.clone())).collect();
        self.disks.know(&domains);
        self.outbox.push(super::Action::Ssds(ssds));
    }

    /// Looks for SSDs that are new, and for where those are that cannot be reached, until the volume is unmounted.
    async fn keep_known(self: Rc<Self>) {
        let is_any_away = || self.disks.is_any_away();
        let mut pause = LOOK_SOON;
        loop {
            let was_any_away = is_any_away();
            let at = self.clock.now() + if was_any_away { pause } else { LOOK_SELDOM };
            let is_due = || self.clock.now() >= at || self.phase.is_over() || is_any_away() && !was_any_away;
            self.disks.reach_until(at, is_due).await;
            if self.phase.is_over() {
                return;
            }
            if self.clock.now() < at {
                // It has gone just now; most come back where they were.
                pause = LOOK_SOON;
                continue;
            }
            pause = Nanos(pause.0 * 2).min(LOOK_SELDOM);
            // A store that does not answer is asked again next time.
            if let Ok(Reply::Ssds(ssds)) = self.orders.send(Order::Look).await {
                self.know(ssds.into_iter().map(|ssd| (ssd.id, ssd.record)).collect());
            }
        }
    }

    /// The newest metadata among the current copies.
    async fn find_state(self: &Rc<Self>, acquired: &Acquired) -> Result<State, Fault> {
        let copies = acquired.record.meta.iter().map(|mega| self.find_journal(acquired, *mega));
        let found = join(copies).await;
        let fault = found.iter().find_map(|copy| copy.as_ref().err().copied());
        let best = found.into_iter().flatten().max_by_key(|found| (found.checkpoint, found.blocks));
        let best = best.ok_or(fault.unwrap_or(Fault::BadMetadata))?;
        let mut state = State::default();
        let micro_blocks = acquired.record.geometry.micro_blocks();
        for record in stream::records(&best.stream).map_err(|_| Fault::BadMetadata)? {
            state.apply(&record, micro_blocks).map_err(|_| Fault::BadMetadata)?;
        }
        state.remove_unnamed();
        Ok(state)
    }

    async fn find_journal(self: &Rc<Self>, acquired: &Acquired, mega: Mega) -> Result<Found, Fault> {
        let (record, geometry) = (&acquired.record, acquired.record.geometry);
        let slot = geometry.slot_byte(mega, record.meta_generation);
        let block = u64::from(geometry.block);
        let read = self.disks.read(mega.ssd, Class::Normal, slot, 2 * geometry.block).await;
        let bytes = read.map_err(|_| Fault::Unreachable)?;
        let mut superblocks: Vec<Superblock> = bytes
            .chunks(block as usize)
            .filter_map(|bytes| Superblock::open(bytes, record.id, record.meta_generation))
            .collect();
        superblocks.sort_by_key(|superblock| std::cmp::Reverse(superblock.journal.checkpoint));
        let half_blocks = (geometry.slot_blocks() - 2) / 2;
        let chunk_blocks = (self.settings.read_max.0 / block).max(1);
        for superblock in superblocks {
            let start = slot + (2 + superblock.journal.checkpoint % 2 * half_blocks) * block;
            let mut found =
                Found { checkpoint: superblock.journal.checkpoint, blocks: 0, stream: Vec::new() };
            'journal: while found.blocks < half_blocks {
                let count = chunk_blocks.min(half_blocks - found.blocks);
                let at = start + found.blocks * block;
                let read = self.disks.read(mega.ssd, Class::Normal, at, (count * block) as u32).await;
                for bytes in read.map_err(|_| Fault::Unreachable)?.chunks(block as usize) {
                    let Some(payload) = superblock.journal.open(bytes, found.blocks) else { break 'journal };
                    found.stream.extend_from_slice(payload);
                    found.blocks += 1;
                }
            }
            if found.blocks >= superblock.snapshot_blocks {
                return Ok(found);
            }
        }
        Err(Fault::BadMetadata)
    }

    /// Finds the ends of the files that were being written.
    async fn find_ends(self: &Rc<Self>) -> Result<(), Fault> {
        let open: Vec<FileId> = {
            let state = self.metadata.state();
            state.files().filter(|(_, file)| !file.is_sealed).map(|(id, _)| id).collect()
        };
        for file in open {
            let mut layout = self.find_end(file).await?;
            layout.era = layout.next_era();
            let micro_blocks = self.phase.geometry().micro_blocks();
            let time = self.metadata.state().file(file).expect("it is open").time;
            // What is freed here is free anyway: the pool is filled after this.
            let record = Record::Layout { file, layout, time };
            self.metadata.apply(&record, micro_blocks).map_err(|_| Fault::BadMetadata)?;
        }
        // What was found must not be lost in a power loss, since it is recorded now.
        let ssds: BTreeSet<SsdId> = self.metadata.state().places().map(|place| place.ssd).collect();
        for ssd in ssds.into_iter().filter(|ssd| self.space.is_up(*ssd)) {
            self.disks.harden_all(ssd).await?;
        }
        Ok(())
    }

    async fn find_end(self: &Rc<Self>, file: FileId) -> Result<Layout, Fault> {
        let micro_blocks = self.phase.geometry().micro_blocks();
        let (mut layout, extents) = {
            let state = self.metadata.state();
            let entry = state.file(file).expect("it is open");
            (entry.layout.clone(), entry.extents.clone())
        };
        let first = layout.next_block.div_ceil(micro_blocks);
        layout.next_block =
            layout.next_block.max(first * micro_blocks).min(extents.len() as u64 * micro_blocks);
        let recorded = layout.clone();
        // What the file was before somebody began to write parts of it again.
        let mut before: Option<Layout> = None;
        let mut is_at_end = false;
        for (index, extent) in extents.iter().enumerate().skip(first as usize) {
            if is_at_end {
                break;
            }
            let ssds: Vec<SsdId> =
                (0..2).filter_map(|side| extent.good(side)).map(|place| place.ssd).collect();
            let ends = self.in_time(&ssds, async || self.read_ends(file, index as u64, extent).await).await?;
            // Past the first difference nothing was acknowledged, so one copy has to have it all.
            let mut is_good = [0, 1].map(|side| extent.good(side).is_some());
            for within in 0..micro_blocks {
                let block = index as u64 * micro_blocks + within;
                let best = (0..2)
                    .filter(|&side| is_good[side])
                    .filter_map(|side| Some((side, ends[side].as_ref()?.get(&block)?)))
                    .max_by_key(|(side, end)| (end.length, 1 - side));
                // Past the first block that neither copy has, nothing was acknowledged.
                let Some((best_side, best)) = best.filter(|(_, end)| end.offset <= layout.size) else {
                    is_at_end = true;
                    break;
                };
                if best.offset < layout.size && before.as_ref().is_none_or(|before| before.size < layout.size)
                {
                    before = Some(layout.clone());
                }
                self.add_block(&mut layout, block, best);
                before = before.filter(|before| layout.size < before.size);
                for side in (0..2).filter(|&side| side != best_side) {
                    if !is_good[side] {
                        continue;
                    }
                    let has = ends[side].as_ref().map(|ends| ends.get(&block).map(|end| end.length));
                    if has != Some(Some(best.length)) {
                        self.metadata.find_stale(file, index, side);
                        is_good[side] = false;
                    }
                }
            }
        }
        if let Some(before) = before {
            // The second writing is not complete, so the first one counts.
            layout = Layout { next_block: layout.next_block, ..before };
        }
        if layout == recorded {
            // Nothing was added; the micro blobs behind the record are given up.
            return Ok(self.metadata.state().file(file).expect("it is open").layout.clone());
        }
        Ok(layout)
    }

    fn add_block(&self, layout: &mut Layout, block: u64, end: &End) {
        let payload = self.phase.geometry().payload();
        if end.offset < layout.size {
            layout.truncate(end.offset);
        }
        let continues = layout.runs.last().is_some_and(|run| {
            let position = block - run.block;
            block == layout.next_block && run.offset + position * payload == end.offset
        });
        if !continues {
            layout.runs.push(Run { block, offset: end.offset });
        }
        layout.size = end.offset + end.length;
        layout.next_block = block + 1;
    }

    /// Blocks of a file in a micro blob, by index, for each copy that can be read.
    async fn read_ends(
        self: &Rc<Self>,
        file: FileId,
        index: u64,
        extent: &Extent,
    ) -> Result<[Option<BTreeMap<u64, End>>; 2], Fault> {
        let read = |side: usize| {
            let place = extent.good(side);
            async move {
                match place {
                    Some(place) => self.read_end(file, index, place).await,
                    None => None,
                }
            }
        };
        let mut ends = join([read(0), read(1)]).await.into_iter();
        let ends = [ends.next().flatten(), ends.next().flatten()];
        if ends.iter().all(Option::is_none) { Err(Fault::Unreachable) } else { Ok(ends) }
    }

    async fn read_end(self: &Rc<Self>, file: FileId, index: u64, place: Place) -> Option<BTreeMap<u64, End>> {
        let (identity, geometry) = (self.phase.identity(), self.phase.geometry());
        let era = self.metadata.state().file(file)?.layout.era;
        let bytes = self.disks.read_micro(Class::Normal, place).await.ok()?;
        let mut blocks = BTreeMap::new();
        for (within, bytes) in (0..).zip(bytes.chunks(geometry.block as usize)) {
            let block = index * geometry.micro_blocks() + within;
            if let Some((header, payload)) = block::open(bytes)
                && header.volume == identity.volume
                && header.file == file
                && header.index == block
                && header.era == era
                && !payload.is_empty()
            {
                let length = payload.len() as u64;
                blocks.insert(block, End { length, offset: header.offset });
            }
        }
        Some(blocks)
    }

    /// Everything that the volume owns and no file uses is free, some of it later.
    fn fill_pool(self: &Rc<Self>, acquired: &Acquired) {
        let used: BTreeSet<Place> = self.metadata.state().places().collect();
        let (clean, now) = (acquired.record.is_clean, self.clock.now());
        let from = if clean { Instant::ZERO } else { now + self.settings.quarantine };
        if !clean {
            // Nor is what is freed soon: the mount before may still write to the ends of its files.
            for ssd in acquired.ssds.iter().map(|ssd| ssd.id) {
                self.disks.note_stray(ssd, from);
            }
        }
        let megas = acquired.owned.iter().copied().filter(|mega| !acquired.record.meta.contains(mega));
        self.space.own(megas, &used, from);
    }

    /// Ends the mount in order.
    pub(crate) async fn unmount(self: &Rc<Self>) -> Result<(), Fault> {
        let live: Vec<FileId> = self.files.open_files();
        for file in live {
            match self.syncer.sync(file).await {
                // Recorded and closed meanwhile.
                Err(Fault::BadHandle) => {}
                result => result?,
            }
        }
        self.sync_names().await?;
        let lock = self.lease.lock()?;
        // Nothing new is sent; what is on its way ends first, so that it cannot hit the next mount.
        self.end();
        self.disks.idle().await;
        let is_clean = self.disks.is_calm();
        match self.orders.send(Order::Release { lock, is_clean }).await {
            Ok(_) => Ok(()),
            Err(OrderError::Unavailable(_)) => Err(Fault::LeaseUnsure),
            Err(_) => Err(Fault::Fenced),
        }
    }

    /// Stops all background work.
    pub(crate) fn end(&self) {
        self.phase.end();
        self.journal.stop();
        self.disks.stop();
        self.repair.gate().notify();
        self.space.stop();
        self.lease.stop();
    }
}
