//! Writes and flushes of the journal. A copy that misses one is struck off before anything is acknowledged.

use super::Journal;
use crate::catalog::Order;
use crate::format::stream;
use crate::task::join;
use crate::volume::disks::{Sequence, WriteError};
use crate::volume::space::Space;
use crate::{Class, Fault, Mega};
use std::sync::Arc;

/// The result of a write to the copies.
pub(super) struct Written {
    pub(super) lost: Vec<Mega>,
    /// Position in the order of writes; `None` if the write may be lost.
    pub(super) sequences: Vec<(Mega, Option<Sequence>)>,
}

impl Journal {
    pub(super) async fn turn(&self, space: &Space) -> Result<(), Fault> {
        self.lease.may_write().await?;
        if self.heal_wanted.take() && !self.has_two_copies() {
            let healed = self.heal_now(space).await;
            self.heals.set(self.heals.get() + 1);
            self.gate.notify();
            return healed;
        }
        if self.must_checkpoint.get() {
            return self.checkpoint(&[]).await;
        }
        let (upto, bytes) = (self.appended.get(), std::mem::take(&mut *self.pending.borrow_mut()));
        if !bytes.is_empty() {
            let mut blocks = Vec::new();
            let position = self.position.get();
            let count = self.current().seal(&mut blocks, self.phase.geometry().block, position, &bytes);
            if position + count > self.half_blocks() {
                return self.checkpoint(&[]).await;
            }
            let copies = self.copies.borrow().clone();
            let at = self.half_block(self.checkpoint.get(), position);
            // If this fails half-way, the next checkpoint contains all of it.
            self.must_checkpoint.set(true);
            self.risk_half(self.checkpoint.get(), true);
            let written = self.write_copies(&copies, at, blocks).await?;
            self.risk_half(self.checkpoint.get(), false);
            self.strike_off(&written.lost).await?;
            self.must_checkpoint.set(false);
            let mut unflushed = self.unflushed.borrow_mut();
            for (mega, sequence) in written.sequences {
                let entry = unflushed.entry(mega).or_insert((Sequence::MAX, 0, false));
                match sequence {
                    Some(sequence) => *entry = (entry.0.min(sequence), entry.1.max(sequence), entry.2),
                    None => entry.2 = true,
                }
            }
            self.position.set(position + count);
            self.written.set(upto);
            self.gate.notify();
        }
        if self.want_durable.get() > self.durable.get() {
            let upto = self.written.get();
            // If this fails half-way, or a connection was lost, the next checkpoint contains all of it.
            self.must_checkpoint.set(true);
            if !self.flush_copies().await? {
                return Ok(());
            }
            self.must_checkpoint.set(false);
            self.durable.set(upto);
            self.gate.notify();
        }
        Ok(())
    }

    /// Flushes the writes on all copies. Returns `false` if a connection was lost, so that some of them may be lost.
    async fn flush_copies(&self) -> Result<bool, Fault> {
        let unflushed = std::mem::take(&mut *self.unflushed.borrow_mut());
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

    /// Writes the same blocks to all copies. Fails if every copy fails.
    pub(super) async fn write_copies(
        &self,
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

    /// Removes copies from the current ones, in the store too, before anything is acknowledged.
    async fn strike_off(&self, lost: &[Mega]) -> Result<(), Fault> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut left = self.copies.borrow().clone();
        left.retain(|mega| !lost.contains(mega));
        if left.is_empty() {
            return Err(Fault::Unreachable);
        }
        self.publish(left).await?;
        self.copies_lost.set(self.copies_lost.get() + 1);
        self.heal_wanted.set(true);
        Ok(())
    }

    pub(super) async fn publish(&self, copies: Vec<Mega>) -> Result<(), Fault> {
        self.lease.order(|lock| Order::Publish { lock, meta: copies.clone() }).await?;
        *self.copies.borrow_mut() = copies;
        Ok(())
    }

    pub(super) fn current(&self) -> stream::Journal {
        let identity = self.phase.identity();
        let checkpoint = self.checkpoint.get();
        stream::Journal { volume: identity.volume, generation: identity.generation, checkpoint }
    }

    pub(super) fn half_blocks(&self) -> u64 {
        (self.phase.geometry().slot_blocks() - 2) / 2
    }

    /// The block of the slot for a position in the half of a checkpoint.
    pub(super) fn half_block(&self, checkpoint: u64, position: u64) -> u64 {
        2 + (checkpoint % 2) * self.half_blocks() + position
    }
}
