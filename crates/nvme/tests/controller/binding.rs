//! The owner of a host identifier: a host that the configuration names, else the host NQN that used it first, as long as it is
//! connected or registered.

use crate::world::{Host, NQN, World, connect_command};
use nvme::spec::connect::{CNTLID_DYNAMIC, Culprit};
use nvme::spec::opcode::nvm;
use nvme::spec::reservation::ReservationType;
use nvme::spec::{Cqe, HostId, Nqn, Sqe, Status};
use nvme::subsystem::{
    Action, BlockSize, Held, HostAccess, NamespaceInfo, Output, QueueKey, Registrant, ReservationHost,
    SavedReservations, SubsystemConfig,
};
use std::sync::Arc;

fn host(name: &str, id: u8) -> Host {
    Host { nqn: Nqn::new(name).expect("a good name"), id: HostId([id; 16]) }
}

fn pair(host: &Host) -> ReservationHost {
    ReservationHost { id: host.id, nqn: host.nqn.clone() }
}

fn try_admin(world: &mut World, host: &Host) -> Result<QueueKey, Cqe> {
    world.connect_with(host, NQN, CNTLID_DYNAMIC, connect_command(0)).map(|(key, _)| key)
}

#[track_caller]
fn is_refused(world: &mut World, host: &Host) {
    let refusal = try_admin(world, host).expect_err("the identifier belongs to another host");
    assert_eq!(refusal.status(), Status::CONNECT_INVALID_PARAMETERS);
    assert_eq!(refusal.dw0(), Culprit::HOST_ID.to_dw0(), "the answer points to HOSTID");
}

fn register(world: &mut World, io: QueueKey, action: u32, current: u64, new: u64) -> Status {
    let sqe = Sqe::new(nvm::RESERVATION_REGISTER).with_nsid(1).with_cdw10_15([action, 0, 0, 0, 0, 0]);
    world.tell(io, sqe, &[current.to_le_bytes(), new.to_le_bytes()].concat())
}

#[test]
fn an_identifier_belongs_to_the_name_that_used_it_first() {
    let mut world = World::io();
    let (owner, thief) = (host("nqn.test:owner", 7), host("nqn.test:thief", 7));
    let first = world.remote(&owner);
    is_refused(&mut world, &thief);
    let second = world.admin(&owner);
    world.subsystem.on_disconnect(world.now, first.admin);
    world.subsystem.on_disconnect(world.now, second);
    // The admin queues are closed; a command of the IO queue may still be on the device.
    is_refused(&mut world, &thief);
    world.subsystem.on_disconnect(world.now, first.io);
    let stolen = try_admin(&mut world, &thief).expect("no other host uses it any more");
    is_refused(&mut world, &owner);
    world.subsystem.on_disconnect(world.now, stolen);
    try_admin(&mut world, &owner).expect("no other host uses it any more");
}

#[test]
fn a_registered_identifier_stays_with_its_owner_without_connections() {
    let mut world = World::io();
    let (owner, thief) = (host("nqn.test:owner", 7), host("nqn.test:thief", 7));
    let remote = world.remote(&owner);
    assert_eq!(register(&mut world, remote.io, 0, 0, 0xa), Status::SUCCESS);
    world.subsystem.on_disconnect(world.now, remote.admin);
    world.subsystem.on_disconnect(world.now, remote.io);
    is_refused(&mut world, &thief);
    let remote = world.remote(&owner);
    assert_eq!(register(&mut world, remote.io, 1, 0xa, 0), Status::SUCCESS);
    world.subsystem.on_disconnect(world.now, remote.admin);
    world.subsystem.on_disconnect(world.now, remote.io);
    try_admin(&mut world, &thief).expect("it is not registered any more");
}

#[test]
fn a_restored_identifier_belongs_to_its_owner() {
    let mut world = World::io();
    let (owner, thief) = (host("nqn.test:owner", 7), host("nqn.test:thief", 7));
    let registrant = Registrant { host: pair(&owner), key: 0xa };
    let held = Some(Held { by: pair(&owner), kind: ReservationType::ExclusiveAccess });
    let saved = SavedReservations { generation: 4, registrants: vec![registrant], held };
    world.subsystem.restore_reservations(1, saved).expect("the saved data is valid");
    is_refused(&mut world, &thief);
    let stranger = world.remote(&host("nqn.test:thief", 8));
    let read = crate::world::io_command(nvm::READ, 0, 1);
    assert_eq!(world.tell(stranger.io, read, &[0; 512]), Status::RESERVATION_CONFLICT);
    world.remote(&owner);
}

