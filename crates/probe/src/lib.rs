//! A black-box prober of SSDs. It knows nothing of the device but its size: it submits IOs, sees when they complete, and finds from
//! that what the device can do.
//!
//! ```text
//!            ┌──────────────── Prober ───────────────┐
//!            │ script ── asks for ──► Task           │  poll(now) ──► Submit(io) | Wait | Finished
//!            │   ▲                     │ acts        │
//!            │   └── journal ◄── results ── loads ◄──│◄── on_done(now, tag)
//!            └──────┬────────────────────────────────┘
//!                   └──► Profile (TOML)
//! ```
//!
//! The *script* is a plain function that asks one question after the other. Each question is a *task*: a few loads and idle periods.
//! Its answer goes into the *journal*, and the script runs again from its start over the journal until it asks for something new. So
//! an interrupted probe continues from its journal, and the same journal gives the same profile.
//!
//! Nothing here reads a clock or makes a system call. [`drive`] connects a prober with a [`Device`]: the SSD model in virtual time
//! ([`Simulated`]), or a real one.
//!
//! Holds: a probe writes no more than its limit and takes no longer than its limit (`tests/hidden/main.rs`);
//!        buffer size, recovery time and costs of devices that it has never seen are found (`tests/hidden/main.rs`);
//!        a probe that continues from its journal finds the same (`tests/simulated.rs`).
//!
//! Reading order: `script` (the questions and their order), `task` (what a question is), `load` (how one load runs), `fill` (when a
//! write buffer is exhausted), `profile`.
//!
//! [`BufferModel`] is fitted to a profile, and [`Predictor`] follows the IOs of a device with it: how much can be written until the buffer is
//! exhausted, and how long the device must be idle.
//!
//! [`imitate`] builds a simulated SSD from a profile.
//!
//! Measured quantities, and those that the paper leaves open: `docs/probe.md`.

mod buffer_model;
mod config;
mod device;
mod fill;
mod imitate;
mod load;
mod predictor;
mod prober;
mod profile;
mod script;
mod simulated;
mod task;

pub use buffer_model::{BufferModel, Rule};
pub use config::{Config, ConfigError};
pub use device::{Completion, Device, Io, IoKind, Step, drive};
pub use imitate::{ImitateError, Imitation, Likeness, imitate};
pub use predictor::{Predictor, Stretch};
pub use prober::{Entry, Prober, Progress, ResumeError};
pub use profile::{
    BufferTable, Cost, DegradedLatency, DeviceTable, Interference, Kind, Limit, LoadPoint, MetricsTable,
    Profile, ProfileError, ReadsDuringRecovery, RecoveryPoint, RecoveryTable, SwitchTable, VERSION,
};
pub use simulated::Simulated;
