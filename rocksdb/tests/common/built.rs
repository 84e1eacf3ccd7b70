//! The `gimbal` binary. Cargo does not build the binary of another package for a test, so this does it.
//!
//! `tests/suite.sh` builds the whole workspace, and says so by [`IS_BUILT`]: built alone, `gimbal` has fewer features of its dependencies, so that most of
//! them would be compiled once more.

use std::process::Command;
use std::sync::OnceLock;

/// The environment variable that is set where the binary is there, and as new as its source.
const IS_BUILT: &str = "GIMBAL_IS_BUILT";

/// Builds it, once.
pub(crate) fn gimbal() {
    static BUILT: OnceLock<()> = OnceLock::new();
    if std::env::var_os(IS_BUILT).is_some() {
        return;
    }
    BUILT.get_or_init(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let arguments = ["build", "--locked", "--profile", "test", "-p", "gimbal", "--bin", "gimbal"];
        let built = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let built = built.expect("cargo runs this test");
        assert!(built.status.success(), "gimbal was not built: {}", String::from_utf8_lossy(&built.stderr));
    });
}
