//! The version of a state directory: the file `VERSION` in it.
//!
//! ```text
//!   gimbal-state 2
//!   written by gimbal 0.1.0
//! ```
//!
//! | the directory has | a start |
//! |---|---|
//! | this version | uses it |
//! | a later one | is refused before anything is touched: files that it does not know could be lost |
//! | an earlier one, or no such file | brings every file to its present format; a file of format 1 stays beside as `*.v1` |
//!
//! | version | since | files |
//! |---|---|---|
//! | 1 | – | `reservations` of formats 1 and 2; no `VERSION` |
//! | 2 | 0.1.0 | `reservations` of format 2; `wipes` |
//!
//! The file is written last, so a migration that was cut short is done again, and each step of it can be repeated. Two targets that start at the same
//! time wait for each other.
//!
//! Holds: `a_directory_of_version_1_is_brought_forward_once`, `a_later_version_is_refused_and_not_touched`,
//!        `what_is_no_version_is_one_sentence` here.

use super::StateError;
use super::file::{replace, take_lock};
use super::format::{decode_any, encode};
use crate::retry::retry_while_in_use;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tracing::info;

/// The version of the directories of this program.
pub(super) const CURRENT: u32 = 2;
/// The version of a directory without the file.
const WITHOUT_FILE: u32 = 1;
const FILE: &str = "VERSION";
const MAGIC: &str = "gimbal-state";
/// The suffix of the name of a file of version 1.
const KEPT: &str = "json.v1";

/// The version of a directory, if it is not a later one than this program's.
pub(super) fn known(directory: &Path) -> Result<u32, StateError> {
    let path = directory.join(FILE);
    expect_kind(&path, Kind::File)?;
    let unknown = |what: String| StateError::VersionUnknown { path: path.clone(), what };
    let text = match files::read_text(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(WITHOUT_FILE),
        Err(error) => return Err(unknown(error.to_string())),
    };
    // A later version may write more lines, and others than the first.
    let mut lines = text.lines();
    let number = lines.next().and_then(|line| line.strip_prefix(MAGIC)?.trim().parse().ok());
    match number {
        None | Some(0) => Err(unknown(format!("its first line is not \"{MAGIC} NUMBER\""))),
        Some(found) if found > CURRENT => Err(StateError::NewerDirectory {
            path: directory.to_owned(),
            found,
            known: CURRENT,
            by: lines.next().map_or("by an unknown program", |line| line).escape_debug().take(80).collect(),
        }),
        Some(found) => Ok(found),
    }
}

/// Brings a directory to the version of this program.
pub(super) fn settle(directory: &Path, reservations: &Path) -> Result<(), StateError> {
    if known(directory)? == CURRENT {
        return Ok(());
    }
    let path = directory.join(FILE);
    let _lock = retry_while_in_use(|| take_lock(&path), |error| matches!(error, StateError::InUse(_)))?;
    let mut count = 0;
    for file in reservation_files(reservations)? {
        count += usize::from(migrate(&file)?);
    }
    if count > 0 {
        info!(directory = %directory.display(), count, "stored reservations were brought to the present format; the old files stay as *.v1");
    }
    let text = format!("{MAGIC} {CURRENT}\nwritten by gimbal {}\n", env!("CARGO_PKG_VERSION"));
    replace(&path, text.as_bytes()).map_err(|(error, _)| StateError::Io { action: "write", path, error })
}

