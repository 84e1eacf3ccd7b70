//! Namespaces that are tenants: shares, promises, credit and counters are those of the namespace, whichever host uses it.

mod common;

use common::*;
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sqe, Status, feature};
use nvme::tcp::Transfer;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use sched::{Percentile, Scheduler, Slo};
use server::config::{
    AisConfig, AisStore, Config, DeviceConfig, DeviceKind, EmulatedConfig, NamespaceConfig, SchedulerConfig,
    ShareConfig, Speed, TenantConfig, TenantKind, offered,
};
use server::{ServerHandle, Shutdown, Stats, Subject, TenantName};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use units::{ByteRate, Bytes, Nanos};

const SUBSYSTEM: &str = NEAR;
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const AMPLE: Duration = Duration::from_secs(120);
/// Blocks of a read of the loads: 16 KiB.
const BLOCKS: usize = 4;
const MIB_EACH: u64 = 64;

/// An SSD so slow that it is the bottleneck, with a scheduler that knows it.
fn slow_ssd(policy: &'static Scheduler) -> DeviceConfig {
    let speed = Speed::from_thousandths(20).expect("above zero");
    let kind = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let scheduler = SchedulerConfig { policy, ..SchedulerConfig::default() };
    DeviceConfig { scheduler, ..DeviceConfig::new("a", kind) }
}

fn part(nsid: u32, share: ShareConfig) -> NamespaceConfig {
    NamespaceConfig {
        offset: Bytes::mib(u64::from(nsid - 1) * MIB_EACH),
        size: Some(Bytes::mib(MIB_EACH)),
        share: Some(share),
        ..NamespaceConfig::whole(nsid, "a")
    }
}

fn weight(weight: u32) -> ShareConfig {
    ShareConfig { weight, ..ShareConfig::EQUAL }
}

/// One subsystem of namespaces that are tenants.
fn volumes(device: DeviceConfig, shares: impl IntoIterator<Item = ShareConfig>) -> Config {
    let namespaces = shares.into_iter().zip(1..).map(|(share, nsid)| part(nsid, share)).collect();
    let mut config = simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port());
    config.devices = vec![device];
    config.subsystems = vec![subsystem(SUBSYSTEM, namespaces)];
    config.subsystems[0].tenant = TenantKind::Namespace;
    config
}

/// The same namespaces, and their hosts are the tenants.
fn of_hosts(mut config: Config) -> Config {
    config.subsystems[0].tenant = TenantKind::Host;
    config.subsystems[0].namespaces.iter_mut().for_each(|namespace| namespace.share = None);
    config
}

fn named(nsid: u32) -> TenantName {
    TenantName::of_namespace(SUBSYSTEM, nsid)
}

fn host(nqn: &str) -> TenantName {
    TenantName::Host(nqn.into())
}

fn as_host(server: &ServerHandle, host: &'static str) -> Client {
    Client::with(server.addresses()[0], &Options { host, ..Options::default() })
}

/// A client whose queue holds so much that every load still waits at the target after the client was kept from a processor for a while.
fn deep(server: &ServerHandle) -> Client {
    Client::with(server.addresses()[0], &Options { io_entries: 1024, ..Options::default() })
}

/// Reads by tenant of the first SSD.
fn reads_by_tenant(stats: &Stats) -> HashMap<TenantName, u64> {
    let mut reads = HashMap::new();
    for tenant in &stats.ssds[0].tenants {
        let before = reads.insert(tenant.tenant.clone(), tenant.counters.reads.ios);
        assert_eq!(before, None, "{} has two entries", tenant.tenant);
    }
    reads
}

/// Reads of several namespaces on one connection, each with a number outstanding.
struct Load {
    outstanding: HashMap<u16, u32>,
    done: HashMap<u32, u64>,
    number: u64,
}

