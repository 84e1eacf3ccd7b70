//! The resources that a ring knows beforehand: files, so that a request need not look its descriptor up, and buffers, so that their pages need
//! not be pinned and released again for every request.
//!
//! ```text
//!   a file     when it is added                 --> a slot of the table of files, until it is closed
//!   a buffer   when it is used a second time    --> a slot of the table of buffers, until its memory is freed
//! ```
//!
//! A pool gives the same few buffers out again and again, so most requests meet one that is registered. Memory that is used once and
//! freed would not pay for the system call. Freed memory gives its slot back when another buffer asks for one; until then its pages stay
//! pinned, which costs the kernel's accounting, not the pool's.
//!
//! The kernel may refuse: a process without `CAP_IPC_LOCK` may pin `RLIMIT_MEMLOCK` bytes only. Then the other buffers are used
//! unregistered, which costs time and nothing else, and [`Unregistered`] says so, once for each ring.
//!
//! Holds: a slot never names other memory than its buffer's (`memory_that_was_freed_gives_its_slot_to_other_memory`); a
//!        refusal is reported once and makes no operation fail (`tests/registration.rs`).

use crate::buffer::Memory;
use io_uring::Submitter;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Weak};
use units::Bytes;

/// Slots for files: more than one thread has devices.
const FILES: u32 = 64;
/// Slots for buffers: four times the default number of operations in flight.
const BUFFERS: u16 = 4096;
/// Slots that are looked at for freed memory when a buffer asks for one.
const LOOKS: usize = 4;

/// The reason why some files or buffers are used without being registered with the kernel: IO works all the same, and
/// takes more processor time.
#[derive(Debug)]
pub struct Unregistered {
    /// The refused kind: `files` or `buffers`.
    pub what: &'static str,
    /// The kernel's answer.
    pub error: io::Error,
    /// Amount of memory that is registered all the same.
    pub registered: Bytes,
}

impl fmt::Display for Unregistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unregistered { what, error, registered } = self;
        write!(f, "the kernel registers no more {what} for io_uring ({error}): ")?;
        if *what == "buffers" {
            write!(f, "{registered} are registered, ")?;
        }
        f.write_str("the rest is used unregistered, which takes more processor time for each IO")?;
        if error.raw_os_error() == Some(libc::ENOMEM) {
            f.write_str("; raise the limit of locked memory (LimitMEMLOCK= of systemd, ulimit -l), or grant CAP_IPC_LOCK")?;
        }
        Ok(())
    }
}

/// The tables of one ring. They are made when the first file comes.
#[derive(Default)]
pub(super) struct Registry {
    /// The slots for files that are taken; empty if the kernel has no table.
    files: Vec<bool>,
    buffers: Buffers,
    is_made: bool,
    refusals: Vec<Unregistered>,
}

impl Registry {
    /// Registers a file; `None` if it has to be used by its descriptor.
    pub(super) fn add_file(&mut self, submitter: &Submitter<'_>, fd: RawFd) -> Option<u32> {
        if !self.is_made {
            self.is_made = true;
            match submitter.register_files_sparse(FILES) {
                Ok(()) => self.files = vec![false; FILES as usize],
                Err(error) => self.refuse("files", error),
            }
            match submitter.register_buffers_sparse(u32::from(BUFFERS)) {
                Ok(()) => self.buffers.open(BUFFERS),
                Err(error) => self.refuse("buffers", error),
            }
        }
        let slot = self.files.iter().position(|is_taken| !is_taken)?;
        let number = u32::try_from(slot).expect("one of a few slots");
        match submitter.register_files_update(number, &[fd]) {
            Ok(_) => {
                self.files[slot] = true;
                Some(number)
            }
            Err(error) => {
                self.refuse("files", error);
                None
            }
        }
    }

    /// Gives the slot of a file back. The kernel keeps the file itself until its last request has ended.
    pub(super) fn remove_file(&mut self, submitter: &Submitter<'_>, slot: u32) {
        // If the kernel keeps it all the same, the slot is not used again.
        if submitter.register_files_update(slot, &[-1]).is_ok() {
            self.files[slot as usize] = false;
        }
    }

