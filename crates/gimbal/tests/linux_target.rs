//! Our initiator uses the kernel's own target: the other direction of the interoperability that `linux_host` tests.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod linux;

use auth::{Hash, Secret};
use host::{
    Backend, Backoff, Client, Controller, ControllerOptions, Derivation, DhKey, HostId, HostKeys, Keys, Nqn,
    Operation, Request, RetryPolicy, TlsKey, TlsOptions, TransportType, discover,
};
use linux::Kernel::{Linux6_1, Linux6_12};
use linux::{Guest, KERNEL_NQN, Kernel, Walk};
use std::net::SocketAddr;
use units::{Bytes, Lba, Nanos};

/// Much longer than an emulated kernel on a busy machine needs to respond.
const PATIENCE: Nanos = Nanos::secs(120);
/// The block size of nvmet.sh's disks.
const BLOCK: usize = 4096;
/// A length that needs several PDUs and no in-capsule data.
const LARGE: u32 = 64;
const HOST_ID: HostId = HostId(*b"gimbal test host");

fn host_nqn() -> Nqn {
    Nqn::new("nqn.2024-06.io.gimbal:initiator").expect("a name")
}

fn kernel_target(with: impl FnOnce(Walk) -> Walk, kernel: Kernel) -> (Guest, SocketAddr) {
    let mut guest = with(Walk::kernel_target(kernel)).start();
    let address = guest.wait_for("forward ").parse().expect("an address");
    guest.wait_for("target ready");
    (guest, address)
}

fn options(address: SocketAddr) -> ControllerOptions {
    let subsystem = Nqn::new(KERNEL_NQN).expect("a name");
    let mut options = ControllerOptions::new(address, subsystem, host_nqn(), HOST_ID);
    options.io_queues = 2;
    options.keep_alive = PATIENCE;
    options.connect_timeout = PATIENCE;
    options.io_timeout = PATIENCE;
    options
}

/// Bytes that differ between blocks and rounds.
fn pattern(seed: u32, blocks: u32) -> Vec<u8> {
    (0..blocks * BLOCK as u32 / 4).flat_map(|word| (seed << 20 ^ word).to_le_bytes()).collect()
}

fn do_blocks(controller: &Controller, operation: Operation, lba: u64, blocks: u32) {
    let outcome = controller.submit(Request::new(0, 1, operation, Lba(lba), blocks)).wait();
    assert_eq!(outcome.result, Ok(()), "{operation:?} of {blocks} blocks from {lba}");
}

/// Every operation of an initiator, with each combination of digests.
fn use_everything(kernel: Kernel) {
    let (guest, address) = kernel_target(|walk| walk, kernel);
    let found =
        discover(Backend::Auto, (TransportType::Tcp, address), (&host_nqn(), HOST_ID), Keys::default())
            .expect("it answers");
    assert!(found.iter().any(|found| found.subsystem.as_str() == KERNEL_NQN), "{found:?}");

    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("some backend is there");
    for (round, (header_digest, data_digest)) in
        (1..).zip([(false, false), (true, false), (false, true), (true, true)])
    {
        let options = ControllerOptions { header_digest, data_digest, ..options(address) };
        let controller = client.connect(options).wait().expect("the target is there");
        let namespaces = controller.namespaces();
        assert_eq!(namespaces.len(), 2);
        assert_eq!(namespaces[0].block_size, Bytes(BLOCK as u64));
        assert_eq!(namespaces[0].size(), Bytes::mib(64));

        for (lba, blocks) in [(0, 1), (8, 2), (100, LARGE)] {
            let written = pattern(round, blocks);
            controller.write_blocking(1, Lba(lba), &written).expect("the target obliges");
            let read = controller.read_blocking(1, Lba(lba), blocks).expect("the target obliges");
            assert!(read[..] == written, "{blocks} blocks from {lba} came back otherwise, in round {round}");
        }
        do_blocks(&controller, Operation::WriteZeroes { deallocate: false }, 100, 1);
        do_blocks(&controller, Operation::Deallocate, 101, 1);
        let read = controller.read_blocking(1, Lba(100), LARGE).expect("the target obliges");
        assert!(read[..2 * BLOCK].iter().all(|&byte| byte == 0), "zeroed and deallocated blocks");
        assert!(read[2 * BLOCK..] == pattern(round, LARGE)[2 * BLOCK..], "the blocks behind are untouched");
        assert_eq!(controller.flush(1).wait().result, Ok(()));
        controller.close().wait();
    }
    guest.cut_off();
}

#[test]
fn the_initiator_uses_linux_6_1_as_a_target() {
    use_everything(Linux6_1);
}

#[test]
fn the_initiator_uses_linux_6_12_as_a_target() {
    use_everything(Linux6_12);
}

