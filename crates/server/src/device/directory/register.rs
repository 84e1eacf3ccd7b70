//! The register of a directory: a file in it, written whole and renamed into place.
//!
//! It has the identity of the pool and of its file system, and the namespaces with the sizes that their files have. So a target tells a new
//! namespace from one whose file was lost, one that has grown from one whose file was cut, and yesterday's directory from another one.

use super::super::error::DeviceError;
use super::super::open::system;
use super::trial::Abilities;
use rustix::fs::{Mode, OFlags, ResolveFlags, fcntl_getfl, fcntl_setfl, openat2, renameat};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// The name of the file.
pub(super) const NAME: &str = "gimbal-pool.json";
/// The end of the name of what is half-made.
pub(super) const HALF_MADE: &str = ".new";
/// The version of the form.
const VERSION: u32 = 1;
/// The largest register that is read: thousands of namespaces.
const LENGTH_MAX: u64 = 16 << 20;

/// A file system, as far as it can be told from others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileSystem {
    /// Its kind, as `mount` says it.
    pub(super) kind: String,
    /// Its number, if that stays the same after a restart.
    pub(super) id: Option<String>,
}

impl FileSystem {
    /// The one that an open directory is on.
    pub(super) fn of(directory: &File) -> io::Result<FileSystem> {
        // linux/magic.h.
        let known = [
            (0x5846_5342, "xfs"),
            (0x9123_683e, "btrfs"),
            (0xef53, "ext4"),
            (0x0102_1994, "tmpfs"),
            (0x794c_7630, "overlay"),
            (0x6969, "nfs"),
        ];
        let magic = rustix::fs::fstatfs(directory)?.f_type as u32;
        let kind = known.iter().find(|(number, _)| *number == magic);
        let kind = kind.map_or_else(|| format!("type {magic:#x}"), |(_, kind)| (*kind).to_owned());
        // XFS makes its number of that of the block device, which may be another one tomorrow.
        let is_lasting = kind != "xfs";
        let id = is_lasting.then(|| rustix::fs::fstatvfs(directory)).transpose()?;
        Ok(FileSystem { kind, id: id.map(|facts| format!("{:016x}", facts.f_fsid)) })
    }

    /// For people.
    pub(super) fn shown(&self) -> String {
        self.id.as_ref().map_or_else(|| self.kind.clone(), |id| format!("{} {id}", self.kind))
    }
}

/// The register of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Register {
    version: u32,
    /// A random number of 128 bits.
    pub(super) pool: String,
    pub(super) file_system: FileSystem,
    /// The abilities that the last trial of the file system has found.
    #[serde(default)]
    pub(super) abilities: Option<Abilities>,
    /// By the names of their files, with the lengths that these have.
    pub(super) namespaces: BTreeMap<String, u64>,
    /// Files that were made for a configuration that may not be stored yet.
    #[serde(default)]
    pub(super) unconfirmed: BTreeSet<String>,
    /// Files of removed namespaces that are to be erased, from this byte on; from byte 0, they are removed.
    #[serde(default)]
    pub(super) doomed: BTreeMap<String, u64>,
    /// Files that were removed as configured, for a configuration that may not be stored yet: until then, their namespaces are empty.
    #[serde(default)]
    pub(super) erased: BTreeSet<String>,
}

impl Register {
    /// That of a new pool.
    pub(super) fn new(file_system: FileSystem) -> io::Result<Register> {
        let mut number = [0; 16];
        getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
        let pool = crate::identity::digits(&number);
        let (namespaces, unconfirmed, doomed, erased) = Default::default();
        Ok(Register {
            version: VERSION,
            pool,
            file_system,
            abilities: None,
            namespaces,
            unconfirmed,
            doomed,
            erased,
        })
    }

    /// Reads that of a directory; `None` if it has none.
    pub(super) fn read(path: &Path, directory: &File) -> Result<Option<Register>, DeviceError> {
        let file = match open_in(directory, NAME, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(system(&path.join(NAME), "opened"))?,
        };
        let mut text = Vec::new();
        file.take(LENGTH_MAX).read_to_end(&mut text).map_err(system(&path.join(NAME), "read"))?;
        let unusable = |why: String| DeviceError::Unusable {
            path: path.join(NAME),
            why: format!("{why}; restore it, or move it away and write create = true to have a new one made"),
        };
        let register: Register = serde_json::from_slice(&text)
            .map_err(|error| unusable(format!("is not the register of a pool ({error})")))?;
        if register.version != VERSION {
            return Err(unusable(format!(
                "has version {}, and this target knows {VERSION}",
                register.version
            )));
        }
        Ok(Some(register))
    }

    /// Writes it, so that a loss of power leaves the old or the new one.
    pub(super) fn write(&self, directory: &File) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        write_whole(directory, NAME, &text)
    }
}

/// Writes a file of the directory so that a loss of power leaves the old or the new one.
pub(super) fn write_whole(directory: &File, name: &str, text: &[u8]) -> io::Result<()> {
    let half_made = format!("{name}{HALF_MADE}");
    let mut file = open_in(directory, &half_made, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)?;
    file.write_all(text)?;
    file.sync_all()?;
    renameat(directory, &half_made, directory, name)?;
    directory.sync_all()
}

/// Opens a file that lies in the directory itself: no link, mount or path elsewhere is followed.
pub(super) fn open_in(directory: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    // A FIFO would be waited for.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
    let file = openat2(directory.as_fd(), name, flags, mode, resolve)?;
    // io_uring would end IOs of such a file early.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}
