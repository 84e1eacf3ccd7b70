//! Loop devices with file systems, for tests with disks in use. They need root, and fail without loop devices.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a command, which must succeed, and returns its output.
pub fn run(command: &str, arguments: &[&str]) -> String {
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

/// A loop device over a sparse file, and the commands that undo the test's changes to it; they run at the end, last
/// first.
pub struct Disk {
    pub folder: PathBuf,
    pub file: String,
    pub device: String,
    undo: Vec<(&'static str, Vec<String>)>,
}

impl Disk {
    /// A disk over a file of `mib` MiB.
    pub fn new(name: &str, mib: u64) -> Disk {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("mount")).expect("cargo's folder for tests is writable");
        let file = folder.join("file").to_str().expect("text").to_owned();
        File::create(&file).and_then(|file| file.set_len(mib << 20)).expect("a sparse file");
        let device = run("losetup", &["--find", "--show", &file]);
        let undo = vec![("losetup", vec!["--detach".to_owned(), device.clone()])];
        Disk { folder, file, device, undo }
    }

    pub fn mount_point(&self) -> String {
        self.folder.join("mount").to_str().expect("text").to_owned()
    }

    pub fn undo(&mut self, command: &'static str, arguments: &[&str]) {
        self.undo.push((command, arguments.iter().map(|argument| argument.to_string()).collect()));
    }

    pub fn undo_last(&mut self) {
        let (command, arguments) = self.undo.pop().expect("something was done");
        run(command, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub fn mount(&mut self, device: &str) {
        self.mount_as("ext4", device);
    }

    /// Makes a file system of a kind on `device`, and mounts it.
    pub fn mount_as(&mut self, kind: &str, device: &str) {
        await_unclaimed(device);
        run(&format!("mkfs.{kind}"), &["-q", device]);
        let at = self.mount_point();
        run("mount", &[device, &at]);
        self.undo("umount", &[&at]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for (command, arguments) in self.undo.drain(..).rev() {
            let path = "/usr/sbin:/sbin:/usr/bin:/bin";
            let began = Instant::now();
            let undone = || {
                let mut command = Command::new(command);
                let ended = command.args(&arguments).env("PATH", path).stderr(Stdio::null()).status();
                ended.is_ok_and(|status| status.success())
            };
            // The files of a process that was killed are closed a moment after it has ended.
            while !undone() && began.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Waits until no process has claimed `device`. A `losetup` of another test that looks for a free loop device claims
/// each one that it tries, and a process that ended may not have released its claim yet.
fn await_unclaimed(device: &str) {
    let began = Instant::now();
    let claim = || rustix::fs::open(device, OFlags::RDONLY | OFlags::EXCL, Mode::empty());
    while let Err(error) = claim() {
        assert!(began.elapsed() < Duration::from_secs(20), "{device} stays claimed: {error}");
        thread::yield_now();
    }
}
