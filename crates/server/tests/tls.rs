//! Connections with TLS: a host with its key is admitted, others are refused, and data arrives unchanged.

mod common;
#[path = "common/raw_tls.rs"]
mod raw_tls;

use auth::hello::{Alert, Psk};
use auth::psk::Derivation;
use auth::{DhKey, Hash, Secret, TlsKey};
use common::initiator::{connect, exchange_data, fault, options, use_target};
use common::{Folder, HOST, any_port, fast_ssd, simple, start};
use host::{
    ConnectFailure, ConnectRefusal, ControllerOptions, Discovered, Fault, HostKeys, Keys, Nqn, TlsOptions,
    TransportType,
};
use nvme::spec::connect::HostId;
use nvme::tcp::pdu::{Framing, IcReq};
use raw_tls::Raw;
use server::config::{Authentication, Config, DEFAULT_NQN, DiscoveryAccess, HostConfig, OwnSecurity, Tls};
use server::{Refusal, ServerHandle};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tls::{Broken, Stream};
use units::{Bytes, Nanos};

/// A host without a key.
const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

/// The files of keys.
struct Files(Folder);

impl Files {
    fn new(name: &str) -> Files {
        Files(Folder::new(&format!("tls-{name}")))
    }

    fn tls(&self, seed: u8, hash: Hash) -> PathBuf {
        self.0.write(&format!("{seed}-{hash}.tls"), &key(seed, hash).to_text())
    }

    fn dhchap(&self, seed: u8) -> PathBuf {
        self.0.write(&format!("{seed}.dhchap"), &dh_key(seed).to_text())
    }
}

fn key(seed: u8, hash: Hash) -> TlsKey {
    TlsKey::new(Some(hash), Secret::new(vec![seed; hash.length()])).expect("the length fits")
}

fn dh_key(seed: u8) -> DhKey {
    DhKey::new(None, Secret::new(vec![seed; 32])).expect("32 bytes")
}

fn own(seed: u8, hash: Hash) -> Keys {
    with(seed, hash, Derivation::Standard)
}

fn with(seed: u8, hash: Hash, derivation: Derivation) -> Keys {
    Keys { tls: Some(TlsOptions { key: key(seed, hash), derivation }), ..Keys::default() }
}

/// A target whose host `HOST` has these keys for TLS.
fn secured(tls: Tls, keys: Vec<PathBuf>) -> Config {
    let mut config = simple(fast_ssd(), any_port());
    config.security.tls = tls;
    config.limits.auth_failures_per_minute = 6000;
    config.hosts = vec![HostConfig {
        nqn: HOST.to_owned(),
        dhchap_key: None,
        dhchap_key_next: None,
        dhchap_ctrl_key: None,
        tls_key: keys,
    }];
    config
}

fn await_that(is_so: impl Fn() -> bool) {
    let until = Instant::now() + RELOAD_LIMIT;
    while !is_so() {
        assert!(Instant::now() < until, "it does not happen");
        std::thread::yield_now();
    }
}

fn refused(server: &ServerHandle, refusal: Refusal) -> u64 {
    server.stats().refusals.of(refusal)
}

#[test]
fn a_host_gets_in_by_every_hash_and_derivation() {
    let files = Files::new("gets-in");
    for hash in [Hash::Sha256, Hash::Sha384] {
        for threads in [1, 2] {
            for backend in common::backends() {
                let config = secured(Tls::Optional, vec![files.tls(1, hash)]);
                let server = start(Config { threads: Some(threads), backend, ..config });
                let address = server.addresses()[0];
                for (derivation, io_queues) in [(Derivation::Standard, 1), (Derivation::OldLibnvme, 4)] {
                    use_target(address, HOST, with(1, hash, derivation), io_queues);
                }
                use_target(address, OTHER, Keys::default(), 2);
                let refusals = server.stats().refusals;
                assert!(Refusal::ALL.into_iter().all(|refusal| refusals.of(refusal) == 0), "{refusals:?}");
            }
        }
    }
}

