//! A file or block device for a tool on this machine: opened, refused and driven as the target does it, without a target.
//!
//! ```text
//!   LocalDevice::open(path) ──► the checks of `open` ──► the device of `file` on a reactor of its own
//!   submit(tag, offset, op) ──► wait(until) ──► LocalDone(tag, at, result, buffer)
//! ```
//!
//! It belongs to the thread that opened it. Reads and writes bypass the page cache if the file system allows it, and
//! [`LocalDevice::cached_by`] names a cache that is used all the same.
//!
//! Holds: what another program uses is refused (`tests/ssdtest.rs` of the crate `gimbal`, with real loop devices).

use super::error::DeviceError;
use super::open::{Wanted, Writing, is_block_device, open_disk, open_file, over_local};
use super::{Device, DeviceDone, DeviceIo, DeviceOp, OpenDevice};
use reactor::{Backend, Clock, Event, IoBuffer, Options, Reactor};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use units::{Bytes, Instant, Nanos};

/// Time of polling for completions before the thread sleeps, so that a wake-up does not count as the device's latency.
const SPIN: Nanos = Nanos::micros(50);

/// Options for opening it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalOptions {
    /// Open it although it is in use.
    pub force: bool,
    /// Only read it: it may then be one that cannot be written.
    pub read_only: bool,
    /// If it does not exist, make a file of this size.
    pub create: Option<Bytes>,
}

/// The operation.
#[derive(Debug)]
pub enum LocalOp {
    /// Fill the buffer.
    Read(IoBuffer),
    /// Write the buffer.
    Write(IoBuffer),
}

/// The parts of a file that were never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// All was written, according to the file system. The same for block devices, which do not report it.
    None,
    /// Some parts were not.
    Some,
    /// It has no data at all. (An empty file, too.)
    Nothing,
}

/// The end of an IO.
#[derive(Debug)]
pub struct LocalDone {
    /// The caller's name for it.
    pub tag: u64,
    /// When it was seen.
    pub at: Instant,
    /// Done in full, or why not.
    pub result: io::Result<()>,
    /// Its buffer.
    pub buffer: Option<IoBuffer>,
}

/// An open file or block device.
pub struct LocalDevice {
    device: Box<dyn Device>,
    reactor: Reactor,
    finished: Vec<DeviceDone>,
    size: Bytes,
    block_size_min: u32,
    cached_by: Option<String>,
    holes: Holes,
}

impl LocalDevice {
    /// Opens the file or block device at `path`.
    ///
    /// # Errors
    /// It does not exist, is of another kind, is in use, or cannot be opened.
    pub fn open(path: &Path, options: LocalOptions) -> Result<LocalDevice, DeviceError> {
        let LocalOptions { force, read_only, create } = options;
        let (is_block, size) = match is_block_device(path) {
            Err(DeviceError::Missing { .. }) if create.is_some() => (false, create),
            is_block => (is_block?, None),
        };
        let open = |direct| {
            let writing = if read_only { Writing::Never } else { Writing::Must };
            let opened = if is_block {
                open_disk(path, direct, force, writing)
            } else {
                open_file(path, Wanted { size, create: size.is_some(), direct, force, writing })
            };
            opened.map(|opened| opened.file)
        };
        let (file, is_direct) = match open(true) {
            Err(DeviceError::NoDirectIo(_)) => (open(false)?, false),
            file => (file?, true),
        };
        let system = |step| move |error| DeviceError::System { path: path.to_owned(), step, error };
        let cached_by = if is_direct {
            cache_below(&file).map_err(system("examined"))?
        } else {
            Some("the page cache, as its file system has no direct IO".to_owned())
        };
        let holes = if is_block { Holes::None } else { Holes::of(&file).map_err(system("examined"))? };
        let opened: OpenDevice = over_local(path, file, is_direct, is_block)?;
        let (size, block_size_min) = (opened.facts.size, opened.facts.block_size_min);
        let reactor = Options { spin: SPIN, ..Options::default() };
        let mut reactor = Reactor::with_options(Backend::Auto, &reactor).map_err(system("driven"))?;
        let device = opened.start(Clock.now(), &mut reactor).map_err(system("driven"))?;
        Ok(LocalDevice { device, reactor, finished: Vec::new(), size, block_size_min, cached_by, holes })
    }

    /// Its size.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// The smallest block that can be read and written, in bytes.
    pub fn block_size_min(&self) -> u32 {
        self.block_size_min
    }

    /// The cache that serves reads and takes writes instead of the device, if there is one: then the times are not the device's.
    pub fn cached_by(&self) -> Option<&str> {
        self.cached_by.as_deref()
    }

    /// The parts of a file that were never written when it was opened: the file system serves reads of them, not the device.
    pub fn holes(&self) -> Holes {
        self.holes
    }

    /// Starts an IO at this byte of the device. It is handed to the kernel by the next `wait`.
    pub fn submit(&mut self, tag: u64, offset: u64, op: LocalOp) {
        let (length, op) = match op {
            LocalOp::Read(buffer) => (buffer.len() as u64, DeviceOp::Read(buffer)),
            LocalOp::Write(buffer) => (buffer.len() as u64, DeviceOp::Write { buffer, durable: false }),
        };
        self.device.submit(Clock.now(), &mut self.reactor, DeviceIo { tag, offset, length, op });
    }

    /// Waits until an IO has ended, or until `until`. Adds what ended.
    ///
    /// # Errors
    /// The machine does not work. Failed IOs are in `done`.
    pub fn wait(&mut self, until: Option<Instant>, done: &mut Vec<LocalDone>) -> io::Result<()> {
        self.reactor.wait(until)?;
        let now = Clock.now();
        while let Some(event) = self.reactor.next_event() {
            if let Event::Disk { token, tag, result, buffer } = event {
                self.device.on_disk(now, token, tag, result, buffer);
            }
        }
        self.device.poll(now, &mut self.reactor);
        self.device.take_finished(&mut self.finished);
        done.extend(self.finished.drain(..).map(|DeviceDone { tag, result, buffer, .. }| LocalDone {
            tag,
            at: now,
            result,
            buffer,
        }));
        Ok(())
    }
}

impl Holes {
    /// Blocks that are allocated and were never written count as holes.
    fn of(file: &File) -> io::Result<Holes> {
        let length = file.metadata()?.len();
        match rustix::fs::seek(file, SeekFrom::Data(0)) {
            Err(Errno::NXIO) => Ok(Holes::Nothing),
            Err(error) => Err(error.into()),
            Ok(_) if rustix::fs::seek(file, SeekFrom::Hole(0))? < length => Ok(Holes::Some),
            Ok(_) => Ok(Holes::None),
        }
    }
}

/// The cache of a file or block device below direct IO: a file system in memory, or a loop device on a cached file.
fn cache_below(file: &File) -> io::Result<Option<String>> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        let kind = rustix::fs::fstatfs(file)?.f_type;
        // linux/magic.h: TMPFS_MAGIC, RAMFS_MAGIC.
        let in_memory = [0x0102_1994, 0x8584_58f6].contains(&(kind as u32));
        return Ok(in_memory.then(|| "memory: its file system keeps files there".to_owned()));
    }
    let number = metadata.rdev();
    let folder = format!("/sys/dev/block/{}:{}/loop", libc::major(number), libc::minor(number));
    let is_cached = fs::read_to_string(format!("{folder}/dio")).is_ok_and(|direct| direct.trim() == "0");
    let advice =
        "the page cache, as it is a loop device without direct IO (losetup --direct-io=on makes one with it)";
    Ok(is_cached.then(|| advice.to_owned()))
}
