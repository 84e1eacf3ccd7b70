//! Reasons why a device cannot be used, each with advice.
//!
//! The user may have typed a flag or written a file. Where their names differ, the text has both.

use super::in_use::User;
use crate::state::StateError;
use ssd::ProfileError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The file does not exist, and its creation was not requested.
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
    /// A namespace of another target cannot be used.
    #[error(
        "namespace {nsid} of {subsystem} at {address}: {why}; nvme discover and nvme connect tell whether this machine gets there"
    )]
    BackEnd {
        /// Its number.
        nsid: u32,
        /// Its subsystem.
        subsystem: String,
        /// Where the other target listens.
        address: SocketAddr,
        /// Why not.
        why: String,
    },
    /// The system refuses to open, create or extend it.
    #[error("{}: cannot be {step}: {error}{}", .path.display(), advice(.path, .error).map_or(String::new(), |advice| format!("; {advice}")))]
    System {
        /// The file.
        path: PathBuf,
        /// The step that failed.
        step: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// Its type differs from the configuration.
    #[error("{}: is a {found}, not a {expected}; {}", .path.display(), kind_advice(.found))]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// The actual type.
        found: &'static str,
        /// The configured type.
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
        /// The configured size.
        wanted: Bytes,
    },
    /// Its name leads elsewhere since it was opened.
    #[error(
        "{path}: {}; the target goes on with {served}. Give that its name back and reload; or, to serve what has the name now, remove \
         the device, reload, add it and reload again, or start the target again",
        if *exists { "is now another file or disk than the one that is served" } else { "no longer exists under this name" },
        path = .path.display()
    )]
    Replaced {
        /// The name.
        path: PathBuf,
        /// Whether it leads anywhere now.
        exists: bool,
        /// The device that is open.
        served: String,
    },
    /// It cannot be written, and is configured to be writable.
    #[error(
        "{}: cannot be written: {why}; make it writable, or open it read-only (in a configuration, leave read_only = false out)",
        .path.display()
    )]
    ReadOnly {
        /// The device.
        path: PathBuf,
        /// The source of this information.
        why: String,
    },
    /// Its file was cut while it was served.
    #[error(
        "{path}: was cut to {found} ({} bytes) while {before} of it were served: what was behind is lost; restore the file and start the \
         target again, or take the loss: leave out the size, and make its namespaces smaller",
        .found.get(), path = .path.display()
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its length now.
        found: Bytes,
        /// The size that is served.
        before: Bytes,
    },
    /// Other programs use it. The users, if they are known.
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
    /// Its file system has no direct IO, and the page cache was not requested.
    #[error(
        "{}: the file system has no direct IO; put the file on another one, or set `direct = false` in the configuration \
         of the device to go through the page cache",
        .0.display()
    )]
    NoDirectIo(PathBuf),
    /// Its file has holes that the file system has no room for, and the configuration forbids that.
    #[error("{0} (overcommit = \"refuse\")")]
    Overcommitted(Shortage),
    /// It cannot be shared in the requested way.
    #[error("{}: {why}", .path.display())]
    Unusable {
        /// The device.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The log of an auxiliary store cannot be used.
    #[error("{}: {error}", .path.display())]
    Log {
        /// Its file or device.
        path: PathBuf,
        /// Why.
        error: ais::LogError,
    },
    /// Data of it may be in a log that is not open.
    #[error(
        "device {device:?} may have flushed data in the log {} (up to {size}), because the target was killed: {why}, and without that data \
         the blocks read as they were before. Configure that log again ([device.ais]), start, and stop in order (SIGTERM): then the device has \
         all of it. To give the data up, remove {}",
        .path.display(), .note.display()
    )]
    LogMissing {
        /// The device's name.
        device: String,
        /// Where the log was.
        path: PathBuf,
        /// The size of the log.
        size: Bytes,
        /// The actual state.
        why: &'static str,
        /// The file of the note.
        note: PathBuf,
    },
    /// The state directory does not say whether data of it is in a log.
    #[error("{0}")]
    State(StateError),
    /// The profile of an emulated SSD cannot be read.
    #[error("{0}")]
    Profile(ProfileError),
}

/// Advice for a file that does not exist.
fn missing_advice(device: Option<&Path>) -> String {
    match device {
        Some(device) => format!("is {} meant?", device.display()),
        None => {
            "to create it, add --create and --size, or in a configuration create = true and size".to_owned()
        }
    }
}

/// Advice for a file of the wrong kind.
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

/// The known users of a device.
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
    /// The part that is not allocated.
    pub missing: Bytes,
    /// The same, for all devices on its file system.
    pub all_missing: Bytes,
    /// The free space of the file system.
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

/// The folder that a path is in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Advice for an error of the system.
fn advice(path: &Path, error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Some("run the target as root, or as a user with permission to read and write it")
        }
        io::ErrorKind::NotFound if folder_of(path).is_dir() => {
            Some("its folder exists, but it does not: put it back, or take it out of the configuration")
        }
        io::ErrorKind::NotFound => Some("its folder does not exist"),
        io::ErrorKind::ReadOnlyFilesystem => Some("the file system is mounted read-only"),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some("make room, or make it smaller"),
        io::ErrorKind::FileTooLarge => {
            Some("the file system or the limit of the process (ulimit -f) does not allow such a large file")
        }
        io::ErrorKind::AlreadyExists => Some("another process has just created it; try again"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_not_a_folder_that_is_missing() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let said = |path: &Path| advice(path, &missing()).expect("there is advice");
        let folder = std::env::temp_dir();
        assert!(said(&folder.join("gimbal-no-such.img")).contains("its folder exists"));
        assert_eq!(said(&folder.join("gimbal-no-such-folder/x.img")), "its folder does not exist");
        assert!(said(Path::new("gimbal-no-such.img")).contains("its folder exists"), "the current folder");
    }
}
