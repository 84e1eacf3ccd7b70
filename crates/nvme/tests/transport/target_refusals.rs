//! Commands that the target refuses without ending the connection, and commands that are cancelled while
//! their data is on its way.

use super::world::{FLUSH, READ, Source, Victim, WRITE, command, pattern};
use nvme::queue::{Cancel, FlowControl, TargetEvent};
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{CapsuleCmd, Digests, H2cData};
use nvme::tcp::{TargetConnection, TargetLimits};

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// Takes the event of a refused command; there must be no other event.
fn reported_refusal(victim: &mut Victim) -> (u16, Status) {
    let refusal = match victim.events[..] {
        [TargetEvent::Refused { sqe, status }] => (sqe.cid(), status),
        ref other => panic!("{other:?}"),
    };
    victim.events.clear();
    refusal
}

/// The next command must succeed: the connection still works.
fn still_works(victim: &mut Victim) {
    victim.command(command(FLUSH, 0x7fff, 0), &[]);
    assert!(matches!(victim.events[..], [TargetEvent::Command { data: None, .. }]));
    victim.target.reply(Cqe::success(0x7fff));
    assert_eq!(victim.response().status(), Status::SUCCESS);
    assert_eq!(victim.target.outstanding(), 0);
}

#[test]
fn an_sgl_that_does_not_fit_is_refused_and_its_data_skipped() {
    let in_capsule = |length| Sgl::InCapsule { offset: 0, length };
    let cases: [(&str, u8, Sgl, usize, Status); 6] = [
        ("too long", WRITE, in_capsule(4096), 512, Status::DATA_SGL_LENGTH_INVALID),
        ("too short", WRITE, in_capsule(8), 512, Status::DATA_SGL_LENGTH_INVALID),
        ("nonsense", WRITE, in_capsule(u32::MAX), 0, Status::DATA_SGL_LENGTH_INVALID),
        ("keyed", READ, Sgl::Other(0x40), 0, Status::SGL_DESCRIPTOR_TYPE_INVALID),
        ("beyond MDTS", WRITE, Sgl::Transport { length: u32::MAX }, 0, Status::INVALID_FIELD),
        ("offset", WRITE, Sgl::InCapsule { offset: 4, length: 508 }, 508, Status::SGL_OFFSET_INVALID),
    ];
    for digests in [PLAIN, BOTH] {
        for (what, opcode, sgl, length, status) in cases {
            let mut victim = Victim::new(digests);
            victim.command(command(opcode, 1, 0).with_sgl(sgl), &vec![7; length]);
            let cqe = victim.response();
            assert_eq!((cqe.cid(), cqe.status()), (1, status), "{what}");
            assert_eq!(reported_refusal(&mut victim), (1, status), "{what}");
            still_works(&mut victim);
        }
    }
}

#[test]
fn an_identifier_in_use_is_a_conflict_and_the_first_command_continues() {
    let mut victim = Victim::new(PLAIN);
    let ttag = victim.solicited_write(0x101a, 8);
    victim.command(command(WRITE, 0x101a, 0).with_sgl(Sgl::InCapsule { offset: 0, length: 4 }), &[9; 4]);
    let cqe = victim.response();
    assert_eq!((cqe.cid(), cqe.status()), (0x101a, Status::COMMAND_ID_CONFLICT));
    assert_eq!(reported_refusal(&mut victim), (0x101a, Status::COMMAND_ID_CONFLICT));
    let data = victim.peer.pdu(H2cData::new(0x101a, ttag, 0, 8), FLAG_LAST, &[5; 8]);
    victim.send(&data).expect("the requested data");
    assert!(matches!(&victim.events[..], [TargetEvent::Command { data: Some(data), .. }] if data == &[5; 8]));
    victim.events.clear();
    victim.target.reply(Cqe::success(0x101a));
    assert_eq!(victim.response().status(), Status::SUCCESS);
    still_works(&mut victim);
}

#[test]
fn identifiers_that_differ_only_in_their_generation_are_different_commands() {
    let mut victim = Victim::new(PLAIN);
    for generation in 0..8u16 {
        victim.command(command(FLUSH, generation << 12 | 0x1a, 0), &[]);
    }
    assert_eq!((victim.events.len(), victim.target.outstanding()), (8, 8));
}

