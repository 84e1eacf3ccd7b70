//! A session and a target in one thread, with a clock that moves only when the test moves it.

use super::target::{BLOCK, NQN, TestTarget};
use crate::connection::{Done, Lend};
use crate::fault::Fault;
use crate::request::{Completion, Operation, Request};
use crate::session::{Output, Session};
use crate::{Backoff, ControllerOptions, HostId, Nqn, TransportType};
use nvme::host::Purpose;
use nvme::rdma::{Answer, COMMAND_BYTES, COMPLETION_BYTES, RdmaHostWork, RdmaWork, Remote};
use nvme::spec::{Sgl, Sqe};
use reactor::{BufferPool, IoBuffer};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Bytes, Instant, Lba, Nanos};
use zerocopy::FromBytes;

/// The events of the session other than the ends of IOs.
#[derive(Debug)]
pub(super) enum Report {
    Ready { first: bool },
    Down(Fault),
    NamespacesChanged,
    Discovered(Vec<crate::Discovered>),
    GaveUp(Box<crate::ConnectError>),
    Closed,
}

/// Lends memory by its address.
#[derive(Debug, Default)]
pub(super) struct TestLender {
    /// Whether there is no memory for it.
    pub(super) refuses: AtomicBool,
}

impl TestLender {
    const KEY: u32 = 0x1e_4d;
}

impl Lend for TestLender {
    fn lend(&self, buffer: &mut IoBuffer) -> io::Result<Remote> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Remote { address: buffer.as_ptr().addr() as u64, key: TestLender::KEY, invalidates: false })
    }
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) session: Session,
    pub(super) target: TestTarget,
    /// Open links, each with its slot in the target.
    links: BTreeMap<usize, u32>,
    /// Of the links that are queue pairs: where the controller reaches memory, by which command (its tag and identifier).
    pairs: BTreeMap<usize, BTreeMap<u64, (u16, u16)>>,
    pub(super) lender: Arc<TestLender>,
    /// Whether connection attempts are refused.
    pub(super) is_down: bool,
    pub(super) ended: Vec<Completion>,
    pub(super) reports: Vec<Report>,
    pub(super) pool: BufferPool,
}

pub(super) fn options() -> ControllerOptions {
    let nqn = |text| Nqn::new(text).expect("a name");
    let options = ControllerOptions::new(
        ([127, 0, 0, 1], 4420).into(),
        nqn(NQN),
        nqn("nqn.test:host"),
        HostId([7; 16]),
    );
    ControllerOptions { backoff: Backoff { tries_max: Some(5), ..Backoff::default() }, ..options }
}

impl World {
    pub(super) fn new(target: TestTarget, options: ControllerOptions) -> World {
        World::of(target, options, Purpose::Io)
    }

    pub(super) fn of(target: TestTarget, options: ControllerOptions, purpose: Purpose) -> World {
        let now = Instant::ZERO + Nanos::secs(1);
        let mut world = World {
            now,
            session: Session::new(now, options, purpose),
            target,
            links: BTreeMap::new(),
            pairs: BTreeMap::new(),
            lender: Arc::default(),
            is_down: false,
            ended: Vec::new(),
            reports: Vec::new(),
            pool: BufferPool::new(Bytes::mib(256)),
        };
        world.pump();
        world
    }

    /// A world whose session is ready.
    pub(super) fn ready(target: TestTarget, options: ControllerOptions) -> World {
        let world = World::new(target, options);
        assert!(matches!(world.reports[..], [Report::Ready { first: true }]), "{:?}", world.reports);
        world
    }

