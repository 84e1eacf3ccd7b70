//! Writes the PDUs that wait to be sent.
//!
//! Data requested by R2T goes out in pieces of at most MAXH2CDATA. The buffer moves out with the last piece
//! of the command's data; earlier pieces leave it here.

use super::{Command, Flow, HostConnection};
use crate::buffer::{Buffer, Outgoing};
use crate::tcp::pdu::common::FLAG_LAST;
use crate::tcp::pdu::term::TermReqImage;
use crate::tcp::pdu::{CapsuleCmd, Framing, H2cData, IcReq};
use core::ops::Range;

/// Outstanding R2Ts per command, 0-based: one.
const MAXR2T: u32 = 0;

/// Something that waits to be sent.
#[derive(Debug)]
pub(super) enum Outbound {
    /// The handshake.
    IcReq,
    /// The capsule of the command with this number.
    Command(u16),
    /// The unsent rest of the R2T of the command with this number.
    Data(u16),
    /// The last PDU of a connection.
    TermReq(Box<TermReqImage>),
}

impl<B: Buffer> HostConnection<B> {
    /// Writes as many waiting PDUs as there is room for. Returns whether it wrote any.
    pub fn poll_transmit(&mut self, out: &mut impl Outgoing<B>) -> bool {
        let mut wrote = false;
        while out.room() {
            match self.transmit.front() {
                Some(Outbound::Command(number)) if self.ready => {
                    write_command(&self.framing, self.commands.at(*number), out);
                }
                Some(Outbound::Data(number)) => {
                    let command = self.commands.at(*number);
                    write_data(&self.framing, self.maxh2cdata, command, out);
                    wrote = true;
                    if command.moved < command.asked {
                        continue;
                    }
                }
                Some(Outbound::IcReq) => {
                    let request = IcReq::new(self.options.hpda, self.options.digests.to_wire(), MAXR2T);
                    Framing::HANDSHAKE.header(out, request, 0, 0);
                }
                Some(Outbound::TermReq(image)) => out.header(image.bytes()),
                Some(Outbound::Command(_)) | None => break,
            }
            wrote = true;
            self.transmit.pop_front();
        }
        wrote
    }
}

/// Writes a command's capsule, with its data if the data travels in the capsule.
fn write_command<B: Buffer>(framing: &Framing, command: &mut Command<B>, out: &mut impl Outgoing<B>) {
    command.sent = true;
    if command.flow == Flow::Capsule && command.length > 0 {
        let buffer = command.buffer.take().expect("write data stays until it is sent");
        framing.header(out, CapsuleCmd::new(command.sqe), 0, command.length);
        lay_payload(framing, buffer, 0..command.length as usize, out);
    } else {
        framing.header(out, CapsuleCmd::new(command.sqe), 0, 0);
    }
}

/// Writes the next H2CData of the current R2T.
fn write_data<B: Buffer>(
    framing: &Framing,
    maxh2cdata: u32,
    command: &mut Command<B>,
    out: &mut impl Outgoing<B>,
) {
    let length = (command.asked - command.moved).min(maxh2cdata);
    let from = command.moved;
    command.moved += length;
    let flags = if command.moved == command.asked { FLAG_LAST } else { 0 };
    framing.header(out, H2cData::new(command.sqe.cid(), command.ttag, from, length), flags, length);
    let range = from as usize..command.moved as usize;
    if command.moved == command.length {
        let buffer = command.buffer.take().expect("write data stays until its last piece is sent");
        lay_payload(framing, buffer, range, out);
    } else {
        let buffer = command.buffer.as_ref().expect("write data stays until its last piece is sent");
        let digest = framing.data_digest(&buffer.bytes()[range.clone()]);
        out.payload_piece(buffer, range);
        if let Some(digest) = digest {
            out.header(&digest);
        }
    }
}

/// Moves a buffer out, followed by its digest.
fn lay_payload<B: Buffer>(framing: &Framing, buffer: B, range: Range<usize>, out: &mut impl Outgoing<B>) {
    let digest = framing.data_digest(&buffer.bytes()[range.clone()]);
    out.payload(buffer, range);
    if let Some(digest) = digest {
        out.header(&digest);
    }
}
