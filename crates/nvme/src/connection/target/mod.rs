//! The controller's end of a connection.
//!
//!   ICReq --> ICResp --> CapsuleCmd --no data or in-capsule-----------------------------> Command event
//!                             |                                                              |
//!                             +--larger write--> [parked] --buffer--> R2T ... H2CData -------+
//!                                                                                            v
//!   bytes out <-- CapsuleResp, or C2HData [+ CapsuleResp] <-- transmit queue <-- reply / reply_with_data
//!
//! The layer above sees a command when its write data is complete, and answers it exactly once. Commands that the transport
//! itself must refuse (an identifier in use, an impossible SGL, spoiled data) are answered here; above they are only told of.
//!
//! Buffers may run out. In-capsule data then stops the parse (`on_bytes` takes less than it was given) until a later call
//! finds a buffer; a larger write is parked without its data and the parse goes on (`resume` asks again). Too many answers
//! not taken by the socket also stop the parse: a peer that sends without reading is slowed, not stored.
//!
//! Holds: at most the queue's entries are outstanding and little more than twice that waits to be sent, whatever the peer
//!        does (`a_target_survives_anything_and_stays_within_its_bounds`);
//!        one buffer of each kind is enough to get through (`one_buffer_of_each_kind_is_enough_for_a_full_queue`);
//!        nothing is allocated per command (`nothing_is_allocated_per_command_once_the_queue_has_been_busy`).
//! Elsewhere: `fused` holds the halves of a fused operation together, `plan` decides where a command's data is, `receive` takes PDUs in, `transmit` lays them,
//!            `submission_queue` knows SQHD.

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

/// Commands accepted before Connect has told the size of the queue.
const COMMANDS_BEFORE_CONNECT: u32 = 8;
/// Answers that may wait beyond one per queue entry before the parse stops: refusals, the handshake.
const TRANSMIT_SLACK: usize = 8;
/// What data in PDUs must at least be aligned to, in bytes.
const ALIGNMENT_MIN: u8 = 4;

/// What this controller grants every connection.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// Longest in-capsule data, in bytes: (IOCCSZ * 16) - 64, and at least 8192 if it serves Linux admin queues.
    pub in_capsule_max: u32,
    /// Longest transfer, in bytes: MDTS.
    pub transfer_max: u32,
    /// Longest data of one H2CData, in bytes: MAXH2CDATA, a multiple of 4, at least 4096.
    pub maxh2cdata: u32,
    /// How data in PDUs to us shall be aligned: CPDA, dwords, 0-based, at most 31.
    pub cpda: u8,
}

impl Default for TargetLimits {
    fn default() -> Self {
        TargetLimits { in_capsule_max: 8192, transfer_max: 4 << 20, maxh2cdata: 4 << 20, cpda: 0 }
    }
}

/// What a connection has to tell the layer above.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetEvent<B> {
    /// The handshake is done.
    Initialized {
        /// Digests in use.
        digests: Digests,
    },
    /// A command to be executed and then answered with `reply` or `reply_with_data`.
    Command {
        /// The command.
        sqe: Sqe,
        /// Its write data: the first `sqe.sgl_length()` bytes of the buffer.
        data: Option<B>,
    },
    /// Two commands to be executed as one, and then answered both: each with its data, as in `Command`.
    Fused {
        /// The first and the second.
        halves: [(Sqe, Option<B>); 2],
    },
    /// A command was answered here and will not be seen: for whoever keeps account of what hosts do wrong.
    Refused {
        /// The command.
        sqe: Sqe,
        /// What it was answered.
        status: Status,
    },
    /// The host has used the identifier of a command that was told to `hold`: it is not to be answered any more.
    GivenUp {
        /// The identifier.
        cid: u16,
    },
}

/// Why `on_bytes` took less than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// There is no buffer for in-capsule data.
    Buffers,
    /// Too many answers wait to be sent.
    Transmit,
}

/// What became of a request to cancel a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// It had not been asked for its data, or waited for its other half: answered now.
    Answered,
    /// Its data is on the way: it will be thrown away, then the command answered. The layer above never sees it.
    Draining,
    /// It was handed to the layer above, whose business it is (or it is about to be).
    Delivered,
    /// There is no such command.
    Unknown,
}

