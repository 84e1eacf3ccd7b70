//! Blocks that have to be erased before they get another owner: a file for each SSD that has such blocks.
//!
//! ```text
//!   gimbal-wipes 1 crc32c=0b1d2c3f bytes=212
//!   { "ssd": "disk eui.0025388b01b7a2e5",
//!     "wipes": [ { "subsystem": "nqn.…", "nsid": 2, "is_end": false, "offset": 67108864, "length": 67108864, "is_due": true } ] }
//! ```
//!
//! A wipe is noted before its namespace is taken from hosts, is due from then on, and is forgotten when the blocks are erased and flushed. All
//! three are done by the thread of the state directory, so a wipe that ends does not come back with another one that is noted.
//!
//! Holds: what is noted is found again until it is forgotten, and no damage goes unnoticed (`what_is_noted_is_found_until_it_is_forgotten`).
//! Elsewhere: `server::wipe` decides what is noted, and what becomes of it after a restart.

use super::StateError;
use super::file::{remove, replace};
use super::frame::{FormatError, framed, unframed};
use super::learnt::readable;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The first word.
const MAGIC: &str = "gimbal-wipes";
/// The version of the format.
const VERSION: &str = "1";

/// Blocks to erase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WipeRecord {
    /// The subsystem of the former owner.
    pub(crate) subsystem: String,
    /// The number of the former owner.
    pub(crate) nsid: u32,
    /// Whether it lost its end only.
    pub(crate) is_end: bool,
    /// The first byte on the SSD.
    pub(crate) offset: u64,
    /// Bytes; not zero.
    pub(crate) length: u64,
    /// Whether hosts no longer see the blocks. Before that, a kill leaves the removal undone.
    pub(crate) is_due: bool,
}

impl WipeRecord {
    /// Whether both are of the same blocks and the same owner.
    fn is_same(&self, other: &WipeRecord) -> bool {
        WipeRecord { is_due: other.is_due, ..self.clone() } == *other
    }
}

impl fmt::Display for WipeRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.is_end { "the end of " } else { "" };
        write!(f, "{part}namespace {} of {}", self.nsid, self.subsystem)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    ssd: String,
    wipes: Vec<WipeRecord>,
}

fn path_of(directory: &Path, ssd: &str) -> PathBuf {
    directory.join(format!("{}.json", readable(ssd)))
}

/// The wipes of an SSD.
pub(super) fn load(directory: &Path, ssd: &str) -> Result<Vec<WipeRecord>, StateError> {
    let path = path_of(directory, ssd);
    let bytes = match files::read(&path, files::TEXT_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StateError::Io { action: "read", path, error }),
    };
    decode(&bytes, ssd).map_err(|error| unknown(path, error))
}

/// The SSD of a file, and the number of its wipes.
pub(super) fn read(path: &Path) -> Result<(String, usize), StateError> {
    let bytes = files::read(path, files::TEXT_MAX).map_err(|error| StateError::Io {
        action: "read",
        path: path.to_owned(),
        error,
    })?;
    let Document { ssd, wipes } = decode_any(&bytes).map_err(|error| unknown(path.to_owned(), error))?;
    Ok((ssd, wipes.len()))
}

fn unknown(path: PathBuf, error: FormatError) -> StateError {
    let what = match error {
        FormatError::Damaged(what) => what,
        FormatError::Newer(version) => {
            format!("it has format {version}, which this version does not know")
        }
    };
    StateError::WipesUnknown { path, what }
}

/// Notes a wipe, or that it is due.
pub(super) fn note(directory: &Path, ssd: &str, record: &WipeRecord) -> Result<(), StateError> {
    let mut wipes = load(directory, ssd)?;
    wipes.retain(|other| !other.is_same(record));
    wipes.push(record.clone());
    store(directory, ssd, wipes)
}

/// Forgets a wipe.
pub(super) fn forget(directory: &Path, ssd: &str, record: &WipeRecord) -> Result<(), StateError> {
    let mut wipes = load(directory, ssd)?;
    wipes.retain(|other| !other.is_same(record));
    store(directory, ssd, wipes)
}

fn store(directory: &Path, ssd: &str, wipes: Vec<WipeRecord>) -> Result<(), StateError> {
    let path = path_of(directory, ssd);
    let result = match wipes.is_empty() {
        true => remove(&path),
        false => {
            let document = Document { ssd: ssd.to_owned(), wipes };
            let mut body = serde_json::to_vec_pretty(&document).expect("texts and numbers are JSON");
            body.push(b'\n');
            replace(&path, &framed(MAGIC, VERSION, &body))
        }
    };
    result.map_err(|(error, _)| StateError::Io {
        action: "note which blocks have to be erased in",
        path,
        error,
    })
}

fn decode(bytes: &[u8], ssd: &str) -> Result<Vec<WipeRecord>, FormatError> {
    let document = decode_any(bytes)?;
    if document.ssd != ssd {
        return Err(FormatError::Damaged(format!("it is of another SSD, {:?}", document.ssd)));
    }
    Ok(document.wipes)
}

fn decode_any(bytes: &[u8]) -> Result<Document, FormatError> {
    let (_, body) = unframed(MAGIC, &[VERSION], bytes)?;
    let document: Document =
        serde_json::from_slice(body).map_err(|error| FormatError::Damaged(error.to_string()))?;
    let is_range =
        |record: &WipeRecord| record.length > 0 && record.offset.checked_add(record.length).is_some();
    if !document.wipes.iter().all(is_range) {
        return Err(FormatError::Damaged("a range is not one".to_owned()));
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(nsid: u32, is_due: bool) -> WipeRecord {
        WipeRecord {
            subsystem: "nqn.a".to_owned(),
            nsid,
            is_end: false,
            offset: u64::from(nsid) << 20,
            length: 1 << 20,
            is_due,
        }
    }

    #[test]
    fn what_is_noted_is_found_until_it_is_forgotten() {
        let folder = std::env::temp_dir().join(format!("gimbal-wipes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary files can be written");
        let ssd = "file 7 /a";
        let found = || load(&folder, ssd).expect("whole");
        assert_eq!(found(), []);
        note(&folder, ssd, &record(1, false)).expect("there is room");
        note(&folder, ssd, &record(2, false)).expect("there is room");
        note(&folder, ssd, &record(1, true)).expect("there is room");
        assert_eq!(found(), [record(2, false), record(1, true)]);
        assert_eq!(load(&folder, "file 7 /b").expect("no file is no error"), []);
        let path = path_of(&folder, ssd);
        let bytes = std::fs::read(&path).expect("just written");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, ssd).is_err() && decode(&bytes[..at], ssd).is_err(), "at {at}");
        }
        assert!(
            matches!(decode(&bytes, "file 8 /a"), Err(FormatError::Damaged(what)) if what.contains("another SSD"))
        );
        // A file that cannot be read is never replaced.
        std::fs::write(&path, "gimbal-wipes 2 crc32c=00000000 bytes=0\n").expect("ours");
        let refused = note(&folder, ssd, &record(3, true)).expect_err("a later version");
        assert!(refused.to_string().contains("format 2"), "{refused}");
        std::fs::write(&path, &bytes).expect("ours");
        forget(&folder, ssd, &record(2, true)).expect("it can be written");
        assert_eq!(found(), [record(1, true)]);
        forget(&folder, ssd, &record(1, true)).expect("it can be removed");
        forget(&folder, ssd, &record(1, true)).expect("it is gone already");
        assert!(!path.exists());
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
