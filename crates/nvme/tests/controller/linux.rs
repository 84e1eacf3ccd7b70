//! Transcripts of Linux hosts and nvme-cli, captured on the wire, against our subsystem.
//!
//! The fields of every captured command are here. The answers are compared with those of the kernel's own
//! target, except for optional features that only we have.

use crate::world::{BLOCKS, NQN, World, config, connect_command, host, io_command, property_set};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand};
use nvme::spec::discovery::{DiscoveryEntry, DiscoveryHeader, SecureChannel, SubsystemType, TransportType};
use nvme::spec::feature::QueueCounts;
use nvme::spec::identify::{cns, descriptor, read_namespace_list};
use nvme::spec::identify_controller::IdentifyController;
use nvme::spec::identify_namespace::IdentifyNamespace;
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::property::offset;
use nvme::spec::{Nqn, Sqe, Status};
use nvme::subsystem::{
    Action, CloseReason, DiscoveryAddress, DiscoveryRecord, HostAccess, IoCommand, IoOp, Output,
    PriorityClass, QueueKey, SubsystemConfig,
};
use units::Lba;
use zerocopy::FromBytes;

/// PropertyGet CAP to PropertyGet VS, as Linux 6.1 does it. It reads CRTO because of CAP.CRMS.
fn enable_like_linux_6_1(world: &mut World, admin: QueueKey) {
    let cap = world.property(admin, offset::CAP).expect("CAP");
    assert_eq!(cap & 0xffff, 1023, "MQES");
    assert_ne!(cap & 1 << 43, 0, "CSS bit 6, or Linux would not write 6 to CC.CSS");
    world.configure(admin, 0x460060);
    assert_eq!(world.property(admin, offset::CC), Ok(0x460060));
    assert_eq!(world.property(admin, offset::CAP), Ok(cap));
    assert!(world.property(admin, offset::CRTO).is_ok());
    world.configure(admin, 0x460061);
    assert_eq!(world.property(admin, offset::CSTS), Ok(1));
    assert_eq!(world.property(admin, offset::VS), Ok(0x20000));
}

fn scan_like_linux(world: &mut World, admin: QueueKey) -> [u8; 16] {
    let page = world.identify(admin, cns::CONTROLLER_OF_COMMAND_SET, 0).expect("CNS 06h");
    assert_eq!(page[0], 8, "VSL: a verify of at most 1 MiB");
    assert_eq!(page[4..8], (1u32 << 18).to_le_bytes(), "DMRSL: Linux sends no ranges longer than this");
    let list = world.identify(admin, cns::ACTIVE_NAMESPACES, 0).expect("CNS 02h");
    assert!(read_namespace_list(&list).eq([1]));
    let ids = descriptor::parse(&world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1).expect("CNS 03h"));
    world.identify(admin, cns::NAMESPACE_INDEPENDENT, 1).expect("CNS 08h");
    let page = world.identify(admin, cns::NAMESPACE, 1).expect("CNS 00h");
    let namespace = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
    assert_eq!((namespace.nsze.get(), namespace.block_size()), (BLOCKS, Some(512)));
    world.identify(admin, cns::NAMESPACE_OF_COMMAND_SET, 1).expect("CNS 05h");
    ids.uuid.expect("Linux needs an identifier that survives a restart")
}

#[test]
fn linux_6_1_brings_up_an_io_controller() {
    let mut world = World::io();
    let linux = host(1);
    let admin = world.admin(&linux);
    enable_like_linux_6_1(&mut world, admin);
    let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    let controller = IdentifyController::read_from_bytes(&page).expect("4096 bytes");
    let id = controller.cntlid.get();
    world.log(admin, LogRequest::read(log::COMMANDS_SUPPORTED, 0, 4096), 0).expect("log 05h");
    let ana_length = 16 + 32 * u64::from(controller.nanagrpid.get()) + 4 * u64::from(controller.mnan.get());
    let ana = world.log(admin, LogRequest::read(log::ANA, 0, ana_length), 0xffff_ffff).expect("log 0Ch");
    assert_eq!((ana[8], ana[16], ana[20], ana[32], ana[48]), (1, 1, 1, 1, 1), "namespace 1 is in group 1");
    let granted = world.set_feature(admin, 0x07, 0x007f_007f);
    assert_eq!(QueueCounts::from_wire(granted.dw0()), QueueCounts::both(128));
    let io = world.connect(&linux, 1, id);
    assert_eq!(world.set_feature(admin, 0x0b, 0x900).status(), Status::SUCCESS);
    assert_eq!(world.request_event(admin), None);
    scan_like_linux(&mut world, admin);
    let first_read = world.send(io, io_command(nvm::READ, 0, 8), 4096, &[]);
    let expected = IoCommand {
        nsid: 1,
        op: IoOp::Read,
        lba: Lba(0),
        blocks: 8,
        fua: false,
        priority: PriorityClass::UNSPECIFIED,
    };
    assert_eq!(first_read, Action::Io(expected));
    world.advance(2500);
    assert_eq!(world.tell(admin, Sqe::new(admin::KEEP_ALIVE), &[]), Status::SUCCESS);
}

