//! The controller's end of a connection.
//!
//!   ICReq --> ICResp --> CapsuleCmd --no data or in-capsule-----------------------------> Command event
//!                             |                                                              |
//!                             +--larger write--> [parked] --buffer--> R2T ... H2CData -------+
//!                                                                                            v
//!   bytes out <-- CapsuleResp, or C2HData [+ CapsuleResp] <-- transmit queue <-- reply / reply_with_data
//!
//! The layer above gets a command when its write data is complete, and answers it exactly once. Commands that
//! the transport must refuse (identifier in use, impossible SGL, corrupt data) are answered here; the layer
//! above only gets a `Refused` event.
//!
//! Buffers may run out. Then in-capsule data stops parsing (`on_bytes` takes less than it was given) until a
//! later call gets a buffer. A larger write is parked without its data and parsing continues; `resume` asks
//! for its buffer again. Parsing also stops when too many answers wait for the socket, so a peer that sends
//! without reading is slowed down and cannot fill memory.
//!
//! Holds: the number of outstanding commands is at most the queue's entries, and little more than twice that
//!        waits to be sent, whatever the peer does (`a_target_survives_anything_and_stays_within_its_bounds`);
//!        one buffer of each kind is enough to make progress (`one_buffer_of_each_kind_is_enough_for_a_full_queue`);
//!        nothing is allocated per command (`nothing_is_allocated_per_command_once_the_queue_has_been_busy`).
//! Elsewhere: `fused` keeps the halves of a fused operation together, `plan` decides where a command's data
//!        is, `receive` handles incoming PDUs, `transmit` writes outgoing ones, `submission_queue` computes SQHD.

mod fused;
mod plan;
mod receive;
mod submission_queue;
mod transmit;

pub use submission_queue::FlowControl;

use super::Fatal;
use super::cid_table::CidTable;
use super::slots::Slots;
use crate::buffer::{Buffer, BufferSource, BufferUse};
use crate::pdu::{Digests, End, Framing, PduReader, Rules, term::TermReqImage};
use crate::spec::{Cqe, Sqe, Status};
use fused::Fused;
use std::collections::VecDeque;
use submission_queue::SubmissionQueue;
use transmit::Outbound;
use units::{Bytes, Instant};

/// Most outstanding commands before Connect has set the size of the queue.
const COMMANDS_BEFORE_CONNECT: u32 = 8;
/// Parsing stops when this many answers more than the queue has entries wait to be sent. Covers refusals and
/// the handshake.
const TRANSMIT_SLACK: usize = 8;
/// Transfers of at least this many bytes are worth being received where they belong (`awaits_bulk`).
const BULK_MIN: u32 = 16 << 10;
/// Smallest alignment of data in PDUs, in bytes.
const ALIGNMENT_MIN: u8 = 4;

/// What this controller allows on every connection.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Longest in-capsule data, in bytes: (IOCCSZ * 16) - 64, and at least 8192 if it serves Linux admin queues.
    pub in_capsule_max: u32,
    /// Longest transfer, in bytes: MDTS.
    pub transfer_max: u32,
    /// MAXH2CDATA: longest data of one H2CData PDU, in bytes. A multiple of 4, at least 4096.
    pub maxh2cdata: u32,
    /// CPDA: alignment of data in PDUs to this controller. In dwords, 0-based, at most 31.
    pub cpda: u8,
}

impl Default for TargetLimits {
    fn default() -> Self {
        TargetLimits { in_capsule_max: 8192, transfer_max: 4 << 20, maxh2cdata: 4 << 20, cpda: 0 }
    }
}

/// Events for the layer above.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetEvent<B> {
    /// The handshake is done.
    Initialized {
        /// Digests in use.
        digests: Digests,
    },
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

/// Why `on_bytes` took less than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No buffer for in-capsule data.
    Buffers,
    /// Too many answers wait to be sent.
    Transmit,
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

