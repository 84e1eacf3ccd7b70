//! Debian's Prometheus reads a running target: every sample of the text, and native histograms with our own quantiles.

mod http;
mod process;

use process::{Log, Process, gimbal};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const HOST: &str = "nqn.2025-01.io.example:a \"b\\";
const IOS: u64 = 2000;

/// A Prometheus that scrapes one target once a second; it ends with the test.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(folder: &Path, target: &str, options: &[&str]) -> Prometheus {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "scrape_configs: [{{job_name: gimbal, scrape_interval: 1s, scrape_timeout: 1s, static_configs: [{{targets: [\"{target}\"]}}]}}]\n"
        );
        fs::write(&config, text).expect("the folder is writable");
        let mut child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .args(options)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus is there: tests/install-deps.sh installs it");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut line_with = |text: &str| loop {
            let line = lines.next().expect("Prometheus says that it is ready").expect("text");
            if line.contains(text) {
                break line;
            }
        };
        let line = line_with("msg=\"Listening on\"");
        let address = line.split_once("address=").expect("an address").1.to_owned();
        line_with("msg=\"Server is ready to receive web requests.\"");
        // Its log has somewhere to go until it ends.
        std::thread::spawn(move || lines.for_each(drop));
        Prometheus { child, address }
    }

    /// The samples of an expression: labels and value.
    fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let query: String =
            form_urlencoded::Serializer::new(String::new()).append_pair("query", expression).finish();
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let head = format!("GET /api/v1/query?{query} HTTP/1.0\r\nHost: a\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        let body: Value = serde_json::from_str(&http::answer(&text).body).expect("JSON");
        assert_eq!(body["status"], "success", "{expression}: {body}");
        let samples = body["data"]["result"].as_array().expect("samples").iter();
        samples
            .map(|sample| {
                let value = sample["value"][1].as_str().expect("a value");
                (sample["metric"].clone(), value.parse().expect("a number"))
            })
            .collect()
    }

    /// The samples of an expression once there are any: after the scrapes that it needs.
    fn first(&self, expression: &str) -> Vec<(Value, f64)> {
        let (began, most) = (Instant::now(), Duration::from_secs(120));
        loop {
            match self.query(expression) {
                found if found.is_empty() => {
                    assert!(began.elapsed() < most, "{expression}: no sample");
                    std::thread::sleep(Duration::from_millis(50));
                }
                found => return found,
            }
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A target whose host has done its IOs, the address of its metrics, and its statistics.
fn target(folder: &Path) -> (Process, Log, String, Value) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).expect("cargo's folder for tests is writable");
    let socket = folder.join("s");
    let config = folder.join("gimbal.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[admin]\nsocket = {socket:?}\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
         [[device]]\nname = \"ssd\"\nkind = \"emulated\"\nsize = \"256M\"\n\
         [[subsystem]]\nnqn = \"nqn.2025-01.io.example:disk\"\nallow_any_host = true\n[[subsystem.namespace]]\ndevice = \"ssd\"\n"
    );
    fs::write(&config, text).expect("writable");
    let mut command = gimbal();
    command.args(["serve", "-c"]).arg(&config).arg("--state-dir").arg(folder);
    let (target, mut log) = Process::start_with_log(&mut command);
    log.await_line("can be read without permission");
    let line = log.saying("can be read without permission")[0].to_owned();
    let address = line.split_once("address=").expect("an address").1;
    let address = address.split_whitespace().next().expect("an address").to_owned();
    let bench = gimbal()
        .args(["bench", "--addr", &target.address().to_string(), "--hostnqn", HOST])
        .args(["--rw", "randread", "--bs", "4k", "--iodepth", "4", "--number_ios", &IOS.to_string()])
        .output()
        .expect("it was built");
    assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    let stats = http::send(&socket, "GET", "/v1/stats", &[], b"").body;
    (target, log, address, serde_json::from_str(&stats).expect("JSON"))
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("prometheus-{name}"))
}

#[test]
fn it_reads_native_histograms_with_our_quantiles() {
    let folder = folder("native");
    let (_target, _log, address, stats) = target(&folder);
    let prometheus = Prometheus::start(&folder, &address, &["--enable-feature=native-histograms"]);
    let reads = &stats["devices"][0]["tenants"][0]["io_seconds"]["read"];
    for (quantile, ours) in [(0.5, "p50_seconds"), (0.99, "p99_seconds")] {
        let ours = reads[ours].as_f64().expect("a quantile");
        let found = prometheus
            .first(&format!("histogram_quantile({quantile}, gimbal_tenant_io_seconds{{op=\"read\"}})"));
        let [(labels, theirs)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&labels["host"], &labels["device"]), (&Value::from(HOST), &Value::from("ssd")));
        // Ours is at most an eighth above the true one, theirs at most a quarter above it and a tenth below.
        assert!((0.8..=1.25).contains(&(theirs / ours)), "{quantile}: {theirs} s, and ours {ours} s");
    }
    let count = prometheus.first("histogram_count(gimbal_device_switch_io_seconds{op=\"read\"})");
    assert_eq!(count[0].1, IOS as f64);
    let sum = prometheus.first("histogram_sum(gimbal_tenant_io_seconds{op=\"read\"})")[0].1;
    let ours = reads["sum_seconds"].as_f64().expect("a sum");
    assert!((sum / ours - 1.0).abs() < 1e-9, "{sum} s, and ours {ours} s");
    assert!(
        prometheus.query("gimbal_tenant_io_seconds_bucket").is_empty(),
        "the older kind is not told beside it"
    );
    assert_eq!(prometheus.first("sum(gimbal_tenant_ios_total)")[0].1, IOS as f64);
}

#[test]
fn it_reads_the_text_without_them() {
    let folder = folder("text");
    let (_target, _log, address, _) = target(&folder);
    let prometheus = Prometheus::start(&folder, &address, &[]);
    let found = prometheus.first("gimbal_tenant_io_seconds_count{op=\"read\"}");
    assert_eq!((&found[0].0["host"], found[0].1), (&Value::from(HOST), IOS as f64));
    assert_eq!(prometheus.first("up"), vec![(prometheus.query("up")[0].0.clone(), 1.0)]);
}
