//! A small blocking NVMe/TCP host over loopback, for tests.
//!
//! It uses the host connection of the `nvme` crate and brings a controller up by hand: Connect, CC.EN, Number of Queues, Connect of one
//! IO queue. It never sleeps: every wait is a blocking read of the socket.
#![allow(dead_code, unreachable_pub)] // Each test file uses its own part.

pub mod back_ends;
pub mod initiator;
pub mod proving;

use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, HostId};
use nvme::spec::event::EventKind;
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Cqe, Nqn, Sqe, Status, feature};
use nvme::subsystem::ControllerIds;
use nvme::tcp::pdu::Digests;
use nvme::tcp::{HostConnection, HostEvent, HostOptions, Transfer};
use server::config::{
    AllowedHosts, BackendChoice, Config, DEFAULT_NQN, DeviceConfig, DeviceKind, EmulatedConfig, FaultConfig,
    NamespaceConfig, OwnSecurity, Speed, SubsystemConfig, TenantKind,
};
use server::{Server, ServerHandle, Stats};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use units::Bytes;
use zerocopy::IntoBytes;

/// The entries of a client's IO queue by default.
pub const ENTRIES: u16 = 128;
/// The entries of admin queues, as in Linux.
const ADMIN_ENTRIES: u16 = 32;
/// The block size of every namespace in these tests.
pub const BLOCK: usize = 4096;
/// The default host.
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001";

/// The subsystem of [`two_ssds`] on the first SSD. Clients use it by default.
pub const NEAR: &str = DEFAULT_NQN;
/// The subsystem on the second SSD's thread. Its namespace 2 is on the first SSD, next to that of `NEAR`.
pub const FAR: &str = "nqn.2025-01.io.example:far";

/// A loopback address; the system chooses the port.
pub fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// The number of threads of targets in tests, if they have one SSD. `GIMBAL_TEST_THREADS` sets it: `make test-long` runs these tests
/// with 1 and with 2. The default of users depends on the machine.
pub fn threads() -> u32 {
    let set = std::env::var("GIMBAL_TEST_THREADS");
    set.map_or(1, |text| text.parse().expect("GIMBAL_TEST_THREADS is a number of threads"))
}

/// The configuration of a target with one device, whole, for every host.
pub fn simple(device: DeviceKind, listen: SocketAddr) -> Config {
    Config { threads: Some(threads()), ..Config::simple(device, listen) }
}

/// A target on loopback with one namespace on one whole device.
pub fn serve(device: DeviceKind) -> ServerHandle {
    start(simple(device, any_port()))
}

/// Starts a target, which must succeed.
pub fn start(config: Config) -> ServerHandle {
    Server::start(config).unwrap_or_else(|error| panic!("{error}"))
}

/// An SSD much faster than real ones.
pub fn fast_ssd() -> DeviceKind {
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

/// A folder for the files of a test, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty folder of this name.
    pub fn new(name: &str) -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A subsystem that every host may use.
pub fn subsystem(nqn: &str, namespaces: Vec<NamespaceConfig>) -> SubsystemConfig {
    let (nqn, model) = (nqn.to_owned(), "test".to_owned());
    SubsystemConfig {
        nqn,
        serial: None,
        model,
        cntlid: ControllerIds::ALL,
        hosts: AllowedHosts::Any,
        security: OwnSecurity::default(),
        tenant: TenantKind::Host,
        namespaces,
    }
}

/// Two fast SSDs, `a` with `faults`, and two subsystems that share it.
pub fn two_ssds(backend: BackendChoice, faults: Vec<FaultConfig>) -> Config {
    let device = |name: &str, faults| DeviceConfig { faults, ..DeviceConfig::new(name, fast_ssd()) };
    let half = |nsid, device, place: u64| NamespaceConfig {
        offset: Bytes(place * (512 << 20)),
        size: Some(Bytes::mib(512)),
        ..NamespaceConfig::whole(nsid, device)
    };
    Config {
        backend,
        devices: vec![device("a", faults), device("b", Vec::new())],
        subsystems: vec![
            subsystem(NEAR, vec![half(1, "a", 0)]),
            subsystem(FAR, vec![half(1, "b", 0), half(2, "a", 1)]),
        ],
        // As many threads that have connections only as with one SSD.
        threads: Some(threads() + 1),
        ..simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port())
    }
}

