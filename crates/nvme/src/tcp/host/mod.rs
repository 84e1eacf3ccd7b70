//! The host's end of a connection.
//!
//!   submit --> CapsuleCmd [+ in-capsule data] --> bytes out
//!   bytes in --> R2T --> H2CData pieces of at most MAXH2CDATA --> bytes out
//!   bytes in --> C2HData (copied into the command's buffer) --> CapsuleResp, or SUCCESS --> Completed event
//!
//! `new` queues the handshake. Commands may be submitted at once; they are sent after it. Write data travels
//! in the capsule if it is short enough, otherwise when the controller requests it (R2T). The completion
//! returns the buffer, unless it was moved out to be sent.
//!
//! Holds: at most `commands_max` commands are outstanding, and nothing else is queued, whatever the peer does
//!        (`a_host_survives_anything`); write data is sent as the controller requested it
//!        (`data_asked_for_in_pieces_is_sent_in_pieces`).
//! Elsewhere: `receive` handles incoming PDUs, `transmit` writes outgoing ones. The caller chooses command
//!        identifiers.

mod receive;
mod transmit;

use super::Fatal;
use crate::buffer::Buffer;
use crate::queue::cid_table::CidTable;
use crate::queue::slots::Slots;
use crate::queue::{Refusal, SubmitError, Transfer};
use crate::spec::{Cqe, Sgl, Sqe};
use crate::tcp::pdu::ic::alignment_from_wire;
use crate::tcp::pdu::{Digests, End, Framing, PduReader, Rules, term::TermReqImage};
use std::collections::VecDeque;
use transmit::Outbound;
use units::Bytes;

/// In-capsule data that every controller accepts with a fabrics command, in bytes.
const FABRICS_IN_CAPSULE_MAX: u32 = 8192;

/// Options that this host requests.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Digests to request.
    pub digests: Digests,
    /// HPDA: alignment of data in PDUs to this host. In dwords, 0-based, at most 31.
    pub hpda: u8,
    /// Most outstanding commands. If the controller uses flow control: one less than the queue's entries.
    pub commands_max: u16,
    /// Longest write data to put into a capsule, in bytes: (IOCCSZ * 16) - 64 on IO queues, 8192 on admin queues.
    /// Fabrics commands may always carry 8192.
    pub in_capsule_max: u32,
}

impl Default for HostOptions {
    fn default() -> Self {
        HostOptions {
            digests: Digests::default(),
            hpda: 0,
            commands_max: 31,
            in_capsule_max: FABRICS_IN_CAPSULE_MAX,
        }
    }
}

/// Events for the layer above.
#[derive(Debug, PartialEq, Eq)]
pub enum HostEvent<B> {
    /// The handshake is done.
    Initialized {
        /// Digests in use: the requested ones that the controller supports.
        digests: Digests,
        /// Longest data of one H2CData PDU, in bytes.
        maxh2cdata: u32,
    },
    /// A command is complete.
    Completed {
        /// The status of the command. If a data digest did not match, this is Transient Transport Error,
        /// whatever the controller said.
        cqe: Cqe,
        /// Its buffer, unless it was moved out to be sent.
        data: Option<B>,
        /// Bytes of data received from the controller, from the start of the buffer.
        received: u32,
    },
}

/// Direction of an outstanding command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// No data, or in the capsule.
    Capsule,
    /// The controller requests it with R2T.
    Solicited,
    /// The controller sends it.
    Incoming,
}

/// A command in progress.
#[derive(Debug)]
struct Command<B> {
    sqe: Sqe,
    flow: Flow,
    buffer: Option<B>,
    /// Bytes of data to send, or most bytes to receive.
    length: u32,
    /// Bytes of data sent or received, outside the capsule.
    moved: u32,
    /// Solicited: the end of the current R2T, and its transfer tag.
    asked: u32,
    ttag: u16,
    /// Whether the capsule was written out.
    sent: bool,
    /// Incoming: whether the last data has arrived.
    ended: bool,
    /// Incoming: whether a data digest did not match.
    corrupt: bool,
}

/// The host's end of one connection.
#[derive(Debug)]
pub struct HostConnection<B> {
    options: HostOptions,
    reader: PduReader,
    framing: Framing,
    maxh2cdata: u32,
    /// Whether the handshake is done.
    ready: bool,
    /// The command that the current payload belongs to.
    receiving: Option<u16>,
    numbers: CidTable<u16>,
    commands: Slots<Command<B>>,
    transmit: VecDeque<Outbound>,
    sqhd: u16,
    fatal: Option<Fatal>,
}

