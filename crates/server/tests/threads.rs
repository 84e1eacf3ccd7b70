//! Connections on another thread than their SSD: all promises about IOs hold for them, too.
//!
//! Each target has one thread more than SSDs. The first IO queue is on its SSD's thread (`near`), the next one on the other thread (`far`).

mod common;

use common::*;
use nvme::spec::opcode::{admin, fabrics, nvm};
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{
    Config, DeviceKind, EmulatedConfig, FaultConfig, FaultKind, FaultOp, FaultRelease, Speed,
};
use server::{ServerHandle, Shutdown};
use std::io::{Read, Write};
use std::time::Duration;
use units::Bytes;

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";
/// The host on the SSD's own thread. It is a second host, because a host waits for its earlier writes on an SSD.
const NEAR_HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003";
/// Longer than any step of these tests.
const AMPLE: Duration = Duration::from_secs(120);
/// After this many IOs the SSD completes the hanging ones.
const RELEASE_AT: u64 = 1000;

/// One SSD, much faster than real ones, and two threads.
fn config(faults: Vec<FaultConfig>) -> Config {
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    let kind = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    let mut config = Config { threads: Some(2), ..simple(kind, any_port()) };
    config.devices[0].faults = faults;
    config.devices[0].scheduler.policy = Scheduler::GIMBAL;
    config
}

/// A fault: IOs of one kind hang until the SSD got many others.
fn hang(op: FaultOp, count: Option<u64>) -> FaultConfig {
    FaultConfig { op, count, ..FaultConfig::new(FaultKind::Hang(FaultRelease::AtIo(RELEASE_AT))) }
}

/// A target, a host on its SSD's thread, and a host on the other thread.
fn serve(config: Config, options: &Options) -> (ServerHandle, Client, Client) {
    let server = start(config);
    let near = Client::with(server.addresses()[0], &Options { host: NEAR_HOST, ..Options::default() });
    assert_eq!(carried(&server), 0, "the first queue stays with its SSD");
    let far = Client::with(server.addresses()[0], options);
    assert_eq!(carried(&server), 1, "the next goes to the thread with less to do");
    (server, near, far)
}

/// The number of connections on the other thread.
fn carried(server: &ServerHandle) -> usize {
    server.stats().threads[0].connections
}

fn is_at_rest(server: &ServerHandle) -> bool {
    let stats = server.stats();
    let (ssd, thread) = (&stats.ssds[0], &stats.threads[0]);
    (ssd.queued, ssd.in_flight, ssd.memory, thread.memory) == (0, 0, Bytes::ZERO, Bytes::ZERO)
}

/// Sends commands of `near` until the SSD has completed the hanging IOs.
fn release(near: &mut Client, mut submit: impl FnMut(&mut Queue, u64)) {
    for _ in 0..RELEASE_AT / 50 {
        (0..50).for_each(|index| submit(&mut near.io, index));
        let mut answers = (0..50).map(|_| near.io.next().expect("others go on").0.status());
        assert!(answers.all(|status| status == Status::SUCCESS));
    }
}

fn read(queue: &mut Queue, index: u64) {
    let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
    queue.submit(rw(nvm::READ, 1, 10_000 + index, 1), transfer);
}

fn flush(queue: &mut Queue, _: u64) {
    queue.submit(Sqe::new(nvm::FLUSH).with_nsid(1), Transfer::None);
}

fn submit_reads(client: &mut Client, count: u64) -> Vec<u16> {
    let length = 32 * BLOCK;
    let transfer = || Transfer::FromController(vec![0; length], length as u32);
    (0..count).map(|index| client.io.submit(rw(nvm::READ, 1, index * 32, 32), transfer())).collect()
}

fn abort(client: &mut Client, cid: u16) -> bool {
    let dword = u32::from(cid) << 16 | 1;
    let sqe = Sqe::new(admin::ABORT).with_cdw10_15([dword, 0, 0, 0, 0, 0]);
    let (cqe, _) = client.admin.command(sqe, Transfer::None);
    assert_eq!(cqe.status(), Status::SUCCESS);
    cqe.dw0() == 0
}

#[test]
fn both_hosts_see_the_same_blocks_and_all_memory_comes_back() {
    for backend in backends() {
        for in_capsule_max in [8192, 0] {
            let options = Options { in_capsule_max, ..Options::default() };
            let (server, mut near, mut far) = serve(Config { backend, ..config(Vec::new()) }, &options);
            for (round, blocks) in [(1, 1), (2, 33), (3, 256)] {
                let data = pattern(round, blocks * BLOCK);
                assert_eq!(far.write(1, 7, &data), Status::SUCCESS);
                assert!(near.read(1, 7, blocks).expect("readable") == data);
                assert_eq!(far.compare(1, 7, &data), Status::SUCCESS);
                let data = pattern(round + 10, blocks * BLOCK);
                assert_eq!(near.write(1, 7, &data), Status::SUCCESS);
                assert!(far.read(1, 7, blocks).expect("readable") == data);
                assert_eq!(far.compare(1, 7, &pattern(0, blocks * BLOCK)), Status::COMPARE_FAILURE);
            }
            assert_eq!(far.deallocate(1, &[(7, 2), (20, 5)]), Status::SUCCESS);
            assert!(far.read(1, 7, 2).expect("readable").iter().all(|byte| *byte == 0));
            assert_eq!(far.flush(1), Status::SUCCESS);
            assert_eq!(far.read(1, 1 << 40, 1), Err(Status::LBA_OUT_OF_RANGE));
            until(|| is_at_rest(&server));
        }
    }
}

