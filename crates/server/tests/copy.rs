//! Copy over real sockets, on every kind of device.

mod common;

use common::*;
use nvme::spec::copy::{CopyCommand, SourceRange};
use nvme::spec::{Cqe, Status};
use nvme::tcp::Transfer;
use server::config::{
    Config, DeviceKind, EmulatedConfig, FaultConfig, FaultError, FaultKind, FaultOp, Speed,
};
use std::path::Path;
use units::Bytes;
use zerocopy::IntoBytes;

fn emulated() -> DeviceKind {
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

fn copy(client: &mut Client, to: u64, sources: &[(u64, u32)]) -> Cqe {
    let data: Vec<u8> =
        sources.iter().flat_map(|&(lba, blocks)| SourceRange::new(lba, blocks).as_bytes().to_vec()).collect();
    let command =
        CopyCommand { destination: to, ranges: sources.len(), format: 0, force_unit_access: to % 2 == 1 };
    let length = data.len() as u32;
    client.io.command(command.to_sqe(1), Transfer::ToController(data, length)).0
}

/// 100 + 3 + 1 blocks, copied in pieces. Some ranges are shorter than a piece.
fn exercise(client: &mut Client) {
    assert_eq!(client.write(1, 0, &pattern(1, 120 * BLOCK)), Status::SUCCESS);
    assert_eq!(client.write(1, 499, &pattern(2, 110 * BLOCK)), Status::SUCCESS);
    assert_eq!(copy(client, 501, &[(3, 100), (110, 3), (0, 1)]).status(), Status::SUCCESS);
    let (source, before) = (pattern(1, 120 * BLOCK), pattern(2, 110 * BLOCK));
    let expected = [
        &before[..2 * BLOCK],
        &source[3 * BLOCK..103 * BLOCK],
        &source[110 * BLOCK..113 * BLOCK],
        &source[..BLOCK],
        &before[106 * BLOCK..],
    ]
    .concat();
    assert!(client.read(1, 499, 110).expect("readable") == expected, "what was copied, and its neighbours");
    assert!(client.read(1, 0, 120).expect("readable") == source, "the sources stay");
    assert_eq!(copy(client, 50, &[(3, 100)]).status(), Status::OVERLAPPING_IO_RANGE);
}

#[test]
fn blocks_are_copied_in_memory_and_in_files() {
    for backend in backends() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("copy-{backend:?}"));
        let _ = std::fs::remove_file(&path);
        let file = DeviceKind::File { path, size: Some(Bytes::mib(64)), create: true, direct: true };
        for kind in [emulated(), file] {
            let server = start(Config { backend, ..simple(kind, any_port()) });
            let mut client = Client::connect(server.addresses()[0]);
            exercise(&mut client);
            until(|| server.stats().ssds[0].memory == Bytes::ZERO);
        }
        let null = DeviceKind::Null { size: Bytes::gib(1) };
        let server = start(Config { backend, ..simple(null, any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        assert_eq!(copy(&mut client, 501, &[(3, 100), (0, 1)]).status(), Status::SUCCESS);
    }
}

/// Dword 0 names the first range that was not copied.
#[test]
fn a_copy_that_fails_says_which_range() {
    let fail = |op, lba: u64| FaultConfig {
        op,
        offset: Bytes(lba * BLOCK as u64),
        size: Some(Bytes(BLOCK as u64)),
        ..FaultConfig::new(FaultKind::Error(FaultError::Medium))
    };
    let mut config = simple(emulated(), any_port());
    config.devices[0].faults = vec![fail(FaultOp::Read, 40), fail(FaultOp::Write, 510)];
    let server = start(config);
    let mut client = Client::connect(server.addresses()[0]);
    let unread = copy(&mut client, 600, &[(0, 1), (5, 20), (40, 1), (50, 1)]);
    assert_eq!((unread.status(), unread.dw0()), (Status::UNRECOVERED_READ_ERROR, 2));
    let unwritten = copy(&mut client, 500, &[(0, 4), (8, 20)]);
    assert_eq!((unwritten.status(), unwritten.dw0()), (Status::WRITE_FAULT, 1));
    until(|| server.stats().ssds[0].memory == Bytes::ZERO);
}

/// The tenant is charged for reading and for writing: at least as much as for writing twice.
#[test]
fn a_copy_is_charged_its_cost() {
    let server = start(simple(emulated(), any_port()));
    let mut client = Client::connect(server.addresses()[0]);
    assert_eq!(copy(&mut client, 500, &[(0, 100)]).status(), Status::SUCCESS);
    let stats = server.stats();
    let writes = &stats.ssds[0].tenants[0].counters.writes;
    assert_eq!((writes.ios, writes.bytes), (1, 2 * 100 * BLOCK as u64));
}
