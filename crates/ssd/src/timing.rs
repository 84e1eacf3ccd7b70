//! Duration of each step of a die, and when it may be suspended.

use crate::flash::Flash;
use crate::geometry::SLOTS_PER_PAGE;
use crate::profile::Profile;
use crate::variation::least_program;
use units::{Bytes, Instant, Nanos};

/// Durations, from the profile.
pub(crate) struct Timing {
    /// Indexed by page within a block; in nanoseconds.
    sense: Vec<u32>,
    slc_sense: u32,
    /// Indexed by number of slots.
    pub(crate) transfer: [Nanos; SLOTS_PER_PAGE as usize + 1],
    /// Mean.
    pub(crate) program: Nanos,
    /// Mean.
    pub(crate) slc_program: Nanos,
    /// The shortest program or erase.
    least_long: Nanos,
    pub(crate) erase: Nanos,
    /// `None` if a program or erase cannot be suspended.
    pub(crate) suspend: Option<Suspend>,
    pub(crate) reads_between_slices: u32,
    pub(crate) free_hard: usize,
    pub(crate) collects_in_rounds: bool,
}

/// Suspension of a program or erase for reads.
#[derive(Clone, Copy)]
pub(crate) struct Suspend {
    pub(crate) slice: Nanos,
    pub(crate) whole_slices: bool,
    pub(crate) overhead: Nanos,
    pub(crate) least_left: Nanos,
    /// Suspensions of one program or erase.
    pub(crate) most: u32,
    /// Whether only programs of host data are suspended.
    pub(crate) host_only: bool,
}

impl Suspend {
    /// The first instant from `now` on at which an operation that runs since `resumed` may be suspended.
    #[inline]
    pub(crate) fn due(&self, resumed: Instant, now: Instant) -> Instant {
        let soonest = (resumed + self.slice).max(now);
        if !self.whole_slices {
            return soonest;
        }
        resumed + Nanos(soonest.since(resumed).0.next_multiple_of(self.slice.0))
    }
}

impl Timing {
    pub(crate) fn new(profile: &Profile, flash: &Flash) -> Timing {
        let pages = (flash.geometry.block_slots / SLOTS_PER_PAGE) as usize;
        let transfer = |slots| {
            let data = profile.channel.rate.time_to_earn(Bytes(slots as u64 * crate::SLOT_BYTES));
            profile.channel.transfer_overhead + data.expect("a profile's channel has a rate")
        };
        Timing {
            sense: profile.flash.sense.iter().copied().cycle().take(pages).collect(),
            slc_sense: profile.slc.sense.0 as u32,
            transfer: std::array::from_fn(transfer),
            program: profile.flash.program,
            slc_program: profile.slc.program,
            least_long: least_program(profile.flash.program.min(profile.slc.program), &profile.variation)
                .min(profile.flash.erase),
            erase: profile.flash.erase,
            suspend: profile.flash.suspend.then_some(Suspend {
                slice: profile.flash.suspend_slice,
                whole_slices: profile.flash.suspend_after_whole_slices,
                overhead: profile.flash.suspend_overhead,
                least_left: profile.flash.suspend_least_left,
                most: profile.flash.suspensions_most.unwrap_or(u32::MAX),
                host_only: profile.collection.holds_reads,
            }),
            reads_between_slices: profile.flash.reads_between_slices,
            free_hard: profile.collection.free_hard as usize,
            collects_in_rounds: profile.collection.in_rounds,
        }
    }

    /// Time to sense this page of a block.
    #[inline]
    pub(crate) fn sense(&self, page: u8, slc: bool) -> u32 {
        if slc { self.slc_sense } else { self.sense[page as usize] }
    }
    /// The shortest data transfer.
    pub(crate) fn least_transfer(&self) -> Nanos {
        self.transfer[1]
    }

    /// The shortest time from the start or resumption of a program or erase to its end.
    pub(crate) fn least_run(&self) -> Nanos {
        self.suspend.map_or(self.least_long, |suspend| self.least_long.min(suspend.least_left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_due_after_the_first_slice_at_any_time_or_after_whole_slices() {
        let due = |whole_slices, now| {
            let suspend = Suspend {
                slice: Nanos(300),
                whole_slices,
                overhead: Nanos::ZERO,
                least_left: Nanos::ZERO,
                most: 1,
                host_only: false,
            };
            suspend.due(Instant(1000), Instant(now)).0
        };
        for (now, at_any_time, whole) in
            [(1000, 1300, 1300), (1300, 1300, 1300), (1301, 1301, 1600), (1600, 1600, 1600)]
        {
            assert_eq!((due(false, now), due(true, now)), (at_any_time, whole), "asked for at {now}");
        }
    }
}
