//! The same experiment and seeds give the same records, byte by byte, however many threads there are.

use lab::runner::Images;
use lab::{Experiment, Findings};

/// Readers with writers for a moment.
const SMALL: &str = r#"
title = "t"
source = "s"
about = "a"
profiles = ["dct983"]
seeds = [1, 2]
warm_up = "10ms"
duration = "30ms"
interval = "10ms"
alone = ["10ms", "30ms"]
schedulers = ["none", "gimbal", "level"]
[[case]]
name = "clean"
condition = "clean"
groups = [
    { name = "readers", count = 2, rw = "randread", bs = "4k", iodepth = 8 },
    { name = "writers", count = 2, rw = "write", bs = "128k", iodepth = 4 },
]
"#;

fn records() -> Vec<String> {
    let experiment = Experiment::parse(SMALL, "small", "small").unwrap_or_else(|error| panic!("{error}"));
    let Findings { records, .. } =
        lab::run(experiment, &Images::default(), &|_| ()).unwrap_or_else(|broken| panic!("{broken}"));
    records.iter().map(|record| serde_json::to_string(record).expect("records are plain data")).collect()
}

#[test]
fn a_second_run_gives_the_same_bytes() {
    assert_eq!(records(), records());
}
