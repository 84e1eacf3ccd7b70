//! The end of a target with a bad device, and the end of one SSD's thread.

use crate::bed::*;
use crate::common::{BLOCK as BLOCK_BYTES, Client as RawClient, HOST, Options, backends, rw, until};
use host::Operation;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use server::config::{FaultConfig, FaultKind, FaultOp, FaultRelease};
use server::{ServerHandle, Shutdown};
use std::time::Duration;

/// The block on which reads hang for ever, and the one that breaks the reactor.
const STUCK: u64 = 5;
const BREAKING: u64 = 9;

fn faults(base: u64) -> Vec<FaultConfig> {
    let read = |kind, lba| FaultConfig { op: FaultOp::Read, ..fault_at(kind, lba, 1) };
    vec![read(FaultKind::Hang(FaultRelease::Never), base + STUCK), read(FaultKind::Reactor, BREAKING)]
}

fn raw(server: &ServerHandle) -> RawClient {
    let options = Options { subsystem: BAD.to_owned(), ..Options::default() };
    RawClient::with(server.addresses()[0], &options)
}

fn submit_read(client: &mut RawClient, lba: u64) {
    let transfer = Transfer::FromController(vec![0; BLOCK_BYTES], BLOCK_BYTES as u32);
    client.io.submit(rw(nvm::READ, 1, lba, 1), transfer);
}

#[test]
fn a_hanging_device_does_not_delay_the_end() {
    for backend in backends() {
        let server = serve(backend, faults(0));
        let client = client();
        let good = connect(&client, server.addresses()[0], GOOD, HOST);
        assert_eq!(run(&good, 1, Operation::Write { durable: false }, 0, 8), Status::SUCCESS);
        let mut stuck = raw(&server);
        submit_read(&mut stuck, STUCK);
        until(|| bad(&server).hung == 1);
        // The result says that not everything was answered. `gimbal serve` makes it the exit status.
        assert_eq!(server.shutdown(Duration::from_millis(100)), Shutdown::CutShort);
        assert!(stuck.io.next().is_none(), "the connection is closed");
    }
}

#[test]
fn a_failed_reactor_ends_its_own_connections_only() {
    for backend in backends() {
        let server = serve(backend, faults(BLOCKS));
        let address = server.addresses()[0];
        let client = client();
        let both = connect(&client, address, BOTH, OTHER_HOST);
        let waiting = submit(&both, 2, Operation::Read, STUCK, 1, 0);
        until(|| bad(&server).hung == 1);
        let mut own = raw(&server);
        submit_read(&mut own, BREAKING);
        assert!(own.io.next().is_none() && own.admin.next().is_none(), "its connections are closed");
        let gone = Status::INTERNAL_ERROR.do_not_retry();
        assert_eq!(status(&waiting.wait()), gone, "what was on its device from elsewhere");
        assert_eq!(run(&both, 2, Operation::Read, 0, 1), gone);
        assert_eq!(run(&both, 2, Operation::Write { durable: true }, 0, 1), gone);
        assert_eq!(run(&both, 1, Operation::Read, 0, 1), Status::SUCCESS, "the other SSD goes on");
        assert!(RawClient::try_open_on(address, BAD).is_none(), "nobody is let in where nobody answers");
        connect(&client, address, GOOD, HOST);
        until(|| server.stats().ssds.iter().map(|ssd| &*ssd.device).eq(["good"]));
        assert_eq!(server.shutdown(Duration::from_secs(60)), Shutdown::CutShort, "not all has ended well");
    }
}
