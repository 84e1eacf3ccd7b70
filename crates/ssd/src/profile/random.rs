//! Random SSDs: drives of known classes, drawn from one seed, for judging schedulers on SSDs for which they were not tuned.
//!
//! Every value lies in the range that drives of its class have; the capacity and the block are scaled down, so that such a drive is made
//! within a tenth of a second. The `[switch]` table holds the results of a data sheet and a minute with a calculator: a scheduler that needs
//! constants gets those, not measured ones.
//!
//! | class | like | reads at most | senses | programs | suspends |
//! |---|---|---|---|---|---|
//! | `sata` | SATA data-centre drives | 0.55 GB/s, 70–100 k | 45–80 µs | 0.7–2.5 ms | some |
//! | `gen3` | PCIe 3.0 ×4, DCT983 | 2–3.5 GB/s, 300–700 k | 40–70 µs | 0.7–2.5 ms | most |
//! | `gen4` | PCIe 4.0 ×4 | 4.5–7 GB/s, 0.6–1 M | 35–60 µs | 0.5–1.8 ms | most |
//! | `unsuspended` | PM1725a, SN200 | 3–5 GB/s, 500–900 k | 45–65 µs | 1.2–2.5 ms | none |
//! | `consumer` | TLC with an SLC cache | 2–3.5 GB/s, 200–400 k | 45–75 µs | 1.8–3 ms | most |
//! | `fast` | Optane, Z-NAND | 2.2–3 GB/s, 450–700 k | 6–14 µs | 30–120 µs | – |
//!
//! Some have what a scheduler does not see: a reserve of erased blocks (20 to 60 % of the spare space, one drive in four that is not `fast`), collection
//! that holds reads (one in four of those that suspend programs) or runs on all dies in rounds (one in eight that is not `fast`), and a mapping of which 20 to 80 % is in memory (two in five of `sata`
//! and `consumer`). They come from dice of their own, so a seed draws the same drive with and without them.
//!
//! Holds: every seed gives a drive that passes [`Profile::check`] (`every_random_drive_can_be_made`).

use super::{
    BufferProfile, ChannelProfile, CollectionProfile, FirmwareProfile, FlashProfile, GeometryProfile,
    LinkProfile, MappingProfile, MemoryProfile, Profile, SlcProfile, SwitchProfile, VariationProfile,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sched::Cost;
use units::{ByteRate, Bytes, Nanos};

/// A class of drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Sata,
    Gen3,
    Gen4,
    Unsuspended,
    Consumer,
    Fast,
}

impl Class {
    /// Weight of each in the draw, of a hundred.
    const DRAWN: [(Class, u32); 6] = [
        (Class::Sata, 15),
        (Class::Gen3, 30),
        (Class::Gen4, 20),
        (Class::Unsuspended, 15),
        (Class::Consumer, 12),
        (Class::Fast, 8),
    ];

    fn name(self) -> &'static str {
        match self {
            Class::Sata => "sata",
            Class::Gen3 => "gen3",
            Class::Gen4 => "gen4",
            Class::Unsuspended => "unsuspended",
            Class::Consumer => "consumer",
            Class::Fast => "fast",
        }
    }
}

/// Dice.
pub(super) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(super) fn of(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// From `least` to `most`.
    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        let span = most - least + 1;
        least + ((u128::from(self.0.next_u64()) * u128::from(span)) >> 64) as u64
    }

    pub(super) fn micros(&mut self, least: u64, most: u64) -> Nanos {
        Nanos::micros(self.within(least, most))
    }

    pub(super) fn megabytes(&mut self, least: u64, most: u64) -> ByteRate {
        ByteRate(self.within(least, most) * MB)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.within(0, all.len() as u64 - 1) as usize]
    }

    pub(super) fn percent(&mut self, of: u64) -> bool {
        self.within(0, 99) < of
    }
}

const MB: u64 = 1_000_000;
pub(super) const MIB: u64 = 1 << 20;
const PAGE: u64 = 16 << 10;
/// The block of a real drive in program units, of which a real erase takes as long as it is drawn.
const REAL_UNITS_PER_BLOCK: u64 = 250;
const UNITS_PER_BLOCK: u64 = 8;
/// Minimum of spare blocks on every die: one is kept free, one is collected, and the rest is rounding.
const SPARE_BLOCKS: u64 = 3;
/// Makes other dice of a seed: those of [`draw_insides`].
const INSIDES: u64 = 0x9e37_79b9_7f4a_7c15;
/// Time for which a clean drive can be written at full speed before it must collect.
const WRITTEN_CLEAN_SECS: u64 = 12;

