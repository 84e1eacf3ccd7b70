//! The tables of a profile: meaning and unit of each field. The source of each value is a comment in the
//! profile's file.

use super::unit;
use sched::Cost;
use serde::{Deserialize, Serialize};
use units::{ByteRate, Bytes, Nanos};

/// `[geometry]`: how much flash there is, and how it is divided.
///
/// A *page* is 16 KiB (four mapping slots of 4 KiB): what one read senses. A *unit* is what one program
/// operation writes on one die: `planes` pages per bit of a cell. A *block* is `units_per_block` units: what
/// one erase frees. Host writes are written in *stripes*, page by page over `stripe_dies` neighbouring dies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometryProfile {
    /// Capacity that the host sees. Smaller than that of the real device, so that the mapping is small and
    /// the drive is filled quickly. Bandwidth and latency do not depend on it.
    #[serde(rename = "capacity_mib", with = "unit::mebibytes")]
    pub capacity: Bytes,
    /// Flash beyond the capacity, in thousandths of the capacity. This is the *effective* spare space of the
    /// fragmented state, without the reserve of the garbage collector and the SLC cache.
    pub spare_permille: u32,
    /// Flash that was never written; only in the clean condition. A real drive of 960 GB has some 77 GB of
    /// it; with a scaled amount, the model would use it up within a second.
    #[serde(rename = "never_written_mib", with = "unit::mebibytes")]
    pub never_written: Bytes,
    /// Channels between the controller and the dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Dies over which a stripe of host writes rotates. Determines the queue depth needed for full sequential
    /// speed.
    pub stripe_dies: u32,
    /// Pages per bit of a cell that one program operation writes.
    pub planes: u32,
    /// Program units in a block.
    pub units_per_block: u32,
}

/// `[flash]`: timing of the dies.
///
/// A die does one thing at a time. Reads go first, but at most `reads_between_slices` of them between two
/// slices of background work (program, erase, garbage collection).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Time to sense a page, one entry per bit of a cell (three for TLC, two for MLC).
    #[serde(rename = "sense_ns")]
    pub sense: Vec<u32>,
    /// Time to program a unit.
    #[serde(rename = "program_us", with = "unit::micros")]
    pub program: Nanos,
    /// Time to erase a block (scaled: the model's block is smaller than a real one).
    #[serde(rename = "erase_us", with = "unit::micros")]
    pub erase: Nanos,
    /// Whether a program or an erase can be suspended for reads.
    pub suspend: bool,
    /// Shortest time that a program or an erase runs between two suspensions.
    #[serde(rename = "suspend_slice_us", with = "unit::micros")]
    pub suspend_slice: Nanos,
    /// Whether a program or an erase can only be suspended after a whole number of slices; otherwise at any time after the
    /// first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend_after_whole_slices: bool,
    /// Time lost by one suspension and resumption.
    #[serde(rename = "suspend_overhead_us", with = "unit::micros")]
    pub suspend_overhead: Nanos,
    /// An operation with no more than this left is not suspended.
    #[serde(rename = "suspend_least_left_us", with = "unit::micros")]
    pub suspend_least_left: Nanos,
    /// Reads served in a row while background work waits.
    pub reads_between_slices: u32,
    /// A program or an erase that was suspended so often runs to its end. `None`, or no such field: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspensions_most: Option<u32>,
}

/// `[channel]`: moving a page between a die and the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelProfile {
    /// Bandwidth of one channel.
    #[serde(rename = "rate_mb_per_s", with = "unit::megabytes_per_second")]
    pub rate: ByteRate,
    /// Time of each transfer in addition to its data.
    #[serde(rename = "transfer_overhead_ns", with = "unit::nanos")]
    pub transfer_overhead: Nanos,
}

/// `[firmware]`: time that the controller needs per command. Serial costs occupy the firmware and limit
/// operations per second; latencies are pipelined and only add delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareProfile {
    /// Serial cost of each flash read operation (slots of one command on one page share an operation).
    #[serde(rename = "read_operation_ns", with = "unit::nanos")]
    pub read_operation: Nanos,
    /// Additional serial cost of an operation for less than a page, if its command needs more than one.
    #[serde(rename = "read_scattered_ns", with = "unit::nanos")]
    pub read_scattered: Nanos,
    /// Serial cost of a write command.
    #[serde(rename = "write_command_ns", with = "unit::nanos")]
    pub write_command: Nanos,
    /// Serial cost of each 4 KiB of a write command.
    #[serde(rename = "write_slot_ns", with = "unit::nanos")]
    pub write_slot: Nanos,
    /// Serial cost of a flush or a deallocate command.
    #[serde(rename = "management_command_ns", with = "unit::nanos")]
    pub management_command: Nanos,
    /// Serial cost of each 4 KiB of a deallocate command.
    #[serde(rename = "deallocate_slot_ns", with = "unit::nanos")]
    pub deallocate_slot: Nanos,
    /// Pipelined latency of a read.
    #[serde(rename = "read_latency_ns", with = "unit::nanos")]
    pub read_latency: Nanos,
    /// Pipelined latency of a write, a flush or a deallocate.
    #[serde(rename = "write_latency_ns", with = "unit::nanos")]
    pub write_latency: Nanos,
    /// Cores that share the commands by address. All serial costs are those of one core. `None`, or no such field: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Read commands that a core works on at once; more wait in order. Reads that wait for a busy die keep their places, so
    /// programs can slow down all reads. `None`, or no such field: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_at_once: Option<u32>,
}

