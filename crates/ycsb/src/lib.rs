//! The core workloads of YCSB (the Yahoo! Cloud Serving Benchmark): the sequence of operations, with their records and
//! bytes.
//!
//! ```text
//!   property file, key=value ─► Properties ─► Workload ─┬─► Generator (one per thread, seeded) ─► Operation
//!                                              Keys ────┘    (shared: inserts started and acknowledged)
//! ```
//!
//! Semantics are those of CoreWorkload in YCSB 0.17.0: the same properties, the same distributions with the same
//! constants, the same names of keys. This crate has no clock, database or thread: the caller that carries out the
//! operations provides them.
//!
//! Differences from YCSB: choices are seeded; a workload that cannot work is refused and not reinterpreted; numbers of
//! records are not cut to 32 bits.
//!
//! Holds: the frequencies of all kinds of choices agree with those of the real YCSB (`tests/real.rs`).

mod choice;
mod generator;
mod keys;
pub mod plan;
mod properties;
pub mod record;
mod text;
mod workload;
mod zipf;

pub use choice::{Lengths, Requests};
pub use generator::{Fields, Generator, Kind, Operation};
pub use keys::Keys;
pub use properties::{Properties, PropertyError};
pub use workload::{Distribution, LengthDistribution, Order, Workload};
