//! The embedded store passes the tests for every store.

use blob::store::conformance::{Bed, run};
use blob::store::{Store, Transaction};
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

/// A simple generator of numbers, the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn no_damage_ends_the_process() {
    let file = File::new("damaged");
    let mut store = Embedded::open(&file.0).expect("made");
    for number in 0..200 {
        let put = Transaction::default().put(format!("key/{number:04}"), vec![number as u8; 300]);
        store.commit(&put).expect("there is room");
    }
    let lease = store.grant(units::Nanos::secs(1000)).expect("granted");
    store.commit(&Transaction::default().put_leased("leased", "x", lease)).expect("there is room");
    let whole = std::fs::read(&file.0).expect("just written");
    let mut state = 1;
    let mut refused = 0;
    for round in 0..100 {
        let mut bytes = whole.clone();
        // Half of the damage is in the first page, which locates all other data.
        let reach = if round % 2 == 0 { 4096 } else { bytes.len() as u64 };
        for _ in 0..=next(&mut state) % 8 {
            let place = (next(&mut state) % reach) as usize;
            bytes[place] ^= 1 << (next(&mut state) % 8);
        }
        if round % 16 == 15 {
            bytes.truncate((next(&mut state) % whole.len() as u64) as usize);
        }
        std::fs::write(&file.0, &bytes).expect("the folder is writable");
        let result = Embedded::open(&file.0).map_err(|_| ()).and_then(|mut store| {
            store.list("").map_err(|_| ())?;
            store.renew(lease).map_err(|_| ())?;
            store.commit(&Transaction::default().put("new", "value")).map_err(|_| ())
        });
        refused += u32::from(result.is_err());
    }
    assert!(refused > 0, "some damage is noticed");
}
