//! `gimbal bench`: load over NVMe/TCP in fio's vocabulary, and what came back.
//!
//! ```text
//!   args ──► job (who asks for what) ──► run ──► drive (one thread, one engine) ──► results ──► table · json
//!                                                  stream: workload (which IO), pace (when), pattern (what data)
//!                                                  measure: histograms, time series
//! ```
//!
//! [`run()`] is for other commands too: it takes [`Job`]s, blocks, shows an [`Observer`] every interval, and gives [`Results`].

mod args;
mod drive;
mod due;
mod error;
mod job;
mod json;
mod measure;
mod observe;
mod pace;
mod pattern;
mod place;
mod progress;
mod results;
mod run;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod workload;
mod written;

pub(crate) use args::{Args, run_command};
pub(crate) use results::Results;
#[allow(
    unused_imports,
    reason = "what a command that drives loads in code needs, whether one does or not"
)]
pub(crate) use {
    error::BenchError,
    job::Job,
    measure::{Interval, Slice, Tally},
    observe::{Observer, Phase},
    pace::{Arrival, Rate},
    results::JobResult,
    run::{Options, Target, run},
    workload::{Direction, Rw},
};
