//! Hosts that violate the protocol get the right C2HTermReq or status, and one log line.

use crate::common::{BLOCK, HOST, pattern, rw};
use crate::log::{about, assert_logged_once};
use crate::null_with;
use crate::raw::{Raw, plain};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Sgl, Sqe, Status};
use nvme::tcp::pdu::common::{FLAG_LAST, OFFSET_PLEN, OFFSET_TYPE};
use nvme::tcp::pdu::transfer::OFFSET_TTAG;
use nvme::tcp::pdu::{CapsuleCmd, CommonHeader, Digests, FatalStatus, H2cData, IcReq, ic};
use server::config::Limits;
use std::io::{Read, Write};
use std::net::SocketAddr;
use zerocopy::IntoBytes;

const DIGESTS: Digests = Digests { header: true, data: true };
const INVALID_FIELD: u16 = FatalStatus::InvalidHeaderField as u16;
const SEQUENCE_ERROR: u16 = FatalStatus::SequenceError as u16;
const HEADER_DIGEST: u16 = FatalStatus::HeaderDigest as u16;
const UNSUPPORTED: u16 = FatalStatus::UnsupportedParameter as u16;

fn address() -> (server::ServerHandle, SocketAddr) {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    (server, address)
}

fn in_capsule(length: usize) -> Sgl {
    Sgl::InCapsule { offset: 0, length: length as u32 }
}

#[test]
fn nonsense_instead_of_an_icreq_gets_the_offset_of_the_error() {
    let (_server, address) = address();
    let mut browser = Raw::open(address);
    browser.send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(browser.terminated(), (INVALID_FIELD, OFFSET_TYPE));
    assert_logged_once(browser.local(), "invalid PDU header field at byte 0");
}

/// The beginning of a ClientHello, whole and in pieces of one byte: the first byte decides.
#[test]
fn a_host_that_begins_with_tls_gets_an_alert_of_tls() {
    let (_server, address) = address();
    let hello = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    for piece in [hello.len(), 1] {
        let mut raw = Raw::open(address);
        // The target may close between two pieces.
        hello.chunks(piece).for_each(|piece| drop(raw.stream.write(piece)));
        let mut answer = [0; 7];
        raw.stream.read_exact(&mut answer).expect("an alert");
        assert_eq!(answer, [0x15, 0x03, 0x03, 0, 2, 2, 40], "fatal, handshake failure");
        assert!(matches!(raw.stream.read(&mut [0]), Ok(0) | Err(_)), "closed");
        assert_logged_once(raw.local(), "it begins with TLS, which no subsystem has");
    }
}

#[test]
fn an_unknown_version_of_the_protocol_is_unsupported() {
    let (_server, address) = address();
    let mut raw = Raw::open(address);
    let mut request = raw.pdu(IcReq::new(0, 0, 0), 0, &[]);
    request[8] = 1;
    raw.send(&request);
    assert_eq!(raw.terminated(), (UNSUPPORTED, ic::OFFSET_PFV));
    assert_logged_once(raw.local(), "unsupported parameter at byte 8");
}

