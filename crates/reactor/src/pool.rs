//! A bounded store of IO buffers, so that the path of an IO neither allocates nor grows without limit.
//!
//! Sizes are powers of two; each has its free list. A buffer comes back in one of two ways:
//!
//! ```text
//!   give(buffer)   on the pool's thread: straight onto the free list
//!   drop(buffer)   from any thread: onto a shared list under a lock, which `take` empties when its own list runs dry
//! ```
//!
//! Holds: memory that is out or on a list never exceeds the limit (`a_pool_never_exceeds_its_limit`); none outlives both its buffer and
//!        its pool (`no_memory_outlives_its_buffer_and_its_pool`).

use crate::buffer::{IoBuffer, Memory};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Bytes;

/// log2 of the smallest allocation: one page.
const SIZE_LOG2_MIN: u32 = IoBuffer::ALIGNMENT.ilog2();
/// log2 of the largest allocation: 64 MiB, beyond the largest transfer (MDTS) that a controller here offers.
const SIZE_LOG2_MAX: u32 = 26;
const SIZES: usize = (SIZE_LOG2_MAX - SIZE_LOG2_MIN + 1) as usize;

/// Where dropped buffers wait for their pool.
pub(crate) struct Home {
    /// `None` once the pool no longer exists: then nothing waits, as memory that waited here would keep this home, which would keep the memory.
    returned: Mutex<Option<Vec<Memory>>>,
    /// Length of `returned`, so that `take` can pass by without the lock. A stale value only postpones a pick-up.
    returned_count: AtomicUsize,
}

impl Home {
    pub(crate) fn new() -> Arc<Home> {
        Arc::new(Home { returned: Mutex::new(Some(Vec::new())), returned_count: AtomicUsize::new(0) })
    }

    fn returned(&self) -> MutexGuard<'_, Option<Vec<Memory>>> {
        // A panic while the lock is held can only be a failed push; the list is whole either way.
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves memory for its pool, or frees it if the pool no longer exists.
    pub(crate) fn put_back(memory: Memory) {
        let home = Arc::clone(memory.home());
        // Behind the lock, so that memory is not freed under it.
        let _freed = match &mut *home.returned() {
            Some(returned) => {
                returned.push(memory);
                home.returned_count.store(returned.len(), Ordering::Relaxed);
                None
            }
            None => Some(memory),
        };
    }

    /// Takes the waiting memory. `stays` is the waiting memory from now on.
    fn replace(&self, stays: Option<Vec<Memory>>) -> Vec<Memory> {
        let mut returned = self.returned();
        self.returned_count.store(0, Ordering::Relaxed);
        std::mem::replace(&mut *returned, stays).unwrap_or_default()
    }
}

/// Buffers in powers of two, with a limit on their total.
pub struct BufferPool {
    free: [Vec<Memory>; SIZES],
    home: Arc<Home>,
    allocated: usize,
    limit: usize,
}

impl BufferPool {
    /// The longest buffer that can be asked for.
    pub const LENGTH_MAX: usize = 1 << SIZE_LOG2_MAX;

    /// A pool that allocates at most `limit` in all, counted in whole power-of-two allocations.
    pub fn new(limit: Bytes) -> BufferPool {
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        BufferPool { free: [const { Vec::new() }; SIZES], home: Home::new(), allocated: 0, limit }
    }

    /// A buffer of exactly `length` bytes, or `None` while the limit does not allow for it: ask again once a buffer has come
    /// back. The contents are unspecified (see [`IoBuffer`]).
    ///
    /// # Panics
    /// If `length` exceeds [`BufferPool::LENGTH_MAX`].
    pub fn take(&mut self, length: usize) -> Option<IoBuffer> {
        assert!(
            length <= Self::LENGTH_MAX,
            "a buffer of {length} bytes was asked for, {} at most",
            Self::LENGTH_MAX
        );
        let size_log2 = length.max(IoBuffer::ALIGNMENT).next_power_of_two().ilog2();
        let memory = self.find(size_log2)?;
        Some(IoBuffer::new(memory, length))
    }

    /// Gives a buffer back the quick way. A buffer of another pool goes home to that one.
    pub fn give(&mut self, buffer: IoBuffer) {
        if let Some(memory) = buffer.into_memory_of(&self.home) {
            self.shelve(memory);
        }
    }

    /// Whether a buffer is of this pool.
    pub fn owns(&self, buffer: &IoBuffer) -> bool {
        Arc::ptr_eq(buffer.memory().home(), &self.home)
    }

    /// Changes the limit. Memory beyond a smaller one is freed now, or when it comes back.
    pub fn set_limit(&mut self, limit: Bytes) {
        self.limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        self.collect();
        while self.allocated > self.limit
            && let Some(memory) = self.free.iter_mut().rev().find_map(Vec::pop)
        {
            self.allocated -= memory.size();
        }
    }

