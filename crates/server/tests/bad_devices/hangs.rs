//! A device that hangs: this is reported, and only hosts that wait for it are delayed.

use crate::bed::*;
use crate::common::{
    BLOCK as BLOCK_BYTES, Client as RawClient, HOST, Options, backends, fast_ssd, rw, start, until,
};
use host::{Controller, Operation};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sqe, Status};
use nvme::tcp::Transfer;
use server::ServerHandle;
use server::config::{BackendChoice, Config, FaultConfig, FaultKind, FaultOp, FaultRelease, Limits};

/// Reads of this block hang until the device got enough IOs.
const STUCK: u64 = 5;
/// Far more IOs than a test sends before the release.
const RELEASE_AT: u64 = 5000;

fn hang(blocks: u64) -> FaultConfig {
    let kind = FaultKind::Hang(FaultRelease::AtIo(RELEASE_AT));
    FaultConfig { op: FaultOp::Read, ..fault_at(kind, STUCK, blocks) }
}

fn raw(server: &ServerHandle, host: &'static str) -> RawClient {
    let options = Options { subsystem: BAD.to_owned(), host, ..Options::default() };
    RawClient::with(server.addresses()[0], &options)
}

/// Submits a read without waiting for it.
fn submit_read(client: &mut RawClient, lba: u64, blocks: usize) -> u16 {
    let length = blocks * BLOCK_BYTES;
    client.io.submit(rw(nvm::READ, 1, lba, blocks), Transfer::FromController(vec![0; length], length as u32))
}

/// Reads other blocks until the device has completed the hanging IOs.
fn read_until_released(server: &ServerHandle, sound: &Controller) {
    until(|| {
        let reads: Vec<_> = (0..64).map(|lba| submit(sound, 1, Operation::Read, 1000 + lba, 1, 0)).collect();
        assert!(reads.into_iter().all(|read| status(&read.wait()).is_success()));
        bad(server).hung == 0
    });
}

#[test]
fn a_hanging_io_is_reported_and_delays_no_other() {
    for backend in backends() {
        let server = serve(backend, vec![hang(1)]);
        let address = server.addresses()[0];
        let client = client();
        let mut patient = raw(&server, HOST);
        let stuck: Vec<u16> = (0..4).map(|_| submit_read(&mut patient, STUCK, 1)).collect();
        until(|| bad(&server).hung == 4);

        let others = [(BAD, OTHER_HOST, 1), (GOOD, OTHER_HOST, 1), (BOTH, HOST, 1), (BOTH, OTHER_HOST, 2)];
        for (subsystem, host, nsid) in others {
            let controller = connect(&client, address, subsystem, host);
            for lba in 100..200 {
                assert_eq!(run(&controller, nsid, Operation::Read, lba, 4), Status::SUCCESS, "{subsystem}");
                let write = Operation::Write { durable: true };
                assert_eq!(run(&controller, nsid, write, lba, 4), Status::SUCCESS, "{subsystem}");
            }
        }
        // The waiting host is served, too: for other blocks, and on its admin queue.
        let sound = submit_read(&mut patient, 50, 1);
        assert_eq!(patient.io.next().expect("an answer").0.cid(), sound);
        patient.identify(0x01, 0);
        let abort = Sqe::new(admin::ABORT).with_cdw10_15([1 | u32::from(stuck[0]) << 16, 0, 0, 0, 0, 0]);
        let (cqe, _) = patient.admin.command(abort, Transfer::None);
        assert_eq!((cqe.status(), cqe.dw0() & 1), (Status::SUCCESS, 1), "answered: not aborted");
        assert_eq!((bad(&server).hung, bad(&server).in_flight), (4, 4));

        read_until_released(&server, &connect(&client, address, BAD, OTHER_HOST));
        for _ in 0..4 {
            let (cqe, _) = patient.io.next().expect("an answer");
            assert!(cqe.status().is_success() && stuck.contains(&cqe.cid()));
        }
        until(|| is_at_rest(&server));
        assert_eq!(errors_of(&server, HOST), 0);
    }
}

/// Under the default scheduler: its bounded service lag makes hosts wait for a slower host, but not for hanging IOs.
#[test]
fn a_host_whose_slots_all_hang_leaves_slots_for_others() {
    for backend in backends() {
        let server = serve(backend, vec![hang(32)]);
        let client = client();
        let mut stuck = raw(&server, HOST);
        // 128 KiB each: one fills a virtual slot.
        for _ in 0..100 {
            submit_read(&mut stuck, STUCK, 32);
        }
        until(|| {
            let ssd = bad(&server);
            ssd.hung > 0 && ssd.hung == ssd.in_flight
        });
        let other = connect(&client, server.addresses()[0], BAD, OTHER_HOST);
        for round in 0..30 {
            let write = Operation::Write { durable: false };
            let ios = (0..32).map(|lane| {
                let operation = if lane % 2 == 0 { Operation::Read } else { write };
                submit(&other, 1, operation, 1000 + lane * 8, 8, round)
            });
            let ios: Vec<_> = ios.collect();
            assert!(ios.into_iter().all(|io| status(&io.wait()).is_success()));
        }
        read_until_released(&server, &other);
        for _ in 0..100 {
            assert!(stuck.io.next().expect("an answer").0.status().is_success());
        }
        until(|| is_at_rest(&server));
    }
}

#[test]
fn hosts_disconnect_and_reconnect_while_their_ios_hang() {
    for backend in backends() {
        let limits = Limits {
            connections: 10,
            connections_per_address: Some(10),
            ..config(backend, fast_ssd(), vec![]).limits
        };
        let server = start(Config { limits, ..config(backend, fast_ssd(), vec![hang(1)]) });
        let address = server.addresses()[0];
        for round in 1..=4 {
            let mut host = raw(&server, HOST);
            submit_read(&mut host, STUCK, 1);
            until(|| bad(&server).hung == round);
            assert!(host.read(1, 50, 1).is_ok());
            drop(host);
            until(|| bad(&server).connections == 0);
        }
        // Four of the ten connections still count, because their IOs have not ended. Others can connect.
        let client = client();
        let other = connect(&client, address, BAD, OTHER_HOST);
        read_until_released(&server, &other);
        until(|| is_at_rest(&server));
        drop((other, client));
        // After the last IO they no longer count: five controllers with two connections each can connect.
        until(|| bad(&server).connections == 0);
        let mut hosts = Vec::new();
        until(|| {
            hosts.extend(RawClient::try_open_on(address, BAD));
            hosts.len() == 5
        });
    }
}

#[test]
fn a_silent_host_is_disconnected_in_time_although_its_ios_hang() {
    let server = serve(BackendChoice::Auto, vec![hang(1)]);
    let options = Options { subsystem: BAD.to_owned(), keep_alive: 100, ..Options::default() };
    let mut silent = RawClient::with(server.addresses()[0], &options);
    submit_read(&mut silent, STUCK, 1);
    until(|| bad(&server).hung == 1);
    assert!(silent.admin.next().is_none(), "the keep-alive time-out runs out");
    assert!(silent.io.next().is_none());
    assert!(raw(&server, HOST).read(1, 0, 1).is_ok(), "it may come back");
    assert_eq!(bad(&server).hung, 1);
}