    /// Moves bytes and messages in both directions until both sides are idle.
    pub(super) fn pump(&mut self) {
        loop {
            let mut is_quiet = !self.obey();
            while let Some(link) = self.session.poll_marked() {
                if self.pairs.contains_key(&link) {
                    continue;
                }
                let mut bytes = Vec::new();
                self.session.poll_transmit(link, &mut bytes);
                // Commands wait for the handshake.
                if bytes.is_empty() {
                    continue;
                }
                if let Some(&slot) = self.links.get(&link) {
                    is_quiet = false;
                    self.target.on_bytes(self.now, slot, &bytes);
                    self.session.on_sent(link);
                }
            }
            self.target.poll(self.now);
            for (link, slot) in self.links.clone() {
                if self.links.get(&link) != Some(&slot) {
                    continue;
                }
                is_quiet &= !self.exchange(link, slot);
                let bytes = self.target.transmit(slot);
                if !bytes.is_empty() {
                    is_quiet = false;
                    self.session.on_bytes(self.now, link, &bytes);
                    self.obey();
                }
                if !self.target.is_connected(slot) && self.links.get(&link) == Some(&slot) {
                    is_quiet = false;
                    self.session.on_closed(self.now, Fault::Closed);
                    self.obey();
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Carries messages and data of a queue pair. Returns whether there were any.
    fn exchange(&mut self, link: usize, slot: u32) -> bool {
        let Some(mut places) = self.pairs.remove(&link) else { return false };
        let mut done = Vec::new();
        loop {
            match self.session.poll_work(link, self.target.takes_message(slot)) {
                Ok(None) => break,
                Ok(Some(RdmaHostWork::Receive)) => {}
                Ok(Some(RdmaHostWork::Send { tag, command })) => {
                    let sqe = Sqe::read_from_bytes(&command).expect("a command");
                    let Sgl::Keyed { address, length, key: TestLender::KEY, .. } = sqe.sgl() else {
                        assert_eq!(sqe.sgl_length(), 0, "data without a key");
                        done.push(Done::Sent(tag));
                        self.target.on_capsule(self.now, slot, &command);
                        continue;
                    };
                    let others = self.pairs.values().chain([&places]);
                    let is_reached = others.into_iter().any(|places| places.contains_key(&address));
                    assert!(!is_reached, "{length} bytes are lent again while a queue pair reaches them");
                    places.insert(address, (tag, sqe.cid()));
                    done.push(Done::Sent(tag));
                    self.target.on_capsule(self.now, slot, &command);
                }
                Err(fault) => {
                    self.pairs.insert(link, places);
                    self.session.on_closed(self.now, fault);
                    return true;
                }
            }
        }
        while let Some(work) = self.target.poll_work(slot) {
            match work {
                RdmaWork::Receive => unreachable!("the target has posted them"),
                RdmaWork::Read { tag, mut buffer, length, from } => {
                    let reached =
                        self.session.reached(link, places[&from.address].0).expect("it is outstanding");
                    buffer[..length as usize].copy_from_slice(&reached[..length as usize]);
                    self.target.on_read(self.now, slot, tag, buffer);
                }
                RdmaWork::Answer { data, cqe, .. } => {
                    if let Some(Answer { buffer, held, length, to }) = data {
                        let reached =
                            self.session.reached(link, places[&to.address].0).expect("it is outstanding");
                        reached[..held as usize].copy_from_slice(&buffer[..held as usize]);
                        reached[held as usize..length as usize].fill(0);
                    }
                    places.retain(|_, (_, cid)| *cid != cqe.cid());
                    let mut message = [0; COMMAND_BYTES];
                    message[..COMPLETION_BYTES].copy_from_slice(&cqe.to_bytes());
                    done.push(Done::Answer(message, COMPLETION_BYTES as u32));
                }
            }
        }
        self.pairs.insert(link, places);
        if done.is_empty() {
            return false;
        }
        self.session.on_done(self.now, link, &done);
        true
    }

    /// Does the actions that the session requests. Returns whether it requested anything.
    fn obey(&mut self) -> bool {
        let mut any = false;
        while let Some(output) = self.session.poll_output() {
            any = true;
            match output {
                Output::Open(_) if self.is_down => {
                    let error = std::io::ErrorKind::ConnectionRefused.into();
                    self.session.on_closed(self.now, Fault::Unreachable(Arc::new(error)));
                }
                Output::Open(link) if self.session.options().transport == TransportType::Rdma => {
                    let open = self.session.open_queue(link).expect("it asks for this connection");
                    let slot = self.target.accept_pair(open.entries);
                    self.links.insert(link, slot);
                    self.pairs.insert(link, BTreeMap::new());
                    let lender = Arc::clone(&self.lender) as Arc<dyn Lend>;
                    self.session.on_connected(self.now, link, Some(lender));
                }
                Output::Open(link) => {
                    let slot = self.target.accept();
                    self.links.insert(link, slot);
                    self.session.on_connected(self.now, link, None);
                }
                Output::Close(link, _) => {
                    self.pairs.remove(&link);
                    if let Some(slot) = self.links.remove(&link) {
                        self.target.on_disconnect(self.now, slot);
                    }
                }
                Output::Ended(completion) => {
                    if let Some(buffer) = &completion.buffer {
                        let place = buffer.as_ptr().addr() as u64;
                        let is_reached = self.pairs.values().any(|places| places.contains_key(&place));
                        assert!(!is_reached, "a buffer is handed back while a queue pair reaches it");
                    }
                    self.ended.push(completion);
                }
                Output::Ready { first } => self.reports.push(Report::Ready { first }),
                Output::Down { fault, .. } => self.reports.push(Report::Down(fault)),
                Output::NamespacesChanged => self.reports.push(Report::NamespacesChanged),
                Output::Discovered(found) => self.reports.push(Report::Discovered(found)),
                Output::GaveUp(error) => self.reports.push(Report::GaveUp(error)),
                Output::Closed => self.reports.push(Report::Closed),
            }
        }
        any
    }

    /// Lets time pass, and handles everything that is due.
    pub(super) fn pass(&mut self, span: Nanos) {
        let until = self.now + span;
        loop {
            let next = [Some(self.session.alarm()), self.target.subsystem().next_timeout()];
            let next = next.into_iter().flatten().min().expect("there is an alarm").max(self.now);
            if next > until {
                break;
            }
            self.now = next;
            self.session.on_time(self.now);
            self.pump();
        }
        self.now = until;
    }

    pub(super) fn buffer(&mut self, blocks: u32, byte: u8) -> IoBuffer {
        let mut buffer = self.pool.take(blocks as usize * BLOCK).expect("the pool is large");
        buffer.fill(byte);
        buffer
    }

    /// A request, with a buffer full of `byte` if it needs one.
    pub(super) fn request(
        &mut self,
        tag: u64,
        operation: Operation,
        lba: u64,
        blocks: u32,
        byte: u8,
    ) -> Request {
        let request = Request::new(tag, 1, operation, Lba(lba), blocks);
        if operation.has_buffer() { request.with_buffer(self.buffer(blocks, byte)) } else { request }
    }

    /// Submits a request, which must be accepted.
    pub(super) fn submit(&mut self, tag: u64, operation: Operation, lba: u64, blocks: u32, byte: u8) {
        let request = self.request(tag, operation, lba, blocks, byte);
        self.session.submit(self.now, request).expect("the request is in order");
        self.pump();
    }

    /// Submits one IO and takes its completion. The target must answer at once.
    pub(super) fn complete(&mut self, operation: Operation, lba: u64, blocks: u32, byte: u8) -> Completion {
        self.submit(0, operation, lba, blocks, byte);
        let completion = self.ended.pop().expect("the IO has ended");
        assert!(self.ended.is_empty(), "only one IO was submitted");
        completion
    }

    /// The tags of all IOs that have ended, in order. They must all be different.
    pub(super) fn tags_once(&self) -> Vec<u64> {
        let mut tags: Vec<u64> = self.ended.iter().map(|completion| completion.tag).collect();
        tags.sort_unstable();
        assert!(tags.windows(2).all(|pair| pair[0] != pair[1]), "an IO ended twice: {tags:?}");
        tags
    }
}
