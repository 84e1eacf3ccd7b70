//! Hosts that make their key for TLS by DH-HMAC-CHAP, and connect with it (secure channel concatenation).

mod common;
#[path = "common/raw_tls.rs"]
mod raw_tls;

use auth::exchange::{HostExchange, HostKeys, Names, Offer, Outcome, Randomness};
use auth::hello::{Alert, Psk};
use auth::{Channel, DhKey, Explanation, Group, Hash, Secret};
use common::initiator;
use common::proving::{connected, prove};
use common::{Folder, HOST, Options, Queue, any_port, fast_ssd, simple, start, until};
use host::{Fault, Keys};
use nvme::spec::connect::ConnectResult;
use raw_tls::Raw;
use server::config::{Authentication, Config, DEFAULT_NQN, HostConfig, Tls};
use server::{Refusal, ServerHandle};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

/// The files of keys.
struct Files(Folder);

impl Files {
    fn new(name: &str) -> Files {
        Files(Folder::new(&format!("concatenation-{name}")))
    }

    fn dhchap(&self, seed: u8) -> PathBuf {
        self.0.write(&format!("{seed}.dhchap"), &key(seed).to_text())
    }
}

fn key(seed: u8) -> DhKey {
    DhKey::new(None, Secret::new(vec![seed; 32])).expect("32 bytes")
}

fn own(seed: u8) -> HostKeys {
    HostKeys { host: key(seed), controller: None }
}

fn host_config(files: &Files, nqn: &str, seed: u8) -> HostConfig {
    HostConfig {
        nqn: nqn.to_owned(),
        dhchap_key: Some(files.dhchap(seed)),
        dhchap_key_next: None,
        dhchap_ctrl_key: Some(files.dhchap(9)),
        tls_key: Vec::new(),
    }
}

/// A target whose hosts `HOST` and `OTHER` have the keys 1 and 2 for DH-HMAC-CHAP, and none for TLS.
fn secured(files: &Files, tls: Tls) -> Config {
    let mut config = simple(fast_ssd(), any_port());
    config.security.tls = tls;
    config.security.concat = true;
    config.security.dhchap_group = vec![Some(Group::Ffdhe2048)];
    config.limits.auth_failures_per_minute = 6000;
    config.hosts = vec![host_config(files, HOST, 1), host_config(files, OTHER, 2)];
    config
}

/// The keys of our host, which makes one for TLS.
fn concat(keys: HostKeys) -> Keys {
    Keys { dhchap: Some(keys), tls: None, concat: true }
}

/// The fault that ends a try of our host to connect.
fn fault(address: SocketAddr, keys: HostKeys) -> Fault {
    initiator::fault(address, HOST, concat(keys))
}

/// Our host connects, writes and reads.
fn use_target(address: SocketAddr, keys: HostKeys, io_queues: u16) {
    initiator::use_target(address, HOST, concat(keys), io_queues);
}

/// An exchange of `host`, which makes a key if it asks for a channel.
fn exchange(host: &str, keys: HostKeys, channel: Option<Channel>) -> HostExchange {
    let names = Names { host: host.to_owned(), controller: DEFAULT_NQN.to_owned() };
    let offer = Offer { hashes: Hash::ALL.to_vec(), groups: vec![Some(Group::Ffdhe2048), None] };
    let mut bytes = [7; Randomness::BYTES];
    getrandom::fill(&mut bytes).expect("random bytes");
    let random = Randomness::of(&bytes);
    match channel {
        Some(channel) => HostExchange::concatenating(channel, offer, names, keys, random, 5),
        None => HostExchange::new(offer, names, keys, random, 5),
    }
}

/// Carries out an exchange on a queue, and returns the key that it makes, for `host`.
fn made_on(queue: &mut Queue, host: &str, mut exchange: HostExchange) -> Psk {
    let (outcome, _) = prove(queue, &mut exchange).expect("it stays open");
    assert_eq!(outcome, Outcome::Proved(0));
    let generated = exchange.take_generated().expect("a key is made");
    Psk::of_generated(&generated, (host, DEFAULT_NQN)).expect("short names")
}

/// A key that `host` makes on an admin queue, which it then closes.
fn made(address: SocketAddr, host: &'static str, seed: u8) -> Psk {
    let (mut queue, _) = connected(address, host);
    made_on(&mut queue, host, exchange(host, own(seed), Some(Channel::NewKey)))
}

/// Whether the target knows a key; it may say so only by the alert for generated keys.
fn knows(address: SocketAddr, psk: &Psk) -> bool {
    match Raw::open(address, std::slice::from_ref(psk)) {
        Ok(_) => true,
        Err(alert) => {
            assert_eq!(alert, Alert::UnknownPskIdentity as u8);
            false
        }
    }
}

fn failure(queue: &mut Queue, exchange: &mut HostExchange) -> Outcome {
    prove(queue, exchange).expect("it stays open until the failure is told").0
}

const MISMATCH: Outcome = Outcome::Failed(Explanation::SecureChannel);

fn refused(server: &ServerHandle, refusal: Refusal) -> u64 {
    server.stats().refusals.of(refusal)
}

