//! Snapshots of a namespace that a real Linux has a file system on, and writes to.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod disk;
mod linux;
mod pool;

use linux::{Kernel, Walk, process};
use pool::{NQN, Place, uuid};
use process::Process;
use std::time::Duration;

/// The size of a namespace, as XFS asks for 300 MiB.
const MIB: u64 = 512;

/// Each snapshot becomes a namespace, whose file system the host takes for one after a loss of power: what was synced before is in it, nothing
/// that was begun later is, and `xfs_repair` finds nothing.
fn snapshots(rounds: u32) {
    let place = Place::new("guest", MIB);
    let target = Process::start(&mut place.command());
    let mut guest = Walk::new(Kernel::Linux6_12, "snapshots", target.address(), NQN)
        .variable("ROUNDS", rounds)
        .limit(Duration::from_secs(7200))
        .start();
    for round in 1..=rounds {
        let nsid = round + 1;
        guest.wait_for(&format!("snapshot {round}"));
        println!("{round}: {}", place.done(&format!("snapshot create s{round} {NQN} 1")).trim());
        place.done(&format!(
            "add namespace {NQN} {nsid} device=pool size={MIB}M uuid={} wipe_on_remove=true origin=s{round}",
            uuid(nsid)
        ));
        guest.wait_for(&format!("remove {round}"));
        place.done(&format!("remove namespace {NQN} {nsid}"));
        place.done(&format!("snapshot delete pool s{round}"));
    }
    guest.finish();
}

#[test]
#[ignore = "minutes of emulation; run by make test-long"]
fn linux_finds_every_synced_file_in_fifty_snapshots() {
    snapshots(50);
}
