//! Errors of a controller, and the host's reactions.

use super::world::{FLUSH, Peer, READ, WRITE, command, pattern};
use nvme::spec::{Cqe, Status};
use nvme::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::tcp::pdu::term::TermReqImage;
use nvme::tcp::pdu::{C2hData, CapsuleResp, Digests, End, IcResp, R2t, TermReq, Violation};
use nvme::tcp::{Fatal, HostConnection, HostEvent, HostOptions, Refusal, SubmitError, Transfer};
use zerocopy::FromBytes;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// A host that faces a controller that may violate the protocol.
struct Victim {
    host: HostConnection<Vec<u8>>,
    events: Vec<HostEvent<Vec<u8>>>,
    peer: Peer,
}

impl Victim {
    /// The handshake is not sent yet.
    fn fresh(digests: Digests) -> Self {
        let options = HostOptions { digests, commands_max: 4, in_capsule_max: 0, ..HostOptions::default() };
        Victim { host: HostConnection::new(options), events: Vec::new(), peer: Peer::new(digests) }
    }

    /// The handshake is done, MAXH2CDATA is 4096. Command 1 is a read of 8192 bytes, command 2 a write of
    /// 8192 bytes, command 3 a Flush. Command 4 was submitted but not sent.
    fn new(digests: Digests) -> Self {
        let mut victim = Victim::fresh(digests);
        victim.sent();
        victim.receive(&victim.peer.ic_resp(4096)).expect("a proper handshake");
        victim.events.clear();
        victim.submit(READ, 1, Transfer::FromController(vec![0; 8192], 8192));
        victim.submit(WRITE, 2, Transfer::ToController(pattern(2, 8192), 8192));
        victim.submit(FLUSH, 3, Transfer::None);
        victim.sent();
        victim.submit(FLUSH, 4, Transfer::None);
        victim
    }

