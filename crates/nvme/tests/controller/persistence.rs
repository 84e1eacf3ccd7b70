//! Reservations that persist through power loss: stored before they are answered, restored unchanged.

use crate::world::{Host, World, config, host, io_command};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::reservation::ReservationType;
use nvme::spec::{Cqe, HostId, Nqn, Sqe, Status, feature};
use nvme::subsystem::{
    Action, BlockSize, NamespaceInfo, Output, QueueKey, SavedReservations, SubsystemConfig,
};

const PERSIST: u32 = 3 << 30;
const FORGET: u32 = 2 << 30;

fn persistent() -> SubsystemConfig {
    SubsystemConfig { persistence: true, ..config() }
}

fn keys(current: u64, other: u64) -> Vec<u8> {
    [current.to_le_bytes(), other.to_le_bytes()].concat()
}

fn command(opcode: u8, cdw10: u32) -> Sqe {
    Sqe::new(opcode).with_nsid(1).with_cdw10_15([cdw10, 0, 0, 0, 0, 0])
}

/// Register as Linux sends it.
fn register(world: &mut World, io: QueueKey, key: u64) -> Action {
    world.send(io, command(nvm::RESERVATION_REGISTER, PERSIST), 16, &keys(0, key))
}

fn acquire(world: &mut World, io: QueueKey, key: u64) -> Action {
    world.send(io, command(nvm::RESERVATION_ACQUIRE, 2 << 8), 16, &keys(key, 0))
}

/// The copy to store, and its ticket.
#[track_caller]
fn to_store(world: &mut World) -> (u64, Option<SavedReservations>) {
    match &world.outputs()[..] {
        [Output::Store { nsid: 1, ticket, saved }] => (*ticket, saved.clone()),
        other => panic!("expected one copy to store, got {other:?}"),
    }
}

/// Reports the result of storing. Returns the statuses of the completed commands, in order.
fn stored(world: &mut World, ticket: u64, is_stored: bool) -> Vec<(QueueKey, Status)> {
    world.subsystem.on_stored(1, ticket, is_stored);
    completions(&world.outputs())
}

fn completions(outputs: &[Output]) -> Vec<(QueueKey, Status)> {
    let completed = |output: &Output| match output {
        Output::Complete { queue, cqe } => Some((*queue, cqe.status())),
        _ => None,
    };
    outputs.iter().filter_map(completed).collect()
}

fn registrants(world: &World) -> usize {
    world.subsystem.reservations(1).expect("namespace 1").registrants().len()
}

/// Registers, and stores that.
fn registered(world: &mut World, io: QueueKey, key: u64) {
    assert_eq!(register(world, io, key), Action::Storing);
    let (ticket, _) = to_store(world);
    assert_eq!(stored(world, ticket, true), [(io, Status::SUCCESS)]);
}

