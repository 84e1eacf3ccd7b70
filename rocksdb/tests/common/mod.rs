//! RocksDB's own programs with the plug-in loaded, on a volume of real targets.

// Each test binary uses a part of this.
#![allow(dead_code)]

pub(crate) mod built;
mod plugin;
pub(crate) mod program;
pub(crate) mod tap;

pub(crate) use plugin::plugin;

use crate::rack::{Rack, VOLUME};
use std::process::{Command, Output};

/// Options of a URI for tests: a client that was killed is soon forgotten.
const OPTIONS: &str = "ttl=1500ms&quarantine=3s&lock_patience=60s&io_timeout=2s&patience=5s";

/// A rack of two targets with a volume.
pub(crate) fn rack(name: &str) -> Rack {
    built::gimbal();
    let rack = Rack::new(name, 2);
    rack.create();
    rack
}

/// The URI of the rack's volume.
pub(crate) fn uri(rack: &Rack) -> String {
    format!("gimbal://{VOLUME}?store={}&{OPTIONS}", rack.store())
}

/// A program with the plug-in loaded.
pub(crate) fn with_plugin(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", plugin()).env_remove("GIMBAL_STORE");
    command
}

/// All that a program printed.
pub(crate) fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program with the plug-in.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    let output = with_plugin(program).args(arguments).output();
    output.unwrap_or_else(|error| panic!("{program} (Debian: rocksdb-tools): {error}"))
}

/// Runs a program with the plug-in on the volume. What it printed, if it succeeded.
pub(crate) fn ask(rack: &Rack, program: &str, arguments: &[&str]) -> String {
    let fs = format!("--fs_uri={}", uri(rack));
    let output = run(program, &[&[fs.as_str()], arguments].concat());
    let text = printed(&output);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}", output.status);
    text
}

/// Asserts that a database is whole, as far as RocksDB's own tools can tell.
pub(crate) fn is_whole(rack: &Rack, db: &str) {
    let db_option = format!("--db={db}");
    let checked = ask(rack, "ldb", &[&db_option, "checkconsistency"]);
    assert!(checked.lines().any(|line| line == "OK"), "{checked}");
    verify_tables(rack, db);
}

/// As `is_whole`, after a crash: opening the database for writing removes the tables that were not finished.
pub(crate) fn is_whole_after_a_crash(rack: &Rack, db: &str) {
    ask(rack, "ldb", &[&format!("--db={db}"), "checkconsistency"]);
    ask(rack, "ldb", &[&format!("--db={db}"), "compact"]);
    is_whole(rack, db);
}

/// Asserts that all checksums in the tables of a database are right. Answers how many tables there are.
pub(crate) fn verify_tables(rack: &Rack, db: &str) -> usize {
    let verified = ask(rack, "sst_dump", &[&format!("--file={db}"), "--command=verify"]);
    let (tables, fine) = (verified.matches("Process ").count(), verified.matches("The file is ok").count());
    assert_eq!(tables, fine, "{verified}");
    tables
}
