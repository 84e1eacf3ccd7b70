//! Figures of identity: a host beside strangers that begin proofs or fail them, and a thousand hosts that connect at once.
//!
//! Target, hosts and strangers share the machine and this process, so the figures have the cost of all. `elsewhere` is a host of one target
//! while the strangers are at another one: they take the same processor time, and nothing of the host's target.
//! `cargo test --release -p server --test crowds -- --ignored --nocapture --test-threads=1` prints all.

mod common;

use auth::hello::Psk;
use auth::psk::Derivation;
use auth::{DhKey, Group, Hash, Message, Secret, TlsKey};
use common::{BLOCK, Folder, any_port, simple, start};
use host::{Backoff, ControllerOptions, Keys, Nqn, Operation, Request, RetryPolicy, TlsOptions};
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, HostId};
use nvme::spec::opcode::fabrics;
use nvme::spec::{AuthenticationCommand, Sgl, Sqe};
use nvme::tcp::pdu::{CapsuleCmd, Framing, IcReq};
use server::ServerHandle;
use server::config::{Config, DEFAULT_NQN, DeviceKind, HostConfig, Tls};
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};
use tls::Stream;
use units::{Bytes, Lba, Nanos};
use zerocopy::IntoBytes;

/// Hosts with a key: for TLS, and for DH-HMAC-CHAP.
const TLS_HOST: &str = "nqn.2025-01.io.example:tls";
const DH_HOST: &str = "nqn.2025-01.io.example:dhchap";
/// Strangers at a time, their addresses, and the threads that keep them connected.
const STRANGERS: usize = 1000;
const ADDRESSES: usize = 20;
const STRANGER_THREADS: usize = 4;
/// Bytes that have arrived with the challenge of a proof: ICResp, two responses, and the challenge with its header.
const CHALLENGED: usize = 128 + 2 * 24 + 24 + 16 + 32 + 256;
/// Reads of 4 KiB whose times are measured, and the time between two of them.
const READS: u32 = 8000;
const PERIOD: Duration = Duration::from_micros(500);
/// Longest wait for a host.
const AMPLE: Nanos = Nanos::secs(300);

fn tls_key(seed: u8) -> TlsKey {
    TlsKey::new(Some(Hash::Sha256), Secret::new(vec![seed; 32])).expect("as long as the hash")
}

fn host(nqn: &str) -> HostConfig {
    HostConfig {
        nqn: nqn.to_owned(),
        dhchap_key: None,
        dhchap_key_next: None,
        dhchap_ctrl_key: None,
        tls_key: Vec::new(),
    }
}

/// A target with a null device, and hosts with these keys in `folder`: `TLS_HOST`, `DH_HOST`, and those that `named` have the key of the first.
fn serving(folder: &Folder, named: impl Iterator<Item = String>) -> ServerHandle {
    let mut config = simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port());
    let tls = folder.write("host.tls", &tls_key(1).to_text());
    let dh = DhKey::new(None, Secret::new(vec![2; 32])).expect("32 bytes");
    let dh = folder.write("host.dhchap", &dh.to_text());
    config.security.tls = Tls::Optional;
    config.security.dhchap_group = vec![Some(Group::Ffdhe2048)];
    config.hosts = named
        .chain([TLS_HOST.to_owned()])
        .map(|nqn| HostConfig { tls_key: vec![tls.clone()], ..host(&nqn) })
        .collect();
    if config.hosts.len() > 1 {
        (config.limits.connections, config.limits.connections_waiting) = (8192, 8192);
    }
    config.hosts.push(HostConfig { dhchap_key: Some(dh), ..host(DH_HOST) });
    start(Config { threads: Some(1), ..config })
}

/// Resident KiB of this process.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("every process has it");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Strangers of one kind.
#[derive(Clone, Copy, Debug)]
enum Stranger {
    /// Sends half of a ClientHello.
    Half,
    /// Sends the ClientHello of a host, which it has recorded, and then nothing.
    Replay,
    /// Sends a ClientHello with a wrong key.
    WrongKey,
    /// Connects by the name of a host, begins DH-HMAC-CHAP, and then sends nothing.
    BegunProof,
    /// Connects by the name of a host, and gives a wrong response.
    FailedProof,
}

impl Stranger {
    /// The bytes it sends at once, and those after the challenge of the target.
    fn bytes(self) -> [Vec<u8>; 2] {
        let first = match self {
            Stranger::Half => [&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc][..], &[0; 8 << 10]].concat(),
            Stranger::Replay => hello(1),
            Stranger::WrongKey => hello(9),
            Stranger::BegunProof | Stranger::FailedProof => begun_proof(),
        };
        let response = match self {
            Stranger::FailedProof => wrong_response(),
            _ => Vec::new(),
        };
        [first, response]
    }
}

/// The ClientHello of the host with a key.
fn hello(seed: u8) -> Vec<u8> {
    let psks = Psk::of_host(&tls_key(seed), (TLS_HOST, DEFAULT_NQN), Derivation::Standard);
    let mut bytes = Vec::new();
    Stream::client(&psks).expect("memory").take_outbound(|hello| bytes.append(hello));
    bytes
}

