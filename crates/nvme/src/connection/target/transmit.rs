//! Writes the PDUs that wait to be sent.
//!
//! A read is answered with one C2HData PDU. Its payload is moved, not copied; a plain success is a flag in
//! it. If a reply is longer than its buffer, zeroes follow: a mostly empty page of a megabyte costs no more
//! memory than its contents.
//!
//! Holds: a reply that is longer than its buffer reads as if zeroes had been stored, digests included
//!        (`a_reply_that_ends_early_reads_as_zeroes` in `tests/transport/buffers.rs`).

use super::{Stage, TargetConnection};
use crate::buffer::{Buffer, Outgoing};
use crate::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use crate::pdu::term::TermReqImage;
use crate::pdu::{C2hData, CapsuleResp, Framing, IcResp, R2t};
use crate::spec::Cqe;

/// Something that waits to be sent.
#[derive(Debug)]
pub(super) enum Outbound<B> {
    /// A response capsule.
    Response(Cqe),
    /// Read data, then a response capsule unless `alone`.
    Data { cqe: Cqe, buffer: B, length: u32, alone: bool },
    /// R2T for the transfer with this number.
    R2t(u16),
    /// The answer to the handshake.
    IcResp(Box<IcResp>),
    /// The last PDU of a connection.
    TermReq(Box<TermReqImage>),
}

impl<B: Buffer> TargetConnection<B> {
    /// Writes as many waiting PDUs as there is room for. Returns whether it wrote any.
    pub fn poll_transmit(&mut self, out: &mut impl Outgoing<B>) -> bool {
        let before = self.transmit.len();
        while out.room() {
            let Some(outbound) = self.transmit.pop_front() else { break };
            self.write(outbound, out);
        }
        self.transmit.len() < before
    }

    fn write(&mut self, outbound: Outbound<B>, out: &mut impl Outgoing<B>) {
        match outbound {
            Outbound::Response(cqe) => self.framing.header(out, CapsuleResp::new(cqe), 0, 0),
            Outbound::Data { cqe, buffer, length, alone } => {
                let flags = if alone { FLAG_LAST | FLAG_SUCCESS } else { FLAG_LAST };
                self.framing.header(out, C2hData::new(cqe.cid(), 0, length), flags, length);
                let length = length as usize;
                let held = buffer.bytes().len().min(length);
                let digest = self.framing.filled_digest(&buffer.bytes()[..held], length);
                out.payload(buffer, 0..held);
                out.zeroes(length - held);
                if let Some(digest) = digest {
                    out.header(&digest);
                }
                if !alone {
                    self.framing.header(out, CapsuleResp::new(cqe), 0, 0);
                }
            }
            Outbound::R2t(number) => {
                let transfer = self.transfers.at(number);
                transfer.stage = Stage::Open;
                transfer.asked_at = self.now;
                let r2t = R2t::new(transfer.sqe.cid(), number, 0, transfer.length);
                self.framing.header(out, r2t, 0, 0);
            }
            Outbound::IcResp(response) => Framing::HANDSHAKE.header(out, *response, 0, 0),
            Outbound::TermReq(image) => out.header(image.bytes()),
        }
    }
}
