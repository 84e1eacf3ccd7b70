//! A subsystem beyond the bring-up of one host: limits, timers, events, features, logs.

use crate::world::{BLOCKS, NQN, World, config, connect_command, host, io_command, property_set};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData};
use nvme::spec::dataset::AccessLatency;
use nvme::spec::discovery::TransportType;
use nvme::spec::feature::supported;
use nvme::spec::identify::{cns, read_namespace_list};
use nvme::spec::identify_controller::IdentifyController;
use nvme::spec::identify_namespace::IdentifyNamespace;
use nvme::spec::log::{self, HealthPage, LogRequest};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{AnaState, Nqn, Sqe, Status};
use nvme::subsystem::{
    Action, Arrival, BlockSize, CloseReason, ConfigError, ControllerIds, DiscoveryAddress, DiscoveryRecord,
    HostAccess, Limits, NamespaceInfo, Output, QueueKey, Subsystem, SubsystemConfig, read_connect,
};
use units::{Bytes, Instant, Nanos};
use zerocopy::FromBytes;

#[test]
fn io_needs_a_ready_controller() {
    let mut world = World::io();
    let linux = host(1);
    let admin = world.admin(&linux);
    let refused = world.connect_with(&linux, NQN, 1, connect_command(1)).expect_err("not enabled");
    assert_eq!(refused.status(), Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(world.identify(admin, cns::CONTROLLER, 0), Err(Status::COMMAND_SEQUENCE_ERROR));
    world.configure(admin, 0x460061);
    let io = world.connect(&linux, 1, 1);
    assert!(matches!(world.send(io, io_command(nvm::READ, 0, 1), 512, &[]), Action::Io(_)));
    world.configure(admin, 0x464061);
    let (cqe, _) = world.ask(io, io_command(nvm::READ, 0, 1), 512);
    assert_eq!(cqe.status(), Status::COMMAND_SEQUENCE_ERROR, "shut down");
}

#[test]
fn only_a_reset_revives_a_controller_that_was_shut_down() {
    let mut world = World::io();
    let linux = host(1);
    let remote = world.remote(&linux);
    world.configure(remote.admin, 0x464061);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0x9), "ready, SHST complete");
    world.configure(remote.admin, 0x460061);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0x9), "SHN 0 does not restart it");
    let (cqe, _) = world.ask(remote.io, io_command(nvm::READ, 0, 1), 512);
    assert_eq!(cqe.status(), Status::COMMAND_SEQUENCE_ERROR);
    let refused = world.connect_with(&linux, NQN, remote.id, connect_command(2)).expect_err("shut down");
    assert_eq!(refused.status(), Status::COMMAND_SEQUENCE_ERROR);
    world.configure(remote.admin, 0x460060);
    world.subsystem.on_disconnect(world.now, remote.io);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0), "the IO queue has ended");
    world.configure(remote.admin, 0x464060);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(0x8), "shut down while it is disabled");
    world.configure(remote.admin, 0x460061);
    assert_eq!(world.property(remote.admin, offset::CSTS), Ok(1), "enabled again");
}

#[test]
fn the_number_of_queues_is_set_before_the_first_queue() {
    let mut world = World::io();
    let linux = host(1);
    let admin = world.admin(&linux);
    world.configure(admin, 0x460061);
    let count = |world: &mut World| world.set_feature(admin, 0x07, 0x0003_0003).status();
    assert_eq!((count(&mut world), count(&mut world)), (Status::SUCCESS, Status::SUCCESS));
    let io = world.connect(&linux, 1, 1);
    assert_eq!(count(&mut world), Status::COMMAND_SEQUENCE_ERROR);
    world.subsystem.on_disconnect(world.now, io);
    assert_eq!(count(&mut world), Status::COMMAND_SEQUENCE_ERROR, "there has been one since the reset");
    world.configure(admin, 0x460060);
    world.configure(admin, 0x460061);
    assert_eq!(count(&mut world), Status::SUCCESS);
}

#[test]
fn a_namespace_reports_all_its_identifiers() {
    let info = NamespaceInfo {
        nguid: Some([7; 16]),
        eui64: Some([5; 8]),
        ..NamespaceInfo::new(BlockSize::B4096, 100)
    };
    let mut world = World::new(config().with_namespace(2, info));
    let admin = world.remote(&host(1)).admin;
    let page = world.identify(admin, cns::NAMESPACE, 2).expect("CNS 00h");
    assert_eq!((&page[104..120], &page[120..128]), (&[7; 16][..], &[5; 8][..]));
    let list = world.identify(admin, cns::NAMESPACE_DESCRIPTORS, 2).expect("CNS 03h");
    assert_eq!((&list[..5], &list[12..17]), (&[1, 8, 0, 0, 5][..], &[2, 16, 0, 0, 7][..]));
    assert_eq!(list[32..34], [3, 16], "and a UUID");
}

#[test]
fn unsupported_settings_are_fatal_until_a_reset() {
    let mut world = World::io();
    let admin = world.admin(&host(1));
    world.configure(admin, 0x450061);
    assert_eq!(world.property(admin, offset::CSTS), Ok(2), "CFS");
    world.configure(admin, 0x460060);
    world.configure(admin, 0x460061);
    assert_eq!(world.property(admin, offset::CSTS), Ok(1));
}