impl Load {
    fn begin(client: &mut Client, depths: &[(u32, usize)]) -> Load {
        let mut load = Load { outstanding: HashMap::new(), done: HashMap::new(), number: 0 };
        for (nsid, depth) in depths {
            (0..*depth).for_each(|_| load.submit(client, *nsid));
        }
        load
    }

    fn submit(&mut self, client: &mut Client, nsid: u32) {
        self.number += 1;
        let length = BLOCKS * BLOCK;
        let read = rw(nvm::READ, nsid, self.number * 37 % 4096 * BLOCKS as u64, BLOCKS);
        let cid = client.io.submit(read, Transfer::FromController(vec![0; length], length as u32));
        self.outstanding.insert(cid, nsid);
    }

    /// One read ends. Returns its namespace and credit.
    fn end_one(&mut self, client: &mut Client) -> (u32, u32) {
        let (cqe, _) = client.io.next().expect("an answer");
        assert_eq!(cqe.status(), Status::SUCCESS);
        let nsid = self.outstanding.remove(&cqe.cid()).expect("each is answered once");
        *self.done.entry(nsid).or_default() += 1;
        (nsid, cqe.dw0())
    }

    /// Goes on until namespace `nsid` has had `count` more reads. Returns the reads of all meanwhile.
    fn run(&mut self, client: &mut Client, nsid: u32, count: u64) -> HashMap<u32, u64> {
        let before = self.done.clone();
        let of = |done: &HashMap<u32, u64>, nsid| done.get(&nsid).copied().unwrap_or(0);
        while of(&self.done, nsid) < of(&before, nsid) + count {
            let (ended, _) = self.end_one(client);
            self.submit(client, ended);
        }
        self.done.iter().map(|(nsid, done)| (*nsid, done - of(&before, *nsid))).collect()
    }

    fn finish(&mut self, client: &mut Client) {
        while !self.outstanding.is_empty() {
            self.end_one(client);
        }
    }
}

#[test]
fn eight_namespaces_of_one_host_get_their_weights() {
    let weights = [1, 1, 2, 2, 4, 4, 8, 8];
    let total: u32 = weights.iter().sum();
    // mClock has shares by weight to the IO; with gimbal each tenant has one slot of eight at least.
    let mut device = slow_ssd(Scheduler::MCLOCK);
    // At this speed a heavy one has reads for half a second waiting: it keeps its share where other tests keep the processors busy.
    let speed = Speed::from_thousandths(5).expect("above zero");
    device.kind = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let server = start(volumes(device, weights.map(weight)));
    let mut client = deep(&server);
    let depths: Vec<(u32, usize)> = (1..=8).map(|nsid| (nsid, 120)).collect();
    let mut load = Load::begin(&mut client, &depths);
    // The last one's reads came last: the others had the SSD for themselves before.
    load.run(&mut client, 8, 200);
    let reads = load.run(&mut client, 1, 60);
    let all: u64 = reads.values().sum();
    for (nsid, weight) in (1..).zip(weights) {
        let due = all as f64 * f64::from(weight) / f64::from(total);
        let got = reads[&nsid] as f64;
        println!("namespace {nsid}, weight {weight}: {got} reads, {due:.0} are due");
        assert!((0.8..=1.25).contains(&(got / due)), "namespace {nsid}: {got} of {due:.0} reads");
    }
    load.finish(&mut client);
    let by_tenant = reads_by_tenant(&settled(&server));
    for nsid in 1..=8 {
        assert_eq!(by_tenant[&named(nsid)], load.done[&nsid]);
    }
    assert_eq!(by_tenant[&host(HOST)], 0, "the host has a connection and no share");
}

