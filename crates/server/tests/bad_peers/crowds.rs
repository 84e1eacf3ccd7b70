//! Many hosts or connections at a time.

use crate::common::{Client, HOST, Options, until};
use crate::log::{assert_logged_once, lines_with};
use crate::null_with;
use crate::raw::Raw;
use crate::{OTHER, common::BLOCK};
use nvme::spec::Status;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::tcp::pdu::Digests;
use server::config::Limits;
use std::net::Ipv4Addr;
use units::Nanos;

/// Long time-outs: in these tests connections are closed only because of their number.
fn patient() -> Limits {
    Limits {
        handshake_timeout: Nanos::secs(3600),
        connect_timeout: Nanos::secs(3600),
        stall_timeout: Nanos::secs(3600),
        ..Limits::default()
    }
}

#[test]
fn a_host_gets_in_through_any_number_of_silent_connections() {
    let server = null_with(Limits { connections_waiting: 8, ..patient() });
    let address = server.addresses()[0];
    let flood = Ipv4Addr::new(127, 0, 0, 2);
    let mut silent: Vec<Raw> =
        (0..100).map(|_| Raw::open_from(flood, address).expect("the system accepts")).collect();
    let mut client = Client::connect(address);
    assert_eq!(client.read(1, 0, 1), Ok(vec![0; BLOCK]));
    // The connections that were silent longest were evicted; the last ones are still open.
    assert!(silent[..90].iter_mut().all(Raw::is_closed));
    let last = silent.last_mut().expect("there are a hundred");
    let request = last.pdu(nvme::tcp::pdu::IcReq::new(0, 0, 0), 0, &[]);
    last.send(&request);
    assert!(last.next_pdu().is_some(), "it is still served");
    let lines = lines_with("connections_waiting is reached").into_iter();
    let lines = lines.filter(|line| line.contains("peer=127.0.0.2:")).count();
    assert!((1..=30).contains(&lines), "{lines} lines about the same address");
}

#[test]
fn connections_after_icreq_survive_a_flood_of_silent_ones() {
    let server = null_with(Limits { connections_waiting: 4, ..patient() });
    let address = server.addresses()[0];
    let mut greeted = Raw::greeted(address, Digests::default());
    let flood = Ipv4Addr::new(127, 0, 0, 3);
    let mut silent: Vec<Raw> =
        (0..50).map(|_| Raw::open_from(flood, address).expect("the system accepts")).collect();
    assert!(silent[..47].iter_mut().all(Raw::is_closed));
    assert!(greeted.connect(0, 32, CNTLID_DYNAMIC, HOST, 0).status().is_success());
}

#[test]
fn one_host_cannot_have_all_connections() {
    let limits =
        Limits { connections: 8, connections_per_host: 4, connections_per_address: Some(8), ..patient() };
    let server = null_with(limits);
    let address = server.addresses()[0];
    let connect = |host| {
        let mut raw = Raw::greeted(address, Digests::default());
        let status = raw.connect(0, 32, CNTLID_DYNAMIC, host, 0).status();
        (raw, status)
    };
    let mut admitted: Vec<Raw> = Vec::new();
    for _ in 0..4 {
        let (raw, status) = connect(HOST);
        assert_eq!(status, Status::SUCCESS);
        admitted.push(raw);
    }
    let (mut fifth, status) = connect(HOST);
    assert_eq!(status, Status::CONNECT_CONTROLLER_BUSY, "the host may try again later");
    assert!(fifth.is_closed());
    assert_logged_once(fifth.local(), "limits.connections_per_host is reached");
    let mut other = Client::with(address, &Options { host: OTHER, ..Options::default() });
    assert_eq!(other.read(1, 0, 1), Ok(vec![0; BLOCK]));
    drop(admitted);
    until(|| connect(HOST).1.is_success());
}

#[test]
fn a_storm_of_connections_causes_few_log_lines_and_leaves_nothing() {
    let server = null_with(patient());
    let address = server.addresses()[0];
    let storm = Ipv4Addr::new(127, 0, 0, 4);
    let mut good = Client::connect(address);
    for round in 0..600 {
        let Ok(mut raw) = Raw::open_from(storm, address) else { continue };
        match round % 3 {
            0 => {}
            1 => raw.send(b"nonsense"),
            _ => {
                let request = raw.pdu(nvme::tcp::pdu::IcReq::new(0, 0, 0), 0, &[]);
                raw.send(&request);
                raw.next_pdu();
                let connect = raw.connect_pdu(0, 32, CNTLID_DYNAMIC, HOST, 0);
                raw.send(&connect);
            }
        }
    }
    assert_eq!(good.read(1, 0, 1), Ok(vec![0; BLOCK]));
    until(|| server.stats().ssds[0].connections == 2);
    let lines = lines_with("peer=127.0.0.4:").len();
    // Connected and ended, by the acceptor and by the pipeline, and ten about the nonsense. Twice that if a period ends meanwhile.
    assert!(lines <= 2 * (4 * 100 + 2 * 10), "{lines} lines about 600 connections");
    assert!(lines >= 100, "{lines} lines");
}
