//! Files: data that is written is read back, holes are zeros, and every failure reaches the operation's owner.

mod common;

use common::{Side, pattern};
use reactor::{Backend, DiskOp, Event, IoBuffer, Options, Refusal, Token};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use units::Bytes;

on_both_backends!(
    what_is_written_is_read_back,
    part_of_a_buffer_is_read_and_written,
    writes_can_be_made_durable,
    a_discarded_or_zeroed_range_reads_as_zeros,
    a_read_past_the_end_is_cut_off,
    an_error_finds_its_operation_and_returns_the_buffer,
    an_offset_beyond_any_file_is_an_error,
    at_its_depth_the_disk_refuses_and_loses_nothing,
    a_closed_file_is_silent_and_returns_its_buffers,
);

/// A file that is deleted at the end of the test.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("disk-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Scratch { path: Path::new(env!("CARGO_TARGET_TMPDIR")).join(name) }
    }

    fn open(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(&self.path).expect("made")
    }

    /// Past the page cache, where the file system knows how.
    fn open_direct(&self) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).custom_flags(libc::O_DIRECT);
        options.open(&self.path).unwrap_or_else(|_| self.open())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn filled(side: &mut Side, bytes: &[u8]) -> IoBuffer {
    let mut buffer = side.pool.take(bytes.len()).expect("the pool has room");
    buffer.copy_from_slice(bytes);
    buffer
}

fn write(side: &mut Side, bytes: &[u8], offset: u64, durable: bool) -> DiskOp {
    DiskOp::Write { buffer: filled(side, bytes), range: 0..bytes.len(), offset, durable }
}

fn read(side: &mut Side, length: usize, offset: u64) -> DiskOp {
    let buffer = side.pool.take(length).expect("the pool has room");
    DiskOp::Read { buffer, range: 0..length, offset }
}

/// The next outcome.
fn outcome(side: &mut Side) -> (Token, u64, io::Result<()>, Option<IoBuffer>) {
    match side.event() {
        Event::Disk { token, tag, result, buffer } => (token, tag, result, buffer),
        other => panic!("{other:?}"),
    }
}

/// Runs one operation to its end.
fn run(side: &mut Side, file: Token, op: DiskOp) -> (io::Result<()>, Option<IoBuffer>) {
    side.reactor.submit_disk(file, 77, op).expect("below the depth");
    let (token, tag, result, buffer) = outcome(side);
    assert_eq!((token, tag), (file, 77));
    (result, buffer)
}

fn what_is_written_is_read_back(backend: Backend) {
    const BLOCK: usize = 8192;
    const BLOCKS: u64 = 1000;
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = side.reactor.add_file(scratch.open_direct().into()).expect("added");
    for number in 0..BLOCKS {
        let op = write(&mut side, &pattern(number, BLOCK), number * BLOCK as u64, false);
        side.reactor.submit_disk(file, number, op).expect("below the depth");
    }
    for _ in 0..BLOCKS {
        let (_, tag, result, buffer) = outcome(&mut side);
        result.unwrap_or_else(|error| panic!("block {tag}: {error}"));
        side.pool.give(buffer.expect("a write has a buffer"));
    }
    for number in 0..BLOCKS {
        let op = read(&mut side, BLOCK, number * BLOCK as u64);
        side.reactor.submit_disk(file, number, op).expect("below the depth");
    }
    for _ in 0..BLOCKS {
        let (_, tag, result, buffer) = outcome(&mut side);
        result.unwrap_or_else(|error| panic!("block {tag}: {error}"));
        assert!(buffer.expect("a read has a buffer")[..] == pattern(tag, BLOCK), "block {tag} differs");
    }
}

fn part_of_a_buffer_is_read_and_written(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = side.reactor.add_file(scratch.open().into()).expect("added");
    let buffer = filled(&mut side, b"....middle....");
    let (result, buffer) =
        run(&mut side, file, DiskOp::Write { buffer, range: 4..10, offset: 3, durable: false });
    result.expect("written");
    let mut buffer = buffer.expect("a write has a buffer");
    buffer.fill(b'_');
    let (result, buffer) = run(&mut side, file, DiskOp::Read { buffer, range: 2..8, offset: 3 });
    result.expect("read");
    assert_eq!(&buffer.expect("a read has a buffer")[..], b"__middle______");
    let nothing = read(&mut side, 0, 0);
    run(&mut side, file, nothing).0.expect("nothing is easily read");
}

fn writes_can_be_made_durable(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = side.reactor.add_file(scratch.open_direct().into()).expect("added");
    let op = write(&mut side, &pattern(1, 4096), 0, true);
    run(&mut side, file, op).0.expect("written through");
    run(&mut side, file, DiskOp::Fdatasync).0.expect("synchronised");
    run(&mut side, file, DiskOp::Fsync).0.expect("synchronised");
    let mut bytes = vec![0; 4096];
    scratch.open().read_exact_at(&mut bytes, 0).expect("read");
    assert!(bytes == pattern(1, 4096));
}

