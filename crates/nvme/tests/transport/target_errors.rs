//! Violations that end a connection at the target, each with the C2HTermReq that reports it.

use super::world::{ALL_DIGESTS, Peer, READ, Source, Victim, WRITE, command, pattern};
use nvme::spec::{Sgl, Sqe};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::term::TermReqImage;
use nvme::tcp::pdu::{CapsuleCmd, Digests, End, H2cData, IcReq, TermReq, Violation};
use nvme::tcp::{Fatal, TargetConnection, TargetLimits};
use zerocopy::FromBytes;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// Checks that `faulty` ends the connection with `violation`, that a C2HTermReq reports it with a copy of the
/// header (of `header_length` bytes), and that nothing is taken or sent afterwards.
fn ends_with(victim: &mut Victim, faulty: &[u8], header_length: usize, violation: Violation) {
    let fatal = Fatal::Violation(violation);
    assert_eq!(victim.send(faulty), Err(fatal));
    assert_eq!(victim.target.fatal(), Some(fatal));
    let bytes = victim.sent();
    assert_eq!(bytes[..4], [0x03, 0, 24, 0], "C2HTermReq");
    assert_eq!(bytes[4..8], (24 + header_length as u32).to_le_bytes(), "its length");
    let (term_req, copy) = TermReq::ref_from_prefix(&bytes).expect("a TermReq");
    assert_eq!(term_req.reason(), (violation.status as u16, violation.information));
    assert_eq!(copy, &faulty[..header_length], "the faulty header");
    assert_eq!(victim.send(&[0; 8]), Err(fatal), "the connection stays closed");
    assert!(victim.sent().is_empty());
    assert!(victim.events.is_empty(), "nothing reaches the layer above");
}

/// A target that has received nothing yet.
fn fresh() -> Victim {
    Victim { target: TargetConnection::new(TargetLimits::default()), ..Victim::new(PLAIN) }
}

#[test]
fn an_invalid_handshake_is_refused() {
    let peer = Peer::new(PLAIN);
    let mut future = peer.ic_req();
    future[8] = 1;
    ends_with(&mut fresh(), &future, 128, Violation::parameter(8));
    let misaligned = peer.pdu(IcReq::new(32, 0, 0), 0, &[]);
    ends_with(&mut fresh(), &misaligned, 128, Violation::field(10));
    let undigestible = peer.pdu(IcReq::new(0, 4, 0), 0, &[]);
    ends_with(&mut fresh(), &undigestible, 128, Violation::field(11));
}

#[test]
fn the_handshake_comes_first_and_once() {
    let capsule = Peer::new(PLAIN).pdu(CapsuleCmd::new(Sqe::new(READ)), 0, &[]);
    ends_with(&mut fresh(), &capsule, 8, Violation::SEQUENCE);
    let data = Peer::new(PLAIN).pdu(H2cData::new(1, 0, 0, 4), FLAG_LAST, &[0; 4]);
    ends_with(&mut fresh(), &data, 8, Violation::SEQUENCE);
    let mut victim = Victim::new(PLAIN);
    let again = victim.peer.ic_req();
    ends_with(&mut victim, &again, 8, Violation::SEQUENCE);
}

#[test]
fn an_impossible_common_header_is_reported_by_the_wrong_field() {
    let cases: [([u8; 8], u32); 7] = [
        ([0xff, 0, 24, 0, 24, 0, 0, 0], 0),
        ([0x07, 4, 24, 24, 28, 0, 0, 0], 0),
        ([0x04, 1, 72, 0, 76, 0, 0, 0], 1),
        ([0x04, 0, 64, 0, 72, 0, 0, 0], 2),
        ([0x06, 4, 24, 23, 32, 0, 0, 0], 3),
        ([0x04, 0, 72, 72, 0x49, 0x20, 0, 0], 4),
        ([0x04, 0, 72, 0, 8, 0, 0, 0], 4),
    ];
    for (header, field) in cases {
        ends_with(&mut Victim::new(PLAIN), &header, 8, Violation::field(field));
    }
}

#[test]
fn a_corrupt_header_is_reported_by_the_received_digest() {
    let mut victim = Victim::new(BOTH);
    let mut capsule = victim.peer.pdu(CapsuleCmd::new(command(READ, 7, 0)), 0, &[]);
    let digest = u32::from_le_bytes(capsule[72..76].try_into().expect("4 bytes"));
    capsule[20] ^= 1;
    ends_with(&mut victim, &capsule, 72, Violation::header_digest(digest));
}

#[test]
fn more_commands_than_the_queue_has_entries_are_out_of_sequence() {
    let mut victim = Victim::new(PLAIN);
    for cid in 0..8 {
        victim.command(command(READ, cid, 0).with_sgl(Sgl::Transport { length: 512 }), &[]);
    }
    victim.events.clear();
    assert_eq!(victim.target.outstanding(), 8);
    let ninth = victim.peer.pdu(CapsuleCmd::new(command(READ, 8, 0)), 0, &[]);
    ends_with(&mut victim, &ninth, 72, Violation::SEQUENCE);
}

