//! Copies of a namespace at a point in time, by cloning its file (FICLONE).
//!
//! ```text
//!   NAME.snapshot.new made ─► flush ─► hold ─► quiet ─► flush, clone ─► release     the namespace's changes wait from hold to release
//!     ─► NAME.snapshot.json written ─► NAME.snapshot.new renamed to NAME.snapshot   from here on there is a snapshot
//! ```
//!
//! Both names make a snapshot. It is removed in the opposite order, so a kill between any two steps leaves a whole one or something that is
//! removed when the directory is opened next.
//!
//! Everything is done by a thread of its own: neither the thread of the SSD nor the one that changes the target waits for the disk. The hold ends by
//! itself when its time is over; a clone that was not over by then is dropped.
//!
//! Holds: a snapshot has every write that was answered before it was asked for, and none that was begun after its answer
//!        (`a_snapshot_under_load_is_a_point_in_time` in `tests/directory.rs`).

use super::super::error::DeviceError;
use super::super::open::system;
use super::pool::{Pool, unusable};
use super::register::{HALF_MADE, open_in, write_whole};
use super::{FileChange, file_name};
use rustix::fs::{OFlags, renameat};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use units::{Bytes, Nanos};

const DATA: &str = ".snapshot";
const DESCRIPTION: &str = ".snapshot.json";
/// The longest name.
const NAME_MAX: usize = 64;
/// How long the answer of a thread of an SSD may take beyond the time limit.
const GRACE: Duration = Duration::from_secs(1);

/// A copy of a namespace at a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// The UUID of the namespace.
    pub namespace: String,
    /// The size of that.
    pub size: u64,
    /// When it was taken, in seconds since 1970.
    pub taken: u64,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The name is not allowed.
    #[error(
        "{0:?} is not a name for a snapshot: write up to {NAME_MAX} letters, digits, '.', '_' and '-', the first one a letter or digit, and no UUID"
    )]
    Name(String),
    /// There is one of that name.
    #[error("there is a snapshot {0:?} already; choose another name, or delete that one")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no snapshot {0:?}; gimbal ctl snapshot list has those that there are")]
    Absent(String),
    /// There is no such namespace in the directory.
    #[error("there is no namespace {0} in this directory; gimbal ctl get subsystem lists the namespaces")]
    NoNamespace(String),
    /// There is no such device.
    #[error("no device {0:?} of kind = \"directory\"")]
    NoDevice(String),
    /// It took too long.
    #[error(
        "{what} within {limit:?}, so there is no snapshot and the namespace goes on: look at the device, or give it more time"
    )]
    Slow {
        /// The step that was not over.
        what: &'static str,
        /// The time limit.
        limit: Duration,
    },
    /// A file cannot be used.
    #[error("{0}")]
    Device(#[from] DeviceError),
}

/// The name of the file with the contents of a snapshot.
pub(super) fn data_name(name: &str) -> String {
    format!("{name}{DATA}")
}

/// Whether a file is one of a snapshot.
pub(super) fn is_ours(name: &str) -> bool {
    name.ends_with(DATA) || name.ends_with(DESCRIPTION)
}

/// The file with the contents that this description is of, if it is one.
pub(super) fn data_of(description: &str) -> Option<String> {
    description.strip_suffix(DESCRIPTION).map(data_name)
}

/// Checks the name of a snapshot.
pub(crate) fn expect_name(name: &str) -> Result<(), SnapshotError> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    let begins_well = name.starts_with(|char: char| char.is_ascii_alphanumeric());
    let is_uuid = crate::identity::parse_uuid(name).is_some();
    match begins_well && name.len() <= NAME_MAX && name.chars().all(is_allowed) && !is_uuid {
        true => Ok(()),
        false => Err(SnapshotError::Name(name.to_owned())),
    }
}

/// A clone of the file of a namespace that is served.
pub(crate) struct Taking {
    /// The pool.
    pub(crate) pool: Arc<Pool>,
    /// The namespace.
    pub(crate) uuid: [u8; 16],
    /// How long it may take, and how long changes may wait.
    pub(crate) limit: Duration,
    /// Sends a change to the thread of the device.
    pub(crate) tell: Box<dyn Fn(FileChange) + Send>,
}

