//! Writes of an earlier connection never overwrite those of a later one.
//!
//! A write hangs on the device. Its host resets the controller, or loses the connection, or falls silent. Then it connects again,
//! writes the same block and flushes. When the device completes the old write, the new data must still be there.

use crate::bed::*;
use crate::common::{
    BLOCK as BLOCK_BYTES, Client as RawClient, HOST, Options, Queue, backends, fast_ssd, rw, start, until,
};
use host::{Controller, Operation};
use nvme::spec::opcode::{fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use server::ServerHandle;
use server::config::{BackendChoice, DeviceKind, FaultConfig, FaultKind, FaultOp, FaultRelease};
use std::path::PathBuf;
use units::Bytes;

/// The block that both write.
const CONTESTED: u64 = 5;
/// Far more IOs than a test sends before the release.
const RELEASE_AT: u64 = 500;
const OLD: u8 = 0xaa;
const NEW: u8 = 0xbb;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Reset,
    Close,
    KeepAlive,
}

/// A subsystem, and its namespace on the hanging SSD.
const PATHS: [(&str, u32, u64); 2] = [(BAD, 1, 0), (BOTH, 2, BLOCKS)];

fn hang(op: FaultOp, base: u64) -> FaultConfig {
    let kind = FaultKind::Hang(FaultRelease::AtIo(RELEASE_AT));
    FaultConfig { op, count: Some(1), ..fault_at(kind, base + CONTESTED, 1) }
}

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK_BYTES]
}

fn submit_write(client: &mut RawClient, nsid: u32, byte: u8) -> u16 {
    let transfer = Transfer::ToController(filled(byte), BLOCK_BYTES as u32);
    client.io.submit(rw(nvm::WRITE, nsid, CONTESTED, 1), transfer)
}

fn is_ready(admin: &mut Queue) -> bool {
    let get = Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([0, offset::CSTS, 0, 0, 0, 0]);
    admin.command(get, Transfer::None).0.dw0() & 1 == 1
}

fn reset(admin: &mut Queue) {
    let disabled = Configuration::host(false);
    let set = Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, disabled.0, 0, 0, 0]);
    assert!(admin.command(set, Transfer::None).0.status().is_success());
}

/// Reads elsewhere, as another host, until the device has completed the hanging IOs.
fn release(server: &ServerHandle, other: &Controller) {
    until(|| {
        let reads: Vec<_> = (0..64).map(|lba| submit(other, 1, Operation::Read, 1000 + lba, 1, 0)).collect();
        assert!(reads.into_iter().all(|read| status(&read.wait()).is_success()));
        bad(server).hung == 0
    });
}

/// Waits for the answer to a command that needs no device. Then the target has processed all earlier commands of this queue.
fn overtake(client: &mut RawClient, nsid: u32, waiting: &[u16]) {
    let report = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(nsid).with_cdw10_15([15, 0, 0, 0, 0, 0]);
    let cid = client.io.submit(report, Transfer::FromController(vec![0; 64], 64));
    let (cqe, _) = client.io.next().expect("an answer");
    assert!(
        !waiting.contains(&cqe.cid()),
        "a command was carried out while a write of before is on the device"
    );
    assert_eq!(cqe.cid(), cid);
}

