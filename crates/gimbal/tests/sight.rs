//! Who looks at a running target sees what the load generator has counted: metrics, statistics, `gimbal top`.

mod http;
mod process;

use http::send;
use process::{Process, gimbal};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const NQN: &str = "nqn.2025-01.io.example:disk";
const HOSTS: [&str; 2] = ["nqn.2025-01.io.example:a", "nqn.2025-01.io.example:b"];
/// IOs of each host.
const IOS: u64 = 3000;

/// A target with an emulated SSD, and its admin socket.
struct Bed {
    target: Process,
    socket: PathBuf,
}

impl Bed {
    fn new(name: &str) -> Bed {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sight-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        let socket = folder.join("s");
        let mut command = gimbal();
        command.args([
            "serve",
            "--device",
            "emulated",
            "--size",
            "256M",
            "--listen",
            "127.0.0.1:0",
            "--nqn",
            NQN,
        ]);
        command.arg("--admin-socket").arg(&socket).arg("--state-dir").arg(&folder);
        Bed { target: Process::start(&mut command), socket }
    }

    /// Reads and writes of a host, all of which succeed.
    fn bench(&self, host: &str) {
        let address = self.target.address().to_string();
        let count = IOS.to_string();
        let Output { status, stdout, stderr } = gimbal()
            .args(["bench", "--addr", &address, "--hostnqn", host, "--rw", "randrw", "--bs", "4k"])
            .args(["--iodepth", "16", "--number_ios", &count, "--json", "-"])
            .output()
            .expect("it was built");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let result: Value = serde_json::from_slice(&stdout).expect("JSON");
        let job = &result["jobs"][0];
        let done = ["read", "write"].map(|way| job[way]["ios"].as_u64().expect("a count"));
        assert_eq!(done.iter().sum::<u64>(), IOS);
    }

    fn get(&self, path: &str) -> String {
        let answer = send(&self.socket, "GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    fn top(&self, words: &[&str]) -> Output {
        gimbal().arg("top").arg("--socket").arg(&self.socket).args(words).output().expect("it was built")
    }
}

/// Reads and writes in an object of measures.
fn ios(of: &Value) -> u64 {
    ["read", "write"].iter().map(|op| of["ios"][op].as_u64().expect("a count")).sum()
}

#[test]
fn the_sums_are_those_of_the_load_generator_to_the_io() {
    let bed = Bed::new("sums");
    HOSTS.into_iter().for_each(|host| bed.bench(host));
    let stats: Value = serde_json::from_str(&bed.get("/v1/stats")).expect("JSON");
    let device = &stats["devices"][0];
    assert_eq!(ios(device), 2 * IOS);
    for host in HOSTS {
        let only: Value = serde_json::from_str(&bed.get(&format!("/v1/stats?host={host}"))).expect("JSON");
        let tenants = only["devices"][0]["tenants"].as_array().expect("a list");
        assert_eq!((tenants.len(), &tenants[0]["host"]), (1, &Value::from(host)));
        assert_eq!(ios(&tenants[0]), IOS);
        let latencies =
            ["read", "write"].map(|op| tenants[0]["io_seconds"][op]["count"].as_u64().expect("a count"));
        assert_eq!(latencies.iter().sum::<u64>(), IOS);
    }
    let text = bed.get("/metrics");
    let sum = |name: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name) && !line.contains("op=\"other\""));
        lines.map(|line| line.rsplit(' ').next().expect("a value").parse::<f64>().expect("a number")).sum()
    };
    assert_eq!(sum("gimbal_tenant_ios_total{"), (2 * IOS) as f64);
    assert_eq!(sum("gimbal_device_ios_total{"), (2 * IOS) as f64);
    assert_eq!(sum("gimbal_tenant_bytes_total{"), (2 * IOS * 4096) as f64);
    lint(&text);
    let page = bed.get("/");
    assert!(page.contains("Who waits, and why"));
}