#[test]
fn the_number_of_controllers_is_limited_and_their_identifiers_differ() {
    let mut small = config();
    small.limits = Limits { controllers_max: 3, controllers_per_host_max: 2, ..Limits::default() };
    let mut world = World::new(small);
    let connect = |world: &mut World, number| {
        let connected = world.connect_with(&host(number), NQN, CNTLID_DYNAMIC, connect_command(0));
        connected.map(|(key, connected)| (key, connected.controller_id)).map_err(|cqe| cqe.status())
    };
    let (first, id) = connect(&mut world, 1).expect("room for the first");
    assert_eq!(id, 1);
    assert_eq!(connect(&mut world, 1).map(|(_, id)| id), Ok(2));
    assert_eq!(connect(&mut world, 1), Err(Status::CONNECT_CONTROLLER_BUSY), "at most two of one host");
    assert_eq!(connect(&mut world, 2).map(|(_, id)| id), Ok(3));
    assert_eq!(connect(&mut world, 3), Err(Status::CONNECT_CONTROLLER_BUSY), "at most three in total");
    world.subsystem.on_disconnect(world.now, first);
    assert_eq!(connect(&mut world, 3).map(|(_, id)| id), Ok(4), "1 is not reused soon");
}

/// Linux takes "controller busy" without DNR for a reason to try again later.
#[test]
fn identifiers_come_out_of_their_range_and_an_exhausted_one_is_busy() {
    let mut ranged = config();
    let ids = ControllerIds::new(32_768, 32_770).expect("the range is in order");
    ranged.limits = Limits { controller_ids: ids, ..Limits::default() };
    let mut world = World::new(ranged);
    let connect = |world: &mut World, number| {
        let connected = world.connect_with(&host(number), NQN, CNTLID_DYNAMIC, connect_command(0));
        connected.map(|(key, connected)| (key, connected.controller_id)).map_err(|cqe| cqe.status())
    };
    let (first, id) = connect(&mut world, 1).expect("room for the first");
    assert_eq!(id, 32_768);
    assert_eq!(connect(&mut world, 2).map(|(_, id)| id), Ok(32_769));
    assert_eq!(connect(&mut world, 3).map(|(_, id)| id), Ok(32_770));
    assert_eq!(connect(&mut world, 4), Err(Status::CONNECT_CONTROLLER_BUSY));
    assert_ne!(Status::CONNECT_CONTROLLER_BUSY, Status::CONNECT_CONTROLLER_BUSY.do_not_retry());
    world.subsystem.on_disconnect(world.now, first);
    assert_eq!(connect(&mut world, 4).map(|(_, id)| id), Ok(32_768), "it begins again");
}

/// Hosts connect, disconnect and fall silent at random. A plain list says which controllers must exist.
#[test]
fn the_indexes_of_controllers_match_a_plain_list() {
    let mut crowd = config();
    crowd.limits = Limits { controllers_max: 20, controllers_per_host_max: 5, ..Limits::default() };
    let mut world = World::new(crowd);
    // The controllers: host, admin queue, identifier, and when the timer expires.
    let mut there: Vec<(u8, QueueKey, u16, Instant)> = Vec::new();
    let mut dice = 1u64;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (dice >> 33) % sides
    };
    for _ in 0..3000 {
        match roll(5) {
            0 | 1 => {
                let number = roll(6) as u8;
                let command =
                    ConnectCommand { keep_alive_timeout: 1000 * (1 + roll(5) as u32), ..connect_command(0) };
                let connected = world.connect_with(&host(number), NQN, CNTLID_DYNAMIC, command);
                let of_host = there.iter().filter(|(other, ..)| *other == number).count();
                assert_eq!(connected.is_ok(), there.len() < 20 && of_host < 5);
                if let Ok((key, connected)) = connected {
                    let until = world.now + Nanos::millis(command.keep_alive_timeout.into());
                    assert!(there.iter().all(|(_, _, id, _)| *id != connected.controller_id));
                    there.push((number, key, connected.controller_id, until));
                }
            }
            2 if !there.is_empty() => {
                let (_, key, ..) = there.swap_remove(roll(there.len() as u64) as usize);
                world.subsystem.on_disconnect(world.now, key);
            }
            3 if !there.is_empty() => {
                // Set Features sets a new timeout, which restarts the timer.
                let index = roll(there.len() as u64) as usize;
                let millis = 1000 * (1 + roll(5) as u32);
                world.configure(there[index].1, Configuration::host(true).enabled().0);
                assert!(world.set_feature(there[index].1, 0x0f, millis).status().is_success());
                there[index].3 = world.now + Nanos::millis(millis.into());
            }
            _ => world.advance(roll(400)),
        }
        let mut gone: Vec<QueueKey> =
            there.iter().filter(|(.., until)| *until <= world.now).map(|(_, key, ..)| *key).collect();
        there.retain(|(.., until)| *until > world.now);
        let mut closed: Vec<QueueKey> = world
            .outputs()
            .into_iter()
            .map(|output| match output {
                Output::CloseQueue { queue, reason: CloseReason::KeepAliveTimeout } => queue,
                other => panic!("{other:?}"),
            })
            .collect();
        gone.sort_unstable_by_key(|key| key.slot);
        closed.sort_unstable_by_key(|key| key.slot);
        assert_eq!(closed, gone);
        closed.into_iter().for_each(|key| world.subsystem.on_disconnect(world.now, key));
        let mut ids: Vec<u16> = there.iter().map(|(_, _, id, _)| *id).collect();
        let mut found: Vec<u16> = world.subsystem.controllers().map(|(id, _)| id).collect();
        ids.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, ids);
        assert!(world.subsystem.next_timeout() <= there.iter().map(|(.., until)| *until).min());
        assert_eq!(world.subsystem.next_timeout().is_some(), !there.is_empty());
    }
}

