//! Disks in use are not shared, unless `force` is set. The tests use real loop devices, file systems, swap and the device mapper.
//!
//! They need root, and fail without loop devices. Not every kernel has a device mapper; without one, its test prints that it was
//! skipped.

mod process;

use process::{Process, serve};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command, which must succeed, and returns what it printed.
fn run(command: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(command).args(arguments).env("PATH", path).output();
    let output =
        output.unwrap_or_else(|error| panic!("{command}: {error}: tests/install-deps.sh installs it"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{command} {arguments:?}: {said}(these tests need root and loop devices)"
    );
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

/// A loop device over a file of 64 MiB, and the commands that undo what a test did with it; they run at the end, last first.
struct Disk {
    folder: PathBuf,
    file: String,
    device: String,
    undo: Vec<(&'static str, Vec<String>)>,
}

impl Disk {
    fn new(name: &str) -> Disk {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("in-use-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("mount")).expect("cargo's folder for tests is writable");
        let file = folder.join("file").to_str().expect("text").to_owned();
        File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("a sparse file");
        let device = run("losetup", &["--find", "--show", &file]);
        let undo = vec![("losetup", vec!["--detach".to_owned(), device.clone()])];
        Disk { folder, file, device, undo }
    }

    fn mount_point(&self) -> String {
        self.folder.join("mount").to_str().expect("text").to_owned()
    }

    fn undo(&mut self, command: &'static str, arguments: &[&str]) {
        self.undo.push((command, arguments.iter().map(|argument| argument.to_string()).collect()));
    }

    fn undo_last(&mut self) {
        let (command, arguments) = self.undo.pop().expect("something was done");
        run(command, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn mount(&mut self, device: &str) {
        await_unclaimed(device);
        run("mkfs.ext4", &["-q", device]);
        let at = self.mount_point();
        run("mount", &[device, &at]);
        self.undo("umount", &[&at]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (command, arguments) in self.undo.drain(..).rev() {
            let path = "/usr/sbin:/sbin:/usr/bin:/bin";
            let _ = Command::new(command).args(arguments).env("PATH", path).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until nobody has claimed `device`. A `losetup` of another test that looks for a free loop device claims each that it tries,
/// and a process that ended may still be giving up what it had.
fn await_unclaimed(device: &str) {
    let began = Instant::now();
    let claim = || rustix::fs::open(device, OFlags::RDONLY | OFlags::EXCL, Mode::empty());
    while let Err(error) = claim() {
        assert!(began.elapsed() < Duration::from_secs(20), "{device} stays claimed: {error}");
        thread::yield_now();
    }
}

/// The target refuses `device`, and names its user.
fn refuses(device: &str, by: &str) {
    let output = serve(&["--device", device]).output().expect("the binary was built");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let expected = format!("--device: {device}: is in use: {by}");
    assert!(said.contains(&expected), "{expected:?} is not in:\n{said}");
    assert!(said.contains(
        "; end that first; to share it all the same, at the risk of destroying what is on it: --force"
    ));
}

fn serves(arguments: &[&str]) {
    let mut target = Process::start(&mut serve(arguments));
    target.signal("-TERM");
    assert!(target.wait().success());
}

#[test]
fn a_mounted_disk_is_refused_unless_forced() {
    let mut disk = Disk::new("mounted");
    serves(&["--device", &disk.device]);
    disk.mount(&disk.device.clone());
    let by = format!("{} is mounted on {}", disk.device, disk.mount_point());
    refuses(&disk.device, &by);
    let forced = ["--device", &disk.device, "--force"];
    let (mut target, mut log) = Process::start_with_log(&mut serve(&forced));
    log.await_line("the device is in use, and is shared as the configuration forces it");
    target.signal("-TERM");
    assert!(target.wait().success());
    disk.undo_last();
    serves(&["--device", &disk.device]);
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused() {
    let mut disk = Disk::new("partition");
    // The kernel is told directly, because not every kernel reads partition tables.
    run("addpart", &[&disk.device, "1", "2048", "65536"]);
    disk.undo("delpart", &[&disk.device.clone(), "1"]);
    let partition = format!("{}p1", disk.device);
    disk.mount(&partition);
    let by = format!("{partition} is mounted on {}", disk.mount_point());
    refuses(&disk.device, &by);
    refuses(&partition, &by);
    disk.undo_last();
    serves(&["--device", &partition]);
}

#[test]
fn swap_is_refused() {
    let mut disk = Disk::new("swap");
    run("mkswap", &[&disk.device]);
    run("swapon", &[&disk.device]);
    disk.undo("swapoff", &[&disk.device.clone()]);
    refuses(&disk.device, &format!("{} is swap", disk.device));
}

#[test]
fn a_disk_under_a_mapped_device_is_refused() {
    if !Path::new("/sys/class/misc/device-mapper").exists() {
        eprintln!(
            "NOT TESTED: this kernel has no device mapper (the test of `device::in_use` reads a made-up /sys)"
        );
        return;
    }
    let mut disk = Disk::new("mapper");
    let name = format!("gimbal-test-{}", std::process::id());
    run("dmsetup", &["create", &name, "--table", &format!("0 65536 linear {} 0", disk.device)]);
    disk.undo("dmsetup", &["remove", "--retry", &name]);
    refuses(&disk.device, &format!("it is part of /dev/mapper/{name}"));
}

#[test]
fn a_disk_that_another_target_shares_is_refused_and_the_process_is_named() {
    let disk = Disk::new("target");
    let target = Process::start(&mut serve(&["--device", &disk.device]));
    refuses(&disk.device, &format!("process {} (gimbal) has it open", target.id()));
}

#[test]
fn a_file_under_a_loop_device_is_refused_unless_forced() {
    let mut disk = Disk::new("file");
    refuses(&disk.file, &format!("it backs {}", disk.device));
    serves(&["--device", &disk.file, "--force"]);
    disk.undo_last();
    serves(&["--device", &disk.file]);
}