/// The available backends.
pub fn backends() -> impl Iterator<Item = BackendChoice> {
    let has_ring = reactor::Reactor::new(reactor::Backend::IoUring).is_ok();
    has_ring.then_some(BackendChoice::IoUring).into_iter().chain([BackendChoice::Epoll])
}

/// Options of the client.
#[derive(Clone)]
pub struct Options {
    pub host: &'static str,
    pub subsystem: String,
    pub digests: Digests,
    /// The longest in-capsule data. Zero: every write waits for an R2T.
    pub in_capsule_max: u32,
    /// In milliseconds; zero means no keep-alive.
    pub keep_alive: u32,
    /// The entries of the IO queue of a [`Client`].
    pub io_entries: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: HOST,
            subsystem: DEFAULT_NQN.to_owned(),
            digests: Digests::default(),
            in_capsule_max: 8192,
            keep_alive: 0,
            io_entries: ENTRIES,
        }
    }
}

/// The completion of a command, and the data that it read.
pub type Answer = (Cqe, Option<Vec<u8>>);

/// One queue: a socket and a connection.
pub struct Queue {
    stream: TcpStream,
    connection: HostConnection<Vec<u8>>,
    events: Vec<HostEvent<Vec<u8>>>,
    next_cid: u16,
}

impl Queue {
    /// A new connection.
    pub fn open(address: SocketAddr, entries: u16, options: &Options) -> Queue {
        let stream = TcpStream::connect(address).expect("the target listens");
        stream.set_nodelay(true).expect("a socket option");
        let connection = HostConnection::new(HostOptions {
            digests: options.digests,
            commands_max: entries - 1,
            in_capsule_max: options.in_capsule_max,
            ..HostOptions::default()
        });
        Queue { stream, connection, events: Vec::new(), next_cid: 0 }
    }

    /// Connects it as queue `queue_id`. Returns the answer to Connect.
    pub fn connect(&mut self, queue_id: u16, entries: u16, controller_id: u16, options: &Options) -> Cqe {
        self.try_connect(queue_id, entries, controller_id, options).expect("the target answers")
    }

    /// As `connect`; `None` if the target closes the connection instead.
    pub fn try_connect(
        &mut self,
        queue_id: u16,
        entries: u16,
        controller_id: u16,
        options: &Options,
    ) -> Option<Cqe> {
        let keep_alive_timeout = if queue_id == 0 { options.keep_alive } else { 0 };
        let blank = ConnectCommand::parse(&Sqe::fabrics(fabrics::CONNECT));
        let sqe = ConnectCommand { queue_id, sqsize: entries - 1, keep_alive_timeout, ..blank }.to_sqe();
        let host = Nqn::new(options.host).expect("a host name");
        let subsystem = Nqn::new(&options.subsystem).expect("a subsystem name");
        // The HOSTID is the end of the host's name.
        let id: [u8; 16] = options.host.as_bytes()[options.host.len() - 16..].try_into().expect("16 bytes");
        let data = ConnectData::new(HostId(id), &host, &subsystem, controller_id);
        let data = data.as_bytes().to_vec();
        let length = data.len() as u32;
        self.submit(sqe, Transfer::ToController(data, length));
        Some(self.next()?.0)
    }

    /// Sends a command without waiting. Returns its identifier.
    pub fn submit(&mut self, sqe: Sqe, transfer: Transfer<Vec<u8>>) -> u16 {
        let cid = self.next_cid;
        self.next_cid = self.next_cid.wrapping_add(1);
        self.connection.submit(sqe.with_cid(cid), transfer).expect("the queue has room");
        self.push();
        cid
    }

    /// The next completion. `None` if the target has closed the connection.
    pub fn next(&mut self) -> Option<Answer> {
        loop {
            let completed = self.events.iter().position(|event| matches!(event, HostEvent::Completed { .. }));
            if let Some(index) = completed {
                let HostEvent::Completed { cqe, data, .. } = self.events.remove(index) else {
                    unreachable!()
                };
                return Some((cqe, data));
            }
            let mut bytes = [0; 65536];
            let count = self.stream.read(&mut bytes).unwrap_or(0);
            if count == 0 {
                return None;
            }
            self.connection
                .on_bytes(&bytes[..count], &mut self.events)
                .expect("the target keeps the protocol");
            self.push();
        }
    }

