//! A volume says of each IO how urgent it is, and the target hears it: as the commands are on the wire.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::tap::{Command, Tap};
use common::{ask, built};
use rack::{Rack, VOLUME};

/// Access latencies.
const UNSPECIFIED: u8 = 0;
const NORMAL: u8 = 2;
const LOW: u8 = 3;

const KEYS: usize = 1000;

fn count(commands: &[Command], which: impl Fn(&Command) -> bool) -> usize {
    commands.iter().filter(|command| which(command)).count()
}

#[test]
fn the_log_goes_before_what_is_read_and_that_before_tables_and_compactions() {
    built::gimbal();
    let taps = [Tap::new(), Tap::new()];
    let rack = Rack::behind("rocksdb-classes", &[taps[0].address(), taps[1].address()]);
    for (tap, target) in taps.iter().zip(&rack.targets) {
        tap.relay_to(target.address());
    }
    rack.ask(&["volume", "create", VOLUME, "--mega", "16M", "--micro", "64K", "--slots", "4"]);
    let keys = format!("--num={KEYS}");
    let bench = |arguments: &[&str]| {
        let always = ["--db=/db", &keys, "--value_size=1000", "--compression_type=none", "--seed=1"];
        ask(&rack, "db_bench", &[&always[..], arguments].concat());
        taps.iter().flat_map(Tap::take).collect::<Vec<Command>>()
    };
    for tap in &taps {
        tap.take();
    }

    // Each write of the log is awaited, on both copies. The memtable is written once, in large pieces.
    let filled = bench(&["--benchmarks=fillrandom,flush", "--sync=1", "--disable_auto_compactions"]);
    let writes = |which: &dyn Fn(&Command) -> bool| count(&filled, |one| one.is_write && which(one));
    assert!(writes(&|one| one.is_durable && one.latency == LOW) >= 2 * KEYS, "{filled:?}");
    assert_eq!(writes(&|one| one.is_durable && one.latency != LOW), 0, "{filled:?}");
    let tables: u32 =
        filled.iter().filter(|one| one.is_write && one.latency == NORMAL).map(|one| one.blocks * 4096).sum();
    assert!(tables as usize > KEYS * 600 * 2, "two copies of the table: {tables} bytes");

    // What somebody looks for is read, and nothing is read that can wait.
    let looked = bench(&[
        "--benchmarks=readrandom",
        "--use_existing_db",
        "--disable_auto_compactions",
        "--cache_size=1",
    ]);
    let reads = |which: &dyn Fn(&Command) -> bool| count(&looked, |one| !one.is_write && which(one));
    assert!(reads(&|one| one.latency == UNSPECIFIED) > KEYS / 2, "{looked:?}");
    assert_eq!(reads(&|one| one.latency != UNSPECIFIED), 0, "{looked:?}");

    // A compaction reads the table, and writes another one.
    let compacted = bench(&["--benchmarks=overwrite,flush,compact", "--use_existing_db"]);
    let bytes = |is_write: bool| -> u32 {
        let of = compacted.iter().filter(|one| one.is_write == is_write && one.latency == NORMAL);
        of.map(|one| one.blocks * 4096).sum()
    };
    assert!(bytes(false) as usize > KEYS * 600, "read by the compaction: {} bytes", bytes(false));
    assert!(bytes(true) as usize > 2 * 2 * KEYS * 600, "written in the background: {} bytes", bytes(true));
}
