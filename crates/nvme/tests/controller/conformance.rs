//! Requirements of the NVMe specifications that the other files do not cover, one claim each.

use crate::world::{NQN, World, config, connect_command, host, io_command, property_set};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand};
use nvme::spec::identify::{IDENTIFY_SIZE, IdentifyCommand, NSID_ALL, cns, read_namespace_list};
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::offset;
use nvme::spec::{AnaState, Nqn, Sqe, Status};
use nvme::subsystem::{Action, BlockSize, IoOp, NamespaceInfo, Output, SubsystemConfig};

/// The status of the immediate completion. Any other action is not a refusal and counts as success.
fn status_of(action: &Action) -> Status {
    match action {
        Action::Reply { cqe, .. } => cqe.status(),
        _ => Status::SUCCESS,
    }
}

#[test]
fn properties_have_one_size_and_only_cc_is_written() {
    let mut world = World::io();
    let admin = world.admin(&host(1));
    let get =
        |property, size| Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([size, property, 0, 0, 0, 0]);
    for (property, size) in
        [(offset::CAP, 1), (offset::VS, 0), (offset::CC, 0), (offset::CSTS, 0), (offset::CRTO, 0)]
    {
        for asked in 0..8 {
            let expected = if asked == size { Status::SUCCESS } else { Status::INVALID_FIELD };
            assert_eq!(
                world.ask(admin, get(property, asked), 0).0.status(),
                expected,
                "{property:#x} by {asked}"
            );
        }
        if property != offset::CC {
            assert_eq!(world.ask(admin, property_set(property, 0), 0).0.status(), Status::INVALID_FIELD);
        }
    }
    assert_eq!(world.ask(admin, get(0x04, 0), 0).0.status(), Status::INVALID_FIELD, "half of CAP");
    assert_eq!(
        world.ask(admin, get(0x30, 0), 0).0.status(),
        Status::INVALID_FIELD,
        "AQA does not exist on fabrics"
    );
}

#[test]
fn the_capabilities_are_those_of_a_controller_over_fabrics() {
    let mut world = World::io();
    let admin = world.admin(&host(1));
    let cap = world.property(admin, offset::CAP).expect("CAP");
    assert_eq!(cap & 0xffff, 1023, "MQES, 0-based");
    assert_eq!(cap >> 16 & 1, 1, "CQR: queues are contiguous");
    assert_eq!(cap >> 17 & 3, 0, "AMS: round robin only");
    assert_ne!(cap >> 24 & 0xff, 0, "TO");
    assert_eq!(cap >> 32 & 0xf, 0, "DSTRD: there are no doorbells");
    assert_eq!(cap >> 36 & 1, 0, "NSSRS");
    assert_eq!(cap >> 37 & 0xff, 0b0100_0001, "CSS: the NVM command set, and command sets chosen by CC.CSS");
    assert_eq!(cap >> 48 & 0xf, 0, "MPSMIN: 4 KiB");
    assert_eq!(cap >> 59 & 3, 1, "CRMS: ready with media, which makes CRTO mandatory");
    assert_eq!(
        world.property(admin, offset::CRTO).map(|crto| crto & 0xffff),
        Ok(cap >> 24 & 0xff),
        "CRWMT is TO"
    );
}

#[test]
fn before_ready_only_properties_can_be_accessed() {
    let mut world = World::io();
    let admin = world.admin(&host(1));
    for opcode in
        [admin::GET_LOG_PAGE, admin::IDENTIFY, admin::ABORT, admin::SET_FEATURES, admin::GET_FEATURES]
    {
        assert_eq!(
            world.ask(admin, Sqe::new(opcode), 0).0.status(),
            Status::COMMAND_SEQUENCE_ERROR,
            "{opcode:#x}"
        );
    }
    for opcode in [admin::ASYNC_EVENT_REQUEST, admin::KEEP_ALIVE] {
        assert_eq!(
            world.ask(admin, Sqe::new(opcode), 0).0.status(),
            Status::COMMAND_SEQUENCE_ERROR,
            "{opcode:#x}"
        );
    }
    assert_eq!(world.property(admin, offset::CSTS), Ok(0));
    assert_eq!(world.property(admin, offset::CC), Ok(0), "the value after a reset");
}