    /// Sends a command and waits for its completion. No other command may be outstanding.
    pub fn command(&mut self, sqe: Sqe, transfer: Transfer<Vec<u8>>) -> Answer {
        let cid = self.submit(sqe, transfer);
        let answer = self.next().expect("the target answers");
        assert_eq!(answer.0.cid(), cid);
        answer
    }

    /// Takes the socket, to send other bytes.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn push(&mut self) {
        let mut wire = Vec::new();
        self.connection.poll_transmit(&mut wire);
        // If the target has closed the connection, the next read fails.
        let _ = self.stream.write_all(&wire);
    }
}

/// A controller with an admin queue and one IO queue.
pub struct Client {
    pub admin: Queue,
    pub io: Queue,
    pub controller_id: u16,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::with(address, &Options::default())
    }

    pub fn with(address: SocketAddr, options: &Options) -> Client {
        Client::try_with(address, options).unwrap_or_else(|status| panic!("Connect was refused: {status:?}"))
    }

    /// A controller, or the status with which Connect was refused.
    pub fn try_with(address: SocketAddr, options: &Options) -> Result<Client, Status> {
        let mut admin = Queue::open(address, ADMIN_ENTRIES, options);
        let connected = admin.connect(0, ADMIN_ENTRIES, CNTLID_DYNAMIC, options);
        if !connected.status().is_success() {
            return Err(connected.status());
        }
        let controller_id = connected.dw0() as u16;
        enable(&mut admin);
        let mut io = Queue::open(address, options.io_entries, options);
        let connected = io.connect(1, options.io_entries, controller_id, options);
        if !connected.status().is_success() {
            return Err(connected.status());
        }
        Ok(Client { admin, io, controller_id })
    }

    /// A controller; `None` if the target closes a connection instead of answering, or is full.
    pub fn try_open(address: SocketAddr) -> Option<Client> {
        Client::try_open_on(address, DEFAULT_NQN)
    }

    /// As `try_open`, for another subsystem.
    pub fn try_open_on(address: SocketAddr, subsystem: &str) -> Option<Client> {
        let options = Options { subsystem: subsystem.to_owned(), ..Options::default() };
        let mut admin = Queue::open(address, ADMIN_ENTRIES, &options);
        let granted = |cqe: Cqe| cqe.status().is_success().then_some(cqe.dw0() as u16);
        let connected = admin.try_connect(0, ADMIN_ENTRIES, CNTLID_DYNAMIC, &options)?;
        let controller_id = granted(connected)?;
        enable(&mut admin);
        let mut io = Queue::open(address, ENTRIES, &options);
        granted(io.try_connect(1, ENTRIES, controller_id, &options)?)?;
        Some(Client { admin, io, controller_id })
    }

    pub fn identify(&mut self, cns: u32, nsid: u32) -> Vec<u8> {
        let sqe = Sqe::new(admin::IDENTIFY).with_nsid(nsid).with_cdw10_15([cns, 0, 0, 0, 0, 0]);
        let (cqe, data) = self.admin.command(sqe, Transfer::FromController(vec![0; 4096], 4096));
        assert!(cqe.status().is_success(), "Identify {cns:#x}: {:?}", cqe.status());
        data.expect("Identify brings data")
    }

    pub fn write(&mut self, nsid: u32, lba: u64, data: &[u8]) -> Status {
        let length = data.len() as u32;
        let sqe = rw(nvm::WRITE, nsid, lba, data.len() / BLOCK);
        self.io.command(sqe, Transfer::ToController(data.to_vec(), length)).0.status()
    }

    pub fn compare(&mut self, nsid: u32, lba: u64, data: &[u8]) -> Status {
        let length = data.len() as u32;
        let sqe = rw(nvm::COMPARE, nsid, lba, data.len() / BLOCK);
        self.io.command(sqe, Transfer::ToController(data.to_vec(), length)).0.status()
    }

    pub fn read(&mut self, nsid: u32, lba: u64, blocks: usize) -> Result<Vec<u8>, Status> {
        let length = blocks * BLOCK;
        let transfer = Transfer::FromController(vec![0xee; length], length as u32);
        let (cqe, data) = self.io.command(rw(nvm::READ, nsid, lba, blocks), transfer);
        if cqe.status().is_success() { Ok(data.expect("a read brings data")) } else { Err(cqe.status()) }
    }

    /// A command without data.
    pub fn simple(&mut self, opcode: u8, nsid: u32, lba: u64, blocks: usize) -> Status {
        self.io.command(rw(opcode, nsid, lba, blocks), Transfer::None).0.status()
    }

    pub fn flush(&mut self, nsid: u32) -> Status {
        self.io.command(Sqe::new(nvm::FLUSH).with_nsid(nsid), Transfer::None).0.status()
    }

    /// Deallocates ranges of (first block, blocks).
    pub fn deallocate(&mut self, nsid: u32, ranges: &[(u64, u32)]) -> Status {
        let mut data = Vec::new();
        for (lba, blocks) in ranges {
            data.extend_from_slice(&[0; 4]);
            data.extend_from_slice(&blocks.to_le_bytes());
            data.extend_from_slice(&lba.to_le_bytes());
        }
        let length = data.len() as u32;
        let count = ranges.len() as u32 - 1;
        let sqe = Sqe::new(nvm::DATASET_MANAGEMENT).with_nsid(nsid).with_cdw10_15([count, 4, 0, 0, 0, 0]);
        self.io.command(sqe, Transfer::ToController(data, length)).0.status()
    }
}

