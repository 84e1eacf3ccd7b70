//! Limits on what one host takes from others: memory, connections, time.

mod common;

use common::*;
use nvme::spec::Status;
use nvme::spec::opcode::nvm;
use nvme::tcp::Transfer;
use server::config::{Config, DeviceKind, Limits};
use std::io::{Read, Write};
use std::net::TcpStream;
use units::{Bytes, Nanos};

fn null() -> DeviceKind {
    DeviceKind::Null { size: Bytes::gib(1) }
}

fn with_limits(limits: Limits) -> server::ServerHandle {
    start(Config { limits, ..simple(null(), any_port()) })
}

#[test]
fn a_host_that_never_reads_holds_only_its_memory_and_is_dropped() {
    for backend in backends() {
        let limits = Limits {
            memory: Bytes::mib(64),
            memory_per_connection: Bytes::mib(4),
            stall_timeout: Nanos::millis(300),
            ..Limits::default()
        };
        let server = start(Config { limits, backend, ..simple(null(), any_port()) });
        let address = server.addresses()[0];
        let mut deaf = Client::connect(address);
        for _ in 0..120 {
            let transfer = Transfer::FromController(vec![0; 256 * BLOCK], 256 * BLOCK as u32);
            deaf.io.submit(rw(nvm::READ, 1, 0, 256), transfer);
        }
        let mut other = Client::connect(address);
        // The host that never reads is dropped in the end. Until then it holds at most its memory, and the other host is served.
        until(|| {
            assert_eq!(other.write(1, 0, &pattern(1, 64 * BLOCK)), Status::SUCCESS);
            let ssd = &server.stats().ssds[0];
            assert!(ssd.memory <= Bytes::mib(5), "{} held", ssd.memory);
            ssd.connections == 3
        });
        until(|| server.stats().ssds[0].memory == Bytes::ZERO);
        assert_eq!(other.read(1, 0, 1), Ok(vec![0; BLOCK]));
    }
}

#[test]
fn writes_beyond_the_memory_wait_their_turn() {
    for backend in backends() {
        // The least that each thread must have.
        let memory = Bytes::mib(4 * u64::from(threads()));
        let limits = Limits { memory, memory_per_connection: Bytes::mib(1), ..Limits::default() };
        let server = start(Config { limits, backend, ..simple(null(), any_port()) });
        let address = server.addresses()[0];
        // Each host has its own thread, because the target waits for a host whose data it has requested.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| write_large_and_small(&mut Client::connect(address)));
            }
        });
        assert_eq!(settled(&server).ssds[0].memory, Bytes::ZERO);
    }
}

fn write_large_and_small(client: &mut Client) {
    for index in 0..100 {
        let (blocks, length) = if index % 2 == 0 { (1, BLOCK) } else { (128, 128 * BLOCK) };
        let transfer = Transfer::ToController(vec![1; length], length as u32);
        client.io.submit(rw(nvm::WRITE, 1, 0, blocks), transfer);
    }
    for _ in 0..100 {
        assert!(client.io.next().expect("an answer").0.status().is_success());
    }
}

#[test]
fn a_connect_beyond_the_limit_is_refused() {
    let limits = Limits { connections: 2, connections_per_address: Some(2), ..Limits::default() };
    let server = with_limits(limits);
    let address = server.addresses()[0];
    let client = Client::connect(address);
    let refused = Client::try_with(address, &Options::default()).err();
    assert_eq!(refused, Some(Status::CONNECT_CONTROLLER_BUSY), "worth another try later");
    drop(client);
    // When the target has noticed that two hosts are gone, others can connect.
    until(|| Client::try_with(address, &Options::default()).is_ok());
}

#[test]
fn a_silent_host_is_closed_in_time() {
    let server = with_limits(Limits { handshake_timeout: Nanos::millis(50), ..Limits::default() });
    let mut silent = TcpStream::connect(server.addresses()[0]).expect("it listens");
    assert_eq!(silent.read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(Client::connect(server.addresses()[0]).read(1, 0, 1).is_ok(), "those who speak are served");
}

#[test]
fn nonsense_ends_a_connection_and_nothing_else() {
    for backend in backends() {
        let server = start(Config { backend, ..simple(null(), any_port()) });
        let address = server.addresses()[0];
        let mut good = Client::connect(address);
        for seed in 0..50 {
            let mut stream = match seed % 3 {
                0 => TcpStream::connect(address).expect("it listens"),
                1 => Client::connect(address).io.into_stream(),
                _ => Client::connect(address).admin.into_stream(),
            };
            // The target may close the connection before everything is written.
            let _ = stream.write_all(&pattern(seed, 4096));
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
        }
        assert_eq!(good.read(1, 0, 1), Ok(vec![0; BLOCK]));
        until(|| server.stats().ssds[0].connections == 2);
    }
}
