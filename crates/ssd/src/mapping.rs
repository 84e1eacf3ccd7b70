//! Which physical slot holds which logical slot, both ways, and how much of each block is still valid.
//!
//! Binding a logical slot to a new place makes its old place garbage. A bit for each physical slot says whether it is
//! valid; the reverse table is only right where it is. The bits look superfluous, as the forward table knows the same,
//! but asking that about every slot of a victim is a miss of the processor's caches each, and was most of the time of a
//! write.
//!
//! Holds: forward table, reverse table and valid bits agree, and the counts of valid slots per block and per die are what
//!        they say (`Mapping::assert_consistent`, called by the property tests after every workload).

use crate::geometry::{BLOCK_SLOTS_MAX, Geometry, PhysicalSlot, SLOTS_PER_PAGE};
use crate::shortcut::Shortcut;

/// 64-bit words of valid bits for each block.
const VALID_WORDS: usize = (BLOCK_SLOTS_MAX / u64::BITS) as usize;

/// The mapping tables. Cloning copies them.
#[derive(Clone)]
pub(crate) struct Mapping {
    /// By logical slot.
    places: Vec<PhysicalSlot>,
    /// By logical slot.
    shortcuts: Vec<Shortcut>,
    /// By physical slot, without the gaps that [`PhysicalSlot`] leaves between blocks.
    owners: Vec<u32>,
    /// A bit for each physical slot, with the gaps: [`VALID_WORDS`] words for each block.
    valid: Vec<u64>,
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

    /// Notes where reads of `logical` go for as long as its data stay where they are.
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

    /// Puts `logical` at `place`; where it was before becomes garbage.
    #[inline]
    pub(crate) fn bind(&mut self, logical: u32, place: PhysicalSlot) {
        self.unbind(logical);
        self.put(logical, place);
    }

    /// Forgets `logical`; where it was becomes garbage.
    #[inline]
    pub(crate) fn unbind(&mut self, logical: u32) {
        let place = std::mem::replace(&mut self.places[logical as usize], PhysicalSlot::NONE);
        self.shortcuts[logical as usize] = Shortcut::NONE;
        if place != PhysicalSlot::NONE {
            self.drop_valid(place);
        }
    }

    /// Moves the data at `from`, which must be valid, to `to`.
    #[inline]
    pub(crate) fn relocate(&mut self, from: PhysicalSlot, to: PhysicalSlot) {
        let logical = self.owners[self.owner_index(from)];
        debug_assert_eq!(self.places[logical as usize], from, "only valid data are moved");
        self.drop_valid(from);
        self.shortcuts[logical as usize] = Shortcut::NONE;
        self.put(logical, to);
    }

    /// Which slots of the page that begins at `first` are valid: bit 0 for the first one.
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

    /// Compares both tables and all counts.
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
                    "{place:?} belongs to another slot than the one that points at it"
                );
                let (word, bit) = place.word_and_bit();
                assert!(self.valid[word] >> bit & 1 == 1, "{place:?} is in use but counts as garbage");
                valid[place.block() as usize] += 1;
            }
        }
        let bits: u32 = self.valid.iter().map(|word| word.count_ones()).sum();
        let in_use: u32 = valid.iter().map(|&slots| u32::from(slots)).sum();
        assert_eq!(bits, in_use, "slots count as valid that nothing points at");
        let mut on_die = vec![0; self.valid_on_die.len()];
        for (number, (block, &valid)) in self.blocks.iter().zip(&valid).enumerate() {
            assert_eq!(block.valid, valid, "block {number} miscounts its valid slots");
            assert!(block.programmed <= block.slots, "block {number} is programmed beyond its end");
            on_die[block.die as usize] += u32::from(valid);
        }
        assert_eq!(self.valid_on_die, on_die, "valid slots per die");
    }
}
