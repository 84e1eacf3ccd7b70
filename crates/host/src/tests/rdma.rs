//! Tests a session by RDMA, with a target that reaches its memory in the same process.

use super::session::exercise;
use super::target::TestTarget;
use super::world::{Report, World, options};
use crate::connection::Done;
use crate::fault::Fault;
use crate::request::{IoError, Operation};
use crate::{ControllerOptions, Keys, TransportType};
use nvme::rdma::RdmaHostFatal;
use nvme::spec::{Cqe, Status};
use std::sync::atomic::Ordering;
use units::Nanos;

const WRITE: Operation = Operation::Write { durable: false };

fn by_rdma() -> ControllerOptions {
    ControllerOptions { transport: TransportType::Rdma, ..options() }
}

fn target() -> TestTarget {
    TestTarget::new(|_| {})
}

fn message(cqe: Cqe) -> [u8; 64] {
    let mut message = [0; 64];
    message[..Cqe::SIZE].copy_from_slice(&cqe.to_bytes());
    message
}

#[test]
fn every_operation_works_by_rdma() {
    let mut world = World::ready(target(), ControllerOptions { io_queues: 2, ..by_rdma() });
    for blocks in [8, 16, 17, 100, 2048] {
        exercise(&mut world, blocks);
    }
}

#[test]
fn a_buffer_is_handed_back_when_its_queue_pair_is_gone() {
    let mut target = target();
    (target.credit, target.holds) = (8, true);
    let mut world = World::ready(target, ControllerOptions { io_queues: 2, ..by_rdma() });
    (0..20).for_each(|tag| world.submit(tag, WRITE, tag, 1, tag as u8 + 1));
    // The world checks it with every IO that ends, or is sent again.
    world.target.crash(world.now);
    world.pump();
    assert!(matches!(world.reports.last(), Some(Report::Down(Fault::Closed))), "{:?}", world.reports);
    world.target.holds = false;
    world.pass(Nanos::secs(2));
    assert_eq!(world.tags_once(), (0..20).collect::<Vec<_>>());
    assert!(world.ended.iter().all(|completion| completion.result.is_ok()));

    world.target.holds = true;
    (20..24).for_each(|tag| world.submit(tag, Operation::Read, tag, 1, 0));
    world.session.close(world.now);
    world.pump();
    assert!(matches!(world.reports.last(), Some(Report::Closed)), "{:?}", world.reports);
    assert_eq!(world.tags_once().len(), 24);
}

#[test]
fn messages_that_are_no_answers_lead_to_a_new_connection() {
    let stray = message(Cqe::new(0x7777, Status::SUCCESS));
    let answers = [Done::Answer(stray, 16), Done::Answer([0; 64], 17), Done::Answer([0; 64], 0)];
    for (answer, expected) in answers.into_iter().zip([
        RdmaHostFatal::Unknown(0x7777),
        RdmaHostFatal::Length(17),
        RdmaHostFatal::Length(0),
    ]) {
        let mut world = World::ready(target(), by_rdma());
        world.session.on_done(world.now, 1, &[answer]);
        world.pump();
        let Some(Report::Down(Fault::Messages(fatal))) = world.reports.last() else {
            panic!("{:?}", world.reports)
        };
        assert_eq!(*fatal, expected);
        world.pass(Nanos::secs(1));
        assert_eq!(world.complete(Operation::Read, 0, 8, 0).result, Ok(()));
    }
}

#[test]
fn memory_that_cannot_be_lent_ends_the_controller_with_every_buffer() {
    let mut world = World::ready(target(), by_rdma());
    world.lender.refuses.store(true, Ordering::Relaxed);
    world.submit(1, WRITE, 0, 1, 1);
    let Some(Report::GaveUp(error)) = world.reports.last() else { panic!("{:?}", world.reports) };
    assert!(matches!(error.fault, Fault::Device(_)), "{error}");
    let completion = world.ended.pop().expect("the IO has ended");
    assert_eq!(completion.result, Err(IoError::ControllerGone));
    assert!(completion.buffer.is_some(), "with its buffer");
}

#[test]
fn digests_and_tls_are_refused_by_rdma() {
    for options in [
        ControllerOptions { header_digest: true, ..by_rdma() },
        ControllerOptions { data_digest: true, ..by_rdma() },
        ControllerOptions { keys: Keys { concat: true, ..Keys::default() }, ..by_rdma() },
    ] {
        let world = World::new(target(), options);
        let [Report::GaveUp(error)] = &world.reports[..] else { panic!("{:?}", world.reports) };
        assert!(error.to_string().contains("cannot be had by RDMA"), "{error}");
    }
}
