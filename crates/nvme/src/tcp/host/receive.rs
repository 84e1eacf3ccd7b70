//! Handles incoming PDUs: the handshake, data, R2T, completions.
//!
//! Consequences of each violation by the controller:
//!
//! | violation                                                   | TermReq                                     |
//! |-------------------------------------------------------------|---------------------------------------------|
//! | impossible common header, header digest                     | as `pdu::rules` says                        |
//! | handshake: PFV; CPDA, DGST not requested, MAXH2CDATA        | unsupported parameter; invalid field        |
//! | identifier of no command that was sent, or of one whose     | invalid field at the identifier             |
//! | data goes the other way                                     |                                             |
//! | data: DATAL differs from the data received                  | invalid field at DATAL                      |
//! | data or R2T: beyond the length of the command               | out of range                                |
//! | data or R2T: not the next bytes; data after LAST            | sequence error                              |
//! | R2T: for nothing; while another is not served               | invalid field at R2TL; R2T limit exceeded   |
//!
//! A data digest that does not match fails the command, not the connection.

use super::transmit::Outbound;
use super::{Command, Flow, HostConnection, HostEvent};
use crate::buffer::Buffer;
use crate::spec::{Cqe, Status};
use crate::tcp::Fatal;
use crate::tcp::pdu::capsule::OFFSET_RESPONSE_CID;
use crate::tcp::pdu::ic::{self, alignment_from_wire};
use crate::tcp::pdu::transfer::{OFFSET_CCCID, OFFSET_LENGTH};
use crate::tcp::pdu::{
    C2hData, CapsuleResp, Digests, Framing, IcResp, Layout, PduType, R2t, Rules, Step, TermReq, Violation,
};

/// MAXH2CDATA must be a multiple of this.
const MAXH2CDATA_UNIT: u32 = 4;

