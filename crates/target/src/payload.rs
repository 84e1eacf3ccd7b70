//! Where the data of commands lives, and how much of it one connection may hold.
//!
//! ```text
//!   socket ──copy──► Payload (from the pool) ──move──► device
//!   device ──move──► Payload ──move──► SendBatch ──gather──► socket
//! ```
//!
//! Each pipeline has two pools: one for data that arrives, one for data that was read. If both came out of one, writes that
//! wait in the scheduler could hold all memory while the scheduler waits for reads that need some, for ever.
//!
//! On top of the pools every connection has a budget, so that one that sends much or reads slowly does not take what the
//! others need. A buffer counts against it from the moment it is taken (a read: admitted) until its bytes are sent or stored.

use nvme::buffer::{Buffer, BufferSource, BufferUse, Outgoing};
use reactor::{BufferPool, IoBuffer, SendBatch};
use std::ops::Range;
use units::Bytes;

/// Stretches of memory in one batch: the kernel takes 1024 per call, and a reply has two or three.
const BATCH_PIECES_MAX: usize = 512;
/// Bytes in one batch: beyond this, more per call gains nothing, and the buffers come back later.
const BATCH_BYTES_MAX: usize = 2 << 20;

/// The data of one command.
#[derive(Debug)]
pub(crate) enum Payload {
    /// In a buffer of a pool: data of IO commands, and whatever arrives.
    Pooled(IoBuffer),
    /// On the heap: what a controller says about itself.
    Heap(Vec<u8>),
}

impl Payload {
    /// The pool's buffer, if there is one.
    pub(crate) fn into_pooled(self) -> Option<IoBuffer> {
        match self {
            Payload::Pooled(buffer) => Some(buffer),
            Payload::Heap(_) => None,
        }
    }
}

impl Buffer for Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Payload::Pooled(buffer) => buffer,
            Payload::Heap(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Payload::Pooled(buffer) => buffer,
            Payload::Heap(bytes) => bytes,
        }
    }
}

/// What one connection holds of the pools, and what it may.
#[derive(Debug)]
pub(crate) struct Budget {
    held: u64,
    limit: u64,
}

impl Budget {
    /// Nothing held of `limit`.
    pub(crate) fn new(limit: Bytes) -> Budget {
        Budget { held: 0, limit: limit.get() }
    }

    /// Counts a buffer of `length` bytes; false if it does not fit. A connection that holds nothing may always have one.
    pub(crate) fn take(&mut self, length: usize) -> bool {
        let size = footprint(length);
        let fits = self.held == 0 || self.held + size <= self.limit;
        if fits {
            self.held += size;
        }
        fits
    }

    /// Counts a buffer back.
    pub(crate) fn give(&mut self, length: usize) {
        // Not exact after `clear`, see there.
        self.held = self.held.saturating_sub(footprint(length));
    }

    /// Forgets what is held. The transport drops the buffers of commands it refuses by itself (spoiled data, for instance),
    /// which nobody counts back; once nothing is under way on the connection, it holds nothing, whatever was counted.
    pub(crate) fn clear(&mut self) {
        self.held = 0;
    }
}

/// What a buffer takes of its pool: a power of two of at least a page.
fn footprint(length: usize) -> u64 {
    length.max(IoBuffer::ALIGNMENT).next_power_of_two() as u64
}

/// Where a connection gets memory for data that arrives.
pub(crate) struct Intake<'a> {
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) budget: &'a mut Budget,
    /// Set when a buffer was refused: ask again when some came back.
    pub(crate) starved: &'a mut bool,
}

impl BufferSource for Intake<'_> {
    type Buffer = Payload;

    fn take(&mut self, length: usize, _purpose: BufferUse) -> Option<Payload> {
        if self.budget.take(length) {
            if let Some(buffer) = self.pool.take(length) {
                return Some(Payload::Pooled(buffer));
            }
            self.budget.give(length);
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
            Payload::Pooled(buffer) => self.batch.push_buffer(buffer, range),
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
        let mut budget = Budget::new(Bytes::kib(16));
        assert!(budget.take(1 << 20), "held nothing");
        assert!(!budget.take(1));
        budget.give(1 << 20);
        assert!(budget.take(1) && budget.take(4097));
        assert_eq!(budget.held, 12 << 10);
        assert!(!budget.take(4097) && budget.take(4096));
    }

    #[test]
    fn a_refusal_is_remembered_and_costs_nothing() {
        let mut pool = BufferPool::new(Bytes::kib(4));
        let mut budget = Budget::new(Bytes::kib(64));
        let mut starved = false;
        let mut intake = Intake { pool: &mut pool, budget: &mut budget, starved: &mut starved };
        let first = intake.take(100, BufferUse::InCapsule).expect("one page is there");
        assert!(intake.take(100, BufferUse::Transfer).is_none());
        assert!(starved);
        assert_eq!(budget.held, 4 << 10);
        assert_eq!(first.bytes().len(), 100);
    }
}
