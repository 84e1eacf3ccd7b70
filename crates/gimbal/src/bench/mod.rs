//! `gimbal bench`: a load generator over NVMe/TCP with fio's options.
//!
//! ```text
//!   args ─► settings, options, job_file ─► collect ─► job ─► run ─► drive (one thread, one engine) ─► results ─► table · json
//!
//!   drive     stream: workload (which IO), pace (when), pattern (what data)
//!   workload  blocks, distribution, random_map
//!   measure   histograms, time series
//! ```
//!
//! Other commands use [`run()`] too: it takes [`Job`]s, blocks, calls an [`Observer`] every interval, and returns [`Results`].

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
    reason = "the interface for commands that build their load in code, also the parts that none uses now"
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
