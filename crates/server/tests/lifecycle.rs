//! Start, shutdown, restart.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use sched::Scheduler;
use server::config::{Backing, Config, DeviceKind, EmulatedConfig, Speed};
use server::{DeviceError, Server, Shutdown, StartError};
use std::path::PathBuf;
use std::time::Duration;
use units::Bytes;

/// Long enough for everything that ends.
const AMPLE: Duration = Duration::from_secs(60);

/// A path without a file, in a folder that is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        Scratch(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("image")
    }

    fn device(&self) -> DeviceKind {
        DeviceKind::File { path: self.file(), size: Some(Bytes::mib(64)), create: true, direct: true }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn emulated(speed_thousandths: u32) -> DeviceKind {
    let speed = Speed::from_thousandths(speed_thousandths).expect("above zero");
    DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) })
}

#[test]
fn a_restart_keeps_data_and_identifiers() {
    for backend in backends() {
        let scratch = Scratch::new("restart");
        let mut identifiers = Vec::new();
        for round in 0..3 {
            let server = start(Config { backend, ..simple(scratch.device(), any_port()) });
            let mut client = Client::connect(server.addresses()[0]);
            identifiers.push((client.identify(0x03, 1), client.identify(0x01, 0)[4..24].to_vec()));
            if round > 0 {
                let data = client.read(1, round * 50, 33).expect("readable");
                assert!(data == pattern(round, 33 * BLOCK), "what round {} wrote", round - 1);
            }
            assert_eq!(client.write(1, (round + 1) * 50, &pattern(round + 1, 33 * BLOCK)), Status::SUCCESS);
            assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
        }
        assert!(identifiers.iter().all(|other| *other == identifiers[0]), "UUID and serial number stay");
        assert_ne!(identifiers[0].0[..20], [0; 20], "there is an identifier");
    }
}

