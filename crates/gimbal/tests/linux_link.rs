//! The target and a real Linux host are two guests on one link. The host loses its power, the link its cable; by RDMA, over devices of software, and by TCP.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use linux::Kernel::{Linux6_1, Linux6_12};
use linux::{Kernel, NQN, Scratch, Walk};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[test]
fn linux_6_12_loses_power_and_cable_and_the_target_has_everything_back() {
    lose(Linux6_12);
}

#[test]
#[ignore = "minutes of emulation: Linux 6.12 does the same in every run"]
fn linux_6_1_loses_power_and_cable_and_the_target_has_everything_back() {
    lose(Linux6_1);
}

/// Where the guest of the target takes commands.
const CONTROL_PORT: u16 = 4499;
/// Time limit of that guest, which outlasts all others. They take two minutes; the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(1800);

fn lose(kernel: Kernel) {
    let scratch = Scratch::new(&format!("link-{kernel:?}"));
    let sockets = Scratch::for_sockets(&format!("link-{kernel:?}"));
    let target = Walk::by_rdma(kernel, "link-target", &scratch).link(&sockets, 1).forward(CONTROL_PORT);
    let mut target = target.limit(LIMIT).start();
    let control: SocketAddr = target.wait_for("forward").parse().expect("an address");
    target.wait_for("ready for hosts");

    let host = |name: &str, transport: &str, port: u16| {
        Walk::named(kernel, name)
            .link(&sockets, 2)
            .variable("CONTROL", control.port())
            .variable("TRANSPORT", transport)
            .variable("PORT", port)
            .variable("NQN", NQN)
    };
    let mut killed = host("link-killed", "rdma", 4420).start();
    killed.wait_for("kill me");
    killed.cut_off();
    host("link", "rdma", 4420).run();
    host("link", "tcp", 4421).run();

    let mut control = TcpStream::connect(control).expect("the guest takes commands");
    writeln!(control, "touch /tmp/enough; exit").expect("it listens");
    control.read_to_end(&mut Vec::new()).expect("it has done it");
    target.finish();
}
