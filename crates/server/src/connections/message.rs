//! What a pipeline and a connection on another thread tell each other.
//!
//! ```text
//!   pipeline ── Carry, Done, Data, Cancel, Close … ──► thread of connections
//!   pipeline ◄─ Opened, Command, Returned, Ended … ─── thread of connections
//! ```
//!
//! Both ways keep their order. So a pipeline that is told what became of a cancelled command has seen every command that came
//! before it, and after `Ended` nothing more comes of a connection.

use super::{Owner, SocketEnd};
use crate::account::Permit;
use crate::config::Limits;
use crate::mailbox::Mailbox;
use crate::outbox::Batched;
use crate::payload::Payload;
use crate::pipeline::message::ToPipeline;
use crate::slab::Key;
use crate::stats::ThreadStats;
use crate::transport::{Events, Moving};
use nvme::queue::Cancel;
use nvme::spec::{Cqe, Status};
use nvme::tcp::Fatal;
use reactor::IoBuffer;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use units::Bytes;

/// To a thread of connections.
pub(crate) enum ToConnections {
    /// Many of these.
    Batch(Vec<ToConnections>),
    /// A connection to carry from now on.
    Carry(Box<Carry>),
    /// The answer to a command, with the data that came with it.
    Done {
        /// The connection.
        connection: Key,
        /// The answer.
        cqe: Cqe,
        /// The buffer of its data and the permit for it.
        back: Option<(Option<IoBuffer>, Permit)>,
    },
    /// The answer to a command that reads.
    Data {
        /// The connection.
        connection: Key,
        /// The answer.
        cqe: Cqe,
        /// What it brings.
        data: Payload,
        /// How much is asked for. What the data lacks is zeroes.
        length: u32,
        /// The pipeline that the data is to be given back to.
        from: usize,
    },
    /// Data that had come with a command.
    Back(Option<IoBuffer>, Permit),
    /// A command is given up.
    Cancel {
        /// The pipeline that asks.
        from: usize,
        /// The connection.
        connection: Key,
        /// The command.
        cid: u16,
        /// What it is told if it waits for its data, or for memory.
        status: Status,
        /// By which the pipeline knows what it has asked.
        ticket: Key,
    },
    /// Reads that succeed need a completion of their own, or not.
    Credits {
        /// The connection.
        connection: Key,
        /// Whether completions carry credits.
        is_enabled: bool,
    },
    /// What was sent is to come back at once, as somebody waits for memory; or it may wait for other news again.
    Hurry {
        /// The pipeline whose memory it is.
        pipeline: usize,
        /// At once.
        is_wanted: bool,
    },
    /// Close it, and say [`ConnectionEvent::Ended`].
    Close {
        /// The connection.
        connection: Key,
    },
    /// Something changes.
    Change(Box<Change>),
    /// A pipeline's reactor has failed: its connections are closed.
    PipelineFailed {
        /// Its slot.
        slot: usize,
    },
    /// Asks for a snapshot.
    Stats(Sender<ThreadStats>),
    /// Read no more, and tell [`crate::pipeline::message::Report::Quiet`]: what came is on its way to the pipelines by then.
    Drain,
    /// All answers are here: send them, then tell [`crate::pipeline::message::Report::Drained`].
    Finish,
    /// Close everything, end.
    Stop,
}

/// Something changes for a thread of connections.
pub(crate) enum Change {
    /// A pipeline has come, or gone.
    Pipeline {
        /// Its slot.
        slot: usize,
        /// `None`: it goes, and has no connections any more.
        mailbox: Option<Mailbox<ToPipeline>>,
    },
    /// The hosts that the configuration names.
    Named(Arc<HashSet<String>>),
    /// Other bounds.
    Limits {
        /// On connections.
        limits: Limits,
        /// Memory for what arrives.
        memory: Bytes,
    },
    /// Told when all changes before this one are done.
    Barrier(Sender<()>),
}

/// A connection on its way to the thread that carries it, with the answer to its Connect.
pub(crate) struct Carry {
    /// The connection, set up for its queue.
    pub(crate) moving: Moving,
    /// The answer to Connect.
    pub(crate) connected: Cqe,
    /// Its owner.
    pub(crate) owner: Owner,
    /// The host's NQN.
    pub(crate) host: Arc<str>,
}

/// To a pipeline, of a connection of its that another thread carries.
pub(crate) enum ConnectionEvent {
    /// It is carried, under this name.
    Opened {
        /// The session.
        session: Key,
        /// The connection.
        connection: Key,
    },
    /// What its bytes say: commands with their data, and others that the transport has answered by itself.
    Events {
        /// The session.
        session: Key,
        /// In order.
        events: Events,
    },
    /// The host has broken the protocol: the connection ends when it was told so.
    Violated {
        /// The session.
        session: Key,
        /// How.
        fatal: Fatal,
    },
    /// Data was sent that the pipeline had given, or will never be.
    Returned(Returned),
    /// What became of a command that was given up.
    Cancelled {
        /// The ticket of the request.
        ticket: Key,
        /// What became of it.
        cancel: Cancel,
    },
    /// The connection has ended. Nothing more comes of it.
    Ended {
        /// The session.
        session: Key,
        /// Why.
        end: SocketEnd,
    },
    /// The reactor of a thread of connections has failed: all that it carried is gone.
    ThreadFailed {
        /// Its number.
        thread: usize,
    },
}

/// What a pipeline gets back.
#[derive(Default)]
pub(crate) struct Returned {
    /// The session that the memory was lent by, unless its connection was closed before.
    pub(crate) session: Option<Key>,
    /// What was read.
    pub(crate) buffers: Vec<IoBuffer>,
    /// For what controllers have said.
    pub(crate) permits: Vec<Permit>,
}

impl Returned {
    /// Nothing yet, with room for so many buffers.
    pub(crate) fn with_capacity(buffers: usize) -> Returned {
        Returned { buffers: Vec::with_capacity(buffers), ..Returned::default() }
    }

    /// Adds memory, or a permit, or both.
    pub(crate) fn add(&mut self, buffer: Option<IoBuffer>, permit: Option<Permit>) {
        self.buffers.extend(buffer);
        self.permits.extend(permit);
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffers.is_empty() && self.permits.is_empty()
    }
}

impl Batched for ToConnections {
    fn batch(messages: Vec<ToConnections>) -> ToConnections {
        ToConnections::Batch(messages)
    }

    fn unbatch(self) -> Result<Vec<ToConnections>, ToConnections> {
        match self {
            ToConnections::Batch(messages) => Ok(messages),
            message => Err(message),
        }
    }
}
