//! The behaviour of every subcommand when its output goes to a closed pipe or a full disk.
//!
//! The reading end of the pipe is closed before the command starts, so nothing here depends on timing.

mod process;

use process::{Process, gimbal, serve};
use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// An experiment that ends at once.
const TINY: &str = r#"
title = "A reader"
source = "made up"
about = "As short as it can be."
profiles = ["dct983"]
seeds = [5]
warm_up = "5ms"
duration = "20ms"
interval = "5ms"
alone = ["2ms", "5ms"]
schedulers = ["none"]

[[case]]
name = "one"
condition = "clean"
groups = [{ name = "reader", count = 1, rw = "randread", bs = "4k", iodepth = 4 }]
"#;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("gimbal-output-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a scratch folder");
        fs::write(path.join("tiny.toml"), TINY).expect("there is room");
        Scratch(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("the folder's name is text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the leftover in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The writing end of a pipe without a reader.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

/// A file on which every write fails with a full disk.
fn full_disk() -> File {
    OpenOptions::new().write(true).open("/dev/full").expect("Linux has a full disk to try things on")
}

/// Every subcommand that prints a result, on `target` where it needs one.
fn commands(scratch: &Scratch, target: &Process) -> Vec<Vec<String>> {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gimbal.toml");
    let (tiny, report) = (scratch.path("tiny.toml"), scratch.path("report"));
    let state = scratch.path("state");
    let address = target.address().to_string();
    let probe = ["ssdtest", "simulated:array", "--quick", "--out", &report];
    let bench = ["bench", "--addr", &address, "--rw", "read", "--size", "1m"];
    [
        &["--help"][..],
        &["--version"],
        &["bench", "--help"],
        &["completions", "bash"],
        &["completions", "zsh"],
        &["completions", "fish"],
        &["config", "check", example],
        &["state", "check", "--state-dir", &state],
        &["state", "show", "--state-dir", &state],
        &["state", "show", "--json", "--state-dir", &state],
        &["lab", "list"],
        &["lab", "list", "--json"],
        &["lab", "run", &tiny],
        &["lab", "run", &tiny, "--json", "-"],
        &["lab", "claims", &tiny],
        &["lab", "report", &tiny, "--out", &report],
        &["lab", "scale", "--tenants", "1", "--span", "1ms", "--rounds", "1"],
        &["lab", "scale", "--tenants", "1", "--span", "1ms", "--rounds", "1", "--json"],
        &probe,
        &[&probe[..], &["--json"]].concat(),
        &bench,
        &[&bench[..], &["--json", "-"]].concat(),
    ]
    .iter()
    .map(|words| words.iter().map(|word| word.to_string()).collect())
    .collect()
}

fn null_target() -> Process {
    Process::start(&mut serve(&["--log", "error", "--device", "null"]))
}

fn run(words: &[String], stdout: Stdio) -> Output {
    let mut command = gimbal();
    command.args(words).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    command.spawn().and_then(std::process::Child::wait_with_output).expect("the binary was built")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_command_ends_quietly_when_nobody_reads_what_it_prints() {
    let (scratch, target) = (Scratch::new("pipe"), null_target());
    for words in commands(&scratch, &target) {
        let output = run(&words, closed_pipe());
        let said = said(&output);
        assert!(output.status.success(), "{words:?} ended with {}:\n{said}", output.status);
        for word in ["panicked", "Broken pipe", "cannot be written"] {
            assert!(!said.contains(word), "{words:?} is not quiet:\n{said}");
        }
    }
}

#[test]
fn every_command_fails_and_says_why_when_its_output_goes_to_a_full_disk() {
    let (scratch, target) = (Scratch::new("full"), null_target());
    for words in commands(&scratch, &target) {
        let output = run(&words, full_disk().into());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}:\n{said}");
        assert!(!said.contains("panicked"), "{words:?}:\n{said}");
        assert!(said.contains("No space left on device"), "{words:?} does not say why:\n{said}");
    }
}

#[test]
fn every_command_works_without_standard_error() {
    let (scratch, target) = (Scratch::new("complaints"), null_target());
    for words in commands(&scratch, &target) {
        for stderr in [closed_pipe(), full_disk().into()] {
            let mut command = gimbal();
            command.args(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
            let status = command.status().expect("the binary was built");
            assert!(status.success(), "{words:?} ended with {status}");
        }
    }
    let unknown = |stderr: Stdio| gimbal().arg("sing").stderr(stderr).status().expect("the binary was built");
    for stderr in [closed_pipe(), full_disk().into()] {
        assert_eq!(unknown(stderr).code(), Some(2), "a mistake is a mistake whether or not it can be said");
    }
}

#[test]
fn a_file_that_does_not_fit_is_an_error_that_names_it() {
    let (scratch, target) = (Scratch::new("file"), null_target());
    let (tiny, report, address) =
        (scratch.path("tiny.toml"), scratch.path("report"), target.address().to_string());
    let bench = ["bench", "--addr", &address, "--rw", "read", "--size", "1m", "--json", "/dev/full"];
    let report_folder = PathBuf::from(&report);
    fs::create_dir_all(report_folder.join("figures")).expect("there is room");
    std::os::unix::fs::symlink("/dev/full", report_folder.join("records.jsonl")).expect("a new name");
    let commands: [&[&str]; 4] = [
        &bench,
        &["lab", "run", &tiny, "--json", "/dev/full"],
        &["lab", "claims", &tiny, "--keep", "/dev/full"],
        &["lab", "report", &tiny, "--out", &report],
    ];
    for words in commands {
        let output = gimbal().args(words).stdin(Stdio::null()).output().expect("the binary was built");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}:\n{said}");
        assert!(said.contains("No space left on device"), "{words:?} does not say why:\n{said}");
        let name = if words.contains(&"report") { "records.jsonl" } else { "/dev/full" };
        assert!(said.contains(name), "{words:?} does not say what could not be written:\n{said}");
    }
}

#[test]
fn a_target_serves_whether_or_not_its_address_can_be_printed() {
    // The test cannot read a port that the system chooses, because stdout is broken. So it uses one that was free a moment ago.
    let free = || std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    for stdout in [closed_pipe(), full_disk().into()] {
        let address = free().to_string();
        let mut command = gimbal();
        command.args(["serve", "--device", "null", "--listen", &address, "--log", "info"]);
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::null()).spawn();
        let mut child = Ended(child.expect("the binary was built"));
        while std::net::TcpStream::connect(&address).is_err() {
            let ended = child.0.try_wait().expect("our own child");
            assert!(ended.is_none(), "the target has ended with {ended:?}");
            std::thread::yield_now();
        }
        let killed = Command::new("kill").args(["-TERM", &child.0.id().to_string()]).status();
        assert!(killed.expect("kill(1) is everywhere").success());
        assert!(child.0.wait().expect("our own child").success());
    }
}

/// A process that is killed when the test ends.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Takes twenty seconds: the demo runs three schedulers, each after a warm-up.
#[test]
#[ignore = "twenty seconds of demo; run by `make test-long`"]
fn the_demo_writes_its_report_whether_or_not_anybody_reads_the_summary() {
    let scratch = Scratch::new("demo");
    for (stdout, code) in [(closed_pipe(), 0), (full_disk().into(), 1)] {
        let report = scratch.path("demo.html");
        let words = ["demo", "--seconds", "2", "--report", &report].map(str::to_owned);
        let output = run(&words, stdout);
        let said = said(&output);
        assert!(output.status.code() == Some(code) && !said.contains("panicked"), "{said}");
        let page = fs::read_to_string(&report).expect("the report was written");
        assert!(page.trim_end().ends_with("</html>"), "the report is not whole");
        fs::remove_file(&report).expect("it was there");
    }
    let words = ["demo", "--seconds", "2", "--report", "/dev/full"].map(str::to_owned);
    let output = run(&words, Stdio::null());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("/dev/full cannot be written: No space left"), "{}", said(&output));
}