#[test]
fn a_second_connect_on_a_queue_is_out_of_sequence() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let connect = connect_command(0).to_sqe();
    assert_eq!(world.tell(remote.admin, connect, &[0; 1024]), Status::COMMAND_SEQUENCE_ERROR);
    let status = world.tell(remote.io, connect, &[0; 1024]);
    assert!(!status.is_success(), "{status:?}");
}

#[test]
fn authentication_commands_without_a_protocol_are_refused_on_every_queue() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    for queue in [remote.admin, remote.io] {
        for fctype in [0x05, 0x06] {
            let status = world.ask(queue, Sqe::fabrics(fctype), 0).0.status();
            assert_eq!(status, Status::INVALID_FIELD, "{fctype:#x}");
        }
    }
}

#[test]
fn unsupported_fabrics_commands_are_invalid_opcodes() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    // Disconnect, reserved and vendor specific commands.
    for fctype in [0x08, 0x0c, 0x80, 0xc0] {
        assert_eq!(
            world.ask(admin, Sqe::fabrics(fctype), 0).0.status(),
            Status::INVALID_OPCODE,
            "{fctype:#x}"
        );
    }
}

#[test]
fn exactly_the_listed_commands_are_supported() {
    for (role, mut world) in
        [("io", World::io()), ("discovery", World::new(SubsystemConfig::discovery("gimbal-d")))]
    {
        let admin = world.admin(&host(1));
        world.configure(admin, 0x460061);
        let io = (role == "io").then(|| world.connect(&host(1), 1, 1));
        let effects =
            world.log(admin, LogRequest::read(log::COMMANDS_SUPPORTED, 0, 4096), 0).expect("log 05h");
        for (queue, start) in [(Some(admin), 0), (io, 1024)] {
            let Some(queue) = queue else { continue };
            for opcode in (0..=0xffu8).filter(|&opcode| opcode != nvme::spec::sqe::OPCODE_FABRICS) {
                let is_listed = effects[start + 4 * usize::from(opcode)] & 1 == 1;
                let status = status_of(&world.send(queue, Sqe::new(opcode).with_nsid(1), 0, &[]));
                assert_eq!(status != Status::INVALID_OPCODE, is_listed, "{role}: {opcode:#x}: {status:?}");
            }
        }
    }
}

#[test]
fn a_connect_that_names_a_controller_is_refused() {
    let mut world = World::io();
    // FFFEh requests any controller in the static model.
    for wanted in [0, 0xfffe, 0xfff0, 7] {
        let refused =
            world.connect_with(&host(1), NQN, wanted, connect_command(0)).expect_err("no such controller");
        assert_eq!(
            (refused.status(), refused.dw0()),
            (Status::CONNECT_INVALID_PARAMETERS, 0x10010),
            "{wanted:#x}"
        );
    }
}

#[test]
fn an_admin_queue_may_have_as_many_entries_as_a_controller_must_offer() {
    let mut world = World::io();
    for sqsize in [1, 31, 1023] {
        let command = ConnectCommand { sqsize, ..connect_command(0) };
        let (_, connected) =
            world.connect_with(&host(1), NQN, CNTLID_DYNAMIC, command).expect("a good Connect");
        assert_eq!(connected.entries, u32::from(sqsize) + 1);
    }
}

#[test]
fn the_keep_alive_timeout_of_an_io_queue_is_ignored() {
    let mut world = World::io();
    let admin = ConnectCommand { keep_alive_timeout: 0, ..connect_command(0) };
    let (admin, connected) =
        world.connect_with(&host(1), NQN, CNTLID_DYNAMIC, admin).expect("a good Connect");
    world.configure(admin, 0x460061);
    let io = ConnectCommand { keep_alive_timeout: 100, ..connect_command(1) };
    world.connect_with(&host(1), NQN, connected.controller_id, io).expect("a good Connect");
    assert_eq!(world.subsystem.next_timeout(), None);
}