    fn submit(&mut self, opcode: u8, cid: u16, transfer: Transfer<Vec<u8>>) {
        self.host.submit(command(opcode, cid, 0), transfer).expect("room");
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Fatal> {
        self.host.on_bytes(bytes, &mut self.events)
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        self.host.poll_transmit(&mut wire);
        wire
    }

    fn ends_with(mut self, what: &str, faulty: &[u8], header_length: usize, violation: Violation) {
        let fatal = Fatal::Violation(violation);
        assert_eq!(self.receive(faulty), Err(fatal), "{what}");
        let bytes = self.sent();
        assert_eq!(bytes[..4], [0x02, 0, 24, 0], "H2CTermReq");
        let (term_req, copy) = TermReq::ref_from_prefix(&bytes).expect("a TermReq");
        assert_eq!(term_req.reason(), (violation.status as u16, violation.information));
        assert_eq!(copy, &faulty[..header_length]);
        assert_eq!((self.receive(&[]), self.host.fatal()), (Err(fatal), Some(fatal)));
        assert!(self.sent().is_empty());
        let refused = self.host.submit(command(FLUSH, 9, 0), Transfer::None);
        assert_eq!(refused, Err(SubmitError { refusal: Refusal::Over, transfer: Transfer::None }));
    }
}

#[test]
fn an_invalid_handshake_is_refused() {
    let response = |cpda, dgst, maxh2cdata| Peer::new(PLAIN).pdu(IcResp::new(cpda, dgst, maxh2cdata), 0, &[]);
    let mut future = response(0, 0, 4096);
    future[9] = 1;
    let cases = [
        ("format version", future, Violation::parameter(8)),
        ("alignment", response(32, 0, 4096), Violation::field(10)),
        ("digest not asked for", response(0, 2, 4096), Violation::field(11)),
        ("reserved digest", response(0, 8, 4096), Violation::field(11)),
        ("MAXH2CDATA too small", response(0, 0, 4092), Violation::field(12)),
        ("MAXH2CDATA not a multiple of 4", response(0, 0, 4098), Violation::field(12)),
    ];
    for (what, bytes, violation) in cases {
        let mut victim = Victim::fresh(Digests { header: true, data: false });
        victim.sent();
        victim.ends_with(what, &bytes, 128, violation);
    }
    let capsule = Peer::new(PLAIN).pdu(CapsuleResp::new(Cqe::success(1)), 0, &[]);
    Victim::fresh(PLAIN).ends_with("response before the handshake", &capsule, 8, Violation::SEQUENCE);
    let again = Peer::new(PLAIN).ic_resp(4096);
    Victim::new(PLAIN).ends_with("second handshake", &again, 8, Violation::SEQUENCE);
}

#[test]
fn data_that_does_not_fit_its_command_ends_the_connection() {
    let data = |cid, offset, datal, flags, length: usize| {
        Peer::new(PLAIN).pdu(C2hData::new(cid, offset, datal), flags, &vec![0; length])
    };
    let cases = [
        ("no such command", data(9, 0, 4, FLAG_LAST, 4), Violation::field(8)),
        ("a command not sent yet", data(4, 0, 4, FLAG_LAST, 4), Violation::field(8)),
        ("a write", data(2, 0, 4, FLAG_LAST, 4), Violation::field(8)),
        ("a command without data", data(3, 0, 4, FLAG_LAST, 4), Violation::field(8)),
        ("DATAL longer than the data", data(1, 0, 8, FLAG_LAST, 4), Violation::field(16)),
        ("beyond the end", data(1, 0, 8196, FLAG_LAST, 8196), Violation::OUT_OF_RANGE),
        ("far beyond the end", data(1, u32::MAX, 4, FLAG_LAST, 4), Violation::OUT_OF_RANGE),
        ("not the next bytes", data(1, 4, 4, FLAG_LAST, 4), Violation::SEQUENCE),
    ];
    for (what, bytes, violation) in cases {
        Victim::new(PLAIN).ends_with(what, &bytes, 24, violation);
    }
    let mut victim = Victim::new(PLAIN);
    victim.receive(&data(1, 0, 4, FLAG_LAST, 4)).expect("short, but possible");
    victim.ends_with("data after the last", &data(1, 4, 4, FLAG_LAST, 4), 24, Violation::SEQUENCE);
    Victim::new(PLAIN).ends_with(
        "SUCCESS without LAST",
        &data(1, 0, 4, FLAG_SUCCESS, 4),
        8,
        Violation::field(1),
    );
}

#[test]
fn a_request_for_data_that_does_not_fit_its_command_ends_the_connection() {
    let r2t = |cid, offset, length| Peer::new(PLAIN).pdu(R2t::new(cid, 7, offset, length), 0, &[]);
    let cases = [
        ("no such command", r2t(9, 0, 8192), Violation::field(8)),
        ("a command not sent yet", r2t(4, 0, 8192), Violation::field(8)),
        ("a read", r2t(1, 0, 8192), Violation::field(8)),
        ("a command without data", r2t(3, 0, 8192), Violation::field(8)),
        ("nothing", r2t(2, 0, 0), Violation::field(16)),
        ("beyond the end", r2t(2, 0, 8193), Violation::OUT_OF_RANGE),
        ("far beyond the end", r2t(2, 4096, u32::MAX), Violation::OUT_OF_RANGE),
        ("not the next bytes", r2t(2, 4096, 4096), Violation::SEQUENCE),
    ];
    for (what, bytes, violation) in cases {
        Victim::new(PLAIN).ends_with(what, &bytes, 24, violation);
    }
    let mut victim = Victim::new(PLAIN);
    victim.receive(&r2t(2, 0, 4096)).expect("the first half");
    victim.ends_with("one while another is not served", &r2t(2, 4096, 4096), 24, Violation::LIMIT);
}

#[test]
fn a_response_to_no_command_ends_the_connection() {
    let response = |cid| Peer::new(PLAIN).pdu(CapsuleResp::new(Cqe::success(cid)), 0, &[]);
    Victim::new(PLAIN).ends_with("no such command", &response(9), 24, Violation::field(20));
    Victim::new(PLAIN).ends_with("not sent yet", &response(4), 24, Violation::field(20));
    let mut victim = Victim::new(PLAIN);
    victim.receive(&response(3)).expect("the answer");
    victim.ends_with("answered before", &response(3), 24, Violation::field(20));
}

#[test]
fn a_corrupt_header_ends_the_connection_and_a_corrupt_payload_fails_the_command() {
    let mut response = Peer::new(BOTH).pdu(CapsuleResp::new(Cqe::success(3)), 0, &[]);
    response[24] ^= 1;
    let digest = u32::from_le_bytes(response[24..28].try_into().expect("4 bytes"));
    Victim::new(BOTH).ends_with("header digest", &response, 24, Violation::header_digest(digest));

    for success in [true, false] {
        let mut victim = Victim::new(BOTH);
        let flags = if success { FLAG_LAST | FLAG_SUCCESS } else { FLAG_LAST };
        let mut data = victim.peer.pdu(C2hData::new(1, 0, 8192), flags, &pattern(1, 8192));
        data[5000] ^= 1;
        victim.receive(&data).expect("the connection continues");
        if !success {
            victim.receive(&victim.peer.pdu(CapsuleResp::new(Cqe::success(1)), 0, &[])).expect("the answer");
        }
        let [HostEvent::Completed { cqe, data: Some(_), received: 8192 }] = &victim.events[..] else {
            panic!("{:?}", victim.events)
        };
        assert_eq!((cqe.cid(), cqe.status()), (1, Status::TRANSIENT_TRANSPORT_ERROR));
    }
}

#[test]
fn data_in_pieces_is_joined_and_counted() {
    let mut victim = Victim::new(BOTH);
    let bytes = pattern(1, 6000);
    for (offset, length, flags) in [(0, 1000, 0), (1000, 4000, 0), (5000, 1000, FLAG_LAST)] {
        let piece = &bytes[offset..offset + length];
        let pdu = victim.peer.pdu(C2hData::new(1, offset as u32, length as u32), flags, piece);
        victim.receive(&pdu).expect("in order");
    }
    let cqe = Cqe::success(1).with_dw0(5).with_sqhd(17);
    victim.receive(&victim.peer.pdu(CapsuleResp::new(cqe), 0, &[])).expect("the answer");
    let [HostEvent::Completed { cqe: seen, data: Some(data), received: 6000 }] = &victim.events[..] else {
        panic!("{:?}", victim.events)
    };
    assert_eq!((*seen, &data[..6000], victim.host.sqhd()), (cqe, &bytes[..], 17));
}

#[test]
fn data_asked_for_in_pieces_is_sent_in_pieces() {
    let mut victim = Victim::new(PLAIN);
    victim.sent();
    let mut seen = Vec::new();
    for (offset, length) in [(0u32, 4u32), (4, 5000), (5004, 3188)] {
        victim.receive(&victim.peer.pdu(R2t::new(2, 40, offset, length), 0, &[])).expect("in order");
        let bytes = victim.sent();
        let pieces = length.div_ceil(4096) as usize;
        assert_eq!(bytes.len(), 24 * pieces + length as usize);
        assert_eq!((bytes[0], bytes[1], bytes[10]), (6, if pieces == 1 { FLAG_LAST } else { 0 }, 40));
        let first = length.min(4096) as usize;
        seen.extend_from_slice(&bytes[24..24 + first]);
        if pieces == 2 {
            assert_eq!(bytes[24 + first + 1], FLAG_LAST);
            seen.extend_from_slice(&bytes[24 + first + 24..]);
        }
    }
    assert_eq!(seen, pattern(2, 8192));
}

#[test]
fn a_write_that_fails_before_its_data_was_asked_for_gives_the_buffer_back() {
    let mut victim = Victim::new(PLAIN);
    victim
        .receive(&victim.peer.pdu(CapsuleResp::new(Cqe::new(2, Status::LBA_OUT_OF_RANGE)), 0, &[]))
        .expect("ok");
    assert!(
        matches!(&victim.events[..], [HostEvent::Completed { data: Some(data), .. }] if *data == pattern(2, 8192))
    );
}

#[test]
fn a_write_that_fails_while_its_data_waits_sends_no_more_of_it() {
    let mut victim = Victim::new(PLAIN);
    victim.sent();
    victim.receive(&victim.peer.pdu(R2t::new(2, 0, 0, 8192), 0, &[])).expect("the data is requested");
    victim
        .receive(&victim.peer.pdu(CapsuleResp::new(Cqe::new(2, Status::INTERNAL_ERROR)), 0, &[]))
        .expect("ok");
    assert!(victim.sent().is_empty());
    assert!(matches!(&victim.events[..], [HostEvent::Completed { data: Some(_), .. }]));
}

#[test]
fn a_refused_submission_returns_its_buffer() {
    let mut victim = Victim::new(PLAIN);
    let again = victim.host.submit(command(FLUSH, 3, 0), Transfer::None);
    assert_eq!(again.map_err(|error| error.refusal), Err(Refusal::IdentifierInUse));
    let fifth = victim.host.submit(command(READ, 5, 0), Transfer::FromController(vec![1; 4], 4));
    let transfer = Transfer::FromController(vec![1; 4], 4);
    assert_eq!(fifth, Err(SubmitError { refusal: Refusal::Full, transfer }));
}

#[test]
fn a_controller_that_terminates_is_not_answered() {
    let mut victim = Victim::new(BOTH);
    let image = TermReqImage::new(End::Controller, Violation::field(4), &[4; 72]);
    assert_eq!(victim.receive(image.bytes()), Err(Fatal::Terminated { status: 1, information: 4 }));
    assert!(victim.sent().is_empty());
    let mut left = Vec::new();
    victim.host.into_outstanding(|sqe, buffer| left.push((sqe.cid(), buffer.is_some())));
    left.sort_unstable();
    assert_eq!(left, [(1, true), (2, true), (3, false), (4, false)]);
}
