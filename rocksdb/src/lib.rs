//! RocksDB on gimbal's volumes: a plug-in that stock programs load.
//!
//! ```text
//!   RocksDB ─► cpp/file_system, readers, writers (C++) ─► ffi ─► volume, files ─► blob-client ══ NVMe/TCP ══ targets
//!      ╰─► cpp/registration: `gimbal://…` ─► mounts: one mount per volume and process
//! ```
//!
//! The C++ half only translates types. What a call means is in Rust: [`volume`] for names, [`files`] for bytes.
//!
//! Holds: see `tests/`; docs/rocksdb.md says what is promised.
//! Elsewhere: `blob` keeps the promises, `blob-client` reaches the targets.

mod ffi;
pub mod files;
pub mod kind;
pub mod mounts;
pub mod uri;
pub mod volume;