#[test]
fn a_host_makes_its_key_and_every_queue_is_encrypted() {
    let files = Files::new("every");
    for authentication in [Authentication::Optional, Authentication::Required, Authentication::Always] {
        for (hash, group) in [
            (Hash::Sha256, Group::Ffdhe2048),
            (Hash::Sha384, Group::Ffdhe2048),
            (Hash::Sha256, Group::Ffdhe3072),
            (Hash::Sha384, Group::Ffdhe3072),
        ] {
            let mut config = secured(&files, Tls::Required);
            config.security.authentication = authentication;
            // Those that no key is made with are passed over.
            config.security.dhchap_hash = vec![Hash::Sha512, hash];
            config.security.dhchap_group = vec![None, Some(group)];
            let server = start(config);
            let address = server.addresses()[0];
            use_target(address, own(1), 3);
            use_target(address, HostKeys { controller: Some(key(9)), ..own(1) }, 1);
            let refusals = server.stats().refusals;
            assert!(Refusal::ALL.into_iter().all(|refusal| refusals.of(refusal) == 0), "{refusals:?}");
        }
    }
}

#[test]
fn a_host_that_wants_its_key_made_goes_on_without_it_nowhere() {
    let files = Files::new("nowhere");
    let mut off = secured(&files, Tls::Optional);
    off.security.concat = false;
    let mut without_tls = off.clone();
    without_tls.security.tls = Tls::Off;
    for config in [off, without_tls] {
        let server = start(config);
        let address = server.addresses()[0];
        assert!(matches!(fault(address, own(1)), Fault::Unproved(Explanation::SecureChannel)));
        until(|| refused(&server, Refusal::SecureChannel) == 1);
    }
    // It is asked for no proof.
    let mut open = secured(&files, Tls::Optional);
    open.hosts.remove(0);
    let server = start(open);
    assert!(matches!(fault(server.addresses()[0], own(1)), Fault::NotConcatenated));
    // A wrong key makes none, nor does a target that does not have the key of the controller.
    let server = start(secured(&files, Tls::Required));
    let address = server.addresses()[0];
    for wrong in [own(3), HostKeys { controller: Some(key(8)), ..own(1) }] {
        assert!(matches!(fault(address, wrong), Fault::Unproved(Explanation::Failed)));
    }
    until(|| refused(&server, Refusal::Failed) == 2);
}

#[test]
fn a_key_is_made_on_an_admin_queue_without_tls_only() {
    let files = Files::new("admin");
    let server = start(secured(&files, Tls::Optional));
    let address = server.addresses()[0];
    // A host that asks for no key has the exchange that it had without concatenation.
    let (mut admin, cqe) = connected(address, HOST);
    let result = ConnectResult::from_dw0(cqe.dw0());
    assert!(result.authentication_required && !result.secure_channel_required);
    let mut proof = exchange(HOST, own(1), None);
    assert_eq!(prove(&mut admin, &mut proof).expect("it stays open").0, Outcome::Proved(0));
    common::enable(&mut admin);
    // Once it is connected without TLS, no key is made any more.
    let mut late = exchange(HOST, own(1), Some(Channel::NewKey));
    assert_eq!(failure(&mut admin, &mut late), MISMATCH);
    // Nor on an IO queue, nor in place of a key that there is not.
    let options = Options::default();
    let mut io = Queue::open(address, 16, &options);
    io.connect(1, 16, result.controller_id, &options);
    assert_eq!(failure(&mut io, &mut exchange(HOST, own(1), Some(Channel::NewKey))), MISMATCH);
    let (mut queue, _) = connected(address, HOST);
    assert_eq!(failure(&mut queue, &mut exchange(HOST, own(1), Some(Channel::AnotherKey))), MISMATCH);
    until(|| refused(&server, Refusal::SecureChannel) == 3);
}

#[test]
fn a_host_without_tls_has_to_make_a_key_where_tls_is_required() {
    let files = Files::new("due");
    let mut config = secured(&files, Tls::Required);
    config.security.authentication = Authentication::Required;
    let server = start(config);
    let address = server.addresses()[0];
    let (mut queue, cqe) = connected(address, HOST);
    assert!(!ConnectResult::from_dw0(cqe.dw0()).secure_channel_required, "Linux 6.12 gives up if it is set");
    assert_eq!(failure(&mut queue, &mut exchange(HOST, own(1), None)), MISMATCH);
    // An unknown host is answered in the same way.
    const UNKNOWN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003";
    let (mut queue, _) = connected(address, UNKNOWN);
    assert_eq!(failure(&mut queue, &mut exchange(UNKNOWN, own(1), None)), MISMATCH);
    let (mut queue, _) = connected(address, UNKNOWN);
    let mut proof = exchange(UNKNOWN, own(1), Some(Channel::NewKey));
    assert_eq!(failure(&mut queue, &mut proof), Outcome::Failed(Explanation::Failed));
    until(|| refused(&server, Refusal::SecureChannel) == 2);
}

