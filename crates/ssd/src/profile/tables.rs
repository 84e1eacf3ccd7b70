//! The tables of a profile, field by field: meaning and unit. Where a value comes from stands beside it in the file.

use super::unit;
use sched::Cost;
use serde::{Deserialize, Serialize};
use units::{ByteRate, Bytes, Nanos};

/// `[geometry]`: how much flash there is and how it is cut up.
///
/// A *page* is 16 KiB (four mapping slots of 4 KiB) and is what one read senses. A *unit* is what one program operation
/// writes on one die: `planes` pages for each bit of a cell. A *block* is `units_per_block` units and is what one erase
/// frees. Host writes are laid in *stripes*, page by page over `stripe_dies` neighbouring dies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometryProfile {
    /// Capacity that the host sees. Scaled down from the real device to keep the mapping small and the drive quickly
    /// filled; bandwidths and latencies do not depend on it.
    #[serde(rename = "capacity_mib", with = "unit::mebibytes")]
    pub capacity: Bytes,
    /// Flash beyond the capacity, in thousandths of it. This is the *effective* spare space of the fragmented state;
    /// the reserve of the garbage collector and the SLC cache come on top.
    pub spare_permille: u32,
    /// Flash that has never been written, present in the clean condition only. A real drive of 960 GB has some 77 GB of
    /// it; a scaled one would use its own up within a second.
    #[serde(rename = "never_written_mib", with = "unit::mebibytes")]
    pub never_written: Bytes,
    /// Channels between the controller and the dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Dies over which a stripe of host writes rotates. Decides how deep the queue must be for full sequential speed.
    pub stripe_dies: u32,
    /// Pages of each bit of a cell that one program operation writes.
    pub planes: u32,
    /// Program units in a block.
    pub units_per_block: u32,
}

/// `[flash]`: timing of the dies.
///
/// A die does one thing at a time. Reads go first, but at most `reads_between_slices` of them between two slices of
/// background work (program, erase, garbage collection).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Time to sense a page, one entry for each bit of a cell (three for TLC, two for MLC).
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
    /// The least time that a program or an erase runs between two suspensions.
    #[serde(rename = "suspend_slice_us", with = "unit::micros")]
    pub suspend_slice: Nanos,
    /// Time lost by one suspension and its resumption.
    #[serde(rename = "suspend_overhead_us", with = "unit::micros")]
    pub suspend_overhead: Nanos,
    /// An operation with no more than this left is finished rather than suspended.
    #[serde(rename = "suspend_least_left_us", with = "unit::micros")]
    pub suspend_least_left: Nanos,
    /// Reads served in a row while background work waits.
    pub reads_between_slices: u32,
}

/// `[channel]`: moving a page between a die and the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelProfile {
    /// Bandwidth of one channel.
    #[serde(rename = "rate_mb_per_s", with = "unit::megabytes_per_second")]
    pub rate: ByteRate,
    /// Time that each transfer takes besides its data.
    #[serde(rename = "transfer_overhead_ns", with = "unit::nanos")]
    pub transfer_overhead: Nanos,
}

/// `[firmware]`: what the controller spends on a command. Serial costs occupy the firmware and bound the number of
/// operations per second; latencies are pipelined and only delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareProfile {
    /// Serial cost of each flash read operation (slots of one command on one page share an operation).
    #[serde(rename = "read_operation_ns", with = "unit::nanos")]
    pub read_operation: Nanos,
    /// Serial cost on top for an operation of less than a page within a command that needs several.
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
}

/// `[link]`: the host's link (PCIe), each direction on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Bandwidth from the device to the host.
    #[serde(rename = "read_mb_per_s", with = "unit::megabytes_per_second")]
    pub read_rate: ByteRate,
    /// Bandwidth from the host to the device.
    #[serde(rename = "write_mb_per_s", with = "unit::megabytes_per_second")]
    pub write_rate: ByteRate,
    /// Link time of each command besides its data.
    #[serde(rename = "command_ns", with = "unit::nanos")]
    pub command: Nanos,
}

