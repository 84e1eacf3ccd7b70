//! Where the data of commands lives, and how much of it one connection may hold.
//!
//! ```text
//!   socket ──copy──► Payload (from the pool) ──move──► device
//!   device ──move──► Payload ──move──► SendBatch ──gather──► socket
//! ```
//!
//! Memory is divided by what has to happen before it comes back, as otherwise each of these could wait for the other:
//!
//! - *capsules*: data that came with its command. Comes back when the scheduler and the device are done with it.
//! - *transfers*: data that a host was asked for. Comes back when the host has sent it, which the parser has to see; so the
//!   parser must never wait for memory of this kind. (It waits for memory of the first kind only.)
//! - *reads*: what the device has read. Comes back when the host has taken it. Were it of one pool with the others, writes that
//!   wait in the scheduler could hold all memory while the scheduler waits for reads that need some.
//!
//! On top of the pools every connection has a budget, so that one that sends much or reads slowly does not take what the
//! others need; and all connections of a host have one together, so that opening more of them does not help. A buffer counts
//! against both from the moment it is taken (a read: admitted) until its bytes are sent or stored.
//!
//! Holds: writes of all kinds make progress in the least memory that a configuration may give
//!        (`writes_beyond_the_memory_wait_their_turn` in `tests/bounds.rs`);
//!        all connections of a host hold no more than its budget (`connections_of_a_host_share_its_budget`).

use nvme::buffer::{Buffer, BufferSource, BufferUse, Outgoing};
use reactor::{BufferPool, IoBuffer, SendBatch};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use units::Bytes;

/// Stretches of memory in one batch: the kernel takes 1024 per call, and a reply has two or three.
const BATCH_PIECES_MAX: usize = 512;
/// Bytes in one batch: beyond this, more per call gains nothing, and the buffers come back later.
const BATCH_BYTES_MAX: usize = 2 << 20;

/// One part of so many of the memory is for capsules: they are small.
const CAPSULES_PART: u64 = 8;

/// What the memory of data is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// It came with its command.
    Capsule,
    /// The host was asked for it; in the budget of a connection also what was read for it.
    Transfer,
}

/// Memory for data that arrives.
pub(crate) struct Intakes {
    capsules: BufferPool,
    transfers: BufferPool,
}

impl Intakes {
    /// `memory` in all.
    pub(crate) fn new(memory: Bytes) -> Intakes {
        let capsules = Bytes(memory.get() / CAPSULES_PART);
        Intakes { capsules: BufferPool::new(capsules), transfers: BufferPool::new(memory - capsules) }
    }

    /// Changes the limit. What is out beyond a smaller one comes back in its own time.
    pub(crate) fn set_limit(&mut self, memory: Bytes) {
        let capsules = Bytes(memory.get() / CAPSULES_PART);
        self.capsules.set_limit(capsules);
        self.transfers.set_limit(memory - capsules);
    }

    /// Enough for so many connections of which each brings one command with `data_max`, either way.
    pub(crate) fn for_commands(connections: u64, data_max: Bytes) -> Intakes {
        let each = Bytes(connections * data_max.get());
        Intakes { capsules: BufferPool::new(each), transfers: BufferPool::new(each) }
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: IoBuffer, account: Account) {
        self.of(account).give(buffer);
    }

    /// Memory that is out.
    pub(crate) fn lent(&mut self) -> Bytes {
        self.capsules.lent() + self.transfers.lent()
    }

    fn of(&mut self, account: Account) -> &mut BufferPool {
        match account {
            Account::Capsule => &mut self.capsules,
            Account::Transfer => &mut self.transfers,
        }
    }
}

/// The data of one command.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In a buffer of a pool: data of IO commands, and whatever arrives.
    Pooled(IoBuffer, Account),
    /// On the heap: what a controller says about itself.
    Heap(Vec<u8>),
}

impl Payload {
    /// The pool's buffer, if there is one.
    pub(crate) fn into_pooled(self) -> Option<(IoBuffer, Account)> {
        match self {
            Payload::Pooled(buffer, account) => Some((buffer, account)),
            Payload::Heap(_) => None,
        }
    }
}

