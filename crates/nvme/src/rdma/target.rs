//! The controller's end of a queue pair: messages and RDMA around a `queue`.
//!
//! ```text
//!   capsule ─► on_capsule ─► queue ─► events
//!   work    ◄─ poll       ◄─ queue ◄─ reply / reply_with_data          Receive · Read · Answer
//!   ends    ─► on_read · on_capsule
//! ```
//!
//! Commands, refusals, cancelling and fused operations are those of every transport. New are three bounds:
//!
//! - *receives*: a capsule needs a receive that was posted before. One is posted until Connect is granted, as the host is unknown; then as
//!   many as the queue has entries, less while too many answers wait: then the host is slowed down as receives run out (RNR).
//! - *reads*: the peers have agreed on how many reads are in flight. One more would stop the send queue, and the answers behind it; so it
//!   waits here, and answers pass it.
//! - *room*: entries of the send queue that are free, which the caller knows.
//!
//! A receive is posted before the answer that lets the host use it.
//!
//! Capsules carry no data: that of a write is read from the host, however short. A receive is 64 bytes then; with room for data a queue of
//! 128 entries would hold a megabyte, whether its host writes or not, and a host may have hundreds of queues.
//!
//! Holds: bounds as for `tcp::target`, receives and reads within theirs, whatever the host does; every buffer comes back (both
//!        `a_fabric_with_faults_loses_nothing` in `tests/fabric`).

use super::{COMMAND_BYTES, Remote};
use crate::buffer::{Buffer, BufferSource};
use crate::queue::{Cancel, FlowControl, Outbound, Queue, Route, TargetEvent, TransferLimits};
use crate::spec::{Cqe, Sqe, Status};
use std::collections::VecDeque;
use units::{Bytes, Instant};
use zerocopy::FromBytes;

/// Entries of the send queue that an answer without data takes.
const ANSWER_COST: usize = 1;
/// Longest transfer before Connect is granted, in bytes: the data of Connect, and the messages of a proof.
const BEFORE_CONNECT_MAX: u32 = 8192;

/// Limits of one queue.
#[derive(Clone, Copy, Debug)]
pub struct RdmaLimits {
    /// Entries of the submission queue, as its private data has it: Connect may ask for fewer.
    pub entries: u32,
    /// Longest transfer, in bytes: MDTS.
    pub transfer_max: u32,
    /// Reads in flight that the peers have agreed on, at least 1.
    pub reads_max: u32,
    /// Zeroes that one write to the host sends at most, in bytes.
    pub zeroes: u32,
}

/// Reason why a queue pair cannot go on. There is no message for it: the connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdmaFatal {
    /// A message is no command.
    #[error("the host sent a message of {0} bytes; a command has 64")]
    Length(u32),
    /// More commands than the queue has entries.
    #[error("the host sent more commands than its queue has entries")]
    TooManyCommands,
}

/// Work to post.
#[derive(Debug)]
pub enum RdmaWork<B> {
    /// A receive for a capsule, of `COMMAND_BYTES`.
    Receive,
    /// Read the data of a write from the host; then call `on_read`.
    Read {
        /// Name of the transfer.
        tag: u16,
        /// Its first `length` bytes are to be filled.
        buffer: B,
        /// In bytes.
        length: u32,
        /// Where the data is.
        from: Remote,
    },
    /// Write the data of a read to the host, if there is any, and send the completion, in this order.
    Answer {
        /// The data.
        data: Option<Answer<B>>,
        /// The completion.
        cqe: Cqe,
        /// The key to invalidate with the completion.
        invalidate: Option<u32>,
    },
}

/// Data of an answer.
#[derive(Debug)]
pub struct Answer<B> {
    /// Holds the first bytes; zeroes follow.
    pub buffer: B,
    /// Bytes to take from the buffer.
    pub held: u32,
    /// Bytes in all.
    pub length: u32,
    /// Where they go.
    pub to: Remote,
}

/// The controller's end of one queue pair.
#[derive(Debug)]
pub struct RdmaTarget<B> {
    limits: RdmaLimits,
    queue: Queue<B, Remote>,
    /// Receives to keep posted.
    receives_max: u32,
    posted: u32,
    reads: u32,
    /// Transfers that wait for others to be read.
    waiting_reads: VecDeque<u16>,
    /// The next answer, which had no room.
    next: Option<Outbound<B, Remote>>,
    /// The time that the caller set last.
    now: Instant,
    fatal: Option<RdmaFatal>,
}

