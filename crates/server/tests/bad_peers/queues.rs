//! Number of Queues: what is granted is what the limits leave, and can be connected.

use crate::common::{HOST, until};
use crate::log::assert_logged_once;
use crate::raw::Raw;
use crate::{OTHER, null_with};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::feature::QueueCounts;
use nvme::spec::opcode::admin;
use nvme::spec::{Sqe, Status, feature};
use nvme::tcp::pdu::Digests;
use server::config::Limits;
use std::net::SocketAddr;
use units::Nanos;

/// A controller that has asked for IO queues.
struct Asked {
    admin: Raw,
    id: u16,
    granted: u16,
}

fn number_of_queues(asked: u16) -> Sqe {
    let dwords = [u32::from(feature::NUMBER_OF_QUEUES), QueueCounts::both(asked).to_wire(), 0, 0, 0, 0];
    Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords)
}

impl Asked {
    /// A new controller of `host` that asks for so many.
    fn new(address: SocketAddr, host: &str, asked: u16) -> Asked {
        Asked::try_new(address, host, asked).expect("there is room")
    }

    /// `None` if there is no room for its admin queue, because an earlier connection has not gone yet.
    fn try_new(address: SocketAddr, host: &str, asked: u16) -> Option<Asked> {
        let mut admin = Raw::greeted(address, Digests::default());
        let connected = admin.connect(0, 32, CNTLID_DYNAMIC, host, 0);
        if connected.status() == Status::CONNECT_CONTROLLER_BUSY {
            return None;
        }
        assert!(connected.status().is_success(), "{:?}", connected.status());
        assert!(admin.enable().status().is_success());
        let mut new = Asked { admin, id: connected.dw0() as u16, granted: 0 };
        new.ask(asked);
        Some(new)
    }

    fn ask(&mut self, asked: u16) {
        let cqe = self.admin.execute(number_of_queues(asked));
        assert!(cqe.status().is_success(), "{:?}", cqe.status());
        let QueueCounts { submission, completion } = QueueCounts::from_wire(cqe.dw0());
        assert_eq!(submission, completion);
        self.granted = u16::try_from(submission).expect("few");
    }

    /// Connects one of its queues.
    fn connect(&self, address: SocketAddr, host: &str, queue_id: u16) -> (Raw, Status) {
        let mut raw = Raw::greeted(address, Digests::default());
        let status = raw.connect(queue_id, 32, self.id, host, 0).status();
        (raw, status)
    }

    /// Connects all that were granted.
    fn connect_all(&self, address: SocketAddr, host: &str) -> Vec<Raw> {
        let connect = |queue_id| {
            let (raw, status) = self.connect(address, host, queue_id);
            assert_eq!(status, Status::SUCCESS, "queue {queue_id} of {}", self.granted);
            raw
        };
        (1..=self.granted).map(connect).collect()
    }
}

#[test]
fn the_last_controllers_of_a_host_get_the_queues_that_its_limit_leaves() {
    let server = null_with(Limits { connections_per_host: 21, io_queues: 8, ..Limits::default() });
    let address = server.addresses()[0];
    let mut inside = Vec::new();
    for expected in [8, 8, 2] {
        let asked = Asked::new(address, HOST, 64);
        assert_eq!(asked.granted, expected);
        let queues = asked.connect_all(address, HOST);
        inside.push((asked, queues));
    }
    assert_logged_once(inside[2].0.admin.local(), "limits.connections_per_host is reached");
    assert_eq!(inside[2].0.connect(address, HOST, 8).1, Status::CONNECT_CONTROLLER_BUSY);
    // One more admin queue would be one too many.
    let mut more = Raw::greeted(address, Digests::default());
    assert_eq!(more.connect(0, 32, CNTLID_DYNAMIC, HOST, 0).status(), Status::CONNECT_CONTROLLER_BUSY);
    assert_eq!(Asked::new(address, OTHER, 4).granted, 4, "other hosts have limits of their own");
}

#[test]
fn a_controller_gets_one_queue_at_least() {
    let server = null_with(Limits { connections_per_host: 1, ..Limits::default() });
    assert_eq!(Asked::new(server.addresses()[0], HOST, 64).granted, 1);
}

#[test]
fn queues_that_were_granted_can_be_connected() {
    let server = null_with(Limits { connections: 16, io_queues: 8, ..Limits::default() });
    let address = server.addresses()[0];
    let first = Asked::new(address, HOST, 4);
    assert_eq!(first.granted, 4);
    // Another host takes all that is left.
    let mut others = Vec::new();
    loop {
        let mut admin = Raw::greeted(address, Digests::default());
        if !admin.connect(0, 32, CNTLID_DYNAMIC, OTHER, 0).status().is_success() {
            break;
        }
        others.push(admin);
    }
    assert!((1..=11).contains(&others.len()), "{} besides the five of the first host", others.len());
    first.connect_all(address, HOST);
}

#[test]
fn queues_that_are_not_used_go_back_when_the_controller_ends_or_asks_for_fewer() {
    let server = null_with(Limits { connections_per_host: 10, io_queues: 8, ..Limits::default() });
    let address = server.addresses()[0];
    let mut first = Asked::new(address, HOST, 8);
    assert_eq!(first.granted, 8);
    let second = Asked::new(address, HOST, 8);
    assert_eq!(second.granted, 1, "the first one has the others");
    drop(second);
    until(|| {
        first.ask(3);
        Asked::try_new(address, HOST, 8).is_some_and(|asked| asked.granted == 5)
    });
    drop(first);
    until(|| Asked::try_new(address, HOST, 8).is_some_and(|asked| asked.granted == 8));
}

#[test]
fn queues_that_are_not_connected_in_time_go_back() {
    let limits = Limits {
        connections_per_host: 10,
        io_queues: 8,
        connect_timeout: Nanos::secs(1),
        ..Limits::default()
    };
    let server = null_with(limits);
    let address = server.addresses()[0];
    let first = Asked::new(address, HOST, 8);
    assert_eq!(first.granted, 8);
    let mut second = Asked::new(address, HOST, 8);
    until(|| {
        second.ask(8);
        second.granted == 8
    });
}
