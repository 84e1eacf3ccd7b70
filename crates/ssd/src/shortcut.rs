//! Where a read of one slot goes, in one byte a slot: all that simulating a small read needs of the mapping.
//!
//! The mapping's tables take eight bytes a slot, and random reads of them miss the processor's caches, its translation
//! of addresses included. The byte names a die and what kind of page the slot lies on, or nothing; then the tables are asked, and what
//! they say is noted here. Data that moved or are gone have no shortcut until they are read again.
//!
//! Holds: a slot's shortcut says what the tables say (`Flash::assert_shortcuts`, called by the property tests after every
//!        workload).

use crate::geometry::Geometry;

/// A die and a kind of its pages, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortcut(u8);

impl Shortcut {
    /// Ask the tables.
    pub(crate) const NONE: Shortcut = Shortcut(0);
    /// Shortcuts that can be told apart, [`Shortcut::NONE`] among them.
    pub(crate) const COUNT: usize = 1 << u8::BITS;

    /// The shortcut to the given page of a block of `die`; none if the device has too many dies to name each with a byte.
    pub(crate) fn to(geometry: &Geometry, die: u32, page: u32, slc: bool) -> Shortcut {
        let kind = if slc { geometry.bits } else { page % geometry.bits };
        let number = die * kinds(geometry) + kind + 1;
        u8::try_from(number).map_or(Shortcut::NONE, Shortcut)
    }

    /// The die, the first page of a block that is of the kind, and whether the block is in SLC mode.
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

    /// The shortcut of a number.
    pub(crate) fn of_index(index: u8) -> Shortcut {
        Shortcut(index)
    }
}

/// One for each bit of a cell, and one for a page in SLC mode.
fn kinds(geometry: &Geometry) -> u32 {
    geometry.bits + 1
}