#[test]
fn a_quiet_namespace_has_its_share_beside_a_noisy_one_of_the_same_host() {
    let quiet_part = |config: Config| {
        let server = start(config);
        let mut client = deep(&server);
        let mut load = Load::begin(&mut client, &[(1, 900), (2, 100)]);
        load.run(&mut client, 2, 20);
        let reads = load.run(&mut client, 2, 200);
        reads[&2] as f64 / (reads[&1] + reads[&2]) as f64
    };
    let config = volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [weight(1), weight(1)]);
    let (beside_host, beside_namespace) = (quiet_part(of_hosts(config.clone())), quiet_part(config));
    println!(
        "of the reads are the quiet namespace's: {beside_host:.2} where the host is the tenant, {beside_namespace:.2} where namespaces are"
    );
    assert!(beside_host < 0.2, "{beside_host}: the host's IOs are served in turn");
    assert!(beside_namespace > 0.4, "{beside_namespace}: half is its share");
}

#[test]
fn two_hosts_of_one_namespace_share_one_entry_and_one_limit() {
    let limit = ShareConfig { limit_iops: Some(40), ..ShareConfig::EQUAL };
    let mut config = volumes(slow_ssd(Scheduler::LEVEL), [limit, weight(1)]);
    // A limit of the host does not count where the namespace is the tenant.
    config.tenants =
        vec![TenantConfig::with(HOST, ShareConfig { limit_iops: Some(1), ..ShareConfig::EQUAL })];
    let server = start(config);
    let (mut one, mut two) = (as_host(&server, HOST), as_host(&server, OTHER));
    let begin = server.stats().ssds[0].at;
    for lba in 0..10 {
        assert!(one.read(1, lba, 1).is_ok() && two.read(1, lba, 1).is_ok());
    }
    let took = server.stats().ssds[0].at.since(begin);
    // At 40 IOPS in real time, on the clock of an SSD of a fiftieth of its speed.
    assert!(took >= Nanos::micros(18 * 500), "20 reads within {took}: the limit does not hold for both");
    (0..200).for_each(|lba| assert!(one.read(2, lba, 1).is_ok(), "the other namespace has no limit"));
    let reads = reads_by_tenant(&settled(&server));
    let expected = [(named(1), 20), (named(2), 200), (host(HOST), 0), (host(OTHER), 0)];
    assert_eq!(reads, HashMap::from(expected));
}

#[test]
fn a_namespace_has_its_reservation() {
    let part_of_second = |reservation| {
        let second = ShareConfig { reservation, ..ShareConfig::EQUAL };
        let server = start(volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [weight(30), second]));
        let mut client = deep(&server);
        let mut load = Load::begin(&mut client, &[(1, 400), (2, 200)]);
        load.run(&mut client, 2, 20);
        let reads = load.run(&mut client, 1, 2000);
        reads[&2] as f64 / (reads[&1] + reads[&2]) as f64
    };
    let (without, with) = (part_of_second(None), part_of_second(Some(ByteRate(10 << 20))));
    println!(
        "a namespace of weight 1 beside one of 30 has {without:.3} of the reads, with 10 MiB/s reserved {with:.3}"
    );
    assert!(without < 0.06 && with > 2.0 * without, "{without:.3} without, {with:.3} with");
}

#[test]
fn a_namespace_has_an_objective_that_statistics_tell_of() {
    let slo = Slo { iops: 100, read_percent: 100, percentile: Percentile::P99, latency: Nanos::secs(1) };
    let promised = ShareConfig { slo: Some(slo), ..ShareConfig::EQUAL };
    let server = start(volumes(slow_ssd(Scheduler::LEVEL), [promised, weight(1)]));
    let mut client = as_host(&server, HOST);
    for lba in 0..50 {
        assert!(client.read(1, lba, 1).is_ok() && client.read(2, lba, 1).is_ok());
    }
    let stats = settled(&server);
    for (nsid, has) in [(1, true), (2, false)] {
        let tenant = stats.ssds[0].tenants.iter().find(|tenant| tenant.tenant == named(nsid));
        let view = tenant.expect("it is listed").view.expect("this scheduler has views");
        assert_eq!(view.objective.is_some(), has, "namespace {nsid}");
    }
}

