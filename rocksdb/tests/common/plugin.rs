//! The plug-in under test.

use std::path::PathBuf;

/// Its path: cargo has built it with this test.
pub(crate) fn plugin() -> PathBuf {
    let path = std::env::current_exe().expect("this test").with_file_name("libgimbal_rocksdb.so");
    assert!(path.exists(), "{} is not there", path.display());
    path
}
