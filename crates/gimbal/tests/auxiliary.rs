//! `gimbal serve` with an auxiliary store: killed with data in it, with a damaged log, with a failing device.
//!
//! The SSD is a file, and its profile says that its write buffer is tiny and slow once it is exhausted. So nearly all
//! writes of a busy client are diverted to the store.

#![cfg(target_os = "linux")]

mod process;
mod verify;

use host::RetryPolicy;
use probe::Profile;
use process::{Log, Process};
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use verify::Verifier;

const NQN: &str = "nqn.2025-01.io.example:auxiliary";
const TENANTS: u64 = 3;
const RETRY: RetryPolicy = RetryPolicy::Again { times: 3 };
const STORE_SIZE: u64 = 16 << 20;

/// A target with its files.
struct Bed {
    folder: PathBuf,
    address: SocketAddr,
    target: Option<(Process, Log)>,
}

impl Bed {
    fn new(name: &str, store: &str) -> Bed {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        // The port is free once this is dropped; the target listens on it again after each kill.
        let address =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr()).expect("a port");
        let bed = Bed { folder, address, target: None };
        fs::write(bed.file("profile.toml"), profile()).expect("writable");
        bed.configure("a", store);
        bed
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a configuration in which the target shares the file `ssd`.
    fn configure(&self, ssd: &str, store: &str) {
        let text = format!(
            "listen = [\"{}\"]\n[[device]]\nname = \"ssd\"\nkind = \"file\"\npath = {:?}\nsize = \"64M\"\ncreate = true\n\
             scheduler = \"none\"\n[device.ais]\nprofile = {:?}\n{store}\n\
             [[subsystem]]\nnqn = {NQN:?}\nallow_any_host = true\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"ssd\"\n",
            self.address,
            self.file(ssd),
            self.file("profile.toml"),
        );
        fs::write(self.file("gimbal.toml"), text).expect("writable");
    }

    fn in_a_log(name: &str, more: &str) -> Bed {
        let bed = Bed::new(name, "");
        bed.configure("a", &bed.log(more));
        bed
    }

    /// The lines of the configuration for a store in a log.
    fn log(&self, more: &str) -> String {
        format!("store = {:?}\nsize = {STORE_SIZE}\ncreate = true\n{more}", self.file("log"))
    }

    /// Starts the target, and returns the number of bytes found in the store, or `None` if the store is memory.
    fn start(&mut self) -> Option<String> {
        let mut command = process::gimbal();
        command.args(["serve", "--log", "info", "-c"]).arg(self.file("gimbal.toml"));
        let (process, mut log) = Process::start_with_log(&mut command);
        log.await_line("is open");
        let lines = log.saying("the auxiliary store is open");
        let pending = lines.first().and_then(|line| line.split("pending=").nth(1));
        let pending = pending.map(|text| text.split([' ', '\n']).next().unwrap_or_default().to_owned());
        self.target = Some((process, log));
        pending
    }

    fn kill(&mut self) {
        let (mut process, _log) = self.target.take().expect("it runs");
        process.kill();
    }

    /// Stops the target in order, and returns its log.
    fn stop(&mut self) -> Log {
        let (mut process, log) = self.target.take().expect("it runs");
        process.signal("-TERM");
        assert!(process.wait().success(), "an orderly end");
        log
    }

    /// The error of a target that must refuse to start.
    fn refusal(&self) -> String {
        let mut command = process::gimbal();
        let ended =
            command.args(["serve", "-c"]).arg(self.file("gimbal.toml")).output().expect("it was built");
        assert!(!ended.status.success(), "it must not start");
        String::from_utf8_lossy(&ended.stderr).into_owned()
    }

    fn clean_up(mut self) {
        self.target = None;
        fs::remove_dir_all(&self.folder).expect("ours");
    }
}

/// A drive with a buffer of 1 MiB that takes a minute to recover and writes 1 MB/s until then.
fn profile() -> String {
    let text = include_str!("../../../calibrations/probed/consumer-small.toml");
    let mut profile = Profile::parse(text, "built in").expect("a profile");
    let buffer = profile.buffer.as_mut().expect("it has one");
    (buffer.size_mib, buffer.exhausted_mb_per_s, buffer.steady_mb_per_s) = (1.0, 1.0, 1.0);
    let recovery = profile.recovery.as_mut().expect("it recovers");
    let share = 1.0 / recovery.point.iter().map(|point| point.recovered_mib).fold(0.0, f64::max);
    recovery.point.iter_mut().for_each(|point| {
        point.recovered_mib *= share;
        point.idle_ms *= 60.0;
    });
    recovery.time_to_90_percent_ms = recovery.time_to_90_percent_ms.map(|time| 60.0 * time);
    profile.to_toml()
}