/// While three tenants read over one connection.
#[test]
fn a_completion_has_the_credit_of_the_tenant_of_its_io() {
    let limited = ShareConfig { limit_iops: Some(50), ..ShareConfig::EQUAL };
    let server = start(volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [limited, weight(1), weight(8)]));
    let mut client = as_host(&server, HOST);
    let dwords = [u32::from(feature::CREDITS), feature::CREDITS_ENABLED, 0, 0, 0, 0];
    let set = Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords);
    assert_eq!(client.admin.command(set, Transfer::None).0.status(), Status::SUCCESS);
    let mut load = Load::begin(&mut client, &[(1, 20), (2, 40), (3, 40)]);
    // Until both have arrived at the scheduler, the first one has the SSD for itself: so its least credit counts, and the other's largest.
    let (mut light, mut heavy) = (u32::MAX, 0);
    while !load.outstanding.is_empty() {
        let (nsid, credit) = load.end_one(&mut client);
        let has = |nsid: u32| load.outstanding.values().any(|other| *other == nsid);
        if has(2) && has(3) {
            match nsid {
                2 => light = light.min(credit),
                3 => heavy = heavy.max(credit),
                _ => {}
            }
        }
    }
    assert!(heavy > 0 && light < u32::MAX, "both had reads at a time");
    println!("credits of weights 1 and 8: {light} and {heavy}");
    assert!(heavy >= 4 * light, "credits of weights 1 and 8: {light} and {heavy}");
}

#[test]
fn a_host_that_is_called_like_a_namespace_has_nothing_of_it() {
    const IMPOSTOR: &str = "namespace 1 of nqn.2025-01.io.gimbal:ssd-0000000000000001";
    let nqn = "nqn.2025-01.io.gimbal:ssd-0000000000000001";
    let mut config = volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [weight(8)]);
    config.subsystems[0].nqn = nqn.to_owned();
    config
        .subsystems
        .push(subsystem(FAR, vec![NamespaceConfig { share: None, ..part(2, ShareConfig::EQUAL) }]));
    let server = start(config);
    assert_eq!(TenantName::of_namespace(nqn, 1).to_string(), IMPOSTOR);
    let options =
        |subsystem: &str, host| Options { subsystem: subsystem.to_owned(), host, ..Options::default() };
    let mut owner = Client::with(server.addresses()[0], &options(nqn, HOST));
    let mut impostor = Client::with(server.addresses()[0], &options(FAR, IMPOSTOR));
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server = &server;
        let reads = |name: &TenantName| reads_by_tenant(&server.stats())[name];
        let (of_namespace, of_impostor) = (TenantName::of_namespace(nqn, 1), host(IMPOSTOR));
        for (client, nsid) in [(&mut owner, 1), (&mut impostor, 2)] {
            scope.spawn(move || {
                let mut load = Load::begin(client, &[(nsid, 64)]);
                while !stop.load(Ordering::Relaxed) {
                    load.run(client, nsid, 1);
                }
                load.finish(client);
            });
        }
        until(|| reads(&of_namespace) > 200 && reads(&of_impostor) > 20);
        let before = [reads(&of_namespace), reads(&of_impostor)];
        until(|| reads(&of_namespace) > before[0] + 1500);
        let (got, of_other) = (reads(&of_namespace) - before[0], reads(&of_impostor) - before[1]);
        stop.store(true, Ordering::Relaxed);
        println!("the namespace of weight 8: {got} reads; the host that is called like it: {of_other}");
        assert!(of_other * 5 < got, "{of_other} reads of the impostor, {got} of the namespace");
    });
}

