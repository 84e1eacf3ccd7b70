//! Withdrawals and fences in a pipeline without sockets: their results, and their cost.
//!
//! Nothing is submitted here, so all that begins stays queued.

use super::admission::Admission;
use super::fence::Waiting;
use super::message::{Announcement, RemoteIo};
use super::sessions::Session;
use super::*;
use crate::config::{Config, DEFAULT_LISTEN, DeviceKind};
use crate::device::{Device, DeviceClock, DeviceDone, DeviceIo, NullDevice};
use crate::mailbox::Mailbox;
use crate::payload::Payload;
use crate::proof::{Computing, KeyRing, Refusals};
use crate::quota::Charged;
use crate::slab::steps;
use crate::stats::TenantDetail;
use crate::switch::{ByteRange, IoSlot, Work};
use crate::tenants::TenantName;
use nvme::spec::Cqe;
use nvme::subsystem::{IoCommand, IoOp, PriorityClass};
use reactor::Backend;
use sched::{DeviceConstants, Fifo, Gimbal, GimbalConfig, Policy, Priority, Share};
use std::sync::mpsc::channel;
use units::{Bytes, Lba, TenantId};

const ALICE: TenantId = TenantId(0);
const RANGE: ByteRange = ByteRange { offset: 0, length: 4096 };

fn pipeline(policy: Box<dyn Policy>) -> Pipeline {
    let reactor = Reactor::new(Backend::Epoll).expect("a reactor");
    let (mailbox, inbox) = Mailbox::new(reactor.waker());
    let device: Box<dyn Device> = Box::new(NullDevice::default());
    let (beat, pulse) = Beat::new();
    let parts = Parts {
        index: 0,
        name: "null".to_owned(),
        reactor,
        switch: Switch::new(policy, device),
        inbox,
        reports: channel().0,
        memory: Memory { arrivals: Bytes::mib(32), reads: Bytes::mib(32), replies: Bytes::mib(2) },
        limits: Limits::default(),
        keeper: None,
        lasting_name: None,
        held: None,
        load: Load::default(),
        others: Vec::new(),
        proofs: proofs(),
        mailbox,
        board: Arc::new(Board::new("null".to_owned(), DeviceClock::REAL, TenantDetail::Total, pulse)),
        beat,
    };
    let mut pipeline = Pipeline::new(parts);
    let announcement = Announcement {
        id: ALICE,
        name: TenantName::Host("alice".into()),
        share: Share::EQUAL,
        is_reused: false,
    };
    pipeline.on_tenant(Instant(1), announcement);
    pipeline
}

/// No host has a key.
fn proofs() -> Proofs {
    let config = Config::simple(DeviceKind::Null { size: Bytes::gib(1) }, DEFAULT_LISTEN);
    let keys = KeyRing::read(Instant::ZERO, &config).expect("there are no files");
    let (computing, _) = Computing::start().expect("a thread");
    Proofs { keys: keys.into(), computing, refusals: Refusals::default() }
}

/// A session without a connection.
fn session(pipeline: &mut Pipeline) -> Key {
    let (acceptor, _) = Mailbox::new(pipeline.reactor.waker());
    let peer = "127.0.0.1:1".parse().expect("an address");
    let account = pipeline.tenants.account(ALICE, "alice", peer, Bytes::mib(1));
    let admission = Admission::new(
        "alice".into(),
        Charged::Host("alice".into(), crate::quota::Origin::of(std::net::Ipv4Addr::LOCALHOST.into())),
        acceptor,
    );
    pipeline.commands.sessions.insert(Session::new(Instant::ZERO, (peer, ALICE, 0), admission, account))
}

/// An IO of `session` in namespace `nsid` is queued in the switch.
fn begin(pipeline: &mut Pipeline, session: Key, nsid: u32) -> Key {
    let priority = PriorityClass::UNSPECIFIED;
    let command = IoCommand { nsid, op: IoOp::Verify, lba: Lba(0), blocks: 1, fua: false, priority };
    let cid = pipeline.commands.sessions.moment() as u16;
    let what = (0, |_: &IoCommand| Work::Verify(RANGE));
    pipeline.commands.start(Instant(1), session, cid, (command, None), what, None);
    pipeline.commands.sessions.newest_io(session, nsid).expect("it has not ended")
}

