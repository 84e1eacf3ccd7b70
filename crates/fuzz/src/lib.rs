//! Fuzz targets: what hostile bytes, hosts, files and orders of events do to the parts that meet them.
//!
//! A target is a function of bytes that panics if something does not hold. It takes the bytes as choices (`input`), so that
//! any input is a run, and a short change of the input a short change of the run.
//!
//! ```text
//!   regressions/TARGET/*  inputs that failed once ─┐
//!   corpus/TARGET/*       inputs worth keeping ────┼─► target ─► panic, or not
//!   seed ─► `generate` ── made or mutated ─────────┤
//!   libFuzzer (/fuzz, nightly) ── by coverage ─────┘
//! ```
//!
//! The first three run in every `make test` (`tests/short.rs`), the last in `make test-long` (`tests/fuzz.sh`).
//! docs/fuzzing.md says how to replay an input and how to add a target.

mod command;
mod config;
pub mod generate;
mod host_session;
mod input;
mod pdu;
mod policy;
mod pool;
mod server;
mod ssd;
mod subsystem;
mod target_session;
mod wire;

use std::path::PathBuf;

/// The subsystem that hosts connect to.
const SUBSYSTEM: &str = "nqn.2025-01.io.example:fuzz";

/// One thing that is fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folders.
    pub name: &'static str,
    /// What is done to what.
    pub about: &'static str,
    /// Runs one input; panics if something does not hold.
    pub run: fn(&[u8]),
    /// The longest input worth trying, in bytes.
    pub length_max: usize,
    /// Inputs made from seeds in a short run.
    pub short_runs: u64,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "pdu",
        about: "PDU framing: any bytes, and proper PDUs spoiled, both directions, all digests",
        run: pdu::run,
        length_max: 2048,
        short_runs: 20_000,
    },
    Target {
        name: "target_session",
        about: "the controller's end of a connection before a host that does anything",
        run: target_session::run,
        length_max: 1024,
        short_runs: 6_000,
    },
    Target {
        name: "host_session",
        about: "the host's end of a connection before a controller that does anything",
        run: host_session::run,
        length_max: 1024,
        short_runs: 6_000,
    },
    Target {
        name: "policy",
        about: "schedulers: every operation in any allowed order, any constants, any shares",
        run: policy::run,
        length_max: 2048,
        short_runs: 4_000,
    },
    Target {
        name: "subsystem",
        about: "NVMe commands of every opcode, by several hosts, while namespaces and connections come and go",
        run: subsystem::run,
        length_max: 2048,
        short_runs: 3_000,
    },
    Target {
        name: "config",
        about: "configuration files: any text, and good files edited",
        run: config::run,
        length_max: 8192,
        short_runs: 2_000,
    },
    Target {
        name: "ssd",
        about: "the SSD model: any commands at any instants",
        run: ssd::run,
        length_max: 512,
        short_runs: 15,
    },
    Target {
        name: "server",
        about: "a whole target over sockets: every command, broken protocol, hosts that leave",
        run: server::run,
        length_max: 1024,
        short_runs: 40,
    },
];

/// The target called `name`.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs one input on the target called `name`.
///
/// # Panics
/// If something does not hold, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("no target is called {name:?}"));
    (target.run)(bytes);
}

impl Target {
    /// Inputs worth keeping: they reach what others do not.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kept("corpus", self.name)
    }

    /// Inputs that failed once.
    pub fn regressions(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kept("regressions", self.name)
    }
}

/// The files of one folder, in the order of their names; none if there is no such folder.
fn kept(kind: &str, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), kind, name].iter().collect();
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}
