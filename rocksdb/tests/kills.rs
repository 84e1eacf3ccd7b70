//! The program, or a target, is killed. What was acknowledged must be there.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::program::Program;
use common::{is_whole, is_whole_after_a_crash, printed, rack as new_rack, run, uri, with_plugin};
use rack::Rack;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Instant;

/// Where `programs/promises.cc` has its database.
const DB: &str = "/promises";

/// What a write that was acknowledged without a sync survives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// `kill -9`.
    Wait,
    /// Nothing: the next sync covers it.
    Buffered,
}

/// `programs/promises.cc` syncs each operation whose number is a multiple of this.
const SYNC_EVERY: u64 = 5;

impl Flush {
    fn uri(self, rack: &Rack) -> String {
        match self {
            Flush::Wait => uri(rack),
            Flush::Buffered => format!("{}&flush=buffered", uri(rack)),
        }
    }

    fn promised(self, acknowledged: u64) -> u64 {
        match self {
            Flush::Wait => acknowledged,
            Flush::Buffered => acknowledged / SYNC_EVERY * SYNC_EVERY,
        }
    }
}

/// A running `promises`.
struct Database {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The last operation that was acknowledged.
    acknowledged: u64,
}

impl Database {
    /// Starts it. It has verified what it found when this returns.
    fn start(program: &Program, uri: &str, acknowledged: u64) -> Database {
        let mut command = program.command();
        command.arg(uri).arg(acknowledged.to_string()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it was compiled");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut database = Database { child, lines, acknowledged };
        let Some(line) = database.lines.next() else {
            let mut said = String::new();
            let _ = database.child.stderr.take().expect("piped").read_to_string(&mut said);
            panic!("{said}");
        };
        let line = line.expect("readable");
        let found = line.strip_prefix("verified ").and_then(|found| found.parse().ok());
        database.acknowledged = found.unwrap_or_else(|| panic!("{line}"));
        database
    }

    /// Waits until so many operations more have been acknowledged.
    fn work(&mut self, operations: u64) {
        let until = self.acknowledged + operations;
        while self.acknowledged < until {
            let line = self.lines.next().expect("the database ended by itself").expect("readable");
            self.acknowledged = line.parse().expect("a number");
        }
    }

    /// Waits until an operation fails. It must end by itself then, and say why. Answers the last operation that it has acknowledged.
    fn fail(mut self) -> u64 {
        for line in self.lines {
            self.acknowledged = line.expect("readable").parse().expect("a number");
        }
        let mut said = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let status = self.child.wait().expect("our own child");
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("IO error") && said.contains("neither copy can be reached"), "{said}");
        self.acknowledged
    }

    /// Kills it (SIGKILL). Answers the last operation that it has acknowledged.
    fn kill(mut self) -> u64 {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
        for line in self.lines {
            let line = line.expect("readable");
            // The last line may be cut off: then it is a smaller number.
            self.acknowledged = self.acknowledged.max(line.parse().unwrap_or(0));
        }
        self.acknowledged
    }
}

/// Verifies the database once more, without writing.
fn verify(program: &Program, rack: &Rack, acknowledged: u64) {
    let output = program.command().arg(uri(rack)).arg(acknowledged.to_string()).arg("verify").output();
    let output = output.expect("it was compiled");
    assert!(output.status.success(), "{}\n{}", output.status, printed(&output));
}

/// Kills the database at random points. Each time, what it finds must be what a number of operations have made, and no
/// operation that was acknowledged may be missing.
fn kill_databases(kills: u64, seed: u64, flush: Flush) -> String {
    let rack = new_rack(&format!("rocksdb-kills-{seed}"));
    let program = Program::with_plugin("promises");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut promised, mut lost, mut beyond) = (0, 0, 0);
    let mut acknowledged = 0;
    let began = Instant::now();
    for kill in 1..=kills {
        let mut database = Database::start(&program, &flush.uri(&rack), promised);
        beyond += u64::from(database.acknowledged > acknowledged);
        lost += acknowledged.saturating_sub(database.acknowledged);
        // Sometimes in the middle of the recovery's own work.
        database.work(random.random_range(0..600));
        acknowledged = database.kill();
        promised = flush.promised(acknowledged);
        if kill.is_multiple_of(20) {
            is_whole_after_a_crash(&rack, DB);
        }
    }
    verify(&program, &rack, promised);
    is_whole(&rack, DB);
    let scrubbed = rack.ask(&["volume", "scrub", rack::VOLUME]);
    assert!(scrubbed.contains(" 0 corrupt"), "{scrubbed}");
    format!(
        "{kills} kills of a database: {acknowledged} operations acknowledged, {lost} lost of those that were not promised; {beyond} times one \
         more was there, in {:.1?}",
        began.elapsed()
    )
}

