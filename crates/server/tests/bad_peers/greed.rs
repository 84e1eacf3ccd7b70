//! Hosts that ask for more than they may have, or do not receive what they asked for.

use crate::common::{BLOCK, Client, HOST, Options, pattern, rw, settled, until};
use crate::log::{self, about, assert_logged_once};
use crate::raw::{Raw, plain};
use crate::{OTHER, null_with, slowed_with};
use nvme::spec::connect::{CNTLID_DYNAMIC, Culprit};
use nvme::spec::opcode::{admin, nvm};
use nvme::spec::{Sgl, Sqe, Status, feature};
use nvme::tcp::Transfer;
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::{Digests, FatalStatus, H2cData};
use server::config::Limits;
use units::{Bytes, Nanos};

fn transport(length: usize) -> Sgl {
    Sgl::Transport { length: length as u32 }
}

#[test]
fn a_queue_deeper_than_the_limit_is_an_invalid_parameter() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    for entries in [65_536, 1025] {
        let mut raw = Raw::greeted(address, Digests::default());
        let connect = raw.connect_pdu(0, entries, CNTLID_DYNAMIC, HOST, 0);
        raw.send(&connect);
        let cqe = raw.response();
        assert_eq!(cqe.status(), Status::CONNECT_INVALID_PARAMETERS);
        assert_eq!(Culprit::from_dw0(cqe.dw0()), Culprit::SQSIZE, "it is told which");
        assert!(raw.is_closed());
        assert_logged_once(raw.local(), "Connect refused");
    }
    let (_admin, io) = Raw::controller(address, HOST, Digests::default(), 1024);
    assert!(about(io.local()).is_empty(), "the limit itself is granted");
}

#[test]
fn more_queues_than_the_limit_are_not_granted_and_cannot_connect() {
    let server = null_with(Limits { io_queues: 2, ..Limits::default() });
    let address = server.addresses()[0];
    let mut admin = Raw::greeted(address, Digests::default());
    let controller_id = admin.connect(0, 32, CNTLID_DYNAMIC, HOST, 0).dw0() as u16;
    assert!(admin.enable().status().is_success());
    let asked = 0xffff_u32 - 1;
    let dwords = [u32::from(feature::NUMBER_OF_QUEUES), asked << 16 | asked, 0, 0, 0, 0];
    let granted = admin.execute(Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords));
    assert_eq!((granted.status(), granted.dw0()), (Status::SUCCESS, 1 << 16 | 1), "two of each, 0-based");
    for (queue_id, expected) in [(2, Status::SUCCESS), (3, Status::CONNECT_INVALID_PARAMETERS)] {
        let mut raw = Raw::greeted(address, Digests::default());
        let cqe = raw.connect(queue_id, 128, controller_id, HOST, 0);
        assert_eq!(cqe.status(), expected, "queue {queue_id}");
        if !expected.is_success() {
            assert_eq!(Culprit::from_dw0(cqe.dw0()), Culprit::QUEUE_ID);
            assert!(raw.is_closed());
            assert_logged_once(raw.local(), "Connect refused");
        }
    }
}

/// CNTLID of Identify Controller.
fn controller_of(admin: &mut Raw) -> u16 {
    let identify = Sqe::new(admin::IDENTIFY).with_cdw10_15([1, 0, 0, 0, 0, 0]).with_cid(1);
    admin.command(identify.with_sgl(transport(4096)), &[]);
    let pdu = admin.next_pdu().expect("the data");
    u16::from_le_bytes(pdu[24 + 78..24 + 80].try_into().expect("two bytes"))
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    // The device is so slow that no command is answered meanwhile.
    let server = slowed_with(1, Limits::default());
    let (_admin, mut io) = Raw::controller(server.addresses()[0], HOST, Digests::default(), 16);
    for cid in 0..17 {
        io.command(rw(nvm::READ, 1, 0, 256).with_cid(cid).with_sgl(transport(256 * BLOCK)), &[]);
    }
    assert_eq!(io.terminated(), (FatalStatus::SequenceError as u16, 0));
    assert_logged_once(io.local(), "PDU out of sequence");
}

