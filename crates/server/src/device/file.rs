//! A file or a block device, read and written through the reactor.
//!
//! The reactor accepts a limited number of disk operations. Refused operations wait here, in order, until `poll`. Latency counts from the
//! submission by the scheduler, so this wait counts as the device's, as with a full hardware queue.
//!
//! Not every file system supports discard and write-zeroes. An unsupported discard does nothing and succeeds (NVMe allows deallocated
//! blocks to keep their contents). Unsupported zeroes in a regular file are made by a hole.

use super::file_end::FileEnd;
use super::offload::Shortcuts;
use super::{Device, DeviceClock, DeviceDone, DeviceIo, DeviceOp, Erase, Quote};
use crate::slab::{Key, Slab};
use reactor::{DiskAccess, DiskOp, IoBuffer, NvmeNamespace, Reactor, Token};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use tracing::warn;
use units::{Bytes, Instant, Nanos};

/// The action if the system does not support an operation.
#[derive(Clone, Copy, Debug)]
enum Fallback {
    /// Fail.
    Fail,
    /// Succeed without doing anything.
    Nothing,
    /// Make a hole of the same range.
    Hole { offset: u64, length: u64 },
}

struct Started {
    tag: u64,
    at: Instant,
    /// The bytes that it is about.
    range: Range<u64>,
    /// Whether it changes them.
    changes: bool,
    fallback: Fallback,
}

/// A bit of the tags that no key has before a slot has been used 2^31 times.
const STORE_BIT: u64 = 1 << 63;

/// A file or block device of the reactor.
pub(crate) struct FileDevice {
    file: Token,
    /// The end of a regular file, in which holes read as zeros; `None` for a disk.
    end: Option<Box<FileEnd>>,
    shortcuts: Shortcuts,
    started: Slab<Started>,
    refused: VecDeque<(Key, DiskOp)>,
    done: Vec<DeviceDone>,
    /// A bit that is set in the reactor's tags: zero, or the one that distinguishes an auxiliary store from the SSD on the same reactor.
    tag_bit: u64,
    /// For an NVMe namespace: its block device.
    _disk: Option<File>,
}

impl FileDevice {
    /// Device `name` on a regular file. The reactor takes the file.
    pub(crate) fn start(file: File, name: &str, reactor: &mut Reactor) -> io::Result<FileDevice> {
        let shortcuts = Shortcuts::of(&file, true);
        let end = Some(Box::new(FileEnd::of(&file, name)?));
        Ok(FileDevice { end, ..FileDevice::over(file, DiskAccess::File, shortcuts, reactor)? })
    }

    /// A device on a block device, polled or not.
    pub(crate) fn start_disk(file: File, is_polled: bool, reactor: &mut Reactor) -> io::Result<FileDevice> {
        let shortcuts = Shortcuts::of(&file, false);
        let access = if is_polled { DiskAccess::Polled } else { DiskAccess::File };
        FileDevice::over(file, access, shortcuts, reactor)
    }

    /// The auxiliary store of device `name` on this reactor.
    pub(crate) fn start_store(
        file: File,
        is_block: bool,
        name: &str,
        reactor: &mut Reactor,
    ) -> io::Result<FileDevice> {
        let device = match is_block {
            true => FileDevice::start_disk(file, false, reactor)?,
            false => FileDevice::start(file, name, reactor)?,
        };
        Ok(FileDevice { tag_bit: STORE_BIT, ..device })
    }

    /// Whether a disk operation with this tag was an auxiliary store's.
    pub(crate) fn is_store_tag(tag: u64) -> bool {
        tag & STORE_BIT != 0
    }

    /// A device on an NVMe namespace. Its block device is held open to exclude other users.
    pub(crate) fn start_namespace(
        (file, disk): (File, File),
        namespace: NvmeNamespace,
        is_polled: bool,
        reactor: &mut Reactor,
    ) -> io::Result<FileDevice> {
        let shortcuts = Shortcuts::of_namespace(namespace.has_write_zeroes);
        let access = DiskAccess::Nvme { namespace, is_polled };
        let device = FileDevice::over(file, access, shortcuts, reactor)?;
        Ok(FileDevice { _disk: Some(disk), ..device })
    }

    fn over(
        file: File,
        access: DiskAccess,
        shortcuts: Shortcuts,
        reactor: &mut Reactor,
    ) -> io::Result<FileDevice> {
        let file = reactor.add_disk(file.into(), access)?;
        let (started, refused, done) = (Slab::new(), VecDeque::new(), Vec::new());
        Ok(FileDevice { file, end: None, shortcuts, started, refused, done, tag_bit: 0, _disk: None })
    }

    /// Its name in the reactor.
    pub(super) fn token(&self) -> Token {
        self.file
    }

    /// Whether operations wait for room in the reactor.
    pub(super) fn is_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether operations that change the file are under way.
    pub(super) fn is_changing(&self) -> bool {
        self.started.iter().any(|(_, started)| started.changes)
    }

