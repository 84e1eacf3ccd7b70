//! One connection of the load generator: sends commands and counts answers.
//!
//! Commands are encoded once; only identifier and address change. Answers are split by their headers; anything except a successful
//! answer is an error. Data is received, but neither read nor (with a digest) verified, so that the client costs little, and the same
//! for every server. Identifiers count up and wrap around: no command is outstanding for 65,536 commands.
//!
//! ```text
//!   read    CapsuleCmd 72                           ► C2HData 24 + n with SUCCESS, or C2HData and CapsuleResp 24
//!   write   CapsuleCmd 72 ► R2T 24 ► H2CData 24 + n ► CapsuleResp 24
//! ```

use anyhow::{Context, Result, bail, ensure};
use nvme::spec::reservation::EXTENDED_REPORT;
use nvme::spec::{Sgl, Sqe, opcode};
use nvme::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::tcp::pdu::digest::crc32c;
use nvme::tcp::pdu::{CapsuleCmd, Digests, Framing, H2cData, PduType};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

/// Bytes of a header from a controller.
const HEADER: usize = 24;
/// Bytes of a command capsule.
const COMMAND: usize = 72;
/// Offsets of the command identifier and the starting block in a capsule.
const CID: usize = 10;
const STARTING_BLOCK: usize = 48;
/// Offsets of the command identifier and the status in a CapsuleResp; the lowest bit of that field is not part of the status.
const RESPONSE_CID: usize = 20;
const STATUS: usize = 22;
/// Offset of the command identifier in a C2HData or an R2T; and of transfer tag, offset and length in an R2T.
const TRANSFER_CID: usize = 8;
const R2T_TAG: usize = 10;
const R2T_OFFSET: usize = 12;
const R2T_LENGTH: usize = 16;
/// Offset of PLEN in every header.
const PLEN: usize = 4;
/// Block size of the namespaces of `gimbal serve`.
const BLOCK: u32 = 4096;
/// The most pieces of one system call.
const GATHER: usize = 64;

/// The kind of IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// IOs of one kind at random addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) direction: Direction,
    /// Bytes per IO.
    pub(crate) length: u32,
    /// IOs outstanding on each connection.
    pub(crate) depth: u32,
    /// Whether data carries a digest.
    pub(crate) digest: bool,
    /// Addresses are below this many bytes.
    pub(crate) span: u64,
}

fn lay(framing: Framing, sqe: Sqe) -> [u8; COMMAND] {
    let mut wire = Vec::new();
    framing.header::<Vec<u8>, _>(&mut wire, CapsuleCmd::new(sqe), 0, 0);
    wire.try_into().expect("a capsule without data is 72 bytes")
}

impl Load {
    /// Digests of the connections.
    pub(crate) fn digests(&self) -> Digests {
        Digests { header: false, data: self.digest }
    }

    fn framing(&self) -> Framing {
        Framing { digests: self.digests(), ..Framing::HANDSHAKE }
    }

    /// The capsule of every IO, except identifier and address.
    fn capsule(&self) -> [u8; COMMAND] {
        let opcode = match self.direction {
            Direction::Read => opcode::nvm::READ,
            Direction::Write => opcode::nvm::WRITE,
        };
        self.encode(Sqe::new(opcode).with_cdw10_15([0, 0, self.length / BLOCK - 1, 0, 0, 0]))
    }

    /// The capsule of a command whose answer is as long as that of an IO, but which needs no device: a report of the namespace's
    /// reservations.
    fn aside(&self) -> [u8; COMMAND] {
        let dwords = self.length / size_of::<u32>() as u32 - 1;
        self.encode(Sqe::new(opcode::nvm::RESERVATION_REPORT).with_cdw10_15([
            dwords,
            EXTENDED_REPORT,
            0,
            0,
            0,
            0,
        ]))
    }

    /// The capsule of a command that moves no data and waits in the scheduler like a read, on connections without digests.
    pub(crate) fn verify(cid: u16) -> [u8; COMMAND] {
        let sqe = Sqe::new(opcode::nvm::VERIFY).with_nsid(1).with_cid(cid);
        lay(Framing::HANDSHAKE, sqe.with_sgl(Sgl::Transport { length: 0 }))
    }