fn policies() -> [Box<dyn Policy>; 2] {
    [Box::new(Fifo::default()), Box::new(Gimbal::new(GimbalConfig::published(DeviceConstants::DCT983)))]
}

/// Many connections, all of one tenant, end one after the other with a full queue each.
#[test]
fn what_a_host_queues_is_taken_back_at_the_same_price_however_much_it_is() {
    const QUEUE: u64 = 64;
    for index in 0..policies().len() {
        let steps_per_io = |connections: u64| {
            let [fifo, gimbal] = policies();
            let mut pipeline = pipeline(if index == 0 { fifo } else { gimbal });
            let sessions: Vec<Key> = (0..connections).map(|_| session(&mut pipeline)).collect();
            // As the connections send in turn, the IOs of each stand among those of all others.
            for _ in 0..QUEUE {
                sessions.iter().for_each(|session| _ = begin(&mut pipeline, *session, 1));
            }
            let before = steps::so_far();
            for session in &sessions {
                pipeline.commands.withdraw_session(Instant(2), *session);
            }
            assert_eq!((pipeline.commands.switch.ios.len(), pipeline.commands.sessions.len()), (0, 0));
            assert!(pipeline.commands.switch.is_empty());
            (steps::so_far() - before) / (connections * QUEUE)
        };
        let (few, many) = (steps_per_io(4), steps_per_io(512));
        assert_eq!(few, many, "looked at per IO, of 256 and of 32,768 that were queued");
    }
}

#[test]
fn a_fence_takes_the_ios_of_its_namespace_and_of_its_queues_alone() {
    let mut pipeline = pipeline(Box::new(Fifo::default()));
    let (one, other, who) = (session(&mut pipeline), session(&mut pipeline), session(&mut pipeline));
    let gone = [begin(&mut pipeline, one, 1), begin(&mut pipeline, one, 1)];
    let kept = [begin(&mut pipeline, one, 2), begin(&mut pipeline, other, 1), begin(&mut pipeline, other, 2)];
    pipeline.commands.raise_fence(Instant(2), who, 1, &[queue_of(one)], Cqe::success(7));
    assert!(gone.iter().all(|io| pipeline.commands.switch.ios.get(*io).is_none()));
    assert!(kept.iter().all(|io| pipeline.commands.switch.ios.get(*io).is_some()));
    assert_eq!(pipeline.commands.fences.len(), 0, "all that it waited for has ended");
}

/// One host preempts another again and again, of which IOs hang in this namespace, and many are queued in another.
#[test]
fn a_fence_costs_what_it_fences() {
    let cost_of = |elsewhere: u32, before: u32| {
        let mut pipeline = pipeline(Box::new(Fifo::default()));
        let (victim, who) = (session(&mut pipeline), session(&mut pipeline));
        for _ in 0..50 {
            let io = begin(&mut pipeline, victim, 1);
            hang(&mut pipeline, io);
        }
        (0..elsewhere).for_each(|_| _ = begin(&mut pipeline, victim, 2));
        let raise = |pipeline: &mut Pipeline| {
            pipeline.commands.raise_fence(Instant(2), who, 1, &[queue_of(victim)], Cqe::success(7))
        };
        (0..=before).for_each(|_| raise(&mut pipeline));
        assert_eq!(pipeline.commands.fences.len(), before as usize + 1, "they wait for what hangs");
        let start = steps::so_far();
        raise(&mut pipeline);
        steps::so_far() - start
    };
    assert_eq!(cost_of(10, 0), cost_of(10_000, 200));
}

