//! Reservations: the specification's matrix, and random sequences against a naive model.

use crate::world::{NQN, Remote, World, config, connect_command, host, io_command};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::nvm;
use nvme::spec::reservation::{
    AcquireAction, AcquireCommand, NotificationKind, PersistChange, RegisterAction, RegisterCommand,
    ReleaseAction, ReleaseCommand, ReservationKeys, ReservationType,
};
use nvme::spec::{HostId, Nqn, Sqe, Status};
use nvme::subsystem::{
    Access, Action, Grant, Held, HostAccess, Identity, Outcome, Output, QueueKey, Registrant,
    ReservationChange, ReservationHost, Reservations, RestoreError, SavedReservations, StrangerGrant,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ALLOWED: bool = true;
const CONFLICT: bool = false;

/// NVM Express Base Specification, "Command Behavior in the Presence of a Reservation". For each type:
/// whether read and write commands are allowed for a host that is not registered, and for a registrant that
/// is not the holder. A holder may do everything. All registrants hold a reservation of the last two types.
const MATRIX: [(ReservationType, [bool; 2], [bool; 2]); 6] = [
    (ReservationType::WriteExclusive, [ALLOWED, CONFLICT], [ALLOWED, CONFLICT]),
    (ReservationType::ExclusiveAccess, [CONFLICT, CONFLICT], [CONFLICT, CONFLICT]),
    (ReservationType::WriteExclusiveRegistrantsOnly, [ALLOWED, CONFLICT], [ALLOWED, ALLOWED]),
    (ReservationType::ExclusiveAccessRegistrantsOnly, [CONFLICT, CONFLICT], [ALLOWED, ALLOWED]),
    (ReservationType::WriteExclusiveAllRegistrants, [ALLOWED, CONFLICT], [ALLOWED, ALLOWED]),
    (ReservationType::ExclusiveAccessAllRegistrants, [CONFLICT, CONFLICT], [ALLOWED, ALLOWED]),
];

fn keys(current: u64, other: u64) -> Vec<u8> {
    [current.to_le_bytes(), other.to_le_bytes()].concat()
}

fn command(opcode: u8, cdw10: u32) -> Sqe {
    Sqe::new(opcode).with_nsid(1).with_cdw10_15([cdw10, 0, 0, 0, 0, 0])
}

fn register(world: &mut World, io: QueueKey, key: u64) -> Status {
    world.tell(io, command(nvm::RESERVATION_REGISTER, 0), &keys(0, key))
}

fn acquire(world: &mut World, io: QueueKey, kind: ReservationType, key: u64) -> Status {
    let cdw10 = u32::from(kind.to_wire()) << 8;
    world.tell(io, command(nvm::RESERVATION_ACQUIRE, cdw10), &keys(key, 0))
}

#[test]
fn the_matrix_of_the_specification_holds() {
    for (kind, outsider_may, registrant_may) in MATRIX {
        let mut world = World::io();
        let [holder, registrant, outsider] = [1, 2, 3].map(|number| world.remote(&host(number)).io);
        assert_eq!(register(&mut world, holder, 0xa), Status::SUCCESS);
        assert_eq!(register(&mut world, registrant, 0xb), Status::SUCCESS);
        assert_eq!(acquire(&mut world, holder, kind, 0xa), Status::SUCCESS);
        let ranges = [0; 16];
        let block = [0; 512];
        let commands: [(u8, usize, &[u8]); 7] = [
            (nvm::READ, 0, &block),
            (nvm::COMPARE, 0, &block),
            (nvm::VERIFY, 0, &[]),
            (nvm::WRITE, 1, &block),
            (nvm::WRITE_ZEROES, 1, &[]),
            (nvm::FLUSH, 1, &[]),
            (nvm::DATASET_MANAGEMENT, 1, &ranges),
        ];
        let hosts = [(holder, [ALLOWED; 2]), (registrant, registrant_may), (outsider, outsider_may)];
        for ((io, may), (opcode, group, data)) in
            hosts.into_iter().flat_map(|host| commands.map(|command| (host, command)))
        {
            let sqe = if opcode == nvm::DATASET_MANAGEMENT {
                command(opcode, 0).with_cdw10_15([0, 4, 0, 0, 0, 0])
            } else {
                io_command(opcode, 0, 1)
            };
            let refused = match world.send(io, sqe, data.len(), data) {
                Action::Reply { cqe, .. } => cqe.status() == Status::RESERVATION_CONFLICT,
                _ => false,
            };
            assert_eq!(!refused, may[group], "{kind:?}: {opcode:#x} on {io:?}");
        }
        // Report and Register are open to all hosts, Acquire and Release only to registrants.
        let report = command(nvm::RESERVATION_REPORT, 63).with_cdw10_15([63, 1, 0, 0, 0, 0]);
        assert_eq!(world.ask(outsider, report, 256).0.status(), Status::SUCCESS);
        assert_eq!(acquire(&mut world, outsider, kind, 0), Status::RESERVATION_CONFLICT);
        let release = command(nvm::RESERVATION_RELEASE, u32::from(kind.to_wire()) << 8);
        assert_eq!(world.tell(outsider, release, &0u64.to_le_bytes()), Status::RESERVATION_CONFLICT);
        assert_eq!(register(&mut world, outsider, 0xc), Status::SUCCESS);
    }
}

#[test]
fn the_report_lists_registrants_and_holders() {
    let mut world = World::io();
    let [holder, registrant] = [1, 2].map(|number| world.remote(&host(number)).io);
    register(&mut world, holder, 0x1234);
    register(&mut world, registrant, 0x5678);
    acquire(&mut world, holder, ReservationType::WriteExclusive, 0x1234);
    let report = command(nvm::RESERVATION_REPORT, 0).with_cdw10_15([1023, 1, 0, 0, 0, 0]);
    let (cqe, page) = world.ask(registrant, report, 4096);
    assert_eq!((cqe.status(), page.len()), (Status::SUCCESS, 4096));
    assert_eq!((page[0], page[4], page[5], page[9]), (2, 1, 2, 0), "GEN, RTYPE, REGCTL, PTPLS");
    assert_eq!((&page[64..66], page[66], &page[72..74]), (&[0xff, 0xff][..], 1, &[0x34, 0x12][..]));
    assert_eq!((&page[80..96], page[128 + 2]), (&host(1).id.0[..], 0));
    let short = report.with_cdw10_15([1023, 0, 0, 0, 0, 0]);
    assert_eq!(world.ask(registrant, short, 4096).0.status(), Status::HOST_ID_INCONSISTENT_FORMAT);
}

#[test]
fn without_storage_a_request_for_persistence_is_refused() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    for (cptpl, status) in
        [(0, Status::SUCCESS), (2, Status::SUCCESS), (3, Status::INVALID_FIELD), (1, Status::INVALID_FIELD)]
    {
        let sqe = command(nvm::RESERVATION_REGISTER, cptpl << 30);
        assert_eq!(world.tell(io, sqe, &keys(0, 7)), status, "CPTPL {cptpl}");
    }
    let page = world.subsystem.reservations(1).expect("namespace 1").registrants().len();
    assert_eq!(page, 1);
}

