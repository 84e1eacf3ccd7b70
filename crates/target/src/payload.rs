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
//! On top of the pools everything is charged (`account`): to the connection, its host and whoever pays for that, so that none who sends
//! much or reads slowly takes what the others need; and opening more connections, or making up more names, does not help. A buffer
//! is charged from before it is taken (a read: admitted) until its bytes are sent or stored.
//!
//! Holds: writes of all kinds make progress in the least memory that a configuration may give
//!        (`writes_beyond_the_memory_wait_their_turn` in `tests/bounds.rs`);
//!        what the transport throws away by itself is charged to nobody any more (`spoiled_data_is_not_counted_for_ever` in
//!        `tests/bad_peers/greed.rs`).

use crate::account::{Account, ConnectionAccount, Permit};
use nvme::buffer::{Buffer, BufferSource, BufferUse, Outgoing};
use reactor::{BufferPool, IoBuffer, SendBatch};
use std::ops::Range;
use std::sync::Arc;
use units::Bytes;

/// Stretches of memory in one batch: the kernel takes 1024 per call, and a reply has two or three.
const BATCH_PIECES_MAX: usize = 512;
/// Bytes in one batch: beyond this, more per call gains nothing, and the buffers come back later.
const BATCH_BYTES_MAX: usize = 2 << 20;

/// One part of so many of the memory for arriving data is for capsules: they are small.
const CAPSULES_PART: u64 = 8;

/// Memory for data that arrives.
pub(crate) struct Intakes {
    capsules: BufferPool,
    transfers: BufferPool,
}

impl Intakes {
    /// `memory` in all.
    pub(crate) fn new(memory: Bytes) -> Intakes {
        let (capsules, transfers) = Intakes::parts(memory);
        Intakes { capsules: BufferPool::new(capsules), transfers: BufferPool::new(transfers) }
    }

    /// How `memory` is divided: capsules, transfers.
    pub(crate) fn parts(memory: Bytes) -> (Bytes, Bytes) {
        let capsules = Bytes(memory.get() / CAPSULES_PART);
        (capsules, memory - capsules)
    }

    /// Changes the limit. What is out beyond a smaller one comes back in its own time.
    pub(crate) fn set_limit(&mut self, memory: Bytes) {
        let (capsules, transfers) = Intakes::parts(memory);
        self.capsules.set_limit(capsules);
        self.transfers.set_limit(transfers);
    }

    /// `each` for capsules and for transfers.
    pub(crate) fn alike(each: Bytes) -> Intakes {
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

    /// Buffers of other accounts go home to their own pool from whichever they are given to.
    fn of(&mut self, account: Account) -> &mut BufferPool {
        match account {
            Account::Capsule => &mut self.capsules,
            Account::Transfer | Account::Read | Account::Reply => &mut self.transfers,
        }
    }
}

/// The data of one command, with the right to hold it.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In a buffer of a pool: data of IO commands, and whatever arrives.
    Pooled(IoBuffer, Permit),
    /// On the heap: what a controller says about itself. Zeroes at its end are not held.
    Page(Vec<u8>, Permit),
}

impl Payload {
    /// The pool's buffer, if there is one.
    pub(crate) fn into_pooled(self) -> Option<(IoBuffer, Permit)> {
        match self {
            Payload::Pooled(buffer, permit) => Some((buffer, permit)),
            Payload::Page(..) => None,
        }
    }

    /// The pool's buffer, if there is one, and the right to hold the data.
    pub(crate) fn into_parts(self) -> (Option<IoBuffer>, Permit) {
        match self {
            Payload::Pooled(buffer, permit) => (Some(buffer), permit),
            Payload::Page(_, permit) => (None, permit),
        }
    }
}

impl Buffer for Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Pooled(buffer, _) => buffer,
            Payload::Page(bytes, _) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Payload::Pooled(buffer, _) => buffer,
            Payload::Page(bytes, _) => bytes,
        }
    }
}

/// What a buffer takes of its pool: a power of two of at least a page.
pub(crate) fn footprint(length: usize) -> u64 {
    length.max(IoBuffer::ALIGNMENT).next_power_of_two() as u64
}

/// Where a connection gets memory for data that arrives.
pub(crate) struct Intake<'a> {
    pub(crate) intakes: &'a mut Intakes,
    pub(crate) account: &'a Arc<ConnectionAccount>,
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
        if let Some(permit) = self.account.take(account, footprint(length))
            && let Some(buffer) = self.intakes.of(account).take(length)
        {
            return Some(Payload::Pooled(buffer, permit));
        }
        *self.starved = true;
        None
    }
}

/// A batch that a connection lays its PDUs into.
pub(crate) struct Outlet<'a> {
    pub(crate) batch: &'a mut SendBatch,
    /// For what is in the batch, to be dropped when it was sent.
    pub(crate) permits: &'a mut Vec<Permit>,
}

impl Outlet<'_> {
    /// Keeps a permit until the batch was sent. Those of one kind become one: a batch of reads gives all back in one go.
    fn keep(&mut self, permit: Permit) {
        let kept = match self.permits.last_mut() {
            Some(last) => last.absorb(permit),
            None => Err(permit),
        };
        self.permits.extend(kept.err());
    }
}

impl Outgoing<Payload> for Outlet<'_> {
    fn header(&mut self, bytes: &[u8]) {
        self.batch.push_bytes(bytes);
    }

    fn payload(&mut self, buffer: Payload, range: Range<usize>) {
        match buffer {
            Payload::Pooled(buffer, permit) => {
                self.batch.push_buffer(buffer, range);
                self.keep(permit);
            }
            Payload::Page(bytes, permit) => {
                self.batch.push_bytes(&bytes[range]);
                self.keep(permit);
            }
        }
    }

    fn zeroes(&mut self, count: usize) {
        self.batch.push_zeroes(count);
    }

    fn room(&self) -> bool {
        self.batch.pieces() < BATCH_PIECES_MAX && self.batch.len() < BATCH_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::account::{Accounts, HostAccount, Supply};
    use std::net::Ipv4Addr;

    #[test]
    fn a_refusal_is_remembered_and_costs_nothing() {
        let mut intakes = Intakes::new(Bytes::kib(32));
        let mut accounts =
            Accounts::new([Supply { limit: Bytes::mib(4), floor_max: Bytes::ZERO, first: Bytes::ZERO }; 4]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let account = ConnectionAccount::new(Bytes::kib(128), HostAccount::new(None), payer);
        let mut starved = false;
        let mut intake = Intake { intakes: &mut intakes, account: &account, starved: &mut starved };
        let first = intake.take(100, BufferUse::InCapsule).expect("one page is there");
        assert!(intake.take(100, BufferUse::InCapsule).is_none());
        assert!(*intake.starved);
        assert!(intake.take(100, BufferUse::Transfer).is_some(), "of another pool");
        assert_eq!(accounts.held(Account::Capsule), 4 << 10);
        assert_eq!(first.bytes().len(), 100);
        drop(first);
        assert_eq!(accounts.held(Account::Capsule), 0);
    }
}