#[test]
fn controller_identifiers_wrap_around_past_those_in_use() {
    let mut world = World::io();
    let stays = world.admin(&host(1));
    let mut last = 1;
    for _ in 0..70_000 {
        let key = QueueKey { slot: 9, generation: 0 };
        let data = nvme::spec::ConnectData::new(
            host(2).id,
            &host(2).nqn,
            &Nqn::new(NQN).expect("a good name"),
            CNTLID_DYNAMIC,
        );
        let sqe = connect_command(0).to_sqe();
        let id = world.subsystem.on_connect(world.now, key, &sqe, &data).expect("room").controller_id;
        assert!((2..=0xffef).contains(&id), "identifier {id} is in use or not allowed");
        assert_ne!(id, last);
        last = id;
        world.subsystem.on_disconnect(world.now, key);
    }
    assert!(world.property(stays, offset::CSTS).is_ok());
}

#[test]
fn a_host_that_falls_silent_loses_its_controller() {
    let mut world = World::io();
    let (silent, busy) = (world.remote(&host(1)), world.remote(&host(2)));
    let mut closed = Vec::new();
    while closed.is_empty() {
        world.now = world.subsystem.next_timeout().expect("two timers run");
        assert!(matches!(world.send(busy.io, io_command(nvm::READ, 0, 1), 512, &[]), Action::Io(_)));
        closed = world.outputs();
    }
    let close = |queue| Output::CloseQueue { queue, reason: CloseReason::KeepAliveTimeout };
    assert_eq!(closed, [close(silent.io), close(silent.admin)]);
    let after = world.now.since(units::Instant(1_000_000_000));
    assert!(
        (Nanos::secs(5)..=Nanos::secs(10)).contains(&after),
        "dropped after {after} with a timeout of 5 s"
    );
    assert!(world.subsystem.controllers().map(|(id, _)| id).eq([busy.id]));
    // The connections close later; nothing else must follow.
    world.subsystem.on_disconnect(world.now, silent.io);
    world.subsystem.on_disconnect(world.now, silent.admin);
    assert_eq!(world.outputs(), []);
}

#[test]
fn time_in_which_the_target_did_not_run_ends_no_controller() {
    let mut world = World::io();
    let (first, second) = (world.remote(&host(1)), world.remote(&host(2)));
    let due = world.subsystem.next_timeout().expect("two timers run");
    // Commands set a flag only: both timers are checked, and run once more.
    for remote in [first, second] {
        assert!(matches!(world.send(remote.io, io_command(nvm::READ, 0, 1), 512, &[]), Action::Io(_)));
    }
    world.now = due;
    assert_eq!(world.outputs(), []);
    world.subsystem.extend(Nanos::secs(1000));
    let extended = world.subsystem.next_timeout().expect("two timers run");
    assert!(extended >= due + Nanos::secs(1000) && extended < due + Nanos::secs(1010));
    world.now = due + Nanos::secs(1000);
    assert_eq!(world.outputs(), [], "the jump of the clock is not the hosts' time");
    let mut closed = Vec::new();
    while let Some(at) = world.subsystem.next_timeout() {
        world.now = at;
        closed.extend(world.outputs());
    }
    assert_eq!(closed.len(), 4, "their own time passes after it: {closed:?}");
    assert!(world.now < due + Nanos::secs(1010));
}

#[test]
fn the_end_of_the_admin_queue_closes_the_io_queues() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    world.subsystem.on_disconnect(world.now, remote.admin);
    let closed = Output::CloseQueue { queue: remote.io, reason: CloseReason::AdminQueueClosed };
    assert_eq!(world.outputs(), [closed]);
    let late = world.ask(remote.io, io_command(nvm::READ, 0, 1), 512).0;
    assert_eq!(late.status(), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn a_key_of_another_generation_is_another_connection() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let stale = QueueKey { generation: 6, ..remote.io };
    let (cqe, _) = world.ask(stale, io_command(nvm::READ, 0, 1), 512);
    assert_eq!(cqe.status(), Status::COMMAND_SEQUENCE_ERROR);
    world.subsystem.on_disconnect(world.now, stale);
    assert!(matches!(world.send(remote.io, io_command(nvm::READ, 0, 1), 512, &[]), Action::Io(_)));
}

#[test]
fn hosts_that_are_no_longer_allowed_are_closed() {
    let mut world = World::io();
    let (stays, goes) = (world.remote(&host(1)), world.remote(&host(2)));
    world.subsystem.set_hosts(HostAccess::Only(vec![host(1).nqn]));
    let close = |queue| Output::CloseQueue { queue, reason: CloseReason::AccessRevoked };
    assert_eq!(world.outputs(), [close(goes.io), close(goes.admin)]);
    assert!(world.subsystem.controllers().map(|(id, _)| id).eq([stays.id]));
}