#[test]
fn operators_see_which_connections_have_tls() {
    let files = Files::new("listed");
    let hash = Hash::Sha256;
    let server = start(secured(Tls::Optional, vec![files.tls(1, hash)]));
    let address = server.addresses()[0];
    let _hosts = [connect(address, HOST, own(1, hash), 1), connect(address, OTHER, Keys::default(), 1)];
    let found = server.remote().connections(Duration::from_secs(60)).connections;
    assert_eq!(found.len(), 4, "{found:?}");
    for facts in found {
        let is_secured = &*facts.host == HOST;
        assert_eq!((facts.is_authenticated, facts.has_tls), (false, is_secured), "{facts:?}");
    }
}

#[test]
fn who_does_not_prove_a_key_does_not_get_in() {
    let files = Files::new("wrong");
    let hash = Hash::Sha256;
    let is_tls =
        |fault: &Fault| matches!(fault, Fault::Tls(Broken::Handshake(_)) | Fault::Closed | Fault::Broken(_));
    let is_refused = |fault: &Fault| matches!(fault, Fault::Refused(ConnectRefusal::HostNotAllowed));
    for tls in [Tls::Optional, Tls::Required] {
        let server = start(secured(tls, vec![files.tls(1, hash)]));
        let address = server.addresses()[0];
        for (host, keys, refusal) in [
            (HOST, own(2, hash), Refusal::TlsWrongKey),
            (HOST, own(1, Hash::Sha384), Refusal::TlsWrongKey),
            (OTHER, own(1, hash), Refusal::TlsUnknown),
        ] {
            let before = refused(&server, refusal);
            let fault = fault(address, host, keys);
            assert!(is_tls(&fault), "{refusal}: {fault}");
            assert!(refused(&server, refusal) > before, "{refusal}");
        }
        let plain = fault(address, HOST, Keys::default());
        assert!(is_refused(&plain), "a host with a key for TLS, without TLS: {plain}");
        assert_eq!(refused(&server, Refusal::TlsRequired), 1);
        match tls {
            Tls::Required => assert!(is_refused(&fault(address, OTHER, Keys::default()))),
            _ => use_target(address, OTHER, Keys::default(), 1),
        }
        use_target(address, HOST, own(1, hash), 1);
    }
    let mut off = secured(Tls::Off, Vec::new());
    off.hosts.clear();
    let server = start(off);
    let fault = fault(server.addresses()[0], HOST, own(1, hash));
    assert!(is_tls(&fault), "{fault}");
    assert_eq!(refused(&server, Refusal::TlsOff), 1);
}

#[test]
fn a_subsystem_without_tls_beside_one_with_it() {
    let files = Files::new("beside");
    let mut config = secured(Tls::Off, vec![files.tls(1, Hash::Sha256)]);
    let mut second = config.subsystems[0].clone();
    second.nqn = format!("{DEFAULT_NQN}-secure");
    second.security = OwnSecurity { tls: Some(Tls::Required), authentication: None };
    second.serial = Some("second".to_owned());
    config.subsystems[0].namespaces[0].size = Some(Bytes::mib(16));
    (second.namespaces[0].offset, second.namespaces[0].size) = (Bytes::mib(16), Some(Bytes::mib(16)));
    config.subsystems.push(second.clone());
    let server = start(config);
    let address = server.addresses()[0];
    assert!(matches!(
        fault(address, HOST, own(1, Hash::Sha256)),
        Fault::Tls(_) | Fault::Closed | Fault::Broken(_)
    ));
    assert_eq!(refused(&server, Refusal::TlsOff), 1);
    use_target(address, HOST, Keys::default(), 1);
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
    let subsystem = Nqn::new(&second.nqn).expect("a name");
    let options = |keys| ControllerOptions { subsystem: subsystem.clone(), ..options(address, HOST, keys) };
    client.connect(options(own(1, Hash::Sha256))).wait().expect("it has its key");
    assert!(client.connect(options(Keys::default())).wait().is_err());
}

/// The handshake of `host` for `controller`, with the key of this seed.
fn open(address: SocketAddr, (host, controller): (&str, &str), seed: u8) -> Raw {
    let psks = Psk::of_host(&key(seed, Hash::Sha256), (host, controller), Derivation::Standard);
    Raw::open(address, &psks).expect("the key is right")
}

