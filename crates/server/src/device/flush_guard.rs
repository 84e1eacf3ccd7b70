//! After one failed flush of a device, all later flushes fail.
//!
//! When Linux cannot write back cached data, it reports this once, to the next fsync, and then treats the blocks as written. The next
//! flush, perhaps of another host, would succeed although its writes are lost. So the first failure is remembered: every later flush
//! fails, and every durable write fails before it is executed. Reads and other writes continue, so that hosts can save data.
//!
//! The operator has to find the fault and open the device again (`docs/operations.md`).
//!
//! A failed durable write concerns its own host only. But through the page cache, its error may be the only report about earlier
//! writes. There it counts as a failed flush.
//!
//! Holds: after a failed flush no flush succeeds, of any host
//!        (`after_a_failed_flush_all_flushes_fail_until_the_device_is_opened_again` in `tests/bad_devices`).

use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, FileChange, PATH_LOST, Quote};
use crate::stats::{AuxiliaryStats, FileStats};
use reactor::{IoBuffer, Reactor, Token};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::error;
use units::{Bytes, Instant, Nanos};

/// A device, and whether a flush of it has failed.
pub(crate) struct FlushGuard {
    inner: Box<dyn Device>,
    name: String,
    /// Whether writes go through the page cache.
    is_buffered: bool,
    has_failed: bool,
    /// The same, for other threads.
    told: Arc<AtomicBool>,
    /// IOs on the device whose failure may mean that earlier writes are lost, with a flag for writes.
    flushes: HashMap<u64, bool>,
    refused: Vec<DeviceDone>,
}

impl FlushGuard {
    /// The device called `name`, which has been opened just now. A failure is told to other threads by `told`.
    pub(crate) fn new(
        inner: Box<dyn Device>,
        name: String,
        is_buffered: bool,
        told: Arc<AtomicBool>,
    ) -> FlushGuard {
        FlushGuard {
            inner,
            name,
            is_buffered,
            has_failed: false,
            told,
            flushes: HashMap::new(),
            refused: Vec::new(),
        }
    }

    fn refuse(&mut self, io: DeviceIo) {
        let buffer = match io.op {
            DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
            DeviceOp::Flush | DeviceOp::Discard | DeviceOp::WriteZeroes => None,
        };
        let result = Err(io::Error::other("a flush of this device has failed before"));
        let (latency, late) = (Nanos::ZERO, Nanos::ZERO);
        self.refused.push(DeviceDone { tag: io.tag, result, buffer, latency, late });
    }
}

impl Device for FlushGuard {
    fn clock(&self) -> DeviceClock {
        self.inner.clock()
    }

    fn quote(&self, erase: Erase, offset: u64, length: u64, most: Bytes) -> Quote {
        self.inner.quote(erase, offset, length, most)
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let (is_durable, is_write) = match io.op {
            DeviceOp::Flush => (true, false),
            DeviceOp::Write { durable, .. } => (durable, true),
            DeviceOp::Read(_) | DeviceOp::Discard | DeviceOp::WriteZeroes => (false, false),
        };
        if is_durable && self.has_failed {
            return self.refuse(io);
        }
        if is_durable && (!is_write || self.is_buffered) {
            self.flushes.insert(io.tag, is_write);
        }
        self.inner.submit(now, reactor, io);
    }

    fn on_disk(
        &mut self,
        now: Instant,
        file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        self.inner.on_disk(now, file, tag, result, buffer);
    }

    fn poll(&mut self, now: Instant, reactor: &mut Reactor) {
        self.inner.poll(now, reactor);
    }

    fn files(&self) -> Option<FileStats> {
        self.inner.files()
    }

    fn change_files(&mut self, now: Instant, reactor: &mut Reactor, change: FileChange) {
        self.inner.change_files(now, reactor, change);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.inner.next_wake()
    }

    fn settle(&mut self) {
        self.inner.settle();
    }

    fn on_settled(&mut self) {
        self.inner.on_settled();
    }

    fn auxiliary(&self) -> Option<AuxiliaryStats> {
        self.inner.auxiliary()
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.refused);
        let first = done.len();
        self.inner.take_finished(done);
        if !self.flushes.is_empty() {
            done[first..].iter_mut().for_each(|done| self.look_at(done));
        }
    }
}

impl FlushGuard {
    /// Notes a failed flush, and lets no other one succeed afterwards.
    fn look_at(&mut self, done: &mut DeviceDone) {
        let Some(is_write) = self.flushes.remove(&done.tag) else { return };
        match &done.result {
            Err(error) if !self.has_failed && loses_writes(error, is_write) => {
                self.has_failed = true;
                self.told.store(true, Ordering::Relaxed);
                error!(
                    device = %self.name, %error,
                    "a flush has failed: writes that were answered before may be lost, of all hosts; \
                     every flush and durable write fails from now on, until the device is opened again"
                );
            }
            // This flush was submitted before the failure was known. It may cover lost writes.
            Ok(()) if self.has_failed => {
                done.result = Err(io::Error::other("another flush of this device has failed meanwhile"));
            }
            _ => {}
        }
    }
}

/// Whether earlier writes may be lost. A device that has failed fails every IO, and for a write of its own there may be
/// no room.
fn loses_writes(error: &io::Error, is_write: bool) -> bool {
    // Behind a lost path no write was answered before it was durable (`back_end`).
    let is_gone =
        matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) || error.kind() == PATH_LOST;
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    !(is_gone || is_write && is_full)
}
