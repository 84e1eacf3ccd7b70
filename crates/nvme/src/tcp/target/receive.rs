//! Handles incoming PDUs: the handshake, commands, their data.
//!
//! Consequences of each mistake of the peer:
//!
//! | mistake                                                        | answer                                         |
//! |----------------------------------------------------------------|------------------------------------------------|
//! | impossible common header, header digest                        | TermReq as `pdu::rules` says                   |
//! | handshake: PFV; HPDA, DGST                                     | unsupported parameter; invalid field           |
//! | more commands than the queue has entries                       | sequence error                                 |
//! | identifier of an outstanding command                           | status Command ID Conflict                     |
//! | identifier of a command on hold                                | the one on hold is dropped                     |
//! | impossible SGL                                                 | status as `queue::plan` says                   |
//! | half of a fused operation without the other directly before or | status Missing Fused Command                   |
//! | after it                                                       |                                                |
//! | H2CData: unknown tag; identifier that is not the tag's         | invalid field at TTAG; at CCCID                |
//! | H2CData: DATAL differs from the data, or exceeds MAXH2CDATA    | invalid field at DATAL; limit exceeded         |
//! | H2CData: beyond the transfer; not the next bytes; LAST wrong   | out of range; sequence error                   |
//! | data digest                                                    | status Transient Transport Error, after all    |
//! |                                                                | data of the command has arrived                |

use super::transmit::Control;
use super::{Receiving, TargetConnection, TargetEvent};
use crate::buffer::{Buffer, BufferSource, BufferUse};
use crate::queue::{Admitted, Queue};
use crate::spec::Sqe;
use crate::tcp::Fatal;
use crate::tcp::pdu::ic::{self, alignment_from_wire};
use crate::tcp::pdu::transfer::{OFFSET_CCCID, OFFSET_LENGTH, OFFSET_TTAG};
use crate::tcp::pdu::{
    CapsuleCmd, Digests, Framing, H2cData, IcReq, IcResp, Layout, PduType, Rules, Step, TermReq, Violation,
};

impl<B: Buffer> TargetConnection<B> {
    /// Takes received bytes and appends the resulting events to `events`. Returns how many bytes were taken.
    /// If fewer than given, the connection is `paused`: pass in the rest again when the reason has ended.
    pub fn on_bytes<S: BufferSource<Buffer = B>>(
        &mut self,
        bytes: &[u8],
        source: &mut S,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Result<usize, Fatal> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        let mut input = bytes;
        match self.receive(&mut input, source, events) {
            Ok(()) => Ok(bytes.len() - input.len()),
            Err(fatal) => Err(self.end(fatal)),
        }
    }

    /// The place of the next bytes if they are the rest of a payload: empty if they have to pass through
    /// `on_bytes`. The caller may receive them there, all or some, and must then call `on_placed` before
    /// anything else.
    pub fn place(&mut self) -> &mut [u8] {
        let left = self.reader.payload_left();
        let place = match &mut self.receiving {
            Receiving::InCapsule { buffer, filled } => &mut buffer.bytes_mut()[*filled..],
            Receiving::Transfer(number) => self.queue.transfer(*number).expect("its data arrives").place(),
            Receiving::Nothing | Receiving::Unbuffered { .. } | Receiving::Discarded => &mut [],
        };
        // A transfer that discards its data has no place.
        if self.fatal.is_some() || place.is_empty() { &mut [] } else { &mut place[..left] }
    }

    /// Takes the first `count` bytes of `place` as received. Appends the resulting events to `events`.
    pub fn on_placed(&mut self, count: usize, events: &mut Vec<TargetEvent<B>>) {
        match &mut self.receiving {
            Receiving::InCapsule { buffer, filled } => {
                self.reader.on_placed(&buffer.bytes()[*filled..*filled + count]);
                *filled += count;
            }
            Receiving::Transfer(number) => {
                let transfer = self.queue.transfer(*number).expect("its data arrives");
                self.reader.on_placed(transfer.advance(count));
            }
            Receiving::Nothing | Receiving::Unbuffered { .. } | Receiving::Discarded => {
                unreachable!("there was no place for {count} bytes")
            }
        }
        if self.reader.payload_left() == 0
            && let Ok(Some(Step::End { intact, .. })) = self.reader.next(&mut &[][..])
        {
            self.on_payload_end(intact, events);
        }
    }

