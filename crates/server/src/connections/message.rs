//! Messages between a pipeline and a connection on another thread.
//!
//! ```text
//!   pipeline ── Carry, Done, Data, Cancel, Close … ──► thread of connections
//!   pipeline ◄─ Opened, Command, Returned, Ended … ─── thread of connections
//! ```
//!
//! Both ways keep their order. So a pipeline that receives the result of a cancelled command has received every command that came
//! before it, and after `Ended` nothing more comes of a connection.

use super::{Owner, SocketEnd};
use crate::account::Permit;
use crate::config::Limits;
use crate::mailbox::Mailbox;
use crate::outbox::Batched;
use crate::payload::Payload;
use crate::pipeline::message::ToPipeline;
use crate::slab::Key;
use crate::transport::{Events, Fatal, Moving};
use nvme::queue::Cancel;
use nvme::spec::{Cqe, Status};
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
        /// The data of the reply.
        data: Payload,
        /// The requested length. Bytes beyond the data are zeroes.
        length: u32,
        /// The pipeline that the data is to be given back to.
        from: usize,
    },
    /// Data that had come with a command.
    Back(Option<IoBuffer>, Permit),
    /// Cancels a command.
    Cancel {
        /// The pipeline that asks.
        from: usize,
        /// The connection.
        connection: Key,
        /// The command.
        cid: u16,
        /// The status for the host, if the command waits for its data or for memory.
        status: Status,
        /// The pipeline's number for this request.
        ticket: Key,
    },
    /// Reads that succeed need a completion of their own, or not.
    Credits {
        /// The connection.
        connection: Key,
        /// Whether completions carry credits.
        is_enabled: bool,
    },
    /// Turns immediate return of sent buffers on, while there is a shortage of memory, or off: then they wait for other events.
    Hurry {
        /// The pipeline that owns the memory.
        pipeline: usize,
        /// At once.
        is_wanted: bool,
    },
    /// Read nothing more from it, and close it when everything was sent.
    End {
        /// The connection.
        connection: Key,
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
    /// The answer to Connect, unless it was sent before.
    pub(crate) connected: Option<Cqe>,
    /// Its owner.
    pub(crate) owner: Owner,
    /// The host's NQN.
    pub(crate) host: Arc<str>,
}

/// An event of a connection that another thread carries, to the pipeline of its session.
pub(crate) enum ConnectionEvent {
    /// It is carried, under this name.
    Opened {
        /// The session.
        session: Key,
        /// The connection.
        connection: Key,
    },
    /// Parsed input: commands with their data, and others that the transport has answered by itself.
    Events {
        /// The session.
        session: Key,
        /// In order.
        events: Events,
    },
    /// The host has broken the protocol: the connection ends after the report to the host.
    Violated {
        /// The session.
        session: Key,
        /// How.
        fatal: Fatal,
    },
    /// Buffers of the pipeline were sent, or cannot be sent.
    Returned(Returned),
    /// The result of cancelling a command.
    Cancelled {
        /// The ticket of the request.
        ticket: Key,
        /// The result.
        cancel: Cancel,
    },
    /// The connection has ended. Nothing more comes of it.
    Ended {
        /// The session.
        session: Key,
        /// Why.
        end: SocketEnd,
    },
    /// The reactor of a thread of connections has failed: all its connections are lost.
    ThreadFailed {
        /// Its number.
        thread: usize,
    },
}

/// Buffers and permits on their way back to a pipeline.
#[derive(Default)]
pub(crate) struct Returned {
    /// The session that the memory was lent by, unless its connection was closed before.
    pub(crate) session: Option<Key>,
    /// Buffers of data that was read.
    pub(crate) buffers: Vec<IoBuffer>,
    /// For what controllers have said.
    pub(crate) permits: Vec<Permit>,
}

impl Returned {
    /// An empty list, with room for this many buffers.
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
