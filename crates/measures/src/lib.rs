//! Counters, gauges and histograms that one thread writes and every thread reads.
//!
//! The thread that serves IOs writes them with plain loads and stores, without a locked instruction and without a message. A reader takes
//! them whenever it likes, so reading costs the writer nothing, however often it is done and however much there is to read.
//!
//! Two values that are read one after the other may be of different moments: a reader can see an IO in one counter and not yet in
//! another. A counter never falls.
//!
//! Holds: a count is never lost or seen twice while it is read (`tests/readers.rs`).
//! Limits: a cell has one writer. A second one would lose counts; nothing else would happen.

mod cell;
mod histogram;

pub use cell::{Counter, Gauge};
pub use histogram::{Histogram, SharedHistogram, powers_of_two};