#[test]
fn every_scheduler_and_kind_of_device_counts_for_namespaces() {
    let folder = Folder::new("namespace-tenants");
    let fast = |policy| DeviceConfig {
        scheduler: SchedulerConfig {
            policy,
            calibration: policy.needs_calibration().then(calibration),
            ..SchedulerConfig::default()
        },
        ..DeviceConfig::new("a", fast_ssd())
    };
    let mut devices: Vec<(String, DeviceConfig)> =
        offered().map(|policy| (policy.name.to_owned(), fast(policy))).collect();
    let file = DeviceKind::File {
        path: folder.0.join("image"),
        size: Some(Bytes::mib(256)),
        create: true,
        direct: true,
    };
    devices.push(("null".to_owned(), DeviceConfig::new("a", DeviceKind::Null { size: Bytes::mib(256) })));
    devices.push(("file".to_owned(), DeviceConfig::new("a", file)));
    let profile =
        folder.write("small.toml", include_str!("../../../calibrations/probed/consumer-small.toml"));
    let (store, size) = (AisStore::Ram, Bytes::mib(64));
    let ais = AisConfig { profile, store, size, create: false, faults: Vec::new() };
    devices.push((
        "auxiliary store".to_owned(),
        DeviceConfig { ais: Some(ais), ..DeviceConfig::new("a", fast_ssd()) },
    ));
    for (what, device) in devices {
        for threads in [1, 4] {
            let mut config = volumes(device.clone(), [weight(2), weight(1), weight(4)]);
            config.subsystems[0].namespaces[1].tenant = Some(TenantKind::Host);
            config.subsystems[0].namespaces[1].share = None;
            config.threads = Some(threads);
            let server = start(config);
            let mut clients = [as_host(&server, HOST), as_host(&server, OTHER)];
            for client in &mut clients {
                for nsid in 1..=3 {
                    assert_eq!(client.write(nsid, 8, &pattern(u64::from(nsid), 2 * BLOCK)), Status::SUCCESS);
                    assert_eq!(client.flush(nsid), Status::SUCCESS);
                }
                let mut load = Load::begin(client, &[(1, 10), (2, 20), (3, 30)]);
                load.finish(client);
            }
            let expected = [(named(1), 20), (named(3), 60), (host(HOST), 20), (host(OTHER), 20)];
            let stats = settled(&server);
            assert_eq!(reads_by_tenant(&stats), HashMap::from(expected), "{what}, {threads} threads");
            assert_eq!(stats.ssds[0].all.reads.ios, 120, "{what}");
            let writes = stats.ssds[0].tenants.iter().map(|tenant| tenant.counters.writes.ios);
            assert_eq!(writes.sum::<u64>(), 6, "{what}");
            assert_eq!(server.shutdown(AMPLE), Shutdown::Complete, "{what}");
        }
    }
}

/// A calibration of the emulated SSD, for schedulers that need one.
fn calibration() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../calibrations/dct983.toml"))
}

#[test]
fn a_namespace_on_another_ssd_than_its_subsystem_counts_there_alone() {
    for backend in backends() {
        let mut config = two_ssds(backend, Vec::new());
        config.subsystems[1].tenant = TenantKind::Namespace;
        let server = start(config);
        let options = Options { subsystem: FAR.to_owned(), ..Options::default() };
        let mut client = Client::with(server.addresses()[0], &options);
        let mut load = Load::begin(&mut client, &[(1, 30), (2, 50)]);
        load.finish(&mut client);
        let stats = settled(&server);
        let of = |ssd: usize| -> Vec<(TenantName, u64)> {
            let tenants = stats.ssds[ssd].tenants.iter();
            let namespaces = tenants.filter(|tenant| tenant.tenant.host().is_none());
            namespaces.map(|tenant| (tenant.tenant.clone(), tenant.counters.reads.ios)).collect()
        };
        assert_eq!(of(0), [(TenantName::of_namespace(FAR, 2), 50)]);
        assert_eq!(of(1), [(TenantName::of_namespace(FAR, 1), 30)]);
    }
}

