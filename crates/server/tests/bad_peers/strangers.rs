//! Hosts that the configuration does not name, in any number and with any names.

use crate::common::{self, BLOCK, Client, HOST, Options, until};
use crate::log::capture;
use crate::raw::Raw;
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::{Nqn, Status};
use nvme::tcp::pdu::Digests;
use sched::Scheduler;
use server::ServerHandle;
use server::config::{AllowedHosts, Config, DeviceKind, EmulatedConfig, Limits, Speed, TenantConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use units::Bytes;

/// A target for `hosts`, with the named hosts `tenants`.
fn serving(device: DeviceKind, limits: Limits, hosts: AllowedHosts, tenants: &[&str]) -> ServerHandle {
    capture();
    let mut config = Config { limits, ..crate::common::simple(device, common::any_port()) };
    // On a slow SSD the default would learn for minutes; this one knows the SSD. In the other order of Gimbal a tenant has a slot of the eight at
    // least, whatever its weight.
    config.devices[0].scheduler.policy = Scheduler::GIMBAL_TEXT;
    config.subsystems[0].hosts = hosts;
    config.tenants = tenants.iter().map(|host| TenantConfig::equal(host)).collect();
    common::start(config)
}

fn null() -> DeviceKind {
    DeviceKind::Null { size: Bytes::gib(1) }
}

/// A persistent discovery controller.
fn discover(source: Ipv4Addr, address: SocketAddr, keep_alive: u32) -> (Raw, Status) {
    let mut raw = Raw::greeted_from(source, address, Digests::default());
    let connect = raw.connect_pdu_to(Nqn::DISCOVERY, 0, 32, CNTLID_DYNAMIC, &name(1), keep_alive);
    raw.send(&connect);
    let status = raw.response().status();
    (raw, status)
}

/// An invented host NQN.
fn name(number: u32) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-5555{number:08x}")
}

/// Connects the admin queue of a host; the status of Connect.
fn enter(source: Ipv4Addr, address: SocketAddr, host: &str) -> (Raw, Status) {
    let mut raw = Raw::greeted_from(source, address, Digests::default());
    let status = raw.connect(0, 32, CNTLID_DYNAMIC, host, 0).status();
    (raw, status)
}

#[test]
fn a_named_host_gets_in_through_any_number_of_discovery_controllers() {
    const FLOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
    let allowed = AllowedHosts::Only(vec![HOST.to_owned()]);
    let server = serving(null(), Limits::default(), allowed, &[]);
    let address = server.addresses()[0];
    let (_, status) = discover(FLOOD, address, u32::MAX);
    assert_eq!(status, Status::KEEP_ALIVE_TIMEOUT_INVALID, "nobody is kept for seven weeks");
    let mut flood: Vec<Raw> = (0..1022).map(|_| discover(FLOOD, address, 600_000).0).collect();
    let start = Instant::now();
    let mut client = Client::connect(address);
    assert_eq!(client.read(1, 0, 1), Ok(vec![0; BLOCK]));
    println!("next to 1022 discovery controllers a named host connected after {:?}", start.elapsed());
    let kept = Limits::default().discovery_per_address as usize;
    assert!(flood[..1022 - kept].iter_mut().all(Raw::is_closed), "the flood evicted its own connections");
    assert!(flood[1022 - kept..].iter_mut().all(|raw| raw.enable().status().is_success()), "the last stay");
    assert!(discover(Ipv4Addr::LOCALHOST, address, 0).1.is_success(), "a new connection gets in");
}

#[test]
fn unnamed_hosts_take_no_connection_of_a_named_host() {
    let limits = Limits { connections: 64, ..Limits::default() };
    let server = serving(null(), limits, AllowedHosts::Any, &[HOST]);
    let address = server.addresses()[0];
    let mut inside = Vec::new();
    for number in 0..400u32 {
        let source = Ipv4Addr::new(127, 0, 8, 1 + (number % 20) as u8);
        let (raw, status) = enter(source, address, &name(number));
        match status {
            Status::SUCCESS => inside.push(raw),
            status => assert_eq!(status, Status::CONNECT_CONTROLLER_BUSY, "the host may try again later"),
        }
    }
    assert!((20..=32).contains(&inside.len()), "{} unnamed hosts are connected", inside.len());
    // Half of all connections are guaranteed to the only named host.
    let mut named: Vec<Client> = (0..15).map(|_| Client::connect(address)).collect();
    assert!(named.iter_mut().all(|client| client.read(1, 0, 1).is_ok()));
    // Afterwards they are free again.
    drop((inside, named));
    until(|| enter(Ipv4Addr::LOCALHOST, address, &name(1)).1.is_success());
}

