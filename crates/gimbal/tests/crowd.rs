//! Thousands of connections at once: each costs little, and the next host is served all the same.

mod process;

use process::Process;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

/// ICReq: type, flags, HLEN, PDO, PLEN; the rest is zero.
const IC_REQ_HEAD: [u8; 8] = [0x00, 0, 128, 0, 128, 0, 0, 0];
const IC_SIZE: usize = 128;

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

/// A connection after ICReq and ICResp.
fn greeted(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the target listens");
    let mut request = [0; IC_SIZE];
    request[..8].copy_from_slice(&IC_REQ_HEAD);
    stream.write_all(&request).expect("the target reads");
    stream.read_exact(&mut [0; IC_SIZE]).expect("the target answers");
    stream
}

#[test]
#[ignore = "opens 5,000 connections; run by `make test-long`"]
fn five_thousand_connections_cost_little_and_the_next_host_is_served() {
    const CROWD: usize = 5000;
    const RESIDENT_MAX: u64 = 64 << 10;
    let limit = reactor::raise_descriptor_limit(CROWD as u64 + 1000).expect("the system tells");
    assert!(limit > CROWD as u64 + 100, "{limit} open files are too few for this test");
    // The target's soft limit is too low for them, as on most systems: the target raises it.
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
