//! Tests the walks themselves on the kernel's own target: they must expect only what Linux's target gives.
//!
//! If a walk fails here, the walk is wrong. Restarts and reservations are not tested: a guest that ends loses its RAM
//! disks, and the
//! targets of these kernels have no reservations.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12};
use linux::{KERNEL_NQN, Kernel, Walk};
use std::net::SocketAddr;

fn walks_on_a_kernel_target(target: Kernel, host: Kernel) {
    let mut guest = Walk::kernel_target(target).start();
    let address: SocketAddr = guest.wait_for("forward ").parse().expect("an address");
    guest.wait_for("target ready");
    for name in ["commands", "block", "connections", "filesystem"] {
        Walk::new(host, name, address, KERNEL_NQN).variable("KERNEL_TARGET", "yes").processors(2).run();
    }
    guest.cut_off();
}

#[test]
#[ignore = "judges the walks, not the target: for when they change"]
fn linux_6_1_walks_on_linux_6_12() {
    walks_on_a_kernel_target(Linux6_12, Linux6_1);
}

#[test]
#[ignore = "judges the walks, not the target: for when they change"]
fn linux_6_12_walks_on_linux_6_1() {
    walks_on_a_kernel_target(Linux6_1, Linux6_12);
}