/// One tenant must not use up the registrants of all. A host that the configuration names always can
/// register.
#[test]
fn registrants_are_bounded_for_each_host_name() {
    let mut limited = config();
    limited.limits.registrants_max = 6;
    let named =
        crate::world::Host { nqn: Nqn::new("nqn.test:owner").expect("a good name"), id: HostId([99; 16]) };
    let everybody = HostAccess::Any;
    let mut world = World::new(limited);
    let register_as = |world: &mut World, nqn: &str, id: u8| {
        let host = crate::world::Host { nqn: Nqn::new(nqn).expect("a good name"), id: HostId([id; 16]) };
        let io = world.remote(&host).io;
        register(world, io, 7)
    };
    let greedy: Vec<Status> = (1..=6).map(|id| register_as(&mut world, "nqn.test:greedy", id)).collect();
    assert_eq!(greedy[..4], [Status::SUCCESS; 4]);
    assert_eq!(greedy[4..], [Status::INTERNAL_ERROR; 2], "at most four registrants per host NQN");
    assert_eq!(
        register_as(&mut world, "nqn.test:other", 11),
        Status::SUCCESS,
        "other hosts can still register"
    );
    assert_eq!(register_as(&mut world, "nqn.test:third", 12), Status::SUCCESS);
    assert_eq!(
        register_as(&mut world, "nqn.test:fourth", 13),
        Status::INTERNAL_ERROR,
        "at most six in total"
    );
    world.subsystem.set_hosts(HostAccess::Only(vec![named.nqn.clone()]));
    let io = world.remote(&named).io;
    assert_eq!(register(&mut world, io, 7), Status::SUCCESS, "other hosts cannot lock out a named host");
    world.subsystem.set_hosts(everybody);
    world.subsystem.reservations(1).expect("namespace 1").check();
}

