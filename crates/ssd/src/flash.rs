//! The state of the flash translation layer: the mapping, and for each die which blocks are free, open or
//! being emptied.
//!
//! ```text
//!   free ──► open for host data (TLC or SLC) ──► full ──► victim ──► free
//!     └────► open for copies of the collector ──► full ──┘
//! ```
//!
//! Conditioning prepares this state, and an [`Image`](crate::Image) holds it: no time, no events.
//!
//! Elsewhere: where host data goes is in `stripe`, victims and copies in `collection`, the SLC mode in `slc`.

use crate::geometry::{Geometry, PhysicalSlot};
use crate::mapping::Mapping;
use crate::shortcut::Shortcut;
use crate::stripe::Stripe;
use std::collections::VecDeque;

/// Mapping and space of all dies. Cloning copies all tables.
#[derive(Clone)]
pub(crate) struct Flash {
    pub(crate) geometry: Geometry,
    pub(crate) mapping: Mapping,
    pub(crate) space: Vec<DieSpace>,
    pub(crate) stripe: Stripe,
    /// Host slots placed, including padding.
    pub(crate) host_slots: u64,
    /// Units of the host filled.
    pub(crate) host_units: u64,
    /// Slots that the collector copied.
    pub(crate) copied_slots: u64,
    pub(crate) erases: u64,
}

/// The blocks of one die, by use.
#[derive(Clone)]
pub(crate) struct DieSpace {
    pub(crate) free: VecDeque<u32>,
    /// Open for host data.
    pub(crate) host: Option<OpenBlock>,
    /// Open for host data in SLC mode.
    pub(crate) slc: Option<OpenBlock>,
    /// Open for copies.
    pub(crate) copies: Option<OpenBlock>,
    pub(crate) victim: Option<Victim>,
    /// Blocks in SLC mode, oldest first, without the victim.
    pub(crate) slc_written: VecDeque<u32>,
    /// Blocks in SLC mode, with the victim.
    pub(crate) slc_used: u32,
}

/// A block that is being filled.
#[derive(Clone, Copy)]
pub(crate) struct OpenBlock {
    pub(crate) block: u32,
    /// Slots used.
    pub(crate) used: u32,
    /// Slots of the block in its mode.
    pub(crate) slots: u32,
}

impl OpenBlock {
    pub(crate) fn left(&self) -> u32 {
        self.slots - self.used
    }
}

/// A block that is being emptied.
#[derive(Clone, Copy)]
pub(crate) struct Victim {
    pub(crate) block: u32,
    /// Slots examined so far.
    pub(crate) scanned: u32,
    /// Valid slots when it was chosen.
    pub(crate) valid: u32,
    /// Slots of the block in its mode.
    pub(crate) slots: u32,
    pub(crate) slc: bool,
}

/// One program operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) block: u32,
    pub(crate) offset: u32,
    pub(crate) slots: u32,
    pub(crate) slc: bool,
    pub(crate) origin: UnitOrigin,
}

/// The owner of the data in a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitOrigin {
    /// The host's. `buffered` slots of it occupy the write buffer; the rest is padding.
    Host {
        /// Slots that leave the write buffer with this unit.
        buffered: u32,
        /// Number of host units filled before this one.
        sequence: u64,
    },
    /// The collector's.
    Copy,
}

/// Where a read finds its data.
pub(crate) enum Place {
    /// In the controller: not programmed yet, or never written at all.
    Controller,
    /// On a die.
    Die {
        die: u16,
        /// Page within the block.
        page: u8,
        slc: bool,
    },
}

impl Flash {
    /// Flash that was never written.
    pub(crate) fn erased(geometry: Geometry) -> Flash {
        let space = (0..geometry.dies)
            .map(|die| DieSpace {
                free: geometry.blocks_of(die).collect(),
                host: None,
                slc: None,
                copies: None,
                victim: None,
                slc_written: VecDeque::new(),
                slc_used: 0,
            })
            .collect();
        Flash {
            mapping: Mapping::new(&geometry),
            stripe: Stripe::new(),
            geometry,
            space,
            host_slots: 0,
            host_units: 0,
            copied_slots: 0,
            erases: 0,
        }
    }

    /// Where the data at `place` is now.
    #[inline]
    pub(crate) fn locate(&self, place: PhysicalSlot) -> Place {
        if place == PhysicalSlot::NONE {
            return Place::Controller;
        }
        let block = self.mapping.block(place.block());
        if place.offset() >= u32::from(block.programmed) {
            return Place::Controller;
        }
        let page = place.offset() / crate::geometry::SLOTS_PER_PAGE;
        Place::Die { die: block.die, page: page as u8, slc: block.slc }
    }

    /// The shortcut to `place`; none if the data is not on a die.
    pub(crate) fn shortcut_to(&self, place: PhysicalSlot) -> Shortcut {
        match self.locate(place) {
            Place::Controller => Shortcut::NONE,
            Place::Die { die, page, slc } => {
                Shortcut::to(&self.geometry, u32::from(die), u32::from(page), slc)
            }
        }
    }

    /// Stores the shortcuts of all slots.
    pub(crate) fn note_all_shortcuts(&mut self) {
        for logical in 0..self.mapping.logical_slots() {
            let shortcut = self.shortcut_to(self.mapping.place(logical));
            self.mapping.note_shortcut(logical, shortcut);
        }
    }

    /// Checks all shortcuts against the tables.
    ///
    /// # Panics
    /// If one is wrong.
    pub(crate) fn assert_shortcuts(&self) {
        for logical in 0..self.mapping.logical_slots() {
            let noted = self.mapping.shortcut(logical);
            let place = self.mapping.place(logical);
            assert!(
                noted == Shortcut::NONE || noted == self.shortcut_to(place),
                "the shortcut of slot {logical} does not point to {place:?}"
            );
        }
    }

    /// Opens a free block of `die`.
    ///
    /// # Panics
    /// If none is free. The caller must check first.
    pub(crate) fn open_block(&mut self, die: u32, slc: bool) -> OpenBlock {
        let block = self.space[die as usize].free.pop_front().expect("the die has no free block");
        let slots = self.geometry.block_slots(slc);
        let state = self.mapping.block_mut(block);
        debug_assert_eq!(state.valid, 0, "block {block} is opened while it holds data");
        state.programmed = 0;
        state.slots = slots as u16;
        state.slc = slc;
        OpenBlock { block, used: 0, slots }
    }

    /// Records that `unit` is on flash. The units of a block end in order.
    pub(crate) fn on_programmed(&mut self, unit: &Unit) {
        let block = self.mapping.block_mut(unit.block);
        debug_assert_eq!(
            u32::from(block.programmed),
            unit.offset,
            "units of a block are programmed in order"
        );
        block.programmed = (unit.offset + unit.slots) as u16;
    }
}