#[test]
fn a_namespace_change_is_reported_once_until_the_list_is_read() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    world.set_feature(admin, 0x0b, 0x900);
    assert_eq!((world.request_event(admin), world.request_event(admin)), (None, None));
    let info = NamespaceInfo::new(BlockSize::B4096, 100);
    world.subsystem.add_namespace(2, info.clone()).expect("a good namespace");
    assert_eq!(world.events(), [0x040002]);
    world.subsystem.add_namespace(3, info).expect("a good namespace");
    assert_eq!(world.events(), [0; 0], "no event before the list is read");
    let peek = LogRequest { retain: true, ..LogRequest::read(log::CHANGED_NAMESPACES, 0, 4096) };
    for request in [peek, LogRequest { retain: false, ..peek }] {
        let list = world.log(admin, request, u32::MAX).expect("log 04h");
        assert!(read_namespace_list(&list).eq([2, 3]));
    }
    let list = world.log(admin, peek, u32::MAX).expect("log 04h");
    assert_eq!(read_namespace_list(&list).count(), 0, "reading without RAE clears it");
    world.subsystem.resize_namespace(1, BLOCKS * 2).expect("a good size");
    assert_eq!(world.events(), [0x040002]);
    let page = world.identify(admin, cns::NAMESPACE, 1).expect("CNS 00h");
    assert_eq!(IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes").nsze.get(), BLOCKS * 2);
}

#[test]
fn events_go_only_to_hosts_that_enabled_them() {
    let mut world = World::io();
    let (asked, not) = (world.remote(&host(1)).admin, world.remote(&host(2)).admin);
    world.set_feature(asked, 0x0b, 0x900);
    assert_eq!((world.request_event(asked), world.request_event(not)), (None, None));
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    let outputs = world.outputs();
    assert!(
        matches!(outputs[..], [Output::Complete { queue, cqe }] if queue == asked && cqe.dw0() == 0x0c0302)
    );
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    world.log(asked, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch");
    assert_eq!(world.request_event(asked), None, "no change, no event");
    let unknown = world.set_feature(asked, 0x0b, 1 << 14);
    assert_eq!(unknown.status(), Status::INVALID_FIELD);
}

#[test]
fn a_discovery_change_is_reported_and_counted() {
    let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
    let linux = host(1);
    let admin = world.admin(&linux);
    world.configure(admin, 0x460061);
    world.subsystem.set_local_address(admin, "[::1]:8009".parse().expect("an address"));
    world.set_feature(admin, 0x0b, 1 << 31);
    assert_eq!(world.request_event(admin), None);
    let record = DiscoveryRecord {
        subsystem: Nqn::new(NQN).expect("a good name"),
        kind: nvme::spec::discovery::SubsystemType::Nvm,
        transport: TransportType::Tcp,
        address: DiscoveryAddress::AsReached { is_ipv6: true, port: 4420 },
        hosts: HostAccess::Any,
        secure: nvme::spec::discovery::SecureChannel::Without,
    };
    world.subsystem.set_discovery_records(vec![record.clone()]);
    assert_eq!(world.events(), [0x70f002]);
    let page = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 2048), 0).expect("log 70h");
    assert_eq!((page[0], page[8]), (1, 1), "generation 1, one record");
    assert_eq!(&page[1024 + 512..1024 + 516], b"::1 ", "the address that this host connected to");
    world.subsystem.set_discovery_records(vec![record]);
    let same = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 1024), 0).expect("log 70h");
    assert_eq!(same[0], 1, "nothing changed");
    assert_eq!(world.log(admin, LogRequest::read(log::ANA, 0, 16), 0), Err(Status::INVALID_LOG_PAGE));
    let refused =
        world.connect_with(&linux, Nqn::DISCOVERY, 1, connect_command(1)).expect_err("no IO queues");
    assert_eq!(refused.status(), Status::CONNECT_INVALID_PARAMETERS);
}

/// A target that listens on all addresses of each family, and on one address of each.
#[test]
fn discovery_names_only_addresses_that_are_listened_on() {
    let at = |text: &str| DiscoveryAddress::At(text.parse().expect("an address"));
    let any = |is_ipv6, port| DiscoveryAddress::AsReached { is_ipv6, port };
    let listeners =
        [any(false, 4420), any(true, 4420), any(true, 4421), at("10.0.0.1:4422"), at("10.0.0.1:4420")];
    for (local, expected) in [
        ("10.0.0.1:4420", &["10.0.0.1:4420", "10.0.0.1:4422"][..]),
        ("[::ffff:10.0.0.2]:4420", &["10.0.0.2:4420", "10.0.0.1:4422", "10.0.0.1:4420"]),
        ("[fd00::1]:4421", &["fd00::1:4420", "fd00::1:4421", "10.0.0.1:4422", "10.0.0.1:4420"]),
    ] {
        let mut world = World::new(SubsystemConfig::discovery("gimbal-d"));
        let admin = world.admin(&host(1));
        world.configure(admin, 0x460061);
        world.subsystem.set_local_address(admin, local.parse().expect("an address"));
        let record = |address: &DiscoveryAddress| DiscoveryRecord {
            subsystem: Nqn::new(NQN).expect("a good name"),
            kind: nvme::spec::discovery::SubsystemType::Nvm,
            transport: TransportType::Tcp,
            address: *address,
            hosts: HostAccess::Any,
            secure: nvme::spec::discovery::SecureChannel::Without,
        };
        world.subsystem.set_discovery_records(listeners.iter().map(record).collect());
        let page = world.log(admin, LogRequest::read(log::DISCOVERY, 0, 8192), 0).expect("log 70h");
        let entries = page[1024..].chunks(1024).take(usize::from(page[8]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let told: Vec<String> = entries
            .map(|entry| {
                assert_eq!(entry[1], if entry[512..768].contains(&b':') { 2 } else { 1 }, "ADRFAM");
                format!("{}:{}", text(&entry[512..768]), text(&entry[32..64]))
            })
            .collect();
        let (mut told, mut expected) = (told, expected.to_vec());
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "reached at {local}");
    }
}

#[test]
fn a_log_page_can_be_read_in_pieces() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let whole = world.log(admin, LogRequest::read(log::COMMANDS_SUPPORTED, 0, 4096), 0).expect("log 05h");
    for piece in [4, 20, 1000, 4092] {
        let mut read = Vec::new();
        while read.len() < whole.len() {
            let request = LogRequest::read(log::COMMANDS_SUPPORTED, read.len() as u64, piece);
            read.extend(world.log(admin, request, 0).expect("a piece"));
        }
        let (start, behind) = read.split_at(whole.len());
        assert!(start == whole && behind.iter().all(|&byte| byte == 0), "pieces of {piece} bytes");
    }
    let mut refused = |request: LogRequest| world.log(admin, request, 0);
    assert_eq!(refused(LogRequest::read(log::HEALTH, 514, 4)), Err(Status::INVALID_FIELD), "no dword");
    assert_eq!(refused(LogRequest::read(log::HEALTH, 516, 4)), Err(Status::INVALID_FIELD), "beyond the end");
    assert_eq!(refused(LogRequest::read(log::HEALTH, 0, 2 << 20)), Err(Status::INVALID_FIELD), "over MDTS");
    let index = LogRequest { offset_is_index: true, ..LogRequest::read(log::HEALTH, 0, 4) };
    assert_eq!(refused(index), Err(Status::INVALID_FIELD));
}