#[test]
fn a_new_keep_alive_timeout_counts_from_when_it_is_set() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    world.advance(4000);
    assert!(world.set_feature(admin, 0x0f, 20_000).status().is_success());
    while let Some(next) = world.subsystem.next_timeout() {
        let silent = next.since(world.now);
        world.now = next;
        if !world.outputs().is_empty() {
            return assert!(silent.get() >= 20_000_000_000 / 2, "dropped {silent} after the last check");
        }
    }
    panic!("a silent host is dropped");
}

#[test]
fn a_flush_takes_one_existing_namespace() {
    let read_only = NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B4096, 8) };
    let mut world = World::new(config().with_namespace(2, read_only));
    let io = world.remote(&host(1)).io;
    for nsid in [0, 3, NSID_ALL] {
        let flush = Sqe::new(nvm::FLUSH).with_nsid(nsid);
        assert_eq!(world.ask(io, flush, 0).0.status(), Status::INVALID_NAMESPACE, "nsid {nsid:#x}");
    }
    for nsid in [1, 2] {
        let action = world.send(io, Sqe::new(nvm::FLUSH).with_nsid(nsid), 0, &[]);
        assert!(matches!(&action, Action::Io(command) if command.op == IoOp::Flush && command.nsid == nsid));
    }
}

#[test]
fn a_write_protected_namespace_refuses_every_write() {
    let read_only = NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B4096, 8) };
    let mut world = World::new(config().with_namespace(2, read_only));
    let io = world.remote(&host(1)).io;
    for (opcode, length) in [(nvm::WRITE, 4096), (nvm::WRITE_ZEROES, 0)] {
        let sqe = io_command(opcode, 0, 1).with_nsid(2);
        assert_eq!(world.tell(io, sqe, &vec![0; length]), Status::WRITE_PROTECTED, "{opcode:#x}");
    }
    // Attribute Deallocate; hints alone change nothing.
    for (attributes, status) in [(4, Status::WRITE_PROTECTED), (1, Status::SUCCESS)] {
        let sqe = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(2).with_cdw10_15([0, attributes, 0, 0, 0, 0]);
        assert_eq!(world.tell(io, sqe, &[0; 16]), status, "attributes {attributes:#x}");
    }
    for (opcode, length) in [(nvm::READ, 4096), (nvm::COMPARE, 4096), (nvm::VERIFY, 0)] {
        let sqe = io_command(opcode, 0, 1).with_nsid(2);
        assert!(matches!(world.send(io, sqe, length, &vec![0; length]), Action::Io(_)), "{opcode:#x}");
    }
}

#[test]
fn every_block_command_is_checked_against_the_size_of_the_namespace() {
    let mut world = World::new(config().with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 8)));
    let io = world.remote(&host(1)).io;
    let commands = [
        (nvm::READ, 4096),
        (nvm::WRITE, 4096),
        (nvm::COMPARE, 4096),
        (nvm::VERIFY, 0),
        (nvm::WRITE_ZEROES, 0),
    ];
    for (opcode, length) in commands {
        let last = io_command(opcode, 7, 1).with_nsid(2);
        assert!(matches!(world.send(io, last, length, &vec![0; length]), Action::Io(_)), "{opcode:#x}");
        let beyond = io_command(opcode, 8, 1).with_nsid(2);
        assert_eq!(world.tell(io, beyond, &vec![0; length]), Status::LBA_OUT_OF_RANGE, "{opcode:#x}");
    }
    let verify = |blocks| io_command(nvm::VERIFY, 0, blocks);
    assert!(matches!(world.send(io, verify(2048), 0, &[]), Action::Io(_)), "as long as VSL");
    assert_eq!(world.tell(io, verify(2049), &[]), Status::INVALID_FIELD, "longer than VSL");
}

