//! Groups of namespaces and their access states: what hosts see when an operator changes them.

mod common;

use common::*;
use nvme::spec::ana;
use nvme::spec::event::EventKind;
use nvme::spec::opcode::nvm;
use nvme::spec::{AnaState, Status};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{
    AccessState, BackendChoice, Config, DeviceConfig, DeviceKind, FaultConfig, FaultKind, FaultOp,
    FaultRelease, GroupConfig, NamespaceConfig, offered,
};
use server::{ReloadError, ServerHandle, Subject};
use std::time::Duration;
use units::Bytes;

/// Long enough for everything that ends.
const AMPLE: Duration = Duration::from_secs(60);
const ONE: &str = "nqn.2025-01.io.example:one";
const TWO: &str = "nqn.2025-01.io.example:two";
const GROUP: &str = "left";

fn group(state: AccessState) -> GroupConfig {
    GroupConfig { name: GROUP.to_owned(), id: Some(7), state }
}

fn part(nsid: u32, place: u64, group: Option<&str>) -> NamespaceConfig {
    let (offset, size) = (Bytes::mib(64 * place), Some(Bytes::mib(64)));
    NamespaceConfig { offset, size, group: group.map(str::to_owned), ..NamespaceConfig::whole(nsid, "a") }
}

/// Subsystem ONE has namespace 1 in the group and 2 outside of it, TWO has one outside of it.
fn config(backend: BackendChoice) -> Config {
    Config {
        backend,
        devices: vec![DeviceConfig::new("a", fast_ssd())],
        groups: vec![group(AccessState::Optimized)],
        subsystems: vec![
            subsystem(ONE, vec![part(1, 0, Some(GROUP)), part(2, 1, None)]),
            subsystem(TWO, vec![part(1, 2, None)]),
        ],
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

fn client(server: &ServerHandle, nqn: &str) -> Client {
    Client::with(server.addresses()[0], &Options { subsystem: nqn.to_owned(), ..Options::default() })
}

fn set(server: &mut ServerHandle, config: &mut Config, state: AccessState) {
    config.groups[0].state = state;
    let changes = server.reload(config.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(changes.iter().map(|change| change.subject).collect::<Vec<_>>(), [Subject::Group]);
}

/// The change count of a page, and its namespaces.
fn read_page(page: &[u8]) -> (u64, Vec<(u32, AnaState)>) {
    (u64::from_le_bytes(page[..8].try_into().expect("eight bytes")), ana::parse(page))
}

#[test]
fn every_controller_with_a_namespace_of_the_group_is_told_before_the_change_is_answered() {
    for backend in backends() {
        let mut now = config(backend);
        let mut server = start(now.clone());
        let (mut first, mut second) = (client(&server, ONE), client(&server, ONE));
        let mut elsewhere = client(&server, TWO);
        for host in [&mut first, &mut second, &mut elsewhere] {
            listen_for(&mut host.admin, EventKind::AnaChanged);
        }
        let steps = [
            (AccessState::Inaccessible, AnaState::Inaccessible, Some(Status::ANA_INACCESSIBLE)),
            (AccessState::NonOptimized, AnaState::NonOptimized, None),
            (AccessState::PersistentLoss, AnaState::PersistentLoss, Some(Status::ANA_PERSISTENT_LOSS)),
            (AccessState::Optimized, AnaState::Optimized, None),
        ];
        // Each of its two namespaces was a change.
        for ((state, ana, status), changes) in steps.into_iter().zip(3..) {
            set(&mut server, &mut now, state);
            for host in [&mut first, &mut second] {
                // The event was sent before this command is answered.
                let answer = host.read(1, 0, 1);
                assert_eq!(answer.err(), status, "{state:?}");
                assert!(host.read(2, 0, 1).is_ok(), "the other namespace is not in the group");
                let (count, states) = read_page(&told(&mut host.admin, EventKind::AnaChanged));
                assert_eq!(states, [(2, AnaState::Optimized), (1, ana)], "in the order of their groups");
                assert_eq!(count, changes);
            }
        }
        // `command` fails if an event comes before its answer.
        elsewhere.identify(1, 0);
    }
}

#[test]
fn ios_on_the_device_end_as_usual_when_their_group_becomes_inaccessible() {
    for backend in backends() {
        let mut now = config(backend);
        // Others may have reads of their own.
        now.devices[0].scheduler.policy = Scheduler::NONE;
        let hang = FaultKind::Hang(FaultRelease::AtIo(2));
        now.devices[0].faults =
            vec![FaultConfig { op: FaultOp::Write, count: Some(1), ..FaultConfig::new(hang) }];
        let mut server = start(now.clone());
        let mut host = client(&server, ONE);
        let length = BLOCK as u32;
        host.io.submit(rw(nvm::WRITE, 1, 0, 1), Transfer::ToController(pattern(1, BLOCK), length));
        until(|| server.stats().ssds[0].in_flight == 1);
        set(&mut server, &mut now, AccessState::Inaccessible);
        let refused =
            host.io.submit(rw(nvm::WRITE, 1, 0, 1), Transfer::ToController(pattern(2, BLOCK), length));
        let (cqe, _) = host.io.next().expect("an answer");
        assert_eq!((cqe.cid(), cqe.status()), (refused, Status::ANA_INACCESSIBLE));
        // The second IO of the device releases the first.
        let other =
            host.io.submit(rw(nvm::WRITE, 2, 0, 1), Transfer::ToController(pattern(3, BLOCK), length));
        let ended: Vec<_> = (0..2).map(|_| host.io.next().expect("an answer").0).collect();
        assert!(ended.iter().all(|cqe| cqe.status().is_success()), "{ended:?}");
        assert!(ended.iter().any(|cqe| cqe.cid() == other));
        set(&mut server, &mut now, AccessState::Optimized);
        assert!(host.read(1, 0, 1).expect("it is reached") == pattern(1, BLOCK), "not what was refused");
    }
}

#[test]
fn namespaces_that_come_or_move_have_the_state_of_their_group() {
    let mut now = config(BackendChoice::Auto);
    let mut server = start(now.clone());
    let mut host = client(&server, ONE);
    set(&mut server, &mut now, AccessState::Inaccessible);
    let mut reload = |config: &Config| {
        drop(server.reload(config.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}")))
    };

    now.subsystems[0].namespaces.push(part(3, 3, Some(GROUP)));
    reload(&now);
    assert_eq!(host.read(3, 0, 1), Err(Status::ANA_INACCESSIBLE), "a new one");
    now.subsystems[0].namespaces[1].group = Some(GROUP.to_owned());
    now.subsystems[0].namespaces[2].group = None;
    reload(&now);
    assert_eq!(host.read(2, 0, 1), Err(Status::ANA_INACCESSIBLE), "one that has come");
    assert!(host.read(3, 0, 1).is_ok(), "one that has gone");
    now.groups[0].id = Some(1);
    reload(&now);
    assert_eq!(
        host.read(3, 0, 1),
        Err(Status::ANA_INACCESSIBLE),
        "1 is also that of namespaces without a group"
    );
    now.groups.clear();
    now.subsystems[0].namespaces.iter_mut().for_each(|namespace| namespace.group = None);
    reload(&now);
    assert!((1..=3).all(|nsid| host.read(nsid, 0, 1).is_ok()), "no group, no state");
    drop(server);
    now.groups = vec![group(AccessState::Inaccessible)];
    now.subsystems[0].namespaces[0].group = Some(GROUP.to_owned());
    let server = start(now);
    let mut host = client(&server, ONE);
    assert_eq!(host.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE), "from the start");
}

/// A device hangs, so an earlier change waits for it; hosts are turned away from it all the same.
#[test]
fn a_device_that_hangs_does_not_keep_a_group_from_becoming_inaccessible() {
    let mut now = config(BackendChoice::Auto);
    let hang = FaultKind::Hang(FaultRelease::Never);
    now.devices[0].faults = vec![FaultConfig { op: FaultOp::Write, ..FaultConfig::new(hang) }];
    let mut server = start(now.clone());
    let mut host = client(&server, ONE);
    host.io.submit(rw(nvm::WRITE, 2, 0, 1), Transfer::ToController(vec![1; BLOCK], BLOCK as u32));
    until(|| server.stats().ssds[0].in_flight == 1);
    now.subsystems[0].namespaces.pop();
    let short = Duration::from_millis(1);
    assert!(matches!(server.reload(now.clone(), short), Err(ReloadError::Stuck { .. })));
    now.groups[0].state = AccessState::Inaccessible;
    assert!(matches!(server.reload(now, short), Err(ReloadError::Stuck { .. })));
    assert_eq!(host.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE));
    server.remote().stop();
}

#[test]
fn every_scheduler_serves_a_group_again_after_it_was_inaccessible() {
    for scheduler in offered().filter(|scheduler| !scheduler.needs_calibration()) {
        let mut now = config(BackendChoice::Auto);
        now.devices[0].scheduler.policy = scheduler;
        let mut server = start(now.clone());
        let mut host = client(&server, ONE);
        for round in 0..3 {
            assert_eq!(host.write(1, 0, &pattern(round, BLOCK)), Status::SUCCESS, "{}", scheduler.name);
            set(&mut server, &mut now, AccessState::Inaccessible);
            assert_eq!(host.write(1, 0, &pattern(9, BLOCK)), Status::ANA_INACCESSIBLE, "{}", scheduler.name);
            set(&mut server, &mut now, AccessState::Optimized);
            assert!(
                host.read(1, 0, 1).expect("it is reached") == pattern(round, BLOCK),
                "{}",
                scheduler.name
            );
        }
    }
}
