//! NVMe SSDs (QEMU's) are served in all supported ways, by the binary under test within the guest.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::Linux6_12;
use linux::{Kernel, Scratch, Walk};
use std::fs::File;

const SIZE: u64 = 64 << 20;

/// Reads of the first sector of the second MiB fail.
const BROKEN: &str = r#"
[inject-error]
event = "read_aio"
errno = "5"
sector = "2048"
"#;

fn serves_an_ssd(kernel: Kernel) {
    let scratch = Scratch::new(&format!("ssd-{kernel:?}"));
    let disk = |number: u32| {
        let path = scratch.file(&format!("n{number}"));
        File::create(&path).and_then(|file| file.set_len(SIZE)).expect("sparse");
        path.display().to_string()
    };
    let rules = scratch.file("broken");
    std::fs::write(&rules, BROKEN).expect("written");
    let broken = format!("blkdebug:{}:{}", rules.display(), disk(5));
    let zones = ",zoned=on,zoned.zone_size=4M,zoned.zone_capacity=4M";
    Walk::serving(kernel, "ssd", &scratch)
        .ssd(disk(1), ",logical_block_size=512")
        .ssd(disk(2), ",logical_block_size=4096,physical_block_size=4096")
        .ssd(disk(3), ",logical_block_size=512")
        .ssd(disk(4), ",logical_block_size=4096,physical_block_size=4096")
        .ssd(broken, ",logical_block_size=4096,physical_block_size=4096")
        .ssd(disk(6), ",ms=8")
        .ssd(disk(7), zones)
        .run();
}

#[test]
#[ignore = "boots a guest that serves and uses five devices, for minutes; run by `make test-long`"]
fn linux_6_12_serves_an_nvme_ssd_polled_and_by_commands() {
    serves_an_ssd(Linux6_12);
}
