//! Fuzz targets: parts of the project that must withstand hostile bytes, hosts, files and orders of events.
//!
//! A target is a function of bytes that panics if a check fails. It uses the bytes as choices (`input`), so
//! that every input is a valid run, and a small change of the input is a small change of the run.
//!
//! ```text
//!   regressions/TARGET/*  inputs that failed once ─┐
//!   corpus/TARGET/*       inputs worth keeping ────┼─► target ─► panic, or not
//!   seed ─► `generate` ── random or mutated ───────┤
//!   libFuzzer (/fuzz, nightly) ── by coverage ─────┘
//! ```
//!
//! The first three run in every `make test` (`tests/short.rs`), the last in `make test-long`
//! (`tests/fuzz.sh`). docs/fuzzing.md says how to replay an input and how to add a target.

mod auth_messages;
mod client_hello;
mod command;
mod config;
pub mod generate;
mod host_session;
mod input;
mod pdu;
mod peers;
mod policy;
mod pool;
mod queue_pair;
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
    /// Its name, which is also the name of its folders.
    pub name: &'static str,
    /// What is tested, with what inputs.
    pub about: &'static str,
    /// Runs one input; panics if a check fails.
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
        about: "PDU framing: any bytes, and valid PDUs with one byte changed, both directions, all digests",
        run: pdu::run,
        length_max: 2048,
        short_runs: 20_000,
    },
    Target {
        name: "target_session",
        about: "the controller's end of a connection facing a host that may do anything",
        run: target_session::run,
        length_max: 1024,
        short_runs: 6_000,
    },
    Target {
        name: "host_session",
        about: "the host's end of a connection facing a controller that may do anything",
        run: host_session::run,
        length_max: 1024,
        short_runs: 6_000,
    },
    Target {
        name: "policy",
        about: "stations with any scheduler: every operation in any allowed order, any constants, any shares",
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
        about: "configuration files: any text, and edited valid files",
        run: config::run,
        length_max: 8192,
        short_runs: 2_000,
    },
    Target {
        name: "ssd",
        about: "the SSD model: any commands at any times",
        run: ssd::run,
        length_max: 512,
        short_runs: 15,
    },
    Target {
        name: "server",
        about: "a whole target over sockets: every command, protocol violations, hosts that disconnect",
        run: server::run,
        length_max: 1024,
        short_runs: 40,
    },
    Target {
        name: "auth_messages",
        about: "DH-HMAC-CHAP: any bytes and any messages of a peer without a key, in any order, to a controller and to a host",
        run: auth_messages::run,
        length_max: 1024,
        short_runs: 20_000,
    },
    Target {
        name: "client_hello",
        about: "the first message of TLS: any bytes, right and wrong keys, bytes changed, any records, any pieces",
        run: client_hello::run,
        length_max: 1024,
        short_runs: 10_000,
    },
    Target {
        name: "queue_pair",
        about: "the controller's end of a queue pair of RDMA, and private data, from a host that may do anything",
        run: queue_pair::run,
        length_max: 1024,
        short_runs: 10_000,
    },
];

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Runs one input on the target with this name.
///
/// # Panics
/// If a check fails, or there is no such target.
pub fn run(name: &str, bytes: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no target {name:?}"));
    (target.run)(bytes);
}

impl Target {
    /// Inputs worth keeping: they reach code that the others do not.
    pub fn corpus(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kept("corpus", self.name)
    }

    /// Inputs that failed once.
    pub fn regressions(&self) -> Vec<(PathBuf, Vec<u8>)> {
        kept("regressions", self.name)
    }
}

/// The files of one folder, sorted by name; none if the folder does not exist.
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
