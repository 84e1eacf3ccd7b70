//! Why a device cannot be had: what is wrong with it, and what to do.
//!
//! Whoever reads this may have typed a flag or written a file; where the two have different names, both are said.

use super::in_use::User;
use ssd::ProfileError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Why a device cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The file does not exist, and is not to be made.
    #[error("{}: does not exist; {}", .path.display(), missing_advice(.device.as_deref()))]
    Missing {
        /// The file.
        path: PathBuf,
        /// A device of that name.
        device: Option<PathBuf>,
    },
    /// The device does not exist.
    #[error("{}: does not exist; lsblk lists the block devices", .0.display())]
    NoDevice(PathBuf),
    /// It is a symbolic link to what does not exist.
    #[error("{}: is a symbolic link to {}, which does not exist", .path.display(), .to.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// The system refuses to open, make or extend it.
    #[error("{}: cannot be {step}: {error}{}", .path.display(), advice(.error).map_or(String::new(), |advice| format!("; {advice}")))]
    System {
        /// The file.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// What the system answered.
        error: io::Error,
    },
    /// It is not what the configuration says it is.
    #[error("{}: is a {found}, not a {expected}; {}", .path.display(), kind_advice(.found))]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// It has another size than the configuration says.
    #[error(
        "{path}: is {found} ({} bytes), but its size should be {wanted} ({bytes} bytes); leave out the size to take the file as it \
         is, or change the file first: truncate -s {bytes} {path}",
        .found.get(), bytes = .wanted.get(), path = .path.display()
    )]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        found: Bytes,
        /// What the configuration says.
        wanted: Bytes,
    },
    /// Somebody else uses it: by whom, as far as that is known.
    #[error(
        "{}: is in use: {}; end that first; to share it all the same, at the risk of destroying what is on it: --force, or in a \
         configuration force = true",
        .0.display(), users(.1)
    )]
    InUse(PathBuf, Vec<User>),
    /// Another process, most likely another target, has locked it.
    #[error("{}: is locked by another process, most likely another target; stop that one first", .0.display())]
    Locked(PathBuf),
    /// It is smaller than one block.
    #[error("{path}: is smaller than 4 KiB; make it larger: truncate -s 100G {path}", path = .0.display())]
    Empty(PathBuf),
    /// Its file system goes through the page cache only, which was not asked for.
    #[error(
        "{}: the file system has no direct IO; put the file on another one, or set `direct = false` in the configuration \
         of the device to go through the page cache",
        .0.display()
    )]
    NoDirectIo(PathBuf),
    /// Its file has holes that the file system has no room for, and the configuration does not want that.
    #[error("{0} (overcommit = \"refuse\")")]
    Overcommitted(Shortage),
    /// It cannot be shared in the way that was asked for.
    #[error("{}: {why}", .path.display())]
    Unusable {
        /// The device.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The profile of an emulated SSD cannot be had.
    #[error("{0}")]
    Profile(ProfileError),
}

/// What to do about a file that does not exist.
fn missing_advice(device: Option<&Path>) -> String {
    match device {
        Some(device) => format!("is {} meant?", device.display()),
        None => {
            "to make it, say so: --create and --size, or in a configuration create = true and size".to_owned()
        }
    }
}

/// What to do about a file of the wrong kind.
fn kind_advice(found: &str) -> &'static str {
    match found {
        "block device" => "write kind = \"block\"",
        "regular file" => "write kind = \"file\"",
        "character device" => {
            "only regular files and block devices can be shared, and NVMe namespaces as kind = \"nvme\""
        }
        _ => "only regular files and block devices can be shared",
    }
}

/// Who uses a device, as far as that is known.
fn users(users: &[User]) -> String {
    match users {
        [] => "by whom is not visible from here (lsof and lsblk may tell)".to_owned(),
        users => users.iter().map(User::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// A file with holes, and a file system without the room for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The file.
    pub path: PathBuf,
    /// What of it is not allocated.
    pub missing: Bytes,
    /// The same of all devices on its file system.
    pub all_missing: Bytes,
    /// What the file system has.
    pub free: Bytes,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { path, missing, all_missing, free } = self;
        write!(f, "{}: {missing} of it are not allocated yet", path.display())?;
        if all_missing != missing {
            write!(f, ", with other devices on its file system {all_missing}")?;
        }
        write!(
            f,
            ", and the file system has {free}: writes will fail with Capacity Exceeded when that is used up; make room, make the \
             device smaller, or allocate it now with fallocate(1)"
        )
    }
}

/// What to do about an answer of the system.
fn advice(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some("the target has to be run as root, or as a user who may read and write it")
        }
        io::ErrorKind::NotFound => Some("its folder does not exist"),
        io::ErrorKind::ReadOnlyFilesystem => Some("it can only be read; a target writes"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room, or make it smaller"),
        io::ErrorKind::FileTooLarge => {
            Some("the file system, or the limit of the process (ulimit -f), has no files that large")
        }
        io::ErrorKind::AlreadyExists => Some("somebody has made it at this moment: try again"),
        _ => None,
    }
}
