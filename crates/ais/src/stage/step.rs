//! Inputs and outputs of a stage.

use crate::format::{Block, RecordHead, crc32c};
use crate::log::OpenLog;

/// A host's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read.
    Read,
    /// A write; `durable` if it may be answered only when it survives a power failure.
    Write {
        /// Force Unit Access.
        durable: bool,
    },
    /// Makes all answered writes survive a power failure.
    Flush,
    /// The range is not needed.
    Discard,
    /// The range becomes zeros.
    WriteZeroes,
}

/// An IO of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIo {
    /// The caller's name for it.
    pub tag: u64,
    /// The operation.
    pub op: Op,
    /// First byte on the SSD.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl HostIo {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.length
    }
}

/// A part of a read that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In which record.
    pub sequence: u64,
    /// First byte in the record's data.
    pub from: u64,
    /// First byte in the read.
    pub to: u64,
    /// Bytes.
    pub length: u64,
}

/// Where a record goes in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte in the log.
    pub at: u64,
    /// Contents of its first block.
    pub(super) stamp: RecordHead,
}

impl Place {
    /// The record's first block. The data follows it.
    pub fn head(&self, data: &[u8]) -> Box<Block> {
        RecordHead { crc: crc32c(data), ..self.stamp }.encode()
    }
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Give a host's IO to the SSD as it is. When a read comes back, put `over` over it. Then [`Stage::on_driven`].
    Drive {
        /// Which.
        tag: u64,
        /// Its parts that are kept.
        over: Vec<Piece>,
    },
    /// Answer a read from kept data. The stage has forgotten it.
    Serve {
        /// Which.
        tag: u64,
        /// Its parts.
        pieces: Vec<Piece>,
    },
    /// Keep a copy of a write's data as a record; write it into the log. Then [`Stage::on_kept`].
    Keep {
        /// The write.
        tag: u64,
        /// As which record.
        sequence: u64,
        /// Where in the log; `None` if the store is memory.
        place: Option<Place>,
    },
    /// A record's data is not needed any more, by IOs that begin from now on.
    Forget {
        /// Which.
        sequence: u64,
    },
    /// A host's IO is over. One that was on the SSD has the SSD's result unless `is_ok` is false.
    Finish {
        /// Which.
        tag: u64,
        /// Whether it was done.
        is_ok: bool,
    },
    /// Write a part of a record's data to the SSD. Then [`Stage::on_done`], as for all steps with a job.
    WriteBack {
        /// Names the step.
        job: u64,
        /// Of which record.
        sequence: u64,
        /// First byte in its data.
        from: u64,
        /// First byte on the SSD.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Flush the SSD.
    FlushDrive {
        /// Names the step.
        job: u64,
    },
    /// Flush the log's device.
    FlushStore {
        /// Names the step.
        job: u64,
    },
    /// Write this into the log, durably.
    WriteStore {
        /// Names the step.
        job: u64,
        /// First byte in the log.
        at: u64,
        /// The operation.
        bytes: Vec<u8>,
    },
}

/// An event that people may want to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The log's device fails: nothing is diverted any more, and all that is kept goes to the SSD.
    StoreFailed,
    /// The log of a failed device was marked as void.
    Voided,
    /// It could not be: its data is old, and it must not be used again.
    NotVoided,
    /// The SSD has refused data that was written back. It is kept, and tried again.
    NotWrittenBack,
}

/// Work done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Writes that were diverted.
    pub diverted: u64,
    /// Their bytes.
    pub diverted_bytes: u64,
    /// Bytes written back.
    pub returned_bytes: u64,
    /// Reads answered without the SSD.
    pub served: u64,
    /// Bytes that are kept and that the SSD does not have.
    pub pending_bytes: u64,
}

/// Where diverted data is kept.
#[derive(Debug)]
pub enum Store {
    /// Memory of this many bytes: gone when the program ends.
    Memory(u64),
    /// A log.
    Log(Box<OpenLog>),
}