#[test]
fn connect_has_to_name_what_tls_has_proved() {
    let files = Files::new("names");
    let mut config = secured(Tls::Optional, vec![files.tls(1, Hash::Sha256)]);
    let other = HostConfig {
        nqn: OTHER.to_owned(),
        tls_key: vec![files.tls(2, Hash::Sha256)],
        ..config.hosts[0].clone()
    };
    config.hosts.push(other);
    let server = start(config);
    let address = server.addresses()[0];
    let through = |names, host| {
        let tunnel = open(address, names, 1).into_tunnel();
        let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
        let options = ControllerOptions { io_queues: 1, ..options(tunnel, host, Keys::default()) };
        match client.connect(options).wait() {
            // The tunnel carries one connection: the admin queue got in.
            Err(ConnectFailure::Controller(error)) => error.fault.clone(),
            other => panic!("one connection is not enough: {other:?}"),
        }
    };
    let is_refused = |fault: &Fault| matches!(fault, Fault::Refused(ConnectRefusal::HostNotAllowed));
    let same = through((HOST, DEFAULT_NQN), HOST);
    assert!(!is_refused(&same), "{same}");
    assert!(is_refused(&through((HOST, DEFAULT_NQN), OTHER)));
    assert!(is_refused(&through((HOST, Nqn::DISCOVERY), HOST)));
    assert_eq!(refused(&server, Refusal::IdentityMismatch), 2);
}

#[test]
fn a_broken_record_ends_its_connection_only() {
    let files = Files::new("broken");
    let server = start(secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]));
    let address = server.addresses()[0];
    let (client, controller) = connect(address, HOST, own(1, Hash::Sha256), 2);
    let records = [
        &[23, 3, 3, 0, 30][..],
        &[23, 3, 3, 0xff, 0xff],
        &[22, 3, 3, 0, 1, 0],
        &[0; 128],
        &[21, 3, 3, 0, 2, 2, 40],
    ];
    for (number, record) in records.into_iter().enumerate() {
        let mut raw = open(address, (HOST, DEFAULT_NQN), 1);
        raw.socket.write_all(record).expect("it is open");
        raw.socket.write_all(&[9; 70_000]).ok();
        let mut rest = Vec::new();
        let ended = raw.socket.read_to_end(&mut rest);
        assert!(
            ended.is_ok() || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        );
        exchange_data(&client, &controller);
        assert_eq!(refused(&server, Refusal::TlsRecord), number as u64 + 1);
    }
}

/// Sends bytes, and reads until the target closes.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(bytes).expect("it is open");
    let mut answer = Vec::new();
    // It may close with bytes unread, which resets the connection after the answer.
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn a_malformed_beginning_gets_an_alert_and_is_counted() {
    let files = Files::new("malformed");
    let server = start(secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]));
    let address = server.addresses()[0];
    let cases: [&[u8]; 4] = [
        &[22, 3, 1, 0, 0],
        &[22, 3, 1, 0, 4, 2, 0, 0, 0],
        &[22, 3, 1, 0, 4, 1, 0, 0x41, 0],
        &[22, 3, 1, 0, 8, 1, 0, 0, 4, 3, 3, 0, 0],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        assert_eq!(answer_to(address, case), Alert::DecodeError.record(), "case {number}");
        assert_eq!(refused(&server, Refusal::TlsMalformed), number as u64 + 1);
    }
    for part in [&[22][..], &[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]] {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(part).expect("it is open");
    }
    await_that(|| refused(&server, Refusal::TlsUnfinished) == 2);
    use_target(address, HOST, own(1, Hash::Sha256), 1);
}

#[test]
fn a_client_hello_may_come_byte_by_byte() {
    let files = Files::new("bytes");
    let server = start(secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]));
    let psks = Psk::of_host(&key(1, Hash::Sha256), (HOST, DEFAULT_NQN), Derivation::Standard);
    let mut stream = Stream::client(&psks).expect("memory");
    let mut socket = TcpStream::connect(server.addresses()[0]).expect("it listens");
    socket.set_nodelay(true).expect("a socket");
    stream.take_outbound(|bytes| {
        bytes.iter().for_each(|byte| socket.write_all(&[*byte]).expect("it is open"));
        bytes.clear();
    });
    while !stream.negotiate().expect("the key is right") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("it answers");
        stream.on_bytes(&byte);
    }
}

