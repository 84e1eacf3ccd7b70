//! Runs the host side against our own subsystem, command by command.

use crate::world::{BLOCKS, NQN, World, config, host};
use nvme::host::{
    AdminCommand, AdminData, AdminEvent, AdminOptions, ConnectRefusal, HostController, HostError, Names,
    Purpose, Tag,
};
use nvme::spec::connect::ConnectData;
use nvme::spec::discovery::{SecureChannel, SubsystemType, TransportType};
use nvme::spec::identify::cns;
use nvme::spec::identify_controller::IdentifyController;
use nvme::spec::opcode::admin;
use nvme::spec::{AnaState, Cqe, Nqn, Sgl, Sqe};
use nvme::subsystem::{
    Action, BlockSize, DiscoveryAddress, DiscoveryRecord, HostAccess, NamespaceInfo, Output, QueueKey,
    SubsystemConfig,
};
use std::collections::BTreeMap;
use units::Nanos;
use zerocopy::{FromBytes, IntoBytes};

/// A host's admin queue to the subsystem of a world.
struct Link {
    controller: HostController,
    admin: Option<QueueKey>,
    outstanding: BTreeMap<u16, Tag>,
    cid: u16,
    sent: Vec<Sqe>,
}

const CREDIT: u32 = 32;

fn options() -> AdminOptions {
    AdminOptions {
        purpose: Purpose::Io,
        io_queues: 4,
        credits: true,
        keep_alive: Nanos::secs(5),
        authenticates: false,
    }
}

impl Link {
    fn new(number: u8, subsystem: &str, options: AdminOptions) -> Link {
        let host = host(number);
        let names =
            Names { subsystem: Nqn::new(subsystem).expect("a good name"), host: host.nqn, host_id: host.id };
        let controller = HostController::new(names, options);
        Link { controller, admin: None, outstanding: BTreeMap::new(), cid: 0x1000, sent: Vec::new() }
    }

    /// Passes commands, answers and events until both sides are idle.
    fn run(&mut self, world: &mut World) -> Result<Vec<AdminEvent>, HostError> {
        let mut events = Vec::new();
        loop {
            let mut quiet = true;
            while let Some((tag, command)) = self.controller.poll(world.now)? {
                self.send(world, tag, command)?;
                quiet = false;
            }
            for output in world.outputs() {
                let Output::Complete { queue, cqe } = output else { panic!("{output:?}") };
                assert_eq!(Some(queue), self.admin);
                self.complete(world, cqe, &[])?;
                quiet = false;
            }
            while let Some(event) = self.controller.poll_event() {
                events.push(event);
                quiet = false;
            }
            if quiet {
                return Ok(events);
            }
        }
    }

    fn send(&mut self, world: &mut World, tag: Tag, command: AdminCommand) -> Result<(), HostError> {
        // An outstanding event request keeps its identifier.
        while self.outstanding.contains_key(&self.cid) {
            self.cid = self.cid.wrapping_add(1);
        }
        self.outstanding.insert(self.cid, tag);
        let (length, data) = match &command.data {
            AdminData::None => (0, None),
            AdminData::ToController(data) => (data.len() as u32, Some(&data[..])),
            AdminData::FromController(length) => (*length, None),
        };
        let sqe = command.sqe.with_cid(self.cid).with_sgl(Sgl::Transport { length });
        self.sent.push(sqe);
        let Some(admin) = self.admin else {
            let connect = ConnectData::read_from_bytes(data.expect("Connect data")).expect("1024 bytes");
            let key = world.next_key();
            return match world.subsystem.on_connect(world.now, key, &sqe, &connect) {
                Ok(connected) => {
                    self.admin = Some(key);
                    self.complete(world, connected.cqe, &[])
                }
                Err(refusal) => self.complete(world, refusal, &[]),
            };
        };
        match world.subsystem.on_command(world.now, admin, &sqe, data) {
            Action::Reply { cqe, data } => {
                let mut data = data.unwrap_or_default();
                data.resize(if cqe.status().is_success() { length as usize } else { 0 }, 0);
                self.complete(world, cqe, &data)
            }
            Action::Credits { cqe, enabled: true } => self.complete(world, cqe.with_dw0(CREDIT), &[]),
            Action::GrantQueues { queues, cqe } => {
                let cqe = world.subsystem.on_queues_granted(admin, queues, cqe);
                self.complete(world, cqe, &[])
            }
            Action::Pending => Ok(()),
            other => panic!("an admin command gave {other:?}"),
        }
    }

