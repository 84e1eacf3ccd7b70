use super::*;

const SMALL: &str = r#"
title = "t"
source = "s"
about = "a"
profiles = ["dct983"]
seeds = [1]
warm_up = "10ms"
duration = "20ms"
interval = "10ms"
schedulers = ["none", "level"]
[[case]]
name = "clean"
condition = "clean"
groups = [{ name = "small", count = 2, rw = "randread", bs = "4k", iodepth = 8 }]
"#;

fn error(text: &str) -> String {
    Experiment::parse(text, "x", "x.toml").expect_err("this is no experiment").to_string()
}

#[test]
fn every_experiment_that_comes_with_the_lab_can_be_read() {
    for name in names() {
        let experiment = Experiment::named(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(experiment.name, name);
    }
}

#[test]
fn a_sweep_makes_a_case_of_each_value() {
    let text = SMALL.replace(
        "condition = \"clean\"",
        "condition = \"clean\"\nsweep = { over = \"bs\", values = [4, 64] }",
    );
    let experiment = Experiment::parse(&text, "x", "x.toml").expect("an experiment");
    let sizes: Vec<_> = experiment.cases.iter().map(|case| (case.x, case.name.as_str())).collect();
    assert_eq!(sizes, [(Some(4.0), "clean"), (Some(64.0), "clean")]);
}

#[test]
fn tenants_of_a_group_come_and_go_one_after_the_other() {
    let text = SMALL
        .replace("iodepth = 8", "start = \"1s\", start_step = \"5s\", stop = \"60s\", stop_step = \"2s\"");
    let experiment = Experiment::parse(&text, "x", "x.toml").expect("an experiment");
    let times: Vec<_> =
        experiment.cases[0].tenants().iter().map(|tenant| (tenant.start, tenant.stop)).collect();
    let at = |seconds| Instant::ZERO + Nanos::secs(seconds);
    assert_eq!(times, [(at(1), at(60)), (at(6), at(62))]);
}

#[test]
fn a_group_has_the_objective_that_is_written() {
    let with = |slo: &str| SMALL.replace("iodepth = 8", &format!("iodepth = 8, slo = {slo}"));
    let text = with("{ iops = 2000, latency_p99 = \"1ms\" }");
    let experiment = Experiment::parse(&text, "x", "x.toml").unwrap_or_else(|error| panic!("{error}"));
    let slo = experiment.cases[0].groups[0].share.slo.expect("it has one");
    assert_eq!((slo.iops, slo.read_percent, slo.percentile), (2000, 100, sched::Percentile::P99));
    assert_eq!(slo.latency, Nanos::millis(1));
    for (slo, said) in [
        ("{ iops = 2000 }", "slo: latency_p99 is missing"),
        ("{ iops = 2000, latency_p95 = \"1ms\", latency_p99 = \"2ms\" }", "slo: an objective has one bound"),
        ("{ iops = 0, latency_p99 = \"1ms\" }", "slo: an objective of no IOs"),
        ("{ iops = 9, latency_p99 = \"1ms\", read_percent = 101 }", "slo.read_percent: a percentage"),
    ] {
        let error = error(&with(slo));
        assert!(error.contains(said), "{slo} says: {error}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (from, to, said) in [
        (
            "bs = \"4k\"",
            "bs = \"5000\"",
            "case clean, group small: bs: 5000 B is not a positive multiple of 4 KiB",
        ),
        ("iodepth = 8", "iodepth = 0", "case clean, group small: iodepth: 0 does not lie between 1 and"),
        (
            "\"level\"",
            "\"elevator\"",
            "schedulers: there is no scheduler elevator; the schedulers are level, ",
        ),
        ("[\"dct983\"]", "[\"hal\"]", "profiles: "),
        ("seeds = [1]", "seeds = []", "seeds: there is none"),
        ("interval = \"10ms\"", "interval = \"0s\"", "neither it nor the interval may be zero"),
        ("rw = \"randread\"", "rw = \"sideways\"", "sideways"),
        ("title", "tilte", "tilte"),
    ] {
        let error = error(&SMALL.replace(from, to));
        assert!(error.contains(said), "{from} -> {to} says: {error}");
        assert!(error.contains("x.toml"), "{error}");
    }
}

const CLAIM: &str = r#"
[[claim]]
id = "C"
what = "w"
case = "clean"
quantity = { f-util = "small" }
compare = "times-more"
with = "none"
paper = 2.0
"#;

#[test]
fn what_no_claim_needs_can_be_left_out() {
    let text = format!("{SMALL}{CLAIM}").replace("\"level\"]", "\"level\", \"flashfq\"]");
    let other = SMALL[SMALL.find("[[case]]").expect("a case")..].replace("clean", "other");
    let text = format!("{text}{other}").replace("condition = \"other\"", "condition = \"clean\"");
    let mut experiment = Experiment::parse(&text, "x", "x.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((experiment.cases.len(), experiment.schedulers.len()), (2, 3));
    experiment.keep_claimed();
    let kept: Vec<&str> = experiment.schedulers.iter().map(|scheduler| scheduler.name()).collect();
    assert_eq!((experiment.cases.len(), kept), (1, vec!["none", "level"]));
}

#[test]
fn a_claim_speaks_of_what_is_there() {
    let claim = CLAIM;
    Experiment::parse(&format!("{SMALL}{claim}"), "x", "x.toml").unwrap_or_else(|error| panic!("{error}"));
    for (from, to, said) in [
        ("\"clean\"\nquantity", "\"dirty\"\nquantity", "claim C: case: the experiment has no case dirty"),
        ("\"small\"", "\"tiny\"", "claim C: quantity: case clean has no group tiny"),
        ("with = \"none\"", "with = \"gimbal\"", "claim C: with: the experiment does not run gimbal"),
        ("with = \"none\"\n", "", "claim C: with: is missing"),
        ("times-more", "percent-at-most", "claim C: with: is too much"),
        ("paper = 2.0", "", "claim C: paper: give the source's number, or a goal in its place"),
        ("paper = 2.0", "paper = 2.0\ngoal = 2.0", "claim C: paper: give the source's number, or a goal"),
        ("paper = 2.0", "goal = 2.0", "claim C: goal: does not fit this comparison: a goal is met or not"),
    ] {
        let error = error(&format!("{SMALL}{}", claim.replace(from, to)));
        assert!(error.contains(said), "{from} -> {to} says: {error}");
    }
}