#[test]
fn identify_has_what_linux_requires() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    let controller = IdentifyController::read_from_bytes(&page).expect("4096 bytes");
    assert_eq!(controller.cntlid.get(), remote.id);
    assert_ne!(controller.kas.get(), 0);
    assert!(controller.ioccsz.get() >= 4);
    assert!(controller.iorcsz.get() >= 1);
    assert_eq!(controller.icdoff.get(), 0);
    assert_ne!(controller.sgls.get() & 3, 0);
    assert_ne!(controller.maxcmd.get(), 0);
    assert_eq!((controller.sqes, controller.cqes), (0x66, 0x44));
    assert_eq!(1u64 << controller.mdts << 12, 1 << 20, "1 MiB by default");
    assert_eq!(controller.oaes.get(), 0x900);
}

#[test]
fn io_of_the_block_layer_arrives_as_it_was_meant() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let mut action = |opcode, cdw12: u32, cdw13, length: usize| {
        let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([8, 0, cdw12, cdw13, 0, 0]);
        match world.send(io, sqe, length, &vec![0; length]) {
            Action::Io(command) => command,
            other => panic!("{opcode:#x} gave {other:?}"),
        }
    };
    let synchronous = action(nvm::WRITE, 0x4000_0007, 0, 4096);
    assert_eq!((synchronous.op, synchronous.fua, synchronous.blocks), (IoOp::Write, true, 8));
    let read_ahead = action(nvm::READ, 0x8000_001f, 0x07, 16384);
    assert_eq!((read_ahead.op, read_ahead.priority), (IoOp::Read, PriorityClass::UNSPECIFIED));
    let zeroes = action(nvm::WRITE_ZEROES, 0x7f, 0, 0);
    assert_eq!((zeroes.op, zeroes.blocks), (IoOp::WriteZeroes { deallocate: false }, 128));
    assert_eq!(action(nvm::WRITE_ZEROES, 0x0200_0007, 0, 0).op, IoOp::WriteZeroes { deallocate: true });
    assert_eq!(action(nvm::FLUSH, 0, 0, 0).op, IoOp::Flush);
    assert_eq!(action(nvm::COMPARE, 7, 0, 4096).op, IoOp::Compare);
    assert_eq!(action(nvm::VERIFY, 7, 0, 0).op, IoOp::Verify);
}

#[test]
fn a_discard_of_one_range_comes_with_4096_bytes() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let mut ranges = vec![0; 4096];
    ranges[4..8].copy_from_slice(&128u32.to_le_bytes());
    ranges[8..16].copy_from_slice(&64u64.to_le_bytes());
    let sqe = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(1).with_cdw10_15([0, 4, 0, 0, 0, 0]);
    let Action::Io(command) = world.send(io, sqe, 4096, &ranges) else { panic!("no IO") };
    let IoOp::Deallocate(given) = &command.op else { panic!("{command:?}") };
    assert_eq!((given.len(), given[0].lba, given[0].blocks), (1, Lba(64), 128));
    // nvme-cli sends only its ranges.
    let two = [&ranges[..16], &[0; 16][..]].concat();
    let sqe = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(1).with_cdw10_15([1, 4, 0, 0, 0, 0]);
    assert!(matches!(world.send(io, sqe, 32, &two), Action::Io(_)));
    assert_eq!(world.tell(io, sqe, &two[..16]), Status::DATA_SGL_LENGTH_INVALID);
}

