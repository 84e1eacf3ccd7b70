//! The journal: every change of metadata, on two SSDs, in order.
//!
//! ```text
//!   record() ─► state in memory, and pending ──one write at a time──► both copies: written ──flush──► durable
//!                                                     │ the half is full: a checkpoint
//!                                                     ▼
//!                                          snapshot in the other half, flush, superblock, flush
//! ```
//!
//! Records that come while a write is on its way go together with the next one. Nothing is ever overwritten that is in
//! force: each batch begins a new block, and after a failure on all copies the next attempt is a checkpoint.
//!
//! A copy that misses a write is struck off the store's list of current copies before anything is acknowledged. So a mount
//! never takes an outdated copy for a current one. A new second copy is made as soon as there is an SSD for it.
//!
//! Holds: what was acknowledged is found again (`tests/worlds.rs`).

use super::core::Core;
use super::disks::{Sequence, WriteError};
use crate::catalog::{Order, Reply};
use crate::format::record::Record;
use crate::format::stream::{self, Journal};
use crate::format::superblock::Superblock;
use crate::task::{Gate, join};
use crate::{Class, Fault, Mega};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use units::{Instant, Nanos};

/// Position of a record in the order of records.
pub(crate) type Lsn = u64;

/// Pause after an attempt that no copy survived.
const RETRY: Nanos = Nanos::millis(100);

#[derive(Default)]
pub(crate) struct JournalState {
    /// The last record.
    pub(crate) appended: Cell<Lsn>,
    /// Records up to here are on every current copy.
    written: Cell<Lsn>,
    /// … and survive a power loss there.
    durable: Cell<Lsn>,
    want_durable: Cell<Lsn>,
    pending: RefCell<Vec<u8>>,
    /// The current copies.
    pub(crate) copies: RefCell<Vec<Mega>>,
    /// Writes to each of them that no flush has covered: first, last, and whether one may be lost.
    unflushed: RefCell<BTreeMap<Mega, (Sequence, Sequence, bool)>>,
    /// The checkpoint in force, and the last one that was tried.
    checkpoint: Cell<u64>,
    attempted: Cell<u64>,
    /// The next block of the half.
    position: Cell<u64>,
    must_checkpoint: Cell<bool>,
    /// Until when a write to each half that was given up may still happen.
    risky_until: Cell<[Instant; 2]>,
    /// Attempts that failed, and why the last one did.
    failures: Cell<u64>,
    fault: Cell<Option<Fault>>,
    /// Look for a second copy.
    pub(crate) heal_wanted: Cell<bool>,
    /// How often that was done.
    heals: Cell<u64>,
    pub(crate) gate: Gate,
}

/// What became of a write to the copies.
struct Written {
    lost: Vec<Mega>,
    /// Where in the order of writes; `None` if it may be lost.
    sequences: Vec<(Mega, Option<Sequence>)>,
}

impl Core {
    /// Changes the metadata. In effect in memory at once; `written` and `durable` tell when it is safe.
    pub(crate) fn record(self: &Rc<Self>, record: &Record) -> Lsn {
        let micro_blocks = self.phase.geometry().micro_blocks();
        let effects = self.state.borrow_mut().apply(record, micro_blocks);
        let effects = effects.unwrap_or_else(|_| panic!("a record that does not fit: {record:?}"));
        let lsn = self.journal.appended.get() + 1;
        self.journal.appended.set(lsn);
        stream::put(&mut self.journal.pending.borrow_mut(), record);
        self.journal.gate.notify();
        for place in effects.freed {
            self.free(place, lsn);
        }
        if let Some(file) = effects.unlinked {
            self.drop_if_unused(file);
        }
        lsn
    }

    /// Waits until a record is on every current copy: a crash of this client does not lose it.
    pub(crate) async fn written(&self, lsn: Lsn) -> Result<(), Fault> {
        self.wait_for(lsn, |journal| journal.written.get()).await
    }

    /// Waits until a record survives power losses as well.
    pub(crate) async fn durable(&self, lsn: Lsn) -> Result<(), Fault> {
        self.want_durable(lsn);
        self.wait_for(lsn, |journal| journal.durable.get()).await
    }

    pub(crate) fn want_durable(&self, lsn: Lsn) {
        let journal = &self.journal;
        if lsn > journal.want_durable.get() {
            journal.want_durable.set(lsn);
            journal.gate.notify();
        }
    }

    async fn wait_for(&self, lsn: Lsn, reached: impl Fn(&JournalState) -> Lsn) -> Result<(), Fault> {
        let journal = &self.journal;
        let failures = journal.failures.get();
        journal
            .gate
            .wait(|| {
                if reached(journal) >= lsn {
                    Some(Ok(()))
                } else if self.lease.is_fenced() {
                    Some(Err(Fault::Fenced))
                } else if journal.failures.get() > failures || self.phase.is_over() {
                    Some(Err(journal.fault.get().unwrap_or(Fault::NotMounted)))
                } else {
                    None
                }
            })
            .await
    }