    /// Checks that all of `range` exists: always, except in a file that another program has cut.
    fn expect(&mut self, now: Instant, range: &Range<u64>, changes: bool) -> io::Result<()> {
        let Some(end) = &mut self.end else { return Ok(()) };
        let started = &self.started;
        end.expect(now, range, changes, |number| started.get(Key::from_bits(number)).is_none())
    }

    fn give(&mut self, reactor: &mut Reactor, key: Key, op: DiskOp) {
        if !self.refused.is_empty() {
            self.refused.push_back((key, op));
            return;
        }
        if let Err(refused) = reactor.submit_disk(self.file, key.to_bits() | self.tag_bit, op) {
            self.refused.push_back((key, refused.item));
        }
    }
}

impl Device for FileDevice {
    fn clock(&self) -> DeviceClock {
        DeviceClock::REAL
    }

    fn quote(&self, erase: Erase, _offset: u64, length: u64, most: Bytes) -> Quote {
        Quote::in_proportion(self.shortcuts.bytes_per_byte(erase), length, most)
    }

    fn submit(&mut self, now: Instant, reactor: &mut Reactor, io: DeviceIo) {
        let DeviceIo { tag, offset, length, op } = io;
        let range = offset..offset + length;
        let is_flush = matches!(op, DeviceOp::Flush);
        let changes = !is_flush && !matches!(op, DeviceOp::Read(_));
        if !is_flush && let Err(error) = self.expect(now, &range, changes) {
            let buffer = match op {
                DeviceOp::Read(buffer) | DeviceOp::Write { buffer, .. } => Some(buffer),
                DeviceOp::Flush | DeviceOp::Discard | DeviceOp::WriteZeroes => None,
            };
            let (latency, late) = (Nanos::ZERO, Nanos::ZERO);
            return self.done.push(DeviceDone { tag, result: Err(error), buffer, latency, late });
        }
        let (op, fallback) = match op {
            DeviceOp::Read(buffer) => {
                let range = 0..buffer.len();
                (DiskOp::Read { buffer, range, offset }, Fallback::Fail)
            }
            DeviceOp::Write { buffer, durable } => {
                let range = 0..buffer.len();
                (DiskOp::Write { buffer, range, offset, durable }, Fallback::Fail)
            }
            DeviceOp::Flush => (DiskOp::Fdatasync, Fallback::Fail),
            DeviceOp::Discard => (DiskOp::Discard { offset, length }, Fallback::Nothing),
            DeviceOp::WriteZeroes if self.end.is_some() => {
                (DiskOp::WriteZeroes { offset, length }, Fallback::Hole { offset, length })
            }
            DeviceOp::WriteZeroes => (DiskOp::WriteZeroes { offset, length }, Fallback::Fail),
        };
        let key = self.started.insert(Started { tag, at: now, range: range.clone(), changes, fallback });
        if changes && let Some(end) = &mut self.end {
            end.on_write(key.to_bits(), range);
        }
        self.give(reactor, key, op);
    }

    fn on_disk(
        &mut self,
        now: Instant,
        _file: Token,
        tag: u64,
        result: io::Result<()>,
        buffer: Option<IoBuffer>,
    ) {
        let key = Key::from_bits(tag & !self.tag_bit);
        let started = self.started.get_mut(key).expect("a disk operation that was started ends once");
        let unsupported = matches!(&result, Err(error) if error.kind() == io::ErrorKind::Unsupported);
        let result = match (unsupported, started.fallback) {
            (true, Fallback::Hole { offset, length }) => {
                started.fallback = Fallback::Fail;
                self.refused.push_back((key, DiskOp::Discard { offset, length }));
                return;
            }
            (true, Fallback::Nothing) => Ok(()),
            _ => result,
        };
        let started = self.started.remove(key).expect("found above");
        if let (Err(error), Some(end)) = (&result, &mut self.end)
            && error.kind() == io::ErrorKind::UnexpectedEof
        {
            end.on_short_read(&started.range);
        }
        let latency = now.saturating_since(started.at);
        self.done.push(DeviceDone { tag: started.tag, result, buffer, latency, late: Nanos::ZERO });
    }

    fn poll(&mut self, _now: Instant, reactor: &mut Reactor) {
        if let Some(unregistered) = reactor.take_unregistered() {
            warn!("{unregistered}");
        }
        while let Some((key, op)) = self.refused.pop_front() {
            if let Err(refused) = reactor.submit_disk(self.file, key.to_bits() | self.tag_bit, op) {
                self.refused.push_front((key, refused.item));
                return;
            }
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        // Refused operations are tried again after the next disk event. There will be one, as the queue was full.
        None
    }

    fn take_finished(&mut self, done: &mut Vec<DeviceDone>) {
        done.append(&mut self.done);
    }
}