impl Profile {
    /// A drive of a known class, drawn by this seed.
    pub fn random(seed: u64) -> Profile {
        let mut dice = Dice::of(seed);
        let mut at = dice.within(0, 99) as u32;
        let mut class = Class::Gen3;
        for (candidate, often) in Class::DRAWN {
            if at < often {
                class = candidate;
                break;
            }
            at -= often;
        }
        draw(class, seed, &mut dice)
    }
}

fn draw(class: Class, seed: u64, dice: &mut Dice) -> Profile {
    let is_fast = class == Class::Fast;
    let (channels, dies_per_channel) = match class {
        Class::Sata => (dice.one_of(&[4, 8]), dice.one_of(&[2, 4])),
        Class::Consumer => (dice.one_of(&[4, 8]), dice.one_of(&[2, 4])),
        Class::Gen3 => (8, dice.one_of(&[4, 8])),
        Class::Gen4 | Class::Unsuspended => (dice.one_of(&[8, 16]), dice.one_of(&[4, 8])),
        Class::Fast => (8, dice.one_of(&[2, 4])),
    };
    let dies: u32 = channels * dies_per_channel;
    let (bits, sense_least, sense_most) = match class {
        Class::Sata => (dice.one_of(&[2, 3]), 45, 80),
        Class::Gen3 => (3, 40, 70),
        Class::Gen4 => (3, 35, 60),
        Class::Unsuspended => (3, 45, 65),
        Class::Consumer => (dice.one_of(&[3, 4]), 45, 75),
        Class::Fast => (1, 6, 14),
    };
    let sense = dice.within(sense_least * 1000, sense_most * 1000);
    let steps: Vec<u32> = (0..bits).map(|bit: u64| (sense + sense * bit / 8) as u32).collect();
    let program = match class {
        Class::Sata | Class::Gen3 => dice.micros(700, 2500),
        Class::Gen4 => dice.micros(500, 1800),
        Class::Unsuspended => dice.micros(1200, 2500),
        Class::Consumer => dice.micros(1800, 3000),
        Class::Fast => dice.micros(30, 120),
    };
    let planes = if is_fast { 1 } else { dice.one_of(&[2, 2, 4]) };
    let unit = planes * bits * PAGE;
    let suspend = !matches!(class, Class::Unsuspended | Class::Fast) && dice.percent(75);
    let (link_read, read_operation, write_command) = match class {
        Class::Sata => (dice.megabytes(480, 555), dice.within(10_000, 14_000), dice.within(10_000, 16_000)),
        Class::Gen3 => (dice.megabytes(2000, 3500), dice.within(1_400, 3_200), dice.within(1_500, 3_500)),
        Class::Gen4 => (dice.megabytes(4500, 7000), dice.within(1_000, 1_600), dice.within(1_000, 2_500)),
        Class::Unsuspended => {
            (dice.megabytes(3000, 5000), dice.within(1_100, 2_000), dice.within(1_000, 2_500))
        }
        Class::Consumer => (dice.megabytes(2000, 3500), dice.within(2_500, 5_000), dice.within(2_500, 5_000)),
        Class::Fast => (dice.megabytes(2200, 3000), dice.within(1_400, 2_200), dice.within(1_500, 2_500)),
    };
    let link_write = ByteRate(link_read.0 * dice.within(60, 100) / 100);
    let flash_write = u64::from(dies) * unit * 1_000_000_000 / program.0;
    let buffered_write = flash_write.min(link_write.0);
    let capacity = if dies >= 64 { 4096 } else { 2048 } * MIB;
    let spare_permille = match class {
        Class::Fast => dice.within(300, 600),
        Class::Consumer => dice.within(70, 120),
        _ => dice.within(70, 300),
    } as u32;
    let spare = capacity * u64::from(spare_permille) / 1000;
    let units_per_block = (spare / (SPARE_BLOCKS * u64::from(dies) * unit)).clamp(1, UNITS_PER_BLOCK);
    let slc_blocks = if class == Class::Consumer {
        // 64 to 512 MiB, so that some seconds of writes fill it.
        let block = unit * units_per_block;
        (dice.within(64, 512) * MIB / block / u64::from(dies)).max(1) as u32
    } else {
        0
    };
    let stripe_dies = dice.one_of(&[4, 8, 8, 16]).min(dies);
    let stripe = u64::from(stripe_dies) * unit;
    let read_latency = if is_fast { dice.within(3_000, 6_000) } else { dice.within(6_000, 15_000) };
    let write_latency = if is_fast { dice.within(6_000, 10_000) } else { dice.within(8_000, 50_000) };
    let mut profile = Profile {
        name: format!("random-{seed}"),
        description: format!("a drive of the class {}, drawn by seed {seed}", class.name()),
        geometry: GeometryProfile {
            capacity: Bytes(capacity),
            spare_permille,
            never_written: Bytes((buffered_write * WRITTEN_CLEAN_SECS / MIB).clamp(1024, 32 << 10) * MIB),
            channels,
            dies_per_channel,
            stripe_dies,
            planes: planes as u32,
            units_per_block: units_per_block as u32,
        },
        flash: FlashProfile {
            sense: steps,
            program,
            erase: Nanos::micros(if is_fast {
                1
            } else {
                dice.within(3_000, 8_000) * units_per_block / REAL_UNITS_PER_BLOCK
            }),
            suspend,
            suspend_slice: dice.micros(100, 400),
            suspend_after_whole_slices: false,
            suspend_overhead: dice.micros(20, 150),
            suspend_least_left: Nanos::micros(50),
            reads_between_slices: dice.within(1, 5) as u32,
            suspensions_most: None,
        },
        channel: ChannelProfile {
            rate: if class == Class::Gen4 { dice.megabytes(1000, 1600) } else { dice.megabytes(400, 1000) },
            transfer_overhead: Nanos(dice.within(200, 500)),
        },
        firmware: FirmwareProfile {
            read_operation: Nanos(read_operation),
            read_scattered: Nanos(read_operation / dice.within(6, 12)),
            write_command: Nanos(write_command),
            write_slot: Nanos(dice.within(100, 400)),
            management_command: Nanos(write_command),
            deallocate_slot: Nanos(2),
            read_latency: Nanos(read_latency),
            write_latency: Nanos(write_latency),
            cores: None,
            reads_at_once: None,
        },
        link: LinkProfile {
            read_rate: link_read,
            write_rate: link_write,
            command: Nanos(dice.within(40, 100)),
        },
        memory: dice.percent(40).then(|| MemoryProfile {
            read_rate: ByteRate(link_read.0 * dice.within(105, 160) / 100),
            write_rate: ByteRate(buffered_write.max(400 * MB) * dice.within(105, 200) / 100),
        }),
        buffer: BufferProfile {
            capacity: Bytes((dice.one_of(&[4, 8, 12, 16, 24, 32]) * MIB).max(stripe.div_ceil(MIB) * 4 * MIB)),
            power_loss_protection: class != Class::Consumer,
        },
        collection: CollectionProfile {
            free_low: 3,
            free_hard: 1,
            reserve: None,
            holds_reads: false,
            in_rounds: false,
        },
        mapping: None,
        slc: SlcProfile {
            blocks_per_die: slc_blocks,
            program: dice.micros(200, 400),
            sense: dice.micros(20, 30),
            idle: Nanos::millis(dice.within(5, 100)),
        },
        variation: VariationProfile {
            program_spread_permille: dice.within(20, 150) as u32,
            read_retry_interval: dice.within(200, 1000) as u32,
            read_retry: dice.micros(50, 120),
            write_spread: Nanos(dice.within(500, 4_000)),
            housekeeping: dice.micros(30, 150),
            housekeeping_gap: dice.micros(8_000, 20_000),
        },
        switch: SwitchProfile {
            thresh_min: Nanos::micros(250),
            thresh_max: Nanos::micros(1500),
            write_cost_best: Cost::ONE,
            write_cost_worst: 9,
            slots: 8,
            rate_min: ByteRate::mib_per_sec(50),
            rate_max: ByteRate::mib_per_sec(4096),
            rate_initial: ByteRate::mib_per_sec(1000),
        },
    };
    profile.switch = data_sheet(&profile, flash_write);
    draw_insides(class, &mut profile, &mut Dice::of(seed ^ INSIDES));
    profile
}

