//! A connection of NVMe/RDMA on the reactor of its thread: a queue pair, and messages on it.
//!
//! ```text
//!   Ready ──► completions ──► events (commands)           a capsule · the data of a write that was read from the host
//!   replies ──► transport ──flush──► work requests ──► completions ──► buffers and permits come back
//! ```
//!
//! Every piece of work ends with a completion, in order for those of the send queue. The permit of a buffer stays here while the buffer is
//! with the queue pair.
//!
//! Data of the controller itself is copied into a buffer of this connection, which the device can read; there are few, so an answer may
//! wait for one, and those behind it.
//!
//! Holds: a connection that cannot go on ends with its reason, whichever work has failed first.

use super::tcp::flow_control;
use super::{Events, Fatal};
use crate::account::{ConnectionAccount, Permit, REPLIES_MAX};
use crate::payload::{Intake, Intakes, Payload, footprint};
use crate::rdma::Closer;
use nvme::queue::{Cancel, TargetEvent};
use nvme::rdma::{Answer, OpenQueue, RdmaLimits, RdmaTarget, RdmaWork, Remote};
use nvme::spec::{ConnectCommand, Cqe, Status};
use nvme::subsystem::Connected;
use reactor::rdma::{AnswerData, NotPosted, Queue, QueueDone, RemoteMemory, Work, ZEROES};
use reactor::{BufferPool, IoBuffer, Reactor, Token};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos};

/// Memory for copies of the controller's own data: that of its largest replies, in powers of two.
const PAGES: Bytes = Bytes(2 * REPLIES_MAX);

/// A queue pair, and what its thread knows of it besides.
pub(crate) struct RdmaConnection {
    /// The queue pair's completions on this thread's reactor.
    pub(super) token: Token,
    pub(super) account: Arc<ConnectionAccount>,
    /// Whether memory was refused. Call `parse_held` when some was returned.
    pub(super) waits_for_memory: bool,
    parts: RdmaMoving,
    /// When something was last sent, or nothing was on its way.
    progressed_at: Instant,
    ending: bool,
    /// Whether completions were taken on this thread: only then those that follow are reported.
    is_looked_at: bool,
    /// Completions of a turn; kept for its memory.
    done: Vec<QueueDone>,
    /// Commands that were refused as work was posted.
    refused: Events,
}

/// The connection without its thread.
pub(crate) struct RdmaMoving {
    /// The other end.
    peer: SocketAddr,
    /// The host's request, which Connect has to agree with.
    open: OpenQueue,
    transport: RdmaTarget<Payload>,
    queue: Closing,
    /// Commands that were delivered and not answered.
    delivered: usize,
    /// Answers with the queue pair, oldest first.
    answers: VecDeque<Sending>,
    /// Permits of buffers that are filled from the host's memory, by transfer.
    reads: Vec<(u16, Permit)>,
    pages: BufferPool,
    /// The next answer, whose data has found no buffer of `pages`.
    blocked: Option<BlockedAnswer>,
    /// Why no work can be posted any more.
    fault: Option<String>,
}

/// An answer that waits for a buffer.
struct BlockedAnswer {
    data: Answer<Payload>,
    cqe: Cqe,
    invalidate: Option<u32>,
}

impl BlockedAnswer {
    /// Entries of the send queue that it takes.
    fn cost(&self) -> usize {
        RdmaTarget::<Payload>::cost(self.data.held, self.data.length, ZEROES as u32)
    }

    fn into_work(self) -> RdmaWork<Payload> {
        RdmaWork::Answer { data: Some(self.data), cqe: self.cqe, invalidate: self.invalidate }
    }
}

/// The data of an answer that is being sent.
enum Sending {
    None,
    /// Read for a session, which gets the buffer back.
    Lent,
    /// The controller's own.
    Page(Permit),
}

/// Entries of the queue, and what the host lets the controller do.
pub(crate) struct Opening {
    /// The host's request.
    pub(crate) open: OpenQueue,
    /// The bounds that follow from it.
    pub(crate) limits: RdmaLimits,
    /// The other end.
    pub(crate) peer: SocketAddr,
}