    /// The slot of a buffer's memory, which stays its own until `put_buffer`; `None` if it has to be used by its address alone.
    pub(super) fn take_buffer(&mut self, submitter: &Submitter<'_>, memory: &Memory) -> Option<u16> {
        let register = |slot: u16, start: *mut u8, length: usize| {
            let buffer = libc::iovec { iov_base: start.cast(), iov_len: length };
            // SAFETY: the kernel pins the pages while it looks at this one entry, and keeps them until the slot gets other memory. It
            // reads and writes them only for requests that name the slot: those own the memory, as every request does.
            unsafe { submitter.register_buffers_update(u32::from(slot), &[buffer], None) }
        };
        match self.buffers.take(memory, register) {
            Ok(slot) => slot,
            Err(error) => {
                self.refuse("buffers", error);
                None
            }
        }
    }

    /// A request that `take_buffer` gave a slot has ended.
    pub(super) fn put_buffer(&mut self, slot: u16) {
        self.buffers.put(slot);
    }

    /// Lets go of everything at once, when no request is out: the kernel would take its time after the ring is closed, and a file
    /// that it still holds cannot be opened exclusively.
    pub(super) fn clear(&mut self, submitter: &Submitter<'_>) {
        if !self.files.is_empty() {
            let _ = submitter.unregister_files();
        }
        if self.buffers.is_open() {
            let _ = submitter.unregister_buffers();
        }
    }

    /// The refusal that was not reported yet.
    pub(super) fn take_refusal(&mut self) -> Option<Unregistered> {
        self.refusals.pop()
    }

    fn refuse(&mut self, what: &'static str, error: io::Error) {
        self.refusals.push(Unregistered { what, error, registered: Bytes(self.buffers.bytes as u64) });
    }
}

/// Memory that the kernel knows.
struct Known {
    /// Shows whether the memory still exists, and names it: no two memories share one while either exists or is
    /// remembered.
    life: Weak<()>,
    length: usize,
    /// Requests that name the slot.
    users: u32,
}

/// The table of buffers and its contents.
#[derive(Default)]
struct Buffers {
    slots: Vec<Option<Known>>,
    free: Vec<u16>,
    by_name: HashMap<usize, u16, BuildHasherDefault<AddressHasher>>,
    /// Where the next look for freed memory begins.
    hand: usize,
    bytes: usize,
    /// Whether the kernel has refused one.
    is_refused: bool,
}

impl Buffers {
    fn open(&mut self, count: u16) {
        self.slots.resize_with(usize::from(count), || None);
        self.free = (0..count).rev().collect();
    }

    fn is_open(&self) -> bool {
        !self.slots.is_empty()
    }

    /// See [`Registry::take_buffer`]; `register` registers memory of `length` bytes at an address in a slot, or clears
    /// the slot if the address is null.
    fn take(
        &mut self,
        memory: &Memory,
        register: impl Fn(u16, *mut u8, usize) -> io::Result<()>,
    ) -> io::Result<Option<u16>> {
        let name = Arc::as_ptr(memory.life()) as usize;
        if let Some(&slot) = self.by_name.get(&name) {
            self.slots[usize::from(slot)].as_mut().expect("named in by_name").users += 1;
            return Ok(Some(slot));
        }
        if !self.is_open() || !memory.was_used_before() || self.is_refused {
            return Ok(None);
        }
        self.look_for_freed(&register);
        let Some(slot) = self.free.pop() else { return Ok(None) };
        if let Err(error) = register(slot, memory.start().as_ptr(), memory.size()) {
            self.free.push(slot);
            self.is_refused = true;
            return Err(error);
        }
        self.bytes += memory.size();
        let known = Known { life: Arc::downgrade(memory.life()), length: memory.size(), users: 1 };
        self.slots[usize::from(slot)] = Some(known);
        self.by_name.insert(name, slot);
        Ok(Some(slot))
    }

    fn put(&mut self, slot: u16) {
        self.slots[usize::from(slot)].as_mut().expect("a slot in use is known").users -= 1;
    }

