//! A checkpoint: a snapshot of the metadata in the other half of the slot, and a new journal after it.

use super::Journal;
use crate::format::stream;
use crate::format::superblock::Superblock;
use crate::task::join;
use crate::volume::disks::Sequence;
use crate::{Fault, Mega};
use units::{Instant, Nanos};

impl Journal {
    /// Begins a new journal with a snapshot, on the current copies and on those in `more`.
    pub(crate) async fn checkpoint(&self, more: &[Mega]) -> Result<(), Fault> {
        let block = u64::from(self.phase.geometry().block);
        self.must_checkpoint.set(true);
        // After a failed attempt, use another number for the same half, so that no block of that attempt is taken for
        // one of this, and the half in force is left alone.
        let (current, tried) = (self.checkpoint.get(), self.attempted.get());
        let number = if tried > current { tried + 2 } else { current + 1 };
        self.attempted.set(number);
        self.clock.sleep_until(self.risky_until.get()[number as usize % 2]).await;
        self.lease.may_write().await?;
        let next = stream::Journal { checkpoint: number, ..self.current() };
        let upto = self.appended.get();
        self.pending.borrow_mut().clear();
        let mut stream_bytes = Vec::new();
        let micro_blocks = self.phase.geometry().micro_blocks();
        let snapshot = self.metadata.state().snapshot(micro_blocks);
        snapshot.iter().for_each(|record| stream::put(&mut stream_bytes, record));
        let mut blocks = Vec::new();
        let snapshot_blocks = next.seal(&mut blocks, self.phase.geometry().block, 0, &stream_bytes);
        if snapshot_blocks >= self.half_blocks() {
            return Err(Fault::MetadataFull);
        }
        let before = self.copies.borrow().clone();
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
        // The first checkpoint of a mount becomes current only when it is published in the store.
        if copies != before || !self.phase.is_mounted() {
            self.publish(copies.clone()).await?;
        }
        self.heal_wanted.set(self.heal_wanted.get() || copies.len() < before.len());
        self.risk_half(number, false);
        self.checkpoint.set(number);
        self.unflushed.borrow_mut().clear();
        self.position.set(snapshot_blocks);
        self.must_checkpoint.set(false);
        self.written.set(upto);
        self.durable.set(upto);
        self.checkpoints_made.set(self.checkpoints_made.get() + 1);
        self.gate.notify();
        Ok(())
    }

    /// Notes that writes to a half are in flight (`is_risky`), or have succeeded on all copies that are left. If they
    /// end otherwise, the half is left alone for as long as they may still take effect.
    pub(super) fn risk_half(&self, checkpoint: u64, is_risky: bool) {
        let mut until = self.risky_until.get();
        let longest = Nanos(self.settings.quarantine.0.saturating_mul(2));
        until[checkpoint as usize % 2] = if is_risky { self.clock.now() + longest } else { Instant::ZERO };
        self.risky_until.set(until);
    }

    /// Writes pieces at blocks of the slot, and flushes. Removes copies that fail from the list.
    async fn checkpoint_writes(
        &self,
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
}