impl<B: Buffer> RdmaTarget<B> {
    /// A queue pair that has received nothing yet.
    pub fn new(limits: RdmaLimits) -> RdmaTarget<B> {
        assert!(limits.reads_max > 0, "without reads no write gets its data");
        let before_connect = BEFORE_CONNECT_MAX.min(limits.transfer_max);
        let transfers = TransferLimits { before_connect, connected: limits.transfer_max };
        let mut queue = Queue::new(transfers);
        queue.set_data_may_complete(false);
        RdmaTarget {
            limits,
            queue,
            receives_max: 1,
            posted: 0,
            reads: 0,
            waiting_reads: VecDeque::new(),
            next: None,
            now: Instant::ZERO,
            fatal: None,
        }
    }

    /// Entries that the send queue has to have: for all answers and reads, and for the longest row of zeroes.
    pub fn sends(limits: &RdmaLimits) -> u32 {
        let zeroes = limits.transfer_max.div_ceil(limits.zeroes);
        2 * limits.entries + limits.reads_max + zeroes + ANSWER_COST as u32
    }

    /// Handles a message of `length` bytes, which begins with `command`.
    ///
    /// # Errors
    /// The queue pair cannot go on.
    pub fn on_capsule(
        &mut self,
        command: &[u8; COMMAND_BYTES],
        length: u32,
        source: &mut impl BufferSource<Buffer = B>,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Result<(), RdmaFatal> {
        self.posted -= 1;
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        if length != COMMAND_BYTES as u32 {
            return Err(self.end(RdmaFatal::Length(length)));
        }
        if self.queue.is_full() {
            return Err(self.end(RdmaFatal::TooManyCommands));
        }
        let sqe = Sqe::read_from_bytes(command).expect("as many bytes as a command");
        // Nothing was in the capsule but the command, so that nothing follows.
        self.queue.admit(sqe, 0, source, events);
        Ok(())
    }

    /// Requests buffers for parked writes again, oldest first.
    pub fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) {
        self.queue.resume(source);
    }

    /// The next work to post, if there is any that takes at most `room` entries of the send queue (`cost`). A receive takes none.
    pub fn poll(&mut self, room: usize, events: &mut Vec<TargetEvent<B>>) -> Option<RdmaWork<B>> {
        if self.fatal.is_some() {
            return None;
        }
        if let Some(receive) = self.next_receive() {
            return Some(receive);
        }
        if room == 0 {
            return None;
        }
        loop {
            if self.reads < self.limits.reads_max
                && let Some(number) = self.waiting_reads.pop_front()
            {
                match self.begin_read(number, events) {
                    Some(read) => return Some(read),
                    None => continue,
                }
            }
            match self.next.take().or_else(|| self.queue.pop_outbound())? {
                Outbound::Fetch(number) => self.waiting_reads.push_back(number),
                answer if self.cost_of(&answer) > room => {
                    self.next = Some(answer);
                    return None;
                }
                Outbound::Response { cqe, route } => {
                    return Some(RdmaWork::Answer { data: None, cqe, invalidate: key_to_invalidate(route) });
                }
                Outbound::Data { cqe, route, buffer, length, .. } => {
                    let held = (buffer.bytes().len() as u64).min(u64::from(length)) as u32;
                    let data = Some(Answer { buffer, held, length, to: route });
                    return Some(RdmaWork::Answer { data, cqe, invalidate: key_to_invalidate(route) });
                }
            }
        }
    }

    /// Entries of the send queue that an answer takes.
    pub fn cost(held: u32, length: u32, zeroes: u32) -> usize {
        ANSWER_COST + usize::from(held > 0) + (length - held).div_ceil(zeroes) as usize
    }

    /// Handles the end of a read: the data is in the buffer.
    pub fn on_read(&mut self, tag: u16, buffer: B, events: &mut Vec<TargetEvent<B>>) {
        self.reads -= 1;
        self.queue.on_transfer_brought(tag, Some(buffer), events);
    }

    /// Sets the options that the Connect command requested, before it is answered; see `tcp::TargetConnection`. `entries` is at most
    /// that of the private data.
    pub fn set_queue(&mut self, entries: u32, flow_control: FlowControl) {
        self.set_queue_unproved(entries, flow_control);
        self.allow_transfers();
    }

    /// Does the same for a host that has to prove who it is: a command may have no more data than before Connect.
    pub fn set_queue_unproved(&mut self, entries: u32, flow_control: FlowControl) {
        self.queue.set_size(entries, flow_control);
        self.receives_max = entries.min(self.limits.entries);
    }

