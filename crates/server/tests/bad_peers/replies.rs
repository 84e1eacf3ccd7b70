//! Hosts that ask for log pages again and again and do not read them.

use crate::common::{BLOCK, Client, HOST, Options, until};
use crate::log::capture;
use crate::null_with;
use crate::raw::{CAPSULE_RESP, Raw};
use crate::{OTHER, common};
use nvme::spec::connect::CNTLID_DYNAMIC;
use nvme::spec::log::{COMMANDS_SUPPORTED, LogRequest};
use nvme::spec::opcode::admin;
use nvme::spec::{Nqn, Sgl, Sqe, Status};
use nvme::tcp::pdu::Digests;
use server::config::{Config, DeviceKind, Limits, TenantConfig};
use std::time::Instant;
use units::{ByteRate, Bytes, Nanos};

const PAGE: u32 = 1 << 20;
const KEEP_ALIVE_CID: u16 = 0xffff;

/// Get Log Page of 1 MiB. The page has 4 KiB; the rest is zeroes.
fn log_page(cid: u16) -> Sqe {
    let request = LogRequest::read(COMMANDS_SUPPORTED, 0, PAGE.into());
    request.to_sqe(0).with_cid(cid).with_sgl(Sgl::Transport { length: PAGE })
}

/// An enabled admin queue with this many entries.
fn admin_queue(address: std::net::SocketAddr, subsystem: &str, entries: u16) -> Raw {
    let mut admin = Raw::greeted(address, Digests::default());
    let connect = admin.connect_pdu_to(subsystem, 0, entries.into(), CNTLID_DYNAMIC, HOST, 0);
    admin.send(&connect);
    assert!(admin.response().status().is_success());
    assert!(admin.enable().status().is_success());
    admin
}

/// The number of data PDUs before the answer to a Keep Alive, which is answered at once.
fn pages_before_keep_alive(admin: &mut Raw) -> usize {
    let sqe = Sqe::new(admin::KEEP_ALIVE).with_cid(KEEP_ALIVE_CID).with_sgl(Sgl::Transport { length: 0 });
    admin.command(sqe, &[]);
    let mut pages = 0;
    loop {
        let pdu = admin.next_pdu().expect("the target goes on");
        if pdu[0] == CAPSULE_RESP {
            assert_eq!(&pdu[20..22], &KEEP_ALIVE_CID.to_le_bytes(), "a page that was read is no error");
            return pages;
        }
        assert_eq!(pdu.len(), 24 + PAGE as usize, "of the requested length");
        assert!(pdu[24 + 4096..].iter().all(|&byte| byte == 0), "and zeroes behind its end");
        assert!(pdu[24..24 + 4096].iter().any(|&byte| byte != 0));
        pages += 1;
    }
}

#[test]
fn log_pages_in_a_loop_are_paid_for() {
    capture();
    const RATE: u64 = 64 << 10;
    let limits = Limits { reply_rate: ByteRate(RATE), ..Limits::default() };
    let config = crate::common::simple(DeviceKind::Null { size: Bytes::gib(1) }, common::any_port());
    let server = common::start(Config { limits, tenants: vec![TenantConfig::equal(OTHER)], ..config });
    let address = server.addresses()[0];
    for subsystem in [server::config::DEFAULT_NQN, Nqn::DISCOVERY] {
        let start = Instant::now();
        let mut loops = admin_queue(address, subsystem, 1024);
        (0..1000).for_each(|cid| loops.command(log_page(cid), &[]));
        // Another host on the same thread is served at once, also its log pages.
        let mut other = Client::with(address, &Options { host: OTHER, ..Options::default() });
        for _ in 0..100 {
            assert_eq!(other.read(1, 0, 1), Ok(vec![0; BLOCK]));
        }
        assert_eq!(other.identify(1, 0).len(), 4096);
        let pages = pages_before_keep_alive(&mut loops);
        let due = 2 + (start.elapsed().as_secs() * RATE).div_ceil(PAGE.into()) as usize;
        println!("{pages} pages of 1 MiB were sent, of 1000 requested");
        assert!((1..=due).contains(&pages), "{pages} pages, {due} are paid for");
    }
}

#[test]
fn every_log_page_that_is_paid_for_is_sent() {
    let server = null_with(Limits { reply_rate: ByteRate(1 << 40), ..Limits::default() });
    for subsystem in [server::config::DEFAULT_NQN, Nqn::DISCOVERY] {
        let mut admin = admin_queue(server.addresses()[0], subsystem, 128);
        (0..100).for_each(|cid| admin.command(log_page(cid), &[]));
        let mut pages = 0;
        until(|| {
            pages += pages_before_keep_alive(&mut admin);
            pages == 100
        });
    }
}

#[test]
fn a_keep_alive_longer_than_the_limit_is_refused() {
    let server = null_with(Limits { keep_alive_max: Nanos::secs(60), ..Limits::default() });
    let address = server.addresses()[0];
    for (keep_alive, expected) in [
        (0, Status::SUCCESS),
        (60_000, Status::SUCCESS),
        (60_001, Status::KEEP_ALIVE_TIMEOUT_INVALID),
        (u32::MAX, Status::KEEP_ALIVE_TIMEOUT_INVALID),
    ] {
        for subsystem in [server::config::DEFAULT_NQN, Nqn::DISCOVERY] {
            let mut raw = Raw::greeted(address, Digests::default());
            let connect = raw.connect_pdu_to(subsystem, 0, 32, CNTLID_DYNAMIC, HOST, keep_alive);
            raw.send(&connect);
            assert_eq!(raw.response().status(), expected, "{keep_alive} ms, {subsystem}");
        }
    }
}
