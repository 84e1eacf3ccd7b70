//! Fused operations on the wire: two adjacent commands are passed on together, or both are refused.

use super::world::{FLUSH, Source, Victim, WRITE, command};
use nvme::queue::{Cancel, TargetEvent};
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{CapsuleCmd, CapsuleResp, Digests, H2cData, R2t};
use zerocopy::FromBytes;

const COMPARE: u8 = 0x05;
const FIRST: u8 = 0x41;
const SECOND: u8 = 0x42;
const NONE: Digests = Digests { header: false, data: false };

fn victim() -> Victim {
    victim_with(NONE)
}

fn victim_with(digests: Digests) -> Victim {
    let mut victim = Victim::new(digests);
    victim.target.allow_fused();
    victim
}

fn in_capsule(opcode: u8, cid: u16, fuse: u8) -> Sqe {
    command(opcode, cid, 0).with_flags(fuse).with_sgl(Sgl::InCapsule { offset: 0, length: 512 })
}

fn solicited(opcode: u8, cid: u16, fuse: u8) -> Sqe {
    command(opcode, cid, 0).with_flags(fuse).with_sgl(Sgl::Transport { length: 512 })
}

/// Completed commands with their statuses; commands with requested data, with their transfer tags.
type Answers = (Vec<(u16, Status)>, Vec<(u16, u16)>);

/// Response capsules that were sent, and R2Ts by command.
fn answers(victim: &mut Victim) -> Answers {
    let bytes = victim.sent();
    let (mut responses, mut r2ts) = (Vec::new(), Vec::new());
    for pdu in bytes.chunks(24) {
        match pdu[0] {
            5 => {
                let (response, _) = CapsuleResp::ref_from_prefix(pdu).expect("a response capsule");
                responses.push((response.cqe.cid(), response.cqe.status()));
            }
            9 => {
                let (r2t, _) = R2t::ref_from_prefix(pdu).expect("an R2T");
                r2ts.push((r2t.cccid.get(), r2t.ttag.get()));
            }
            other => panic!("a PDU of type {other}"),
        }
    }
    (responses, r2ts)
}

/// The commands of the fused operation, each with the first byte of its data.
fn pair(victim: &mut Victim) -> [(u16, u8); 2] {
    let halves = match victim.events.pop() {
        Some(TargetEvent::Fused { halves }) if victim.events.is_empty() => halves,
        other => panic!("{other:?} after {:?}", victim.events),
    };
    (*halves).map(|(sqe, data)| (sqe.cid(), data.expect("both have data")[0]))
}

fn data(victim: &mut Victim, (cid, ttag): (u16, u16), byte: u8) {
    let pdu = victim.peer.pdu(H2cData::new(cid, ttag, 0, 512), FLAG_LAST, &[byte; 512]);
    assert_eq!(victim.send(&pdu), Ok(pdu.len()));
}

/// Checks that nothing is left of the earlier attempt: the next pair succeeds.
fn a_pair_gets_through(victim: &mut Victim) {
    assert_eq!(victim.target.outstanding(), 0);
    victim.events.clear();
    victim.command(in_capsule(COMPARE, 100, FIRST), &[1; 512]);
    victim.command(in_capsule(WRITE, 101, SECOND), &[2; 512]);
    assert_eq!(pair(victim), [(100, 1), (101, 2)]);
    victim.target.reply(Cqe::success(100));
    victim.target.reply(Cqe::success(101));
    assert_eq!(answers(victim).0, [(100, Status::SUCCESS), (101, Status::SUCCESS)]);
}

#[test]
fn both_halves_come_at_once_or_not_at_all() {
    let mut victim = victim();
    victim.command(in_capsule(COMPARE, 1, FIRST), &[7; 512]);
    assert!(victim.events.is_empty(), "one half alone is not passed on: {:?}", victim.events);
    assert_eq!(victim.target.outstanding(), 1);
    victim.command(in_capsule(WRITE, 2, SECOND), &[8; 512]);
    assert_eq!(pair(&mut victim), [(1, 7), (2, 8)]);
    victim.target.reply(Cqe::new(1, Status::COMPARE_FAILURE));
    victim.target.reply(Cqe::new(2, Status::FAILED_FUSED));
    assert_eq!(answers(&mut victim).0.len(), 2);
    a_pair_gets_through(&mut victim);
}

