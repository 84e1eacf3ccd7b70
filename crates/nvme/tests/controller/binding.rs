//! Whose a host identifier is: the name's that used it first, for as long as it is connected or registered.

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
    let refusal = try_admin(world, host).expect_err("the identifier is another's");
    assert_eq!(refusal.status(), Status::CONNECT_INVALID_PARAMETERS);
    assert_eq!(refusal.dw0(), Culprit::HOST_ID.to_dw0(), "HOSTID is named");
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
    // The admin queues have gone; a command of the IO queue may still be on the device.
    is_refused(&mut world, &thief);
    world.subsystem.on_disconnect(world.now, first.io);
    let stolen = try_admin(&mut world, &thief).expect("nobody uses it any more");
    is_refused(&mut world, &owner);
    world.subsystem.on_disconnect(world.now, stolen);
    try_admin(&mut world, &owner).expect("nobody uses it any more");
}

#[test]
fn a_registered_identifier_stays_its_owners_while_nobody_is_connected() {
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
    try_admin(&mut world, &thief).expect("it is registered no more");
}

#[test]
fn a_restored_identifier_is_its_owners() {
    let mut world = World::io();
    let (owner, thief) = (host("nqn.test:owner", 7), host("nqn.test:thief", 7));
    let registrant = Registrant { host: owner.id, nqn: owner.nqn.clone(), key: 0xa };
    let held = Some(Held { by: owner.id, kind: ReservationType::ExclusiveAccess });
    let saved = SavedReservations { generation: 4, registrants: vec![registrant], held };
    world.subsystem.restore_reservations(1, saved).expect("it was saved so");
    is_refused(&mut world, &thief);
    let stranger = world.remote(&host("nqn.test:thief", 8));
    let read = crate::world::io_command(nvm::READ, 0, 1);
    assert_eq!(world.tell(stranger.io, read, &[0; 512]), Status::RESERVATION_CONFLICT);
    world.remote(&owner);
}

#[test]
fn nobody_owns_an_identifier_where_nothing_can_be_reserved() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let queues = ["nqn.test:a", "nqn.test:b"].map(|name| world.admin(&host(name, 7)));
    for queue in queues {
        world.subsystem.on_disconnect(world.now, queue);
    }
    world.admin(&host("nqn.test:c", 7));
}

#[test]
fn one_name_may_have_several_identifiers_and_many_none() {
    let mut world = World::io();
    for id in 1..=3 {
        world.remote(&host("nqn.test:cluster", id));
    }
    for name in ["nqn.test:a", "nqn.test:b"] {
        let nameless = world.remote(&host(name, 0));
        assert_eq!(register(&mut world, nameless.io, 0, 0, 1), Status::COMMAND_SEQUENCE_ERROR);
    }
}

/// There is nothing to reserve, and who asks first must not keep others from finding their subsystem.
#[test]
fn discovery_does_not_mind_whose_an_identifier_is() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    for name in ["nqn.test:a", "nqn.test:b"] {
        world.admin(&host(name, 7));
    }
}

/// Namespaces that were served apart can know an identifier by two names. Each keeps what is its own, and neither is the other.
#[test]
fn a_name_that_is_registered_too_is_not_kept_out_and_gets_nothing_of_the_other() {
    let config = SubsystemConfig::io(Nqn::new(NQN).expect("a good name"), "gimbal-1")
        .with_namespace(1, NamespaceInfo::new(BlockSize::B512, 1000))
        .with_namespace(2, NamespaceInfo::new(BlockSize::B512, 1000));
    let mut world = World::new(config);
    for (nsid, name) in [(1, "nqn.test:a"), (2, "nqn.test:b")] {
        let registrant = Registrant { host: HostId([7; 16]), nqn: host(name, 7).nqn, key: 1 };
        let held = Some(Held { by: HostId([7; 16]), kind: ReservationType::ExclusiveAccess });
        let saved = SavedReservations { generation: 1, registrants: vec![registrant], held };
        world.subsystem.restore_reservations(nsid, saved).expect("it was saved so");
    }
    is_refused(&mut world, &host("nqn.test:c", 7));
    let remote = world.remote(&host("nqn.test:b", 7));
    let read = |nsid| crate::world::io_command(nvm::READ, 0, 1).with_nsid(nsid);
    assert_eq!(world.tell(remote.io, read(1), &[0; 512]), Status::RESERVATION_CONFLICT);
    let allowed = world.send(remote.io, read(2), 512, &[0; 512]);
    assert!(matches!(allowed, nvme::subsystem::Action::Io(_)), "{allowed:?}");
}
