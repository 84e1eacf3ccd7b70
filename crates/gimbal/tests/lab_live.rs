//! `gimbal lab run --live`: the same experiment in virtual time and over the wire.
//!
//! These checks do not depend on the speed of the machine: all tenants took part, and the figures of a run are
//! consistent. The agreement of product and simulator is a long test for a quiet machine (not run by default).

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A scratch folder that is removed when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("gimbal-live-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a scratch folder");
        Scratch(path)
    }

    fn write(&self, text: &str) -> PathBuf {
        let path = self.0.join("experiment.toml");
        fs::write(&path, text).expect("there is room");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lab_run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gimbal"));
    command.args(["lab", "run"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the command was built")
}

fn lines(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::str::from_utf8(&output.stdout).expect("JSON is text");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

const TINY: &str = r#"
title = "Readers with a writer"
source = "made up"
about = "As short as it can be."
profiles = ["dct983"]
seeds = [5]
warm_up = "5ms"
duration = "20ms"
interval = "5ms"
alone = ["2ms", "5ms"]
schedulers = ["none", "gimbal-fixed", "level"]
[[case]]
name = "clean"
condition = "clean"
groups = [
    { name = "readers", count = 3, rw = "randread", bs = "4k", iodepth = 4 },
    { name = "writer", rw = "write", bs = "64k", iodepth = 2, rate_max = "200m", start = "5ms" },
]
"#;

#[test]
fn both_sides_of_a_small_experiment_are_printed_run_by_run() {
    let scratch = Scratch::new("tiny");
    let file = scratch.write(TINY);
    let output = lab_run(&[file.to_str().expect("text"), "--live", "--slow", "20", "--json", "-"]);
    let lines = lines(&output);
    let names = |line: &Value| format!("{} {}", line["side"], line["scheduler"]).replace('"', "");
    let told: Vec<String> = lines.iter().map(names).collect();
    assert_eq!(told, ["simulator none", "product none", "simulator level", "product level"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("gimbal-fixed is left out"), "{said}");
    assert!(said.contains("simulator") && said.contains("product") && said.contains("difference"), "{said}");
    for line in &lines {
        check_record(line);
        assert_eq!((line["seed"].as_u64(), line["slow"].as_u64()), (Some(5), Some(20)));
        let is_live = line["side"] == "product";
        assert_eq!(line["timekeeping"].is_object(), is_live);
        assert_eq!(line["fingerprint"].is_null(), is_live);
    }
}

/// Checks that all tenants took part, and that values counted in two places agree.
fn check_record(line: &Value) {
    let groups = line["groups"].as_array().expect("groups");
    let population: Vec<_> =
        groups.iter().map(|group| (group["name"].as_str(), group["tenants"].as_u64())).collect();
    assert_eq!(population, [(Some("readers"), Some(3)), (Some("writer"), Some(1))]);
    let mut ios = 0.0;
    let mut bandwidth = 0.0;
    for (group, (way, other, bytes)) in
        groups.iter().zip([("read", "write", 4096.0), ("write", "read", 65536.0)])
    {
        assert!(
            group[other].is_null() && number(&group["f_util_least"]) > 0.0,
            "everybody got something: {group}"
        );
        let figures = &group[way];
        let moved = number(&figures["ios"]) * bytes / number(&group["seconds"]) / 1e6;
        for told in [&figures["mb_per_s"], &group["mb_per_s"]] {
            assert!((number(told) / moved - 1.0).abs() < 1e-6, "{told} MB/s told, {moved} by its IOs");
        }
        let [device, network, end_to_end] =
            ["device", "network", "end_to_end"].map(|reading| number(&figures[reading]["mean_us"]));
        assert!(device < network && network <= end_to_end * 1.001, "{device}, {network}, {end_to_end} µs");
        assert_eq!(group["series"].as_array().map(Vec::len), Some(4));
        ios += number(&figures["ios"]);
        bandwidth += number(&group["mb_per_s"]);
    }
    assert!(ios > 0.0 && ios <= number(&line["ios"]), "{ios} IOs measured of {}", line["ios"]);
    assert!((bandwidth / number(&line["mb_per_s"]) - 1.0).abs() < 1e-6);
}

#[test]
fn what_cannot_be_run_live_is_refused_by_case_and_key() {
    let scratch = Scratch::new("refused");
    let refused = |from: &str, to: &str, arguments: &[&str]| {
        let file = scratch.write(&TINY.replace(from, to));
        let output = lab_run(&[&[file.to_str().expect("text"), "--live"], arguments].concat());
        assert!(!output.status.success() && output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let deep = refused("iodepth = 4", "iodepth = 4000", &[]);
    assert!(deep.contains("case clean, group readers: iodepth: cannot be run live"), "{deep}");
    let none_left = refused("", "", &["--scheduler", "gimbal-fixed"]);
    assert!(none_left.contains("none of its schedulers can be run live"), "{none_left}");
    let factor = refused("", "", &["--slow", "3"]);
    assert!(factor.contains("divides 1000"), "{factor}");
}

/// Allowed distance of a group's live share of the bytes from the range of the simulator's seeds, relative to the
/// share.
const SHARE_DIFFERENCE: f64 = 0.10;

#[test]
#[ignore = "two minutes, and for a machine with little else to do"]
fn live_shares_of_the_bytes_are_near_the_range_of_the_simulators_seeds() {
    let simulated = lab_run(&["g7a", "--profile", "dct983", "--scheduler", "none,level", "--json", "-"]);
    let simulated = lines(&simulated);
    let both = lab_run(&["g7a", "--quick", "--scheduler", "none,level", "--live", "--json", "-"]);
    let share =
        |line: &Value, group: usize| number(&line["groups"][group]["mb_per_s"]) / number(&line["mb_per_s"]);
    let mut seen = 0;
    for live in lines(&both).iter().filter(|line| line["side"] == "product") {
        let twins = simulated.iter().filter(|line| line["scheduler"] == live["scheduler"]);
        for group in 0..2 {
            let shares = || twins.clone().map(|line| share(line, group));
            let (least, most) = (shares().fold(f64::INFINITY, f64::min), shares().fold(0.0, f64::max));
            let share = share(live, group);
            let band = least * (1.0 - SHARE_DIFFERENCE)..=most * (1.0 + SHARE_DIFFERENCE);
            assert!(band.contains(&share), "{}: {share} outside of {band:?}", live["scheduler"]);
            seen += 1;
        }
    }
    assert_eq!(seen, 4, "two schedulers with two groups each");
}
