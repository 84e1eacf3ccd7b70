//! Which SSDs may have data in the log of an auxiliary store: a file for each, while that is so.
//!
//! ```text
//!   ssd = "disk eui.0025388b01b7a2e5"
//!   log = "/dev/pmem0"                               # where the log was
//!   name = "5d1f…"                                   # its random name
//!   epoch = 3                                        # its last opening
//!   size_bytes = 134217728                           # no more data than this is in it
//! ```
//!
//! The file is written before the SSD is served with the log, and removed when the target has ended in order: then the SSD has all data.
//! After a kill it is still there, so a start with another log, an older copy of the log, or none is noticed (`device::open`): blocks that
//! were flushed would be read as they were before.
//!
//! Holds: a start without the log is refused (`tests/auxiliary.rs` of the crate `gimbal`).

use super::StateError;
use super::file::{remove, replace};
use super::learnt::path_of;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use units::Bytes;

/// A log that may have data of an SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// The SSD, by the name that the log's head has.
    pub(crate) ssd: String,
    /// The file or device of the log.
    pub(crate) log: PathBuf,
    /// The random name of the log.
    pub(crate) name: [u8; 16],
    /// The number of its last opening.
    pub(crate) epoch: u64,
    /// The size of the log.
    pub(crate) size: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    ssd: String,
    log: PathBuf,
    name: String,
    epoch: u64,
    size_bytes: u64,
}

/// The record of an SSD and its file; `None` if its data is in no log.
pub(super) fn load(directory: &Path, ssd: &str) -> Result<Option<(LogRecord, PathBuf)>, StateError> {
    let path = path_of(directory, ssd);
    match read(&path) {
        Ok(record) if record.ssd != ssd => {
            Err(StateError::LogUnknown { path, what: format!("it is of another SSD, {:?}", record.ssd) })
        }
        Ok(record) => Ok(Some((record, path))),
        Err(StateError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The record in a file.
pub(super) fn read(path: &Path) -> Result<LogRecord, StateError> {
    let text = files::read_text(path);
    let text = text.map_err(|error| StateError::Io { action: "read", path: path.to_owned(), error })?;
    decode(&text).map_err(|what| StateError::LogUnknown { path: path.to_owned(), what })
}

/// Notes that an SSD may have data in a log.
pub(super) fn store(directory: &Path, record: &LogRecord) -> Result<(), StateError> {
    let LogRecord { ssd, log, name, epoch, size } = record.clone();
    let name = format!("{:032x}", u128::from_be_bytes(name));
    let text = toml::to_string(&Document { ssd, log, name, epoch, size_bytes: size.get() });
    let text = text.expect("a table of texts and numbers below 2⁶³, which TOML can hold");
    let path = path_of(directory, &record.ssd);
    replace(&path, text.as_bytes()).map_err(|(error, _)| StateError::Io {
        action: "note the log of an SSD in",
        path,
        error,
    })
}

/// Notes that an SSD has all of its data.
pub(super) fn forget(directory: &Path, ssd: &str) -> Result<(), StateError> {
    let path = path_of(directory, ssd);
    remove(&path).map_err(|(error, _)| StateError::Io { action: "remove", path, error })
}

fn decode(text: &str) -> Result<LogRecord, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let Document { ssd, log, name, epoch, size_bytes } = document;
    let name = u128::from_str_radix(&name, 16).map_err(|_| format!("{name:?} is no name of a log"))?;
    Ok(LogRecord { ssd, log, name: name.to_be_bytes(), epoch, size: Bytes(size_bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_until_it_is_removed_and_damage_is_an_error() {
        let folder = std::env::temp_dir().join(format!("gimbal-logs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("temporary files can be written");
        let ssd = "file 7 /a".to_owned();
        let record =
            LogRecord { ssd: ssd.clone(), log: "/b".into(), name: [9; 16], epoch: 3, size: Bytes::mib(4) };
        assert!(load(&folder, &ssd).expect("no file is no error").is_none());
        store(&folder, &record).expect("there is room");
        let (found, path) = load(&folder, &ssd).expect("just stored").expect("just stored");
        assert_eq!(found, record);
        std::fs::write(&path, "ssd = ").expect("ours");
        assert!(matches!(load(&folder, &ssd), Err(StateError::LogUnknown { .. })));
        forget(&folder, &ssd).expect("it can be removed");
        forget(&folder, &ssd).expect("it is gone already");
        assert!(load(&folder, &ssd).expect("no file is no error").is_none());
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
