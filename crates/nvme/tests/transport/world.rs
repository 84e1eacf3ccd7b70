//! What the transport tests share.

use core::ops::Range;
use nvme::buffer::{BufferSource, BufferUse, Outgoing};
use nvme::connection::{
    HostConnection, HostEvent, HostOptions, TargetConnection, TargetEvent, TargetLimits, Transfer,
};
use nvme::pdu::{Digests, Framing, Header, IcReq, IcResp};
use nvme::spec::{Cqe, Sqe, Status};

pub const READ: u8 = 0x02;
pub const WRITE: u8 = 0x01;
pub const FLUSH: u8 = 0x00;

pub const ALL_DIGESTS: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];

/// The bytes that left one end. Room for `room` calls at a time, if limited.
#[derive(Default)]
pub struct Wire {
    pub bytes: Vec<u8>,
}

impl Outgoing<Vec<u8>> for Wire {
    fn header(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn payload(&mut self, buffer: Vec<u8>, range: Range<usize>) {
        self.bytes.extend_from_slice(&buffer[range]);
    }

    fn room(&self) -> bool {
        true
    }
}

/// Buffers of each use that may still be taken.
pub struct Source {
    pub in_capsule: usize,
    pub transfer: usize,
}

impl Source {
    pub fn plenty() -> Self {
        Source { in_capsule: usize::MAX, transfer: usize::MAX }
    }
}

impl BufferSource for Source {
    type Buffer = Vec<u8>;

    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Vec<u8>> {
        assert!(length > 0, "no buffer is needed for nothing");
        let left = match purpose {
            BufferUse::InCapsule => &mut self.in_capsule,
            BufferUse::Transfer => &mut self.transfer,
        };
        *left = left.checked_sub(1)?;
        Some(vec![0; length])
    }
}

/// The bytes of a pattern that tells where it lies.
pub fn pattern(seed: u32, length: u32) -> Vec<u8> {
    (0..length).map(|at| ((at * 31) ^ (at >> 8) ^ seed) as u8).collect()
}

/// A read or write of `length` bytes at byte `at`.
pub fn command(opcode: u8, cid: u16, at: u32) -> Sqe {
    Sqe::new(opcode).with_cid(cid).with_nsid(1).with_cdw10_15([at, 0, 0, 0, 0, 0])
}

/// Host, target, and a memory behind it.
pub struct World {
    pub host: HostConnection<Vec<u8>>,
    pub target: TargetConnection<Vec<u8>>,
    pub source: Source,
    pub memory: Vec<u8>,
    pub completed: Vec<(Cqe, Option<Vec<u8>>, u32)>,
    pub initialized: Option<Digests>,
    to_target: Vec<u8>,
    /// Everything that went each way.
    pub sent_to_target: Vec<u8>,
    pub sent_to_host: Vec<u8>,
}

impl World {
    pub fn new(options: HostOptions, limits: TargetLimits) -> Self {
        let mut target = TargetConnection::new(limits);
        target.set_queue(u32::from(options.commands_max) + 1, nvme::connection::FlowControl::Enabled);
        World {
            host: HostConnection::new(options),
            target,
            source: Source::plenty(),
            memory: vec![0; 1 << 20],
            completed: Vec::new(),
            initialized: None,
            to_target: Vec::new(),
            sent_to_target: Vec::new(),
            sent_to_host: Vec::new(),
        }
    }

    pub fn write(&mut self, cid: u16, at: u32, bytes: &[u8]) {
        let transfer = Transfer::ToController(bytes.to_vec(), bytes.len() as u32);
        self.host.submit(command(WRITE, cid, at), transfer).expect("the queue has room");
    }

    pub fn read(&mut self, cid: u16, at: u32, length: u32) {
        let transfer = Transfer::FromController(vec![0; length as usize], length);
        self.host.submit(command(READ, cid, at), transfer).expect("the queue has room");
    }

    /// Moves bytes until neither end has anything more to say. `cut` is asked how much of so many bytes to hand over next.
    pub fn run(&mut self, cut: &mut dyn FnMut(usize) -> usize) {
        loop {
            let mut wire = Wire::default();
            let mut busy = self.host.poll_transmit(&mut wire);
            self.sent_to_target.extend_from_slice(&wire.bytes);
            self.to_target.append(&mut wire.bytes);
            busy |= self.deliver_to_target(cut);
            busy |= self.target.poll_transmit(&mut wire);
            self.sent_to_host.extend_from_slice(&wire.bytes);
            self.deliver_to_host(&wire.bytes, cut);
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
            let taken = self
                .target
                .on_bytes(&self.to_target[..length], &mut self.source, &mut events)
                .expect("our host keeps to the protocol");
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
                let data = self.memory[at..at + length as usize].to_vec();
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

/// All at once.
pub fn whole(length: usize) -> usize {
    length
}

/// Lays PDUs as a peer that may break the protocol would.
#[derive(Clone, Copy)]
pub struct Peer {
    pub framing: Framing,
}

impl Peer {
    pub fn new(digests: Digests) -> Self {
        Peer { framing: Framing { digests, alignment: 4 } }
    }

    pub fn pdu<H: Header>(&self, header: H, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut wire = Wire::default();
        self.framing.header(&mut wire, header, flags, data.len() as u32);
        if !data.is_empty() {
            wire.bytes.extend_from_slice(data);
            wire.bytes.extend(self.framing.data_digest(data).into_iter().flatten());
        }
        wire.bytes
    }

    pub fn ic_req(&self) -> Vec<u8> {
        Peer::new(Digests::default()).pdu(IcReq::new(0, self.framing.digests.to_wire(), 0), 0, &[])
    }

    pub fn ic_resp(&self, maxh2cdata: u32) -> Vec<u8> {
        let response = IcResp::new(0, self.framing.digests.to_wire(), maxh2cdata);
        Peer::new(Digests::default()).pdu(response, 0, &[])
    }
}
