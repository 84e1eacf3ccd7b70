//! `gimbal lab rocksdb` from end to end, on a small rack.

mod process;

use process::gimbal;
use serde_json::Value;
use std::process::Output;

fn lab(arguments: &[&str]) -> Output {
    let small =
        ["--targets", "2", "--ssds", "1", "--records", "20000", "--warm-up", "2ms", "--duration", "10ms"];
    gimbal().args(["lab", "rocksdb"]).args(small).args(arguments).output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_scheduler_and_policy_is_a_run_that_a_seed_repeats() {
    let arguments = [
        "--scheduler",
        "gimbal,parda",
        "--workload",
        "B",
        "--databases",
        "1,2",
        "--policy",
        "credit,primary",
        "--json",
    ];
    let output = lab(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let runs: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(runs.len(), 8);
    for run in &runs {
        assert!(run["throughput"].as_f64().is_some_and(|speed| speed > 1000.0), "{run}");
        assert!(run["p50"].as_f64() <= run["p999"].as_f64(), "{run}");
    }
    assert_eq!(text(&lab(&arguments).stdout), printed);
}

#[test]
fn the_throughput_at_a_bound_is_shown() {
    let arguments = ["--scheduler", "gimbal", "--workload", "C", "--databases", "2", "--threads", "1,8"];
    let printed = |p99: &str| {
        let output = lab(&[&arguments[..], &["--policy", "credit,latency", "--p99", p99]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let far = printed("1s");
    assert!(far.contains("kops/s at p99 1.00 s of reads") && far.contains("×1.00"), "{far}");
    assert!(!printed("1us").contains("×1.00"), "no thread is below that");
}

#[test]
fn the_papers_figures_stand_beside_ours() {
    let output = lab(&["--scheduler", "gimbal,reflex-compared", "--workload", "C", "--databases", "2"]);
    let printed = text(&output.stdout);
    assert!(output.status.success() && printed.contains("×1.7") && printed.contains("−34.9 %"), "{printed}");
}

#[test]
fn a_mistake_is_named() {
    let cases = [
        (["--workload", "E"], "scans"),
        (["--scheduler", "fastest"], "fastest"),
        (["--policy", "luck"], "primary"),
        (["--duration", "0s"], "--duration"),
    ];
    for (arguments, named) in cases {
        let output = lab(&arguments);
        let why = text(&output.stderr);
        assert!(!output.status.success() && why.contains(named), "{arguments:?}: {why}");
    }
}