#[test]
fn features_read_back_or_refuse() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let page = world.log(admin, LogRequest::read(log::FEATURES_SUPPORTED, 0, 1024), 0).expect("log 12h");
    for id in 0..=0xff {
        let (cqe, _) = world.get_feature(admin, 0x300 | u32::from(id), 0, 0);
        let listed = page[usize::from(id) * 4] == 1;
        assert_eq!(cqe.status().is_success(), listed, "feature {id:#x}");
        if !listed {
            assert_eq!(cqe.status(), Status::INVALID_FIELD);
            continue;
        }
        let changeable = cqe.dw0() & supported::CHANGEABLE != 0;
        let set = world.set_feature(admin, id, 0).status();
        let no_data = [0x0e, 0x16].contains(&id);
        let of_namespace = cqe.dw0() & supported::NAMESPACE_SPECIFIC != 0;
        let expected = match (id, changeable) {
            (0x81, _) => Status::COMMAND_SEQUENCE_ERROR,
            (0x07, _) => Status::COMMAND_SEQUENCE_ERROR,
            _ if of_namespace => Status::INVALID_NAMESPACE,
            (_, false) => Status::FEATURE_NOT_CHANGEABLE,
            _ if no_data => Status::DATA_SGL_LENGTH_INVALID,
            _ => Status::SUCCESS,
        };
        assert_eq!(set, expected, "feature {id:#x}");
        let save = Sqe::new(admin::SET_FEATURES).with_cdw10_15([1 << 31 | u32::from(id), 0, 0, 0, 0, 0]);
        assert_eq!(world.ask(admin, save, 0).0.status(), Status::FEATURE_NOT_SAVEABLE);
    }
    for (id, value, read) in
        [(0x01, 3, 3), (0x04, 0x1234, 0x1234), (0x06, 0, 0), (0x0a, 1, 1), (0x0f, 250, 300)]
    {
        let default = world.get_feature(admin, 0x100 | id, 0, 0).0.dw0();
        assert_eq!(world.set_feature(admin, id as u8, value).status(), Status::SUCCESS);
        assert_eq!(world.get_feature(admin, id, 0, 0).0.dw0(), read, "feature {id:#x}");
        assert_eq!(
            world.get_feature(admin, 0x100 | id, 0, 0).0.dw0(),
            default,
            "the default does not change"
        );
        assert_eq!(world.get_feature(admin, 0x200 | id, 0, 0).0.dw0(), default, "nothing is saved");
    }
    assert_eq!(world.get_feature(admin, 0x407, 0, 0).0.status(), Status::INVALID_FIELD, "no such SEL");
    let of_one = Sqe::new(admin::SET_FEATURES).with_nsid(1).with_cdw10_15([0x06, 1, 0, 0, 0, 0]);
    assert_eq!(world.ask(admin, of_one, 0).0.status(), Status::FEATURE_NOT_NAMESPACE_SPECIFIC);
}

#[test]
fn the_timestamp_runs_on() {
    let mut world = World::io();
    let admin = world.remote(&host(1)).admin;
    let set = Sqe::new(admin::SET_FEATURES).with_cdw10_15([0x0e, 0, 0, 0, 0, 0]);
    assert_eq!(world.tell(admin, set, &1_700_000_000_000u64.to_le_bytes()), Status::SUCCESS);
    world.advance(1234);
    let (_, bytes) = world.get_feature(admin, 0x0e, 0, 8);
    let read = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    assert_eq!((read & 0xffff_ffff_ffff, read >> 48), (1_700_000_001_234, 2), "set by the host");
}

#[test]
fn credits_are_switched_per_controller() {
    let mut world = World::io();
    let (with, without) = (world.remote(&host(1)), world.remote(&host(2)));
    let ask = Sqe::new(admin::SET_FEATURES).with_cdw10_15([0xc0, 1, 0, 0, 0, 0]);
    assert!(matches!(world.send(with.admin, ask, 0, &[]), Action::Credits { enabled: true, .. }));
    assert_eq!((world.subsystem.credits(with.io), world.subsystem.credits(without.io)), (true, false));
    let get = Sqe::new(admin::GET_FEATURES).with_cdw10_15([0xc0, 0, 0, 0, 0, 0]);
    assert!(matches!(world.send(with.admin, get, 0, &[]), Action::Credits { enabled: true, .. }));
    assert!(matches!(world.send(without.admin, get, 0, &[]), Action::Credits { enabled: false, .. }));
    let later = world.connect_with(&host(1), NQN, with.id, connect_command(2)).expect("a good Connect");
    assert!(later.1.credits);
    world.configure(with.admin, 0x460060);
    assert!(!world.subsystem.credits(with.admin), "a reset turns credits off");
}