    fn encode(&self, sqe: Sqe) -> [u8; COMMAND] {
        lay(self.framing(), sqe.with_nsid(1).with_sgl(Sgl::Transport { length: self.length }))
    }

    /// The data of every write, followed by its digest.
    fn payload(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.length).map(|n| (n % 251) as u8).collect();
        if self.digest {
            bytes.extend(crc32c(&bytes).to_le_bytes());
        }
        bytes
    }
}

/// Something to send.
enum Piece {
    /// A command or a header.
    Small { bytes: [u8; COMMAND], length: usize },
    /// The data of a write.
    Payload,
}

/// See the module.
pub(crate) struct Stream {
    socket: TcpStream,
    load: Load,
    capsule: [u8; COMMAND],
    payload: Rc<Vec<u8>>,
    addresses: Xoshiro256PlusPlus,
    sent: u16,
    /// The received part of the next header.
    header: [u8; HEADER],
    have: usize,
    /// Bytes of data before the next header.
    skip: usize,
    /// IOs outstanding.
    outstanding: u32,
    /// Identifiers of the IOs that completed with the last `receive`.
    ended: Vec<u16>,
    outgoing: VecDeque<Piece>,
    /// Bytes of the first piece that were sent.
    gone: usize,
    /// Whether there was no room for more.
    is_full: bool,
}