/// The order of the commands decides which belong together, not the order of their data.
#[test]
fn data_may_come_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        let mut victim = victim();
        for cid in [1, 3] {
            victim.command(solicited(COMPARE, cid, FIRST), &[]);
            victim.command(solicited(WRITE, cid + 1, SECOND), &[]);
        }
        let (responses, r2ts) = answers(&mut victim);
        assert_eq!((responses.len(), r2ts.len()), (0, 4));
        let mut pairs = Vec::new();
        for index in order {
            data(&mut victim, r2ts[index], index as u8);
            if !victim.events.is_empty() {
                pairs.push(pair(&mut victim));
            }
        }
        pairs.sort_unstable();
        assert_eq!(pairs, [[(1, 0), (2, 1)], [(3, 2), (4, 3)]], "in the order {order:?}");
    }
}

#[test]
fn a_half_without_the_other_next_to_it_is_refused() {
    let mut victim = victim();
    victim.command(in_capsule(WRITE, 1, SECOND), &[0; 512]);
    assert_eq!(answers(&mut victim).0, [(1, Status::MISSING_FUSED)], "nothing came before it");
    victim.events.clear();

    victim.command(in_capsule(COMPARE, 2, FIRST), &[0; 512]);
    victim.command(command(FLUSH, 3, 0), &[]);
    assert_eq!(answers(&mut victim).0, [(2, Status::MISSING_FUSED)]);
    assert!(matches!(victim.events[..], [TargetEvent::Command { .. }]), "the Flush is an ordinary command");
    victim.target.reply(Cqe::success(3));
    victim.command(in_capsule(WRITE, 4, SECOND), &[0; 512]);
    assert_eq!(answers(&mut victim).0, [(3, Status::SUCCESS), (4, Status::MISSING_FUSED)]);
    victim.events.clear();

    victim.command(in_capsule(COMPARE, 5, FIRST), &[0; 512]);
    victim.command(in_capsule(COMPARE, 6, FIRST), &[3; 512]);
    assert_eq!(answers(&mut victim).0, [(5, Status::MISSING_FUSED)]);
    victim.command(in_capsule(WRITE, 7, SECOND), &[4; 512]);
    assert_eq!(pair(&mut victim), [(6, 3), (7, 4)], "the later first half has its second");
    for cid in [6, 7] {
        victim.target.reply(Cqe::success(cid));
    }
    answers(&mut victim);
    a_pair_gets_through(&mut victim);
}

#[test]
fn a_half_without_its_other_half_is_refused_after_its_data_arrived() {
    let mut victim = victim();
    victim.command(solicited(COMPARE, 1, FIRST), &[]);
    let (_, r2ts) = answers(&mut victim);
    victim.command(command(FLUSH, 2, 0), &[]);
    assert_eq!(answers(&mut victim).0, []);
    data(&mut victim, r2ts[0], 0);
    assert_eq!(answers(&mut victim).0, [(1, Status::MISSING_FUSED)]);
    victim.target.reply(Cqe::success(2));
    answers(&mut victim);
    a_pair_gets_through(&mut victim);
}

#[test]
fn an_error_in_one_half_fails_the_other() {
    let digests = Digests { header: false, data: true };
    for corrupt in [0, 1] {
        let mut victim = victim_with(digests);
        for (index, sqe) in
            [in_capsule(COMPARE, 1, FIRST), in_capsule(WRITE, 2, SECOND)].into_iter().enumerate()
        {
            let mut capsule = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &[5; 512]);
            capsule[100] ^= u8::from(index == corrupt);
            assert_eq!(victim.send(&capsule), Ok(capsule.len()));
        }
        let expected = match corrupt {
            0 => [(1, Status::TRANSIENT_TRANSPORT_ERROR), (2, Status::FAILED_FUSED)],
            _ => [(2, Status::TRANSIENT_TRANSPORT_ERROR), (1, Status::FAILED_FUSED)],
        };
        assert_eq!(answers(&mut victim).0, expected);
        assert!(victim.events.iter().all(|event| matches!(event, TargetEvent::Refused { .. })));
        assert_eq!(victim.target.outstanding(), 0);
    }
    for wrong in [0, 1] {
        let mut victim = victim();
        let sqes = [in_capsule(COMPARE, 1, FIRST), in_capsule(WRITE, 2, SECOND)];
        for (index, sqe) in sqes.into_iter().enumerate() {
            let sqe = if index == wrong { sqe.with_sgl(Sgl::Other(0x40)) } else { sqe };
            victim.command(sqe, if index == wrong { &[] } else { &[5; 512] });
        }
        let expected = match wrong {
            0 => [(1, Status::SGL_DESCRIPTOR_TYPE_INVALID), (2, Status::FAILED_FUSED)],
            _ => [(2, Status::SGL_DESCRIPTOR_TYPE_INVALID), (1, Status::FAILED_FUSED)],
        };
        assert_eq!(answers(&mut victim).0, expected);
        a_pair_gets_through(&mut victim);
    }
}