impl RdmaMoving {
    /// A queue pair that is about to be accepted.
    pub(crate) fn new(queue: Queue, Opening { open, limits, peer }: Opening, closer: Closer) -> RdmaMoving {
        RdmaMoving {
            peer,
            open,
            transport: RdmaTarget::new(limits),
            queue: Closing { queue: Some(queue), closer },
            delivered: 0,
            answers: VecDeque::new(),
            reads: Vec::new(),
            pages: BufferPool::new(PAGES),
            blocked: None,
            fault: None,
        }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// A buffer for a copy of the controller's own data. One that is longer than all others together may always be alone, as its permit may.
    fn take_page(&mut self, length: usize) -> Option<IoBuffer> {
        if !self.answers.iter().any(|sending| matches!(sending, Sending::Page(_))) {
            self.pages.set_limit(Bytes(footprint(length)).max(PAGES));
        }
        self.pages.take(length)
    }

    /// Sets up the queue as its Connect was granted; see `Moving`.
    pub(super) fn set_up(&mut self, connected: &Connected) {
        if self.delivered > 0 {
            self.transport.set_queue(connected.entries, flow_control(connected.flow_control_disabled));
        } else {
            self.transport.allow_transfers();
        }
        if connected.queue_id != 0 {
            self.transport.allow_fused();
        }
    }

    /// The connection on the reactor of this thread.
    pub(crate) fn arrive(
        self,
        now: Instant,
        account: Arc<ConnectionAccount>,
        reactor: &mut Reactor,
    ) -> io::Result<RdmaConnection> {
        let token = reactor.add_channel(self.queue.as_fd())?;
        Ok(RdmaConnection {
            token,
            account,
            waits_for_memory: false,
            parts: self,
            progressed_at: now,
            ending: false,
            is_looked_at: false,
            done: Vec::new(),
            refused: Vec::new(),
        })
    }
}

/// A queue pair that ends where its device may take its time.
struct Closing {
    /// Present until it is dropped.
    queue: Option<Queue>,
    closer: Closer,
}

impl Deref for Closing {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        self.queue.as_ref().expect("present until it is dropped")
    }
}

impl DerefMut for Closing {
    fn deref_mut(&mut self) -> &mut Queue {
        self.queue.as_mut().expect("present until it is dropped")
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.closer.close(queue);
        }
    }
}

impl RdmaConnection {
    /// The other end.
    pub(super) fn peer(&self) -> SocketAddr {
        self.parts.peer
    }

    /// The host's request for the queue.
    pub(crate) fn opened_as(&self) -> OpenQueue {
        self.parts.open
    }

    /// Accepts the connection, with its first receive posted. `reads`: reads of the host's memory in flight, at most.
    pub(crate) fn accept(&mut self, now: Instant, private_data: &[u8], reads: u8) -> io::Result<()> {
        self.flush(now);
        if let Some(fault) = &self.parts.fault {
            return Err(io::Error::other(fault.clone()));
        }
        self.parts.queue.accept(private_data, reads)
    }

