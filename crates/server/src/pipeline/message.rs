//! Messages between the threads of a target.

use super::admission::Admission;
use super::change::Change;
use crate::connections::message::ConnectionEvent;
use crate::outbox::Batched;
use crate::proof::{Computed, Made, Names};
use crate::quota::Charged;
use crate::slab::Key;
use crate::switch::{Failure, Work};
use crate::tenants::TenantName;
use crate::transport::Moving;
use auth::psk::Kind;
use nvme::spec::connect::ConnectData;
use nvme::spec::{Cqe, Sqe};
use reactor::IoBuffer;
use sched::{Credit, Priority, Share};
use std::net::SocketAddr;
use std::sync::Arc;
use units::TenantId;

/// To a pipeline.
pub(crate) enum ToPipeline {
    /// Many of these.
    Batch(Vec<ToPipeline>),
    /// Of a connection of a session here that another thread carries.
    Event(ConnectionEvent),
    /// A tenant of that number may have IOs from now on.
    Tenant(Announcement),
    /// A namespace with that number is no tenant any more, and its IOs have ended.
    TenantGone(TenantId),
    /// A connection that has asked for a queue of a subsystem at home here.
    Connection(Box<Handover>),
    /// An IO from another pipeline.
    Remote(RemoteIo),
    /// The end of an IO that was given to another pipeline.
    RemoteDone(RemoteDone),
    /// IOs of another pipeline that need not reach the device any more.
    RemoteWithdraw {
        /// The other pipeline.
        from: usize,
        /// The IOs as their sender named them.
        ios: Vec<Key>,
    },
    /// Asks for an `Echoed`, by when everything that was asked before has been done.
    Echo {
        /// The other pipeline.
        from: usize,
        /// An IO as its sender named it.
        io: Key,
    },
    /// The answer to an `Echo`.
    Echoed {
        /// The IO that it named.
        io: Key,
    },
    /// Another pipeline's reactor has failed: it answers no more.
    PeerFailed {
        /// The other pipeline.
        slot: usize,
    },
    /// A controller was granted IO queues.
    QueuesGranted {
        /// Its admin queue.
        session: Key,
        /// The number of queues.
        queues: u16,
        /// The completion of the command that asked.
        cqe: Cqe,
    },
    /// A computation for the proof of a session's host is done.
    Computed {
        /// The session.
        session: Key,
        /// The result.
        computed: Computed,
    },
    /// Reservations are stored, or could not be.
    Stored {
        /// The subsystem's slot.
        subsystem: usize,
        /// The namespace.
        nsid: u32,
        /// The subsystem's number for that copy.
        ticket: u64,
        /// Whether they are on the disk.
        is_stored: bool,
    },
    /// Something changes.
    Change(Box<Change>),
    /// No more commands; tell [`Report::Drained`] when those that came are answered.
    Drain,
    /// Flush the device, close everything, end.
    Finish,
    /// Close everything, end.
    Stop,
}

/// A tenant's number.
#[derive(Clone)]
pub(crate) struct Announcement {
    /// The number.
    pub(crate) id: TenantId,
    /// The tenant.
    pub(crate) name: TenantName,
    /// The promises to it.
    pub(crate) share: Share,
    /// Another tenant had the number before, and was removed.
    pub(crate) is_reused: bool,
}

/// A connection on its way from the acceptor to its home.
pub(crate) struct Handover {
    /// The connection, its handshake done.
    pub(crate) moving: Moving,
    /// The Connect command, not answered yet.
    pub(crate) connect: Sqe,
    /// Its data.
    pub(crate) connect_data: Box<ConnectData>,
    /// The subsystem's slot.
    pub(crate) subsystem: usize,
    /// The tenant of its host.
    pub(crate) tenant: TenantId,
    /// Whether it comes from where its host is.
    pub(crate) is_at_home: bool,
    /// The controller, if Connect was answered before the host proved who it is.
    pub(crate) proved: Option<u16>,
    /// The kind of key by which TLS has proved the host.
    pub(crate) secured: Option<Kind>,
    /// Its place among the acceptor's, with the host's NQN.
    pub(crate) admission: Admission,
}

/// An IO for another pipeline's device.
pub(crate) struct RemoteIo {
    /// The pipeline that the connection is at home in.
    pub(crate) from: usize,
    /// The IO there.
    pub(crate) io: Key,
    /// The tenant that asks.
    pub(crate) tenant: TenantId,
    /// The tenant's own class.
    pub(crate) priority: Priority,
    /// The work, in bytes of the other device.
    pub(crate) work: Work,
}

/// The end of an IO on another pipeline's device.
pub(crate) struct RemoteDone {
    /// The pipeline that did it.
    pub(crate) by: usize,
    /// The IO as its sender named it.
    pub(crate) io: Key,
    /// The result.
    pub(crate) outcome: IoOutcome,
}

/// The result of an IO on another pipeline's device.
pub(crate) struct IoOutcome {
    /// Whether it was done.
    pub(crate) result: Result<(), Failure>,
    /// The data of a read.
    pub(crate) read: Option<IoBuffer>,
    /// The work, with the buffers that came with it.
    pub(crate) work: Work,
    /// The number of IOs that the tenant may have outstanding on that SSD.
    pub(crate) credit: Credit,
    /// The announcement of a busy period of that SSD, for the completion.
    pub(crate) busy: u32,
}

/// To the acceptor.
pub(crate) enum ToAcceptor {
    /// A connection that was handed over has ended, with all of its IOs.
    Closed {
        /// The host.
        host: Arc<str>,
        /// The payer for its place.
        charged: Charged,
        /// The controller that has ended with it, if it has asked for IO queues.
        controller: Option<(usize, u16)>,
    },
    /// A controller asks how many IO queues it may have.
    QueuesWanted {
        /// The host.
        host: Arc<str>,
        /// The rest.
        request: QueueRequest,
    },
    /// A computation for the proof of a host is done.
    Computed {
        /// The connection.
        connection: Key,
        /// The result.
        computed: Computed,
    },
    /// A host has made another key for TLS on an admin queue.
    Generated {
        /// The host and its controller.
        names: Names,
        /// The key, and the one by which the host has proved itself.
        made: Box<Made>,
    },
    /// The last IO that counted for a namespace has ended, which is no tenant any more.
    TenantLeft(TenantName),
    /// Something changes.
    Change(crate::acceptor::Change),
    /// Accept no more; close connections that were not handed over.
    Drain,
    /// Close everything, end.
    Stop,
}

/// A controller asks how many IO queues it may have. Answered with [`ToPipeline::QueuesGranted`].
pub(crate) struct QueueRequest {
    /// The subsystem's slot, and the controller's identifier.
    pub(crate) controller: (usize, u16),
    /// Where its host is.
    pub(crate) peer: SocketAddr,
    /// Most that it may have.
    pub(crate) queues: u16,
    /// The pipeline that asks.
    pub(crate) home: usize,
    /// The admin queue there.
    pub(crate) session: Key,
    /// The completion of the command that asks.
    pub(crate) cqe: Cqe,
}

/// From a thread to whoever started the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Reading from connections has stopped, and all commands that were read are in their pipelines.
    Quiet,
    /// All commands that came are answered.
    Drained,
    /// The thread is about to end.
    Ended,
}

impl Batched for ToPipeline {
    fn batch(messages: Vec<ToPipeline>) -> ToPipeline {
        ToPipeline::Batch(messages)
    }

    fn unbatch(self) -> Result<Vec<ToPipeline>, ToPipeline> {
        match self {
            ToPipeline::Batch(messages) => Ok(messages),
            message => Err(message),
        }
    }
}
