//! Owned, page-aligned memory that moves between sockets, disks and threads without being copied.
//!
//! A buffer is lent by a [`BufferPool`](crate::BufferPool) and returns to it when dropped, on any
//! thread; `BufferPool::give` is the quick way on the pool's own thread.
//!
//! Holds: the whole length is initialised memory at any time, so that it is a plain `[u8]` in safe code.

use crate::pool::Home;
use crate::rdma::{DomainCore, Keys, Registrations};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One heap allocation of a power-of-two size, aligned for O_DIRECT, zeroed when it was made.
///
/// The knowledge of it is on the heap too, so a buffer that passes through many hands is two words.
pub(crate) struct Memory(Box<Allocation>);

struct Allocation {
    start: NonNull<u8>,
    size_log2: u32,
    /// Dropped with the memory: code that remembers the memory by its address can tell that it has another owner now.
    life: Arc<()>,
    was_used: AtomicBool,
    /// The devices of RDMA that know the memory.
    registrations: Registrations,
    /// Where it goes when it is dropped.
    home: Arc<Home>,
}

impl Memory {
    pub(crate) fn allocate(size_log2: u32, home: Arc<Home>) -> Memory {
        let layout = Memory::layout(size_log2);
        // SAFETY: the layout's size is a power of two of at least one page, so not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        let (life, was_used) = (Arc::default(), AtomicBool::new(false));
        let registrations = Registrations::default();
        Memory(Box::new(Allocation { start, size_log2, life, was_used, registrations, home }))
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// The token that lives as long as the memory.
    pub(crate) fn life(&self) -> &Arc<()> {
        &self.0.life
    }

    /// Whether it was asked this before.
    pub(crate) fn was_used_before(&self) -> bool {
        self.0.was_used.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn size_log2(&self) -> u32 {
        self.0.size_log2
    }

    pub(crate) fn size(&self) -> usize {
        1 << self.0.size_log2
    }

    /// Where dropped buffers of its pool wait.
    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.0.home
    }

    fn layout(size_log2: u32) -> Layout {
        Layout::from_size_align(1 << size_log2, IoBuffer::ALIGNMENT)
            .expect("a size in the pool's range has a layout")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.registrations.end() {
            return;
        }
        // SAFETY: `start` came from `alloc_zeroed` with this very layout and is freed only here; no device uses it any more.
        unsafe { dealloc(self.start.as_ptr(), Memory::layout(self.size_log2)) }
    }
}

// SAFETY: `Allocation` is the only owner of its allocation, as a Vec<u8> is.
unsafe impl Send for Allocation {}
// SAFETY: shared access only reads (through `Deref` of IoBuffer).
unsafe impl Sync for Allocation {}

/// Bytes for one IO, aligned to [`IoBuffer::ALIGNMENT`].
///
/// Its contents when taken from a pool are zeros or the bytes of its last user: fill what you hand out.
pub struct IoBuffer {
    /// Present until dropped.
    memory: Option<Memory>,
    length: usize,
}

impl IoBuffer {
    /// The alignment of every buffer's address: a page, which suits every block size O_DIRECT knows.
    pub const ALIGNMENT: usize = 4096;

    pub(crate) fn new(memory: Memory, length: usize) -> IoBuffer {
        assert!(length <= memory.size(), "a buffer of {length} bytes in {} bytes of memory", memory.size());
        IoBuffer { memory: Some(memory), length }
    }

    /// Bytes in the buffer: as many as were requested from the pool.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Makes the buffer shorter or longer, within the power of two (a page at least) that it was taken for. Its contents stay.
    pub fn set_len(&mut self, length: usize) {
        let size = self.memory().size();
        assert!(length <= size, "a buffer of {length} bytes in {size} bytes of memory");
        self.length = length;
    }

    /// Takes the memory out for the pool `home`, or nothing if it belongs to another.
    pub(crate) fn into_memory_of(mut self, home: &Arc<Home>) -> Option<Memory> {
        if Arc::ptr_eq(self.memory().home(), home) { self.memory.take() } else { None }
    }

    /// Where the bytes begin, for the kernel to read from or write to. Valid while the buffer is neither dropped nor given
    /// back; moving the buffer does not move the bytes.
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory().start().as_ptr()
    }

    /// The keys of the whole memory for work in a domain of RDMA; its first use there registers it.
    pub(crate) fn register(&mut self, domain: &Arc<DomainCore>) -> io::Result<Keys> {
        let Allocation { start, size_log2, registrations, .. } =
            &mut *self.memory.as_mut().expect("memory is present until drop").0;
        // SAFETY: it is the memory's own address and size, and the memory is freed only after `end` has returned `true`.
        unsafe { registrations.with(domain, *start, 1 << *size_log2) }
    }

    /// The memory that the bytes are in.
    pub(crate) fn memory(&self) -> &Memory {
        self.memory.as_ref().expect("memory is present until drop")
    }
}

impl Deref for IoBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the allocation holds `length` initialised bytes and nothing writes to them while `self` is borrowed: the
        // kernel gets the address only of buffers that were moved into the reactor.
        unsafe { slice::from_raw_parts(self.start(), self.length) }
    }
}

impl DerefMut for IoBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start(), self.length) }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            Home::put_back(memory);
        }
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuffer({} bytes)", self.length)
    }
}
