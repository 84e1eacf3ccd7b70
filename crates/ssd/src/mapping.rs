//! Which physical slot holds which logical slot, both ways, and how much of each block is still valid.
//!
//! Binding a logical slot to a new place makes its old place garbage. The reverse table is not cleaned when that happens:
//! a physical slot is valid if and only if the forward table points back at it.
//!
//! Holds: forward and reverse table agree on every bound slot, and the counts of valid slots per block and per die are
//!        what the forward table says (`Mapping::assert_consistent`, called by the property tests after every workload).

use crate::geometry::{Geometry, PhysicalSlot};

const NO_LOGICAL_SLOT: u32 = u32::MAX;

/// The mapping tables. Cloning copies them.
#[derive(Clone)]
pub(crate) struct Mapping {
    /// By logical slot.
    places: Vec<PhysicalSlot>,
    /// By physical slot, without the gaps that [`PhysicalSlot`] leaves between blocks.
    owners: Vec<u32>,
    blocks: Vec<Block>,
    valid_on_die: Vec<u32>,
    block_slots: u32,
}

/// One erase block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// Slots that hold current data.
    pub(crate) valid: u16,
    /// Slots programmed so far, from the first one on. What lies beyond is still in the controller's memory.
    pub(crate) programmed: u16,
    /// Slots that the block has in its present mode.
    pub(crate) slots: u16,
    pub(crate) die: u16,
    /// Written with one bit per cell.
    pub(crate) slc: bool,
}

impl Block {
    /// All of its slots are programmed.
    pub(crate) fn is_full(&self) -> bool {
        self.programmed == self.slots
    }
}

impl Mapping {
    pub(crate) fn new(geometry: &Geometry) -> Mapping {
        let erased = |block| Block {
            valid: 0,
            programmed: 0,
            slots: geometry.block_slots as u16,
            die: (block / geometry.blocks_per_die) as u16,
            slc: false,
        };
        let physical_slots = geometry.blocks() as usize * geometry.block_slots as usize;
        Mapping {
            places: vec![PhysicalSlot::NONE; geometry.logical_slots as usize],
            owners: vec![NO_LOGICAL_SLOT; physical_slots],
            blocks: (0..geometry.blocks()).map(erased).collect(),
            valid_on_die: vec![0; geometry.dies as usize],
            block_slots: geometry.block_slots,
        }
    }

    pub(crate) fn logical_slots(&self) -> u32 {
        self.places.len() as u32
    }

    #[inline]
    pub(crate) fn place(&self, logical: u32) -> PhysicalSlot {
        self.places[logical as usize]
    }

    #[inline]
    pub(crate) fn block(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    pub(crate) fn block_mut(&mut self, block: u32) -> &mut Block {
        &mut self.blocks[block as usize]
    }

    pub(crate) fn valid_on_die(&self, die: u32) -> u32 {
        self.valid_on_die[die as usize]
    }

    /// Puts `logical` at `place`; where it was before becomes garbage.
    #[inline]
    pub(crate) fn bind(&mut self, logical: u32, place: PhysicalSlot) {
        self.unbind(logical);
        let owner = self.owner_index(place);
        self.places[logical as usize] = place;
        self.owners[owner] = logical;
        let block = &mut self.blocks[place.block() as usize];
        block.valid += 1;
        self.valid_on_die[block.die as usize] += 1;
    }

    /// Forgets `logical`; where it was becomes garbage.
    #[inline]
    pub(crate) fn unbind(&mut self, logical: u32) {
        let place = std::mem::replace(&mut self.places[logical as usize], PhysicalSlot::NONE);
        if place != PhysicalSlot::NONE {
            let block = &mut self.blocks[place.block() as usize];
            block.valid -= 1;
            self.valid_on_die[block.die as usize] -= 1;
        }
    }

    /// The logical slot whose current data lie at `place`.
    #[inline]
    pub(crate) fn owner(&self, place: PhysicalSlot) -> Option<u32> {
        let logical = self.owners[self.owner_index(place)];
        (logical != NO_LOGICAL_SLOT && self.places[logical as usize] == place).then_some(logical)
    }

    #[inline]
    fn owner_index(&self, place: PhysicalSlot) -> usize {
        place.block() as usize * self.block_slots as usize + place.offset() as usize
    }

    /// Compares both tables and all counts.
    ///
    /// # Panics
    /// If they disagree.
    pub(crate) fn assert_consistent(&self) {
        let mut valid = vec![0; self.blocks.len()];
        for (logical, &place) in self.places.iter().enumerate() {
            if place != PhysicalSlot::NONE {
                assert_eq!(self.owner(place), Some(logical as u32), "{place:?} does not know its owner");
                valid[place.block() as usize] += 1;
            }
        }
        let mut on_die = vec![0; self.valid_on_die.len()];
        for (number, (block, &valid)) in self.blocks.iter().zip(&valid).enumerate() {
            assert_eq!(block.valid, valid, "block {number} miscounts its valid slots");
            assert!(block.programmed <= block.slots, "block {number} is programmed beyond its end");
            on_die[block.die as usize] += u32::from(valid);
        }
        assert_eq!(self.valid_on_die, on_die, "valid slots per die");
    }
}
