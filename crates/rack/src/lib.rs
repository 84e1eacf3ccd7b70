//! Databases on the SSDs of a rack, in virtual time: the Gimbal paper's experiment with RocksDB (§5.6), at any size.
//!
//! ```text
//!   ycsb ─► lsm ─► files: blob's pool, two copies ─► steering ─► client window ─► delay ─► Policy ─► SSD model
//!                                            neighbours ─────────────╯
//!     ▲                                                                                             │
//!     └───────────────────────────── credit, latency ◄──────────────────────────────────────────────┘
//! ```
//!
//! Real code: the workload, the allocator of micro blobs, the choice of copies, the client's window, the schedulers. Models: RocksDB, the
//! network, the SSDs. Not modelled: the volume's own metadata and checksums, failures, and the processor, but for a
//! constant time of each operation.
//!
//! A run begins as if the databases had run for a while: loaded without IO, their caches warm, each at another point between two compactions.
//!
//! Holds: a seed repeats a run; a database never has space twice (the pool asserts it). Tests: `tests`.
//! Reading order: `database` (the IOs asked for), `neighbour` (other tenants), `engine` (the execution of all), `choices` (the worth of steering).

mod asked;
mod choices;
mod client;
mod database;
mod engine;
mod files;
mod neighbour;
mod path;
mod results;
#[cfg(test)]
mod tests;
mod world;

pub use choices::Choices;
pub use engine::run;
pub use neighbour::Work;
pub use results::{Purpose, Results, Stay};
pub use world::World;