/// Seeded rounds of changes while two hosts write and read what they have written.
#[test]
fn tenants_change_under_io_and_nothing_is_lost_or_counted_twice() {
    for (seed, threads) in [(1, 1), (2, 2), (3, 4)] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut now = volumes(DeviceConfig::new("a", fast_ssd()), [weight(1), weight(1), weight(1)]);
        now.threads = Some(threads);
        let mut server = start(now.clone());
        let stop = AtomicBool::new(false);
        let clients = [as_host(&server, HOST), as_host(&server, OTHER)];
        let ios = std::thread::scope(|scope| {
            let loads = clients.into_iter().zip([0u64, 2048]).map(|(mut client, first)| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut ios = 0;
                    for round in 0u64.. {
                        let (nsid, lba) = (1 + (round % 2) as u32, first + round * 7 % 512);
                        let data = pattern(round ^ first, 2 * BLOCK);
                        assert_eq!(client.write(nsid, lba, &data), Status::SUCCESS);
                        assert!(client.read(nsid, lba, 2).expect("readable") == data, "round {round}");
                        ios += 2;
                        if stop.load(Ordering::Relaxed) {
                            return ios;
                        }
                    }
                    unreachable!("it is stopped")
                })
            });
            let loads: Vec<_> = loads.collect();
            let mut total = 0;
            for _ in 0..60 {
                let namespaces = &mut now.subsystems[0].namespaces;
                let namespace = &mut namespaces[(random.next_u64() % 2) as usize];
                match random.next_u64() % 4 {
                    0 => {
                        namespace.share =
                            namespace.tenant.is_none().then(|| weight(1 + (random.next_u64() % 9) as u32))
                    }
                    1 => (namespace.tenant, namespace.share) = (Some(TenantKind::Host), None),
                    2 => namespace.tenant = None,
                    // The third comes and goes.
                    _ => match namespaces.len() {
                        3 => drop(namespaces.pop()),
                        _ => namespaces.push(part(3, weight(2))),
                    },
                }
                let previewed = server.preview(&now).unwrap_or_else(|error| panic!("{error}"));
                let changes = server.reload(now.clone(), AMPLE).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(changes, previewed);
                let stats = server.stats();
                let all = &stats.ssds[0].all;
                let sum = all.reads.ios + all.writes.ios;
                assert!(sum >= total, "{sum} IOs after {total}");
                total = sum;
                reads_by_tenant(&stats);
            }
            stop.store(true, Ordering::Relaxed);
            loads.into_iter().map(|load| load.join().expect("every IO succeeds")).sum::<u64>()
        });
        let stats = settled(&server);
        let all = &stats.ssds[0].all;
        assert_eq!(all.reads.ios + all.writes.ios, ios, "seed {seed}");
        // Those that are no tenants any more are listed no more.
        let tenants: Vec<TenantName> = now.namespace_tenants().map(|it| named(it.namespace.nsid)).collect();
        until(|| {
            let listed = reads_by_tenant(&server.stats());
            listed.keys().filter(|name| name.host().is_none()).count() == tenants.len()
                && tenants.iter().all(|name| listed.contains_key(name))
        });
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    }
}