#[test]
fn the_initiator_continues_after_a_kernel_target_disconnected_it() {
    const WRITES_BEFORE: u64 = 50;
    const WRITES: u64 = 400;
    let (mut guest, address) = kernel_target(|walk| walk.variable("NVMET_OUTAGE", WRITES_BEFORE), Linux6_12);
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("some backend is there");
    let mut options = options(address);
    options.retry = RetryPolicy::Again { times: u32::MAX };
    options.backoff.tries_max = None;
    let controller = client.connect(options).wait().expect("the target is there");

    let block = |io: u64| pattern(io as u32, 1);
    let write = |io: u64| controller.write_blocking(1, Lba(io), &block(io)).expect("it survives");
    (0..WRITES_BEFORE).for_each(write);
    // From here on the target may disconnect us at any write.
    (WRITES_BEFORE..WRITES).for_each(write);
    guest.wait_for("hosts let in");
    write(WRITES);
    for io in 0..=WRITES {
        let read = controller.read_blocking(1, Lba(io), 1).expect("the target is back");
        assert!(read[..] == block(io), "block {io} came back otherwise");
    }
    controller.close().wait();
    guest.cut_off();
}

/// The initiator encrypts its connections to the kernel's own target, whose keys nvme-cli 2.13 derives in its own way.
#[test]
fn the_initiator_speaks_tls_with_linux_6_12() {
    let key = TlsKey::new(Some(Hash::Sha256), Secret::new(vec![7; 32])).expect("its length");
    let (guest, address) = kernel_target(
        |walk| {
            walk.variable("NVMET_TLS_HOST", host_nqn().as_str()).variable("NVMET_TLS_KEY", &*key.to_text())
        },
        Linux6_12,
    );
    let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("some backend is there");
    let with = |key: Option<&TlsKey>| {
        let tls = key.map(|key| TlsOptions { key: key.clone(), derivation: Derivation::OldLibnvme });
        let keys = Keys { tls, ..Keys::default() };
        ControllerOptions { keys, backoff: Backoff::NEVER_RETRY, io_queues: 2, ..options(address) }
    };
    let controller = client.connect(with(Some(&key))).wait().unwrap_or_else(|error| panic!("{error}"));
    for blocks in [1, 3, 32] {
        controller.write_blocking(1, Lba(0), &pattern(blocks, blocks)).expect("the target obliges");
        let read = controller.read_blocking(1, Lba(0), blocks).expect("the target obliges");
        assert!(read[..] == pattern(blocks, blocks));
    }
    controller.close().wait();
    let wrong = TlsKey::new(Some(Hash::Sha256), Secret::new(vec![8; 32])).expect("its length");
    for key in [None, Some(&wrong)] {
        assert!(client.connect(with(key)).wait().is_err(), "it got in");
    }
    guest.cut_off();
}

/// The initiator proves who it is to the kernel's own target, and has the target prove itself.
#[test]
fn the_initiator_and_linux_6_12_prove_themselves_to_each_other() {
    let key = |seed: u8, hash: Hash| {
        DhKey::new(Some(hash), Secret::new(vec![seed; hash.length()])).expect("its length")
    };
    let (own, of_target) = (key(1, Hash::Sha256), key(2, Hash::Sha512));
    for group in ["null", "ffdhe2048", "ffdhe3072"] {
        let (guest, address) = kernel_target(
            |walk| {
                walk.variable("NVMET_HOST", host_nqn().as_str())
                    .variable("NVMET_KEY", &*own.to_text())
                    .variable("NVMET_CTRL_KEY", &*of_target.to_text())
                    .variable("NVMET_GROUP", group)
            },
            Linux6_12,
        );
        let client = Client::start(Backend::Auto, Bytes::mib(16)).expect("some backend is there");
        let with = |dhchap| ControllerOptions {
            keys: Keys { dhchap, ..Keys::default() },
            backoff: Backoff::NEVER_RETRY,
            ..options(address)
        };
        for controller in [None, Some(of_target.clone())] {
            let keys = Some(HostKeys { host: own.clone(), controller });
            let controller =
                client.connect(with(keys)).wait().unwrap_or_else(|error| panic!("{group}: {error}"));
            controller.write_blocking(1, Lba(0), &pattern(7, 1)).expect("the target obliges");
            let read = controller.read_blocking(1, Lba(0), 1).expect("the target obliges");
            assert!(read[..] == pattern(7, 1));
            controller.close().wait();
        }
        let wrong = [
            None,
            Some(HostKeys { host: of_target.clone(), controller: None }),
            Some(HostKeys { host: own.clone(), controller: Some(own.clone()) }),
        ];
        for keys in wrong {
            let refused = client.connect(with(keys)).wait();
            assert!(refused.is_err(), "{group}: a wrong key got in");
        }
        guest.cut_off();
    }
}
