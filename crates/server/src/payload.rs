//! Memory for the data of commands, and how much of it a connection may hold.
//!
//! ```text
//!   socket ──copy──► Payload (from the pool) ──move──► device
//!   device ──move──► Payload ──move──► SendBatch ──gather──► socket
//! ```
//!
//! There is a separate pool for each kind of data, because the kinds are returned after different events. In one pool, each event
//! could wait for another:
//!
//! - *capsules*: data that came with its command. Returned when the scheduler and the device are done with it.
//! - *transfers*: data that the target requested by R2T. Returned after the host has sent it, and the parser has to see that. So the
//!   parser must never wait for this pool. (It waits for the capsule pool only.)
//! - *reads*: data read from the device. Returned when the host has received it. In a common pool, writes that wait in the scheduler
//!   could hold all memory while the scheduler waits for a read that needs some.
//!
//! In addition, all memory is charged (`account`) to the connection, its host and the host's payer. So a host that sends much or reads
//! its replies slowly does not take what others need, and gains nothing with more connections or more names. A buffer is charged
//! before it is taken (for a read: when it is admitted), until its bytes are sent or stored.
//!
//! Holds: all kinds of writes make progress with the least memory that the configuration allows
//!        (`writes_beyond_the_memory_wait_their_turn` in `tests/bounds.rs`);
//!        data that the transport discards is no longer charged (`corrupt_data_is_not_charged_for_ever` in
//!        `tests/bad_peers/greed.rs`).

use crate::account::{Account, ConnectionAccount, Permit};
use nvme::buffer::{Buffer, BufferSource, BufferUse, Outgoing};
use reactor::{BufferPool, IoBuffer, SendBatch};
use std::ops::Range;
use std::sync::Arc;
use units::Bytes;

/// Pieces of memory in one batch: the kernel takes 1024 per call, and a reply has two or three.
const BATCH_PIECES_MAX: usize = 512;
/// Bytes in one batch: larger batches are not faster, and return their buffers later.
const BATCH_BYTES_MAX: usize = 2 << 20;

/// This part (one in eight) of the memory for arriving data is for capsules, which are small.
const CAPSULES_PART: u64 = 8;

/// The pools for data that arrives.
pub(crate) struct Intakes {
    capsules: BufferPool,
    transfers: BufferPool,
    /// Room for the plaintext of a record; empty until a connection has TLS.
    plain: Vec<u8>,
}

impl Intakes {
    /// Pools of `memory` in total.
    pub(crate) fn new(memory: Bytes) -> Intakes {
        let (capsules, transfers) = Intakes::parts(memory);
        Intakes::with(BufferPool::new(capsules), BufferPool::new(transfers))
    }

    /// Divides `memory`: for capsules, for transfers.
    pub(crate) fn parts(memory: Bytes) -> (Bytes, Bytes) {
        let capsules = Bytes(memory.get() / CAPSULES_PART);
        (capsules, memory - capsules)
    }

    /// Changes the limit. Buffers above a smaller limit stay in use until they are returned.
    pub(crate) fn set_limit(&mut self, memory: Bytes) {
        let (capsules, transfers) = Intakes::parts(memory);
        self.capsules.set_limit(capsules);
        self.transfers.set_limit(transfers);
    }

    /// Pools of `each` for capsules and for transfers.
    pub(crate) fn alike(each: Bytes) -> Intakes {
        Intakes::with(BufferPool::new(each), BufferPool::new(each))
    }

    fn with(capsules: BufferPool, transfers: BufferPool) -> Intakes {
        Intakes { capsules, transfers, plain: Vec::new() }
    }

    /// Takes the room for the plaintext of a record.
    pub(crate) fn take_plain(&mut self) -> Vec<u8> {
        let mut plain = std::mem::take(&mut self.plain);
        plain.resize(tls::RECORD, 0);
        plain
    }

    /// Returns it.
    pub(crate) fn give_plain(&mut self, plain: Vec<u8>) {
        self.plain = plain;
    }

    /// Returns a buffer.
    pub(crate) fn give(&mut self, buffer: IoBuffer, account: Account) {
        self.of(account).give(buffer);
    }

    /// Memory in use.
    pub(crate) fn lent(&mut self) -> Bytes {
        self.capsules.lent() + self.transfers.lent()
    }