/// The SSD hangs, so that reads are in flight while their namespace becomes its host's.
#[test]
fn ios_end_under_the_tenant_that_they_began_under() {
    let mut now = volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [weight(1)]);
    let mut server = start(now.clone());
    let mut client = as_host(&server, HOST);
    let mut load = Load::begin(&mut client, &[(1, 100)]);
    until(|| server.stats().ssds[0].in_flight + server.stats().ssds[0].queued > 50);
    now = of_hosts(now);
    let changes = server.reload(now.clone(), AMPLE).expect("it changes at once");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].subject, Subject::Tenant);
    assert_eq!(changes[0].to_string(), format!("tenant namespace 1 of {SUBSYSTEM}: removed"));
    let before = server.stats().ssds[0].all.reads.ios;
    assert!(before < 100, "all reads have ended");
    (0..20).for_each(|_| load.submit(&mut client, 1));
    load.finish(&mut client);
    until(|| !reads_by_tenant(&settled(&server)).contains_key(&named(1)));
    let stats = settled(&server);
    assert_eq!(reads_by_tenant(&stats), HashMap::from([(host(HOST), 20)]));
    assert_eq!(stats.ssds[0].all.reads.ios, 120, "the counts of the namespace are the SSD's");
    // And back, with the counters at zero.
    now = volumes(slow_ssd(Scheduler::GIMBAL_TEXT), [weight(3)]);
    let changes =
        server.reload(Config { listen: server.config().listen.clone(), ..now }, AMPLE).expect("it changes");
    assert_eq!(changes[0].to_string(), format!("tenant namespace 1 of {SUBSYSTEM}: added, weight 3"));
    let mut load = Load::begin(&mut client, &[(1, 5)]);
    load.finish(&mut client);
    assert_eq!(reads_by_tenant(&settled(&server)), HashMap::from([(host(HOST), 20), (named(1), 5)]));
}

#[test]
fn reservations_are_those_of_hosts_and_outlive_a_restart() {
    let folder = Folder::new("namespace-tenants-reservations");
    let reserve = |client: &mut Client, opcode, dword10: u32, keys: [u64; 2]| {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
        client.io.command(sqe, Transfer::ToController(data, 16)).0.status()
    };
    let mut config = volumes(DeviceConfig::new("a", fast_ssd()), [weight(2)]);
    config.state_dir = Some(folder.0.join("state"));
    let server = start(config.clone());
    let mut holder = as_host(&server, HOST);
    assert_eq!(reserve(&mut holder, nvm::RESERVATION_REGISTER, 3 << 30, [0, 7]), Status::SUCCESS);
    assert_eq!(reserve(&mut holder, nvm::RESERVATION_ACQUIRE, 1 << 8, [7, 0]), Status::SUCCESS);
    assert_eq!(as_host(&server, OTHER).write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    let server = start(config);
    let mut other = as_host(&server, OTHER);
    assert_eq!(other.write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
    assert_eq!(as_host(&server, HOST).write(1, 0, &pattern(1, BLOCK)), Status::SUCCESS);
    assert!(other.read(1, 0, 1).is_ok());
    let stats = settled(&server);
    let tenant = stats.ssds[0].tenants.iter().find(|tenant| tenant.tenant == named(1));
    assert_eq!(tenant.expect("it is listed").counters.writes.ios, 1);
}

#[test]
fn promises_to_namespaces_are_judged_by_their_ssds_scheduler() {
    let reserving = |rate| ShareConfig { reservation: Some(ByteRate(rate)), ..ShareConfig::EQUAL };
    let refused = volumes(slow_ssd(Scheduler::GIMBAL), [weight(1), reserving(100 << 30)]).judge();
    let said = refused.expect_err("no SSD has as much").to_string();
    assert!(
        said.contains("subsystem[0].namespace[1].reservation: the reservations on device \"a\" come to"),
        "{said}"
    );
    // A host has no reservation on an SSD on which it counts as no tenant.
    let mut of_host = volumes(slow_ssd(Scheduler::GIMBAL), [weight(1)]);
    of_host.tenants = vec![TenantConfig::with(HOST, reserving(100 << 30))];
    assert!(of_host.judge().is_ok());
    let slo = Slo { iops: 100, read_percent: 100, percentile: Percentile::P99, latency: Nanos::secs(1) };
    let promised = ShareConfig { slo: Some(slo), ..reserving(1 << 20) };
    let warned = volumes(slow_ssd(Scheduler::NONE), [promised]).warnings().join("\n");
    assert!(warned.contains("keeps no reservations, and 1 are written"), "{warned}");
    assert!(
        warned.contains(&format!("keeps to no objective, and namespace 1 of {SUBSYSTEM} has one")),
        "{warned}"
    );
}