#[test]
fn on_discovery_an_identifier_has_no_owner() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let queues = ["nqn.test:a", "nqn.test:b"].map(|name| world.admin(&host(name, 7)));
    for queue in queues {
        world.subsystem.on_disconnect(world.now, queue);
    }
    world.admin(&host("nqn.test:c", 7));
}

#[test]
fn a_name_may_use_several_identifiers_or_none() {
    let mut world = World::io();
    for id in 1..=3 {
        world.remote(&host("nqn.test:cluster", id));
    }
    for name in ["nqn.test:a", "nqn.test:b"] {
        let nameless = world.remote(&host(name, 0));
        assert_eq!(register(&mut world, nameless.io, 0, 0, 1), Status::COMMAND_SEQUENCE_ERROR);
    }
}

/// Nothing can be reserved on a discovery subsystem. A host that uses an identifier first must not keep
/// others from discovery.
#[test]
fn discovery_accepts_one_identifier_from_two_names() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    for name in ["nqn.test:a", "nqn.test:b"] {
        world.admin(&host(name, 7));
    }
}

/// Two namespaces that were in different subsystems before may have one identifier registered with two NQNs.
/// Each NQN keeps its own registration and gets nothing of the other.
#[test]
fn if_two_names_registered_one_identifier_each_keeps_its_own_registration() {
    let config = SubsystemConfig::io(Nqn::new(NQN).expect("a good name"), "gimbal-1")
        .with_namespace(1, NamespaceInfo::new(BlockSize::B512, 1000))
        .with_namespace(2, NamespaceInfo::new(BlockSize::B512, 1000));
    let mut world = World::new(config);
    for (nsid, name) in [(1, "nqn.test:a"), (2, "nqn.test:b")] {
        let registrant = Registrant { host: pair(&host(name, 7)), key: 1 };
        let held = Some(Held { by: pair(&host(name, 7)), kind: ReservationType::ExclusiveAccess });
        let saved = SavedReservations { generation: 1, registrants: vec![registrant], held };
        world.subsystem.restore_reservations(nsid, saved).expect("the saved data is valid");
    }
    is_refused(&mut world, &host("nqn.test:c", 7));
    let remote = world.remote(&host("nqn.test:b", 7));
    let read = |nsid| crate::world::io_command(nvm::READ, 0, 1).with_nsid(nsid);
    assert_eq!(world.tell(remote.io, read(1), &[0; 512]), Status::RESERVATION_CONFLICT);
    let allowed = world.send(remote.io, read(2), 512, &[0; 512]);
    assert!(matches!(allowed, Action::Io(_)), "{allowed:?}");
}

/// Registers, and stores that if it is to be stored.
fn register_and_store(world: &mut World, io: QueueKey, key: u64) {
    let sqe = Sqe::new(nvm::RESERVATION_REGISTER).with_nsid(1);
    let keys = [0, key].map(u64::to_le_bytes).concat();
    match world.send(io, sqe, keys.len(), &keys) {
        Action::Reply { cqe, .. } => assert_eq!(cqe.status(), Status::SUCCESS),
        Action::Storing => {
            for output in world.outputs() {
                if let Output::Store { nsid, ticket, .. } = output {
                    world.subsystem.on_stored(nsid, ticket, true);
                }
            }
            let outputs = world.outputs();
            let [Output::Complete { cqe, .. }] = outputs[..] else { panic!("{outputs:?}") };
            assert_eq!(cqe.status(), Status::SUCCESS);
        }
        other => panic!("{other:?}"),
    }
}

/// Names the owner in the configuration: for this subsystem, or elsewhere.
fn name_owner(world: &mut World, owner: &Host, here: bool) {
    if here {
        world.subsystem.set_hosts(HostAccess::Only(vec![owner.nqn.clone()]));
    } else {
        world.subsystem.set_named(Arc::new([owner.nqn.clone()].into()));
    }
}

