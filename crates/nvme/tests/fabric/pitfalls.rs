//! One test for each mistake that a real peer has punished, or that nothing reports.

use super::world::{FLUSH, READ, WRITE, World};
use nvme::queue::FlowControl;
use nvme::rdma::{COMMAND_BYTES, RdmaFatal, RdmaLimits, RdmaTarget, RdmaWork};
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use zerocopy::IntoBytes;

const LIMITS: RdmaLimits = RdmaLimits { entries: 8, transfer_max: 1 << 20, reads_max: 2, zeroes: 64 << 10 };

fn rng() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(1)
}

fn granted(limits: RdmaLimits) -> World {
    let mut world = World::new(limits, 1000);
    world.grant();
    world
}

#[test]
fn before_connect_one_receive_is_posted_and_afterwards_as_many_as_entries() {
    let mut world = World::new(LIMITS, 1000);
    while world.post_of_target() {}
    assert_eq!(world.targets_end.receives(), 1, "the host is unknown");
    world.grant();
    while world.post_of_target() {}
    assert_eq!(world.targets_end.receives(), 8);
    world.end();
}

#[test]
fn the_receive_is_posted_before_the_answer_that_frees_its_entry() {
    let mut world = granted(LIMITS);
    world.submit(FLUSH, 1, 0, false);
    world.settle(&mut rng());
    world.answer(0, Status::SUCCESS);
    while world.post_of_target() {}
    assert_eq!(world.targets_end.receives(), 8, "all, though the answer is not on its way");
    world.settle(&mut rng());
    assert_eq!(world.completed.len(), 1);
    world.end();
}

#[test]
fn reads_beyond_the_limit_wait_and_answers_pass_them() {
    let mut world = granted(LIMITS);
    for cid in 1..=4 {
        world.submit(WRITE, cid, 16 << 10, true);
    }
    world.submit(FLUSH, 5, 0, false);
    // The network lets no read end, and fails if a third one is posted.
    let mut events = true;
    while events {
        events = world.post_of_host() | world.execute_of_host() | world.post_of_target();
        events |= world.execute_of_target() | world.tell_target().expect("no fault");
    }
    assert_eq!(world.delivered.len(), 1, "the flush");
    world.answer(0, Status::SUCCESS);
    while world.post_of_target() | world.execute_of_target() {}
    while world.tell_host().expect("no fault") {}
    assert_eq!(world.completed.len(), 1, "the host has the answer, though no read has ended");
    world.settle(&mut rng());
    assert_eq!(world.delivered.len(), 4);
    for _ in 0..4 {
        world.answer(0, Status::SUCCESS);
    }
    world.settle(&mut rng());
    assert_eq!(world.completed.len(), 5);
    world.end();
}

#[test]
fn an_identifier_is_used_again_while_its_answer_is_still_with_the_network() {
    let mut world = granted(LIMITS);
    let mut rng = rng();
    for _ in 0..20 {
        world.submit(READ, 7, 4096, true);
        while world.delivered.is_empty() {
            world.post_of_host();
            world.execute_of_host();
            world.post_of_target();
            world.execute_of_target();
            world.tell_target().expect("no fault");
            world.tell_host().expect("no fault");
        }
        world.answer(0, Status::SUCCESS);
        // The host takes the answer before the target hears that it was sent.
        while world.completed.is_empty() {
            world.post_of_target();
            world.execute_of_target();
            world.tell_host().expect("no fault");
        }
        world.completed.clear();
    }
    world.settle(&mut rng);
    world.end();
}

#[test]
fn a_failed_read_moves_no_data_and_invalidates_the_key_all_the_same() {
    let mut world = granted(LIMITS);
    world.submit(READ, 1, 4096, true);
    world.settle(&mut rng());
    world.answer(0, Status::UNRECOVERED_READ_ERROR);
    world.settle(&mut rng());
    assert_eq!(world.completed.pop_front().map(|cqe| cqe.status()), Some(Status::UNRECOVERED_READ_ERROR));
    world.end();
}

