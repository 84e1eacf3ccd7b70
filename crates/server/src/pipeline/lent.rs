//! What was read for a session and is on its way to the host: the connection has the buffers, the session keeps the right to hold them.
//!
//! ```text
//!   read done ─ lend(permit) ─► lent ─ buffers were sent: return_bytes ─► returned ─┬─ take: the next reads of this turn
//!                                 └─ the connection is closed: all of it             └─ settle, once a turn: the account
//! ```
//!
//! So no permit travels with the data: neither is it counted for every read, nor do two threads count the same. What comes back while the
//! next reads arrive is theirs, without asking the account: the session would get it anyway, as those who wait for memory are served later in
//! the turn.
//!
//! Holds: nothing is counted when all buffers are back, or the connection is closed (`tests/bounds.rs`, `tests/threads.rs`;
//!        `what_comes_back_is_had_again_or_given_back`).

use crate::account::Permit;

/// See the module.
#[derive(Default)]
pub(super) struct Lent {
    /// For all that is lent, and for what has come back in this turn.
    permit: Option<Permit>,
    /// Bytes that have come back in this turn.
    returned: u64,
}

impl Lent {
    /// Data goes to the connection.
    #[inline]
    pub(super) fn lend(&mut self, permit: Permit) {
        match &mut self.permit {
            Some(all) => all.absorb(permit).expect("all reads of a session are of one account"),
            None => self.permit = Some(permit),
        }
    }

    /// Buffers of so many bytes are back. Answers whether these are the first of this turn: then [`Lent::settle`] has to follow.
    pub(super) fn return_bytes(&mut self, bytes: u64) -> bool {
        // The connection may have been closed meanwhile, which gave all of it back.
        let bytes = if self.permit.is_some() { bytes } else { 0 };
        let is_first = self.returned == 0 && bytes > 0;
        self.returned += bytes;
        is_first
    }

    /// The permit for a read, out of what has come back in this turn.
    #[inline]
    pub(super) fn take(&mut self, size: u64) -> Option<Permit> {
        let permit = self.permit.as_mut().filter(|_| self.returned >= size)?;
        self.returned -= size;
        Some(permit.split(size))
    }

    /// Gives what has come back, and was not taken, to the account.
    pub(super) fn settle(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.give_back(std::mem::take(&mut self.returned));
        }
    }

    /// The connection is closed: nothing is lent to it.
    pub(super) fn close(&mut self) {
        *self = Lent::default();
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
        let mut lent = Lent::default();
        assert!(lent.take(4096).is_none(), "nothing was lent");
        (0..3).for_each(|_| lent.lend(read()));
        assert!(lent.take(4096).is_none(), "nothing has come back");
        assert!(lent.return_bytes(4096) && !lent.return_bytes(4096));
        assert!(lent.take(16384).is_none(), "less has come back");
        let again = lent.take(4096).expect("so much has come back");
        assert_eq!(held(), 3 * 4096);
        lent.settle();
        assert_eq!(held(), 2 * 4096, "one is lent, one is read");
        lent.lend(again);
        lent.close();
        assert_eq!(held(), 0);
        assert!(!lent.return_bytes(4096), "of the connection that was closed");
        assert!(lent.take(4096).is_none());
        lent.settle();
        assert_eq!(held(), 0);
    }
}