/// The stranger has the identifier by a connection, by a registration, or by both, before the owner comes.
#[test]
fn an_unnamed_host_never_keeps_a_named_one_out() {
    for (stays, registers, restored) in
        [(true, false, false), (true, true, false), (false, true, false), (false, false, true)]
    {
        for here in [false, true] {
            let mut world = World::io();
            let (owner, stranger) = (host("nqn.test:owner", 7), host("nqn.test:stranger", 7));
            if restored {
                let registrant = Registrant { host: pair(&stranger), key: 0xb };
                let saved = SavedReservations { generation: 1, registrants: vec![registrant], held: None };
                world.subsystem.restore_reservations(1, saved).expect("the saved data is valid");
            }
            let first = world.remote(&stranger);
            if registers {
                assert_eq!(register(&mut world, first.io, 0, 0, 0xb), Status::SUCCESS);
            }
            if !stays {
                world.subsystem.on_disconnect(world.now, first.admin);
                world.subsystem.on_disconnect(world.now, first.io);
            }
            name_owner(&mut world, &owner, here);
            let remote = world.remote(&owner);
            register_and_store(&mut world, remote.io, 0xa);
            let refusal = try_admin(&mut world, &stranger).expect_err("the owner has it now");
            assert!(!refusal.status().is_success());
            let reservations = world.subsystem.reservations(1).expect("namespace 1");
            let keys: Vec<u64> = reservations.registrants().map(|registrant| registrant.key).collect();
            let expected = if registers || restored { vec![0xa, 0xb] } else { vec![0xa] };
            assert_eq!(keys, expected, "{stays} {registers} {restored} {here}");
        }
    }
}

/// Two registrants with one identifier: a command of one neither fences, notifies nor frees the other.
#[test]
fn registrants_with_one_identifier_are_two_hosts() {
    const EXCLUSIVE_ACCESS: u32 = 2 << 8;
    let mut world = World::io();
    let (owner, stranger, third) =
        (host("nqn.test:owner", 7), host("nqn.test:stranger", 7), host("nqn.test:third", 8));
    let impostor = world.remote(&stranger);
    assert_eq!(register(&mut world, impostor.io, 0, 0, 0xb), Status::SUCCESS);
    name_owner(&mut world, &owner, false);
    let remote = world.remote(&owner);
    assert_eq!(register(&mut world, remote.io, 0, 0, 0xa), Status::SUCCESS);
    let reserve = |opcode, dword10| Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    let keys = |current: u64, other: u64| [current.to_le_bytes(), other.to_le_bytes()].concat();
    let acquire = reserve(nvm::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS);
    assert_eq!(world.tell(remote.io, acquire, &keys(0xa, 0)), Status::SUCCESS);
    let read = crate::world::io_command(nvm::READ, 0, 1);
    assert_eq!(world.tell(impostor.io, read, &[0; 512]), Status::RESERVATION_CONFLICT, "it holds nothing");
    let release = reserve(nvm::RESERVATION_RELEASE, EXCLUSIVE_ACCESS);
    assert_eq!(world.tell(impostor.io, release, &0xb_u64.to_le_bytes()), Status::SUCCESS);
    let held = world.subsystem.reservations(1).and_then(|all| all.held()).map(|held| held.by.clone());
    assert_eq!(held, Some(pair(&owner)), "what the other one releases is not the owner's");
    let other = world.remote(&third);
    assert_eq!(register(&mut world, other.io, 0, 0, 0xc), Status::SUCCESS);
    let preempt_abort = reserve(nvm::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS | 2);
    let Action::Fence { queues, .. } = world.send(other.io, preempt_abort, 16, &keys(0xc, 0xb)) else {
        panic!("the impostor's queue is fenced")
    };
    assert_eq!(queues, [impostor.io], "and the owner's is not");
    let Action::Fence { queues, .. } = world.send(other.io, preempt_abort, 16, &keys(0xc, 0xa)) else {
        panic!("the owner's queue is fenced")
    };
    assert_eq!(queues, [remote.io]);
}

/// Between two hosts that the configuration names, and between two that it does not, the first one wins.
#[test]
fn between_hosts_of_one_rank_the_first_one_wins() {
    let mut world = World::io();
    let (one, two) = (host("nqn.test:one", 7), host("nqn.test:two", 7));
    world.subsystem.set_named(Arc::new([one.nqn.clone(), two.nqn.clone()].into()));
    world.remote(&two);
    is_refused(&mut world, &one);
}
