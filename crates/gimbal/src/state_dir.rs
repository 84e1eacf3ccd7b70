//! The default state directory of `gimbal serve`, for state that must survive a restart.
//!
//! ```text
//!   --state-dir, or state_dir in the file ─► that one, or no start
//!   $STATE_DIRECTORY (systemd's StateDirectory=) ─► that one, or no start
//!   root ─► /var/lib/gimbal      others ─► $XDG_STATE_HOME/gimbal or ~/.local/state/gimbal
//!      └─ cannot be created ─► none: reservations do not persist, and hosts are informed
//! ```
//!
//! The choice depends on the user that runs the target, not on which directory is writable, so it is the same at every
//! start. A directory that exists and cannot be used is an error, because it may hold reservations.
//!
//! Holds: `tests/reservations.rs`.

use anyhow::Context;
use server::prepare_state_directory;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The user that owns `/var/lib`.
const ROOT: u32 = 0;

/// The default directory; or `None` with a warning that gives the reason.
pub(crate) fn default() -> anyhow::Result<(Option<PathBuf>, Option<String>)> {
    if let Some(directory) = of_service() {
        return Ok((Some(directory), None));
    }
    let Some(directory) = by_user() else {
        let warning = "there is no home directory to keep reservations in".to_owned();
        return Ok((None, Some(warning)));
    };
    match prepare_state_directory(&directory) {
        Ok(()) => Ok((Some(directory), None)),
        Err(error) if is_absent(&directory) => Ok((None, Some(error.to_string()))),
        Err(error) => Err(error).context("reservations may be stored there"),
    }
}

/// The path of the default directory, whether it can be used or not; `None`: no path is known.
pub(crate) fn path() -> Option<PathBuf> {
    of_service().or_else(by_user)
}

fn of_service() -> Option<PathBuf> {
    let directories = env::var_os("STATE_DIRECTORY").filter(|value| !value.is_empty())?;
    // systemd separates several directories by colons; the first one is the unit's own.
    let first = directories.as_bytes().split(|&byte| byte == b':').next().unwrap_or_default();
    Some(PathBuf::from(OsStr::from_bytes(first)))
}

fn by_user() -> Option<PathBuf> {
    if rustix::process::geteuid().as_raw() == ROOT {
        return Some(PathBuf::from("/var/lib/gimbal"));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("gimbal"))
}

/// Whether it is certain that the directory does not exist.
fn is_absent(directory: &Path) -> bool {
    matches!(directory.try_exists(), Ok(false))
}
