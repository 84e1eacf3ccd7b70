//! `gimbal bench ycsb` from end to end: real RocksDB databases, in local directories and on volumes of real targets.

#![cfg(target_os = "linux")]

#[path = "../../tests/common/built.rs"]
mod built;
#[path = "../../../crates/gimbal/tests/process/mod.rs"]
mod process;
#[path = "../../../crates/gimbal/tests/rack/mod.rs"]
mod rack;

use process::gimbal;
use rack::scratch::Scratch;
use rack::{Rack, VOLUME};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use ycsb::plan::{Message, Phase, Place, Plan, Report};

const DRIVER: &str = env!("CARGO_BIN_EXE_gimbal-ycsb");

fn bench(arguments: &[&str]) -> Output {
    built::gimbal();
    let mut command = gimbal();
    command.args(["bench", "ycsb", "--driver", DRIVER]).args(arguments);
    command.output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The runs of a benchmark: on what, read how, and the report.
fn runs(output: &Output) -> Vec<(String, String, Report)> {
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    let run = |run: &Value| {
        let field = |name: &str| run[name].as_str().expect("a text").to_owned();
        let report = serde_json::from_value(run["report"].clone()).expect("a report");
        (field("on"), field("reads"), report)
    };
    results["runs"].as_array().expect("runs").iter().map(run).collect()
}

/// Asserts that each database has done all its operations, and that the latencies can be.
fn is_whole(report: &Report, instances: usize, operations: u64) {
    assert_eq!(report.instances.len(), instances);
    for instance in &report.instances {
        assert_eq!(instance.all.count, operations, "{}", instance.name);
        assert_eq!(instance.kinds.values().map(|kind| kind.count).sum::<u64>(), operations);
    }
    for latency in report.total.kinds.values().chain([&report.total.all]) {
        assert!(0.0 < latency.p50 && latency.p50 <= latency.p99, "{latency:?}");
        assert!(latency.p99 <= latency.p999 && latency.p999 <= latency.max, "{latency:?}");
    }
    assert_eq!((report.total.missing, report.total.wrong), (0, 0));
    assert!(report.total.throughput > 0.0 && report.load.is_some());
}

fn said(output: &Output) -> String {
    assert!(!output.status.success(), "this must fail: {}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn databases_in_a_directory_do_all_operations_and_read_what_they_wrote() {
    let scratch = Scratch::new("ycsb-local");
    let dir = scratch.file("databases");
    let dir = dir.to_str().expect("a plain path");
    let common = ["--records", "2000", "--instances", "2", "--threads", "2", "--dir", dir, "--json", "-"];
    let checked = ["--workload", "F", "--operations", "3000", "-p", "dataintegrity=true"];
    let output = bench(&[&common[..], &checked].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [(on, reads, report)] = &runs(&output)[..] else { panic!("one run") };
    assert_eq!((on.as_str(), reads.as_str()), ("local directory", ""));
    is_whole(report, 2, 3000);
    let kinds: Vec<&str> = report.total.kinds.keys().map(|kind| kind.name()).collect();
    assert_eq!(kinds, ["read", "read-modify-write"]);

    // The databases are there: they are not made again, and are read as they are.
    assert!(said(&bench(&[&common[..], &checked].concat())).contains("error_if_exists"));
    let output = bench(&[&common[..], &checked, &["--no-load"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));

    // What another workload writes is not what is to be read: that is noticed.
    let output = bench(&[&common[..], &["--workload", "A", "--operations", "3000", "--no-load"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = bench(&[&common[..], &checked, &["--no-load"]].concat());
    assert!(said(&output).contains("were not as they were written"));
    assert!(runs(&output)[0].2.total.wrong > 0);

    // More records than were loaded are not there.
    let more = ["--workload", "C", "--operations", "3000", "--no-load", "-p", "recordcount=4000"];
    let output = bench(&[&common[..], &more].concat());
    assert!(said(&output).contains("were asked for and not found"));
}

#[test]
fn schedulers_and_read_policies_are_compared_on_volumes() {
    let output = bench(&[
        "--compare",
        "none,level",
        "--policy",
        "credit,primary",
        "--workload",
        "E",
        "--records",
        "400",
        "--operations",
        "150",
        "--instances",
        "4",
        "--threads",
        "2",
        "-p",
        "dataintegrity=true",
        "-p",
        "readproportion=0.5",
        "-p",
        "updateproportion=0.3",
        // Faster than this machine: what is asked for here is that all is done, not how fast.
        "--speed",
        "1",
        "--size",
        "1G",
        "--db-options",
        "write_buffer_size=64K",
        "--json",
        "-",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let runs = runs(&output);
    let which: Vec<(&str, &str)> = runs.iter().map(|(on, reads, _)| (on.as_str(), reads.as_str())).collect();
    let expected = [("none", "credit"), ("none", "primary"), ("level", "credit"), ("level", "primary")];
    assert_eq!(which, expected);
    for (_, _, report) in &runs {
        is_whole(report, 4, 150);
        assert_eq!(report.total.kinds.len(), 4, "{:?}", report.total.kinds.keys());
        assert!(report.rocksdb["rocksdb.flush.write.bytes"] > 1_000_000, "{:?}", report.rocksdb);
    }
}

#[test]
fn databases_have_neighbours_and_objectives() {
    let output = bench(&[
        "--compare",
        "level",
        "--workload",
        "B",
        "--records",
        "400",
        "--operations",
        "400",
        "--instances",
        "2",
        "--neighbour",
        "backup,load,batch,load",
        "--objective",
        "1000",
        "5ms",
        "--speed",
        "0.2",
        "--size",
        "1G",
        "--db-options",
        "write_buffer_size=64K",
        "--json",
        "-",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [(on, _, report)] = &runs(&output)[..] else { panic!("one run") };
    assert_eq!(on, "level");
    is_whole(report, 2, 400);
    let results: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let neighbours = results["runs"][0]["neighbours"].as_array().expect("the neighbours");
    let names: Vec<&str> = neighbours.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(names, ["backup", "load", "batch", "load"]);
    for neighbour in neighbours {
        assert!(neighbour["megabytes_per_second"].as_f64() > Some(0.0), "{neighbour}");
    }
}

#[test]
fn a_database_lies_on_the_volume_of_a_rack() {
    built::gimbal();
    let rack = Rack::new("ycsb-volume", 2);
    rack.create();
    let uri = format!("gimbal://{VOLUME}?store={}", rack.store());
    let output =
        bench(&["--uri", &uri, "--workload", "D", "--records", "500", "--operations", "500", "--json", "-"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [(on, _, report)] = &runs(&output)[..] else { panic!("one run") };
    assert_eq!(on, "volumes");
    is_whole(report, 1, 500);
    let absent = format!("gimbal://absent?store={}", rack.store());
    let why = said(&bench(&["--uri", &absent, "--operations", "1"]));
    assert!(why.contains("absent") && why.contains("no such volume"), "{why}");
}

#[test]
fn a_mistake_is_named() {
    let cases = [
        (&["--operations", "1"][..], "where are the databases?"),
        (&["--dir", "x", "--runtime", "1s", "--driver", "/absent/gimbal-ycsb"], "cargo build --release -p"),
        (&["--dir", "x", "--operations", "0"], "the run would not end"),
        (&["--dir", "x", "--workload", "g"], "there is no core workload 'g'"),
        (&["--dir", "x", "--workload", "/absent/workload"], "/absent/workload"),
        (&["--dir", "x", "-p", "readproportion=2"], "readproportion"),
        (&["--dir", "x", "--value-size", "1001"], "--value-size"),
        (&["--dir", "x", "--compare", "fastest"], "level"),
        (&["--dir", "x", "--compare", "none", "--policy", "luck"], "primary"),
        (&["--dir", "/proc/x", "--operations", "1"], "/proc/x"),
        (&["--dir", "x", "--operations", "1", "--neighbour", "load"], "give --compare"),
        (&["--compare", "none", "--operations", "1", "--neighbour", "lode"], "there are backup, load, batch"),
        (
            &["--compare", "level", "--operations", "1", "--objective", "0", "1ms"],
            "--objective: 0 is no number",
        ),
        (&["--dir", "x", "--operations", "1", "--db-options", "speed=11"], "speed"),
    ];
    for (arguments, named) in cases {
        let arguments: Vec<&str> = arguments.to_vec();
        let driver = if arguments.contains(&"--driver") { &[][..] } else { &["--driver", DRIVER] };
        built::gimbal();
        let scratch = Scratch::new("ycsb-mistake");
        let mut command = gimbal();
        command.args(["bench", "ycsb"]).args(driver).args(&arguments).current_dir(scratch.file("."));
        let output = command.output().expect("the binary was built");
        let why = said(&output);
        assert!(why.contains(named), "{arguments:?}: {why}");
    }
}

#[test]
fn the_driver_ends_with_its_standard_input() {
    let scratch = Scratch::new("ycsb-end");
    let path = scratch.file("db").to_str().expect("a plain path").to_owned();
    let plan = Plan {
        places: vec![Place { name: "one".to_owned(), uri: None, path }],
        properties: [("recordcount".to_owned(), "100".to_owned())].into(),
        threads: 1,
        seed: 1,
        options: String::new(),
        is_synced: false,
        is_loaded: true,
        runtime: None,
        ramp: 0,
    };
    let mut driver = Command::new(DRIVER);
    let mut driver = driver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was built");
    let mut input = driver.stdin.take().expect("piped");
    writeln!(input, "{}", serde_json::to_string(&plan).expect("JSON")).expect("it reads");
    let mut input = Some(input);
    let mut report = None;
    for line in BufReader::new(driver.stdout.take().expect("piped")).lines() {
        match serde_json::from_str(&line.expect("text")).expect("a message") {
            // It would go on for ever.
            Message::Progress { phase: Phase::Running, done: 1.., .. } => input = None,
            Message::Progress { .. } => {}
            Message::Report(found) => report = Some(found),
            Message::Failed(why) => panic!("{why}"),
        }
    }
    assert!(input.is_none() && driver.wait().expect("our own child").success());
    assert!(report.expect("a report").total.all.count > 0);
}
