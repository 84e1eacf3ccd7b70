//! csi-sanity, the tests of the interface's own project.

use std::path::{Path, PathBuf};
use std::process::Command;

const SANITY: &str = "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0";

/// Builds csi-sanity, once.
pub fn csi_sanity() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../csi-sanity");
    let built = Command::new("go").arg("install").arg(SANITY).env("GOBIN", &folder).output();
    let built = built.expect("go does not run: install Go 1.25 or newer");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "go install {SANITY}: {said}; it needs Go 1.25 or newer");
    folder.join("csi-sanity")
}