#[test]
fn unrequested_data_is_reported_by_its_tag() {
    let mut victim = Victim::new(PLAIN);
    let data = victim.peer.pdu(H2cData::new(1, 0, 0, 4), FLAG_LAST, &[0; 4]);
    ends_with(&mut victim, &data, 24, Violation::field(10));

    // The data of a parked write is not requested yet.
    let mut victim = Victim { source: Source { in_capsule: 1, transfer: 0 }, ..Victim::new(PLAIN) };
    victim.command(command(WRITE, 1, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    ends_with(&mut victim, &data, 24, Violation::field(10));

    // The same if its R2T is not sent yet.
    let mut victim = Victim::new(PLAIN);
    victim.command(command(WRITE, 1, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    ends_with(&mut victim, &data, 24, Violation::field(10));

    // And a transfer that is complete was served already.
    let mut victim = Victim::new(PLAIN);
    let ttag = victim.solicited_write(1, 4);
    let data = victim.peer.pdu(H2cData::new(1, ttag, 0, 4), FLAG_LAST, &[0; 4]);
    victim.send(&data).expect("the requested data");
    victim.events.clear();
    ends_with(&mut victim, &data, 24, Violation::field(10));
}

#[test]
fn data_that_does_not_fit_its_transfer_ends_the_connection() {
    // Wrong data for a transfer of 8192 bytes: (what, cid, offset, DATAL, flags, bytes sent, violation).
    let cases: [(&str, u16, u32, u32, u8, usize, Violation); 10] = [
        ("another command", 2, 0, 4096, 0, 4096, Violation::field(8)),
        ("DATAL longer than the data", 1, 0, 4096, 0, 4092, Violation::field(16)),
        ("DATAL shorter than the data", 1, 0, 4092, 0, 4096, Violation::field(16)),
        ("beyond MAXH2CDATA", 1, 0, 4100, 0, 4100, Violation::LIMIT),
        ("not from the start", 1, 4096, 4096, FLAG_LAST, 4096, Violation::SEQUENCE),
        ("a gap", 1, 4, 4, 0, 4, Violation::SEQUENCE),
        ("beyond the end", 1, 8190, 4, FLAG_LAST, 4, Violation::OUT_OF_RANGE),
        ("far beyond the end", 1, u32::MAX, 4, FLAG_LAST, 4, Violation::OUT_OF_RANGE),
        ("last too early", 1, 0, 4096, FLAG_LAST, 4096, Violation::SEQUENCE),
        ("nothing", 1, 0, 0, 0, 4, Violation::field(16)),
    ];
    for (what, cid, offset, datal, flags, length, violation) in cases {
        let mut victim = Victim::new(PLAIN);
        let ttag = victim.solicited_write(1, 8192);
        let data = victim.peer.pdu(H2cData::new(cid, ttag, offset, datal), flags, &vec![1; length]);
        println!("{what}");
        ends_with(&mut victim, &data, 24, violation);
    }
}

#[test]
fn the_second_piece_is_held_to_the_same_rules() {
    let cases = [
        ("the first again", 0, FLAG_LAST, Violation::SEQUENCE),
        ("LAST is missing", 4096, 0, Violation::SEQUENCE),
        ("overrun", 4100, FLAG_LAST, Violation::OUT_OF_RANGE),
    ];
    for (what, offset, flags, violation) in cases {
        let mut victim = Victim::new(BOTH);
        let ttag = victim.solicited_write(1, 8192);
        let first = victim.peer.pdu(H2cData::new(1, ttag, 0, 4096), 0, &pattern(0, 4096));
        assert_eq!(victim.send(&first), Ok(first.len()));
        let second = victim.peer.pdu(H2cData::new(1, ttag, offset, 4096), flags, &pattern(1, 4096));
        println!("{what}");
        ends_with(&mut victim, &second, 24, violation);
    }
}

#[test]
fn the_violation_is_the_same_however_the_bytes_are_cut() {
    for digests in ALL_DIGESTS {
        let faulty = Victim::new(digests).peer.pdu(H2cData::new(1, 9, 0, 64), FLAG_LAST, &[0; 64]);
        for cut in 1..faulty.len() {
            let mut victim = Victim::new(digests);
            let (front, back) = faulty.split_at(cut);
            let outcome = victim.send(front).and_then(|_| victim.send(back));
            assert_eq!(outcome, Err(Fatal::Violation(Violation::field(10))), "cut at {cut}");
            let bytes = victim.sent();
            assert_eq!(bytes[24..], faulty[..24], "cut at {cut}");
        }
    }
}

#[test]
fn a_violation_leaves_unsent_answers_unsent() {
    let mut victim = Victim::new(PLAIN);
    victim.command(command(READ, 1, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    victim.target.reply_with_data(nvme::spec::Cqe::success(1), vec![0; 4096], 4096);
    victim.events.clear();
    ends_with(&mut victim, &[0xff, 0, 24, 0, 24, 0, 0, 0], 8, Violation::field(0));
}

#[test]
fn an_answer_to_a_command_of_a_dead_connection_goes_nowhere() {
    let mut victim = Victim::new(PLAIN);
    victim.command(command(READ, 1, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    victim.events.clear();
    ends_with(&mut victim, &[0xff, 0, 24, 0, 24, 0, 0, 0], 8, Violation::field(0));
    victim.target.reply_with_data(nvme::spec::Cqe::success(1), vec![0; 4096], 4096);
    assert_eq!((victim.target.outstanding(), victim.sent()), (0, Vec::new()));
}

#[test]
fn a_host_that_terminates_is_not_answered() {
    let image = TermReqImage::new(End::Host, Violation::header_digest(0xabcd), &[5; 24]);
    for mut victim in [Victim::new(BOTH), fresh()] {
        let fatal = Fatal::Terminated { status: 3, information: 0xabcd };
        assert_eq!(victim.send(image.bytes()), Err(fatal));
        let mut wire = Vec::new();
        assert!(!victim.target.poll_transmit(&mut wire));
        assert!(wire.is_empty());
    }
}