impl Stream {
    /// Takes a connection that is ready for IO commands.
    pub(crate) fn new(socket: TcpStream, load: Load, seed: u64) -> Result<Stream> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Stream {
            socket,
            load,
            capsule: load.capsule(),
            payload: Rc::new(load.payload()),
            addresses: Xoshiro256PlusPlus::seed_from_u64(seed),
            sent: 0,
            header: [0; HEADER],
            have: 0,
            skip: 0,
            outstanding: 0,
            ended: Vec::new(),
            outgoing: VecDeque::new(),
            gone: 0,
            is_full: false,
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether one more IO may be outstanding.
    pub(crate) fn has_room(&self) -> bool {
        self.outstanding < self.load.depth
    }

    /// Adds IOs until the wanted number is outstanding.
    pub(crate) fn fill(&mut self) {
        while self.has_room() {
            self.ask();
        }
    }

    /// Adds one IO, which `flush` sends, and returns its identifier.
    pub(crate) fn ask(&mut self) -> u16 {
        let places = self.load.span / u64::from(self.load.length);
        let place = (u128::from(self.addresses.next_u64()) * u128::from(places)) >> 64;
        let block = place as u64 * u64::from(self.load.length / BLOCK);
        let mut bytes = self.capsule;
        bytes[STARTING_BLOCK..STARTING_BLOCK + 8].copy_from_slice(&block.to_le_bytes());
        self.queue(bytes)
    }

    /// Adds a command whose answer is as long as that of a read, but that needs no device: it takes only the network round trip.
    pub(crate) fn ask_aside(&mut self) -> u16 {
        let bytes = self.load.aside();
        self.queue(bytes)
    }

    fn queue(&mut self, mut bytes: [u8; COMMAND]) -> u16 {
        let id = self.sent;
        bytes[CID..CID + 2].copy_from_slice(&id.to_le_bytes());
        self.sent = self.sent.wrapping_add(1);
        self.outstanding += 1;
        self.outgoing.push_back(Piece::Small { bytes, length: COMMAND });
        id
    }

    /// Identifiers of the IOs that completed with the last `receive`. (The floor always answers with identifier 0.)
    pub(crate) fn ended(&self) -> &[u16] {
        &self.ended
    }

    /// Sends as much as possible now.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.outgoing.is_empty() || self.is_full && !self.may_send()? {
            return Ok(());
        }
        self.is_full = false;
        while !self.outgoing.is_empty() {
            let mut slices = [IoSlice::new(&[]); GATHER];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.outgoing) {
                let bytes = match piece {
                    Piece::Small { bytes, length } => &bytes[..*length],
                    Piece::Payload => &self.payload[..],
                };
                *slice = IoSlice::new(&bytes[if count == 0 { self.gone } else { 0 }..]);
                count += 1;
            }
            match self.socket.write_vectored(&slices[..count]) {
                Ok(sent) => self.advance(sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Ok(());
                }
                Err(error) => return Err(error).context("sending to the server"),
            }
        }
        Ok(())
    }

    /// Whether the socket is writable. A socket accepts bytes as soon as there is room for one, but sending a few bytes at a time
    /// makes many small segments. The kernel reports a socket as writable when a good part of its buffer is free.
    fn may_send(&self) -> Result<bool> {
        let mut asked = [PollFd::new(&self.socket, PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut asked, Some(&now)).context("polling the socket for room to send")? > 0)
    }

    fn advance(&mut self, sent: usize) {
        self.gone += sent;
        while let Some(piece) = self.outgoing.front() {
            let length = match piece {
                Piece::Small { length, .. } => *length,
                Piece::Payload => self.payload.len(),
            };
            if self.gone < length {
                return;
            }
            self.gone -= length;
            self.outgoing.pop_front();
        }
    }

    /// Receives once, and returns how many IOs have completed.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<u32> {
        self.ended.clear();
        let received = match self.socket.read(buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error).context("receiving from the server"),
        };
        let mut bytes = &buffer[..received];
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if self.skip == 0 && self.have == HEADER {
                self.have = 0;
                self.on_pdu()?;
                continue;
            }
            if bytes.is_empty() {
                return Ok(self.ended.len() as u32);
            }
            let taken = (HEADER - self.have).min(bytes.len());
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEADER {
                let whole = u32::from_le_bytes(self.field(PLEN)) as usize;
                self.skip =
                    whole.checked_sub(HEADER).context("the server sent a PDU shorter than its header")?;
            }
        }
    }

    /// Handles a complete header.
    fn on_pdu(&mut self) -> Result<()> {
        let [kind, flags, ..] = self.header;
        match PduType::from_wire(kind) {
            Some(PduType::C2hData) if flags & FLAG_SUCCESS != 0 => self.on_end(TRANSFER_CID),
            Some(PduType::C2hData) => Ok(()),
            Some(PduType::CapsuleResp) => {
                let status = u16::from_le_bytes(self.field(STATUS)) >> 1;
                ensure!(status == 0, "an IO completed with status {status:#x}");
                self.on_end(RESPONSE_CID)
            }
            Some(PduType::R2t) => self.on_request_for_data(),
            other => bail!("the server sent a PDU of type {kind:#x} ({other:?})"),
        }
    }

    /// An IO has completed; its identifier is at `cid`.
    fn on_end(&mut self, cid: usize) -> Result<()> {
        self.ended.push(u16::from_le_bytes(self.field(cid)));
        self.outstanding = self
            .outstanding
            .checked_sub(1)
            .context("the server sent more answers than there were commands")?;
        Ok(())
    }

    fn on_request_for_data(&mut self) -> Result<()> {
        let cid = u16::from_le_bytes(self.field(TRANSFER_CID));
        let tag = u16::from_le_bytes(self.field(R2T_TAG));
        let offset = u32::from_le_bytes(self.field(R2T_OFFSET));
        let length = u32::from_le_bytes(self.field(R2T_LENGTH));
        ensure!(
            (offset, length) == (0, self.load.length),
            "the server requests the data of a write in pieces ({length} bytes at {offset}); this client sends it all at once"
        );
        let mut wire = Vec::new();
        let data = H2cData::new(cid, tag, 0, length);
        self.load.framing().header::<Vec<u8>, _>(&mut wire, data, FLAG_LAST, length);
        let mut bytes = [0; COMMAND];
        bytes[..HEADER].copy_from_slice(&wire);
        self.outgoing.push_back(Piece::Small { bytes, length: HEADER });
        self.outgoing.push_back(Piece::Payload);
        Ok(())
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.header[at..at + N].try_into().expect("fields lie within the header")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const LOAD: Load =
        Load { direction: Direction::Read, length: 8192, depth: 3, digest: false, span: 1 << 30 };

    /// A stream and the socket of its peer.
    fn pair(load: Load) -> (Stream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("a listener");
        (Stream::new(socket, load, 1).expect("a stream"), listener.accept().expect("a connection").0)
    }

    /// Receives until `count` IOs have completed or an error occurs, and returns their identifiers.
    fn receive(stream: &mut Stream, count: usize) -> Result<Vec<u16>> {
        let (mut ended, mut buffer) = (Vec::new(), [0; 1000]);
        while ended.len() < count {
            stream.receive(&mut buffer)?;
            ended.extend_from_slice(stream.ended());
        }
        Ok(ended)
    }

    /// A header with identifier `cid` at the offset of this type.
    fn header(kind: PduType, flags: u8, cid: u16, whole: u32) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&[kind as u8, flags, HEADER as u8, 0]);
        bytes[PLEN..PLEN + 4].copy_from_slice(&whole.to_le_bytes());
        let at = if kind == PduType::CapsuleResp { RESPONSE_CID } else { TRANSFER_CID };
        bytes[at..at + 2].copy_from_slice(&cid.to_le_bytes());
        bytes
    }

    #[test]
    fn reads_are_sent_and_counted_however_their_answers_are_split() {
        let (mut stream, mut server) = pair(LOAD);
        stream.fill();
        stream.flush().expect("sent");
        let mut commands = [[0; COMMAND]; 3];
        for (n, command) in commands.iter_mut().enumerate() {
            server.read_exact(command).expect("a command");
            assert_eq!((command[0], command[8]), (PduType::CapsuleCmd as u8, opcode::nvm::READ));
            assert_eq!(u16::from_le_bytes([command[CID], command[CID + 1]]), n as u16);
        }
        let data = [header(PduType::C2hData, FLAG_LAST | FLAG_SUCCESS, 1, 24 + 8192).to_vec(), vec![7; 8192]];
        let plain = [header(PduType::C2hData, FLAG_LAST, 0, 24 + 8192).to_vec(), vec![7; 8192]];
        let response = header(PduType::CapsuleResp, 0, 0, 24);
        let all = [data.concat(), plain.concat(), response.to_vec()].concat();
        for piece in all.chunks(777) {
            server.write_all(piece).expect("room");
        }
        assert_eq!(receive(&mut stream, 2).expect("good answers"), [1, 0]);
        assert_eq!(stream.outstanding(), 1);
        assert!(stream.has_room());
    }

    #[test]
    fn a_write_sends_its_data_after_the_r2t_and_not_before() {
        let (mut stream, mut server) =
            pair(Load { direction: Direction::Write, depth: 1, digest: true, ..LOAD });
        stream.fill();
        stream.flush().expect("sent");
        server.read_exact(&mut [0; COMMAND]).expect("a command");
        let mut request = header(PduType::R2t, 0, 0, 24);
        request[R2T_TAG] = 9;
        request[R2T_LENGTH..R2T_LENGTH + 4].copy_from_slice(&8192u32.to_le_bytes());
        server.write_all(&request).expect("room");
        while stream.outgoing.is_empty() {
            stream.receive(&mut [0; 100]).expect("a request for data");
        }
        stream.flush().expect("sent");
        let mut data = vec![0; HEADER + 8192 + 4];
        server.read_exact(&mut data).expect("data and digest");
        assert_eq!((data[0], data[R2T_TAG]), (PduType::H2cData as u8, 9));
        assert_eq!(data[HEADER + 8192..], crc32c(&data[HEADER..HEADER + 8192]).to_le_bytes());
        server.write_all(&header(PduType::CapsuleResp, 0, 0, 24)).expect("room");
        assert_eq!(receive(&mut stream, 1).expect("a good answer"), [0]);
    }

    #[test]
    fn an_io_that_fails_ends_the_run() {
        let (mut stream, mut server) = pair(LOAD);
        stream.fill();
        let mut failure = header(PduType::CapsuleResp, 0, 0, 24);
        failure[STATUS] = 0x04;
        server.write_all(&failure).expect("room");
        let error = receive(&mut stream, 1).expect_err("a failure");
        assert_eq!(error.to_string(), "an IO completed with status 0x2");
    }
}
