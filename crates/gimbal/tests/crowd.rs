//! Thousands of connections at once: each costs little memory, and the next host is still served.

mod process;
mod wire;

use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::log::{COMMANDS_SUPPORTED, LogRequest};
use nvme::spec::{Nqn, Sgl};
use process::Process;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use wire::{capsule, connect, enable, greeted};

fn serving(limits: &str, shell: &str) -> Process {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("crowd.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[log]\nlevel = \"error\"\n[limits]\n{limits}\n\
         [[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\
         [[subsystem]]\nnqn = \"nqn.2025-01.io.example:a\"\nallow_any_host = true\n\
         [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\n"
    );
    fs::write(&file, text).expect("a file for the test");
    let script = format!("{shell} exec \"$0\" serve -c \"$1\"");
    let mut command = Command::new("sh");
    Process::start(command.args(["-c", &script, env!("CARGO_BIN_EXE_gimbal")]).arg(&file))
}

/// Resident bytes of a process.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("Linux, and it is alive");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("every process has it");
    line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number") * 1024
}

#[test]
#[ignore = "opens 5,000 connections; run by `make test-long`"]
fn five_thousand_connections_cost_little_and_the_next_host_is_served() {
    const CROWD: usize = 5000;
    const RESIDENT_MAX: u64 = 64 << 10;
    let limit = reactor::raise_descriptor_limit(CROWD as u64 + 1000).expect("the system tells");
    assert!(limit > CROWD as u64 + 100, "{limit} open files are too few for this test");
    // As on most systems, the target's soft limit of open files is too low: the target raises it.
    let server = serving("connections_waiting = 6000", "ulimit -Sn 1024;");
    let address = server.address();
    greeted(address);
    let before = resident(server.id());
    let mut crowd = Vec::new();
    for count in 1..=CROWD {
        crowd.push(greeted(address));
        if count == 1000 || count == CROWD {
            let each = (resident(server.id()) - before) / count as u64;
            println!("{count} connections that have greeted: {each} resident bytes each");
            assert!(each <= RESIDENT_MAX, "{each} bytes for each of {count} connections");
        }
    }
    greeted(address);
    drop(crowd);
}

/// An enabled discovery controller with an admin queue of 1024 entries.
fn discovery_controller(address: SocketAddr) -> TcpStream {
    let mut stream = greeted(address);
    connect(&mut stream, Nqn::DISCOVERY, (0, 1024), CNTLID_DYNAMIC, 0);
    enable(&mut stream);
    stream
}

#[test]
fn a_thousand_log_pages_that_nobody_reads_cost_little() {
    const CONNECTIONS: usize = 3;
    const PAGES: u16 = 1000;
    const LENGTH: u32 = 1 << 20;
    const RESIDENT_MAX: u64 = 48 << 20;
    // No rate limit, so that only memory limits the replies.
    let server = serving("reply_rate = \"1T\"\nstall_timeout = \"3600s\"", "");
    let address = server.address();
    drop(discovery_controller(address));
    let before = resident(server.id());
    let mut deaf = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = discovery_controller(address);
        let request = LogRequest::read(COMMANDS_SUPPORTED, 0, LENGTH.into());
        for cid in 0..PAGES {
            let sqe = request.to_sqe(0).with_cid(cid).with_sgl(Sgl::Transport { length: LENGTH });
            stream.write_all(&capsule(sqe, &[])).expect("the target reads");
        }
        deaf.push(stream);
    }
    // A response to the next host shows that the target has processed all these commands.
    drop(discovery_controller(address));
    let more = resident(server.id()).saturating_sub(before);
    println!("{CONNECTIONS} x {PAGES} log pages of 1 MiB, not read: {more} resident bytes more");
    assert!(more <= RESIDENT_MAX, "{more} bytes more");
}
