//! A request the reactor did not take, with the item that it would have owned handed back.

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The limit is reached: one batch per socket, `Options::disk_depth` disk operations. Ask again after the next
    /// [`Sent`](crate::Event::Sent) of this socket, or the next [`Disk`](crate::Event::Disk).
    #[error("the limit of operations in flight is reached")]
    Busy,
    /// The token is closed, is being detached, is not connected yet, or names something of another kind.
    #[error("the token is not open for this")]
    Closed,
}

/// A request that was not taken: why, and the item itself so that nothing is lost.
#[derive(Debug)]
pub struct Refused<T> {
    /// Why.
    pub why: Refusal,
    /// The item that was to be handed over.
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
