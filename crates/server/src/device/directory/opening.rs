//! Opens a directory: whether it is the one of yesterday, and what its file system can do.
//!
//! Elsewhere: the trial of the file system is `trial`.

use super::super::error::DeviceError;
use super::super::held::Held;
use super::super::open::{lock, system};
use super::pool::{Pool, State, is_full, unusable};
use super::register::{self, FileSystem, Register};
use super::trial::{self, Abilities};
use crate::state::{Keeper, PoolRecord};
use rustix::fs::StatVfsMountFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tracing::{info, warn};
use units::Bytes;

/// A directory as it is configured.
pub(in crate::device) struct PoolOptions<'c> {
    pub(in crate::device) path: &'c Path,
    pub(in crate::device) direct: bool,
    pub(in crate::device) create: bool,
    pub(in crate::device) read_only: Option<bool>,
    pub(in crate::device) reserve: Bytes,
}

impl Pool {
    /// Opens a directory, locks it, and removes what is half-made. `keeper` knows which pool it had.
    pub(in crate::device) fn open(
        options: &PoolOptions<'_>,
        keeper: Option<&Keeper>,
    ) -> Result<Pool, DeviceError> {
        let PoolOptions { path, direct, create, read_only, reserve } = *options;
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        let opened = File::options().read(true).custom_flags(flags).open(path);
        let directory = opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unusable(path, "does not exist; make the directory: mkdir".to_owned()),
            io::ErrorKind::NotADirectory => {
                unusable(path, "is not a directory; a file is kind = \"file\"".to_owned())
            }
            _ => system(path, "opened")(error),
        })?;
        lock(path, &directory)?;
        let facts =
            rustix::fs::fstatvfs(&directory).map_err(|error| system(path, "examined")(error.into()))?;
        let is_protected = facts.f_flag.contains(StatVfsMountFlags::RDONLY);
        if is_protected && read_only == Some(false) {
            let why = "its file system is mounted read-only".to_owned();
            return Err(DeviceError::ReadOnly { path: path.to_owned(), why });
        }
        let read_only = is_protected || read_only == Some(true);
        let real = path.canonicalize().map_err(system(path, "examined"))?;
        let recall = |keeper: &Keeper| keeper.load_pool(real.clone());
        let remembered = keeper.map(recall).transpose().map_err(DeviceError::State)?.flatten();
        let mut register = expect_register(path, &directory, create && !read_only, remembered.as_ref())?;
        if let (Some(keeper), None) = (keeper, remembered) {
            let record = PoolRecord { path: real, pool: register.pool.clone() };
            keeper.store_pool(record).map_err(DeviceError::State)?;
        }
        let abilities = abilities(path, &directory, direct, read_only, &mut register)?;
        let held = Arc::new(Held::new(path, &directory)?);
        let state = Mutex::new(State { register, members: BTreeMap::new() });
        let pool =
            Pool { path: path.to_owned(), directory, direct, read_only, reserve, abilities, held, state };
        if !read_only {
            pool.remove_half_made()?;
        }
        Ok(pool)
    }
}

/// The abilities of the file system; those of the last trial if there is no room for another one.
fn abilities(
    path: &Path,
    directory: &File,
    direct: bool,
    read_only: bool,
    register: &mut Register,
) -> Result<Abilities, DeviceError> {
    let least = Abilities { block_size_min: trial::PAGE as u32, clones: false };
    if read_only {
        return Ok(Abilities { clones: false, ..register.abilities.unwrap_or(least) });
    }
    let found = match trial::abilities(path, directory, direct) {
        Err(DeviceError::System { error, .. }) if is_full(&error) && register.abilities.is_some() => {
            warn!(path = %path.display(), "the file system is full: writes to new blocks fail with Capacity Exceeded");
            return Ok(register.abilities.unwrap_or(least));
        }
        found => found?,
    };
    if register.abilities != Some(found) {
        register.abilities = Some(found);
        register.write(directory).map_err(system(&path.join(register::NAME), "written"))?;
    }
    Ok(found)
}

/// The register of a directory; that of a new pool if it has none, never had one, and may have one.
fn expect_register(
    path: &Path,
    directory: &File,
    create: bool,
    remembered: Option<&(PoolRecord, PathBuf)>,
) -> Result<Register, DeviceError> {
    let here = FileSystem::of(directory).map_err(system(path, "examined"))?;
    if let Some(register) = Register::read(path, directory)? {
        let before = &register.file_system;
        let is_other =
            here.kind != before.kind || (here.id.is_some() && before.id.is_some() && here.id != before.id);
        if is_other {
            let why = format!(
                "is on the file system {}, and its pool {} was made on {}: mount that one here; if the files were moved on purpose, correct \
                 file_system in {}",
                here.shown(),
                register.pool,
                before.shown(),
                register::NAME,
            );
            return Err(unusable(path, why));
        }
        if let Some((before, note)) = remembered.filter(|(before, _)| before.pool != register.pool) {
            let why = format!(
                "has the pool {}, and had {} when it was served last: is another file system mounted there? To serve the one that is there now, \
                 remove {}",
                register.pool,
                before.pool,
                note.display(),
            );
            return Err(unusable(path, why));
        }
        return Ok(register);
    }
    if let Some((before, note)) = remembered {
        let why = format!(
            "has no pool ({}), and had {} when it was served last: is its file system mounted? It is on {} now. To give that pool up, remove {}",
            register::NAME,
            before.pool,
            here.shown(),
            note.display(),
        );
        return Err(unusable(path, why));
    }
    if !create {
        let why = format!(
            "has no pool ({}): is its file system mounted? It is on {} now. To make a new pool there: create = true",
            register::NAME,
            here.shown(),
        );
        return Err(unusable(path, why));
    }
    let make = || {
        let register = Register::new(here)?;
        register.write(directory).map(|()| register)
    };
    let register = make().map_err(system(&path.join(register::NAME), "written"))?;
    info!(path = %path.display(), pool = register.pool, file_system = register.file_system.shown(), "a pool was made");
    Ok(register)
}
