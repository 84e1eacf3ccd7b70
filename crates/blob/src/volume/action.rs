//! Actions of a volume for the outside: IOs, orders, and the outcomes of operations.

use super::Outcome;
use crate::SsdId;
use crate::catalog::{Order, SsdRecord};
use std::sync::Arc;

/// An operation, as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An IO in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// An order in flight to the metadata store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// The work of an IO. Addresses and lengths are in bytes and multiples of the volume's block size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Read.
    Read {
        /// First byte.
        at: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Write. A block of the volume is written as a whole or not at all, unless power fails.
    Write {
        /// First byte.
        at: u64,
        /// The bytes.
        bytes: Arc<Vec<u8>>,
        /// Whether it must survive a power loss once it has completed (force unit access).
        durable: bool,
    },
    /// Make all completed writes survive a power loss.
    Flush,
    /// Declare that the bytes are not needed any more.
    Trim {
        /// First byte.
        at: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// The urgency of an IO among those of one volume. A volume cannot influence its share relative to other volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A small write that a caller waits for: a log, the journal.
    Urgent,
    /// A read that a caller waits for; also an IO without a class at an SSD.
    Normal,
    /// One of many that no caller waits for singly: writes of tables, compactions, repair, scrubbing.
    Background,
}

/// An IO to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Identifies the IO at its completion.
    pub id: IoId,
    /// The SSD.
    pub ssd: SsdId,
    /// Its urgency.
    pub class: Class,
    /// Its work.
    pub kind: IoKind,
}

/// The reason why an IO failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFault {
    /// The target could not be reached, or did not respond in time. A write may still take effect.
    Unreachable,
    /// The target completed it with an error.
    Failed,
}

/// An action to be carried out outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// These SSDs are of interest: connect to them, and report on them with [`Volume::on_ssd`].
    Ssds(Vec<(SsdId, SsdRecord)>),
    /// Carry out an IO, and pass its result to [`Volume::on_io`].
    Io(Io),
    /// Carry out an order, and pass the reply to [`Volume::on_reply`].
    Order(OrderId, Order),
    /// An operation has completed.
    Done(OpId, Outcome),
}