fn discovery_world() -> World {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let record = |name, kind, hosts| DiscoveryRecord {
        subsystem: Nqn::new(name).expect("a good name"),
        kind,
        transport: TransportType::Tcp,
        address: DiscoveryAddress::At("10.0.2.2:4420".parse().expect("an address")),
        hosts,
        secure: SecureChannel::Without,
    };
    world.subsystem.set_discovery_records(vec![
        record(Nqn::DISCOVERY, SubsystemType::CurrentDiscovery, HostAccess::Any),
        record(NQN, SubsystemType::Nvm, HostAccess::Any),
        record("nqn.2024-01.test:secret", SubsystemType::Nvm, HostAccess::Only(vec![host(9).nqn])),
    ]);
    world
}

#[test]
fn nvme_cli_discovers() {
    let mut world = discovery_world();
    let admin = world.admin(&host(1));
    enable_like_linux_6_1(&mut world, admin);
    world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(world.set_feature(admin, 0x0b, 0x8000_0000).dw0(), 0x8000_0000);
    assert_eq!(world.request_event(admin), None);
    // Version 2.3: a header with RAE, then everything in one command.
    let header = LogRequest { retain: true, ..LogRequest::read(log::DISCOVERY, 0, 1024) };
    let header = world.log(admin, header, 0).expect("log 70h");
    let header = DiscoveryHeader::read_from_bytes(&header).expect("1024 bytes");
    assert_eq!((header.records.get(), header.record_format.get()), (2, 0), "this host may not see the third");
    let all = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 3072), 0).expect("log 70h");
    let entry = DiscoveryEntry::read_from_bytes(&all[2048..]).expect("1024 bytes");
    assert_eq!((entry.address().as_str(), entry.port()), ("10.0.2.2", Some(4420)));
    assert_eq!(entry.subsystem_nqn().map(|name| name.to_string()), Some(NQN.into()));
    // Version 2.13: 20 bytes, the entries at an offset, then 20 bytes again.
    let start = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 20), 0).expect("log 70h");
    let entries = world.log(admin, LogRequest::read(log::DISCOVERY, 1024, 2048), 0).expect("log 70h");
    assert_eq!(entries, all[1024..]);
    assert_eq!(world.log(admin, LogRequest::read(log::DISCOVERY, 0, 20), 0), Ok(start));
    world.configure(admin, 0x464061);
    assert_eq!(world.property(admin, offset::CSTS).map(|csts| csts & 0xc), Ok(0x8), "SHST is complete");
}

#[test]
fn a_reset_closes_io_queues_and_forgets_settings() {
    let mut world = World::io();
    let linux = host(1);
    let remote = world.remote(&linux);
    assert_eq!(world.request_event(remote.admin), None);
    assert_eq!(world.set_feature(remote.admin, 0x0b, 0x900).status(), Status::SUCCESS);
    world.configure(remote.admin, 0x460060);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(1), "its commands may still be on a device");
    let closed = Output::CloseQueue { queue: remote.io, reason: CloseReason::ControllerReset };
    let taken_back = world.outputs();
    assert!(
        matches!(taken_back[0], Output::Forget { queue, .. } if queue == remote.admin),
        "the event request"
    );
    assert_eq!(taken_back[1..], [closed]);
    let (cqe, _) = world.ask(remote.io, io_command(nvm::READ, 0, 8), 4096);
    assert_eq!(cqe.status(), Status::COMMAND_SEQUENCE_ERROR);
    world.subsystem.on_disconnect(world.now, remote.io);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0), "the reset is complete");
    world.configure(remote.admin, 0x460061);
    assert_eq!(world.get_feature(remote.admin, 0x0b, 0, 0).0.dw0(), 0);
    let io = world.connect(&linux, 1, remote.id);
    assert!(matches!(world.send(io, io_command(nvm::READ, 0, 8), 4096, &[]), Action::Io(_)));
}

/// A device may never complete its commands. After CAP.TO at the latest, the reset is reported as complete.
#[test]
fn a_reset_takes_no_longer_than_cap_to() {
    let mut world = World::io();
    let linux = host(1);
    let remote = world.remote(&linux);
    let second = world.connect(&linux, 2, remote.id);
    let half_seconds = world.property(remote.admin, offset::CAP).expect("CAP") >> 24 & 0xff;
    world.configure(remote.admin, 0x460060);
    world.advance(500 * half_seconds - 1);
    // One of the two queues is done.
    world.subsystem.on_disconnect(world.now, second);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(1));
    world.advance(1);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0));
    // The leftovers of the first association do not delay the next one on that controller.
    world.configure(remote.admin, 0x460061);
    world.configure(remote.admin, 0x460060);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(1));
    world.subsystem.on_disconnect(world.now, remote.io);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0));
}

