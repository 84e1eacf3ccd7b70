//! Identifiers: volumes, SSDs, files, generations, and places on SSDs.
//!
//! Holds: a file identifier is never used twice in a volume, even if the record that made the file was lost: its upper
//!        half is the generation of the mount that made it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A volume. Never used again, even after the volume was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeId(pub u64);

/// An SSD (a namespace of a target) in the whole rack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SsdId(pub u32);

impl fmt::Display for SsdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SSD {}", self.0)
    }
}

/// Counts the mounts of a volume. The store gives each mount a higher one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// A mega blob: a large piece of one SSD, owned by at most one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mega {
    /// The SSD.
    pub ssd: SsdId,
    /// Which one: it starts at byte `index` × the size of a mega blob.
    pub index: u32,
}

/// A micro blob: the unit of allocation inside a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The SSD.
    pub ssd: SsdId,
    /// Which one: it starts at byte `micro` × the size of a micro blob.
    pub micro: u64,
}

/// The primary and the shadow of a micro blob; `None` where there is none now.
pub type Copies = [Option<Place>; 2];

/// A file of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

impl FileId {
    /// Blocks of the journal carry this identifier.
    pub const JOURNAL: FileId = FileId(0);
    /// Superblocks carry this identifier.
    pub const SUPERBLOCK: FileId = FileId(1);

    /// The `count`th file that the mount of this generation made.
    pub const fn new(generation: Generation, count: u32) -> FileId {
        FileId((generation.0 as u64) << 32 | count as u64)
    }
}
