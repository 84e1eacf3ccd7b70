//! Several subsystems on several devices: what each host sees, and which hosts may connect.

mod common;

use common::*;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::discovery::{DiscoveryEntry, SubsystemType};
use nvme::spec::identify::descriptor;
use nvme::spec::log::{self, LogRequest};
use nvme::spec::opcode::admin;
use nvme::spec::{Nqn, Sqe, Status};
use nvme::tcp::Transfer;
use server::ServerHandle;
use server::config::{AllowedHosts, DeviceConfig, DeviceKind, NamespaceConfig, SubsystemConfig};
use units::Bytes;
use zerocopy::FromBytes;

const LEFT: &str = "nqn.2025-01.io.example:left";
const RIGHT: &str = "nqn.2025-01.io.example:right";
const FRIEND: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000000f";

fn device(name: &str) -> DeviceConfig {
    DeviceConfig::new(name, fast_ssd())
}

fn half(nsid: u32, device: &str, second: bool) -> NamespaceConfig {
    let offset = if second { Bytes::mib(512) } else { Bytes::ZERO };
    NamespaceConfig { offset, size: Some(Bytes::mib(512)), ..NamespaceConfig::whole(nsid, device) }
}

/// Two devices. `LEFT` has the first half of each; `RIGHT` the second halves in the other order, for one host only.
fn two_by_two() -> ServerHandle {
    let mut config = simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port());
    config.devices = vec![device("a"), device("b")];
    config.subsystems = vec![
        subsystem(LEFT, vec![half(1, "a", false), half(2, "b", false)]),
        SubsystemConfig {
            hosts: AllowedHosts::Only(vec![FRIEND.to_owned()]),
            ..subsystem(RIGHT, vec![half(1, "b", true), half(7, "a", true)])
        },
    ];
    start(config)
}

fn options(subsystem: &str, host: &'static str) -> Options {
    Options { subsystem: subsystem.to_owned(), host, ..Options::default() }
}

#[test]
fn namespaces_on_any_ssd_are_reached_over_one_connection_and_never_mixed_up() {
    let server = two_by_two();
    let address = server.addresses()[0];
    let mut left = Client::with(address, &options(LEFT, HOST));
    let mut right = Client::with(address, &options(RIGHT, FRIEND));
    let last = (512 << 20) / BLOCK as u64 - 40;
    for lba in [0, last] {
        assert_eq!(left.write(1, lba, &pattern(1, 40 * BLOCK)), Status::SUCCESS);
        assert_eq!(left.write(2, lba, &pattern(2, 40 * BLOCK)), Status::SUCCESS);
        assert_eq!(right.write(1, lba, &pattern(3, 40 * BLOCK)), Status::SUCCESS);
        assert_eq!(right.write(7, lba, &pattern(4, 40 * BLOCK)), Status::SUCCESS);
    }
    for lba in [0, last] {
        for (of_left, nsid, seed) in [(true, 1, 1), (true, 2, 2), (false, 1, 3), (false, 7, 4)] {
            let client = if of_left { &mut left } else { &mut right };
            let data = client.read(nsid, lba, 40).expect("readable");
            assert!(data == pattern(seed, 40 * BLOCK), "namespace {nsid} of seed {seed} at {lba}");
            assert_eq!(client.compare(nsid, lba, &data), Status::SUCCESS);
            assert_eq!(client.flush(nsid), Status::SUCCESS);
        }
    }
    assert_eq!(left.read(1, last + 40, 1), Err(Status::LBA_OUT_OF_RANGE));
    assert_eq!(left.read(7, 0, 1), Err(Status::INVALID_NAMESPACE));
    assert_eq!(left.deallocate(2, &[(0, 8), (20, 1)]), Status::SUCCESS);
    assert_eq!(left.read(2, 0, 8), Ok(vec![0; 8 * BLOCK]));
}

#[test]
fn many_ios_to_another_ssd_are_all_answered() {
    use nvme::spec::opcode::nvm;
    let server = two_by_two();
    let mut client = Client::with(server.addresses()[0], &options(LEFT, HOST));
    for round in 0..20 {
        for index in 0..120u64 {
            let nsid = 1 + (index % 2) as u32;
            let data = pattern(index, BLOCK);
            client
                .io
                .submit(rw(nvm::WRITE, nsid, index + round, 1), Transfer::ToController(data, BLOCK as u32));
        }
        for _ in 0..120 {
            assert!(client.io.next().expect("an answer").0.status().is_success());
        }
    }
    let stats = server.stats();
    let writes: Vec<u64> = stats.ssds.iter().map(|ssd| ssd.tenants[0].counters.writes.ios).collect();
    assert_eq!(writes, [1200, 1200], "each SSD counts the tenant's IOs");
}

#[test]
fn a_connection_that_dies_with_ios_on_another_ssd_leaves_nothing_behind() {
    use nvme::spec::opcode::nvm;
    let server = two_by_two();
    let address = server.addresses()[0];
    for _ in 0..10 {
        let mut client = Client::with(address, &options(LEFT, HOST));
        for index in 0..100 {
            let transfer = Transfer::FromController(vec![0; 16 * BLOCK], 16 * BLOCK as u32);
            client.io.submit(rw(nvm::READ, 1 + index % 2, 0, 16), transfer);
        }
    }
    until(|| {
        let stats = server.stats();
        stats
            .ssds
            .iter()
            .all(|ssd| ssd.connections == 0 && ssd.queued + ssd.in_flight == 0 && ssd.memory == Bytes::ZERO)
    });
    let mut client = Client::with(address, &options(LEFT, HOST));
    assert!(client.read(2, 0, 1).is_ok());
}

