//! Requirements of the NVMe/TCP specification that the other files do not cover: reserved fields, tags, SGLs,
//! flow control.

use super::world::{FLUSH, Peer, READ, Victim, WRITE, command, pattern};
use nvme::queue::FlowControl;
use nvme::spec::{Cqe, Sgl, Sqe};
use nvme::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::tcp::pdu::{C2hData, CapsuleCmd, CapsuleResp, Digests, Framing, H2cData, IcReq, R2t};
use nvme::tcp::{HostConnection, HostEvent, HostOptions, TargetLimits, Transfer};
use std::collections::BTreeSet;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };
/// Header flags that are reserved.
const RESERVED_FLAGS: u8 = 0xf0;

/// A host after the handshake.
fn greeted(options: HostOptions) -> HostConnection<Vec<u8>> {
    let mut host = HostConnection::new(options);
    host.poll_transmit(&mut Vec::new());
    host.on_bytes(&Peer::new(options.digests).ic_resp(4096), &mut Vec::new()).expect("a proper handshake");
    host
}

fn sent(host: &mut HostConnection<Vec<u8>>) -> Vec<u8> {
    let mut wire = Vec::new();
    host.poll_transmit(&mut wire);
    wire
}

/// Writes `header` with all digests and the largest alignment. Returns the header and the bytes between
/// header digest and data.
fn padding<H: nvme::tcp::pdu::common::Header>(header: H, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let framing = Framing { digests: BOTH, alignment: 128 };
    let wire = Peer { framing }.pdu(header, 0, data);
    let (hlen, pdo) = (usize::from(wire[2]), usize::from(wire[3]));
    (wire[..hlen].to_vec(), wire[hlen + 4..pdo].to_vec())
}

#[test]
fn reserved_fields_and_padding_are_sent_as_zero() {
    let (command, between) = padding(CapsuleCmd::new(Sqe::new(WRITE)), &[0xff; 64]);
    assert_eq!((command.len(), between), (72, vec![0; 128 - 76]));
    let (data, between) = padding(H2cData::new(u16::MAX, u16::MAX, u32::MAX, u32::MAX), &[0xff; 64]);
    assert_eq!((&data[20..], between), (&[0; 4][..], vec![0; 128 - 28]));
    let (data, between) = padding(C2hData::new(u16::MAX, u32::MAX, u32::MAX), &[0xff; 64]);
    assert_eq!((&data[10..12], &data[20..], between), (&[0; 2][..], &[0; 4][..], vec![0; 128 - 28]));
    let peer = Peer::new(PLAIN);
    assert_eq!(peer.pdu(R2t::new(u16::MAX, u16::MAX, u32::MAX, u32::MAX), 0, &[])[20..], [0; 4]);
    assert_eq!(peer.pdu(IcReq::new(31, 3, u32::MAX), 0, &[])[16..], [0; 112]);
    assert_eq!(peer.ic_resp(u32::MAX)[16..], [0; 112]);
    // CapsuleResp: SQID is reserved on TCP, and there is no phase tag.
    let response =
        peer.pdu(CapsuleResp::new(Cqe::success(u16::MAX).with_result(u64::MAX).with_sqhd(9)), 0, &[]);
    assert_eq!(response[8 + 10..8 + 12], [0; 2]);
}

#[test]
fn reserved_fields_are_ignored() {
    let mut victim = Victim::new(PLAIN);
    let ttag = victim.solicited_write(1, 8);
    let mut data = victim.peer.pdu(H2cData::new(1, ttag, 0, 8), FLAG_LAST, &[5; 8]);
    data[1] |= RESERVED_FLAGS;
    data[20..24].fill(0xff);
    assert_eq!(victim.send(&data), Ok(data.len()));
    let mut capsule = victim.peer.pdu(CapsuleCmd::new(command(FLUSH, 2, 0)), RESERVED_FLAGS, &[]);
    capsule[3] = 200;
    assert_eq!(victim.send(&capsule), Ok(capsule.len()), "PDO is ignored without data");
    assert_eq!(victim.events.len(), 2);

    let mut host = greeted(HostOptions::default());
    host.submit(command(READ, 1, 0), Transfer::FromController(vec![0; 8], 8)).expect("room");
    sent(&mut host);
    let mut data =
        Peer::new(PLAIN).pdu(C2hData::new(1, 0, 8), FLAG_LAST | FLAG_SUCCESS | RESERVED_FLAGS, &[7; 8]);
    data[10..12].fill(0xff);
    data[20..24].fill(0xff);
    let mut events = Vec::new();
    assert_eq!(host.on_bytes(&data, &mut events), Ok(()));
    assert!(matches!(&events[..], [HostEvent::Completed { cqe, .. }] if cqe.status().is_success()));
}

#[test]
fn outstanding_transfers_have_different_tags() {
    let mut victim = Victim::new(PLAIN);
    let tags: BTreeSet<u16> = (0..8).map(|cid| victim.solicited_write(cid, 4096)).collect();
    assert_eq!(tags.len(), 8);
}

#[test]
fn the_data_of_a_write_is_requested_by_one_r2t() {
    for length in [4, 4096, 1 << 20] {
        let mut victim = Victim::new(PLAIN);
        // Checks that R2TO is 0 and R2TL is the whole length. No second R2T follows.
        victim.solicited_write(1, length);
        assert!(victim.sent().is_empty());
    }
}

