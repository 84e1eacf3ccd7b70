//! `gimbal ssdtest` in its own process: on simulated SSDs, on a file of this machine, and on loop devices (which need root).

mod disk;
mod process;

use disk::{Disk, run};
use process::{Process, gimbal};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output};

/// A folder for the results of a test.
struct Scratch(PathBuf);

impl Scratch {
    /// In cargo's folder: the usual folder for temporary files may be in memory.
    fn new(name: &str) -> Scratch {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("ssdtest-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        Scratch(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("text").to_owned()
    }

    /// The command for a probe with its results in this folder.
    fn ssdtest(&self, arguments: &[&str]) -> Command {
        let mut command = gimbal();
        command.arg("ssdtest").args(arguments).args(["--out", &self.path("out")]);
        command
    }

    /// Runs a probe, which must succeed. Returns its JSON object and its messages.
    fn probe(&self, arguments: &[&str]) -> (Value, String) {
        let output = self.ssdtest(arguments).arg("--json").output().expect("the binary was built");
        let said = text(output.stderr);
        assert!(output.status.success(), "{said}");
        (serde_json::from_slice(&output.stdout).expect("one JSON object"), said)
    }

    /// Runs a probe, which must fail with all these texts.
    fn refuses(&self, arguments: &[&str], expected: &[&str]) {
        let Output { status, stdout, stderr } =
            self.ssdtest(arguments).output().expect("the binary was built");
        let said = text(stderr);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(stdout.is_empty(), "a refusal is no result");
        for expected in expected {
            assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {value}"))
}

fn notes(result: &Value) -> String {
    result.pointer("/profile/device/notes").expect("always there").to_string()
}

/// The built-in profile has an SLC cache of 2 GiB.
fn has_the_cache_of_consumer_slc(result: &Value) {
    let size = number(result, "/profile/buffer/size_mib");
    assert!((size / 2048.0 - 1.0).abs() < 0.05, "{size} MiB");
}

#[test]
fn a_simulated_profile_is_probed_and_its_cache_is_found() {
    let scratch = Scratch::new("simulated");
    let (result, said) = scratch.probe(&["simulated:consumer-slc", "--quick"]);
    has_the_cache_of_consumer_slc(&result);
    assert!(number(&result, "/profile/metrics/write_amplification") >= 1.0, "the model tells");
    assert!(number(&result, "/profile/metrics/steady_write_mb_per_s") > 0.0);
    assert!(said.contains("a simulated SSD of 16 GiB, in virtual time"), "{said}");
    assert!(said.contains("writes at most 64.0 GiB"), "{said}");
    assert!(!said.contains("DESTROYED"), "nothing real is: {said}");
    let file = result.pointer("/files/profile").and_then(Value::as_str).expect("a path");
    let profile = probe::Profile::load(file.as_ref()).expect("what was written can be read");
    assert_eq!(profile.device.name, "simulated:consumer-slc");
    let report = result.pointer("/files/report").and_then(Value::as_str).expect("a path");
    assert!(fs::read_to_string(report).expect("written").contains("The end of the write buffer"));
    assert_eq!(profile.buffer.expect("found").size_mib, number(&result, "/profile/buffer/size_mib"));
}

#[test]
fn a_profile_becomes_an_ssd_that_a_probe_finds_to_be_the_same() {
    let scratch = Scratch::new("imitate");
    let (original, _) = scratch.probe(&["simulated:consumer-slc", "--quick"]);
    let device = scratch.path("out/profile.toml");
    let ssd = scratch.path("ssd.toml");
    let output =
        gimbal().args(["lab", "imitate", &device, "--out", &ssd]).output().expect("the binary was built");
    let said = text(output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("reads keep beside sequential writes"), "{said}");
    let (imitation, _) = scratch.probe(&[&ssd, "--quick"]);
    for number_of in
        ["/profile/buffer/size_mib", "/profile/buffer/exhausted_mb_per_s", "/profile/limit/2/iops"]
    {
        let (wanted, found) = (number(&original, number_of), number(&imitation, number_of));
        assert!((found / wanted - 1.0).abs() < 0.1, "{number_of}: {found} instead of {wanted}");
    }
    let output = gimbal().args(["lab", "imitate", &ssd]).output().expect("the binary was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).contains("is not valid"), "an SSD's profile is no device profile");
}

#[test]
fn a_profile_in_a_file_is_simulated_and_the_file_stays_as_it_is() {
    let scratch = Scratch::new("own");
    let path = scratch.path("own.toml");
    let text = ssd::Profile::named("array").expect("built in").to_toml();
    fs::write(&path, &text).expect("room");
    let (result, _) = scratch.probe(&[&path, "--quick", "--read-only"]);
    assert_eq!(fs::read_to_string(&path).expect("still there"), text);
    assert_eq!(number(&result, "/profile/device/written_mib"), 0.0);
    assert!(result.pointer("/profile/buffer").is_none());
}

#[test]
fn an_interrupted_probe_is_continued_to_a_complete_profile() {
    let scratch = Scratch::new("interrupted");
    let device = "simulated:consumer-slc";
    for signal in ["-INT", "-TERM"] {
        let resume: &[&str] = if signal == "-INT" { &[] } else { &["--resume"] };
        let (mut process, mut log) = Process::start_unheard(scratch.ssdtest(&[device]).args(resume));
        log.await_line(if signal == "-INT" { "task 3:" } else { "written, task" });
        process.signal(signal);
        log.await_line("with --resume continues");
        assert_eq!(process.wait().code(), Some(if signal == "-INT" { 130 } else { 143 }));
        assert!(!scratch.0.join("out/profile.toml").exists(), "there is no result yet");
    }
    scratch.refuses(&[device], &["an interrupted probe left its journal here", "--resume"]);
    scratch.refuses(&[device, "--resume", "--quick"], &["other options (overwrites", "takes at most 60 min"]);
    scratch.refuses(&["simulated:dct983", "--resume"], &["it is of another device"]);
    let before = fs::read_to_string(scratch.path("out/journal.jsonl")).expect("kept");
    let (result, _) = scratch.probe(&[device, "--resume"]);
    has_the_cache_of_consumer_slc(&result);
    let after = fs::read_to_string(scratch.path("out/journal.jsonl")).expect("kept");
    assert!(after.starts_with(&before), "what was found is not asked again");
    // A complete probe does not need the device any more.
    let (again, said) = scratch.probe(&[device, "--resume"]);
    assert_eq!(again, result);
    assert!(!said.contains("task 1:"), "{said}");
}

#[test]
fn a_file_is_made_filled_and_probed_within_the_limits() {
    let scratch = Scratch::new("file");
    let path = scratch.path("device");
    let limits = ["--size", "256m", "--quick", "--writes", "1g", "--time", "10s"];
    scratch.refuses(&[&path, "--quick"], &["does not exist", "--size 8G"]);
    let (result, said) = scratch.probe(&[&[path.as_str()], &limits[..]].concat());
    for expected in [
        "a file of 256 MiB; the page cache is bypassed",
        "writes at most 1.0 GiB (4.00 of its capacity); takes at most 1 min",
        "256 MiB of the file are written once",
        "ALL DATA ON",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    assert!(number(&result, "/profile/device/written_mib") <= 1024.0);
    assert!(number(&result, "/profile/device/took_s") <= 11.0);
    assert!(number(&result, "/profile/limit/0/iops") > 0.0);
    assert!(result.pointer("/profile/metrics/write_amplification").is_none(), "a file does not tell");
    // 256 MiB is less than one search needs, so something is left out, and the profile says so.
    assert!(
        notes(&result).contains("not measured") || notes(&result).contains("incomplete"),
        "{}",
        notes(&result)
    );
    assert!(!notes(&result).contains("read as zeros"), "it was filled");
    // A file that a probe has written may be overwritten by a probe; other contents may not.
    scratch.probe(&[&[path.as_str()], &limits[..]].concat());
    fs::write(&path, vec![7; 256 << 20]).expect("room");
    scratch.refuses(
        &[&[path.as_str()], &limits[..]].concat(),
        &["a file with contents that no probe wrote", "--force"],
    );
    assert_eq!(fs::read(&path).expect("there"), vec![7; 256 << 20], "a refusal writes nothing");
    scratch.probe(&[&path, "--read-only", "--quick", "--time", "10s"]);
    assert_eq!(fs::read(&path).expect("there"), vec![7; 256 << 20], "nor does --read-only");
}

#[test]
fn a_file_system_is_not_destroyed() {
    let scratch = Scratch::new("mkfs");
    let path = scratch.path("image");
    File::create(&path).and_then(|file| file.set_len(256 << 20)).expect("a sparse file");
    run("mkfs.ext4", &["-q", &path]);
    let before = fs::read(&path).expect("readable");
    scratch.refuses(&[&path, "--quick"], &["carries an ext2, ext3 or ext4 file system", "--force"]);
    assert!(fs::read(&path).expect("readable") == before, "a refusal writes nothing");
    run("mkswap", &[&path]);
    scratch.refuses(&[&path, "--quick"], &["carries swap"]);
}

#[test]
fn a_disk_in_use_is_refused_and_its_user_named() {
    let scratch = Scratch::new("in-use");
    let mut disk = Disk::new("ssdtest", 256);
    let device = disk.device.clone();
    disk.mount(&device);
    let by = format!("is in use: {device} is mounted on {}", disk.mount_point());
    scratch.refuses(&[&device, "--quick"], &[&by, "--force"]);
    scratch.refuses(&[&device, "--quick", "--read-only"], &[&by]);
    disk.undo_last();
    scratch.refuses(&[&device, "--quick"], &["carries an ext2, ext3 or ext4 file system"]);
    let (result, said) = scratch.probe(&[&device, "--quick", "--read-only", "--time", "10s"]);
    assert!(said.contains("a block device of 256 MiB"), "{said}");
    assert!(notes(&result).contains("read as zeros"), "most of it was never written: {}", notes(&result));
    // A target that uses the device keeps a probe from it; so would another probe.
    let target = Process::start(&mut process::serve(&["--device", &device]));
    scratch.refuses(&[&device, "--quick", "--force"], &["is locked by another process"]);
    scratch.refuses(&[&device, "--quick"], &[&format!("process {} (gimbal) has it open", target.id())]);
}

#[test]
fn a_namespace_of_a_target_is_probed_and_a_lost_target_is_no_lost_probe() {
    let scratch = Scratch::new("remote");
    let image = scratch.path("image");
    File::create(&image).and_then(|file| file.set_len(256 << 20)).expect("a sparse file");
    run("mkfs.ext4", &["-q", &image]);
    let start = || {
        let target = Process::start(&mut process::serve(&["--log", "error", "--device", &image]));
        let name = format!("nvme://{}/nqn.2025-01.io.gimbal:ssd", target.address());
        (target, name)
    };
    let (mut target, device) = start();
    let limits = ["--quick", "--writes", "1g", "--time", "10s"];
    let refuses = |device: &str, expected: &str| {
        scratch.refuses(&[&[device], &limits[..]].concat(), &[expected]);
    };
    refuses(&device, "carries an ext2, ext3 or ext4 file system");
    refuses(&format!("{device}/7"), "there is no namespace 7, but 1");
    refuses(&format!("{device}x"), "nqn.2025-01.io.gimbal:ssdx");
    let named = format!("{device}/1");
    let arguments = [&[named.as_str(), "--force"], &limits[..]].concat();
    let (mut process, mut log) = Process::start_unheard(&mut scratch.ssdtest(&arguments));
    log.await_line("it carries an ext2, ext3 or ext4 file system, which is destroyed now, as --force says");
    log.await_line("task 3:");
    target.kill();
    log.await_line("the connection was lost");
    assert_eq!(process.wait().code(), Some(1));
    // At another address it still is the same namespace.
    let (_target, device) = start();
    let (result, said) = scratch.probe(&[&[device.as_str(), "--force", "--resume"], &limits[..]].concat());
    assert!(said.contains("namespace 1 of 256 MiB over NVMe/TCP"), "{said}");
    assert!(!said.contains("task 1:"), "what was found is kept: {said}");
    assert!(notes(&result).contains("latencies include the network and the target"));
    assert!(number(&result, "/profile/limit/0/iops") > 0.0);
}

#[test]
fn what_cannot_be_probed_is_said_with_what_to_do() {
    let scratch = Scratch::new("wrong");
    let simulated = "simulated:dct983";
    for (arguments, expected) in [
        (&["simulated:no-such-ssd"][..], "the built-in profiles are dct983"),
        (&["nfs://somewhere/disk"], "nfs:// is not known"),
        (
            &["nvme://127.0.0.1/nqn.2025-01.io.gimbal:ssd"],
            "DEVICE 127.0.0.1 is not an address; write HOST:PORT",
        ),
        (&["nvme://127.0.0.1:1/nqn.2025-01.io.gimbal:ssd"], "the target cannot be used"),
        (&["/dev/null"], "is a character device, not a regular file"),
        (&["/dev/no-such-disk"], "does not exist"),
        (&[simulated, "--size", "10m"], "needs at least 256 MiB"),
        (&[simulated, "--size", "1t"], "less than --size"),
        (&[simulated, "--time", "1s"], "allow at least 10.00 s"),
        (&[simulated, "--writes", "1m"], "allow at least 1 GiB"),
        (&[simulated, "--resume"], "there is no journal"),
    ] {
        scratch.refuses(arguments, &[expected]);
    }
    for wrong in
        [&["--quick"][..], &[simulated, "--writes", "2g", "--read-only"], &[simulated, "--time", "5"]]
    {
        let output = scratch.ssdtest(wrong).output().expect("the binary was built");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_folder_or_a_journal_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new("unwritable");
    fs::write(scratch.path("taken"), "a file").expect("room");
    let output = gimbal()
        .args(["ssdtest", "simulated:dct983", "--quick", "--out", &scratch.path("taken")])
        .output()
        .expect("the binary was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stderr).contains("taken cannot be made"));
    // The disk becomes full while the journal grows: a file system of four pages.
    let out = scratch.path("out");
    fs::create_dir(&out).expect("room");
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "none", &out]);
    let mounted = Mounted(&out);
    scratch.refuses(
        &["simulated:dct983", "--quick"],
        &["journal.jsonl cannot be written", "--resume", "No space left on device"],
    );
    drop(mounted);
}

/// A mount that is unmounted on drop.
struct Mounted<'a>(&'a str);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}
