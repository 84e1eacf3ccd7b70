//! Reload under load: what hosts see, what they keep, what is refused.

mod common;

use common::*;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::event::EventKind;
use nvme::spec::opcode::nvm;
use nvme::spec::{Nqn, Status};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{
    AllowedHosts, Config, DeviceConfig, DeviceKind, EmulatedConfig, FaultConfig, FaultKind, FaultOp,
    FaultRelease, NamespaceConfig, ShareConfig, Speed, TenantConfig,
};
use server::{Change, ReloadError, ServerHandle, Shutdown, Subject};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use units::{Bytes, Nanos};

/// Long enough for everything that ends.
const AMPLE: Duration = Duration::from_secs(60);
const ONE: &str = "nqn.2025-01.io.example:one";
const TWO: &str = "nqn.2025-01.io.example:two";
const FRIEND: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000f";

fn emulated(speed_thousandths: u32) -> DeviceKind {
    let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

fn device(name: &str, kind: DeviceKind) -> DeviceConfig {
    DeviceConfig::new(name, kind)
}

fn part(nsid: u32, device: &str, offset_mib: u64, size_mib: u64) -> NamespaceConfig {
    let (offset, size) = (Bytes::mib(offset_mib), Some(Bytes::mib(size_mib)));
    NamespaceConfig { offset, size, ..NamespaceConfig::whole(nsid, device) }
}

/// One device with one subsystem with one namespace of 64 MiB.
fn config(kind: DeviceKind) -> Config {
    Config {
        devices: vec![device("a", kind)],
        subsystems: vec![subsystem(ONE, vec![part(1, "a", 0, 64)])],
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

fn client(server: &ServerHandle, nqn: &str, host: &'static str) -> Client {
    let options = Options { subsystem: nqn.to_owned(), host, ..Options::default() };
    Client::with(server.addresses()[0], &options)
}

fn reload(server: &mut ServerHandle, config: &Config) -> Vec<Change> {
    server.reload(config.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"))
}

fn subjects(changes: &[Change]) -> Vec<(Subject, String)> {
    changes.iter().map(|change| (change.subject, change.name.clone())).collect()
}

/// Numbers of the namespaces that a host sees.
fn active(client: &mut Client) -> Vec<u32> {
    // The answer must not be mistaken for that of an outstanding event request.
    let list = client.identify(0x02, 0);
    let number = |word: &[u8]| u32::from_le_bytes(word.try_into().expect("four bytes"));
    list.chunks(4).map(number).take_while(|&nsid| nsid != 0).collect()
}

fn blocks(client: &mut Client, nsid: u32) -> u64 {
    u64::from_le_bytes(client.identify(0x00, nsid)[..8].try_into().expect("eight bytes"))
}

#[test]
fn hosts_are_notified_when_a_namespace_is_added_resized_and_removed() {
    for backend in backends() {
        let mut now = Config { backend, ..config(emulated(100_000)) };
        let mut server = start(now.clone());
        let mut host = client(&server, ONE, HOST);
        assert_eq!(host.write(1, 0, &pattern(1, 8 * BLOCK)), Status::SUCCESS);
        listen_for(&mut host.admin, EventKind::NamespaceChanged);
        let name = |nsid: u32| format!("{nsid} of {ONE}");

        now.subsystems[0].namespaces.push(part(7, "a", 64, 32));
        assert_eq!(subjects(&reload(&mut server, &now)), [(Subject::Namespace, name(7))]);
        assert_eq!(told(&mut host.admin, EventKind::NamespaceChanged)[..4], 7u32.to_le_bytes());
        assert_eq!(host.write(7, 0, &pattern(7, 8 * BLOCK)), Status::SUCCESS);
        let beyond = (32 << 20) / BLOCK as u64;
        assert_eq!(host.read(7, beyond, 1), Err(Status::LBA_OUT_OF_RANGE));

        now.subsystems[0].namespaces[1].size = Some(Bytes::mib(64));
        let changes = reload(&mut server, &now);
        assert_eq!(changes[0].to_string(), format!("namespace 7 of {ONE}: 32 MiB → 64 MiB"));
        assert_eq!(told(&mut host.admin, EventKind::NamespaceChanged)[..4], 7u32.to_le_bytes());
        assert_eq!(host.read(7, beyond, 1), Ok(vec![0; BLOCK]));

        now.subsystems[0].namespaces[1].size = Some(Bytes::mib(16));
        reload(&mut server, &now);
        told(&mut host.admin, EventKind::NamespaceChanged);
        assert_eq!(host.read(7, beyond, 1), Err(Status::LBA_OUT_OF_RANGE));
        assert!(host.read(7, 0, 8).expect("kept") == pattern(7, 8 * BLOCK));

        now.subsystems[0].namespaces.pop();
        assert_eq!(subjects(&reload(&mut server, &now)), [(Subject::Namespace, name(7))]);
        assert_eq!(told(&mut host.admin, EventKind::NamespaceChanged)[..4], 7u32.to_le_bytes());
        assert_eq!(host.read(7, 0, 1), Err(Status::INVALID_NAMESPACE));
        assert!(host.read(1, 0, 8).expect("untouched") == pattern(1, 8 * BLOCK));
        assert_eq!(reload(&mut server, &now), [], "nothing is different");
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    }
}

#[test]
fn a_refused_configuration_changes_nothing() {
    let before = config(emulated(100_000));
    let mut server = start(before.clone());
    let mut host = client(&server, ONE, HOST);
    let refused = |server: &mut ServerHandle, change: &dyn Fn(&mut Config)| {
        let mut now = before.clone();
        now.tenants.push(TenantConfig::equal(HOST));
        now.subsystems[0].namespaces.push(part(2, "a", 64, 64));
        change(&mut now);
        let error = server.reload(now, AMPLE).expect_err("it cannot be had");
        assert_eq!(server.config(), &before);
        assert_eq!(server.stats().ssds.len(), 1);
        error.to_string()
    };
    let complaint = refused(&mut server, &|now| {
        now.subsystems[0].namespaces[0].offset = Bytes::mib(512);
        now.subsystems[0].namespaces[0].block_size = 512;
        now.subsystems[0].model = "other".to_owned();
        now.devices[0].kind = emulated(1);
        now.limits.queue_depth = 16;
    });
    for field in [
        "limits.queue_depth: cannot change while hosts are connected",
        "device[0]: \"a\" cannot become another device",
        "subsystem[0].model: cannot change",
        "subsystem[0].namespace[0].offset: namespace 1 cannot become another one; use another nsid",
        "subsystem[0].namespace[0].block_size: ",
    ] {
        assert!(complaint.contains(field), "missing {field:?} in:\n{complaint}");
    }
    assert_eq!(complaint.lines().count(), 5, "{complaint}");
    let complaint = refused(&mut server, &|now| {
        let absent = DeviceKind::File { path: "/nonexistent".into(), size: None, create: true, direct: true };
        now.devices.push(device("b", emulated(1)));
        now.devices.push(device("c", absent));
    });
    assert!(complaint.contains("device \"c\": /nonexistent: does not exist"), "{complaint}");
    let complaint = refused(&mut server, &|now| {
        now.devices[0].name = "b".to_owned();
        now.subsystems[0].namespaces.iter_mut().for_each(|namespace| namespace.device = "b".to_owned());
    });
    assert!(complaint.contains("device \"a\" is gone, but its thread has"), "{complaint}");
    let complaint = refused(&mut server, &|now| now.subsystems[0].namespaces[0].nsid = 0);
    assert!(complaint.contains("0 is not a namespace number"), "{complaint}");
    assert_eq!(active(&mut host), [1]);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
}

#[test]
fn a_preview_names_what_the_reload_then_changes() {
    let before = config(emulated(1000));
    let mut server = start(before.clone());
    let mut now = before.clone();
    now.devices.push(device("b", DeviceKind::Null { size: Bytes::gib(2) }));
    now.subsystems[0].namespaces[0].size = Some(Bytes::mib(32));
    now.subsystems.push(subsystem(TWO, vec![NamespaceConfig::whole(1, "b")]));
    now.tenants.push(TenantConfig::with(FRIEND, ShareConfig { weight: 7, ..ShareConfig::EQUAL }));
    now.limits.connections = 77;
    let previewed = server.preview(&now).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(server.config(), &before);
    assert_eq!(server.preview(&before).expect("it runs"), []);
    assert_eq!(reload(&mut server, &now), previewed);
    assert_eq!(previewed.len(), 6, "{previewed:?}");
    now.limits.queue_depth = 64;
    let refused = server.preview(&now).expect_err("hosts were told").to_string();
    assert!(refused.contains("limits.queue_depth"), "{refused}");
    // What a removal leaves is previewed, too.
    let previewed = server.preview(&before).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reload(&mut server, &before), previewed);
}

#[test]
fn blocks_change_hands_without_a_stray_write() {
    const WRITES: usize = 120;
    // A slow SSD and a limit, so that most writes wait.
    let mut now = config(emulated(20));
    now.tenants = vec![TenantConfig::with(HOST, ShareConfig { limit_iops: Some(100), ..ShareConfig::EQUAL })];
    now.subsystems[0].namespaces.push(part(2, "a", 64, 64));
    let mut server = start(now.clone());
    let mut old = client(&server, ONE, HOST);
    for index in 0..WRITES as u64 {
        let transfer = Transfer::ToController(pattern(index, 2 * BLOCK), 2 * BLOCK as u32);
        old.io.submit(rw(nvm::WRITE, 2, index * 2, 2), transfer);
    }
    until(|| {
        let ssd = &server.stats().ssds[0];
        let done = ssd.tenants[0].counters.writes.ios as usize;
        ssd.queued > 0 && ssd.queued < WRITES && ssd.queued + ssd.in_flight + done == WRITES
    });
    // The same blocks, under another number.
    now.subsystems[0].namespaces[1].nsid = 3;
    reload(&mut server, &now);
    let mut new = client(&server, ONE, FRIEND);
    let last = (WRITES as u64 - 1) * 2;
    for lba in [0, 2, last] {
        assert_eq!(new.write(3, lba, &pattern(1000 + lba, 2 * BLOCK)), Status::SUCCESS);
    }
    let statuses: Vec<Status> = (0..WRITES).map(|_| old.io.next().expect("an answer").0.status()).collect();
    let done = statuses.iter().filter(|status| status.is_success()).count();
    let refused = statuses.iter().filter(|status| **status == Status::INVALID_NAMESPACE).count();
    assert!(done > 0 && refused > 0 && done + refused == WRITES, "{done} done, {refused} refused");
    for lba in [0, 2, last] {
        let found = new.read(3, lba, 2).expect("readable");
        assert!(found == pattern(1000 + lba, 2 * BLOCK), "what was written at {lba} was overwritten");
    }
    assert_eq!(old.read(1, 0, 1), Ok(vec![0; BLOCK]), "the other namespace is served as before");
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
}

#[test]
fn devices_and_subsystems_come_and_go_under_load() {
    for backend in backends() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("reload-{backend:?}"));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let image = folder.join("image");
        let file = || DeviceKind::File {
            path: image.clone(),
            size: Some(Bytes::mib(64)),
            create: true,
            direct: true,
        };
        let before = Config { backend, ..config(emulated(1000)) };
        let mut server = start(before.clone());
        let address = server.addresses()[0];
        let mut busy = client(&server, ONE, HOST);
        let load = std::thread::spawn(move || {
            for round in 0..2000 {
                let lba = round % 100 * 16;
                assert_eq!(busy.write(1, lba, &pattern(round, 16 * BLOCK)), Status::SUCCESS);
                assert!(busy.read(1, lba, 16).expect("readable") == pattern(round, 16 * BLOCK));
            }
        });
        for round in 0..3 {
            let mut now = before.clone();
            now.devices.push(device("b", file()));
            now.subsystems[0].namespaces.push(part(2, "b", 32, 32));
            now.subsystems.push(subsystem(TWO, vec![part(1, "b", 0, 32), part(2, "a", 512, 32)]));
            let changes = reload(&mut server, &now);
            assert_eq!(changes.len(), 5, "{changes:?}");
            assert_eq!(server.stats().ssds.len(), 2);
            let mut one = client(&server, ONE, FRIEND);
            let mut two = client(&server, TWO, FRIEND);
            for (is_two, nsid) in [(false, 2), (true, 1), (true, 2)] {
                let host = if is_two { &mut two } else { &mut one };
                let data = pattern(round * 10 + u64::from(nsid), 64 * BLOCK);
                assert_eq!(host.write(nsid, 5, &data), Status::SUCCESS);
                assert_eq!(host.flush(nsid), Status::SUCCESS);
                assert!(host.read(nsid, 5, 64).expect("readable") == data);
            }
            for index in 0..100 {
                let transfer = Transfer::FromController(vec![0; 16 * BLOCK], 16 * BLOCK as u32);
                two.io.submit(rw(nvm::READ, 1 + index % 2, 0, 16), transfer);
            }
            assert_eq!(reload(&mut server, &before).len(), 5);
            while two.io.next().is_some() {}
            let options = Options { subsystem: TWO.to_owned(), ..Options::default() };
            let refusal = Client::try_with(address, &options).err();
            assert_eq!(refusal, Some(Status::CONNECT_INVALID_PARAMETERS), "the subsystem is gone");
            assert_eq!(one.read(2, 0, 1), Err(Status::INVALID_NAMESPACE));
            assert!(one.read(1, 0, 1).is_ok(), "the connection is as good as before");
            let stored = std::fs::read(&image).expect("readable");
            assert!(stored[5 * BLOCK..][..64 * BLOCK] == pattern(round * 10 + 1, 64 * BLOCK), "in the file");
        }
        load.join().expect("IO on what stays always succeeds");
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
        let _ = std::fs::remove_dir_all(&folder);
    }
}

#[test]
fn a_namespace_that_reaches_the_end_of_its_file_grows_with_it() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("grow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let file = |mib| DeviceKind::File {
        path: folder.join("image"),
        size: Some(Bytes::mib(mib)),
        create: true,
        direct: true,
    };
    let mut now = config(file(64));
    now.subsystems[0].namespaces[0].size = None;
    let mut server = start(now.clone());
    let mut host = client(&server, ONE, HOST);
    now.devices[0].kind = file(128);
    let changes = subjects(&reload(&mut server, &now));
    assert_eq!(changes, [(Subject::Device, "a".to_owned()), (Subject::Namespace, format!("1 of {ONE}"))]);
    let last = (128 << 20) / BLOCK as u64 - 1;
    assert_eq!(blocks(&mut host, 1), last + 1);
    assert_eq!(host.write(1, last, &pattern(1, BLOCK)), Status::SUCCESS);
    let mut cut = now.clone();
    cut.devices[0].kind = file(64);
    let error = server.reload(cut, AMPLE).expect_err("a file is never cut").to_string();
    assert!(error.contains("device[0].size: 64 MiB is less than the 128 MiB there are"), "{error}");
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_host_that_is_no_longer_allowed_is_disconnected_and_others_stay() {
    let mut now = config(emulated(100_000));
    let mut server = start(now.clone());
    let address = server.addresses()[0];
    let (mut stays, mut goes) = (client(&server, ONE, FRIEND), client(&server, ONE, HOST));
    assert!(goes.read(1, 0, 1).is_ok());
    now.subsystems[0].hosts = AllowedHosts::Only(vec![FRIEND.to_owned()]);
    assert_eq!(subjects(&reload(&mut server, &now)), [(Subject::Hosts, ONE.to_owned())]);
    assert!(goes.io.next().is_none() && goes.admin.next().is_none(), "disconnected");
    let options = Options { subsystem: ONE.to_owned(), ..Options::default() };
    assert_eq!(Client::try_with(address, &options).err(), Some(Status::CONNECT_INVALID_HOST));
    assert!(stays.read(1, 0, 1).is_ok());
    now.subsystems[0].hosts = AllowedHosts::Any;
    reload(&mut server, &now);
    assert!(client(&server, ONE, HOST).read(1, 0, 1).is_ok());
}

#[test]
fn discovery_follows_what_is_added_and_removed() {
    let mut now = config(emulated(100_000));
    let mut server = start(now.clone());
    let options = Options { subsystem: Nqn::DISCOVERY.to_owned(), ..Options::default() };
    let mut queue = Queue::open(server.addresses()[0], 32, &options);
    assert!(queue.connect(0, 32, CNTLID_DYNAMIC, &options).status().is_success());
    enable(&mut queue);
    listen_for(&mut queue, EventKind::DiscoveryChanged);
    now.subsystems.push(subsystem(TWO, vec![part(1, "a", 64, 64)]));
    reload(&mut server, &now);
    let knows = |log: Vec<u8>, nqn: &str| String::from_utf8_lossy(&log).contains(nqn);
    assert!(knows(told(&mut queue, EventKind::DiscoveryChanged), TWO));
    now.listen.push("127.0.0.2:0".parse::<SocketAddr>().expect("an address").into());
    reload(&mut server, &now);
    let second = server.addresses()[1];
    let port = second.port().to_string();
    assert!(knows(told(&mut queue, EventKind::DiscoveryChanged), &port));
    let over_second = Options { subsystem: TWO.to_owned(), ..Options::default() };
    let mut host = Client::with(second, &over_second);
    assert!(host.read(1, 0, 1).is_ok());
    now.listen.pop();
    now.subsystems.pop();
    reload(&mut server, &now);
    assert!(host.io.next().is_none(), "its subsystem is gone");
    let log = told(&mut queue, EventKind::DiscoveryChanged);
    assert!(!knows(log.clone(), TWO) && !knows(log, &port));
    until(|| std::net::TcpStream::connect(second).is_err());
}

#[test]
fn a_new_limit_applies_to_a_connected_host() {
    const READS: usize = 100;
    let mut now = config(emulated(100_000));
    let mut server = start(now.clone());
    let mut host = client(&server, ONE, HOST);
    let mut read_all = || {
        let began = std::time::Instant::now();
        for index in 0..READS {
            let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
            host.io.submit(rw(nvm::READ, 1, index as u64, 1), transfer);
        }
        (0..READS).for_each(|_| assert!(host.io.next().expect("an answer").0.status().is_success()));
        began.elapsed()
    };
    read_all();
    // On the device's clock, which is a hundred times as fast, 100 reads take at least 50 ms.
    let limited = TenantConfig::with(HOST, ShareConfig { limit_iops: Some(10), ..ShareConfig::EQUAL });
    now.tenants = vec![limited];
    assert_eq!(subjects(&reload(&mut server, &now)), [(Subject::Tenant, HOST.to_owned())]);
    assert!(read_all() >= Duration::from_millis(50), "the limit holds");
    now.tenants.clear();
    now.devices[0].scheduler.policy = Scheduler::NONE;
    now.limits.stall_timeout = Nanos::secs(7);
    let changes = subjects(&reload(&mut server, &now));
    let expected = [
        (Subject::Limits, "stall_timeout".to_owned()),
        (Subject::Scheduler, "a".to_owned()),
        (Subject::Tenant, HOST.to_owned()),
    ];
    assert_eq!(changes, expected);
    assert!(settled(&server).ssds[0].view.is_none(), "a scheduler that measures nothing is in charge");
    read_all();
}

#[test]
fn a_device_that_does_not_answer_delays_only_what_is_new() {
    let mut now = config(emulated(1));
    now.subsystems[0].namespaces.push(part(2, "a", 64, 64));
    let before = now.clone();
    let mut server = start(now.clone());
    let mut host = client(&server, ONE, HOST);
    host.io
        .submit(rw(nvm::READ, 2, 0, 256), Transfer::FromController(vec![0; 256 * BLOCK], 256 * BLOCK as u32));
    until(|| server.stats().ssds[0].in_flight > 0);
    now.subsystems[0].namespaces[1].nsid = 3;
    let error = server.reload(now.clone(), Duration::ZERO).expect_err("the read is under way");
    assert!(matches!(&error, ReloadError::Stuck { what, .. } if what.contains("namespace 2")), "{error}");
    assert_eq!(active(&mut host), [1]);
    // Going back to the old configuration is also refused while the read may be in progress.
    assert!(matches!(server.reload(before, Duration::ZERO), Err(ReloadError::Stuck { .. })));
    reload(&mut server, &now);
    assert_eq!(active(&mut host), [1, 3]);
    assert!(host.io.next().expect("an answer").0.status().is_success(), "what was under way has ended well");
}

/// The owner of a target waits in a reload for a write that hangs; who looks meanwhile is answered.
#[test]
fn statistics_come_while_a_reload_waits_for_a_device() {
    let mut before = config(DeviceKind::Null { size: Bytes::gib(1) });
    let never = FaultRelease::Never;
    before.devices[0].faults =
        vec![FaultConfig { op: FaultOp::Write, ..FaultConfig::new(FaultKind::Hang(never)) }];
    let mut server = start(before.clone());
    let mut host = client(&server, ONE, FRIEND);
    host.io.submit(rw(nvm::WRITE, 1, 0, 1), Transfer::ToController(vec![1; 4096], 4096));
    let remote = server.remote();
    until(|| remote.stats().ssds[0].in_flight == 1);
    let now = Config { subsystems: vec![subsystem(TWO, vec![part(1, "a", 64, 64)])], ..before };
    std::thread::scope(|scope| {
        let reload = scope.spawn(|| server.reload(now, Duration::from_secs(2)).map_err(Box::new));
        let mut looks = 0;
        while !reload.is_finished() {
            assert_eq!(remote.stats().ssds[0].in_flight, 1);
            looks += 1;
        }
        assert!(looks > 0);
        let stuck = reload.join().expect("it does not panic").expect_err("the write never ends");
        assert!(matches!(*stuck, ReloadError::Stuck { .. }), "{stuck}");
    });
    remote.stop();
}
