//! The buffers that received bytes land in, shared by all sockets of a reactor.
//!
//! Memory for reception belongs to the sockets that have bytes to read at the moment, not to each connection: a few
//! buffers that stay in the L2 cache serve thousands of sockets. A buffer goes round:
//!
//!   available (with the kernel, or on the free list) --bytes arrive--> lent as a RecvBuffer --drop--> available
//!
//! With io_uring the available buffers lie in a *provided buffer ring*, from which the kernel takes one when bytes
//! arrive; with epoll they lie on a list.
//!
//! The number and size (`Options`) were measured with the `echo_bench` example: nanoseconds of processor time per
//! message, both ends together, io_uring on Linux 6.18, two cores of an AMD EPYC with 512 KiB of L2 each and other work
//! on them (the better of two runs; take differences below a tenth for noise). Buffers below 32 KiB cost rounds through
//! the kernel as soon as messages are larger than a command; more or larger ones gain nothing:
//!
//! | buffers | 72 B, 32 deep | 72 B, 64 sockets | 4 KiB, 8 × 8 | 128 KiB, 4 × 4 |
//! |---|---|---|---|---|
//! | 16 × 16 KiB | 725 | 3550 | 5350 | 95 000 |
//! | 64 × 16 KiB | 825 | 3200 | 5700 | 103 000 |
//! | 128 × 8 KiB | 750 | 3400 | 6650 | 107 000 |
//! | 8 × 32 KiB | 750 | 3850 | 3200 | 89 000 |
//! | **32 × 32 KiB** | 700 | 3150 | 3050 | 86 000 |
//! | 16 × 64 KiB | 750 | 3250 | 2900 | 90 000 |
//! | 64 × 64 KiB | 725 | 3200 | 3200 | 96 000 |
//!
//! Holds: a buffer is either available or lent, so the kernel never writes where a `RecvBuffer` reads
//!        (`a_buffer_is_lent_once`); the memory lives as long as the last `RecvBuffer`, whether the reactor does or not.

use crate::region::Region;
use crate::ring::buffers::BufferRing;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::slice;

/// Where available buffers wait.
enum Available {
    List(RefCell<Vec<u16>>),
    Ring(BufferRing),
}

/// All receive buffers of one reactor.
pub(crate) struct ReceivePool {
    memory: Region,
    buffer_size: usize,
    /// The buffers that are lent; a mistake here would be unsound, so it is recorded.
    lent: Box<[Cell<bool>]>,
    available: Available,
    available_count: Cell<usize>,
}

impl ReceivePool {
    /// A pool with a free list.
    pub(crate) fn with_list(count: u16, buffer_size: usize) -> io::Result<Rc<ReceivePool>> {
        let list = (0..count).rev().collect();
        Self::new(count, buffer_size, Available::List(RefCell::new(list)))
    }

    /// A pool with all its buffers in `ring`, which must have room for them.
    pub(crate) fn with_ring(count: u16, buffer_size: usize, ring: BufferRing) -> io::Result<Rc<ReceivePool>> {
        let pool = Self::new(count, buffer_size, Available::Ring(ring))?;
        (0..count).for_each(|id| pool.provide(id));
        Ok(pool)
    }

    fn new(count: u16, buffer_size: usize, available: Available) -> io::Result<Rc<ReceivePool>> {
        assert!(count > 0 && buffer_size > 0, "a pool of {count} buffers of {buffer_size} bytes");
        let count = usize::from(count);
        Ok(Rc::new(ReceivePool {
            memory: Region::new(count * buffer_size)?,
            buffer_size,
            lent: (0..count).map(|_| Cell::new(false)).collect(),
            available,
            available_count: Cell::new(count),
        }))
    }

    pub(crate) fn buffer_size(&self) -> usize {
        self.buffer_size
    }

    /// Buffers that are not lent. The kernel may have filled some of them already without our having seen it.
    pub(crate) fn available(&self) -> usize {
        self.available_count.get()
    }

    /// The buffer ring, for the driver that registers it.
    pub(crate) fn ring(&self) -> Option<&BufferRing> {
        match &self.available {
            Available::Ring(ring) => Some(ring),
            Available::List(_) => None,
        }
    }

