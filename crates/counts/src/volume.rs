//! Reads and synced writes of a volume on two targets in this process.
//!
//! The caller, as RocksDB's thread would, asks for one operation and sleeps until it has ended; so does the volume's thread, which never spins here. So each side
//! does the same turns whatever the devices do meanwhile, and the targets need not be counted: their lines are those of the wire. The
//! devices are sparse files in a folder for temporary files, and the metadata store is in memory.

use blob::catalog::{self, SsdRecord, Standing};
use blob::store::{ModelStore, Store};
use blob::volume::HandleId;
use blob::{Class, Geometry, Outcome, Request, Settings};
use blob_client::{Mount, Options, identity};
use host::{Backend, Keys, TransportType};
use sched::Scheduler;
use server::config::{BackendChoice, Config, DeviceKind};
use server::{Server, ServerHandle, Shutdown};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, process};
use units::{Bytes, Nanos};

const BLOCK: usize = 4096;
const DEVICE: Bytes = Bytes::mib(64);
const MEGA: Bytes = Bytes::mib(4);
const VOLUME: &str = "counted";
/// Blocks of the file that is read.
const BLOCKS: u64 = 256;

/// A counted operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// A read of one block.
    Read,
    /// An append of one block, and a sync behind it.
    SyncedWrite,
}

/// `operations`, one after the other.
pub(crate) fn run(counted: Counted, operations: u32) {
    let folder = env::temp_dir().join(format!("gimbal-counts-{}-{counted:?}-{operations}", process::id()));
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written to");
    let targets = [1, 2].map(|number| target(&folder, number));
    let mount = mount(&targets);
    match counted {
        Counted::Read => reads(&mount, operations),
        Counted::SyncedWrite => synced_writes(&mount, operations),
    }
    mount.unmount().expect("the targets are there");
    for target in targets {
        assert_eq!(target.shutdown(Duration::from_secs(60)), Shutdown::Complete);
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

fn target(folder: &Path, number: u32) -> ServerHandle {
    let path = folder.join(format!("ssd-{number}"));
    let device = DeviceKind::File { path, size: Some(DEVICE), create: true, direct: false };
    let mut config = Config::simple(device, (Ipv4Addr::LOCALHOST, 0).into());
    config.backend = BackendChoice::Epoll;
    config.spin = Some(Nanos::ZERO);
    config.threads = Some(1);
    config.devices[0].scheduler.policy = Scheduler::NONE;
    // The UUID of a namespace follows from the name of its subsystem.
    config.subsystems[0].nqn = subsystem(number);
    Server::start(config).expect("a target on loopback starts")
}

fn subsystem(number: u32) -> String {
    format!("nqn.2025-01.io.gimbal:counts{number}")
}

/// A new volume on both targets.
fn mount(targets: &[ServerHandle]) -> Mount {
    let mut store = ModelStore::default();
    let lease = store.grant(Nanos::secs(3600)).expect("a store of our own");
    for (number, target) in (1u32..).zip(targets) {
        let namespace = &target.namespaces(&subsystem(number))[0];
        let digits: String = namespace.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let record = SsdRecord {
            uuid: [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-"),
            domain: format!("target-{number}"),
            address: target.addresses()[0].to_string(),
            rdma_address: None,
            subsystem: subsystem(number),
            nsid: 1,
            block_size: namespace.block_size,
            capacity: DEVICE.0,
            mega: MEGA.0,
        };
        catalog::register(&mut store, &record, lease, Standing::Started).expect("nobody else is there");
    }
    let geometry = Geometry { mega: MEGA.0, micro: 256 << 10, ..Geometry::default() };
    catalog::create(&mut store, VOLUME, geometry).expect("two SSDs of two targets are there");
    let (host, host_id) = identity();
    let options = Options {
        // Renewals of the lease would be counted.
        settings: Settings { ttl: Nanos::secs(3600), ..Settings::new(VOLUME, "counts") },
        host,
        host_id,
        transport: TransportType::Tcp,
        keys: Keys::default(),
        backend: Backend::Epoll,
        memory: Bytes::mib(16),
        io_timeout: Nanos::secs(600),
        spin: Some(Nanos::ZERO),
    };
    Mount::open(options, Box::new(store)).expect("the volume is new")
}

fn call(mount: &Mount, request: Request) -> Outcome {
    match mount.call(request) {
        Outcome::Failed(fault) => panic!("the volume is whole: {fault}"),
        outcome => outcome,
    }
}

fn create(mount: &Mount, path: &str) -> HandleId {
    match call(mount, Request::Create { path: path.to_owned() }) {
        Outcome::Opened { handle, .. } => handle,
        other => unreachable!("not an outcome of a new file: {other:?}"),
    }
}

fn reads(mount: &Mount, reads: u32) {
    let handle = create(mount, "file");
    call(mount, Request::Append { handle, bytes: vec![1; BLOCK * BLOCKS as usize] });
    call(mount, Request::Sync { handle });
    for read in 0..u64::from(reads) {
        let offset = read % BLOCKS * BLOCK as u64;
        let request = Request::Read { handle, offset, length: BLOCK as u64, class: Class::Normal };
        let Outcome::Bytes(bytes) = call(mount, request) else { unreachable!("not an outcome of a read") };
        assert_eq!(bytes.len(), BLOCK);
    }
    call(mount, Request::Close { handle });
}

fn synced_writes(mount: &Mount, writes: u32) {
    let mut handle = create(mount, "log");
    for write in 0..u64::from(writes) {
        if write > 0 && write % BLOCKS == 0 {
            // The next log, in place of the last one.
            call(mount, Request::Close { handle });
            handle = create(mount, "log");
        }
        call(mount, Request::Append { handle, bytes: vec![1; BLOCK] });
        call(mount, Request::Sync { handle });
    }
    call(mount, Request::Close { handle });
}
