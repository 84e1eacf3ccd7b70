//! The commands of the SSD and their completions.

use units::Instant;

/// One command. Addresses are slots of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The caller's identifier; the completion returns it. Need not be unique.
    pub tag: u64,
    /// The operation.
    pub kind: CommandKind,
    /// First slot. [`CommandKind::Flush`] ignores it.
    pub slot: u32,
    /// Number of slots, at least one. [`CommandKind::Flush`] ignores it.
    pub slots: u32,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    /// Completes when all data has crossed the link. Slots that were never written need no flash operation.
    Read,
    /// Completes when all data is in the write buffer.
    Write,
    /// Deallocates the slots: they become garbage at once and read as never written. Does not affect writes
    /// that have not completed.
    Deallocate,
    /// With power-loss protection, the buffer is as safe as flash: a flush completes after the fixed cost of
    /// a command. Without it, a flush completes when every write that completed before its submission has
    /// been programmed.
    Flush,
}

/// The completion of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The tag of the command.
    pub tag: u64,
    /// When the device completed it, without the way to the host.
    pub at: Instant,
}
