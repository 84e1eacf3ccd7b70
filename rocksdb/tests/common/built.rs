//! The `gimbal` binary. Cargo does not build the binary of another package for a test, so this does it.

use std::process::Command;
use std::sync::OnceLock;

/// Builds it, once.
pub(crate) fn gimbal() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let arguments = ["build", "--locked", "--profile", "test", "-p", "gimbal", "--bin", "gimbal"];
        let built = Command::new(cargo).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let built = built.expect("cargo runs this test");
        assert!(built.status.success(), "gimbal was not built: {}", String::from_utf8_lossy(&built.stderr));
    });
}
