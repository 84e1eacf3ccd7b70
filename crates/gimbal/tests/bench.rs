//! `gimbal bench` from the point of view of a user who knows fio.

mod process;

use process::{Process, gimbal, serve};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("gimbal-bench-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a scratch folder");
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("there is room");
        path.to_str().expect("the folder's name is text").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If this fails, the leftover in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn null_target() -> Process {
    Process::start(&mut serve(&["--log", "error", "--device", "null"]))
}

fn bench(target: &Process, words: &[&str]) -> Output {
    let mut command = gimbal();
    command.args(["bench", "--addr", &target.address().to_string()]).args(words).stdin(Stdio::null());
    command.output().expect("the binary was built")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn randwrite_with_verify_verifies_every_block() {
    let scratch = Scratch::new("verify");
    let disk = scratch.write("disk", "");
    fs::File::options().write(true).open(&disk).and_then(|it| it.set_len(64 << 20)).expect("there is room");
    let target = Process::start(&mut serve(&["--log", "error", "--device", &disk]));
    let words =
        ["--rw", "randwrite", "--verify", "--size", "64m", "--bs", "16k", "--iodepth", "32", "--json", "-"];
    let output = bench(&target, &words);
    assert!(output.status.success(), "{}", said(&output));
    let job = &json(&output)["jobs"][0];
    assert_eq!(
        (job["verified"]["steps"].as_u64(), job["verified"]["differing"].as_u64()),
        (Some(4096), Some(0))
    );
    assert_eq!(job["write"]["ios"].as_u64(), Some(4096), "each block once");
}

#[test]
fn a_job_file_of_fio_is_run_and_a_flag_changes_all_of_it() {
    let scratch = Scratch::new("file");
    let text = "; for an SSD\n[global]\nioengine=libaio\ndirect=1\nfilename=/dev/nvme0n1\nsize=64k\nrw=randread\n\n[small]\nbs=4k\n\n[large]\nstonewall\nbs=16k\nrw=write\n";
    let file = scratch.write("jobs.fio", text);
    let target = null_target();
    let bs = |words: &[&str]| {
        let output = bench(&target, &[&[file.as_str(), "--json", "-"], words].concat());
        assert!(output.status.success(), "{}", said(&output));
        assert!(said(&output).contains("these options have no effect over NVMe/TCP"), "{}", said(&output));
        assert!(said(&output).contains("direct, filename, ioengine"), "{}", said(&output));
        let results = json(&output);
        let jobs = results["jobs"].as_array().expect("jobs").clone();
        let numbers =
            |job: &Value| (job["bs"].as_u64(), job["read"]["ios"].as_u64(), job["write"]["ios"].as_u64());
        assert_eq!((jobs[0]["name"].as_str(), jobs[1]["name"].as_str()), (Some("small"), Some("large")));
        jobs.iter().map(numbers).collect::<Vec<_>>()
    };
    assert_eq!(bs(&[]), [(Some(4096), Some(16), Some(0)), (Some(16384), Some(0), Some(4))]);
    assert_eq!(bs(&["--bs", "8k"]), [(Some(8192), Some(8), Some(0)), (Some(8192), Some(0), Some(8))]);
    // The same file, given by -c.
    let output = bench(&target, &["-c", &file]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn an_option_that_is_not_known_is_named_with_file_and_line() {
    let scratch = Scratch::new("unknown");
    let file = scratch.write("jobs.fio", "[a]\nrw=randread\nthinktime=10ms\n");
    let output = bench(&null_target(), &[&file]);
    assert_eq!(output.status.code(), Some(1));
    let expected = format!("{file}:3: `thinktime` is not an option of gimbal bench");
    assert!(said(&output).contains(&expected), "{}", said(&output));
}

#[test]
fn a_rate_is_a_cap() {
    let target = null_target();
    let words = ["--size", "400k", "--iodepth", "16", "--rate_iops", "1000", "--json", "-"];
    for process in ["linear", "poisson"] {
        let output = bench(&target, &[&words[..], &["--rate_process", process]].concat());
        assert!(output.status.success(), "{}", said(&output));
        let job = &json(&output)["jobs"][0];
        assert_eq!(job["read"]["ios"].as_u64(), Some(100));
        // 99 gaps of a millisecond. The sum of a hundred random gaps is never less than half of that.
        let least = if process == "linear" { 0.099 } else { 0.05 };
        let seconds = job["measured_seconds"].as_f64().expect("a number");
        assert!(seconds >= least, "100 IOs at 1000 per second took {seconds} s ({process})");
    }
}

#[test]
fn no_limit_of_time_means_the_size_once_and_nothing_done_is_a_failure() {
    let target = null_target();
    let output = bench(&target, &["--runtime", "0", "--size", "1m", "--json", "-"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(json(&output)["jobs"][0]["read"]["ios"].as_u64(), Some(256));
    let output = bench(&target, &["--size", "4k", "--ramp_time", "1000"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("no IO completed in the measured time"), "{table}");
}

#[test]
fn jobs_of_a_group_share_a_line() {
    let target = null_target();
    let jobs = [
        "--group_reporting",
        "--size",
        "64k",
        "--job",
        "name=a",
        "--job",
        "name=b",
        "--job",
        "name=c,new_group",
    ];
    let output = bench(&target, &[&jobs[..], &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let results = json(&output);
    let jobs = results["jobs"].as_array().expect("jobs");
    let numbers: Vec<_> = jobs
        .iter()
        .map(|job| {
            (job["name"].as_str(), job["read"]["ios"].as_u64(), job["members"].as_array().map(Vec::len))
        })
        .collect();
    assert_eq!(numbers, [(Some("a"), Some(32), Some(2)), (Some("c"), Some(16), Some(0))]);
}

#[test]
fn engines_have_one_spelling() {
    let target = null_target();
    for (name, code) in [("io_uring", 0), ("epoll", 0), ("io-uring", 2)] {
        let output = bench(&target, &["--size", "64k", "--backend", name]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", said(&output));
    }
}

#[test]
fn a_signal_leaves_the_results() {
    // Several at once: timeout(1) signals the process and then its group.
    for (signals, code) in
        [(&["-INT"][..], 130), (&["-TERM"], 143), (&["-HUP"], 129), (&["-INT", "-INT"], 130)]
    {
        // The command does not wait for the end of an interval.
        for interval in ["10ms", "1h"] {
            ends_by(signals, code, interval);
        }
    }
}

fn ends_by(signals: &[&str], code: i32, interval: &str) {
    let target = null_target();
    // The user who runs this test may ignore SIGHUP (nohup), and then the command would, too.
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal=HUP").arg(gimbal().get_program());
    command.args(["bench", "--addr", &target.address().to_string(), "--runtime", "1000000", "--time_based"]);
    command.args(["--interval", interval, "--json", "-", "--job", "name=a", "--job", "name=b,stonewall"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
    let connected = || {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux lists its sockets");
        let port = format!(":{:04X} 01 ", target.address().port());
        sockets.lines().filter(|line| line.contains(&port)).count()
    };
    // An admin queue and an IO queue are connected, so the signal handler was installed before.
    while connected() < 2 {
        assert!(child.try_wait().expect("our own child").is_none(), "the run has ended by itself");
        std::thread::yield_now();
    }
    for signal in signals {
        let killed = std::process::Command::new("kill").args([signal, &*child.id().to_string()]).status();
        assert!(killed.expect("kill(1) is everywhere").success());
    }
    let output = child.wait_with_output().expect("our own child");
    assert_eq!(output.status.code(), Some(code), "{signals:?}: {}", said(&output));
    let results = json(&output);
    assert_eq!(
        (results["interrupted"].as_bool(), results["jobs"].as_array().map(Vec::len)),
        (Some(true), Some(1))
    );
}
