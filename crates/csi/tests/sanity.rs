//! csi-sanity, the tests of the interface's own project, against a controller with a real target, and a node with fakes.

mod bed;

use bed::Bed;
use std::path::{Path, PathBuf};
use std::process::Command;

const SANITY: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0";

/// Builds csi-sanity, once.
fn csi_sanity() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../csi-sanity");
    let built = Command::new("go").arg("install").arg(SANITY).env("GOBIN", &folder).output();
    let built = built.expect("go does not run: install Go 1.25 or newer");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "go install {SANITY}: {said}; it needs Go 1.25 or newer");
    folder.join("csi-sanity")
}

#[test]
#[ignore = "long: builds csi-sanity with Go, about 3 minutes the first time"]
fn csi_sanity_passes() {
    let program = csi_sanity();
    let bed = Bed::new("sanity");
    let controller = bed.controller("controller.sock", &bed.admin());
    let node = bed.node();
    let ran = Command::new(program)
        .arg(format!("--csi.endpoint={}", node.socket.display()))
        .arg(format!("--csi.controllerendpoint={}", controller.socket.display()))
        .arg(format!("--csi.stagingdir={}", bed.folder.join("staging").display()))
        .arg(format!("--csi.mountdir={}", bed.folder.join("target").display()))
        .arg("--ginkgo.no-color")
        .output()
        .expect("it was built");
    let said = String::from_utf8_lossy(&ran.stdout);
    let counts: Vec<&str> =
        said.lines().filter(|line| line.contains(" Passed") || line.starts_with("Ran ")).collect();
    println!("{}", counts.join("\n"));
    assert!(ran.status.success(), "{said}");
    assert!(counts.iter().any(|line| line.contains("0 Failed")), "{said}");
    assert_eq!(
        bed.files(),
        bed.files_wanted(),
        "csi-sanity has cleaned up after itself, and so has the driver"
    );
}