    fn receive<S: BufferSource<Buffer = B>>(
        &mut self,
        input: &mut &[u8],
        source: &mut S,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Result<(), Fatal> {
        while !input.is_empty() {
            if let Receiving::Unbuffered { length, .. } = self.receiving {
                let Some(buffer) = source.take(length as usize, BufferUse::InCapsule) else {
                    self.receiving = Receiving::Unbuffered { length, starved: true };
                    return Ok(());
                };
                self.receiving = Receiving::InCapsule { buffer, filled: 0 };
            }
            if self.reader.at_boundary() && self.queue.is_congested() {
                return Ok(());
            }
            while let Some(step) = self.reader.next(input).map_err(Fatal::Violation)? {
                match step {
                    Step::Header(layout) => {
                        self.on_header(layout, source, events)?;
                        break;
                    }
                    Step::Payload(chunk) => self.receiving.take_in(&mut self.queue, chunk),
                    Step::End { intact, .. } => {
                        self.on_payload_end(intact, events);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn on_header<S: BufferSource<Buffer = B>>(
        &mut self,
        layout: Layout,
        source: &mut S,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Result<(), Fatal> {
        match layout.pdu_type {
            PduType::CapsuleCmd => self.on_command(layout, source, events),
            PduType::H2cData => self.on_data(layout),
            PduType::IcReq => self.on_handshake(events),
            PduType::H2cTermReq => {
                let (status, information) = self.reader.header::<TermReq>().reason();
                return Err(Fatal::Terminated { status, information });
            }
            other => unreachable!("the rules let no {other:?} through to a controller"),
        }
        .map_err(Fatal::Violation)
    }

    fn on_handshake(&mut self, events: &mut Vec<TargetEvent<B>>) -> Result<(), Violation> {
        let request: &IcReq = self.reader.header();
        if request.pfv.get() != ic::PDU_FORMAT_VERSION {
            return Err(Violation::parameter(ic::OFFSET_PFV));
        }
        if request.hpda > ic::ALIGNMENT_FIELD_MAX {
            return Err(Violation::field(ic::OFFSET_ALIGNMENT));
        }
        let digests = Digests::from_wire(request.dgst).ok_or(Violation::field(ic::OFFSET_DGST))?;
        self.framing = Framing { digests, alignment: alignment_from_wire(request.hpda) };
        self.reader.set_rules(Rules {
            handshake: false,
            digests,
            alignment: alignment_from_wire(self.limits.cpda),
            ..*self.reader.rules()
        });
        let response = IcResp::new(self.limits.cpda, digests.to_wire(), self.limits.maxh2cdata);
        self.control = Some(Control::IcResp(Box::new(response)));
        events.push(TargetEvent::Initialized);
        Ok(())
    }

    fn on_command<S: BufferSource<Buffer = B>>(
        &mut self,
        layout: Layout,
        source: &mut S,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Result<(), Violation> {
        let sqe: Sqe = self.reader.header::<CapsuleCmd>().sqe;
        if self.queue.is_full() {
            return Err(Violation::SEQUENCE);
        }
        match self.queue.admit(sqe, layout.data_length, source, events) {
            Admitted::Whole => {}
            Admitted::DataFollows(length) => {
                self.receiving = Receiving::Unbuffered { length, starved: false };
            }
            Admitted::Refused if layout.data_length > 0 => self.receiving = Receiving::Discarded,
            Admitted::Refused => {}
        }
        Ok(())
    }

    fn on_data(&mut self, layout: Layout) -> Result<(), Violation> {
        let data: H2cData = *self.reader.header();
        let number = data.ttag.get();
        let transfer = self.queue.transfer(number).filter(|transfer| transfer.is_open());
        let transfer = transfer.ok_or(Violation::field(OFFSET_TTAG))?;
        if data.cccid.get() != transfer.sqe().cid() {
            return Err(Violation::field(OFFSET_CCCID));
        }
        let length = data.datal.get();
        if length != layout.data_length {
            return Err(Violation::field(OFFSET_LENGTH));
        }
        if length > self.limits.maxh2cdata {
            return Err(Violation::LIMIT);
        }
        let offset = data.datao.get();
        let end = offset.checked_add(length).filter(|end| *end <= transfer.length());
        let end = end.ok_or(Violation::OUT_OF_RANGE)?;
        if offset != transfer.received() || layout.last() != (end == transfer.length()) {
            return Err(Violation::SEQUENCE);
        }
        self.receiving = Receiving::Transfer(number);
        Ok(())
    }

    fn on_payload_end(&mut self, intact: bool, events: &mut Vec<TargetEvent<B>>) {
        match core::mem::replace(&mut self.receiving, Receiving::Nothing) {
            Receiving::InCapsule { buffer, .. } => {
                let sqe = self.reader.header::<CapsuleCmd>().sqe;
                self.queue.on_capsule_data(sqe, buffer, intact, events);
            }
            Receiving::Transfer(number) => self.queue.on_transfer_data(number, intact, events),
            Receiving::Discarded => {}
            Receiving::Nothing | Receiving::Unbuffered { .. } => {
                unreachable!("a payload ended but never started")
            }
        }
    }
}

impl<B: Buffer> Receiving<B> {
    /// Copies the next bytes of the payload into their buffer.
    fn take_in(&mut self, queue: &mut Queue<B, ()>, chunk: &[u8]) {
        match self {
            Receiving::InCapsule { buffer, filled } => {
                buffer.bytes_mut()[*filled..*filled + chunk.len()].copy_from_slice(chunk);
                *filled += chunk.len();
            }
            Receiving::Transfer(number) => {
                let transfer = queue.transfer(*number).expect("its data arrives");
                if let Some(place) = transfer.place().get_mut(..chunk.len()) {
                    place.copy_from_slice(chunk);
                }
                transfer.advance(chunk.len());
            }
            Receiving::Discarded => {}
            Receiving::Nothing | Receiving::Unbuffered { .. } => {
                unreachable!("payload that belongs to no command")
            }
        }
    }
}
