//! Tests a session, on a clock that moves only when the test moves it.

use super::target::{BLOCK, BLOCKS, NQN, TestTarget};
use super::world::{Report, World, options};
use crate::fault::Fault;
use crate::request::{IoError, Operation, Refusal, Request};
use crate::view::BusyView;
use crate::{ConnectRefusal, ControllerOptions, HostError, Nqn, RetryPolicy};
use nvme::host::Purpose;
use nvme::spec::{Busy, Status};
use nvme::subsystem::{HostAccess, NamespaceInfo};
use nvme::tcp::TargetLimits;
use units::{Lba, Nanos, Slowdown};

const WRITE: Operation = Operation::Write { durable: false };

fn target() -> TestTarget {
    TestTarget::new(|_| {})
}

/// Writes, reads and compares through every operation.
pub(super) fn exercise(world: &mut World, blocks: u32) {
    let lba = 64;
    assert_eq!(world.complete(WRITE, lba, blocks, 0xab).result, Ok(()));
    let read = world.complete(Operation::Read, lba, blocks, 0);
    assert_eq!(read.result, Ok(()));
    assert!(read.buffer.expect("a read returns its buffer").iter().all(|&byte| byte == 0xab));
    assert_eq!(world.complete(Operation::Compare, lba, blocks, 0xab).result, Ok(()));
    let differing = world.complete(Operation::Compare, lba, blocks, 0xac);
    assert_eq!(differing.result, Err(IoError::Status(Status::COMPARE_FAILURE)));
    assert!(differing.buffer.is_some(), "a failed IO returns its buffer too");
    assert_eq!(world.complete(Operation::Verify, lba, blocks, 0).result, Ok(()));
    assert_eq!(world.complete(Operation::WriteZeroes { deallocate: true }, lba, 1, 0).result, Ok(()));
    assert_eq!(world.complete(Operation::Deallocate, lba + 1, 1, 0).result, Ok(()));
    assert_eq!(world.complete(Operation::Flush, 0, 0, 0).result, Ok(()));
    let start = lba as usize * BLOCK;
    let disk = &world.target.disk[start..start + blocks as usize * BLOCK];
    assert!(
        disk[..2 * BLOCK].iter().all(|&byte| byte == 0) && disk[2 * BLOCK..].iter().all(|&byte| byte == 0xab)
    );
    assert!(world.target.disk[start - 1] == 0 && world.target.disk[start + blocks as usize * BLOCK] == 0);
}

#[test]
fn every_operation_works_in_capsule_and_by_r2t_with_and_without_digests() {
    for (header_digest, data_digest) in [(false, false), (true, false), (false, true), (true, true)] {
        // The target accepts 8 KiB in a capsule and 16 KiB in one H2CData.
        let mut target = target();
        target.limits = TargetLimits { maxh2cdata: 16 << 10, ..target.limits };
        let mut world = World::ready(target, ControllerOptions { header_digest, data_digest, ..options() });
        for blocks in [8, 16, 17, 100, 2048] {
            exercise(&mut world, blocks);
        }
    }
}

#[test]
fn a_target_without_capsule_room_gets_its_data_by_r2t() {
    let target = TestTarget::new(|config| config.limits.in_capsule_max = 0);
    exercise(&mut World::ready(target, options()), 8);
}

