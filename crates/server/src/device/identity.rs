//! Whether two paths lead to the same device or file: by another name, by a link, or because one is a partition of the other.

use super::in_use::Disk;
use super::nvme;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file or disk that a path leads to.
pub(crate) enum Identity {
    /// A block device, with its partitions.
    Disk(Disk),
    /// A file, by file system and number.
    File(u64, u64),
    /// It does not exist yet: the place where it will be.
    Absent(PathBuf),
}

/// The device number, if this is a block device or the generic device of one.
pub(super) fn disk_number(metadata: &Metadata) -> Option<u64> {
    if metadata.file_type().is_block_device() { Some(metadata.rdev()) } else { nvme::block_number(metadata) }
}

impl Identity {
    /// The file or disk that `path` leads to, if it can be examined.
    pub(crate) fn of(path: &Path) -> Option<Identity> {
        let by_metadata = |metadata: Metadata| match disk_number(&metadata) {
            Some(number) => Identity::Disk(Disk::of(number)),
            None => Identity::File(metadata.dev(), metadata.ino()),
        };
        fs::metadata(path).map(by_metadata).ok().or_else(|| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
            Some(Identity::Absent(parent.join(path.file_name()?)))
        })
    }

    /// Whether data written to one may be read from the other.
    pub(crate) fn overlaps(&self, other: &Identity) -> bool {
        match (self, other) {
            (Identity::Disk(one), Identity::Disk(other)) => one.overlaps(other),
            (Identity::File(device, number), Identity::File(others_device, others_number)) => {
                (device, number) == (others_device, others_number)
            }
            (Identity::Absent(one), Identity::Absent(other)) => one == other,
            _ => false,
        }
    }
}
