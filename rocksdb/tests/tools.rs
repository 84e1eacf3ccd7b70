//! RocksDB's own programs, unchanged, on a volume.

#![cfg(target_os = "linux")]

mod common;
#[path = "../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use common::{ask, is_whole, printed, rack as new_rack, run, uri, verify_tables, with_plugin};
use rack::Rack;
use std::io::Write;
use std::process::Stdio;

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
    let small = ["--write_buffer_size=65536", "--target_file_size_base=65536", "--seed=1"];
    for (sync, keys) in [("--sync=0", 4000), ("--sync=1", 1000)] {
        let (num, benchmarks) =
            (format!("--num={keys}"), ["fillrandom", "readrandom", "overwrite", "multireadrandom"]);
        let text = bench(&rack, &benchmarks, &[&small[..], &[sync, &num]].concat());
        // As many random draws as there are keys leave out one in e.
        assert!(found(&text, "readrandom") > keys / 2, "{text}");
        assert!(found(&text, "multireadrandom") > keys / 2, "{text}");
        is_whole(&rack, "/bench");
        assert!(verify_tables(&rack, "/bench") > 0, "there are tables");
    }
    let options = ["--use_existing_db", "--num=1000", "--reads=1000", "--threads=2", "--seed=2"];
    let text = bench(&rack, &["readwhilewriting"], &options);
    assert!(found(&text, "readwhilewriting") > 500, "{text}");
    is_whole(&rack, "/bench");
}

#[test]
fn ldb_and_sst_dump_do_their_work_on_a_volume() {
    let rack = new_rack("rocksdb-ldb");
    let ldb = |arguments: &[&str]| ask(&rack, "ldb", &[&["--db=/db"], arguments].concat());
    ldb(&["--create_if_missing", "batchput", "a", "1", "b", "2", "c", "3"]);
    ldb(&["delete", "b"]);
    assert_eq!(ldb(&["get", "c"]).trim(), "3");
    let scanned = ldb(&["scan"]);
    assert_eq!(scanned.lines().collect::<Vec<_>>(), ["a : 1", "c : 3"], "{scanned}");
    let counted = ldb(&["idump", "--count_only"]);
    assert!(counted.contains("Internal keys in range: 4"), "{counted}");
    ldb(&["compact"]);
    is_whole(&rack, "/db");

    // A checkpoint consists of links.
    ldb(&["checkpoint", "--checkpoint_dir=/checkpoint"]);
    let checkpoint = |arguments: &[&str]| ask(&rack, "ldb", &[&["--db=/checkpoint"], arguments].concat());
    ldb(&["put", "d", "4"]);
    assert_eq!(checkpoint(&["get", "a"]).trim(), "1");
    let later = run("ldb", &[&format!("--fs_uri={}", uri(&rack)), "--db=/checkpoint", "get", "d"]);
    assert!(!later.status.success(), "the checkpoint has no later key");
    is_whole(&rack, "/checkpoint");

    let backup = ["--backup_dir=/backup", &format!("--backup_fs_uri={}", uri(&rack))];
    ldb(&[&["backup"], &backup[..]].concat());
    let restored = |arguments: &[&str]| ask(&rack, "ldb", &[&["--db=/restored"], arguments].concat());
    restored(&[&["restore"], &backup[..]].concat());
    assert_eq!(restored(&["get", "d"]).trim(), "4");
    is_whole(&rack, "/restored");

    restored(&["repair"]);
    assert_eq!(restored(&["get", "a"]).trim(), "1");
    is_whole(&rack, "/restored");

    // A table that was written elsewhere.
    let mut writer = with_plugin("ldb");
    writer.args([&format!("--fs_uri={}", uri(&rack)), "--db=/db", "write_extern_sst", "/other.sst"]);
    let mut writer = writer.stdin(Stdio::piped()).spawn().expect("rocksdb-tools");
    writer.stdin.take().expect("piped").write_all(b"x ==> 24\ny ==> 25\n").expect("it reads");
    assert!(writer.wait().expect("our own child").success(), "the table was not written");
    ldb(&["ingest_extern_sst", "/other.sst"]);
    assert_eq!(ldb(&["get", "y"]).trim(), "25");
    is_whole(&rack, "/db");
}

#[test]
fn what_cannot_be_mounted_is_a_clear_error() {
    let rack = new_rack("rocksdb-errors");
    let unknown = uri(&rack).replace("gimbal://db", "gimbal://nope");
    let away = "gimbal://db?store=etcd://127.0.0.1:1&patience=1s".to_owned();
    let cases = [
        (unknown.clone(), "there is no such volume"),
        (away.clone(), "the metadata store cannot be reached"),
        (away, "127.0.0.1:1: io: Connection refused"),
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
