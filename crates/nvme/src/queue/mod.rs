//! The controller's end of a queue pair, for every transport; and the commands of the host's end (`submission`).
//!
//!   capsule --> admit --no data, or data in the capsule------------------------------> Command event
//!                  |                                                                        |
//!                  +--larger write--> [parked] --buffer--> Fetch ... the transport brings --+
//!                                                          the data                         v
//!   the transport <-- Response, Data, Fetch <-- outbound <-- reply / reply_with_data
//!
//! The transport reports the arrival of a capsule, and the completeness of a command's data. The queue
//! decides where the data is, finds its buffer, keeps the outstanding commands, and orders the messages to
//! send. Neither knows the layout of a message: a `Fetch` is an R2T for one transport, and an RDMA READ for
//! another.
//!
//! Holds: commands that are outstanding are at most the queue's entries, answers that wait are bounded
//!        (`is_congested`), nothing is allocated per command.
//! Elsewhere: `plan` decides where a command's data is, `transfers` keeps writes with data to fetch, `fused`
//!            keeps the halves of a fused operation together, `submission_queue` computes SQHD, `cid_table`
//!            finds a command by its identifier, `slots` holds the entries in progress, `route` is the transport's note of a
//!            command.

pub(crate) mod cid_table;
mod fused;
mod plan;
mod route;
pub(crate) mod slots;
mod submission;
mod submission_queue;
mod transfers;

pub(crate) use route::Route;
pub use submission::{Refusal, SubmitError, Transfer};
pub use submission_queue::FlowControl;

use crate::buffer::{Buffer, BufferSource};
use crate::spec::{Cqe, Sqe, Status};
use cid_table::CidTable;
use fused::Fused;
use plan::{Plan, plan};
use std::collections::VecDeque;
use submission_queue::SubmissionQueue;
use transfers::Transfers;
use units::{Bytes, Instant};

/// Most outstanding commands before Connect has set the size of the queue.
const COMMANDS_BEFORE_CONNECT: u32 = 8;
/// The queue is congested when this many answers more than it has entries wait to be sent. Covers refusals.
const OUTBOUND_SLACK: usize = 8;

/// Events for the layer above.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetEvent<B> {
    /// The handshake of the transport is done, if it has one.
    Initialized,
    /// A command to execute and then answer with `reply` or `reply_with_data`.
    Command {
        /// The command.
        sqe: Sqe,
        /// Its write data: the first `sqe.sgl_length()` bytes of the buffer.
        data: Option<B>,
    },
    /// Two commands to execute as one, each with its data as in `Command`. Answer both.
    Fused {
        /// The first and the second. Boxed, as they are rare and every event has room for the largest.
        halves: Box<[(Sqe, Option<B>); 2]>,
    },
    /// A command was answered here and is not passed on. For statistics of host errors.
    Refused {
        /// The command.
        sqe: Sqe,
        /// The status of its completion.
        status: Status,
    },
    /// The host has reused the identifier of a command that is on `hold`. Do not answer that command any
    /// more.
    GivenUp {
        /// The identifier.
        cid: u16,
    },
}

/// Result of cancelling a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Answered now: its data was not requested yet, or it waited for its other half.
    Answered,
    /// Its data is on the way. The data will be discarded, then the command is answered. The layer above
    /// never gets it.
    Draining,
    /// The layer above has the command (or is about to get it) and must answer it.
    Delivered,
    /// There is no such command.
    Unknown,
}

/// A message for the transport to send.
#[derive(Debug)]
pub(crate) enum Outbound<B, R> {
    /// A completion.
    Response { cqe: Cqe, route: R },
    /// Read data, then a completion unless the data is `alone`.
    Data { cqe: Cqe, route: R, buffer: B, length: u32, alone: bool },
    /// A request for the data of the transfer with this number.
    Fetch(u16),
}

/// Result of a capsule's arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// Nothing more belongs to the capsule.
    Whole,
    /// This many bytes of data follow in the capsule: take a buffer for them, then call `on_capsule_data`.
    DataFollows(u32),
    /// The command was answered. Data that follows in the capsule is to be discarded.
    Refused,
}

/// State of an outstanding command.
#[derive(Clone, Copy, Debug)]
struct Outstanding<R> {
    /// Where its answer goes.
    route: R,
    /// Its transfer, until its data is complete.
    transfer: Option<u16>,
    /// Most bytes of data in its answer.
    read_length: u32,
    /// Whether it waits for an event that may never happen.
    held: bool,
    /// Its place in a fused operation that was not passed on yet.
    fused: Option<fused::Place>,
}

/// The longest transfers of one connection, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferLimits {
    /// Before Connect: no more than fits into a capsule.
    pub(crate) before_connect: u32,
    /// MDTS.
    pub(crate) connected: u32,
}

