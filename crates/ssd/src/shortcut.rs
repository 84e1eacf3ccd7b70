//! Where a read of one slot goes, in one byte per slot: all that the simulation of a small read needs of the
//! mapping.
//!
//! The mapping tables take eight bytes per slot, and random reads of them miss the processor's caches and its
//! TLB. A shortcut names a die and the kind of page that the slot is on, or nothing. Then the tables are read
//! and the result is stored here. Data that was moved or deallocated has no shortcut until it is read again.
//!
//! Holds: a slot's shortcut agrees with the tables (`Flash::assert_shortcuts`, which the property tests call
//!        after every workload).

use crate::geometry::Geometry;

/// A die and a kind of page, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortcut(u8);

impl Shortcut {
    /// Read the tables.
    pub(crate) const NONE: Shortcut = Shortcut(0);
    /// Number of different shortcuts, including [`Shortcut::NONE`].
    pub(crate) const COUNT: usize = 1 << u8::BITS;

    /// The shortcut to this page of a block of `die`. None if the device has too many dies for one byte.
    pub(crate) fn to(geometry: &Geometry, die: u32, page: u32, slc: bool) -> Shortcut {
        let kind = if slc { geometry.bits } else { page % geometry.bits };
        let number = die * kinds(geometry) + kind + 1;
        u8::try_from(number).map_or(Shortcut::NONE, Shortcut)
    }

    /// The die, the first page of a block of that kind, and whether the block is in SLC mode.
    pub(crate) fn target(self, geometry: &Geometry) -> Option<(u32, u32, bool)> {
        let number = u32::from(self.0).checked_sub(1)?;
        let (die, kind) = (number / kinds(geometry), number % kinds(geometry));
        let slc = kind == geometry.bits;
        (die < geometry.dies).then_some((die, if slc { 0 } else { kind }, slc))
    }

    /// Its number, below [`Shortcut::COUNT`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The shortcut with this number.
    pub(crate) fn of_index(index: u8) -> Shortcut {
        Shortcut(index)
    }
}

/// Kinds of pages: one per bit of a cell, and one for SLC mode.
fn kinds(geometry: &Geometry) -> u32 {
    geometry.bits + 1
}