/// Draws what a scheduler does not see: reserve, collection that holds reads or runs in rounds, and the part of the mapping in memory.
fn draw_insides(class: Class, profile: &mut Profile, dice: &mut Dice) {
    let [has_reserve, holds_reads, has_part_of_mapping] = [25, 25, 40].map(|percent| dice.percent(percent));
    let geometry = &profile.geometry;
    if has_reserve && class != Class::Fast {
        let dies = u64::from(geometry.channels * geometry.dies_per_channel);
        let unit = u64::from(geometry.planes) * profile.flash.sense.len() as u64 * PAGE;
        let block = unit * u64::from(geometry.units_per_block);
        let spare = geometry.capacity.0 * u64::from(geometry.spare_permille) / 1000;
        let reserve = spare * dice.within(20, 60) / 100 / block / dies;
        profile.collection.reserve = u32::try_from(reserve).ok().filter(|blocks| *blocks > 0);
    }
    profile.collection.holds_reads = holds_reads && profile.flash.suspend;
    if has_part_of_mapping && matches!(class, Class::Sata | Class::Consumer) {
        let cached = geometry.capacity.0 / MIB * dice.within(20, 80) / 100;
        profile.mapping =
            Some(MappingProfile { cached: Bytes(cached * MIB), page: Bytes(dice.one_of(&[1, 2, 4]) * MIB) });
    }
    profile.collection.in_rounds = dice.percent(12) && class != Class::Fast;
}