#[test]
fn a_host_that_is_not_allowed_is_refused() {
    let server = two_by_two();
    let address = server.addresses()[0];
    assert_eq!(Client::try_with(address, &options(RIGHT, HOST)).err(), Some(Status::CONNECT_INVALID_HOST));
    assert!(Client::try_with(address, &options(RIGHT, FRIEND)).is_ok());
    let nowhere = options("nqn.2025-01.io.example:nowhere", HOST);
    assert_eq!(Client::try_with(address, &nowhere).err(), Some(Status::CONNECT_INVALID_PARAMETERS));
}

#[test]
fn discovery_lists_what_a_host_may_use() {
    let server = two_by_two();
    let address = server.addresses()[0];
    for (host, expected) in [(HOST, vec![LEFT]), (FRIEND, vec![LEFT, RIGHT])] {
        let options = options(Nqn::DISCOVERY, host);
        let mut queue = Queue::open(address, 32, &options);
        assert!(queue.connect(0, 32, CNTLID_DYNAMIC, &options).status().is_success());
        enable(&mut queue);
        const LENGTH: u32 = 4096;
        let dwords = [0x70 | (LENGTH / 4 - 1) << 16, 0, 0, 0, 0, 0];
        let sqe = Sqe::new(admin::GET_LOG_PAGE).with_cdw10_15(dwords);
        let (cqe, data) = queue.command(sqe, Transfer::FromController(vec![0; LENGTH as usize], LENGTH));
        assert!(cqe.status().is_success());
        let log = data.expect("a log page");
        let text = String::from_utf8_lossy(&log).into_owned();
        for nqn in [LEFT, RIGHT] {
            assert_eq!(text.contains(nqn), expected.contains(&nqn), "{nqn} for {host}");
        }
        assert!(text.contains(&address.port().to_string()), "the port that the system chose");
    }
}

/// The identification descriptors of a namespace, as Identify Namespace has to agree with them.
fn identifiers(client: &mut Client, nsid: u32) -> ([u8; 16], [u8; 8], [u8; 16]) {
    let ids = descriptor::parse(&client.identify(0x03, nsid));
    let (nguid, eui64) = (ids.nguid.expect("an NGUID"), ids.eui64.expect("an EUI64"));
    let page = client.identify(0x00, nsid);
    assert_eq!((&page[104..120], &page[120..128]), (&nguid[..], &eui64[..]), "both pages say the same");
    assert!(nguid != [0; 16] && eui64 != [0; 8]);
    (nguid, eui64, ids.uuid.expect("a UUID"))
}

/// ESXi ignores namespaces without NGUID and EUI64.
#[test]
fn every_namespace_has_its_own_identifiers_also_after_a_restart() {
    let all = || {
        let server = two_by_two();
        let address = server.addresses()[0];
        let mut left = Client::with(address, &options(LEFT, HOST));
        let mut right = Client::with(address, &options(RIGHT, FRIEND));
        [
            identifiers(&mut left, 1),
            identifiers(&mut left, 2),
            identifiers(&mut right, 1),
            identifiers(&mut right, 7),
        ]
    };
    let first = all();
    for (index, ids) in first.iter().enumerate() {
        for other in &first[..index] {
            assert!(ids.0 != other.0 && ids.1 != other.1 && ids.2 != other.2, "{first:?}");
        }
    }
    assert_eq!(all(), first, "after a restart");
}

#[test]
fn discovery_lists_itself_without_referrals() {
    let server = two_by_two();
    let options = options(Nqn::DISCOVERY, HOST);
    let mut admin = Queue::open(server.addresses()[0], 32, &options);
    assert!(admin.connect(0, 32, CNTLID_DYNAMIC, &options).status().is_success());
    enable(&mut admin);
    let sqe = LogRequest::read(log::DISCOVERY, 0, 4096).to_sqe(0);
    let (cqe, data) = admin.command(sqe, Transfer::FromController(vec![0; 4096], 4096));
    assert!(cqe.status().is_success());
    let data = data.expect("a page");
    assert_eq!(data[8], 2, "itself, and LEFT: RIGHT is not for this host");
    let entries: Vec<DiscoveryEntry> = data[1024..3072]
        .chunks(1024)
        .map(|entry| DiscoveryEntry::read_from_bytes(entry).expect("1024 bytes"))
        .collect();
    let kinds: Vec<_> =
        entries.iter().map(|entry| (entry.subsystem_type(), entry.tells_the_same())).collect();
    assert_eq!(kinds, [(Some(SubsystemType::CurrentDiscovery), true), (Some(SubsystemType::Nvm), false)]);
    assert_eq!(entries[0].subsystem_nqn(), Some(Nqn::discovery()));
    assert_eq!((entries[0].address(), entries[0].port()), (entries[1].address(), entries[1].port()));
}