/// The controller's end of one queue pair.
#[derive(Debug)]
pub(crate) struct Queue<B, R> {
    limits: TransferLimits,
    commands: CidTable<Outstanding<R>>,
    transfers: Transfers<B>,
    fused: Fused<B>,
    /// Buffers of commands that were refused after they got a buffer.
    discarded: Vec<B>,
    outbound: VecDeque<Outbound<B, R>>,
    /// The queue is congested with this many messages in `outbound`.
    congestion: usize,
    /// Longest transfer of a command now.
    transfer_max: u32,
    head: SubmissionQueue,
    /// Whether read data may be its own completion.
    data_may_complete: bool,
    /// Whether the connection has ended: nothing is sent any more.
    is_closed: bool,
}

impl<B: Buffer, R: Route> Queue<B, R> {
    /// A queue before its Connect has arrived.
    pub(crate) fn new(limits: TransferLimits) -> Queue<B, R> {
        Queue {
            limits,
            commands: CidTable::new(COMMANDS_BEFORE_CONNECT as usize),
            transfers: Transfers::new(),
            fused: Fused::new(),
            discarded: Vec::new(),
            outbound: VecDeque::new(),
            congestion: COMMANDS_BEFORE_CONNECT as usize + OUTBOUND_SLACK,
            transfer_max: limits.before_connect,
            head: SubmissionQueue::before_connect(COMMANDS_BEFORE_CONNECT),
            data_may_complete: true,
            is_closed: false,
        }
    }

    /// Sets the size of the queue and its flow control, as Connect requested them.
    pub(crate) fn set_up(&mut self, entries: u32, flow_control: FlowControl) {
        self.set_size(entries, flow_control);
        self.allow_transfers();
    }

    /// Does the same while a command may still have no more data than before Connect: its host has to prove who it is.
    pub(crate) fn set_size(&mut self, entries: u32, flow_control: FlowControl) {
        assert!((1..=1 << 16).contains(&entries), "a queue of {entries} entries");
        self.commands.set_capacity(entries as usize);
        self.congestion = entries as usize + OUTBOUND_SLACK;
        self.head = SubmissionQueue::connected(entries, flow_control);
    }

    /// Allows as much data of a command as a connected queue may have.
    pub(crate) fn allow_transfers(&mut self) {
        self.transfer_max = self.limits.connected;
    }

    /// Allows or forbids read data that is its own completion.
    pub(crate) fn set_data_may_complete(&mut self, allowed: bool) {
        self.data_may_complete = allowed;
    }

    /// Allows fused commands: this is an IO queue.
    pub(crate) fn allow_fused(&mut self) {
        self.fused.allow();
    }