    /// Bytes of memory that are out, in whole power-of-two allocations.
    pub fn lent(&mut self) -> Bytes {
        self.collect();
        let free: usize = self.free.iter().flatten().map(Memory::size).sum();
        Bytes((self.allocated - free) as u64)
    }

    fn find(&mut self, size_log2: u32) -> Option<Memory> {
        let shelf = shelf_of(size_log2);
        if self.free[shelf].is_empty() && self.home.returned_count.load(Ordering::Relaxed) > 0 {
            self.collect();
        }
        if let Some(memory) = self.free[shelf].pop() {
            return Some(memory);
        }
        let size = 1usize << size_log2;
        if size > self.limit {
            return None;
        }
        // Free memory of other sizes makes room, largest first.
        while self.allocated > self.limit - size {
            let memory = self.free.iter_mut().rev().find_map(Vec::pop)?;
            self.allocated -= memory.size();
        }
        self.allocated += size;
        Some(Memory::allocate(size_log2, Arc::clone(&self.home)))
    }

    fn collect(&mut self) {
        for memory in self.home.replace(Some(Vec::new())) {
            self.shelve(memory);
        }
    }

    fn shelve(&mut self, memory: Memory) {
        if self.allocated > self.limit {
            self.allocated -= memory.size();
            return;
        }
        self.free[shelf_of(memory.size_log2())].push(memory);
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        drop(self.home.replace(None));
    }
}

fn shelf_of(size_log2: u32) -> usize {
    (size_log2 - SIZE_LOG2_MIN) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::KIB;

    #[test]
    fn a_pool_never_exceeds_its_limit() {
        let mut pool = BufferPool::new(Bytes::kib(64));
        let mut out: Vec<IoBuffer> = (0..16).map_while(|_| pool.take(4096)).collect();
        assert_eq!(out.len(), 16);
        assert!(pool.take(1).is_none(), "the limit is reached");
        pool.give(out.pop().expect("sixteen are out"));
        assert!(pool.take(8192).is_none(), "4 KiB are free, 8 KiB were asked for");
        drop(out.pop());
        assert_eq!(pool.lent(), Bytes::kib(56));
        let larger = pool.take(8192).expect("free memory of another size makes room");
        assert_eq!((larger.len(), pool.lent()), (8192, Bytes::kib(64)));
        assert!(BufferPool::new(Bytes(KIB)).take(1).is_none(), "not even one page fits");
    }

    #[test]
    fn a_smaller_limit_holds_when_what_is_out_has_come_back() {
        let mut pool = BufferPool::new(Bytes::kib(64));
        let mut out: Vec<IoBuffer> = (0..16).map_while(|_| pool.take(4096)).collect();
        (0..4).for_each(|_| pool.give(out.pop().expect("sixteen are out")));
        pool.set_limit(Bytes::kib(16));
        assert_eq!(pool.lent(), Bytes::kib(48));
        assert!(pool.take(4096).is_none(), "more is out than may be");
        out.drain(..).for_each(|buffer| pool.give(buffer));
        let again: Vec<IoBuffer> = (0..16).map_while(|_| pool.take(4096)).collect();
        assert_eq!((again.len(), pool.allocated), (4, 16 << 10));
        pool.set_limit(Bytes::kib(32));
        assert!(pool.take(16 << 10).is_some());
    }

    #[test]
    fn a_buffer_dropped_on_another_thread_comes_home() {
        let mut pool = BufferPool::new(Bytes::kib(4));
        let buffer = pool.take(100).expect("the pool is empty");
        std::thread::spawn(move || drop(buffer)).join().expect("the thread only drops");
        assert!(pool.take(4096).is_some());
    }

    #[test]
    fn a_buffer_outlives_its_pool_and_another_pool_refuses_it() {
        let mut pool = BufferPool::new(Bytes::kib(8));
        let mut other = BufferPool::new(Bytes::kib(8));
        let mut buffer = pool.take(10).expect("the pool is empty");
        assert!(pool.owns(&buffer) && !other.owns(&buffer));
        other.give(pool.take(10).expect("one page is left"));
        assert_eq!((other.lent(), pool.lent()), (Bytes::ZERO, Bytes::kib(4)));
        drop(pool);
        buffer.fill(7);
        assert_eq!(&buffer[..], [7; 10]);
        assert_eq!(buffer.as_ptr() as usize % IoBuffer::ALIGNMENT, 0);
    }

    #[test]
    fn no_memory_outlives_its_buffer_and_its_pool() {
        let mut pool = BufferPool::new(Bytes::kib(12));
        let buffers = [(); 3].map(|()| pool.take(1).expect("three pages are free"));
        let lives = buffers.each_ref().map(|buffer| Arc::downgrade(buffer.memory().life()));
        let [given, dropped, kept] = buffers;
        pool.give(given);
        drop(dropped);
        assert!(lives.iter().all(|life| life.strong_count() == 1));
        drop(pool);
        assert_eq!(lives.each_ref().map(|life| life.strong_count()), [0, 0, 1]);
        drop(kept);
        assert_eq!(lives[2].strong_count(), 0);
    }
}
