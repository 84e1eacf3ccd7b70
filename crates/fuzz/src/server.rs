//! A whole target in this process: hosts with real sockets that send any command, violate the protocol and
//! disconnect at any time, while a well-behaved host uses the same namespaces.
//!
//! The two SSDs are null devices; commands go to the home thread and to another one. One tenant has such a
//! low limit of IOs per second that some of its IOs are still queued when it is preempted.
//!
//! Holds: a connection that follows the protocol gets one answer to each of its commands, or is closed; what
//!        the target sends follows the protocol; a host that the configuration names can connect and is served,
//!        whatever resources the other hosts hold; no thread of the target ends; memory and connections are
//!        released; and the target shuts down in order.

use crate::SUBSYSTEM;
use crate::command::{any_command, connect, connect_data, data, data_length, descriptor};
use crate::input::Input;
use crate::wire::{Listener, encode};
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Cqe, Direction, Nqn, Sgl, Sqe, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{
    C2hData, CapsuleCmd, CapsuleResp, Digests, End, Framing, H2cData, IcReq, PduType, R2t, Rules,
};
use server::config::{Config, offered};
use server::{Server, ServerHandle};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use zerocopy::IntoBytes;

const CONFIG: &str = r#"
[limits]
memory = "64M"
memory_per_connection = "2M"
connections = 24
hosts_per_address = 2
discovery_connections = 4
discovery_per_address = 2
reply_memory = "1M"
keep_alive_max = "60s"
stall_timeout = "5s"
transfer_timeout = "5s"

[[device]]
name = "a"
kind = "null"
size = "128M"
[[device]]
name = "b"
kind = "null"
size = "64M"
scheduler = "none"

[[subsystem]]
nqn = "nqn.2025-01.io.example:fuzz"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
device = "a"
size = "64M"
block_size = 512
[[subsystem.namespace]]
nsid = 2
device = "b"
[[subsystem.namespace]]
nsid = 4
device = "a"
offset = "64M"

[[tenant]]
host = "nqn.2014-08.org.example:host1"
limit_iops = 2000
[[tenant]]
host = "nqn.2014-08.org.example:host9"
weight = 1
"#;

/// The configuration names this host, and no other peer uses its number.
const GOOD_HOST: u32 = 9;
const PEERS_MAX: usize = 8;
const BATCH_MAX: u32 = 6;
const LENGTH_MAX: u32 = 128 << 10;
const IN_CAPSULE_MAX: u32 = 8192;
const BLOCK: u32 = 4096;
/// Longer than any answer takes, even on a busy machine. A longer wait is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut config = Config::parse(CONFIG).expect("a valid configuration");
    config.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()];
    // So that a finding can be replayed on another machine.
    config.threads = Some(1);
    let server = Server::start(config).unwrap_or_else(|error| panic!("{error}"));
    let address = server.addresses()[0];
    let mut peers: Vec<Peer> = Vec::new();
    while !input.is_empty() {
        step(&server, &mut peers, &mut input);
    }
    for peer in &mut peers {
        peer.settle();
    }
    // A host that the configuration names can connect and is served, whatever resources the others hold.
    check_good_host(address);
    drop(peers);
    check_left_over(&server);
    assert_eq!(server.shutdown(PATIENCE), server::Shutdown::Complete);
}