    /// The host has proved who it is.
    pub fn allow_transfers(&mut self) {
        self.queue.allow_transfers();
    }

    /// Allows fused commands: this is an IO queue.
    pub fn allow_fused(&mut self) {
        self.queue.allow_fused();
    }

    /// Sets the time that `awaited_since` uses.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When the oldest read of a write's data that has not ended was posted.
    pub fn awaited_since(&self) -> Option<Instant> {
        self.queue.awaited_since()
    }

    /// Marks a passed-on command that is answered only if an event happens.
    pub fn hold(&mut self, cid: u16) {
        self.queue.hold(cid);
    }

    /// Drops a command that is on `hold`; it gets no answer. Returns whether there was one.
    pub fn forget(&mut self, cid: u16) -> bool {
        self.queue.forget(cid)
    }

    /// Sends the completion of a command without read data, or of one that failed.
    pub fn reply(&mut self, cqe: Cqe) {
        self.queue.reply(cqe);
    }

    /// Sends the first `length` bytes of `buffer`, and zeroes if it is shorter, as a command's read data, then `cqe`.
    pub fn reply_with_data(&mut self, cqe: Cqe, buffer: B, length: u32) {
        self.queue.reply_with_data(cqe, buffer, length);
    }

    /// Completes the command `cid` with `status` if the layer above has not received it yet.
    pub fn cancel(&mut self, cid: u16, status: Status) -> Cancel {
        self.queue.cancel(cid, status)
    }

    /// Returns the buffers of commands that were refused here.
    pub fn take_discarded(&mut self, give: impl FnMut(B)) {
        self.queue.take_discarded(give);
    }

    /// Why the queue pair has ended, if it has.
    pub fn fatal(&self) -> Option<RdmaFatal> {
        self.fatal
    }

    /// Commands received and not yet answered, including those that wait for data or for a buffer.
    pub fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// Writes that wait for a buffer; call `resume` when buffers are free.
    pub fn parked(&self) -> usize {
        self.queue.parked()
    }

    /// Answers and reads that wait to be posted.
    pub fn transmit_pending(&self) -> usize {
        self.queue.outbound() + usize::from(self.next.is_some()) + self.waiting_reads.len()
    }

    /// Whether receives are to be posted.
    pub fn lacks_receives(&self) -> bool {
        self.posted < self.receives_max && !self.queue.is_congested()
    }

    /// Bytes of data in transfer: to be read from the host, or answered and not yet posted.
    pub fn pending_bytes(&self) -> Bytes {
        let next = match &self.next {
            Some(Outbound::Data { length, .. }) => u64::from(*length),
            _ => 0,
        };
        self.queue.pending_bytes() + Bytes(next)
    }

    /// Ends the queue pair: nothing is sent any more.
    pub fn close(&mut self) {
        self.queue.close();
        self.next = None;
        self.waiting_reads.clear();
    }

    /// Returns every buffer that is not with a work request, for a connection that is about to be dropped.
    pub fn into_buffers(self, mut give: impl FnMut(B)) {
        if let Some(Outbound::Data { buffer, .. }) = self.next {
            give(buffer);
        }
        self.queue.into_buffers(give);
    }

    fn next_receive(&mut self) -> Option<RdmaWork<B>> {
        if !self.lacks_receives() {
            return None;
        }
        self.posted += 1;
        Some(RdmaWork::Receive)
    }

    fn begin_read(&mut self, number: u16, events: &mut Vec<TargetEvent<B>>) -> Option<RdmaWork<B>> {
        let (buffer, sqe) = self.queue.lend_transfer(number, self.now, events)?;
        self.reads += 1;
        Some(RdmaWork::Read { tag: number, buffer, length: sqe.sgl_length(), from: Remote::of(&sqe) })
    }

    fn cost_of(&self, answer: &Outbound<B, Remote>) -> usize {
        match answer {
            Outbound::Data { buffer, length, .. } => {
                let held = (buffer.bytes().len() as u64).min(u64::from(*length)) as u32;
                Self::cost(held, *length, self.limits.zeroes)
            }
            Outbound::Response { .. } | Outbound::Fetch(_) => ANSWER_COST,
        }
    }

    fn end(&mut self, fatal: RdmaFatal) -> RdmaFatal {
        self.close();
        *self.fatal.get_or_insert(fatal)
    }
}

fn key_to_invalidate(route: Remote) -> Option<u32> {
    route.invalidates.then_some(route.key)
}
