//! `gimbal serve` and `gimbal config check` as a user meets them.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn gimbal() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gimbal"))
}

/// A target that serves, and where.
fn serving(arguments: &[&str]) -> (Child, std::net::SocketAddr) {
    let mut child = gimbal()
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("readable");
    let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("printed {line:?}"));
    (child, address.parse().expect("an address"))
}

fn signal(child: &Child, name: &str) {
    let status =
        Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill(1) is everywhere");
    assert!(status.success());
}

fn output(arguments: &[&str]) -> Output {
    gimbal().args(arguments).output().expect("the binary was built")
}

#[test]
fn it_says_where_it_listens_and_ends_in_order_on_a_signal() {
    for name in ["-TERM", "-INT"] {
        let (mut child, address) = serving(&["--device", "null"]);
        let mut connection = TcpStream::connect(address).expect("it listens");
        signal(&child, name);
        assert!(child.wait().expect("it ends").success(), "{name}");
        assert_eq!(connection.read(&mut [0; 8]).unwrap_or(0), 0, "the connection is closed");
    }
}

#[test]
fn a_service_manager_is_told_of_start_reload_and_end() {
    let name = format!("gimbal-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a short name");
    let manager = UnixDatagram::bind_addr(&address).expect("nobody else has this name");
    let told = || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).expect("a datagram");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    };
    let mut child = gimbal()
        .args(["serve", "--device", "null", "--listen", "127.0.0.1:0", "--log", "error"])
        .env("NOTIFY_SOCKET", format!("@{name}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    assert_eq!(told(), "READY=1\n");
    signal(&child, "-HUP");
    assert!(told().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(told(), "READY=1\n");
    signal(&child, "-TERM");
    assert_eq!(told(), "STOPPING=1\n");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_target_started_by_flags_says_that_it_has_nothing_to_reload() {
    let mut child = gimbal()
        .args(["serve", "--device", "null", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("readable");
    signal(&child, "-HUP");
    let mut log = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("there is nothing to reload") && line.contains("--config")));
    signal(&child, "-TERM");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_problem_at_the_start_is_one_line_that_says_what_to_do() {
    let result = output(&["serve", "--device", "/nonexistent/disk"]);
    assert!(!result.status.success());
    let message = String::from_utf8(result.stderr).expect("text");
    assert!(
        message.contains("device \"ssd\": /nonexistent/disk: does not exist; give it a size"),
        "{message}"
    );
    let result = output(&["serve", "--device", "null", "--speed", "2"]);
    let message = String::from_utf8(result.stderr).expect("text");
    assert!(message.contains("--speed is for emulated devices"), "{message}");
}

#[test]
fn config_check_judges_a_file() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gimbal.toml");
    let example = example.to_str().expect("text");
    let result = output(&["config", "check", example]);
    assert!(result.status.success());
    let said = String::from_utf8(result.stdout).expect("text");
    assert!(said.ends_with("valid (4 devices, 2 subsystems, 5 namespaces)\n"), "{said}");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let result = output(&["config", "check", manifest]);
    assert!(!result.status.success());
    let said = String::from_utf8(result.stderr).expect("text");
    assert!(said.contains("Cargo.toml:1: package: nothing is called so here"), "{said}");
}
