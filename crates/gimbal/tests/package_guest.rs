//! The life of the Debian package in a guest that is a whole Debian 12 with systemd; the binary in it is the one under test.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::{Scratch, Walk};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sizes of the guest's root file system and of the disk that is shared.
const SIZES: [(&str, u64); 2] = [("root", 4 << 30), ("shared", 256 << 20)];

/// Packs the binary as this version.
fn package(scratch: &Scratch, version: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/deb.sh");
    let mut pack = Command::new(script);
    pack.args([env!("CARGO_BIN_EXE_gimbal"), version])
        .env("GIMBAL_DIST", scratch.file(""))
        .env("GIMBAL_DEB_LEVEL", "0");
    let output = pack.output().expect("bash is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}

#[test]
#[ignore = "boots a whole Debian, for ten minutes on a busy machine; run by `make test-long`"]
fn the_package_is_installed_upgraded_under_load_refused_and_purged() {
    let scratch = Scratch::new("package");
    let [root, shared] = SIZES.map(|(name, size)| {
        let path = scratch.file(name);
        File::create(&path).and_then(|file| file.set_len(size)).expect("sparse");
        path
    });
    let (old, new) = (package(&scratch, "0.0.9"), package(&scratch, env!("CARGO_PKG_VERSION")));
    let mut guest = Walk::debian("package", &root)
        .variable("NEW", env!("CARGO_PKG_VERSION"))
        .file(&old, "/packages/old.deb")
        .file(&new, "/packages/new.deb")
        .disk(&shared)
        .start();
    for disk in ["nvme0n1", "nvme0n2"] {
        println!("gap of {disk}: {}", guest.wait_for(&format!("gap of {disk}:")));
    }
    guest.finish();
}
