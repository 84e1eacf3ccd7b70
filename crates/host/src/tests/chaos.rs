//! Random worlds by seed: random IOs, credit, crashes and silence, with checkers on.

use super::target::{BLOCK, TestTarget};
use super::world::{World, options};
use crate::request::{IoError, Operation};
use crate::{Backoff, ControllerOptions, RetryPolicy, TransportType};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Nanos;

const WORLDS: u64 = 60;
const STEPS: usize = 300;

/// Runs one world. Every IO has its own block, so the disk shows which writes were done.
fn run(seed: u64, transport: TransportType, retry: RetryPolicy) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut target = TestTarget::new(|_| {});
    target.holds = true;
    target.credit = random.random_range(1..40);
    let mut world = World::ready(
        target,
        ControllerOptions {
            transport,
            io_queues: random.random_range(1..4),
            queue_depth: random.random_range(1..20),
            io_timeout: Nanos::secs(1),
            retry,
            backoff: Backoff { tries_max: None, ..Backoff::default() },
            seed,
            ..options()
        },
    );
    let mut submitted = 0;
    for _ in 0..STEPS {
        match random.random_range(0..100) {
            0..50 => {
                let operation = match random.random_range(0..4) {
                    0 => Operation::Read,
                    1 => Operation::Flush,
                    _ => Operation::Write { durable: random.random_bool(0.5) },
                };
                let blocks = if operation == Operation::Flush { 0 } else { 1 };
                world.submit(submitted, operation, submitted, blocks, tag_byte(submitted));
                submitted += 1;
            }
            50..85 => {
                world.target.credit = random.random_range(1..40);
                world.target.release(random.random_range(1..10));
                world.pump();
            }
            85..88 => {
                world.is_down = random.random_bool(0.5);
                world.target.crash(world.now);
                world.pump();
            }
            88..90 => world.target.is_silent = !world.target.is_silent,
            _ => world.pass(Nanos::millis(random.random_range(1..400))),
        }
        world.tags_once();
        let view = world.session.view();
        assert!(
            world.ended.len() + view.waiting + view.in_flight as usize == submitted as usize,
            "seed {seed}: of {submitted} IOs {} ended, {} wait, {} are outstanding",
            world.ended.len(),
            view.waiting,
            view.in_flight
        );
    }
    world.is_down = false;
    world.target.is_silent = false;
    world.target.holds = false;
    world.target.release(usize::MAX);
    world.pump();
    // Long enough for a timeout and the longest back-off.
    world.pass(Nanos::secs(30));
    assert_eq!(world.tags_once().len() as u64, submitted, "seed {seed}: some IOs never ended");
    for completion in &world.ended {
        let block = &world.target.disk[completion.tag as usize * BLOCK..][..BLOCK];
        match (completion.operation, completion.result) {
            (Operation::Write { .. }, Ok(())) => {
                assert!(
                    block.iter().all(|&byte| byte == tag_byte(completion.tag)),
                    "seed {seed}: a write is lost"
                );
            }
            (_, Ok(())) => {}
            (_, Err(error)) => {
                assert_eq!(error, IoError::ConnectionLost, "seed {seed}");
                assert!(retry == RetryPolicy::Never, "seed {seed}: failed, although it could be sent again");
            }
        }
    }
}

fn each_world(retry: RetryPolicy) {
    for transport in [TransportType::Tcp, TransportType::Rdma] {
        (0..WORLDS).for_each(|seed| run(seed, transport, retry));
    }
}

fn tag_byte(tag: u64) -> u8 {
    tag as u8 | 1
}

#[test]
fn every_io_ends_once_and_succeeds_if_it_may_be_sent_again() {
    each_world(RetryPolicy::Again { times: u32::MAX });
}

#[test]
fn without_retries_every_io_ends_once_too() {
    each_world(RetryPolicy::Never);
}