/// A command on `blocks` blocks, such as read or write.
pub fn rw(opcode: u8, nsid: u32, lba: u64, blocks: usize) -> Sqe {
    let dwords = [lba as u32, (lba >> 32) as u32, blocks as u32 - 1, 0, 0, 0];
    Sqe::new(opcode).with_nsid(nsid).with_cdw10_15(dwords)
}

/// Repeats `is_so` until it is true. Each call must take time (a round trip to the target).
pub fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Statistics in which everything is counted that hosts have had answers for.
pub fn settled(server: &ServerHandle) -> Stats {
    until(|| server.stats().ssds.iter().all(|ssd| ssd.is_current));
    server.stats()
}

/// Enables the controller of an admin queue.
pub fn enable(admin: &mut Queue) {
    let enable = Configuration::host(false).enabled();
    let set = Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, enable.0, 0, 0, 0]);
    assert!(admin.command(set, Transfer::None).0.status().is_success());
    let get = Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([0, offset::CSTS, 0, 0, 0, 0]);
    assert_eq!(admin.command(get, Transfer::None).0.dw0() & 1, 1, "ready");
}

/// Asks for one event notification of a kind.
pub fn listen_for(queue: &mut Queue, kind: EventKind) {
    let dwords = [u32::from(feature::ASYNC_EVENT_CONFIGURATION), kind.configuration_bit(), 0, 0, 0, 0];
    let set = Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords);
    assert!(queue.command(set, Transfer::None).0.status().is_success());
    queue.submit(Sqe::new(admin::ASYNC_EVENT_REQUEST), Transfer::None);
}

/// Waits for the event, reads the log page that it names, and asks for the next one.
pub fn told(queue: &mut Queue, kind: EventKind) -> Vec<u8> {
    let (cqe, _) = queue.next().expect("an event");
    assert_eq!(cqe.dw0(), kind.to_dw0());
    let dwords = [u32::from(kind.log_page()) | (4096 / 4 - 1) << 16, 0, 0, 0, 0, 0];
    let get = Sqe::new(admin::GET_LOG_PAGE).with_cdw10_15(dwords);
    let (cqe, data) = queue.command(get, Transfer::FromController(vec![0; 4096], 4096));
    assert!(cqe.status().is_success());
    queue.submit(Sqe::new(admin::ASYNC_EVENT_REQUEST), Transfer::None);
    data.expect("a log page")
}

/// Bytes that differ from block to block and from seed to seed.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let word = |index: u64| (index ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length as u64 / 8).flat_map(|index| word(index).to_le_bytes()).collect()
}
