//! The owner of a host identifier: the host NQN that used it first, as long as it is connected or registered.

use crate::world::{Host, NQN, World, connect_command};
use nvme::spec::connect::{CNTLID_DYNAMIC, Culprit};
use nvme::spec::opcode::nvm;
use nvme::spec::reservation::ReservationType;
use nvme::spec::{Cqe, HostId, Nqn, Sqe, Status};
use nvme::subsystem::{
    BlockSize, Held, NamespaceInfo, QueueKey, Registrant, SavedReservations, SubsystemConfig,
};

fn host(name: &str, id: u8) -> Host {
    Host { nqn: Nqn::new(name).expect("a good name"), id: HostId([id; 16]) }
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
    let registrant = Registrant { host: owner.id, nqn: owner.nqn.clone(), key: 0xa };
    let held = Some(Held { by: owner.id, kind: ReservationType::ExclusiveAccess });
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
        let registrant = Registrant { host: HostId([7; 16]), nqn: host(name, 7).nqn, key: 1 };
        let held = Some(Held { by: HostId([7; 16]), kind: ReservationType::ExclusiveAccess });
        let saved = SavedReservations { generation: 1, registrants: vec![registrant], held };
        world.subsystem.restore_reservations(nsid, saved).expect("the saved data is valid");
    }
    is_refused(&mut world, &host("nqn.test:c", 7));
    let remote = world.remote(&host("nqn.test:b", 7));
    let read = |nsid| crate::world::io_command(nvm::READ, 0, 1).with_nsid(nsid);
    assert_eq!(world.tell(remote.io, read(1), &[0; 512]), Status::RESERVATION_CONFLICT);
    let allowed = world.send(remote.io, read(2), 512, &[0; 512]);
    assert!(matches!(allowed, nvme::subsystem::Action::Io(_)), "{allowed:?}");
}
