//! `gimbal ssdtest` on the block devices of a guest: a virtio disk, and an NVMe namespace that `gimbal serve` gives to the guest's kernel.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12};
use linux::process::{Process, serve};
use linux::{Guest, Kernel, Scratch, Walk};
use probe::{Kind, Profile};
use std::fs::File;

const SIZE: u64 = 256 << 20;
const NQN: &str = "nqn.2025-01.io.gimbal:ssd";

/// The profile of the disk that the guest calls `place`.
fn profile_of(guest: &mut Guest, place: &str) -> Profile {
    let mut text = String::new();
    loop {
        match guest.wait_for(&format!("{place}:")) {
            line if line == "# end" => break,
            line => text += &format!("{line}\n"),
        }
    }
    Profile::parse(&text, place).expect("what the guest wrote can be read")
}

fn probes_its_disks(kernel: Kernel) {
    let scratch = Scratch::new(&format!("ssdtest-{kernel:?}"));
    let [virtio, shared] = ["virtio", "shared"].map(|name| {
        let path = scratch.file(name);
        File::create(&path).and_then(|file| file.set_len(SIZE)).expect("sparse");
        path
    });
    let target = Process::start(serve(&["--log", "error", "--device"]).arg(&shared));
    let mut guest =
        Walk::serving(kernel, "ssdtest", &scratch).target(target.address(), NQN).disk(&virtio).start();
    for place in ["vda", "nvme"] {
        let profile = profile_of(&mut guest, place);
        assert!(profile.device.name.starts_with(&format!("/dev/{place}")), "{}", profile.device.name);
        assert_eq!(profile.device.capacity_mib, SIZE >> 20);
        assert!((1..=1024).contains(&profile.device.written_mib), "{} MiB", profile.device.written_mib);
        // IOs in flight when the time is over still complete.
        assert!(profile.device.took_s <= 60.0, "{} s", profile.device.took_s);
        for kind in [Kind::RandomRead, Kind::SequentialRead] {
            assert!(profile.cost.iter().any(|cost| cost.kind == kind && cost.ns > 0.0), "{place}: {kind}");
        }
    }
    guest.finish();
}

#[test]
#[ignore = "boots a guest that probes two disks, for minutes; run by `make test-long`"]
fn linux_6_1_probes_a_virtio_disk_and_an_nvme_namespace() {
    probes_its_disks(Linux6_1);
}

#[test]
#[ignore = "boots a guest that probes two disks, for minutes; run by `make test-long`"]
fn linux_6_12_probes_a_virtio_disk_and_an_nvme_namespace() {
    probes_its_disks(Linux6_12);
}