#[test]
fn ignoring_the_existing_key_is_for_register_only() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    register(&mut world, io, 7);
    let replace = |iekey: u32| command(nvm::RESERVATION_REGISTER, 2 | iekey << 3);
    assert_eq!(world.tell(io, replace(0), &keys(9, 8)), Status::RESERVATION_CONFLICT);
    assert_eq!(world.tell(io, replace(1), &keys(9, 8)), Status::SUCCESS);
    let acquire = command(nvm::RESERVATION_ACQUIRE, 1 << 8 | 1 << 3);
    assert_eq!(world.tell(io, acquire, &keys(8, 0)), Status::INVALID_FIELD);
    let release = command(nvm::RESERVATION_RELEASE, 1 << 8 | 1 << 3);
    assert_eq!(world.tell(io, release, &8u64.to_le_bytes()), Status::INVALID_FIELD);
}

#[test]
fn a_preempted_host_is_notified() {
    let mut world = World::io();
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    register(&mut world, one.io, 0xa);
    register(&mut world, two.io, 0xb);
    acquire(&mut world, one.io, ReservationType::WriteExclusive, 0xa);
    assert_eq!(world.request_event(one.admin), None);
    let preempt = command(nvm::RESERVATION_ACQUIRE, 1 << 8 | 1);
    assert_eq!(world.tell(two.io, preempt, &keys(0xb, 0xa)), Status::SUCCESS);
    let outputs = world.outputs();
    assert!(
        matches!(outputs[..], [Output::Complete { queue, cqe }] if queue == one.admin && cqe.dw0() == 0x800006)
    );
    let read = LogRequest::read(log::RESERVATION_NOTIFICATION, 0, 64);
    let page = world.log(one.admin, read, u32::MAX).expect("log 80h");
    assert_eq!(
        (page[0], page[8], page[9], page[12]),
        (1, 1, 0, 1),
        "count, registration preempted, none more, nsid"
    );
    let page = world.log(one.admin, read, u32::MAX).expect("log 80h");
    assert!(page.iter().all(|&byte| byte == 0), "read once");
    assert_eq!(world.tell(one.io, io_command(nvm::WRITE, 0, 1), &[0; 512]), Status::RESERVATION_CONFLICT);
}

#[test]
fn a_notification_that_is_masked_is_not_kept() {
    let mut world = World::io();
    let [one, two] = [1, 2].map(|number| world.remote(&host(number)));
    register(&mut world, one.io, 0xa);
    register(&mut world, two.io, 0xb);
    let mask = Sqe::new(0x09).with_nsid(1).with_cdw10_15([0x82, 1 << 3, 0, 0, 0, 0]);
    assert_eq!(world.ask(one.admin, mask, 0).0.status(), Status::SUCCESS);
    assert_eq!(world.get_feature(one.admin, 0x82, 1, 0).0.dw0(), 1 << 3);
    let clear = command(nvm::RESERVATION_RELEASE, 1);
    assert_eq!(world.tell(two.io, clear, &0xbu64.to_le_bytes()), Status::SUCCESS);
    let read = LogRequest::read(log::RESERVATION_NOTIFICATION, 0, 64);
    let page = world.log(one.admin, read, u32::MAX).expect("log 80h");
    assert_eq!(page[8], 0, "reservation preempted is masked");
}

