//! Shared parts of the transport tests.

use nvme::buffer::{BufferSource, BufferUse};
use nvme::queue::{FlowControl, TargetEvent};
use nvme::spec::{Cqe, Sgl, Sqe, Status};
use nvme::tcp::pdu::{CapsuleCmd, CapsuleResp, Digests, Framing, Header, IcReq, IcResp, R2t};
use nvme::tcp::{Fatal, HostConnection, HostEvent, HostOptions, TargetConnection, TargetLimits, Transfer};
use zerocopy::FromBytes;

pub(crate) const READ: u8 = 0x02;
pub(crate) const WRITE: u8 = 0x01;
pub(crate) const FLUSH: u8 = 0x00;

pub(crate) const ALL_DIGESTS: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];

/// Numbers of buffers left for each use.
pub(crate) struct Source {
    pub(crate) in_capsule: usize,
    pub(crate) transfer: usize,
}

impl Source {
    pub(crate) fn plenty() -> Self {
        Source { in_capsule: usize::MAX, transfer: usize::MAX }
    }
}

impl BufferSource for Source {
    type Buffer = Vec<u8>;

    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Vec<u8>> {
        assert!(length > 0, "no buffer is needed for 0 bytes");
        let left = match purpose {
            BufferUse::InCapsule => &mut self.in_capsule,
            BufferUse::Transfer => &mut self.transfer,
        };
        *left = left.checked_sub(1)?;
        Some(vec![0; length])
    }
}

/// A byte pattern in which every position is different from its neighbours.
pub(crate) fn pattern(seed: u32, length: u32) -> Vec<u8> {
    (0..length).map(|at| ((at * 31) ^ (at >> 8) ^ seed) as u8).collect()
}

/// A read or write at byte `at`.
pub(crate) fn command(opcode: u8, cid: u16, at: u32) -> Sqe {
    Sqe::new(opcode).with_cid(cid).with_nsid(1).with_cdw10_15([at, 0, 0, 0, 0, 0])
}

/// Host, target, and a memory behind the target.
pub(crate) struct World {
    pub(crate) host: HostConnection<Vec<u8>>,
    pub(crate) target: TargetConnection<Vec<u8>>,
    pub(crate) source: Source,
    pub(crate) memory: Vec<u8>,
    pub(crate) completed: Vec<(Cqe, Option<Vec<u8>>, u32)>,
    pub(crate) initialized: Option<Digests>,
    /// Whether the next delivery to the target is placed, if it belongs to a payload.
    pub(crate) places: Box<dyn FnMut() -> bool>,
    to_target: Vec<u8>,
    /// Everything that was sent in each direction.
    pub(crate) sent_to_target: Vec<u8>,
    pub(crate) sent_to_host: Vec<u8>,
}

impl World {
    pub(crate) fn new(options: HostOptions, limits: TargetLimits) -> Self {
        let mut target = TargetConnection::new(limits);
        target.set_queue(u32::from(options.commands_max) + 1, FlowControl::Enabled);
        World {
            host: HostConnection::new(options),
            target,
            source: Source::plenty(),
            memory: vec![0; 1 << 20],
            completed: Vec::new(),
            initialized: None,
            places: Box::new(|| false),
            to_target: Vec::new(),
            sent_to_target: Vec::new(),
            sent_to_host: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, cid: u16, at: u32, bytes: &[u8]) {
        let transfer = Transfer::ToController(bytes.to_vec(), bytes.len() as u32);
        self.host.submit(command(WRITE, cid, at), transfer).expect("the queue has room");
    }

    pub(crate) fn read(&mut self, cid: u16, at: u32, length: u32) {
        let transfer = Transfer::FromController(vec![0; length as usize], length);
        self.host.submit(command(READ, cid, at), transfer).expect("the queue has room");
    }

    /// Moves bytes until both ends are idle. `cut` gets the number of bytes there are, and returns how many
    /// to deliver next.
    pub(crate) fn run(&mut self, cut: &mut dyn FnMut(usize) -> usize) {
        loop {
            let mut wire = Vec::new();
            let mut busy = self.host.poll_transmit(&mut wire);
            self.sent_to_target.extend_from_slice(&wire);
            self.to_target.append(&mut wire);
            busy |= self.deliver_to_target(cut);
            busy |= self.target.poll_transmit(&mut wire);
            self.sent_to_host.extend_from_slice(&wire);
            self.deliver_to_host(&wire, cut);
            if !busy {
                return;
            }
        }
    }

    fn deliver_to_target(&mut self, cut: &mut dyn FnMut(usize) -> usize) -> bool {
        let mut busy = false;
        while !self.to_target.is_empty() {
            let length = cut(self.to_target.len()).clamp(1, self.to_target.len());
            let mut events = Vec::new();
            let placed = if (self.places)() { self.place(length, &mut events) } else { 0 };
            let taken = self
                .target
                .on_bytes(&self.to_target[placed..length], &mut self.source, &mut events)
                .expect("our host keeps to the protocol");
            let taken = placed + taken;
            self.to_target.drain(..taken);
            events.into_iter().for_each(|event| self.execute(event));
            busy |= taken > 0;
            if taken < length {
                assert!(self.target.paused().is_some(), "only a paused connection leaves bytes");
                break;
            }
        }
        busy
    }

    /// Puts what of the next bytes belongs to a payload where it belongs. Returns how much.
    fn place(&mut self, length: usize, events: &mut Vec<TargetEvent<Vec<u8>>>) -> usize {
        let place = self.target.place();
        let count = place.len().min(length);
        if count > 0 {
            place[..count].copy_from_slice(&self.to_target[..count]);
            self.target.on_placed(count, events);
        }
        count
    }

    fn deliver_to_host(&mut self, mut bytes: &[u8], cut: &mut dyn FnMut(usize) -> usize) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(cut(bytes.len()).clamp(1, bytes.len()));
            let mut events = Vec::new();
            self.host.on_bytes(piece, &mut events).expect("our target keeps to the protocol");
            for event in events {
                match event {
                    HostEvent::Initialized { digests, .. } => self.initialized = Some(digests),
                    HostEvent::Completed { cqe, data, received } => {
                        self.completed.push((cqe, data, received))
                    }
                }
            }
            bytes = rest;
        }
    }

    fn execute(&mut self, event: TargetEvent<Vec<u8>>) {
        let TargetEvent::Command { sqe, data } = event else { return };
        let at = sqe.cdw10() as usize;
        let length = sqe.sgl_length();
        match (sqe.opcode(), data) {
            (WRITE, Some(data)) => {
                self.memory[at..at + length as usize].copy_from_slice(&data[..length as usize]);
                self.target.reply(Cqe::success(sqe.cid()));
            }
            (READ, None) => {
                let mut data = self.memory[at..at + length as usize].to_vec();
                // A reply need not contain the zeroes at its end.
                data.truncate(data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
                self.target.reply_with_data(Cqe::success(sqe.cid()), data, length);
            }
            (FLUSH, None) => self.target.reply(Cqe::success(sqe.cid()).with_dw0(sqe.cdw10())),
            (_, data) => {
                assert_eq!(data, None);
                self.target.reply(Cqe::new(sqe.cid(), Status::INVALID_OPCODE));
            }
        }
    }
}

