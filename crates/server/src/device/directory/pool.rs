//! The files of a directory that is a device: found, made, grown, kept and removed.
//!
//! ```text
//!   open ─► provide each namespace ─► seal ─► the namespaces are served ─► part from those that went
//!                   │    UUID.new       └ renamed to UUID, and in the register
//!                   └ an error: `roll_back` removes what was made
//! ```
//!
//! A file is what was registered, or it is refused: one that is missing, was cut, has another name, or lies on another file system. Files that are
//! half-made (`*.new`) are removed when the directory is opened. A file that no namespace has is kept, as a removed namespace may come back,
//! unless it was made for a configuration that was never stored.
//!
//! All of this is on the thread that changes the target; pipelines have the open files only.
//!
//! Elsewhere: opening is `opening`, removing `removal`.

use super::super::error::DeviceError;
use super::super::held::Held;
use super::super::in_use;
use super::super::open::{FILE, expect_kind, lock, refuse_users, system};
use super::super::usage::{Allocation, allocated};
use super::register::{self, HALF_MADE, Register, open_in};
use super::trial::Abilities;
use super::{FILE_MAX, FileChange, SLOTS_MAX, snapshot};
use rustix::fs::{OFlags, ioctl_ficlone, renameat};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;
use units::Bytes;

/// The UUID of a namespace.
pub(super) type Uuid = [u8; 16];

/// A namespace that is to have a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'c> {
    /// Its UUID.
    pub(crate) uuid: Uuid,
    /// Its size.
    pub(crate) size: Bytes,
    /// The snapshot, or the UUID of the namespace, whose contents a new file has.
    pub(crate) origin: Option<&'c str>,
}

/// The name of the file of a namespace: its UUID.
pub(crate) fn file_name(uuid: &Uuid) -> String {
    let digits = crate::identity::digits(uuid);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) path: PathBuf,
    /// The open directory, which is locked.
    pub(super) directory: File,
    pub(super) direct: bool,
    pub(super) read_only: bool,
    pub(super) reserve: Bytes,
    pub(super) abilities: Abilities,
    pub(super) held: Arc<Held>,
    pub(super) state: Mutex<State>,
}

/// The space of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The size of its file system.
    pub size: Bytes,
    /// The free bytes there, without the reserve.
    pub free: Bytes,
    /// The bytes that its namespaces may still take: their sizes less the bytes that their files have.
    pub promised: Bytes,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) register: Register,
    pub(super) members: BTreeMap<Uuid, Member>,
}

/// The open file of a namespace.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) slot: usize,
    pub(super) file: Arc<File>,
    held: Arc<Held>,
    allocation: Arc<Allocation>,
    /// The length of the file.
    length: u64,
    /// The size of the namespace.
    size: Bytes,
    pub(super) stage: Stage,
}

/// How far a file has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Made just now, under the name of what is half-made.
    HalfMade,
    /// Made, and not served yet.
    Made,
    /// It was there before, and is not served yet.
    Found,
    /// It is served.
    Served,
}

