//! Where host data goes: page by page over a group of dies, so that a large command is read from many dies at
//! once.
//!
//! ```text
//!            die 0   die 1   …   die 7      one stripe of group 0; the next stripe uses group 1
//!   page 0     0       1     …     7        (numbers: pages in the order in which host data fills them)
//!   page 1     8       9     …    15
//!   …
//!   page 5    40      41     …    47        a die's column is one program unit, ready when its last page is filled
//! ```
//!
//! A die that holds almost only valid data is left out of the stripe. Otherwise, writes that leave garbage
//! only on some dies would wait forever for space on the others. If a die is only waiting for an erase, the
//! host waits for it.
//!
//! Elsewhere: `slc` decides when a stripe is written in SLC mode.

use crate::flash::{Flash, OpenBlock, Unit, UnitOrigin};
use crate::geometry::{PhysicalSlot, SLOTS_PER_PAGE};

/// The stripe that is being filled.
#[derive(Clone)]
pub(crate) struct Stripe {
    /// Group of dies of this stripe, or of the next one if none is open.
    group: u32,
    /// One column per participating die; empty when no stripe is open.
    columns: Vec<Column>,
    slc: bool,
    /// Whether stripes may be written in SLC mode at all.
    slc_allowed: bool,
    /// Slots filled, over all columns.
    filled: u32,
    /// Slots of all columns.
    slots: u32,
}

/// One die's part of a stripe.
#[derive(Clone, Copy)]
struct Column {
    die: u32,
    block: u32,
    /// First slot of the unit within the block.
    offset: u32,
    /// Slots of the unit with host data.
    buffered: u32,
}

/// No die of any group can take host data before an erase ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoSpace;

impl Stripe {
    pub(crate) fn new() -> Stripe {
        Stripe { group: 0, columns: Vec::new(), slc: false, slc_allowed: true, filled: 0, slots: 0 }
    }

    /// Sets whether later stripes may be written in SLC mode.
    pub(crate) fn set_slc_allowed(&mut self, allowed: bool) {
        self.slc_allowed = allowed;
    }

    /// Data placed so far occupies no write buffer: conditioning has none.
    pub(crate) fn forget_buffered(&mut self) {
        for column in &mut self.columns {
            column.buffered = 0;
        }
    }
}

impl Flash {
    /// Whether no stripe is open: the next placement opens one.
    pub(crate) fn between_stripes(&self) -> bool {
        self.stripe.filled == self.stripe.slots
    }

    /// The dies of the next stripe.
    pub(crate) fn next_group(&self) -> std::ops::Range<u32> {
        let first = self.stripe.group * self.geometry.stripe_dies;
        first..first + self.geometry.stripe_dies
    }

    /// Places one slot of the host. Returns the die and its unit, if that filled a unit.
    ///
    /// # Errors
    /// [`NoSpace`]; then nothing has changed, and the caller tries again after an erase.
    #[inline]
    pub(crate) fn place_host(&mut self, logical: u32) -> Result<Option<(u32, Unit)>, NoSpace> {
        if self.between_stripes() {
            self.open_stripe()?;
        }
        let (place, filled) = self.take_slot(true);
        self.mapping.bind(logical, place);
        Ok(filled)
    }

    /// Pads the open stripe, so that everything placed can be programmed. Passes each unit that this
    /// completes to `on_unit`.
    pub(crate) fn pad_stripe(&mut self, mut on_unit: impl FnMut(u32, Unit)) {
        while !self.between_stripes() {
            if let (_, Some((die, unit))) = self.take_slot(false) {
                on_unit(die, unit);
            }
        }
    }

    /// The next slot of the open stripe, and the unit if this was its last slot.
    #[inline]
    fn take_slot(&mut self, buffered: bool) -> (PhysicalSlot, Option<(u32, Unit)>) {
        let stripe = &mut self.stripe;
        let unit_slots = self.geometry.unit_slots(stripe.slc);
        let page = stripe.filled / SLOTS_PER_PAGE;
        let columns = stripe.columns.len() as u32;
        let column = &mut stripe.columns[(page % columns) as usize];
        let in_unit = page / columns * SLOTS_PER_PAGE + stripe.filled % SLOTS_PER_PAGE;
        let place = PhysicalSlot::new(column.block, column.offset + in_unit);
        column.buffered += u32::from(buffered);
        let filled = (in_unit + 1 == unit_slots).then(|| {
            let origin = UnitOrigin::Host { buffered: column.buffered, sequence: self.host_units };
            self.host_units += 1;
            let unit = Unit {
                block: column.block,
                offset: column.offset,
                slots: unit_slots,
                slc: stripe.slc,
                origin,
            };
            (column.die, unit)
        });
        stripe.filled += 1;
        self.host_slots += 1;
        if stripe.filled == stripe.slots {
            self.turn_to_next_group();
        }
        (place, filled)
    }

    fn open_stripe(&mut self) -> Result<(), NoSpace> {
        let groups = self.geometry.dies / self.geometry.stripe_dies;
        for _ in 0..groups {
            let slc = self.stripe.slc_allowed && self.slc_has_room(self.next_group());
            let group = self.next_group();
            let taking_part = |die: &u32| self.mapping.valid_on_die(*die) < self.geometry.full_die();
            let dies: Vec<u32> = group.filter(taking_part).collect();
            if dies.is_empty() {
                self.turn_to_next_group();
                continue;
            }
            if !slc && dies.iter().any(|&die| !self.can_open_host(die)) {
                return Err(NoSpace);
            }
            self.stripe.slots = dies.len() as u32 * self.geometry.unit_slots(slc);
            self.stripe.filled = 0;
            self.stripe.slc = slc;
            self.stripe.columns = dies.into_iter().map(|die| self.open_column(die, slc)).collect();
            return Ok(());
        }
        unreachable!("all dies are full of valid data, but the profile's spare flash makes that impossible")
    }

    /// Whether `die` has an open block for host data or may open one. The last free block belongs to the
    /// collector.
    fn can_open_host(&self, die: u32) -> bool {
        let space = &self.space[die as usize];
        space.host.is_some_and(|open| open.left() > 0) || space.free.len() > 1
    }

    fn open_column(&mut self, die: u32, slc: bool) -> Column {
        let space = &self.space[die as usize];
        let current = if slc { space.slc } else { space.host };
        let mut open: OpenBlock = match current.filter(|open| open.left() > 0) {
            Some(open) => open,
            None if slc => self.open_slc_block(die),
            None => self.open_block(die, false),
        };
        let column = Column { die, block: open.block, offset: open.used, buffered: 0 };
        open.used += self.geometry.unit_slots(slc);
        let space = &mut self.space[die as usize];
        *(if slc { &mut space.slc } else { &mut space.host }) = Some(open);
        column
    }

    fn turn_to_next_group(&mut self) {
        self.stripe.group = (self.stripe.group + 1) % (self.geometry.dies / self.geometry.stripe_dies);
    }
}
