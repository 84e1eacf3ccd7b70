//! The table of messages and their answers.
//!
//! | comes                               | goes                                        |
//! |-------------------------------------|---------------------------------------------|
//! | CapsuleCmd, read of n bytes (72)    | C2HData with SUCCESS (24 + n)               |
//! | CapsuleCmd, write of n bytes (72)   | R2T (24)                                    |
//! | H2CData (24 + n)                    | CapsuleResp (24)                            |
//!
//! Answers are made once for each size and never changed; they name command 0 for every connection.

use std::collections::VecDeque;

/// PDU types.
const CAPSULE_CMD: u8 = 0x04;
const CAPSULE_RESP: u8 = 0x05;
const H2C_DATA: u8 = 0x06;
const C2H_DATA: u8 = 0x07;
const R2T: u8 = 0x09;
/// FLAGS of a C2HData that ends its command: LAST and SUCCESS.
const LAST_AND_SUCCESS: u8 = 0x0c;
/// Header lengths.
const COMMAND: usize = 72;
const OTHER: usize = 24;
/// Byte offsets: PLEN in every header; opcode and SGL length in a command; the length in C2HData and R2T.
const PLEN: usize = 4;
const OPCODE: usize = 8;
const SGL_LENGTH: usize = 40;
const LENGTH: usize = 16;
/// NVM opcodes.
const READ: u8 = 0x02;

/// Pieces handed to the kernel at once, at most.
pub(crate) const GATHER: usize = 64;

/// Answers that were made until now, by kind and size. They stay for as long as the process does.
#[derive(Default)]
pub(crate) struct Answers(Vec<(u8, u32, &'static [u8])>);

impl Answers {
    fn get(&mut self, kind: u8, length: u32) -> &'static [u8] {
        let known = self.0.iter().find(|(k, l, _)| (*k, *l) == (kind, length));
        if let Some((_, _, bytes)) = known {
            return bytes;
        }
        let bytes = made(kind, length).leak();
        self.0.push((kind, length, bytes));
        bytes
    }
}

fn made(kind: u8, length: u32) -> Vec<u8> {
    let (flags, data) = if kind == C2H_DATA { (LAST_AND_SUCCESS, length as usize) } else { (0, 0) };
    let mut bytes = vec![0; OTHER + data];
    bytes[0] = kind;
    bytes[1] = flags;
    bytes[2] = OTHER as u8;
    bytes[3] = if data > 0 { OTHER as u8 } else { 0 };
    let total = bytes.len() as u32;
    bytes[PLEN..PLEN + 4].copy_from_slice(&total.to_le_bytes());
    if kind != CAPSULE_RESP {
        bytes[LENGTH..LENGTH + 4].copy_from_slice(&length.to_le_bytes());
    }
    bytes
}

/// One connection's messages: the progress of the incoming one, and those to send.
pub(crate) struct Messages {
    header: [u8; COMMAND],
    /// Bytes of the header that are here.
    have: usize,
    /// Bytes of data that are still to come, and are ignored.
    skip: usize,
    outgoing: VecDeque<&'static [u8]>,
    /// Bytes of the first outgoing answer that were sent.
    gone: usize,
}

impl Messages {
    pub(crate) fn new() -> Messages {
        Messages { header: [0; COMMAND], have: 0, skip: 0, outgoing: VecDeque::new(), gone: 0 }
    }

    /// Takes bytes in and queues the answers.
    pub(crate) fn on_bytes(&mut self, mut bytes: &[u8], answers: &mut Answers) {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let kind = if self.have > 0 { self.header[0] } else { bytes.first().copied().unwrap_or(0) };
            let length = if kind == CAPSULE_CMD { COMMAND } else { OTHER };
            if self.skip == 0 && self.have == length {
                self.have = 0;
                self.answer(answers);
                continue;
            }
            if bytes.is_empty() {
                return;
            }
            let taken = (length - self.have).min(bytes.len());
            self.header[self.have..self.have + taken].copy_from_slice(&bytes[..taken]);
            self.have += taken;
            bytes = &bytes[taken..];
            if self.have == length {
                self.skip = number(&self.header, PLEN) as usize - length;
            }
        }
    }

    fn answer(&mut self, answers: &mut Answers) {
        let kind = match (self.header[0], self.header[OPCODE]) {
            (CAPSULE_CMD, READ) => C2H_DATA,
            (CAPSULE_CMD, _) => R2T,
            (H2C_DATA, _) => CAPSULE_RESP,
            (other, _) => panic!("a PDU of type {other:#x} came"),
        };
        let length = if kind == CAPSULE_RESP { 0 } else { number(&self.header, SGL_LENGTH) };
        self.outgoing.push_back(answers.get(kind, length));
    }

    /// Puts the bytes to send into `pieces`; returns the number of pieces.
    pub(crate) fn gather(&self, pieces: &mut [libc::iovec; GATHER]) -> usize {
        let mut count = 0;
        for (piece, answer) in pieces.iter_mut().zip(&self.outgoing) {
            let gone = if count == 0 { self.gone } else { 0 };
            piece.iov_base = answer[gone..].as_ptr().cast_mut().cast();
            piece.iov_len = answer.len() - gone;
            count += 1;
        }
        count
    }

    /// Notes that this many bytes were sent.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.gone += bytes;
        while let Some(first) = self.outgoing.front()
            && self.gone >= first.len()
        {
            self.gone -= first.len();
            self.outgoing.pop_front();
        }
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }
}

fn number(header: &[u8; COMMAND], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// An empty piece.
pub(crate) const NO_PIECE: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
