//! The controller's end of a connection: the bytes of NVMe/TCP around a `queue`.
//!
//!   bytes in --> ICReq, CapsuleCmd, H2CData --> queue --> events
//!   bytes out <-- ICResp, CapsuleResp, C2HData, R2T <-- queue <-- reply / reply_with_data
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
//! Elsewhere: `queue` keeps commands, their data and their answers, `receive` handles incoming PDUs, `transmit`
//!        writes outgoing ones.

mod receive;
mod transmit;

use super::Fatal;
use crate::buffer::{Buffer, BufferSource};
use crate::queue::{Cancel, FlowControl, Queue, TargetEvent, TransferLimits};
use crate::spec::{Cqe, Status};
use crate::tcp::pdu::{Digests, End, Framing, PduReader, Rules, term::TermReqImage};
use transmit::Control;
use units::{Bytes, Instant};

/// Smallest alignment of data in PDUs, in bytes.
const ALIGNMENT_MIN: u8 = 4;

/// Limits of this controller on every connection.
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

/// Why `on_bytes` took less than it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// No buffer for in-capsule data.
    Buffers,
    /// Too many answers wait to be sent.
    Transmit,
}

/// The owner of the current payload.
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
    queue: Queue<B, ()>,
    /// The first PDU to send, or the last.
    control: Option<Control>,
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
        let before_connect = limits.in_capsule_max.min(limits.transfer_max);
        TargetConnection {
            limits,
            reader: PduReader::new(rules),
            framing: Framing::HANDSHAKE,
            receiving: Receiving::Nothing,
            queue: Queue::new(TransferLimits { before_connect, connected: limits.transfer_max }),
            control: None,
            now: Instant::ZERO,
            fatal: None,
        }
    }

    /// Sets the options that the Connect command requested; call it before answering the Connect. `entries`:
    /// number of submission queue entries (1-based, at most 65536). `flow_control`: whether SQHD is used.
    pub fn set_queue(&mut self, entries: u32, flow_control: FlowControl) {
        self.queue.set_up(entries, flow_control);
    }

    /// Does the same for a host that has to prove who it is: a command may have no more data than before Connect, until
    /// `allow_transfers`.
    pub fn set_queue_unproved(&mut self, entries: u32, flow_control: FlowControl) {
        self.queue.set_size(entries, flow_control);
    }

    /// The host has proved who it is: a command may have as much data as on any connected queue.
    pub fn allow_transfers(&mut self) {
        self.queue.allow_transfers();
    }

    /// Allows fused commands: this is an IO queue.
    pub fn allow_fused(&mut self) {
        self.queue.allow_fused();
    }

    /// Whether the data of a successful read may be its own completion (SUCCESS flag; the default). A result
    /// other than plain success always needs a response capsule, and so does the submission queue head from
    /// time to time.
    pub fn set_success_without_response(&mut self, allowed: bool) {
        self.queue.set_data_may_complete(allowed);
    }

    /// Sets the time that `awaited_since` uses. It may stand still while the caller passes in no bytes.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// When the oldest outstanding R2T with incomplete data was written out. Only the last byte of the data
    /// ends the wait, no matter what else arrives.
    pub fn awaited_since(&self) -> Option<Instant> {
        self.queue.awaited_since()
    }

    /// Marks a passed-on command that is answered only if an event happens (an Asynchronous Event Request). A
    /// host that reuses its identifier has given it up: SPDK does this with its event requests before it
    /// shuts a controller down.
    pub fn hold(&mut self, cid: u16) {
        self.queue.hold(cid);
    }

    /// Drops a command that is on `hold`; it gets no answer. Returns whether there was one.
    pub fn forget(&mut self, cid: u16) -> bool {
        self.queue.forget(cid)
    }

    /// Requests buffers for parked writes again, oldest first.
    pub fn resume(&mut self, source: &mut impl BufferSource<Buffer = B>) {
        self.queue.resume(source);
    }

    /// Sends the completion of a command without read data, or of one that failed. Requested read data is not
    /// sent.
    #[inline]
    pub fn reply(&mut self, cqe: Cqe) {
        self.queue.reply(cqe);
    }

    /// Sends the first `length` bytes of `buffer` as a command's read data, then `cqe`. If the buffer is
    /// shorter, zeroes follow. If `cqe` is not a success, only `cqe` is sent.
    #[inline]
    pub fn reply_with_data(&mut self, cqe: Cqe, buffer: B, length: u32) {
        self.queue.reply_with_data(cqe, buffer, length);
    }

    /// Completes the command `cid` with `status` if the layer above has not received it yet, because its data
    /// is not complete.
    pub fn cancel(&mut self, cid: u16, status: Status) -> Cancel {
        self.queue.cancel(cid, status)
    }

    /// Returns the buffers of commands that were refused here. Call it after `on_bytes` and `cancel`.
    pub fn take_discarded(&mut self, give: impl FnMut(B)) {
        self.queue.take_discarded(give);
    }

    /// Digests in use: none before the handshake.
    pub fn digests(&self) -> Digests {
        self.framing.digests
    }

    /// Why the connection has ended, if it has.
    pub fn fatal(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Why `on_bytes` would take no bytes now, if so.
    pub fn paused(&self) -> Option<Pause> {
        if matches!(self.receiving, Receiving::Unbuffered { starved: true, .. }) {
            Some(Pause::Buffers)
        } else if self.queue.is_congested() {
            Some(Pause::Transmit)
        } else {
            None
        }
    }

    /// Whether much data of one write is on its way: the caller had better receive it where it belongs (`place`).
    #[inline]
    pub fn awaits_bulk(&self) -> bool {
        self.queue.bulk() > 0
    }

    /// As `awaits_bulk`, and there is more than one such write.
    #[inline]
    pub fn awaits_much(&self) -> bool {
        self.queue.bulk() > 1
    }

    /// Commands received and not yet answered, including those that wait for data or buffers.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// Writes that wait for a buffer; call `resume` when buffers are free.
    #[inline]
    pub fn parked(&self) -> usize {
        self.queue.parked()
    }

    /// PDUs that wait to be sent.
    #[inline]
    pub fn transmit_pending(&self) -> usize {
        self.queue.outbound() + usize::from(self.control.is_some())
    }

    /// Bytes of data in transfer: requested from the host and not yet received, or answered and not yet
    /// written out.
    pub fn pending_bytes(&self) -> Bytes {
        self.queue.pending_bytes()
    }

    /// Returns every buffer, for a connection that is about to be dropped.
    pub fn into_buffers(self, mut give: impl FnMut(B)) {
        if let Receiving::InCapsule { buffer, .. } = self.receiving {
            give(buffer);
        }
        self.queue.into_buffers(give);
    }

    /// Ends the connection. Drops waiting answers: after a violation, only the TermReq is sent.
    fn end(&mut self, fatal: Fatal) -> Fatal {
        self.queue.close();
        self.control = match fatal {
            Fatal::Violation(violation) => {
                let image = TermReqImage::new(End::Controller, violation, self.reader.header_bytes());
                Some(Control::TermReq(Box::new(image)))
            }
            Fatal::Terminated { .. } => None,
        };
        self.fatal = Some(fatal);
        fatal
    }
}