#[test]
fn requests_that_cannot_work_are_refused_with_the_reason() {
    let mut world = World::ready(target(), options());
    let refusal = |world: &mut World, request: Request| {
        world.session.submit(world.now, request).expect_err("the request is wrong").why
    };
    let read = |lba, blocks| Request::new(0, 1, Operation::Read, Lba(lba), blocks);
    assert_eq!(refusal(&mut world, read(0, 1)), Refusal::BufferLength { needed: BLOCK });
    assert_eq!(refusal(&mut world, read(BLOCKS, 1)), Refusal::OutOfRange);
    assert_eq!(refusal(&mut world, read(0, 0)), Refusal::OutOfRange);
    assert_eq!(refusal(&mut world, read(0, 2049)), Refusal::TooLarge { blocks_max: 2048 });
    assert_eq!(refusal(&mut world, Request { nsid: 2, ..read(0, 1) }), Refusal::NoSuchNamespace);
    let fixed = Request { queue: Some(9), ..world.request(0, Operation::Read, 0, 1, 0) };
    assert_eq!(refusal(&mut world, fixed), Refusal::NoSuchQueue);
    let target = TestTarget::new(|config| config.commands.compare = false);
    let mut world = World::ready(target, options());
    let compare = world.request(0, Operation::Compare, 0, 1, 0);
    assert_eq!(refusal(&mut world, compare), Refusal::Unsupported);
}