#[test]
fn strangers_with_half_a_hello_take_nothing_from_a_host() {
    let files = Files::new("strangers");
    let mut config = secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]);
    config.limits.connections_waiting = 64;
    let server = start(config);
    let address = server.addresses()[0];
    let half = |_| {
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc]).map(|()| socket).expect("it is open")
    };
    let strangers: Vec<TcpStream> = (0..200).map(half).collect();
    use_target(address, HOST, own(1, Hash::Sha256), 4);
    drop(strangers);
    // Some were evicted before their first byte arrived.
    await_that(|| refused(&server, Refusal::TlsUnfinished) > 0);
}

#[test]
fn failures_delay_the_next_tries_of_their_address() {
    let files = Files::new("delay");
    let mut config = secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]);
    config.limits.auth_failures_per_minute = 1;
    let server = start(config);
    let address = server.addresses()[0];
    for _ in 0..3 {
        fault(address, HOST, own(2, Hash::Sha256));
    }
    let begin = Instant::now();
    use_target(address, HOST, own(1, Hash::Sha256), 1);
    assert!(begin.elapsed() >= Duration::from_millis(50), "no delay: {:?}", begin.elapsed());
}

#[test]
fn a_key_is_rotated_by_reload() {
    let files = Files::new("rotated");
    let hash = Hash::Sha384;
    let [one, two] = [1, 2].map(|seed| files.tls(seed, hash));
    let mut config = secured(Tls::Required, vec![one.clone()]);
    let mut server = start(config.clone());
    let address = server.addresses()[0];
    let (client, controller) = connect(address, HOST, own(1, hash), 2);
    for (keys, gets_in) in [
        (vec![one.clone()], [true, false]),
        (vec![one, two.clone()], [true, true]),
        (vec![two], [false, true]),
    ] {
        config.hosts[0].tls_key = keys;
        server.reload(config.clone(), RELOAD_LIMIT).expect("it is applied");
        for (seed, gets_in) in [1, 2].into_iter().zip(gets_in) {
            match gets_in {
                true => use_target(address, HOST, with(seed, hash, Derivation::OldLibnvme), 1),
                false => drop(fault(address, HOST, own(seed, hash))),
            }
        }
        exchange_data(&client, &controller);
    }
}

#[test]
fn both_proofs_are_asked_for_if_the_subsystem_always_authenticates() {
    let files = Files::new("both");
    for (authentication, tls_is_enough) in
        [(Authentication::Optional, true), (Authentication::Required, true), (Authentication::Always, false)]
    {
        let mut config = secured(Tls::Optional, vec![files.tls(1, Hash::Sha256)]);
        config.security.authentication = authentication;
        config.security.dhchap_group = vec![None];
        config.hosts[0].dhchap_key = Some(files.dhchap(7));
        let server = start(config);
        let address = server.addresses()[0];
        let tls = own(1, Hash::Sha256);
        match tls_is_enough {
            true => use_target(address, HOST, tls.clone(), 2),
            false => assert!(matches!(
                fault(address, HOST, tls.clone()),
                Fault::NoKey | Fault::Refused(ConnectRefusal::AuthenticationRequired)
            )),
        }
        let dhchap = Some(HostKeys { host: dh_key(7), controller: None });
        use_target(address, HOST, Keys { dhchap: dhchap.clone(), ..tls }, 2);
        let alone = Keys { dhchap, ..Keys::default() };
        use_target(address, HOST, alone, 2);
    }
}

#[test]
fn discovery_says_where_tls_is_and_takes_it_for_a_proof() {
    let files = Files::new("discovery");
    for access in [DiscoveryAccess::Open, DiscoveryAccess::Hosts] {
        let mut config = secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]);
        config.security.discovery = access;
        let server = start(config);
        let find = |host: &str, keys| {
            let name = Nqn::new(host).expect("a name");
            host::discover(
                host::Backend::Auto,
                (TransportType::Tcp, server.addresses()[0]),
                (&name, HostId([7; 16])),
                keys,
            )
        };
        let found = find(HOST, own(1, Hash::Sha256)).expect("it is answered");
        assert!(matches!(&found[..], [Discovered { needs_tls: true, .. }]), "{found:?}");
        for host in [HOST, OTHER] {
            assert_eq!(find(host, Keys::default()).is_ok(), access == DiscoveryAccess::Open, "{host}");
        }
    }
}

