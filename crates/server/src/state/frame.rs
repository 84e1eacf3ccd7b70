//! The first line of a file of the state directory: its kind, the version of its format, checksum and length of the rest.
//!
//! ```text
//!   gimbal-reservations 2 crc32c=0b1d2c3f bytes=412
//! ```
//!
//! Holds: a file with a changed byte, or a truncated file, is refused (`no_damage_goes_unnoticed` in `format`).

use super::StateError;
use nvme::tcp::pdu::crc32c;
use std::path::Path;

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FormatError {
    /// Its content has changed.
    Damaged(String),
    /// A later version of the target has written it.
    Newer(String),
}

impl FormatError {
    /// The error of the file at `path`.
    pub(super) fn in_file(self, path: &Path) -> StateError {
        let path = path.to_owned();
        match self {
            FormatError::Damaged(what) => StateError::Damaged { path, what },
            FormatError::Newer(version) => StateError::Newer { path, version },
        }
    }
}

/// A file with this body.
pub(super) fn framed(magic: &str, version: &str, body: &[u8]) -> Vec<u8> {
    let crc = crc32c(body);
    let mut bytes = format!("{magic} {version} crc32c={crc:08x} bytes={}\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// The version and the body of a file. Other versions than these are later ones.
pub(super) fn unframed<'b>(
    magic: &str,
    versions: &[&str],
    bytes: &'b [u8],
) -> Result<(&'b str, &'b [u8]), FormatError> {
    let damaged = |what: &str| FormatError::Damaged(what.to_owned());
    if bytes.is_empty() {
        return Err(damaged("it is empty"));
    }
    let end = bytes.iter().position(|&byte| byte == b'\n');
    let end = end.ok_or_else(|| damaged("its first line has no line end"))?;
    let line = str::from_utf8(&bytes[..end]).map_err(|_| damaged("its first line is not text"))?;
    let body = &bytes[end + 1..];
    let words: Vec<&str> = line.split(' ').collect();
    let [first, version, crc, length] = words[..] else {
        return Err(damaged("its first line is not that of such a file"));
    };
    if first != magic {
        return Err(damaged("its first line is not that of such a file"));
    }
    if !versions.contains(&version) {
        return Err(FormatError::Newer(version.to_owned()));
    }
    if length != format!("bytes={}", body.len()) {
        return Err(FormatError::Damaged(format!(
            "{} bytes follow its first line, which says {length}",
            body.len()
        )));
    }
    if crc != format!("crc32c={:08x}", crc32c(body)) {
        return Err(damaged("its checksum is wrong"));
    }
    Ok((version, body))
}
