//! `gimbal bench`: load over NVMe/TCP in fio's vocabulary, and what came back.
//!
//! ```text
//!   args ─► settings, options, job_file ─► collect ─► job (who asks for what) ─► run ─► drive (one thread, one engine) ─► results ─► table · json
//!                                                                      stream: workload (which IO), pace (when), pattern (what data)
//!                                                                      workload: blocks, distribution, random_map
//!                                                                      measure: histograms, time series
//! ```
//!
//! [`run()`] is for other commands too: it takes [`Job`]s, blocks, shows an [`Observer`] every interval, and gives [`Results`].

mod args;
mod blocks;
mod collect;
mod direction;
mod distribution;
mod drive;
mod due;
mod error;
#[cfg(test)]
mod fio_tests;
mod job;
mod job_file;
mod json;
mod latency_target;
mod measure;
mod observe;
mod options;
mod pace;
mod pattern;
mod place;
mod progress;
mod random_map;
mod results;
mod run;
mod settings;
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
    blocks::BlockSizes,
    direction::{DIRECTIONS, Direction, Rw},
    error::BenchError,
    job::{Amount, Extent, Job},
    measure::{Interval, Slice, Tally},
    observe::{Observer, Phase},
    pace::{Arrival, Pacing, Rate, Rates},
    results::JobResult,
    run::{Options, Target, run},
};