#[test]
fn a_dataset_command_is_checked_range_by_range() {
    let mut world = World::new(config().with_namespace(2, NamespaceInfo::new(BlockSize::B4096, 1000)));
    let io = world.remote(&host(1)).io;
    let mut ask = |attributes: u32, ranges: &[(u32, u64)]| {
        let bytes = ranges
            .iter()
            .map(|(blocks, lba)| [&[0; 4][..], &blocks.to_le_bytes(), &lba.to_le_bytes()].concat());
        let bytes = bytes.collect::<Vec<_>>().concat();
        let dwords = [ranges.len() as u32 - 1, attributes, 0, 0, 0, 0];
        let sqe = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(2).with_cdw10_15(dwords);
        match world.send(io, sqe, bytes.len(), &bytes) {
            Action::Io(command) => match command.op {
                IoOp::Deallocate(ranges) => Ok(ranges.len()),
                other => panic!("{other:?}"),
            },
            action => Err(status_of(&action)),
        }
    };
    const DEALLOCATE: u32 = 4;
    assert_eq!(ask(DEALLOCATE, &[(8, 0), (1, 999)]), Ok(2));
    assert_eq!(ask(DEALLOCATE, &[(8, 0), (1, 1000)]), Err(Status::LBA_OUT_OF_RANGE), "the second range");
    assert_eq!(ask(DEALLOCATE, &[(u32::MAX, u64::MAX)]), Err(Status::LBA_OUT_OF_RANGE), "no wrap-around");
    assert_eq!(ask(DEALLOCATE, &[(1, 5); 256]), Ok(256), "as many ranges as there can be");
    assert_eq!(ask(DEALLOCATE, &[(0, 0), (4, 4)]), Ok(1), "an empty range is skipped");
    assert_eq!(ask(DEALLOCATE, &[(0, 0)]), Err(Status::SUCCESS), "a command with only empty ranges succeeds");
    assert_eq!(ask(3, &[(8, 0)]), Err(Status::SUCCESS), "hints are accepted and ignored");
}

#[test]
fn a_namespace_list_starts_after_the_given_identifier() {
    let small = || NamespaceInfo::new(BlockSize::B4096, 8);
    let mut world = World::new(config().with_namespace(3, small()).with_namespace(9, small()));
    let admin = world.remote(&host(1)).admin;
    for asked in [cns::ACTIVE_NAMESPACES, cns::ACTIVE_NAMESPACES_OF_COMMAND_SET] {
        for (after, expected) in [(0, &[1, 3, 9][..]), (1, &[3, 9]), (8, &[9]), (9, &[]), (0xffff_fffd, &[])]
        {
            let list = world.identify(admin, asked, after).expect("a list");
            assert!(read_namespace_list(&list).eq(expected.iter().copied()), "CNS {asked:#x} after {after}");
        }
        for nsid in [0xffff_fffe, NSID_ALL] {
            assert_eq!(world.identify(admin, asked, nsid), Err(Status::INVALID_NAMESPACE), "CNS {asked:#x}");
        }
    }
}

#[test]
fn a_controller_list_starts_at_the_given_identifier() {
    let mut world = World::io();
    let ids: Vec<u16> = (1..=4).map(|number| world.remote(&host(number)).id).collect();
    let admin = world.admin(&host(5));
    world.configure(admin, 0x460061);
    let mut list = |cns, controller_id| {
        let command = IdentifyCommand { cns, controller_id, command_set: 0 };
        let page = world.ask(admin, command.to_sqe(1), IDENTIFY_SIZE).1;
        let count = usize::from(u16::from_le_bytes([page[0], page[1]]));
        page[2..2 + 2 * count].chunks(2).map(|id| u16::from_le_bytes([id[0], id[1]])).collect::<Vec<_>>()
    };
    for cns in [cns::CONTROLLERS, cns::CONTROLLERS_OF_NAMESPACE] {
        assert_eq!(list(cns, 0), [&ids[..], &[5]].concat());
        assert_eq!(list(cns, ids[2]), [ids[2], ids[3], 5], "starting with this one, ascending");
        assert_eq!(list(cns, 6), [0; 0]);
    }
}

#[test]
fn an_inactive_namespace_is_all_zeroes_and_an_invalid_one_is_refused() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    assert_eq!(world.identify(admin, cns::NAMESPACE, 7), Ok(vec![0; 4096]));
    for nsid in [0, 4097, NSID_ALL] {
        assert_eq!(world.identify(admin, cns::NAMESPACE, nsid), Err(Status::INVALID_NAMESPACE), "{nsid}");
        assert_eq!(
            world.identify(admin, cns::NAMESPACE_DESCRIPTORS, nsid),
            Err(Status::INVALID_NAMESPACE),
            "{nsid}"
        );
    }
    let sqe = IdentifyCommand { cns: cns::CONTROLLER, controller_id: 0, command_set: 0 }.to_sqe(0);
    assert_eq!(world.ask(admin, sqe, 4092).0.status(), Status::DATA_SGL_LENGTH_INVALID, "exactly 4096 bytes");
}