/// What is known of every outstanding command.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    /// Its transfer, until its data is complete.
    transfer: Option<u16>,
    /// Most bytes it may be answered with.
    read_length: u32,
    /// Whether it waits for something that may never happen.
    held: bool,
    /// Its place in a fused operation that was not handed out yet.
    fused: Option<fused::Place>,
}

/// How far a write's transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for a buffer.
    Parked,
    /// R2T in the transmit queue.
    Asked,
    /// R2T sent: data may come.
    Open,
}

/// A write whose data is moved by R2T and H2CData. Its number is the transfer tag.
#[derive(Debug)]
struct Transfer<B> {
    sqe: Sqe,
    length: u32,
    received: u32,
    /// `None` while parked, or when what comes is thrown away.
    buffer: Option<B>,
    stage: Stage,
    /// When the R2T was laid, once it was.
    asked_at: Instant,
    /// Set when the command will not be executed: what it will be answered instead.
    refused: Option<Status>,
}

/// What the payload under way belongs to.
#[derive(Debug)]
enum Receiving<B> {
    /// There is none.
    Nothing,
    /// In-capsule data for which there is no buffer yet, and whether one was asked for in vain.
    Unbuffered { length: u32, starved: bool },
    /// In-capsule data.
    InCapsule { buffer: B, filled: usize },
    /// Data of the transfer with this number.
    Transfer(u16),
    /// Data of a command that was refused.
    Discarded,
}

/// One connection, the controller's end.
#[derive(Debug)]
pub struct TargetConnection<B> {
    limits: TargetLimits,
    reader: PduReader,
    framing: Framing,
    receiving: Receiving<B>,
    commands: CidTable<Outstanding>,
    transfers: Slots<Transfer<B>>,
    parked: VecDeque<u16>,
    fused: Fused<B>,
    /// Buffers of commands that were refused here after they had got one.
    discarded: Vec<B>,
    transmit: VecDeque<Outbound<B>>,
    transmit_pause: usize,
    /// Longest transfer of a command now: a stranger, who has not connected, moves no more than fits a capsule.
    transfer_max: u32,
    queue: SubmissionQueue,
    success_without_response: bool,
    /// As the caller told it last.
    now: Instant,
    fatal: Option<Fatal>,
}

impl<B: Buffer> TargetConnection<B> {
    /// A connection on which nothing was received yet.
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

    /// Tells what Connect asked for, before it is answered: the number of submission queue entries (1-based, at most 65536),
    /// and whether SQHD is used.
    pub fn set_queue(&mut self, entries: u32, flow_control: FlowControl) {
        assert!((1..=1 << 16).contains(&entries), "a queue of {entries} entries");
        self.commands.set_capacity(entries as usize);
        self.transmit_pause = entries as usize + TRANSMIT_SLACK;
        self.transfer_max = self.limits.transfer_max;
        self.queue = SubmissionQueue::connected(entries, flow_control);
    }

    /// Whether a successful read may be answered by its data alone (the default). Results that say more than success always
    /// travel in a response capsule, and so does the submission queue head now and then.
    pub fn set_success_without_response(&mut self, allowed: bool) {
        self.success_without_response = allowed;
    }

    /// Tells the time, by which `awaited_since` counts. It may stand still while the caller takes no bytes in.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When the host was asked for the data that it has owed for longest: an R2T was laid, and not all that it asks for has come.
    /// However much of it has come, and whatever else: only the last byte ends the wait.
    pub fn awaited_since(&self) -> Option<Instant> {
        let open = self.transfers.iter().filter(|transfer| transfer.stage == Stage::Open);
        open.map(|transfer| transfer.asked_at).min()
    }

    /// Tells that a command which was handed out will be answered only if something happens, as an event request is. A host that
    /// uses its identifier again has given it up: SPDK's does with its event requests before it shuts a controller down.
    pub fn hold(&mut self, cid: u16) {
        if let Some(command) = self.commands.get(cid).filter(|command| command.transfer.is_none()) {
            self.commands.set(cid, Outstanding { held: true, ..command });
        }
    }

