//! The initiator of this project as the host of a target, with its keys. It connects once: a refusal is not tried again.

use super::{BLOCK, pattern};
use host::{Backoff, ConnectFailure, ControllerOptions, Fault, Keys, Nqn, Operation, Request, RetryPolicy};
use nvme::spec::connect::HostId;
use server::config::DEFAULT_NQN;
use std::net::SocketAddr;
use units::{Bytes, Lba, Nanos};

/// The options of `host`, whose identifier is the end of its name.
pub fn options(address: SocketAddr, host: &str, keys: Keys) -> ControllerOptions {
    let name = |text: &str| Nqn::new(text).expect("a name");
    let id: [u8; 16] = host.as_bytes()[host.len() - 16..].try_into().expect("16 bytes");
    ControllerOptions {
        retry: RetryPolicy::Never,
        backoff: Backoff::NEVER_RETRY,
        connect_timeout: Nanos::secs(60),
        keys,
        ..ControllerOptions::new(address, name(DEFAULT_NQN), name(host), HostId(id))
    }
}

/// The fault that ends a try to connect.
pub fn fault(address: SocketAddr, host: &str, keys: Keys) -> Fault {
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(8)).expect("a thread");
    match client.connect(options(address, host, keys)).wait() {
        Err(ConnectFailure::Controller(error)) => error.fault.clone(),
        other => panic!("it got in: {other:?}"),
    }
}

/// A controller with these IO queues; more than one have digests.
pub fn connect(
    address: SocketAddr,
    host: &str,
    keys: Keys,
    io_queues: u16,
) -> (host::Client, host::Controller) {
    let client = host::Client::start(host::Backend::Auto, Bytes::mib(64)).expect("a thread");
    let options = ControllerOptions {
        io_queues,
        data_digest: io_queues > 1,
        header_digest: io_queues > 1,
        ..options(address, host, keys)
    };
    let controller = client.connect(options).wait().unwrap_or_else(|error| panic!("{error}"));
    (client, controller)
}

/// Writes and reads IOs of many sizes, many at once.
pub fn exchange_data(client: &host::Client, controller: &host::Controller) {
    let sizes = [1, 2, 3, 8, 17, 32, 64, 256];
    let request = |operation, at: usize, buffer| {
        Request::new(0, 1, operation, Lba((at * 256) as u64), sizes[at] as u32).with_buffer(buffer)
    };
    let writes: Vec<_> = (0..sizes.len())
        .map(|at| {
            let mut buffer = client.buffer(sizes[at] * BLOCK).expect("memory");
            buffer.copy_from_slice(&pattern(at as u64, sizes[at] * BLOCK));
            controller.submit(request(Operation::Write { durable: false }, at, buffer))
        })
        .collect();
    writes.into_iter().for_each(|write| write.wait().result.map(drop).expect("the write is done"));
    let reads: Vec<_> = (0..sizes.len())
        .map(|at| {
            controller.submit(request(Operation::Read, at, client.buffer(sizes[at] * BLOCK).expect("memory")))
        })
        .collect();
    for (at, read) in reads.into_iter().enumerate() {
        let outcome = read.wait();
        outcome.result.as_ref().expect("the read is done");
        assert!(
            outcome.buffer.expect("its data")[..] == pattern(at as u64, sizes[at] * BLOCK),
            "{} blocks",
            sizes[at]
        );
    }
}

/// Connects, writes and reads.
pub fn use_target(address: SocketAddr, host: &str, keys: Keys, io_queues: u16) {
    let (client, controller) = connect(address, host, keys, io_queues);
    exchange_data(&client, &controller);
}
