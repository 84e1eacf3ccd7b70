//! Hosts that send nothing, too little, or too slowly.

use crate::common::{BLOCK, Client, HOST, Options, pattern, rw, until};
use crate::log::{about, assert_logged_once};
use crate::raw::{Raw, plain};
use crate::{OTHER, null_with};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::nvm;
use nvme::spec::{Sgl, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{CapsuleCmd, Digests, H2cData, IcReq};
use server::config::Limits;
use units::{Bytes, Nanos};

/// Short time-outs, still much longer than the handshake of the other hosts.
fn impatient() -> Limits {
    Limits {
        handshake_timeout: Nanos::millis(300),
        connect_timeout: Nanos::millis(300),
        stall_timeout: Nanos::millis(300),
        ..Limits::default()
    }
}

#[test]
fn a_silent_connection_is_closed_after_the_handshake_timeout() {
    let server = null_with(Limits { connect_timeout: Nanos::secs(3600), ..impatient() });
    let mut silent = Raw::open(server.addresses()[0]);
    assert!(silent.is_closed());
    assert_logged_once(silent.local(), "no ICReq arrived within limits.handshake_timeout");
}

#[test]
fn tcp_keep_alive_is_on_from_the_first_moment() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    let peer = Raw::greeted(address, Digests::default());
    // The accepted socket in the system's table: local address, remote address, state, queues, timer:when (in hundredths), …
    // Both ends are compared: an old connection to another target may have the same peer port.
    let ends = [address.port(), peer.local().port()].map(|port| format!("0100007F:{port:04X}"));
    let mut timer = String::new();
    until(|| {
        let sockets = std::fs::read_to_string("/proc/self/net/tcp").expect("Linux");
        let accepted = sockets
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|fields| fields.get(1..3).is_some_and(|pair| pair == ends));
        timer = accepted.and_then(|fields| fields.get(5).map(|&timer| timer.to_owned())).expect("it is open");
        // Timer 1: the last data is not acknowledged yet.
        !timer.starts_with("01:")
    });
    let left = timer.strip_prefix("02:").map(|when| u64::from_str_radix(when, 16).expect("a number"));
    assert!(left.is_some_and(|hundredths| (1..=6000).contains(&hundredths)), "no keep-alive in {timer:?}");
}

#[test]
fn half_an_icreq_counts_as_none() {
    let server = null_with(Limits { connect_timeout: Nanos::secs(3600), ..impatient() });
    let mut slow = Raw::open(server.addresses()[0]);
    let request = slow.pdu(IcReq::new(0, 0, 0), 0, &[]);
    slow.send(&request[..100]);
    assert!(slow.is_closed());
    assert_logged_once(slow.local(), "no ICReq arrived within limits.handshake_timeout");
}

#[test]
fn a_connection_without_connect_is_closed_after_the_connect_timeout() {
    let server = null_with(Limits { handshake_timeout: Nanos::secs(3600), ..impatient() });
    let mut greeted = Raw::greeted(server.addresses()[0], Digests::default());
    assert!(greeted.is_closed());
    assert_logged_once(greeted.local(), "no Connect arrived within limits.connect_timeout");
}

#[test]
fn half_a_connect_frees_its_memory_when_it_is_closed() {
    let server = null_with(Limits { handshake_timeout: Nanos::secs(3600), ..impatient() });
    let address = server.addresses()[0];
    // More of them than there is memory for at the same time.
    let mut slow: Vec<Raw> = (0..64).map(|_| Raw::greeted(address, Digests::default())).collect();
    for raw in &mut slow {
        let connect = raw.connect_pdu(0, 32, CNTLID_DYNAMIC, HOST, 0);
        raw.send(&connect[..600]);
    }
    let mut whole = Raw::greeted(address, Digests::default());
    assert!(whole.connect(0, 32, CNTLID_DYNAMIC, HOST, 0).status().is_success(), "a whole one is served");
    assert!(slow.iter_mut().all(Raw::is_closed));
}

#[test]
fn a_queue_without_keep_alive_may_be_silent() {
    let server = null_with(impatient());
    let (mut admin, mut io) = plain(server.addresses()[0]);
    // Meanwhile another connection runs into every time-out.
    let address = server.addresses()[0];
    assert!(Raw::open(address).is_closed());
    assert!(Raw::greeted(address, Digests::default()).is_closed());
    io.command(rw(nvm::READ, 1, 0, 1).with_sgl(Sgl::Transport { length: BLOCK as u32 }), &[]);
    assert!(io.next_pdu().is_some(), "it is still served");
    assert_eq!((about(io.local()), about(admin.local())), (vec![], vec![]));
    admin.send(&[]);
}

#[test]
fn a_silent_host_with_a_keep_alive_is_closed_and_its_queues_with_it() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    let mut admin = Raw::greeted(address, Digests::default());
    assert!(admin.connect(0, 32, CNTLID_DYNAMIC, HOST, 200).status().is_success());
    assert!(admin.is_closed());
    assert_logged_once(admin.local(), "the keep-alive time-out ran out");
    assert!(about(admin.local())[0].contains(HOST), "the line names the host");
}

#[test]
fn one_byte_at_a_time_is_slow_but_is_served() {
    let server = null_with(Limits { stall_timeout: Nanos::secs(3600), ..Limits::default() });
    let (_admin, mut io) = plain(server.addresses()[0]);
    let sgl = Sgl::InCapsule { offset: 0, length: BLOCK as u32 };
    let write =
        io.pdu(CapsuleCmd::new(rw(nvm::WRITE, 1, 0, 1).with_cid(7).with_sgl(sgl)), 0, &pattern(1, BLOCK));
    write.iter().for_each(|byte| io.send(&[*byte]));
    assert_eq!(io.response().status(), Status::SUCCESS);
    let write = rw(nvm::WRITE, 1, 0, 1).with_cid(8).with_sgl(Sgl::Transport { length: BLOCK as u32 });
    io.command(write, &[]);
    let ttag = io.asked();
    let data = io.pdu(H2cData::new(8, ttag, 0, BLOCK as u32), FLAG_LAST, &pattern(1, BLOCK));
    data.iter().for_each(|byte| io.send(&[*byte]));
    assert_eq!(io.response().status(), Status::SUCCESS);
    assert!(about(io.local()).is_empty());
}

#[test]
fn slowly_sent_data_does_not_hold_memory_for_ever() {
    let server = null_with(impatient());
    let address = server.addresses()[0];
    let (_admin, mut io) = plain(address);
    let length = 1 << 20;
    io.command(rw(nvm::WRITE, 1, 0, 256).with_cid(8).with_sgl(Sgl::Transport { length }), &[]);
    let ttag = io.asked();
    let data = io.pdu(H2cData::new(8, ttag, 0, length), FLAG_LAST, &vec![1; length as usize]);
    let other = Options { host: OTHER, ..Options::default() };
    let mut other = Client::with(address, &other);
    // One byte per round trip of another host, so the data never stops for long.
    let mut sent = 0;
    until(|| {
        io.send(&data[sent..sent + 1]);
        sent += 1;
        assert_eq!(other.read(1, 0, 1), Ok(vec![0; BLOCK]));
        assert!(sent < data.len(), "all data was received: the machine is too fast for this test");
        // The memory of the other host's last read may come back with its next one.
        server.stats().ssds[0].memory <= Bytes(BLOCK as u64)
    });
    assert!(io.is_closed());
    assert_logged_once(io.local(), "neither read its replies nor sent its data within limits.stall_timeout");
}
