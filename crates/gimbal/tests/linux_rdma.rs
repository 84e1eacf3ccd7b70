//! Real Linux hosts use the target by RDMA: the walks that they take by TCP, over a device of software. Our initiator uses the target, and the kernel's own. Host
//! and target are in one guest.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12};
use linux::{Kernel, Scratch, Walk};
use std::{env, fs};

/// Runs a walk by RDMA.
fn walk(kernel: Kernel, name: &str, with: impl FnOnce(Walk) -> Walk) {
    let scratch = Scratch::new(&format!("rdma-{name}-{kernel:?}"));
    with(Walk::by_rdma(kernel, name, &scratch)).run();
}

#[test]
fn linux_6_1_keeps_a_file_system_by_rdma() {
    walk(Linux6_1, "filesystem", |walk| walk);
}

#[test]
fn linux_6_12_keeps_a_file_system_over_two_queues_by_rdma() {
    walk(Linux6_12, "filesystem", |walk| walk.processors(2));
}

#[test]
fn linux_6_12_has_every_command_answered_by_rdma() {
    walk(Linux6_12, "commands", |walk| walk);
}

#[test]
fn linux_6_1_discards_zeroes_compares_and_is_refused_past_the_end_by_rdma() {
    walk(Linux6_1, "block", |walk| walk);
}

#[test]
fn linux_6_1_continues_after_the_target_was_killed_and_started_by_rdma() {
    walk(Linux6_1, "restart", |walk| walk);
}

#[test]
fn linux_6_12_continues_after_the_target_was_killed_and_started_by_rdma() {
    walk(Linux6_12, "restart", |walk| walk);
}

#[test]
fn linux_6_1_connects_in_every_way_by_rdma() {
    walk(Linux6_1, "connections", |walk| walk.processors(2));
}

#[test]
fn linux_6_12_hosts_reserve_a_namespace_by_rdma() {
    walk(Linux6_12, "reservations", |walk| walk.kernel_argument("nvme_core.multipath=N"));
}

#[test]
fn linux_6_12_sees_namespaces_added_changed_and_removed_by_rdma() {
    walk(Linux6_12, "reload", |walk| walk);
}

#[test]
fn linux_6_12_discovers_proves_itself_and_loses_its_device_by_rdma() {
    alone(Linux6_12);
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_discovers_proves_itself_and_loses_its_device_by_rdma() {
    alone(Linux6_1);
}

/// Runs the walk of everything that there is by RDMA alone.
fn alone(kernel: Kernel) {
    let scratch = Scratch::new(&format!("rdma-alone-{kernel:?}"));
    let file = scratch.file("key");
    let made = linux::process::gimbal().args(["key", "gen"]).arg(&file).status();
    assert!(made.expect("the binary under test").success());
    let key = fs::read_to_string(file).expect("just made");
    Walk::by_rdma(kernel, "rdma", &scratch).variable("KEY", key.trim()).run();
}

#[test]
fn linux_6_12_has_a_path_by_each_of_two_devices_and_loses_one() {
    two_devices(Linux6_12);
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_has_a_path_by_each_of_two_devices_and_loses_one() {
    two_devices(Linux6_1);
}

/// Runs the walk of two devices. One of them is on a link without another end.
fn two_devices(kernel: Kernel) {
    let sockets = Scratch::for_sockets(&format!("devices-{kernel:?}"));
    walk(kernel, "rdma-devices", |walk| walk.link(&sockets, 1));
}

#[test]
fn strangers_that_break_the_rules_of_rdma_take_nothing_from_others() {
    let scratch = Scratch::new("rdma-strangers");
    let built = env::current_exe().expect("this test has a path");
    let strangers = built.ancestors().nth(2).expect("it lies in deps").join("examples/rdma_strangers");
    assert!(strangers.exists(), "there is no {}: run all tests of the package", strangers.display());
    Walk::by_rdma(Linux6_12, "rdma-strangers", &scratch).programs(&[&strangers], &scratch).run();
}

#[test]
fn tenants_share_an_ssd_by_rdma() {
    let scratch = Scratch::new("rdma-shares");
    Walk::by_rdma(Linux6_12, "rdma-shares", &scratch).processors(2).run();
}

#[test]
fn our_initiator_uses_our_target_and_that_of_linux_6_12_by_rdma() {
    walk(Linux6_12, "rdma-bench", |walk| walk.processors(2));
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn our_initiator_uses_our_target_and_that_of_linux_6_1_by_rdma() {
    walk(Linux6_1, "rdma-bench", |walk| walk);
}
