//! Errors: exactly those IOs fail that a naive model says, on both backends, with two hosts on two SSDs.

use crate::bed::*;
use crate::common::{HOST, backends, until};
use host::{Controller, Operation};
use nvme::spec::Status;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use server::Shutdown;
use server::config::{FaultConfig, FaultError, FaultKind, FaultOp, FaultPattern};
use std::collections::HashMap;
use std::time::Duration;

const MEDIUM: FaultKind = FaultKind::Error(FaultError::Medium);
const NO_SPACE: FaultKind = FaultKind::Error(FaultError::NoSpace);
/// Each IO of a batch has its own range of blocks (lane), so that all of them can be outstanding together.
const LANES: u64 = 16;
const LANE: u64 = 64;
/// The blocks that one host uses.
const SHARE: u64 = LANES * LANE;

/// The faults of the SSD in each host's part: operation, first block, blocks, kind.
const FAULTS: [(FaultOp, u64, u64, FaultKind); 5] = [
    (FaultOp::Read, 100, 20, MEDIUM),
    (FaultOp::Write, 110, 40, MEDIUM),
    (FaultOp::Write, 300, 100, NO_SPACE),
    (FaultOp::Discard, 500, 100, MEDIUM),
    (FaultOp::WriteZeroes, 560, 100, NO_SPACE),
];

fn faults() -> Vec<FaultConfig> {
    let in_share = |share: u64| {
        FAULTS.iter().map(move |&(op, lba, blocks, kind)| FaultConfig {
            op,
            ..fault_at(kind, share * SHARE + lba, blocks)
        })
    };
    (0..2).flat_map(in_share).collect()
}

/// The expected result of an IO on the bad SSD. `lba` counts from the start of the host's part.
fn expected(operation: Operation, lba: u64, blocks: u64) -> Status {
    let op = match operation {
        Operation::Read | Operation::Verify => FaultOp::Read,
        Operation::Write { .. } => FaultOp::Write,
        Operation::Deallocate => FaultOp::Discard,
        Operation::WriteZeroes { .. } => FaultOp::WriteZeroes,
        Operation::Flush | Operation::Compare | Operation::Reserve(_) | Operation::ReportReservations => {
            return Status::SUCCESS;
        }
    };
    let hit = FAULTS.iter().find(|&&(wanted, first, count, _)| {
        wanted == op && (lba..lba + blocks).any(|block| (first..first + count).contains(&block))
    });
    match hit {
        None => Status::SUCCESS,
        Some((_, _, _, FaultKind::Error(FaultError::NoSpace))) => Status::CAPACITY_EXCEEDED,
        Some((FaultOp::Read, ..)) => Status::UNRECOVERED_READ_ERROR,
        Some(_) => Status::WRITE_FAULT,
    }
}

/// A host with its part of both SSDs, and the contents that it expects.
struct Host {
    name: &'static str,
    base: u64,
    /// The bad SSD and the good one.
    ssds: [(Controller, HashMap<u64, u8>); 2],
    random: SplitMix64,
    errors: u64,
}

impl Host {
    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    /// One IO in each lane of each SSD, all outstanding together.
    fn batch(&mut self) {
        let mut pending = Vec::new();
        for lane in 0..LANES {
            for ssd in 0..2 {
                let operation = match self.below(10) {
                    0..4 => Operation::Read,
                    4..7 => Operation::Write { durable: self.below(2) == 0 },
                    7 => Operation::WriteZeroes { deallocate: false },
                    8 => Operation::Deallocate,
                    _ if self.below(2) == 0 => Operation::Flush,
                    _ => Operation::Verify,
                };
                let blocks = if operation == Operation::Flush { 0 } else { 1 + self.below(16) };
                let lba = lane * LANE + self.below(LANE - blocks);
                let fill = self.below(256) as u8;
                let wire_lba = if operation == Operation::Flush { 0 } else { self.base + lba };
                let io = submit(&self.ssds[ssd].0, 1, operation, wire_lba, blocks, fill);
                pending.push((ssd, operation, lba, blocks, fill, io));
            }
        }
        for (ssd, operation, lba, blocks, fill, io) in pending {
            let outcome = io.wait();
            let wanted = if ssd == 0 { expected(operation, lba, blocks) } else { Status::SUCCESS };
            assert_eq!(status(&outcome), wanted, "{operation:?} of {blocks} blocks at {lba}, SSD {ssd}");
            self.errors += u64::from(!wanted.is_success());
            if !wanted.is_success() {
                continue;
            }
            let contents = &mut self.ssds[ssd].1;
            match operation {
                Operation::Write { .. } => contents.extend((lba..lba + blocks).map(|block| (block, fill))),
                Operation::WriteZeroes { .. } | Operation::Deallocate => {
                    contents.extend((lba..lba + blocks).map(|block| (block, 0)));
                }
                Operation::Read => {
                    let buffer = outcome.buffer.expect("a read brings data");
                    for (block, bytes) in (lba..).zip(buffer.chunks(BLOCK as usize)) {
                        let known = contents.get(&block).copied().unwrap_or(0);
                        assert!(bytes.iter().all(|&byte| byte == known), "block {block} is not {known:#x}");
                    }
                }
                Operation::Flush
                | Operation::Verify
                | Operation::Compare
                | Operation::Reserve(_)
                | Operation::ReportReservations => {}
            }
        }
    }
}