#[test]
fn an_abort_reaches_a_queue_on_another_thread() {
    let (server, _near, mut far) = serve(config(vec![hang(FaultOp::Read, None)]), &Options::default());
    let cids = submit_reads(&mut far, 100);
    until(|| server.stats().ssds[0].queued + server.stats().ssds[0].in_flight == 100);
    let mut aborted = 0;
    for &cid in cids.iter().rev() {
        if abort(&mut far, cid) {
            let (cqe, _) = far.io.next().expect("the aborted command is answered");
            assert_eq!((cqe.cid(), cqe.status()), (cid, Status::ABORT_REQUESTED));
            aborted += 1;
        }
    }
    assert!(!abort(&mut far, cids[99]), "it was answered before");
    assert!(!abort(&mut far, 0x7777), "there is none");
    let ssd = &server.stats().ssds[0];
    assert!(aborted > 0 && ssd.in_flight > 0, "{aborted} of 100 were aborted");
    assert_eq!((ssd.queued, ssd.in_flight), (0, 100 - aborted));
}

#[test]
fn a_write_on_another_thread_is_aborted_before_its_data_arrives() {
    let options = Options { in_capsule_max: 0, ..Options::default() };
    let (server, _near, mut far) = serve(config(Vec::new()), &options);
    // The client sends the data when it reads the R2T. It reads nothing before it waits for the answer to Abort.
    let data = Transfer::ToController(pattern(1, BLOCK), BLOCK as u32);
    let cid = far.io.submit(rw(nvm::WRITE, 1, 5, 1), data);
    let is_aborted = abort(&mut far, cid);
    let (cqe, _) = far.io.next().expect("an answer");
    assert_eq!((cqe.cid(), is_aborted), (cid, cqe.status() == Status::ABORT_REQUESTED));
    assert_eq!(far.write(1, 5, &pattern(2, BLOCK)), Status::SUCCESS, "the connection took no harm");
    until(|| is_at_rest(&server));
}

fn reserve(client: &mut Client, opcode: u8, dword10: u32, keys: [u64; 2]) {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    client.io.submit(sqe, Transfer::ToController(data, 16));
}

/// Some writes of the victim hang on the SSD, others wait in the target. Those that wait are aborted, and the answer waits for the rest.
#[test]
fn a_preempt_and_abort_waits_for_the_writes_of_another_thread() {
    const WRITE_EXCLUSIVE: u32 = 1 << 8;
    const PREEMPT_AND_ABORT: u32 = 2;
    let (server, mut near, mut victim) = serve(config(vec![hang(FaultOp::Write, None)]), &Options::default());
    let mut other = Client::with(server.addresses()[0], &Options { host: OTHER, ..Options::default() });
    for (client, key) in [(&mut victim, 7), (&mut other, 9)] {
        reserve(client, nvm::RESERVATION_REGISTER, 0, [0, key]);
        assert_eq!(client.io.next().expect("an answer").0.status(), Status::SUCCESS);
    }
    reserve(&mut victim, nvm::RESERVATION_ACQUIRE, WRITE_EXCLUSIVE, [7, 0]);
    assert_eq!(victim.io.next().expect("an answer").0.status(), Status::SUCCESS);
    let data = pattern(1, 32 * BLOCK);
    for index in 0..100 {
        let transfer = Transfer::ToController(data.clone(), data.len() as u32);
        victim.io.submit(rw(nvm::WRITE, 1, index * 32, 32), transfer);
        // The target requests the data before it answers the report, and the client then sends it.
        let report = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([15, 0, 0, 0, 0, 0]);
        let cid = victim.io.submit(report, Transfer::FromController(vec![0; 64], 64));
        assert_eq!(victim.io.next().expect("an answer").0.cid(), cid);
    }
    until(|| server.stats().ssds[0].in_flight > 0);
    reserve(&mut other, nvm::RESERVATION_ACQUIRE, WRITE_EXCLUSIVE | PREEMPT_AND_ABORT, [9, 7]);
    until(|| server.stats().ssds[0].queued == 0);
    let hanging = server.stats().ssds[0].in_flight;
    assert!(hanging > 0, "some writes are on the SSD");
    let report = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([15, 0, 0, 0, 0, 0]);
    let cid = other.io.submit(report, Transfer::FromController(vec![0; 64], 64));
    assert_eq!(other.io.next().expect("an answer").0.cid(), cid, "the pre-empt waits for what hangs");
    release(&mut near, read);
    assert_eq!(other.io.next().expect("an answer").0.status(), Status::SUCCESS);
    assert_eq!(server.stats().ssds[0].in_flight, 0, "nothing of the victim comes any more");
    let answers: Vec<Status> = (0..100).map(|_| victim.io.next().expect("an answer").0.status()).collect();
    let ended = answers.iter().filter(|status| **status == Status::SUCCESS).count();
    let refused = answers
        .iter()
        .filter(|status| matches!(**status, Status::PREEMPTED_AND_ABORTED | Status::RESERVATION_CONFLICT));
    assert_eq!((ended, ended + refused.count()), (hanging, 100));
    until(|| is_at_rest(&server));
}