#[test]
fn an_answer_longer_than_its_buffer_ends_in_zeroes() {
    let mut world = granted(LIMITS);
    world.held_max = 100;
    world.submit(READ, 1, 1 << 20, true);
    world.settle(&mut rng());
    world.answer(0, Status::SUCCESS);
    world.settle(&mut rng());
    assert_eq!(world.completed.len(), 1, "the contents are checked as it completes");
    world.end();
}

#[test]
fn writes_without_memory_wait_and_others_pass_them() {
    let mut world = granted(LIMITS);
    // The host's own three.
    world.source.limit = 3;
    for cid in 1..=3 {
        world.submit(WRITE, cid, 512, false);
    }
    world.submit(FLUSH, 4, 0, false);
    world.settle(&mut rng());
    assert_eq!((world.delivered.len(), world.target.parked()), (1, 3), "the flush");
    world.source.limit = 4;
    while world.completed.len() < 4 {
        world.answer(0, Status::SUCCESS);
        world.resume();
        world.settle(&mut rng());
    }
    world.end();
}

/// A target, and the first command of a host.
fn first(sqe: &Sqe, length: u32) -> (World, Result<(), RdmaFatal>) {
    let mut world = World::new(LIMITS, 1000);
    world.target.set_queue(LIMITS.entries, FlowControl::Enabled);
    let mut events = Vec::new();
    assert!(matches!(world.target.poll(0, &mut events), Some(RdmaWork::Receive)), "a receive comes first");
    let mut command = [0; COMMAND_BYTES];
    command.copy_from_slice(sqe.as_bytes());
    let result = world.target.on_capsule(&command, length, &mut world.source, &mut events);
    (world, result)
}

