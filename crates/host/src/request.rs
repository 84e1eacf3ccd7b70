//! An IO as a caller requests it, and as an NVMe command.

use crate::reservation::{Reservation, report_command};
use nvme::spec::dataset::{AccessLatency, DEALLOCATE, DatasetRange};
use nvme::spec::opcode::nvm;
use nvme::spec::{Sqe, Status};
use reactor::IoBuffer;
use units::{Instant, Lba, Nanos};
use zerocopy::IntoBytes;

/// CDW12 of Write: force unit access.
const FUA: u32 = 1 << 30;
/// CDW12 of Write Zeroes: the blocks may be deallocated.
const DEAC: u32 = 1 << 25;
/// NLB has 16 bits and is zero-based.
const BLOCKS_MAX: u32 = 1 << 16;

/// The operation of an IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads the blocks into the buffer.
    Read,
    /// Writes the buffer to the blocks.
    Write {
        /// Complete only when the data survives a power loss (Force Unit Access).
        durable: bool,
    },
    /// Makes all completed writes survive a power loss. No blocks, no buffer.
    Flush,
    /// Makes the blocks read as zeroes.
    WriteZeroes {
        /// The blocks may be deallocated.
        deallocate: bool,
    },
    /// Deallocates the blocks.
    Deallocate,
    /// Compares the buffer with the blocks; fails with `COMPARE_FAILURE` if they differ.
    Compare,
    /// Checks that the blocks can be read, without transferring them.
    Verify,
    /// Changes the reservation of the namespace. No blocks; the buffer has the keys. It is sent once: after a loss it is unknown whether
    /// it was done, and a report says.
    Reserve(Reservation),
    /// Reads the reservations of the namespace into the buffer, for
    /// [`ReservationReport::parse`](crate::ReservationReport::parse). No blocks.
    ReportReservations,
}

/// The direction in which an operation moves its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Movement {
    Nothing,
    ToController,
    FromController,
}

impl Operation {
    /// Whether the operation needs a buffer: of the size of its blocks, if it has blocks.
    pub fn has_buffer(self) -> bool {
        self.movement() != Movement::Nothing
    }

    pub(crate) fn movement(self) -> Movement {
        match self {
            Operation::Read | Operation::ReportReservations => Movement::FromController,
            Operation::Write { .. } | Operation::Compare | Operation::Reserve(_) => Movement::ToController,
            Operation::Flush | Operation::WriteZeroes { .. } | Operation::Deallocate | Operation::Verify => {
                Movement::Nothing
            }
        }
    }

    /// Most blocks of one command, independent of the transfer limit.
    pub(crate) fn blocks_max(self) -> u32 {
        match self {
            Operation::Deallocate => u32::MAX,
            _ => BLOCKS_MAX,
        }
    }

    /// The operation's name.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write { .. } => "write",
            Operation::Flush => "flush",
            Operation::WriteZeroes { .. } => "write zeroes",
            Operation::Deallocate => "deallocate",
            Operation::Compare => "compare",
            Operation::Verify => "verify",
            Operation::Reserve(change) => change.name(),
            Operation::ReportReservations => "reservation report",
        }
    }
}

/// One IO.
#[derive(Debug)]
pub struct Request {
    /// The caller's identifier of the IO; the engine does not use it.
    pub tag: u64,
    /// The namespace.
    pub nsid: u32,
    /// The operation.
    pub operation: Operation,
    /// The first block.
    pub lba: Lba,
    /// The number of blocks: 0 for a flush and for reservations, at least 1 for everything else.
    pub blocks: u32,
    /// The data, exactly as long as the blocks, or as the part of a report to read; `None` if the operation has none.
    pub buffer: Option<IoBuffer>,
    /// The tenant's own priority class.
    pub class: Class,
    /// The IO queue to use, counted from 0; `None` picks the next one with room.
    pub queue: Option<u16>,
}