    /// The pool of an account. A buffer of another account finds its own pool by itself.
    fn of(&mut self, account: Account) -> &mut BufferPool {
        match account {
            Account::Capsule => &mut self.capsules,
            Account::Transfer | Account::Read | Account::Reply => &mut self.transfers,
        }
    }
}

/// The data of one command.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In a buffer of a pool, with the permit to hold it: data that arrived.
    Pooled(IoBuffer, Permit),
    /// In a buffer of a pool: data that was read for a session, which has the permit (`pipeline::reads`).
    Lent(IoBuffer),
    /// On the heap, with the permit to hold it: data of the controller itself, without the zeroes at its end.
    Page(Vec<u8>, Permit),
}

impl Payload {
    /// The buffer and the permit of data that arrived.
    pub(crate) fn into_pooled(self) -> Option<(IoBuffer, Permit)> {
        match self {
            Payload::Pooled(buffer, permit) => Some((buffer, permit)),
            Payload::Lent(_) | Payload::Page(..) => None,
        }
    }

    /// The pool's buffer and the permit, if it has them.
    pub(crate) fn into_parts(self) -> (Option<IoBuffer>, Option<Permit>) {
        match self {
            Payload::Pooled(buffer, permit) => (Some(buffer), Some(permit)),
            Payload::Lent(buffer) => (Some(buffer), None),
            Payload::Page(_, permit) => (None, Some(permit)),
        }
    }
}

impl Buffer for Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Pooled(buffer, _) | Payload::Lent(buffer) => buffer,
            Payload::Page(bytes, _) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Payload::Pooled(buffer, _) | Payload::Lent(buffer) => buffer,
            Payload::Page(bytes, _) => bytes,
        }
    }
}

/// The memory that a buffer takes from its pool: a power of two, at least a page.
pub(crate) fn footprint(length: usize) -> u64 {
    length.max(IoBuffer::ALIGNMENT).next_power_of_two() as u64
}

/// The source of memory for data that arrives by one connection.
pub(crate) struct Intake<'a> {
    pub(crate) intakes: &'a mut Intakes,
    pub(crate) account: &'a Arc<ConnectionAccount>,
    /// Set when a buffer was refused. Try again when memory was returned.
    pub(crate) waits_for_memory: &'a mut bool,
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
        *self.waits_for_memory = true;
        None
    }
}

/// The batch that a connection writes its PDUs into.
pub(crate) struct Outlet<'a> {
    pub(crate) batch: &'a mut SendBatch,
    /// Permits for the pages in the batch, to be dropped when it was sent.
    pub(crate) permits: &'a mut Vec<Permit>,
}

impl Outgoing<Payload> for Outlet<'_> {
    fn header(&mut self, bytes: &[u8]) {
        self.batch.push_bytes(bytes);
    }

    #[inline]
    fn payload(&mut self, buffer: Payload, range: Range<usize>) {
        match buffer {
            Payload::Lent(buffer) => self.batch.push_buffer(buffer, range),
            Payload::Page(bytes, permit) => {
                self.batch.push_bytes(&bytes[range]);
                self.permits.push(permit);
            }
            Payload::Pooled(..) => unreachable!("what has arrived is not sent"),
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
    fn a_refusal_is_noted_and_charges_nothing() {
        let mut intakes = Intakes::new(Bytes::kib(32));
        let mut accounts =
            Accounts::new([Supply { limit: Bytes::mib(4), floor_max: Bytes::ZERO, first: Bytes::ZERO }; 4]);
        let payer = accounts.payer(None, Ipv4Addr::LOCALHOST.into());
        let account = ConnectionAccount::new(Bytes::kib(128), HostAccount::new(None), payer);
        let mut waits_for_memory = false;
        let mut intake =
            Intake { intakes: &mut intakes, account: &account, waits_for_memory: &mut waits_for_memory };
        let first = intake.take(100, BufferUse::InCapsule).expect("one page is free");
        assert!(intake.take(100, BufferUse::InCapsule).is_none());
        assert!(*intake.waits_for_memory);
        assert!(intake.take(100, BufferUse::Transfer).is_some(), "another pool");
        assert_eq!(accounts.held(Account::Capsule), 4 << 10);
        assert_eq!(first.bytes().len(), 100);
        drop(first);
        assert_eq!(accounts.held(Account::Capsule), 0);
    }
}
