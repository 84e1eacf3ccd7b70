//! Hosts with keys prove who they are, and nothing is reached without that.

mod common;

use auth::exchange::{HostExchange, HostKeys, Names, Offer, Outcome, Randomness};
use auth::{DhKey, Explanation, Group, Hash, Message, Secret};
use common::initiator;
use common::proving::{connected, prove, receive, send};
use common::{BLOCK, Client, Folder, HOST, Options, Queue, any_port, fast_ssd, simple, start};
use host::{Fault, Keys, Nqn, TransportType};
use nvme::spec::connect::{ConnectResult, HostId};
use nvme::spec::opcode::{admin, fabrics};
use nvme::spec::property::offset;
use nvme::spec::{AuthenticationCommand, Cqe, Sqe, Status};
use nvme::subsystem::ControllerIds;
use nvme::tcp::Transfer;
use server::config::{AllowedHosts, Authentication, Config, DEFAULT_NQN, DiscoveryAccess, HostConfig};
use server::{Refusal, ServerHandle};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use units::{Bytes, Nanos};

/// A host without a key.
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

/// The files of keys.
struct KeyFiles(Folder);

impl KeyFiles {
    fn new(name: &str) -> KeyFiles {
        KeyFiles(Folder::new(&format!("proofs-{name}")))
    }

    /// The file of a key, which is made of `seed`.
    fn file(&self, seed: u8, hash: Option<Hash>) -> PathBuf {
        self.0.write(&format!("{seed}.dhchap"), &key(seed, hash).to_text())
    }
}

fn key(seed: u8, hash: Option<Hash>) -> DhKey {
    let length = hash.map_or(32, Hash::length);
    DhKey::new(hash, Secret::new(vec![seed; length])).expect("the length fits")
}

fn own(seed: u8) -> HostKeys {
    HostKeys { host: key(seed, Some(Hash::Sha256)), controller: None }
}

/// A target whose host `HOST` has key 1, and key 9 of controllers.
fn secured(keys: &KeyFiles, authentication: Authentication) -> Config {
    let mut config = simple(fast_ssd(), any_port());
    config.security.authentication = authentication;
    config.security.dhchap_group = vec![Some(Group::Ffdhe2048)];
    config.limits.auth_failures_per_minute = 6000;
    config.hosts = vec![HostConfig {
        nqn: HOST.to_owned(),
        dhchap_key: Some(keys.file(1, Some(Hash::Sha256))),
        dhchap_key_next: None,
        dhchap_ctrl_key: Some(keys.file(9, Some(Hash::Sha512))),
        tls_key: Vec::new(),
    }];
    config
}

/// The keys of a host for DH-HMAC-CHAP.
fn dhchap(keys: Option<HostKeys>) -> Keys {
    Keys { dhchap: keys, ..Keys::default() }
}

/// The fault that ends a try to connect.
fn fault(address: SocketAddr, host: &str, keys: Option<HostKeys>) -> Fault {
    initiator::fault(address, host, dhchap(keys))
}

/// Connects, writes and reads.
fn use_target(address: SocketAddr, host: &str, keys: Option<HostKeys>, io_queues: u16) {
    initiator::use_target(address, host, dhchap(keys), io_queues);
}

#[test]
fn a_host_with_its_key_gets_in() {
    let keys = KeyFiles::new("gets-in");
    for authentication in [Authentication::Optional, Authentication::Required] {
        for threads in [1, 2] {
            let config = Config { threads: Some(threads), ..secured(&keys, authentication) };
            let server = start(config);
            let address = server.addresses()[0];
            use_target(address, HOST, Some(own(1)), 4);
            let both = HostKeys { controller: Some(key(9, Some(Hash::Sha512))), ..own(1) };
            use_target(address, HOST, Some(both), 2);
            if authentication == Authentication::Optional {
                use_target(address, OTHER, None, 1);
                // A host without a key here may have one for other targets.
                use_target(address, OTHER, Some(own(5)), 1);
            }
            let refusals = server.stats().refusals;
            assert!(Refusal::ALL.into_iter().all(|refusal| refusals.of(refusal) == 0), "{refusals:?}");
        }
    }
}

