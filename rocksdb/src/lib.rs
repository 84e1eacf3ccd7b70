//! RocksDB on gimbal's volumes: a plug-in that stock programs load, and a library for programs that are linked with the system's RocksDB.
//!
//! ```text
//!   RocksDB ─► shim/cpp (C++: types) ─► core (Rust: the meaning of a call) ─► blob-client ══ NVMe/TCP ══ targets
//! ```
//!
//! Holds: see `tests/`; docs/rocksdb.md says what is promised.
//! Elsewhere: `bundled` is the same for Rust programs whose crate brings RocksDB along.

mod register;

// The C++ half calls it.
use gimbal_rocksdb_core as _;

pub use register::register;