#[test]
fn a_killed_database_has_all_that_was_acknowledged() {
    kill_databases(8, 1, Flush::Wait);
}

#[test]
fn a_killed_database_with_buffered_flushes_has_all_that_was_synced() {
    kill_databases(4, 4, Flush::Buffered);
}

#[test]
#[ignore = "long: 200 kills of a database"]
fn two_hundred_killed_databases_have_all_that_was_acknowledged() {
    let figures = kill_databases(200, 2, Flush::Wait);
    writeln!(std::io::stderr(), "{figures}").expect("stderr");
}

#[test]
fn a_database_of_db_bench_is_whole_after_kills() {
    let rack = new_rack("rocksdb-kills-bench");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    for (benchmark, is_there) in [("fillrandom", 0), ("overwrite", 1)] {
        let fs = format!("--fs_uri={}", uri(&rack));
        let mut command = with_plugin("db_bench");
        command.args([&fs, "--db=/bench", "--num=100000000"]);
        command.args(["--write_buffer_size=65536", "--target_file_size_base=65536"]);
        command.args([format!("--benchmarks={benchmark}"), format!("--use_existing_db={is_there}")]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("rocksdb-tools");
        // It says now and then how many operations it has done.
        let mut said = Vec::new();
        let bytes = random.random_range(500..1200);
        child.stderr.take().expect("piped").take(bytes).read_to_end(&mut said).expect("readable");
        assert_eq!(said.len() as u64, bytes, "db_bench ended by itself: {}", String::from_utf8_lossy(&said));
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        is_whole_after_a_crash(&rack, "/bench");
    }
}

#[test]
fn a_database_works_on_while_one_target_is_away_and_needs_either_one_after_a_repair() {
    let mut rack = new_rack("rocksdb-targets");
    let program = Program::with_plugin("promises");
    let mut database = Database::start(&program, &uri(&rack), 0);
    database.work(300);
    rack.targets[0].kill();
    database.work(500);
    rack.targets[0].restart();
    database.work(300);
    let acknowledged = database.kill();
    verify(&program, &rack, acknowledged);
    rack.ask(&["volume", "repair", rack::VOLUME]);
    for away in [1, 0] {
        rack.targets[away].kill();
        verify(&program, &rack, acknowledged);
        rack.targets[away].restart();
        rack.ask(&["volume", "repair", rack::VOLUME]);
    }
    is_whole(&rack, DB);

    for target in &mut rack.targets {
        target.kill();
    }
    let fs = format!("--fs_uri={}", uri(&rack));
    let output = run("ldb", &[&fs, "--db=/promises", "checkconsistency"]);
    assert!(output.status.code().is_some_and(|code| code > 0), "{}", output.status);
    assert!(printed(&output).contains("neither copy can be reached"), "{}", printed(&output));
}

#[test]
fn a_database_without_any_target_gets_errors_and_has_all_that_was_acknowledged_when_they_are_back() {
    let mut rack = new_rack("rocksdb-no-target");
    let program = Program::with_plugin("promises");
    let mut database = Database::start(&program, &uri(&rack), 0);
    database.work(300);
    for target in &mut rack.targets {
        target.kill();
    }
    let acknowledged = database.fail();
    for target in &mut rack.targets {
        target.restart();
    }
    verify(&program, &rack, acknowledged);
    is_whole_after_a_crash(&rack, DB);
}