fn a_discarded_or_zeroed_range_reads_as_zeros(backend: Backend) {
    let mut side = Side::new(backend);
    for zeroes in [false, true] {
        let scratch = Scratch::new();
        let file = side.reactor.add_file(scratch.open().into()).expect("added");
        let before = pattern(9, 64 << 10);
        let op = write(&mut side, &before, 0, true);
        run(&mut side, file, op).0.expect("written");
        let (offset, length) = (8 << 10, 16 << 10);
        let op =
            if zeroes { DiskOp::WriteZeroes { offset, length } } else { DiskOp::Discard { offset, length } };
        let (result, buffer) = run(&mut side, file, op);
        if result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            eprintln!("skipped: the file system here cannot do it");
            continue;
        }
        result.expect("done");
        assert!(buffer.is_none());
        let op = read(&mut side, before.len(), 0);
        let (result, buffer) = run(&mut side, file, op);
        result.expect("read");
        let mut expected = before;
        expected[8 << 10..24 << 10].fill(0);
        assert!(buffer.expect("a read has a buffer")[..] == expected, "zeroes: {zeroes}");
    }
}

fn a_read_past_the_end_is_cut_off(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = scratch.open();
    file.write_all_at(b"short", 0).expect("written");
    let file = side.reactor.add_file(file.into()).expect("added");
    let op = read(&mut side, 100, 0);
    let (result, buffer) = run(&mut side, file, op);
    assert_eq!(result.expect_err("only five bytes are there").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(&buffer.expect("a read has a buffer")[..5], b"short");
}

fn an_error_finds_its_operation_and_returns_the_buffer(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let good = side.reactor.add_file(scratch.open().into()).expect("added");
    let read_only = File::open(&scratch.path).expect("it was just made");
    let bad = side.reactor.add_file(read_only.into()).expect("added");
    for tag in 0..100 {
        let file = if tag % 3 == 0 { bad } else { good };
        let op = write(&mut side, &pattern(tag, 512), tag * 512, false);
        side.reactor.submit_disk(file, tag, op).expect("below the depth");
    }
    for _ in 0..100 {
        let (token, tag, result, buffer) = outcome(&mut side);
        assert_eq!(token, if tag % 3 == 0 { bad } else { good });
        match result {
            Ok(()) => assert_ne!(tag % 3, 0),
            Err(error) => assert_eq!((error.raw_os_error(), tag % 3), (Some(libc::EBADF), 0)),
        }
        assert!(buffer.expect("a write has a buffer")[..] == pattern(tag, 512));
    }
    let (socket, _far) = side.pair();
    let refused = side.reactor.submit_disk(socket, 0, DiskOp::Fsync).expect_err("not a file");
    assert_eq!(refused.why, Refusal::Closed);
}

fn an_offset_beyond_any_file_is_an_error(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = side.reactor.add_file(scratch.open().into()).expect("added");
    for offset in [u64::MAX, i64::MAX as u64] {
        let op = write(&mut side, b"x", offset, false);
        let (result, buffer) = run(&mut side, file, op);
        assert_eq!(result.expect_err("no such place").raw_os_error(), Some(libc::EINVAL));
        assert!(buffer.is_some());
    }
}

fn at_its_depth_the_disk_refuses_and_loses_nothing(backend: Backend) {
    // More than the submission queue has room for.
    const DEPTH: usize = 3000;
    let options = Options { disk_depth: DEPTH, disk_threads: 3, ..Options::default() };
    let mut side = Side::with_options(backend, &options);
    let scratch = Scratch::new();
    let file = scratch.open();
    file.set_len(4096).expect("sparse");
    let file = side.reactor.add_file(file.into()).expect("added");
    for tag in 0..DEPTH as u64 {
        let op = read(&mut side, 512, tag % 8 * 512);
        side.reactor.submit_disk(file, tag, op).expect("below the depth");
    }
    let op = read(&mut side, 512, 0);
    let refused = side.reactor.submit_disk(file, 0, op).expect_err("at the depth");
    assert_eq!(refused.why, Refusal::Busy);
    let mut seen = vec![false; DEPTH];
    for _ in 0..DEPTH {
        let (_, tag, result, _) = outcome(&mut side);
        result.expect("read");
        assert!(!std::mem::replace(&mut seen[tag as usize], true), "{tag} came twice");
    }
    side.reactor.submit_disk(file, 0, refused.item).expect("there is room again");
    outcome(&mut side).2.expect("read");
}

fn a_closed_file_is_silent_and_returns_its_buffers(backend: Backend) {
    let mut side = Side::new(backend);
    let scratch = Scratch::new();
    let file = side.reactor.add_file(scratch.open().into()).expect("added");
    for tag in 0..50 {
        let op = write(&mut side, &pattern(tag, 4096), tag * 4096, tag % 2 == 0);
        side.reactor.submit_disk(file, tag, op).expect("below the depth");
    }
    side.reactor.flush().expect("flushes");
    side.reactor.close(file);
    side.work_until(|side| side.pool.lent() == Bytes::ZERO);
    assert!(side.reactor.next_event().is_none());
    // Submitted is submitted: the writes were done all the same.
    let mut bytes = vec![0; 4096];
    scratch.open().read_exact_at(&mut bytes, 49 * 4096).expect("written");
    assert!(bytes == pattern(49, 4096));
}
