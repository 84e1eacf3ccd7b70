//! The SLC cache: blocks that are written with one bit per cell, fast, up to a quota; folded into full cells
//! when the device is idle.
//!
//! A stripe uses this mode only if every die of its group has room for it. Folding is done by the collector,
//! with the oldest SLC block as its victim. It starts when no command has been outstanding for a while, and
//! stops at the next command. Folded data leaves garbage, so an idle device also collects until every unused
//! block of the quota is free. When the quota is used up, the drive writes straight to full cells until it is
//! idle again: *buffer-exhausted degradation*.

use crate::flash::{DieSpace, Flash, OpenBlock, Victim};
use std::ops::Range;

impl Flash {
    /// Whether the next stripe on these dies goes to the cache.
    pub(crate) fn slc_has_room(&self, mut dies: Range<u32>) -> bool {
        self.geometry.slc_blocks > 0 && dies.all(|die| self.die_has_slc_room(die))
    }

    fn die_has_slc_room(&self, die: u32) -> bool {
        let space = &self.space[die as usize];
        let open = space.slc.is_some_and(|open| open.left() > 0);
        let may_open =
            space.slc_used < self.geometry.slc_blocks && space.free.len() > self.geometry.free_low as usize;
        (open || may_open) && self.mapping.valid_on_die(die) < self.geometry.full_die()
    }

    /// Opens a free block of `die` in SLC mode.
    pub(crate) fn open_slc_block(&mut self, die: u32) -> OpenBlock {
        let open = self.open_block(die, true);
        let space = &mut self.space[die as usize];
        space.slc_used += 1;
        space.slc_written.push_back(open.block);
        open
    }

    /// Makes the oldest block of the cache the victim, if it is full.
    pub(crate) fn pick_fold(&mut self, die: u32) -> Option<Victim> {
        let &block = self.space[die as usize].slc_written.front()?;
        let state = self.mapping.block(block);
        if !state.is_full() {
            return None;
        }
        let victim = Victim {
            block,
            scanned: 0,
            valid: u32::from(state.valid),
            slots: u32::from(state.slots),
            slc: true,
        };
        let space = &mut self.space[die as usize];
        space.slc_written.pop_front();
        space.victim = Some(victim);
        Some(victim)
    }

    /// Slots that the cache can still take: the unused quota, up to the free blocks for it, plus
    /// the rest of the open blocks.
    pub(crate) fn slc_free_slots(&self) -> u64 {
        let block_slots = self.geometry.block_slots(true);
        let on_die = |space: &DieSpace| {
            let spare = (space.free.len() as u32).saturating_sub(self.geometry.free_low);
            let unused = spare.min(self.geometry.slc_blocks - space.slc_used) * block_slots;
            u64::from(unused + space.slc.map_or(0, |open| open.left()))
        };
        self.space.iter().map(on_die).sum()
    }
}
