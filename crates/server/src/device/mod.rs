//! The storage behind a scheduler: a file, a block device, an NVMe namespace, a namespace of another target, a modelled SSD, or nothing (`null`).
//!
//! ```text
//!   submit(io) ──► Device ──► reactor's disk, or the model's next event
//!                    │
//!   take_finished() ◄┘   with the latency on the device's own clock
//! ```
//!
//! A device has five operations: read, write, flush, discard, write zeroes. `switch` makes the other NVMe commands (compare, verify) of
//! these. Offsets and lengths are bytes of the device; they were checked before.
//!
//! Holds: every submitted IO finishes exactly once, with its buffer.

mod atomic;
mod auxiliary;
mod back_end;
mod clock;
mod contents;
mod directory;
pub(crate) mod emulated;
mod erase;
mod error;
mod faulty;
mod file;
mod file_end;
mod flush_guard;
mod held;
mod identity;
mod in_use;
mod local;
mod name;
mod null;
mod nvme;
mod offload;
mod open;
mod space;
mod sparse;
mod temperature;
mod usage;

pub(crate) use atomic::torn_blocks;
pub(crate) use auxiliary::load_drive;
pub(crate) use back_end::{FenceHandle, FenceRefused, GENERATION_MAX, Generation, Holding, PATH_LOST};
pub(crate) use clock::DeviceClock;
pub(crate) use contents::contents_name;
pub(crate) use directory::{FILE_MAX, FileChange, Pool, Taking, Wanted, expect_snapshot_name, offset_of};
pub use directory::{Room, Snapshot, SnapshotError};
pub(crate) use erase::{Erase, Quote};
pub use error::{DeviceError, Shortage};
pub(crate) use held::Held;
pub(crate) use identity::Identity;
pub use in_use::User;
pub use local::{Holes, LocalDevice, LocalDone, LocalOp, LocalOptions};
pub(crate) use name::lasting_name;
#[cfg(test)]
pub(crate) use null::NullDevice;
pub(crate) use open::{Facts, OpenDevice, load_profile, measure, open};
pub(crate) use space::shortages;
pub(crate) use usage::{Allocation, Survey, Usage};

use crate::stats::{AuxiliaryStats, FileStats};
use reactor::{IoBuffer, Reactor, Token};
use std::io;
use units::{Bytes, Instant, Nanos};

/// An operation on a range.
#[derive(Debug)]
pub(crate) enum DeviceOp {
    /// Read the range into the buffer. Both have the same length.
    Read(IoBuffer),
    /// Write the buffer to the range. Both have the same length.
    Write {
        /// The bytes.
        buffer: IoBuffer,
        /// Whether it is done only when it would survive a power failure.
        durable: bool,
    },
    /// Make all finished writes survive a power failure: of the file that the range is in, if the device has several, or of all of them if
    /// the range is empty.
    Flush,
    /// Deallocate the range. Afterwards it reads as zeros, or as before.
    Discard,
    /// Make the range read as zeros.
    WriteZeroes,
}

/// One IO.
#[derive(Debug)]
pub(crate) struct DeviceIo {
    /// The caller's name for it.
    pub(crate) tag: u64,
    /// Its first byte on the device.
    pub(crate) offset: u64,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// The operation.
    pub(crate) op: DeviceOp,
}

/// One thing that is over.
#[derive(Debug)]
pub(crate) struct DeviceDone {
    /// The caller's name for it.
    pub(crate) tag: u64,
    /// Whether it was done.
    pub(crate) result: io::Result<()>,
    /// The buffer of a read or write.
    pub(crate) buffer: Option<IoBuffer>,
    /// From submission to completion, on the device's clock.
    pub(crate) latency: Nanos,
    /// How late the completion was noticed, on the device's clock: above zero only for a modelled SSD on a machine that is too slow for
    /// it.
    pub(crate) late: Nanos,
}

/// A device on the reactor of its pipeline. Times are on the machine's clock unless stated otherwise.
pub(crate) trait Device {
    /// The device's own clock. Its scheduler runs on it.
    fn clock(&self) -> DeviceClock;

    /// The part of a range, from its start, that the device would erase now at a cost of about `most`, and the exact cost. Called before a
    /// Write Zeroes or a Deallocate passes the scheduler.
    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote;

    /// Starts an IO.
    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo);

    /// A disk operation that this device gave to the reactor for `file` is done.
    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    );

    /// Carries out work that is due at `now`, including operations that the reactor had no room for before.
    fn poll(&mut self, now: Instant, reactor: &mut Reactor);

    /// When `poll` has to be called next.
    fn next_wake(&self) -> Option<Instant>;

    /// Moves everything that is over to the end of `done`.
    fn take_finished(&mut self, done: &mut Vec<DeviceDone>);

    /// The end is near: the next flush leaves nothing of the device's contents in an auxiliary store.
    fn settle(&mut self) {}

    /// The flush after [`Device::settle`] has succeeded: the device itself has all of its contents.
    fn on_settled(&mut self) {}

    /// The files of a directory change. Other devices have none.
    fn change_files(&mut self, _now: Instant, _reactor: &mut Reactor, change: FileChange) {
        unreachable!("no directory, and yet {change:?}");
    }

    /// Its files, if it is a directory.
    fn files(&self) -> Option<FileStats> {
        None
    }

    /// Its auxiliary store, if it has one.
    fn auxiliary(&self) -> Option<AuxiliaryStats> {
        None
    }
}
