//! What RocksDB relies on, asked of the file system directly (`programs/claims.cc` has the claims), and when it must not be there.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::program::Program;
use common::{plugin, printed, rack as new_rack, uri};
use std::path::PathBuf;

#[test]
fn the_file_system_does_what_rocksdb_relies_on() {
    let rack = new_rack("rocksdb-claims");
    let claims = Program::with_plugin("claims");
    let output = claims.command().arg(uri(&rack)).output().expect("it was compiled");
    let text = printed(&output);
    assert!(output.status.success(), "{}\n{text}", output.status);
    assert!(text.contains("all claims hold"), "{text}");
    // Unmounted in order when the program ended: nothing was left behind.
    let listed = rack.ask(&["volume", "show", rack::VOLUME]);
    assert!(listed.contains("unmounted") && !listed.contains("not unmounted"), "{listed}");
}

#[test]
fn a_volume_looks_like_a_local_file_system() {
    let rack = new_rack("rocksdb-as-posix");
    let local = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("as-posix-{}", std::process::id()));
    std::fs::create_dir_all(&local).expect("the folder is writable");
    let program = Program::with_plugin("as_posix");
    let output = program.command().arg(uri(&rack)).arg(&local).output().expect("it was compiled");
    std::fs::remove_dir_all(&local).expect("it is ours");
    let text = printed(&output);
    assert!(output.status.success() && text.contains(" 0 differ"), "{}\n{text}", output.status);
}

#[test]
fn another_version_of_rocksdb_is_refused() {
    let program = Program::plain("other_version");
    let alone = program.command().output().expect("it was compiled");
    assert!(printed(&alone).contains("RocksDB 9.9.9 is used"), "{}", printed(&alone));
    let output = program.command().env("LD_PRELOAD", plugin()).output().expect("it was compiled");
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("built for RocksDB") && text.contains("uses 9.9.9;"), "{text}");
    assert!(!text.contains("is used"), "{text}");
}
