//! Garbage collection: which block to empty, how its valid slots are copied, and at what pace.
//!
//! Each die collects on its own, greedily: it takes the full block with the fewest valid slots. The work of a
//! die is cut into steps of one page (sense, transfer), so that reads can run in between. Copies are gathered
//! into program units of the same die.
//!
//! **Pacing.** A block with `v` of `N` slots valid costs `v` copies and yields `N − v` free slots. So in the
//! steady state each host slot must pay for `v / (N − v)` copies. Programming a host unit adds that much to
//! the die's *debt*; copying pays it off. A factor between 0 and 2 keeps the number of free blocks `f` near
//! `free_low + ½`: `m = 1 + (free_low + ½ − f) / 2`. With an on/off threshold instead, all dies would collect
//! at the same time, and the bandwidth would oscillate. A drive with a *reserve* keeps a part of its spare space
//! erased: host writes pay nothing until it is used up, and a die that has nothing else to do refills it. A drive that collects *in rounds*
//! waits until a die is short of free blocks, and then collects on every die until that has gained one.

use crate::flash::{Flash, OpenBlock, Unit, UnitOrigin, Victim};
use crate::geometry::{PhysicalSlot, SLOTS_PER_PAGE};
use std::collections::VecDeque;

/// Fixed point for debts and shares of blocks: 16 fractional bits.
const ONE: i64 = 1 << 16;
/// Collection may run ahead of its debt by this many slots at most.
const AHEAD_MOST: i64 = 64 * ONE;
/// A block with less garbage than one part in this number is not collected for the reserve.
const REFILL_GAIN: u16 = 8;

/// Copies that a die owes for host writes, in slots of fixed point.
#[derive(Clone, Copy, Default)]
pub(crate) struct Debt(i64);

impl Debt {
    pub(crate) fn is_owed(self) -> bool {
        self.0 > 0
    }

    fn pay(&mut self, copies: u32) {
        self.0 = (self.0 - i64::from(copies) * ONE).max(-AHEAD_MOST);
    }
}

/// The result of one step on a victim.
pub(crate) enum Step {
    /// Copied this many valid slots of a page.
    Copied { slots: u32, page: u8, slc: bool },
    /// No valid slots are left: erase the block.
    Emptied,
}

impl Flash {
    /// The victim of `die`; picks a new one if there is none. With `fold`, only from the SLC cache.
    pub(crate) fn victim(&mut self, die: u32, fold: bool) -> Option<Victim> {
        match self.space[die as usize].victim {
            Some(victim) => Some(victim),
            None if fold => self.pick_fold(die),
            None => self.pick_greedily(die),
        }
    }

    /// Makes the full block with the fewest valid slots the victim. A block without garbage is never a
    /// victim.
    fn pick_greedily(&mut self, die: u32) -> Option<Victim> {
        let block = self.collectable(die).min_by_key(|&block| self.mapping.block(block).valid)?;
        let state = self.mapping.block(block);
        let victim = Victim {
            block,
            scanned: 0,
            valid: u32::from(state.valid),
            slots: u32::from(state.slots),
            slc: false,
        };
        self.space[die as usize].victim = Some(victim);
        Some(victim)
    }

    /// Copies the valid slots of the next page of the victim that has any. Filled program units go to
    /// `filled`.
    pub(crate) fn collect_page(&mut self, die: u32, debt: &mut Debt, filled: &mut VecDeque<Unit>) -> Step {
        let mut victim = self.space[die as usize].victim.expect("a step of collection needs a victim");
        while victim.scanned < victim.slots && self.mapping.block(victim.block).valid > 0 {
            let first = victim.scanned;
            victim.scanned += SLOTS_PER_PAGE;
            let mut left = self.mapping.valid_in_page(PhysicalSlot::new(victim.block, first));
            let copied = left.count_ones();
            while left != 0 {
                let from = PhysicalSlot::new(victim.block, first + left.trailing_zeros());
                left &= left - 1;
                let to = self.take_copy_slot(die, filled);
                self.mapping.relocate(from, to);
            }
            if copied > 0 {
                self.space[die as usize].victim = Some(victim);
                self.copied_slots += u64::from(copied);
                debt.pay(copied);
                return Step::Copied { slots: copied, page: (first / SLOTS_PER_PAGE) as u8, slc: victim.slc };
            }
        }
        Step::Emptied
    }

    /// Whether `die` has fewer free blocks than it should have when idle: what the collector keeps free plus what
    /// the SLC cache may still take.
    pub(crate) fn lacks_free_blocks(&self, die: u32) -> bool {
        self.space[die as usize].free.len() < self.kept_free(die) as usize
    }

