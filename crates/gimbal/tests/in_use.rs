//! Disks in use are not shared, unless `force` is set. The tests use real loop devices, file systems, swap and the device mapper.
//!
//! They need root, and fail without loop devices. Not every kernel has a device mapper; without one, its test prints that it was
//! skipped.

mod disk;
mod process;

use disk::run;
use process::{Process, serve};
use std::path::Path;

/// A disk that is large enough for a target.
fn new_disk(name: &str) -> disk::Disk {
    disk::Disk::new(&format!("in-use-{name}"), 64)
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
    let mut disk = new_disk("mounted");
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
    let mut disk = new_disk("partition");
    // Add the partition by a call to the kernel, because not every kernel reads partition tables.
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
    let mut disk = new_disk("swap");
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
    let mut disk = new_disk("mapper");
    let name = format!("gimbal-test-{}", std::process::id());
    run("dmsetup", &["create", &name, "--table", &format!("0 65536 linear {} 0", disk.device)]);
    disk.undo("dmsetup", &["remove", "--retry", &name]);
    refuses(&disk.device, &format!("it is part of /dev/mapper/{name}"));
}

#[test]
fn a_disk_that_another_target_shares_is_refused_and_the_process_is_named() {
    let disk = new_disk("target");
    let target = Process::start(&mut serve(&["--device", &disk.device]));
    refuses(&disk.device, &format!("process {} (gimbal) has it open", target.id()));
}

#[test]
fn a_file_under_a_loop_device_is_refused_unless_forced() {
    let mut disk = new_disk("file");
    refuses(&disk.file, &format!("it backs {}", disk.device));
    serves(&["--device", &disk.file, "--force"]);
    disk.undo_last();
    serves(&["--device", &disk.file]);
}
