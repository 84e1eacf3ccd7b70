//! Conditioning: the initial state of an SSD.
//!
//! - **Clean**: the whole capacity was written once, in order, and much flash was never written. Nothing is
//!   fragmented, and the collector has nothing to do.
//! - **Fragmented**: the steady state of 4 KiB random overwrites. To simulate the hours that lead there would
//!   take minutes. Instead, the known distribution is created directly (`fragmented`) and settled by a short
//!   run without time.
//!
//! Larger writes may go over either (`Image::overwritten`).
//!
//! An [`Image`] is made once and then cloned into any number of devices; only tables are copied.

mod fragmented;

use crate::collection::{Debt, Step};
use crate::flash::Flash;
use crate::geometry::{Geometry, SLOT_BYTES};
use crate::profile::Profile;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use units::Bytes;

/// Other dice than those of the fragmented state.
const OVERWRITES: u64 = 0x6f76_6572;

/// The initial state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Written once in order; much never-written flash.
    Clean,
    /// The steady state of random 4 KiB overwrites.
    Fragmented,
}

/// A conditioned, idle SSD. Cloning it is free. Each device made from it copies its tables (some tens of
/// milliseconds for the built-in profiles).
#[derive(Clone)]
pub struct Image {
    pub(crate) profile: Arc<Profile>,
    pub(crate) flash: Arc<Flash>,
    pub(crate) seed: u64,
}

impl Image {
    /// Conditions a device with this profile. `seed` determines where the fragmented state puts data, and how
    /// service times vary later.
    ///
    /// # Panics
    /// If the profile does not pass [`Profile::check`]. A loaded profile always does.
    pub fn new(profile: &Profile, condition: Condition, seed: u64) -> Image {
        if let Err(refusal) = profile.check(&profile.name) {
            panic!("{refusal}");
        }
        let mut flash = Flash::erased(Geometry::new(profile, condition));
        // Conditioning is long over when a run starts: its data has left the SLC cache.
        flash.stripe.set_slc_allowed(false);
        match condition {
            Condition::Clean => {
                for logical in 0..flash.mapping.logical_slots() {
                    flash.write_untimed(logical);
                }
            }
            Condition::Fragmented => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                fragmented::lay_out(&mut flash, &mut random);
                fragmented::settle(&mut flash, &mut random);
            }
        }
        Image::of(Arc::new(profile.clone()), flash, seed)
    }

    /// The SSD after random writes of these sizes have overwritten its capacity this number of times. Each size comes with its part of the bytes.
    ///
    /// SNIA's performance test specification calls this workload-dependent preconditioning. What was written in large pieces lies in few pages: it is read faster
    /// than what small writes have scattered, so an SSD that was fragmented by small writes changes for long under larger ones.
    ///
    /// # Panics
    /// If a size is no multiple of [`SLOT_BYTES`], or larger than the SSD.
    pub fn overwritten(&self, writes: &[(Bytes, u64)], times: u32) -> Image {
        let mut flash = Flash::clone(&self.flash);
        flash.stripe.set_slc_allowed(false);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ OVERWRITES);
        let slots = flash.mapping.logical_slots();
        let largest = writes.iter().map(|(size, _)| size.0).max().unwrap_or(SLOT_BYTES);
        // Of small ones it takes more.
        let ios = |(size, part): &(Bytes, u64)| part * (largest / size.0);
        let all: u64 = writes.iter().map(ios).sum();
        let mut left = u64::from(slots) * u64::from(times);
        while left > 0 && all > 0 {
            let mut nth = ((u128::from(random.next_u64()) * u128::from(all)) >> 64) as u64;
            let is_it = |write: &&(Bytes, u64)| match nth.checked_sub(ios(write)) {
                Some(rest) => {
                    nth = rest;
                    false
                }
                None => true,
            };
            let (size, _) = writes.iter().find(is_it).expect("it is one of them");
            assert!(size.0 % SLOT_BYTES == 0, "{size} are no whole slots");
            let span = u32::try_from(size.0 / SLOT_BYTES).expect("no write is as large");
            let first = fragmented::below(&mut random, slots / span) * span;
            (first..first + span).for_each(|logical| flash.write_untimed(logical));
            left = left.saturating_sub(u64::from(span));
        }
        Image::of(self.profile.clone(), flash, self.seed)
    }

    /// The SSD after conditioning and a long idle time.
    fn of(profile: Arc<Profile>, mut flash: Flash, seed: u64) -> Image {
        for die in 0..flash.geometry.dies {
            flash.refill_untimed(die);
        }
        flash.stripe.set_slc_allowed(true);
        flash.stripe.forget_buffered();
        flash.note_all_shortcuts();
        (flash.host_slots, flash.host_units, flash.copied_slots, flash.erases) = (0, 0, 0, 0);
        Image { profile, flash: Arc::new(flash), seed }
    }

    /// The profile it was made with.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
}

impl Flash {
    /// Writes a slot without passing time: full units are programmed and space is collected at once.
    fn write_untimed(&mut self, logical: u32) {
        if self.between_stripes() {
            for die in self.next_group() {
                self.collect_untimed(die);
            }
        }
        let filled =
            self.place_host(logical).expect("every die of the group has just been given a free block");
        if let Some((_, unit)) = filled {
            self.on_programmed(&unit);
        }
    }

    /// Empties and erases victims until `die` has as many free blocks as it keeps when idle.
    fn collect_untimed(&mut self, die: u32) {
        while self.lacks_free_blocks(die) && self.victim(die, false).is_some() {
            self.empty_untimed(die);
        }
    }

    /// Does the same until `die` has its reserve.
    fn refill_untimed(&mut self, die: u32) {
        while self.lacks_reserve(die) && self.victim(die, false).is_some() {
            self.empty_untimed(die);
        }
    }

    /// Empties and erases the victim of `die`.
    fn empty_untimed(&mut self, die: u32) {
        let mut units = VecDeque::new();
        while let Step::Copied { .. } = self.collect_page(die, &mut Debt::default(), &mut units) {}
        for unit in units {
            self.on_programmed(&unit);
        }
        self.on_erased(die);
    }
}
