//! RDMA on real kernels: `examples/rdma_loop.rs` in guests with a device of software, as machines that build seldom have one.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// Time limit of a guest. The claims take half a minute; the rest is for a busy machine.
const LIMIT_SECONDS: &str = "600";

#[test]
fn every_claim_about_rdma_holds_on_linux_6_1() {
    claims_hold("bookworm");
}

#[test]
fn every_claim_about_rdma_holds_on_linux_6_12() {
    claims_hold("trixie");
}

/// Runs the walk in the guest of a suite, with the example that cargo has built beside this test.
fn claims_hold(suite: &str) {
    let built = env::current_exe().expect("this test has a path");
    let example = built.ancestors().nth(2).expect("it lies in deps").join("examples/rdma_loop");
    assert!(example.exists(), "there is no {}: run all tests of the package", example.display());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rdma-{suite}-{}", process::id()));
    fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
    let program = folder.join("rdma_loop");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(&example).status();
    assert!(stripped.expect("strip is there, as cc needs it").success(), "the example can be stripped");

    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/guest");
    let mut run = Command::new(guest.join("guest.sh"));
    run.args(["run", "-g", suite, "-t", LIMIT_SECONDS, "-r"]);
    let mut put = |from: &Path, to: &str| {
        run.arg("-x").arg(format!("{}:{to}", from.display()));
    };
    put(&guest.join("walks/lib.sh"), "/walks/lib.sh");
    put(&program, "/gimbal/rdma_loop");
    let mut loader = None;
    for library in libraries_of(&program) {
        let name = library.file_name().expect("a file").to_string_lossy().into_owned();
        put(&library, &format!("/gimbal/{name}"));
        if name.starts_with("ld-linux") {
            loader = Some(name);
        }
    }
    let loader = loader.expect("the program is loaded by something");
    let ended = run
        .args(["-e", &format!("LOADER=/gimbal/{loader}")])
        .arg(guest.join("walks/rdma-loop.sh"))
        .output()
        .expect("tests/guest/guest.sh is executable and bash is there");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}: {said}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    assert!(said.lines().filter(|line| *line == "all claims hold").count() == 3, "{said}");
    fs::remove_dir_all(&folder).expect("it is ours");
}

fn libraries_of(program: &Path) -> BTreeSet<PathBuf> {
    let needed = Command::new("ldd").arg(program).output().expect("ldd is there, as libc is");
    let needed = String::from_utf8(needed.stdout).expect("paths");
    needed.split_ascii_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect()
}