/// The priority of an IO among those of this tenant. Sent as the access latency hint of reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Before everything else.
    Urgent,
    /// An IO without a hint.
    #[default]
    Normal,
    /// After the normal ones.
    Background,
    /// After everything else.
    Idle,
}

impl Class {
    /// All four, most urgent first.
    pub const ALL: [Class; 4] = [Class::Urgent, Class::Normal, Class::Background, Class::Idle];

    fn hint(self) -> AccessLatency {
        match self {
            Class::Urgent => AccessLatency::Low,
            Class::Normal => AccessLatency::Unspecified,
            Class::Background => AccessLatency::Normal,
            Class::Idle => AccessLatency::Idle,
        }
    }
}

impl Request {
    /// A request without a buffer: a Flush, or an operation on `blocks` blocks that transfers no data.
    pub fn new(tag: u64, nsid: u32, operation: Operation, lba: Lba, blocks: u32) -> Request {
        Request { tag, nsid, operation, lba, blocks, buffer: None, class: Class::Normal, queue: None }
    }

    /// Sets the data.
    #[must_use]
    pub fn with_buffer(mut self, buffer: IoBuffer) -> Request {
        self.buffer = Some(buffer);
        self
    }

    /// The command. The connection adds identifier and SGL.
    pub(crate) fn to_sqe(&self) -> Sqe {
        let (low, high) = (self.lba.0 as u32, (self.lba.0 >> 32) as u32);
        let count = self.blocks.wrapping_sub(1) & 0xffff;
        let hint = self.class.hint().to_cdw13();
        let (opcode, dwords) = match self.operation {
            Operation::Read => (nvm::READ, [low, high, count, hint, 0, 0]),
            Operation::Write { durable } => {
                (nvm::WRITE, [low, high, count | if durable { FUA } else { 0 }, hint, 0, 0])
            }
            Operation::Flush => (nvm::FLUSH, [0; 6]),
            Operation::WriteZeroes { deallocate } => {
                (nvm::WRITE_ZEROES, [low, high, count | if deallocate { DEAC } else { 0 }, 0, 0, 0])
            }
            Operation::Deallocate => (nvm::DATASET_MANAGEMENT, [0, DEALLOCATE, 0, 0, 0, 0]),
            Operation::Compare => (nvm::COMPARE, [low, high, count, 0, 0, 0]),
            Operation::Verify => (nvm::VERIFY, [low, high, count, 0, 0, 0]),
            Operation::Reserve(change) => {
                let (opcode, cdw10) = change.command();
                (opcode, [cdw10, 0, 0, 0, 0, 0])
            }
            Operation::ReportReservations => {
                return report_command(self.nsid, self.buffer.as_ref().map_or(0, |buffer| buffer.len()));
            }
        };
        Sqe::new(opcode).with_nsid(self.nsid).with_cdw10_15(dwords)
    }

    /// The data of a deallocation: its one range.
    pub(crate) fn dataset_range(&self) -> Option<Vec<u8>> {
        let range = DatasetRange { context: 0.into(), blocks: self.blocks.into(), lba: self.lba.0.into() };
        (self.operation == Operation::Deallocate).then(|| range.as_bytes().to_vec())
    }
}

/// Why an IO failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The controller returned this status.
    #[error("the target failed the command: {0}")]
    Status(Status),
    /// The connection was lost while the IO was outstanding, and it had no tries left. It is unknown whether
    /// it was done.
    #[error("the connection was lost; it is unknown whether the command was done")]
    ConnectionLost,
    /// The controller was given up, or closed by the caller, before the IO completed. It is unknown whether
    /// it was done.
    #[error("the controller was given up; it is unknown whether the command was done")]
    ControllerGone,
    /// After a reconnect, the namespace is gone or a different one. The IO may have been done before.
    #[error("after the reconnect, the namespace is gone or a different one")]
    NamespaceChanged,
}

