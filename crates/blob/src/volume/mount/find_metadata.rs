//! Finds the metadata of the previous mount: the newest journal of the current copies.

use crate::catalog::Acquired;
use crate::format::stream;
use crate::format::superblock::Superblock;
use crate::task::join;
use crate::volume::Settings;
use crate::volume::disks::Disks;
use crate::volume::parts::Parts;
use crate::volume::state::State;
use crate::{Class, Fault, Mega, SsdId};
use std::rc::Rc;

/// A journal that was found on one copy.
struct Found {
    checkpoint: u64,
    blocks: u64,
    stream: Vec<u8>,
}

/// The procedure; see the module.
pub(crate) struct MetadataFinder {
    settings: Rc<Settings>,
    disks: Rc<Disks>,
}

impl MetadataFinder {
    pub(crate) fn new(parts: &Parts) -> Rc<MetadataFinder> {
        Rc::new(MetadataFinder { settings: Rc::clone(&parts.settings), disks: Rc::clone(&parts.disks) })
    }

    /// The newest metadata among the current copies. Waits for copies that are away if it needs them.
    pub(super) async fn find(&self, acquired: &Acquired) -> Result<State, Fault> {
        let ssds: Vec<SsdId> = acquired.record.meta.iter().map(|mega| mega.ssd).collect();
        self.disks.in_time(&ssds, async || self.find_state(acquired).await).await
    }

    async fn find_state(&self, acquired: &Acquired) -> Result<State, Fault> {
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

    async fn find_journal(&self, acquired: &Acquired, mega: Mega) -> Result<Found, Fault> {
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
}