    /// Whether as many commands are outstanding as the queue has entries. A host that sends one more violates the
    /// protocol.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.commands.is_full()
    }

    /// Whether too many messages wait to be sent: receive nothing more until some were.
    #[inline]
    pub(crate) fn is_congested(&self) -> bool {
        self.outbound.len() >= self.congestion
    }

    /// Admits a command with a capsule that carries `in_capsule` bytes of data. The queue must not be full.
    #[inline]
    pub(crate) fn admit<S: BufferSource<Buffer = B>>(
        &mut self,
        sqe: Sqe,
        in_capsule: u32,
        source: &mut S,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Admitted {
        let cid = sqe.cid();
        let route = R::of(&sqe);
        let planned = match self.commands.get(cid) {
            Some(outstanding) if outstanding.held => {
                // Its submission queue entry is free, as if it had been answered.
                self.forget(cid);
                events.push(TargetEvent::GivenUp { cid });
                plan::<R>(&sqe, in_capsule, self.transfer_max)
            }
            Some(_) => Err(Status::COMMAND_ID_CONFLICT),
            None => plan::<R>(&sqe, in_capsule, self.transfer_max),
        };
        let (plan, place) = match (planned, self.pair_up(&sqe)) {
            (Ok(plan), Ok(place)) => (plan, place),
            (Err(status), place) | (Ok(_), place @ Err(status)) => {
                self.refuse(sqe, status, route, events);
                if let Ok(Some(place)) = place {
                    self.on_half_refused(place);
                }
                return Admitted::Refused;
            }
        };
        let mut command = Outstanding { route, transfer: None, read_length: 0, held: false, fused: place };
        let mut admitted = Admitted::Whole;
        match plan {
            Plan::Complete => {}
            Plan::Send(length) => command.read_length = length,
            Plan::InCapsule(length) => admitted = Admitted::DataFollows(length),
            Plan::Fetch(length) => {
                let (number, is_parked) = self.transfers.begin(sqe, length, source);
                command.transfer = Some(number);
                if !is_parked {
                    self.outbound.push_back(Outbound::Fetch(number));
                }
            }
        }
        self.commands.insert(cid, command);
        if matches!(plan, Plan::Complete | Plan::Send(_)) {
            self.deliver(sqe, None, place, events);
        }
        admitted
    }

    /// Handles the data in a command's capsule, which has arrived; `intact`: as it was sent.
    pub(crate) fn on_capsule_data(
        &mut self,
        sqe: Sqe,
        buffer: B,
        intact: bool,
        events: &mut Vec<TargetEvent<B>>,
    ) {
        let place = self.place_of(&sqe);
        if intact {
            return self.deliver(sqe, Some(buffer), place, events);
        }
        self.discarded.push(buffer);
        self.refuse_outstanding(sqe, Status::TRANSIENT_TRANSPORT_ERROR, events);
    }

    /// The transfer with this number.
    #[inline]
    pub(crate) fn transfer(&mut self, number: u16) -> Option<&mut transfers::Transfer<B>> {
        self.transfers.find(number)
    }

    /// Notes that the request for a transfer's data was written out. Returns the identifier of its command, and its
    /// length.
    pub(crate) fn on_fetch_sent(&mut self, number: u16, now: Instant) -> (u16, u32) {
        let transfer = self.transfers.at(number);
        transfer.open(now);
        (transfer.sqe().cid(), transfer.length())
    }

    /// Lends the buffer of a transfer to whatever brings all its data at once, and notes that the data was asked for then. `None`: the
    /// command has ended without its data; nothing is to be brought.
    pub(crate) fn lend_transfer(
        &mut self,
        number: u16,
        now: Instant,
        events: &mut Vec<TargetEvent<B>>,
    ) -> Option<(B, Sqe)> {
        let transfer = self.transfers.at(number);
        if let Some(buffer) = transfer.lend() {
            transfer.open(now);
            return Some((buffer, *transfer.sqe()));
        }
        self.on_transfer_brought(number, None, events);
        None
    }

    /// Handles all data of a transfer, which has arrived in the buffer that was lent.
    pub(crate) fn on_transfer_brought(
        &mut self,
        number: u16,
        buffer: Option<B>,
        events: &mut Vec<TargetEvent<B>>,
    ) {
        self.discarded.extend(self.transfers.at(number).give_back(buffer));
        self.on_transfer_data(number, true, events);
    }

    /// Handles a part of a transfer's data, which has arrived and was placed; `intact`: as it was sent. Passes the
    /// command on if that was the last part.
    pub(crate) fn on_transfer_data(&mut self, number: u16, intact: bool, events: &mut Vec<TargetEvent<B>>) {
        let transfer = self.transfers.at(number);
        if !intact {
            self.discarded.extend(transfer.refuse(Status::TRANSIENT_TRANSPORT_ERROR));
        }
        if !transfer.is_complete() {
            return;
        }
        let ended = self.transfers.end(number);
        match ended.refused {
            Some(status) => self.refuse_outstanding(ended.sqe, status, events),
            None => {
                let fused = self.place_of(&ended.sqe);
                let route = R::of(&ended.sqe);
                let complete = Outstanding { route, transfer: None, read_length: 0, held: false, fused };
                self.commands.set(ended.sqe.cid(), complete);
                self.deliver(ended.sqe, ended.buffer, fused, events);
            }
        }
    }

    /// Requests buffers for parked writes again, oldest first.
    pub(crate) fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) {
        while let Some(number) = self.transfers.resume(source) {
            self.outbound.push_back(Outbound::Fetch(number));
        }
    }

    /// Marks a passed-on command that is answered only if an event happens.
    pub(crate) fn hold(&mut self, cid: u16) {
        if let Some(command) = self.commands.get(cid).filter(|command| command.transfer.is_none()) {
            self.commands.set(cid, Outstanding { held: true, ..command });
        }
    }

    /// Drops a command that is on `hold`; it gets no answer. Returns whether there was one.
    pub(crate) fn forget(&mut self, cid: u16) -> bool {
        let is_held = self.commands.get(cid).is_some_and(|command| command.held);
        if is_held {
            self.commands.remove(cid);
            self.head.complete_silently();
        }
        is_held
    }

    /// Sends the completion of a command without read data, or of one that failed.
    #[inline]
    pub(crate) fn reply(&mut self, cqe: Cqe) {
        let command = self.take_delivered(cqe.cid());
        self.answer(cqe, command.route);
    }

    /// Sends the first `length` bytes of `buffer` as a command's read data, then `cqe`.
    #[inline]
    pub(crate) fn reply_with_data(&mut self, cqe: Cqe, buffer: B, length: u32) {
        let command = self.take_delivered(cqe.cid());
        if length == 0 || !cqe.status().is_success() {
            return self.answer(cqe, command.route);
        }
        assert!(
            length <= command.read_length,
            "{length} bytes for a command that requested {}",
            command.read_length
        );
        if !self.is_closed {
            let alone = self.data_may_complete && cqe.result() == 0 && self.head.complete_by_data();
            let cqe = if alone { cqe } else { cqe.with_sqhd(self.head.complete()) };
            let route = command.route;
            self.outbound.push_back(Outbound::Data { cqe, route, buffer, length, alone });
        }
    }

    /// Completes the command `cid` with `status` if the layer above has not received it yet, because its data
    /// is not complete.
    pub(crate) fn cancel(&mut self, cid: u16, status: Status) -> Cancel {
        let Some(command) = self.commands.get(cid) else { return Cancel::Unknown };
        let Some(number) = command.transfer else {
            let waits = command.fused.is_some_and(|place| self.cancel_half(cid, place, status));
            return if waits { Cancel::Answered } else { Cancel::Delivered };
        };
        if self.transfers.unpark(number) {
            self.commands.remove(cid);
            self.answer(Cqe::new(cid, status), command.route);
            if let Some(place) = command.fused {
                self.on_half_refused(place);
            }
            return Cancel::Answered;
        }
        self.discarded.extend(self.transfers.at(number).refuse(status));
        Cancel::Draining
    }

    /// Returns the buffers of commands that were refused here.
    pub(crate) fn take_discarded(&mut self, give: impl FnMut(B)) {
        self.discarded.drain(..).for_each(give);
    }

    /// The next message to send.
    #[inline]
    pub(crate) fn pop_outbound(&mut self) -> Option<Outbound<B, R>> {
        self.outbound.pop_front()
    }

    /// Messages that wait to be sent.
    #[inline]
    pub(crate) fn outbound(&self) -> usize {
        self.outbound.len()
    }

    /// When the oldest request for data that is not complete yet was written out.
    pub(crate) fn awaited_since(&self) -> Option<Instant> {
        self.transfers.awaited_since()
    }

    /// Number of large writes with data on its way.
    #[inline]
    pub(crate) fn bulk(&self) -> usize {
        self.transfers.bulk()
    }

    /// Commands received and not yet answered, including those that wait for data or buffers.
    #[inline]
    pub(crate) fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Writes that wait for a buffer.
    #[inline]
    pub(crate) fn parked(&self) -> usize {
        self.transfers.parked()
    }

    /// Bytes of data in transfer: requested from the host and not yet received, or answered and not yet
    /// written out.
    pub(crate) fn pending_bytes(&self) -> Bytes {
        let waiting = self.outbound.iter().map(|outbound| match outbound {
            Outbound::Data { length, .. } => u64::from(*length),
            Outbound::Response { .. } | Outbound::Fetch(_) => 0,
        });
        Bytes(self.transfers.awaited_bytes() + waiting.sum::<u64>())
    }

    /// Drops waiting messages. Nothing is sent any more.
    pub(crate) fn close(&mut self) {
        self.outbound.clear();
        self.is_closed = true;
    }

    /// Returns every buffer.
    pub(crate) fn into_buffers(mut self, mut give: impl FnMut(B)) {
        self.transfers.drain().for_each(&mut give);
        self.fused.drain().for_each(&mut give);
        self.discarded.drain(..).for_each(&mut give);
        for outbound in self.outbound {
            if let Outbound::Data { buffer, .. } = outbound {
                give(buffer);
            }
        }
    }

    /// Removes a command that the layer above has got and now answers.
    #[inline]
    fn take_delivered(&mut self, cid: u16) -> Outstanding<R> {
        match self.commands.remove(cid) {
            Some(command) if command.transfer.is_none() => command,
            other => panic!("answer to command {cid:#x}, which was not passed on: {other:?}"),
        }
    }

    /// Queues a completion.
    #[inline]
    fn answer(&mut self, cqe: Cqe, route: R) {
        if !self.is_closed {
            let cqe = cqe.with_sqhd(self.head.complete());
            self.outbound.push_back(Outbound::Response { cqe, route });
        }
    }

    /// Completes a command that is not passed on.
    fn refuse(&mut self, sqe: Sqe, status: Status, route: R, events: &mut Vec<TargetEvent<B>>) {
        self.answer(Cqe::new(sqe.cid(), status), route);
        events.push(TargetEvent::Refused { sqe, status });
    }

    /// Completes an outstanding command that is not passed on, and its other half.
    fn refuse_outstanding(&mut self, sqe: Sqe, status: Status, events: &mut Vec<TargetEvent<B>>) {
        let place = self.place_of(&sqe);
        self.commands.remove(sqe.cid());
        self.refuse(sqe, status, R::of(&sqe), events);
        place.into_iter().for_each(|place| self.on_half_refused(place));
    }
}
