//! The file system on a device: found, made, grown.

use super::command::{done, run};
use std::path::Path;
use tonic::Status;

/// The exit code of blkid if it finds nothing.
const NOTHING: i32 = 2;

/// The kind of what is on a device; `None`: nothing.
pub(super) fn found(device: &str) -> Result<Option<String>, Status> {
    let ended = run(
        "blkid",
        &["--probe", "--match-tag", "TYPE", "--match-tag", "PTTYPE", "--output", "export", device],
    )?;
    let kind = |tag: &str| ended.stdout.lines().find_map(|line| line.strip_prefix(tag)).map(str::to_owned);
    match ended.code {
        0 => {
            match kind("TYPE=").or_else(|| kind("PTTYPE=").map(|kind| format!("a partition table ({kind})")))
            {
                Some(kind) => Ok(Some(kind)),
                None => Err(Status::internal(format!(
                    "blkid has found something that it does not name; {}",
                    ended.said()
                ))),
            }
        }
        NOTHING => Ok(None),
        _ => Err(Status::internal(ended.said())),
    }
}

/// Makes a file system if there is nothing on the device.
pub(super) fn provide(device: &str, wanted: &str, is_read_only: bool) -> Result<(), Status> {
    match found(device)? {
        Some(kind) if kind == wanted => Ok(()),
        Some(kind) => Err(Status::failed_precondition(format!(
            "{device} has {kind}, and {wanted} is asked for; nothing is overwritten"
        ))),
        None if is_read_only => Err(Status::failed_precondition(format!(
            "{device} is empty, and is only to be read; use it with a mode that writes first"
        ))),
        // Without force: mkfs refuses a device on which it finds something itself.
        None => done(&format!("mkfs.{wanted}"), &["-q", device]).map(drop),
    }
}

/// Grows the mounted file system to the size of its device.
pub(super) fn grow(device: &str, at: &Path) -> Result<(), Status> {
    match found(device)?.as_deref() {
        Some("ext4") => done("resize2fs", &[device]).map(drop),
        Some("xfs") => done("xfs_growfs", &[&at.to_string_lossy()]).map(drop),
        other => {
            let kind = other.unwrap_or("nothing");
            Err(Status::failed_precondition(format!("{device} has {kind}; only ext4 and xfs can grow")))
        }
    }
}

/// The size of a device in bytes.
pub(super) fn size(device: &str) -> Result<u64, Status> {
    let said = done("blockdev", &["--getsize64", device])?;
    said.parse().map_err(|_| Status::internal(format!("blockdev says {said:?} for the size of {device}")))
}