#[test]
fn updates_of_keys_are_bounded_and_counted() {
    let files = Files::new("updates");
    let mut config = secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]);
    // On a busy machine OpenSSL's client takes longer for its updates than a host may for its first message.
    config.limits.handshake_timeout = Nanos::secs(600);
    let server = start(config);
    let address = server.addresses()[0].to_string();
    let psks = Psk::of_host(&key(1, Hash::Sha256), (HOST, DEFAULT_NQN), Derivation::Standard);
    let identity = String::from_utf8(psks[0].identity.clone()).expect("text");
    let secret: String = psks[0].secret.expose().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address, "-tls1_3", "-psk", &secret, "-psk_identity", &identity]);
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is there (tests/install-deps.sh)");
    let mut input = child.stdin.take().expect("piped");
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut messages = BufReader::new(child.stderr.take().expect("piped")).lines();
    // A line of its own is a command of the client.
    let mut update = || {
        input.write_all(b"k\n").expect("it reads");
        while messages.next().expect("it is done").expect("text") != "KEYUPDATE" {}
    };
    (0..tls::KEY_UPDATES_MAX).for_each(|_| update());
    let mut request = Vec::new();
    Framing::HANDSHAKE.header(&mut request, IcReq::new(0, 0, 0), 0, 0);
    input.write_all(&request).expect("it reads");
    // ICResp follows the client's report of its session.
    let mut seen = Vec::new();
    while !seen.ends_with(&[0; 64]) {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("the target answers after 16 updates");
        seen.extend(byte);
    }
    assert_eq!(refused(&server, Refusal::TlsKeyUpdates), 0);
    input.write_all(b"k\n").expect("it reads");
    await_that(|| refused(&server, Refusal::TlsKeyUpdates) == 1);
    drop(input);
    child.wait().expect("it ends");
}

/// OpenSSL's client: the alert that it got, or 0 if its handshake was done.
fn openssl(address: SocketAddr, arguments: &[&str]) -> u32 {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-connect", &address.to_string()]).args(arguments);
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl is there (tests/install-deps.sh)");
    drop(child.stdin.take());
    let output = child.wait_with_output().expect("it ends");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let alert =
        text.split("SSL alert number ").nth(1).map(|rest| rest.split_whitespace().next().unwrap_or_default());
    match alert {
        Some(number) => number.parse().expect("a number"),
        None => {
            assert!(text.contains("Reused, TLSv1.3") || text.contains("New, TLSv1.3"), "{text}");
            0
        }
    }
}

#[test]
fn openssl_gets_in_with_its_key_and_the_right_alert_without() {
    let files = Files::new("openssl");
    let server = start(secured(Tls::Required, vec![files.tls(1, Hash::Sha256)]));
    let address = server.addresses()[0];
    let psks = Psk::of_host(&key(1, Hash::Sha256), (HOST, DEFAULT_NQN), Derivation::Standard);
    for Psk { identity, secret, .. } in &psks {
        let identity = String::from_utf8(identity.clone()).expect("text");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (right, wrong) = (hex(secret.expose()), hex(&[1; 32]));
        let psk = |key: &str, more: &[&str]| {
            let arguments = [&["-psk", key, "-psk_identity", &identity], more].concat();
            openssl(address, &arguments)
        };
        assert_eq!(psk(&right, &["-tls1_3"]), 0);
        // The second group is the first that the target has: it asks for another ClientHello.
        assert_eq!(psk(&right, &["-tls1_3", "-groups", "X448:P-256"]), 0, "after a HelloRetryRequest");
        assert_eq!(psk(&wrong, &["-tls1_3"]), Alert::DecryptError as u32);
        assert_eq!(psk(&right, &["-tls1_2"]), Alert::ProtocolVersion as u32);
        assert_eq!(
            psk(&right, &["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"]),
            Alert::HandshakeFailure as u32
        );
    }
    assert_eq!(openssl(address, &["-tls1_3"]), Alert::CertificateRequired as u32);
    assert_eq!(
        openssl(address, &["-psk", "01020304050607080910111213141516", "-psk_identity", "me", "-tls1_3"]),
        Alert::DecryptError as u32
    );
    for (refusal, least) in [(Refusal::TlsWrongKey, 2), (Refusal::TlsNoPsk, 5), (Refusal::TlsUnknown, 1)] {
        assert!(refused(&server, refusal) >= least, "{refusal}: {:?}", server.stats().refusals);
    }
}
