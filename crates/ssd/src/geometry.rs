//! Division of the flash, and the meaning of a physical address.
//!
//! ```text
//!   die ─┬─ block ─┬─ unit ─┬─ page (16 KiB) ── 4 slots of 4 KiB
//!        │         │        └─ planes × bits of a cell; one program operation
//!        │         └─ units_per_block; one erase
//!        └─ blocks are numbered die after die
//!
//!   PhysicalSlot = block number << 10 | slot within the block
//! ```
//!
//! The slots of a block are programmed in order. Page `p` of a block belongs to bit `p mod bits` of its
//! cells; the bit determines how long it takes to sense.

use crate::Condition;
use crate::profile::Profile;

/// Bytes of one mapping slot: the unit in which the host addresses the device.
pub const SLOT_BYTES: u64 = 4096;
/// Slots of one physical page, which is what one read operation senses.
pub(crate) const SLOTS_PER_PAGE: u32 = 4;
/// Bits of a [`PhysicalSlot`] for the slot within its block.
const OFFSET_BITS: u32 = 10;
/// Most slots of a block.
pub(crate) const BLOCK_SLOTS_MAX: u32 = 1 << OFFSET_BITS;
/// Most blocks that can be addressed.
pub(crate) const BLOCKS_MAX: u64 = 1 << (u32::BITS - OFFSET_BITS);

/// The position of a slot on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalSlot(u32);

impl PhysicalSlot {
    /// No position: never written, or deallocated.
    pub(crate) const NONE: PhysicalSlot = PhysicalSlot(u32::MAX);

    #[inline]
    pub(crate) fn new(block: u32, offset: u32) -> PhysicalSlot {
        debug_assert!(offset < BLOCK_SLOTS_MAX, "slot {offset} is beyond any block");
        PhysicalSlot(block << OFFSET_BITS | offset)
    }

    #[inline]
    pub(crate) fn block(self) -> u32 {
        self.0 >> OFFSET_BITS
    }

    #[inline]
    pub(crate) fn offset(self) -> u32 {
        self.0 & (BLOCK_SLOTS_MAX - 1)
    }

    /// Position of this slot's bit in a bitmap of all addresses.
    #[inline]
    pub(crate) fn word_and_bit(self) -> (usize, u32) {
        ((self.0 / u64::BITS) as usize, self.0 % u64::BITS)
    }

    /// Slots that one read operation senses together have the same value; so has every
    /// [`PhysicalSlot::NONE`].
    #[inline]
    pub(crate) fn page(self) -> u32 {
        self.0 / SLOTS_PER_PAGE
    }
}

/// Sizes of one device in one condition.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    /// Slots that the host can address.
    pub(crate) logical_slots: u32,
    pub(crate) dies: u32,
    pub(crate) channels: u32,
    /// Dies of a stripe. The dies are divided into groups of this size.
    pub(crate) stripe_dies: u32,
    pub(crate) blocks_per_die: u32,
    pub(crate) unit_slots: u32,
    pub(crate) block_slots: u32,
    /// Bits of a cell. An SLC unit or block holds this factor less.
    pub(crate) bits: u32,
    /// Blocks of a die that may be in SLC mode.
    pub(crate) slc_blocks: u32,
    pub(crate) free_low: u32,
    /// Blocks of the spare space of a die that it keeps erased while it has nothing else to do.
    pub(crate) reserve: u32,
}

impl Geometry {
    pub(crate) fn new(profile: &Profile, condition: Condition) -> Geometry {
        let shape = &profile.geometry;
        let bits = profile.flash.sense.len() as u32;
        let unit_slots = shape.planes * bits * SLOTS_PER_PAGE;
        let block_slots = unit_slots * shape.units_per_block;
        let dies = shape.channels * shape.dies_per_channel;
        let capacity = shape.capacity.get();
        let spare = capacity * u64::from(shape.spare_permille) / 1000;
        let never_written = match condition {
            Condition::Clean => shape.never_written.get(),
            Condition::Fragmented => 0,
        };
        let physical_slots = (capacity + spare + never_written) / SLOT_BYTES;
        let per_die = u64::from(dies) * u64::from(block_slots);
        let blocks = (physical_slots + per_die / 2) / per_die;
        let kept = profile.collection.free_low + profile.slc.blocks_per_die;
        Geometry {
            logical_slots: (capacity / SLOT_BYTES) as u32,
            dies,
            channels: shape.channels,
            stripe_dies: shape.stripe_dies,
            blocks_per_die: blocks as u32 + kept,
            unit_slots,
            block_slots,
            bits,
            slc_blocks: profile.slc.blocks_per_die,
            free_low: profile.collection.free_low,
            reserve: profile.collection.reserve.unwrap_or(0),
        }
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.dies * self.blocks_per_die
    }

    /// The blocks of a die.
    pub(crate) fn blocks_of(&self, die: u32) -> std::ops::Range<u32> {
        die * self.blocks_per_die..(die + 1) * self.blocks_per_die
    }

    /// Slots of a unit, with or without SLC mode.
    pub(crate) fn unit_slots(&self, slc: bool) -> u32 {
        if slc { self.unit_slots / self.bits } else { self.unit_slots }
    }

    /// Slots of a block, with or without SLC mode.
    pub(crate) fn block_slots(&self, slc: bool) -> u32 {
        if slc { self.block_slots / self.bits } else { self.block_slots }
    }

    /// A die with this many valid slots counts as full and gets no more host data. The rest (the blocks that the collector keeps
    /// free, the SLC blocks and one more block) guarantees that a die below this limit always has
    /// something to collect.
    pub(crate) fn full_die(&self) -> u32 {
        (self.blocks_per_die - self.slc_blocks - self.free_low - 1) * self.block_slots
    }

    /// Slots of a whole stripe.
    pub(crate) fn stripe_slots(&self) -> u32 {
        self.stripe_dies * self.unit_slots
    }
}