fn step(server: &ServerHandle, peers: &mut Vec<Peer>, input: &mut Input<'_>) {
    let address = server.addresses()[0];
    if peers.is_empty() || (peers.len() < PEERS_MAX && input.one_in(6)) {
        let host = input.below(4);
        match input.below(4) {
            0 => peers.push(Peer::open(address, input.byte())),
            1 => {
                let mut peer = Peer::open(address, input.byte());
                let (command, controller) = (connect(input), input.flag().then(|| input.below(5) as u16));
                let subsystem = if input.one_in(3) { Nqn::DISCOVERY } else { SUBSYSTEM };
                peer.connect(command, host, subsystem, controller);
                peers.push(peer);
            }
            _ => peers.extend(bring_up(address, host, input.byte()).into_iter().flatten()),
        }
        return;
    }
    let at = input.below(peers.len() as u32) as usize;
    match input.below(16) {
        0..=8 => {
            for _ in 0..=input.below(BATCH_MAX) {
                peers[at].any_command(input);
            }
            peers[at].push();
        }
        9 | 10 => peers[at].settle(),
        11 => {
            let length = input.byte();
            let noise = input.bytes(usize::from(length));
            peers[at].misbehave(&noise);
        }
        12 => {
            let noise = input.half();
            let data = H2cData::new(noise & 7, noise >> 12, u32::from(noise), 512);
            let bytes = encode(&peers[at].framing, data, FLAG_LAST, &[1; 512]);
            peers[at].misbehave(&bytes);
        }
        13 => drop(peers.swap_remove(at)),
        14 => {
            // The target may have closed the connection already.
            let _ = peers[at].stream.shutdown(Shutdown::Write);
            peers[at].is_proper = false;
        }
        _ => {
            let rows: Vec<_> = offered().filter(|row| !row.needs_calibration()).collect();
            let kind = input.pick(&rows);
            server.set_policy(0, kind).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A controller with one IO queue, or as much of it as the target accepts.
fn bring_up(address: SocketAddr, host: u32, digests: u8) -> [Option<Peer>; 2] {
    let mut admin = Peer::open(address, digests);
    let Some(connected) = admin.connect(proper_connect(0), host, SUBSYSTEM, None) else {
        return [Some(admin), None];
    };
    let enable = Configuration::host(false).enabled();
    let set = Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, enable.0, 0, 0, 0]);
    admin.send(set, &[]);
    admin.settle();
    let mut io = Peer::open(address, digests);
    io.connect(proper_connect(1), host, SUBSYSTEM, Some(connected.dw0() as u16));
    [Some(admin), Some(io)]
}

fn proper_connect(queue_id: u16) -> nvme::spec::ConnectCommand {
    nvme::spec::ConnectCommand {
        record_format: 0,
        queue_id,
        sqsize: 31,
        attributes: 0,
        keep_alive_timeout: 0,
    }
}

/// The well-behaved host reads all namespaces; the other hosts must not prevent it.
fn check_good_host(address: SocketAddr) {
    let [_admin, io] = bring_up(address, GOOD_HOST, 0);
    let mut io = io.expect("the target accepts a host that the configuration names");
    let blocks = |opcode, nsid, length| Sqe::new(opcode).with_nsid(nsid).with_sgl(Sgl::Transport { length });
    for nsid in [1, 2, 4] {
        let length = if nsid == 1 { 512 } else { BLOCK };
        io.encode(blocks(nvm::READ, nsid, length), &[], Vec::new());
        io.settle();
        let status = io.last.expect("a read is answered").status();
        // Another host may hold a reservation, which the protocol allows.
        assert!(
            status.is_success() || status == Status::RESERVATION_CONFLICT,
            "{status:?} in namespace {nsid}"
        );
        assert!(!io.is_closed);
    }
}

/// Waits until nothing is left of the hosts, which have all disconnected.
fn check_left_over(server: &ServerHandle) {
    loop {
        let stats = server.stats();
        assert_eq!(stats.ssds.len(), 2, "a thread of the target has ended");
        let busy = |ssd: &server::SsdStats| {
            !ssd.is_current || ssd.connections + ssd.queued + ssd.in_flight + ssd.memory.get() as usize > 0
        };
        if !stats.ssds.iter().any(busy) {
            return;
        }
        // Numbers are published every 50 ms while something happens.
        std::thread::yield_now();
    }
}

/// Waits for bytes; 0 when the target has closed the connection.
fn receive(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(bytes) {
            // A signal interrupts the wait on a socket with a timeout, even with SA_RESTART (signal(7)).
            // libFuzzer's alarm is such a signal.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(0),
            result => return result,
        }
    }
}

/// A command that was sent.
#[derive(Debug)]
struct Sent {
    /// What it writes, if that was not in the capsule.
    data: Vec<u8>,
    /// An event request may stay outstanding forever.
    is_event_request: bool,
}

/// A host's end of one connection.
struct Peer {
    stream: TcpStream,
    framing: Framing,
    listener: Listener,
    /// Written, not sent.
    unsent: Vec<u8>,
    unanswered: BTreeMap<u16, Sent>,
    next_cid: u16,
    last: Option<Cqe>,
    /// Whether it has followed the protocol so far.
    is_proper: bool,
    is_closed: bool,
}

impl Peer {
    /// A connection that has sent its ICReq.
    fn open(address: SocketAddr, digests: u8) -> Peer {
        let digests = Digests::from_wire(digests & 3).expect("two bits");
        let stream = TcpStream::connect(address).expect("the target listens");
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket option");
        let rules = Rules {
            receiver: End::Host,
            handshake: true,
            digests: Digests::default(),
            alignment: 4,
            in_capsule_max: 0,
        };
        let mut peer = Peer {
            stream,
            framing: Framing { digests, alignment: 4 },
            listener: Listener::new(rules),
            unsent: encode(&Framing::HANDSHAKE, IcReq::new(0, digests.to_wire(), 0), 0, &[]),
            unanswered: BTreeMap::new(),
            next_cid: 0,
            last: None,
            is_proper: true,
            is_closed: false,
        };
        peer.push();
        peer
    }

    /// Sends Connect and waits for the answer; `None` if the target refused it.
    fn connect(
        &mut self,
        command: nvme::spec::ConnectCommand,
        host: u32,
        subsystem: &str,
        controller: Option<u16>,
    ) -> Option<Cqe> {
        let data = connect_data(host, subsystem, controller);
        self.send(command.to_sqe(), data.as_bytes());
        self.settle();
        self.last.filter(|cqe| cqe.status().is_success() && !self.is_closed)
    }