#[test]
fn a_reset_waits_for_a_write_of_another_thread() {
    let (server, mut near, mut far) = serve(config(vec![hang(FaultOp::Write, Some(1))]), &Options::default());
    far.io.submit(rw(nvm::WRITE, 1, 5, 1), Transfer::ToController(pattern(1, BLOCK), BLOCK as u32));
    until(|| server.stats().ssds[0].in_flight == 1);
    let disabled = Configuration::host(false);
    let set = Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, disabled.0, 0, 0, 0]);
    assert!(far.admin.command(set, Transfer::None).0.status().is_success());
    let mut is_ready = || {
        let get = Sqe::fabrics(fabrics::PROPERTY_GET).with_cdw10_15([0, offset::CSTS, 0, 0, 0, 0]);
        far.admin.command(get, Transfer::None).0.dw0() & 1 == 1
    };
    assert!(far.io.next().is_none(), "its queue is closed");
    until(|| carried(&server) == 0);
    assert!((0..20).all(|_| is_ready()), "the old write is on the SSD");
    release(&mut near, read);
    until(|| !is_ready());
    until(|| is_at_rest(&server));
}

#[test]
fn a_host_that_breaks_the_protocol_on_another_thread_is_closed_and_holds_nothing() {
    let (server, mut near, mut far) = serve(config(vec![hang(FaultOp::Read, None)]), &Options::default());
    submit_reads(&mut far, 100);
    until(|| server.stats().ssds[0].queued + server.stats().ssds[0].in_flight == 100);
    let mut stream = far.io.into_stream();
    stream.write_all(&[0xee; 64]).expect("it is open");
    let mut last = Vec::new();
    // It ends by FIN or by RST.
    let _ = stream.read_to_end(&mut last);
    assert_eq!(last.first(), Some(&3), "C2HTermReq");
    until(|| carried(&server) == 0 && server.stats().ssds[0].queued == 0);
    release(&mut near, flush);
    until(|| is_at_rest(&server));
    assert_eq!(
        server.stats().ssds[0].connections,
        3,
        "an admin queue of each, and the queue of the other host"
    );
}

#[test]
fn a_shutdown_answers_every_command_of_another_thread() {
    for backend in backends() {
        let (server, _near, mut far) = serve(Config { backend, ..config(Vec::new()) }, &Options::default());
        submit_reads(&mut far, 100);
        until(|| {
            let ssd = &server.stats().ssds[0];
            let reads: u64 = ssd.tenants.iter().map(|tenant| tenant.counters.reads.ios).sum();
            ssd.queued + ssd.in_flight + reads as usize == 100
        });
        let ending = std::thread::spawn(move || server.shutdown(AMPLE));
        for _ in 0..100 {
            assert!(far.io.next().expect("an answer").0.status().is_success());
        }
        assert!(far.io.next().is_none(), "then the connection ends");
        assert_eq!(ending.join().expect("no panic"), Shutdown::Complete);
    }
}

#[test]
fn a_subsystem_that_is_removed_ends_its_connections_on_every_thread() {
    let (mut server, _near, mut far) = serve(config(Vec::new()), &Options::default());
    let mut changed = server.config().clone();
    "nqn.2025-01.io.example:another".clone_into(&mut changed.subsystems[0].nqn);
    server.reload(changed, AMPLE).expect("a reload");
    assert!(far.io.next().is_none() && far.admin.next().is_none());
    until(|| carried(&server) == 0 && server.stats().ssds[0].connections == 0);
    assert!(is_at_rest(&server));
}

#[test]
fn the_number_of_threads_is_checked_and_cannot_change() {
    for threads in [0, 257] {
        let wrong = Config { threads: Some(threads), ..config(Vec::new()) };
        assert!(wrong.check().expect_err("out of bounds").to_string().contains("threads"));
    }
    let mut server = start(config(Vec::new()));
    let other = Config { threads: Some(3), ..server.config().clone() };
    assert!(server.reload(other, AMPLE).expect_err("fixed").to_string().contains("threads"));
}
