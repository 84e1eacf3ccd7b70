//! The pools that directories had: a file for each directory that was served as a device.
//!
//! ```text
//!   path = "/srv/pool"
//!   pool = "6b0a…"                                   # the number in its register
//! ```
//!
//! The file is written before the directory is served for the first time. A directory whose file system is not mounted, or is another one, has
//! another register or none: with the note that is noticed, also where `create = true` would make a new pool. XFS has no number that is the same
//! after a restart, so there the note is what tells two file systems apart.
//!
//! Holds: see `an_unmounted_directory_never_becomes_a_new_pool` (`tests/directory.rs`).

use super::StateError;
use super::file::replace;
use super::learnt::path_of;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The pool that a directory had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolRecord {
    /// The directory, without links.
    pub(crate) path: PathBuf,
    /// The number of its pool.
    pub(crate) pool: String,
}

/// The file for a directory.
fn file_of(folder: &Path, directory: &Path) -> PathBuf {
    path_of(folder, &directory.to_string_lossy())
}

/// The record of a directory and its file; `None` if it was never served.
pub(super) fn load(folder: &Path, directory: &Path) -> Result<Option<(PoolRecord, PathBuf)>, StateError> {
    let path = file_of(folder, directory);
    match read(&path) {
        Ok(record) if record.path != directory => {
            let what = format!("it is of another directory, {}", record.path.display());
            Err(StateError::PoolUnknown { path, what })
        }
        Ok(record) => Ok(Some((record, path))),
        Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The record in a file.
pub(super) fn read(path: &Path) -> Result<PoolRecord, StateError> {
    let text = files::read_text(path);
    let text = text.map_err(|error| StateError::Io { action: "read", path: path.to_owned(), error })?;
    toml::from_str(&text)
        .map_err(|error| StateError::PoolUnknown { path: path.to_owned(), what: error.message().to_owned() })
}

/// Notes the pool of a directory.
pub(super) fn store(folder: &Path, record: &PoolRecord) -> Result<(), StateError> {
    let path = file_of(folder, &record.path);
    let failed =
        |error| StateError::Io { action: "note the pool of a directory in", path: path.clone(), error };
    // A path that is no text could not be compared later.
    let text = toml::to_string(record).map_err(|error| failed(io::Error::other(error.to_string())))?;
    replace(&path, text.as_bytes()).map_err(|(error, _)| failed(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_damage_is_an_error() {
        let folder = std::env::temp_dir().join(format!("gimbal-pools-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary files can be written");
        let record = PoolRecord { path: "/srv/a pool".into(), pool: "12ab".to_owned() };
        assert!(load(&folder, &record.path).expect("no file is no error").is_none());
        store(&folder, &record).expect("there is room");
        let (found, path) = load(&folder, &record.path).expect("just stored").expect("just stored");
        assert_eq!(found, record);
        assert!(load(&folder, Path::new("/srv/a-pool")).expect("no file is no error").is_none());
        for text in ["path = ", "path = \"/srv/a-pool\"\npool = \"12ab\"\n", ""] {
            std::fs::write(&path, text).expect("ours");
            assert!(matches!(load(&folder, &record.path), Err(StateError::PoolUnknown { .. })), "{text}");
        }
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