#[test]
fn a_fence_waits_for_connections_that_are_being_closed() {
    let mut world = World::io();
    let [dead, alive] = [1, 2].map(|number| world.remote(&host(number)));
    register(&mut world, dead.io, 0xa);
    register(&mut world, alive.io, 0xb);
    // The admin queue is closed, but a write of the IO queue may still be on the device.
    world.subsystem.on_disconnect(world.now, dead.admin);
    let sqe = command(nvm::RESERVATION_ACQUIRE, 1 << 8 | 2);
    let Action::Fence { queues, .. } = world.send(alive.io, sqe, 16, &keys(0xb, 0xa)) else {
        panic!("no fence")
    };
    assert_eq!(queues, [dead.io]);
}

/// Hosts can invent NQNs. So each address may have only a quarter of the registrants.
#[test]
fn unnamed_hosts_of_one_address_may_have_a_quarter_of_the_registrants() {
    let mut limited = config();
    limited.limits.registrants_max = 8;
    let mut world = World::new(limited);
    let mut register_from = |address: IpAddr, number: u8| {
        let remote = world.remote(&host(number));
        world.subsystem.set_peer_address(remote.admin, address);
        register(&mut world, remote.io, 7)
    };
    let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
    let one: IpAddr = Ipv4Addr::new(10, 0, 0, 1).into();
    assert_eq!([register_from(one, 1), register_from(mapped.into(), 2)], [Status::SUCCESS; 2]);
    assert_eq!(register_from(one, 3), Status::INTERNAL_ERROR);
    let in_network = |network: u16, end: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, end).into();
    assert_eq!(
        [register_from(in_network(1, 1), 4), register_from(in_network(1, 2), 5)],
        [Status::SUCCESS; 2]
    );
    assert_eq!(
        register_from(in_network(1, 3), 6),
        Status::INTERNAL_ERROR,
        "an IPv6 /64 network counts as one address"
    );
    assert_eq!(register_from(in_network(2, 3), 7), Status::SUCCESS);
    assert_eq!(
        register_from(Ipv4Addr::new(10, 0, 0, 2).into(), 8),
        Status::SUCCESS,
        "other addresses can still register"
    );
}

/// A model of the text of the specification and nothing else.
#[derive(Clone, Debug, Default)]
struct Model {
    keys: BTreeMap<u8, u64>,
    reservation: Option<(u8, ReservationType)>,
    generation: u32,
    persists: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Register(RegisterAction, bool, PersistChange, u64, u64),
    Persistence(bool),
    Acquire(AcquireAction, ReservationType, u64, u64),
    Release(ReleaseAction, ReservationType, u64),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Effects {
    notified: BTreeSet<(u8, u8)>,
    aborted: BTreeSet<u8>,
}

const ALL_REGISTRANTS: [ReservationType; 2] =
    [ReservationType::WriteExclusiveAllRegistrants, ReservationType::ExclusiveAccessAllRegistrants];
const ONE_HOLDER_ALONE: [ReservationType; 2] =
    [ReservationType::WriteExclusive, ReservationType::ExclusiveAccess];

impl Model {
    fn holders(&self) -> BTreeSet<u8> {
        match self.reservation {
            None => BTreeSet::new(),
            Some((_, kind)) if ALL_REGISTRANTS.contains(&kind) => self.keys.keys().copied().collect(),
            Some((holder, _)) => [holder].into(),
        }
    }

    fn tell_all_but(&self, host: u8, kind: NotificationKind, effects: &mut Effects) {
        effects
            .notified
            .extend(self.keys.keys().filter(|&&other| other != host).map(|&other| (other, kind.to_wire())));
    }

    /// Whether `host` may register under the limits per NQN, per address and in total. Hosts 0 and 1 have the
    /// same NQN.
    fn has_room(&self, host: u8, grant: &Grant) -> bool {
        let of_name = self.keys.keys().filter(|&&other| nqn(other) == nqn(host)).count();
        let of_address = self.keys.keys().filter(|&&other| address(other) == address(host)).count();
        of_name < grant.of_host_max
            && grant.stranger.is_none_or(|stranger| {
                self.keys.len() < stranger.all_max && of_address < stranger.of_address_max
            })
    }