/// Kills the target `kills` times, at points of the IO stream that the seed chooses.
fn killed(kills: u32, seed: u64) -> String {
    let mut bed = Bed::in_a_log(&format!("auxiliary-killed-{seed}"), "");
    bed.start();
    let mut verifier = Verifier::connect(bed.address, NQN, seed, TENANTS, RETRY);
    let mut with_data = 0;
    for kill in 0..kills {
        let ios = if verifier.draw(0..5) == 0 { verifier.draw(0..20) } else { verifier.draw(100..3000) };
        verifier.run(ios);
        verifier.expect_loss();
        bed.kill();
        let pending = bed.start().expect("a log");
        with_data += u32::from(pending != "0" && !pending.starts_with("0 "));
        if kill % 3 == 0 {
            verifier.sweep();
        }
    }
    verifier.run(500);
    verifier.sweep();
    bed.stop();
    let figures = verifier.figures();
    assert!(figures.flushes > 0 && figures.writes > 0, "{figures:?}");
    assert!(with_data * 2 > kills, "the store had data at {with_data} of {kills} kills");
    assert_eq!(figures.unflushed_and_gone, 0, "a log keeps what was answered from a kill: {figures:?}");
    bed.clean_up();
    format!(
        "{kills} kills, {with_data} with data in the store: {} reads, {} writes, {} flushes answered, {} without an answer, {} blocks \
         read back, {} unflushed writes gone",
        figures.reads,
        figures.writes,
        figures.flushes,
        figures.lost,
        figures.swept,
        figures.unflushed_and_gone
    )
}

#[test]
fn nothing_answered_is_lost_after_four_kills_with_data_in_the_store() {
    killed(4, 1);
}

#[test]
#[ignore = "200 kills of a target under load, minutes"]
fn nothing_answered_is_lost_after_200_kills_with_data_in_the_store() {
    for seed in [2, 3] {
        let figures = killed(100, seed);
        // Bypass the capture of test output: the figures are the purpose of the long tests.
        writeln!(std::io::stderr(), "kill -9 with an auxiliary store: {figures}").expect("stderr");
    }
}

#[test]
fn an_orderly_end_leaves_everything_on_the_ssd() {
    for in_memory in [false, true] {
        let mut bed = Bed::in_a_log(&format!("auxiliary-ended-{in_memory}"), "");
        if in_memory {
            bed.configure("a", "store = \"ram\"\nsize = \"16M\"");
        }
        bed.start();
        let mut verifier = Verifier::connect(bed.address, NQN, 5, TENANTS, RETRY);
        verifier.run(2000);
        verifier.settle();
        bed.stop();
        let text = fs::read_to_string(bed.file("gimbal.toml")).expect("ours");
        let (before, after) =
            (text.find("[device.ais]").expect("there"), text.find("[[subsystem]]").expect("there"));
        fs::write(bed.file("gimbal.toml"), [&text[..before], &text[after..]].concat()).expect("writable");
        let mut command = process::gimbal();
        command.args(["serve", "-c"]).arg(bed.file("gimbal.toml"));
        bed.target = Some(Process::start_with_log(&mut command));
        verifier.sweep();
        bed.clean_up();
    }
}

#[test]
fn a_failing_store_loses_nothing_and_the_target_goes_on() {
    for fault in [
        "kind = \"error\"\nop = \"write\"\nskip = 300",
        "kind = \"gone\"\nskip = 200",
        "kind = \"error\"\nop = \"flush\"\nskip = 3",
    ] {
        let mut bed = Bed::in_a_log("auxiliary-failing", "");
        bed.configure("a", &bed.log(&format!("[[device.ais.fault]]\n{fault}")));
        bed.start();
        let mut verifier = Verifier::connect(bed.address, NQN, 6, TENANTS, RETRY);
        verifier.run(4000);
        verifier.sweep();
        let mut log = bed.stop();
        log.await_end();
        assert_eq!(log.saying("the auxiliary store fails").len(), 1, "{fault}");
        // The SSD has all of it.
        fs::remove_file(bed.file("log")).expect("ours");
        bed.start();
        verifier.sweep();
        bed.stop();
        bed.clean_up();
    }
}