/// Delivers everything at once.
pub(crate) fn whole(length: usize) -> usize {
    length
}

/// Writes PDUs for a peer that may violate the protocol.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) framing: Framing,
}

impl Peer {
    pub(crate) fn new(digests: Digests) -> Self {
        Peer { framing: Framing { digests, alignment: 4 } }
    }

    pub(crate) fn pdu<H: Header>(&self, header: H, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut wire = Vec::new();
        self.framing.header(&mut wire, header, flags, data.len() as u32);
        if !data.is_empty() {
            wire.extend_from_slice(data);
            wire.extend(self.framing.data_digest(data).into_iter().flatten());
        }
        wire
    }

    pub(crate) fn ic_req(&self) -> Vec<u8> {
        Peer::new(Digests::default()).pdu(IcReq::new(0, self.framing.digests.to_wire(), 0), 0, &[])
    }

    pub(crate) fn ic_resp(&self, maxh2cdata: u32) -> Vec<u8> {
        let response = IcResp::new(0, self.framing.digests.to_wire(), maxh2cdata);
        Peer::new(Digests::default()).pdu(response, 0, &[])
    }
}

/// A target after the handshake that faces a peer that may violate the protocol.
pub(crate) struct Victim {
    pub(crate) target: TargetConnection<Vec<u8>>,
    pub(crate) source: Source,
    pub(crate) events: Vec<TargetEvent<Vec<u8>>>,
    pub(crate) peer: Peer,
}

impl Victim {
    /// Queue of 8 entries, in-capsule data up to 8192 bytes, MAXH2CDATA 4096.
    pub(crate) fn new(digests: Digests) -> Self {
        let limits = TargetLimits { in_capsule_max: 8192, maxh2cdata: 4096, ..TargetLimits::default() };
        let mut victim = Victim {
            target: TargetConnection::new(limits),
            source: Source::plenty(),
            events: Vec::new(),
            peer: Peer::new(digests),
        };
        victim.send(&victim.peer.ic_req()).expect("a proper handshake");
        assert_eq!(victim.sent().len(), 128);
        assert_eq!(victim.events.drain(..).collect::<Vec<_>>(), [TargetEvent::Initialized]);
        assert_eq!(victim.target.digests(), digests);
        victim.target.set_queue(8, FlowControl::Enabled);
        victim
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, Fatal> {
        self.target.on_bytes(bytes, &mut self.source, &mut self.events)
    }

    /// Sends a command, with in-capsule data if any. The target must take all of it.
    pub(crate) fn command(&mut self, sqe: Sqe, data: &[u8]) {
        let capsule = self.peer.pdu(CapsuleCmd::new(sqe), 0, data);
        assert_eq!(self.send(&capsule), Ok(capsule.len()));
    }

    /// Sends a write of `length` bytes that needs an R2T. Returns the transfer tag of that R2T.
    pub(crate) fn solicited_write(&mut self, cid: u16, length: u32) -> u16 {
        self.command(command(WRITE, cid, 0).with_sgl(Sgl::Transport { length }), &[]);
        let bytes = self.sent();
        let (r2t, _) = R2t::ref_from_prefix(&bytes).expect("an R2T");
        assert_eq!((bytes[0], r2t.cccid.get(), r2t.r2to.get(), r2t.r2tl.get()), (9, cid, 0, length));
        r2t.ttag.get()
    }

    pub(crate) fn sent(&mut self) -> Vec<u8> {
        let mut wire = Vec::new();
        self.target.poll_transmit(&mut wire);
        wire
    }

    /// The one response capsule that was sent.
    pub(crate) fn response(&mut self) -> Cqe {
        let bytes = self.sent();
        let (response, rest) = CapsuleResp::ref_from_prefix(&bytes).expect("a response capsule");
        let digest = if self.peer.framing.digests.header { 4 } else { 0 };
        assert_eq!((bytes[0], bytes[2], rest.len()), (5, 24, digest));
        response.cqe
    }
}
