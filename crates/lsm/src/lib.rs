//! A model of RocksDB's IO: the bytes that a database reads and writes for given operations.
//!
//! ```text
//!   put ─► log ─► memtable ─full─► flush ─► L0 ─4 tables─► compaction ─► L1 ─too large─► compaction ─► L2 …
//!   get ─► memtable ─► tables of L0, newest first ─► one table of each level: filter, then a block, if it is not cached
//! ```
//!
//! The model has no time: the caller decides how long a flush or a compaction takes, and reports when it is done. Keys
//! are numbers, and all values have the same size; for each table the model stores the keys.
//!
//! Models RocksDB 7.8 with its default levelled compaction. Not modelled: compression, deletions, snapshots, scans,
//! slowed writes, and compactions within L0.
//!
//! Holds: bytes and reads agree with those of a real RocksDB within 15 % (`tests/real.rs`).

mod compaction;
mod options;
mod table;
mod tree;

pub use options::Options;
pub use table::TableId;
pub use tree::{Block, Job, JobKind, Lsm};