    /// Frees slots of memory that no longer exists, among the next few.
    fn look_for_freed(&mut self, register: impl Fn(u16, *mut u8, usize) -> io::Result<()>) {
        for _ in 0..LOOKS {
            let slot = self.hand;
            self.hand = (slot + 1) % self.slots.len();
            let Some(known) = &self.slots[slot] else { continue };
            if known.users > 0 || known.life.strong_count() > 0 {
                continue;
            }
            let number = u16::try_from(slot).expect("as many slots as were opened");
            if register(number, std::ptr::null_mut(), 0).is_ok() {
                self.bytes -= known.length;
                self.by_name.remove(&(known.life.as_ptr() as usize));
                self.slots[slot] = None;
                self.free.push(number);
            }
        }
    }
}

/// Spreads addresses of our own heap; they are not chosen to collide.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("an address is hashed whole")
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Home;
    use std::cell::RefCell;

    const PAGE_LOG2: u32 = 12;

    fn used_memory() -> Memory {
        let memory = Memory::allocate(PAGE_LOG2, Home::new());
        assert!(!memory.was_used_before(), "it is new");
        memory
    }

    #[test]
    fn memory_that_was_freed_gives_its_slot_to_other_memory() {
        let mut buffers = Buffers::default();
        buffers.open(2);
        let calls = RefCell::new(Vec::new());
        let register = |slot, start: *mut u8, length| {
            calls.borrow_mut().push((slot, start, length));
            Ok(())
        };
        let (first, second, third) = (used_memory(), used_memory(), used_memory());
        let start = |memory: &Memory| memory.start().as_ptr();
        assert_eq!(buffers.take(&first, register).expect("taken"), Some(0));
        assert_eq!(buffers.take(&first, register).expect("taken"), Some(0), "it is known now");
        assert_eq!(buffers.take(&second, register).expect("taken"), Some(1));
        assert_eq!(
            buffers.take(&third, register).expect("no error"),
            None,
            "the table is full of living memory"
        );
        assert_eq!(*calls.borrow(), [(0, start(&first), 4096), (1, start(&second), 4096)]);
        buffers.put(0);
        drop(first);
        assert_eq!(buffers.take(&third, register).expect("no error"), None, "a request still names the slot");
        buffers.put(0);
        calls.borrow_mut().clear();
        assert_eq!(buffers.take(&third, register).expect("taken"), Some(0));
        assert_eq!(*calls.borrow(), [(0, std::ptr::null_mut(), 0), (0, start(&third), 4096)]);
        assert_eq!(buffers.bytes, 2 * 4096);
    }

    #[test]
    fn memory_that_is_used_once_is_not_registered() {
        let mut buffers = Buffers::default();
        buffers.open(2);
        let memory = Memory::allocate(PAGE_LOG2, Home::new());
        let refuse = |_, _, _| -> io::Result<()> { panic!("nothing is to be registered") };
        assert_eq!(buffers.take(&memory, refuse).expect("no error"), None);
        assert_eq!(buffers.take(&memory, |_, _, _| Ok(())).expect("taken"), Some(0), "the second time");
    }

    #[test]
    fn after_a_refusal_what_is_registered_is_used_and_nothing_more_is_asked_for() {
        let mut buffers = Buffers::default();
        buffers.open(4);
        let (first, second) = (used_memory(), used_memory());
        assert_eq!(buffers.take(&first, |_, _, _| Ok(())).expect("taken"), Some(0));
        let refused = || io::Error::from_raw_os_error(libc::ENOMEM);
        buffers.take(&second, |_, _, _| Err(refused())).expect_err("the kernel refuses");
        let never = |_, _, _| -> io::Result<()> { panic!("it has refused before") };
        assert_eq!(buffers.take(&second, never).expect("no error"), None);
        assert_eq!(buffers.take(&first, never).expect("known"), Some(0));
        let told = Unregistered { what: "buffers", error: refused(), registered: Bytes::kib(4) }.to_string();
        assert!(told.contains("LimitMEMLOCK") && told.contains("4 KiB are registered"), "{told}");
    }
}
