//! A connection's place among those that the acceptor has counted.
//!
//! It travels with the connection from the acceptor to its pipeline, and dropping it reports the end of the connection to the acceptor.
//! So the count is right also when a pipeline ends with connections that it never looked at.
//!
//! Holds: a place is given back once, whatever becomes of the connection (`mailbox`'s interleavings).

use super::message::{QueueRequest, ToAcceptor};
use crate::mailbox::{Channel, Mailbox, SystemChannel};
use crate::proof::{Made, Names};
use crate::quota::Charged;
use std::cell::Cell;
use std::sync::Arc;

/// The place of one connection.
pub(crate) struct Admission<L: Channel<ToAcceptor> = SystemChannel> {
    host: Arc<str>,
    charged: Charged,
    acceptor: Mailbox<ToAcceptor, L>,
    /// The controller of this admin queue, after it has asked for IO queues.
    controller: Cell<Option<(usize, u16)>>,
}

impl<L: Channel<ToAcceptor>> Admission<L> {
    /// A place that `acceptor` has counted as one of `host` and charged to `charged`.
    pub(crate) fn new(host: Arc<str>, charged: Charged, acceptor: Mailbox<ToAcceptor, L>) -> Admission<L> {
        Admission { host, charged, acceptor, controller: Cell::new(None) }
    }

    /// Asks how many IO queues its controller may have. Places for them are kept until they are used, or some time has passed, or this
    /// connection has ended.
    pub(crate) fn ask_for_queues(&self, request: QueueRequest) {
        self.controller.set(Some(request.controller));
        self.acceptor.tell(ToAcceptor::QueuesWanted { host: self.shared_host(), request });
    }

    /// Keeps a key for TLS that the host has made for its controller.
    pub(crate) fn keep_generated(&self, controller: String, made: Made) {
        let names = Names { host: self.host().to_owned(), controller };
        self.acceptor.tell(ToAcceptor::Generated { names, made: Box::new(made) });
    }

    /// The host's NQN.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The same, to keep.
    pub(crate) fn shared_host(&self) -> Arc<str> {
        Arc::clone(&self.host)
    }
}

impl<L: Channel<ToAcceptor>> Drop for Admission<L> {
    fn drop(&mut self) {
        let (host, charged) = (Arc::clone(&self.host), self.charged.clone());
        self.acceptor.tell(ToAcceptor::Closed { host, charged, controller: self.controller.get() });
    }
}
