//! The newest RocksDB, which a crate brings along and links statically: the claims on the file system, and a Rust program that is killed.
//!
//! The package `bundled/example` is built for this. RocksDB's source takes about twenty minutes the first time, and is kept in `target/bundled`.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::program::Program;
use common::{printed, rack as new_rack, uri};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Number of times that the Rust program is killed.
const KILLS: usize = 5;
/// Number of keys that it puts between two kills.
const KEYS: usize = 150;

/// The built example.
struct Bundled {
    program: PathBuf,
    library: PathBuf,
    /// The folder of RocksDB's headers.
    include: PathBuf,
}

fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(arguments).args(["--locked", "--manifest-path"]);
    command.arg(format!("{}/bundled/Cargo.toml", env!("CARGO_MANIFEST_DIR")));
    let output = command.output().expect("cargo runs this test");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Builds the example, once.
fn bundled() -> &'static Bundled {
    static BUILT: OnceLock<Bundled> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bundled");
        let folder_text = folder.to_str().expect("cargo's folders have names in UTF-8");
        cargo(&["build", "-p", "gimbal-example", "--target-dir", folder_text]);
        let manifest = cargo(&["metadata", "--format-version", "1"])
            .split('"')
            .find(|text| text.ends_with("/Cargo.toml") && text.contains("/rust-librocksdb-sys-"))
            .map(PathBuf::from)
            .expect("the example depends on it");
        Bundled {
            program: folder.join("debug/gimbal-example"),
            library: folder.join("debug/libgimbal_example.a"),
            include: manifest.with_file_name("rocksdb").join("include"),
        }
    })
}

fn compiled(name: &str) -> Program {
    let bundled = bundled();
    Program::bundled(name, &bundled.library, &bundled.include)
}

#[test]
#[ignore = "long: RocksDB's source is compiled, about twenty minutes the first time"]
fn the_file_system_does_what_the_newest_rocksdb_relies_on() {
    let rack = new_rack("newest-claims");
    let output = compiled("claims").command().arg(uri(&rack)).output().expect("it was compiled");
    let text = printed(&output);
    assert!(output.status.success() && text.contains("all claims hold"), "{}\n{text}", output.status);
    // Unmounted in order when the program ended: nothing was left behind.
    let listed = rack.ask(&["volume", "show", rack::VOLUME]);
    assert!(listed.contains("unmounted") && !listed.contains("not unmounted"), "{listed}");
}

#[test]
#[ignore = "long: RocksDB's source is compiled, about twenty minutes the first time"]
fn a_volume_looks_like_a_local_file_system_to_the_newest_rocksdb() {
    let rack = new_rack("newest-as-posix");
    let local = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("newest-{}", std::process::id()));
    std::fs::create_dir_all(&local).expect("the folder is writable");
    let output =
        compiled("as_posix").command().arg(uri(&rack)).arg(&local).output().expect("it was compiled");
    std::fs::remove_dir_all(&local).expect("it is ours");
    let text = printed(&output);
    assert!(output.status.success() && text.contains(" 0 differ"), "{}\n{text}", output.status);
}

#[test]
#[ignore = "long: RocksDB's source is compiled, about twenty minutes the first time"]
fn a_rust_program_that_brings_rocksdb_along_keeps_what_it_has_said() {
    let rack = new_rack("newest-rust");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&bundled().program);
        command.arg(uri(&rack)).args(arguments);
        command
    };
    let run = |arguments: &[&str]| {
        let output = command(arguments).output().expect("it was built");
        assert!(output.status.success(), "{arguments:?}: {}", printed(&output));
        printed(&output)
    };
    for kill in 0..KILLS {
        let mut child = command(&["fill"]).stdout(Stdio::piped()).spawn().expect("it was built");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let last = lines.by_ref().take((kill + 1) * KEYS).last().expect("it puts keys").expect("readable");
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        let safe: u64 = last.parse().expect("a number");
        if kill % 2 == 1 {
            run(&["repair"]);
        }
        let checked = run(&["check", &(safe + 1).to_string()]);
        assert!(checked.contains("keys are right"), "{checked}");
    }
}
