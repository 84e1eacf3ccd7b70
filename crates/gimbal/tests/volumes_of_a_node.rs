//! Eight volumes of one node: the example of docs/bench.md, what is told of its tenants, and changes by `gimbal ctl`.

mod http;
mod process;

use http::send;
use process::{Process, gimbal};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const NQN: &str = "nqn.2025-01.com.example:volumes";
const WEIGHTS: [u64; 8] = [1, 1, 2, 2, 4, 4, 8, 8];

/// The target of the example, with a file of its own.
struct Bed {
    target: Process,
    folder: PathBuf,
}

impl Bed {
    fn new(name: &str) -> Bed {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("volumes-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("cargo's folder for tests is writable");
        fs::copy(format!("{EXAMPLES}/volumes.toml"), folder.join("g.toml")).expect("it is in the tree");
        Bed { target: Bed::serve(&folder), folder }
    }

    fn serve(folder: &Path) -> Process {
        let mut command = gimbal();
        command.args(["serve", "--listen", "127.0.0.1:0", "-c", "g.toml"]).current_dir(folder);
        command.args(["--admin-socket", "s", "--state-dir", "."]);
        Process::start(&mut command)
    }

    fn restart(&mut self) {
        self.target.kill();
        self.target = Bed::serve(&self.folder);
    }

    fn run(&self, words: &[&str]) -> (bool, String) {
        let Output { status, stdout, stderr } =
            gimbal().args(words).current_dir(&self.folder).output().expect("it was built");
        (status.success(), String::from_utf8([stdout, stderr].concat()).expect("text"))
    }

    fn ctl(&self, words: &[&str]) -> String {
        let (is_done, said) = self.run(&[&["ctl", "--socket", "s"], words].concat());
        assert!(is_done, "{words:?}: {said}");
        said
    }

    /// Bytes read by each job.
    fn bench(&self, more: &[&str]) -> Vec<u64> {
        let (address, jobs) = (self.target.address().to_string(), format!("{EXAMPLES}/volumes.fio"));
        let words = ["bench", &jobs, "--addr", &address, "--json", "-"];
        let (is_done, said) = self.run(&[&words, more].concat());
        assert!(is_done, "{said}");
        let start = said.find('{').expect("JSON");
        let mut values = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Value>();
        let result = values.next().expect("a value").expect("JSON");
        let jobs = result["jobs"].as_array().expect("a list");
        jobs.iter().map(|job| job["read"]["ios"].as_u64().expect("a count")).collect()
    }

    fn get(&self, path: &str) -> String {
        let answer = send(&self.folder.join("s"), "GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.get(path)).expect("JSON")
    }
}

#[test]
fn the_bandwidth_of_eight_volumes_of_one_node_is_by_their_weights_and_everybody_says_so() {
    let bed = Bed::new("weights");
    let reads = bed.bench(&["--runtime", "6s", "--ramp_time", "1s"]);
    let (all, weights) = (reads.iter().sum::<u64>() as f64, WEIGHTS.iter().sum::<u64>() as f64);
    for (read, weight) in reads.iter().zip(WEIGHTS) {
        let due = all * weight as f64 / weights;
        let part = *read as f64 / due;
        assert!((0.75..=1.33).contains(&part), "weight {weight}: {read} reads, {due:.0} are due: {reads:?}");
    }
    let stats = bed.json(&format!("/v1/stats?subsystem={NQN}&namespace=3"));
    let tenants = stats["devices"][0]["tenants"].as_array().expect("a list");
    assert_eq!(tenants.len(), 1);
    assert_eq!(
        (&tenants[0]["kind"], &tenants[0]["subsystem"], &tenants[0]["namespace"], &tenants[0]["host"]),
        (&"namespace".into(), &NQN.into(), &3.into(), &Value::Null)
    );
    assert!(tenants[0]["ios"]["read"].as_u64() >= Some(reads[2]));
    let hosts =
        bed.json("/v1/stats?host=nqn.2014-08.org.nvmexpress:uuid:0c6e1a52-7d0b-4a6e-9b0e-5f3a4d2c1b00");
    assert_eq!(hosts["devices"][0]["tenants"].as_array().expect("a list").len(), 1);
    assert_eq!(hosts["devices"][0]["tenants"][0]["kind"], "host");
    let text = bed.get("/metrics");
    let line =
        format!("gimbal_tenant_ios_total{{device=\"ssd\",subsystem=\"{NQN}\",namespace=\"8\",op=\"read\"}} ");
    assert!(text.contains(&line), "no {line} in {text}");
    let trace = ["trace", "--socket", "s", "--json", "--subsystem", NQN, "--namespace", "1"];
    let (is_done, slow) = bed.run(&trace);
    assert!(is_done && slow.lines().count() > 0, "{slow}");
    let is_of_one = |line: &str| {
        let io: Value = serde_json::from_str(line).expect("JSON");
        io["kind"] == "namespace" && io["namespace"] == 1 && io["nsid"] == 1
    };
    assert!(slow.lines().all(is_of_one), "{slow}");
    let (_, table) = bed.run(&["trace", "--socket", "s"]);
    assert!(table.contains(&format!("namespace 1 of {NQN}")), "{table}");
    let (_, top) = bed.run(&["top", "--socket", "s", "--once"]);
    assert!(top.contains(&format!("8 of {NQN}")) && top.contains("namespace"), "{top}");
}

#[test]
fn shares_and_tenants_change_by_command_and_outlive_a_kill() {
    let mut bed = Bed::new("changes");
    let file = fs::read_to_string(bed.folder.join("g.toml")).expect("it was copied");
    let other = file.replacen("weight = 1\n", "weight = 9\nlimit_iops = 500\n", 1);
    fs::write(bed.folder.join("other.toml"), other).expect("writable");
    let said = bed.ctl(&["apply", "other.toml", "--dry-run"]);
    assert!(said.contains("weight 1 → weight 9, limit_iops 500"), "{said}");
    assert_eq!(bed.json("/v1/stats")["devices"][0]["known_tenants"], 8);
    bed.ctl(&["set", "namespace", NQN, "1", "weight=9", "limit_iops=500"]);
    let reads = bed.bench(&["--runtime", "3s", "--ramp_time", "1s"]);
    assert!(reads[0] <= 2200, "500 IOPS: {reads:?}");
    let said = bed.ctl(&["set", "namespace", NQN, "2", "tenant=host", "weight=null"]);
    assert!(said.contains(&format!("tenant namespace 2 of {NQN}: removed")), "{said}");
    let (is_done, said) = bed.run(&["ctl", "--socket", "s", "set", "namespace", NQN, "2", "weight=3"]);
    assert!(!is_done && said.contains("the tenants of namespace 2 are its hosts"), "{said}");
    bed.restart();
    let ids = |bed: &Bed| -> Vec<u64> {
        let stats = bed.json("/v1/stats");
        let tenants = stats["devices"][0]["tenants"].as_array().expect("a list").clone();
        let mut ids: Vec<u64> = tenants.iter().filter_map(|tenant| tenant["namespace"].as_u64()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&bed), [1, 3, 4, 5, 6, 7, 8]);
    let said = bed.ctl(&["set", "namespace", NQN, "2", "tenant=namespace", "weight=3"]);
    assert!(said.contains(&format!("tenant namespace 2 of {NQN}: added, weight 3")), "{said}");
    assert_eq!(ids(&bed), [1, 2, 3, 4, 5, 6, 7, 8]);
    bed.ctl(&["remove", "namespace", NQN, "8"]);
    assert_eq!(ids(&bed), [1, 2, 3, 4, 5, 6, 7]);
}