/// State of an outstanding command.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// Its transfer, until its data is complete.
    transfer: Option<u16>,
    /// Most bytes of data in its answer.
    read_length: u32,
    /// Whether it waits for an event that may never happen.
    held: bool,
    /// Its place in a fused operation that was not passed on yet.
    fused: Option<fused::Place>,
}

/// Progress of a write's data transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for a buffer.
    Parked,
    /// R2T is in the transmit queue.
    Asked,
    /// R2T is sent: data may arrive.
    Open,
}

/// A write whose data moves by R2T and H2CData. Its number is the transfer tag (TTAG).
#[derive(Debug)]
struct Transfer<B> {
    sqe: Sqe,
    length: u32,
    received: u32,
    /// `None` while parked, or if the data is to be discarded.
    buffer: Option<B>,
    stage: Stage,
    /// When the R2T was written out.
    asked_at: Instant,
    /// Set if the command will not be executed: the status of its completion.
    refused: Option<Status>,
}

/// What the current payload belongs to.
#[derive(Debug)]
enum Receiving<B> {
    /// No payload.
    Nothing,
    /// In-capsule data without a buffer. `starved`: a buffer was requested, but there was none.
    Unbuffered { length: u32, starved: bool },
    /// In-capsule data.
    InCapsule { buffer: B, filled: usize },
    /// Data of the transfer with this number.
    Transfer(u16),
    /// Data of a refused command.
    Discarded,
}

/// The controller's end of one connection.
#[derive(Debug)]
pub struct TargetConnection<B> {
    limits: TargetLimits,
    reader: PduReader,
    framing: Framing,
    receiving: Receiving<B>,
    commands: CidTable<Outstanding>,
    transfers: Slots<Transfer<B>>,
    parked: VecDeque<u16>,
    /// Transfers of `BULK_MIN` and more that are not parked.
    bulk: usize,
    fused: Fused<B>,
    /// Buffers of commands that were refused after they got a buffer.
    discarded: Vec<B>,
    transmit: VecDeque<Outbound<B>>,
    transmit_pause: usize,
    /// Longest transfer of a command now. Before Connect, no more than fits into a capsule.
    transfer_max: u32,
    queue: SubmissionQueue,
    success_without_response: bool,
    /// The time that the caller set last.
    now: Instant,
    fatal: Option<Fatal>,
}

impl<B: Buffer> TargetConnection<B> {
    /// A connection that has received nothing yet.
    pub fn new(limits: TargetLimits) -> Self {
        let rules = Rules {
            receiver: End::Controller,
            handshake: true,
            digests: Digests::default(),
            alignment: ALIGNMENT_MIN,
            in_capsule_max: limits.in_capsule_max,
        };
        TargetConnection {
            limits,
            reader: PduReader::new(rules),
            framing: Framing::HANDSHAKE,
            receiving: Receiving::Nothing,
            commands: CidTable::new(COMMANDS_BEFORE_CONNECT as usize),
            transfers: Slots::new(),
            parked: VecDeque::new(),
            bulk: 0,
            fused: Fused::new(),
            discarded: Vec::new(),
            transmit: VecDeque::new(),
            transmit_pause: COMMANDS_BEFORE_CONNECT as usize + TRANSMIT_SLACK,
            transfer_max: limits.in_capsule_max.min(limits.transfer_max),
            queue: SubmissionQueue::before_connect(COMMANDS_BEFORE_CONNECT),
            success_without_response: true,
            now: Instant::ZERO,
            fatal: None,
        }
    }

    /// Sets what the Connect command requested; call it before answering the Connect. `entries`: number of
    /// submission queue entries (1-based, at most 65536). `flow_control`: whether SQHD is used.
    pub fn set_queue(&mut self, entries: u32, flow_control: FlowControl) {
        assert!((1..=1 << 16).contains(&entries), "a queue of {entries} entries");
        self.commands.set_capacity(entries as usize);
        self.transmit_pause = entries as usize + TRANSMIT_SLACK;
        self.transfer_max = self.limits.transfer_max;
        self.queue = SubmissionQueue::connected(entries, flow_control);
    }

