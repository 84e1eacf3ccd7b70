//! One connection of the load generator: commands out, answers counted.
//!
//! Commands are encoded once; identifier and address are patched in. Answers are cut by their headers, and whatever is no
//! successful answer is an error. Data is received, but neither looked at nor (with a digest) verified, so that the client costs
//! little and the same whichever server answers. Identifiers count up and wrap around: none is outstanding for 65,536 commands.
//!
//! ```text
//!   read    CapsuleCmd 72                           ► C2HData 24 + n with SUCCESS, or C2HData and CapsuleResp 24
//!   write   CapsuleCmd 72 ► R2T 24 ► H2CData 24 + n ► CapsuleResp 24
//! ```

use crate::bringup::Wire;
use anyhow::{Context, Result, bail, ensure};
use nvme::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::pdu::digest::crc32c;
use nvme::pdu::{CapsuleCmd, Digests, Framing, H2cData, PduType};
use nvme::spec::{Sgl, Sqe, opcode};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

/// Bytes of a header that comes from a controller.
const HEADER: usize = 24;
/// Bytes of a command capsule.
const COMMAND: usize = 72;
/// Where in a capsule the command identifier and the starting block lie.
const CID: usize = 10;
const STARTING_BLOCK: usize = 48;
/// Where in a CapsuleResp the status lies; its lowest bit is no part of it.
const STATUS: usize = 22;
/// Where in an R2T the command identifier, the transfer tag, the offset and the length lie.
const R2T_CID: usize = 8;
const R2T_TAG: usize = 10;
const R2T_OFFSET: usize = 12;
const R2T_LENGTH: usize = 16;
/// Where PLEN lies in every header.
const PLEN: usize = 4;
/// Bytes of a block of the namespaces that `gimbal serve` makes.
const BLOCK: u32 = 4096;
/// Pieces that are handed to the kernel at once, at most.
const GATHER: usize = 64;

/// What is asked for.
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

impl Load {
    /// Digests of the connections.
    pub(crate) fn digests(&self) -> Digests {
        Digests { header: false, data: self.digest }
    }

    fn framing(&self) -> Framing {
        Framing { digests: self.digests(), ..Framing::HANDSHAKE }
    }

    /// The capsule of every command, but for identifier and address.
    fn capsule(&self) -> [u8; COMMAND] {
        let opcode = match self.direction {
            Direction::Read => opcode::nvm::READ,
            Direction::Write => opcode::nvm::WRITE,
        };
        let sqe = Sqe::new(opcode)
            .with_nsid(1)
            .with_sgl(Sgl::Transport { length: self.length })
            .with_cdw10_15([0, 0, self.length / BLOCK - 1, 0, 0, 0]);
        let mut wire = Wire::default();
        self.framing().header::<Vec<u8>, _>(&mut wire, CapsuleCmd::new(sqe), 0, 0);
        wire.0.try_into().expect("a capsule without data is 72 bytes")
    }

    /// The data of every write, with its digest behind it.
    fn payload(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.length).map(|n| (n % 251) as u8).collect();
        if self.digest {
            bytes.extend(crc32c(&bytes).to_le_bytes());
        }
        bytes
    }
}

/// Something to be sent.
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
    /// The header that comes, as far as it has come.
    header: [u8; HEADER],
    have: usize,
    /// Bytes of data that come before the next header.
    skip: usize,
    /// IOs outstanding.
    outstanding: u32,
    outgoing: VecDeque<Piece>,
    /// Bytes of the first piece that have gone.
    gone: usize,
}

impl Stream {
    /// A connection that is ready for IO commands.
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
            outgoing: VecDeque::new(),
            gone: 0,
        })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Asks until as many IOs are outstanding as shall be.
    pub(crate) fn fill(&mut self) {
        let places = self.load.span / u64::from(self.load.length);
        while self.outstanding < self.load.depth {
            let place = (u128::from(self.addresses.next_u64()) * u128::from(places)) >> 64;
            let block = place as u64 * u64::from(self.load.length / BLOCK);
            let mut bytes = self.capsule;
            bytes[CID..CID + 2].copy_from_slice(&self.sent.to_le_bytes());
            bytes[STARTING_BLOCK..STARTING_BLOCK + 8].copy_from_slice(&block.to_le_bytes());
            self.sent = self.sent.wrapping_add(1);
            self.outstanding += 1;
            self.outgoing.push_back(Piece::Small { bytes, length: COMMAND });
        }
    }

    /// Sends what can be sent now.
    pub(crate) fn flush(&mut self) -> Result<()> {
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
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("sending to the server"),
            }
        }
        Ok(())
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

    /// Receives once; answers how many IOs have ended.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<u32> {
        let received = match self.socket.read(buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error).context("receiving from the server"),
        };
        let before = self.outstanding;
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
                return Ok(before - self.outstanding);
            }
            let taken = (HEADER - self.have).min(bytes.len());
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == HEADER {
                let whole = u32::from_le_bytes(self.field(PLEN)) as usize;
                self.skip = whole.checked_sub(HEADER).context("a PDU shorter than its header came")?;
            }
        }
    }

    /// A whole PDU has come.
    fn on_pdu(&mut self) -> Result<()> {
        let [kind, flags, ..] = self.header;
        match PduType::from_wire(kind) {
            Some(PduType::C2hData) if flags & FLAG_SUCCESS != 0 => self.on_end(),
            Some(PduType::C2hData) => Ok(()),
            Some(PduType::CapsuleResp) => {
                let status = u16::from_le_bytes(self.field(STATUS)) >> 1;
                ensure!(status == 0, "an IO ended with status {status:#x}");
                self.on_end()
            }
            Some(PduType::R2t) => self.on_request_for_data(),
            other => bail!("the server sent a PDU of type {kind:#x} ({other:?})"),
        }
    }

    fn on_end(&mut self) -> Result<()> {
        self.outstanding =
            self.outstanding.checked_sub(1).context("the server answered more than was asked")?;
        Ok(())
    }

    fn on_request_for_data(&mut self) -> Result<()> {
        let cid = u16::from_le_bytes(self.field(R2T_CID));
        let tag = u16::from_le_bytes(self.field(R2T_TAG));
        let offset = u32::from_le_bytes(self.field(R2T_OFFSET));
        let length = u32::from_le_bytes(self.field(R2T_LENGTH));
        ensure!(
            (offset, length) == (0, self.load.length),
            "the server asks for a write's data in pieces ({length} bytes at {offset}); this client gives all at once"
        );
        let mut wire = Wire::default();
        let data = H2cData::new(cid, tag, 0, length);
        self.load.framing().header::<Vec<u8>, _>(&mut wire, data, FLAG_LAST, length);
        let mut bytes = [0; COMMAND];
        bytes[..HEADER].copy_from_slice(&wire.0);
        self.outgoing.push_back(Piece::Small { bytes, length: HEADER });
        self.outgoing.push_back(Piece::Payload);
        Ok(())
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.header[at..at + N].try_into().expect("fields lie within the header")
    }
}
