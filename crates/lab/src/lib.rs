//! The lab: every scheduler on the same simulated SSDs and workloads, compared with the claims of the papers.
//!
//! ```text
//!  experiment.toml ─► Experiment ─► Plan: worlds ─► runner (all cores) ─► Findings: one Record per run
//!                          │                                                   │
//!                          └── claims, figures ────────────────────────────────┴─► rows, plots, report
//! ```
//!
//! Everything runs in virtual time. The same experiment and seeds give the same records, byte by byte (`tests/repeatable.rs`), also on
//! one core, in debug and in release builds (`tests/reproducible.sh` of the workspace).
//!
//! Reading order: [`experiment`] (the data of an experiment), [`plan`] (the worlds it needs), [`runner`], [`measure`]
//! (the saved results of a run), [`claims`] (the papers' claims, and whether they hold here), [`figure`] (the
//! drawings), [`report`] (everything on one page); [`judge`] draws SSDs and mixes at random; [`racks`] has databases on
//! many SSDs.

pub mod calibrate;
pub mod claims;
pub mod experiment;
pub mod figure;
pub mod findings;
pub mod judge;
#[cfg(test)]
mod made_up;
pub mod measure;
pub mod plan;
pub mod racks;
pub mod record;
pub mod report;
pub mod runner;
pub mod scale;
pub mod scheduler;
pub mod sensitivity;
pub mod ssds;

pub use experiment::{Experiment, ExperimentError};
pub use findings::{Findings, run};
