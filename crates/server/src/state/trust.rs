//! Checks whether other users could change the content of a directory.

use super::StateError;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Rights of other users in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// Others may add files, but not remove or rename those of the target: the sticky bit, as in `/tmp`.
    MayAddFiles,
    /// No other user may write.
    MayNotWrite,
}

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_ALL: u32 = 0o002;
const WRITABLE_BY_GROUP: u32 = 0o020;

/// Refuses a directory of another user, or one that others may write to.
pub(super) fn expect_trusted(path: &Path, others: Others) -> Result<(), StateError> {
    let failed = |error| StateError::Io { action: "examine", path: path.to_owned(), error };
    let metadata = fs::metadata(path).map_err(failed)?;
    match objection(&metadata, rustix::process::geteuid().as_raw(), others) {
        Some(why) => Err(StateError::Untrusted { path: path.to_owned(), why }),
        None => Ok(()),
    }
}

/// The reason why user `own` does not trust a directory.
fn objection(metadata: &Metadata, own: u32, others: Others) -> Option<String> {
    let (owner, mode) = (metadata.uid(), metadata.mode());
    if owner != own && owner != ROOT {
        return Some(format!("it belongs to user {owner}"));
    }
    if others == Others::MayAddFiles && mode & STICKY != 0 {
        return None;
    }
    if mode & WRITABLE_BY_ALL != 0 {
        return Some("every user may write to it".to_owned());
    }
    let is_of_group = mode & WRITABLE_BY_GROUP != 0;
    is_of_group.then(|| format!("group {} may write to it", metadata.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let folder = std::env::temp_dir().join(format!("gimbal-trust-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files can be written");
        for (mode, in_parent, in_own) in [
            (0o700, true, true),
            (0o755, true, true),
            (0o777, false, false),
            (0o775, false, false),
            (0o1777, true, false),
        ] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("ours");
            let is_trusted = |others| expect_trusted(&folder, others).is_ok();
            let found = (is_trusted(Others::MayAddFiles), is_trusted(Others::MayNotWrite));
            assert_eq!(found, (in_parent, in_own), "mode {mode:o}");
        }
        let metadata = fs::metadata(&folder).expect("it is there");
        let stranger = metadata.uid() + 1;
        if metadata.uid() != ROOT {
            assert!(objection(&metadata, stranger, Others::MayAddFiles).is_some());
        }
        fs::remove_dir_all(&folder).expect("ours");
    }
}
