//! A request the reactor did not take, with what it would have owned handed back.

use std::fmt;

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The limit is reached: one batch per socket, `Options::disk_depth` disk operations. Ask again after the next
    /// [`Sent`](crate::Event::Sent) of this socket, or the next [`Disk`](crate::Event::Disk).
    Busy,
    /// The token is closed, is being detached, is not connected yet, or names something of another kind.
    Closed,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Busy => "as many operations are in flight as may be",
            Refusal::Closed => "the token is not open for this",
        })
    }
}

impl std::error::Error for Refusal {}

/// A request that was not taken: why, and the item itself so that nothing is lost.
#[derive(Debug)]
pub struct Refused<T> {
    /// Why.
    pub why: Refusal,
    /// What was to be handed over.
    pub item: T,
}

impl<T> Refused<T> {
    pub(crate) fn busy(item: T) -> Refused<T> {
        Refused { why: Refusal::Busy, item }
    }

    pub(crate) fn closed(item: T) -> Refused<T> {
        Refused { why: Refusal::Closed, item }
    }
}
