//! Which values a profile may have: a range for each field, and relations between fields.
//!
//! The ranges are wide. Their lower ends keep time moving forward (no stage of the device takes no time).
//! Their upper ends keep arithmetic within 64 bits and a device's state within memory.

use super::{GeometryProfile, Profile, ProfileError, SwitchProfile};
use crate::Condition;
use crate::geometry::{BLOCK_SLOTS_MAX, BLOCKS_MAX, Geometry, SLOT_BYTES, SLOTS_PER_PAGE};
use sched::Cost;
use units::{ByteRate, Bytes, MIB, Nanos};

/// One second, in the units of the fields below.
const SECOND_NS: u64 = 1_000_000_000;
const SECOND_US: u64 = 1_000_000;
/// Shortest firmware time per command: no device does ten million commands per second.
const SERIAL_LEAST_NS: u64 = 100;
/// 1 TB/s, in MB/s.
const RATE_MOST_MB: u64 = 1_000_000;
/// 4 TiB in MiB. Beyond it, a slot's number would not fit into the mapping.
const CAPACITY_MOST_MIB: u64 = 4 << 20;

pub(super) fn check(profile: &Profile, origin: &str) -> Result<(), ProfileError> {
    check_ranges(profile, origin)?;
    check_relations(profile, origin)
}