    fn any_command(&mut self, input: &mut Input<'_>) {
        let sqe = any_command(input);
        let block_size = if sqe.nsid() == 1 { 512 } else { BLOCK };
        let length = data_length(input, &sqe, block_size, LENGTH_MAX);
        let sends = sqe.direction() == Direction::ToController;
        let data = if sends && length > 0 { data(input, &sqe, length) } else { Vec::new() };
        let in_capsule = !data.is_empty() && length <= IN_CAPSULE_MAX && input.flag();
        let sqe = sqe.with_sgl(descriptor(input, length, in_capsule));
        self.encode(sqe, if in_capsule { &data } else { &[] }, data.clone());
    }

    /// Sends a valid command with its data in the capsule.
    fn send(&mut self, sqe: Sqe, data: &[u8]) {
        let length = data.len() as u32;
        let sgl =
            if data.is_empty() { Sgl::Transport { length } } else { Sgl::InCapsule { offset: 0, length } };
        self.encode(sqe.with_sgl(sgl), data, Vec::new());
    }

    /// Writes a command with a new identifier.
    fn encode(&mut self, sqe: Sqe, in_capsule: &[u8], data: Vec<u8>) {
        let cid = self.next_cid;
        self.next_cid = self.next_cid.wrapping_add(0x1003);
        let is_event_request = sqe.opcode() == admin::ASYNC_EVENT_REQUEST;
        self.unsent.extend(encode(&self.framing, CapsuleCmd::new(sqe.with_cid(cid)), 0, in_capsule));
        self.unanswered.insert(cid, Sent { data, is_event_request });
    }

    fn misbehave(&mut self, bytes: &[u8]) {
        self.is_proper &= bytes.is_empty();
        self.unsent.extend_from_slice(bytes);
        self.push();
    }

    fn push(&mut self) {
        // If the target has closed the connection, the next read notices it.
        let bytes = std::mem::take(&mut self.unsent);
        if let Err(error) = self.stream.write_all(&bytes) {
            assert!(
                error.kind() != ErrorKind::WouldBlock,
                "the target does not read commands that it must answer"
            );
        }
    }

    /// Reads until every command is answered or the connection is closed. After a protocol violation it does
    /// not wait for answers.
    fn settle(&mut self) {
        self.push();
        while self.is_proper && !self.is_closed && self.unanswered.values().any(|sent| !sent.is_event_request)
        {
            self.read();
        }
    }

    fn read(&mut self) {
        let mut bytes = vec![0; 65536];
        let count = receive(&mut self.stream, &mut bytes)
            .unwrap_or_else(|error| panic!("neither answered nor closed ({error}): {:?}", self.unanswered));
        self.is_closed |= count == 0;
        for seen in self.listener.hear(&bytes[..count]) {
            assert!(seen.intact, "{seen:?}");
            match seen.layout.pdu_type {
                PduType::IcResp => {}
                PduType::CapsuleResp => self.on_answer(seen.header_as::<CapsuleResp>().cqe),
                PduType::C2hData => {
                    let header: C2hData = seen.header_as();
                    let cid = header.cccid.get();
                    assert!(
                        self.unanswered.contains_key(&cid),
                        "data for {cid:#x}, which is not outstanding"
                    );
                    if seen.layout.success() {
                        self.on_answer(Cqe::success(cid));
                    }
                }
                PduType::R2t => self.on_r2t(&seen.header_as()),
                PduType::C2hTermReq => self.is_proper = false,
                other => panic!("a {other:?} from a controller"),
            }
        }
        self.push();
    }

    fn on_answer(&mut self, cqe: Cqe) {
        let sent = self.unanswered.remove(&cqe.cid());
        assert!(sent.is_some(), "{cqe:?} completes no outstanding command");
        self.last = Some(cqe);
    }

    fn on_r2t(&mut self, r2t: &R2t) {
        let (cid, ttag) = (r2t.cccid.get(), r2t.ttag.get());
        let sent = self
            .unanswered
            .get(&cid)
            .unwrap_or_else(|| panic!("{r2t:?} for a command that is not outstanding"));
        let (from, length) = (r2t.r2to.get() as usize, r2t.r2tl.get() as usize);
        // A descriptor may name more bytes than this host has.
        let mut data = sent.data.clone();
        data.resize(data.len().max(from + length), 0);
        let header = H2cData::new(cid, ttag, from as u32, length as u32);
        self.unsent.extend(encode(&self.framing, header, FLAG_LAST, &data[from..from + length]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Returns these results in order.
    struct Script(VecDeque<io::Result<usize>>);

    impl Read for Script {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.pop_front().expect("one read too many")
        }
    }

    fn received(script: impl IntoIterator<Item = io::Result<usize>>) -> Result<usize, ErrorKind> {
        receive(&mut Script(script.into_iter().collect()), &mut [0; 8]).map_err(|error| error.kind())
    }

    #[test]
    fn a_signal_ends_neither_the_wait_nor_the_connection() {
        let interrupted = || Err(ErrorKind::Interrupted.into());
        assert_eq!(received([interrupted(), interrupted(), Ok(5)]), Ok(5));
        assert_eq!(received([interrupted(), Err(ErrorKind::ConnectionReset.into())]), Ok(0));
        assert_eq!(received([interrupted(), Err(ErrorKind::WouldBlock.into())]), Err(ErrorKind::WouldBlock));
    }
}
