//! Tests for buffers that run out: some commands wait, others continue, and everything completes in the end.

use super::world::{FLUSH, READ, Source, Victim, WRITE, World, command, pattern, whole};
use nvme::queue::TargetEvent;
use nvme::spec::{Cqe, Sgl, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{CapsuleCmd, Digests, H2cData, R2t};
use nvme::tcp::{HostOptions, Pause, TargetLimits};
use zerocopy::FromBytes;

const PLAIN: Digests = Digests { header: false, data: false };

#[test]
fn a_large_write_without_a_buffer_is_parked_and_the_rest_goes_on() {
    let mut victim = Victim { source: Source { in_capsule: 0, transfer: 0 }, ..Victim::new(PLAIN) };
    for cid in [1, 2, 3] {
        victim.command(command(WRITE, cid, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    }
    victim.command(command(FLUSH, 4, 0), &[]);
    assert!(matches!(&victim.events[..], [TargetEvent::Command { sqe, .. }] if sqe.cid() == 4));
    assert_eq!((victim.target.parked(), victim.target.paused()), (3, None));
    assert!(victim.sent().is_empty(), "no data was requested");

    victim.source.transfer = 1;
    victim.target.resume(&mut victim.source);
    assert_eq!(victim.target.parked(), 2);
    let r2t = victim.sent();
    assert_eq!((r2t[0], r2t.len(), r2t[8]), (9, 24, 1), "the oldest is served first");
}

#[test]
fn a_large_write_does_not_overtake_parked_ones() {
    let mut victim = Victim { source: Source { in_capsule: 0, transfer: 0 }, ..Victim::new(PLAIN) };
    victim.command(command(WRITE, 1, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    victim.source.transfer = 1;
    victim.command(command(WRITE, 2, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    assert_eq!(victim.target.parked(), 2);
    victim.target.resume(&mut victim.source);
    assert_eq!(victim.sent()[8], 1);
}

#[test]
fn in_capsule_data_without_a_buffer_stops_the_parse_where_it_is() {
    for digests in [PLAIN, Digests { header: true, data: true }] {
        let mut victim = Victim { source: Source { in_capsule: 0, transfer: 0 }, ..Victim::new(digests) };
        let sqe = command(WRITE, 1, 0).with_sgl(Sgl::InCapsule { offset: 0, length: 512 });
        let mut bytes = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &pattern(0, 512));
        bytes.extend(victim.peer.pdu(CapsuleCmd::new(command(READ, 2, 0)), 0, &[]));
        let header = if digests.header { 76 } else { 72 };
        assert_eq!(victim.send(&bytes), Ok(header), "the header is taken, the data is not");
        assert_eq!(victim.target.paused(), Some(Pause::Buffers));
        assert_eq!(victim.send(&bytes[header..]), Ok(0));
        victim.source.in_capsule = 1;
        assert_eq!(victim.send(&bytes[header..]), Ok(bytes.len() - header));
        assert_eq!((victim.target.paused(), victim.events.len()), (None, 2));
        assert!(
            matches!(&victim.events[0], TargetEvent::Command { data: Some(data), .. } if *data == pattern(0, 512))
        );
    }
}

#[test]
fn a_peer_that_stalls_before_its_data_holds_no_buffer() {
    let mut victim = Victim { source: Source { in_capsule: 1, transfer: 0 }, ..Victim::new(PLAIN) };
    let sqe = command(WRITE, 1, 0).with_sgl(Sgl::InCapsule { offset: 0, length: 512 });
    let bytes = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &pattern(0, 512));
    assert_eq!(victim.send(&bytes[..72]), Ok(72));
    assert_eq!((victim.source.in_capsule, victim.target.paused()), (1, None));
}

#[test]
fn one_buffer_of_each_kind_is_enough_for_a_full_queue() {
    let options = HostOptions { in_capsule_max: 512, ..HostOptions::default() };
    let mut world = World::new(options, TargetLimits { maxh2cdata: 4096, ..TargetLimits::default() });
    for cid in 0..31u16 {
        let length = if cid % 2 == 0 { 500 } else { 6000 };
        world.write(cid, u32::from(cid) * 8192, &pattern(u32::from(cid), length));
    }
    world.source = Source { in_capsule: 1, transfer: 1 };
    for _ in 0..31 {
        world.run(&mut |length| length.min(333));
        world.source = Source { in_capsule: 1, transfer: 1 };
        let World { target, source, .. } = &mut world;
        target.resume(source);
    }
    world.run(&mut whole);
    assert_eq!((world.completed.len(), world.target.outstanding()), (31, 0));
    for cid in 0..31usize {
        let length = if cid % 2 == 0 { 500 } else { 6000 };
        assert_eq!(world.memory[cid * 8192..][..length], pattern(cid as u32, length as u32));
    }
}

#[test]
fn a_dropped_connection_gives_every_buffer_back() {
    let mut victim = Victim { source: Source { in_capsule: 2, transfer: 2 }, ..Victim::new(PLAIN) };
    for cid in 0..3 {
        victim.command(command(WRITE, cid, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    }
    victim.command(command(READ, 3, 0).with_sgl(Sgl::Transport { length: 4096 }), &[]);
    victim.target.reply_with_data(Cqe::success(3), vec![0; 4096], 4096);
    let sqe = command(WRITE, 4, 0).with_sgl(Sgl::InCapsule { offset: 0, length: 512 });
    let capsule = victim.peer.pdu(CapsuleCmd::new(sqe), 0, &[0; 512]);
    victim.send(&capsule[..200]).expect("part of a capsule");
    let mut lengths = Vec::new();
    victim.target.into_buffers(|buffer| lengths.push(buffer.len()));
    lengths.sort_unstable();
    assert_eq!(lengths, [512, 4096, 4096, 4096], "one in a capsule, two of requested transfers, one to send");
}

#[test]
fn data_has_a_place_only_where_it_may_be_kept() {
    for digests in [PLAIN, Digests { header: true, data: true }] {
        let mut victim = Victim::new(digests);
        assert!(victim.target.place().is_empty(), "no payload");
        let tag = victim.solicited_write(1, 6000);
        assert!(!victim.target.awaits_bulk() && victim.target.place().is_empty(), "no header yet");
        let data = pattern(3, 6000);
        let first = victim.peer.pdu(H2cData::new(1, tag, 0, 4096), 0, &data[..4096]);
        let header = first.len() - 4096 - if digests.data { 4 } else { 0 };
        assert_eq!(victim.send(&first[..header + 96]), Ok(header + 96));
        let place = victim.target.place();
        assert_eq!(place.len(), 4000, "the rest of this PDU, not of the transfer");
        place[..1000].copy_from_slice(&data[96..1096]);
        victim.target.on_placed(1000, &mut victim.events);
        victim.target.place().copy_from_slice(&data[1096..4096]);
        victim.target.on_placed(3000, &mut victim.events);
        assert!(victim.target.place().is_empty());
        assert_eq!(victim.send(&first[header + 4096..]), Ok(first.len() - header - 4096));
        let last = victim.peer.pdu(H2cData::new(1, tag, 4096, 1904), FLAG_LAST, &data[4096..]);
        victim.send(&last[..header]).expect("a header");
        victim.target.place().copy_from_slice(&data[4096..]);
        victim.target.on_placed(1904, &mut victim.events);
        victim.send(&last[header + 1904..]).expect("a digest, if any");
        assert!(matches!(&victim.events[..], [TargetEvent::Command { data: Some(all), .. }] if *all == data));

        let tag = victim.solicited_write(2, 4096);
        let refused = victim.peer.pdu(H2cData::new(2, tag, 0, 4096), FLAG_LAST, &data[..4096]);
        victim.send(&refused[..header]).expect("a header");
        assert_eq!(victim.target.place().len(), 4096);
        victim.target.cancel(2, Status::ABORT_REQUESTED);
        assert!(victim.target.place().is_empty(), "the data of a cancelled write is kept nowhere");
        victim.send(&refused[header..]).expect("the rest is discarded");
        assert_eq!(victim.response().status(), Status::ABORT_REQUESTED);
        victim.send(&[0xff; 8]).expect_err("no such PDU");
        assert!(victim.target.place().is_empty(), "nothing is received after the end");
    }
}

#[test]
fn much_data_is_awaited_from_its_request_to_its_end() {
    let mut victim = Victim { source: Source { in_capsule: 0, transfer: 0 }, ..Victim::new(PLAIN) };
    victim.command(command(WRITE, 1, 0).with_sgl(Sgl::Transport { length: 16 << 10 }), &[]);
    assert!(!victim.target.awaits_bulk(), "it is parked");
    victim.target.cancel(1, Status::ABORT_REQUESTED);
    victim.response();
    assert!(!victim.target.awaits_bulk());
    victim.command(command(WRITE, 2, 0).with_sgl(Sgl::Transport { length: 16 << 10 }), &[]);
    victim.source.transfer = 2;
    victim.target.resume(&mut victim.source);
    assert!(victim.target.awaits_bulk());
    let r2t = victim.sent();
    let tag = R2t::ref_from_prefix(&r2t).expect("an R2T").0.ttag.get();
    for piece in 0..4u32 {
        assert!(victim.target.awaits_bulk());
        let flags = if piece == 3 { FLAG_LAST } else { 0 };
        let data = victim.peer.pdu(H2cData::new(2, tag, piece * 4096, 4096), flags, &[1; 4096]);
        victim.send(&data).expect("as requested");
    }
    assert!(!victim.target.awaits_bulk());
    victim.solicited_write(3, (16 << 10) - 4);
    assert!(!victim.target.awaits_bulk(), "too little to be worth it");
}

#[test]
fn a_reply_that_ends_early_reads_as_zeroes() {
    for digests in [PLAIN, Digests { header: true, data: true }] {
        let mut world =
            World::new(HostOptions { digests, ..HostOptions::default() }, TargetLimits::default());
        world.run(&mut whole);
        world.memory[..5000].copy_from_slice(&pattern(1, 5000));
        for (cid, at, length) in [(0, 0, 5000), (1, 0, 100_000), (2, 4096, 4096), (3, 8192, 4096)] {
            world.read(cid, at, length);
        }
        world.run(&mut whole);
        for (cqe, data, received) in std::mem::take(&mut world.completed) {
            let (at, length) = [(0, 5000), (0, 100_000), (4096, 4096), (8192, 4096)][usize::from(cqe.cid())];
            assert!(cqe.status().is_success() && received == length as u32);
            assert_eq!(data.expect("it was read"), world.memory[at..at + length]);
        }
    }
}