/// Prometheus' own checker has nothing to say against the text.
fn lint(text: &str) {
    let mut checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is there: tests/install-deps.sh installs it with Debian's prometheus");
    checker.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let Output { status, stdout, stderr } = checker.wait_with_output().expect("it ends");
    let said = String::from_utf8([stdout, stderr].concat()).expect("text");
    assert!(status.success(), "{said}");
}

#[test]
fn the_alert_rules_are_valid() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards/alerts.yml");
    let checked = Command::new("promtool").args(["check", "rules", rules]).output();
    let Output { status, stdout, stderr } =
        checked.expect("promtool is there: tests/install-deps.sh installs it with Debian's prometheus");
    assert!(status.success(), "{}", String::from_utf8_lossy(&[stdout, stderr].concat()));
}

#[test]
fn top_prints_a_second_and_says_what_is_wrong() {
    let bed = Bed::new("top");
    bed.bench(HOSTS[0]);
    let Output { status, stdout, .. } = bed.top(&["--once"]);
    let text = String::from_utf8(stdout).expect("text");
    assert!(status.success() && text.contains(HOSTS[0]) && text.contains("as usual"), "{text}");
    let Output { status, stdout, .. } = bed.top(&["--json"]);
    let event: Value = serde_json::from_slice(&stdout).expect("JSON");
    assert!(status.success());
    assert_eq!(ios(&event["devices"][0]), IOS);
    let Output { status, stderr, .. } = bed.top(&[]);
    let text = String::from_utf8(stderr).expect("text");
    assert!(!status.success() && text.contains("--once"), "{text}");
    let Bed { target, socket } = bed;
    drop(target);
    let Output { status, stderr, .. } =
        gimbal().args(["top", "--once", "--socket"]).arg(&socket).output().expect("it was built");
    let text = String::from_utf8(stderr).expect("text");
    assert_eq!(status.code(), Some(3), "{text}");
    assert!(text.contains("no target answers"), "{text}");
}

#[test]
fn trace_shows_the_slowest_ios_and_the_parts_of_their_time() {
    let bed = Bed::new("trace");
    let trace = |words: &[&str]| {
        let mut command = gimbal();
        command.arg("trace").arg("--socket").arg(&bed.socket).args(words);
        let Output { status, stdout, stderr } = command.output().expect("it was built");
        (status.code(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    };
    assert_eq!(trace(&[]), (Some(0), "no IO has ended in the last minute\n".to_owned()));
    HOSTS.into_iter().for_each(|host| bed.bench(host));
    let (code, text) = trace(&["--json", "--count", "1000"]);
    assert_eq!(code, Some(0), "{text}");
    let ios: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(ios.len(), 100);
    let time = |io: &Value, field: &str| io[field].as_f64().expect("a number");
    assert!(ios.is_sorted_by(|a, b| time(a, "total") >= time(b, "total")));
    for io in &ios {
        let parts = ["memory", "queued", "on_device"].map(|part| time(io, part));
        assert!((parts.iter().sum::<f64>() - time(io, "total")).abs() < 2e-9, "{io}");
        let reasons = ["share", "limit", "device"].map(|reason| time(&io["queued_for"], reason));
        assert!(reasons.iter().sum::<f64>() <= time(io, "queued") + 2e-9, "{io}");
        assert!(
            HOSTS.iter().any(|host| io["host"] == **host) && io["bytes"] == 4096 && io["nsid"] == 1,
            "{io}"
        );
    }
    let of_one = ios.iter().filter(|io| io["host"] == *HOSTS[1]).count().min(20);
    let (_, text) = trace(&["--json", "--host", HOSTS[1], "--device", "ssd"]);
    assert!(text.lines().count() == of_one && text.lines().all(|line| line.contains(HOSTS[1])), "{text}");
    let (_, text) = trace(&["--count", "3"]);
    assert!(text.contains("SSD full") && text.matches(" ago").count() == 3, "{text}");
    let (code, text) = trace(&["--device", "none"]);
    assert!(code == Some(1) && text.contains("there is no device \"none\"; there are ssd"), "{text}");
}
