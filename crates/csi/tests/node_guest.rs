//! Both halves of the driver in a guest that is the node: its own nvme-cli, udev, blkid, mkfs and mount, with a target outside. Then csi-sanity there.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod bed;
// It has the processes that the bed has, too.
#[allow(clippy::duplicate_mod)]
#[path = "../../gimbal/tests/linux/mod.rs"]
mod linux;

use bed::{Bed, csi_sanity};
use linux::{Kernel, Scratch, Walk};
use std::path::Path;
use std::time::Duration;

/// The subsystem of no volume: each has one of its own.
const NQN: &str = "nqn.2025-01.io.gimbal:csi";

fn walk(kernel: Kernel, name: &str) {
    let sanity = csi_sanity();
    let scratch = Scratch::new(&format!("node-{name}"));
    let bed = Bed::remote(&format!("node-{name}"));
    // Cargo builds the examples of a package with its tests, next to them.
    let call = std::env::current_exe().expect("this test").with_file_name("../examples/call");
    let mut guest = Walk::new(kernel, "csi-node", bed.address(), NQN)
        .programs(&[Path::new(env!("CARGO_BIN_EXE_gimbal-csi")), &call], &scratch)
        .file(&sanity, "/gimbal/csi-sanity")
        .file(&bed.folder.join("token"), "/gimbal/token")
        .variable("ADMIN_PORT", bed.admin_address().port())
        .limit(Duration::from_secs(7200))
        .start();
    guest.wait_for("stop the target");
    bed.signal_target("-STOP");
    guest.wait_for("go on");
    bed.signal_target("-CONT");
    println!("{}", guest.wait_for("Ran "));
    println!("{}", guest.wait_for("--- in all:"));
    guest.finish();
    assert!(bed.files().is_empty(), "{:?}", bed.files());
}

#[test]
#[ignore = "minutes of emulation, and builds csi-sanity with Go; run by make test-long"]
fn a_node_with_debian_12_uses_volumes() {
    walk(Kernel::Linux6_1, "bookworm");
}

#[test]
#[ignore = "minutes of emulation, and builds csi-sanity with Go; run by make test-long"]
fn a_node_with_debian_13_uses_volumes() {
    walk(Kernel::Linux6_12, "trixie");
}