/// The second half has the identifier of the first, or of another command.
#[test]
fn an_identifier_in_use_fails_both_halves() {
    let mut victim = victim();
    victim.command(in_capsule(COMPARE, 1, FIRST), &[0; 512]);
    victim.command(in_capsule(WRITE, 1, SECOND), &[0; 512]);
    assert_eq!(answers(&mut victim).0, [(1, Status::COMMAND_ID_CONFLICT), (1, Status::FAILED_FUSED)]);
    a_pair_gets_through(&mut victim);
}

#[test]
fn a_cancelled_half_takes_the_other_with_it() {
    // Complete, waiting for its other half.
    let mut victim = victim();
    victim.command(in_capsule(COMPARE, 1, FIRST), &[0; 512]);
    assert_eq!(victim.target.cancel(1, Status::ABORT_REQUESTED), Cancel::Answered);
    assert_eq!(answers(&mut victim).0, [(1, Status::ABORT_REQUESTED)]);
    victim.command(in_capsule(WRITE, 2, SECOND), &[0; 512]);
    assert_eq!(answers(&mut victim).0, [(2, Status::FAILED_FUSED)]);
    a_pair_gets_through(&mut victim);

    // Complete; the data of the other half is requested.
    victim.command(in_capsule(COMPARE, 1, FIRST), &[0; 512]);
    victim.command(solicited(WRITE, 2, SECOND), &[]);
    let (_, r2ts) = answers(&mut victim);
    assert_eq!(victim.target.cancel(1, Status::ABORT_REQUESTED), Cancel::Answered);
    assert_eq!(answers(&mut victim).0, [(1, Status::ABORT_REQUESTED)]);
    data(&mut victim, r2ts[0], 0);
    assert_eq!(answers(&mut victim).0, [(2, Status::FAILED_FUSED)]);
    a_pair_gets_through(&mut victim);

    // Both wait for memory.
    victim.source = Source { in_capsule: 0, transfer: 0 };
    victim.command(solicited(COMPARE, 1, FIRST), &[]);
    victim.command(solicited(WRITE, 2, SECOND), &[]);
    assert_eq!(victim.target.cancel(2, Status::ABORT_REQUESTED), Cancel::Answered);
    assert_eq!(answers(&mut victim).0, [(2, Status::ABORT_REQUESTED), (1, Status::FAILED_FUSED)]);
    assert_eq!(victim.target.parked(), 0);
    victim.source = Source::plenty();
    a_pair_gets_through(&mut victim);
}

/// Admin commands are never fused: the layer above refuses each one.
#[test]
fn a_queue_without_fused_operations_passes_each_half_on() {
    let mut victim = Victim::new(NONE);
    victim.command(in_capsule(COMPARE, 1, FIRST), &[0; 512]);
    victim.command(in_capsule(WRITE, 2, SECOND), &[0; 512]);
    assert!(matches!(victim.events[..], [TargetEvent::Command { .. }, TargetEvent::Command { .. }]));
}

#[test]
fn halves_that_wait_give_their_buffers_back() {
    let mut victim = victim();
    victim.command(in_capsule(COMPARE, 1, FIRST), &[6; 512]);
    let mut buffers = Vec::new();
    victim.target.into_buffers(|buffer| buffers.push(buffer));
    assert_eq!(buffers, [vec![6; 512]]);
}