    /// Whether the data of a successful read may be its own completion (SUCCESS flag; the default). A result
    /// other than plain success always needs a response capsule, and so does the submission queue head from
    /// time to time.
    pub fn set_success_without_response(&mut self, allowed: bool) {
        self.success_without_response = allowed;
    }

    /// Sets the time that `awaited_since` uses. It may stand still while the caller passes in no bytes.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When the oldest outstanding R2T was written out whose data is not complete. Only the last byte of the
    /// data ends the wait, no matter what else arrives.
    pub fn awaited_since(&self) -> Option<Instant> {
        let open = self.transfers.iter().filter(|transfer| transfer.stage == Stage::Open);
        open.map(|transfer| transfer.asked_at).min()
    }

    /// Marks a passed-on command that is answered only if an event happens (an Asynchronous Event Request). A
    /// host that reuses its identifier has given it up: SPDK does this with its event requests before it
    /// shuts a controller down.
    pub fn hold(&mut self, cid: u16) {
        if let Some(command) = self.commands.get(cid).filter(|command| command.transfer.is_none()) {
            self.commands.set(cid, Outstanding { held: true, ..command });
        }
    }

    /// Drops a command that is on `hold`; it gets no answer. Returns whether there was one.
    pub fn forget(&mut self, cid: u16) -> bool {
        let is_held = self.commands.get(cid).is_some_and(|command| command.held);
        if is_held {
            self.commands.remove(cid);
            self.queue.complete_silently();
        }
        is_held
    }