#[test]
fn namespace_descriptors_name_the_command_set_and_end_with_zeroes() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 1).expect("CNS 03h");
    let (mut at, mut kinds) = (0, Vec::new());
    while page[at + 1] != 0 {
        assert_eq!(page[at + 2..at + 4], [0, 0], "reserved");
        kinds.push((page[at], page[at + 1]));
        at += 4 + usize::from(page[at + 1]);
    }
    assert!(page[at..].iter().all(|&byte| byte == 0));
    let length_of = |kind| match kind {
        1 => 8,
        2 | 3 => 16,
        _ => 1,
    };
    assert!(kinds.iter().all(|&(kind, length)| length == length_of(kind)), "{kinds:?}");
    assert!(kinds.contains(&(3, 16)), "a UUID");
    assert!(kinds.contains(&(4, 1)), "CSI, because command sets can be selected");
}

#[test]
fn an_unreachable_group_refuses_io_commands_but_no_queries() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    for (state, status) in [
        (AnaState::Inaccessible, Status::ANA_INACCESSIBLE),
        (AnaState::PersistentLoss, Status::ANA_PERSISTENT_LOSS),
        (AnaState::Change, Status::ANA_TRANSITION),
    ] {
        world.subsystem.set_ana_state(1, state).expect("a group");
        let report = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([15, 1, 0, 0, 0, 0]);
        let register = Sqe::new(nvm::RESERVATION_REGISTER).with_nsid(1);
        let acquire = Sqe::new(nvm::RESERVATION_ACQUIRE).with_nsid(1).with_cdw10_15([1 << 8, 0, 0, 0, 0, 0]);
        let release = Sqe::new(nvm::RESERVATION_RELEASE).with_nsid(1).with_cdw10_15([1 << 8, 0, 0, 0, 0, 0]);
        for (sqe, length) in [
            (io_command(nvm::READ, 0, 1), 512),
            (io_command(nvm::WRITE, 0, 1), 512),
            (io_command(nvm::COMPARE, 0, 1), 512),
            (io_command(nvm::VERIFY, 0, 1), 0),
            (io_command(nvm::WRITE_ZEROES, 0, 1), 0),
            (io_command(nvm::FLUSH, 0, 1), 0),
            (io_command(nvm::DATASET_MANAGEMENT, 0, 1), 16),
            (report, 64),
            (register, 16),
            (acquire, 16),
            (release, 8),
        ] {
            let refused = status_of(&world.send(remote.io, sqe, length, &vec![0; length]));
            assert_eq!(refused, status, "{:#x} in {state:?}", sqe.opcode());
        }
        world.identify(remote.admin, cns::NAMESPACE, 1).expect("CNS 00h");
        let page = world.log(remote.admin, LogRequest::read(log::ANA, 0, 64), NSID_ALL).expect("log 0Ch");
        assert_eq!(page[32] & 0xf, state.to_wire());
    }
}

#[test]
fn the_access_log_counts_changes_and_may_leave_namespaces_out() {
    let grouped = |ana_group| NamespaceInfo { ana_group, ..NamespaceInfo::new(BlockSize::B4096, 8) };
    let mut world = World::new(config().with_namespace(2, grouped(5)).with_namespace(3, grouped(5)));
    let admin = world.remote(&host(1)).admin;
    let read = |world: &mut World, specific| {
        let request = LogRequest { specific, ..LogRequest::read(log::ANA, 0, 256) };
        world.log(admin, request, NSID_ALL).expect("log 0Ch")
    };
    let before = read(&mut world, 0);
    let dword = |page: &[u8], at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
    assert_eq!([dword(&before, 8), dword(&before, 16), dword(&before, 20), dword(&before, 48)], [2, 1, 1, 1]);
    assert_eq!([52, 56, 84, 88].map(|at| dword(&before, at)), [5, 2, 2, 3], "group 5 has namespaces 2 and 3");
    let groups = read(&mut world, 1);
    assert_eq!([16, 20, 48, 52].map(|at| dword(&groups, at)), [1, 0, 5, 0], "groups only");
    world.subsystem.set_ana_state(5, AnaState::NonOptimized).expect("a group");
    let after = read(&mut world, 0);
    assert!(dword(&after, 0) > dword(&before, 0));
    assert_eq!((after[32], after[52 + 16]), (1, 2), "the states of both groups");
}

