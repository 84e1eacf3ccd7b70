//! A volume by RDMA, with RocksDB's own programs and `gimbal volume`: two targets and their clients in one guest.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "common/built.rs"]
mod built;
#[path = "../../crates/gimbal/tests/linux/mod.rs"]
mod linux;
#[path = "common/plugin.rs"]
mod plugin;

use linux::{Kernel, Scratch, Walk};
use std::fs::File;
use std::path::Path;

/// Bytes of the second disk.
const DISK: u64 = 256 << 20;

#[test]
fn a_volume_keeps_files_and_databases_by_rdma() {
    built::gimbal();
    let scratch = Scratch::new("rdma-volumes");
    let disk = scratch.file("second-disk");
    File::create(&disk).expect("the folder is there").set_len(DISK).expect("a sparse file");
    let programs = ["/usr/bin/db_bench", "/usr/bin/ldb"].map(Path::new);
    for program in programs {
        assert!(
            program.exists(),
            "{} is missing (Debian: rocksdb-tools): run 'make test-deps'",
            program.display()
        );
    }
    Walk::by_rdma(Kernel::Linux6_12, "rdma-volumes", &scratch)
        .programs(&[&plugin::plugin(), programs[0], programs[1]], &scratch)
        .disk(&disk)
        .processors(2)
        .run();
}
