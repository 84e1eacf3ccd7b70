//! The host's end of a connection.
//!
//!   submit --> CapsuleCmd [+ in-capsule data] --> bytes out
//!   bytes in --> R2T --> H2CData pieces of at most MAXH2CDATA --> bytes out
//!   bytes in --> C2HData (copied into the command's buffer) --> CapsuleResp, or SUCCESS --> Completed event
//!
//! The handshake is queued by `new`; commands may be submitted at once and leave after it. Write data travels in the capsule
//! when it is short enough, else when the controller asks. A buffer comes back with the completion unless it was moved out to
//! be sent.
//!
//! Holds: at most `commands_max` are outstanding, and nothing is queued but for those, whatever the peer does
//!        (`a_host_survives_anything`); a write's data is sent as it was asked for
//!        (`data_asked_for_in_pieces_is_sent_in_pieces`).
//! Elsewhere: `receive` takes PDUs in, `transmit` lays them. Identifiers are chosen by the caller.

mod receive;
mod transmit;

use super::Fatal;
use super::cid_table::CidTable;
use super::slots::Slots;
use crate::buffer::Buffer;
use crate::pdu::ic::alignment_from_wire;
use crate::pdu::{Digests, End, Framing, PduReader, Rules, term::TermReqImage};
use crate::spec::{Cqe, Sgl, Sqe};
use std::collections::VecDeque;
use transmit::Outbound;
use units::Bytes;

/// In-capsule data that every controller takes with a fabrics command, in bytes.
const FABRICS_IN_CAPSULE_MAX: u32 = 8192;

/// What this host asks for.
#[derive(Clone, Copy, Debug)]
pub struct HostOptions {
    /// Digests to ask for.
    pub digests: Digests,
    /// How data in PDUs to us shall be aligned: HPDA, dwords, 0-based, at most 31.
    pub hpda: u8,
    /// Most commands outstanding at once: one less than the queue's entries if the controller uses flow control.
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

/// A command's data.
#[derive(Debug, PartialEq, Eq)]
pub enum Transfer<B> {
    /// None.
    None,
    /// The first bytes of the buffer go to the controller.
    ToController(B, u32),
    /// Up to this many bytes come from the controller into the buffer.
    FromController(B, u32),
}

/// Why a command was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// As many are outstanding as may be.
    Full,
    /// One with the same identifier is outstanding.
    IdentifierInUse,
    /// The connection is over.
    Over,
}

/// A command that was not taken, and its data back.
#[derive(Debug, PartialEq, Eq)]
pub struct SubmitError<B> {
    /// Why.
    pub refusal: Refusal,
    /// The data it would have moved.
    pub transfer: Transfer<B>,
}

/// What a connection has to tell the layer above.
#[derive(Debug, PartialEq, Eq)]
pub enum HostEvent<B> {
    /// The handshake is done.
    Initialized {
        /// Digests in use: those asked for, less what the controller does not do.
        digests: Digests,
        /// Longest data of one H2CData, in bytes.
        maxh2cdata: u32,
    },
    /// A command is complete.
    Completed {
        /// How it ended. Data that its digest does not fit makes this Transient Transport Error, whatever the controller
        /// said.
        cqe: Cqe,
        /// Its buffer, unless it was moved out to be sent.
        data: Option<B>,
        /// Bytes of data that came from the controller, from the start of the buffer.
        received: u32,
    },
}

/// Which way the data of an outstanding command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// No data, or in the capsule.
    Capsule,
    /// The controller asks for it.
    Solicited,
    /// The controller sends it.
    Incoming,
}

/// One command under way.
#[derive(Debug)]
struct Command<B> {
    sqe: Sqe,
    flow: Flow,
    buffer: Option<B>,
    /// Bytes of data there are or may come.
    length: u32,
    /// Bytes of data sent or received, outside the capsule.
    moved: u32,
    /// Solicited: where the R2T in force ends, and its transfer tag.
    asked: u32,
    ttag: u16,
    /// Whether the capsule was laid.
    sent: bool,
    /// Incoming: whether the last data came.
    ended: bool,
    /// Incoming: whether some data does not fit its digest.
    spoiled: bool,
}

/// One connection, the host's end.
#[derive(Debug)]
pub struct HostConnection<B> {
    options: HostOptions,
    reader: PduReader,
    framing: Framing,
    maxh2cdata: u32,
    /// Whether the handshake is done.
    ready: bool,
    /// The command that the payload under way belongs to.
    receiving: Option<u16>,
    numbers: CidTable<u16>,
    commands: Slots<Command<B>>,
    transmit: VecDeque<Outbound>,
    sqhd: u16,
    fatal: Option<Fatal>,
}

impl<B: Buffer> HostConnection<B> {
    /// A connection whose handshake waits to be sent.
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

    /// Changes how much write data fits into a capsule, once Identify Controller has told IOCCSZ.
    pub fn set_in_capsule_max(&mut self, bytes: u32) {
        self.options.in_capsule_max = bytes;
    }

    /// Submits a command; its SGL is filled in here, its identifier is the caller's.
    pub fn submit(&mut self, sqe: Sqe, transfer: Transfer<B>) -> Result<(), SubmitError<B>> {
        let refusal = if self.fatal.is_some() {
            Some(Refusal::Over)
        } else if self.numbers.get(sqe.cid()).is_some() {
            Some(Refusal::IdentifierInUse)
        } else if self.numbers.is_full() {
            Some(Refusal::Full)
        } else {
            None
        };
        if let Some(refusal) = refusal {
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
            spoiled: false,
        });
        self.numbers.insert(sqe.cid(), number);
        self.transmit.push_back(Outbound::Command(number));
        Ok(())
    }

    /// Why the connection is over, if it is.
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

    /// Things that wait to be sent.
    pub fn transmit_pending(&self) -> usize {
        self.transmit.len()
    }

    /// Bytes of data of outstanding commands that were neither sent nor received yet.
    pub fn pending_bytes(&self) -> Bytes {
        let left = self.commands.iter().map(|command| match command.flow {
            Flow::Capsule if command.sent => 0,
            _ => u64::from(command.length - command.moved),
        });
        Bytes(left.sum())
    }

    /// The submission queue head the controller told last.
    pub fn sqhd(&self) -> u16 {
        self.sqhd
    }

    /// Gives back every command outstanding and its buffer, for a connection that is about to be dropped.
    pub fn into_outstanding(mut self, mut give: impl FnMut(Sqe, Option<B>)) {
        for command in self.commands.drain() {
            give(command.sqe, command.buffer);
        }
    }

    /// How much write data the capsule of this command may carry.
    fn in_capsule_max(&self, sqe: &Sqe) -> u32 {
        if sqe.is_fabrics() {
            self.options.in_capsule_max.max(FABRICS_IN_CAPSULE_MAX)
        } else {
            self.options.in_capsule_max
        }
    }

    /// Ends the connection: after a violation nothing but the TermReq is sent.
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