    fn journal_failed(&self, fault: Fault) {
        let journal = &self.journal;
        journal.fault.set(Some(fault));
        journal.failures.set(journal.failures.get() + 1);
        journal.gate.notify();
    }

    /// Writes what is pending, for as long as the volume is mounted.
    pub(crate) async fn keep_journal(self: Rc<Self>) {
        let journal = &self.journal;
        loop {
            journal
                .gate
                .wait(|| {
                    let is_work = journal.written.get() < journal.appended.get()
                        || journal.durable.get() < journal.want_durable.get()
                        || journal.must_checkpoint.get()
                        || journal.heal_wanted.get();
                    (is_work || self.phase.is_over() || self.lease.is_fenced()).then_some(())
                })
                .await;
            if self.phase.is_over() || self.lease.is_fenced() {
                journal.gate.notify();
                return;
            }
            if let Err(fault) = self.journal_turn().await {
                self.journal_failed(fault);
                self.clock.sleep(RETRY).await;
            }
        }
    }

    async fn journal_turn(self: &Rc<Self>) -> Result<(), Fault> {
        let journal = &self.journal;
        self.lease.may_write().await?;
        if journal.heal_wanted.take() && !self.has_two_copies() {
            let healed = self.heal_metadata().await;
            journal.heals.set(journal.heals.get() + 1);
            journal.gate.notify();
            return healed;
        }
        if journal.must_checkpoint.get() {
            return self.checkpoint(&[]).await;
        }
        let (upto, bytes) = (journal.appended.get(), std::mem::take(&mut *journal.pending.borrow_mut()));
        if !bytes.is_empty() {
            let mut blocks = Vec::new();
            let position = journal.position.get();
            let count =
                self.current_journal().seal(&mut blocks, self.phase.geometry().block, position, &bytes);
            if position + count > self.half_blocks() {
                return self.checkpoint(&[]).await;
            }
            let copies = journal.copies.borrow().clone();
            let at = self.half_block(journal.checkpoint.get(), position);
            // If this fails half-way, a checkpoint has all of it.
            journal.must_checkpoint.set(true);
            self.risk_half(journal.checkpoint.get(), true);
            let written = self.write_copies(&copies, at, blocks).await?;
            self.risk_half(journal.checkpoint.get(), false);
            self.strike_off(&written.lost).await?;
            journal.must_checkpoint.set(false);
            let mut unflushed = journal.unflushed.borrow_mut();
            for (mega, sequence) in written.sequences {
                let entry = unflushed.entry(mega).or_insert((Sequence::MAX, 0, false));
                match sequence {
                    Some(sequence) => *entry = (entry.0.min(sequence), entry.1.max(sequence), entry.2),
                    None => entry.2 = true,
                }
            }
            journal.position.set(position + count);
            journal.written.set(upto);
            journal.gate.notify();
        }
        if journal.want_durable.get() > journal.durable.get() {
            let upto = journal.written.get();
            // If this fails half-way, or a connection was lost, a checkpoint has all of it.
            journal.must_checkpoint.set(true);
            if !self.flush_copies().await? {
                return Ok(());
            }
            journal.must_checkpoint.set(false);
            journal.durable.set(upto);
            journal.gate.notify();
        }
        Ok(())
    }

    /// Flushes what was written to all copies. `false`: a connection was lost, so that some of it may be lost.
    async fn flush_copies(self: &Rc<Self>) -> Result<bool, Fault> {
        let unflushed = std::mem::take(&mut *self.journal.unflushed.borrow_mut());
        let flushes = unflushed.iter().map(|(mega, &(first, last, is_lost))| async move {
            let result = self.disks.flush(mega.ssd, last).await;
            (result, is_lost || self.disks.may_lack(mega.ssd, first, last))
        });
        let ends = join(flushes).await;
        let lost: Vec<Mega> =
            unflushed.keys().zip(&ends).filter(|(_, end)| end.0.is_err()).map(|(mega, _)| *mega).collect();
        self.strike_off(&lost).await?;
        Ok(ends.iter().all(|(result, may_lack)| result.is_err() || !may_lack))
    }

