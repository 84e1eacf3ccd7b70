//! Keys of a host in their files.

use auth::DhKey;
use auth::exchange::HostKeys;
use std::path::{Path, PathBuf};

/// A file that has no key for DH-HMAC-CHAP. No part of its contents is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}; look at it with gimbal key check", .file.display())]
pub struct KeyFileError {
    file: PathBuf,
    why: String,
}

/// Reads the key of this host, and the one of the controller, if it has to prove itself.
///
/// # Errors
/// A file cannot be read, or has no such key.
pub fn read_keys(host: &Path, controller: Option<&Path>) -> Result<HostKeys, KeyFileError> {
    Ok(HostKeys { host: read(host)?, controller: controller.map(read).transpose()? })
}

fn read(file: &Path) -> Result<DhKey, KeyFileError> {
    let failed = |why: String| KeyFileError { file: file.to_owned(), why };
    let text = files::read_secret(file).map_err(|error| failed(format!("cannot be read: {error}")))?;
    DhKey::parse(&text).map_err(|error| failed(error.to_string()))
}
