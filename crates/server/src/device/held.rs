//! The file or disk that a device has open, apart from the name that it was opened by.
//!
//! A name can come to lead elsewhere while the target runs: a new image is moved over the old one, a link is changed, another drive
//! appears under `/dev/disk/by-id`. The target continues with the open file, so a reload takes its size, and compares the file that the
//! name leads to now with the open one: if they differ, the operator believes that another file is served.
//!
//! A disk is known by its number and the kernel's sequence number of disks, because a loop device or a slot can get another medium
//! under the same number.
//!
//! Holds: a reload never takes a size from another object than the one that is served (`tests/replaced.rs`).

use super::error::DeviceError;
use super::identity::disk_number;
use super::temperature::Temperature;
use rustix::fs::{SeekFrom, seek};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::warn;

/// An open file or disk, and the name that it was opened by.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    file: File,
    mark: Mark,
    /// Of a disk with a sensor.
    temperature: Option<Temperature>,
    /// Whether people were warned that it has no name any more.
    has_warned: AtomicBool,
}

/// A property that no other file or disk of the machine has at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    File { file_system: u64, number: u64 },
    Disk { number: u64, sequence: Option<String> },
}

impl Mark {
    fn of(metadata: &Metadata) -> Mark {
        match disk_number(metadata) {
            Some(number) => Mark::Disk { number, sequence: sequence_of(number) },
            None => Mark::File { file_system: metadata.dev(), number: metadata.ino() },
        }
    }
}

/// Whether the kernel refuses writes to the block device of that number: a write-protected drive, `losetup -r`, `blockdev --setro`.
pub(super) fn is_protected_disk(number: u64) -> bool {
    let path = format!("/sys/dev/block/{}:{}/ro", libc::major(number), libc::minor(number));
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// The sequence number of the disk, or of the disk of the partition; `None` before Linux 5.15.
fn sequence_of(number: u64) -> Option<String> {
    Some(fs::read_to_string(folder_of(number)?.join("diskseq")).ok()?.trim().to_owned())
}

/// The folder of the disk, or of the disk of the partition, in sysfs.
fn folder_of(number: u64) -> Option<PathBuf> {
    let folder = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let folder = fs::canonicalize(folder).ok()?;
    if folder.join("partition").exists() { Some(folder.parent()?.to_owned()) } else { Some(folder) }
}

impl Held {
    /// `file`, which was opened as `path` just now.
    pub(super) fn new(path: &Path, file: &File) -> Result<Held, DeviceError> {
        let failed = |error| DeviceError::System { path: path.to_owned(), step: "examined", error };
        let file = file.try_clone().map_err(failed)?;
        let mark = Mark::of(&file.metadata().map_err(failed)?);
        let temperature = match mark {
            Mark::Disk { number, .. } => folder_of(number).and_then(|folder| Temperature::of_disk(&folder)),
            Mark::File { .. } => None,
        };
        Ok(Held { path: path.to_owned(), file, mark, temperature, has_warned: AtomicBool::new(false) })
    }

    /// The name that it was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the file that the name leads to now with the open one.
    ///
    /// # Errors
    /// It leads elsewhere, or nowhere.
    pub(crate) fn expect_named(&self) -> Result<(), DeviceError> {
        let is_now = match fs::metadata(&self.path) {
            Ok(metadata) => Some(Mark::of(&metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(DeviceError::System { path: self.path.clone(), step: "examined", error });
            }
        };
        if is_now.as_ref() == Some(&self.mark) {
            return Ok(());
        }
        let exists = is_now.is_some();
        Err(DeviceError::Replaced { path: self.path.clone(), exists, served: self.describe() })
    }

    /// Its length now.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self.mark {
            Mark::File { .. } => Ok(self.file.metadata()?.len()),
            // No other code reads or writes at the position of this handle.
            Mark::Disk { .. } => Ok(seek(&self.file, SeekFrom::End(0))?),
        }
    }

    /// Makes a file longer.
    pub(super) fn extend(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// Whether it is a disk that cannot be written now.
    pub(super) fn is_write_protected(&self) -> bool {
        matches!(self.mark, Mark::Disk { number, .. } if is_protected_disk(number))
    }

    /// Whether it changes in a way that someone has to look for: see [`Held::survey`].
    pub(super) fn is_surveyed(&self) -> bool {
        self.is_file() || self.temperature.is_some()
    }

    /// Reads the temperature of a disk. Of a file, warns once if its last name was removed.
    pub(super) fn survey(&self) {
        self.temperature.iter().for_each(Temperature::survey);
        self.warn_if_nameless();
    }

    /// The temperature of the disk when it was last read.
    pub(crate) fn kelvin(&self) -> Option<u16> {
        self.temperature.as_ref()?.kelvin()
    }

    /// Whether it is a regular file.
    fn is_file(&self) -> bool {
        matches!(self.mark, Mark::File { .. })
            && self.file.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// Warns, once, if this is a file whose last name was removed.
    fn warn_if_nameless(&self) {
        let is_nameless = self.is_file() && self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0);
        if is_nameless && !self.has_warned.swap(true, Ordering::Relaxed) {
            let (path, process, descriptor) =
                (self.path.display(), std::process::id(), self.file.as_raw_fd());
            warn!(
                %path,
                "the file was removed: it is served on without a name, and everything in it is gone when the target ends; while it \
                 runs, stop the hosts and copy it: cp --sparse=always /proc/{process}/fd/{descriptor} NEW"
            );
        }
    }

    /// The object for people: its present name, if the kernel knows one, and its number.
    pub(crate) fn describe(&self) -> String {
        let name = fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        let name = name.map_or_else(|_| self.path.display().to_string(), |name| name.display().to_string());
        match &self.mark {
            Mark::File { number, .. } => format!("{name} (inode {number})"),
            Mark::Disk { number, .. } => {
                format!("{name} (device {}:{})", libc::major(*number), libc::minor(*number))
            }
        }
    }
}