#[test]
fn with_the_write_cache_off_every_write_has_fua() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    let fua = |world: &mut World, opcode, length: usize| match world.send(
        remote.io,
        io_command(opcode, 0, 8),
        length,
        &vec![0; length],
    ) {
        Action::Io(command) => command.fua,
        other => panic!("{other:?}"),
    };
    assert!(!fua(&mut world, nvm::WRITE, 4096));
    world.set_feature(remote.admin, 0x06, 0);
    assert!(fua(&mut world, nvm::WRITE, 4096));
    assert!(fua(&mut world, nvm::WRITE_ZEROES, 0));
    assert!(!fua(&mut world, nvm::READ, 4096));
}

#[test]
fn priority_travels_in_the_access_latency() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let classes =
        [AccessLatency::Low, AccessLatency::Unspecified, AccessLatency::Normal, AccessLatency::Idle];
    for (class, latency) in (0..).zip(classes) {
        let sqe = Sqe::new(nvm::READ).with_nsid(1).with_cdw10_15([0, 0, 0, latency.to_cdw13(), 0, 0]);
        let Action::Io(command) = world.send(io, sqe, 512, &[]) else { panic!("no IO") };
        assert_eq!(command.priority.index(), class);
    }
}

#[test]
fn commands_out_of_range_are_refused() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let mut status = |sqe: Sqe, length: usize| match world.send(io, sqe, length, &vec![0; length]) {
        Action::Reply { cqe, .. } => cqe.status(),
        Action::Io(_) => Status::SUCCESS,
        other => panic!("{other:?}"),
    };
    let read = |lba, blocks| io_command(nvm::READ, lba, blocks);
    assert_eq!(status(read(BLOCKS - 1, 1), 512), Status::SUCCESS);
    assert_eq!(status(read(BLOCKS - 1, 2), 1024), Status::LBA_OUT_OF_RANGE);
    assert_eq!(status(read(u64::MAX, 2), 1024), Status::LBA_OUT_OF_RANGE, "no wrap-around");
    assert_eq!(status(read(0, 2048), 1 << 20), Status::SUCCESS, "as long as MDTS");
    assert_eq!(status(read(0, 2049), (1 << 20) + 512), Status::INVALID_FIELD);
    assert_eq!(status(read(0, 1), 4096), Status::DATA_SGL_LENGTH_INVALID);
    assert_eq!(status(io_command(nvm::WRITE, 0, 2), 512), Status::DATA_SGL_LENGTH_INVALID);
    for nsid in [0, 2, 4096, 4097, u32::MAX] {
        assert_eq!(status(read(0, 1).with_nsid(nsid), 512), Status::INVALID_NAMESPACE, "nsid {nsid}");
    }
    assert_eq!(status(read(0, 1).with_flags(0x41), 512), Status::INVALID_FIELD, "fused");
    assert_eq!(status(property_set(0x14, 0), 0), Status::INVALID_OPCODE, "fabrics on an IO queue");
}

#[test]
fn commands_that_the_device_does_not_support_are_not_offered() {
    let mut bare = config();
    bare.commands.compare = false;
    bare.commands.deallocate = false;
    bare.commands.reservations = false;
    bare.namespaces.insert(2, NamespaceInfo { read_only: true, ..NamespaceInfo::new(BlockSize::B4096, 8) });
    let mut world = World::new(bare);
    let remote = world.remote(&host(1));
    assert_eq!(world.tell(remote.io, io_command(nvm::COMPARE, 0, 1), &[0; 512]), Status::INVALID_OPCODE);
    assert_eq!(
        world.tell(remote.io, io_command(nvm::DATASET_MANAGEMENT, 0, 1), &[0; 16]),
        Status::INVALID_OPCODE
    );
    assert_eq!(
        world.tell(remote.io, io_command(nvm::RESERVATION_REGISTER, 0, 1), &[0; 16]),
        Status::INVALID_OPCODE
    );
    let page = world.identify(remote.admin, cns::CONTROLLER, 0).expect("CNS 01h");
    assert_eq!(page[520], 0b1101_1000, "ONCS: Write Zeroes, Save, Timestamp, Verify");
    let effects =
        world.log(remote.admin, LogRequest::read(log::COMMANDS_SUPPORTED, 1024, 1024), 0).expect("log 05h");
    let effects_of = |opcode| effects[4 * usize::from(opcode)];
    let listed = [nvm::COMPARE, nvm::DATASET_MANAGEMENT, nvm::WRITE].map(effects_of);
    assert_eq!(listed, [0, 0, 3]);
    let write = io_command(nvm::WRITE, 0, 1).with_nsid(2);
    assert_eq!(world.tell(remote.io, write, &[0; 4096]), Status::WRITE_PROTECTED);
    assert_eq!(world.identify(remote.admin, cns::NAMESPACE, 2).expect("CNS 00h")[99], 1, "NSATTR");
}

