//! The usage pattern of an open file. It decides the urgency of writes, and the preparations ahead of time.

use crate::Class;

/// The usage of an open file; see the module.
#[derive(Default)]
pub(super) struct Usage {
    /// Number of bytes that were appended since the last flush or sync.
    since_flush: u64,
    /// Few bytes were flushed the last time, so a caller probably waits for each write.
    is_awaited: bool,
    /// It was flushed or synced in the middle of a block.
    is_log: bool,
    /// A sync followed the last flush, so one will probably follow the next.
    is_synced: bool,
}

impl Usage {
    pub(super) fn on_append(&mut self, bytes: u64) {
        self.since_flush += bytes;
    }

    /// Notes a flush or sync. `few` is the largest number of bytes that counts as few.
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

    /// Whether the next micro blob is taken before the last one is full, so that a sync need not wait for a record.
    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    /// The urgency of a unit that is cut now.
    pub(super) fn class(&self) -> Class {
        if self.is_awaited { Class::Urgent } else { Class::Background }
    }
}