#[test]
fn every_command_works_on_a_file() {
    for backend in backends() {
        let scratch = Scratch::new("file");
        let server = start(Config { backend, ..simple(scratch.device(), any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        assert_eq!(client.read(1, 0, 256), Ok(vec![0; 256 * BLOCK]), "a new file is zeros");
        let data = pattern(9, 256 * BLOCK);
        assert_eq!(client.write(1, 16, &data), Status::SUCCESS);
        assert_eq!(client.compare(1, 16, &data), Status::SUCCESS);
        assert_eq!(client.simple(nvm::VERIFY, 1, 0, 256), Status::SUCCESS);
        assert_eq!(client.simple(nvm::WRITE_ZEROES, 1, 20, 4), Status::SUCCESS);
        assert_eq!(client.read(1, 20, 4), Ok(vec![0; 4 * BLOCK]));
        assert!(client.read(1, 24, 8).expect("readable") == data[8 * BLOCK..16 * BLOCK]);
        assert_eq!(client.deallocate(1, &[(30, 4), (100, 20)]), Status::SUCCESS);
        assert_eq!(client.flush(1), Status::SUCCESS);
        let fua = rw(nvm::WRITE, 1, 0, 1);
        let fua = fua.with_cdw10_15([0, 0, 1 << 30, 0, 0, 0]);
        let (cqe, _) = client.io.command(fua, Transfer::ToController(pattern(1, BLOCK), BLOCK as u32));
        assert!(cqe.status().is_success());
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
        let stored = std::fs::read(scratch.file()).expect("readable");
        assert!(stored[..BLOCK] == pattern(1, BLOCK), "a forced write is in the file");
        assert_eq!(stored.len(), 64 << 20);
    }
}

#[test]
fn an_emulated_ssd_without_contents_accepts_writes_and_reads_zeros() {
    for backend in backends() {
        let emulated = EmulatedConfig { backing: Backing::None, ..EmulatedConfig::new(Bytes::mib(64)) };
        let server = start(Config { backend, ..simple(DeviceKind::Emulated(emulated), any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        for round in 0..3 {
            assert_eq!(client.write(1, 3, &pattern(round, 200 * BLOCK)), Status::SUCCESS);
            assert_eq!(client.read(1, 0, 256), Ok(vec![0; 256 * BLOCK]));
        }
        assert_eq!(client.deallocate(1, &[(3, 200)]), Status::SUCCESS);
        assert_eq!(client.flush(1), Status::SUCCESS);
        assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
    }
}

#[test]
fn an_emulated_ssd_over_a_file_keeps_its_contents() {
    for backend in backends() {
        let scratch = Scratch::new("backing");
        let emulated = EmulatedConfig {
            backing: Backing::File(scratch.file()),
            create: true,
            ..EmulatedConfig::new(Bytes::mib(64))
        };
        for round in 0..2 {
            let device = DeviceKind::Emulated(emulated.clone());
            let server = start(Config { backend, ..simple(device, any_port()) });
            let mut client = Client::connect(server.addresses()[0]);
            if round == 0 {
                assert_eq!(client.write(1, 3, &pattern(5, 200 * BLOCK)), Status::SUCCESS);
                assert_eq!(client.simple(nvm::WRITE_ZEROES, 1, 4, 1), Status::SUCCESS);
                assert_eq!(client.flush(1), Status::SUCCESS);
            }
            let mut expected = pattern(5, 200 * BLOCK);
            expected[BLOCK..2 * BLOCK].fill(0);
            assert!(client.read(1, 3, 200).expect("readable") == expected, "round {round}");
            assert_eq!(server.shutdown(AMPLE), Shutdown::Complete);
        }
    }
}

#[test]
fn two_targets_never_share_one_file() {
    let scratch = Scratch::new("lock");
    let first = serve(scratch.device());
    let second = Server::start(simple(scratch.device(), any_port()));
    let Err(StartError::Device { error: DeviceError::Locked(path), .. }) = second else {
        panic!("the second target started or failed otherwise")
    };
    assert_eq!(path, scratch.file());
    assert_eq!(first.shutdown(AMPLE), Shutdown::Complete);
    serve(scratch.device());
}

#[test]
fn a_shutdown_answers_every_command() {
    for backend in backends() {
        let server = start(Config { backend, ..simple(emulated(20), any_port()) });
        let mut client = Client::connect(server.addresses()[0]);
        for index in 0..100 {
            let transfer = Transfer::FromController(vec![0; BLOCK], BLOCK as u32);
            client.io.submit(rw(nvm::READ, 1, index, 1), transfer);
        }
        until(|| {
            let ssd = &server.stats().ssds[0];
            ssd.queued + ssd.in_flight + ssd.tenants[0].counters.reads.ios as usize == 100
        });
        let ending = std::thread::spawn(move || server.shutdown(AMPLE));
        for _ in 0..100 {
            assert!(client.io.next().expect("an answer").0.status().is_success());
        }
        assert!(client.io.next().is_none(), "then the connection ends");
        assert_eq!(ending.join().expect("no panic"), Shutdown::Complete);
    }
}

#[test]
fn a_shutdown_ends_at_its_time_limit() {
    let server = serve(emulated(1));
    let mut client = Client::connect(server.addresses()[0]);
    for _ in 0..100 {
        client.io.submit(
            rw(nvm::READ, 1, 0, 256),
            Transfer::FromController(vec![0; 256 * BLOCK], 256 * BLOCK as u32),
        );
    }
    until(|| server.stats().ssds[0].in_flight > 0);
    assert_eq!(server.shutdown(Duration::ZERO), Shutdown::CutShort);
    while client.io.next().is_some() {}
}

#[test]
fn the_scheduler_changes_under_load_and_nothing_is_lost() {
    let server = serve(emulated(1000));
    let mut client = Client::connect(server.addresses()[0]);
    for round in 0..20 {
        for index in 0..100 {
            let transfer = Transfer::FromController(vec![0; 4 * BLOCK], 4 * BLOCK as u32);
            client.io.submit(rw(nvm::READ, 1, index * 4, 4), transfer);
        }
        let kind = if round % 2 == 0 { Scheduler::NONE } else { Scheduler::LEVEL };
        server.set_policy(0, kind).expect("both schedulers can be had");
        for _ in 0..100 {
            assert!(client.io.next().expect("an answer").0.status().is_success());
        }
    }
    let stats = settled(&server);
    let ssd = &stats.ssds[0];
    assert_eq!((ssd.queued, ssd.in_flight), (0, 0));
    assert_eq!((ssd.tenants[0].counters.reads.ios, ssd.late.count()), (2000, 2000));
    assert!(ssd.view.is_some(), "Gimbal is in charge, and measures");
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing_running() {
    let taken = serve(DeviceKind::Null { size: Bytes::gib(1) });
    let again = simple(DeviceKind::Null { size: Bytes::gib(1) }, taken.addresses()[0]);
    assert!(matches!(Server::start(again), Err(StartError::Listen { .. })));
    let mut wrong = simple(DeviceKind::Null { size: Bytes::gib(1) }, any_port());
    wrong.subsystems[0].namespaces[0].device = "other".to_owned();
    assert!(matches!(Server::start(wrong), Err(StartError::Config(_))));
    let absent = DeviceKind::File { path: "/nonexistent".into(), size: None, create: true, direct: true };
    let error = Server::start(simple(absent, any_port())).err().expect("there is no such file");
    let error = error.to_string();
    assert!(
        error.contains("/nonexistent: does not exist; to create it") && error.contains("size"),
        "{error}"
    );
}
