//! What the host asks of the SSD and what it hears back.

use units::Instant;

/// One command. Addresses are slots of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's name for it; handed back on completion. Need not be unique.
    pub tag: u64,
    /// What to do.
    pub kind: CommandKind,
    /// The first slot. Not looked at for [`CommandKind::Flush`].
    pub slot: u32,
    /// The number of slots, at least one. Not looked at for [`CommandKind::Flush`].
    pub slots: u32,
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Completes when all its data have crossed the link. Slots never written cost no flash operation.
    Read,
    /// Completes when all its data are in the write buffer.
    Write,
    /// Forgets the slots: they become garbage at once and read as never written. Writes not yet completed are not
    /// affected.
    Deallocate,
    /// With power-loss protection the buffer is as good as flash, so that a flush completes after the fixed cost of a
    /// command. Without it, it completes when every write that completed before it was submitted has been programmed.
    Flush,
}

/// A command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The tag of the command.
    pub tag: u64,
    /// When the device finished it. The way to the host is not included.
    pub at: Instant,
}
