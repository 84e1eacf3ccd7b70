//! Real Linux hosts use the target by RDMA: the walks that they take by TCP, over a device of software. Host and target are in one guest.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12};
use linux::{Kernel, Scratch, Walk};

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