/// `[link]`: the link to the host (PCIe); the directions are independent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Bandwidth from the device to the host.
    #[serde(rename = "read_mb_per_s", with = "unit::megabytes_per_second")]
    pub read_rate: ByteRate,
    /// Bandwidth from the host to the device.
    #[serde(rename = "write_mb_per_s", with = "unit::megabytes_per_second")]
    pub write_rate: ByteRate,
    /// Link time of each command in addition to its data.
    #[serde(rename = "command_ns", with = "unit::nanos")]
    pub command: Nanos,
}

/// `[memory]`: the controller's memory. All data passes through it; reads and writes share its bandwidth.
/// Optional.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryProfile {
    /// Bandwidth if only read data passed.
    #[serde(rename = "read_mb_per_s", with = "unit::megabytes_per_second")]
    pub read_rate: ByteRate,
    /// Bandwidth if only written data passed. Each written byte passes twice, in from the host and out to the
    /// flash with its parity.
    #[serde(rename = "write_mb_per_s", with = "unit::megabytes_per_second")]
    pub write_rate: ByteRate,
}

/// `[buffer]`: the DRAM that holds written data until it is programmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferProfile {
    /// Its size.
    #[serde(rename = "capacity_mib", with = "unit::mebibytes")]
    pub capacity: Bytes,
    /// Whether capacitors preserve the buffer through a power loss. Then a flush has nothing to do. Without
    /// it, a flush waits until everything acknowledged before it has been programmed.
    pub power_loss_protection: bool,
}

/// `[collection]`: when garbage collection runs. Both limits are numbers of free blocks of one die.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionProfile {
    /// Collection is paced around this number of free blocks: with more, it runs slower.
    pub free_low: u32,
    /// At this number of free blocks or fewer, collection goes before all other background work.
    pub free_hard: u32,
    /// Blocks of each die's spare space that are kept erased: the *reserve*, at most three quarters of that space. A die that has
    /// nothing else to do refills it. Host writes use it up before they have to wait for collection. `None`, or no such field: no
    /// reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<u32>,
    /// Whether a read has to wait for the whole program of collected data, and for the whole erase, where programs of host
    /// data are suspended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_reads: bool,
    /// Whether all dies collect at once, in *rounds*, as drives do that erase a block of each die together: when a die has no more than
    /// `free_low` free blocks, every die collects until it has one more, and does nothing else meanwhile. Otherwise each collects by itself, in
    /// steps between which it serves reads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_rounds: bool,
}

/// `[mapping]`: the part of the mapping that the controller has in its memory. A read whose mapping is not there senses a page
/// of the mapping first. Optional: without it all of the mapping is in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingProfile {
    /// Capacity whose mapping is in memory.
    #[serde(rename = "cached_mib", with = "unit::mebibytes")]
    pub cached: Bytes,
    /// Capacity that one page of the mapping describes.
    #[serde(rename = "page_mib", with = "unit::mebibytes")]
    pub page: Bytes,
}

/// `[slc]`: a part of the flash that is written with one bit per cell, fast, and folded into full cells when
/// idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcProfile {
    /// Blocks of each die that may be in this mode at the same time; 0 means no cache.
    pub blocks_per_die: u32,
    /// Time to program a unit in this mode.
    #[serde(rename = "program_us", with = "unit::micros")]
    pub program: Nanos,
    /// Time to sense a page in this mode.
    #[serde(rename = "sense_us", with = "unit::micros")]
    pub sense: Nanos,
    /// Time without outstanding commands after which folding starts.
    #[serde(rename = "idle_ms", with = "unit::millis")]
    pub idle: Nanos,
}

/// `[variation]`: how much service times vary. Zero, or no such table, means no variation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariationProfile {
    /// A program takes longer or shorter by up to this share, in thousandths.
    pub program_spread_permille: u32,
    /// Mean number of host senses per retry; 0 means no retries.
    pub read_retry_interval: u32,
    /// Additional time of a retry.
    #[serde(rename = "read_retry_us", with = "unit::micros")]
    pub read_retry: Nanos,
    /// The pipelined latency of a write is longer or shorter by up to this much.
    #[serde(rename = "write_spread_ns", with = "unit::nanos")]
    pub write_spread: Nanos,
    /// Length of a pause for the firmware's own housekeeping; 0 means none.
    #[serde(rename = "housekeeping_us", with = "unit::micros")]
    pub housekeeping: Nanos,
    /// Mean time from the end of one pause to the start of the next.
    #[serde(rename = "housekeeping_gap_us", with = "unit::micros")]
    pub housekeeping_gap: Nanos,
}

/// `[switch]`: facts about this device that a scheduler for it must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchProfile {
    /// Up to this device latency, the device counts as under-utilised.
    #[serde(rename = "thresh_min_us", with = "unit::micros")]
    pub thresh_min: Nanos,
    /// Above this device latency, the device counts as overloaded.
    #[serde(rename = "thresh_max_us", with = "unit::micros")]
    pub thresh_max: Nanos,
    /// Cost of a written byte, in read bytes, when the write buffer absorbs all writes: the bandwidth of
    /// sequential reads divided by that of sequential writes.
    #[serde(with = "unit::cost")]
    pub write_cost_best: Cost,
    /// Cost of a written byte, in read bytes, when the device is at its worst.
    pub write_cost_worst: u32,
    /// Virtual slots shared by the tenants.
    pub slots: u32,
    /// The lowest target rate.
    #[serde(rename = "rate_min_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_min: ByteRate,
    /// The highest target rate.
    #[serde(rename = "rate_max_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_max: ByteRate,
    /// The initial target rate.
    #[serde(rename = "rate_initial_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_initial: ByteRate,
}