#[test]
fn there_is_no_health_page_of_one_namespace() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(page[261] & 1, 0, "LPA");
    assert_eq!(world.log(admin, LogRequest::read(log::HEALTH, 0, 512), 1), Err(Status::INVALID_FIELD));
    for nsid in [0, NSID_ALL] {
        assert!(world.log(admin, LogRequest::read(log::HEALTH, 0, 512), nsid).is_ok());
    }
}

#[test]
fn as_many_event_requests_may_wait_as_aerl_says() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let limit = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h")[259];
    for _ in 0..=limit {
        assert_eq!(world.request_event(admin), None);
    }
    let refused = world.request_event(admin).expect("refused at once");
    assert_eq!(refused.status(), Status::ASYNC_EVENT_LIMIT_EXCEEDED);
}

#[test]
fn an_event_without_a_request_is_reported_to_the_next_request() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    world.set_feature(admin, 0x0b, 0x900);
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    assert_eq!(world.outputs(), []);
    let cqe = world.request_event(admin).expect("the event was waiting");
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 0x0c0302));
}

#[test]
fn a_reset_takes_back_event_requests_without_an_answer() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    world.set_feature(admin, 0x0b, 0x900);
    assert_eq!(world.request_event(admin), None);
    assert_eq!(world.request_event(admin), None);
    world.configure(admin, 0x460060);
    let of_admin = |output: &&Output| matches!(output, Output::Forget { queue, .. } if *queue == admin);
    assert_eq!(world.outputs().iter().filter(of_admin).count(), 2);
    world.configure(admin, 0x460061);
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    assert_eq!(world.outputs(), []);
}

#[test]
fn invalid_numbers_of_queues_are_refused() {
    let mut world = World::io();
    let admin = world.admin(&host(1));
    world.configure(admin, 0x460061);
    for value in [0xffff, 0xffff_0000, 0xffff_ffff] {
        assert_eq!(world.set_feature(admin, 0x07, value).status(), Status::INVALID_FIELD, "{value:#x}");
    }
    assert_eq!(world.set_feature(admin, 0x07, 0xfffe_fffe).dw0(), 127 << 16 | 127, "as many as there are");
}

#[test]
fn a_discovery_controller_has_no_namespaces_and_nothing_of_them() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let admin = world.admin(&host(1));
    world.configure(admin, 0x460061);
    let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!((page[111], &page[516..520]), (2, &[0; 4][..]), "CNTRLTYPE discovery, NN 0");
    let name = Nqn::DISCOVERY.as_bytes();
    assert_eq!(&page[768..768 + name.len()], name, "SUBNQN");
    for asked in [cns::NAMESPACE, cns::ACTIVE_NAMESPACES, cns::NAMESPACE_DESCRIPTORS, cns::CONTROLLERS] {
        assert_eq!(world.identify(admin, asked, 1), Err(Status::INVALID_FIELD), "CNS {asked:#x}");
    }
    for page in [log::FIRMWARE_SLOTS, log::CHANGED_NAMESPACES, log::ANA, log::RESERVATION_NOTIFICATION] {
        assert_eq!(
            world.log(admin, LogRequest::read(page, 0, 64), 0),
            Err(Status::INVALID_LOG_PAGE),
            "{page:#x}"
        );
    }
    assert_eq!(world.set_feature(admin, 0x07, 0).status(), Status::INVALID_FIELD, "there are no IO queues");
    assert_eq!(world.tell(admin, Sqe::new(admin::KEEP_ALIVE), &[]), Status::SUCCESS);
}

#[test]
fn a_discovery_log_without_records_is_a_header() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let admin = world.admin(&host(1));
    world.configure(admin, 0x460061);
    let page = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 1024), 0).expect("log 70h");
    assert_eq!((page.len(), &page[8..16]), (1024, &[0; 8][..]), "NUMREC 0");
    assert_eq!(&page[16..18], &[0; 2], "RECFMT 0");
}

