//! Hosts that try to use reservations of others.

use crate::OTHER;
use crate::common::{BLOCK, HOST, rw};
use crate::log::assert_logged_once;
use crate::null_with;
use crate::raw::{Raw, plain};
use nvme::spec::connect::{CNTLID_DYNAMIC, Culprit, HostId};
use nvme::spec::opcode::nvm;
use nvme::spec::{Sgl, Sqe, Status};
use nvme::tcp::pdu::Digests;
use server::config::Limits;
use std::net::SocketAddr;

/// The HOSTID of HOST.
fn id_of_host() -> HostId {
    HostId(HOST.as_bytes()[HOST.len() - 16..].try_into().expect("16 bytes"))
}

fn reserve(io: &mut Raw, opcode: u8, dword10: u32, keys: [u64; 2]) -> Status {
    let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    let sqe = Sqe::new(opcode).with_nsid(1).with_cdw10_15([dword10, 0, 0, 0, 0, 0]);
    io.command(sqe.with_sgl(Sgl::InCapsule { offset: 0, length: 16 }), &data);
    io.response().status()
}

fn register(io: &mut Raw, key: u64) -> Status {
    reserve(io, nvm::RESERVATION_REGISTER, 0, [0, key])
}

fn write(io: &mut Raw) -> Status {
    let sqe = rw(nvm::WRITE, 1, 0, 1).with_sgl(Sgl::InCapsule { offset: 0, length: BLOCK as u32 });
    io.command(sqe, &[7; BLOCK]);
    io.response().status()
}

/// Connects `host` with a HOSTID: the queues, or the refused Connect.
fn connect_as(address: SocketAddr, host: &str, id: HostId) -> Result<(Raw, Raw), (Raw, nvme::spec::Cqe)> {
    let mut admin = Raw::greeted(address, Digests::default());
    admin.identifier = Some(id);
    let cqe = admin.connect(0, 32, CNTLID_DYNAMIC, host, 0);
    if !cqe.status().is_success() {
        return Err((admin, cqe));
    }
    assert!(admin.enable().status().is_success());
    let mut io = Raw::greeted(address, Digests::default());
    io.identifier = Some(id);
    assert!(io.connect(1, 32, cqe.dw0() as u16, host, 0).status().is_success());
    Ok((admin, io))
}

#[test]
fn a_host_with_the_holders_identifier_is_refused() {
    const EXCLUSIVE_ACCESS: u32 = 2 << 8;
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    let (holder_admin, mut holder) = plain(address);
    assert_eq!(register(&mut holder, 0xa), Status::SUCCESS);
    assert_eq!(reserve(&mut holder, nvm::RESERVATION_ACQUIRE, EXCLUSIVE_ACCESS, [0xa, 0]), Status::SUCCESS);

    // It is no secret: the reservation report shows it.
    let (_admin, mut stranger) =
        connect_as(address, OTHER, HostId([9; 16])).unwrap_or_else(|(_, cqe)| panic!("{cqe:?}"));
    let report = Sqe::new(nvm::RESERVATION_REPORT).with_nsid(1).with_cdw10_15([31, 1, 0, 0, 0, 0]);
    stranger.command(report.with_sgl(Sgl::Transport { length: 128 }), &[]);
    let page = stranger.next_pdu().expect("the report");
    let learnt = id_of_host();
    assert!(page.windows(16).any(|bytes| bytes == learnt.0), "the holder's identifier is in the report");

    let is_refused = || {
        let (mut thief, cqe) = connect_as(address, OTHER, learnt).err().expect("it is the holder's");
        assert_eq!(cqe.status(), Status::CONNECT_INVALID_PARAMETERS);
        assert_eq!(cqe.dw0(), Culprit::HOST_ID.to_dw0(), "HOSTID is named");
        assert!(thief.is_closed());
        assert_logged_once(thief.local(), "HOSTID belongs to another host NQN");
    };
    is_refused();
    // Also while the holder is disconnected, because it is registered.
    holder_admin.reset();
    assert!(holder.is_closed());
    is_refused();
    let (_kept, mut holder) = connect_as(address, HOST, learnt).unwrap_or_else(|(_, cqe)| panic!("{cqe:?}"));
    assert_eq!(write(&mut holder), Status::SUCCESS, "the holder itself is let in, and holds");
}

#[test]
fn one_host_cannot_use_up_all_registrants() {
    let server = null_with(Limits::default());
    let address = server.addresses()[0];
    let greedy = "nqn.2014-08.org.test:greedy-0123456789";
    let mut statuses = Vec::new();
    let mut connections = Vec::new();
    for number in 1..=20u8 {
        let (admin, mut io) =
            connect_as(address, greedy, HostId([number; 16])).unwrap_or_else(|(_, cqe)| panic!("{cqe:?}"));
        statuses.push(register(&mut io, 1));
        connections.push((admin, io));
    }
    assert_eq!(statuses[..4], [Status::SUCCESS; 4]);
    assert_eq!(statuses[4..], [Status::INTERNAL_ERROR; 16], "four registrants are enough for one name");
    let (_admin, mut owner) = plain(address);
    assert_eq!(register(&mut owner, 0xa), Status::SUCCESS);
    let write_exclusive = 1 << 8;
    assert_eq!(reserve(&mut owner, nvm::RESERVATION_ACQUIRE, write_exclusive, [0xa, 0]), Status::SUCCESS);
    assert_eq!(write(&mut connections[0].1), Status::RESERVATION_CONFLICT);
}
