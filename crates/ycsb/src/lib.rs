//! The core workloads of YCSB (the Yahoo! Cloud Serving Benchmark): which operation on which record comes next, and with what bytes.
//!
//! ```text
//!   property file, key=value ─► Properties ─► Workload ─┬─► Generator (one per thread, seeded) ─► Operation
//!                                              Keys ────┘    (shared: what was inserted and acknowledged)
//! ```
//!
//! Semantics are those of CoreWorkload in YCSB 0.17.0: the same properties, the same distributions with the same constants, the same
//! names of keys. There is no clock, no database and no thread here: whoever carries the operations out brings them.
//!
//! Differs from YCSB: choices are seeded; a workload that cannot work is refused instead of taken as something else; numbers of records
//! are not cut to 32 bits.
//!
//! Holds: the frequencies of all kinds of choices agree with those that the real YCSB makes (`tests/real.rs`).

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
