//! Which physical slot holds which logical slot, in both directions, and how much of each block is valid.
//!
//! Binding a logical slot to a new place makes its old place garbage. One bit per physical slot says whether
//! it is valid; the reverse table is correct only for valid slots. The bits look redundant, because the
//! forward table has the same information. But looking up every slot of a victim there costs a cache miss
//! each; that was most of the time of a write.
//!
//! Holds: forward table, reverse table and valid bits agree, and so do the counts of valid slots per block
//!        and per die (`Mapping::assert_consistent`, which the property tests call after every workload).

use crate::geometry::{BLOCK_SLOTS_MAX, Geometry, PhysicalSlot, SLOTS_PER_PAGE};
use crate::shortcut::Shortcut;

/// 64-bit words of valid bits per block.
const VALID_WORDS: usize = (BLOCK_SLOTS_MAX / u64::BITS) as usize;

/// The mapping tables. Cloning copies them.
#[derive(Clone)]
pub(crate) struct Mapping {
    /// Indexed by logical slot.
    places: Vec<PhysicalSlot>,
    /// Indexed by logical slot.
    shortcuts: Vec<Shortcut>,
    /// Indexed by physical slot, without the gaps that [`PhysicalSlot`] leaves between blocks.
    owners: Vec<u32>,
    /// One bit per physical slot, with the gaps: [`VALID_WORDS`] words per block.
    valid: Vec<u64>,
    blocks: Vec<Block>,
    valid_on_die: Vec<u32>,
    block_slots: u32,
}

/// One erase block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// Slots with current data.
    pub(crate) valid: u16,
    /// Slots programmed so far, starting with the first. Data beyond them is still in the controller's
    /// memory.
    pub(crate) programmed: u16,
    /// Slots of the block in its current mode.
    pub(crate) slots: u16,
    pub(crate) die: u16,
    /// Whether it is written with one bit per cell.
    pub(crate) slc: bool,
}

impl Block {
    /// Whether all of its slots are programmed.
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
            shortcuts: vec![Shortcut::NONE; geometry.logical_slots as usize],
            owners: vec![0; physical_slots],
            valid: vec![0; geometry.blocks() as usize * VALID_WORDS],
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
    pub(crate) fn shortcut(&self, logical: u32) -> Shortcut {
        self.shortcuts[logical as usize]
    }

    /// Stores where reads of `logical` go, until its data moves.
    #[inline]
    pub(crate) fn note_shortcut(&mut self, logical: u32, shortcut: Shortcut) {
        self.shortcuts[logical as usize] = shortcut;
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

    /// Maps `logical` to `place`; its old place becomes garbage.
    #[inline]
    pub(crate) fn bind(&mut self, logical: u32, place: PhysicalSlot) {
        self.unbind(logical);
        self.put(logical, place);
    }

    /// Unmaps `logical`; its old place becomes garbage.
    #[inline]
    pub(crate) fn unbind(&mut self, logical: u32) {
        let place = std::mem::replace(&mut self.places[logical as usize], PhysicalSlot::NONE);
        self.shortcuts[logical as usize] = Shortcut::NONE;
        if place != PhysicalSlot::NONE {
            self.drop_valid(place);
        }
    }

    /// Moves the valid data at `from` to `to`.
    #[inline]
    pub(crate) fn relocate(&mut self, from: PhysicalSlot, to: PhysicalSlot) {
        let logical = self.owners[self.owner_index(from)];
        debug_assert_eq!(self.places[logical as usize], from, "only valid data are moved");
        self.drop_valid(from);
        self.shortcuts[logical as usize] = Shortcut::NONE;
        self.put(logical, to);
    }

    /// Which slots of the page that starts at `first` are valid; bit 0 is the first slot.
    #[inline]
    pub(crate) fn valid_in_page(&self, first: PhysicalSlot) -> u64 {
        let (word, bit) = first.word_and_bit();
        self.valid[word] >> bit & ((1 << SLOTS_PER_PAGE) - 1)
    }

    #[inline]
    fn put(&mut self, logical: u32, place: PhysicalSlot) {
        let owner = self.owner_index(place);
        self.places[logical as usize] = place;
        self.owners[owner] = logical;
        let (word, bit) = place.word_and_bit();
        self.valid[word] |= 1 << bit;
        let block = &mut self.blocks[place.block() as usize];
        block.valid += 1;
        self.valid_on_die[block.die as usize] += 1;
    }

    #[inline]
    fn drop_valid(&mut self, place: PhysicalSlot) {
        let (word, bit) = place.word_and_bit();
        self.valid[word] &= !(1 << bit);
        let block = &mut self.blocks[place.block() as usize];
        block.valid -= 1;
        self.valid_on_die[block.die as usize] -= 1;
    }

    #[inline]
    fn owner_index(&self, place: PhysicalSlot) -> usize {
        place.block() as usize * self.block_slots as usize + place.offset() as usize
    }

    /// Checks both tables and all counts.
    ///
    /// # Panics
    /// If they disagree.
    pub(crate) fn assert_consistent(&self) {
        let mut valid = vec![0; self.blocks.len()];
        for (logical, &place) in self.places.iter().enumerate() {
            if place != PhysicalSlot::NONE {
                let owner = self.owners[self.owner_index(place)];
                assert_eq!(
                    owner, logical as u32,
                    "{place:?} belongs to a different slot than the one that points to it"
                );
                let (word, bit) = place.word_and_bit();
                assert!(self.valid[word] >> bit & 1 == 1, "{place:?} is in use but is counted as garbage");
                valid[place.block() as usize] += 1;
            }
        }
        let bits: u32 = self.valid.iter().map(|word| word.count_ones()).sum();
        let in_use: u32 = valid.iter().map(|&slots| u32::from(slots)).sum();
        assert_eq!(bits, in_use, "some slots are counted as valid, but no logical slot points to them");
        let mut on_die = vec![0; self.valid_on_die.len()];
        for (number, (block, &valid)) in self.blocks.iter().zip(&valid).enumerate() {
            assert_eq!(block.valid, valid, "block {number} has a wrong count of valid slots");
            assert!(block.programmed <= block.slots, "block {number} is programmed beyond its end");
            on_die[block.die as usize] += u32::from(valid);
        }
        assert_eq!(self.valid_on_die, on_die, "valid slots per die");
    }
}