impl<B: Buffer> HostConnection<B> {
    /// Takes received bytes and appends the resulting events to `events`.
    pub fn on_bytes(&mut self, bytes: &[u8], events: &mut Vec<HostEvent<B>>) -> Result<(), Fatal> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        let mut input = bytes;
        self.receive(&mut input, events).map_err(|fatal| self.end(fatal))
    }

    fn receive(&mut self, input: &mut &[u8], events: &mut Vec<HostEvent<B>>) -> Result<(), Fatal> {
        while let Some(step) = self.reader.next(input).map_err(Fatal::Violation)? {
            match step {
                Step::Header(layout) => self.on_header(layout, events)?,
                Step::Payload(chunk) => self.on_payload(chunk),
                Step::End { layout, intact } => self.on_payload_end(layout, intact, events),
            }
        }
        Ok(())
    }

    fn on_header(&mut self, layout: Layout, events: &mut Vec<HostEvent<B>>) -> Result<(), Fatal> {
        match layout.pdu_type {
            PduType::C2hData => self.on_data(layout),
            PduType::CapsuleResp => self.on_response(events),
            PduType::R2t => self.on_r2t(),
            PduType::IcResp => self.on_handshake(events),
            PduType::C2hTermReq => {
                let (status, information) = self.reader.header::<TermReq>().reason();
                return Err(Fatal::Terminated { status, information });
            }
            other => unreachable!("the rules let no {other:?} through to a host"),
        }
        .map_err(Fatal::Violation)
    }

    fn on_handshake(&mut self, events: &mut Vec<HostEvent<B>>) -> Result<(), Violation> {
        let response: &IcResp = self.reader.header();
        if response.pfv.get() != ic::PDU_FORMAT_VERSION {
            return Err(Violation::parameter(ic::OFFSET_PFV));
        }
        if response.cpda > ic::ALIGNMENT_FIELD_MAX {
            return Err(Violation::field(ic::OFFSET_ALIGNMENT));
        }
        let asked = self.options.digests;
        let digests = Digests::from_wire(response.dgst)
            .filter(|granted| (asked.header || !granted.header) && (asked.data || !granted.data))
            .ok_or(Violation::field(ic::OFFSET_DGST))?;
        let maxh2cdata = response.maxh2cdata.get();
        if maxh2cdata < ic::MAXH2CDATA_MIN || !maxh2cdata.is_multiple_of(MAXH2CDATA_UNIT) {
            return Err(Violation::field(ic::OFFSET_MAXH2CDATA));
        }
        self.framing = Framing { digests, alignment: alignment_from_wire(response.cpda) };
        self.maxh2cdata = maxh2cdata;
        self.ready = true;
        self.reader.set_rules(Rules { handshake: false, digests, ..*self.reader.rules() });
        events.push(HostEvent::Initialized { digests, maxh2cdata });
        Ok(())
    }

    /// The command with this identifier, if its capsule was sent.
    fn sent_command(&mut self, cid: u16) -> Option<(u16, &mut Command<B>)> {
        let number = self.numbers.get(cid)?;
        let command = self.commands.at(number);
        command.sent.then_some((number, command))
    }

    fn on_data(&mut self, layout: Layout) -> Result<(), Violation> {
        let data: C2hData = *self.reader.header();
        let (number, command) = self
            .sent_command(data.cccid.get())
            .filter(|(_, command)| command.flow == Flow::Incoming)
            .ok_or(Violation::field(OFFSET_CCCID))?;
        let length = data.datal.get();
        if length != layout.data_length {
            return Err(Violation::field(OFFSET_LENGTH));
        }
        let offset = data.datao.get();
        offset.checked_add(length).filter(|end| *end <= command.length).ok_or(Violation::OUT_OF_RANGE)?;
        if offset != command.moved || command.ended {
            return Err(Violation::SEQUENCE);
        }
        command.ended = layout.last();
        self.receiving = Some(number);
        Ok(())
    }

    fn on_payload(&mut self, chunk: &[u8]) {
        let number = self.receiving.expect("payload follows the header of some command's data");
        let command = self.commands.at(number);
        let from = command.moved as usize;
        let buffer = command.buffer.as_mut().expect("the buffer for incoming data stays until completion");
        buffer.bytes_mut()[from..from + chunk.len()].copy_from_slice(chunk);
        command.moved += chunk.len() as u32;
    }

    fn on_payload_end(&mut self, layout: Layout, intact: bool, events: &mut Vec<HostEvent<B>>) {
        let number = self.receiving.take().expect("payload follows the header of some command's data");
        let command = self.commands.at(number);
        command.corrupt |= !intact;
        if layout.success() {
            let cqe = Cqe::success(command.sqe.cid()).with_sqhd(self.sqhd);
            self.complete(number, cqe, events);
        }
    }

    fn on_response(&mut self, events: &mut Vec<HostEvent<B>>) -> Result<(), Violation> {
        let cqe = self.reader.header::<CapsuleResp>().cqe;
        let (number, _) = self.sent_command(cqe.cid()).ok_or(Violation::field(OFFSET_RESPONSE_CID))?;
        self.sqhd = cqe.sqhd();
        self.complete(number, cqe, events);
        Ok(())
    }

    fn complete(&mut self, number: u16, cqe: Cqe, events: &mut Vec<HostEvent<B>>) {
        let command = self.commands.remove(number);
        self.numbers.remove(cqe.cid());
        if command.flow == Flow::Solicited && command.moved < command.asked {
            // The controller completed the command before it received all data that it had requested.
            self.transmit
                .retain(|outbound| !matches!(outbound, Outbound::Data(waiting) if *waiting == number));
        }
        let received = if command.flow == Flow::Incoming { command.moved } else { 0 };
        let cqe = if command.corrupt {
            Cqe::new(cqe.cid(), Status::TRANSIENT_TRANSPORT_ERROR).with_sqhd(cqe.sqhd())
        } else {
            cqe
        };
        events.push(HostEvent::Completed { cqe, data: command.buffer, received });
    }

    fn on_r2t(&mut self) -> Result<(), Violation> {
        let r2t: R2t = *self.reader.header();
        let (number, command) = self
            .sent_command(r2t.cccid.get())
            .filter(|(_, command)| command.flow == Flow::Solicited)
            .ok_or(Violation::field(OFFSET_CCCID))?;
        let (offset, length) = (r2t.r2to.get(), r2t.r2tl.get());
        if length == 0 {
            return Err(Violation::field(OFFSET_LENGTH));
        }
        let end = offset.checked_add(length).filter(|end| *end <= command.length);
        let end = end.ok_or(Violation::OUT_OF_RANGE)?;
        if command.moved < command.asked {
            return Err(Violation::LIMIT);
        }
        if offset != command.moved {
            return Err(Violation::SEQUENCE);
        }
        command.asked = end;
        command.ttag = r2t.ttag.get();
        self.transmit.push_back(Outbound::Data(number));
        Ok(())
    }
}