#[test]
fn a_disconnect_ends_the_controller() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    world.subsystem.on_disconnect(world.now, remote.io);
    world.configure(remote.admin, 0x464061);
    assert_eq!(world.property(remote.admin, offset::CSTS).map(|csts| csts & 0xc), Ok(0x8));
    world.subsystem.on_disconnect(world.now, remote.admin);
    assert_eq!((world.subsystem.controllers().count(), world.outputs()), (0, vec![]));
}

#[test]
fn a_reconnect_after_a_restart_finds_the_same_identifiers() {
    let uuid = |world: &mut World| {
        let remote = world.remote(&host(1));
        scan_like_linux(world, remote.admin)
    };
    let before = uuid(&mut World::io());
    assert_eq!(uuid(&mut World::io()), before);
}

#[test]
fn refusals_of_connect_are_those_that_linux_prints() {
    let allowed = SubsystemConfig { hosts: HostAccess::Only(vec![host(1).nqn]), ..config() };
    let mut world = World::new(allowed);
    let mut refusal = |host_number, subsystem: &str, controller_id, command: ConnectCommand| {
        let cqe = world
            .connect_with(&host(host_number), subsystem, controller_id, command)
            .expect_err("this Connect is wrong");
        (cqe.status(), cqe.dw0(), cqe.cid())
    };
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    let command = connect_command(0);
    let dynamic = CNTLID_DYNAMIC;
    assert_eq!(refusal(1, "nqn.2024-01.test:none", dynamic, command), (invalid, 0x10100, 0x101a));
    assert_eq!(refusal(2, NQN, dynamic, command).0, Status::CONNECT_INVALID_HOST);
    assert_eq!(refusal(1, NQN, 1, command), (invalid, 0x10010, 0x101a), "controllers are dynamic");
    assert_eq!(refusal(1, NQN, 1, connect_command(1)), (invalid, 0x10010, 0x101a), "no such controller");
    let no_entries = ConnectCommand { sqsize: 0, ..command };
    assert_eq!(refusal(1, NQN, dynamic, no_entries), (invalid, 44, 0x101a));
    let too_many = ConnectCommand { sqsize: 1024, ..command };
    assert_eq!(refusal(1, NQN, dynamic, too_many), (invalid, 44, 0x101a));
    let unknown_format = ConnectCommand { record_format: 1, ..command };
    assert_eq!(refusal(1, NQN, dynamic, unknown_format).0, Status::CONNECT_INCOMPATIBLE_FORMAT);
}

#[test]
fn io_queues_belong_to_the_host_that_made_the_controller() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let mut refusal = |who: &crate::world::Host, queue_id| {
        let cqe = world
            .connect_with(who, NQN, remote.id, connect_command(queue_id))
            .expect_err("this Connect is wrong");
        (cqe.status(), cqe.dw0())
    };
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    assert_eq!(refusal(&host(2), 2), (invalid, 0x10200));
    let other_machine = crate::world::Host { id: host(2).id, ..host(1) };
    assert_eq!(refusal(&other_machine, 2), (invalid, 0x10000));
    assert_eq!(refusal(&host(1), 129), (invalid, 42), "128 IO queues are granted");
    assert_eq!(refusal(&host(1), 1).0, Status::COMMAND_SEQUENCE_ERROR, "queue 1 is connected");
}

#[test]
fn connecting_without_flow_control_is_reported_to_the_transport() {
    let mut world = World::io();
    let command = ConnectCommand { attributes: 4, ..connect_command(0) };
    let (_, connected) = world.connect_with(&host(1), NQN, CNTLID_DYNAMIC, command).expect("a good Connect");
    assert!(connected.flow_control_disabled);
    assert_eq!((connected.entries, connected.cqe.dw0()), (32, u32::from(connected.controller_id)));
}