#[test]
fn exactly_the_ios_fail_that_the_model_predicts() {
    for backend in backends() {
        let server = serve(backend, faults());
        let address = server.addresses()[0];
        let client = client();
        let mut hosts: Vec<Host> = [HOST, OTHER_HOST]
            .into_iter()
            .zip(0..)
            .map(|(name, index)| Host {
                name,
                base: index * SHARE,
                ssds: [BAD, GOOD].map(|nqn| (connect(&client, address, nqn, name), HashMap::new())),
                random: SplitMix64::seed_from_u64(index),
                errors: 0,
            })
            .collect();
        std::thread::scope(|scope| {
            for host in &mut hosts {
                scope.spawn(|| (0..60).for_each(|_| host.batch()));
            }
        });
        for host in &hosts {
            assert!(host.errors > 50, "{} errors of {} are too few to tell", host.errors, host.name);
            assert_eq!(errors_of(&server, host.name), host.errors, "as {} has seen", host.name);
        }
        let good = server.stats().ssds.into_iter().find(|ssd| ssd.device == "good").expect("it lives");
        assert!(good.tenants.iter().all(|tenant| tenant.counters.errors == 0));
        assert!(is_at_rest(&server), "every slot, every buffer is back");
        assert_eq!(server.shutdown(Duration::from_secs(60)), Shutdown::Complete);
    }
}

#[test]
fn the_nth_io_fails_whichever_host_sends_it() {
    for backend in backends() {
        let fault = FaultConfig {
            op: FaultOp::Read,
            skip: 3,
            pattern: FaultPattern::Every(5),
            count: Some(6),
            ..FaultConfig::new(MEDIUM)
        };
        let server = serve(backend, vec![fault]);
        let client = client();
        let hosts = [HOST, OTHER_HOST].map(|name| connect(&client, server.addresses()[0], BAD, name));
        let mut failed = Vec::new();
        for index in 0..50 {
            let result = run(&hosts[index % 2], 1, Operation::Read, index as u64, 1);
            if !result.is_success() {
                assert_eq!(result, Status::UNRECOVERED_READ_ERROR);
                failed.push(index);
            }
        }
        assert_eq!(failed, [3, 8, 13, 18, 23, 28]);
        assert_eq!((errors_of(&server, HOST), errors_of(&server, OTHER_HOST)), (3, 3));
    }
}

#[test]
fn an_error_on_another_ssd_reaches_the_host_that_asked_from_there() {
    for backend in backends() {
        let faulty = FaultConfig { op: FaultOp::Read, ..fault_at(MEDIUM, BLOCKS + 7, 1) };
        let server = serve(backend, vec![faulty]);
        let client = client();
        let both = connect(&client, server.addresses()[0], BOTH, HOST);
        let other = connect(&client, server.addresses()[0], BOTH, OTHER_HOST);
        assert_eq!(run(&both, 2, Operation::Read, 7, 1), Status::UNRECOVERED_READ_ERROR);
        assert_eq!(run(&both, 2, Operation::Read, 8, 1), Status::SUCCESS);
        assert_eq!(run(&both, 1, Operation::Read, 7, 1), Status::SUCCESS, "the other SSD has no fault");
        assert_eq!(run(&other, 2, Operation::Read, 8, 1), Status::SUCCESS);
        assert_eq!((errors_of(&server, HOST), errors_of(&server, OTHER_HOST)), (1, 0));
        until(|| is_at_rest(&server));
    }
}

#[test]
fn after_a_device_is_gone_its_ios_fail_and_no_others() {
    for backend in backends() {
        let server =
            serve(backend, vec![FaultConfig { op: FaultOp::Write, ..fault_at(FaultKind::Gone, 9, 1) }]);
        let client = client();
        let address = server.addresses()[0];
        let hosts = [HOST, OTHER_HOST].map(|name| connect(&client, address, BAD, name));
        let elsewhere = connect(&client, address, BOTH, HOST);
        let gone = Status::INTERNAL_ERROR.do_not_retry();
        let write = Operation::Write { durable: false };
        assert_eq!(run(&hosts[0], 1, write, 8, 1), Status::SUCCESS);
        assert_eq!(run(&hosts[0], 1, write, 9, 1), gone);
        for operation in [write, Operation::Read, Operation::Verify, Operation::Flush] {
            let blocks = u64::from(operation != Operation::Flush);
            for host in &hosts {
                assert_eq!(run(host, 1, operation, 0, blocks), gone, "{operation:?}");
            }
            assert_eq!(run(&elsewhere, 2, operation, 0, blocks), gone, "{operation:?} from another SSD");
            assert_eq!(run(&elsewhere, 1, operation, 0, blocks), Status::SUCCESS, "{operation:?}");
        }
        connect(&client, address, BAD, HOST);
        assert!(is_at_rest(&server));
    }
}

#[test]
fn a_delay_lasts_as_configured_and_affects_only_its_io() {
    for backend in backends() {
        // On the device's own clock, which is a hundred times as fast as real time.
        let delay = units::Nanos::millis(500);
        let late = FaultConfig { op: FaultOp::Read, ..fault_at(FaultKind::Delay(delay), 4, 1) };
        let server = serve(backend, vec![late]);
        let client = client();
        let host = connect(&client, server.addresses()[0], BAD, HOST);
        let outcome = submit(&host, 1, Operation::Read, 4, 1, 0).wait();
        assert_eq!(status(&outcome), Status::SUCCESS);
        assert!(outcome.service_time >= units::Nanos::millis(5), "{}", outcome.service_time);
        let reads = bad(&server).all.reads;
        let longest = reads.device_latency.quantile(1000).expect("one was counted");
        assert!(longest >= delay, "the scheduler sees {longest}");
        assert!(is_at_rest(&server));
    }
}
