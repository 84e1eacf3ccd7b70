//! Requests to a volume, and their outcomes.

use super::{Class, HandleId};
use crate::{Fault, FileId};

/// A request of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Mount the volume. Must be the first request, and complete before the next.
    Mount,
    /// Create a file and open it for writing. If a file has this name already, the name passes to the new one.
    Create {
        /// Its name.
        path: String,
    },
    /// Open a file to append to; create it if it does not exist.
    Reopen {
        /// Its name.
        path: String,
    },
    /// Open a file to read.
    Open {
        /// Its name.
        path: String,
    },
    /// Append bytes. They may wait in buffers. Later requests are ordered after this one and see its bytes, even if it
    /// has not completed yet.
    Append {
        /// The file.
        handle: HandleId,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Write at an offset, at least up to the end of the file.
    WriteAt {
        /// The file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Make the appended bytes survive a crash of this client.
    Flush {
        /// The file.
        handle: HandleId,
    },
    /// Make the appended bytes and the file's name survive power losses of the targets.
    Sync {
        /// The file.
        handle: HandleId,
    },
    /// Change the size.
    Truncate {
        /// The file.
        handle: HandleId,
        /// The size.
        size: u64,
    },
    /// Close a handle, after a flush.
    Close {
        /// The handle.
        handle: HandleId,
    },
    /// Read bytes; fewer only at the end of the file.
    Read {
        /// The file.
        handle: HandleId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
        /// Its urgency.
        class: Class,
    },
    /// Get the size, including bytes in buffers.
    Size {
        /// The file.
        handle: HandleId,
    },
    /// Give a file or directory another name. If a file has this name already, it loses it.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Remove a name.
    Unlink {
        /// The name.
        path: String,
    },
    /// Give a file a further name.
    Link {
        /// A name of the file.
        from: String,
        /// The further name.
        to: String,
    },
    /// Make a directory.
    MakeDir {
        /// Its name.
        path: String,
    },
    /// Remove an empty directory.
    RemoveDir {
        /// Its name.
        path: String,
    },
    /// List the names in a directory.
    List {
        /// The directory.
        path: String,
    },
    /// Describe the file or directory of a name.
    Stat {
        /// The name.
        path: String,
    },
    /// Get the number of bytes that files may still take.
    Free,
    /// Make all changes of names survive power losses of the targets.
    SyncNames,
    /// Replace every copy that is missing or stale.
    Repair,
    /// Check every copy of every block, and repair.
    Scrub,
    /// Describe the volume.
    Show,
    /// Sync everything and unlock the volume.
    Unmount,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request succeeded.
    Done,
    /// To `Create`, `Reopen`, `Open`.
    Opened {
        /// The handle.
        handle: HandleId,
        /// Bytes of the file.
        size: u64,
    },
    /// To `Read`.
    Bytes(Vec<u8>),
    /// To `Size` and `Free`.
    Size(u64),
    /// To `List`.
    Names(Vec<String>),
    /// To `Stat`.
    Stat(Stat),
    /// To `Repair` and `Scrub`.
    Report(Report),
    /// To `Show`.
    Shown(Box<Shown>),
    /// The request failed.
    Failed(Fault),
}

/// The file or directory of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The file. Two names with the same identifier are the same file.
    pub file: FileId,
    /// Size in bytes, including bytes in buffers.
    pub size: u64,
    /// Number of names of the file.
    pub links: u32,
    /// When it was last changed: seconds since 1970.
    pub time: u64,
}

/// The results of a repair or scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blocks read and checked, both copies counted.
    pub checked: u64,
    /// Blocks that differed from the data written.
    pub corrupt: u64,
    /// Micro blobs of which a copy was replaced.
    pub repaired: u64,
    /// Micro blobs that still have only one good copy, plus one for the metadata in the same case: no space, or their
    /// SSDs cannot be reached.
    pub left: u64,
    /// Micro blobs without any good copy.
    pub lost: u64,
    /// Micro blobs with a good copy on an SSD that cannot be reached now, so that it could not be checked.
    pub away: u64,
}

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Snapshots of the metadata.
    pub checkpoints: u64,
    /// Copies of the metadata that missed a write.
    pub metadata_copies_lost: u64,
    /// Micro blobs that were allocated with one copy.
    pub degraded_extents: u64,
    /// Copies of micro blobs that were marked stale.
    pub stale_copies: u64,
    /// Reads that found wrong bytes in a copy.
    pub corrupt_blocks: u64,
    /// Copies that were replaced.
    pub repaired_extents: u64,
}

/// The state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Micro blobs of all files.
    pub extents: u64,
    /// Those that have one good copy.
    pub degraded: u64,
    /// Those that have none.
    pub lost: u64,
    /// Copies of the metadata.
    pub metadata_copies: u64,
    /// Number of SSDs that this client reaches.
    pub ssds_up: u64,
    /// Number of micro blobs in use, and of free ones in the volume's mega blobs.
    pub micros: (usize, usize),
    /// Counts since the mount.
    pub counters: Counters,
}
