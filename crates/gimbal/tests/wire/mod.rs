//! A host that builds its PDUs itself.

// Each test binary uses a part of this.
#![allow(dead_code, unreachable_pub)]

use nvme::spec::connect::{ConnectCommand, ConnectData, HostId};
use nvme::spec::opcode::fabrics;
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Cqe, Nqn, Sgl, Sqe};
use nvme::tcp::pdu::{CapsuleCmd, CapsuleResp, Framing, IcReq};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use zerocopy::{FromBytes, IntoBytes};

/// The size of ICReq and of ICResp.
const IC_SIZE: usize = 128;
/// Its name.
const HOST: &str = "nqn.2014-08.org.nvmexpress:host";

/// A connection after ICReq and ICResp.
pub fn greeted(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the target listens");
    let mut request = Vec::new();
    Framing::HANDSHAKE.header(&mut request, IcReq::new(0, 0, 0), 0, 0);
    stream.write_all(&request).expect("the target reads");
    stream.read_exact(&mut [0; IC_SIZE]).expect("the target answers");
    stream
}

/// A command capsule.
pub fn capsule(sqe: Sqe, data: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    Framing::HANDSHAKE.header(&mut wire, CapsuleCmd::new(sqe), 0, data.len() as u32);
    wire.extend_from_slice(data);
    wire
}

/// Receives a response capsule, which must be a success.
pub fn success(stream: &mut TcpStream) -> Cqe {
    let mut response = [0; size_of::<CapsuleResp>()];
    stream.read_exact(&mut response).expect("the target answers");
    let cqe = CapsuleResp::read_from_bytes(&response).expect("whole").cqe;
    assert!(response[0] == 5 && cqe.status().is_success(), "a response capsule: {response:?}");
    cqe
}

/// Executes a command without data.
pub fn execute(stream: &mut TcpStream, sqe: Sqe) -> Cqe {
    let command = capsule(sqe.with_sgl(Sgl::Transport { length: 0 }), &[]);
    stream.write_all(&command).expect("the target reads");
    success(stream)
}

/// Connects a queue with this many entries; `keep_alive` in milliseconds. Returns the controller's identifier.
pub fn connect(
    stream: &mut TcpStream,
    subsystem: &str,
    (queue_id, entries): (u16, u16),
    controller_id: u16,
    keep_alive: u32,
) -> u16 {
    let blank = ConnectCommand::parse(&Sqe::fabrics(fabrics::CONNECT));
    let connect = ConnectCommand { queue_id, sqsize: entries - 1, keep_alive_timeout: keep_alive, ..blank };
    let [host, subsystem] = [HOST, subsystem].map(|name| Nqn::new(name).expect("an NQN"));
    let data = ConnectData::new(HostId([7; 16]), &host, &subsystem, controller_id);
    let data = data.as_bytes();
    let sgl = Sgl::InCapsule { offset: 0, length: data.len() as u32 };
    stream.write_all(&capsule(connect.to_sqe().with_sgl(sgl), data)).expect("the target reads");
    success(stream).dw0() as u16
}

/// Enables the controller of this admin queue.
pub fn enable(stream: &mut TcpStream) {
    let enable = Configuration::host(false).enabled();
    execute(stream, Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, enable.0, 0, 0, 0]));
}
