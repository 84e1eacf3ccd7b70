//! Metadata stores of a rack: embedded in one file, for one machine, or an etcd cluster.
//!
//! Both implement [`blob::store::Store`] and pass its conformance tests (`tests/embedded.rs`, `tests/etcd.rs`).
//! [`open`] takes the operator's text: `etcd://host:2379,host:2379` or the path of a file.

mod embedded;
mod etcd;
mod guard;

pub use embedded::Embedded;
pub use etcd::Etcd;

use blob::store::Store;

/// Opens the store that a text names. Sends no request to an etcd cluster yet.
///
/// # Errors
/// A description of the problem of the text, or of the file.
pub fn open(text: &str) -> Result<Box<dyn Store + Send>, String> {
    match text.strip_prefix("etcd://") {
        Some(endpoints) => Ok(Box::new(Etcd::new(endpoints)?)),
        None if text.contains("://") => Err(format!(
            "{text}: a metadata store is 'etcd://HOST:PORT[,HOST:PORT...]' or the path of a file"
        )),
        None => Ok(Box::new(Embedded::open(text)?)),
    }
}