#[test]
fn corrupt_data_in_a_capsule_fails_the_command() {
    let mut victim = Victim::new(BOTH);
    let sqe = command(WRITE, 3, 0).with_sgl(Sgl::InCapsule { offset: 0, length: 512 });
    let mut capsule = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &pattern(0, 512));
    capsule[100] ^= 1;
    assert_eq!(victim.send(&capsule), Ok(capsule.len()));
    assert_eq!(victim.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(reported_refusal(&mut victim), (3, Status::TRANSIENT_TRANSPORT_ERROR));
    still_works(&mut victim);
}

#[test]
fn corrupt_data_of_a_transfer_fails_the_command_after_all_of_it_arrived() {
    let mut victim = Victim::new(BOTH);
    let ttag = victim.solicited_write(3, 8192);
    let mut first = victim.peer.pdu(H2cData::new(3, ttag, 0, 4096), 0, &pattern(0, 4096));
    first[1000] ^= 1;
    assert_eq!(victim.send(&first), Ok(first.len()));
    assert!(victim.sent().is_empty(), "the host still has data to send");
    let second = victim.peer.pdu(H2cData::new(3, ttag, 4096, 4096), FLAG_LAST, &pattern(0, 4096));
    assert_eq!(victim.send(&second), Ok(second.len()));
    assert_eq!(victim.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    assert_eq!(reported_refusal(&mut victim), (3, Status::TRANSIENT_TRANSPORT_ERROR));
    still_works(&mut victim);
}

#[test]
fn a_command_on_hold_is_dropped_when_its_identifier_is_reused() {
    let mut victim = Victim::new(PLAIN);
    victim.command(command(FLUSH, 3, 0), &[]);
    victim.target.hold(3);
    victim.events.clear();
    victim.command(command(FLUSH, 3, 0), &[]);
    assert!(
        matches!(
            victim.events[..],
            [TargetEvent::GivenUp { cid: 3 }, TargetEvent::Command { data: None, .. }]
        ),
        "{:?}",
        victim.events
    );
    assert_eq!(victim.target.outstanding(), 1);
    victim.target.reply(Cqe::success(3));
    let cqe = victim.response();
    assert_eq!((cqe.status(), cqe.sqhd()), (Status::SUCCESS, 2), "both entries of the queue are free");
    victim.events.clear();
    still_works(&mut victim);
}

#[test]
fn a_forgotten_command_frees_its_queue_entry() {
    let mut victim = Victim::new(PLAIN);
    for round in 0..20u16 {
        for cid in 4 * round..4 * round + 4 {
            victim.command(command(FLUSH, cid, 0), &[]);
            victim.target.hold(cid);
        }
        assert!((4 * round..4 * round + 4).all(|cid| victim.target.forget(cid)));
        assert!(!victim.target.forget(4 * round), "once");
    }
    victim.events.clear();
    victim.command(command(FLUSH, 1, 0), &[]);
    assert!(!victim.target.forget(1), "it is not on hold");
    victim.target.reply(Cqe::success(1));
    assert_eq!(victim.response().sqhd(), (80 + 1) % 8, "the head has moved with them");
    victim.events.clear();
    still_works(&mut victim);
}

#[test]
fn a_parked_write_is_cancelled_at_once() {
    let mut victim = Victim { source: Source { in_capsule: 0, transfer: 0 }, ..Victim::new(PLAIN) };
    victim.command(command(WRITE, 5, 0).with_sgl(Sgl::Transport { length: 8192 }), &[]);
    assert_eq!(victim.target.parked(), 1);
    assert_eq!(victim.target.cancel(5, Status::ABORT_REQUESTED), Cancel::Answered);
    assert_eq!(victim.response().status(), Status::ABORT_REQUESTED);
    assert_eq!(victim.target.parked(), 0);
    assert_eq!(victim.target.cancel(5, Status::ABORT_REQUESTED), Cancel::Unknown);
    still_works(&mut victim);
}

#[test]
fn a_write_whose_data_is_on_its_way_is_cancelled_after_it_arrived() {
    let mut victim = Victim::new(PLAIN);
    let ttag = victim.solicited_write(5, 8192);
    let first = victim.peer.pdu(H2cData::new(5, ttag, 0, 4096), 0, &[1; 4096]);
    let (front, back) = first.split_at(2000);
    victim.send(front).expect("half a PDU");
    assert_eq!(victim.target.cancel(5, Status::ABORT_REQUESTED), Cancel::Draining);
    victim.send(back).expect("the other half");
    assert!(victim.sent().is_empty());
    let second = victim.peer.pdu(H2cData::new(5, ttag, 4096, 4096), FLAG_LAST, &[1; 4096]);
    victim.send(&second).expect("the rest");
    assert_eq!(victim.response().status(), Status::ABORT_REQUESTED);
    assert_eq!(reported_refusal(&mut victim), (5, Status::ABORT_REQUESTED));
    still_works(&mut victim);
}

#[test]
fn a_command_that_was_passed_on_is_not_cancelled_here() {
    let mut victim = Victim::new(PLAIN);
    victim.command(command(FLUSH, 5, 0), &[]);
    assert_eq!(victim.target.cancel(5, Status::ABORT_REQUESTED), Cancel::Delivered);
    assert_eq!(victim.target.outstanding(), 1);
}

#[test]
fn every_answer_moves_the_head_of_the_submission_queue() {
    let mut victim = Victim::new(PLAIN);
    let mut heads = Vec::new();
    for round in 0..10u16 {
        if round % 2 == 0 {
            victim.command(command(FLUSH, round, 0), &[]);
            victim.target.reply(Cqe::success(round));
        } else {
            victim.command(command(READ, round, 0).with_sgl(Sgl::Other(0)), &[]);
        }
        heads.push(victim.response().sqhd());
    }
    assert_eq!(heads, [1, 2, 3, 4, 5, 6, 7, 0, 1, 2]);

    victim.target.set_queue(8, FlowControl::Disabled);
    let heads = [1, 2, 3].map(|cid| {
        victim.command(command(FLUSH, cid, 0), &[]);
        victim.target.reply(Cqe::success(cid));
        victim.response().sqhd()
    });
    assert_eq!(heads, [0xffff, 0, 0]);
}

#[test]
fn a_failed_read_sends_no_data_and_a_result_needs_a_capsule() {
    let mut victim = Victim::new(PLAIN);
    let read = |cid| command(READ, cid, 0).with_sgl(Sgl::Transport { length: 512 });
    victim.command(read(1), &[]);
    victim.target.reply_with_data(Cqe::new(1, Status::LBA_OUT_OF_RANGE), vec![0; 512], 512);
    assert_eq!(victim.response().status(), Status::LBA_OUT_OF_RANGE);

    victim.command(read(2), &[]);
    victim.target.reply_with_data(Cqe::success(2), vec![0; 512], 512);
    let bytes = victim.sent();
    assert_eq!((bytes[..2].to_vec(), bytes.len()), (vec![7, 0x0c], 24 + 512), "C2HData, LAST and SUCCESS");

    victim.command(read(3), &[]);
    victim.target.reply_with_data(Cqe::success(3).with_dw0(64), vec![0; 512], 512);
    let bytes = victim.sent();
    assert_eq!(
        (bytes[..2].to_vec(), bytes.len()),
        (vec![7, 0x04], 24 + 512 + 24),
        "C2HData, LAST, then CapsuleResp"
    );
    assert_eq!(bytes[24 + 512], 5);
}

#[test]
#[should_panic(expected = "which was not passed on")]
fn answering_twice_panics() {
    let mut victim = Victim::new(PLAIN);
    victim.command(Sqe::new(FLUSH).with_cid(1), &[]);
    victim.target.reply(Cqe::success(1));
    victim.target.reply(Cqe::success(1));
}

#[test]
fn before_connect_a_transfer_is_no_longer_than_a_capsule() {
    let limits = TargetLimits { in_capsule_max: 8192, ..TargetLimits::default() };
    let mut stranger = Victim { target: TargetConnection::new(limits), ..Victim::new(PLAIN) };
    stranger.send(&stranger.peer.ic_req()).expect("a proper handshake");
    stranger.sent();
    stranger.events.clear();
    for (cid, opcode) in [(1, WRITE), (2, READ)] {
        stranger.command(command(opcode, cid, 0).with_sgl(Sgl::Transport { length: 8196 }), &[]);
        assert_eq!(stranger.response().status(), Status::INVALID_FIELD);
        assert_eq!(reported_refusal(&mut stranger), (cid, Status::INVALID_FIELD));
    }
    stranger.solicited_write(3, 8192);
    stranger.target.set_queue(8, FlowControl::Enabled);
    stranger.solicited_write(4, 1 << 20);
}
