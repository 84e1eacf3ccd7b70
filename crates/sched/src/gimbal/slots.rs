//! Virtual slots: the bound on one tenant's IOs inside the SSD.
//!
//! A slot is a bundle of one tenant's IOs, up to 128 KiB of weighted size. It frees only when every IO in it has
//! completed, so a tenant with slow IOs holds its slots longer, and gets fewer bytes for them.
//!
//! ```text
//!   free ── first IO ──► open ── weighted size reaches 128 KiB ──► closed ── last IO completes ──► free
//! ```
//!
//! A slot is *busy* while an IO in it is in flight; the allotment bounds the busy ones. When all IOs of an open slot
//! have completed, it stays open and goes on filling (so a tenant with one IO at a time still fills slots), but it is
//! not busy: it takes nothing from another tenant's allotment.
//!
//! Every active tenant is allotted `slots × weight / Σ weights` slots, at least one. Its credit is the slots allotted × the IOs in
//! its slot that was freed last.
//!
//! Holds: a tenant with as many busy slots as its allotment only fills the slot it has open (`drr`'s tests);
//!        busy returns to zero when all IOs end (`nothing_is_busy_when_all_ios_have_ended`).
//! Elsewhere: the treatment of a tenant without a slot is in `drr`.
//! Paper: Gimbal §3.5; credit §3.6.

use super::GimbalConfig;
use crate::drr::Rules;
use crate::{Credit, Mark};
use alloc::vec::Vec;
use units::{Bytes, TenantId};

/// The slots of one SSD: Gimbal's rules for the round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRules {
    /// Slots to share out.
    slots: u32,
    /// Weighted size at which one closes.
    size: Bytes,
    /// IOs per slot of a tenant that has not freed one yet.
    ios_initial: u32,
}

impl SlotRules {
    pub(crate) fn new(config: &GimbalConfig) -> SlotRules {
        let GimbalConfig { slot_size, slot_ios_initial, .. } = *config;
        SlotRules { slots: config.device.slots, size: slot_size, ios_initial: slot_ios_initial }
    }
}

impl Rules for SlotRules {
    type Held = Slots;
    /// Slots allotted.
    type Room = u32;

    #[inline]
    fn room(&self, weight: u32, active_weight: u64) -> u32 {
        let share = u64::from(self.slots) * u64::from(weight) / active_weight;
        (share as u32).max(1)
    }

    #[inline]
    fn whole(&self) -> u32 {
        self.slots
    }

    #[inline]
    fn may_submit(&self, held: &Slots, allotment: u32) -> bool {
        held.may_submit(allotment)
    }

    fn may_promote(&self, weight_max: u32, active_weight: u64) -> bool {
        // Otherwise every tenant is allotted the least, one.
        u64::from(self.slots) * u64::from(weight_max) >= 2 * active_weight
    }

    #[inline]
    fn on_submit(&mut self, _id: TenantId, held: &mut Slots, weighted: Bytes, _weight: u32) -> Mark {
        held.on_submit(weighted, self.size)
    }

    #[inline]
    fn on_end(&mut self, held: &mut Slots, mark: Mark) {
        held.on_completion(mark);
    }

    #[inline]
    fn credit(&self, held: &Slots, allotment: u32) -> Credit {
        Credit(allotment.saturating_mul(held.last_freed_ios().unwrap_or(self.ios_initial)))
    }

    fn slots(&self, held: &Slots, allotment: u32) -> [u32; 2] {
        [held.busy(), allotment]
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// IOs submitted in it until now.
    ios: u32,
    in_flight: u32,
    weighted: Bytes,
}

/// The slots of one tenant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Indices of slots that are neither open nor closed.
    free: Vec<u32>,
    open: Option<u32>,
    busy: u32,
    last_freed_ios: Option<u32>,
}

impl Slots {
    /// Slots with an IO in flight.
    pub(super) fn busy(&self) -> u32 {
        self.busy
    }

    /// The number of IOs in the slot that was freed last; `None` before the first.
    pub(super) fn last_freed_ios(&self) -> Option<u32> {
        self.last_freed_ios
    }

    /// Whether another IO may go without more than `allotment` slots becoming busy. A busy slot that is open may always
    /// be filled.
    #[inline]
    pub(super) fn may_submit(&self, allotment: u32) -> bool {
        self.busy < allotment || self.open.is_some_and(|open| self.slots[open as usize].in_flight > 0)
    }