    fn complete(&mut self, world: &World, cqe: Cqe, data: &[u8]) -> Result<(), HostError> {
        let tag = self.outstanding.remove(&cqe.cid()).expect("an answer to what was sent");
        self.controller.on_completed(world.now, tag, &cqe, data)
    }
}

#[test]
fn the_host_brings_up_our_controller() {
    let mut world = World::io();
    let mut link = Link::new(1, NQN, options());
    let events = link.run(&mut world).expect("a bring-up");
    let [AdminEvent::Ready(info), AdminEvent::Namespaces(namespaces)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((info.io_queues, info.credit), (4, Some(CREDIT)));
    assert_eq!((info.in_capsule_max, info.transfer_max.get()), (8192, 1 << 20));
    assert!(info.ana && info.volatile_write_cache && info.traffic_based_keep_alive);
    // The host requests the whole ANA log: a header, a descriptor per group, a number per namespace.
    let page = world.identify(link.admin.expect("connected"), cns::CONTROLLER, 0).expect("CNS 01h");
    let controller = IdentifyController::read_from_bytes(&page).expect("4096 bytes");
    let length = 16 + 32 * controller.nanagrpid.get() + 4 * controller.mnan.get();
    let is_ana = |sqe: &&Sqe| sqe.opcode() == admin::GET_LOG_PAGE && sqe.cdw10() & 0xff == 0x0c;
    let asked = link.sent.iter().find(is_ana).expect("the host reads the ANA log");
    assert_eq!((asked.cdw10() >> 16) + 1, length / 4, "dwords");
    let [namespace] = &namespaces[..] else { panic!("{namespaces:?}") };
    assert_eq!((namespace.nsid, namespace.block_size, namespace.blocks), (1, 512, BLOCKS));
    assert_eq!(namespace.uuid, Some(nvme::subsystem::derived_uuid(world.subsystem.nqn(), 1)));
    for queue_id in 1..=info.io_queues {
        let command = link.controller.connect_io_queue(queue_id, 128);
        let AdminData::ToController(data) = &command.data else { panic!("no Connect data") };
        let data = ConnectData::read_from_bytes(data).expect("1024 bytes");
        let key = world.next_key();
        let connected =
            world.subsystem.on_connect(world.now, key, &command.sqe, &data).expect("a good Connect");
        assert!(connected.credits, "credits were enabled before");
        assert_eq!(link.controller.on_io_queue_answer(&connected.cqe), Ok(false));
    }
    assert_eq!(link.outstanding.values().collect::<Vec<_>>(), [&Tag::EventRequest]);
}

#[test]
fn the_host_wants_no_more_queues_than_it_is_granted() {
    let mut few = config();
    few.limits.io_queues_max = 2;
    let mut world = World::new(few);
    let mut link = Link::new(1, NQN, options());
    let events = link.run(&mut world).expect("a bring-up");
    let AdminEvent::Ready(info) = &events[0] else { panic!("{events:?}") };
    assert_eq!(info.io_queues, 2, "of 4");
}

#[test]
fn credits_are_not_requested_unless_wanted() {
    let mut world = World::io();
    let mut link = Link::new(1, NQN, AdminOptions { credits: false, ..options() });
    let events = link.run(&mut world).expect("a bring-up");
    let AdminEvent::Ready(info) = &events[0] else { panic!("{events:?}") };
    assert_eq!(info.credit, None);
    assert!(link.sent.iter().all(|sqe| sqe.cdw10() as u8 != 0xc0 || sqe.opcode() != 0x09));
}

#[test]
fn namespace_changes_are_noticed() {
    let mut world = World::io();
    let mut link = Link::new(1, NQN, options());
    link.run(&mut world).expect("a bring-up");
    let seen = |link: &mut Link, world: &mut World| {
        let events = link.run(world).expect("no error");
        let [AdminEvent::Namespaces(found)] = &events[..] else { panic!("{events:?}") };
        found.iter().map(|namespace| (namespace.nsid, namespace.blocks, namespace.ana)).collect::<Vec<_>>()
    };
    let optimized = AnaState::Optimized;
    world.subsystem.add_namespace(9, NamespaceInfo::new(BlockSize::B4096, 100)).expect("a good namespace");
    assert_eq!(seen(&mut link, &mut world), [(1, BLOCKS, optimized), (9, 100, optimized)]);
    world.subsystem.resize_namespace(9, 200).expect("a good size");
    assert_eq!(seen(&mut link, &mut world), [(1, BLOCKS, optimized), (9, 200, optimized)]);
    world.subsystem.set_ana_state(1, AnaState::Inaccessible).expect("a group");
    let gone = AnaState::Inaccessible;
    assert_eq!(seen(&mut link, &mut world), [(1, BLOCKS, gone), (9, 200, gone)]);
    world.subsystem.remove_namespace(1).expect("namespace 1 exists");
    assert_eq!(seen(&mut link, &mut world), [(9, 200, gone)]);
}

#[test]
fn many_namespaces_take_several_lists() {
    let mut many = config();
    many.limits.namespaces_max = 4000;
    for nsid in 2..=3000 {
        many.namespaces.insert(nsid, NamespaceInfo::new(BlockSize::B4096, u64::from(nsid)));
    }
    let mut world = World::new(many);
    let mut link = Link::new(1, NQN, options());
    link.run(&mut world).expect("a bring-up");
    assert_eq!(link.controller.namespaces().len(), 3000);
    assert!(link.controller.namespaces().iter().skip(1).all(|found| found.blocks == u64::from(found.nsid)));
}

#[test]
fn discovery_is_read_again_when_it_changes() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let record = |number: u16| DiscoveryRecord {
        subsystem: Nqn::new(&format!("nqn.2024-01.test:{number}")).expect("a good name"),
        kind: SubsystemType::Nvm,
        transport: TransportType::Tcp,
        address: DiscoveryAddress::At(([127, 0, 0, 1], number).into()),
        hosts: HostAccess::Any,
        secure: SecureChannel::Without,
    };
    world.subsystem.set_discovery_records((1..=3).map(record).collect());
    let options = AdminOptions { purpose: Purpose::Discovery, keep_alive: Nanos::ZERO, ..options() };
    let mut link = Link::new(1, Nqn::DISCOVERY, options);
    let ports = |events: &[AdminEvent]| match events.last() {
        Some(AdminEvent::Discovered(entries)) => {
            entries.iter().filter_map(|entry| entry.port()).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let events = link.run(&mut world).expect("a bring-up");
    assert!(matches!(events[0], AdminEvent::Ready(_)));
    assert_eq!(ports(&events), [1, 2, 3]);
    world.subsystem.set_discovery_records((1..=2000).map(record).collect());
    let events = link.run(&mut world).expect("no error");
    assert_eq!(ports(&events), (1..=2000).collect::<Vec<_>>(), "more than fit into one transfer");
    world.subsystem.set_discovery_records(vec![]);
    let events = link.run(&mut world).expect("no error");
    assert_eq!(ports(&events), [0; 0]);
}

#[test]
fn keep_alive_keeps_an_idle_controller_for_a_day() {
    let mut world = World::io();
    let mut link = Link::new(1, NQN, options());
    link.run(&mut world).expect("a bring-up");
    let day = world.now + Nanos::secs(86_400);
    while world.now < day {
        let next = [link.controller.next_timeout(), world.subsystem.next_timeout()];
        world.now = next.into_iter().flatten().min().expect("both sides have timers");
        link.run(&mut world).expect("no error");
    }
    assert_eq!(world.subsystem.controllers().count(), 1);
    let keep_alives = link.sent.iter().filter(|sqe| sqe.opcode() == 0x18).count();
    assert!((17_280..=86_400).contains(&keep_alives), "{keep_alives} for a timeout of 5 s");
}

#[test]
fn a_clean_shutdown_ends_with_an_event() {
    let mut world = World::io();
    let mut link = Link::new(1, NQN, options());
    link.run(&mut world).expect("a bring-up");
    link.controller.shut_down();
    assert_eq!(link.run(&mut world), Ok(vec![AdminEvent::ShutDown]));
    assert_eq!(link.controller.next_timeout(), None);
    let last_two: Vec<_> = link.sent.iter().rev().take(2).map(|sqe| (sqe.cdw11(), sqe.cdw12())).collect();
    assert_eq!(last_two, [(0x1c, 0), (0x14, 0x464061)], "CC.SHN, then CSTS");
}

#[test]
fn refusals_say_what_to_do() {
    let mut world = World::new(SubsystemConfig { hosts: HostAccess::Only(vec![host(1).nqn]), ..config() });
    let mut refused = |number, subsystem| match Link::new(number, subsystem, options()).run(&mut world) {
        Err(HostError::ConnectRefused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(1, "nqn.2024-01.test:none"), ConnectRefusal::UnknownSubsystem);
    assert_eq!(refused(2, NQN), ConnectRefusal::HostNotAllowed);
    let text = HostError::ConnectRefused(ConnectRefusal::HostNotAllowed).to_string();
    assert!(text.contains("add it to the subsystem's hosts"), "{text}");
}

#[test]
fn a_controller_that_is_not_ready_in_time_is_given_up() {
    let mut world = World::io();
    let mut controller = Link::new(1, NQN, options()).controller;
    let mut answer = |world: &mut World, cqe: Cqe| {
        while controller.next_timeout().is_some_and(|at| at > world.now) {
            world.now = controller.next_timeout().expect("just seen");
        }
        let (tag, command) = controller.poll(world.now)?.expect("a command");
        controller.on_completed(world.now, tag, &cqe, &[]).map(|()| command.sqe)
    };
    let success = Cqe::success(0);
    answer(&mut world, success).expect("Connect");
    answer(&mut world, success.with_result(0x0820_0200_03ff)).expect("CAP, CAP.TO is 1 s");
    answer(&mut world, success).expect("CC");
    answer(&mut world, success).expect("CSTS not ready");
    answer(&mut world, success).expect("CC");
    let given_up = (0..1000).find_map(|_| answer(&mut world, success).err());
    assert_eq!(given_up, Some(HostError::NotReady(Nanos::secs(1))));
}

#[test]
fn a_fatal_controller_is_noticed() {
    let mut world = World::io();
    let mut controller = Link::new(1, NQN, options()).controller;
    let success = Cqe::success(0);
    let answers = [success, success.with_result(0x0820_0200_03ff), success, success, success];
    for cqe in answers {
        let (tag, _) = controller.poll(world.now).expect("no error").expect("a command");
        controller.on_completed(world.now, tag, &cqe, &[]).expect("so far so good");
        world.advance(1);
    }
    let (tag, command) = controller.poll(world.now).expect("no error").expect("a command");
    assert_eq!(command.sqe.cdw11(), 0x1c);
    let fatal = controller.on_completed(world.now, tag, &success.with_dw0(2), &[]);
    assert_eq!(fatal, Err(HostError::ControllerFatal));
    assert_eq!(command.sqe.as_bytes().len(), 64);
}
