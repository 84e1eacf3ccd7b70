//! Credits, keep-alive and reservations between host and target.

mod common;

use common::*;
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Busy, Cqe, Sqe, Status, feature};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{DeviceKind, EmulatedConfig, FaultConfig, FaultKind, Speed};
use units::{Bytes, Nanos};

const OTHER: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000002";

fn emulated(speed_thousandths: u32) -> DeviceKind {
    let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

fn read_one(client: &mut Client) -> Cqe {
    let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
    let (cqe, data) = client.io.command(rw(nvm::READ, 1, 0, 1), transfer);
    assert!(cqe.status().is_success() && data.is_some_and(|data| data.len() == BLOCK));
    cqe
}

fn set_credits(client: &mut Client, enabled: u32) -> u32 {
    let dwords = [u32::from(feature::CREDITS), enabled, 0, 0, 0, 0];
    let (cqe, _) = client.admin.command(Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords), Transfer::None);
    assert!(cqe.status().is_success());
    cqe.dw0()
}

#[test]
fn completions_carry_credits_for_hosts_that_asked() {
    let server = serve(emulated(100_000));
    let address = server.addresses()[0];
    let mut plain = Client::connect(address);
    let mut credited = Client::with(address, &Options { host: OTHER, ..Options::default() });
    let initial = set_credits(&mut credited, feature::CREDITS_ENABLED);
    assert!(initial > 0, "the first credit comes with the agreement");
    for _ in 0..50 {
        assert!(read_one(&mut credited).dw0() > 0);
        assert_eq!(read_one(&mut plain).dw0(), 0);
    }
    // A failed command uses these bits for something else.
    let data = pattern(1, BLOCK);
    let transfer = Transfer::ToController(data, BLOCK as u32);
    let (cqe, _) = credited.io.command(rw(nvm::COMPARE, 1, 0, 1), transfer);
    assert_eq!((cqe.status(), cqe.dw0()), (Status::COMPARE_FAILURE, 0));
    assert_eq!(set_credits(&mut credited, 0), 0);
    assert_eq!(read_one(&mut credited).dw0(), 0, "and no longer when it is taken back");
}

/// Reads that take 8 ms, and from some moment on 32 ms.
#[test]
fn a_host_that_asked_is_told_that_the_ssd_is_slow() {
    let mut config = simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port());
    let delay = |millis| FaultConfig::new(FaultKind::Delay(Nanos::millis(millis)));
    let usual = FaultConfig { count: Some(150), ..delay(8) };
    config.devices[0].faults = vec![usual, delay(32)];
    let server = start(config);
    let address = server.addresses()[0];
    let mut told = Client::with(address, &Options { host: OTHER, ..Options::default() });
    set_credits(&mut told, feature::CREDITS_ENABLED);
    let mut plain = Client::connect(address);
    assert!((0..150).all(|_| read_one(&mut told).dw1() == 0));
    let dword = (0..500).map(|_| read_one(&mut told).dw1()).find(|dword| *dword != 0);
    let busy = dword.and_then(Busy::from_dword).expect("four times slower");
    assert!(busy.reads.in_quarters() > 6 && !busy.writes.is_slow(), "{busy:?}");
    assert_eq!(busy.rest, None, "it is the first");
    let stats = settled(&server).ssds.remove(0);
    let shown = stats.busy.expect("it lasts");
    assert!(shown.since <= stats.at && shown.reads.is_slow(), "{shown:?}");
    assert_eq!(read_one(&mut plain).result(), 0, "nobody else is told");
}

#[test]
fn a_silent_host_is_disconnected_after_its_keep_alive_timeout() {
    let server = serve(DeviceKind::Null { size: Bytes::gib(1) });
    let address = server.addresses()[0];
    let mut silent = Client::with(address, &Options { keep_alive: 200, ..Options::default() });
    let mut other = Client::with(address, &Options { host: OTHER, ..Options::default() });
    assert!(silent.admin.next().is_none(), "the admin queue is closed");
    assert!(silent.io.next().is_none(), "and so is the IO queue");
    read_one(&mut other);
}

/// A reservation command: `action` and reservation type in dword 10, two keys.
fn reserve(client: &mut Client, opcode: u8, dword10: u32, keys: [u64; 2]) -> Status {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    client.io.command(sqe, Transfer::ToController(data, 16)).0.status()
}

#[test]
fn after_a_preemption_with_abort_no_io_of_the_preempted_host_is_left() {
    const WRITE_EXCLUSIVE: u32 = 1 << 8;
    const PREEMPT_AND_ABORT: u32 = 2;
    let mut config = simple(emulated(1), any_port());
    // It leaves most of these writes in the switch; the default lets a tenant alone have more in the SSD.
    config.devices[0].scheduler.policy = Scheduler::GIMBAL;
    let server = start(config);
    let address = server.addresses()[0];
    let mut loser = Client::connect(address);
    let mut winner = Client::with(address, &Options { host: OTHER, ..Options::default() });
    assert_eq!(reserve(&mut loser, nvm::RESERVATION_REGISTER, 0, [0, 1]), Status::SUCCESS);
    assert_eq!(reserve(&mut loser, nvm::RESERVATION_ACQUIRE, WRITE_EXCLUSIVE, [1, 0]), Status::SUCCESS);
    assert_eq!(reserve(&mut winner, nvm::RESERVATION_REGISTER, 0, [0, 2]), Status::SUCCESS);
    for index in 0..120 {
        let transfer = Transfer::ToController(vec![7; 2 * BLOCK], 2 * BLOCK as u32);
        loser.io.submit(rw(nvm::WRITE, 1, index * 2, 2), transfer);
    }
    until(|| {
        let ssd = &server.stats().ssds[0];
        ssd.queued
            + ssd.in_flight
            + ssd.tenants.iter().map(|tenant| tenant.counters.writes.ios).sum::<u64>() as usize
            == 120
    });
    let preempt = WRITE_EXCLUSIVE | PREEMPT_AND_ABORT;
    assert_eq!(reserve(&mut winner, nvm::RESERVATION_ACQUIRE, preempt, [2, 1]), Status::SUCCESS);
    let ssd = &server.stats().ssds[0];
    assert_eq!((ssd.queued, ssd.in_flight), (0, 0), "nothing of the loser is left when the winner is told");
    let mut aborted = 0;
    for _ in 0..120 {
        let status = loser.io.next().expect("every command is answered").0.status();
        aborted += usize::from(status == Status::PREEMPTED_AND_ABORTED);
        assert!(status.is_success() || status == Status::PREEMPTED_AND_ABORTED, "{status:?}");
    }
    assert!(aborted > 0, "the SSD is slow: most had not reached it");
    assert_eq!(loser.write(1, 0, &pattern(1, BLOCK)), Status::RESERVATION_CONFLICT);
}