    /// Handles completions. Adds the resulting events to `events`; buffers of data that was sent and permits go to `give`. Without
    /// `takes_commands`, those that arrive are dropped.
    pub(crate) fn on_ready(
        &mut self,
        now: Instant,
        takes_commands: bool,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
        mut give: impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Result<(), Fatal> {
        let before = events.len();
        events.append(&mut self.refused);
        let mut done = std::mem::take(&mut self.done);
        let polled = self.collect(reactor, &mut done);
        let mut result = Ok(());
        for done in done.drain(..) {
            let one = self.on_done(now, done, takes_commands, intakes, events, &mut give);
            // The first reason counts; what was flushed has none.
            if let (Err(fatal), true) = (one, result.is_ok() || matches!(result, Err(Fatal::ClosedByHost))) {
                result = Err(fatal);
            }
        }
        self.done = done;
        self.after_events(&events[before..], intakes);
        polled.map_err(|error| Fatal::Rdma(error.to_string()))?;
        match (&self.parts.fault, result) {
            (Some(fault), Err(_)) => Err(Fatal::Rdma(fault.clone())),
            (_, result) => result,
        }
    }

    /// Takes all completions, and asks for the next event.
    fn collect(&mut self, reactor: &mut Reactor, done: &mut Vec<QueueDone>) -> io::Result<()> {
        let token = self.token;
        let was_looked_at = std::mem::replace(&mut self.is_looked_at, true);
        let queue = &mut self.parts.queue;
        queue.arm()?;
        queue.poll(done)?;
        // It is watched from the beginning.
        if was_looked_at { reactor.watch_channel(token) } else { Ok(()) }
    }

    fn on_done(
        &mut self,
        now: Instant,
        done: QueueDone,
        takes_commands: bool,
        intakes: &mut Intakes,
        events: &mut Events,
        give: &mut impl FnMut(Option<IoBuffer>, Option<Permit>),
    ) -> Result<(), Fatal> {
        let is_flushed = done.is_flushed();
        match done {
            QueueDone::Received { header, length, .. } => {
                if self.ending || !takes_commands {
                    return Ok(());
                }
                let (account, waits_for_memory) = (&self.account, &mut self.waits_for_memory);
                let mut intake = Intake { intakes, account, waits_for_memory };
                Ok(self.parts.transport.on_capsule(&header, length, &mut intake, events)?)
            }
            QueueDone::Read { tag, buffer } => {
                let (tag, permit) = self.take_read(tag);
                self.parts.transport.on_read(tag, Payload::Pooled(buffer, permit), events);
                Ok(())
            }
            QueueDone::Sent { buffer, .. } => {
                self.progressed_at = now;
                self.on_sent(buffer, give);
                Ok(())
            }
            QueueDone::Failed { what, tag, status, reason, buffer } => {
                match what {
                    Work::Read => {
                        let (_, permit) = self.take_read(tag.expect("a read has a tag"));
                        if let Some(buffer) = buffer {
                            intakes.give(buffer, permit.account());
                        }
                    }
                    Work::Answer => self.on_sent(buffer, give),
                    Work::Receive | Work::Write | Work::Capsule => {}
                }
                match is_flushed {
                    true => Err(Fatal::ClosedByHost),
                    false => {
                        Err(Fatal::Rdma(format!("{} failed: {reason} (status {status})", name_of(what))))
                    }
                }
            }
        }
    }

    /// The permit of a read that has ended.
    fn take_read(&mut self, tag: u32) -> (u16, Permit) {
        let reads = &mut self.parts.reads;
        let at = reads.iter().position(|(read, _)| u32::from(*read) == tag).expect("it was posted");
        reads.swap_remove(at)
    }

    /// The oldest answer has ended.
    fn on_sent(&mut self, buffer: Option<IoBuffer>, give: &mut impl FnMut(Option<IoBuffer>, Option<Permit>)) {
        match self.parts.answers.pop_front().expect("it was posted") {
            Sending::None => {}
            Sending::Lent => give(buffer, None),
            Sending::Page(permit) => {
                if let Some(buffer) = buffer {
                    self.parts.pages.give(buffer);
                }
                give(None, Some(permit));
            }
        }
    }

    /// Goes on with writes that wait for memory, and with completions from before it came to this thread.
    pub(crate) fn parse_held(
        &mut self,
        now: Instant,
        intakes: &mut Intakes,
        reactor: &mut Reactor,
        events: &mut Events,
    ) -> Result<(), Fatal> {
        self.waits_for_memory = false;
        events.append(&mut self.refused);
        if !self.ending {
            let (account, waits_for_memory) = (&self.account, &mut self.waits_for_memory);
            self.parts.transport.resume(&mut Intake { intakes, account, waits_for_memory });
        }
        match self.is_looked_at {
            true => Ok(()),
            // No data was read for a session yet.
            false => self.on_ready(now, true, intakes, reactor, events, |_, _| {}),
        }
    }

    /// Whether there may be completions from before it came to this thread.
    pub(crate) fn has_unparsed(&self) -> bool {
        !self.is_looked_at
    }

    /// Posts all work that there is room for.
    pub(crate) fn flush(&mut self, now: Instant) {
        self.parts.transport.set_time(now);
        if self.parts.answers.is_empty() {
            self.progressed_at = now;
        }
        while self.parts.fault.is_none() {
            let room = self.parts.queue.room();
            if self.parts.blocked.as_ref().is_some_and(|answer| answer.cost() > room) {
                break;
            }
            let blocked = self.parts.blocked.take().map(BlockedAnswer::into_work);
            let Some(work) = blocked.or_else(|| self.parts.transport.poll(room, &mut self.refused)) else {
                break;
            };
            if !self.post(work) {
                break;
            }
        }
    }

    /// Posts a piece of work. Returns whether more may be posted.
    fn post(&mut self, work: RdmaWork<Payload>) -> bool {
        let parts = &mut self.parts;
        let posted = match work {
            RdmaWork::Receive => parts.queue.post_receive(None),
            RdmaWork::Read { tag, buffer, length, from } => {
                let (buffer, permit) =
                    buffer.into_pooled().expect("data that arrives is in a buffer of a pool");
                parts.reads.push((tag, permit));
                parts.queue.read(u32::from(tag), buffer, length as usize, place(from))
            }
            RdmaWork::Answer { data: None, cqe, invalidate } => {
                parts.answers.push_back(Sending::None);
                parts.queue.answer(None, &cqe.to_bytes(), invalidate)
            }
            RdmaWork::Answer { data: Some(Answer { buffer, held, length, to }), cqe, invalidate } => {
                let (buffer, sending) = match buffer {
                    Payload::Lent(buffer) => (buffer, Sending::Lent),
                    Payload::Page(page, permit) => match parts.take_page(page.len()) {
                        Some(mut buffer) => {
                            buffer.copy_from_slice(&page);
                            (buffer, Sending::Page(permit))
                        }
                        None => {
                            let data = Answer { buffer: Payload::Page(page, permit), held, length, to };
                            parts.blocked = Some(BlockedAnswer { data, cqe, invalidate });
                            return false;
                        }
                    },
                    Payload::Pooled(..) => unreachable!("what has arrived is not sent"),
                };
                parts.answers.push_back(sending);
                let (held, length, to) = (held as usize, length as usize, place(to));
                let data = Some(AnswerData { buffer, held, length, to });
                parts.queue.answer(data, &cqe.to_bytes(), invalidate)
            }
        };
        if let Err(NotPosted { error, .. }) = posted {
            // The work that is out ends with this, and the connection with it.
            parts.fault = Some(format!("the RDMA device takes no more work: {error}"));
            parts.queue.disconnect();
            return false;
        }
        true
    }

    /// The connection without its reactor.
    pub(crate) fn into_moving(self, reactor: &mut Reactor) -> RdmaMoving {
        reactor.close(self.token);
        self.parts
    }

    /// Sets up the queue as its Connect was granted.
    pub(crate) fn set_up(&mut self, connected: &Connected) {
        self.parts.set_up(connected);
    }

    /// The host has proved who it is.
    pub(crate) fn allow_transfers(&mut self) {
        self.parts.transport.allow_transfers();
    }

    /// Sets up the queue for the commands of a proof, before its Connect is granted.
    pub(crate) fn set_up_for_proof(&mut self, connect: &ConnectCommand) {
        let flow = flow_control(connect.disables_flow_control());
        self.parts.transport.set_queue_unproved(connect.entries(), flow);
    }

    /// Marks a command that is answered only if an event happens.
    pub(crate) fn hold(&mut self, cid: u16) {
        self.parts.transport.hold(cid);
    }

    /// Whether a command follows the one that is not answered yet.
    pub(crate) fn has_more_than_one(&self) -> bool {
        self.parts.transport.outstanding() > 1
    }

    /// Whether there is work to post.
    pub(crate) fn has_to_send(&self) -> bool {
        self.has_answers() || self.parts.transport.lacks_receives()
    }

    /// Whether answers wait to be posted.
    pub(super) fn has_answers(&self) -> bool {
        self.parts.blocked.is_some() || self.parts.transport.transmit_pending() > 0
    }

    /// Counts commands that are new, and returns the memory of those that the transport has refused.
    fn after_events(&mut self, new: &[TargetEvent<Payload>], intakes: &mut Intakes) {
        self.take_discarded(intakes);
        for event in new {
            match event {
                TargetEvent::Command { .. } => self.parts.delivered += 1,
                TargetEvent::Fused { .. } => self.parts.delivered += 2,
                TargetEvent::GivenUp { .. } => self.parts.delivered -= 1,
                TargetEvent::Initialized | TargetEvent::Refused { .. } => {}
            }
        }
    }

    /// Completes a command with `status` if it waits for its data, or for memory.
    pub(crate) fn cancel(&mut self, cid: u16, status: Status, intakes: &mut Intakes) -> Cancel {
        let cancel = self.parts.transport.cancel(cid, status);
        self.take_discarded(intakes);
        cancel
    }

    fn take_discarded(&mut self, intakes: &mut Intakes) {
        self.parts.transport.take_discarded(|payload| {
            if let Some((buffer, permit)) = payload.into_pooled() {
                intakes.give(buffer, permit.account());
            }
        });
    }

    /// Completes a command.
    pub(crate) fn reply(&mut self, cqe: Cqe) {
        self.parts.delivered -= 1;
        self.parts.transport.reply(cqe);
    }

    /// Removes a command that was held for an event. It is not answered.
    pub(crate) fn forget(&mut self, cid: u16) {
        if self.parts.transport.forget(cid) {
            self.parts.delivered -= 1;
        }
    }

    /// Completes a command with data.
    pub(crate) fn reply_with_data(&mut self, cqe: Cqe, payload: Payload, length: u32) {
        self.parts.delivered -= 1;
        self.parts.transport.reply_with_data(cqe, payload, length);
    }

    /// Takes no more commands. When everything was sent, `is_spent` is true.
    pub(crate) fn end(&mut self) {
        self.ending = true;
    }

    /// Whether no more commands are taken.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether everything was sent, and the host has received it.
    pub(crate) fn all_sent(&self) -> bool {
        self.parts.fault.is_some() || !self.has_answers() && self.parts.answers.is_empty()
    }

    /// Takes the connection apart. Every payload that it holds goes to `payload`, the permits of answers that are being sent to `permit`. Buffers with the
    /// queue pair return to their pools when it was destroyed.
    pub(crate) fn into_parts(self, mut payload: impl FnMut(Payload), mut permit: impl FnMut(Permit)) {
        let RdmaMoving { answers, blocked, transport, .. } = self.parts;
        for sending in answers {
            if let Sending::Page(page) = sending {
                permit(page);
            }
        }
        if let Some(blocked) = blocked {
            payload(blocked.data.buffer);
        }
        transport.into_buffers(payload);
    }

    /// The time by which the host is late: to take answers.
    pub(crate) fn stalled_for(&self, now: Instant) -> Nanos {
        match &self.parts.fault {
            // Nothing more comes of it, if no work was out whose end says so.
            Some(_) => Nanos(u64::MAX),
            None if self.parts.answers.is_empty() && !self.has_answers() => Nanos::ZERO,
            None => now.saturating_since(self.progressed_at),
        }
    }

    /// Excludes a time in which the target did not run: that is not the host's time.
    pub(crate) fn extend(&mut self, by: Nanos) {
        self.progressed_at += by;
    }

    /// The time for which the data of one write has been awaited.
    pub(crate) fn transfer_awaited_for(&self, now: Instant) -> Nanos {
        let since = self.parts.transport.awaited_since();
        since.map_or(Nanos::ZERO, |since| now.saturating_since(since))
    }
}

fn place(remote: Remote) -> RemoteMemory {
    RemoteMemory { address: remote.address, key: remote.key }
}

fn name_of(work: Work) -> &'static str {
    match work {
        Work::Receive => "the receive of a command",
        Work::Read => "the read of a write's data from the host",
        Work::Write => "the write of a read's data to the host",
        Work::Answer | Work::Capsule => "the sending of an answer",
    }
}
