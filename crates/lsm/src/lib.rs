//! A model of RocksDB's IO: which bytes a database reads and writes for the operations that it is asked for.
//!
//! ```text
//!   put ─► log ─► memtable ─full─► flush ─► L0 ─4 tables─► compaction ─► L1 ─too large─► compaction ─► L2 …
//!   get ─► memtable ─► tables of L0, newest first ─► one table of each level: filter, then a block, if it is not cached
//! ```
//!
//! There is no time in it: whoever drives it decides how long a flush or a compaction takes, and says when it is done. Keys are
//! numbers, and values have one size; of a table the model keeps the keys.
//!
//! Follows RocksDB 7.8 with levelled compaction as it is by default. Not modelled: compression, deletions, snapshots, scans, writes that are slowed down, and
//! compactions within L0.
//!
//! Holds: bytes and reads agree with those of a real RocksDB within 15 % (`tests/real.rs`).

mod compaction;
mod options;
mod table;
mod tree;

pub use options::Options;
pub use table::TableId;
pub use tree::{Block, Job, JobKind, Lsm};
