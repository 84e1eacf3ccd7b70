//! For any behaviour of the peer, a connection neither panics nor grows without limit.

use super::world::{ALL_DIGESTS, FLUSH, Peer, READ, Source, Victim, WRITE, World, command, pattern, whole};
use core::ops::Range;
use nvme::buffer::{BufferSource, BufferUse, Outgoing};
use nvme::queue::{FlowControl, TargetEvent};
use nvme::spec::{Cqe, Sgl, Sqe};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{C2hData, CapsuleCmd, CapsuleResp, Digests, H2cData, R2t};
use nvme::tcp::{HostConnection, HostEvent, HostOptions, Pause, TargetConnection, TargetLimits, Transfer};
use proptest::prelude::*;
use units::Bytes;

const PLAIN: Digests = Digests { header: false, data: false };

#[test]
fn a_peer_that_does_not_read_is_paused() {
    let mut victim = Victim::new(PLAIN);
    let sqe = command(READ, 1, 0).with_sgl(Sgl::Other(0));
    let refused = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &[]);
    let flood = refused.repeat(100);
    let taken = victim.send(&flood).expect("no violation");
    assert_eq!(victim.target.paused(), Some(Pause::Transmit));
    assert_eq!(taken, refused.len() * victim.target.transmit_pending());
    assert!(victim.target.transmit_pending() <= 16, "8 entries and a few");
    assert_eq!(victim.send(&flood[taken..]), Ok(0));
    victim.sent();
    assert!(victim.send(&flood[taken..]).expect("no violation") > 0, "after it reads, parsing continues");
}

/// Has room for one PDU at a time.
#[derive(Default)]
struct Narrow {
    wire: Vec<u8>,
    headers: usize,
}

impl Outgoing<Vec<u8>> for Narrow {
    fn header(&mut self, bytes: &[u8]) {
        self.headers += 1;
        self.wire.header(bytes);
    }

    fn payload(&mut self, buffer: Vec<u8>, range: Range<usize>) {
        self.wire.payload(buffer, range);
    }

    fn room(&self) -> bool {
        self.headers == 0
    }
}

#[test]
fn no_more_pdus_are_written_than_there_is_room_for() {
    let options = HostOptions { in_capsule_max: 0, ..HostOptions::default() };
    let mut world = World::new(options, TargetLimits { maxh2cdata: 4096, ..TargetLimits::default() });
    world.run(&mut whole);
    world.write(1, 0, &pattern(0, 10_000));
    let mut events = Vec::new();
    let mut lengths = Vec::new();
    loop {
        let mut narrow = Narrow::default();
        if !world.host.poll_transmit(&mut narrow) {
            break;
        }
        lengths.push(narrow.wire.len());
        world.target.on_bytes(&narrow.wire, &mut world.source, &mut events).expect("proper");
        let mut wire = Vec::new();
        world.target.poll_transmit(&mut wire);
        world.host.on_bytes(&wire, &mut Vec::new()).expect("proper");
    }
    assert_eq!(lengths, [72, 24 + 4096, 24 + 4096, 24 + 1808]);
    assert_eq!(events.len(), 1);
}

#[test]
fn pending_data_is_counted_at_both_ends() {
    let mut victim = Victim { source: Source { in_capsule: 0, transfer: 1 }, ..Victim::new(PLAIN) };
    let ttag = victim.solicited_write(1, 8192);
    victim.command(command(WRITE, 2, 0).with_sgl(Sgl::Transport { length: 512 }), &[]);
    assert_eq!(victim.target.pending_bytes(), Bytes(8192), "data of a parked write is not requested yet");
    let data = victim.peer.pdu(H2cData::new(1, ttag, 0, 4096), 0, &[0; 4096]);
    victim.send(&data).expect("the requested data");
    victim.command(command(READ, 3, 0).with_sgl(Sgl::Transport { length: 100 }), &[]);
    victim.target.reply_with_data(Cqe::success(3), vec![0; 100], 100);
    assert_eq!(victim.target.pending_bytes(), Bytes(4096 + 100));
    victim.sent();
    assert_eq!(victim.target.pending_bytes(), Bytes(4096));

    let mut world = World::new(HostOptions::default(), TargetLimits::default());
    world.write(1, 0, &[1; 64]);
    world.write(2, 0, &[1; 10_000]);
    world.read(3, 0, 500);
    assert_eq!(world.host.pending_bytes(), Bytes(64 + 10_000 + 500));
    world.host.poll_transmit(&mut Vec::new());
    assert_eq!(world.host.pending_bytes(), Bytes(64 + 10_000 + 500), "nothing is sent before the handshake");
    world.host.on_bytes(&Peer::new(PLAIN).ic_resp(4096), &mut Vec::new()).expect("a proper handshake");
    world.host.poll_transmit(&mut Vec::new());
    assert_eq!(world.host.pending_bytes(), Bytes(10_000 + 500));
}

