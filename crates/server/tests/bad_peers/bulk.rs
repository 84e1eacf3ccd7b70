//! Hosts that do something else in the middle of a large write, whose data goes straight to where it belongs.

use crate::common::{
    BLOCK, Client, HOST, Options, any_port, backends, pattern, rw, simple, start, threads, until,
};
use crate::log::{about, assert_logged_once, capture};
use crate::raw::Raw;
use crate::{OTHER, null_with};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sgl, Sqe, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{CapsuleCmd, Digests, H2cData};
use server::ServerHandle;
use server::config::{Config, DeviceKind, EmulatedConfig, Limits, Speed};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use units::{Bytes, Nanos};

/// A large write, and its length.
const BLOCKS: usize = 64;
const LENGTH: u32 = (BLOCKS * BLOCK) as u32;

fn write(cid: u16, lba: u64) -> Sqe {
    rw(nvm::WRITE, 1, lba, BLOCKS).with_cid(cid).with_sgl(Sgl::Transport { length: LENGTH })
}

/// A generator of numbers below a limit.
fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |limit| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as usize % limit
    }
}

/// The target on both backends: with the connection of the host that is not idle on the SSD's thread, and on another one.
fn everywhere(device: &DeviceKind) -> Vec<ServerHandle> {
    capture();
    let of = |backend, threads| {
        start(Config { backend, threads: Some(threads), ..simple(device.clone(), any_port()) })
    };
    backends().flat_map(|backend| [of(backend, threads()), of(backend, 2)]).collect()
}

/// The queues of a host that is idle, and of one that is not: of two threads each has one. Each connection has an address of its own, as there
/// are many and log lines are told apart by it.
fn hosts(server: &ServerHandle, digests: Digests) -> ((Raw, Raw), (Raw, Raw)) {
    static CONNECTIONS: AtomicU16 = AtomicU16::new(0);
    let greeted = || {
        let [high, low] = CONNECTIONS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        Raw::greeted_from(Ipv4Addr::new(127, 77, high, low), server.addresses()[0], digests)
    };
    let controller = || Raw::controller_of([greeted(), greeted()], HOST, 128);
    (controller(), controller())
}

fn no_memory_is_held(server: &ServerHandle) {
    until(|| {
        let stats = server.stats();
        let of_threads = stats.threads.iter().map(|thread| thread.memory);
        stats.ssds.iter().map(|ssd| ssd.memory).chain(of_threads).all(|memory| memory == Bytes::ZERO)
    });
}

/// The model: every write reads back, whatever pieces its data came in, and between which other commands.
#[test]
fn large_writes_in_any_pieces_among_small_ones_read_back() {
    let speed = Speed::from_thousandths(100_000).expect("above zero");
    let device = DeviceKind::Emulated(EmulatedConfig { speed, ..EmulatedConfig::new(Bytes::gib(1)) });
    for (number, server) in everywhere(&device).into_iter().enumerate() {
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            let mut below = random(number as u64);
            let (_idle, (_admin, mut io)) = hosts(&server, digests);
            for round in 0..4u64 {
                let mut stream = Vec::new();
                for cid in 0..4u16 {
                    io.command(write(cid, u64::from(cid) * 64), &[]);
                }
                let tags: Vec<(u16, u16)> = (0..4).map(|cid| (cid, io.asked())).collect();
                let mut sent = [0u32; 4];
                let mut small = 100u16;
                while sent.iter().any(|sent| *sent < LENGTH) {
                    if below(4) == 0 && small < 108 {
                        let sgl = Sgl::InCapsule { offset: 0, length: BLOCK as u32 };
                        let lba = 1000 + u64::from(small);
                        let sqe = rw(nvm::WRITE, 1, lba, 1).with_cid(small).with_sgl(sgl);
                        stream.extend(io.pdu(CapsuleCmd::new(sqe), 0, &pattern(lba + round, BLOCK)));
                        small += 1;
                    }
                    let which = below(4);
                    let left = LENGTH - sent[which];
                    if left == 0 {
                        continue;
                    }
                    let length = left.min(4 * (1 + below(LENGTH as usize / 4)) as u32);
                    let (cid, tag) = tags[which];
                    let data = pattern(u64::from(cid) + round, LENGTH as usize);
                    let data = &data[sent[which] as usize..][..length as usize];
                    let flags = if length == left { FLAG_LAST } else { 0 };
                    stream.extend(io.pdu(H2cData::new(cid, tag, sent[which], length), flags, data));
                    sent[which] += length;
                }
                let mut rest = &stream[..];
                while !rest.is_empty() {
                    let most = [30, 5000, 100_000][below(3)];
                    let (piece, later) = rest.split_at(rest.len().min(1 + below(most)));
                    io.send(piece);
                    rest = later;
                }
                for _ in 0..4 + small - 100 {
                    assert_eq!(io.response().status(), Status::SUCCESS);
                }
                let mut reader =
                    Client::with(server.addresses()[0], &Options { host: OTHER, ..Options::default() });
                for cid in 0..4u64 {
                    let read = reader.read(1, cid * 64, BLOCKS).expect("readable");
                    assert!(
                        read == pattern(cid + round, LENGTH as usize),
                        "{number}, {round}: {cid} differs"
                    );
                }
                for lba in 1100..1000 + u64::from(small) {
                    assert!(
                        reader.read(1, lba, 1).expect("readable") == pattern(lba + round, BLOCK),
                        "{lba}"
                    );
                }
            }
        }
        no_memory_is_held(&server);
    }
}

