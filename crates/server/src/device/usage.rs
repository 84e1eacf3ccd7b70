//! The number of allocated blocks of a thin device, for NUSE of Identify Namespace.
//!
//! A file with holes, and a modelled SSD in memory, allocate a block when it is written and free it when it is deallocated. Counting
//! takes time or waits for a disk, so a thread of its own does it for all SSDs (`Survey`). Identify reads the last count.
//!
//! A count is about a second old, or older if there is much to count: the thread works at most a twentieth of the time. If the system
//! makes it wait (a dead network file system), the counts stay as they are, and nothing else waits. A namespace that was removed is
//! dropped at the next count. The end of the target ends the thread without waiting for it.
//!
//! If a namespace is the whole file, or the file has no holes, the count is the system's for the file. Otherwise data and holes
//! are counted separately. Blocks that were allocated and never written (fallocate) then count as holes, because Linux shows them as holes. In a
//! file with more than [`EXTENTS_MAX`] pieces, the rest counts as allocated.
//!
//! Holds: a count is never larger than the namespace
//!        (`a_namespace_that_is_part_of_a_file_counts_its_own_blocks`; `tests/thin.rs` asks over sockets).

use super::held::Held;
use super::sparse::ChunkMap;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The unit in which the kernel counts the blocks of a file.
const STAT_BLOCK: u64 = 512;
/// A device ends with its last whole page. Its file may be a little longer.
const PAGE: u64 = 4096;
/// The most pieces of data that one count looks at.
const EXTENTS_MAX: usize = 4096;
/// The least time between two counts.
const PAUSE: Duration = Duration::from_secs(1);
/// The time between two looks when there is nothing to count.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// The pause after a count is this many times as long as the count.
const REST: u32 = 20;

/// The source of the counts of a device.
#[derive(Debug)]
pub(crate) enum Allocation {
    /// The file system of this file.
    File(File),
    /// The memory of a modelled SSD.
    Memory(Arc<ChunkMap>),
}

impl Allocation {
    /// The allocated bytes of a range.
    fn of(&self, offset: u64, length: u64) -> io::Result<u64> {
        match self {
            Allocation::File(file) => of_file(file, offset, length),
            Allocation::Memory(map) => Ok(map.allocated(offset, length)),
        }
    }
}

/// The bytes that a file takes in its file system.
pub(super) fn allocated(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(STAT_BLOCK)
}

/// Whether a file has holes, now.
pub(super) fn has_holes(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    Ok(allocated(&metadata) < metadata.len())
}

fn of_file(file: &File, offset: u64, length: u64) -> io::Result<u64> {
    let metadata = file.metadata()?;
    let all = allocated(&metadata);
    let is_whole = offset == 0 && length.saturating_add(PAGE) > metadata.len();
    if is_whole || all >= metadata.len() {
        return Ok(all.min(length));
    }
    Ok(data_of(file, offset, offset.saturating_add(length))?.min(all))
}

/// Bytes of data from `at` to `end`.
fn data_of(file: &File, mut at: u64, end: u64) -> io::Result<u64> {
    let mut data = 0;
    for _ in 0..EXTENTS_MAX {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // Only a hole follows.
            Err(Errno::NXIO) => return Ok(data),
            Err(error) => return Err(error.into()),
        };
        if begin >= end {
            return Ok(data);
        }
        at = seek(file, SeekFrom::Hole(begin))?.min(end);
        data += at.saturating_sub(begin);
        if at >= end {
            return Ok(data);
        }
    }
    Ok(data + (end - at))
}

/// The allocated bytes of a namespace.
#[derive(Debug)]
pub(crate) struct Usage {
    allocation: Arc<Allocation>,
    offset: u64,
    length: AtomicU64,
    bytes: AtomicU64,
}

impl Usage {
    /// For a namespace at `offset` of a device, `length` bytes long. Counts once.
    pub(crate) fn new(allocation: Arc<Allocation>, offset: u64, length: u64) -> Usage {
        let usage =
            Usage { allocation, offset, length: AtomicU64::new(length), bytes: AtomicU64::new(length) };
        usage.survey();
        usage
    }

    /// Counts again. If that fails, the old count stays; if no count has ever succeeded, all of it counts as allocated.
    fn survey(&self) {
        let length = self.length.load(Ordering::Relaxed);
        if let Ok(bytes) = self.allocation.of(self.offset, length) {
            self.bytes.store(bytes.min(length), Ordering::Relaxed);
        }
    }