fn capsule(bytes: &mut Vec<u8>, cid: u16, sqe: Sqe, data: &[u8]) {
    Framing::HANDSHAKE.header(bytes, CapsuleCmd::new(sqe.with_cid(cid)), 0, data.len() as u32);
    bytes.extend_from_slice(data);
}

/// A message of a proof to the target, and the command that asks for the next one.
fn message(bytes: &mut Vec<u8>, cid: u16, message: &Message) {
    let message = message.to_bytes(1);
    let length = message.len() as u32;
    let send = AuthenticationCommand::Send { length }.to_sqe();
    capsule(bytes, cid, send.with_sgl(Sgl::InCapsule { offset: 0, length }), &message);
    let receive = AuthenticationCommand::Receive { length: 4096 }.to_sqe();
    capsule(bytes, cid + 1, receive.with_sgl(Sgl::Transport { length: 4096 }), &[]);
}

/// ICReq, Connect, and the first message of a proof.
fn begun_proof() -> Vec<u8> {
    let mut bytes = Vec::new();
    Framing::HANDSHAKE.header(&mut bytes, IcReq::new(0, 0, 0), 0, 0);
    let blank = ConnectCommand::parse(&Sqe::fabrics(fabrics::CONNECT));
    let [host, subsystem] = [DH_HOST, DEFAULT_NQN].map(|name| Nqn::new(name).expect("an NQN"));
    let data = ConnectData::new(HostId([7; 16]), &host, &subsystem, CNTLID_DYNAMIC);
    let sgl = Sgl::InCapsule { offset: 0, length: data.as_bytes().len() as u32 };
    let connect = ConnectCommand { sqsize: 31, ..blank }.to_sqe().with_sgl(sgl);
    capsule(&mut bytes, 0, connect, data.as_bytes());
    let negotiate = Message::Negotiate { secure_channel: 0, hashes: vec![1], groups: vec![1] };
    message(&mut bytes, 1, &negotiate);
    bytes
}

/// A response that is not the one of the key.
fn wrong_response() -> Vec<u8> {
    let reply = Message::Reply {
        response: vec![7; Hash::Sha256.length()],
        challenge: None,
        sequence: 0,
        public: [&[1][..], &[5; 255]].concat(),
    };
    let mut bytes = Vec::new();
    message(&mut bytes, 3, &reply);
    bytes
}

/// A connection of a stranger; none if it could not be made.
fn open(number: usize, target: SocketAddr, bytes: &[u8]) -> Option<TcpStream> {
    let source = Ipv4Addr::new(127, 0, 9, 1 + (number % ADDRESSES) as u8);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a descriptor");
    socket.bind(&SockAddr::from(SocketAddr::from((source, 0)))).expect("an address of this machine");
    socket.connect(&target.into()).ok()?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(bytes).ok()?;
    stream.set_nonblocking(true).expect("a socket");
    Some(stream)
}

/// Keeps its part of the strangers connected until the channel ends. Returns how many connections that took.
fn besiege(kind: Stranger, target: SocketAddr, part: usize, end: &Receiver<()>) -> u64 {
    let [first, response] = kind.bytes();
    // Each with the number of bytes that it has received.
    let mut strangers: Vec<Option<(TcpStream, usize)>> =
        (0..STRANGERS / STRANGER_THREADS).map(|_| None).collect();
    let mut connections = 0;
    while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(Duration::from_millis(5)) {
        for (number, stranger) in strangers.iter_mut().enumerate() {
            let mut answer = [0; 4096];
            let is_open =
                stranger.as_mut().is_some_and(|(stream, received)| match stream.read(&mut answer) {
                    Ok(0) => false,
                    Ok(count) => {
                        let had_challenge = *received >= CHALLENGED;
                        *received += count;
                        had_challenge || *received < CHALLENGED || stream.write_all(&response).is_ok()
                    }
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                });
            if !is_open {
                *stranger = open(part + number, target, &first).map(|stream| (stream, 0));
                connections += 1;
            }
        }
    }
    connections
}