fn check_ranges(profile: &Profile, origin: &str) -> Result<(), ProfileError> {
    let Profile {
        geometry,
        flash,
        channel,
        firmware,
        link,
        memory,
        buffer,
        collection,
        mapping,
        slc,
        variation,
        switch,
        ..
    } = profile;
    let rows = [
        ("geometry.capacity_mib", mib(geometry.capacity), 64, CAPACITY_MOST_MIB),
        ("geometry.spare_permille", geometry.spare_permille.into(), 10, 10_000),
        ("geometry.never_written_mib", mib(geometry.never_written), 0, CAPACITY_MOST_MIB),
        ("geometry.channels", geometry.channels.into(), 1, 256),
        ("geometry.dies_per_channel", geometry.dies_per_channel.into(), 1, 256),
        ("geometry.stripe_dies", geometry.stripe_dies.into(), 1, 1024),
        ("geometry.planes", geometry.planes.into(), 1, 16),
        ("geometry.units_per_block", geometry.units_per_block.into(), 1, BLOCK_SLOTS_MAX.into()),
        ("the number of entries in flash.sense_ns", flash.sense.len() as u64, 1, 5),
        ("flash.program_us", micros(flash.program), 1, 60 * SECOND_US),
        ("flash.erase_us", micros(flash.erase), 1, 60 * SECOND_US),
        ("flash.suspend_slice_us", micros(flash.suspend_slice), 1, SECOND_US),
        ("flash.suspend_overhead_us", micros(flash.suspend_overhead), 0, SECOND_US),
        ("flash.suspend_least_left_us", micros(flash.suspend_least_left), 0, SECOND_US),
        ("flash.reads_between_slices", flash.reads_between_slices.into(), 1, 1_000_000),
        ("channel.rate_mb_per_s", megabytes(channel.rate), 1, RATE_MOST_MB),
        ("channel.transfer_overhead_ns", channel.transfer_overhead.0, 0, SECOND_NS),
        ("firmware.read_operation_ns", firmware.read_operation.0, SERIAL_LEAST_NS, SECOND_NS),
        ("firmware.read_scattered_ns", firmware.read_scattered.0, 0, SECOND_NS),
        ("firmware.write_command_ns", firmware.write_command.0, SERIAL_LEAST_NS, SECOND_NS),
        ("firmware.write_slot_ns", firmware.write_slot.0, 0, SECOND_NS),
        ("firmware.management_command_ns", firmware.management_command.0, SERIAL_LEAST_NS, SECOND_NS),
        ("firmware.deallocate_slot_ns", firmware.deallocate_slot.0, 0, SECOND_US),
        ("firmware.read_latency_ns", firmware.read_latency.0, 0, SECOND_NS),
        ("firmware.write_latency_ns", firmware.write_latency.0, 0, SECOND_NS),
        ("link.read_mb_per_s", megabytes(link.read_rate), 1, RATE_MOST_MB),
        ("link.write_mb_per_s", megabytes(link.write_rate), 1, RATE_MOST_MB),
        ("link.command_ns", link.command.0, 0, SECOND_NS),
        ("buffer.capacity_mib", mib(buffer.capacity), 1, CAPACITY_MOST_MIB),
        ("collection.free_low", collection.free_low.into(), 2, 1000),
        ("collection.free_hard", collection.free_hard.into(), 1, 999),
        ("slc.blocks_per_die", slc.blocks_per_die.into(), 0, 1_000_000),
        ("slc.program_us", micros(slc.program), 1, 60 * SECOND_US),
        ("slc.sense_us", micros(slc.sense), 1, SECOND_US),
        ("slc.idle_ms", slc.idle.0 / 1_000_000, 0, 86_400_000),
        ("variation.program_spread_permille", variation.program_spread_permille.into(), 0, 999),
        ("variation.read_retry_interval", variation.read_retry_interval.into(), 0, 1_000_000_000),
        ("variation.read_retry_us", micros(variation.read_retry), 0, SECOND_US),
        ("variation.write_spread_ns", variation.write_spread.0, 0, firmware.write_latency.0),
        ("variation.housekeeping_us", micros(variation.housekeeping), 0, SECOND_US),
        ("variation.housekeeping_gap_us", micros(variation.housekeeping_gap), 0, 60 * SECOND_US),
        ("switch.thresh_min_us", micros(switch.thresh_min), 1, 60 * SECOND_US),
        ("switch.thresh_max_us", micros(switch.thresh_max), 1, 60 * SECOND_US),
        ("switch.write_cost_best (in thousandths)", switch.write_cost_best.thousandths(), 1000, 1_000_000),
        ("switch.write_cost_worst", switch.write_cost_worst.into(), 1, 1000),
        ("switch.slots", switch.slots.into(), 1, 1024),
        ("switch.rate_min_mib_per_s", switch.rate_min.0 / MIB, 1, RATE_MOST_MB),
        ("switch.rate_max_mib_per_s", switch.rate_max.0 / MIB, 1, RATE_MOST_MB),
        ("switch.rate_initial_mib_per_s", switch.rate_initial.0 / MIB, 1, RATE_MOST_MB),
    ];
    let senses = flash.sense.iter().map(|&ns| ("every entry of flash.sense_ns", u64::from(ns), 1, SECOND_NS));
    let memory = memory.iter().flat_map(|memory| {
        [
            ("memory.read_mb_per_s", megabytes(memory.read_rate), 1, RATE_MOST_MB),
            ("memory.write_mb_per_s", megabytes(memory.write_rate), 1, RATE_MOST_MB),
        ]
    });
    let mapping = mapping.iter().flat_map(|mapping| {
        [
            ("mapping.cached_mib", mib(mapping.cached), 1, CAPACITY_MOST_MIB),
            ("mapping.page_mib", mib(mapping.page), 1, CAPACITY_MOST_MIB),
        ]
    });
    let optional = [
        ("collection.reserve", collection.reserve, 1_000_000),
        ("flash.suspensions_most", flash.suspensions_most, 1_000_000),
        ("firmware.cores", firmware.cores, 256),
        ("firmware.reads_at_once", firmware.reads_at_once, 1_000_000),
    ];
    let optional =
        optional.into_iter().filter_map(|(field, value, most)| Some((field, u64::from(value?), 1, most)));
    for (field, value, least, most) in
        rows.into_iter().chain(senses).chain(memory).chain(mapping).chain(optional)
    {
        if !(least..=most).contains(&value) {
            return Err(ProfileError::OutOfRange { origin: origin.to_owned(), field, value, least, most });
        }
    }
    Ok(())
}

