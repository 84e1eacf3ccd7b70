//! The host's end of a connection, facing a controller that may do anything.
//!
//! Holds: what the host sends follows the protocol, and its data is the data submitted, at the offset that
//!        the R2T requested; every command completes once or is returned, with no more data than its buffer holds;
//!        the number of outstanding commands and of PDUs waiting to be sent is bounded by the queue size; after a
//!        fatal error the host sends one TermReq or nothing, and accepts nothing more.

use crate::input::Input;
use crate::pool::{Counted, Live};
use crate::wire::{Listener, Seen, Wire, encode};
use nvme::buffer::Buffer;
use nvme::spec::opcode::nvm;
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use nvme::tcp::pdu::common::{FLAG_LAST, FLAG_SUCCESS};
use nvme::tcp::pdu::ic::alignment_from_wire;
use nvme::tcp::pdu::term::{TermReqImage, Violation};
use nvme::tcp::pdu::{
    C2hData, CapsuleCmd, CapsuleResp, Digests, End, Framing, H2cData, IcResp, PduType, R2t, Rules,
};
use nvme::tcp::{Fatal, HostConnection, HostEvent, HostOptions, Refusal, Transfer};
use std::collections::BTreeMap;
use std::rc::Rc;

const COMMANDS_MAX: u16 = 5;
const CIDS: u32 = 7;
const IN_CAPSULE_MAX: u32 = 600;
const LENGTH_MAX: u32 = 9000;

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut session = Session::new(&mut input);
    while !input.is_empty() && session.host.fatal().is_none() {
        session.step(&mut input);
        session.check_bounds();
    }
    if let Some(fatal) = session.host.fatal() {
        session.check_end(fatal);
    }
    session.take_apart();
}

/// A command that the host has sent, as the controller sees it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Length of the data that R2Ts must still request, or that must be sent to the host.
    length: u32,
    moved: u32,
    writes: bool,
    /// Transfer tag and end of the current R2T, if known.
    asked: Option<(u16, u32)>,
}

struct Session {
    host: HostConnection<Counted>,
    live: Rc<Live>,
    framing: Framing,
    listener: Listener,
    events: Vec<HostEvent<Counted>>,
    sent: BTreeMap<u16, Sent>,
    submitted: usize,
    completed: usize,
    maxh2cdata: u32,
    /// Command, transfer tag and end of the R2T that the host receives next.
    r2t: Option<(u16, u16, u32)>,
}

/// The data of command `cid`.
fn pattern(cid: u16, length: u32) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) ^ u32::from(cid).wrapping_mul(7)) as u8).collect()
}