#[test]
fn a_start_without_the_log_that_has_data_is_refused() {
    let mut bed = Bed::in_a_log("auxiliary-without", "");
    bed.start();
    let mut verifier = Verifier::connect(bed.address, NQN, 9, TENANTS, RETRY);
    verifier.run(600);
    bed.kill();
    // A start that is refused changes nothing, so the data is still there at the end.
    fs::copy(bed.file("log"), bed.file("older")).expect("ours");
    let with_log = fs::read_to_string(bed.file("gimbal.toml")).expect("ours");
    verifier.expect_loss();
    bed.start();
    verifier.run(600);
    verifier.expect_loss();
    bed.kill();
    let refused = |bed: &Bed, why: &str| {
        let said = bed.refusal();
        assert!(said.contains("may have flushed data in the log") && said.contains(why), "{said}");
        assert!(said.contains("stop in order") && said.contains("remove "), "it says what to do: {said}");
        said
    };
    let whole = fs::read(bed.file("log")).expect("ours");
    // The table [device.ais] is removed from the configuration.
    let (before, after) =
        (with_log.find("[device.ais]").expect("there"), with_log.find("[[subsystem]]").expect("there"));
    fs::write(bed.file("gimbal.toml"), [&with_log[..before], &with_log[after..]].concat()).expect("writable");
    refused(&bed, "no log is configured");
    // The store is memory.
    bed.configure("a", "store = \"ram\"\nsize = \"16M\"");
    refused(&bed, "no log is configured");
    // The log is moved away, and a new one is created.
    bed.configure("a", &bed.log(""));
    fs::rename(bed.file("log"), bed.file("aside")).expect("ours");
    refused(&bed, "another one, a new one, or an older copy");
    // An older copy is put in its place.
    fs::copy(bed.file("older"), bed.file("log")).expect("ours");
    refused(&bed, "another one, a new one, or an older copy");
    // With the right log nothing is lost, and after an orderly stop it is not needed any more.
    fs::write(bed.file("log"), &whole).expect("ours");
    bed.start();
    verifier.sweep();
    verifier.run(600);
    verifier.settle();
    bed.stop();
    fs::remove_file(bed.file("log")).expect("ours");
    fs::write(bed.file("gimbal.toml"), [&with_log[..before], &with_log[after..]].concat()).expect("writable");
    let mut command = process::gimbal();
    command.args(["serve", "-c"]).arg(bed.file("gimbal.toml"));
    bed.target = Some(Process::start_with_log(&mut command));
    verifier.sweep();
    // After another kill, the data is discarded.
    bed.stop();
    bed.configure("a", &bed.log(""));
    bed.start();
    verifier.run(600);
    verifier.expect_loss();
    bed.kill();
    bed.configure("a", "store = \"ram\"\nsize = \"16M\"");
    let said = refused(&bed, "no log is configured");
    let note = said.trim_end().rsplit("remove ").next().expect("it names the note").trim().to_owned();
    fs::remove_file(&note).unwrap_or_else(|error| panic!("{note}: {error}"));
    bed.start();
    bed.stop();
    bed.clean_up();
}

#[test]
fn a_damaged_log_is_refused_and_left_alone() {
    let mut bed = Bed::in_a_log("auxiliary-damaged", "");
    bed.start();
    let mut verifier = Verifier::connect(bed.address, NQN, 7, 1, RETRY);
    verifier.run(600);
    verifier.expect_loss();
    bed.kill();
    let whole = fs::read(bed.file("log")).expect("ours");
    let file = File::options().write(true).open(bed.file("log")).expect("ours");
    // Some of the records are obsolete, and some were not flushed. So damage all of them: a damaged record that is
    // still needed must be found.
    let is_record = |block: &usize| &whole[block * 4096..][..8] == b"gimb-rec";
    let places: Vec<usize> =
        (4..whole.len() / 4096).filter(is_record).map(|block| block * 4096 + 100).collect();
    assert!(places.len() > 10, "{} records", places.len());
    for at in &places {
        file.write_all_at(&[!whole[*at]], *at as u64).expect("ours");
    }
    let said = bed.refusal();
    assert!(said.contains("is damaged at byte") && said.contains("Nothing was changed"), "{said}");
    file.write_all_at(&whole, 0).expect("ours");
    bed.start();
    verifier.sweep();
    bed.stop();
    bed.clean_up();
}

#[test]
fn a_log_of_another_ssd_and_what_is_no_log_are_refused() {
    let mut bed = Bed::in_a_log("auxiliary-other", "");
    bed.start();
    let mut verifier = Verifier::connect(bed.address, NQN, 8, 1, RETRY);
    verifier.run(600);
    verifier.expect_loss();
    bed.kill();
    bed.configure("b", &bed.log(""));
    let said = bed.refusal();
    assert!(said.contains("writes of another SSD"), "{said}");
    fs::write(bed.file("log"), vec![7; STORE_SIZE as usize]).expect("ours");
    let said = bed.refusal();
    assert!(said.contains("no log of this kind"), "{said}");
    // The SSD's own file, by another name.
    std::os::unix::fs::symlink(bed.file("a"), bed.file("c")).expect("ours");
    bed.configure("a", &format!("store = {:?}\nsize = {STORE_SIZE}", bed.file("c")));
    let said = bed.refusal();
    assert!(said.contains("a file or device of its own"), "{said}");
    bed.configure("a", "store = \"ram\"\nsize = \"1G\"");
    let said = bed.refusal();
    assert!(said.contains("is not between 4 MiB and 512 MiB"), "{said}");
    bed.clean_up();
}
