//! Buffers that the kernel does not register work all the same, and the refusal is reported once.
//!
//! A process of its own: the limit of locked memory is that of the whole process, and the right to ignore it is
//! dropped.
#![allow(unsafe_code)]
#![deny(clippy::undocumented_unsafe_blocks)]

mod common;

use common::{Side, pattern};
use reactor::{Backend, DiskOp, Event, Reactor};
use std::fs::OpenOptions;
use std::path::Path;
use units::Bytes;

/// The capability by which a process may lock as much memory as it likes, as a bit.
const CAP_IPC_LOCK: u32 = 1 << 14;
const BUFFERS: u64 = 64;

/// Takes the right to lock any amount of memory from this thread. Memory that it locks from now on is charged to its
/// user.
fn give_up_right() {
    // As linux/capability.h has them: version 3, this thread; effective, permitted, inheritable, in two halves.
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0u32];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: both calls take a header and two sets, which are valid; the first writes the sets, the second reads them.
    let done = unsafe {
        libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) == 0 && {
            sets[0][0] &= !CAP_IPC_LOCK;
            libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) == 0
        }
    };
    assert!(done, "a capability can be given up");
}

/// Forbids any further locking of memory without that right.
fn limit_locked_memory() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call reads one structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0, "a limit can be lowered");
}

/// Writes and reads all buffers, so that each is used more than once.
fn use_buffers(side: &mut Side) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("registration-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).expect("made");
    let file = side.reactor.add_file(file.into()).expect("added");
    for round in 0..3 {
        for is_read in [false, true] {
            for number in 0..BUFFERS {
                let mut buffer = side.pool.take(4096).expect("the pool has room");
                let (range, offset) = (0..4096, number * 4096);
                let op = if is_read {
                    buffer.fill(0);
                    DiskOp::Read { buffer, range, offset }
                } else {
                    buffer.copy_from_slice(&pattern(round * BUFFERS + number, 4096));
                    DiskOp::Write { buffer, range, offset, durable: false }
                };
                side.reactor.submit_disk(file, number, op).expect("below the depth");
            }
            for _ in 0..BUFFERS {
                let Event::Disk { tag, result, buffer, .. } = side.event() else { panic!("no other event") };
                result.expect("done");
                let buffer = buffer.expect("a read or write has one");
                assert!(
                    !is_read || buffer[..] == pattern(round * BUFFERS + tag, 4096),
                    "block {tag} differs"
                );
                side.pool.give(buffer);
            }
        }
    }
    side.reactor.close(file);
    std::fs::remove_file(path).expect("made above");
}

#[test]
fn memory_beyond_the_limit_is_used_unregistered_and_that_is_told_once() {
    if let Err(error) = Reactor::new(Backend::IoUring) {
        eprintln!("skipped: no io_uring here: {error}");
        return;
    }
    give_up_right();
    // The rings themselves are charged as well.
    let mut side = Side::new(Backend::IoUring);
    limit_locked_memory();
    use_buffers(&mut side);
    let told = side.reactor.take_unregistered().expect("the kernel has refused");
    assert_eq!((told.what, told.registered), ("buffers", Bytes::ZERO));
    assert!(told.to_string().contains("LimitMEMLOCK"), "{told}");
    use_buffers(&mut side);
    assert!(side.reactor.take_unregistered().is_none(), "it is told once");
}