#[test]
fn commands_that_fuse_or_use_prps_are_refused_on_the_admin_queue() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let keep_alive = Sqe::new(admin::KEEP_ALIVE);
    for fused in [0x41, 0x42, 0x43] {
        assert_eq!(world.tell(admin, keep_alive.with_flags(fused), &[]), Status::INVALID_FIELD);
    }
}

#[test]
fn features_refuse_reserved_values() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let refused = [
        (0x02, 1, "a power state beyond NPSS"),
        (0x04, 1 << 16, "a temperature sensor that does not exist"),
        (0x04, 2 << 20, "a reserved kind of threshold"),
        (0xc0, 2, "a reserved bit of credits"),
    ];
    for (id, value, what) in refused {
        assert_eq!(world.set_feature(admin, id, value).status(), Status::INVALID_FIELD, "{what}");
    }
    assert_eq!(
        world.set_feature(admin, 0x04, 1 << 20 | 300).status(),
        Status::SUCCESS,
        "an under temperature threshold"
    );
    let under = Sqe::new(admin::GET_FEATURES).with_cdw10_15([0x04, 1 << 20, 0, 0, 0, 0]);
    assert_eq!(world.ask(admin, under, 0).0.dw0(), 300);
    assert_eq!(
        world.get_feature(admin, 0x04, 0, 0).0.dw0(),
        0xffff,
        "the over temperature threshold is separate"
    );
    let behavior = Sqe::new(admin::SET_FEATURES).with_cdw10_15([0x16, 0, 0, 0, 0, 0]);
    let mut bytes = [0; 512];
    bytes[0] = 1;
    assert_eq!(world.tell(admin, behavior, &bytes), Status::SUCCESS);
    assert_eq!(world.get_feature(admin, 0x16, 0, 512).1, bytes);
    bytes[0] = 2;
    assert_eq!(world.tell(admin, behavior, &bytes), Status::INVALID_FIELD, "a reserved value");
}

#[test]
fn an_unsupported_command_set_is_refused_everywhere() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let asked = [
        cns::NAMESPACE_OF_COMMAND_SET,
        cns::CONTROLLER_OF_COMMAND_SET,
        cns::ACTIVE_NAMESPACES_OF_COMMAND_SET,
    ];
    for cns in asked {
        for (command_set, status) in [(0, Status::SUCCESS), (2, Status::INVALID_FIELD)] {
            let command = IdentifyCommand { cns, controller_id: 0, command_set };
            assert_eq!(world.ask(admin, command.to_sqe(1), IDENTIFY_SIZE).0.status(), status, "CNS {cns:#x}");
        }
    }
    let effects = LogRequest { command_set: 2, ..LogRequest::read(log::COMMANDS_SUPPORTED, 0, 4096) };
    assert_eq!(world.log(admin, effects, 0), Err(Status::INVALID_FIELD));
}

#[test]
fn the_firmware_page_has_the_active_slot() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.log(admin, LogRequest::read(log::FIRMWARE_SLOTS, 0, 512), NSID_ALL).expect("log 03h");
    let identify = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!((page[0] & 7, &page[8..16]), (1, &identify[64..72]), "slot 1 is active and has FR");
    assert_eq!(identify[260] >> 1 & 7, 1, "FRMW: one slot");
}

#[test]
fn the_sizes_of_a_namespace_agree() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::NAMESPACE, 1).expect("CNS 00h");
    let [nsze, ncap, nuse] =
        [0, 8, 16].map(|at| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes")));
    assert!(nuse <= ncap && ncap <= nsze && nsze > 0, "{nuse} of {ncap} of {nsze}");
    let (format, metadata) = (page[26] & 0xf, &page[128..130]);
    assert_eq!((format, metadata, page[130]), (0, &[0, 0][..], 9), "512 bytes without metadata");
    assert_eq!((page[28], page[29]), (0, 0), "no protection information");
}

#[test]
fn identify_says_how_long_commands_may_outlive_their_connection() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_ne!(u16::from_le_bytes([page[386], page[387]]), 0, "CQT in milliseconds; 0 is not reported");
}
