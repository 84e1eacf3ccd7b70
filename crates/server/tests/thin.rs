//! Thin provisioning as hosts see it: NSFEAT bit 0, and NUSE that follows writes and deallocations.
//!
//! The target counts about once a second, so the tests wait until the count is right.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::identify::cns;
use server::ServerHandle;
use server::config::{Backing, DeviceConfig, DeviceKind, EmulatedConfig, NamespaceConfig, Speed};
use std::fs;
use std::path::PathBuf;
use units::Bytes;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;
/// Blocks of a MiB.
const BLOCKS: u64 = MIB / BLOCK as u64;

/// A path whose file is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("thin-{name}-{}", std::process::id())),
        )
    }

    fn device(&self) -> DeviceKind {
        DeviceKind::File { path: self.0.clone(), size: Some(Bytes(SIZE)), create: true, direct: false }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a namespace is thin (NSFEAT bit 0), and NSZE, NCAP and NUSE.
fn provisioning(client: &mut Client, nsid: u32) -> (bool, [u64; 3]) {
    let page = client.identify(u32::from(cns::NAMESPACE), nsid);
    let field = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    (page[24] & 1 == 1, [field(0), field(8), field(16)])
}

/// Waits until NUSE is as many MiB as `mib`; the other fields never change.
fn await_use(client: &mut Client, nsid: u32, size: u64, mib: std::ops::RangeInclusive<u64>) {
    let blocks = mib.start() * BLOCKS..=mib.end() * BLOCKS;
    until(|| {
        let (is_thin, [nsze, ncap, nuse]) = provisioning(client, nsid);
        assert_eq!((is_thin, nsze, ncap), (true, size / BLOCK as u64, size / BLOCK as u64));
        assert!(nuse <= ncap);
        blocks.contains(&nuse)
    });
}

fn write_mib(client: &mut Client, nsid: u32, at: u64) {
    for part in 0..4 {
        let data = pattern(at + part, MIB as usize / 4);
        assert_eq!(client.write(nsid, at * BLOCKS + part * BLOCKS / 4, &data), Status::SUCCESS);
    }
}

fn client_of(server: &ServerHandle) -> Client {
    Client::connect(server.addresses()[0])
}

#[test]
fn allocated_blocks_of_a_sparse_file_grow_by_writes_and_shrink_by_deallocations() {
    let scratch = Scratch::new("file");
    let server = serve(scratch.device());
    let mut client = client_of(&server);
    await_use(&mut client, 1, SIZE, 0..=0);
    for at in [0, 5, 6, 15] {
        write_mib(&mut client, 1, at);
    }
    await_use(&mut client, 1, SIZE, 4..=5);
    assert_eq!(client.deallocate(1, &[(5 * BLOCKS, 2 * BLOCKS as u32)]), Status::SUCCESS);
    await_use(&mut client, 1, SIZE, 2..=3);
}

#[test]
fn a_fully_allocated_file_is_thin_only_after_a_deallocation() {
    let scratch = Scratch::new("whole");
    fs::write(&scratch.0, pattern(1, SIZE as usize)).expect("room");
    let server = serve(scratch.device());
    let mut client = client_of(&server);
    let blocks = SIZE / BLOCK as u64;
    assert_eq!(provisioning(&mut client, 1), (false, [blocks; 3]));
    assert_eq!(client.deallocate(1, &[(0, 4 * BLOCKS as u32)]), Status::SUCCESS);
    until(|| provisioning(&mut client, 1).0);
    await_use(&mut client, 1, SIZE, 12..=13);
}

/// Two namespaces of one file, and one of a modelled SSD on another thread than the connection.
#[test]
fn each_namespace_counts_its_own_blocks_on_any_ssd() {
    let scratch = Scratch::new("parts");
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    let ssd = EmulatedConfig { speed, backing: Backing::Ram, ..EmulatedConfig::new(Bytes(SIZE)) };
    let null = DeviceKind::Null { size: Bytes(SIZE) };
    let mut config = simple(scratch.device(), any_port());
    let file = config.devices[0].name.clone();
    config.devices.push(DeviceConfig::new("memory", DeviceKind::Emulated(ssd)));
    config.devices.push(DeviceConfig::new("nothing", null));
    let half = |nsid: u32, offset: u64| NamespaceConfig {
        offset: Bytes(offset),
        size: Some(Bytes(SIZE / 2)),
        ..NamespaceConfig::whole(nsid, &file)
    };
    config.subsystems[0].namespaces = vec![
        half(1, 0),
        half(2, SIZE / 2),
        NamespaceConfig::whole(3, "memory"),
        NamespaceConfig::whole(4, "nothing"),
    ];
    let server = start(config);
    let mut client = client_of(&server);
    write_mib(&mut client, 1, 7);
    write_mib(&mut client, 2, 0);
    write_mib(&mut client, 2, 3);
    for at in 0..3 {
        write_mib(&mut client, 3, 2 * at);
    }
    write_mib(&mut client, 4, 0);
    await_use(&mut client, 1, SIZE / 2, 1..=1);
    await_use(&mut client, 2, SIZE / 2, 2..=2);
    await_use(&mut client, 3, SIZE, 3..=3);
    assert_eq!(client.deallocate(3, &[(0, BLOCKS as u32)]), Status::SUCCESS);
    assert_eq!(client.deallocate(2, &[(0, BLOCKS as u32)]), Status::SUCCESS);
    await_use(&mut client, 3, SIZE, 2..=2);
    await_use(&mut client, 2, SIZE / 2, 1..=1);
    await_use(&mut client, 1, SIZE / 2, 1..=1);
    let blocks = SIZE / BLOCK as u64;
    assert_eq!(provisioning(&mut client, 4), (false, [blocks; 3]), "a device that keeps nothing");
}
