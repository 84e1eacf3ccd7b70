//! Metadata stores of a rack: embedded in one file, for one machine, or an etcd cluster.
//!
//! Both implement [`blob::store::Store`] and pass its conformance tests (`tests/embedded.rs`, `tests/etcd.rs`).
//! [`open`] takes the operator's text: `etcd://host:2379,host:2379`, with TLS and a user `etcds://user@host:2379`, or the
//! path of a file.

mod embedded;
mod etcd;
mod guard;

pub use embedded::Embedded;
pub use etcd::{Etcd, EtcdFiles};

use blob::store::Store;

/// Opens the store that a text names, an etcd cluster with these files. Sends no request to it yet.
///
/// # Errors
/// A description of the problem of the text, or of a file.
pub fn open(text: &str, files: &EtcdFiles) -> Result<Box<dyn Store + Send>, String> {
    match text.split_once("://") {
        Some(_) if Etcd::is_meant(text) => Ok(Box::new(Etcd::open(text, files)?)),
        // The rest may contain a password.
        Some((scheme, _)) => Err(format!(
            "{scheme}://: a metadata store is 'etcd[s]://[USER@]HOST:PORT[,HOST:PORT...]' or the path of a file"
        )),
        None => Ok(Box::new(Embedded::open(text)?)),
    }
}
