//! Memory for data that is read, and for replies of controllers; and the sessions whose reads wait for it.
//!
//! The right to hold it is a permit (`account`), which comes back when it is dropped; of what was read, the session keeps it (`lent`). What is noted here is that some came back, so that
//! those who wait are served once a turn, and not for every buffer.

use super::sessions::Session;
use crate::account::Permit;
use crate::slab::Key;
use reactor::{BufferPool, IoBuffer};
use std::collections::VecDeque;
use units::Bytes;

/// See the module.
pub(super) struct ReadMemory {
    pool: BufferPool,
    /// Sessions whose reads wait, longest waiting first.
    waiting: VecDeque<Key>,
    /// Sessions to which something has come back in this turn.
    unsettled: Vec<Key>,
    /// Whether memory has come back since those were last served.
    came_back: bool,
}

impl ReadMemory {
    pub(super) fn new(limit: Bytes) -> ReadMemory {
        ReadMemory {
            pool: BufferPool::new(limit),
            waiting: VecDeque::new(),
            unsettled: Vec::new(),
            came_back: false,
        }
    }

    /// Changes the limit.
    pub(super) fn set_limit(&mut self, limit: Bytes) {
        self.pool.set_limit(limit);
        self.came_back = true;
    }

    /// The buffers.
    #[inline]
    pub(super) fn pool(&mut self) -> &mut BufferPool {
        &mut self.pool
    }

    /// Memory in use.
    pub(super) fn lent(&mut self) -> Bytes {
        self.pool.lent()
    }

    /// What was read, or said by a controller, has been sent, or never will be.
    #[inline]
    pub(super) fn give(&mut self, buffer: Option<IoBuffer>, permit: Option<Permit>) {
        if let Some(buffer) = buffer {
            self.pool.give(buffer);
        }
        drop(permit);
        self.came_back = true;
    }

    /// Something has come back to a session, to be settled in this turn.
    pub(super) fn settle_later(&mut self, key: Key) {
        self.unsettled.push(key);
    }

    /// Takes one of these sessions out of their list.
    pub(super) fn next_to_settle(&mut self) -> Option<Key> {
        self.unsettled.pop()
    }

    /// Memory has come back to its account.
    pub(super) fn note_came_back(&mut self) {
        self.came_back = true;
    }

    /// Whether memory has come back since this was last asked.
    pub(super) fn take_came_back(&mut self) -> bool {
        std::mem::take(&mut self.came_back)
    }

    /// A session has reads that wait.
    pub(super) fn wait(&mut self, key: Key, session: &mut Session) {
        if !session.waits_for_memory {
            session.waits_for_memory = true;
            self.waiting.push_back(key);
        }
    }

    /// The number of sessions whose reads wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the session that has waited longest out of the list.
    pub(super) fn next_waiting(&mut self) -> Option<Key> {
        self.waiting.pop_front()
    }
}
