//! Looks at a state directory, of a target that runs or not, and changes nothing in it.

use super::format::{decode_any, hex};
use super::version::{Kind, expect_kind, known, reservation_files};
use super::{LEARNT, LOGS, NOTES, POOLS, RESERVATIONS, StateError, WIPES, file, logs, pools, trust, wipes};
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The content of a state directory.
#[derive(Debug, Default)]
pub struct StateContents {
    /// The version of the directory; `None`: there is no directory.
    pub version: Option<u32>,
    /// The reservations that are stored.
    pub reservations: Vec<StoredReservations>,
    /// The names of SSDs whose data may be in a log, with the log.
    pub logs: Vec<(String, PathBuf)>,
    /// The names of SSDs with blocks that have to be erased before they are served, with the number of their wipes.
    pub wipes: Vec<(String, usize)>,
    /// The directories that were served, with the numbers of their pools.
    pub pools: Vec<(PathBuf, String)>,
    /// The number of SSDs of which a model is stored.
    pub learnt: usize,
    /// Reasons that keep a target from a start with this directory, or from serving a namespace.
    pub problems: Vec<StateError>,
}

/// The reservations of a namespace. The keys of hosts are not here: they are secrets of the hosts.
#[derive(Debug)]
pub struct StoredReservations {
    /// The subsystem's NQN.
    pub subsystem: String,
    /// The namespace's UUID, 32 digits.
    pub namespace: String,
    /// The number of changes.
    pub generation: u32,
    /// The NQNs of the registrants.
    pub registrants: Vec<String>,
    /// The NQN of the holder.
    pub holder: Option<String>,
}

/// Looks at a directory, of any user's target. A problem of one file does not hide the others.
pub fn inspect_state_directory(directory: &Path) -> StateContents {
    let mut contents = StateContents::default();
    if let Err(error) = examine(directory, &mut contents) {
        contents.problems.push(error);
    }
    contents
}

/// The same, with what keeps a target of this user from a start with the directory first.
pub fn check_state_directory(directory: &Path) -> StateContents {
    match usable(directory) {
        Ok(()) => inspect_state_directory(directory),
        Err(error) => StateContents { problems: vec![error], ..StateContents::default() },
    }
}

/// As a start judges it.
fn usable(directory: &Path) -> Result<(), StateError> {
    expect_kind(directory, Kind::Directory)?;
    if !is_there(directory)? {
        return Ok(());
    }
    trust::expect_trusted(directory, trust::Others::MayAddFiles)?;
    known(directory)?;
    expect_writable(directory)?;
    for folder in [RESERVATIONS].into_iter().chain(NOTES).map(|name| directory.join(name)) {
        // A start makes those that are missing.
        if is_there(&folder)? {
            trust::expect_trusted(&folder, trust::Others::MayNotWrite)?;
            expect_writable(&folder)?;
        }
    }
    Ok(())
}

fn examine(directory: &Path, contents: &mut StateContents) -> Result<(), StateError> {
    expect_kind(directory, Kind::Directory)?;
    if !is_there(directory)? {
        return Ok(());
    }
    contents.version = Some(known(directory)?);
    let reservations = directory.join(RESERVATIONS);
    if is_there(&reservations)? {
        for path in reservation_files(&reservations)? {
            match read(&reservations, &path) {
                Ok(stored) => contents.reservations.push(stored),
                Err(error) => contents.problems.push(error),
            }
        }
    }
    for path in listed(&directory.join(WIPES), "json")? {
        match wipes::read(&path) {
            Ok(wipes) => contents.wipes.push(wipes),
            Err(error) => contents.problems.push(error),
        }
    }
    for path in listed(&directory.join(LOGS), "toml")? {
        match logs::read(&path) {
            Ok(record) => contents.logs.push((record.ssd, record.log)),
            Err(error) => contents.problems.push(error),
        }
    }
    for path in listed(&directory.join(POOLS), "toml")? {
        match pools::read(&path) {
            Ok(record) => contents.pools.push((record.path, record.pool)),
            Err(error) => contents.problems.push(error),
        }
    }
    contents.learnt = listed(&directory.join(LEARNT), "toml")?.len();
    Ok(())
}

fn is_there(path: &Path) -> Result<bool, StateError> {
    path.try_exists().map_err(|error| StateError::Io { action: "look into", path: path.to_owned(), error })
}

fn read(folder: &Path, path: &Path) -> Result<StoredReservations, StateError> {
    let failed = |error| StateError::Io { action: "read", path: path.to_owned(), error };
    let bytes = files::read(path, files::TEXT_MAX).map_err(failed)?;
    let decoded = decode_any(&bytes).map_err(|error| error.in_file(path))?;
    if file::path_of(folder, &decoded.namespace) != path {
        let what = "its name is that of another namespace".to_owned();
        return Err(StateError::Damaged { path: path.to_owned(), what });
    }
    let saved = decoded.saved;
    Ok(StoredReservations {
        subsystem: decoded.namespace.subsystem,
        namespace: hex(decoded.namespace.uuid),
        generation: saved.generation,
        registrants: saved.registrants.iter().map(|each| each.host.nqn.as_str().to_owned()).collect(),
        holder: saved.held.map(|held| held.by.nqn.as_str().to_owned()),
    })
}

/// The files of a folder with this extension.
fn listed(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, StateError> {
    let failed = |error| StateError::Io { action: "list", path: folder.to_owned(), error };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let paths = entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<Vec<_>, _>>()?;
    let is_wanted = |path: &PathBuf| path.extension().is_some_and(|of| of == extension);
    let mut listed: Vec<PathBuf> = paths.into_iter().filter(is_wanted).collect();
    listed.sort();
    Ok(listed)
}

fn expect_writable(directory: &Path) -> Result<(), StateError> {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| StateError::Io {
        action: "write to the directory",
        path: directory.to_owned(),
        error: error.into(),
    })
}
