//! Metadata stores of a rack: embedded in one file, for one machine, or an etcd cluster.
//!
//! Both do what [`blob::store::Store`] says: they pass its conformance tests (`tests/embedded.rs`, `tests/etcd.rs`).
//! [`open`] takes what an operator writes: `etcd://host:2379,host:2379` or the path of a file.

mod embedded;
mod etcd;
mod guard;

pub use embedded::Embedded;
pub use etcd::Etcd;

use blob::store::Store;

/// Opens the store that a text names. Nothing is asked of an etcd cluster yet.
///
/// # Errors
/// What is wrong with the text, or why the file cannot be opened.
pub fn open(text: &str) -> Result<Box<dyn Store + Send>, String> {
    match text.strip_prefix("etcd://") {
        Some(endpoints) => Ok(Box::new(Etcd::new(endpoints)?)),
        None if text.contains("://") => Err(format!(
            "{text}: a metadata store is 'etcd://HOST:PORT[,HOST:PORT...]' or the path of a file"
        )),
        None => Ok(Box::new(Embedded::open(text)?)),
    }
}