    fn apply(&mut self, host: u8, step: Step, grant: &Grant) -> Result<Effects, Status> {
        let mut effects = Effects::default();
        let conflict = Err(Status::RESERVATION_CONFLICT);
        let own = self.keys.get(&host).copied();
        if matches!(step, Step::Register(_, _, PersistChange::Set, ..) | Step::Persistence(true))
            && !grant.persistence
        {
            return Err(Status::INVALID_FIELD);
        }
        let no_room = own.is_none() && !self.has_room(host, grant);
        match step {
            Step::Persistence(persists) => self.persists = persists,
            Step::Register(RegisterAction::Register, _, _, _, new) => {
                if own.is_some_and(|key| key != new) {
                    return conflict;
                }
                if no_room {
                    return Err(Status::INTERNAL_ERROR);
                }
                self.keys.insert(host, new);
                self.generation += 1;
            }
            Step::Register(RegisterAction::Replace, ignore, _, current, new) => {
                if !ignore && own != Some(current) {
                    return conflict;
                }
                if no_room {
                    return Err(Status::INTERNAL_ERROR);
                }
                self.keys.insert(host, new);
                self.generation += 1;
            }
            Step::Register(RegisterAction::Unregister, ignore, _, current, _) => {
                if own.is_none() || !ignore && own != Some(current) {
                    return conflict;
                }
                let was_last_holder = self.holders() == [host].into();
                self.keys.remove(&host);
                if was_last_holder {
                    let (_, kind) = self.reservation.take().expect("there was a holder");
                    if !ONE_HOLDER_ALONE.contains(&kind) {
                        self.tell_all_but(host, NotificationKind::ReservationReleased, &mut effects);
                    }
                }
                self.generation += 1;
            }
            Step::Acquire(_, _, current, _) if own != Some(current) => return conflict,
            Step::Acquire(AcquireAction::Acquire, kind, _, _) => match self.reservation {
                None => self.reservation = Some((host, kind)),
                Some((_, held)) if held == kind && self.holders().contains(&host) => {}
                Some(_) => return conflict,
            },
            Step::Acquire(action, kind, _, prkey) => {
                let with_key = |keys: &BTreeMap<u8, u64>| -> BTreeSet<u8> {
                    keys.iter().filter(|(_, key)| **key == prkey).map(|(&host, _)| host).collect()
                };
                let others = |set: BTreeSet<u8>| -> BTreeSet<u8> {
                    set.into_iter().filter(|&other| other != host).collect()
                };
                let everybody: BTreeSet<u8> = self.keys.keys().copied().collect();
                let (gone, takes_over) = match self.reservation {
                    Some((_, held)) if ALL_REGISTRANTS.contains(&held) && prkey == 0 => {
                        (others(everybody), true)
                    }
                    Some((holder, held)) if !ALL_REGISTRANTS.contains(&held) => {
                        if self.keys[&holder] == prkey {
                            (others(with_key(&self.keys)), true)
                        } else if prkey == 0 {
                            return Err(Status::INVALID_FIELD);
                        } else {
                            (with_key(&self.keys), false)
                        }
                    }
                    _ => (with_key(&self.keys), false),
                };
                if gone.is_empty() && !takes_over {
                    return conflict;
                }
                for &other in &gone {
                    self.keys.remove(&other);
                }
                for other in others(gone) {
                    effects.notified.insert((other, NotificationKind::RegistrationPreempted.to_wire()));
                    if action == AcquireAction::PreemptAndAbort {
                        effects.aborted.insert(other);
                    }
                }
                if takes_over {
                    let before = self.reservation.replace((host, kind));
                    if before.map(|(_, kind)| kind) != Some(kind) {
                        self.tell_all_but(host, NotificationKind::ReservationReleased, &mut effects);
                    }
                } else if self.keys.is_empty() {
                    self.reservation = None;
                }
                self.generation += 1;
            }
            Step::Release(_, _, current) if own != Some(current) => return conflict,
            Step::Release(ReleaseAction::Clear, _, _) => {
                self.tell_all_but(host, NotificationKind::ReservationPreempted, &mut effects);
                self.keys.clear();
                self.reservation = None;
                self.generation += 1;
            }
            Step::Release(ReleaseAction::Release, kind, _) => {
                if let Some((_, held)) = self.reservation.filter(|_| self.holders().contains(&host)) {
                    if held != kind {
                        return Err(Status::INVALID_FIELD);
                    }
                    self.reservation = None;
                    if !ONE_HOLDER_ALONE.contains(&held) {
                        self.tell_all_but(host, NotificationKind::ReservationReleased, &mut effects);
                    }
                }
            }
        }
        match step {
            Step::Register(_, _, PersistChange::Set, ..) => self.persists = true,
            Step::Register(_, _, PersistChange::Clear, ..) => self.persists = false,
            _ => {}
        }
        Ok(effects)
    }

