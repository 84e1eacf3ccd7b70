//! Another text for the configuration file, all or nothing.
//!
//! ```text
//!   stage: temporary file in the same folder, fsync ─► (the target changes) ─► commit: rename, fsync of the folder
//! ```
//!
//! So a full disk is found before anything has changed. Mode and owner stay, and links are followed to the file. A file that its owner may
//! not write is not replaced, not even by root.
//!
//! Holds: the name always leads to the whole old or the whole new text (`the_file_is_replaced_as_a_whole`).

use crate::refusal::Refusal;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Permission of the owner to write.
const OWNER_WRITES: u32 = 0o200;

/// A text that is stored beside the file. Dropping it removes it.
#[derive(Debug)]
pub struct Staged {
    file: PathBuf,
    beside: PathBuf,
    folder: File,
}

impl Staged {
    /// Stores a text beside the file.
    ///
    /// # Errors
    /// The file is read-only (403), or there is no room (507). Nothing has changed.
    pub fn new(file: &Path, text: &str) -> Result<Staged, Refusal> {
        stage(file, text).map_err(|error| refusal(file, &error))
    }

    /// Puts the text in the place of the file. It is stored when this returns.
    ///
    /// # Errors
    /// The file has the old text, or it is not certain that the new one survives a loss of power.
    pub fn commit(self) -> io::Result<()> {
        fs::rename(&self.beside, &self.file)?;
        self.folder.sync_all()
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename it is not there any more.
        let _ = fs::remove_file(&self.beside);
    }
}

fn stage(file: &Path, text: &str) -> io::Result<Staged> {
    let file = fs::canonicalize(file)?;
    let before = fs::metadata(&file)?;
    if !before.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    if before.mode() & OWNER_WRITES == 0 {
        return Err(ErrorKind::PermissionDenied.into());
    }
    rustix::fs::access(&file, rustix::fs::Access::WRITE_OK)?;
    let folder = file.parent().expect("a file is in a folder");
    let name = file.file_name().expect("a regular file has a name").to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // One that a target left when it was killed.
        _ => {}
    }
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let folder = File::open(folder)?;
    // From here on the file is removed on an error.
    let staged = Staged { file, beside, folder };
    new.write_all(text.as_bytes())?;
    let created = new.metadata()?;
    if (created.uid(), created.gid()) != (before.uid(), before.gid()) {
        fchown(&new, Some(before.uid()), Some(before.gid()))?;
    }
    new.set_permissions(before.permissions())?;
    new.sync_all()?;
    Ok(staged)
}

fn refusal(file: &Path, error: &io::Error) -> Refusal {
    let (status, advice) = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => (
            403,
            "it, or its folder, is read-only; change it where it comes from and send SIGHUP to the target",
        ),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            (507, "make room and repeat the change")
        }
        _ => (409, "look at the file"),
    };
    Refusal::new(
        status,
        format!("{} cannot be replaced: {error}; nothing has changed; {advice}", file.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("gimbal-admin-store-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be written");
        let (file, link) = (folder.join("real.toml"), folder.join("link.toml"));
        fs::write(&file, "old").expect("ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("ours");
        symlink(&file, &link).expect("a link");
        // One that was left over.
        fs::write(folder.join(".real.toml.new"), "half").expect("ours");

        let dropped = Staged::new(&link, "never").expect("it can be stored");
        assert_eq!(fs::read_to_string(&file).expect("ours"), "old");
        drop(dropped);
        let staged = Staged::new(&link, "new").expect("it can be stored");
        staged.commit().expect("it can be renamed");
        assert_eq!(fs::read_to_string(&file).expect("ours"), "new");
        assert!(link.symlink_metadata().expect("ours").is_symlink());
        assert_eq!(file.metadata().expect("ours").mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(&folder).expect("ours").count(), 2, "nothing is left beside it");

        fs::set_permissions(&file, fs::Permissions::from_mode(0o440)).expect("ours");
        let refused = Staged::new(&link, "newer").expect_err("it is read-only");
        assert_eq!(refused.status, 403, "{}", refused.detail);
        assert_eq!(Staged::new(&folder, "x").expect_err("a folder").status, 409);
        fs::remove_dir_all(&folder).expect("ours");
    }
}