    fn kept_free(&self, die: u32) -> u32 {
        self.geometry.free_low + self.geometry.slc_blocks - self.space[die as usize].slc_used
    }

    /// Whether the reserve of `die` is to be refilled: some of it is used, and there is a block of which one part in
    /// [`REFILL_GAIN`] is garbage, or one that is being collected.
    pub(crate) fn lacks_reserve(&self, die: u32) -> bool {
        let space = &self.space[die as usize];
        if self.geometry.reserve == 0
            || space.free.len() >= (self.kept_free(die) + self.geometry.reserve) as usize
        {
            return false;
        }
        let is_worth = |block: &u32| {
            let state = self.mapping.block(*block);
            (state.slots - state.valid) * REFILL_GAIN >= state.slots
        };
        space.victim.is_some() || self.collectable(die).any(|block| is_worth(&block))
    }

    /// Full blocks of `die` with garbage.
    fn collectable(&self, die: u32) -> impl Iterator<Item = u32> {
        let is_collectable = |block: &u32| {
            let state = self.mapping.block(*block);
            state.is_full() && !state.slc && state.valid < state.slots
        };
        self.geometry.blocks_of(die).filter(is_collectable)
    }

    /// The next slot for a copy. There is always a block for it: the host leaves one free, a victim needs at
    /// most one, and erasing the victim returns that one.
    fn take_copy_slot(&mut self, die: u32, filled: &mut VecDeque<Unit>) -> PhysicalSlot {
        let unit_slots = self.geometry.unit_slots;
        let current = self.space[die as usize].copies.filter(|open| open.left() > 0);
        let mut open: OpenBlock = current.unwrap_or_else(|| self.open_block(die, false));
        let place = PhysicalSlot::new(open.block, open.used);
        open.used += 1;
        self.space[die as usize].copies = Some(open);
        if open.used.is_multiple_of(unit_slots) {
            filled.push_back(Unit {
                block: open.block,
                offset: open.used - unit_slots,
                slots: unit_slots,
                slc: false,
                origin: UnitOrigin::Copy,
            });
        }
        place
    }

    /// The victim of `die` has been erased; its block is free.
    ///
    /// # Panics
    /// If it was not empty.
    pub(crate) fn on_erased(&mut self, die: u32) {
        let space = &mut self.space[die as usize];
        let victim = space.victim.take().expect("only a victim is erased");
        space.free.push_back(victim.block);
        space.slc_used -= u32::from(victim.slc);
        let block = self.mapping.block_mut(victim.block);
        assert_eq!(block.valid, 0, "block {} is erased with valid data", victim.block);
        block.programmed = 0;
        block.slc = false;
        block.slots = self.geometry.block_slots as u16;
        self.erases += 1;
    }

    /// Adds to `debt` what `slots` host slots on `die` must pay for.
    pub(crate) fn owe(&mut self, die: u32, slots: u32, debt: &mut Debt) {
        let pace = self.pace(die);
        if pace <= 0 {
            return;
        }
        if let Some(victim) = self.victim(die, false) {
            let gain = (victim.slots - victim.valid).max(1);
            debt.0 += i64::from(slots) * pace * i64::from(victim.valid) / i64::from(gain);
        }
    }

    /// The factor `m` of the module documentation, in fixed point.
    fn pace(&self, die: u32) -> i64 {
        let wanted = i64::from(self.geometry.free_low) * ONE + ONE / 2;
        (ONE + (wanted - self.free(die)) / 2).clamp(0, 2 * ONE)
    }

    /// Whether `die` is short of free blocks where all dies collect in rounds.
    pub(crate) fn needs_round(&self, die: u32) -> bool {
        self.free(die) < i64::from(self.geometry.free_low) * ONE
    }

    /// Whether `die` has enough free blocks for a round to end.
    pub(crate) fn has_gained(&self, die: u32) -> bool {
        self.free(die) >= (i64::from(self.geometry.free_low) + 1) * ONE
    }

    /// Free blocks of `die` with what is left of those in use, in fixed point.
    fn free(&self, die: u32) -> i64 {
        let space = &self.space[die as usize];
        let share = |slots: u32| i64::from(slots) * ONE / i64::from(self.geometry.block_slots);
        space.free.len() as i64 * ONE
            + share(space.host.map_or(0, |open| open.left()))
            + share(space.copies.map_or(0, |open| open.left()))
            + share(space.victim.map_or(0, |victim| victim.scanned))
    }
}