    /// The namespace has another length.
    pub(crate) fn resize(&self, length: u64) {
        self.length.store(length, Ordering::Relaxed);
    }

    /// The last count.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The thread that counts, looks whether files still have names, and reads the temperature of disks. Dropping it ends the thread.
pub(crate) struct Survey(Sender<Watched>);

/// Something that the thread looks at, until all other references to it are gone.
enum Watched {
    Usage(Weak<Usage>),
    Held(Weak<Held>),
}

impl Watched {
    /// Counts again. Returns `false` if the namespace was removed.
    fn survey(&self) -> bool {
        match self {
            Watched::Usage(usage) => usage.upgrade().inspect(|usage| usage.survey()).is_some(),
            Watched::Held(held) => held.upgrade().inspect(|held| held.survey()).is_some(),
        }
    }
}

impl Survey {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Survey> {
        let (sender, receiver) = channel();
        thread::Builder::new().name("survey".to_owned()).spawn(move || count(&receiver))?;
        Ok(Survey(sender))
    }

    /// Counts this namespace from now on, until all other references to it are gone.
    pub(crate) fn watch(&self, usage: Weak<Usage>) {
        self.0.send(Watched::Usage(usage)).expect("the thread lives as long as this");
    }

    /// Warns when this file has lost its last name, and reads the temperature of this disk.
    pub(crate) fn watch_held(&self, held: Weak<Held>) {
        if held.upgrade().is_some_and(|held| held.is_surveyed()) {
            self.0.send(Watched::Held(held)).expect("the thread lives as long as this");
        }
    }
}

fn count(added: &Receiver<Watched>) {
    let mut watched: Vec<Watched> = Vec::new();
    let mut next = Instant::now() + PAUSE;
    loop {
        // An idle target without files and thin namespaces must not wake up every second.
        let pause = if watched.is_empty() { FOREVER } else { next.saturating_duration_since(Instant::now()) };
        match added.recv_timeout(pause) {
            Ok(usage) => watched.push(usage),
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let begin = Instant::now();
                watched.retain(Watched::survey);
                let end = Instant::now();
                next = end + PAUSE.max((end - begin) * REST);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    /// A file that is removed when the value is dropped.
    struct Scratch(PathBuf, File);

    impl Scratch {
        fn new(name: &str, length: u64) -> Scratch {
            let path = std::env::temp_dir().join(format!("gimbal-usage-{name}-{}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).open(&path).expect("a file");
            file.set_len(length).expect("sparse");
            Scratch(path, file)
        }

        fn usage(&self, offset: u64, length: u64) -> Usage {
            let file = self.1.try_clone().expect("another descriptor");
            Usage::new(Arc::new(Allocation::File(file)), offset, length)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).expect("it is there");
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_namespace_that_is_part_of_a_file_counts_its_own_blocks() {
        let scratch = Scratch::new("part", 8 * MIB);
        let (first, second) = (scratch.usage(0, 4 * MIB), scratch.usage(4 * MIB, 4 * MIB));
        assert_eq!((first.bytes(), second.bytes()), (0, 0), "nothing but holes");
        let data = vec![7; 2 * MIB as usize];
        // Half of it in the first namespace, half in the second, and some at the very end.
        scratch.1.write_all_at(&data, 3 * MIB).expect("room");
        scratch.1.write_all_at(&data[..MIB as usize], 7 * MIB).expect("room");
        first.survey();
        second.survey();
        assert_eq!((first.bytes(), second.bytes()), (MIB, 2 * MIB));
        second.resize(2 * MIB);
        second.survey();
        assert_eq!(second.bytes(), MIB, "blocks behind its end no longer count");
        for at in 0..8 {
            scratch.1.write_all_at(&data[..MIB as usize], at * MIB).expect("room");
        }
        first.survey();
        assert_eq!(first.bytes(), 4 * MIB);
        assert!(!has_holes(&scratch.1).expect("a file"));
    }

    #[test]
    fn the_rest_of_a_file_in_very_many_pieces_counts_as_allocated() {
        let pieces = EXTENTS_MAX as u64 + 10;
        let scratch = Scratch::new("pieces", 2 * PAGE * (pieces + 1));
        for piece in 0..pieces {
            scratch.1.write_all_at(&[7; PAGE as usize], 2 * PAGE * piece).expect("room");
        }
        // Not the whole file: data and holes are counted separately.
        let counted = scratch.usage(0, 2 * PAGE * pieces).bytes();
        let exact = PAGE * pieces;
        assert!((exact..exact + 11 * PAGE).contains(&counted), "{counted} of {exact}");
    }
}