/// Puts an IO where no withdrawal reaches it: on the way to another SSD.
fn hang(pipeline: &mut Pipeline, io: Key) {
    let Pipeline { commands, reactor, .. } = pipeline;
    assert!(commands.switch.withdraw(Instant(1), io), "it is queued");
    let (other, _) = Mailbox::new(reactor.waker());
    commands.port.set(1, Some(other));
    let slot = commands.switch.ios.get_mut(io).expect("it has begun");
    slot.set_outcome(Ok(()), None);
    slot.host_io_mut().device = 1;
    commands.port.send(io, slot);
    assert!(commands.port.post(1).is_ok(), "it goes out");
}

#[test]
fn a_fence_falls_when_the_last_io_that_came_before_it_has_ended() {
    let mut pipeline = pipeline(Box::new(Fifo::default()));
    let victim = session(&mut pipeline);
    let ios = [begin(&mut pipeline, victim, 1), begin(&mut pipeline, victim, 1)];
    ios.iter().for_each(|io| hang(&mut pipeline, *io));
    let (first, first_done) = channel();
    pipeline.commands.answer_after(Instant(2), Waiting::Owner(first), &[(victim, 1)], None);
    let late = begin(&mut pipeline, victim, 1);
    hang(&mut pipeline, late);
    let (second, second_done) = channel();
    pipeline.commands.answer_after(Instant(2), Waiting::Owner(second), &[(victim, 1)], None);
    let end = |pipeline: &mut Pipeline, io: Key| {
        let (work, credit) = (Work::Verify(RANGE), sched::Credit(1));
        let outcome = message::IoOutcome { result: Ok(()), read: None, work, credit, busy: 0 };
        pipeline.commands.on_remote_done(Instant(3), message::RemoteDone { by: 1, io, outcome });
    };
    end(&mut pipeline, ios[1]);
    assert!(first_done.try_recv().is_err() && second_done.try_recv().is_err());
    end(&mut pipeline, ios[0]);
    assert!(
        first_done.try_recv().is_ok() && second_done.try_recv().is_err(),
        "one came after the first fence"
    );
    end(&mut pipeline, late);
    assert!(second_done.try_recv().is_ok());
    assert_eq!((pipeline.commands.fences.len(), pipeline.commands.sessions.len()), (0, 0));
}

/// Two pipelines have an IO of the same name here.
#[test]
fn another_pipeline_takes_back_its_own_ios_only() {
    let Commands { port, switch, .. } = &mut pipeline(Box::new(Fifo::default())).commands;
    let io = Key::new(3, 0);
    for from in [1, 2] {
        let (tenant, priority, work) = (ALICE, Priority::default(), Work::Verify(RANGE));
        port.on_remote_io(Instant(1), RemoteIo { from, io, tenant, priority, work }, switch);
    }
    port.on_remote_withdraw(Instant(2), (2, &[io, Key::new(4, 0)]), switch);
    assert!(port.has_of_other(1, io) && !port.has_of_other(2, io));
    assert_eq!(switch.policy().backlog().queued, 1);
    // It was asked for when it had ended already.
    port.on_remote_withdraw(Instant(3), (2, &[io]), switch);
    port.on_remote_withdraw(Instant(3), (1, &[io]), switch);
    assert!(switch.is_empty() && !port.has_of_other(1, io));
}

/// The walk of one read in ARCHITECTURE.md.
#[test]
fn what_a_read_is_moved_in_is_as_small_as_the_architecture_says() {
    let sizes = [
        ("TargetEvent", size_of::<nvme::queue::TargetEvent<Payload>>()),
        ("Action", size_of::<nvme::subsystem::Action>()),
        ("IoSlot", size_of::<IoSlot<Origin>>()),
        ("Io", size_of::<sched::Io>()),
        ("DeviceIo", size_of::<DeviceIo>()),
        ("DeviceDone", size_of::<DeviceDone>()),
        ("Payload", size_of::<Payload>()),
    ];
    let expected = [112, 56, 328, 32, 48, 56, 48];
    assert_eq!(sizes.map(|(_, size)| size), expected, "{sizes:?}");
}
