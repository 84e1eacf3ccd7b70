//! RocksDB's own programs, unchanged, on a volume.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::{ask, is_whole, printed, rack as new_rack, run, uri, verify_tables};
use rack::Rack;

/// Runs benchmarks of db_bench, and asserts that each has reported its result.
fn bench(rack: &Rack, benchmarks: &[&str], options: &[&str]) -> String {
    let list = format!("--benchmarks={}", benchmarks.join(","));
    let text = ask(rack, "db_bench", &[&["--db=/bench", &list], options].concat());
    for name in benchmarks {
        let report = text.lines().find(|line| line.starts_with(&format!("{name} ")));
        let report = report.unwrap_or_else(|| panic!("{name} has not reported:\n{text}"));
        assert!(report.contains("ops/sec"), "{report}");
    }
    text
}

/// Of the keys that a benchmark looked for, how many it found.
fn found(text: &str, benchmark: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{benchmark} "))).expect("it has reported");
    let (_, counts) = line.rsplit_once('(').unwrap_or_else(|| panic!("no counts: {line}"));
    counts
        .split(' ')
        .next()
        .and_then(|count| count.parse().ok())
        .unwrap_or_else(|| panic!("no count: {line}"))
}

#[test]
fn db_bench_writes_and_reads_a_volume() {
    let rack = new_rack("rocksdb-bench");
    // Small memtables, so that there are flushes and compactions.
    let small = ["--num=4000", "--write_buffer_size=65536", "--target_file_size_base=65536", "--seed=1"];
    for sync in ["--sync=0", "--sync=1"] {
        let options = [&small[..], &[sync, "--value_size=100"]].concat();
        let text = bench(&rack, &["fillrandom", "readrandom", "overwrite", "multireadrandom"], &options);
        // 4,000 random draws of 4,000 keys leave out one in e, and the reads draw from all.
        assert!(found(&text, "readrandom") > 2000, "{text}");
        assert!(found(&text, "multireadrandom") > 2000, "{text}");
        is_whole(&rack, "/bench");
        assert!(verify_tables(&rack, "/bench") > 1, "there are several tables");
    }
    let options = ["--use_existing_db", "--num=4000", "--reads=1000", "--threads=2", "--seed=2"];
    let text = bench(&rack, &["readwhilewriting"], &options);
    assert!(found(&text, "readwhilewriting") > 500, "{text}");
    is_whole(&rack, "/bench");
}

#[test]
fn what_cannot_be_mounted_is_a_clear_error() {
    let rack = new_rack("rocksdb-errors");
    let unknown = uri(&rack).replace("gimbal://db", "gimbal://nope");
    let away = "gimbal://db?store=etcd://127.0.0.1:1&patience=1s".to_owned();
    let cases = [
        (unknown.clone(), "there is no such volume"),
        (away, "the metadata store cannot be reached"),
        ("gimbal://db?shop=1".to_owned(), "there is no option 'shop'"),
        ("gimbal://db".to_owned(), "no metadata store"),
    ];
    for (uri, message) in &cases {
        let fs = format!("--fs_uri={uri}");
        let programs: [(&str, &[&str]); 3] = [
            ("db_bench", &["--db=/bench", "--benchmarks=fillrandom"]),
            ("ldb", &["--db=/bench", "checkconsistency"]),
            ("sst_dump", &["--file=/bench", "--command=verify"]),
        ];
        for (program, arguments) in programs {
            let output = run(program, &[&[fs.as_str()], arguments].concat());
            let text = printed(&output);
            assert!(output.status.code().is_some_and(|code| code > 0), "{program} {uri}: {}", output.status);
            assert!(text.contains(message), "{program} {uri}: {text}");
        }
    }
    let env = format!("--env_uri={}", unknown.replace('=', ":"));
    let output = run("db_bench", &[&env, "--db=/bench", "--benchmarks=fillrandom"]);
    assert!(output.status.code().is_some_and(|code| code > 0), "{}", output.status);
    assert!(printed(&output).contains("there is no such volume"), "{}", printed(&output));
}