/// Buffers that circulate: taken, moved up, moved out, returned.
struct Ring(Vec<Vec<u8>>);

impl BufferSource for Ring {
    type Buffer = Vec<u8>;

    fn take(&mut self, _length: usize, _purpose: BufferUse) -> Option<Vec<u8>> {
        self.0.pop()
    }
}

struct Gather<'a> {
    bytes: &'a mut Vec<u8>,
    ring: &'a mut Ring,
}

impl Outgoing<Vec<u8>> for Gather<'_> {
    fn header(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn payload(&mut self, buffer: Vec<u8>, range: Range<usize>) {
        self.bytes.extend_from_slice(&buffer[range]);
        self.ring.0.push(buffer);
    }

    fn room(&self) -> bool {
        true
    }
}

#[test]
fn nothing_is_allocated_per_command_once_the_queue_has_been_busy() {
    let mut target = TargetConnection::new(TargetLimits::default());
    let mut host = HostConnection::new(HostOptions { in_capsule_max: 4096, ..HostOptions::default() });
    target.set_queue(32, FlowControl::Enabled);
    let mut ring = Ring((0..64).map(|_| vec![0; 16384]).collect());
    let (mut forth, mut back) = (Vec::with_capacity(1 << 20), Vec::with_capacity(1 << 20));
    let (mut seen, mut completed) = (Vec::with_capacity(64), Vec::with_capacity(64));
    let mut round = |generation: u16| {
        for index in 0..30u16 {
            let cid = generation << 12 | index;
            let (opcode, length) = [(READ, 4096), (WRITE, 4096), (WRITE, 16384)][usize::from(index % 3)];
            let buffer = ring.0.pop().expect("enough buffers");
            let transfer = match opcode {
                READ => Transfer::FromController(buffer, length),
                _ => Transfer::ToController(buffer, length),
            };
            host.submit(command(opcode, cid, 0), transfer).expect("room");
        }
        while host.outstanding() > 0 {
            forth.clear();
            host.poll_transmit(&mut Gather { bytes: &mut forth, ring: &mut ring });
            target.on_bytes(&forth, &mut ring, &mut seen).expect("proper");
            for event in seen.drain(..) {
                let TargetEvent::Command { sqe, data } = event else { continue };
                match data {
                    Some(buffer) => {
                        ring.0.push(buffer);
                        target.reply(Cqe::success(sqe.cid()));
                    }
                    None => {
                        let buffer = ring.0.pop().expect("enough buffers");
                        target.reply_with_data(Cqe::success(sqe.cid()), buffer, sqe.sgl_length());
                    }
                }
            }
            back.clear();
            target.poll_transmit(&mut Gather { bytes: &mut back, ring: &mut ring });
            host.on_bytes(&back, &mut completed).expect("proper");
            for event in completed.drain(..) {
                if let HostEvent::Completed { data: Some(buffer), .. } = event {
                    ring.0.push(buffer);
                }
            }
        }
    };
    (0..2).for_each(&mut round);
    let allocations = allocation_counter::measure(|| (2..16).for_each(&mut round));
    assert_eq!(allocations.count_total, 0);
}