/// Two targets that serve one subsystem have ranges that do not overlap, so both ways to draw must keep to them.
#[test]
fn proved_and_other_controllers_share_the_range_of_their_subsystem() {
    let keys = KeyFiles::new("range");
    let mut config = secured(&keys, Authentication::Optional);
    config.subsystems[0].cntlid = ControllerIds::new(40_000, 40_001).expect("the range is in order");
    let server = start(config);
    let address = server.addresses()[0];
    let (_plain, cqe) = connected(address, OTHER);
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 40_000));
    let (mut proved, cqe) = connected(address, HOST);
    assert_eq!((cqe.status(), cqe.dw0()), (Status::SUCCESS, 40_001 | ConnectResult::AUTHENTICATION));
    let (outcome, _) = prove(&mut proved, &mut exchange(HOST, own(1), 1)).expect("it is not closed");
    assert_eq!(outcome, Outcome::Proved(0));
    // The subsystem answers this, so it has the controller.
    assert_eq!(read_version(&mut proved), Status::SUCCESS);
    let (_third, cqe) = connected(address, OTHER);
    assert_eq!(cqe.status(), Status::CONNECT_CONTROLLER_BUSY);
}

#[test]
fn operators_see_which_connections_have_proved_their_host() {
    let keys = KeyFiles::new("listed");
    let server = start(secured(&keys, Authentication::Optional));
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
    let connect = |host, keys| {
        let connected = client.connect(initiator::options(server.addresses()[0], host, dhchap(keys))).wait();
        connected.unwrap_or_else(|error| panic!("{error}"))
    };
    let _controllers = [connect(HOST, Some(own(1))), connect(OTHER, None)];
    let found = server.remote().connections(Duration::from_secs(60)).connections;
    assert!(found.len() >= 4, "{found:?}");
    for facts in found {
        let is_proved = &*facts.host == HOST;
        assert_eq!((facts.is_authenticated, facts.has_tls), (is_proved, false), "{facts:?}");
    }
}

#[test]
fn every_hash_group_and_key_gets_in() {
    let keys = KeyFiles::new("every");
    for hash in Hash::ALL {
        for group in [None, Some(Group::Ffdhe2048), Some(Group::Ffdhe3072)] {
            for of_key in [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)] {
                let mut config = secured(&keys, Authentication::Required);
                config.security.dhchap_hash = vec![hash];
                config.security.dhchap_group = vec![group];
                config.hosts[0].dhchap_key = Some(keys.file(2, of_key));
                let server = start(config);
                let keys = HostKeys { host: key(2, of_key), controller: Some(key(9, Some(Hash::Sha512))) };
                use_target(server.addresses()[0], HOST, Some(keys), 1);
            }
        }
    }
}

#[test]
fn a_host_without_the_right_key_is_refused_and_counted() {
    let keys = KeyFiles::new("refused");
    let server = start(secured(&keys, Authentication::Required));
    let address = server.addresses()[0];
    assert!(matches!(fault(address, HOST, None), Fault::Refused(_)));
    assert!(matches!(fault(address, HOST, Some(own(2))), Fault::Unproved(Explanation::Failed)));
    // An unknown host is answered like one with a wrong key.
    assert!(matches!(fault(address, OTHER, Some(own(1))), Fault::Unproved(Explanation::Failed)));
    let wrong = HostKeys { controller: Some(key(8, Some(Hash::Sha512))), ..own(1) };
    assert!(matches!(fault(address, HOST, Some(wrong)), Fault::Unproved(Explanation::Failed)));
    let counts = || {
        let refusals = server.stats().refusals;
        [Refusal::Unfinished, Refusal::Failed, Refusal::Unknown].map(|refusal| refusals.of(refusal))
    };
    await_that(|| counts() == [1, 2, 1]);
    let tenants: usize = server.stats().ssds.iter().map(|ssd| ssd.tenants.len()).sum();
    assert_eq!(tenants, 0, "none of them is known to an SSD");
}

