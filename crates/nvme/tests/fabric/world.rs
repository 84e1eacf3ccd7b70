//! A host, a target, and the layer above the target that executes commands in any order.

use super::network::{Broken, Done, End, Memory, Request};
use nvme::buffer::{Buffer, BufferSource, BufferUse};
use nvme::queue::{Cancel, FlowControl, TargetEvent, Transfer};
use nvme::rdma::{
    Answer, COMMAND_BYTES, COMPLETION_BYTES, RdmaFatal, RdmaHost, RdmaHostFatal, RdmaHostOptions,
    RdmaHostWork, RdmaLimits, RdmaTarget, RdmaWork, Remote,
};
use nvme::spec::{Cqe, Direction, Sqe, Status};
use rand::Rng;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub(crate) const READ: u8 = 0x02;
pub(crate) const WRITE: u8 = 0x01;
pub(crate) const FLUSH: u8 = 0x00;

/// A buffer that is counted.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) bytes: Vec<u8>,
    _count: Rc<()>,
}

impl Buffer for Counted {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A source of counted buffers that may run out.
pub(crate) struct Source {
    count: Rc<()>,
    /// Buffers that may be out.
    pub(crate) limit: usize,
}

impl Source {
    /// Buffers that are out.
    pub(crate) fn out(&self) -> usize {
        Rc::strong_count(&self.count) - 1
    }

    fn make(&self, bytes: Vec<u8>) -> Counted {
        Counted { bytes, _count: Rc::clone(&self.count) }
    }
}

impl BufferSource for Source {
    type Buffer = Counted;

    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Counted> {
        assert!(length > 0 && purpose == BufferUse::Transfer, "{length} bytes for {purpose:?}");
        (self.out() < self.limit).then(|| self.make(vec![0; length]))
    }
}

/// A byte pattern.
pub(crate) fn pattern(seed: u32, length: u32) -> Vec<u8> {
    (0..length).map(|at| ((at * 31) ^ (at >> 8) ^ seed) as u8 | 1).collect()
}

/// Expected end of a command.
#[derive(Debug)]
struct Expected {
    /// Key of its memory, if it has some.
    key: Option<u32>,
    invalidates: bool,
    /// Bytes of it.
    length: u32,
    seed: u32,
    is_read: bool,
}

/// A command that the layer above has got.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) sqe: Sqe,
}

/// See the module.
pub(crate) struct World {
    pub(crate) host: RdmaHost<Counted>,
    pub(crate) target: RdmaTarget<Counted>,
    pub(crate) limits: RdmaLimits,
    pub(crate) hosts_end: End<Counted>,
    pub(crate) targets_end: End<Counted>,
    pub(crate) memory: Memory,
    pub(crate) source: Source,
    pub(crate) delivered: Vec<Delivered>,
    expected: HashMap<u16, Expected>,
    answers: HashMap<u16, (u32, Status)>,
    pub(crate) completed: VecDeque<Cqe>,
    next_seed: u32,
    is_broken: Option<Broken>,
    /// Longest answer data that the layer above holds in a buffer.
    pub(crate) held_max: u32,
}

impl World {
    pub(crate) fn new(limits: RdmaLimits, buffers: usize) -> World {
        let target = RdmaTarget::new(limits);
        let sends = RdmaTarget::<Counted>::sends(&limits) as usize;
        let source = Source { count: Rc::new(()), limit: buffers };
        let commands_max = (limits.entries - 1) as u16;
        let options = RdmaHostOptions { commands_max };
        World {
            host: RdmaHost::new(options),
            target,
            limits,
            hosts_end: End::new(usize::from(commands_max), 0),
            targets_end: End::new(sends, limits.reads_max as usize),
            memory: Memory::default(),
            source,
            delivered: Vec::new(),
            expected: HashMap::new(),
            answers: HashMap::new(),
            completed: VecDeque::new(),
            next_seed: 1,
            is_broken: None,
            held_max: u32::MAX,
        }
    }

    /// Grants the queue, as the answer to a Connect does.
    pub(crate) fn grant(&mut self) {
        self.target.set_queue(self.limits.entries, FlowControl::Enabled);
    }

    /// Submits a command of the host; returns whether there was room. `invalidates`: the host asks for its key to be invalidated.
    pub(crate) fn submit(&mut self, opcode: u8, cid: u16, length: u32, invalidates: bool) -> bool {
        let seed = self.next_seed;
        let sqe = Sqe::new(opcode).with_cid(cid).with_nsid(1).with_cdw10_15([seed, length, 0, 0, 0, 0]);
        let is_read = sqe.direction() == Direction::FromController;
        let bytes = if is_read { vec![0xee; length as usize] } else { pattern(seed, length) };
        let buffer = self.source.make(bytes.clone());
        let transfer = match sqe.direction() {
            Direction::FromController => Transfer::FromController(buffer, length),
            Direction::ToController => Transfer::ToController(buffer, length),
            Direction::None | Direction::Both => Transfer::None,
        };
        let (memory, mut key) = (&mut self.memory, None);
        let expose = |_: &Counted| {
            let remote = memory.register(bytes, invalidates);
            key = Some(remote.key);
            remote
        };
        if self.host.submit(sqe, transfer, expose).is_err() {
            return false;
        }
        self.next_seed += 1;
        let invalidates = invalidates && key.is_some();
        self.expected.insert(cid, Expected { key, invalidates, length, seed, is_read });
        true
    }