#[test]
fn nvme_cli_gets_an_answer_to_everything_it_asks() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let admin = remote.admin;
    // list-ns --all, list-ctrl, id-iocs.
    for asked in [0x10, 0x13, 0x1c] {
        assert!(world.identify(admin, asked, 0).is_ok(), "CNS {asked:#x}");
    }
    // id-nvmset, primary-ctrl-caps, id-uuid, id-domain, list-endgrp.
    for asked in [0x04, 0x14, 0x17, 0x18, 0x19] {
        assert_eq!(world.identify(admin, asked, 0), Err(Status::INVALID_FIELD), "CNS {asked:#x}");
    }
    // supported-log-pages, error-log -e 4, smart-log, fw-log, changed-ns-list-log, effects-log, ana-log, log 12h.
    for (page, length, nsid) in [
        (0x00, 1024, u32::MAX),
        (0x01, 256, u32::MAX),
        (0x02, 512, u32::MAX),
        (0x03, 512, u32::MAX),
        (0x04, 4096, u32::MAX),
        (0x05, 4096, u32::MAX),
        (0x0c, 4096, 0),
        (0x12, 1024, u32::MAX),
        (0x80, 64, u32::MAX),
    ] {
        let answer = world.log(admin, LogRequest::read(page, 0, length), nsid);
        assert_eq!(answer.map(|data| data.len() as u64), Ok(length), "log {page:#x}");
    }
    // self-test-log, endurance-log, persistent-event-log.
    for (page, length) in [(0x06, 564), (0x09, 512), (0x0d, 512)] {
        let answer = world.log(admin, LogRequest::read(page, 0, length), u32::MAX);
        assert_eq!(answer, Err(Status::INVALID_LOG_PAGE), "log {page:#x}");
    }
    // get-feature of supported features, and of interrupts and thermal management, which are not supported.
    for (feature, length) in
        [(1, 0), (2, 0), (4, 0), (5, 0), (6, 0), (7, 0), (0xa, 0), (0xb, 0), (0xe, 8), (0xf, 0), (0x16, 512)]
    {
        let (cqe, data) = world.get_feature(admin, feature, 1, length);
        assert_eq!((cqe.status(), data.len()), (Status::SUCCESS, length), "feature {feature:#x}");
    }
    for feature in [8, 9, 0x10, 0x84] {
        assert_eq!(world.get_feature(admin, feature, 1, 0).0.status(), Status::INVALID_FIELD, "{feature:#x}");
    }
    assert_eq!(world.get_feature(admin, 0x81, 1, 8).0.status(), Status::HOST_ID_INCONSISTENT_FORMAT);
    assert_eq!(world.get_feature(admin, 0x307, u32::MAX, 0).0.status(), Status::SUCCESS, "-s 3");
    // set-feature -f 0xf --value=10000.
    assert_eq!(world.set_feature(admin, 0x0f, 10_000).status(), Status::SUCCESS);
    assert_eq!(world.get_feature(admin, 0x0f, 0, 0).0.dw0(), 10_000);
    // show-regs: NSSR does not exist.
    assert_eq!(world.property(admin, 0x20), Err(Status::INVALID_FIELD));
    assert_eq!(world.tell(admin, property_set(0x20, 0), &[]), Status::INVALID_FIELD);
    // format, sanitize, device-self-test, create-ns, get-lba-status on the admin queue.
    for opcode in [0x80, 0x84, 0x14, 0x86] {
        assert_eq!(world.ask(admin, Sqe::new(opcode), 0).0.status(), Status::INVALID_OPCODE);
    }
    assert_eq!(world.tell(admin, Sqe::new(0x0d), &[0; 4096]), Status::INVALID_OPCODE);
    // write-uncor, and a copy of a block onto itself, on the IO queue.
    assert_eq!(world.ask(remote.io, io_command(0x04, 64, 8), 0).0.status(), Status::INVALID_OPCODE);
    let itself = Sqe::new(0x19).with_nsid(1);
    assert_eq!(world.tell(remote.io, itself, &[0; 32]), Status::OVERLAPPING_IO_RANGE);
    // error-log: has all those refusals.
    let errors =
        world.log(admin, LogRequest::read(log::ERROR_INFORMATION, 0, 64), u32::MAX).expect("log 01h");
    assert_eq!((errors[0], errors[8]), (22, 1), "the 22nd error came on queue 1");
}
