//! Programs that are linked with RocksDB statically: a C program with the system's RocksDB, and a Rust program whose crate brings RocksDB along.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::program::Program;
use common::{printed, rack as new_rack, uri};

#[test]
fn a_static_program_in_c_keeps_its_database_on_a_volume() {
    let rack = new_rack("rocksdb-linked");
    let program = Program::linked("linked");
    let run = |uri: &str, job: &str| program.command().args([uri, job]).output().expect("it was compiled");
    let put = run(&uri(&rack), "put");
    assert!(put.status.success(), "{}", printed(&put));
    let got = run(&uri(&rack), "get");
    assert!(got.status.success() && printed(&got).trim() == "value", "{}", printed(&got));
    let absent = run(&uri(&rack).replacen(rack::VOLUME, "absent", 1), "get");
    assert_eq!(absent.status.code(), Some(1), "{}", printed(&absent));
    assert!(
        printed(&absent).contains("env: ") && printed(&absent).contains("absent"),
        "{}",
        printed(&absent)
    );
    let wrong = run("gimbal://?store=nowhere", "get");
    assert_eq!(wrong.status.code(), Some(1), "{}", printed(&wrong));
    assert!(printed(&wrong).starts_with("env: "), "{}", printed(&wrong));
}
