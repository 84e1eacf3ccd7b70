//! Memory for read data, and for replies of controllers; and the sessions whose reads wait for it.
//!
//! The right to hold it is a permit (`account`), which comes back when it is dropped. [`ReadMemory`] notes that some came back, so that
//! those who wait are served once a turn, and not for every buffer. Data that was read is on its way to the host in buffers that the
//! connection has, and the session keeps the permits for them ([`ReadPermits`]):
//!
//! ```text
//!   read done ─ lend(permit) ─► lent ─ buffers were sent: return_bytes ─► returned ─┬─ take: the next reads of this turn
//!                                 └─ the connection is closed: all of it             └─ settle, once a turn: the account
//! ```
//!
//! So no permit travels with the data: neither is it counted for every read, nor do two threads count the same. Bytes that come back while the
//! next reads arrive is theirs, without asking the account: the session would get it anyway, as those who wait for memory are served later in
//! the turn.
//!
//! Holds: nothing is counted when all buffers are back, or the connection is closed (`tests/bounds.rs`, `tests/threads.rs`;
//!        `what_comes_back_is_had_again_or_given_back`).

use super::sessions::Session;
use crate::account::Permit;
use crate::slab::Key;
use reactor::{BufferPool, IoBuffer};
use std::collections::VecDeque;
use units::Bytes;

/// See the module.
pub(super) struct ReadMemory {
    pool: BufferPool,
    /// Sessions with waiting reads, longest waiting first.
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

    /// Takes back the memory of a reply that was sent, or cannot be sent.
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

    /// The number of sessions with waiting reads.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the session that has waited longest out of the list.
    pub(super) fn next_waiting(&mut self) -> Option<Key> {
        self.waiting.pop_front()
    }
}

/// The permits of a session for data that its connection has.
#[derive(Default)]
pub(super) struct ReadPermits {
    /// The permit for all data that is lent, and for bytes that came back in this turn.
    permit: Option<Permit>,
    /// Bytes that have come back in this turn.
    returned: u64,
}

impl ReadPermits {
    /// Data goes to the connection.
    #[inline]
    pub(super) fn lend(&mut self, permit: Permit) {
        match &mut self.permit {
            Some(all) => all.absorb(permit).expect("all reads of a session are of one account"),
            None => self.permit = Some(permit),
        }
    }

    /// Counts this many bytes as back. Returns whether these are the first of this turn: then [`ReadPermits::settle`] has to follow.
    pub(super) fn return_bytes(&mut self, bytes: u64) -> bool {
        // The connection may have been closed meanwhile, which gave all of it back.
        let bytes = if self.permit.is_some() { bytes } else { 0 };
        let is_first = self.returned == 0 && bytes > 0;
        self.returned += bytes;
        is_first
    }

    /// The permit for a read, from the bytes that came back in this turn.
    #[inline]
    pub(super) fn take(&mut self, size: u64) -> Option<Permit> {
        let permit = self.permit.as_mut().filter(|_| self.returned >= size)?;
        self.returned -= size;
        Some(permit.split(size))
    }

    /// Gives bytes that came back, and were not taken, to the account.
    pub(super) fn settle(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.give_back(std::mem::take(&mut self.returned));
        }
    }

    /// The connection is closed: nothing is lent to it.
    pub(super) fn close(&mut self) {
        *self = ReadPermits::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Account, Accounts, ConnectionAccount, HostAccount, Supply};
    use std::net::Ipv4Addr;
    use units::Bytes;

    #[test]
    fn what_comes_back_is_had_again_or_given_back() {
        let supply = Supply { limit: Bytes::mib(4), floor_max: Bytes::ZERO, first: Bytes::ZERO };
        let mut accounts = Accounts::new([supply; 4]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let account = ConnectionAccount::new(Bytes::mib(1), HostAccount::new(None), payer);
        let read = || account.take(Account::Read, 4096).expect("there is room");
        let held = || accounts.held(Account::Read);
        let mut permits = ReadPermits::default();
        assert!(permits.take(4096).is_none(), "nothing was lent");
        (0..3).for_each(|_| permits.lend(read()));
        assert!(permits.take(4096).is_none(), "nothing has come back");
        assert!(permits.return_bytes(4096) && !permits.return_bytes(4096));
        assert!(permits.take(16384).is_none(), "less has come back");
        let again = permits.take(4096).expect("so much has come back");
        assert_eq!(held(), 3 * 4096);
        permits.settle();
        assert_eq!(held(), 2 * 4096, "one is lent, one is read");
        permits.lend(again);
        permits.close();
        assert_eq!(held(), 0);
        assert!(!permits.return_bytes(4096), "of the connection that was closed");
        assert!(permits.take(4096).is_none());
        permits.settle();
        assert_eq!(held(), 0);
    }
}