#[test]
fn an_impossible_request_fails_before_the_work_and_says_what_to_do() {
    let scratch = Scratch::new("before");
    let report = scratch.path("demo.html");
    for (words, says) in [
        (
            &["demo", "--report", "/no-such-folder/x.html"][..],
            "/no-such-folder/x.html cannot be written: No such file or directory (os error 2); name another place with --report",
        ),
        (
            &["demo", "--report", &report, "--json", "/no-such-folder/x"],
            "/no-such-folder/x cannot be written",
        ),
        (&["lab", "run", "--json", "/no-such-folder/x"], "/no-such-folder/x cannot be written"),
        (
            &["lab", "calibrate", "--profile", "dct983", "--out", "/no-such-folder/x"],
            "/no-such-folder/x cannot be written",
        ),
        (
            &["lab", "calibrate", "--profile", "floppy"],
            "there is no device profile \"floppy\"; the built-in profiles are ",
        ),
        (&["lab", "run", "floppy"], "there is no experiment floppy; `gimbal lab list` shows"),
        (&["bench", "--json", "/no-such-folder/x"], "/no-such-folder/x cannot be written"),
        (&["bench", "--addr", "nowhere"], "--addr nowhere is not an address; write HOST:PORT"),
        (&["bench", "no-such-file.fio"], "cannot read the job file no-such-file.fio: No such file"),
    ] {
        let output = gimbal().args(words).stdin(Stdio::null()).output().expect("the binary was built");
        let said = said(&output);
        assert!(
            output.status.code() == Some(1) && said.contains(says),
            "{words:?} ended with {}:\n{said}",
            output.status
        );
        assert_eq!(said.lines().count(), 1, "{words:?} says more than is wrong:\n{said}");
    }
    assert!(!PathBuf::from(report).exists(), "nothing was done, and nothing is left behind");
}
