//! The controller's end of a connection, facing a host that may do anything: valid PDUs, valid PDUs with
//! impossible parameters, and random bytes; late answers, a lack of buffers, a socket that accepts nothing.
//!
//! A second reader parses the same bytes, so that the test knows which commands the target has accepted.
//!
//! Holds: the target sends nothing that violates the protocol; every command is either answered once or
//!        outstanding, never both; no command is passed on twice, fused commands are passed on together, and R2Ts
//!        request the announced data, once; the outstanding and parked commands, the PDUs waiting to be sent and the
//!        buffers in use are bounded by the queue size; after a fatal error the target sends one TermReq or nothing,
//!        and all buffers are returned.

use crate::input::Input;
use crate::pool::{Counted, Live, Pool};
use crate::wire::{Listener, Seen, Wire, encode};
use nvme::buffer::Buffer;
use nvme::queue::{Cancel, FlowControl, TargetEvent};
use nvme::spec::opcode::admin;
use nvme::spec::sqe::{FLAGS_FUSE_FIRST, FLAGS_FUSE_MASK, FLAGS_FUSE_SECOND, FLAGS_PSDT_SGL, OPCODE_FABRICS};
use nvme::spec::{Cqe, Direction, Sgl, Sqe, Status};
use nvme::tcp::pdu::common::FLAG_LAST;
use nvme::tcp::pdu::ic::alignment_from_wire;
use nvme::tcp::pdu::term::{TermReqImage, Violation};
use nvme::tcp::pdu::{
    C2hData, CapsuleCmd, CapsuleResp, Digests, End, Framing, H2cData, IcReq, PduReader, PduType, R2t, Rules,
    Step,
};
use nvme::tcp::{Fatal, TargetConnection, TargetLimits};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Queue size of the target until Connect sets it.
const ENTRIES_BEFORE_CONNECT: u32 = 8;
/// Answers that may wait beyond twice the queue size: the handshake, refusals, the TermReq.
const TRANSMIT_SLACK: usize = 24;
const IN_CAPSULE_MAX: u32 = 1024;
const TRANSFER_MAX: u32 = 16384;
const MAXH2CDATA: u32 = 4096;
/// Few identifiers, so that commands often have the same one.
const CIDS: u32 = 6;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut session = Session::new(&mut input);
    while !input.is_empty() && session.target.fatal().is_none() {
        session.step(&mut input);
        session.check_bounds();
    }
    session.settle();
    if let Some(fatal) = session.target.fatal() {
        session.check_end(fatal);
    }
    session.take_apart();
}

/// A write whose data the target has requested.
#[derive(Clone, Copy, Debug)]
struct Asked {
    cid: u16,
    length: u32,
    sent: u32,
}

/// Takes a command that was passed on. It must be complete and its identifier unused.
fn deliver(
    target: &mut TargetConnection<Counted>,
    delivered: &mut Vec<Sqe>,
    sqe: Sqe,
    data: Option<&Counted>,
) {
    let twice = delivered.iter().any(|other| other.cid() == sqe.cid());
    assert!(!twice, "{sqe:?} was passed on while its identifier is in use");
    let length = data.map_or(0, |data| data.bytes().len());
    let sends = sqe.direction() == Direction::ToController && sqe.sgl_length() > 0;
    assert!(length >= if sends { sqe.sgl_length() as usize } else { 0 }, "{sqe:?} with {length} bytes");
    if is_held(&sqe) {
        target.hold(sqe.cid());
    }
    delivered.push(sqe);
}

/// Whether the layer above holds this command until an event occurs.
fn is_held(sqe: &Sqe) -> bool {
    sqe.opcode() == admin::ASYNC_EVENT_REQUEST
}

struct Session {
    target: TargetConnection<Counted>,
    limits: TargetLimits,
    pool: Pool,
    entries: u32,
    framing: Framing,
    /// Parses the bytes sent to the target.
    shadow: PduReader,
    /// Parses what the target sends.
    listener: Listener,
    /// Sent, and not consumed by the target yet.
    unparsed: Vec<u8>,
    /// Whether what belongs to a payload is placed, at the next turn.
    places: bool,
    events: Vec<TargetEvent<Counted>>,
    /// Passed on and not answered.
    delivered: Vec<Sqe>,
    asked: BTreeMap<u16, Asked>,
    capsules: usize,
    answers: usize,
    given_up: usize,
    last_sqe: Option<Sqe>,
}

