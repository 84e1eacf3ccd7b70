//! Memory accounts: everything that a host makes a thread hold is charged to a payer before it is held.
//!
//! ```text
//!   Permit ──► connection ──► host (NQN) ──► payer ──► stock of the thread
//!                                            │
//!                                            ├ a host that the configuration names: has a floor of its own
//!                                            └ an address, for all other hosts that come from it
//! ```
//!
//! A *permit* is the right to hold a number of bytes of one account. It is taken before the memory is, travels with it, and dropping it
//! gives the bytes back at every level: no count can drift, whoever drops the memory and why.
//!
//! The limit of a payer depends on the free memory (`threshold`), except for the floors of hosts that the configuration names (`payer`).
//!
//! Holds: memory of other payers never reaches a named host's floor (`no_number_of_others_takes_a_floor`); a payer, and a host of an
//!        address, finds its first memory after many greedy ones (`the_next_payer_finds_room`,
//!        `hosts_of_one_address_leave_room_for_each_other`); nothing is counted after it was freed
//!        (`permits_come_back_whatever_happens`, `absorbed_permits_come_back_with_the_one_that_took_them`).
//! Elsewhere: places for connections go by the same rule, in `quota`; buffers are `payload`.

mod payer;
#[cfg(test)]
mod tests;
mod threshold;

pub(crate) use payer::{Accounts, Payer, REPLY_REST, Supply};
pub(crate) use threshold::{Request, Thresholds};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// The purposes of memory. Each has a stock of its own, so that none waits for another (see `payload`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// Data that came with its command.
    Capsule,
    /// Data that a host was asked for.
    Transfer,
    /// Data that was read for a host.
    Read,
    /// Replies of controllers about themselves: log pages, Identify, reports.
    Reply,
}

const ACCOUNTS: usize = 4;

impl Account {
    const ALL: [Account; ACCOUNTS] = [Account::Capsule, Account::Transfer, Account::Read, Account::Reply];
}

/// A number of bytes that several threads may drop permits of. Each is changed by one thread at a time.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `size`, and returns the count before that.
    fn add(&self, size: u64) -> u64 {
        self.0.fetch_add(size, Ordering::Relaxed)
    }

    /// Subtracts `size`, and returns the count before that.
    fn subtract(&self, size: u64) -> u64 {
        let before = self.0.fetch_sub(size, Ordering::Relaxed);
        debug_assert!(before >= size, "{size} bytes come back of {before}");
        before
    }
}

type Counts = [Count; ACCOUNTS];

/// All connections of one host, whoever pays for each.
#[derive(Debug, Default)]
pub(crate) struct HostAccount {
    held: Counts,
    /// Limit for arriving and read data: `limits.memory_per_host`.
    limit: Count,
}

impl HostAccount {
    /// A host that may hold at most `limit` of IO buffers, if there is one.
    pub(crate) fn new(limit: Option<Bytes>) -> Arc<HostAccount> {
        let account = HostAccount::default();
        account.set_limit(limit);
        Arc::new(account)
    }

    /// Changes the limit. Memory beyond a smaller limit stays until it is freed.
    pub(crate) fn set_limit(&self, limit: Option<Bytes>) {
        self.limit.set(limit.map_or(u64::MAX, Bytes::get));
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct ConnectionAccount {
    payer: Arc<Payer>,
    host: Arc<HostAccount>,
    held: Counts,
    limit: u64,
}

/// Capsules get one part in this many of the memory of a connection or host, as they are small.
const CAPSULES_PART: u64 = 8;
/// Replies of one connection that wait to be sent, in bytes; one longer one may always be alone.
pub(crate) const REPLIES_MAX: u64 = 64 << 10;

impl ConnectionAccount {
    /// A connection of `host` that may hold at most `limit` of IO buffers.
    pub(crate) fn new(limit: Bytes, host: Arc<HostAccount>, payer: Arc<Payer>) -> Arc<ConnectionAccount> {
        Arc::new(ConnectionAccount { payer, host, held: Counts::default(), limit: limit.get() })
    }

    /// The payer of this account.
    pub(crate) fn payer(&self) -> &Payer {
        &self.payer
    }

    /// The right to hold `size` bytes, unless that is too much for the connection, its host, its payer or the thread.
    pub(crate) fn take(self: &Arc<Self>, account: Account, size: u64) -> Option<Permit> {
        let index = account as usize;
        let fits = is_within(self.sum(&self.held, account), size, part_of(self.limit, account))
            && is_within(self.sum(&self.host.held, account), size, part_of(self.host.limit.get(), account))
            && self.payer.may_take(index, size, self.host.held[index].get());
        if !fits {
            return None;
        }
        self.held[index].add(size);
        self.host.held[index].add(size);
        self.payer.add(index, size);
        Some(Permit { connection: Arc::clone(self), account, size })
    }

    /// The sum over all accounts that share a limit with `account`.
    fn sum(&self, held: &Counts, account: Account) -> u64 {
        match account {
            Account::Transfer | Account::Read => {
                held[Account::Transfer as usize].get() + held[Account::Read as usize].get()
            }
            _ => held[account as usize].get(),
        }
    }
}

/// Whether `size` more keep within `limit`. Whoever holds nothing may always have one.
fn is_within(held: u64, size: u64, limit: u64) -> bool {
    held == 0 || held.saturating_add(size) <= limit
}

fn part_of(limit: u64, account: Account) -> u64 {
    match account {
        Account::Capsule => limit / CAPSULES_PART,
        Account::Transfer | Account::Read => limit - limit / CAPSULES_PART,
        Account::Reply => REPLIES_MAX,
    }
}

/// The right to hold a number of bytes. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Permit {
    connection: Arc<ConnectionAccount>,
    account: Account,
    size: u64,
}

impl Permit {
    /// Gives back all but `size`.
    pub(crate) fn shrink_to(&mut self, size: u64) {
        let back = self.size.saturating_sub(size);
        self.size -= back;
        self.give(back);
    }

    /// Gives back `size` bytes of this permit.
    pub(crate) fn give_back(&mut self, size: u64) {
        self.shrink_to(self.size - size);
    }

    /// Splits `size` bytes off this permit.
    pub(crate) fn split(&mut self, size: u64) -> Permit {
        self.size -= size;
        Permit { connection: Arc::clone(&self.connection), account: self.account, size }
    }

    /// The purpose of the memory.
    pub(crate) fn account(&self) -> Account {
        self.account
    }

    /// Adds the right that `other` is, so that both come back in one go; `other` itself if it is of another connection or account.
    pub(crate) fn absorb(&mut self, mut other: Permit) -> Result<(), Permit> {
        if self.account != other.account || !Arc::ptr_eq(&self.connection, &other.connection) {
            return Err(other);
        }
        self.size += std::mem::take(&mut other.size);
        Ok(())
    }

    /// Whether it is for data that arrives, which the thread of the connection has; everything else is the session's.
    pub(crate) fn is_of_arrival(&self) -> bool {
        matches!(self.account, Account::Capsule | Account::Transfer)
    }

    fn give(&self, size: u64) {
        if size == 0 {
            return;
        }
        let index = self.account as usize;
        self.connection.payer.subtract(index, size);
        self.connection.host.held[index].subtract(size);
        self.connection.held[index].subtract(size);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.give(self.size);
    }
}
