//! What a volume has done outside: IOs and orders, and how operations have ended.

use super::Outcome;
use crate::SsdId;
use crate::catalog::{Order, SsdRecord};
use std::sync::Arc;

/// An operation, as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An IO on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// An order on its way to the metadata store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// What an IO does. Addresses and lengths are in bytes and multiples of the volume's block size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IoKind {
    /// Read.
    Read {
        /// First byte.
        at: u64,
        /// How many.
        length: u32,
    },
    /// Write. A block of the volume is written as a whole or not at all, unless power fails.
    Write {
        /// First byte.
        at: u64,
        /// What.
        bytes: Arc<Vec<u8>>,
        /// It survives a power loss as soon as it has completed (force unit access).
        durable: bool,
    },
    /// Make all completed writes survive a power loss.
    Flush,
    /// The bytes are not needed any more.
    Trim {
        /// First byte.
        at: u64,
        /// How many.
        length: u64,
    },
}

/// How urgent an IO is among those of one volume. What a volume may do beside others is not its own to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Somebody waits for a little that is written: a log, the journal.
    Urgent,
    /// Somebody waits for what is read; and what has no class at an SSD.
    Normal,
    /// Nobody waits for a single one: tables that are written, compactions, repair, scrubbing.
    Background,
}

/// An IO to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// To be named when it has ended.
    pub id: IoId,
    /// Where.
    pub ssd: SsdId,
    /// Before or after which others.
    pub class: Class,
    /// What.
    pub kind: IoKind,
}

/// Why an IO failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoFault {
    /// The target could not be reached, or did not answer in time. A write may still happen.
    Unreachable,
    /// The target said no.
    Failed,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// These SSDs are of interest: connect to them, and say what becomes of it with [`Volume::on_ssd`].
    Ssds(Vec<(SsdId, SsdRecord)>),
    /// Carry out an IO, and hand its end to [`Volume::on_io`].
    Io(Io),
    /// Carry out an order, and hand the answer to [`Volume::on_reply`].
    Order(OrderId, Order),
    /// An operation has ended.
    Done(OpId, Outcome),
}
