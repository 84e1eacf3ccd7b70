//! A stage between scheduler and SSD that keeps bursts of writes out of the SSD's exhausted write buffer.
//!
//! ```text
//!   scheduler ──► Stage ──────────────────────────────► SSD
//!                  │ predicts: would this write be slow?  ▲
//!                  └──► auxiliary store ──────────────────┘ written back when the SSD has room
//! ```
//!
//! The auxiliary store is memory, or a *log* in a file or on a second device. The data of a log is in memory as well, so reads of it never wait,
//! and nothing that was answered is lost when the log's device fails. A log is replayed when the target starts again.
//!
//! Nothing here moves data, reads a clock or makes a system call: [`Stage`] takes IOs, completions and the time, and says what to do
//! next ([`Step`]). Those who carry it out keep the data. [`OpenLog::open`] reads a log through a [`Medium`].
//!
//! Holds: what was answered is read, what was flushed survives a power failure, and what was answered survives a kill, for random IOs that
//!        overlap, with failing stores and crashes at any point (`tests/model`).
//!
//! The idea is that of "AIS: An Active Idleness I/O Scheduler to Reduce Buffer-Exhausted Degradation of Solid-State Drives" (ACM TACO
//! 2024), of which we had the abstract; how it is done here is our design (`docs/ais.md`).
//!
//! Reading order: `gate` (when to divert, when to write back), `pressure` (hosts that wait), `stage` (what happens to an IO), `stage/commit` (what makes it
//! durable), `format` and `log` (the bytes of a log, and recovery from them).

#[cfg(test)]
mod drift;
mod foresight;
mod format;
mod gate;
mod log;
mod pressure;
mod ranges;
mod space;
mod stage;

pub use foresight::Foresight;
pub use format::{BLOCK, Block, IDENTITY_MAX};
pub use gate::{Drive, Gate};
pub use log::{DATA_MAX, Found, LogError, LogOptions, Medium, OpenLog, SIZE_MAX, SIZE_MIN};
pub use stage::{Counters, HostIo, Notice, Op, Piece, Place, Stage, Step, Store};