#[test]
fn no_more_ios_are_outstanding_than_the_credit_and_the_rest_keeps_its_order() {
    let mut target = target();
    (target.credit, target.holds) = (4, true);
    let mut world = World::ready(target, options());
    (0..20).for_each(|tag| world.submit(tag, Operation::Read, tag, 1, 0));
    assert_eq!((world.target.held(), world.session.view().waiting), (4, 16));
    // Shrinks to 2: nothing new is sent until the excess has drained.
    world.target.credit = 2;
    world.target.release(2);
    world.pump();
    assert_eq!(world.target.held(), 2);
    world.target.release(1);
    world.pump();
    assert_eq!((world.target.held(), world.session.view().credit), (2, Some(2)));
    // Grows: waiting IOs are sent at once.
    world.target.credit = 10;
    world.target.release(1);
    world.pump();
    assert_eq!((world.target.held(), world.target.held_max), (10, 10));
    while world.target.held() > 0 {
        world.target.release(3);
        world.pump();
    }
    let order: Vec<u64> = world.ended.iter().map(|completion| completion.tag).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_busy_period_is_shown_until_the_switch_says_that_it_is_over() {
    let mut world = World::ready(target(), options());
    let mut tell = |busy: u32| {
        world.target.busy = busy;
        world.submit(1, Operation::Read, 0, 1, 0);
        (world.session.view().busy, world.now)
    };
    assert_eq!(tell(0).0, None);
    let (reads, writes) = (Slowdown::quarters(6), Slowdown::quarters(10));
    let (busy, now) = tell(Busy { reads, writes, rest: Some(Nanos::millis(70)) }.to_dword());
    assert_eq!(busy, Some(BusyView { reads, writes, until: now + Nanos::millis(70) }));
    let (busy, now) = tell(Busy { reads, writes, rest: None }.to_dword());
    assert_eq!(busy.map(|busy| busy.until), Some(now + BusyView::UNKNOWN));
    let (busy, now) = tell(u32::MAX);
    assert_eq!(busy.map(|busy| busy.until), Some(now + BusyView::LONGEST), "whatever a target says");
    assert_eq!(tell(0).0, None);
}

#[test]
fn without_credits_the_queue_is_the_limit() {
    let mut target = target();
    (target.credit, target.holds) = (1, true);
    let mut world =
        World::ready(target, ControllerOptions { credits: false, queue_depth: 8, io_queues: 2, ..options() });
    (0..20).for_each(|tag| world.submit(tag, Operation::Read, tag, 1, 0));
    assert_eq!((world.target.held(), world.session.view().credit), (16, None));
}

#[test]
fn a_full_line_refuses_an_io() {
    let mut target = target();
    (target.credit, target.holds) = (1, true);
    let mut world = World::ready(target, ControllerOptions { waiting_max: 2, ..options() });
    (0..3).for_each(|tag| world.submit(tag, Operation::Read, 0, 1, 0));
    let request = world.request(3, Operation::Read, 0, 1, 0);
    let refused = world.session.submit(world.now, request).expect_err("the queue is full");
    assert_eq!((refused.why, refused.request.tag), (Refusal::Busy, 3));
    world.target.release(1);
    world.pump();
    assert!(world.session.submit(world.now, refused.request).is_ok());
}

#[test]
fn ios_survive_a_crash_of_the_target_and_end_once() {
    let mut target = target();
    (target.credit, target.holds) = (8, true);
    let mut world = World::ready(target, ControllerOptions { io_queues: 3, ..options() });
    (0..40).for_each(|tag| world.submit(tag, WRITE, tag, 1, tag as u8 + 1));
    world.target.release(3);
    world.pump();
    assert_eq!(world.ended.len(), 3);
    world.is_down = true;
    world.target.crash(world.now);
    world.pump();
    assert!(matches!(world.reports.last(), Some(Report::Down(Fault::Closed))));
    world.submit(40, Operation::Read, 39, 1, 0);
    world.pass(Nanos::millis(300));
    assert!(matches!(world.reports.last(), Some(Report::Down(Fault::Unreachable(_)))), "{:?}", world.reports);
    assert_eq!(world.ended.len(), 3, "IOs wait for the next connection");
    world.is_down = false;
    world.target.holds = false;
    world.pass(Nanos::secs(2));
    assert!(matches!(world.reports.last(), Some(Report::Ready { first: false })), "{:?}", world.reports);
    assert_eq!(world.tags_once(), (0..=40).collect::<Vec<_>>());
    assert!(world.ended.iter().all(|completion| completion.result.is_ok()));
    let last = world.ended.last().and_then(|completion| completion.buffer.as_deref());
    assert_eq!(last.map(|bytes| bytes[0]), Some(40), "the read was submitted after the write and sees it");
}

#[test]
fn without_retries_outstanding_ios_fail_and_waiting_ios_continue() {
    let mut target = target();
    (target.credit, target.holds) = (2, true);
    let mut world = World::ready(target, ControllerOptions { retry: RetryPolicy::Never, ..options() });
    (0..4).for_each(|tag| world.submit(tag, WRITE, tag, 1, 1));
    world.target.crash(world.now);
    world.target.holds = false;
    world.pump();
    let failed =
        |world: &World| world.ended.iter().filter(|end| end.result == Err(IoError::ConnectionLost)).count();
    assert_eq!((world.ended.len(), failed(&world)), (2, 2));
    assert!(world.ended.iter().all(|completion| completion.buffer.is_some()));
    world.pass(Nanos::secs(1));
    assert_eq!((world.tags_once(), failed(&world)), (vec![0, 1, 2, 3], 2));
}

#[test]
fn an_io_that_loses_its_connection_too_often_fails() {
    let mut target = target();
    target.holds = true;
    let mut world =
        World::ready(target, ControllerOptions { retry: RetryPolicy::Again { times: 2 }, ..options() });
    world.submit(7, Operation::Read, 0, 1, 0);
    for losses in 1..=3 {
        assert!(world.ended.is_empty(), "ended after {} losses", losses - 1);
        world.target.crash(world.now);
        world.pump();
        world.pass(Nanos::secs(1));
    }
    assert_eq!(world.ended.pop().expect("the IO has ended").result, Err(IoError::ConnectionLost));
}

#[test]
fn a_silent_target_is_dropped_after_the_timeout() {
    let keep_alive_off = ControllerOptions { keep_alive: Nanos::ZERO, ..options() };
    let mut world = World::ready(target(), keep_alive_off);
    world.target.is_silent = true;
    world.submit(1, Operation::Read, 0, 1, 0);
    world.pass(Nanos::secs(29));
    assert_eq!(world.reports.len(), 1, "{:?}", world.reports);
    world.pass(Nanos::secs(1));
    assert!(matches!(world.reports[1], Report::Down(Fault::Silent(_, "read"))), "{:?}", world.reports);
    world.target.is_silent = false;
    world.pass(Nanos::secs(10));
    assert_eq!(world.ended.pop().expect("the IO went out again").result, Ok(()));
}

#[test]
fn a_silent_target_is_noticed_by_keep_alive_without_any_io() {
    let mut world = World::ready(target(), options());
    world.pass(Nanos::secs(60));
    assert_eq!(world.reports.len(), 1, "keep-alives keep an idle controller: {:?}", world.reports);
    world.target.is_silent = true;
    world.pass(Nanos::secs(8));
    assert!(
        matches!(
            world.reports[1],
            Report::Down(Fault::Silent(_, "Keep Alive") | Fault::Controller(HostError::KeepAliveTimeout(_)))
        ),
        "{:?}",
        world.reports
    );
}

#[test]
fn a_target_that_does_not_come_back_is_given_up_and_every_io_ends() {
    let mut target = target();
    (target.credit, target.holds) = (2, true);
    let mut world = World::ready(target, options());
    (0..6).for_each(|tag| world.submit(tag, Operation::Read, 0, 1, 0));
    world.is_down = true;
    world.target.crash(world.now);
    world.pump();
    world.pass(Nanos::secs(60));
    let Some(Report::GaveUp(error)) = world.reports.last() else { panic!("{:?}", world.reports) };
    assert_eq!(error.tries, 5);
    assert!(
        error.to_string().contains("given up after 5 tries: cannot connect: connection refused"),
        "{error}"
    );
    assert_eq!(world.tags_once(), [0, 1, 2, 3, 4, 5]);
    assert!(world.ended.iter().all(|completion| completion.result == Err(IoError::ControllerGone)));
    let request = world.request(9, Operation::Read, 0, 1, 0);
    assert_eq!(
        world.session.submit(world.now, request).expect_err("the controller is gone").why,
        Refusal::Gone
    );
}

#[test]
fn a_target_that_accepts_and_never_answers_times_out() {
    let mut target = target();
    target.is_silent = true;
    let mut world = World::new(target, options());
    world.pass(Nanos::secs(3));
    assert!(
        matches!(world.reports[0], Report::Down(Fault::NotReady(_, "bringing the controller up"))),
        "{:?}",
        world.reports
    );
}

#[test]
fn an_unknown_subsystem_is_given_up_at_once() {
    let subsystem = Nqn::new("nqn.test:nowhere").expect("a name");
    let world = World::new(target(), ControllerOptions { subsystem, ..options() });
    let [Report::GaveUp(error)] = &world.reports[..] else { panic!("{:?}", world.reports) };
    assert!(matches!(error.fault, Fault::Refused(ConnectRefusal::UnknownSubsystem)));
    assert!(error.to_string().starts_with("nqn.test:nowhere at 127.0.0.1:4420"), "{error}");
}

#[test]
fn a_host_without_access_gets_the_reason() {
    let friend = Nqn::new("nqn.test:friend").expect("a name");
    let world =
        World::new(TestTarget::new(|config| config.hosts = HostAccess::Only(vec![friend])), options());
    let [Report::GaveUp(error)] = &world.reports[..] else { panic!("{:?}", world.reports) };
    assert!(matches!(error.fault, Fault::Refused(ConnectRefusal::HostNotAllowed)), "{error}");
}

#[test]
fn discovery_lists_the_subsystem() {
    let world = World::of(
        target(),
        ControllerOptions { subsystem: Nqn::discovery(), ..options() },
        Purpose::Discovery,
    );
    let [Report::Discovered(found), Report::Closed] = &world.reports[..] else {
        panic!("{:?}", world.reports)
    };
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!(
        (found.subsystem.as_str(), found.address.as_str(), found.port),
        (NQN, "127.0.0.1", Some(4420))
    );
    assert_eq!(
        world.target.keep_alive_timeout,
        Some(0),
        "Linux's discovery controllers do not support keep-alive"
    );
}

#[test]
fn added_resized_and_removed_namespaces_are_noticed() {
    let mut world = World::ready(target(), options());
    let sizes = |world: &World| -> Vec<(u32, u64)> {
        world.session.namespaces().iter().map(|namespace| (namespace.nsid, namespace.blocks)).collect()
    };
    assert_eq!(sizes(&world), [(1, BLOCKS)]);
    let info = NamespaceInfo::new(nvme::subsystem::BlockSize::B4096, 10);
    world.target.subsystem().add_namespace(2, info).expect("there is room");
    world.pump();
    assert_eq!(sizes(&world), [(1, BLOCKS), (2, 10)]);
    world.target.subsystem().resize_namespace(2, 20).expect("it may grow");
    world.target.subsystem().remove_namespace(1).expect("it exists");
    world.pump();
    assert_eq!(sizes(&world), [(2, 20)]);
    assert!(
        world.reports[1..].iter().all(|report| matches!(report, Report::NamespacesChanged)),
        "{:?}",
        world.reports
    );
}

#[test]
fn an_io_fails_if_its_namespace_is_a_different_one_after_the_reconnect() {
    let mut first = target();
    (first.credit, first.holds) = (1, true);
    let mut world = World::ready(first, options());
    world.submit(0, WRITE, 0, 1, 1);
    world.submit(1, WRITE, 1, 1, 1);
    world.target.crash(world.now);
    world.target = TestTarget::new(|config| {
        let other = NamespaceInfo { uuid: Some([9; 16]), ..config.namespaces[&1].clone() };
        config.namespaces.insert(1, other);
    });
    world.pump();
    world.pass(Nanos::secs(1));
    assert_eq!(world.tags_once(), [0, 1]);
    assert!(world.ended.iter().all(|completion| completion.result == Err(IoError::NamespaceChanged)));
    assert!(world.target.disk.iter().all(|&byte| byte == 0), "nothing was written to the other namespace");
}

#[test]
fn corrupt_data_fails_the_io_and_not_the_connection() {
    let mut world = World::ready(target(), ControllerOptions { data_digest: true, ..options() });
    world.target.corrupts_next = true;
    let read = world.complete(Operation::Read, 0, 8, 0);
    assert_eq!(read.result, Err(IoError::Status(Status::TRANSIENT_TRANSPORT_ERROR)));
    assert_eq!(world.complete(Operation::Read, 0, 8, 0).result, Ok(()));
    assert_eq!(world.reports.len(), 1);
}

#[test]
fn invalid_bytes_lead_to_a_new_connection() {
    let mut world = World::ready(target(), options());
    world.session.on_bytes(world.now, 1, &[0xff; 64]);
    world.pump();
    assert!(matches!(world.reports[1], Report::Down(Fault::Protocol(_))), "{:?}", world.reports);
    world.pass(Nanos::secs(1));
    assert_eq!(world.complete(Operation::Read, 0, 8, 0).result, Ok(()));
}

#[test]
fn closing_ends_every_io_and_shuts_the_controller_down() {
    let mut target = target();
    (target.credit, target.holds) = (2, true);
    let mut world = World::ready(target, options());
    (0..5).for_each(|tag| world.submit(tag, Operation::Read, 0, 1, 0));
    world.session.close(world.now);
    world.pump();
    assert!(matches!(world.reports.last(), Some(Report::Closed)), "{:?}", world.reports);
    assert_eq!(world.tags_once(), [0, 1, 2, 3, 4]);
    assert!(world.ended.iter().all(|completion| completion.result == Err(IoError::ControllerGone)));
    assert_eq!(world.target.subsystem().controllers().count(), 0);
}

#[test]
fn closing_a_controller_that_is_down_or_silent_ends_too() {
    let mut world = World::ready(target(), options());
    world.target.is_silent = true;
    world.session.close(world.now);
    world.pump();
    world.pass(Nanos::secs(1));
    assert!(matches!(world.reports.last(), Some(Report::Closed)), "{:?}", world.reports);

    let mut world = World::ready(target(), options());
    world.is_down = true;
    world.target.crash(world.now);
    world.pump();
    world.session.close(world.now);
    world.pump();
    assert!(matches!(world.reports.last(), Some(Report::Closed)), "{:?}", world.reports);
}