    /// Takes back a command that was told to `hold`, which is then not answered; whether it was there.
    pub fn forget(&mut self, cid: u16) -> bool {
        let is_held = self.commands.get(cid).is_some_and(|command| command.held);
        if is_held {
            self.commands.remove(cid);
            self.queue.complete_silently();
        }
        is_held
    }

    /// Asks again for buffers for parked writes, oldest first.
    pub fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) {
        while let Some(&number) = self.parked.front() {
            let transfer = self.transfers.at(number);
            let Some(buffer) = source.take(transfer.length as usize, BufferUse::Transfer) else { return };
            transfer.buffer = Some(buffer);
            transfer.stage = Stage::Asked;
            self.parked.pop_front();
            self.transmit.push_back(Outbound::R2t(number));
        }
    }

    /// Answers a command. Read data that was asked for is not sent, so this is for commands without, and for failures.
    pub fn reply(&mut self, cqe: Cqe) {
        self.take_delivered(cqe.cid());
        self.answer(cqe);
    }

    /// Answers a command with the first `length` bytes of `buffer`, and zeroes where it ends before, then `cqe`. A `cqe` that is
    /// no success goes alone.
    pub fn reply_with_data(&mut self, cqe: Cqe, buffer: B, length: u32) {
        let command = self.take_delivered(cqe.cid());
        if length == 0 || !cqe.status().is_success() {
            return self.answer(cqe);
        }
        assert!(
            length <= command.read_length,
            "{length} bytes for a command that asked for {}",
            command.read_length
        );
        if self.fatal.is_none() {
            let alone = self.success_without_response && cqe.result() == 0 && self.queue.complete_by_data();
            let cqe = if alone { cqe } else { cqe.with_sqhd(self.queue.complete()) };
            self.transmit.push_back(Outbound::Data { cqe, buffer, length, alone });
        }
    }

    /// Answers the command `cid` with `status` if the layer above has not seen it yet, because its data is not complete.
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

    /// Gives back the buffers of commands that were refused here: look after `on_bytes` and `cancel`.
    pub fn take_discarded(&mut self, give: impl FnMut(B)) {
        self.discarded.drain(..).for_each(give);
    }

    /// Why the connection is over, if it is.
    pub fn fatal(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Why `on_bytes` would take nothing now, if so.
    pub fn paused(&self) -> Option<Pause> {
        if matches!(self.receiving, Receiving::Unbuffered { starved: true, .. }) {
            Some(Pause::Buffers)
        } else if self.transmit.len() >= self.transmit_pause {
            Some(Pause::Transmit)
        } else {
            None
        }
    }

    /// Commands received and not yet answered, including those that wait for data or buffers.
    pub fn outstanding(&self) -> usize {
        self.commands.len()
    }

    /// Writes that wait for a buffer; `resume` when there may be some.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// PDUs that wait to be sent.
    pub fn transmit_pending(&self) -> usize {
        self.transmit.len()
    }

    /// Bytes of data on their way: asked of the host and not received, and answered and not laid.
    pub fn pending_bytes(&self) -> Bytes {
        let asked = self.transfers.iter().filter(|transfer| transfer.stage != Stage::Parked);
        let awaited = asked.map(|transfer| u64::from(transfer.length - transfer.received)).sum::<u64>();
        let waiting = self.transmit.iter().map(|outbound| match outbound {
            Outbound::Data { length, .. } => u64::from(*length),
            _ => 0,
        });
        Bytes(awaited + waiting.sum::<u64>())
    }

    /// Gives back every buffer held, for a connection that is about to be dropped.
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

    /// Takes a command out that the layer above was given and now answers.
    fn take_delivered(&mut self, cid: u16) -> Outstanding {
        match self.commands.remove(cid) {
            Some(command) if command.transfer.is_none() => command,
            other => panic!("answer to command {cid:#x}, which was not handed out: {other:?}"),
        }
    }

    /// Queues a response capsule.
    fn answer(&mut self, cqe: Cqe) {
        if self.fatal.is_none() {
            let cqe = cqe.with_sqhd(self.queue.complete());
            self.transmit.push_back(Outbound::Response(cqe));
        }
    }

    /// Ends the connection. Answers not laid yet are dropped: after a violation nothing but the TermReq is sent.
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