    /// Writes the same blocks to all copies. Fails if none has them.
    async fn write_copies(
        self: &Rc<Self>,
        copies: &[Mega],
        at: u64,
        blocks: Vec<u8>,
    ) -> Result<Written, Fault> {
        let bytes = Arc::new(blocks);
        let generation = self.phase.identity().generation;
        let writes = copies.iter().map(|mega| {
            let start = self.phase.geometry().slot_byte(*mega, generation)
                + at * u64::from(self.phase.geometry().block);
            self.disks.write(mega.ssd, Class::Urgent, start, Arc::clone(&bytes))
        });
        let ends = join(writes).await;
        let mut written = Written { lost: Vec::new(), sequences: Vec::new() };
        for (mega, end) in copies.iter().zip(ends) {
            match end {
                Ok(sequence) => written.sequences.push((*mega, sequence)),
                Err(WriteError::Disk(_)) => written.lost.push(*mega),
                Err(WriteError::Lease(fault)) => return Err(fault),
            }
        }
        if written.lost.len() == copies.len() { Err(Fault::Unreachable) } else { Ok(written) }
    }

    /// These copies are not current any more; the store is told before anything is acknowledged.
    async fn strike_off(self: &Rc<Self>, lost: &[Mega]) -> Result<(), Fault> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut left = self.journal.copies.borrow().clone();
        left.retain(|mega| !lost.contains(mega));
        if left.is_empty() {
            return Err(Fault::Unreachable);
        }
        self.publish(left).await?;
        self.counters.borrow_mut().metadata_copies_lost += 1;
        self.journal.heal_wanted.set(true);
        Ok(())
    }

    async fn publish(self: &Rc<Self>, copies: Vec<Mega>) -> Result<(), Fault> {
        self.lease.order(|lock| Order::Publish { lock, meta: copies.clone() }).await?;
        *self.journal.copies.borrow_mut() = copies;
        Ok(())
    }

    fn current_journal(&self) -> Journal {
        let identity = self.phase.identity();
        let checkpoint = self.journal.checkpoint.get();
        Journal { volume: identity.volume, generation: identity.generation, checkpoint }
    }

    fn half_blocks(&self) -> u64 {
        (self.phase.geometry().slot_blocks() - 2) / 2
    }

    /// Block of the slot at which a block of the half of a checkpoint is.
    fn half_block(&self, checkpoint: u64, position: u64) -> u64 {
        2 + (checkpoint % 2) * self.half_blocks() + position
    }

    /// Begins a new journal with a snapshot, on the current copies and on those in `more`.
    pub(crate) async fn checkpoint(self: &Rc<Self>, more: &[Mega]) -> Result<(), Fault> {
        let (journal, block) = (&self.journal, u64::from(self.phase.geometry().block));
        journal.must_checkpoint.set(true);
        // After a failed attempt, another number for the same half: nothing of that attempt is taken for this one, and the
        // half in force is left alone.
        let (current, tried) = (journal.checkpoint.get(), journal.attempted.get());
        let number = if tried > current { tried + 2 } else { current + 1 };
        journal.attempted.set(number);
        self.clock.sleep_until(journal.risky_until.get()[number as usize % 2]).await;
        self.lease.may_write().await?;
        let next = Journal { checkpoint: number, ..self.current_journal() };
        let upto = journal.appended.get();
        journal.pending.borrow_mut().clear();
        let mut stream_bytes = Vec::new();
        let micro_blocks = self.phase.geometry().micro_blocks();
        let snapshot = self.state.borrow().snapshot(micro_blocks);
        snapshot.iter().for_each(|record| stream::put(&mut stream_bytes, record));
        let mut blocks = Vec::new();
        let snapshot_blocks = next.seal(&mut blocks, self.phase.geometry().block, 0, &stream_bytes);
        if snapshot_blocks >= self.half_blocks() {
            return Err(Fault::MetadataFull);
        }
        let before = journal.copies.borrow().clone();
        let mut copies: Vec<Mega> = before.iter().chain(more).copied().collect();
        let chunk = (self.settings.write_max.0 / block).max(1) as usize * block as usize;
        let mut position = 0;
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for piece in blocks.chunks(chunk) {
            pieces.push((self.half_block(next.checkpoint, position), piece.to_vec()));
            position += piece.len() as u64 / block;
        }
        self.risk_half(number, true);
        self.checkpoint_writes(&mut copies, pieces).await?;
        let superblock = Superblock { journal: next, snapshot_blocks }.seal(self.phase.geometry().block);
        self.checkpoint_writes(&mut copies, vec![(next.checkpoint % 2, superblock)]).await?;
        // The first checkpoint of a mount is not current before the store says so.
        if copies != before || !self.phase.is_mounted() {
            self.publish(copies.clone()).await?;
        }
        journal.heal_wanted.set(journal.heal_wanted.get() || copies.len() < before.len());
        self.risk_half(number, false);
        journal.checkpoint.set(number);
        journal.unflushed.borrow_mut().clear();
        journal.position.set(snapshot_blocks);
        journal.must_checkpoint.set(false);
        journal.written.set(upto);
        journal.durable.set(upto);
        self.counters.borrow_mut().checkpoints += 1;
        journal.gate.notify();
        Ok(())
    }

    /// Writes to a half are on their way, or have ended well on all copies that are left. If they end otherwise, the half
    /// is left alone for as long as they may still happen.
    fn risk_half(&self, checkpoint: u64, is_risky: bool) {
        let mut until = self.journal.risky_until.get();
        let longest = Nanos(self.settings.quarantine.0.saturating_mul(2));
        until[checkpoint as usize % 2] = if is_risky { self.clock.now() + longest } else { Instant::ZERO };
        self.journal.risky_until.set(until);
    }

    /// Writes pieces at blocks of the slot, and flushes. Copies that fail are taken out.
    async fn checkpoint_writes(
        self: &Rc<Self>,
        copies: &mut Vec<Mega>,
        pieces: Vec<(u64, Vec<u8>)>,
    ) -> Result<(), Fault> {
        let mut last: Vec<(Mega, Sequence, Sequence)> = Vec::new();
        for (at, piece) in pieces {
            let written = self.write_copies(copies, at, piece).await?;
            copies.retain(|mega| !written.lost.contains(mega));
            for (mega, sequence) in written.sequences {
                let Some(sequence) = sequence else {
                    copies.retain(|copy| *copy != mega);
                    continue;
                };
                match last.iter_mut().find(|(of, ..)| *of == mega) {
                    Some((_, _, to)) => *to = sequence,
                    None => last.push((mega, sequence, sequence)),
                }
            }
        }
        last.retain(|(mega, ..)| copies.contains(mega));
        let ends = join(last.iter().map(|&(mega, _, to)| self.disks.flush(mega.ssd, to))).await;
        for ((mega, from, to), end) in last.into_iter().zip(ends) {
            if end.is_err() || self.disks.may_lack(mega.ssd, from, to) {
                copies.retain(|copy| *copy != mega);
            }
        }
        if copies.is_empty() { Err(Fault::Unreachable) } else { Ok(()) }
    }

    /// Whether the metadata has both of its copies, as far as is known.
    pub(crate) fn has_two_copies(&self) -> bool {
        self.journal.copies.borrow().len() >= 2
    }

    /// Has a second copy of the metadata made if there is only one, and waits until that was tried.
    pub(crate) async fn heal(self: &Rc<Self>) {
        if self.has_two_copies() {
            return;
        }
        let journal = &self.journal;
        let before = journal.heals.get();
        journal.heal_wanted.set(true);
        journal.gate.notify();
        let is_over = || {
            journal.heals.get() > before
                || self.has_two_copies()
                || self.phase.is_over()
                || self.lease.is_fenced()
        };
        journal.gate.wait(|| is_over().then_some(())).await;
    }

    /// Makes a second copy of the metadata, if an SSD of another target has room: a mega blob that the store still has, or one of this volume that
    /// nothing is in.
    async fn heal_metadata(self: &Rc<Self>) -> Result<(), Fault> {
        let copies = self.journal.copies.borrow().clone();
        let candidates: Vec<_> = {
            let pool = self.pool.borrow();
            let taken: BTreeSet<_> =
                copies.iter().filter_map(|mega| pool.domain(mega.ssd).map(str::to_owned)).collect();
            let free = pool.ssds().filter(|&ssd| {
                pool.is_up(ssd) && pool.domain(ssd).is_some_and(|domain| !taken.contains(domain))
            });
            free.map(|ssd| (ssd, pool.megas_of(ssd))).collect()
        };
        for &candidate in &candidates {
            let reply = self.order_megas(|lock| Order::Take { lock, ssds: vec![candidate] }).await?;
            if let Reply::Taken(megas) = reply {
                return self.copy_metadata(&megas).await;
            }
        }
        let now = self.clock.now();
        let own = candidates.iter().find_map(|&(ssd, _)| self.pool.borrow_mut().take_idle_of(now, ssd));
        match own {
            Some(mega) => self.copy_metadata(&[mega]).await,
            // Tried again later (`keep_whole`).
            None => Ok(()),
        }
    }

    /// Puts a copy of the metadata into each of these mega blobs, too. Those to which it could not be written are for data.
    async fn copy_metadata(self: &Rc<Self>, megas: &[Mega]) -> Result<(), Fault> {
        // If this fails, the store may have heard of the copy: until the next mount the mega blobs are for nothing.
        self.checkpoint(megas).await?;
        let copies = self.journal.copies.borrow();
        let from = self.clock.now() + self.settings.quarantine;
        let unused = megas.iter().filter(|mega| !copies.contains(mega));
        unused.for_each(|mega| self.pool.borrow_mut().add_mega(*mega, &BTreeSet::new(), from));
        Ok(())
    }
}
