//! The provided buffer ring: where receive buffers wait for the kernel to take one.
//!
//! A ring of (address, length, id) entries in shared memory. We write entries and move the tail; the kernel reads them and keeps
//! its own head. There are as many entries as buffers, so the ring cannot overflow. The tail lies in the unused last field of
//! the first entry, so entries are written field by field.

use crate::region::Region;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::cell::Cell;
use std::io;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The only buffer group of our rings.
pub(super) const GROUP: u16 = 0;

/// A ring of receive buffers.
pub(crate) struct BufferRing {
    entries: Region,
    count: u16,
    /// Our copy of the tail: only we write it.
    tail: Cell<u16>,
}

impl BufferRing {
    /// An empty ring with room for `count` buffers, a power of two.
    pub(crate) fn new(count: u16) -> io::Result<BufferRing> {
        assert!(count.is_power_of_two(), "{count} receive buffers: must be a power of two");
        let entries = Region::new(usize::from(count) * mem::size_of::<BufRingEntry>())?;
        Ok(BufferRing { entries, count, tail: Cell::new(0) })
    }

    fn first(&self) -> NonNull<BufRingEntry> {
        self.entries.start().cast()
    }

    /// Puts a buffer in. The caller, the receive pool, makes this sound: the memory lives as long as the ring is
    /// registered, and nothing reads the buffer until the kernel has taken it out again.
    pub(crate) fn provide(&self, id: u16, start: *mut u8, length: u32) {
        let tail = self.tail.get();
        let index = usize::from(tail & (self.count - 1));
        // SAFETY: the region holds `count` zeroed entries (any bytes are a valid entry), `index` is less, and the kernel does not
        // read an entry beyond the tail. The setters touch their own fields only, so the tail is not overwritten.
        let entry = unsafe { self.first().add(index).as_mut() };
        entry.set_addr(start as u64);
        entry.set_len(length);
        entry.set_bid(id);
        self.tail.set(tail.wrapping_add(1));
        // SAFETY: the tail is an aligned u16 within the first entry, and is only ever accessed atomically.
        let shared = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.first().as_ptr()).cast_mut()) };
        // Release: the kernel, which acquires the tail, sees the entry's fields.
        shared.store(self.tail.get(), Ordering::Release);
    }

    /// Makes the ring known to the kernel as group [`GROUP`].
    pub(super) fn register(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: the entries live in a mapping of their own, page-aligned, until this value is dropped; the driver, which shares
        // ownership of it, unregisters the ring before or, if it cannot, leaks it.
        unsafe { submitter.register_buf_ring_with_flags(self.first().as_ptr() as u64, self.count, GROUP, 0) }
    }

    /// Makes the kernel forget the ring.
    pub(super) fn unregister(&self, submitter: &Submitter<'_>) {
        // It can only fail if the ring is not registered.
        let _ = submitter.unregister_buf_ring(GROUP);
    }
}
