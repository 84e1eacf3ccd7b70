//! A folder for one test, removed at its end unless the test failed.

use std::path::{Path, PathBuf};

/// A new folder in cargo's folder for tests.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder; each test uses its own `name`.
    pub(crate) fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("cargo's folder for tests is writable");
        Scratch(path)
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