/// Waits for something that another thread does in a moment.
fn await_that(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn a_controller_that_cannot_prove_itself_is_refused() {
    let keys = KeyFiles::new("controller");
    let mut config = secured(&keys, Authentication::Optional);
    config.hosts[0].dhchap_ctrl_key = None;
    let server = start(config);
    let address = server.addresses()[0];
    let both = || Some(HostKeys { controller: Some(key(9, Some(Hash::Sha512))), ..own(1) });
    assert!(matches!(fault(address, HOST, both()), Fault::Unproved(Explanation::Failed)));
    // It asks this host for no proof at all.
    assert!(matches!(fault(address, OTHER, both()), Fault::ControllerUnproved));
}

fn exchange(host: &str, keys: HostKeys, transaction: u16) -> HostExchange {
    let names = Names { host: host.to_owned(), controller: DEFAULT_NQN.to_owned() };
    let offer = Offer { hashes: Hash::ALL.to_vec(), groups: vec![Some(Group::Ffdhe2048), None] };
    let random =
        Randomness { challenge: [transaction as u8; 64], sequence: 7, exponent: Secret::new(vec![3; 64]) };
    HostExchange::new(offer, names, keys, random, transaction)
}

fn read_version(queue: &mut Queue) -> Status {
    let sqe = Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([0, offset::VS, 0, 0, 0, 0]);
    queue.command(sqe, Transfer::None).0.status()
}

#[test]
fn nothing_but_the_proof_is_accepted_before_it() {
    let keys = KeyFiles::new("before");
    let server = start(secured(&keys, Authentication::Optional));
    let address = server.addresses()[0];
    let (mut queue, cqe) = connected(address, HOST);
    let result = ConnectResult::from_dw0(cqe.dw0());
    assert!(cqe.status().is_success() && result.authentication_required && !result.secure_channel_required);
    for _ in 0..3 {
        assert!(read_version(&mut queue).is(Status::AUTHENTICATION_REQUIRED));
    }
    let identify = Sqe::new(admin::IDENTIFY).with_cdw10_15([1, 0, 0, 0, 0, 0]);
    let answer = queue.command(identify, Transfer::FromController(vec![0; 4096], 4096));
    assert!(answer.0.status().is(Status::AUTHENTICATION_REQUIRED));
    // Of the right kind, and malformed.
    let sqe = AuthenticationCommand::Send { length: 72 }.to_sqe();
    let other = sqe.with_cdw10_15([0xea01_0100, 72, 0, 0, 0, 0]);
    for (sqe, length) in [(other, 72), (sqe, 71)] {
        let answer = queue.command(sqe, Transfer::ToController(vec![0; length], length as u32));
        assert!(answer.0.status().is(Status::INVALID_FIELD));
    }
    // More data than before Connect is not accepted, so a stranger cannot make the target keep more.
    let large = AuthenticationCommand::Send { length: 16 << 10 }.to_sqe();
    let answer = queue.command(large, Transfer::ToController(vec![0; 16 << 10], 16 << 10));
    assert!(!answer.0.status().is_success(), "{:?}", answer.0.status());
    // The proof is still possible.
    assert_eq!(
        prove(&mut queue, &mut exchange(HOST, own(1), 1)).expect("it stays open").0,
        Outcome::Proved(0)
    );
    assert!(read_version(&mut queue).is_success());

    let (mut queue, _) = connected(address, HOST);
    let refused = (0..100).map_while(|_| {
        let sqe = Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([0, offset::VS, 0, 0, 0, 0]);
        queue.submit(sqe, Transfer::None);
        queue.next()
    });
    assert_eq!(refused.count(), 8, "and then the connection is closed");
    assert_eq!(server.stats().refusals.of(Refusal::NoProof), 1);
}

#[test]
fn a_recorded_exchange_fails() {
    let keys = KeyFiles::new("replay");
    let server = start(secured(&keys, Authentication::Required));
    let address = server.addresses()[0];
    let (mut queue, _) = connected(address, HOST);
    let (outcome, messages) = prove(&mut queue, &mut exchange(HOST, own(1), 1)).expect("it stays open");
    assert_eq!(outcome, Outcome::Proved(0));
    let (mut queue, _) = connected(address, HOST);
    for message in messages {
        assert!(send(&mut queue, message).expect("it is open").status().is_success());
        let (_, data) = receive(&mut queue).expect("an answer");
        let hash = Some(Hash::Sha384);
        match Message::parse(&data, hash).expect("a message").1 {
            Message::Challenge { .. } => {}
            Message::Failure1(Explanation::Failed) => {
                assert_eq!(receive(&mut queue), None, "the connection is closed");
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the recording has no reply");
}

#[test]
fn a_queue_can_be_proved_for_its_own_host_only() {
    let keys = KeyFiles::new("queues");
    let mut config = secured(&keys, Authentication::Required);
    let second = HostConfig {
        nqn: OTHER.to_owned(),
        dhchap_key: Some(keys.file(2, Some(Hash::Sha256))),
        dhchap_key_next: None,
        dhchap_ctrl_key: None,
        tls_key: Vec::new(),
    };
    config.hosts.push(second);
    let server = start(config);
    let address = server.addresses()[0];
    let (mut admin, cqe) = connected(address, HOST);
    let controller = ConnectResult::from_dw0(cqe.dw0()).controller_id;
    prove(&mut admin, &mut exchange(HOST, own(1), 1)).expect("it stays open");
    common::enable(&mut admin);
    // The other host proves itself, and names the controller of this one.
    let options = Options { host: OTHER, ..Options::default() };
    let mut io = Queue::open(address, 16, &options);
    let cqe = io.connect(1, 16, controller, &options);
    assert!(ConnectResult::from_dw0(cqe.dw0()).authentication_required);
    let (outcome, _) = prove(&mut io, &mut exchange(OTHER, own(2), 1)).expect("it stays open");
    assert_eq!(outcome, Outcome::Proved(0));
    assert_eq!(io.next(), None, "and is closed without an answer");
    // The same queue for the host itself.
    let options = Options::default();
    let mut io = Queue::open(address, 16, &options);
    io.connect(1, 16, controller, &options);
    prove(&mut io, &mut exchange(HOST, own(1), 2)).expect("it stays open");
    let read = common::rw(nvme::spec::opcode::nvm::READ, 1, 0, 1);
    let answer = io.command(read, Transfer::FromController(vec![0; BLOCK], BLOCK as u32));
    assert!(answer.0.status().is_success());
}

/// A controller of `HOST` that has proved itself on both queues.
fn proved_client(server: &ServerHandle) -> Client {
    let address = server.addresses()[0];
    let (mut admin, cqe) = connected(address, HOST);
    let controller_id = ConnectResult::from_dw0(cqe.dw0()).controller_id;
    prove(&mut admin, &mut exchange(HOST, own(1), 1)).expect("it stays open");
    common::enable(&mut admin);
    let options = Options::default();
    let mut io = Queue::open(address, common::ENTRIES, &options);
    io.connect(1, common::ENTRIES, controller_id, &options);
    prove(&mut io, &mut exchange(HOST, own(1), 2)).expect("it stays open");
    Client { admin, io, controller_id }
}

#[test]
fn a_host_proves_itself_anew_while_its_ios_go_on() {
    let keys = KeyFiles::new("anew");
    for threads in [1, 2] {
        let server = start(Config { threads: Some(threads), ..secured(&keys, Authentication::Required) });
        let mut client = proved_client(&server);
        let block = vec![0x5a; BLOCK];
        for round in 0..3 {
            let both = HostKeys { controller: Some(key(9, Some(Hash::Sha512))), ..own(1) };
            for queue in [&mut client.admin, &mut client.io] {
                let (outcome, _) =
                    prove(queue, &mut exchange(HOST, both.clone(), 10 + round)).expect("it stays open");
                assert_eq!(outcome, Outcome::Proved(0));
            }
            assert!(client.write(1, u64::from(round), &block).is_success());
            assert_eq!(client.read(1, u64::from(round), 1).as_ref(), Ok(&block));
        }
        // An IO between two messages of a proof.
        let mut half = exchange(HOST, own(1), 20);
        let negotiate = half.next_send().expect("the first message");
        assert!(send(&mut client.io, negotiate).expect("it is open").status().is_success());
        assert_eq!(client.read(1, 0, 1).as_ref(), Ok(&block));
        // A failure closes the queue, and leaves the other one.
        let failed = prove(&mut client.io, &mut exchange(HOST, own(2), 21));
        assert!(failed.is_none_or(|(outcome, _)| matches!(outcome, Outcome::Failed(_))));
        assert_eq!(client.io.next(), None);
        assert!(read_version(&mut client.admin).is_success());
        // On the admin queue it ends the controller.
        let failed = prove(&mut client.admin, &mut exchange(HOST, own(2), 22));
        assert!(failed.is_none_or(|(outcome, _)| matches!(outcome, Outcome::Failed(_))));
        assert_eq!(client.admin.next(), None);
    }
}

#[test]
fn a_host_without_a_key_cannot_begin_a_proof() {
    let keys = KeyFiles::new("keyless");
    let server = start(secured(&keys, Authentication::Optional));
    let options = Options { host: OTHER, ..Options::default() };
    let mut client = Client::with(server.addresses()[0], &options);
    let negotiate = exchange(OTHER, own(1), 1).next_send().expect("the first message");
    for queue in [&mut client.admin, &mut client.io] {
        assert!(send(queue, negotiate.clone()).expect("it is open").status().is(Status::INVALID_OPCODE));
        assert!(receive(queue).expect("it is open").0.status().is(Status::COMMAND_SEQUENCE_ERROR));
    }
    assert!(client.write(1, 0, &vec![1; BLOCK]).is_success());
}

#[test]
fn a_key_is_rotated_and_drops_nobody() {
    let keys = KeyFiles::new("rotated");
    let mut config = secured(&keys, Authentication::Required);
    let mut server = start(config.clone());
    let address = server.addresses()[0];
    let mut client = proved_client(&server);
    // Both keys, then the new one alone.
    config.hosts[0].dhchap_key_next = Some(keys.file(2, Some(Hash::Sha256)));
    let changes = server.reload(config.clone(), RELOAD_LIMIT).expect("it is applied");
    assert_eq!(changes.len(), 1, "{changes:?}");
    use_target(address, HOST, Some(own(1)), 1);
    use_target(address, HOST, Some(own(2)), 1);
    config.hosts[0].dhchap_key = config.hosts[0].dhchap_key_next.take();
    server.reload(config.clone(), RELOAD_LIMIT).expect("it is applied");
    use_target(address, HOST, Some(own(2)), 1);
    assert!(matches!(fault(address, HOST, Some(own(1))), Fault::Unproved(Explanation::Failed)));
    assert!(client.write(1, 0, &vec![1; BLOCK]).is_success(), "whoever is connected stays");
    // A file that is gone changes nothing.
    fs::remove_file(keys.0.0.join("2.dhchap")).expect("it is there");
    let error = server.reload(config, RELOAD_LIMIT).expect_err("a key is missing").to_string();
    assert!(error.contains("host[0].dhchap_key: ") && error.contains("2.dhchap"), "{error}");
    use_target(address, HOST, Some(own(2)), 1);
}

#[test]
fn discovery_asks_for_a_proof_if_it_is_for_hosts() {
    let keys = KeyFiles::new("discovery");
    for access in [DiscoveryAccess::Open, DiscoveryAccess::Hosts] {
        let mut config = secured(&keys, Authentication::Required);
        config.security.discovery = access;
        let server = start(config);
        let find = |host: &str, keys| {
            let name = Nqn::new(host).expect("a name");
            host::discover(
                host::Backend::Auto,
                (TransportType::Tcp, server.addresses()[0]),
                (&name, HostId([7; 16])),
                dhchap(keys),
            )
        };
        assert_eq!(find(HOST, Some(own(1))).expect("it is answered").len(), 1);
        assert_eq!(find(OTHER, None).is_ok(), access == DiscoveryAccess::Open);
        assert_eq!(find(HOST, Some(own(2))).is_ok(), access == DiscoveryAccess::Open);
    }
}

#[test]
fn strangers_under_the_name_of_a_host_take_nothing_from_it() {
    let keys = KeyFiles::new("strangers");
    let mut config = secured(&keys, Authentication::Optional);
    config.subsystems[0].hosts = AllowedHosts::Only(vec![HOST.to_owned()]);
    config.limits.connections_per_host = 2;
    config.limits.connections_waiting = 64;
    let server = start(config);
    let address = server.addresses()[0];
    let strangers: Vec<(Queue, Cqe)> = (0..40).map(|_| connected(address, HOST)).collect();
    assert!(strangers.iter().all(|(_, cqe)| cqe.status().is_success()));
    use_target(address, HOST, Some(own(1)), 1);
    drop(strangers);
    await_that(|| server.stats().refusals.of(Refusal::Unfinished) == 40);
}

#[test]
fn a_silent_host_is_disconnected_in_time() {
    let keys = KeyFiles::new("silent");
    let mut config = secured(&keys, Authentication::Optional);
    config.limits.auth_timeout = Nanos::millis(50);
    let server = start(config);
    let (mut queue, _) = connected(server.addresses()[0], HOST);
    assert_eq!(queue.next(), None);
    assert_eq!(server.stats().refusals.of(Refusal::Unfinished), 1);
}

#[test]
fn an_address_that_fails_is_delayed_and_gets_in() {
    let keys = KeyFiles::new("delayed");
    let mut config = secured(&keys, Authentication::Required);
    config.limits.auth_failures_per_minute = 1;
    let server = start(config);
    let address = server.addresses()[0];
    for _ in 0..4 {
        assert!(matches!(fault(address, HOST, Some(own(2))), Fault::Unproved(Explanation::Failed)));
    }
    // One failure is forgotten per minute, so the delay is there however slow the machine is.
    let began = Instant::now();
    use_target(address, HOST, Some(own(1)), 1);
    assert!(began.elapsed() >= Duration::from_millis(100), "it was not delayed");
    assert_eq!(server.stats().refusals.of(Refusal::Failed), 4);
    // More than a first message is not kept for a delayed connection.
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(&[0; 8192]).expect("the system takes it");
    assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)), "it is closed");
}