#[test]
fn a_host_that_ignores_its_credits_waits_in_its_own_queue() {
    let server = slowed_with(20, Limits::default());
    let address = server.addresses()[0];
    let mut greedy = Client::connect(address);
    let dwords = [u32::from(feature::CREDITS), feature::CREDITS_ENABLED, 0, 0, 0, 0];
    let (agreed, _) =
        greedy.admin.command(Sqe::new(admin::SET_FEATURES).with_cdw10_15(dwords), Transfer::None);
    assert!(agreed.status().is_success());
    for index in 0..120 {
        let transfer = Transfer::FromController(vec![0; 32 * BLOCK], 32 * BLOCK as u32);
        greedy.io.submit(rw(nvm::READ, 1, index * 32, 32), transfer);
    }
    let mut modest = Client::with(address, &Options { host: OTHER, ..Options::default() });
    // 120 IOs were submitted earlier. With fair turns, the other host's IOs are done long before these.
    for _ in 0..8 {
        assert!(modest.read(1, 0, 1).is_ok());
    }
    let done_at = |host: &str| {
        let ssd = &server.stats().ssds[0];
        ssd.tenants
            .iter()
            .find(|tenant| tenant.tenant.host() == Some(host))
            .map_or(0, |tenant| tenant.counters.reads.ios)
    };
    let ahead = done_at(HOST);
    assert_eq!(done_at(OTHER), 8);
    assert!(ahead < 120, "all {ahead} IOs of the greedy host went first");
    for _ in 0..120 {
        assert!(greedy.io.next().expect("every command is answered").0.status().is_success());
    }
}

#[test]
fn an_abort_in_the_middle_of_a_transfer_frees_its_memory() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    for is_reset in [false, true] {
        let (admin, mut io) = plain(address);
        let local = io.local();
        let length = 256 * BLOCK;
        for cid in 0..8 {
            io.command(rw(nvm::WRITE, 1, 0, 256).with_cid(cid).with_sgl(transport(length)), &[]);
        }
        let ttag = io.asked();
        let half = io.pdu(H2cData::new(0, ttag, 0, length as u32 / 2), 0, &pattern(1, length / 2));
        io.send(&half);
        assert!(settled(&server).ssds[0].memory >= Bytes::mib(1), "memory for the data is held");
        if is_reset {
            io.reset()
        } else {
            drop(io)
        }
        until(|| server.stats().ssds[0].memory == Bytes::ZERO);
        until(|| !about(local).is_empty());
        assert_logged_once(local, "connection ended: ");
        drop(admin);
        until(|| server.stats().ssds[0].connections == 0);
    }
}

