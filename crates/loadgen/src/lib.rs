//! The load generator behind `gimbal bench`: jobs with fio's options, over NVMe/TCP.
//!
//! ```text
//!   settings, options, job_file ─► collect ─► job ─► run ─► drive (one thread, one engine) ─► results ─► table · json
//!
//!   drive     stream: workload (which IO), pace (when), pattern (what data)
//!   workload  blocks, distribution, random_map
//!   measure   histograms, time series
//! ```
//!
//! [`run()`] takes [`Job`]s, blocks, calls an [`Observer`] every interval, and returns [`Results`]. [`Flags`] and [`collect()`] make
//! jobs of fio's options, from a command line and from job files.

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
mod memory;
mod observe;
mod options;
mod pace;
mod pattern;
mod permutation;
mod place;
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

pub use {
    blocks::BlockSizes,
    collect::{Collected, collect, time},
    direction::{DIRECTIONS, Direction, Rw},
    error::BenchError,
    job::{Amount, Extent, Job},
    json::render as to_json,
    measure::{Interval, Slice, Tally},
    observe::{Observer, Phase},
    pace::{Arrival, Pacing, Rate, Rates},
    results::{JobResult, Results},
    run::{Options, Target, run},
    settings::{Flags, SettingError, Settings},
    table::render as to_table,
};
