//! Variation: equal commands take different times, even without other commands.
//!
//! | what | where in a real drive | here |
//! |---|---|---|
//! | program time | word lines differ, by layer and by wear | each program takes longer or shorter by up to a given share |
//! | read retry | cells have drifted: the page is sensed again with other voltages | one sense in N takes longer |
//! | buffered write | the firmware's path depends on its other work | a write's latency varies by up to a given time |
//! | housekeeping | the mapping's journal, wear and health tables | the firmware pauses now and then |
//!
//! All variation is drawn from a seed, so a run repeats exactly. A zero in the profile turns that variation
//! off.
//!
//! Holds: equal commands vary as the profile says, and not at all without it (`tests/model/variation.rs`).

use crate::profile::VariationProfile;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use units::{Instant, Nanos};

const PERMILLE: u64 = 1_000;
/// The firmware and the dies draw from separate sequences.
const FIRMWARE_STREAM: u64 = 0x6669_726d;
const DIES_STREAM: u64 = 0x6469_6573;

/// Variation of the dies.
pub(crate) struct DieVariation {
    random: Xoshiro256PlusPlus,
    program_spread_permille: u64,
    retry: Nanos,
    /// Mean number of senses from one retry to the next; 0 is off.
    retry_interval: u32,
    /// Senses up to and including the next retry.
    retry_in: u32,
}

impl DieVariation {
    pub(crate) fn new(profile: &VariationProfile, seed: u64) -> DieVariation {
        let mut variation = DieVariation {
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ DIES_STREAM),
            program_spread_permille: profile.program_spread_permille.into(),
            retry: profile.read_retry,
            retry_interval: profile.read_retry_interval,
            retry_in: 0,
        };
        variation.plan_retry();
        variation
    }

    /// The extra time of this sense.
    #[inline]
    pub(crate) fn retry(&mut self) -> Nanos {
        self.retry_in -= 1;
        if self.retry_in > 0 {
            return Nanos::ZERO;
        }
        self.plan_retry();
        if self.retry_interval == 0 { Nanos::ZERO } else { self.retry }
    }

    /// The time of this program, with the mean `mean`.
    pub(crate) fn program(&mut self, mean: Nanos) -> Nanos {
        around(&mut self.random, mean, spread(mean, self.program_spread_permille))
    }

    fn plan_retry(&mut self) {
        self.retry_in = match self.retry_interval {
            0 => u32::MAX,
            mean => 1 + below(&mut self.random, 2 * u64::from(mean) - 1) as u32,
        };
    }
}

/// The shortest program if its mean is `mean`.
pub(crate) fn least_program(mean: Nanos, profile: &VariationProfile) -> Nanos {
    mean.saturating_sub(spread(mean, profile.program_spread_permille.into()))
}

/// Variation of the firmware.
pub(crate) struct FirmwareVariation {
    random: Xoshiro256PlusPlus,
    write_spread: Nanos,
    /// Length of a housekeeping pause; zero is off.
    housekeeping: Nanos,
    /// Mean time from the end of one pause to the start of the next.
    housekeeping_gap: Nanos,
    /// Start of the next pause.
    next: Instant,
}

impl FirmwareVariation {
    pub(crate) fn new(profile: &VariationProfile, seed: u64) -> FirmwareVariation {
        let mut variation = FirmwareVariation {
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ FIRMWARE_STREAM),
            write_spread: profile.write_spread,
            housekeeping: profile.housekeeping,
            housekeeping_gap: profile.housekeeping_gap,
            next: Instant::FAR_FUTURE,
        };
        if variation.housekeeping > Nanos::ZERO {
            variation.next = Instant::ZERO + variation.gap();
        }
        variation
    }

    /// When the firmware starts work that it would start at `start` without pauses.
    #[inline]
    pub(crate) fn begin(&mut self, start: Instant) -> Instant {
        if start < self.next { start } else { self.come_back(start) }
    }

    /// The pipelined latency of this write, with the mean `mean`.
    pub(crate) fn write_latency(&mut self, mean: Nanos) -> Nanos {
        around(&mut self.random, mean, self.write_spread)
    }

    #[cold]
    fn come_back(&mut self, start: Instant) -> Instant {
        if self.next + self.housekeeping <= start {
            // The pause ended before the question came, maybe several times. The phase of the pauses is drawn
            // again, so that a rare command meets a pause as often as one of many does.
            let soonest = Instant(start.0.saturating_sub(self.housekeeping.0));
            self.next = soonest + Nanos(below(&mut self.random, self.housekeeping_gap.0));
            if start < self.next {
                return start;
            }
        }
        let back = self.next + self.housekeeping;
        self.next = back + self.gap();
        back
    }

    fn gap(&mut self) -> Nanos {
        around(&mut self.random, self.housekeeping_gap, self.housekeeping_gap)
    }
}

fn spread(mean: Nanos, permille: u64) -> Nanos {
    Nanos(mean.0 * permille / PERMILLE)
}

/// Uniformly distributed between `mean - spread` and `mean + spread`, and not below zero.
fn around(random: &mut Xoshiro256PlusPlus, mean: Nanos, spread: Nanos) -> Nanos {
    if spread == Nanos::ZERO {
        return mean;
    }
    (mean + Nanos(below(random, 2 * spread.0 + 1))).saturating_sub(spread)
}

/// A number from 0 up to `bound`, exclusive.
fn below(random: &mut Xoshiro256PlusPlus, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> u64::BITS) as u64
}
