//! The usage of an open file, which decides the urgency of its writes and what is prepared ahead of time.

use crate::Class;

/// See the module.
#[derive(Default)]
pub(super) struct Usage {
    /// Bytes that were appended since the last flush or sync.
    since_flush: u64,
    /// They were few the last time, so the caller waits for what is written.
    is_awaited: bool,
    /// It is flushed or synced in the middle of a block.
    is_log: bool,
    /// A sync came behind the last flush, so one will probably come behind the next.
    is_synced: bool,
}

impl Usage {
    pub(super) fn on_append(&mut self, bytes: u64) {
        self.since_flush += bytes;
    }

    /// A flush or sync, of more than `few` bytes or not, and of a begun block or not.
    pub(super) fn on_flush(&mut self, few: u64, has_begun_block: bool) {
        self.is_awaited = std::mem::take(&mut self.since_flush) <= few;
        self.is_log |= has_begun_block;
    }

    pub(super) fn on_sync(&mut self) {
        self.is_synced = true;
    }

    /// Whether a sync will probably follow this flush.
    pub(super) fn expects_sync(&mut self) -> bool {
        std::mem::take(&mut self.is_synced)
    }

    /// Blocks of the last micro blob are taken before it is full, so that a sync need not wait for a record.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// The urgency of a unit that is cut now.
    pub(super) fn class(&self) -> Class {
        if self.is_awaited { Class::Urgent } else { Class::Background }
    }
}
