//! A folder for one test, removed at its end unless the test failed.

// Each test binary uses a part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// A new folder in cargo's folder for tests.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder; each test uses its own `name`.
    pub(crate) fn new(name: &str) -> Scratch {
        Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")), name)
    }

    /// Creates one in the system's folder for temporary files: the path of a socket may be no longer than 107 bytes.
    pub(crate) fn for_sockets(name: &str) -> Scratch {
        Scratch::below(&std::env::temp_dir(), &format!("gimbal-{name}"))
    }

    fn below(folder: &Path, name: &str) -> Scratch {
        let path = folder.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("folders for tests are writable");
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
