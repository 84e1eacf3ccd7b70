//! Disks and files that are replaced by others, with real loop devices, mounts and FIFOs: they need root.

#![cfg(target_os = "linux")]

mod disk;
mod process;

use disk::{Disk, run};
use process::{Log, Process, gimbal, serve};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Starts a target with one device, by a configuration in the folder of `disk`. `more` are further lines of the device.
fn start(disk: &Disk, device: &str, more: &str) -> (Process, Log) {
    let config = disk.folder.join("gimbal.toml");
    fs::write(&config, text(device, more)).expect("the folder is writable");
    let mut command = gimbal();
    Process::start_with_log(command.args(["serve", "--log", "info", "-c"]).arg(config))
}

fn text(device: &str, more: &str) -> String {
    format!(
        "listen = [\"127.0.0.1:0\"]\n[[device]]\nname = \"ssd\"\n{device}\n{more}\n[[subsystem]]\nnqn = \"nqn.2025-01.io.example:replaced\"\n\
         allow_any_host = true\n[[subsystem.namespace]]\nnsid = 1\ndevice = \"ssd\"\n"
    )
}

fn stop(mut target: Process) {
    target.signal("-TERM");
    assert!(target.wait().success(), "an orderly end");
}

/// Whether a load of this kind succeeds.
fn succeeds(target: &Process, rw: &str) -> bool {
    let address = target.address().to_string();
    let output = gimbal().args(["bench", "--addr", &address, "--rw", rw, "--size", "1m"]).output();
    output.expect("the binary was built").status.success()
}

#[test]
fn a_reload_is_refused_while_a_link_leads_to_another_disk() {
    let (one, other) = (Disk::new("link-one", 32), Disk::new("link-other", 64));
    let link = one.folder.join("by-id");
    symlink(&one.device, &link).expect("a link");
    let (target, mut log) = start(&one, &format!("kind = \"block\"\npath = {link:?}"), "");
    log.await_line("the device is open");
    fs::remove_file(&link).expect("it is there");
    symlink(&other.device, &link).expect("a link");
    target.signal("-HUP");
    log.await_line("is now another file or disk than the one that is served");
    assert!(succeeds(&target, "randread"), "the old disk is served on");
    fs::remove_file(&link).expect("it is there");
    symlink(&one.device, &link).expect("a link");
    target.signal("-HUP");
    log.await_line("the configuration was reloaded");
    stop(target);
}

#[test]
fn a_write_protected_disk_is_served_read_only() {
    let mut disk = Disk::new("protected", 32);
    disk.undo_last();
    let device = run("losetup", &["--find", "--show", "--read-only", &disk.file]);
    disk.undo("losetup", &["--detach", &device]);
    let (target, mut log) = start(&disk, &format!("kind = \"block\"\npath = {device:?}"), "");
    log.await_line("cannot be written and is served read-only");
    assert!(succeeds(&target, "randread") && !succeeds(&target, "randwrite"));
    stop(target);
    let writable = text(&format!("kind = \"block\"\npath = {device:?}"), "read_only = false");
    let config = disk.folder.join("gimbal.toml");
    fs::write(&config, writable).expect("the folder is writable");
    let output = gimbal().args(["serve", "-c"]).arg(config).output().expect("the binary was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("the device is write-protected"), "{said}");
}

#[test]
fn a_file_on_a_read_only_mount_is_served_read_only() {
    let mut disk = Disk::new("mount", 64);
    disk.mount(&disk.device.clone());
    let image = Path::new(&disk.mount_point()).join("image");
    fs::write(&image, vec![7; 4 << 20]).expect("the file system is writable");
    run("mount", &["-o", "remount,ro", &disk.mount_point()]);
    let image = image.to_str().expect("a plain path").to_owned();
    let (target, mut log) = Process::start_with_log(&mut serve(&["--device", &image, "--log", "info"]));
    log.await_line("cannot be written and is served read-only");
    assert!(succeeds(&target, "randread") && !succeeds(&target, "randwrite"));
    stop(target);
}

#[test]
fn a_removed_file_is_warned_about() {
    let disk = Disk::new("removed", 32);
    let image = disk.folder.join("image");
    fs::write(&image, vec![7; 4 << 20]).expect("the folder is writable");
    let (target, mut log) = start(&disk, &format!("kind = \"file\"\npath = {image:?}"), "");
    log.await_line("the device is open");
    fs::remove_file(&image).expect("it is there");
    log.await_line("the file was removed: it is served on without a name");
    stop(target);
}

#[test]
fn what_is_no_file_stops_no_reload_and_no_end() {
    let disk = Disk::new("fifo", 32);
    let config = disk.folder.join("gimbal.toml");
    let (target, mut log) = start(&disk, "kind = \"null\"\nsize = \"1G\"", "");
    log.await_line("the device is open");
    fs::remove_file(&config).expect("it is there");
    run("mkfifo", &[config.to_str().expect("a plain path")]);
    target.signal("-HUP");
    log.await_line("it is a FIFO, and only regular files are read");
    fs::remove_file(&config).expect("it is there");
    symlink("/dev/zero", &config).expect("a link");
    target.signal("-HUP");
    log.await_line("it is a character device, and only regular files are read");
    stop(target);
}