/// The p99 of reads at a fixed rate, from the time that each was due, in microseconds.
fn p99(controller: &host::Controller, client: &host::Client) -> u128 {
    let began = Instant::now();
    let mut times: Vec<Duration> = (0..READS)
        .map(|number| {
            let due = began + PERIOD * number;
            thread::park_timeout(due.saturating_duration_since(Instant::now()));
            let buffer = client.buffer(BLOCK).expect("memory");
            let read = Request::new(0, 1, Operation::Read, Lba(u64::from(number)), 1).with_buffer(buffer);
            controller.submit(read).wait().result.expect("it is read");
            due.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() * 99 / 100].as_micros()
}

/// How long a host with its key for TLS takes to connect with one IO queue.
fn connecting(client: &host::Client, target: SocketAddr) -> Duration {
    let began = Instant::now();
    client.connect(options(target, TLS_HOST)).wait().unwrap_or_else(|error| panic!("{error}"));
    began.elapsed()
}

fn options(target: SocketAddr, host: &str) -> ControllerOptions {
    let name = |text: &str| Nqn::new(text).expect("a name");
    let tls = TlsOptions { key: tls_key(1), derivation: Derivation::Standard };
    ControllerOptions {
        retry: RetryPolicy::Never,
        backoff: Backoff::NEVER_RETRY,
        connect_timeout: AMPLE,
        keys: Keys { tls: Some(tls), dhchap: None, concat: false },
        ..ControllerOptions::new(target, name(DEFAULT_NQN), name(host), host::host_id(&name(host)))
    }
}

/// Page faults of this process that needed no disk.
fn page_faults() -> u64 {
    let status = fs::read_to_string("/proc/self/stat").expect("Linux has it");
    let after_name = status.rsplit(')').next().expect("a name");
    after_name.split_whitespace().nth(7).expect("the tenth field").parse().expect("a number")
}

#[test]
#[ignore = "prints figures"]
fn the_page_faults_of_bulk_io() {
    const LENGTH: usize = 128 << 10;
    const DEPTH: usize = 4;
    const COUNT: usize = 16_384;
    let folder = Folder::new("crowds-bulk");
    let server = serving(&folder, std::iter::empty());
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
    let controller = client.connect(options(server.addresses()[0], TLS_HOST)).wait().expect("it has its key");
    for operation in [Operation::Read, Operation::Write { durable: false }] {
        let submit = || {
            let buffer = client.buffer(LENGTH).expect("memory");
            let request = Request::new(0, 1, operation, Lba(0), (LENGTH / BLOCK) as u32);
            controller.submit(request.with_buffer(buffer))
        };
        let (before, began) = (page_faults(), Instant::now());
        let mut waiting: std::collections::VecDeque<_> = (0..DEPTH).map(|_| submit()).collect();
        for _ in 0..COUNT {
            waiting.pop_front().expect("some wait").wait().result.expect("it is done");
            waiting.push_back(submit());
        }
        println!(
            "{operation:?}: {:.2} page faults each, {:.0} MB/s",
            (page_faults() - before) as f64 / COUNT as f64,
            (COUNT * LENGTH) as f64 / began.elapsed().as_secs_f64() / 1e6
        );
    }
}

#[test]
#[ignore = "prints figures, for minutes"]
fn a_host_beside_a_thousand_strangers() {
    reactor::raise_descriptor_limit(4096).expect("the system tells");
    let folder = Folder::new("crowds-strangers");
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
    for kind in
        [Stranger::Half, Stranger::Replay, Stranger::WrongKey, Stranger::BegunProof, Stranger::FailedProof]
    {
        let [server, other] = [(); 2].map(|()| serving(&folder, std::iter::empty()));
        let target = server.addresses()[0];
        let controller = client.connect(options(target, TLS_HOST)).wait().expect("it has its key");
        println!("{kind:?}: alone: p99 {} µs, {} KiB", p99(&controller, &client), resident());
        for (besieged, place) in [(other.addresses()[0], "elsewhere"), (target, "here")] {
            let (ends, threads): (Vec<_>, Vec<_>) = (0..STRANGER_THREADS)
                .map(|part| {
                    let (end, ended) = channel();
                    let part = part * STRANGERS / STRANGER_THREADS;
                    (end, thread::spawn(move || besiege(kind, besieged, part, &ended)))
                })
                .unzip();
            let p99 = p99(&controller, &client);
            let mut times: Vec<Duration> = (0..20).map(|_| connecting(&client, target)).collect();
            times.sort();
            let memory = resident();
            drop(ends);
            let connections: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            println!(
                "{kind:?}: {place}: p99 {p99} µs, a host connects in {:.1?} (at most {:.1?} of 20), {memory} KiB, {connections} connections",
                times[10], times[19]
            );
        }
        let refusals = server.stats().refusals;
        println!("{kind:?}: {refusals:?}");
    }
}

#[test]
#[ignore = "prints figures, for minutes"]
fn a_thousand_hosts_connect_at_once() {
    const HOSTS: usize = 1000;
    const QUEUES: u16 = 4;
    reactor::raise_descriptor_limit(20_000).expect("the system tells");
    let folder = Folder::new("crowds-hosts");
    let name = |number: usize| format!("nqn.2025-01.io.example:host{number}");
    let server = serving(&folder, (0..HOSTS).map(name));
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(64)).expect("a thread");
    let (before, began) = (resident(), Instant::now());
    let waiting: Vec<_> = (0..HOSTS)
        .map(|number| {
            let options = options(server.addresses()[0], &name(number));
            client.connect(ControllerOptions { io_queues: QUEUES - 1, ..options })
        })
        .collect();
    let connected: Vec<_> =
        waiting.into_iter().map(|host| host.wait().unwrap_or_else(|error| panic!("{error}"))).collect();
    println!(
        "{} hosts with {QUEUES} queues each: {:.1} s, resident {before} KiB before, {} KiB after, both ends",
        connected.len(),
        began.elapsed().as_secs_f64(),
        resident()
    );
}
