//! A connection's place among those that the front has counted.
//!
//! It travels with the connection from the front to its pipeline, and dropping it tells the front that the connection has gone.
//! So the count is right also when a pipeline ends with connections that it never looked at.
//!
//! Holds: a place is given back once, whatever becomes of the connection (`mailbox`'s interleavings).

use super::message::ToFront;
use crate::mailbox::{Line, Mailbox, System};
use crate::places::Charged;
use std::sync::Arc;

/// The place of one connection.
pub(crate) struct Admission<L: Line<ToFront> = System> {
    host: Arc<str>,
    charged: Charged,
    front: Mailbox<ToFront, L>,
}

impl<L: Line<ToFront>> Admission<L> {
    /// A place that `front` has counted as one of `host` and charged to `charged`.
    pub(crate) fn new(host: Arc<str>, charged: Charged, front: Mailbox<ToFront, L>) -> Admission<L> {
        Admission { host, charged, front }
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

impl<L: Line<ToFront>> Drop for Admission<L> {
    fn drop(&mut self) {
        let (host, charged) = (Arc::clone(&self.host), self.charged.clone());
        self.front.tell(ToFront::Closed { host, charged });
    }
}