#[test]
fn the_ic_req_carries_the_options_of_the_host() {
    for (hpda, digests, dgst) in [(0, PLAIN, 0), (31, BOTH, 3), (7, Digests { header: true, data: false }, 1)]
    {
        let mut host =
            HostConnection::<Vec<u8>>::new(HostOptions { hpda, digests, ..HostOptions::default() });
        let request = sent(&mut host);
        assert_eq!(request.len(), 128, "nothing else is sent before ICResp");
        assert_eq!(request[..16], [0, 0, 128, 0, 128, 0, 0, 0, 0, 0, hpda, dgst, 0, 0, 0, 0]);
    }
}

#[test]
fn a_host_describes_its_data_by_one_descriptor() {
    let mut host = greeted(HostOptions { in_capsule_max: 4096, ..HostOptions::default() });
    let mut capsule = |sqe: Sqe, transfer| {
        host.submit(sqe, transfer).expect("room");
        let wire = sent(&mut host);
        let (sqe, data) = wire.split_at(72);
        assert_eq!(sqe[8 + 1], 0x40, "SGLs, not PRPs, and no fused operation");
        assert_eq!(sqe[8 + 16..8 + 24], [0; 8], "no metadata pointer");
        assert_eq!(sqe[8 + 24..8 + 32], [0; 8], "no address, and no offset into the capsule");
        let length = u32::from_le_bytes(sqe[8 + 32..8 + 36].try_into().expect("4 bytes"));
        (sqe[8 + 39], length, data.len())
    };
    let to = |length: u32| Transfer::ToController(pattern(1, length), length);
    let from = |length: u32| Transfer::FromController(vec![0; length as usize], length);
    const IN_CAPSULE: u8 = 0x01;
    const TRANSPORT: u8 = 0x5a;
    assert_eq!(capsule(command(FLUSH, 1, 0), Transfer::None), (TRANSPORT, 0, 0));
    assert_eq!(capsule(command(READ, 2, 0), from(512)), (TRANSPORT, 512, 0));
    assert_eq!(capsule(command(WRITE, 3, 0), to(4096)), (IN_CAPSULE, 4096, 4096));
    assert_eq!(capsule(command(WRITE, 4, 0), to(4097)), (TRANSPORT, 4097, 0), "beyond IOCCSZ");
    let connect = Sqe::fabrics(1).with_cid(5);
    assert_eq!(
        capsule(connect, to(8192)),
        (IN_CAPSULE, 8192, 8192),
        "a fabrics command may always carry 8 KiB"
    );
    assert_eq!(capsule(connect.with_cid(6), to(8193)), (TRANSPORT, 8193, 0));
}

#[test]
fn a_target_takes_8192_bytes_in_the_capsule_of_a_fabrics_command() {
    assert!(TargetLimits::default().in_capsule_max >= 8192);
    let mut victim = Victim::new(PLAIN);
    let sqe = Sqe::fabrics(1).with_cid(1).with_sgl(Sgl::InCapsule { offset: 0, length: 8192 });
    victim.command(sqe, &pattern(1, 8192));
    assert_eq!(victim.events.len(), 1);
}

#[test]
fn a_host_that_obeys_the_head_is_never_left_without_room_in_its_queue() {
    for entries in [2, 3, 8, 128] {
        let mut victim = Victim::new(PLAIN);
        victim.target.set_queue(entries, FlowControl::Enabled);
        let (mut tail, mut head, mut alone) = (0, 0, 0);
        for round in 0..1000u32 {
            assert_ne!((tail + 1) % entries, head, "round {round}: the queue of {entries} is full forever");
            tail = (tail + 1) % entries;
            victim.command(command(READ, 1, 0).with_sgl(Sgl::Transport { length: 512 }), &[]);
            victim.events.clear();
            victim.target.reply_with_data(Cqe::success(1), vec![0; 512], 512);
            let wire = victim.sent();
            match wire[1] & FLAG_SUCCESS {
                0 => head = u32::from(u16::from_le_bytes([wire[24 + 512 + 16], wire[24 + 512 + 17]])),
                _ => alone += 1,
            }
        }
        assert_eq!(
            alone > 500,
            entries > 3,
            "{alone} of 1000 answers to a queue of {entries} are data alone"
        );
    }
}

#[test]
fn without_flow_control_every_success_rides_on_its_data() {
    let mut victim = Victim::new(PLAIN);
    victim.target.set_queue(8, FlowControl::Disabled);
    for _ in 0..100 {
        victim.command(command(READ, 1, 0).with_sgl(Sgl::Transport { length: 512 }), &[]);
        victim.events.clear();
        victim.target.reply_with_data(Cqe::success(1), vec![0; 512], 512);
        let wire = victim.sent();
        assert_eq!((wire[1], wire.len()), (FLAG_LAST | FLAG_SUCCESS, 24 + 512));
    }
}

#[test]
fn c2h_data_has_its_command_offset_and_last_flag() {
    let mut victim = Victim::new(BOTH);
    victim.command(command(READ, 0x101a, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    victim.target.reply_with_data(Cqe::success(0x101a), pattern(1, 4096), 4096);
    let wire = victim.sent();
    assert_eq!(
        wire[..4],
        [7, 0x0f, 24, 28],
        "both digests, LAST and SUCCESS; data directly after the header digest"
    );
    assert_eq!(wire[8..24], [0x1a, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]);
    assert_eq!(wire.len(), 28 + 4096 + 4);
}
