//! Compare and Write over real sockets: a lock on a disk that several hosts share, on any SSD's thread.

mod common;

use common::*;
use nvme::spec::identify::cns;
use nvme::spec::opcode::nvm;
use nvme::spec::{Sgl, Status};
use nvme::tcp::Transfer;
use server::ServerHandle;
use server::config::{BackendChoice, FaultConfig, FaultError, FaultKind, FaultOp};
use std::net::SocketAddr;
use units::Bytes;

const OTHER_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

fn serve(backend: BackendChoice, faults: Vec<FaultConfig>) -> ServerHandle {
    start(two_ssds(backend, faults))
}

fn client(address: SocketAddr, subsystem: &str, host: &'static str, in_capsule_max: u32) -> Client {
    let options = Options { subsystem: subsystem.to_owned(), host, in_capsule_max, ..Options::default() };
    Client::with(address, &options)
}

/// Sends a pair without waiting. Returns the identifiers of both halves.
fn submit(client: &mut Client, nsid: u32, lba: u64, expected: &[u8], written: &[u8]) -> [u16; 2] {
    [(nvm::COMPARE, 0x41, expected), (nvm::WRITE, 0x42, written)].map(|(opcode, flags, data)| {
        let sqe = rw(opcode, nsid, lba, 1).with_flags(flags);
        client.io.submit(sqe, Transfer::ToController(data.to_vec(), data.len() as u32))
    })
}

/// Sends a pair and waits for both answers.
fn compare_and_write(
    client: &mut Client,
    nsid: u32,
    lba: u64,
    expected: &[u8],
    written: &[u8],
) -> [Status; 2] {
    let cids = submit(client, nsid, lba, expected, written);
    let answers = [(); 2].map(|()| client.io.next().expect("an answer").0);
    cids.map(|cid| answers.iter().find(|cqe| cqe.cid() == cid).expect("one answer each").status())
}

fn block(value: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..8].copy_from_slice(&value.to_le_bytes());
    block
}

fn value(block: &[u8]) -> u64 {
    u64::from_le_bytes(block[..8].try_into().expect("8 bytes"))
}

#[test]
fn a_block_is_written_only_if_it_is_as_expected() {
    for backend in backends() {
        let server = serve(backend, Vec::new());
        let address = server.addresses()[0];
        for (subsystem, nsid) in [(NEAR, 1), (FAR, 2)] {
            for in_capsule_max in [8192, 0] {
                let mut client = client(address, subsystem, HOST, in_capsule_max);
                let lba = u64::from(in_capsule_max) + 5;
                let taken = compare_and_write(&mut client, nsid, lba, &block(0), &block(7));
                assert_eq!(taken, [Status::SUCCESS; 2], "{subsystem}");
                let refused = compare_and_write(&mut client, nsid, lba, &block(0), &block(8));
                assert_eq!(refused, [Status::COMPARE_FAILURE, Status::FAILED_FUSED], "{subsystem}");
                assert_eq!(client.read(nsid, lba, 1).map(|read| value(&read)), Ok(7));
                // Refused before it reaches the device. Its memory is freed, too.
                let beyond = compare_and_write(&mut client, nsid, 1 << 40, &block(0), &block(8));
                assert_eq!(beyond, [Status::LBA_OUT_OF_RANGE, Status::FAILED_FUSED]);
            }
        }
        until(|| server.stats().ssds.iter().all(|ssd| ssd.memory == Bytes::ZERO));
    }
}

#[test]
fn identify_says_what_a_lock_needs() {
    let server = serve(BackendChoice::Auto, Vec::new());
    let mut client = client(server.addresses()[0], NEAR, HOST, 8192);
    let page = client.identify(u32::from(cns::CONTROLLER), 0);
    assert_eq!(
        (page[520] & 1, page[522] & 1, &page[532..534]),
        (1, 1, &[0, 0][..]),
        "Compare, fused, 1 block"
    );
}

#[test]
fn one_half_of_a_fused_pair_is_refused() {
    let server = serve(BackendChoice::Auto, Vec::new());
    let mut client = client(server.addresses()[0], NEAR, HOST, 8192);
    let half = |opcode, flags| rw(opcode, 1, 3, 1).with_flags(flags);
    let data = || Transfer::ToController(block(1), BLOCK as u32);
    let (cqe, _) = client.io.command(half(nvm::WRITE, 0x42), data());
    assert_eq!(cqe.status(), Status::MISSING_FUSED);
    let first = client.io.submit(half(nvm::COMPARE, 0x41), data());
    let flush = client.io.submit(nvme::spec::Sqe::new(nvm::FLUSH).with_nsid(1), Transfer::None);
    let mut answers = [(); 2].map(|()| client.io.next().expect("an answer").0);
    answers.sort_by_key(|cqe| cqe.cid());
    assert_eq!(answers.map(|cqe| cqe.cid()), [first, flush]);
    assert_eq!(answers.map(|cqe| cqe.status()), [Status::MISSING_FUSED, Status::SUCCESS]);
    let refused = half(nvm::COMPARE, 0x43).with_sgl(Sgl::Transport { length: 0 });
    assert_eq!(client.io.command(refused, Transfer::None).0.status(), Status::INVALID_FIELD, "reserved");
    assert_eq!(compare_and_write(&mut client, 1, 3, &block(0), &block(1)), [Status::SUCCESS; 2]);
}

