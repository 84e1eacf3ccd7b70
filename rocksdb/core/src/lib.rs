//! The Rust half of RocksDB's file system on gimbal's volumes.
//!
//! ```text
//!   RocksDB ─► shim/cpp: file_system, readers, writers (C++) ─► ffi ─► volume, files ─► blob-client ══ NVMe/TCP ══ targets
//!      ╰─► shim/cpp/registration: `gimbal://…` ─► mounts: one mount per volume and process
//! ```
//!
//! The C++ half only translates types. The meaning of a call is here: [`volume`] for names, [`files`] for bytes. No version of RocksDB is known here,
//! so one compilation serves all.
//!
//! Holds: see the tests of `gimbal-rocksdb`; docs/rocksdb.md says what is promised.
//! Elsewhere: `blob` keeps the promises, `blob-client` reaches the targets.

mod ffi;
pub mod files;
pub mod kind;
pub mod mounts;
pub mod uri;
pub mod volume;
