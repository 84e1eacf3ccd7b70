//! Anonymous zeroed pages, unmapped on drop.

use std::io;
use std::ptr::{self, NonNull};

/// A mapping with this value as its only owner.
pub(crate) struct Region {
    start: NonNull<u8>,
    length: usize,
}

impl Region {
    pub(crate) fn new(length: usize) -> io::Result<Region> {
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at address zero");
        Ok(Region { start, length })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this very length, and every holder of a pointer into it also keeps `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
