//! A host that sends any bytes, in any pieces.

use crate::common::HOST;
use crate::log;
use nvme::spec::connect::{CNTLID_DYNAMIC, ConnectCommand, ConnectData, HostId};
use nvme::spec::opcode::fabrics;
use nvme::spec::property::{Configuration, offset};
use nvme::spec::{Cqe, Nqn, Sgl, Sqe};
use nvme::tcp::pdu::common::Header;
use nvme::tcp::pdu::{CapsuleCmd, CapsuleResp, Digests, Framing, IcReq, R2t, TermReq};
use server::config::DEFAULT_NQN;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// PDU types that a controller sends.
pub(super) const C2H_TERM_REQ: u8 = 3;
pub(super) const CAPSULE_RESP: u8 = 5;
pub(super) const R2T: u8 = 9;

/// A test fails if the target neither answers nor closes within this time.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) struct Raw {
    pub(super) stream: TcpStream,
    pub(super) framing: Framing,
    /// HOSTID of its Connect; `None`: the end of its name.
    pub(super) identifier: Option<HostId>,
}

impl Raw {
    /// A new connection. Nothing was sent on it.
    pub(super) fn open(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).expect("the system accepts");
        log::forget(stream.local_addr().expect("it is connected"));
        stream.set_nodelay(true).expect("a socket option");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket option");
        Raw { stream, framing: Framing::HANDSHAKE, identifier: None }
    }

    /// A new connection from another loopback address. For storms: they use up ports, by which log lines are told apart.
    pub(super) fn open_from(source: Ipv4Addr, address: SocketAddr) -> std::io::Result<Raw> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((source, 0)).into())?;
        socket.connect(&address.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Raw { stream, framing: Framing::HANDSHAKE, identifier: None })
    }

    /// After ICReq and ICResp.
    pub(super) fn greeted(address: SocketAddr, digests: Digests) -> Raw {
        Raw::open(address).greet(digests)
    }

    /// As `greeted`, from another loopback address.
    pub(super) fn greeted_from(source: Ipv4Addr, address: SocketAddr, digests: Digests) -> Raw {
        let raw = Raw::open_from(source, address).expect("the system accepts");
        log::forget(raw.local());
        raw.greet(digests)
    }

    fn greet(mut self, digests: Digests) -> Raw {
        let request = self.pdu(IcReq::new(0, digests.to_wire(), 0), 0, &[]);
        self.send(&request);
        assert_eq!(self.next_pdu().expect("an ICResp").len(), 128);
        self.framing.digests = digests;
        self
    }

    /// An enabled controller's admin queue, and its first IO queue of `entries`.
    pub(super) fn controller(address: SocketAddr, host: &str, digests: Digests, entries: u16) -> (Raw, Raw) {
        Raw::controller_of([Raw::greeted(address, digests), Raw::greeted(address, digests)], host, entries)
    }

    /// The same on these two connections.
    pub(super) fn controller_of([mut admin, mut io]: [Raw; 2], host: &str, entries: u16) -> (Raw, Raw) {
        let controller_id = admin.connect(0, 32, CNTLID_DYNAMIC, host, 0).dw0() as u16;
        assert!(admin.enable().status().is_success());
        let connected = io.connect(1, entries, controller_id, host, 0);
        assert!(connected.status().is_success(), "{:?}", connected.status());
        (admin, io)
    }

    /// Enables the controller of this admin queue.
    pub(super) fn enable(&mut self) -> Cqe {
        let enable = Configuration::host(false).enabled();
        self.execute(Sqe::fabrics(fabrics::PROPERTY_SET).with_cdw10_15([0, offset::CC, enable.0, 0, 0, 0]))
    }

    /// The address that the target sees.
    pub(super) fn local(&self) -> SocketAddr {
        self.stream.local_addr().expect("a socket has an address")
    }

    /// A correct PDU.
    pub(super) fn pdu<H: Header>(&self, header: H, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        let length = u32::try_from(data.len()).expect("short");
        self.framing.header(&mut wire, header, flags, length);
        wire.extend_from_slice(data);
        if let Some(digest) = self.framing.data_digest(data).filter(|_| !data.is_empty()) {
            wire.extend_from_slice(&digest);
        }
        wire
    }

    /// Sends bytes. If the target has closed the connection, the next read fails.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(super) fn command(&mut self, sqe: Sqe, data: &[u8]) {
        let pdu = self.pdu(CapsuleCmd::new(sqe), 0, data);
        self.send(&pdu);
    }

    /// Sends a command without data and waits for its answer.
    pub(super) fn execute(&mut self, sqe: Sqe) -> Cqe {
        self.command(sqe.with_sgl(Sgl::Transport { length: 0 }), &[]);
        self.response()
    }

    /// A Connect, `entries` 1-based.
    pub(super) fn connect_pdu(
        &self,
        queue_id: u16,
        entries: u32,
        controller_id: u16,
        host: &str,
        keep_alive: u32,
    ) -> Vec<u8> {
        self.connect_pdu_to(DEFAULT_NQN, queue_id, entries, controller_id, host, keep_alive)
    }

    /// As `connect_pdu`, to another subsystem.
    pub(super) fn connect_pdu_to(
        &self,
        subsystem: &str,
        queue_id: u16,
        entries: u32,
        controller_id: u16,
        host: &str,
        keep_alive: u32,
    ) -> Vec<u8> {
        let blank = ConnectCommand::parse(&Sqe::fabrics(fabrics::CONNECT));
        let sqsize = u16::try_from(entries - 1).expect("0-based, 16 bits");
        let connect = ConnectCommand { queue_id, sqsize, keep_alive_timeout: keep_alive, ..blank };
        let host = Nqn::new(host).expect("a host name");
        let subsystem = Nqn::new(subsystem).expect("a subsystem name");
        let id: [u8; 16] = host.as_str().as_bytes()[host.as_str().len() - 16..].try_into().expect("16 bytes");
        let id = self.identifier.unwrap_or(HostId(id));
        let data = ConnectData::new(id, &host, &subsystem, controller_id);
        let data = data.as_bytes();
        let sgl = Sgl::InCapsule { offset: 0, length: data.len() as u32 };
        self.pdu(CapsuleCmd::new(connect.to_sqe().with_sgl(sgl)), 0, data)
    }

    pub(super) fn connect(
        &mut self,
        queue_id: u16,
        entries: u16,
        controller_id: u16,
        host: &str,
        keep_alive: u32,
    ) -> Cqe {
        let connect = self.connect_pdu(queue_id, u32::from(entries), controller_id, host, keep_alive);
        self.send(&connect);
        self.response()
    }

    /// The next PDU; `None` if the target has closed the connection.
    pub(super) fn next_pdu(&mut self) -> Option<Vec<u8>> {
        let mut pdu = vec![0; 8];
        self.fill(&mut pdu, 0)?;
        let length = u32::from_le_bytes(pdu[4..8].try_into().expect("four bytes")) as usize;
        pdu.resize(length, 0);
        self.fill(&mut pdu, 8)?;
        Some(pdu)
    }

    fn fill(&mut self, pdu: &mut [u8], from: usize) -> Option<()> {
        match self.stream.read_exact(&mut pdu[from..]) {
            Ok(()) => Some(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the target neither answers nor closes")
            }
            Err(_) => None,
        }
    }

    /// The next PDU, which must be a response capsule.
    pub(super) fn response(&mut self) -> Cqe {
        let pdu = self.next_pdu().expect("an answer");
        assert_eq!(pdu[0], CAPSULE_RESP, "a response capsule");
        CapsuleResp::ref_from_prefix(&pdu).expect("whole").0.cqe
    }

    /// The transfer tag of the next PDU, which must be an R2T.
    pub(super) fn asked(&mut self) -> u16 {
        let pdu = self.next_pdu().expect("an R2T");
        assert_eq!(pdu[0], R2T, "an R2T");
        R2t::ref_from_prefix(&pdu).expect("whole").0.ttag.get()
    }

    /// FES and FEI of the next C2HTermReq. Other PDUs are skipped. The connection ends with it.
    #[track_caller]
    pub(super) fn terminated(&mut self) -> (u16, u32) {
        loop {
            let pdu = self.next_pdu().expect("a C2HTermReq before the end");
            if pdu[0] == C2H_TERM_REQ {
                assert!(self.is_closed(), "nothing follows a C2HTermReq");
                return TermReq::ref_from_prefix(&pdu).expect("whole").0.reason();
            }
        }
    }

    /// Waits for the end of the connection, and discards all PDUs.
    pub(super) fn is_closed(&mut self) -> bool {
        while self.next_pdu().is_some() {}
        true
    }

    /// Closes the connection with a TCP reset.
    pub(super) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).expect("a socket option");
    }
}

/// The host of most tests.
pub(super) fn plain(address: SocketAddr) -> (Raw, Raw) {
    Raw::controller(address, HOST, Digests::default(), 128)
}
