//! Draining for maintenance: hosts are turned away, their IOs end, and it is over when an operator or a restart says so.

mod common;

use common::*;
use nvme::spec::event::EventKind;
use nvme::spec::opcode::nvm;
use nvme::spec::{Nqn, Status};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{
    AccessState, BackendChoice, DeviceConfig, FaultConfig, FaultKind, FaultOp, FaultRelease, GroupConfig,
    NamespaceConfig,
};
use server::{ConnectionFacts, Listing, ServerHandle, Shutdown};
use std::time::Duration;
use units::{Bytes, Nanos};

/// Long enough for everything that ends.
const AMPLE: Duration = Duration::from_secs(60);

fn listing(server: &ServerHandle) -> Listing {
    server.remote().connections(AMPLE)
}

/// IOs of all hosts.
fn ios(server: &ServerHandle) -> usize {
    listing(server).connections.iter().map(|facts| facts.ios).sum()
}

fn far() -> Options {
    Options { subsystem: FAR.to_owned(), ..Options::default() }
}

/// Writes to the first SSD meet this fault once.
fn fault(release: FaultRelease) -> Vec<FaultConfig> {
    let hang = FaultConfig::new(FaultKind::Hang(release));
    vec![FaultConfig { op: FaultOp::Write, count: Some(1), ..hang }]
}

#[test]
fn hosts_are_turned_away_and_what_was_accepted_ends() {
    for backend in backends() {
        let mut config = two_ssds(backend, fault(FaultRelease::AtIo(2)));
        config.devices[0].scheduler.policy = Scheduler::NONE;
        let server = start(config);
        let address = server.addresses()[0];
        let (mut near, mut host) = (Client::connect(address), Client::with(address, &far()));
        listen_for(&mut near.admin, EventKind::AnaChanged);
        // On the SSD of another thread than that of the connection.
        let data = || Transfer::ToController(pattern(1, BLOCK), BLOCK as u32);
        host.io.submit(rw(nvm::WRITE, 2, 0, 1), data());
        until(|| server.stats().ssds[0].in_flight == 1);
        assert!(!server.stats().is_drained);
        server.remote().drain(true);
        let Listing { connections, unanswered } = listing(&server);
        assert!(server.stats().is_drained && unanswered.is_empty());
        let busy: Vec<&ConnectionFacts> = connections.iter().filter(|facts| facts.ios > 0).collect();
        let [facts] = busy[..] else { panic!("{connections:?}") };
        assert_eq!((facts.subsystem.as_deref(), facts.queue, facts.ios), (Some(FAR), 1, 1));
        // The threads have answered, so hosts have been told, and nothing more is accepted.
        assert_eq!(near.read(1, 0, 1), Err(Status::ANA_INACCESSIBLE));
        told(&mut near.admin, EventKind::AnaChanged);
        let refused = Client::try_with(address, &Options::default()).err();
        assert_eq!(refused, Some(Status::CONNECT_CONTROLLER_BUSY), "worth another try later");
        let discovery = Options { subsystem: Nqn::DISCOVERY.to_owned(), ..Options::default() };
        let mut queue = Queue::open(address, 32, &discovery);
        assert!(queue.connect(0, 32, nvme::spec::connect::CNTLID_DYNAMIC, &discovery).status().is_success());

        server.remote().drain(false);
        assert_eq!(connections.len(), listing(&server).connections.len(), "none was lost");
        told(&mut near.admin, EventKind::AnaChanged);
        assert_eq!(near.write(1, 0, &pattern(2, BLOCK)), Status::SUCCESS, "this releases the other one");
        assert_eq!(host.io.next().expect("an answer").0.status(), Status::SUCCESS);
        assert_eq!(ios(&server), 0);
        drop(Client::connect(address));
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    }
}

#[test]
fn what_hosts_have_under_way_is_counted_down_to_nothing() {
    let slow = fault(FaultRelease::After(Nanos::millis(20)));
    let server = start(two_ssds(BackendChoice::Auto, slow));
    let mut host = Client::connect(server.addresses()[0]);
    host.io.submit(rw(nvm::WRITE, 1, 0, 1), Transfer::ToController(pattern(1, BLOCK), BLOCK as u32));
    server.remote().drain(true);
    until(|| ios(&server) == 0);
    let ended = host.io.next().expect("an answer").0.status();
    // It came before the drain, or after it.
    assert!([Status::SUCCESS, Status::ANA_INACCESSIBLE].contains(&ended), "{ended:?}");
    assert_eq!(server.shutdown(AMPLE), Shutdown::Complete, "a drained target ends in order");
}

/// The state of a group changes, and things come, while the target is drained.
#[test]
fn a_reload_meanwhile_shows_hosts_nothing_until_the_end() {
    let mut now = two_ssds(BackendChoice::Auto, Vec::new());
    let mut server = start(now.clone());
    let address = server.addresses()[0];
    let mut host = Client::connect(address);
    server.remote().drain(true);
    let quarter = |nsid, device: &str| NamespaceConfig {
        offset: Bytes::mib(512),
        size: Some(Bytes::mib(256)),
        ..NamespaceConfig::whole(nsid, device)
    };
    let other = "nqn.2025-01.io.example:other";
    now.devices.push(DeviceConfig::new("c", fast_ssd()));
    now.groups.push(GroupConfig { name: "left".to_owned(), id: None, state: AccessState::NonOptimized });
    now.subsystems[0].namespaces[0].group = Some("left".to_owned());
    now.subsystems[0].namespaces.extend([quarter(5, "b"), quarter(6, "c")]);
    now.subsystems.push(subsystem(
        other,
        vec![NamespaceConfig { size: Some(Bytes::mib(256)), ..NamespaceConfig::whole(1, "c") }],
    ));
    server.reload(now, AMPLE).unwrap_or_else(|error| panic!("{error}"));
    for nsid in [1, 5, 6] {
        assert_eq!(host.read(nsid, 0, 1), Err(Status::ANA_INACCESSIBLE));
    }
    let options = Options { subsystem: other.to_owned(), ..Options::default() };
    assert_eq!(Client::try_with(address, &options).err(), Some(Status::CONNECT_CONTROLLER_BUSY));
    server.remote().drain(false);
    let mut new = Client::with(address, &options);
    assert!(new.read(1, 0, 1).is_ok());
    for nsid in [1, 5, 6] {
        assert!(host.read(nsid, 0, 1).is_ok());
    }
}

#[test]
fn a_device_that_hangs_is_counted_and_not_waited_for() {
    let server = start(two_ssds(BackendChoice::Auto, fault(FaultRelease::Never)));
    let mut host = Client::connect(server.addresses()[0]);
    host.io.submit(rw(nvm::WRITE, 1, 0, 1), Transfer::ToController(pattern(1, BLOCK), BLOCK as u32));
    until(|| server.stats().ssds[0].in_flight == 1);
    server.remote().drain(true);
    assert_eq!(ios(&server), 1);
    // A host that gives up leaves its IO behind.
    drop(host);
    until(|| listing(&server).connections.iter().all(|facts| !facts.is_open));
    assert_eq!(ios(&server), 1);
    server.remote().stop();
}