impl<B: Buffer> HostConnection<B> {
    /// A connection with its handshake queued.
    pub fn new(options: HostOptions) -> Self {
        let rules = Rules {
            receiver: End::Host,
            handshake: true,
            digests: Digests::default(),
            alignment: alignment_from_wire(options.hpda),
            in_capsule_max: 0,
        };
        HostConnection {
            options,
            reader: PduReader::new(rules),
            framing: Framing::HANDSHAKE,
            maxh2cdata: 0,
            ready: false,
            receiving: None,
            numbers: CidTable::new(usize::from(options.commands_max)),
            commands: Slots::new(),
            transmit: VecDeque::from([Outbound::IcReq]),
            sqhd: 0,
            fatal: None,
        }
    }

    /// Sets how much write data fits into a capsule: known once Identify Controller has returned IOCCSZ.
    pub fn set_in_capsule_max(&mut self, bytes: u32) {
        self.options.in_capsule_max = bytes;
    }

    /// Submits a command. Its SGL is filled in here; the caller has chosen its identifier.
    pub fn submit(&mut self, sqe: Sqe, transfer: Transfer<B>) -> Result<(), SubmitError<B>> {
        if let Some(refusal) = Refusal::of(self.fatal.is_some(), &self.numbers, sqe.cid()) {
            return Err(SubmitError { refusal, transfer });
        }
        let (flow, buffer, length) = match transfer {
            Transfer::None => (Flow::Capsule, None, 0),
            Transfer::ToController(buffer, length) if length <= self.in_capsule_max(&sqe) => {
                (Flow::Capsule, Some(buffer), length)
            }
            Transfer::ToController(buffer, length) => (Flow::Solicited, Some(buffer), length),
            Transfer::FromController(buffer, length) => (Flow::Incoming, Some(buffer), length),
        };
        let held = buffer.as_ref().map_or(0, |buffer| buffer.bytes().len());
        assert!(length as usize <= held, "{length} bytes of data in a buffer of {held}");
        let sgl = match flow {
            Flow::Capsule if length > 0 => Sgl::InCapsule { offset: 0, length },
            _ => Sgl::Transport { length },
        };
        let sqe = sqe.with_sgl(sgl);
        let number = self.commands.insert(Command {
            sqe,
            flow,
            buffer,
            length,
            moved: 0,
            asked: 0,
            ttag: 0,
            sent: false,
            ended: false,
            corrupt: false,
        });
        self.numbers.insert(sqe.cid(), number);
        self.transmit.push_back(Outbound::Command(number));
        Ok(())
    }

    /// Why the connection has ended, if it has.
    pub fn fatal(&self) -> Option<Fatal> {
        self.fatal
    }

    /// Whether the handshake is done.
    pub fn is_initialized(&self) -> bool {
        self.ready
    }

    /// Commands submitted and not yet completed.
    pub fn outstanding(&self) -> usize {
        self.numbers.len()
    }

    /// PDUs (and groups of PDUs) that wait to be sent.
    pub fn transmit_pending(&self) -> usize {
        self.transmit.len()
    }

    /// Bytes of data of outstanding commands that are neither sent nor received yet.
    pub fn pending_bytes(&self) -> Bytes {
        let left = self.commands.iter().map(|command| match command.flow {
            Flow::Capsule if command.sent => 0,
            _ => u64::from(command.length - command.moved),
        });
        Bytes(left.sum())
    }

    /// The submission queue head that the controller sent last.
    pub fn sqhd(&self) -> u16 {
        self.sqhd
    }

    /// Returns every outstanding command and its buffer, for a connection that is about to be dropped.
    pub fn into_outstanding(mut self, mut give: impl FnMut(Sqe, Option<B>)) {
        for command in self.commands.drain() {
            give(command.sqe, command.buffer);
        }
    }

    /// Maximum length of write data that the capsule of this command may carry.
    fn in_capsule_max(&self, sqe: &Sqe) -> u32 {
        if sqe.is_fabrics() {
            self.options.in_capsule_max.max(FABRICS_IN_CAPSULE_MAX)
        } else {
            self.options.in_capsule_max
        }
    }

    /// Ends the connection. After a violation, only the TermReq is sent.
    fn end(&mut self, fatal: Fatal) -> Fatal {
        self.transmit.clear();
        if let Fatal::Violation(violation) = fatal {
            let image = TermReqImage::new(End::Host, violation, self.reader.header_bytes());
            self.transmit.push_back(Outbound::TermReq(Box::new(image)));
        }
        self.fatal = Some(fatal);
        fatal
    }
}
