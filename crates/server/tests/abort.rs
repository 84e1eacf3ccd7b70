//! Abort over real sockets: a command that has not reached a device is aborted, and the answer says what happened.

mod common;

use common::*;
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::ServerHandle;
use server::config::{BackendChoice, FaultConfig, FaultKind, FaultOp, FaultRelease};
use units::Bytes;

/// Reads of the SSD hang until it got this many IOs.
const RELEASE_AT: u64 = 100_000;

/// Two SSDs, the first of which never answers a read. Namespace 1 of `NEAR`, and namespace 2 of `FAR`, are on it.
fn serve() -> ServerHandle {
    let hang = FaultConfig {
        op: FaultOp::Read,
        ..FaultConfig::new(FaultKind::Hang(FaultRelease::AtIo(RELEASE_AT)))
    };
    let mut config = two_ssds(BackendChoice::Auto, vec![hang]);
    config.devices[0].scheduler.policy = Scheduler::GIMBAL;
    start(config)
}

/// Aborts a command of the IO queue. Returns whether it was aborted (dword 0).
fn abort(client: &mut Client, cid: u16) -> bool {
    let dword = u32::from(cid) << 16 | 1;
    let sqe = Sqe::new(admin::ABORT).with_cdw10_15([dword, 0, 0, 0, 0, 0]);
    let (cqe, _) = client.admin.command(sqe, Transfer::None);
    assert_eq!(cqe.status(), Status::SUCCESS);
    assert!(cqe.dw0() <= 1);
    cqe.dw0() == 0
}

fn read(client: &mut Client, nsid: u32, lba: u64) -> u16 {
    // As large as a slot, so a few of them fill the device.
    let length = 32 * BLOCK;
    client.io.submit(rw(nvm::READ, nsid, lba, 32), Transfer::FromController(vec![0; length], length as u32))
}

/// Some reads hang on the device, the others are queued. Only the queued ones are aborted.
#[test]
fn a_queued_io_is_aborted_and_one_on_the_device_is_not() {
    for (subsystem, nsid) in [(None, 1), (Some(FAR), 2)] {
        let server = serve();
        let mut options = Options::default();
        options.subsystem = subsystem.map_or(options.subsystem, str::to_owned);
        let mut client = Client::with(server.addresses()[0], &options);
        let cids: Vec<u16> = (0..100).map(|index| read(&mut client, nsid, index * 32)).collect();
        until(|| {
            let ssd = &server.stats().ssds[0];
            ssd.queued + ssd.in_flight == 100
        });
        let mut aborted = 0;
        for &cid in cids.iter().rev() {
            if abort(&mut client, cid) {
                let (cqe, _) = client.io.next().expect("the aborted command is answered");
                assert_eq!((cqe.cid(), cqe.status()), (cid, Status::ABORT_REQUESTED));
                aborted += 1;
            }
        }
        assert!(!abort(&mut client, cids[99]), "it was answered before");
        assert!(!abort(&mut client, 0x7777), "there is none");
        let ssd = &server.stats().ssds[0];
        assert!(aborted > 0 && ssd.in_flight > 0, "{aborted} of 100 were aborted");
        assert_eq!((ssd.queued, ssd.in_flight), (0, 100 - aborted), "{subsystem:?}");
    }
}

/// A write whose data has not arrived is never executed.
#[test]
fn a_write_without_its_data_is_aborted() {
    let server = serve();
    let options = Options { in_capsule_max: 0, ..Options::default() };
    let mut client = Client::with(server.addresses()[0], &options);
    // The client sends the data when it reads the R2T. It reads nothing before it waits for the answer to Abort.
    let cid =
        client.io.submit(rw(nvm::WRITE, 1, 5, 1), Transfer::ToController(pattern(1, BLOCK), BLOCK as u32));
    let is_aborted = abort(&mut client, cid);
    let (cqe, _) = client.io.next().expect("an answer");
    assert_eq!((cqe.cid(), is_aborted), (cid, cqe.status() == Status::ABORT_REQUESTED));
    // The connection still works: the next write succeeds.
    assert_eq!(client.write(1, 5, &pattern(2, BLOCK)), Status::SUCCESS);
    until(|| server.stats().ssds[0].memory == Bytes::ZERO);
}

/// A host cannot abort commands of another host or controller.
#[test]
fn an_abort_reaches_only_queues_of_its_own_controller() {
    let server = serve();
    let address = server.addresses()[0];
    let (mut one, mut other) = (Client::connect(address), Client::connect(address));
    let cids: Vec<u16> = (0..100).map(|index| read(&mut one, 1, index * 32)).collect();
    until(|| server.stats().ssds[0].queued + server.stats().ssds[0].in_flight == 100);
    assert!(cids.iter().all(|cid| !abort(&mut other, *cid)));
    assert!(abort(&mut one, cids[99]));
}