impl Buffer for Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Pooled(buffer, _) => buffer,
            Payload::Heap(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Payload::Pooled(buffer, _) => buffer,
            Payload::Heap(bytes) => bytes,
        }
    }
}

/// What all connections of one host hold of the pools, and what they may.
#[derive(Debug)]
pub(crate) struct HostBudget {
    capsules: Pot,
    transfers: Pot,
}

#[derive(Debug)]
struct Pot {
    held: Cell<u64>,
    limit: Cell<u64>,
}

impl HostBudget {
    /// Nothing held of `limit`.
    pub(crate) fn new(limit: Bytes) -> Rc<HostBudget> {
        let pot = || Pot { held: Cell::new(0), limit: Cell::new(0) };
        let budget = HostBudget { capsules: pot(), transfers: pot() };
        budget.set_limit(limit);
        Rc::new(budget)
    }

    /// Changes the limit. What is held beyond a smaller one comes back in its own time.
    pub(crate) fn set_limit(&self, limit: Bytes) {
        let capsules = limit.get() / CAPSULES_PART;
        self.capsules.limit.set(capsules);
        self.transfers.limit.set(limit.get() - capsules);
    }

    fn of(&self, account: Account) -> &Pot {
        match account {
            Account::Capsule => &self.capsules,
            Account::Transfer => &self.transfers,
        }
    }
}

impl Pot {
    /// Whether `size` more may be held. A host that holds nothing may always have one buffer.
    fn has_room(&self, size: u64) -> bool {
        self.held.get() == 0 || self.held.get() + size <= self.limit.get()
    }

    fn add(&self, size: u64) {
        self.held.set(self.held.get() + size);
    }

    fn subtract(&self, size: u64) {
        self.held.set(self.held.get() - size);
    }
}

/// What one connection holds of the pools, and what it may.
#[derive(Debug)]
pub(crate) struct Budget {
    capsules: Share,
    transfers: Share,
    host: Rc<HostBudget>,
}

#[derive(Debug)]
struct Share {
    held: u64,
    limit: u64,
}

impl Budget {
    /// Nothing held of `limit`, within what is left of `host`'s.
    pub(crate) fn new(limit: Bytes, host: Rc<HostBudget>) -> Budget {
        let capsules = limit.get() / CAPSULES_PART;
        let share = |limit| Share { held: 0, limit };
        Budget { capsules: share(capsules), transfers: share(limit.get() - capsules), host }
    }

    /// Counts a buffer of `length` bytes; false if it does not fit. A connection that holds nothing may always have one, as far
    /// as it is concerned; its host may not.
    pub(crate) fn take(&mut self, account: Account, length: usize) -> bool {
        let size = footprint(length);
        let (share, pot) = self.of(account);
        let fits = (share.held == 0 || share.held + size <= share.limit) && pot.has_room(size);
        if fits {
            share.held += size;
            pot.add(size);
        }
        fits
    }

    /// Counts a buffer back.
    pub(crate) fn give(&mut self, account: Account, length: usize) {
        let (share, pot) = self.of(account);
        // Not exact after `clear`, see there.
        let size = share.held.min(footprint(length));
        share.held -= size;
        pot.subtract(size);
    }

    /// Forgets what is held. The transport drops the buffers of commands it refuses by itself (spoiled data, for instance),
    /// which nobody counts back; once nothing is under way on the connection, it holds nothing, whatever was counted.
    pub(crate) fn clear(&mut self) {
        for account in [Account::Capsule, Account::Transfer] {
            let (share, pot) = self.of(account);
            pot.subtract(share.held);
            share.held = 0;
        }
    }

    fn of(&mut self, account: Account) -> (&mut Share, &Pot) {
        let share = match account {
            Account::Capsule => &mut self.capsules,
            Account::Transfer => &mut self.transfers,
        };
        (share, self.host.of(account))
    }
}

impl Drop for Budget {
    /// A connection that has gone holds nothing: what is on a device for it still, the device's depth bounds.
    fn drop(&mut self) {
        self.clear();
    }
}

/// What a buffer takes of its pool: a power of two of at least a page.
fn footprint(length: usize) -> u64 {
    length.max(IoBuffer::ALIGNMENT).next_power_of_two() as u64
}

