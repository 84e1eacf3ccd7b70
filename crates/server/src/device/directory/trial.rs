//! Whether a file system can do what the files of namespaces need: tried with a file without a name, not looked up by its kind.

use super::super::error::DeviceError;
use super::super::open::{accepts_sectors, system};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ioctl_ficlone, openat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) const PAGE: usize = 4096;

/// The abilities that a trial has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Abilities {
    /// The smallest block that can be read and written.
    pub(super) block_size_min: u32,
    /// Whether a file can be cloned.
    pub(super) clones: bool,
}

/// Tries the file system of a directory.
pub(super) fn abilities(path: &Path, directory: &File, direct: bool) -> Result<Abilities, DeviceError> {
    let unusable = |what: &str, error: io::Error| DeviceError::Unusable {
        path: path.to_owned(),
        why: format!(
            "its file system {what} ({error}), which namespaces in files need; use XFS, btrfs or ext4"
        ),
    };
    let made = |direct| nameless(directory, direct);
    let mut file = made(direct).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput if direct => DeviceError::NoDirectIo(path.to_owned()),
        io::ErrorKind::Unsupported => unusable("makes no files without a name", error),
        _ => system(path, "written")(error),
    })?;
    let mut memory = vec![1u8; 2 * PAGE];
    let aligned = memory.as_mut_ptr().align_offset(PAGE);
    file.write_all(&memory[aligned..aligned + PAGE]).map_err(system(path, "written"))?;
    // Before there is a hole, which may be read in other pieces than data.
    let block_size_min = if accepts_sectors(&file) { 512 } else { PAGE as u32 };
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, hole, 0, PAGE as u64).map_err(|error| unusable("makes no holes", error.into()))?;
    let clones = made(false).is_ok_and(|copy| ioctl_ficlone(copy, &file).is_ok());
    Ok(Abilities { block_size_min, clones })
}

/// A file of the directory that has no name, and is gone when it is closed.
fn nameless(directory: &File, direct: bool) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let flags = if direct { flags | OFlags::DIRECT } else { flags };
    Ok(openat(directory, ".", flags, Mode::RUSR | Mode::WUSR)?.into())
}