#[test]
fn a_command_before_the_handshake_is_out_of_sequence() {
    let (_server, address) = address();
    let mut raw = Raw::open(address);
    raw.command(rw(nvm::READ, 1, 0, 1).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    assert_eq!(raw.terminated(), (SEQUENCE_ERROR, 0));
    assert_logged_once(raw.local(), "PDU out of sequence");
}

#[test]
fn a_plen_larger_than_a_capsule_may_be_ends_the_connection_before_its_data_arrives() {
    let (_server, address) = address();
    let strangers = Raw::greeted(address, Digests::default());
    let (_admin, queue) = plain(address);
    for mut raw in [strangers, queue] {
        for_plen(&mut raw, u32::MAX);
    }
}

fn for_plen(raw: &mut Raw, plen: u32) {
    let sqe = rw(nvm::WRITE, 1, 0, 1).with_sgl(in_capsule(BLOCK));
    let mut capsule = raw.pdu(CapsuleCmd::new(sqe), 0, &[0; BLOCK]);
    capsule[OFFSET_PLEN as usize..][..4].copy_from_slice(&plen.to_le_bytes());
    raw.send(&capsule[..CommonHeader::SIZE]);
    assert_eq!(raw.terminated(), (INVALID_FIELD, OFFSET_PLEN));
    assert_logged_once(raw.local(), "invalid PDU header field at byte 4");
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let (_server, address) = address();
    let (_admin, mut io) = Raw::controller(address, HOST, DIGESTS, 128);
    let mut capsule = io.pdu(CapsuleCmd::new(Sqe::new(nvm::FLUSH).with_nsid(1)), 0, &[]);
    capsule[20] ^= 1;
    let digest = u32::from_le_bytes(capsule[72..76].try_into().expect("four bytes"));
    io.send(&capsule);
    assert_eq!(io.terminated(), (HEADER_DIGEST, digest));
    assert_logged_once(io.local(), "header digest");
    assert!(about(io.local())[0].contains(HOST), "the line names the host");
}

#[test]
fn a_wrong_data_digest_fails_the_command_and_the_next_one_succeeds() {
    let (_server, address) = address();
    let (_admin, mut io) = Raw::controller(address, HOST, DIGESTS, 128);
    let write = |cid| CapsuleCmd::new(rw(nvm::WRITE, 1, 0, 1).with_cid(cid).with_sgl(in_capsule(BLOCK)));
    let mut spoiled = io.pdu(write(1), 0, &pattern(1, BLOCK));
    spoiled[1000] ^= 1;
    io.send(&spoiled);
    assert_eq!(io.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    let whole = io.pdu(write(2), 0, &pattern(1, BLOCK));
    io.send(&whole);
    assert_eq!(io.response().status(), Status::SUCCESS);
    assert_logged_once(io.local(), "the transport refused a command");
}

#[test]
fn corrupt_data_without_end_causes_at_most_ten_log_lines() {
    let (_server, address) = address();
    let (_admin, mut io) = Raw::controller(address, HOST, DIGESTS, 128);
    for cid in 0..500 {
        let sqe = rw(nvm::WRITE, 1, 0, 1).with_cid(cid).with_sgl(in_capsule(BLOCK));
        let mut spoiled = io.pdu(CapsuleCmd::new(sqe), 0, &pattern(1, BLOCK));
        spoiled[1000] ^= 1;
        io.send(&spoiled);
        assert_eq!(io.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    }
    // If a period ends meanwhile, there are ten more, and a number.
    let lines = about(io.local()).len();
    assert!((10..=50).contains(&lines), "{lines} lines about 500 spoiled commands");
}

#[test]
fn an_identifier_in_use_is_a_conflict_and_the_first_command_continues() {
    let (_server, address) = address();
    let (_admin, mut io) = plain(address);
    let length = 2 * BLOCK as u32;
    io.command(rw(nvm::WRITE, 1, 0, 2).with_cid(9).with_sgl(Sgl::Transport { length }), &[]);
    let ttag = io.asked();
    io.command(rw(nvm::READ, 1, 0, 1).with_cid(9).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    let conflict = io.response();
    assert_eq!((conflict.cid(), conflict.status()), (9, Status::COMMAND_ID_CONFLICT));
    let data = io.pdu(H2cData::new(9, ttag, 0, length), FLAG_LAST, &pattern(1, 2 * BLOCK));
    io.send(&data);
    assert_eq!(io.response().status(), Status::SUCCESS);
    assert_logged_once(io.local(), "the transport refused a command");
}

#[test]
fn an_event_request_is_dropped_when_its_identifier_is_reused() {
    let (_server, address) = address();
    let (mut admin, _io) = plain(address);
    admin.command(Sqe::new(admin::ASYNC_EVENT_REQUEST).with_cid(3), &[]);
    admin.command(Sqe::new(admin::KEEP_ALIVE).with_cid(4), &[]);
    assert_eq!(admin.response().cid(), 4, "the request waits");
    for _ in 0..2 {
        admin.command(Sqe::new(admin::KEEP_ALIVE).with_cid(3), &[]);
        let cqe = admin.response();
        assert_eq!((cqe.cid(), cqe.status()), (3, Status::SUCCESS));
    }
}

#[test]
fn event_requests_that_a_reset_cancelled_leave_room_in_the_queue() {
    let (_server, address) = address();
    let (mut admin, _io) = plain(address);
    let set = |cc| Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, cc, 0, 0, 0]);
    // The queue has 32 entries.
    for round in 0..20 {
        for cid in 0..4 {
            admin.command(Sqe::new(admin::ASYNC_EVENT_REQUEST).with_cid(100 + 4 * round + cid), &[]);
        }
        for cc in [Configuration::host(false), Configuration::host(false).enabled()] {
            assert!(admin.execute(set(cc.0)).status().is_success(), "round {round}");
        }
    }
    assert_eq!(admin.execute(Sqe::new(admin::KEEP_ALIVE)).status(), Status::SUCCESS);
}

#[test]
fn unrequested_data_ends_the_connection() {
    let (_server, address) = address();
    let (mut admin, mut io) = plain(address);
    let data = io.pdu(H2cData::new(1, 77, 0, BLOCK as u32), FLAG_LAST, &[0; BLOCK]);
    io.send(&data);
    assert_eq!(io.terminated(), (INVALID_FIELD, OFFSET_TTAG));
    assert_logged_once(io.local(), "invalid PDU header field at byte 10");
    let keep_alive = Sqe::new(admin::KEEP_ALIVE);
    assert_eq!(admin.execute(keep_alive).status(), Status::SUCCESS, "the controller continues");
}

#[test]
fn io_before_connect_is_out_of_sequence_and_closed() {
    let (_server, address) = address();
    let cases = [
        rw(nvm::READ, 1, 0, 1).with_sgl(Sgl::Transport { length: 4096 }),
        Sqe::new(admin::IDENTIFY).with_sgl(Sgl::Transport { length: 4096 }),
        Sqe::new(admin::KEEP_ALIVE).with_sgl(Sgl::Transport { length: 0 }),
    ];
    for sqe in cases {
        let mut raw = Raw::greeted(address, Digests::default());
        raw.command(sqe, &[]);
        assert_eq!(raw.response().status(), Status::COMMAND_SEQUENCE_ERROR);
        assert!(raw.is_closed());
        assert_logged_once(raw.local(), "the first command of a connection must be a Connect");
    }
}

#[test]
fn a_command_that_does_not_wait_for_connect_ends_the_connection() {
    let (_server, address) = address();
    let mut raw = Raw::greeted(address, Digests::default());
    let mut both = raw.connect_pdu(0, 32, CNTLID_DYNAMIC, HOST, 0);
    both.extend(raw.pdu(CapsuleCmd::new(Sqe::new(admin::KEEP_ALIVE).with_cid(1)), 0, &[]));
    raw.send(&both);
    assert!(raw.is_closed());
    assert_logged_once(raw.local(), "the host sent commands before Connect was answered");
}

#[test]
fn a_host_that_ends_the_connection_by_itself_is_not_answered() {
    let (_server, address) = address();
    let (_admin, mut io) = plain(address);
    let violation = nvme::tcp::pdu::Violation::SEQUENCE;
    let term = nvme::tcp::pdu::term::TermReqImage::new(nvme::tcp::pdu::End::Host, violation, &[]);
    io.send(term.bytes().as_bytes());
    assert!(io.next_pdu().is_none());
    assert_logged_once(io.local(), "the peer ended the connection: fatal error status 0x2");
}