#[test]
fn a_device_error_is_reported_for_the_half_that_failed() {
    let fail = |op, lba: u64| FaultConfig {
        op,
        offset: Bytes(lba * BLOCK as u64),
        size: Some(Bytes(BLOCK as u64)),
        ..FaultConfig::new(FaultKind::Error(FaultError::Medium))
    };
    let server = serve(BackendChoice::Auto, vec![fail(FaultOp::Read, 5), fail(FaultOp::Write, 6)]);
    let mut client = client(server.addresses()[0], NEAR, HOST, 8192);
    let unread = compare_and_write(&mut client, 1, 5, &block(0), &block(1));
    assert_eq!(unread, [Status::UNRECOVERED_READ_ERROR, Status::FAILED_FUSED]);
    let unwritten = compare_and_write(&mut client, 1, 6, &block(0), &block(1));
    assert_eq!(unwritten, [Status::SUCCESS, Status::WRITE_FAULT]);
}

/// Hosts of both subsystems increment a counter in a block, from four queues each, with eight attempts outstanding; others write the
/// next block. If the compare and write of two attempts ever interleaved, a count would be lost.
#[test]
fn no_count_is_lost_between_hosts_queues_and_threads() {
    const QUEUES: u64 = 4;
    const COUNTS: u64 = 40;
    const DEPTH: u64 = 8;
    let server = serve(BackendChoice::Auto, Vec::new());
    let address = server.addresses()[0];
    for (subsystem, nsid) in [(NEAR, 1), (FAR, 2)] {
        std::thread::scope(|scope| {
            for queue in 0..QUEUES {
                scope.spawn(move || {
                    let host = if queue % 2 == 0 { HOST } else { OTHER_HOST };
                    let mut client = client(address, subsystem, host, if queue < 2 { 8192 } else { 0 });
                    let mut done = 0;
                    let mut seen = 0;
                    while done < COUNTS {
                        // All attempts expect the same value: at most one can succeed.
                        let pairs: Vec<[u16; 2]> = (0..DEPTH)
                            .map(|_| submit(&mut client, nsid, 9, &block(seen), &block(seen + 1)))
                            .collect();
                        let beside = client.io.submit(
                            rw(nvm::WRITE, nsid, 10, 1),
                            Transfer::ToController(block(done), BLOCK as u32),
                        );
                        let mut won = 0;
                        for _ in 0..2 * DEPTH + 1 {
                            let cqe = client.io.next().expect("an answer").0;
                            let is_first = pairs.iter().any(|[first, _]| *first == cqe.cid());
                            match cqe.status() {
                                Status::SUCCESS if cqe.cid() == beside || is_first => {}
                                Status::SUCCESS => won += 1,
                                Status::COMPARE_FAILURE => assert!(is_first),
                                status => assert!(!is_first && status == Status::FAILED_FUSED, "{status:?}"),
                            }
                        }
                        assert!(won <= 1, "{won} of {DEPTH} took the same step");
                        done += won;
                        seen = value(&client.read(nsid, 9, 1).expect("readable"));
                    }
                });
            }
        });
        let mut client = client(address, subsystem, HOST, 8192);
        let count = value(&client.read(nsid, 9, 1).expect("readable"));
        assert!((QUEUES * COUNTS..QUEUES * (COUNTS + 1)).contains(&count), "{count} steps were taken");
    }
}

/// A connection that ends with outstanding pairs leaves nothing behind.
#[test]
fn outstanding_pairs_end_with_their_connection() {
    let server = serve(BackendChoice::Auto, Vec::new());
    let address = server.addresses()[0];
    for (subsystem, nsid) in [(NEAR, 1), (FAR, 2)] {
        for _ in 0..10 {
            let mut client = client(address, subsystem, HOST, 8192);
            for lba in 0..40 {
                submit(&mut client, nsid, lba % 3, &block(0), &block(0));
            }
            // And one first half alone.
            client.io.submit(
                rw(nvm::COMPARE, nsid, 0, 1).with_flags(0x41),
                Transfer::ToController(block(0), BLOCK as u32),
            );
        }
    }
    until(|| {
        let stats = server.stats();
        let is_idle = |ssd: &server::SsdStats| {
            ssd.connections == 0 && ssd.queued + ssd.in_flight == 0 && ssd.memory == Bytes::ZERO
        };
        stats.ssds.iter().all(is_idle)
    });
    let mut client = client(address, NEAR, HOST, 8192);
    assert_eq!(compare_and_write(&mut client, 1, 0, &block(0), &block(1)), [Status::SUCCESS; 2]);
}