/// The data sheet's figures of such a drive, as constants of a scheduler.
fn data_sheet(profile: &Profile, flash_write: u64) -> SwitchProfile {
    let dies = u64::from(profile.geometry.channels * profile.geometry.dies_per_channel);
    let sense = u64::from(profile.flash.sense[profile.flash.sense.len() / 2]);
    let read_iops =
        (1_000_000_000 / profile.firmware.read_operation.0).min(dies * 1_000_000_000 / (sense + 10_000));
    let write_rate = flash_write.min(profile.link.write_rate.0);
    // The usual write amplification at this spare area, roughly.
    let amplification = (1000 / u64::from(profile.geometry.spare_permille) / 2).clamp(1, 8) + 1;
    let write_iops = write_rate / amplification / 4096;
    // Between three and four times a lone read, as 250 µs is for the DCT983.
    let thresh_min = Nanos(3 * (sense + profile.firmware.read_latency.0 + 20_000));
    let rate_max = (profile.link.read_rate.0 / MIB).max(100);
    SwitchProfile {
        thresh_min: Nanos::micros(thresh_min.0 / 1000),
        thresh_max: Nanos::micros(6 * thresh_min.0 / 1000),
        write_cost_best: Cost::ratio((profile.link.read_rate.0 * 10 / write_rate).clamp(10, 80) as u32, 10),
        write_cost_worst: (read_iops / write_iops.max(1)).clamp(8, 100) as u32,
        slots: 8,
        rate_min: ByteRate::mib_per_sec(50.min(rate_max / 2)),
        rate_max: ByteRate::mib_per_sec(rate_max),
        rate_initial: ByteRate::mib_per_sec(rate_max / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_random_drive_can_be_made() {
        for seed in 0..2000 {
            let profile = Profile::random(seed);
            profile.check(&profile.name).unwrap_or_else(|refusal| panic!("{refusal}: {profile:#?}"));
        }
    }

    #[test]
    fn a_seed_draws_the_same_drive_and_another_one_a_different_drive() {
        assert_eq!(Profile::random(7), Profile::random(7));
        assert_ne!(Profile::random(7).flash, Profile::random(8).flash);
    }

    #[test]
    fn all_insides_are_drawn() {
        let count = |has: fn(&Profile) -> bool| (0..400).filter(|seed| has(&Profile::random(*seed))).count();
        let counts = [
            count(|profile| profile.collection.reserve.is_some()),
            count(|profile| profile.collection.holds_reads),
            count(|profile| profile.collection.in_rounds),
            count(|profile| profile.mapping.is_some()),
        ];
        assert!(counts.iter().all(|count| (25..150).contains(count)), "{counts:?} of 400");
    }

    #[test]
    fn all_classes_are_drawn() {
        for (class, _) in Class::DRAWN {
            let like = format!("class {},", class.name());
            assert!((0..200).any(|seed| Profile::random(seed).description.contains(&like)), "{like}");
        }
    }
}
