//! SSDs that could be the one of the Gimbal paper: a DCT983 with its unknown properties drawn at random.
//!
//! Properties that its data sheet or the paper's figures fix are as in set A (`dct983`): geometry, link, firmware, senses. Those only fitted or assumed are
//! drawn from a range that drives of its class have: how programs are suspended for reads, effects of the controller's memory, spare area, buffer,
//! program time, jitter. So a result that hangs on one of these is seen to hang on it. Not every such drive meets all facts
//! (`cargo run --release -p ssd --example facts -- plausible 60`).
//!
//! Holds: every seed gives a drive that passes [`Profile::check`] (`every_plausible_drive_can_be_made`).

use super::random::{Dice, MIB};
use super::{MemoryProfile, Profile};
use units::{Bytes, Nanos};

impl Profile {
    /// A DCT983 as it may be, drawn by this seed.
    ///
    /// # Panics
    /// Never: its model is built in.
    pub fn plausible(seed: u64) -> Profile {
        let dice = &mut Dice::of(seed);
        let mut profile = Profile::named("dct983").expect("built in");
        profile.name = format!("dct983-{seed}");
        profile.description = format!("what is not known of a DCT983, drawn by seed {seed}");
        profile.geometry.spare_permille = dice.within(85, 120) as u32;
        let flash = &mut profile.flash;
        flash.program = dice.micros(2000, 2500);
        flash.suspend_slice = dice.micros(100, 400);
        flash.suspend_overhead = dice.micros(30, 150);
        flash.suspend_least_left = dice.micros(20, 100);
        flash.reads_between_slices = dice.within(1, 6) as u32;
        profile.channel.rate = dice.megabytes(600, 1000);
        profile.memory = dice.percent(75).then(|| MemoryProfile {
            read_rate: dice.megabytes(3300, 5000),
            write_rate: dice.megabytes(1350, 2200),
        });
        profile.buffer.capacity = Bytes(dice.one_of(&[8, 12, 16, 24]) * MIB);
        let variation = &mut profile.variation;
        variation.program_spread_permille = dice.within(20, 150) as u32;
        variation.read_retry_interval = dice.within(200, 1000) as u32;
        variation.read_retry = dice.micros(50, 120);
        variation.write_spread = Nanos(dice.within(500, 4000));
        variation.housekeeping = dice.micros(30, 150);
        variation.housekeeping_gap = dice.micros(8_000, 20_000);
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plausible_drive_can_be_made() {
        for seed in 0..1000 {
            let profile = Profile::plausible(seed);
            profile.check(&profile.name).unwrap_or_else(|refusal| panic!("{refusal}: {profile:#?}"));
        }
        assert_ne!(Profile::plausible(1).flash, Profile::plausible(2).flash);
    }
}
