//! The embedded store does what every store must do.

use blob::store::Store;
use blob::store::conformance::{Bed, run};
use blob_meta::Embedded;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.redb", std::process::id()));
        let _ = std::fs::remove_file(&path);
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Bed for File {
    fn open(&mut self) -> Box<dyn Store> {
        Box::new(Embedded::open(&self.0).expect("the file can be opened"))
    }

    /// Leases live in real time.
    fn pass_time(&mut self) {
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_embedded_store_conforms() {
    run(&mut File::new("conforms"));
}

#[test]
fn a_file_that_is_no_store_is_refused_in_words() {
    let file = File::new("not-a-store");
    std::fs::write(&file.0, vec![7; 10_000]).expect("written");
    let error = Embedded::open(&file.0).expect_err("it is no store");
    assert!(error.contains("not-a-store"), "{error}");
}
