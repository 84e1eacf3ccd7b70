//! A RocksDB database (`cpp/database.cc`): the only `unsafe` of this crate.
//!
//! cxx checks that both sides mean the same types. What is left to us is to say that the C++ functions keep to what their Rust
//! signatures say, and that a database may be used by several threads.

#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "what cxx makes is pub")]
#![deny(clippy::undocumented_unsafe_blocks)]

use cxx::UniquePtr;
use ycsb::plan::Place;

#[cxx::bridge(namespace = "gimbal::ycsb")]
mod bridge {
    // SAFETY: the functions borrow their arguments for the time of the call only; `bytes` gives out what lives as long as the
    // `Value`; an exception becomes an error.
    unsafe extern "C++" {
        include!("gimbal-ycsb/cpp/database.h");

        type Value;
        fn bytes(self: &Value) -> &[u8];

        type Database;
        fn open_database(uri: &str, path: &str, options: &str, is_new: bool) -> Result<UniquePtr<Database>>;
        fn get(self: &Database, key: &str) -> Result<UniquePtr<Value>>;
        fn put(self: &Database, key: &str, value: &[u8], is_synced: bool) -> Result<()>;
        fn scan(self: &Database, from: &str, count: u64) -> Result<u64>;
        fn flush(self: &Database) -> Result<()>;
        fn counted(self: &Database, name: &str) -> Result<u64>;
    }
}

// SAFETY: rocksdb::DB and rocksdb::Statistics may be used by several threads at the same time, and be destroyed by another thread
// than the one that has made them; `Database` has nothing else.
unsafe impl Send for bridge::Database {}
// SAFETY: as above.
unsafe impl Sync for bridge::Database {}

/// An open database; closed when it is dropped. Errors are texts for people, of RocksDB.
pub(crate) struct Database(UniquePtr<bridge::Database>);

fn text(error: cxx::Exception) -> String {
    error.what().to_owned()
}

impl Database {
    /// Opens the database at a place. `is_new`: makes one where there must be none.
    pub(crate) fn open(place: &Place, options: &str, is_new: bool) -> Result<Database, String> {
        let uri = place.uri.as_deref().unwrap_or("");
        bridge::open_database(uri, &place.path, options, is_new).map(Database).map_err(text)
    }

    /// What a key stands for.
    pub(crate) fn get<T>(&self, key: &str, take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, String> {
        let value = self.0.get(key).map_err(text)?;
        Ok(value.as_ref().map(|value| take(value.bytes())))
    }

    /// Writes a key.
    pub(crate) fn put(&self, key: &str, value: &[u8], is_synced: bool) -> Result<(), String> {
        self.0.put(key, value, is_synced).map_err(text)
    }

    /// Reads keys in their order, and says how many there were.
    pub(crate) fn scan(&self, from: &str, count: u64) -> Result<u64, String> {
        self.0.scan(from, count).map_err(text)
    }

    /// Writes what is in memory to tables.
    pub(crate) fn flush(&self) -> Result<(), String> {
        self.0.flush().map_err(text)
    }

    /// What RocksDB has counted under a name.
    pub(crate) fn counted(&self, name: &str) -> Result<u64, String> {
        self.0.counted(name).map_err(text)
    }
}
