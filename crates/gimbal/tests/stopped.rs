//! A target that is stopped (SIGSTOP, a suspended machine) for longer than the time limits of its hosts: that time does
//! not count against the hosts.

mod process;
mod wire;

use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sgl, Sqe};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{Framing, H2cData, R2t};
use process::Process;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;
use wire::{capsule, connect, enable, execute, greeted, success};
use zerocopy::FromBytes;

const NQN: &str = "nqn.2025-01.io.example:a";
/// Time limits of the target.
const LIMITS: &str =
    "handshake_timeout = \"3s\"\nconnect_timeout = \"3s\"\nstall_timeout = \"3s\"\ntransfer_timeout = \"3s\"";
/// The type of an R2T PDU.
const R2T: u8 = 9;
const KEEP_ALIVE_MILLIS: u32 = 4000;
/// Longer than all of them.
const STOPPED: Duration = Duration::from_secs(8);
/// More than a turn of the target reads, and than a socket holds at first.
const LENGTH: u32 = 1 << 20;

/// A host of a target, with an operation in progress for every time limit.
struct Host {
    target: Process,
    /// The connection of a write whose data is in transfer, and its transfer tag.
    writes: TcpStream,
    tag: u16,
    /// The admin connection of the controller, and its identifier.
    admin: TcpStream,
    controller: u16,
    /// A connection before Connect.
    waits: TcpStream,
    /// The connection of a write whose data never arrives.
    fails: TcpStream,
}

/// Sends a write without its data. Returns the transfer tag.
fn announce(stream: &mut TcpStream) -> u16 {
    let blocks = LENGTH / 4096;
    let write = Sqe::new(nvm::WRITE).with_nsid(1).with_cdw10_15([0, 0, blocks - 1, 0, 0, 0]);
    let write = write.with_sgl(Sgl::Transport { length: LENGTH });
    stream.write_all(&capsule(write, &[])).expect("the target reads");
    let mut pdu = [0; size_of::<R2t>()];
    stream.read_exact(&mut pdu).expect("an R2T");
    assert_eq!(pdu[0], R2T, "an R2T");
    R2t::read_from_bytes(&pdu).expect("whole").ttag.get()
}

impl Host {
    fn of_target(threads: u32) -> Host {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stopped-{threads}.toml"));
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nthreads = {threads}\n[limits]\n{LIMITS}\n\
             [[device]]\nname = \"a\"\nkind = \"null\"\nsize = \"1G\"\n\
             [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\ndevice = \"a\"\n"
        );
        fs::write(&file, text).expect("a file for the test");
        let mut command = process::gimbal();
        let target = Process::start(command.args(["serve", "-c"]).arg(&file));
        let [mut admin, mut writes, mut fails, waits] = [(); 4].map(|()| greeted(target.address()));
        let controller = connect(&mut admin, NQN, (0, 32), CNTLID_DYNAMIC, KEEP_ALIVE_MILLIS);
        enable(&mut admin);
        connect(&mut writes, NQN, (1, 128), controller, 0);
        connect(&mut fails, NQN, (2, 128), controller, 0);
        announce(&mut fails);
        let tag = announce(&mut writes);
        Host { target, writes, tag, admin, controller, waits, fails }
    }

    /// Stops the target.
    fn stop(&self) {
        self.target.signal("-STOP");
        let status = format!("/proc/{}/status", self.target.id());
        while !fs::read_to_string(&status).expect("Linux, and it is alive").contains("\nState:\tT") {
            std::thread::yield_now();
        }
    }

    /// Sends the data of the write, as fast as the target takes it.
    fn send(&self) -> JoinHandle<()> {
        let mut wire = Vec::new();
        Framing::HANDSHAKE.header(&mut wire, H2cData::new(0, self.tag, 0, LENGTH), FLAG_LAST, LENGTH);
        wire.resize(wire.len() + LENGTH as usize, 7);
        let mut writes = self.writes.try_clone().expect("another descriptor");
        std::thread::spawn(move || writes.write_all(&wire).expect("the target keeps the connection"))
    }

    /// Continues the target, and checks that all is served in time but the write without data.
    fn goes_on(mut self, sender: JoinHandle<()>) {
        self.target.signal("-CONT");
        execute(&mut self.admin, Sqe::new(admin::KEEP_ALIVE));
        connect(&mut self.waits, NQN, (3, 128), self.controller, 0);
        success(&mut self.writes);
        sender.join().expect("all was sent");
        assert!(matches!(self.fails.read(&mut [0]), Ok(0) | Err(_)), "a host's own time is limited");
        self.target.signal("-TERM");
        assert!(self.target.wait().success());
    }
}

#[test]
fn a_stopped_target_ends_no_connection_whose_host_is_in_time() {
    let hosts = [1, 2].map(Host::of_target);
    hosts.iter().for_each(Host::stop);
    let senders = hosts.each_ref().map(Host::send);
    // This is the time that the target misses, not a wait for an event.
    std::thread::sleep(STOPPED);
    for (host, sender) in hosts.into_iter().zip(senders) {
        host.goes_on(sender);
    }
}