    /// Takes a buffer off the free list, to be filled and then lent or put back.
    pub(crate) fn take(&self) -> Option<u16> {
        match &self.available {
            Available::List(list) => list.borrow_mut().pop(),
            Available::Ring(_) => None,
        }
    }

    /// Puts back a buffer that was taken from the list, or that the kernel took from the ring, and that was never lent.
    pub(crate) fn put_back(&self, id: u16) {
        assert!(!self.lent[usize::from(id)].get(), "receive buffer {id} is lent");
        self.provide(id);
    }

    /// Where buffer `id` begins; it has `buffer_size` bytes.
    pub(crate) fn start_of(&self, id: u16) -> *mut u8 {
        let index = usize::from(id);
        assert!(index < self.lent.len(), "receive buffer {index} of {}", self.lent.len());
        // SAFETY: the mapping holds `lent.len()` buffers of `buffer_size` bytes.
        unsafe { self.memory.start().as_ptr().add(index * self.buffer_size) }
    }

    /// Lends buffer `id` with its first `length` bytes filled. It must have left the list or the ring.
    pub(crate) fn lend(self: &Rc<Self>, id: u16, length: usize) -> RecvBuffer {
        let index = usize::from(id);
        assert!(length <= self.buffer_size, "{length} bytes in a receive buffer of {}", self.buffer_size);
        assert!(!self.lent[index].replace(true), "receive buffer {id} is lent twice");
        self.available_count.set(self.available_count.get() - 1);
        RecvBuffer { bytes: Storage::Pooled { pool: Rc::clone(self), id, length } }
    }

    fn provide(&self, id: u16) {
        match &self.available {
            Available::List(list) => list.borrow_mut().push(id),
            Available::Ring(ring) => ring.provide(id, self.start_of(id), self.buffer_size as u32),
        }
    }

    fn end_loan(&self, id: u16) {
        assert!(self.lent[usize::from(id)].replace(false), "receive buffer {id} was not lent");
        self.available_count.set(self.available_count.get() + 1);
        self.provide(id);
    }
}

enum Storage {
    Pooled { pool: Rc<ReceivePool>, id: u16, length: usize },
    Own(Vec<u8>),
}

/// Received bytes. Dropping it returns the memory to the reactor's receive pool, so drop it soon: while all buffers are held,
/// no socket of this reactor receives. Bytes to be kept for long are better copied ([`RecvBuffer::detach`]).
pub struct RecvBuffer {
    bytes: Storage,
}

impl RecvBuffer {
    /// The same bytes on the heap, so that the pool has its buffer back.
    #[must_use]
    pub fn detach(self) -> RecvBuffer {
        match self.bytes {
            Storage::Own(_) => self,
            Storage::Pooled { .. } => RecvBuffer { bytes: Storage::Own(self.to_vec()) },
        }
    }
}

impl Deref for RecvBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Storage::Own(bytes) => bytes,
            // SAFETY: the pool's mapping is alive (we hold it), initialised (zeroed pages, later written by the kernel), and
            // a lent buffer is not written to; `length` was checked in `lend`.
            Storage::Pooled { pool, id, length } => unsafe {
                slice::from_raw_parts(pool.start_of(*id), *length)
            },
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Storage::Pooled { pool, id, .. } = self {
            pool.end_loan(*id);
        }
    }
}

impl fmt::Debug for RecvBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvBuffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_once() {
        let pool = ReceivePool::with_list(2, 4096).expect("two pages");
        let id = pool.take().expect("both are free");
        let buffer = pool.lend(id, 3);
        assert_eq!((buffer.len(), pool.available()), (3, 1));
        let other = pool.take().expect("one is free");
        assert_ne!(id, other);
        assert_eq!(pool.take(), None);
        pool.put_back(other);
        drop(buffer);
        assert_eq!(pool.available(), 2);
    }

    #[test]
    fn a_detached_buffer_frees_its_place_and_a_lent_one_outlives_the_pool() {
        let pool = ReceivePool::with_list(1, 4096).expect("one page");
        let detached = pool.lend(pool.take().expect("free"), 5).detach();
        let lent = pool.lend(pool.take().expect("free again"), 6);
        drop(pool);
        assert_eq!((&detached[..], &lent[..]), (&[0; 5][..], &[0; 6][..]));
    }
}
