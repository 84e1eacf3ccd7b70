//! One file of the state directory: locked, read, and replaced as a whole.
//!
//! To replace a file, the new content is written to a temporary file, synced to the disk, and renamed; then the directory is synced.
//! Whenever the process or the machine stops, either the old or the new content exists, complete. If the last step fails, it is
//! unknown which one the disk has. Then the old content is written back, because the command that changes it fails.
//!
//! The lock is a separate file, because each replacement makes a new inode. It is taken when the file is found or created. The lock file
//! is never removed: otherwise two targets could hold a lock at the same time.
//!
//! Holds: a failed write keeps the old content (`a_failed_write_keeps_the_old_content`); two targets never use one file at the same
//!        time (`two_targets_never_have_one_file`).

use super::format::{decode, encode};
use super::{NamespaceName, StateError};
use crate::identity;
use crate::retry::retry_while_in_use;
use nvme::subsystem::SavedReservations;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tracing::error;

/// Refuses links in the place of our files: they were put there by another program.
const NOT_THROUGH_LINKS: i32 = libc::O_NOFOLLOW;
/// Only the owner may read the keys and names of hosts.
const FILE_MODE: u32 = 0o600;

/// The file of a namespace.
pub(super) struct StateFile {
    namespace: NamespaceName,
    path: PathBuf,
    lock: Option<File>,
    /// The content on the disk, according to this target.
    stored: Option<Vec<u8>>,
}

impl StateFile {
    /// A file that was not read yet.
    pub(super) fn new(directory: &Path, namespace: &NamespaceName) -> StateFile {
        let path = path_of(directory, namespace);
        StateFile { namespace: namespace.clone(), path, lock: None, stored: None }
    }

    /// Reads the file; `None` if it does not exist. From then on this target holds its lock.
    pub(super) fn load(&mut self) -> Result<Option<SavedReservations>, StateError> {
        if self.lock.is_none() {
            if !self.exists()? {
                return Ok(None);
            }
            self.lock = Some(retry_while_in_use(
                || take_lock(&self.path),
                |error| matches!(error, StateError::InUse(_)),
            )?);
        }
        // Read after locking: the former holder of the lock may have written.
        if !self.exists()? {
            self.stored = None;
            return Ok(None);
        }
        let bytes = files::read(&self.path, files::TEXT_MAX).map_err(|error| self.failed("read", error))?;
        let saved = decode(&self.namespace, &bytes).map_err(|error| error.in_file(&self.path))?;
        self.stored = Some(bytes);
        Ok(Some(saved))
    }

    /// Replaces the content; `None` removes the file.
    pub(super) fn store(&mut self, saved: Option<&SavedReservations>) -> Result<(), StateError> {
        if self.lock.is_none() {
            let lock = take_lock(&self.path)?;
            if self.exists()? {
                return Err(StateError::Appeared(self.path.clone()));
            }
            self.lock = Some(lock);
        }
        let bytes = saved.map(|saved| encode(&self.namespace, saved));
        if let Err((error, is_replaced)) = self.replace(bytes.as_deref()) {
            if is_replaced && let Err((error, _)) = self.replace(self.stored.as_deref()) {
                let path = self.path.display();
                error!(%path, %error, "the present reservations could not be written back; after a restart others may be in force");
            }
            return Err(self.failed("store reservations in", error));
        }
        self.stored = bytes;
        Ok(())
    }

    /// The error says whether the new content may be there.
    fn replace(&self, bytes: Option<&[u8]>) -> Result<(), (io::Error, bool)> {
        match bytes {
            Some(bytes) => replace(&self.path, bytes),
            None => remove(&self.path),
        }
    }

    fn exists(&self) -> Result<bool, StateError> {
        self.path.try_exists().map_err(|error| self.failed("look for", error))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> StateError {
        StateError::Io { action, path: self.path.clone(), error }
    }
}

/// The file of a namespace.
pub(super) fn path_of(directory: &Path, namespace: &NamespaceName) -> PathBuf {
    let uuid = u128::from_be_bytes(namespace.uuid);
    directory.join(format!("{uuid:032x}-{}.json", identity::serial(&namespace.subsystem)))
}

/// Takes the lock of a file, which is free when it is dropped.
pub(super) fn take_lock(path: &Path) -> Result<File, StateError> {
    let failed = |error| StateError::Io { action: "lock", path: path.to_owned(), error };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE_MODE).custom_flags(NOT_THROUGH_LINKS);
    let file = options.open(path.with_extension("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Replaces the content of a file, as a whole. The error says whether the new content may be there.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), (io::Error, bool)> {
    let new = path.with_extension("new");
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        drop(fs::remove_file(&new));
        return Err((error, false));
    }
    sync_directory(directory_of(path)).map_err(|error| (error, true))
}

/// Removes a file that may not be there. The error says whether it may be gone.
pub(super) fn remove(path: &Path) -> Result<(), (io::Error, bool)> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err((error, false)),
        _ => sync_directory(directory_of(path)).map_err(|error| (error, true)),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent().expect("a file lies in its directory")
}

