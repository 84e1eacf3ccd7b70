//! Where `gimbal serve` keeps what outlives it, when nobody says where.
//!
//! ```text
//!   --state-dir, or state_dir in the file ─► that one, or no start
//!   $STATE_DIRECTORY (systemd's StateDirectory=) ─► that one, or no start
//!   root ─► /var/lib/gimbal      others ─► $XDG_STATE_HOME/gimbal or ~/.local/state/gimbal
//!      └─ cannot be made ─► none: reservations do not persist, and hosts are told so
//! ```
//!
//! The choice goes by who runs the target and not by what happens to be writable, so that it is the same at every start: a
//! directory that is there and does not serve is an error, as there may be reservations in it.
//!
//! Holds: `tests/reservations.rs`.

use anyhow::Context;
use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use target::prepare_state_directory;

/// Whom `/var/lib` belongs to.
const ROOT: u32 = 0;

/// The directory of a target that was told none, and what to warn of if there is none.
pub(crate) fn default() -> anyhow::Result<(Option<PathBuf>, Option<String>)> {
    if let Some(directories) = env::var_os("STATE_DIRECTORY").filter(|value| !value.is_empty()) {
        // systemd separates several by colons; the first is the unit's own.
        let first = directories.as_bytes().split(|&byte| byte == b':').next().unwrap_or_default();
        return Ok((Some(PathBuf::from(OsStr::from_bytes(first))), None));
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

fn by_user() -> Option<PathBuf> {
    if rustix::process::geteuid().as_raw() == ROOT {
        return Some(PathBuf::from("/var/lib/gimbal"));
    }
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("gimbal"))
}

/// Whether it is certain that nothing is stored there.
fn is_absent(directory: &Path) -> bool {
    matches!(directory.try_exists(), Ok(false))
}