#[test]
fn a_change_is_answered_when_it_is_stored() {
    let mut world = World::new(persistent());
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    assert_eq!(register(&mut world, one.io, 0xa), Action::Storing);
    assert_eq!(registrants(&world), 0, "nothing takes effect before it is stored");
    let (ticket, saved) = to_store(&mut world);
    assert_eq!(saved.expect("they persist").registrants[0].host.id, host(1).id);
    world.subsystem.on_stored(1, ticket + 1, true);
    assert_eq!(world.outputs(), [], "an unknown ticket is ignored");
    assert_eq!(stored(&mut world, ticket, true), [(one.io, Status::SUCCESS)]);
    assert_eq!(registrants(&world), 1);

    assert_eq!(acquire(&mut world, one.io, 0xa), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    let write = world.send(two.io, io_command(nvm::WRITE, 0, 1), 512, &[0; 512]);
    assert!(matches!(write, Action::Io(_)), "the reservation is not in force yet: {write:?}");
    assert_eq!(stored(&mut world, ticket, true), [(one.io, Status::SUCCESS)]);
    assert_eq!(world.tell(two.io, io_command(nvm::WRITE, 0, 1), &[0; 512]), Status::RESERVATION_CONFLICT);
    // A change without effect is not stored.
    assert!(
        matches!(acquire(&mut world, one.io, 0xa), Action::Reply { cqe, .. } if cqe.status().is_success())
    );
    assert_eq!(world.outputs(), []);
}

#[test]
fn a_change_that_cannot_be_stored_has_no_effect() {
    let mut world = World::new(persistent());
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    registered(&mut world, one.io, 0xa);
    let before = world.subsystem.reservations(1).expect("namespace 1").clone();
    assert_eq!(acquire(&mut world, one.io, 0xa), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    assert_eq!(stored(&mut world, ticket, false), [(one.io, Status::INTERNAL_ERROR)]);
    assert_eq!(world.subsystem.reservations(1), Some(&before));
    assert!(matches!(world.send(two.io, io_command(nvm::WRITE, 0, 1), 512, &[0; 512]), Action::Io(_)));
    // The next attempt may succeed.
    assert_eq!(acquire(&mut world, one.io, 0xa), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    assert_eq!(stored(&mut world, ticket, true), [(one.io, Status::SUCCESS)]);
}

/// A command waits for two writes at most, no matter how many commands other hosts send.
#[test]
fn commands_that_arrive_meanwhile_are_stored_together() {
    let mut world = World::new(persistent());
    let remotes: Vec<_> = (1..=20).map(|number| world.remote(&host(number))).collect();
    assert_eq!(register(&mut world, remotes[0].io, 1), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    for remote in &remotes[1..] {
        assert_eq!(register(&mut world, remote.io, 2), Action::Storing);
    }
    assert_eq!(world.outputs(), [], "one copy at a time is being stored");
    world.subsystem.on_stored(1, ticket, true);
    let outputs = world.outputs();
    let [Output::Complete { .. }, Output::Store { ticket, saved: Some(saved), .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(saved.registrants.len(), 20);
    let answered = stored(&mut world, *ticket, true);
    let expected: Vec<_> = remotes[1..].iter().map(|remote| (remote.io, Status::SUCCESS)).collect();
    assert_eq!(answered, expected, "in the order of arrival");
}

#[test]
fn one_host_parks_a_few_commands_and_no_more() {
    let mut world = World::new(persistent());
    let [greedy, other] = [1, 2].map(|number| world.remote(&host(number)));
    assert_eq!(register(&mut world, greedy.io, 1), Action::Storing);
    let actions: Vec<Action> = (0..6).map(|_| register(&mut world, greedy.io, 1)).collect();
    let parked = actions.iter().filter(|action| **action == Action::Storing).count();
    assert_eq!(parked, 4);
    assert!(actions[4..].iter().all(
        |action| matches!(action, Action::Reply { cqe, .. } if cqe.status() == Status::COMMAND_INTERRUPTED)
    ));
    assert_eq!(register(&mut world, other.io, 2), Action::Storing, "another host is not affected");
}

#[test]
fn a_parked_command_of_a_controller_that_was_reset_has_no_effect() {
    let mut world = World::new(persistent());
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    assert_eq!(register(&mut world, one.io, 1), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    assert_eq!(register(&mut world, two.io, 2), Action::Storing);
    world.configure(two.admin, 0x460060);
    world.outputs();
    world.subsystem.on_stored(1, ticket, true);
    assert_eq!(completions(&world.outputs()), [(one.io, Status::SUCCESS)]);
    assert_eq!(registrants(&world), 1);
}

#[test]
fn a_preemption_fences_when_it_is_stored() {
    let mut world = World::new(persistent());
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    registered(&mut world, one.io, 0xa);
    registered(&mut world, two.io, 0xb);
    let preempt = command(nvm::RESERVATION_ACQUIRE, 1 << 8 | 2);
    assert_eq!(world.send(two.io, preempt, 16, &keys(0xb, 0xa)), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    // A queue that the preempted host opens meanwhile is fenced too.
    let late = world.connect(&host(1), 2, one.id);
    world.subsystem.on_stored(1, ticket, true);
    let outputs = world.outputs();
    let fence = outputs.iter().find_map(|output| match output {
        Output::Fence { queue, nsid: 1, queues, cqe } => Some((*queue, queues.clone(), cqe.status())),
        _ => None,
    });
    assert_eq!(fence, Some((two.io, vec![one.io, late], Status::SUCCESS)));
    assert_eq!(registrants(&world), 1);
}

#[test]
fn persistence_is_a_feature_of_the_namespace_and_in_the_report() {
    let mut world = World::new(persistent());
    let one = world.remote(&host(1));
    let rescap = world.identify(one.admin, 0, 1).expect("namespace 1")[31];
    assert_eq!(rescap, 0xff, "RESCAP: all types, and through power loss");
    let persists = |world: &mut World| world.get_feature(one.admin, 0x83, 1, 0).0.dw0();
    assert_eq!(persists(&mut world), 0);
    assert_eq!(world.get_feature(one.admin, 0x383, 1, 0).0.dw0(), 6, "changeable, namespace specific");
    registered(&mut world, one.io, 0xa);
    assert_eq!(persists(&mut world), 1);
    let report = command(nvm::RESERVATION_REPORT, 0).with_cdw10_15([1023, 1, 0, 0, 0, 0]);
    assert_eq!(world.ask(one.io, report, 4096).1[9], 1, "PTPLS");
    let set = |value| Sqe::new(admin::SET_FEATURES).with_nsid(1).with_cdw10_15([0x83, value, 0, 0, 0, 0]);
    assert_eq!(world.send(one.admin, set(0), 0, &[]), Action::Storing);
    let (ticket, saved) = to_store(&mut world);
    assert_eq!(saved, None, "what is stored is deleted");
    assert_eq!(stored(&mut world, ticket, true), [(one.admin, Status::SUCCESS)]);
    assert_eq!((persists(&mut world), registrants(&world)), (0, 1), "registrants stay until a power loss");
    assert_eq!(world.send(one.admin, set(1), 0, &[]), Action::Storing);
    let (ticket, saved) = to_store(&mut world);
    assert_eq!(saved.expect("they persist again").registrants.len(), 1);
    assert_eq!(stored(&mut world, ticket, true), [(one.admin, Status::SUCCESS)]);
    let forget = command(nvm::RESERVATION_REGISTER, FORGET);
    assert_eq!(world.send(one.io, forget, 16, &keys(0, 0xa)), Action::Storing);
    let (ticket, saved) = to_store(&mut world);
    assert_eq!(saved, None);
    assert_eq!(stored(&mut world, ticket, true), [(one.io, Status::SUCCESS)]);
}

#[test]
fn persistence_of_all_namespaces_is_answered_when_the_last_is_stored() {
    let info = NamespaceInfo::new(BlockSize::B512, 1000);
    let mut world = World::new(persistent().with_namespace(2, info.clone()).with_namespace(5, info));
    let one = world.remote(&host(1));
    let all = Sqe::new(admin::SET_FEATURES).with_nsid(u32::MAX).with_cdw10_15([
        u32::from(feature::RESERVATION_PERSISTENCE),
        1,
        0,
        0,
        0,
        0,
    ]);
    for (is_last_stored, status) in [(false, Status::INTERNAL_ERROR), (true, Status::SUCCESS)] {
        assert_eq!(world.send(one.admin, all, 0, &[]), Action::Storing);
        let copies: Vec<(u32, u64)> = world
            .outputs()
            .iter()
            .map(|output| match output {
                Output::Store { nsid, ticket, .. } => (*nsid, *ticket),
                other => panic!("{other:?}"),
            })
            .collect();
        let (last, others) = copies.split_last().expect("three namespaces, or the one that failed");
        for (nsid, ticket) in others {
            world.subsystem.on_stored(*nsid, *ticket, true);
        }
        assert_eq!(world.outputs(), []);
        world.subsystem.on_stored(last.0, last.1, is_last_stored);
        assert_eq!(completions(&world.outputs()), [(one.admin, status)]);
    }
    assert!(
        [1, 2, 5].iter().all(|nsid| world
            .subsystem
            .reservations(*nsid)
            .expect("the namespace exists")
            .persists())
    );
}

#[test]
fn without_storage_reservations_do_not_persist_and_report_it() {
    let mut world = World::io();
    let one = world.remote(&host(1));
    assert_eq!(world.identify(one.admin, 0, 1).expect("namespace 1")[31], 0xfe, "RESCAP");
    let refused = register(&mut world, one.io, 1);
    assert!(matches!(refused, Action::Reply { cqe, .. } if cqe.status() == Status::INVALID_FIELD));
    let set = Sqe::new(admin::SET_FEATURES).with_nsid(1).with_cdw10_15([0x83, 1, 0, 0, 0, 0]);
    let (cqe, _): (Cqe, _) = world.ask(one.admin, set, 0);
    assert_eq!(cqe.status(), Status::FEATURE_NOT_CHANGEABLE);
    assert_eq!(world.get_feature(one.admin, 0x383, 1, 0).0.dw0(), 2, "namespace specific, not changeable");
}

#[test]
fn a_namespace_removed_while_storing_leaves_no_reservations_behind() {
    let mut world = World::new(persistent());
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    assert_eq!(register(&mut world, one.io, 1), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    assert_eq!(register(&mut world, two.io, 2), Action::Storing);
    world.subsystem.remove_namespace(1).expect("namespace 1 exists");
    assert_eq!(completions(&world.outputs()), [(two.io, Status::INVALID_NAMESPACE)]);
    world.subsystem.add_namespace(1, NamespaceInfo::new(BlockSize::B512, 1000)).expect("there is room");
    assert_eq!(stored(&mut world, ticket, true), [(one.io, Status::SUCCESS)]);
    assert_eq!(registrants(&world), 0, "the new namespace has no reservations");
}

/// Another NQN cannot take the identifier while its registration is being stored.
#[test]
fn an_identifier_being_stored_belongs_to_its_owner() {
    let mut world = World::new(persistent());
    let owner = Host { nqn: Nqn::new("nqn.test:owner").expect("a good name"), id: HostId([9; 16]) };
    let thief = Host { nqn: Nqn::new("nqn.test:thief").expect("a good name"), id: owner.id };
    let remote = world.remote(&owner);
    assert_eq!(register(&mut world, remote.io, 1), Action::Storing);
    let (ticket, _) = to_store(&mut world);
    world.subsystem.on_disconnect(world.now, remote.admin);
    world.subsystem.on_disconnect(world.now, remote.io);
    world.outputs();
    let connect = crate::world::connect_command(0);
    assert!(world.connect_with(&thief, crate::world::NQN, 0xffff, connect).is_err());
    assert_eq!(stored(&mut world, ticket, true), [], "the host is gone, so there is no completion");
    assert_eq!(registrants(&world), 1);
    assert_eq!(
        world
            .subsystem
            .reservations(1)
            .expect("namespace 1")
            .saved()
            .expect("it persists")
            .held
            .map(|held| held.kind),
        None::<ReservationType>
    );
}