    /// Requests buffers for parked writes again, oldest first.
    pub fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) {
        while let Some(&number) = self.parked.front() {
            let transfer = self.transfers.at(number);
            let Some(buffer) = source.take(transfer.length as usize, BufferUse::Transfer) else { return };
            transfer.buffer = Some(buffer);
            transfer.stage = Stage::Asked;
            self.bulk += usize::from(transfer.length >= BULK_MIN);
            self.parked.pop_front();
            self.transmit.push_back(Outbound::R2t(number));
        }
    }

    /// Answers a command without read data, or one that failed. Requested read data is not sent.
    pub fn reply(&mut self, cqe: Cqe) {
        self.take_delivered(cqe.cid());
        self.answer(cqe);
    }

    /// Answers a command with the first `length` bytes of `buffer`, then `cqe`. If the buffer is shorter,
    /// zeroes follow. If `cqe` is not a success, only `cqe` is sent.
    pub fn reply_with_data(&mut self, cqe: Cqe, buffer: B, length: u32) {
        let command = self.take_delivered(cqe.cid());
        if length == 0 || !cqe.status().is_success() {
            return self.answer(cqe);
        }
        assert!(
            length <= command.read_length,
            "{length} bytes for a command that requested {}",
            command.read_length
        );
        if self.fatal.is_none() {
            let alone = self.success_without_response && cqe.result() == 0 && self.queue.complete_by_data();
            let cqe = if alone { cqe } else { cqe.with_sqhd(self.queue.complete()) };
            self.transmit.push_back(Outbound::Data { cqe, buffer, length, alone });
        }
    }

    /// Answers the command `cid` with `status` if the layer above has not got it yet, because its data is not
    /// complete.
    pub fn cancel(&mut self, cid: u16, status: Status) -> Cancel {
        let Some(command) = self.commands.get(cid) else { return Cancel::Unknown };
        let Some(number) = command.transfer else {
            let waits = command.fused.is_some_and(|place| self.cancel_half(cid, place, status));
            return if waits { Cancel::Answered } else { Cancel::Delivered };
        };
        let transfer = self.transfers.at(number);
        if transfer.stage == Stage::Parked {
            self.parked.retain(|parked| *parked != number);
            self.transfers.remove(number);
            self.commands.remove(cid);
            self.answer(Cqe::new(cid, status));
            if let Some(place) = command.fused {
                self.on_half_refused(place);
            }
            return Cancel::Answered;
        }
        transfer.refused.get_or_insert(status);
        self.discarded.extend(transfer.buffer.take());
        Cancel::Draining
    }

    /// Returns the buffers of commands that were refused here. Call it after `on_bytes` and `cancel`.
    pub fn take_discarded(&mut self, give: impl FnMut(B)) {
        self.discarded.drain(..).for_each(give);
    }

    /// Why the connection has ended, if it has.
    pub fn fatal(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Why `on_bytes` would take no bytes now, if so.
    pub fn paused(&self) -> Option<Pause> {
        if matches!(self.receiving, Receiving::Unbuffered { starved: true, .. }) {
            Some(Pause::Buffers)
        } else if self.transmit.len() >= self.transmit_pause {
            Some(Pause::Transmit)
        } else {
            None
        }
    }

    /// Whether much data of one write is on its way: the caller had better receive it where it belongs (`place`).
    pub fn awaits_bulk(&self) -> bool {
        self.bulk > 0
    }

    /// As `awaits_bulk`, and there is more than one such write.
    pub fn awaits_much(&self) -> bool {
        self.bulk > 1
    }

    /// Commands received and not yet answered, including those that wait for data or buffers.
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Writes that wait for a buffer; call `resume` when buffers are free.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// PDUs that wait to be sent.
    pub fn transmit_pending(&self) -> usize {
        self.transmit.len()
    }

    /// Bytes of data in transfer: requested from the host and not yet received, or answered and not yet
    /// written out.
    pub fn pending_bytes(&self) -> Bytes {
        let asked = self.transfers.iter().filter(|transfer| transfer.stage != Stage::Parked);
        let awaited = asked.map(|transfer| u64::from(transfer.length - transfer.received)).sum::<u64>();
        let waiting = self.transmit.iter().map(|outbound| match outbound {
            Outbound::Data { length, .. } => u64::from(*length),
            _ => 0,
        });
        Bytes(awaited + waiting.sum::<u64>())
    }

    /// Returns every buffer, for a connection that is about to be dropped.
    pub fn into_buffers(mut self, mut give: impl FnMut(B)) {
        if let Receiving::InCapsule { buffer, .. } = self.receiving {
            give(buffer);
        }
        self.transfers.drain().filter_map(|transfer| transfer.buffer).for_each(&mut give);
        self.fused.drain().for_each(&mut give);
        self.discarded.drain(..).for_each(&mut give);
        for outbound in self.transmit {
            if let Outbound::Data { buffer, .. } = outbound {
                give(buffer);
            }
        }
    }

    /// Removes a command that the layer above has got and now answers.
    fn take_delivered(&mut self, cid: u16) -> Outstanding {
        match self.commands.remove(cid) {
            Some(command) if command.transfer.is_none() => command,
            other => panic!("answer to command {cid:#x}, which was not passed on: {other:?}"),
        }
    }

    /// Queues a response capsule.
    fn answer(&mut self, cqe: Cqe) {
        if self.fatal.is_none() {
            let cqe = cqe.with_sqhd(self.queue.complete());
            self.transmit.push_back(Outbound::Response(cqe));
        }
    }

    /// Ends the connection. Drops waiting answers: after a violation, only the TermReq is sent.
    fn end(&mut self, fatal: Fatal) -> Fatal {
        self.transmit.clear();
        if let Fatal::Violation(violation) = fatal {
            let image = TermReqImage::new(End::Controller, violation, self.reader.header_bytes());
            self.transmit.push_back(Outbound::TermReq(Box::new(image)));
        }
        self.fatal = Some(fatal);
        fatal
    }
}