#[test]
fn the_connection_that_makes_a_key_reaches_nothing() {
    let files = Files::new("nothing");
    let server = start(secured(&files, Tls::Optional));
    let address = server.addresses()[0];
    let (mut queue, _) = connected(address, HOST);
    made_on(&mut queue, HOST, exchange(HOST, own(1), Some(Channel::NewKey)));
    let sqe = nvme::spec::Sqe::fabrics(nvme::spec::opcode::fabrics::PROPERTY_GET);
    queue.submit(sqe, nvme::tcp::Transfer::None);
    assert_eq!(queue.next(), None, "it is closed without an answer");
    let tenants: usize = server.stats().ssds.iter().map(|ssd| ssd.tenants.len()).sum();
    assert_eq!(tenants, 0, "it is known to no SSD");
}

#[test]
fn a_key_is_for_its_host_and_for_many_queues() {
    let files = Files::new("queues");
    let server = start(secured(&files, Tls::Required));
    let address = server.addresses()[0];
    let psk = made(address, HOST, 1);
    assert!((0..5).all(|_| knows(address, &psk)));
    // Another host that knows it, by the same digest, or by the one of its own name.
    let text = String::from_utf8(psk.identity.clone()).expect("names and digits");
    let other = Psk { identity: text.replace(HOST, OTHER).into_bytes(), ..psk.clone() };
    assert!(!knows(address, &other));
    // The identity crosses the network in plaintext: without the key it is of no use.
    let stolen = Psk { secret: Secret::new(vec![1; psk.hash.length()]), ..psk };
    let alert = Raw::open(address, &[stolen]).err();
    assert_eq!(alert, Some(Alert::DecryptError as u8));
}

#[test]
fn the_latest_four_keys_of_a_host_are_known() {
    let files = Files::new("four");
    let server = start(secured(&files, Tls::Required));
    let address = server.addresses()[0];
    let other = made(address, OTHER, 2);
    let keys: Vec<Psk> = (0..6).map(|_| made(address, HOST, 1)).collect();
    let known: Vec<bool> = keys.iter().map(|psk| knows(address, psk)).collect();
    assert_eq!(known, [false, false, true, true, true, true]);
    assert!(knows(address, &other));
    drop(server);
    let server = start(secured(&files, Tls::Required));
    assert!(!knows(server.addresses()[0], &keys[5]), "a target that starts knows none");
    assert_eq!(refused(&server, Refusal::TlsUnknown), 1);
}

#[test]
fn keys_end_with_the_ones_that_they_were_made_by() {
    let files = Files::new("reload");
    let config = secured(&files, Tls::Required);
    let server = start(config.clone());
    let address = server.addresses()[0];
    let mut server = server;
    let mut change = |to: &Config| server.reload(to.clone(), RELOAD_LIMIT).map(drop).expect("it is applied");
    let (host, other) = (made(address, HOST, 1), made(address, OTHER, 2));
    let known = || [knows(address, &host), knows(address, &other)];
    let mut next = config.clone();
    next.hosts[0].dhchap_key_next = Some(files.dhchap(3));
    change(&next);
    assert_eq!(known(), [true, true], "another key is added");
    next.hosts[0].dhchap_key = next.hosts[0].dhchap_key_next.take();
    change(&next);
    assert_eq!(known(), [false, true], "the key is changed");
    change(&config);
    assert_eq!(known(), [false, true], "a key that is forgotten stays so");
    next.hosts.truncate(1);
    change(&next);
    assert_eq!(known(), [false, false], "the host is removed");
    change(&config);
    let again = made(address, HOST, 1);
    assert!(knows(address, &again));
    let mut without = config.clone();
    without.hosts[0].tls_key = vec![
        files.0.write("tls", &auth::TlsKey::new(None, Secret::new(vec![5; 32])).expect("32 bytes").to_text()),
    ];
    without.security.concat = false;
    change(&without);
    assert!(!knows(address, &again), "concatenation is turned off");
}

#[test]
fn a_connected_host_makes_another_key() {
    let files = Files::new("another");
    let server = start(secured(&files, Tls::Required));
    let address = server.addresses()[0];
    let psk = made(address, HOST, 1);
    let raw = Raw::open(address, &[psk]).unwrap_or_else(|alert| panic!("alert {alert}"));
    let options = Options::default();
    let tunnel = raw.into_tunnel();
    let mut admin = Queue::open(tunnel, 32, &options);
    let cqe = admin.connect(0, 32, nvme::spec::connect::CNTLID_DYNAMIC, &options);
    assert!(!ConnectResult::from_dw0(cqe.dw0()).authentication_required, "its key is a proof");
    common::enable(&mut admin);
    let another = made_on(&mut admin, HOST, exchange(HOST, own(1), Some(Channel::AnotherKey)));
    assert!(knows(address, &another));
    // A proof without a key goes on as without concatenation; a first key cannot be made here.
    let mut proof = exchange(HOST, own(1), None);
    assert_eq!(prove(&mut admin, &mut proof).expect("it stays open").0, Outcome::Proved(0));
    assert_eq!(failure(&mut admin, &mut exchange(HOST, own(1), Some(Channel::NewKey))), MISMATCH);
}
