//! Runs the two ends against each other: everything that one writes, the other reads, however the bytes are
//! cut.

use super::world::{ALL_DIGESTS, FLUSH, World, command, pattern, whole};
use nvme::spec::Status;
use nvme::tcp::pdu::Digests;
use nvme::tcp::{HostOptions, TargetLimits, Transfer};
use proptest::prelude::*;

/// Limits that make small transfers take every path.
fn small_limits() -> TargetLimits {
    TargetLimits { in_capsule_max: 8192, maxh2cdata: 4096, ..TargetLimits::default() }
}

fn options(digests: Digests) -> HostOptions {
    HostOptions { digests, in_capsule_max: 512, ..HostOptions::default() }
}

/// A handshake, an in-capsule write, a solicited write in two pieces, a read of both, and a command without
/// data.
fn session(digests: Digests, success_without_response: bool, cut: &mut dyn FnMut(usize) -> usize) -> World {
    let mut world = World::new(options(digests), small_limits());
    world.target.set_success_without_response(success_without_response);
    world.write(0x1001, 0, &pattern(1, 300));
    world.write(0x2002, 4096, &pattern(2, 5000));
    world.run(cut);
    world.read(0x3003, 0, 300);
    world.read(0x4004, 4096, 5000);
    world.host.submit(command(FLUSH, 5, 77), Transfer::None).expect("room");
    world.run(cut);

    assert_eq!(world.initialized, Some(digests));
    assert_eq!((world.host.outstanding(), world.target.outstanding()), (0, 0));
    assert_eq!((world.host.transmit_pending(), world.target.transmit_pending()), (0, 0));
    assert!(world.completed.iter().all(|(cqe, ..)| cqe.status().is_success()));
    let find = |cid| world.completed.iter().find(|(cqe, ..)| cqe.cid() == cid).expect("completed");
    assert_eq!(find(0x3003).1.as_deref(), Some(&pattern(1, 300)[..]));
    assert_eq!(find(0x4004).1.as_deref(), Some(&pattern(2, 5000)[..]));
    assert_eq!((find(0x3003).2, find(0x4004).2, find(0x1001).2), (300, 5000, 0));
    assert_eq!(find(5).0.dw0(), 77);
    assert_eq!(world.completed.len(), 5);
    world
}

#[test]
fn what_is_written_is_read_back_with_every_digest_and_either_kind_of_success() {
    for digests in ALL_DIGESTS {
        let with = session(digests, true, &mut whole).sent_to_host.len();
        let without = session(digests, false, &mut whole).sent_to_host.len();
        let response = if digests.header { 28 } else { 24 };
        assert_eq!(without - with, 2 * response, "each SUCCESS flag saves a response capsule");
    }
}

#[test]
fn byte_by_byte_makes_no_difference() {
    for digests in ALL_DIGESTS {
        let joined = session(digests, true, &mut whole);
        let single = session(digests, true, &mut |_| 1);
        assert_eq!(single.memory, joined.memory);
    }
}

#[test]
fn every_cut_in_two_makes_no_difference() {
    let digests = Digests { header: true, data: true };
    let longest = session(digests, true, &mut whole).sent_to_host.len();
    for at in 1..longest {
        // Each delivery is cut at the same place; the rest follows whole.
        let mut front = true;
        session(digests, true, &mut |length| {
            front = !front || length <= at;
            if front { length } else { at }
        });
    }
}

#[test]
fn writes_and_reads_of_every_awkward_size_arrive() {
    for digests in [ALL_DIGESTS[0], ALL_DIGESTS[3]] {
        for length in [1, 3, 4, 20, 511, 512, 513, 4095, 4096, 4097, 8192, 12288, 65536, 131_073] {
            let mut world = World::new(options(digests), small_limits());
            world.write(1, 8, &pattern(length, length));
            world.run(&mut whole);
            world.read(2, 8, length);
            world.run(&mut whole);
            let (cqe, data, received) = &world.completed[1];
            assert_eq!((cqe.status(), *received), (Status::SUCCESS, length));
            assert_eq!(data.as_deref(), Some(&pattern(length, length)[..]), "{length} bytes, {digests:?}");
        }
    }
}

#[test]
fn each_end_aligns_data_as_the_other_asked() {
    for (hpda, cpda) in [(0, 31), (31, 0), (7, 15), (31, 31)] {
        for digests in [ALL_DIGESTS[0], ALL_DIGESTS[3]] {
            let options = HostOptions { hpda, ..options(digests) };
            let mut world = World::new(options, TargetLimits { cpda, ..small_limits() });
            world.write(1, 0, &pattern(3, 100));
            world.write(2, 4096, &pattern(4, 9000));
            world.run(&mut |length| length.min(97));
            world.read(3, 4096, 9000);
            world.run(&mut |length| length.min(97));
            assert_eq!(world.memory[..100], pattern(3, 100));
            assert_eq!(world.completed[2].1.as_deref(), Some(&pattern(4, 9000)[..]));
        }
    }
}

#[test]
fn a_digest_the_host_does_not_ask_for_is_not_used() {
    let world = session(Digests { header: true, data: false }, true, &mut whole);
    assert_eq!(world.initialized, Some(Digests { header: true, data: false }));
}

#[test]
fn commands_submitted_before_the_handshake_leave_after_it() {
    let mut world = World::new(options(Digests::default()), small_limits());
    world.read(1, 0, 16);
    world.run(&mut whole);
    assert_eq!(world.sent_to_target[0], 0, "ICReq first");
    assert_eq!(world.sent_to_target[128], 4, "then the command");
    assert_eq!(world.completed.len(), 1);
}

proptest! {
    #[test]
    fn any_fragmentation_of_any_mix_completes_every_command(
        sizes in proptest::collection::vec((any::<bool>(), 1u32..20_000), 1..31),
        cuts in proptest::collection::vec(1usize..3000, 1..40),
        places in proptest::collection::vec(any::<bool>(), 1..40),
        digests in 0usize..4,
    ) {
        let mut world = World::new(options(ALL_DIGESTS[digests]), small_limits());
        let mut places = places.into_iter().cycle();
        world.places = Box::new(move || places.next().expect("cycles forever"));
        let mut cuts = cuts.into_iter().cycle();
        let mut cut = move |length: usize| length.min(cuts.next().expect("cycles forever"));
        for (index, (write, length)) in sizes.iter().enumerate() {
            let (cid, at) = ((index as u16).wrapping_mul(0x1001), index as u32 * 20_000);
            if *write {
                world.write(cid, at, &pattern(at, *length));
            } else {
                world.read(cid, at, *length);
            }
        }
        world.run(&mut cut);
        prop_assert_eq!(world.completed.len(), sizes.len());
        prop_assert_eq!(world.target.outstanding(), 0);
        prop_assert!(!world.target.awaits_bulk());
        for (index, (write, length)) in sizes.iter().enumerate() {
            let at = index * 20_000;
            if *write {
                prop_assert_eq!(&world.memory[at..at + *length as usize], &pattern(at as u32, *length)[..]);
            }
        }
    }
}