#[test]
fn a_host_with_many_queues_holds_no_more_memory_than_a_host_may() {
    let memory_per_host = Some(Bytes::mib(4));
    let server = null_with(Limits { memory_per_host, ..patient() });
    let address = server.addresses()[0];
    let (mut admin, first) = plain(address);
    let controller_id = controller_of(&mut admin);
    let mut queues = vec![first];
    for queue_id in 2..=16 {
        let mut raw = Raw::greeted(address, Digests::default());
        assert!(raw.connect(queue_id, 128, controller_id, HOST, 0).status().is_success());
        queues.push(raw);
    }
    // 64 writes of 1 MiB whose data is requested and never sent, and 64 reads of 1 MiB that are never received.
    for queue in &mut queues {
        for cid in 0..4 {
            queue.command(rw(nvm::WRITE, 1, 0, 256).with_cid(cid).with_sgl(transport(256 * BLOCK)), &[]);
            queue.command(rw(nvm::READ, 1, 0, 256).with_cid(100 + cid).with_sgl(transport(256 * BLOCK)), &[]);
        }
    }
    let mut other = Client::with(address, &Options { host: OTHER, ..Options::default() });
    for _ in 0..100 {
        assert_eq!(other.write(1, 0, &pattern(1, 256 * BLOCK)), Status::SUCCESS);
        let held = settled(&server).ssds[0].memory;
        assert!(held <= Bytes::mib(5), "{held} are held");
    }
    // The requested data is sent: in the end every command is answered.
    let mut open = queues.len() * 8;
    let mut threads = Vec::new();
    for mut queue in queues {
        threads.push(std::thread::spawn(move || {
            let mut answered = 0;
            while answered < 8 {
                let pdu = queue.next_pdu().expect("the target goes on");
                if pdu[0] == crate::raw::R2T {
                    let cid = u16::from_le_bytes(pdu[8..10].try_into().expect("two bytes"));
                    let ttag = u16::from_le_bytes(pdu[10..12].try_into().expect("two bytes"));
                    let length = 256 * BLOCK;
                    let data =
                        queue.pdu(H2cData::new(cid, ttag, 0, length as u32), FLAG_LAST, &vec![1; length]);
                    queue.send(&data);
                } else {
                    answered += 1;
                }
            }
            answered
        }));
    }
    for thread in threads {
        open -= thread.join().expect("all were answered");
    }
    assert_eq!(open, 0);
}

#[test]
fn a_host_that_never_reads_is_closed_although_it_sends_keep_alives() {
    let server = null_with(Limits { stall_timeout: Nanos::millis(300), ..Limits::default() });
    let address = server.addresses()[0];
    let (mut admin, mut io) = plain(address);
    for cid in 0..100 {
        io.command(rw(nvm::READ, 1, 0, 256).with_cid(cid).with_sgl(transport(256 * BLOCK)), &[]);
    }
    until(|| {
        assert!(admin.execute(Sqe::new(admin::KEEP_ALIVE)).status().is_success());
        server.stats().ssds[0].connections == 1
    });
    assert_logged_once(io.local(), "neither read its replies nor sent its data within limits.stall_timeout");
    until(|| server.stats().ssds[0].memory == Bytes::ZERO);
}

/// Announces `count` writes of 1 MiB and never sends their data.
fn announce(io: &mut Raw, count: u16) {
    for cid in 0..count {
        io.command(rw(nvm::WRITE, 1, 0, 256).with_cid(cid).with_sgl(transport(256 * BLOCK)), &[]);
    }
}

/// Sends a Flush, and discards the PDUs before its answer (R2Ts). The connection makes progress.
fn flush(io: &mut Raw) {
    io.command(Sqe::new(nvm::FLUSH).with_nsid(1).with_cid(1000).with_sgl(transport(0)), &[]);
    while io.next_pdu().expect("an answer")[0] != crate::raw::CAPSULE_RESP {}
}

/// Long time-outs: no connection is dropped, only memory matters.
fn patient() -> Limits {
    let for_ever = Nanos::secs(3600);
    Limits {
        memory: Bytes::mib(64),
        stall_timeout: for_ever,
        transfer_timeout: for_ever,
        ..Limits::default()
    }
}

const THIRD: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000003";

#[test]
fn writes_without_their_data_leave_memory_for_the_next_host() {
    let server = null_with(patient());
    let address = server.addresses()[0];
    let mut greedy = Vec::new();
    for host in [HOST, OTHER] {
        for _ in 0..4 {
            let (admin, mut io) = Raw::controller(address, host, Digests::default(), 128);
            announce(&mut io, 100);
            flush(&mut io);
            greedy.push((admin, io));
        }
    }
    let held = settled(&server).ssds[0].memory;
    println!("two host names at one address hold {held} of 28 MiB for transfers");
    assert!(held <= Bytes::mib(14), "{held}: more than half of the transfers' memory");
    // An unknown host at the same address: the worst case.
    let options = Options { host: THIRD, in_capsule_max: 0, ..Options::default() };
    let mut third = Client::with(address, &options);
    for round in 0..20 {
        assert_eq!(third.write(1, 0, &pattern(round, 16 * BLOCK)), Status::SUCCESS, "64 KiB, at once");
        greedy.iter_mut().for_each(|(_, io)| flush(io));
    }
}