impl Pool {
    /// The directory, apart from its name.
    pub(in crate::device) fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held)
    }

    /// The smallest block of its files.
    pub(in crate::device) fn block_size_min(&self) -> u32 {
        self.abilities.block_size_min
    }

    /// Whether its files cannot be written.
    pub(in crate::device) fn read_only(&self) -> bool {
        self.read_only
    }

    /// The size of its file system.
    pub(in crate::device) fn size(&self) -> Result<Bytes, DeviceError> {
        let facts = self.facts()?;
        Ok(Bytes(facts.f_blocks.saturating_mul(facts.f_frsize)))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn facts(&self) -> Result<rustix::fs::StatVfs, DeviceError> {
        rustix::fs::fstatvfs(&self.directory).map_err(|error| system(&self.path, "examined")(error.into()))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves the maps whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The space of its file system, and what its namespaces may still take of it.
    ///
    /// # Errors
    /// The file system does not say.
    pub(crate) fn room(&self) -> Result<Room, DeviceError> {
        let facts = self.facts()?;
        let bytes = |blocks: u64| Bytes(blocks.saturating_mul(facts.f_frsize));
        let members: Vec<(Bytes, Arc<File>)> =
            self.state().members.values().map(|member| (member.size, Arc::clone(&member.file))).collect();
        let mut promised = Bytes::ZERO;
        for (size, file) in members {
            let metadata = file.metadata().map_err(system(&self.path, "examined"))?;
            promised = promised.saturating_add(size.saturating_sub(Bytes(allocated(&metadata))));
        }
        let free = bytes(facts.f_bavail).saturating_sub(self.reserve);
        Ok(Room { size: bytes(facts.f_blocks), free, promised })
    }

    /// Refuses to use more of the file system if the reserve would be touched.
    pub(super) fn expect_room(&self) -> Result<(), DeviceError> {
        let facts = self.facts()?;
        let free = Bytes(facts.f_bavail.saturating_mul(facts.f_frsize));
        if free >= self.reserve && free > Bytes::ZERO {
            return Ok(());
        }
        let why = format!(
            "its file system has {free} free, and reserve = {} of it are kept; make room",
            self.reserve
        );
        Err(unusable(&self.path, why))
    }

    /// Compares the names of what is open with what they lead to now.
    pub(in crate::device) fn expect_named(&self) -> Result<(), DeviceError> {
        self.held.expect_named()?;
        self.state().members.values().try_for_each(|member| member.held.expect_named())
    }

    /// Opens the file of a namespace, or makes it, or makes it longer.
    ///
    /// # Errors
    /// It is not the file that was registered, or cannot be made. [`Pool::roll_back`] undoes what was done.
    pub(crate) fn provide(
        &self,
        wanted: Wanted<'_>,
        copy: &dyn Fn(&Pool, &str, &File) -> Result<Bytes, DeviceError>,
    ) -> Result<(), DeviceError> {
        let name = file_name(&wanted.uuid);
        let path = self.path.join(&name);
        let known =
            self.state().members.get(&wanted.uuid).map(|member| (Arc::clone(&member.file), member.length));
        if let Some((file, length)) = known {
            let found = file.metadata().map_err(system(&path, "measured"))?.len();
            if found < length {
                return Err(DeviceError::Cut { path, found: Bytes(found), before: Bytes(length) });
            }
            let grown = self.grow(&path, &file, length, wanted.size)?;
            let mut state = self.state();
            let member = state.members.get_mut(&wanted.uuid).expect("just found");
            (member.length, member.size) = (grown, wanted.size);
            return Ok(());
        }
        let (registered, may_be_missing, is_erased) = {
            let register = &self.state().register;
            let registered = register.namespaces.get(&name).copied();
            // A kill came after it was removed as configured, and before that was stored.
            let is_erased = register.erased.contains(&name) || register.doomed.get(&name) == Some(&0);
            // Or a kill came before it had its name.
            let may_be_missing = registered.is_none() || is_erased || register.unconfirmed.contains(&name);
            (registered, may_be_missing, is_erased)
        };
        let wanted = if is_erased { Wanted { origin: None, ..wanted } } else { wanted };
        let (file, stage) = match self.open_file(&name) {
            Ok(file) => (file, Stage::Found),
            Err(error) if error.kind() == io::ErrorKind::NotFound && may_be_missing => {
                (self.make(&name, wanted, copy)?, Stage::HalfMade)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let why = "is the file of a namespace and does not exist any more: its data is lost unless you restore it; to give it up, remove \
                           the namespace, reload, and add it again with another uuid".to_owned();
                return Err(unusable(&path, why));
            }
            Err(error) => {
                // The system does not say that it is a link or a FIFO.
                let metadata = fs::symlink_metadata(&path).map_err(system(&path, "examined"))?;
                expect_kind(&path, &metadata, FileType::is_file, FILE)?;
                return Err(system(&path, "opened")(error));
            }
        };
        let named = if stage == Stage::HalfMade {
            self.path.join(format!("{name}{HALF_MADE}"))
        } else {
            path.clone()
        };
        let length = self.judge(&path, &file)?;
        let registered = registered.filter(|_| stage == Stage::Found);
        if let Some(registered) = registered.filter(|registered| length < *registered) {
            return Err(DeviceError::Cut { path, found: Bytes(length), before: Bytes(registered) });
        }
        if registered.is_none() && length < wanted.size.get() {
            return Err(DeviceError::Size { path, found: Bytes(length), wanted: wanted.size });
        }
        lock(&named, &file)?;
        let length = self.grow(&path, &file, length, wanted.size)?;
        let copied = file.try_clone().map_err(system(&path, "examined"))?;
        let held = Arc::new(Held::new(&path, &file)?);
        let allocation = Arc::new(Allocation::File(copied));
        let mut state = self.state();
        let taken: HashSet<usize> = state.members.values().map(|member| member.slot).collect();
        let slot = (0..SLOTS_MAX).find(|slot| !taken.contains(slot));
        let slot = slot.ok_or_else(|| {
            unusable(&self.path, format!("has {SLOTS_MAX} namespaces, which is all it can have"))
        })?;
        let member =
            Member { slot, file: Arc::new(file), held, allocation, length, size: wanted.size, stage };
        state.members.insert(wanted.uuid, member);
        Ok(())
    }

    /// Opens the file of that name.
    pub(super) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        open_in(&self.directory, name, flags | self.direct())
    }

    fn direct(&self) -> OFlags {
        if self.direct { OFlags::DIRECT } else { OFlags::empty() }
    }

    /// Refuses what is not a file of this directory alone. Returns its length.
    fn judge(&self, path: &Path, file: &File) -> Result<u64, DeviceError> {
        let metadata = file.metadata().map_err(system(path, "examined"))?;
        expect_kind(path, &metadata, FileType::is_file, FILE)?;
        if metadata.nlink() > 1 {
            let why =
                "has another name, by which others may change it; remove that (find -samefile)".to_owned();
            return Err(unusable(path, why));
        }
        refuse_users(path, in_use::users_of_file(&metadata), false)?;
        Ok(metadata.len())
    }

    /// Makes the file of a namespace, under the name of what is half-made.
    fn make(
        &self,
        name: &str,
        wanted: Wanted<'_>,
        copy: &dyn Fn(&Pool, &str, &File) -> Result<Bytes, DeviceError>,
    ) -> Result<File, DeviceError> {
        let path = self.path.join(name);
        if self.read_only {
            return Err(unusable(&path, "does not exist, and the directory cannot be written".to_owned()));
        }
        self.expect_room()?;
        let half_made = format!("{name}{HALF_MADE}");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | self.direct();
        let file = open_in(&self.directory, &half_made, flags).map_err(system(&path, "made"))?;
        let fill = || {
            let copied = wanted.origin.map(|origin| copy(self, origin, &file)).transpose()?;
            if let Some(least) = copied.filter(|least| wanted.size < *least) {
                let why = format!(
                    "is to be a copy of {least}, and its namespace has {}; make that as large",
                    wanted.size
                );
                return Err(unusable(&path, why));
            }
            file.set_len(wanted.size.get()).map_err(system(&path, "extended"))?;
            file.sync_all().map_err(system(&path, "flushed"))
        };
        fill().inspect_err(|_| self.unlink(&half_made))?;
        Ok(file)
    }

    /// Refuses what needs clones if the file system makes none.
    pub(super) fn expect_clones(&self) -> Result<(), DeviceError> {
        if self.abilities.clones {
            return Ok(());
        }
        let why =
            "is on a file system that cannot clone files; snapshots and copies need XFS or btrfs".to_owned();
        Err(unusable(&self.path, why))
    }

    /// Clones a file that does not change.
    pub(super) fn clone_file(&self, path: &Path, to: &File, from: &File) -> Result<(), DeviceError> {
        self.expect_clones()?;
        ioctl_ficlone(to, from).map_err(|error| system(path, "cloned")(error.into()))
    }

    /// Clones a snapshot into a new file. Returns its size.
    pub(crate) fn copy_snapshot(&self, name: &str, to: &File) -> Result<Bytes, DeviceError> {
        let path = self.path.join(name);
        let from = self.open_snapshot(name)?;
        self.clone_file(&path, to, &from)?;
        Ok(Bytes(from.metadata().map_err(system(&path, "measured"))?.len()))
    }

    /// Clones the file of a namespace that is not served. Returns its length.
    pub(crate) fn copy_unserved(&self, uuid: &Uuid, to: &File) -> Result<Bytes, DeviceError> {
        let path = self.path.join(file_name(uuid));
        let from =
            open_in(&self.directory, &file_name(uuid), OFlags::RDONLY).map_err(system(&path, "opened"))?;
        self.clone_file(&path, to, &from)?;
        Ok(Bytes(from.metadata().map_err(system(&path, "measured"))?.len()))
    }

    pub(super) fn open_snapshot(&self, name: &str) -> Result<File, DeviceError> {
        let file = snapshot::data_name(name);
        let opened = open_in(&self.directory, &file, OFlags::RDONLY);
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                unusable(&self.path, format!("has no snapshot {name:?}; gimbal ctl snapshot list"))
            }
            _ => system(&self.path.join(file), "opened")(error),
        })
    }

    fn grow(&self, path: &Path, file: &File, length: u64, size: Bytes) -> Result<u64, DeviceError> {
        if length >= size.get() {
            return Ok(length);
        }
        if self.read_only {
            return Err(unusable(
                path,
                format!("has {} and cannot be made longer, as it cannot be written", Bytes(length)),
            ));
        }
        self.expect_room()?;
        file.set_len(size.get()).map_err(system(path, "extended"))?;
        file.sync_all().map_err(system(path, "flushed"))?;
        Ok(size.get())
    }

    /// Registers all that was provided, and gives what was made its name. The register is first: a file that is not in it would be taken for one
    /// that somebody has brought.
    pub(crate) fn seal(&self) -> Result<(), DeviceError> {
        if self.read_only {
            return Ok(());
        }
        let mut state = self.state();
        let State { register, members } = &mut *state;
        let before = register.clone();
        for (uuid, member) in members.iter() {
            let name = file_name(uuid);
            if member.stage == Stage::HalfMade {
                register.unconfirmed.insert(name.clone());
            }
            // Its removal, or that of its end, was not completed, and does not take place.
            let is_undone = |keep: &u64| *keep == 0 || *keep < member.size.get();
            if register.doomed.get(&name).is_some_and(is_undone) {
                register.doomed.remove(&name);
            }
            register.erased.remove(&name);
            register.namespaces.insert(name, member.length);
        }
        if *register != before {
            register.write(&self.directory).map_err(system(&self.path.join(register::NAME), "written"))?;
        }
        let made = members.iter_mut().filter(|(_, member)| member.stage == Stage::HalfMade);
        for (uuid, member) in made {
            let name = file_name(uuid);
            renameat(&self.directory, format!("{name}{HALF_MADE}"), &self.directory, &name)
                .map_err(|error| system(&self.path.join(&name), "made")(error.into()))?;
            member.stage = Stage::Made;
        }
        self.directory.sync_all().map_err(system(&self.path, "flushed"))
    }

    /// Removes what was made, and closes what was found, for a change that does not take place.
    pub(crate) fn roll_back(&self) {
        let mut state = self.state();
        let State { register, members } = &mut *state;
        let before = register.clone();
        members.retain(|uuid, member| {
            let name = file_name(uuid);
            match member.stage {
                Stage::Served => return true,
                Stage::Found => {}
                Stage::HalfMade | Stage::Made => {
                    let is_named = member.stage == Stage::Made;
                    self.unlink(&if is_named { name.clone() } else { format!("{name}{HALF_MADE}") });
                    register.namespaces.remove(&name);
                    register.unconfirmed.remove(&name);
                }
            }
            false
        });
        if *register != before
            && let Err(error) = register.write(&self.directory)
        {
            warn!(path = %self.path.display(), %error, "the register cannot be written: it has namespaces that were not made");
        }
    }

    /// The files that are served from now on.
    pub(crate) fn serve(&self) -> Vec<FileChange> {
        let mut changes = Vec::new();
        for (uuid, member) in &mut self.state().members {
            if member.stage == Stage::Served {
                continue;
            }
            match member.file.try_clone() {
                Ok(file) => {
                    member.stage = Stage::Served;
                    changes.push(FileChange::Attach { slot: member.slot, file, name: file_name(uuid) });
                }
                Err(error) => tracing::error!(
                    path = %self.path.display(), file = file_name(uuid), %error,
                    "the file cannot be used: IOs of its namespace fail; reload when that is repaired"
                ),
            }
        }
        changes
    }

    /// The configuration that the files were made for is stored.
    pub(crate) fn confirm(&self) {
        let mut state = self.state();
        if state.register.unconfirmed.is_empty() && state.register.erased.is_empty() {
            return;
        }
        state.register.unconfirmed.clear();
        state.register.erased.clear();
        if let Err(error) = state.register.write(&self.directory) {
            warn!(path = %self.path.display(), %error, "the register cannot be written: the next change does that");
        }
    }

    /// The files that have become served, for the search for lost names.
    pub(crate) fn surveyed(&self) -> Vec<Arc<Held>> {
        let state = self.state();
        let new = state.members.values().filter(|member| member.stage != Stage::Served);
        new.map(|member| Arc::clone(&member.held)).collect()
    }

    /// The slot of the file of a namespace, and the counter of its blocks.
    pub(crate) fn member(&self, uuid: &Uuid) -> Option<(usize, Arc<Allocation>)> {
        self.state().members.get(uuid).map(|member| (member.slot, Arc::clone(&member.allocation)))
    }

    /// The open file of a namespace, with its slot and the size of the namespace.
    pub(super) fn file_of(&self, uuid: &Uuid) -> Option<(usize, Arc<File>, Bytes)> {
        self.state().members.get(uuid).map(|member| (member.slot, Arc::clone(&member.file), member.size))
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(super) fn unusable(path: &Path, why: String) -> DeviceError {
    DeviceError::Unusable { path: path.to_owned(), why }
}

const _: () = assert!(FILE_MAX.get() <= i64::MAX as u64);
