//! Writes the PDUs that wait to be sent.
//!
//! A read is answered with one C2HData PDU. Its payload is moved, not copied; a plain success is a flag in
//! it. If a reply is longer than its buffer, zeroes follow: a mostly empty page of a megabyte costs no more
//! memory than its contents.
//!
//! Holds: a reply that is longer than its buffer reads as if zeroes had been stored, digests included
//!        (`a_reply_that_ends_early_reads_as_zeroes` in `tests/transport/buffers.rs`).

use super::TargetConnection;
use crate::buffer::{Buffer, Outgoing};
use crate::queue::Outbound;
use crate::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use crate::tcp::pdu::term::TermReqImage;
use crate::tcp::pdu::{C2hData, CapsuleResp, Framing, IcResp, R2t};

/// A PDU that belongs to no command.
#[derive(Debug)]
pub(super) enum Control {
    /// The answer to the handshake: the first PDU.
    IcResp(Box<IcResp>),
    /// The last PDU of a connection.
    TermReq(Box<TermReqImage>),
}

impl<B: Buffer> TargetConnection<B> {
    /// Writes as many waiting PDUs as there is room for. Returns whether it wrote any.
    pub fn poll_transmit(&mut self, out: &mut impl Outgoing<B>) -> bool {
        let before = self.transmit_pending();
        if self.control.is_some() && out.room() {
            match self.control.take() {
                Some(Control::IcResp(response)) => Framing::HANDSHAKE.header(out, *response, 0, 0),
                Some(Control::TermReq(image)) => out.header(image.bytes()),
                None => {}
            }
        }
        while out.room() {
            let Some(outbound) = self.queue.pop_outbound() else { break };
            self.write(outbound, out);
        }
        self.transmit_pending() < before
    }

    fn write(&mut self, outbound: Outbound<B, ()>, out: &mut impl Outgoing<B>) {
        match outbound {
            Outbound::Response { cqe, .. } => self.framing.header(out, CapsuleResp::new(cqe), 0, 0),
            Outbound::Data { cqe, buffer, length, alone, .. } => {
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
            Outbound::Fetch(number) => {
                let (cid, length) = self.queue.on_fetch_sent(number, self.now);
                self.framing.header(out, R2t::new(cid, number, 0, length), 0, 0);
            }
        }
    }
}