#[test]
fn an_address_has_a_bounded_number_of_hosts() {
    let server =
        serving(null(), Limits { hosts_per_address: 4, ..Limits::default() }, AllowedHosts::Any, &[]);
    let address = server.addresses()[0];
    let connect = |number| enter(Ipv4Addr::new(127, 0, 0, 8), address, &name(number));
    let inside: Vec<_> = (0..4).map(connect).collect();
    assert!(inside.iter().all(|(_, status)| status.is_success()));
    assert_eq!(connect(4).1, Status::CONNECT_CONTROLLER_BUSY);
    assert!(connect(3).1.is_success(), "one of the four");
    assert!(enter(Ipv4Addr::new(127, 0, 0, 9), address, &name(4)).1.is_success(), "another address");
    drop(inside);
    until(|| connect(4).1.is_success());
}

#[test]
fn an_address_has_one_share_however_many_names_it_uses() {
    const NAMES: u32 = 8;
    const DEPTH: u16 = 32;
    // The SSD is so slow that it is the bottleneck.
    let speed = Speed::from_thousandths(20).expect("above zero");
    let device = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let server = serving(device, Limits::default(), AllowedHosts::Any, &[HOST]);
    let address = server.addresses()[0];
    let unnamed: Vec<&'static str> = (1..=NAMES).map(|number| &*name(100 + number).leak()).collect();
    let done = |server: &ServerHandle, is_counted: &dyn Fn(&str) -> bool| -> u64 {
        let ssd = &server.stats().ssds[0];
        let counted = ssd.tenants.iter().filter(|tenant| tenant.tenant.host().is_some_and(is_counted));
        counted.map(|tenant| tenant.counters.reads.ios).sum()
    };
    let clients = unnamed
        .iter()
        .copied()
        .chain([HOST])
        .map(|host| Client::with(address, &Options { host, ..Options::default() }));
    let clients: Vec<Client> = clients.collect();
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || client.read_until(stop, DEPTH));
        }
        until(|| done(&server, &|host| host != HOST) > 500 && done(&server, &|host| host == HOST) > 500);
        let before = (done(&server, &|host| host == HOST), done(&server, &|host| host != HOST));
        until(|| done(&server, &|_| true) > before.0 + before.1 + 4000);
        let named = done(&server, &|host| host == HOST) - before.0;
        let unnamed_reads = done(&server, &|host| host != HOST) - before.1;
        stop.store(true, Ordering::Relaxed);
        println!("the named host: {named} reads; {NAMES} names of one address: {unnamed_reads}");
        // With equal shares for all names, they would have eight times as many as the named host.
        assert!(named * 5 >= unnamed_reads * 4, "{named} reads against {unnamed_reads}");
    });
}

impl Client {
    /// Keeps `depth` reads of 32 KiB outstanding.
    fn read_until(&mut self, stop: &AtomicBool, depth: u16) {
        use nvme::tcp::Transfer;
        const BLOCKS: usize = 8;
        let mut number = 0;
        let mut submit = |io: &mut common::Queue| {
            number += 1;
            let length = BLOCKS * BLOCK;
            let read =
                common::rw(nvme::spec::opcode::nvm::READ, 1, number * 37 % 4096 * BLOCKS as u64, BLOCKS);
            io.submit(read, Transfer::FromController(vec![0; length], length as u32));
        };
        (0..depth).for_each(|_| submit(&mut self.io));
        while !stop.load(Ordering::Relaxed) {
            assert!(self.io.next().expect("an answer").0.status().is_success());
            submit(&mut self.io);
        }
    }
}
