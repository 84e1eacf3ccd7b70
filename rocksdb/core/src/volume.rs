//! A mounted volume, as RocksDB's file system sees it: names, links, locks.

use crate::files::{Reader, Writer};
use crate::uri::FlushMode;
use blob::{Fault, FileId, Outcome, Request, Stat, normal_path};
use blob_client::{Mount, Ticket};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A mounted volume. Unmounts when the last user has gone.
pub struct Volume {
    mount: Mount,
    name: String,
    flush: FlushMode,
    /// Files that this process has locked. That no other process has the volume is what its lease says.
    locks: Mutex<BTreeSet<FileId>>,
    is_unmounted: AtomicBool,
}

impl Volume {
    /// A volume that was mounted.
    pub fn new(mount: Mount, name: &str, flush: FlushMode) -> Volume {
        let locks = Mutex::default();
        Volume { mount, name: name.to_owned(), flush, locks, is_unmounted: AtomicBool::new(false) }
    }

    /// When a flush returns.
    pub fn flush_mode(&self) -> FlushMode {
        self.flush
    }

    pub(crate) fn submit(&self, request: Request) -> Ticket {
        self.mount.submit(request)
    }

    /// As `submit`, but it may wait for the next operation, or for `begin_later`.
    pub(crate) fn submit_later(&self, request: Request) -> Ticket {
        self.mount.submit_later(request)
    }

    pub(crate) fn begin_later(&self) {
        self.mount.begin_later();
    }

    pub(crate) fn call(&self, request: Request) -> Result<Outcome, Fault> {
        match self.mount.call(request) {
            Outcome::Failed(fault) => Err(fault),
            outcome => Ok(outcome),
        }
    }

    fn done(&self, request: Request) -> Result<(), Fault> {
        self.call(request).map(drop)
    }

    /// Syncs everything and gives the volume back. From then on every operation fails.
    pub fn unmount(&self) {
        if self.is_unmounted.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Err(fault) = self.done(Request::Unmount) {
            eprintln!(
                "gimbal-rocksdb: volume {} was not unmounted in order: {fault}; the next mount waits for the lease",
                self.name
            );
        }
    }

    /// Creates a file to write to. If the name exists, it stands for the new file; readers of the old file keep the old one.
    ///
    /// # Errors
    /// `NotFound` if its directory does not exist.
    pub fn create(self: &Arc<Self>, path: &str) -> Result<Writer, Fault> {
        Writer::open(self, Request::Create { path: path.to_owned() })
    }

    /// A file to append to, made if there is none.
    ///
    /// # Errors
    /// As `create`.
    pub fn reopen(self: &Arc<Self>, path: &str) -> Result<Writer, Fault> {
        Writer::open(self, Request::Reopen { path: path.to_owned() })
    }

    /// A file to read.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn open(self: &Arc<Self>, path: &str) -> Result<Reader, Fault> {
        Reader::open(self, path)
    }

    /// What a name stands for.
    ///
    /// # Errors
    /// `NotFound` if it stands for nothing.
    pub fn stat(&self, path: &str) -> Result<Stat, Fault> {
        match self.call(Request::Stat { path: path.to_owned() })? {
            Outcome::Stat(stat) => Ok(stat),
            other => unreachable!("not an outcome of a stat: {other:?}"),
        }
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// `NotFound` if there is none, also if it is a file: so does a local file system, as RocksDB sees it.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Fault> {
        match self.call(Request::List { path: path.to_owned() }) {
            Ok(Outcome::Names(names)) => Ok(names),
            Ok(other) => unreachable!("not an outcome of a list: {other:?}"),
            Err(Fault::WrongKind) => Err(Fault::NotFound),
            Err(fault) => Err(fault),
        }
    }

    /// Gives a file another name; replaces the one that has it, in one step.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), Fault> {
        self.done(Request::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    /// Removes a name.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn unlink(&self, path: &str) -> Result<(), Fault> {
        self.done(Request::Unlink { path: path.to_owned() })
    }

    /// Gives a file a further name.
    ///
    /// # Errors
    /// `Exists` if that is taken.
    pub fn link(&self, from: &str, to: &str) -> Result<(), Fault> {
        self.done(Request::Link { from: from.to_owned(), to: to.to_owned() })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists` if the name is taken.
    pub fn make_dir(&self, path: &str) -> Result<(), Fault> {
        self.done(Request::MakeDir { path: path.to_owned() })
    }

    /// Makes a directory with all that it lies in, as far as they do not exist. An application's path need not be prepared on an
    /// empty volume.
    ///
    /// # Errors
    /// `WrongKind` if one of them is a file.
    pub fn make_dirs(&self, path: &str) -> Result<(), Fault> {
        let path = normal_path(path)?;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for parent in ends.map(|end| &path[..end]).filter(|parent| !parent.is_empty()) {
            match self.make_dir(parent) {
                Ok(()) => {}
                Err(Fault::Exists) if self.stat(parent)?.is_dir => {}
                Err(Fault::Exists) => return Err(Fault::WrongKind),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty` if there is something in it.
    pub fn remove_dir(&self, path: &str) -> Result<(), Fault> {
        self.done(Request::RemoveDir { path: path.to_owned() })
    }

    /// Cuts a file.
    ///
    /// # Errors
    /// `NotFound` if there is none.
    pub fn truncate(self: &Arc<Self>, path: &str, size: u64) -> Result<(), Fault> {
        self.open(path)?;
        let writer = self.reopen(path)?;
        writer.truncate(size)?;
        writer.close()
    }

    /// Whether two names stand for the same file or directory. RocksDB asks that of directories as well, and leaves logs behind if
    /// the answer is wrong.
    ///
    /// # Errors
    /// `NotFound` if one of them stands for nothing.
    pub fn is_same(&self, first: &str, second: &str) -> Result<bool, Fault> {
        let (one, other) = (self.stat(first)?, self.stat(second)?);
        Ok(match (one.is_dir, other.is_dir) {
            (true, true) => normal_path(first)? == normal_path(second)?,
            (false, false) => one.file == other.file,
            _ => false,
        })
    }

    /// How many bytes files may still take.
    ///
    /// # Errors
    /// If the metadata store cannot say.
    pub fn free(&self) -> Result<u64, Fault> {
        match self.call(Request::Free)? {
            Outcome::Size(bytes) => Ok(bytes),
            other => unreachable!("not an outcome of a question for space: {other:?}"),
        }
    }

    /// All changes of names survive power losses of the targets.
    ///
    /// # Errors
    /// If that cannot be said.
    pub fn sync_names(&self) -> Result<(), Fault> {
        self.done(Request::SyncNames)
    }

    /// Locks a file, which is made if there is none. `None`: this process has locked it already.
    ///
    /// # Errors
    /// As `create`.
    pub fn lock(self: &Arc<Self>, path: &str) -> Result<Option<FileId>, Fault> {
        self.reopen(path)?.close()?;
        let file = self.stat(path)?.file;
        let is_new = self.locks.lock().unwrap_or_else(PoisonError::into_inner).insert(file);
        Ok(is_new.then_some(file))
    }

    /// Gives a lock back.
    pub fn unlock(&self, file: FileId) {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).remove(&file);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.unmount();
    }
}
