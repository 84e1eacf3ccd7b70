//! `kill -USR1`: the statistics that a running target logs.

mod process;

use process::{Log, Process, gimbal, serve};
use serde_json::Value;

/// Requests the statistics, and returns the line that contains these words.
fn statistics(target: &Process, log: &mut Log, words: &str) -> Value {
    target.signal("-USR1");
    log.await_line(words);
    let lines = log.saying(words);
    let (_, text) = lines[0].split_once(" statistics ").expect("a line of statistics");
    serde_json::from_str(text).expect("one JSON object")
}

#[test]
fn a_signal_makes_the_target_log_what_each_ssd_has_done() {
    let mut command = serve(&["--log", "error", "--device", "null"]);
    let (mut target, mut log) = Process::start_with_log(&mut command);
    let before = statistics(&target, &mut log, r#""tenants":0"#);
    assert_eq!(before["all"]["writes"]["ios"], 0);
    assert_eq!(before["all"]["writes"]["p99_us"], Value::Null);

    let address = target.address().to_string();
    let words = ["--rw", "write", "--bs", "16k", "--size", "1m", "--json", "-"];
    let bench = gimbal().args(["bench", "--addr", &address]).args(words).output().expect("it was built");
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));

    let after = statistics(&target, &mut log, r#""tenants":1"#);
    assert_eq!(after["device"], before["device"]);
    assert_eq!(after["all"]["writes"]["ios"], 64);
    assert_eq!(after["all"]["writes"]["bytes"], 1 << 20);
    assert_eq!(after["busiest"][0]["writes"]["ios"], 64);
    assert!(after["busiest"][0]["host"].as_str().is_some_and(|nqn| nqn.starts_with("nqn.")), "{after}");
    assert!(after["all"]["writes"]["p99_us"].is_u64() && after["auxiliary"].is_null(), "{after}");
    assert!(after["busy"].is_null(), "{after}");
    target.signal("-TERM");
    assert!(target.wait().success());
}