#[test]
fn a_reset_in_the_middle_of_a_large_write_frees_its_memory() {
    for server in everywhere(&DeviceKind::Null { size: Bytes::gib(1) }) {
        for sent in [0, 24, 5000, 100_000] {
            let (_idle, (_admin, mut io)) = hosts(&server, Digests::default());
            io.command(write(1, 0), &[]);
            io.command(write(2, 64), &[]);
            let tag = io.asked();
            io.asked();
            let data = io.pdu(H2cData::new(1, tag, 0, LENGTH), FLAG_LAST, &pattern(1, LENGTH as usize));
            io.send(&data[..sent]);
            if sent == 5000 {
                drop(io);
            } else {
                io.reset();
            }
            no_memory_is_held(&server);
        }
    }
}

#[test]
fn a_large_write_that_stops_in_its_middle_is_closed_in_time() {
    let limits = Limits { stall_timeout: Nanos::millis(300), ..Limits::default() };
    let server = null_with(limits);
    for sent in [24, 20_000, 200_000] {
        let (_idle, (_admin, mut io)) = hosts(&server, Digests::default());
        io.command(write(1, 0), &[]);
        let tag = io.asked();
        let data = io.pdu(H2cData::new(1, tag, 0, LENGTH), FLAG_LAST, &pattern(1, LENGTH as usize));
        io.send(&data[..sent]);
        assert!(io.is_closed());
        assert_logged_once(
            io.local(),
            "neither read its replies nor sent its data within limits.stall_timeout",
        );
        no_memory_is_held(&server);
    }
}

#[test]
fn an_abort_in_the_middle_of_a_large_write_is_answered_after_its_data() {
    for server in everywhere(&DeviceKind::Null { size: Bytes::gib(1) }) {
        for digests in [Digests::default(), Digests { header: true, data: true }] {
            let (_idle, (mut admin, mut io)) = hosts(&server, digests);
            io.command(write(1, 0), &[]);
            let tag = io.asked();
            let data = io.pdu(H2cData::new(1, tag, 0, LENGTH), FLAG_LAST, &pattern(1, LENGTH as usize));
            io.send(&data[..50_000]);
            let abort = Sqe::new(admin::ABORT).with_cid(9).with_cdw10_15([1 | 1 << 16, 0, 0, 0, 0, 0]);
            assert_eq!(admin.execute(abort).status(), Status::SUCCESS);
            io.send(&data[50_000..]);
            assert_eq!(io.response().status(), Status::ABORT_REQUESTED);
            io.command(write(2, 0), &[]);
            let tag = io.asked();
            let data = io.pdu(H2cData::new(2, tag, 0, LENGTH), FLAG_LAST, &pattern(1, LENGTH as usize));
            io.send(&data);
            assert_eq!(io.response().status(), Status::SUCCESS, "the connection goes on");
            assert!(about(io.local()).iter().all(|line| !line.contains("violat")));
            no_memory_is_held(&server);
        }
    }
}

#[test]
fn corrupt_data_of_a_large_write_is_found_and_the_connection_goes_on() {
    for server in everywhere(&DeviceKind::Null { size: Bytes::gib(1) }) {
        let digests = Digests { header: true, data: true };
        let (_idle, (_admin, mut io)) = hosts(&server, digests);
        for corrupt in [None, Some(28), Some(5000), Some(LENGTH as usize + 27), Some(LENGTH as usize + 29)] {
            io.command(write(1, 0), &[]);
            let tag = io.asked();
            let mut data = io.pdu(H2cData::new(1, tag, 0, LENGTH), FLAG_LAST, &pattern(1, LENGTH as usize));
            if let Some(at) = corrupt {
                data[at] ^= 1;
            }
            data.chunks(70_000).for_each(|piece| io.send(piece));
            let expected = corrupt.map_or(Status::SUCCESS, |_| Status::TRANSIENT_TRANSPORT_ERROR);
            assert_eq!(io.response().status(), expected, "{corrupt:?}");
        }
        no_memory_is_held(&server);
    }
}

#[test]
fn a_violation_behind_large_data_ends_the_connection() {
    for server in everywhere(&DeviceKind::Null { size: Bytes::gib(1) }) {
        let (_idle, (_admin, mut io)) = hosts(&server, Digests::default());
        io.command(write(1, 0), &[]);
        let tag = io.asked();
        let half = LENGTH / 2;
        let data = pattern(1, half as usize);
        let first = io.pdu(H2cData::new(1, tag, 0, half), 0, &data);
        let again = io.pdu(H2cData::new(1, tag, 0, half), FLAG_LAST, &data);
        io.send(&first);
        io.send(&again);
        assert_eq!(io.terminated().0, 2, "a sequence error");
        no_memory_is_held(&server);
    }
}