impl Session {
    fn new(input: &mut Input<'_>) -> Session {
        let digests = Digests { header: input.flag(), data: input.flag() };
        let limits = TargetLimits {
            in_capsule_max: IN_CAPSULE_MAX,
            transfer_max: TRANSFER_MAX,
            maxh2cdata: MAXH2CDATA,
            cpda: input.pick(&[0, 0, 3, 31]),
        };
        let rules = |receiver, alignment, in_capsule_max| Rules {
            receiver,
            handshake: true,
            digests: Digests::default(),
            alignment,
            in_capsule_max,
        };
        let mut session = Session {
            target: TargetConnection::new(limits),
            limits,
            pool: Pool { left: 4, live: Rc::new(Live::default()), length_max: TRANSFER_MAX as usize },
            entries: ENTRIES_BEFORE_CONNECT,
            framing: Framing { digests, alignment: alignment_from_wire(limits.cpda) },
            shadow: PduReader::new(rules(End::Controller, alignment_from_wire(0), IN_CAPSULE_MAX)),
            listener: Listener::new(rules(End::Host, alignment_from_wire(0), 0)),
            unparsed: Vec::new(),
            places: false,
            events: Vec::new(),
            delivered: Vec::new(),
            asked: BTreeMap::new(),
            capsules: 0,
            answers: 0,
            given_up: 0,
            last_sqe: None,
        };
        session.target.set_success_without_response(input.flag());
        if input.flag() {
            session.target.allow_fused();
        }
        if !input.one_in(8) {
            let hello = encode(&Framing::HANDSHAKE, IcReq::new(0, digests.to_wire(), 0), 0, &[]);
            session.send(&hello);
        }
        session
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=4 => {
                let bytes = self.command(input);
                self.send_corrupt(bytes, input);
            }
            5..=7 => {
                let bytes = self.data(input);
                self.send_corrupt(bytes, input);
            }
            8 => {
                let length = input.byte();
                let noise = input.bytes(usize::from(length));
                self.send(&noise);
            }
            9 => {
                let bytes = match input.below(3) {
                    0 => encode(
                        &Framing::HANDSHAKE,
                        IcReq::new(input.byte(), input.byte(), input.word()),
                        0,
                        &[],
                    ),
                    1 => TermReqImage::new(End::Host, Violation::SEQUENCE, &input.bytes(24)).bytes().to_vec(),
                    _ => encode(&self.framing, CapsuleResp::new(Cqe::success(input.half())), 0, &[]),
                };
                self.send_corrupt(bytes, input);
            }
            10 | 11 => self.answer(input),
            12 => self.transmit(usize::from(input.byte())),
            13 => {
                self.pool.left = input.below(6) as usize;
                self.target.resume(&mut self.pool);
                self.send(&[]);
            }
            14 if input.flag() => self.forget(input),
            14 => self.cancel(input),
            _ => {
                let entries = input.pick(&[1, 2, 8, 33]);
                let flow = if input.flag() { FlowControl::Enabled } else { FlowControl::Disabled };
                self.target.set_queue(entries, flow);
                // The commands outstanding before may be more than the new size.
                self.entries = self.entries.max(entries);
            }
        }
    }

    /// A command, usually one that a real host could send.
    fn command(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let opcode = input.pick(&[
            0x00,
            0x01,
            0x02,
            0x01,
            0x02,
            0x05,
            0x06,
            admin::ASYNC_EVENT_REQUEST,
            OPCODE_FABRICS,
            0x83,
        ]);
        let mut sqe = Sqe::new(opcode).with_cid(input.below(CIDS) as u16).with_nsid(input.below(5));
        match input.below(16) {
            0 => sqe = sqe.with_flags(input.byte()),
            1 | 2 => sqe = sqe.with_flags(FLAGS_PSDT_SGL | FLAGS_FUSE_FIRST),
            3 | 4 => sqe = sqe.with_flags(FLAGS_PSDT_SGL | FLAGS_FUSE_SECOND),
            _ => {}
        }
        let length = input.pick(&[0, 16, 512, 1024, 4096, 9000, TRANSFER_MAX, TRANSFER_MAX + 1]);
        let in_capsule = length <= IN_CAPSULE_MAX && input.flag();
        let sgl = match input.below(16) {
            0 => Sgl::Other(input.byte()),
            1 => Sgl::InCapsule { offset: u64::from(input.byte()), length },
            2 => Sgl::InCapsule { offset: 0, length: length ^ u32::from(input.byte()) },
            _ if in_capsule => Sgl::InCapsule { offset: 0, length },
            _ => Sgl::Transport { length },
        };
        let sqe = sqe.with_sgl(sgl);
        self.last_sqe = Some(sqe);
        let data = if in_capsule { vec![input.byte(); length as usize] } else { Vec::new() };
        encode(&self.framing, CapsuleCmd::new(sqe), 0, &data)
    }

    /// The next data of a write, as requested, or similar data.
    fn data(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let tags: Vec<u16> = self.asked.keys().copied().collect();
        let mut ttag =
            if tags.is_empty() { input.half() } else { tags[input.below(tags.len() as u32) as usize] };
        let asked = self.asked.get(&ttag).copied().unwrap_or(Asked { cid: 0, length: 64, sent: 0 });
        let left = asked.length.saturating_sub(asked.sent);
        let (mut cid, mut offset) = (asked.cid, asked.sent);
        let mut length = left.min(input.pick(&[MAXH2CDATA, MAXH2CDATA, 512, 1])).max(1);
        let mut flags = if length == left { FLAG_LAST } else { 0 };
        let announced = match input.below(24) {
            0 => {
                cid = input.half();
                length
            }
            1 => {
                offset = offset.wrapping_add(input.word());
                length
            }
            2 => {
                flags ^= FLAG_LAST;
                length
            }
            3 => {
                ttag = input.half();
                length
            }
            4 => {
                length = left + 1;
                length
            }
            5 => length.wrapping_add(u32::from(input.byte())),
            6 => {
                length = MAXH2CDATA + 4;
                length
            }
            _ => length,
        };
        if let Some(asked) = self.asked.get_mut(&ttag) {
            asked.sent = asked.sent.saturating_add(length);
            if asked.sent >= asked.length {
                self.asked.remove(&ttag);
            }
        }
        let data = vec![input.byte(); length as usize];
        encode(&self.framing, H2cData::new(cid, ttag, offset, announced), flags, &data)
    }

    fn send_corrupt(&mut self, mut bytes: Vec<u8>, input: &mut Input<'_>) {
        if input.one_in(12) {
            let at = input.below(bytes.len() as u32) as usize;
            bytes[at] ^= input.byte();
        }
        let piece = input.pick(&[usize::MAX, usize::MAX, 1000, 71, 1]);
        for piece in bytes.chunks(piece) {
            self.send(piece);
        }
    }

    /// Offers `bytes` after those that were not consumed yet.
    fn send(&mut self, bytes: &[u8]) {
        self.unparsed.extend_from_slice(bytes);
        let before = self.target.fatal();
        self.places = !self.places;
        if self.places {
            self.place();
        }
        let result = self.target.on_bytes(&self.unparsed, &mut self.pool, &mut self.events);
        for event in self.events.drain(..) {
            match event {
                TargetEvent::Initialized => {
                    let digests = self.target.digests();
                    assert_eq!(digests, Digests::from_wire(digests.to_wire()).expect("two bits"));
                }
                // The transport has answered by itself; the answer is counted when it is sent.
                TargetEvent::Refused { .. } => {}
                TargetEvent::GivenUp { cid } => {
                    let held = self.delivered.iter().position(|sqe| sqe.cid() == cid && is_held(sqe));
                    self.delivered.swap_remove(held.expect("a held command is given up"));
                    self.given_up += 1;
                }
                TargetEvent::Command { sqe, data } => {
                    deliver(&mut self.target, &mut self.delivered, sqe, data.as_ref());
                }
                TargetEvent::Fused { halves } => {
                    let [(first, _), (second, _)] = &*halves;
                    let fuse = [first, second].map(|sqe| sqe.flags() & FLAGS_FUSE_MASK);
                    assert_eq!(fuse, [FLAGS_FUSE_FIRST, FLAGS_FUSE_SECOND]);
                    for (sqe, data) in &*halves {
                        deliver(&mut self.target, &mut self.delivered, *sqe, data.as_ref());
                    }
                }
            }
        }
        self.target.take_discarded(drop);
        match result {
            Ok(taken) => {
                assert!(taken <= self.unparsed.len());
                if taken < self.unparsed.len() {
                    assert!(self.target.paused().is_some(), "{taken} of {} bytes taken", self.unparsed.len());
                }
                let taken: Vec<u8> = self.unparsed.drain(..taken).collect();
                self.read_along(&taken);
            }
            Err(fatal) => {
                assert!(before.is_none_or(|before| before == fatal));
                assert_eq!(self.target.fatal(), Some(fatal));
                self.unparsed.clear();
            }
        }
    }

    /// Puts what belongs to a payload where it belongs.
    fn place(&mut self) {
        let place = self.target.place();
        let count = place.len().min(self.unparsed.len());
        if count > 0 {
            place[..count].copy_from_slice(&self.unparsed[..count]);
            self.target.on_placed(count, &mut self.events);
            let placed: Vec<u8> = self.unparsed.drain(..count).collect();
            self.read_along(&placed);
        }
    }

    /// Counts the capsules in what the target has consumed. The target found no violation, so this reader
    /// must not find one.
    fn read_along(&mut self, mut bytes: &[u8]) {
        while let Some(step) = self.shadow.next(&mut bytes).expect("the target found no violation") {
            let Step::Header(layout) = step else { continue };
            match layout.pdu_type {
                PduType::CapsuleCmd => self.capsules += 1,
                PduType::IcReq => {
                    let request: &IcReq = self.shadow.header();
                    let digests = Digests::from_wire(request.dgst).expect("the target agreed");
                    let rules = Rules { handshake: false, digests, ..*self.shadow.rules() };
                    self.shadow.set_rules(Rules { alignment: self.framing.alignment, ..rules });
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        if self.delivered.is_empty() {
            return;
        }
        let sqe = self.delivered.swap_remove(input.below(self.delivered.len() as u32) as usize);
        let result = if input.one_in(4) { input.word() } else { 0 };
        self.answer_one(&sqe, result, input.below(4));
    }

    fn answer_one(&mut self, sqe: &Sqe, result: u32, how: u32) {
        let cqe = Cqe::success(sqe.cid()).with_dw0(result);
        let reads =
            sqe.direction() == Direction::FromController && matches!(sqe.sgl(), Sgl::Transport { .. });
        if how == 0 || !reads {
            return self.target.reply(cqe);
        }
        let length = sqe.sgl_length();
        let buffer = Counted::new(vec![0x5a; length as usize], &self.pool.live);
        match how {
            1 => self.target.reply_with_data(Cqe::new(sqe.cid(), Status::INVALID_FIELD), buffer, length),
            2 => self.target.reply_with_data(cqe, buffer, length / 2),
            _ => self.target.reply_with_data(cqe, buffer, length),
        }
    }

    /// Forgets an event request, as a reset does.
    fn forget(&mut self, input: &mut Input<'_>) {
        let cid = input.below(CIDS) as u16;
        let held = self.delivered.iter().position(|sqe| sqe.cid() == cid && is_held(sqe));
        assert_eq!(self.target.forget(cid), held.is_some(), "{cid:#x}");
        if let Some(at) = held {
            self.delivered.swap_remove(at);
            self.given_up += 1;
        }
    }

    fn cancel(&mut self, input: &mut Input<'_>) {
        let cid = input.below(CIDS) as u16;
        let before = self.target.outstanding();
        let cancel = self.target.cancel(cid, Status::ABORT_REQUESTED);
        self.target.take_discarded(drop);
        let is_delivered = self.delivered.iter().any(|sqe| sqe.cid() == cid);
        match cancel {
            // The other half of a fused pair may be answered with it.
            Cancel::Answered => {
                assert!((before.saturating_sub(2)..before).contains(&self.target.outstanding()))
            }
            Cancel::Draining | Cancel::Unknown => assert!(!is_delivered),
            Cancel::Delivered => {}
        }
    }

    /// Sends up to `room` parts of PDUs and checks them.
    fn transmit(&mut self, room: usize) {
        let mut wire = Wire::with_room(room);
        self.target.poll_transmit(&mut wire);
        for seen in self.listener.hear(&wire.bytes) {
            self.on_sent(&seen);
        }
        if self.target.transmit_pending() == 0 && self.target.fatal().is_none() {
            assert_eq!(
                self.capsules,
                self.answers + self.given_up + self.target.outstanding(),
                "commands received = answered + given up + outstanding"
            );
        }
    }

    fn on_sent(&mut self, seen: &Seen) {
        assert!(seen.intact, "{seen:?}");
        match seen.layout.pdu_type {
            PduType::IcResp => {}
            PduType::CapsuleResp => self.answers += 1,
            PduType::C2hData => {
                let header: C2hData = seen.header_as();
                assert_eq!((header.datao.get(), header.datal.get() as usize), (0, seen.data.len()));
                assert!(seen.data.len() <= TRANSFER_MAX as usize && seen.layout.last());
                self.answers += usize::from(seen.layout.success());
            }
            PduType::R2t => {
                let r2t: R2t = seen.header_as();
                assert_eq!(r2t.r2to.get(), 0, "one R2T requests everything");
                assert!((1..=TRANSFER_MAX).contains(&r2t.r2tl.get()), "{r2t:?}");
                let asked = Asked { cid: r2t.cccid.get(), length: r2t.r2tl.get(), sent: 0 };
                self.asked.insert(r2t.ttag.get(), asked);
            }
            other => panic!("the target sent a {other:?} although there was no error"),
        }
    }

    fn check_bounds(&self) {
        let entries = self.entries as usize;
        let target = &self.target;
        assert!(target.outstanding() <= entries, "{} of {entries} commands", target.outstanding());
        assert!(target.parked() <= target.outstanding());
        let pending = target.transmit_pending();
        assert!(
            pending <= 2 * entries + TRANSMIT_SLACK,
            "{pending} PDUs wait to be sent, with {entries} entries"
        );
        let buffers = self.pool.live.buffers.get();
        assert!(buffers <= 2 * entries + TRANSMIT_SLACK, "{buffers} buffers, with {entries} entries");
        let most = (2 * entries + TRANSMIT_SLACK) as u64 * u64::from(TRANSFER_MAX);
        assert!(target.pending_bytes().get() <= most);
    }

    /// Without an error: with buffers, answers, data and a socket that accepts everything, every command is
    /// answered.
    fn settle(&mut self) {
        while self.target.fatal().is_none()
            && (self.target.outstanding() > 0 || self.target.transmit_pending() > 0)
        {
            let before =
                (self.answers, self.asked.len(), self.unparsed.len(), self.target.transmit_pending());
            self.pool.left = usize::MAX;
            self.target.resume(&mut self.pool);
            self.send(&[]);
            for sqe in std::mem::take(&mut self.delivered) {
                self.answer_one(&sqe, 0, 3);
            }
            if self.target.fatal().is_some() {
                return;
            }
            self.transmit(usize::MAX);
            // Here a host stops that has sent only a part of something; the target cannot answer that.
            let after = (self.answers, self.asked.len(), self.unparsed.len(), self.target.transmit_pending());
            if before == after && self.delivered.is_empty() {
                assert!(self.unparsed.is_empty(), "{} bytes are never consumed", self.unparsed.len());
                assert_eq!(self.target.parked(), 0);
                break;
            }
        }
    }

    /// After an error: the target sends one TermReq or nothing, whatever happens next.
    fn check_end(&mut self, fatal: Fatal) {
        for sqe in std::mem::take(&mut self.delivered) {
            self.answer_one(&sqe, 0, 3);
        }
        assert_eq!(self.target.on_bytes(&[4; 80], &mut self.pool, &mut self.events), Err(fatal));
        assert!(self.events.is_empty());
        let mut wire = Wire::with_room(usize::MAX);
        self.target.poll_transmit(&mut wire);
        let heard = self.listener.hear(&wire.bytes);
        match (fatal, &heard[..]) {
            (Fatal::Violation(_), [term]) => assert_eq!(term.layout.pdu_type, PduType::C2hTermReq),
            (Fatal::Terminated { .. }, []) => {}
            _ => panic!("{heard:?} after {fatal}"),
        }
        assert!(!self.target.poll_transmit(&mut wire), "the target sends more after the TermReq");
    }

    fn take_apart(self) {
        let Session { target, pool, delivered, limits, .. } = self;
        drop(delivered);
        let live = Rc::clone(&pool.live);
        let held = live.buffers.get();
        let mut given = 0;
        let mut buffers = Vec::new();
        target.into_buffers(|buffer| {
            given += 1;
            buffers.push(buffer);
        });
        assert_eq!(given, held, "buffers returned = buffers held, with {limits:?}");
        drop(buffers);
        assert_eq!(live.buffers.get(), 0);
    }
}