    /// The key of an outstanding command's memory.
    pub(crate) fn key_of(&self, cid: u16) -> Option<u32> {
        self.expected.get(&cid)?.key
    }

    /// Posts what the host wants to have posted.
    pub(crate) fn post_of_host(&mut self) -> bool {
        let Some(work) = self.host.poll(self.hosts_end.room() > 0) else { return false };
        match work {
            RdmaHostWork::Receive => self.hosts_end.post_receive(COMPLETION_BYTES),
            RdmaHostWork::Send { tag, command } => {
                let (bytes, tag) = (command.to_vec(), Some(tag));
                self.hosts_end.post([Request::Send { bytes, invalidate: None, tag, _buffer: None, cost: 1 }]);
            }
        }
        true
    }

    /// Posts what the target wants to have posted.
    pub(crate) fn post_of_target(&mut self) -> bool {
        let mut events = Vec::new();
        let work = self.target.poll(self.targets_end.room(), &mut events);
        self.take_in(events);
        let Some(work) = work else { return false };
        match work {
            RdmaWork::Receive => {
                self.targets_end.post_receive(COMMAND_BYTES);
                let most = self.limits.entries as usize;
                assert!(self.targets_end.receives() <= most, "more receives than the queue has entries");
            }
            RdmaWork::Read { tag, buffer, length, from } => {
                self.targets_end.post([Request::Read { tag, buffer, length, from, bytes: Vec::new() }]);
            }
            RdmaWork::Answer { data, cqe, invalidate } => self.post_answer(data, cqe, invalidate),
        }
        true
    }

    fn post_answer(&mut self, data: Option<Answer<Counted>>, cqe: Cqe, invalidate: Option<u32>) {
        let mut requests = Vec::new();
        let mut lent = None;
        let mut cost = 1;
        if let Some(Answer { buffer, held, length, to }) = data {
            let at = |offset: u32| Remote { address: to.address + u64::from(offset), ..to };
            if held > 0 {
                requests.push(Request::Write { bytes: buffer.bytes[..held as usize].to_vec(), to });
            }
            for from in (held..length).step_by(self.limits.zeroes as usize) {
                let count = self.limits.zeroes.min(length - from);
                requests.push(Request::Write { bytes: vec![0; count as usize], to: at(from) });
            }
            cost = RdmaTarget::<Counted>::cost(held, length, self.limits.zeroes);
            assert_eq!(cost, requests.len() + 1);
            lent = Some(buffer);
        }
        let bytes = zerocopy::IntoBytes::as_bytes(&cqe).to_vec();
        requests.push(Request::Send { bytes, invalidate, tag: None, _buffer: lent, cost });
        self.targets_end.post(requests);
    }

    /// Executes the next request of the host's send queue.
    pub(crate) fn execute_of_host(&mut self) -> bool {
        let result = self.hosts_end.execute(&mut self.targets_end, &mut self.memory);
        self.keep(result) | self.hosts_end.retire()
    }

    /// Executes the next request of the target's send queue.
    pub(crate) fn execute_of_target(&mut self) -> bool {
        let result = self.targets_end.execute(&mut self.hosts_end, &mut self.memory);
        self.keep(result) | self.targets_end.retire()
    }

    pub(crate) fn end_read(&mut self, rng: &mut impl Rng) -> bool {
        let result = self.targets_end.end_read(rng, &self.memory);
        self.keep(result) | self.targets_end.retire()
    }

    fn keep(&mut self, result: Result<bool, Broken>) -> bool {
        result.unwrap_or_else(|broken| {
            self.is_broken.get_or_insert(broken);
            false
        })
    }