impl Taking {
    /// Clones the file into `to`. Returns how long changes have waited.
    ///
    /// # Errors
    /// There is no usable clone; the namespace goes on.
    pub(crate) fn clone_into(self, to: File) -> Result<(Nanos, Bytes), SnapshotError> {
        let Taking { pool, uuid, limit, tell } = self;
        let (slot, served, size) = pool.file_of(&uuid).ok_or_else(|| no_namespace_of(&uuid))?;
        let path = pool.path().join(file_name(&uuid));
        let deadline = Instant::now() + limit;
        let (answer, answered) = channel();
        let steps = move || -> Result<Nanos, SnapshotError> {
            let failed = |step| system(&path, step);
            // An open file of its own: an error of a flush is reported once to each, and the device must have its own.
            let from = File::options().read(true).open(format!("/proc/self/fd/{}", served.as_raw_fd()));
            let from = from.map_err(failed("opened"))?;
            // A flush now leaves less to flush while changes wait.
            from.sync_data().map_err(failed("flushed"))?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SnapshotError::Slow { what: "the flush has not ended", limit });
            }
            let (quiet, is_quiet) = channel();
            let limit_left = Nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            tell(FileChange::Hold { slot, limit: limit_left, quiet });
            let cloned = is_quiet.recv_timeout(left).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    SnapshotError::Slow { what: "writes on the device have not ended", limit }
                }
                RecvTimeoutError::Disconnected => no_namespace_of(&uuid),
            });
            let cloned = cloned.and_then(|()| {
                from.sync_data().map_err(failed("flushed"))?;
                Ok(pool.clone_file(&path, &to, &from)?)
            });
            let (held, was_held) = channel();
            tell(FileChange::Release { slot, held });
            let pause = was_held.recv_timeout(GRACE).ok().flatten();
            cloned?;
            let pause = pause.ok_or(SnapshotError::Slow { what: "the file was not cloned", limit })?;
            // The file may be longer than its namespace.
            to.set_len(size.get()).map_err(failed("cut"))?;
            to.sync_all().map_err(failed("flushed"))?;
            Ok(pause)
        };
        let spawned = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            // The one who asked may have given up.
            let _ = answer.send(steps());
        });
        spawned.map_err(|error| {
            SnapshotError::Device(unusable(std::path::Path::new("snapshot"), error.to_string()))
        })?;
        match answered.recv_timeout(limit + 2 * GRACE) {
            Ok(result) => result.map(|pause| (pause, size)),
            Err(_) => Err(SnapshotError::Slow { what: "the flush has not ended", limit }),
        }
    }
}

fn no_namespace_of(uuid: &[u8; 16]) -> SnapshotError {
    SnapshotError::NoNamespace(file_name(uuid))
}

impl Pool {
    /// All snapshots, by name.
    pub(crate) fn snapshots(&self) -> Result<Vec<Snapshot>, SnapshotError> {
        let failed = || system(self.path(), "read");
        let mut snapshots = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_suffix(DESCRIPTION)) else { continue };
            snapshots.extend(self.snapshot(name)?);
        }
        snapshots.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(snapshots)
    }

    /// The snapshot of that name.
    pub(crate) fn snapshot(&self, name: &str) -> Result<Option<Snapshot>, SnapshotError> {
        expect_name(name)?;
        let description = format!("{name}{DESCRIPTION}");
        let path = self.path().join(&description);
        let text = open_in(&self.directory, &description, OFlags::RDONLY).and_then(io::read_to_string);
        let text = match text {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(system(&path, "read"))?,
        };
        if open_in(&self.directory, &data_name(name), OFlags::RDONLY).is_err() {
            return Ok(None);
        }
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| {
            unusable(&path, format!("is not the description of a snapshot ({error})")).into()
        })
    }

    /// Whether there can be a snapshot of that name of that namespace.
    pub(crate) fn expect_possible(&self, name: &str, uuid: &[u8; 16]) -> Result<(), SnapshotError> {
        if self.snapshot(name)?.is_some() {
            return Err(SnapshotError::Exists(name.to_owned()));
        }
        self.file_of(uuid).ok_or_else(|| no_namespace_of(uuid))?;
        self.expect_clones()?;
        Ok(self.expect_room()?)
    }

    /// Makes the file of a snapshot, under the name of what is half-made.
    pub(crate) fn begin_snapshot(&self, name: &str, uuid: &[u8; 16]) -> Result<File, SnapshotError> {
        self.expect_possible(name, uuid)?;
        let half_made = format!("{}{HALF_MADE}", data_name(name));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        let file = open_in(&self.directory, &half_made, flags);
        Ok(file.map_err(system(&self.path().join(&half_made), "made"))?)
    }

    /// Makes a snapshot of what [`Pool::begin_snapshot`] has begun and a [`Taking`] has filled; drops it if that has failed.
    pub(crate) fn end_snapshot(
        &self,
        name: &str,
        uuid: &[u8; 16],
        taken: Result<(Nanos, Bytes), SnapshotError>,
    ) -> Result<(Snapshot, Nanos), SnapshotError> {
        let half_made = format!("{}{HALF_MADE}", data_name(name));
        let keep = |(pause, size): (Nanos, Bytes)| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let (namespace, size, taken) = (file_name(uuid), size.get(), now.as_secs());
            let snapshot = Snapshot { name: name.to_owned(), namespace, size, taken };
            let failed = || system(&self.path().join(data_name(name)), "made");
            let text = serde_json::to_vec_pretty(&snapshot).map_err(io::Error::other).map_err(failed())?;
            write_whole(&self.directory, &format!("{name}{DESCRIPTION}"), &text).map_err(failed())?;
            renameat(&self.directory, &half_made, &self.directory, data_name(name))
                .map_err(|error| failed()(error.into()))?;
            self.directory.sync_all().map_err(failed())?;
            Ok((snapshot, pause))
        };
        taken.and_then(keep).inspect_err(|_| self.unlink(&half_made))
    }

    /// Removes a snapshot.
    pub(crate) fn delete_snapshot(&self, name: &str) -> Result<(), SnapshotError> {
        if self.snapshot(name)?.is_none() {
            return Err(SnapshotError::Absent(name.to_owned()));
        }
        let failed = || system(&self.path().join(data_name(name)), "removed");
        for file in [data_name(name), format!("{name}{DESCRIPTION}")] {
            rustix::fs::unlinkat(&self.directory, file, rustix::fs::AtFlags::empty())
                .map_err(|error| failed()(error.into()))?;
            self.directory.sync_all().map_err(failed())?;
        }
        Ok(())
    }
}