    fn saved(&self) -> Option<SavedReservations> {
        let registrants = self.keys.iter();
        let mut registrants =
            registrants.map(|(&host, &key)| Registrant { host: pair(host), key }).collect::<Vec<_>>();
        registrants.sort_by(|one, other| one.host.cmp(&other.host));
        let held = self.reservation.map(|(by, kind)| Held { by: pair(by), kind });
        self.persists.then_some(SavedReservations { generation: self.generation, registrants, held })
    }
}

/// Hosts 1 and 2 have one identifier.
fn host_id(number: u8) -> HostId {
    HostId([[1, 2, 2, 3][usize::from(number)]; 16])
}

fn pair(number: u8) -> ReservationHost {
    ReservationHost { id: host_id(number), nqn: nqn(number) }
}

fn number_of(host: &ReservationHost) -> u8 {
    (0..4).find(|&number| pair(number) == *host).expect("one of the four")
}

/// Hosts 0 to 2 share an address.
fn address(number: u8) -> Option<IpAddr> {
    Some(Ipv4Addr::new(10, 0, 0, number / 3).into())
}

fn of_host(grant: Grant, number: u8) -> Grant {
    let stranger = grant.stranger.map(|stranger| StrangerGrant { address: address(number), ..stranger });
    Grant { stranger, ..grant }
}

fn nqn(number: u8) -> Nqn {
    Nqn::new(["nqn.test:a", "nqn.test:a", "nqn.test:b", "nqn.test:c"][usize::from(number)])
        .expect("a good name")
}

fn run(reservations: &mut Reservations, number: u8, step: Step, grant: &Grant) -> Result<Effects, Status> {
    let keys = |current: u64, other: u64| ReservationKeys { current: current.into(), other: other.into() };
    let change = match step {
        Step::Register(action, ignore_existing_key, persist, current, new) => {
            let command = RegisterCommand { action, ignore_existing_key, persist };
            ReservationChange::Register(command, keys(current, new))
        }
        Step::Acquire(action, kind, current, other) => {
            let command = AcquireCommand { action, ignore_existing_key: false, kind };
            ReservationChange::Acquire(command, keys(current, other))
        }
        Step::Release(action, kind, current) => {
            let command = ReleaseCommand { action, ignore_existing_key: false, kind: Some(kind) };
            ReservationChange::Release(command, keys(current, 0))
        }
        Step::Persistence(persists) => ReservationChange::Persistence(persists),
    };
    let name = nqn(number);
    let outcome: Outcome =
        reservations.apply(Identity { id: host_id(number), nqn: &name }, &change, grant)?;
    Ok(Effects {
        notified: outcome.notify.iter().map(|(host, kind)| (number_of(host), kind.to_wire())).collect(),
        aborted: outcome.abort.iter().map(number_of).collect(),
    })
}

fn kind() -> impl Strategy<Value = ReservationType> {
    prop::sample::select(ReservationType::ALL.to_vec())
}

/// Few hosts and few keys, so keys are often right and often shared. Key 0 is one of them.
fn steps() -> impl Strategy<Value = Vec<(u8, Step)>> {
    use {AcquireAction as A, PersistChange as P, RegisterAction as R, ReleaseAction as L};
    let key = || 0u64..3;
    let step = prop_oneof![
        (
            prop::sample::select(vec![R::Register, R::Register, R::Unregister, R::Replace]),
            any::<bool>(),
            prop::sample::select(vec![P::Keep, P::Keep, P::Clear, P::Set]),
            key(),
            key()
        )
            .prop_map(|(action, ignore, persist, current, new)| {
                Step::Register(action, ignore, persist, current, new)
            }),
        any::<bool>().prop_map(Step::Persistence),
        (prop::sample::select(vec![A::Acquire, A::Preempt, A::PreemptAndAbort]), kind(), key(), key())
            .prop_map(|(action, kind, current, other)| Step::Acquire(action, kind, current, other)),
        (prop::sample::select(vec![L::Release, L::Clear]), kind(), key())
            .prop_map(|(action, kind, current)| Step::Release(action, kind, current)),
    ];
    prop::collection::vec((0u8..4, step), 1..60)
}

fn grant() -> impl Strategy<Value = Grant> {
    let stranger = (1usize..5, 1usize..4).prop_map(|(all_max, of_address_max)| StrangerGrant {
        all_max,
        address: None,
        of_address_max,
    });
    (1usize..3, prop::option::of(stranger), any::<bool>())
        .prop_map(|(of_host_max, stranger, persistence)| Grant { of_host_max, stranger, persistence })
}

#[test]
fn inconsistent_reservations_are_not_restored() {
    let registrant = |number: u8| Registrant { host: pair(number), key: 1 };
    let saved = |registrants, held| SavedReservations { generation: 1, registrants, held };
    let held = Held { by: pair(2), kind: ReservationType::WriteExclusive };
    let nobody = Registrant { host: ReservationHost { id: HostId::NONE, nqn: nqn(0) }, key: 1 };
    assert_eq!(Reservations::restore(saved(vec![nobody], None)), Err(RestoreError::NoIdentifier));
    let twice = vec![registrant(0), registrant(1), registrant(0)];
    assert_eq!(Reservations::restore(saved(twice, None)), Err(RestoreError::Twice(pair(0))));
    let others = vec![registrant(0), registrant(1)];
    assert_eq!(Reservations::restore(saved(others, Some(held))), Err(RestoreError::NotRegistered(pair(2))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reservations_do_what_the_naive_model_does(steps in steps(), grant in grant()) {
        let (mut reservations, mut model) = (Reservations::new(), Model::default());
        for (number, step) in steps {
            let grant = of_host(grant, number);
            let expected = model.clone().apply(number, step, &grant);
            if expected.is_ok() {
                let _ = model.apply(number, step, &grant);
            }
            let before = reservations.clone();
            let found = run(&mut reservations, number, step, &grant);
            prop_assert_eq!(&found, &expected, "host {} {:?}", number, step);
            prop_assert!(found.is_ok() || reservations == before, "a refused command changes nothing");
            reservations.check();
            let registered: BTreeMap<u8, u64> =
                reservations.registrants().map(|r| (number_of(&r.host), r.key)).collect();
            prop_assert_eq!(&registered, &model.keys);
            let held = reservations.held().map(|held| held.kind);
            prop_assert_eq!(held, model.reservation.map(|(_, kind)| kind));
            prop_assert_eq!(reservations.generation(), model.generation);
            let report = reservations.report();
            let of_report: Vec<([u8; 16], u8, u8)> = report[64..]
                .chunks_exact(64)
                .map(|entry| (entry[16..32].try_into().expect("16 bytes"), entry[8], entry[2]))
                .collect();
            let (holders, mut of_model) = (model.holders(), model.keys.iter().collect::<Vec<_>>());
            of_model.sort_by_key(|(host, _)| pair(**host));
            let of_model: Vec<([u8; 16], u8, u8)> = of_model
                .into_iter()
                .map(|(host, key)| (host_id(*host).0, *key as u8, u8::from(holders.contains(host))))
                .collect();
            prop_assert_eq!(of_report, of_model, "each registrant has an entry of its own");
            prop_assert_eq!(report[9], u8::from(model.persists), "PTPLS");
            let stranger = Nqn::new("nqn.test:stranger").expect("a good name");
            for access in [Access::Read, Access::Write] {
                let unknown = Identity { id: HostId([99; 16]), nqn: &stranger };
                let outsider = reservations.allows(unknown, access);
                for number in 0..4 {
                    let disguised = Identity { id: host_id(number), nqn: &stranger };
                    prop_assert_eq!(reservations.allows(disguised, access), outsider, "the identifier alone does not make a registrant");
                }
            }
        }
    }

    #[test]
    fn saved_reservations_are_restored_unchanged(steps in steps()) {
        let grant = Grant { of_host_max: 4, stranger: None, persistence: true };
        let (mut reservations, mut model) = (Reservations::new(), Model::default());
        for (number, step) in steps {
            if model.clone().apply(number, step, &grant).is_ok() {
                let _ = model.apply(number, step, &grant);
            }
            let _ = run(&mut reservations, number, step, &grant);
            let saved = reservations.saved();
            let mut expected = model.saved();
            if let (Some(expected), Some(saved)) = (&mut expected, &saved)
                && let (Some(expected), Some(held)) = (&mut expected.held, &saved.held)
                && ALL_REGISTRANTS.contains(&held.kind)
            {
                // If all registrants hold the reservation, any of them may be recorded as the holder.
                expected.by = held.by.clone();
            }
            prop_assert_eq!(&saved, &expected);
            if let Some(saved) = saved {
                let restored = Reservations::restore(saved);
                prop_assert_eq!(restored.as_ref(), Ok(&reservations));
                // Continue with the restored state.
                reservations = restored.expect("compared above");
            }
        }
    }

    /// Preempt and Abort fences exactly the IO queues of the hosts that lost their registration.
    #[test]
    fn preempt_and_abort_fences_the_preempted(
        hosts_keys in prop::collection::vec(1u64..4, 4),
        held in kind(),
        wanted in kind(),
        prkey in 0u64..5,
        extra_queues in 0u16..3,
    ) {
        let mut world = World::io();
        let remotes: Vec<Remote> = (0..4).map(|number| world.remote(&host(number))).collect();
        for queue in 0..extra_queues {
            world.connect(&host(1), 2 + queue, remotes[1].id);
        }
        // A second controller of host 2: its commands belong to host 2 too.
        let second = world.connect_with(&host(2), NQN, CNTLID_DYNAMIC, connect_command(0)).expect("room");
        world.configure(second.0, 0x460061);
        world.connect(&host(2), 1, second.1.controller_id);
        for (remote, &key) in remotes.iter().zip(&hosts_keys) {
            prop_assert_eq!(register(&mut world, remote.io, key), Status::SUCCESS);
        }
        prop_assert_eq!(acquire(&mut world, remotes[0].io, held, hosts_keys[0]), Status::SUCCESS);
        let sqe = command(nvm::RESERVATION_ACQUIRE, u32::from(wanted.to_wire()) << 8 | 2);
        let action = world.send(remotes[3].io, sqe, 16, &keys(hosts_keys[3], prkey));
        let registered: BTreeSet<HostId> = world.subsystem.reservations(1).expect("namespace 1")
            .registrants().map(|registrant| registrant.host.id).collect();
        let lost: Vec<u8> = (0..3).filter(|&number| !registered.contains(&host(number).id)).collect();
        let queues: usize = lost.iter().map(|number| match number {
            1 => 1 + usize::from(extra_queues),
            2 => 2,
            _ => 1,
        }).sum();
        match action {
            Action::Fence { nsid, queues: fenced, cqe } => {
                prop_assert_eq!((nsid, cqe.status()), (1, Status::SUCCESS));
                prop_assert_eq!(fenced.len(), queues);
                for number in &lost {
                    prop_assert!(fenced.contains(&remotes[usize::from(*number)].io));
                }
                prop_assert!(!fenced.contains(&remotes[3].io), "a host never fences its own queue");
            }
            Action::Reply { .. } => prop_assert_eq!(lost.len(), 0),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