#[test]
fn a_named_host_has_memory_that_no_number_of_others_can_take() {
    log::capture();
    let device = server::config::DeviceKind::Null { size: Bytes::gib(1) };
    let config = crate::common::simple(device, crate::common::any_port());
    let tenants = vec![server::config::TenantConfig::equal(THIRD)];
    let server = crate::common::start(server::config::Config { limits: patient(), tenants, ..config });
    let address = server.addresses()[0];
    let mut greedy = Vec::new();
    for source in 2..18 {
        let names = ["a", "b"].map(|name| format!("nqn.2025-01.io.example:stranger-{source}-0000-{name}"));
        for name in names {
            let mut admin =
                Raw::greeted_from(std::net::Ipv4Addr::new(127, 0, 9, source), address, Digests::default());
            let controller_id = admin.connect(0, 32, CNTLID_DYNAMIC, &name, 0).dw0() as u16;
            assert!(admin.enable().status().is_success());
            let mut io =
                Raw::greeted_from(std::net::Ipv4Addr::new(127, 0, 9, source), address, Digests::default());
            assert!(io.connect(1, 128, controller_id, &name, 0).status().is_success());
            announce(&mut io, 100);
            flush(&mut io);
            greedy.push((admin, io));
        }
    }
    let options = Options { host: THIRD, in_capsule_max: 0, ..Options::default() };
    let mut named = Client::with(address, &options);
    for round in 0..20 {
        assert_eq!(named.write(1, 0, &pattern(round, 256 * BLOCK)), Status::SUCCESS, "1 MiB, at once");
        assert_eq!(named.read(1, 0, 256).map(|data| data.len()), Ok(256 * BLOCK));
    }
}

#[test]
fn a_write_without_its_data_ends_its_connection_whatever_else_the_host_does() {
    let server = null_with(Limits { transfer_timeout: Nanos::millis(300), ..patient() });
    let (_admin, mut io) = plain(server.addresses()[0]);
    announce(&mut io, 1);
    io.asked();
    // Meanwhile flushes and complete writes are served.
    let mut ended = false;
    until(|| {
        io.command(Sqe::new(nvm::FLUSH).with_nsid(1).with_cid(1000).with_sgl(transport(0)), &[]);
        ended = ended || io.next_pdu().is_none();
        ended
    });
    assert_logged_once(
        io.local(),
        "the host has not sent the data of a write within limits.transfer_timeout",
    );
    until(|| server.stats().ssds[0].memory == Bytes::ZERO);
}

#[test]
fn corrupt_data_is_not_charged_for_ever() {
    const SPOILED: u16 = 64;
    let server = null_with(Limits { memory_per_connection: Bytes::mib(1), ..patient() });
    let digests = Digests { header: false, data: true };
    let (_admin, mut io) = Raw::controller(server.addresses()[0], HOST, digests, 128);
    let length = 64 * BLOCK;
    // The data of one write is never sent, so that one command is always outstanding.
    io.command(rw(nvm::WRITE, 1, 0, 1).with_cid(999).with_sgl(transport(BLOCK)), &[]);
    io.asked();
    for cid in 0..SPOILED {
        io.command(rw(nvm::WRITE, 1, 0, 64).with_cid(cid).with_sgl(transport(length)), &[]);
        let ttag = io.asked();
        let mut data = io.pdu(H2cData::new(cid, ttag, 0, length as u32), FLAG_LAST, &pattern(1, length));
        *data.last_mut().expect("a digest") ^= 1;
        io.send(&data);
        assert_eq!(io.response().status(), Status::TRANSIENT_TRANSPORT_ERROR);
    }
    assert!(settled(&server).ssds[0].memory <= Bytes::kib(8), "only the requested data is held");
}
