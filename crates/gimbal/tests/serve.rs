//! `gimbal serve` and `gimbal config check` from the user's point of view.

mod process;

use process::{Process, gimbal, serve};
use std::io::Read;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Output;

fn output(arguments: &[&str]) -> Output {
    gimbal().args(arguments).output().expect("the binary was built")
}

#[test]
fn it_says_where_it_listens_and_ends_in_order_on_a_signal() {
    for name in ["-TERM", "-INT"] {
        let mut target = Process::start(&mut serve(&["--log", "warn", "--device", "null"]));
        let mut connection = TcpStream::connect(target.address()).expect("it listens");
        target.signal(name);
        assert!(target.wait().success(), "{name}");
        assert_eq!(connection.read(&mut [0; 8]).unwrap_or(0), 0, "the connection is closed");
    }
}

#[test]
fn a_service_manager_is_notified_of_start_reload_and_stop() {
    let name = format!("gimbal-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let manager = UnixDatagram::bind_addr(&address).expect("nobody else has this name");
    let told = || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).expect("a datagram");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    };
    let mut command = serve(&["--device", "null", "--log", "error"]);
    let mut target = Process::start(command.env("NOTIFY_SOCKET", format!("@{name}")));
    assert_eq!(told(), "READY=1\n");
    target.signal("-HUP");
    assert!(told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(told(), "READY=1\n");
    target.signal("-TERM");
    assert_eq!(told(), "STOPPING=1\n");
    assert!(target.wait().success());
}

#[test]
fn a_target_started_by_flags_says_that_it_has_nothing_to_reload() {
    let (mut target, mut log) = Process::start_with_log(&mut serve(&["--device", "null"]));
    target.signal("-HUP");
    log.await_line("SIGHUP: nothing to reload");
    assert!(log.saying("--config").len() == 1);
    target.signal("-TERM");
    assert!(target.wait().success());
}

#[test]
fn the_check_of_a_file_and_the_start_with_it_refuse_the_same_log_level() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loud.toml");
    let example = include_str!("../../../examples/gimbal.toml").replace("[log]", "[log]\nlevel = \"a=loud\"");
    let quiet: Vec<&str> = example.lines().filter(|line| !line.starts_with("level = \"info\"")).collect();
    std::fs::write(&file, quiet.join("\n")).expect("cargo's folder for tests is writable");
    let file = file.to_str().expect("text");
    let checked = output(&["config", "check", file]);
    let served = output(&["serve", "-c", file]);
    for said in [checked, served] {
        assert_eq!(said.status.code(), Some(1));
        let said = String::from_utf8(said.stderr).expect("text");
        assert!(said.contains(": log.level: \"a=loud\" is not a log filter: "), "{said}");
    }
}

#[test]
fn a_problem_at_the_start_is_one_line_that_says_what_to_do() {
    let result = output(&["serve", "--device", "/nonexistent/disk"]);
    assert!(!result.status.success());
    let message = String::from_utf8(result.stderr).expect("text");
    assert!(
        message
            .contains("--device: /nonexistent/disk: does not exist; to create it, add --create and --size"),
        "{message}"
    );
    let result = output(&["serve", "--device", "null", "--speed", "2"]);
    let message = String::from_utf8(result.stderr).expect("text");
    assert!(message.contains("--speed works only with an emulated device"), "{message}");
}

#[test]
fn the_name_of_no_scheduler_is_answered_with_all_names() {
    let unknown = output(&["serve", "--device", "null", "--scheduler", "fifo"]);
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        said.contains(
            "level, gimbal, gimbal-text, level-calibrated, reflex, flashfq, mclock, spdk-qos, mq-deadline"
        ),
        "{said}"
    );
}

#[test]
fn config_check_reports_the_problems_of_a_file() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gimbal.toml");
    let example = example.to_str().expect("text");
    let result = output(&["config", "check", example]);
    assert!(result.status.success());
    let said = String::from_utf8(result.stdout).expect("text");
    assert!(said.ends_with("valid (6 devices, 3 subsystems, 7 namespaces)\n"), "{said}");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let result = output(&["config", "check", manifest]);
    assert!(!result.status.success());
    let said = String::from_utf8(result.stderr).expect("text");
    assert!(said.contains("Cargo.toml:1: package: unknown field"), "{said}");
}