fn answer(world: &mut World) -> Cqe {
    let mut events = Vec::new();
    loop {
        match world.target.poll(100, &mut events) {
            Some(RdmaWork::Answer { cqe, data, .. }) => {
                assert!(data.is_none());
                return cqe;
            }
            Some(RdmaWork::Receive) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn impossible_descriptors_are_refused_and_the_connection_goes_on() {
    let keyed = |length| Sgl::Keyed { address: 0, length, key: 1, invalidates: true };
    let (write, read) = (Sqe::new(WRITE), Sqe::new(READ));
    let cases = [
        (write.with_sgl(Sgl::InCapsule { offset: 0, length: 512 }), 64, Status::DATA_SGL_LENGTH_INVALID),
        (read.with_sgl(Sgl::InCapsule { offset: 0, length: 512 }), 64, Status::DATA_SGL_LENGTH_INVALID),
        (write.with_sgl(keyed((1 << 20) + 1)), 64, Status::INVALID_FIELD),
        (read.with_sgl(keyed(0xff_ffff)), 64, Status::INVALID_FIELD),
        (write.with_sgl(Sgl::Transport { length: 512 }), 64, Status::SGL_DESCRIPTOR_TYPE_INVALID),
        (write.with_sgl(Sgl::Other(0x31)), 64, Status::SGL_DESCRIPTOR_TYPE_INVALID),
        (write.with_flags(0), 64, Status::INVALID_FIELD),
    ];
    for (sqe, length, status) in cases {
        let (mut world, result) = first(&sqe, length);
        assert_eq!(result, Ok(()));
        assert_eq!(answer(&mut world).status(), status, "{:?}", sqe.sgl());
        world.end();
    }
}

#[test]
fn a_refused_command_has_its_key_invalidated() {
    let sqe =
        Sqe::new(WRITE).with_sgl(Sgl::Keyed { address: 0, length: 2 << 20, key: 77, invalidates: true });
    let (mut world, _) = first(&sqe, 64);
    let mut events = Vec::new();
    let invalidated =
        std::iter::from_fn(|| world.target.poll(100, &mut events)).find_map(|work| match work {
            RdmaWork::Answer { invalidate, .. } => Some(invalidate),
            _ => None,
        });
    assert_eq!(invalidated, Some(Some(77)));
    world.end();
}

#[test]
fn a_conflicting_command_does_not_take_the_key_of_the_one_whose_identifier_it_has() {
    let keyed = |key| Sgl::Keyed { address: 0, length: 512, key, invalidates: true };
    let (mut world, _) = first(&Sqe::new(READ).with_cid(3).with_sgl(keyed(1)), 64);
    let mut command = [0; COMMAND_BYTES];
    command.copy_from_slice(Sqe::new(READ).with_cid(3).with_sgl(keyed(2)).as_bytes());
    let mut events = Vec::new();
    assert!(matches!(world.target.poll(0, &mut events), Some(RdmaWork::Receive)));
    world.target.on_capsule(&command, 64, &mut world.source, &mut events).expect("no fault");
    world.target.reply(Cqe::success(3));
    let mut keys = Vec::new();
    while let Some(work) = world.target.poll(100, &mut events) {
        if let RdmaWork::Answer { invalidate, cqe, .. } = work {
            keys.push((cqe.status(), invalidate));
        }
    }
    assert_eq!(keys, [(Status::COMMAND_ID_CONFLICT, Some(2)), (Status::SUCCESS, Some(1))]);
    world.end();
}

#[test]
fn a_message_shorter_than_a_command_ends_the_connection() {
    let (mut world, result) = first(&Sqe::new(FLUSH), 63);
    assert_eq!(result, Err(RdmaFatal::Length(63)));
    assert!(world.target.poll(100, &mut Vec::new()).is_none(), "nothing more is posted");
    world.end();
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let mut world = World::new(LIMITS, 1000);
    world.target.set_queue(2, FlowControl::Enabled);
    let mut events = Vec::new();
    let results: Vec<_> = (1..=3)
        .map(|cid| {
            assert!(matches!(world.target.poll(0, &mut events), Some(RdmaWork::Receive)));
            let mut command = [0; COMMAND_BYTES];
            command.copy_from_slice(
                Sqe::new(FLUSH)
                    .with_cid(cid)
                    .with_sgl(Sgl::Keyed { address: 0, length: 0, key: 0, invalidates: false })
                    .as_bytes(),
            );
            world.target.on_capsule(&command, 64, &mut world.source, &mut events)
        })
        .collect();
    assert_eq!(results, [Ok(()), Ok(()), Err(RdmaFatal::TooManyCommands)]);
    world.end();
}

#[test]
fn the_longest_row_of_zeroes_fits_into_the_send_queue() {
    for entries in [2, 32] {
        let limits = RdmaLimits { entries, transfer_max: 4 << 20, ..LIMITS };
        let most = RdmaTarget::<Vec<u8>>::cost(0, limits.transfer_max, limits.zeroes);
        assert!(most <= RdmaTarget::<Vec<u8>>::sends(&limits) as usize);
    }
}

/// The work requests that one command takes, by kind: receives, reads, writes to the host, sends.
fn work_of(opcode: u8) -> [usize; 4] {
    let mut world = granted(LIMITS);
    while world.post_of_target() {}
    world.submit(opcode, 1, if opcode == FLUSH { 0 } else { 4096 }, true);
    let mut kinds = [0; 4];
    let mut events = Vec::new();
    world.settle_host();
    loop {
        world.tell_target().expect("no fault");
        match world.target.poll(100, &mut events) {
            Some(RdmaWork::Receive) => kinds[0] += 1,
            Some(RdmaWork::Read { tag, buffer, .. }) => {
                kinds[1] += 1;
                world.target.on_read(tag, buffer, &mut events);
                world.target.reply(Cqe::success(1));
            }
            Some(RdmaWork::Answer { data, .. }) => {
                kinds[2] += usize::from(data.is_some());
                kinds[3] += 1;
                return kinds;
            }
            None => world.answer(0, Status::SUCCESS),
        }
    }
}

#[test]
fn a_command_takes_one_receive_and_as_few_work_requests_as_there_can_be() {
    assert_eq!(work_of(READ), [1, 0, 1, 1]);
    assert_eq!(work_of(WRITE), [1, 1, 0, 1]);
    assert_eq!(work_of(FLUSH), [1, 0, 0, 1]);
}