    /// The error that has ended the connection.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.is_broken
    }

    /// Tells the target of the next end.
    pub(crate) fn tell_target(&mut self) -> Result<bool, RdmaFatal> {
        let Some(done) = self.targets_end.done.pop_front() else { return Ok(false) };
        let mut events = Vec::new();
        let result = match done {
            Done::Received(bytes) => {
                let mut command = [0; COMMAND_BYTES];
                let head = bytes.len().min(COMMAND_BYTES);
                command[..head].copy_from_slice(&bytes[..head]);
                self.target.on_capsule(&command, bytes.len() as u32, &mut self.source, &mut events)
            }
            Done::Read { tag, mut buffer, bytes } => {
                buffer.bytes[..bytes.len()].copy_from_slice(&bytes);
                self.target.on_read(tag, buffer, &mut events);
                Ok(())
            }
            Done::Sent(_) => Ok(()),
        };
        self.take_in(events);
        result.map(|()| true)
    }

    /// Tells the host of the next end.
    pub(crate) fn tell_host(&mut self) -> Result<bool, RdmaHostFatal> {
        let Some(done) = self.hosts_end.done.pop_front() else { return Ok(false) };
        let completed = match done {
            Done::Received(bytes) => self.host.on_answer(&bytes, bytes.len() as u32)?,
            Done::Sent(tag) => self.host.on_sent(tag.expect("a capsule has a tag")),
            Done::Read { .. } => unreachable!("a host reads nothing"),
        };
        if let Some(completed) = completed {
            self.check(completed.cqe);
            self.completed.push_back(completed.cqe);
        }
        Ok(true)
    }

    /// Asks for buffers again.
    pub(crate) fn resume(&mut self) {
        self.target.resume(&mut self.source);
    }

    /// Cancels a command in the target.
    pub(crate) fn cancel(&mut self, cid: u16) -> Cancel {
        let cancel = self.target.cancel(cid, Status::ABORT_REQUESTED);
        if matches!(cancel, Cancel::Answered | Cancel::Draining) {
            self.answers.insert(cid, (0, Status::ABORT_REQUESTED));
        }
        self.target.take_discarded(drop);
        cancel
    }

    fn take_in(&mut self, events: Vec<TargetEvent<Counted>>) {
        self.target.take_discarded(drop);
        for event in events {
            match event {
                TargetEvent::Command { sqe, data } => {
                    let (seed, length) = (sqe.cdw10(), sqe.cdw11());
                    if sqe.direction() == Direction::ToController {
                        let data = data.expect("a write has data");
                        assert_eq!(sqe.sgl_length(), length);
                        assert_eq!(
                            data.bytes[..length as usize],
                            pattern(seed, length),
                            "the data of a write"
                        );
                    } else {
                        assert!(data.is_none());
                    }
                    self.delivered.push(Delivered { sqe });
                }
                TargetEvent::Refused { sqe, status } => {
                    self.answers.entry(sqe.cid()).or_insert((0, status));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Answers the command at `number` of those that were delivered.
    pub(crate) fn answer(&mut self, number: usize, status: Status) {
        let Delivered { sqe } = self.delivered.swap_remove(number);
        let (seed, length) = (sqe.cdw10(), sqe.cdw11());
        let held = length.min(self.held_max);
        self.answers.insert(sqe.cid(), (held, status));
        let cqe = Cqe::new(sqe.cid(), status);
        if sqe.direction() == Direction::FromController {
            self.target.reply_with_data(cqe, self.source.make(pattern(seed, held)), length);
        } else {
            self.target.reply(cqe);
        }
    }

    /// Checks a completion and the host's memory.
    fn check(&mut self, cqe: Cqe) {
        let expected = self.expected.remove(&cqe.cid()).expect("it completes once");
        let (held, status) = self.answers.remove(&cqe.cid()).expect("it was answered");
        assert_eq!(cqe.status(), status);
        let Some(key) = expected.key else { return };
        let (bytes, is_valid) = self.memory.deregister(key);
        assert_eq!(is_valid, !expected.invalidates, "the key is invalidated if the host has asked for it");
        if expected.is_read {
            let mut wanted = vec![0xee; expected.length as usize];
            if status.is_success() {
                wanted.fill(0);
                wanted[..held as usize].copy_from_slice(&pattern(expected.seed, held));
            }
            assert_eq!(bytes, wanted, "the data of a read");
        }
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.host.outstanding() == 0 && self.hosts_end.is_idle() && self.targets_end.is_idle()
    }

    /// Moves everything until nothing moves any more; commands stay with the layer above.
    pub(crate) fn settle(&mut self, rng: &mut impl Rng) {
        loop {
            let mut moved = self.post_of_host() | self.post_of_target();
            moved |= self.execute_of_host() | self.execute_of_target() | self.end_read(rng);
            moved |= self.tell_target().expect("our host keeps to the protocol");
            moved |= self.tell_host().expect("our target keeps to the protocol");
            if !moved {
                return;
            }
        }
    }

    /// Moves what the host sends, and nothing else.
    pub(crate) fn settle_host(&mut self) {
        while self.post_of_host() | self.execute_of_host() {}
    }

    /// Drops everything, and checks that no buffer is left.
    pub(crate) fn end(self) {
        let World { host, target, hosts_end, targets_end, source, .. } = self;
        // The queue pairs go first: they have buffers of work requests.
        drop((hosts_end, targets_end));
        target.into_buffers(drop);
        host.into_outstanding(|_, data| drop(data));
        assert_eq!(source.out(), 0, "every buffer comes back");
    }
}