/// The files with reservations, in the order of their names.
pub(super) fn reservation_files(folder: &Path) -> Result<Vec<PathBuf>, StateError> {
    let failed = |error| StateError::Io { action: "list", path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Brings a file to the present format. Whether it had another one.
fn migrate(path: &Path) -> Result<bool, StateError> {
    let failed = |action| move |error| StateError::Io { action, path: path.to_owned(), error };
    let bytes = files::read(path, files::TEXT_MAX).map_err(failed("read"))?;
    let decoded = decode_any(&bytes).map_err(|error| error.in_file(path))?;
    if decoded.is_current {
        return Ok(false);
    }
    // A target of an earlier version may serve the namespace.
    let _lock = retry_while_in_use(|| take_lock(path), |error| matches!(error, StateError::InUse(_)))?;
    let keep = replace(&path.with_extension(KEPT), &bytes);
    keep.and_then(|()| replace(path, &encode(&decoded.namespace, &decoded.saved)))
        .map_err(|(error, _)| failed("bring to the present format")(error))?;
    Ok(true)
}

/// The kind of thing that a path should lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A directory, also through links: an administrator may keep it elsewhere.
    Directory,
    /// A regular file and no link.
    File,
}

/// Refuses something else at a path. Nothing at all is right.
pub(super) fn expect_kind(path: &Path, kind: Kind) -> Result<(), StateError> {
    let examined = match (kind, fs::symlink_metadata(path)) {
        (Kind::Directory, Ok(link)) if link.is_symlink() => match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(link),
            found => found,
        },
        (_, found) => found,
    };
    let found = match examined {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StateError::Io { action: "examine", path: path.to_owned(), error }),
    };
    let (is_right, expected) = match kind {
        Kind::Directory => (found.is_dir(), "directory"),
        Kind::File => (found.is_file(), "regular file"),
    };
    match is_right {
        true => Ok(()),
        false => Err(StateError::Kind { path: path.to_owned(), kind: files::kind_of(found), expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::format::tests::{OF_VERSION_1, file_of};
    use crate::state::{RESERVATIONS, prepare_state_directory};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("gimbal-version-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn refused(&self) -> String {
            let error = prepare_state_directory(&self.0).expect_err("it cannot be used").to_string();
            assert!(!error.contains('\n'), "one sentence: {error}");
            error
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_directory_of_version_1_is_brought_forward_once() {
        let folder = Folder::new("forward");
        let reservations = folder.0.join(RESERVATIONS);
        fs::create_dir_all(&reservations).expect("temporary files can be written");
        let old = file_of("1", OF_VERSION_1);
        let path = reservations.join("a.json");
        fs::write(&path, &old).expect("ours");
        // Left by a target that was killed while it brought the directory forward.
        fs::write(reservations.join("a.json.new"), "half").expect("ours");
        prepare_state_directory(&folder.0).expect("it is an earlier version");
        assert_eq!(fs::read(reservations.join("a.json.v1")).expect("kept"), old);
        let new = decode_any(&fs::read(&path).expect("there")).expect("whole");
        let before = decode_any(&old).expect("whole");
        assert!(new.is_current && !before.is_current);
        assert_eq!(new.saved, before.saved);
        assert_eq!(known(&folder.0).expect("written"), CURRENT);
        // A file of an earlier format that comes later, from a backup, is still read.
        fs::write(&path, &old).expect("ours");
        prepare_state_directory(&folder.0).expect("nothing is to be done");
        assert_eq!(fs::read(&path).expect("there"), old);
    }

    #[test]
    fn a_damaged_file_of_an_earlier_version_keeps_the_directory_as_it_is() {
        let folder = Folder::new("damaged");
        let reservations = folder.0.join(RESERVATIONS);
        fs::create_dir_all(&reservations).expect("temporary files can be written");
        fs::write(reservations.join("a.json"), "gimbal-res").expect("ours");
        let error = folder.refused();
        assert!(error.contains("a.json are damaged"), "{error}");
        assert_eq!(known(&folder.0).expect("no file"), WITHOUT_FILE);
    }

    #[test]
    fn a_later_version_is_refused_and_not_touched() {
        let folder = Folder::new("later");
        fs::create_dir_all(&folder.0).expect("temporary files can be written");
        fs::write(folder.0.join(FILE), "gimbal-state 3\nwritten by gimbal 9.9.9\nmore\n").expect("ours");
        let error = folder.refused();
        for part in ["version 3, written by gimbal 9.9.9", "versions up to 2", "install the newer one"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert_eq!(fs::read_dir(&folder.0).expect("ours").count(), 1, "nothing was made");
    }

    #[test]
    fn what_is_no_version_is_one_sentence() {
        let folder = Folder::new("odd");
        let file = folder.0.join(FILE);
        let expect = |part: &str| {
            let error = folder.refused();
            assert!(error.contains(part), "{part}: {error}");
            drop(fs::remove_file(&file));
            drop(fs::remove_dir_all(&folder.0));
            fs::create_dir_all(&folder.0).expect("temporary files can be written");
        };
        let fifo =
            |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        fifo(&folder.0);
        let error = folder.refused();
        assert!(error.contains("is a FIFO, not a directory"), "{error}");
        fs::remove_file(&folder.0).expect("ours");
        symlink("nowhere", &folder.0).expect("a link");
        let error = folder.refused();
        assert!(error.contains("is a link, not a directory"), "{error}");
        fs::remove_file(&folder.0).expect("ours");
        fs::create_dir_all(&folder.0).expect("temporary files can be written");
        for text in ["", "2", "gimbal-state", "gimbal-state 0", "gimbal-state two\n"] {
            fs::write(&file, text).expect("ours");
            expect("does not say which version");
        }
        fifo(&file);
        expect("is a FIFO, not a regular file");
        symlink("/etc/hostname", &file).expect("a link");
        expect("is a link, not a regular file");
    }
}
