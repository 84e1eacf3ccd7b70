//! Torn writes: the host gets an error, part of the data is written, and the same seed tears at the same places.

use crate::bed::*;
use crate::common::{BLOCK as BLOCK_BYTES, Client, Options, backends, start};
use nvme::spec::Status;
use server::config::{DeviceKind, FaultConfig, FaultKind, FaultOp};
use std::path::PathBuf;
use units::Bytes;

const WRITES: u64 = 12;
const LENGTH: u64 = 8;

fn options() -> Options {
    Options { subsystem: BAD.to_owned(), ..Options::default() }
}

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; LENGTH as usize * BLOCK_BYTES]
}

/// How many blocks of each torn write were written. The new blocks come first, the old ones after them.
fn torn_at(client: &mut Client, write: u64) -> usize {
    let found = client.read(1, write * LENGTH, LENGTH as usize).expect("readable");
    let new = found.iter().take_while(|&&byte| byte == 2).count();
    assert!(found[new..].iter().all(|&byte| byte == 1), "new in front, old behind");
    assert_eq!(new % BLOCK_BYTES, 0, "torn between blocks");
    assert!(new < found.len(), "never the whole");
    new / BLOCK_BYTES
}

fn tear(seed: u64) -> Vec<usize> {
    let torn = FaultKind::Torn { then_gone: false };
    let fault = FaultConfig { skip: WRITES, seed, ..FaultConfig::new(torn) };
    let server = serve(backends().next().expect("one"), vec![fault]);
    let mut client = Client::with(server.addresses()[0], &options());
    for write in 0..WRITES {
        assert_eq!(client.write(1, write * LENGTH, &filled(1)), Status::SUCCESS);
    }
    for write in 0..WRITES {
        assert_eq!(client.write(1, write * LENGTH, &filled(2)), Status::WRITE_FAULT);
    }
    let torn = (0..WRITES).map(|write| torn_at(&mut client, write)).collect();
    assert!(is_at_rest(&server));
    torn
}

#[test]
fn a_torn_write_fails_and_its_seed_determines_what_is_written() {
    let torn = tear(3);
    assert!(torn.iter().any(|&blocks| blocks > 0), "some have begun: {torn:?}");
    assert_eq!(torn, tear(3));
    assert_ne!(torn, tear(4));
}

#[test]
fn after_a_crash_in_a_write_the_file_holds_what_was_acknowledged_and_part_of_the_write() {
    for backend in backends() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("torn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let kind = DeviceKind::File {
            path: folder.join("image"),
            size: Some(Bytes::mib(256)),
            create: true,
            direct: true,
        };
        let crash = FaultKind::Torn { then_gone: true };
        let crash = FaultConfig { op: FaultOp::Write, skip: 2 * WRITES - 1, ..FaultConfig::new(crash) };
        {
            let server = start(config(backend, kind.clone(), vec![crash]));
            let mut client = Client::with(server.addresses()[0], &options());
            for write in 0..WRITES {
                assert_eq!(client.write(1, write * LENGTH, &filled(1)), Status::SUCCESS);
            }
            for write in 0..WRITES - 1 {
                assert_eq!(client.write(1, write * LENGTH, &filled(2)), Status::SUCCESS);
            }
            let gone = Status::INTERNAL_ERROR.do_not_retry();
            assert_eq!(client.write(1, (WRITES - 1) * LENGTH, &filled(2)), gone);
            assert_eq!(client.read(1, 0, 1), Err(gone));
        }
        let server = start(config(backend, kind, Vec::new()));
        let mut client = Client::with(server.addresses()[0], &options());
        for write in 0..WRITES - 1 {
            assert!(client.read(1, write * LENGTH, LENGTH as usize).expect("readable") == filled(2));
        }
        torn_at(&mut client, WRITES - 1);
        drop(server);
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