/// Where a connection gets memory for data that arrives.
pub(crate) struct Intake<'a> {
    pub(crate) intakes: &'a mut Intakes,
    pub(crate) budget: &'a mut Budget,
    /// Set when a buffer was refused: ask again when some came back.
    pub(crate) starved: &'a mut bool,
}

impl BufferSource for Intake<'_> {
    type Buffer = Payload;

    fn take(&mut self, length: usize, purpose: BufferUse) -> Option<Payload> {
        let account = match purpose {
            BufferUse::InCapsule => Account::Capsule,
            BufferUse::Transfer => Account::Transfer,
        };
        if self.budget.take(account, length) {
            if let Some(buffer) = self.intakes.of(account).take(length) {
                return Some(Payload::Pooled(buffer, account));
            }
            self.budget.give(account, length);
        }
        *self.starved = true;
        None
    }
}

/// A batch that a connection lays its PDUs into.
pub(crate) struct Outlet<'a> {
    pub(crate) batch: &'a mut SendBatch,
}

impl Outgoing<Payload> for Outlet<'_> {
    fn header(&mut self, bytes: &[u8]) {
        self.batch.push_bytes(bytes);
    }

    fn payload(&mut self, buffer: Payload, range: Range<usize>) {
        match buffer {
            Payload::Pooled(buffer, _) => self.batch.push_buffer(buffer, range),
            Payload::Heap(bytes) => self.batch.push_bytes(&bytes[range]),
        }
    }

    fn room(&self) -> bool {
        self.batch.pieces() < BATCH_PIECES_MAX && self.batch.len() < BATCH_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_whole_pages_and_always_lets_one_buffer_through() {
        let mut budget = Budget::new(Bytes::kib(16), HostBudget::new(Bytes::mib(4)));
        let mut take = |length| budget.take(Account::Transfer, length);
        assert!(take(1 << 20), "held nothing");
        assert!(!take(1));
        budget.give(Account::Transfer, 1 << 20);
        let mut take = |length| budget.take(Account::Transfer, length);
        assert!(take(1) && take(4097), "14 KiB are for transfers, 12 KiB are taken");
        assert!(!take(1));
        assert!(budget.take(Account::Capsule, 1), "capsules have a share of their own");
    }

    #[test]
    fn connections_of_a_host_share_its_budget() {
        let host = HostBudget::new(Bytes::kib(64));
        let mut budgets = [(); 3].map(|()| Budget::new(Bytes::kib(64), Rc::clone(&host)));
        let mut take = |index: usize| budgets[index].take(Account::Transfer, 28 << 10);
        assert!(take(0), "32 KiB of the 56 that are for transfers");
        assert!(!take(1), "another connection is no reason to have more");
        budgets[0].give(Account::Transfer, 28 << 10);
        assert!(budgets[1].take(Account::Transfer, 28 << 10), "it came back");
        let [first, second, _third] = &mut budgets;
        assert!(
            first.take(Account::Capsule, 1) && second.take(Account::Capsule, 1),
            "8 KiB are for capsules"
        );
        assert!(!second.take(Account::Capsule, 1));
        *first = Budget::new(Bytes::kib(64), Rc::clone(&host));
        assert!(second.take(Account::Capsule, 1), "a connection that has gone holds nothing");
    }

    #[test]
    fn a_refusal_is_remembered_and_costs_nothing() {
        let mut intakes = Intakes::new(Bytes::kib(32));
        let mut budget = Budget::new(Bytes::kib(128), HostBudget::new(Bytes::mib(4)));
        let mut starved = false;
        let mut intake = Intake { intakes: &mut intakes, budget: &mut budget, starved: &mut starved };
        let first = intake.take(100, BufferUse::InCapsule).expect("one page is there");
        assert!(intake.take(100, BufferUse::InCapsule).is_none());
        assert!(*intake.starved);
        assert!(intake.take(100, BufferUse::Transfer).is_some(), "of another pool");
        assert_eq!(budget.capsules.held, 4 << 10);
        assert_eq!(first.bytes().len(), 100);
    }
}