/// `[memory]`: the controller's memory, which all data pass. Reads and writes share its bandwidth. A file may leave it out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryProfile {
    /// Bandwidth if it had nothing but data that are read to pass.
    #[serde(rename = "read_mb_per_s", with = "unit::megabytes_per_second")]
    pub read_rate: ByteRate,
    /// Bandwidth if it had nothing but data that are written to pass; each byte comes in from the host and goes out to the flash,
    /// with its parity.
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
    /// Whether capacitors keep the buffer through a loss of power. Then a flush has nothing to do; without it a flush
    /// waits until everything that was acknowledged before it has been programmed.
    pub power_loss_protection: bool,
}

/// `[collection]`: when garbage collection runs. Both limits count the erased blocks of one die.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectionProfile {
    /// Free blocks around which collection is paced: more of them, less of it.
    pub free_low: u32,
    /// At so few free blocks collection goes before every other background work.
    pub free_hard: u32,
}

/// `[slc]`: a part of the flash that is written with one bit per cell, fast, and folded into full cells when idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcProfile {
    /// Blocks of each die that may be in this mode at a time; 0 means no cache.
    pub blocks_per_die: u32,
    /// Time to program a unit in this mode.
    #[serde(rename = "program_us", with = "unit::micros")]
    pub program: Nanos,
    /// Time to sense a page in this mode.
    #[serde(rename = "sense_us", with = "unit::micros")]
    pub sense: Nanos,
    /// Time without any command outstanding after which folding begins.
    #[serde(rename = "idle_ms", with = "unit::millis")]
    pub idle: Nanos,
}

/// `[variation]`: how much service times vary by themselves. A zero means: not at all, as does a file without the table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariationProfile {
    /// A program takes up to this share more or less, in thousandths.
    pub program_spread_permille: u32,
    /// Of so many senses for the host one is a retry, in the mean; 0: none is.
    pub read_retry_interval: u32,
    /// What a retry takes longer.
    #[serde(rename = "read_retry_us", with = "unit::micros")]
    pub read_retry: Nanos,
    /// The pipelined latency of a write is up to this much more or less.
    #[serde(rename = "write_spread_ns", with = "unit::nanos")]
    pub write_spread: Nanos,
    /// How long the firmware does nothing but its own housekeeping, each time; 0: never.
    #[serde(rename = "housekeeping_us", with = "unit::micros")]
    pub housekeeping: Nanos,
    /// From the end of one time to the beginning of the next, in the mean.
    #[serde(rename = "housekeeping_gap_us", with = "unit::micros")]
    pub housekeeping_gap: Nanos,
}

/// `[switch]`: what a scheduler in front of this device must know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchProfile {
    /// Device latency up to which the device counts as under-utilised.
    #[serde(rename = "thresh_min_us", with = "unit::micros")]
    pub thresh_min: Nanos,
    /// Device latency above which the device counts as overloaded.
    #[serde(rename = "thresh_max_us", with = "unit::micros")]
    pub thresh_max: Nanos,
    /// What a written byte costs, in read bytes, when the write buffer absorbs all: the bandwidth of sequential reads by
    /// that of sequential writes.
    #[serde(with = "unit::cost")]
    pub write_cost_best: Cost,
    /// What a written byte costs, in read bytes, when the device is at its worst.
    pub write_cost_worst: u32,
    /// Virtual slots shared by the tenants.
    pub slots: u32,
    /// The least target rate.
    #[serde(rename = "rate_min_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_min: ByteRate,
    /// The greatest target rate.
    #[serde(rename = "rate_max_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_max: ByteRate,
    /// The target rate to begin with.
    #[serde(rename = "rate_initial_mib_per_s", with = "unit::mebibytes_per_second")]
    pub rate_initial: ByteRate,
}