/// The end of an IO. Every accepted request has exactly one.
#[derive(Debug)]
pub struct Completion {
    /// The caller's identifier of the IO.
    pub tag: u64,
    /// The operation requested.
    pub operation: Operation,
    /// Success, or why it failed.
    pub result: Result<(), IoError>,
    /// The request's buffer, filled if a read succeeded.
    pub buffer: Option<IoBuffer>,
    /// When the command was last sent; `None` if it never was.
    pub sent: Option<Instant>,
    /// When the completion arrived.
    pub ended: Instant,
}

impl Completion {
    /// Time from sending to completion: network, switch and SSD, without waiting in the client.
    pub fn service_time(&self) -> Nanos {
        self.sent.map_or(Nanos::ZERO, |sent| self.ended.saturating_since(sent))
    }
}

/// A request that was not accepted; returns the request itself.
#[derive(Debug)]
pub struct Refused {
    /// The reason.
    pub why: Refusal,
    /// The request, to try again or to get its buffer.
    pub request: Request,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The limit of waiting IOs is reached: try again after the next completion.
    #[error("the limit of waiting IOs is reached; try again after a completion")]
    Busy,
    /// The controller has never been ready yet: wait for `Event::Ready`.
    #[error("the controller is not ready yet")]
    NotReady,
    /// The controller was given up or closed.
    #[error("the controller was given up or closed")]
    Gone,
    /// The controller has no such namespace.
    #[error("the controller has no such namespace")]
    NoSuchNamespace,
    /// Some blocks are beyond the end of the namespace, or there are none.
    #[error("the blocks are out of range of the namespace, or there are none")]
    OutOfRange,
    /// More blocks than one command may have.
    #[error("too many blocks for one command; it may have at most {blocks_max}")]
    TooLarge {
        /// Most blocks of one command.
        blocks_max: u32,
    },
    /// The buffer has the wrong length.
    #[error("the buffer must have exactly {needed} bytes")]
    BufferLength {
        /// The right length in bytes.
        needed: usize,
    },
    /// The controller does not support this operation.
    #[error("the controller does not support the operation")]
    Unsupported,
    /// The controller has no such queue.
    #[error("the controller has no such IO queue")]
    NoSuchQueue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_commands_that_linux_sends() {
        let sqe = |operation| Request::new(0, 1, operation, Lba(0x1_0000_0002), 8).to_sqe();
        let write = sqe(Operation::Write { durable: true });
        assert_eq!((write.opcode(), write.nsid()), (0x01, 1));
        assert_eq!((write.cdw10(), write.cdw11(), write.cdw12()), (2, 1, 0x4000_0007));
        let zeroes = sqe(Operation::WriteZeroes { deallocate: true });
        assert_eq!((zeroes.opcode(), zeroes.cdw12()), (0x08, 0x0200_0007));
        let deallocate = sqe(Operation::Deallocate);
        assert_eq!((deallocate.opcode(), deallocate.cdw10(), deallocate.cdw11()), (0x09, 0, 4));
        assert_eq!(sqe(Operation::Read).cdw13(), 0, "an IO without a class carries no hint");
    }

    #[test]
    fn a_deallocation_carries_its_range() {
        let request = Request::new(0, 1, Operation::Deallocate, Lba(64), 70_000);
        let range = request.dataset_range().expect("a deallocation has a range");
        assert_eq!(
            (range.len(), &range[4..8], &range[8..10]),
            (16, &70_000u32.to_le_bytes()[..], &[64, 0][..])
        );
        assert_eq!(Request::new(0, 1, Operation::Read, Lba(0), 1).dataset_range(), None);
    }

    #[test]
    fn a_class_travels_as_a_hint() {
        let mut request = Request::new(0, 1, Operation::Read, Lba(0), 1);
        let hints = Class::ALL.map(|class| {
            request.class = class;
            AccessLatency::from_cdw13(request.to_sqe().cdw13())
        });
        use AccessLatency::{Idle, Low, Normal, Unspecified};
        assert_eq!(hints, [Low, Unspecified, Normal, Idle]);
    }
}