#[test]
fn a_new_namespace_has_the_state_of_its_group() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    world.subsystem.set_ana_state(2, AnaState::Change).expect("a group");
    let info = NamespaceInfo { ana_group: 2, ..NamespaceInfo::new(BlockSize::B4096, 8) };
    world.subsystem.add_namespace(2, info).expect("a good namespace");
    let read = io_command(nvm::READ, 0, 1).with_nsid(2);
    assert_eq!(world.ask(io, read, 4096).0.status(), Status::ANA_TRANSITION);
    for (state, status) in [
        (AnaState::Inaccessible, Status::ANA_INACCESSIBLE),
        (AnaState::PersistentLoss, Status::ANA_PERSISTENT_LOSS),
    ] {
        world.subsystem.set_ana_state(2, state).expect("a group");
        assert_eq!(world.ask(io, read, 4096).0.status(), status);
    }
    world.subsystem.set_ana_state(2, AnaState::NonOptimized).expect("a group");
    assert!(matches!(world.send(io, read, 4096, &[]), Action::Io(_)));
    assert!(
        matches!(world.send(io, io_command(nvm::READ, 0, 1), 512, &[]), Action::Io(_)),
        "group 1 is not affected"
    );
}

#[test]
fn a_namespace_that_moves_has_the_state_of_its_new_group_and_hosts_are_told() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    world.set_feature(remote.admin, 0x0b, 0x900);
    world.subsystem.set_ana_state(2, AnaState::Inaccessible).expect("a group");
    assert_eq!(world.request_event(remote.admin), None, "no namespace is in it");
    world.subsystem.set_ana_group(1, 2).expect("both are there");
    let read = io_command(nvm::READ, 0, 1);
    assert_eq!(world.ask(remote.io, read, 512).0.status(), Status::ANA_INACCESSIBLE);
    assert_eq!(world.events(), [0x0c0302]);
    let page = world.log(remote.admin, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch");
    let group = |at: usize| (page[at], page[at + 16]);
    assert_eq!(group(16), (2, AnaState::Inaccessible.to_wire()));
    assert_eq!(
        world.request_event(remote.admin).map(|cqe| cqe.dw0()),
        Some(0x040002),
        "Identify has another group"
    );
    let changes = page[0];
    world.subsystem.set_ana_group(1, 2).expect("it is there already");
    world.subsystem.set_ana_group(1, 3).expect("both are there");
    let page = world.log(remote.admin, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch");
    assert_eq!((page[0], page[16]), (changes + 1, 3), "one change");
    assert!(matches!(world.send(remote.io, read, 512, &[]), Action::Io(_)));
    assert!(matches!(world.subsystem.set_ana_group(9, 2), Err(ConfigError::NoSuchNamespace(9))));
    assert!(matches!(world.subsystem.set_ana_group(1, 33), Err(ConfigError::AnaGroup { group: 33, .. })));
}

#[test]
fn withheld_namespaces_are_inaccessible_whatever_their_group_becomes_meanwhile() {
    let mut world = World::io();
    let remote = world.remote(&host(1));
    world.set_feature(remote.admin, 0x0b, 0x800);
    world.request_event(remote.admin);
    world.subsystem.withhold_namespaces(true);
    assert_eq!(world.events(), [0x0c0302]);
    let read = io_command(nvm::READ, 0, 1);
    assert_eq!(world.ask(remote.io, read, 512).0.status(), Status::ANA_INACCESSIBLE);
    let changes = world.log(remote.admin, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch")[0];
    world.request_event(remote.admin);
    world.subsystem.withhold_namespaces(true);
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    let page = world.log(remote.admin, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch");
    assert_eq!((page[0], page[32]), (changes, AnaState::Inaccessible.to_wire()), "hosts see no difference");
    world.subsystem.set_ana_state(1, AnaState::PersistentLoss).expect("a group");
    assert_eq!(world.ask(remote.io, read, 512).0.status(), Status::ANA_PERSISTENT_LOSS);
    world.subsystem.set_ana_state(1, AnaState::NonOptimized).expect("a group");
    let info = NamespaceInfo::new(BlockSize::B4096, 8);
    world.subsystem.add_namespace(2, info).expect("a good namespace");
    assert_eq!(world.ask(remote.io, read.with_nsid(2), 4096).0.status(), Status::ANA_INACCESSIBLE);
    world.subsystem.withhold_namespaces(false);
    assert!(matches!(world.send(remote.io, read, 512, &[]), Action::Io(_)));
    let page = world.log(remote.admin, LogRequest::read(log::ANA, 0, 4096), 0).expect("log 0Ch");
    assert_eq!(page[32], AnaState::NonOptimized.to_wire());
}

#[test]
fn completed_io_is_counted_for_its_controller() {
    let mut world = World::io();
    let (one, other) = (world.remote(&host(1)), world.remote(&host(2)));
    for (opcode, status) in [
        (nvm::READ, Status::SUCCESS),
        (nvm::WRITE, Status::SUCCESS),
        (nvm::READ, Status::UNRECOVERED_READ_ERROR),
    ] {
        let Action::Io(command) = world.send(one.io, io_command(opcode, 8, 8), 4096, &[0; 4096]) else {
            panic!("no IO")
        };
        world.subsystem.on_io_completed(one.io, 5, &command, status);
    }
    let mut health = |admin| {
        let page = world.log(admin, LogRequest::read(log::HEALTH, 0, 512), u32::MAX).expect("log 02h");
        let page = HealthPage::read_from_bytes(&page).expect("512 bytes");
        let counters =
            [page.host_read_commands, page.host_write_commands, page.media_errors, page.data_units_read];
        counters.map(|counter| counter.get())
    };
    assert_eq!(health(one.admin), [1, 1, 1, 1]);
    assert_eq!(health(other.admin), [0, 0, 0, 0]);
}

#[test]
fn io_allocates_nothing() {
    let mut world = World::io();
    let io = world.remote(&host(1)).io;
    let block = [0; 4096];
    let commands = [io_command(nvm::READ, 8, 8), io_command(nvm::WRITE, 8, 8), io_command(nvm::FLUSH, 0, 1)];
    let allocations = allocation_counter::measure(|| {
        for command in commands.map(|command| command.with_cid(7)) {
            let length = if command.opcode() == nvm::FLUSH { 0 } else { 4096 };
            let sqe = command.with_sgl(nvme::spec::Sgl::Transport { length });
            let Action::Io(io_command) = world.subsystem.on_command(world.now, io, &sqe, Some(&block)) else {
                panic!("no IO")
            };
            world.subsystem.on_io_completed(io, 7, &io_command, Status::SUCCESS);
            assert_eq!(world.subsystem.poll(world.now), None);
        }
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn the_first_command_of_a_connection_is_a_connect() {
    let connect = connect_command(0).to_sqe().with_cid(3);
    let in_capsule = connect.with_sgl(nvme::spec::Sgl::InCapsule { offset: 0, length: 1024 });
    assert!(read_connect(&in_capsule, Some(&[0; 1024])).is_ok(), "names are checked later");
    let refused =
        |sqe: &Sqe, data: Option<&[u8]>| read_connect(sqe, data).map_err(|cqe| (cqe.cid(), cqe.status()));
    let too_short = Err((3, Status::DATA_SGL_LENGTH_INVALID));
    assert_eq!(refused(&connect, Some(&[0; 1024])), too_short, "the descriptor says 0");
    assert_eq!(refused(&in_capsule, Some(&[0; 1023])), too_short);
    assert_eq!(refused(&in_capsule, None), too_short);
    let other = property_set(0x14, 0).with_cid(3);
    assert_eq!(refused(&other, None), Err((3, Status::COMMAND_SEQUENCE_ERROR)));
}

#[test]
fn inconsistent_configurations_are_refused() {
    let refused = |change: fn(&mut SubsystemConfig)| {
        let mut wrong = config();
        change(&mut wrong);
        Subsystem::new(wrong).expect_err("this configuration is wrong")
    };
    assert_eq!(
        refused(|config| config.limits.transfer_max = Bytes(5000)),
        ConfigError::TransferLimit(Bytes(5000))
    );
    assert_eq!(refused(|config| config.limits.in_capsule_max = 8), ConfigError::InCapsuleLimit(8));
    let none = refused(|config| config.limits.io_queues_max = 0);
    assert_eq!(none.to_string(), "io_queues_max is 0; it must be from 1 to 65534");
    let nsid = 4097;
    assert_eq!(
        refused(|config| {
            config.namespaces.insert(4097, NamespaceInfo::new(BlockSize::B512, 1));
        }),
        ConfigError::NamespaceId { nsid, most: 4096 }
    );
    let mut subsystem = Subsystem::new(config()).expect("a good configuration");
    let info = NamespaceInfo::new(BlockSize::B512, 1);
    assert_eq!(subsystem.add_namespace(1, info), Err(ConfigError::NamespaceExists(1)));
    assert_eq!(subsystem.remove_namespace(2), Err(ConfigError::NoSuchNamespace(2)));
    assert_eq!(subsystem.resize_namespace(1, 0), Err(ConfigError::NamespaceSize { nsid: 1, blocks: 0 }));
}

#[test]
fn a_subsystem_can_be_moved_to_another_thread() {
    fn movable<T: Send>() {}
    movable::<Subsystem>();
}

#[test]
fn a_controller_says_what_its_transport_can_do_and_has_queues_of_one_transport() {
    let mut world = World::io();
    let linux = host(1);
    let connect = |world: &mut World, queue_id, controller_id, transport| {
        let name = Nqn::new(NQN).expect("a good name");
        let data = ConnectData::new(linux.id, &linux.nqn, &name, controller_id);
        let (key, sqe) = (world.next_key(), connect_command(queue_id).to_sqe());
        let arrival = Arrival { transport, ..Arrival::default() };
        world
            .subsystem
            .on_connect_from(world.now, key, (&sqe, &data), arrival)
            .map(|connected| (key, connected))
    };
    for (transport, sgls, ioccsz) in
        [(TransportType::Tcp, 1 | 1 << 20 | 1 << 21, (64 + 8192) / 16), (TransportType::Rdma, 1 | 1 << 2, 4)]
    {
        let (admin, connected) = connect(&mut world, 0, CNTLID_DYNAMIC, transport).expect("a good Connect");
        world.configure(admin, Configuration::host(true).enabled().0);
        let page = world.identify(admin, cns::CONTROLLER, 0).expect("CNS 01h");
        let identify = IdentifyController::read_from_bytes(&page).expect("4096 bytes");
        assert_eq!((identify.sgls.get(), identify.ioccsz.get()), (sgls, ioccsz), "{transport:?}");
        let other = if transport == TransportType::Tcp { TransportType::Rdma } else { TransportType::Tcp };
        let refused = connect(&mut world, 1, connected.controller_id, other).expect_err("another transport");
        assert_eq!(refused.status(), Status::CONNECT_INVALID_PARAMETERS);
        connect(&mut world, 1, connected.controller_id, transport).expect("the same transport");
    }
}