fn play(backend: BackendChoice, kind: DeviceKind, leave: Leave, op: FaultOp) {
    for (subsystem, nsid, base) in PATHS {
        let context = format!("{leave:?} of {op:?}, {subsystem}");
        let server = start(config(backend, kind.clone(), vec![hang(op, base)]));
        let address = server.addresses()[0];
        let keep_alive = if leave == Leave::KeepAlive { 100 } else { 0 };
        let options = Options { subsystem: subsystem.to_owned(), ..Options::default() };
        let mut old = RawClient::with(address, &Options { keep_alive, ..options.clone() });
        match op {
            FaultOp::Write => _ = submit_write(&mut old, nsid, OLD),
            FaultOp::WriteZeroes => {
                old.io.submit(rw(nvm::WRITE_ZEROES, nsid, CONTESTED, 1), Transfer::None);
            }
            _ => unreachable!("writes and zeroes only"),
        }
        until(|| bad(&server).hung == 1);
        let mut admin = None;
        match leave {
            Leave::Reset => {
                reset(&mut old.admin);
                assert!(is_ready(&mut old.admin), "the reset is not over: {context}");
                assert!(old.io.next().is_none(), "the IO queue is closed: {context}");
                admin = Some(old.admin);
            }
            Leave::Close => drop(old),
            Leave::KeepAlive => assert!(old.admin.next().is_none(), "its time runs out: {context}"),
        }
        let left = usize::from(admin.is_some());
        until(|| server.stats().ssds.iter().map(|ssd| ssd.connections).sum::<usize>() == left);

        let mut new = RawClient::with(address, &options);
        let read = Transfer::FromController(filled(0), BLOCK_BYTES as u32);
        let read = new.io.submit(rw(nvm::READ, nsid, CONTESTED, 1), read);
        let write = submit_write(&mut new, nsid, NEW);
        overtake(&mut new, nsid, &[read, write]);
        // Other hosts do not wait.
        let client = client();
        let other = connect(&client, address, BAD, OTHER_HOST);
        assert_eq!(run(&other, 1, Operation::Read, 50, 1), Status::SUCCESS, "{context}");

        release(&server, &other);
        for _ in 0..2 {
            let (cqe, _) = new.io.next().expect("an answer");
            assert!(cqe.status().is_success() && [read, write].contains(&cqe.cid()), "{context}");
        }
        assert_eq!(new.flush(nsid), Status::SUCCESS, "{context}");
        until(|| bad(&server).in_flight == 0);
        assert!(
            new.read(nsid, CONTESTED, 1).expect("readable") == filled(NEW),
            "the old write came last: {context}"
        );
        if let Some(mut admin) = admin {
            until(|| !is_ready(&mut admin));
        }
    }
}

#[test]
fn a_write_before_a_reset_never_overwrites_a_later_one() {
    for backend in backends() {
        for op in [FaultOp::Write, FaultOp::WriteZeroes] {
            play(backend, fast_ssd(), Leave::Reset, op);
        }
    }
}

#[test]
fn a_write_of_a_lost_connection_never_overwrites_a_later_one() {
    for backend in backends() {
        play(backend, fast_ssd(), Leave::Close, FaultOp::Write);
    }
}

#[test]
fn a_write_of_a_silent_host_never_overwrites_a_later_one() {
    for backend in backends() {
        play(backend, fast_ssd(), Leave::KeepAlive, FaultOp::Write);
    }
}

#[test]
fn nor_one_on_a_file() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("ghosts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    for backend in backends() {
        let (path, size) = (folder.join("image"), Some(Bytes::mib(256)));
        let kind = DeviceKind::File { path, size, create: true, direct: false };
        play(backend, kind, Leave::Reset, FaultOp::Write);
    }
    std::fs::remove_dir_all(&folder).expect("ours");
}

/// A host reconnects, waits, and disconnects again: its waiting commands end, and nothing stays behind.
#[test]
fn a_host_that_gives_up_waiting_leaves_nothing_behind() {
    for backend in backends() {
        let server = start(config(backend, fast_ssd(), vec![hang(FaultOp::Write, 0)]));
        let address = server.addresses()[0];
        let options = Options { subsystem: BAD.to_owned(), host: HOST, ..Options::default() };
        let mut old = RawClient::with(address, &options);
        submit_write(&mut old, 1, OLD);
        until(|| bad(&server).hung == 1);
        drop(old);
        until(|| bad(&server).connections == 0);
        for _ in 0..3 {
            let mut new = RawClient::with(address, &options);
            let write = submit_write(&mut new, 1, NEW);
            overtake(&mut new, 1, &[write]);
            drop(new);
            until(|| bad(&server).connections == 0);
        }
        let client = client();
        release(&server, &connect(&client, address, BAD, OTHER_HOST));
        let mut last = RawClient::with(address, &options);
        assert!(
            last.read(1, CONTESTED, 1).expect("readable") == filled(OLD),
            "none of the others was carried out"
        );
        until(|| is_at_rest(&server));
    }
}