    /// Puts an IO of `weighted` size into the open slot; one is opened if none is. The slot closes when it holds
    /// `size`.
    #[inline]
    pub(super) fn on_submit(&mut self, weighted: Bytes, size: Bytes) -> Mark {
        let index = match self.open.or_else(|| self.free.pop()) {
            Some(index) => index,
            None => {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        self.busy += u32::from(slot.in_flight == 0);
        slot.ios += 1;
        slot.in_flight += 1;
        slot.weighted += weighted;
        self.open = (slot.weighted < size).then_some(index);
        Mark(index)
    }

    /// The IO that was submitted with `mark` has ended.
    #[inline]
    pub(super) fn on_completion(&mut self, mark: Mark) {
        let slot = self.slots.get_mut(mark.0 as usize).filter(|slot| slot.in_flight > 0);
        let slot = slot.unwrap_or_else(|| panic!("an IO ended in {mark:?}, in which none was in flight"));
        slot.in_flight -= 1;
        if slot.in_flight > 0 {
            return;
        }
        self.busy -= 1;
        if self.open != Some(mark.0) {
            self.last_freed_ios = Some(slot.ios);
            *slot = Slot::default();
            self.free.push(mark.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Bytes = Bytes::kib(128);
    const SMALL: Bytes = Bytes::kib(4);

    #[test]
    fn a_slot_takes_32_small_ios_or_one_large_one() {
        let mut slots = Slots::default();
        for _ in 0..32 {
            assert!(slots.may_submit(1));
            slots.on_submit(SMALL, SIZE);
        }
        assert!(!slots.may_submit(1), "a 33rd IO fits into 128 KiB");
        assert!(slots.may_submit(2));
        slots.on_submit(SIZE, SIZE);
        assert_eq!(slots.busy(), 2);
        assert!(!slots.may_submit(2));
    }

    #[test]
    fn a_slot_frees_only_when_its_last_io_ends() {
        let mut slots = Slots::default();
        let half = Bytes(SIZE.0 / 2);
        let marks = [slots.on_submit(half, SIZE), slots.on_submit(half, SIZE)];
        slots.on_completion(marks[0]);
        assert!(!slots.may_submit(1));
        assert_eq!(slots.last_freed_ios(), None);
        slots.on_completion(marks[1]);
        assert!(slots.may_submit(1));
        assert_eq!(slots.last_freed_ios(), Some(2));
    }

    #[test]
    fn one_io_at_a_time_fills_a_slot_without_holding_it() {
        let mut slots = Slots::default();
        for _ in 0..31 {
            let mark = slots.on_submit(SMALL, SIZE);
            slots.on_completion(mark);
            assert_eq!((slots.busy(), slots.last_freed_ios()), (0, None));
        }
        let mark = slots.on_submit(SMALL, SIZE);
        slots.on_completion(mark);
        assert_eq!(slots.last_freed_ios(), Some(32));
    }

    #[test]
    fn a_lowered_allotment_drains_before_another_slot_becomes_busy() {
        let mut slots = Slots::default();
        let marks = [0; 3].map(|_| slots.on_submit(SIZE, SIZE));
        slots.on_completion(marks[0]);
        assert!(!slots.may_submit(2) && !slots.may_submit(1));
        slots.on_completion(marks[2]);
        assert!(slots.may_submit(2) && !slots.may_submit(1));
    }

    #[test]
    fn an_open_slot_without_ios_in_flight_is_no_way_around_the_allotment() {
        let mut slots = Slots::default();
        let large = slots.on_submit(SIZE, SIZE);
        let small = slots.on_submit(SMALL, SIZE);
        slots.on_completion(small);
        assert!(!slots.may_submit(1), "the open slot is empty, and one is already busy");
        slots.on_completion(large);
        assert!(slots.may_submit(1));
    }

    #[test]
    fn nothing_is_busy_when_all_ios_have_ended() {
        let mut slots = Slots::default();
        let marks = [SMALL, SIZE, SMALL, SIZE, SMALL].map(|weighted| slots.on_submit(weighted, SIZE));
        for mark in marks {
            slots.on_completion(mark);
        }
        assert_eq!(slots.busy(), 0);
    }

    #[test]
    #[should_panic(expected = "none was in flight")]
    fn a_mark_that_was_never_given_is_a_bug() {
        Slots::default().on_completion(Mark(7));
    }
}