/// Bytes after the handshake: valid PDUs, corrupt PDUs, and noise.
fn anything() -> impl Strategy<Value = Vec<u8>> {
    let peer = Peer::new(PLAIN);
    let in_capsule = |length| Sgl::InCapsule { offset: 0, length };
    let proper = prop_oneof![
        any::<u16>().prop_map(|cid| (command(READ, cid, 0).with_sgl(Sgl::Transport { length: 4096 }), 0)),
        any::<u16>().prop_map(|cid| (command(WRITE, cid, 0).with_sgl(Sgl::Transport { length: 9000 }), 0)),
        any::<u16>().prop_map(move |cid| (command(WRITE, cid, 0).with_sgl(in_capsule(100)), 100)),
        any::<[u8; 24]>().prop_map(move |noise| {
            let word = |at: usize| u32::from_le_bytes(noise[at..at + 4].try_into().expect("4 bytes"));
            let sqe = Sqe::new(noise[0]).with_flags(noise[1]).with_cid(word(2) as u16).with_nsid(word(4));
            (sqe.with_sgl(in_capsule(word(8) % 300)), word(12) as usize % 300)
        }),
    ]
    .prop_map(move |(sqe, length)| peer.pdu(CapsuleCmd::new(sqe), 0, &vec![0xcc; length]));
    let data = (0u16..4, 0u16..4, 0u32..9000, 1u32..5000, any::<bool>()).prop_map(
        move |(cid, ttag, at, n, last)| {
            let flags = if last { FLAG_LAST } else { 0 };
            peer.pdu(H2cData::new(cid, ttag, at, n), flags, &vec![0xdd; n as usize])
        },
    );
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let corrupt =
        (proper.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut bytes, at, by)| {
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            bytes
        });
    prop_oneof![6 => proper, 1 => data, 2 => corrupt, 1 => noise]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_target_survives_anything_and_stays_within_its_bounds(
        stream in proptest::collection::vec(anything(), 0..40),
        piece in 1usize..5000,
        buffers in 0usize..20,
        answers in any::<u64>(),
    ) {
        let mut victim = Victim::new(PLAIN);
        victim.source = Source { in_capsule: buffers, transfer: buffers };
        let stream = stream.concat();
        let mut rest = &stream[..];
        let mut waiting = Vec::new();
        let mut answers = (0..64).map(|bit| answers >> bit & 1 == 1).cycle();
        while !rest.is_empty() {
            let Ok(taken) = victim.send(&rest[..rest.len().min(piece)]) else { break };
            rest = &rest[taken..];
            waiting.append(&mut victim.events);
            prop_assert!(victim.target.outstanding() <= 8);
            prop_assert!(victim.target.parked() <= 8);
            prop_assert!(victim.target.transmit_pending() <= 8 + 16);
            if answers.next() == Some(true) {
                victim.sent();
            }
            if answers.next() == Some(true) {
                for event in waiting.drain(..) {
                    let TargetEvent::Command { sqe, .. } = event else { continue };
                    victim.target.reply(Cqe::success(sqe.cid()));
                }
            }
            if taken == 0 && waiting.is_empty() {
                victim.source = Source::plenty();
            }
        }
    }

    #[test]
    fn a_host_survives_anything(
        stream in proptest::collection::vec((0u8..10, any::<u8>(), any::<[u8; 16]>(), 0usize..64), 0..40),
        digests in 0usize..4,
        piece in 1usize..300,
    ) {
        let digests = ALL_DIGESTS[digests];
        let peer = Peer::new(digests);
        let mut host = HostConnection::new(HostOptions { digests, in_capsule_max: 0, ..HostOptions::default() });
        let mut bytes = peer.ic_resp(4096);
        for (pdu_type, flags, fields, length) in stream {
            let (cid, ttag) = (u16::from(fields[0] % 4), u16::from(fields[1]));
            let (offset, size) = (u32::from(fields[2] % 8), u32::from(fields[3]));
            match pdu_type {
                0..3 => bytes.extend(peer.pdu(C2hData::new(cid, offset, length as u32), flags & 12, &vec![1; length])),
                3..6 => bytes.extend(peer.pdu(R2t::new(cid, ttag, offset, size), 0, &[])),
                6..9 => bytes.extend(peer.pdu(CapsuleResp::new(Cqe::success(cid)), 0, &[])),
                _ => bytes.extend(fields),
            }
        }
        for (cid, opcode) in [READ, WRITE, FLUSH].into_iter().enumerate() {
            let transfer = match opcode {
                READ => Transfer::FromController(vec![0; 256], 256),
                WRITE => Transfer::ToController(vec![0; 256], 256),
                _ => Transfer::None,
            };
            host.submit(command(opcode, cid as u16, 0), transfer).expect("room");
        }
        let mut events = Vec::new();
        let mut wire = Vec::new();
        for piece in bytes.chunks(piece) {
            host.poll_transmit(&mut wire);
            if host.on_bytes(piece, &mut events).is_err() {
                break;
            }
            prop_assert!(host.outstanding() + events.len() <= 4);
            prop_assert!(host.transmit_pending() <= 8);
        }
    }
}