impl Session {
    fn new(input: &mut Input<'_>) -> Session {
        let digests = Digests { header: input.flag(), data: input.flag() };
        let hpda = input.pick(&[0, 0, 5, 31]);
        let options =
            HostOptions { digests, hpda, commands_max: COMMANDS_MAX, in_capsule_max: IN_CAPSULE_MAX };
        let mut session = Session {
            host: HostConnection::new(options),
            live: Rc::new(Live::default()),
            framing: Framing { digests, alignment: alignment_from_wire(hpda) },
            listener: Listener::new(Rules {
                receiver: End::Controller,
                handshake: true,
                digests: Digests::default(),
                alignment: alignment_from_wire(0),
                in_capsule_max: 8192,
            }),
            events: Vec::new(),
            sent: BTreeMap::new(),
            submitted: 0,
            completed: 0,
            maxh2cdata: 4096,
            r2t: None,
        };
        session.transmit(usize::MAX);
        if !input.one_in(8) {
            let cpda = input.pick(&[0, 0, 16, 31]);
            let hello = IcResp::new(cpda, digests.to_wire(), session.maxh2cdata);
            session.receive(&encode(&Framing::HANDSHAKE, hello, 0, &[]));
        }
        session
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0..=3 => self.submit(input),
            4..=6 => self.transmit(usize::from(input.byte())),
            7..=14 => {
                let bytes = self.pdu(input);
                self.receive_corrupt(bytes, input);
            }
            _ => {
                let length = input.byte();
                let noise = input.bytes(usize::from(length));
                self.receive(&noise);
            }
        }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let cid = input.below(CIDS) as u16;
        let length = input.pick(&[0, 1, 512, IN_CAPSULE_MAX, IN_CAPSULE_MAX + 1, 4096, 4097, LENGTH_MAX]);
        let (opcode, transfer) = match input.below(4) {
            0 => (nvm::FLUSH, Transfer::None),
            1 => (
                nvm::READ,
                Transfer::FromController(Counted::new(vec![0; length as usize], &self.live), length),
            ),
            _ => (nvm::WRITE, Transfer::ToController(Counted::new(pattern(cid, length), &self.live), length)),
        };
        let outstanding = self.host.outstanding();
        match self.host.submit(Sqe::new(opcode).with_cid(cid), transfer) {
            Ok(()) => {
                self.submitted += 1;
                assert_eq!(self.host.outstanding(), outstanding + 1);
            }
            Err(error) => match error.refusal {
                Refusal::Full => assert_eq!(outstanding, usize::from(COMMANDS_MAX)),
                Refusal::IdentifierInUse => assert!(outstanding > 0),
                Refusal::Over => assert!(self.host.fatal().is_some()),
            },
        }
    }

    /// A PDU that a controller could send now, or a similar one.
    fn pdu(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let cids: Vec<u16> = self.sent.keys().copied().collect();
        let mut cid =
            if cids.is_empty() { input.half() } else { cids[input.below(cids.len() as u32) as usize] };
        let sent = self.sent.get(&cid).copied();
        if input.one_in(24) {
            cid = input.half();
        }
        let Sent { length, moved, writes, asked } =
            sent.unwrap_or(Sent { length: 64, moved: 0, writes: input.flag(), asked: None });
        let left = length.saturating_sub(moved);
        match input.below(10) {
            0 => {
                let hello =
                    IcResp::new(input.byte() % 40, input.byte() % 5, input.pick(&[4096, 8192, 0, 4097]));
                encode(&Framing::HANDSHAKE, hello, 0, &[])
            }
            1 => TermReqImage::new(End::Controller, Violation::SEQUENCE, &input.bytes(24)).bytes().to_vec(),
            2 | 3 => {
                let cqe = if input.flag() { Cqe::success(cid) } else { Cqe::new(cid, Status::INVALID_FIELD) };
                encode(&self.framing, CapsuleResp::new(cqe.with_sqhd(input.half())), 0, &[])
            }
            _ if writes && asked.is_none() => {
                let offset = if input.one_in(12) { input.word() } else { moved };
                let wanted = if input.one_in(12) {
                    input.word()
                } else {
                    left.min(input.pick(&[u32::MAX, 5000, 4096, 100]))
                };
                let ttag = input.half();
                self.r2t = Some((cid, ttag, offset.wrapping_add(wanted)));
                encode(&self.framing, R2t::new(cid, ttag, offset, wanted), 0, &[])
            }
            _ => {
                let offset = if input.one_in(12) { input.word() } else { moved };
                let size = left.min(input.pick(&[u32::MAX, 512, 1])).max(1) + u32::from(input.one_in(24));
                let flags = match input.below(4) {
                    0 => 0,
                    1 => FLAG_LAST | FLAG_SUCCESS,
                    2 => FLAG_LAST,
                    _ if size == left => FLAG_LAST,
                    _ => 0,
                };
                let announced = if input.one_in(24) { input.word() } else { size };
                if let Some(sent) = self.sent.get_mut(&cid) {
                    sent.moved = sent.moved.saturating_add(size);
                }
                encode(&self.framing, C2hData::new(cid, offset, announced), flags, &vec![0x77; size as usize])
            }
        }
    }

    fn receive_corrupt(&mut self, mut bytes: Vec<u8>, input: &mut Input<'_>) {
        let r2t = self.r2t.take();
        let is_corrupt = input.one_in(16);
        if is_corrupt {
            let at = input.below(bytes.len() as u32) as usize;
            bytes[at] ^= input.byte();
        }
        let piece = input.pick(&[usize::MAX, usize::MAX, 100, 23, 1]);
        for piece in bytes.chunks(piece) {
            self.receive(piece);
        }
        if let Some((cid, ttag, end)) = r2t.filter(|_| !is_corrupt && self.host.fatal().is_none())
            && let Some(sent) = self.sent.get_mut(&cid)
        {
            sent.asked = Some((ttag, end));
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let result = self.host.on_bytes(bytes, &mut self.events);
        assert_eq!(result.err(), self.host.fatal());
        for event in self.events.drain(..) {
            match event {
                HostEvent::Initialized { digests, maxh2cdata } => {
                    self.framing.digests = digests;
                    self.listener.use_digests(digests);
                    self.maxh2cdata = maxh2cdata;
                }
                HostEvent::Completed { cqe, data, received } => {
                    self.completed += 1;
                    let sent = self.sent.remove(&cqe.cid());
                    let sent =
                        sent.unwrap_or_else(|| panic!("{cqe:?} completes a command that was not sent"));
                    assert!(
                        received <= if sent.writes { 0 } else { sent.length },
                        "{received} bytes for {sent:?}"
                    );
                    assert!(data.is_none_or(|data| data.bytes().len() >= received as usize));
                }
            }
        }
        assert_eq!(self.submitted, self.completed + self.host.outstanding());
    }

    fn transmit(&mut self, room: usize) {
        let mut wire = Wire::with_room(room);
        self.host.poll_transmit(&mut wire);
        for seen in self.listener.hear(&wire.bytes) {
            self.on_sent(&seen);
        }
    }

    fn on_sent(&mut self, seen: &Seen) {
        assert!(seen.intact, "{seen:?}");
        match seen.layout.pdu_type {
            PduType::IcReq => {}
            PduType::CapsuleCmd => {
                let sqe = seen.header_as::<CapsuleCmd>().sqe;
                let cid = sqe.cid();
                let writes = sqe.opcode() == nvm::WRITE;
                let length = match sqe.sgl() {
                    Sgl::InCapsule { offset: 0, length } => {
                        assert_eq!(seen.data, pattern(cid, length));
                        0
                    }
                    Sgl::Transport { length } => {
                        assert!(seen.data.is_empty());
                        length
                    }
                    other => panic!("{other:?} from a host"),
                };
                assert!(seen.data.len() <= IN_CAPSULE_MAX as usize);
                let before = self.sent.insert(cid, Sent { length, moved: 0, writes, asked: None });
                assert!(before.is_none(), "two commands have identifier {cid:#x}");
            }
            PduType::H2cData => {
                let header: H2cData = seen.header_as();
                let cid = header.cccid.get();
                let (from, length) = (header.datao.get(), header.datal.get());
                assert_eq!(length as usize, seen.data.len());
                assert!((1..=self.maxh2cdata).contains(&length), "{header:?}");
                let sent = self.sent.get_mut(&cid).expect("data follows a command");
                assert_eq!(from, sent.moved, "data out of order");
                sent.moved += length;
                assert!(sent.moved <= sent.length && sent.writes, "{header:?} for {sent:?}");
                if let Some((ttag, end)) = sent.asked {
                    assert_eq!(header.ttag.get(), ttag);
                    assert!(
                        sent.moved <= end && seen.layout.last() == (sent.moved == end),
                        "{header:?} for {sent:?}"
                    );
                    sent.asked = sent.asked.filter(|_| sent.moved < end);
                }
                assert_eq!(seen.data[..], pattern(cid, sent.length)[from as usize..sent.moved as usize]);
            }
            other => panic!("the host sent a {other:?} although there was no error"),
        }
    }

    fn check_bounds(&self) {
        let outstanding = self.host.outstanding();
        assert!(outstanding <= usize::from(COMMANDS_MAX), "{outstanding} commands");
        let pending = self.host.transmit_pending();
        assert!(pending <= 2 * usize::from(COMMANDS_MAX) + 1, "{pending} PDUs wait to be sent");
        assert!(self.live.buffers.get() <= outstanding, "{} buffers", self.live.buffers.get());
        assert!(self.host.pending_bytes().get() <= outstanding as u64 * u64::from(LENGTH_MAX));
    }

    /// After an error: the host sends one TermReq or nothing, and accepts nothing more.
    fn check_end(&mut self, fatal: Fatal) {
        assert_eq!(self.host.on_bytes(&[5; 80], &mut self.events), Err(fatal));
        let refused =
            self.host.submit(Sqe::new(nvm::FLUSH), Transfer::None).expect_err("the connection has ended");
        assert_eq!(refused.refusal, Refusal::Over);
        let mut wire = Wire::with_room(usize::MAX);
        self.host.poll_transmit(&mut wire);
        let heard = self.listener.hear(&wire.bytes);
        match (fatal, &heard[..]) {
            (Fatal::Violation(_), [term]) => assert_eq!(term.layout.pdu_type, PduType::H2cTermReq),
            (Fatal::Terminated { .. }, []) => {}
            _ => panic!("{heard:?} after {fatal}"),
        }
        assert!(!self.host.poll_transmit(&mut wire), "the host sends more after the TermReq");
    }

    fn take_apart(self) {
        let Session { host, live, submitted, completed, .. } = self;
        let mut given = 0;
        host.into_outstanding(|_, buffer| {
            given += 1;
            drop(buffer);
        });
        assert_eq!(submitted, completed + given, "commands submitted = completed + returned");
        assert_eq!(live.buffers.get(), 0);
    }
}