/// Makes a file with this content. One that an earlier target has left, or a link that another user has put there, is removed first
/// and never written through.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(FILE_MODE);
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            options.open(path)?
        }
        file => file?,
    };
    file.write_all(bytes)?;
    file.sync_all()
}

/// Syncs the names in a directory to the disk.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::spec::{HostId, Nqn};
    use nvme::subsystem::{Registrant, ReservationHost};

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("gimbal-state-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("the temporary folder is writable");
            Folder(path)
        }

        fn file(&self) -> StateFile {
            StateFile::new(&self.0, &NamespaceName { subsystem: "nqn.test:a".to_owned(), uuid: [7; 16] })
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn saved(generation: u32) -> SavedReservations {
        let nqn = Nqn::new("nqn.test:host").expect("a good name");
        SavedReservations {
            generation,
            registrants: vec![Registrant { host: ReservationHost { id: HostId([1; 16]), nqn }, key: 1 }],
            held: None,
        }
    }

    #[test]
    fn what_was_stored_is_there_and_what_was_removed_is_not() {
        let folder = Folder::new("stored");
        let mut file = folder.file();
        assert_eq!(file.load().expect("nothing is in the way"), None);
        for generation in 0..3 {
            file.store(Some(&saved(generation))).expect("there is room");
        }
        assert_eq!(file.load().expect("it was just written"), Some(saved(2)));
        drop(file);
        assert_eq!(folder.file().load().expect("it was written"), Some(saved(2)));
        let mut file = folder.file();
        file.load().expect("it was written");
        file.store(None).expect("nothing is in the way");
        drop(file);
        assert_eq!(folder.file().load().expect("it was removed"), None);
    }

    #[test]
    fn a_failed_write_keeps_the_old_content() {
        let folder = Folder::new("fails");
        let mut file = folder.file();
        file.load().expect("nothing is in the way");
        file.store(Some(&saved(1))).expect("there is room");
        // A folder has the name of the temporary file, so it cannot be written, as on a full disk.
        fs::create_dir(file.path.with_extension("new")).expect("the folder is writable");
        assert!(matches!(file.store(Some(&saved(2))), Err(StateError::Io { .. })));
        assert_eq!(file.load().expect("it was not touched"), Some(saved(1)));
        fs::remove_dir(file.path.with_extension("new")).expect("just made");
        file.store(Some(&saved(3))).expect("nothing is in the way any more");
        assert_eq!(file.load().expect("it was written"), Some(saved(3)));
    }

    #[test]
    fn a_half_written_temporary_file_is_ignored() {
        let folder = Folder::new("crash");
        let mut file = folder.file();
        file.store(Some(&saved(1))).expect("there is room");
        fs::write(file.path.with_extension("new"), b"gimbal-res").expect("the folder is writable");
        drop(file);
        let mut file = folder.file();
        assert_eq!(file.load().expect("the old file is whole"), Some(saved(1)));
        file.store(Some(&saved(2))).expect("what was left is overwritten");
        assert_eq!(file.load().expect("it was written"), Some(saved(2)));
    }

    #[test]
    fn a_link_in_the_place_of_the_temporary_file_is_not_followed() {
        let folder = Folder::new("link");
        let mut file = folder.file();
        file.load().expect("nothing is in the way");
        let victim = folder.0.join("victim");
        fs::write(&victim, "precious").expect("the folder is writable");
        std::os::unix::fs::symlink(&victim, file.path.with_extension("new")).expect("a link");
        file.store(Some(&saved(1))).expect("the link is removed");
        assert_eq!(fs::read_to_string(&victim).expect("still there"), "precious");
        assert!(!fs::symlink_metadata(&file.path).expect("stored").is_symlink());
        drop(file);
        assert_eq!(folder.file().load().expect("it is whole"), Some(saved(1)));
        let other = StateFile::new(&folder.0, &NamespaceName { subsystem: "b".to_owned(), uuid: [8; 16] });
        std::os::unix::fs::symlink(&victim, other.path.with_extension("lock")).expect("a link");
        assert!(matches!(take_lock(&other.path), Err(StateError::Io { .. })), "a lock is no link");
    }

    #[test]
    fn a_damaged_file_is_reported() {
        let folder = Folder::new("damaged");
        let mut file = folder.file();
        file.store(Some(&saved(1))).expect("there is room");
        let bytes = fs::read(&file.path).expect("just written");
        fs::write(&file.path, &bytes[..bytes.len() / 2]).expect("the folder is writable");
        let error = file.load().expect_err("half of it is missing").to_string();
        assert!(
            error.contains("damaged") && error.contains("backup") && error.contains("remove it"),
            "{error}"
        );
    }

    #[test]
    fn two_targets_never_have_one_file() {
        let folder = Folder::new("two");
        let (mut one, mut two) = (folder.file(), folder.file());
        assert_eq!((one.load().expect("empty"), two.load().expect("empty")), (None, None));
        one.store(Some(&saved(1))).expect("there is room");
        assert!(matches!(two.store(Some(&saved(2))), Err(StateError::InUse(_))));
        drop(one);
        assert!(matches!(two.store(Some(&saved(2))), Err(StateError::Appeared(_))), "it was never read");
        assert_eq!(folder.file().load().expect("it is the first one's"), Some(saved(1)));
    }
}
