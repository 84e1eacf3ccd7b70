//! `gimbal serve` with a log that cannot be written: it serves, and later logs the number of lost lines.

mod process;

use host::{Backend, Client, Controller, ControllerOptions, HostId, Nqn, Operation, Request, RetryPolicy};
use process::{Process, serve};
use std::fs::File;
use std::io::{Write, pipe};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use units::{Bytes, Lba};

const NQN: &str = "nqn.2025-01.io.gimbal:ssd";
const BLOCK: usize = 4096;

/// Hosts that connect, write, read and disconnect; the log has lines about each.
fn hosts_come_and_go(address: SocketAddr, count: usize) {
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("a client");
    for number in 0..count {
        let host = format!("nqn.2025-01.io.example:host-{number}");
        let [subsystem, host] = [NQN, &host].map(|name| Nqn::new(name).expect("valid"));
        let options = ControllerOptions::new(address, subsystem, host, HostId([number as u8 + 1; 16]));
        let options = ControllerOptions { retry: RetryPolicy::Never, ..options };
        let controller = client.connect(options).wait().expect("connects");
        io_works(&controller);
    }
}

fn io_works(controller: &Controller) {
    for operation in [Operation::Write { durable: false }, Operation::Read] {
        let buffer = controller.client().buffer(BLOCK).expect("the client has memory to spare");
        let request = Request::new(0, 1, operation, Lba(1), 1).with_buffer(buffer);
        assert!(controller.submit(request).wait().result.is_ok(), "{operation:?}");
    }
}

fn ends_well(mut target: Process) {
    target.signal("-TERM");
    assert!(target.wait().success(), "in order, as with any log");
}

#[test]
fn a_log_on_a_full_disk_costs_lines_and_no_service() {
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let target = Process::start(serve(&["--device", "null", "--log", "debug"]).stderr(full));
    hosts_come_and_go(target.address(), 5);
    ends_well(target);
}

#[test]
fn a_log_whose_reader_has_gone_costs_lines_and_no_service() {
    let (reader, writer) = pipe().expect("a pipe");
    let target = Process::start(serve(&["--device", "null", "--log", "debug"]).stderr(writer));
    drop(reader);
    hosts_come_and_go(target.address(), 5);
    ends_well(target);
}

#[test]
fn a_log_that_nobody_reads_delays_neither_start_nor_hosts_nor_shutdown() {
    let (reader, mut writer) = pipe().expect("a pipe");
    // The pipe is full before the first line.
    rustix::io::ioctl_fionbio(&writer, true).expect("a pipe can be set so");
    while writer.write(b"somebody else's\n").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("and back");
    let target = Process::start(serve(&["--device", "null", "--log", "debug"]).stderr(writer));
    hosts_come_and_go(target.address(), 5);
    ends_well(target);
    drop(reader);
}

#[test]
fn a_stdout_that_cannot_be_written_delays_nothing() {
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let (target, mut log) = Process::start_unheard(serve(&["--device", "null"]).stdout(full));
    log.await_line("cannot write the listening addresses to stdout");
    assert_eq!(log.saying("the target accepts connections").len(), 1, "which the log has too");
    ends_well(target);
}

#[test]
fn lines_lost_to_a_size_limit_are_counted_and_reported_when_there_is_room_again() {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("limited.log");
    let log = File::create(&file).expect("cargo's folder for tests is writable");
    // The file may grow to a few lines; a write beyond that kills a process that does not handle SIGXFSZ.
    let mut target = serve(&["--device", "null", "--log", "info"]);
    let mut limited = Command::new("prlimit");
    limited.arg("--fsize=600:").arg(target.get_program()).args(target.get_args()).stderr(log);
    target = limited;
    let target = Process::start(&mut target);
    hosts_come_and_go(target.address(), 20);
    let read = || std::fs::read_to_string(&file).expect("text");
    assert_eq!(read().len(), 600, "up to the limit");
    let id = target.id().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited:", "--pid", &id]).status();
    assert!(lifted.expect("prlimit(1) is installed").success());
    hosts_come_and_go(target.address(), 1);
    ends_well(target);
    let said = read();
    let told: Vec<&str> = said.lines().filter(|line| line.contains("log lines were lost")).collect();
    assert!(!told.is_empty(), "{said}");
    assert!(told[0].contains("they could not be written: File too large"), "{told:?}");
    let lost: u64 = told
        .iter()
        .map(|line| {
            let before = line.split(" log lines were lost").next().expect("a part");
            before.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok()).expect("a number")
        })
        .sum();
    // Each host has a line for each queue it connects, and one when it disconnects.
    assert!(lost >= 20, "{lost} lines are counted");
    let last = said.lines().last().expect("a line");
    assert!(last.contains("stopping") || last.contains("INFO"), "the log continues: {last}");
}

#[test]
fn a_start_that_fails_says_why_if_it_can_and_fails_if_it_cannot() {
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let status = serve(&["--device", "/nonexistent/disk"]).stdout(Stdio::null()).stderr(full).status();
    assert_eq!(status.expect("the binary was built").code(), Some(1), "an error, not a panic");
}