fn check_relations(profile: &Profile, origin: &str) -> Result<(), ProfileError> {
    let refuse = |broken: String, advice| {
        Err(ProfileError::Contradiction { origin: origin.to_owned(), broken, advice })
    };
    let shape = &profile.geometry;
    let dies = shape.channels * shape.dies_per_channel;
    if !dies.is_multiple_of(shape.stripe_dies) {
        return refuse(
            format!("geometry.stripe_dies = {} does not divide the {dies} dies evenly", shape.stripe_dies),
            "choose a divisor of channels x dies_per_channel",
        );
    }
    let block_slots =
        shape.planes * profile.flash.sense.len() as u32 * SLOTS_PER_PAGE * shape.units_per_block;
    if block_slots > BLOCK_SLOTS_MAX {
        return refuse(
            format!("a block has {block_slots} slots of 4 KiB, but at most {BLOCK_SLOTS_MAX} are possible"),
            "lower geometry.units_per_block",
        );
    }
    if profile.collection.free_hard >= profile.collection.free_low {
        return refuse(
            "collection.free_hard is not below collection.free_low".to_owned(),
            "collection must be paced before it becomes urgent; lower free_hard",
        );
    }
    if profile.variation.housekeeping > Nanos::ZERO && profile.variation.housekeeping_gap == Nanos::ZERO {
        return refuse(
            "variation.housekeeping_gap_us is 0, so the firmware would do nothing but housekeeping"
                .to_owned(),
            "raise the gap, or set variation.housekeeping_us to 0",
        );
    }
    if profile.switch.thresh_min > profile.switch.thresh_max {
        return refuse(
            "switch.thresh_min_us is above switch.thresh_max_us".to_owned(),
            "give the smaller latency as thresh_min_us",
        );
    }
    if profile.switch.write_cost_best > Cost::ratio(profile.switch.write_cost_worst, 1) {
        return refuse(
            "switch.write_cost_best is above switch.write_cost_worst".to_owned(),
            "give the smaller cost as write_cost_best",
        );
    }
    let SwitchProfile { rate_min, rate_initial, rate_max, .. } = &profile.switch;
    if !(rate_min <= rate_initial && rate_initial <= rate_max) {
        return refuse(
            "the rates of [switch] are not in the order min <= initial <= max".to_owned(),
            "set rate_initial_mib_per_s between the other two",
        );
    }
    let reserve =
        u64::from(profile.collection.reserve.unwrap_or(0)) * u64::from(dies * block_slots) * SLOT_BYTES;
    if reserve > spare(shape) / 4 * 3 {
        return refuse(
            format!(
                "collection.reserve keeps {} erased, of {} of spare flash",
                Bytes(reserve),
                Bytes(spare(shape))
            ),
            "keep at most three quarters of geometry.spare_permille",
        );
    }
    for condition in [Condition::Clean, Condition::Fragmented] {
        check_space(&Geometry::new(profile, condition), &refuse)?;
    }
    let stripe = u64::from(Geometry::new(profile, Condition::Clean).stripe_slots()) * SLOT_BYTES;
    if profile.buffer.capacity.get() < 4 * stripe {
        return refuse(
            format!("buffer.capacity_mib holds less than four stripes of {}", Bytes(stripe)),
            "enlarge the buffer, or lower geometry.stripe_dies",
        );
    }
    Ok(())
}

/// The dies that the host may fill must hold the whole capacity, plus a block of garbage each to collect.
fn check_space(
    geometry: &Geometry,
    refuse: &impl Fn(String, &'static str) -> Result<(), ProfileError>,
) -> Result<(), ProfileError> {
    let blocks = u64::from(geometry.dies) * u64::from(geometry.blocks_per_die);
    if blocks > BLOCKS_MAX {
        return refuse(
            format!("the device has {blocks} blocks, but at most {BLOCKS_MAX} are possible"),
            "lower geometry.capacity_mib, or raise units_per_block",
        );
    }
    let fillable = u64::from(geometry.dies) * u64::from(geometry.full_die());
    let needed = u64::from(geometry.logical_slots) + u64::from(geometry.dies * geometry.block_slots);
    if fillable < needed {
        return refuse(
            format!("the spare flash leaves room for {fillable} slots, but {needed} are needed"),
            "raise geometry.spare_permille or geometry.capacity_mib, or use fewer dies",
        );
    }
    Ok(())
}

/// Flash beyond the capacity, bytes.
fn spare(shape: &GeometryProfile) -> u64 {
    shape.capacity.get() / 1000 * u64::from(shape.spare_permille)
}

fn mib(bytes: Bytes) -> u64 {
    bytes.get() / MIB
}

fn micros(span: Nanos) -> u64 {
    span.0 / 1_000
}

fn megabytes(rate: ByteRate) -> u64 {
    rate.get() / 1_000_000
}
