//! The device alone, on a reactor, with files in memory or on a disk.

use super::*;
use reactor::{Backend, BufferPool, Clock, Event};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{TryRecvError, channel};

const BLOCK: usize = 4096;

struct Bed {
    device: DirectoryDevice,
    reactor: Reactor,
    pool: BufferPool,
    done: Vec<DeviceDone>,
    tags: u64,
}

/// A file without a name of two blocks, each full of its number.
fn file(first: u8) -> File {
    let path = std::env::temp_dir().join(format!("gimbal-directory-{}-{first}", std::process::id()));
    std::fs::write(&path, [[first; BLOCK], [first + 1; BLOCK]].concat())
        .expect("temporary files can be written");
    let file = File::options().read(true).write(true).open(&path).expect("just made");
    std::fs::remove_file(&path).expect("ours");
    file
}

impl Bed {
    /// Two files, in slots 0 and 1.
    fn new() -> (Bed, [File; 2]) {
        let reactor = Reactor::new(Backend::Auto).expect("a reactor");
        let device = DirectoryDevice::new("a");
        let pool = BufferPool::new(Bytes::mib(1));
        let mut bed = Bed { device, reactor, pool, done: Vec::new(), tags: 0 };
        let files = [file(1), file(3)];
        for (slot, file) in files.iter().enumerate() {
            let file = file.try_clone().expect("another descriptor");
            bed.change(FileChange::Attach { slot, file, name: slot.to_string() });
        }
        (bed, files)
    }

    fn change(&mut self, change: FileChange) {
        self.device.change_files(Clock.now(), &mut self.reactor, change);
    }

    fn submit(&mut self, offset: u64, length: u64, op: DeviceOp) -> u64 {
        self.tags += 1;
        let io = DeviceIo { tag: self.tags, offset, length, op };
        self.device.submit(Clock.now(), &mut self.reactor, io);
        self.tags
    }

    fn write(&mut self, offset: u64, byte: u8) -> u64 {
        let mut buffer = self.pool.take(BLOCK).expect("there is memory");
        buffer.fill(byte);
        self.submit(offset, BLOCK as u64, DeviceOp::Write { buffer, durable: false })
    }

    fn read(&mut self, offset: u64) -> std::io::Result<u8> {
        let buffer = self.pool.take(BLOCK).expect("there is memory");
        let tag = self.submit(offset, BLOCK as u64, DeviceOp::Read(buffer));
        let done = self.end(tag);
        done.result.map(|()| done.buffer.expect("a read brings its buffer back")[0])
    }

    /// Waits for the end of an IO.
    fn end(&mut self, tag: u64) -> DeviceDone {
        loop {
            self.device.poll(Clock.now(), &mut self.reactor);
            self.device.take_finished(&mut self.done);
            if let Some(index) = self.done.iter().position(|done| done.tag == tag) {
                return self.done.swap_remove(index);
            }
            self.reactor.wait(self.device.next_wake()).expect("a reactor");
            while let Some(event) = self.reactor.next_event() {
                if let Event::Disk { token, tag, result, buffer } = event {
                    self.device.on_disk(Clock.now(), token, tag, result, buffer);
                }
            }
        }
    }
}

#[test]
fn each_place_is_in_the_file_of_its_slot() {
    let (mut bed, _files) = Bed::new();
    let at = |slot, block| offset_of(slot) + block * BLOCK as u64;
    let found = [at(0, 0), at(0, 1), at(1, 0), at(1, 1)].map(|offset| bed.read(offset).expect("readable"));
    assert_eq!(found, [1, 2, 3, 4]);
    assert_eq!(bed.read(at(1, 0) - BLOCK as u64).expect("readable"), 3, "before a file is at its begin");
    assert_eq!(bed.read(at(0, 1)).expect("nothing was taken for a cut"), 2);
    assert!(bed.read(at(2, 0)).is_err(), "there is no such file");
    bed.change(FileChange::Detach { slot: 0 });
    assert!(bed.read(at(0, 0)).is_err(), "it is closed");
    assert_eq!(bed.read(at(1, 1)).expect("the other is not"), 4);
}

#[test]
fn a_flush_of_everything_ends_once() {
    let (mut bed, _files) = Bed::new();
    for length in [0, 1] {
        let tag = bed.submit(0, length, DeviceOp::Flush);
        assert!(bed.end(tag).result.is_ok());
        bed.device.take_finished(&mut bed.done);
        assert!(bed.done.is_empty());
    }
}

#[test]
fn changes_of_a_held_file_wait_and_go_on_in_order() {
    let (mut bed, files) = Bed::new();
    let byte = |file: &File| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 0).expect("readable");
        byte[0]
    };
    let (quiet, is_quiet) = channel();
    bed.change(FileChange::Hold { slot: 0, limit: Nanos::secs(60), quiet });
    is_quiet.recv().expect("nothing is on its way");
    bed.write(0, 7);
    let last = bed.write(0, 8);
    let other = bed.write(offset_of(1), 9);
    assert!(bed.end(other).result.is_ok(), "another file goes on");
    assert_eq!(bed.read(0).expect("reads go on"), 1);
    let flush = bed.submit(0, 1, DeviceOp::Flush);
    assert!(bed.end(flush).result.is_ok());
    assert_eq!((byte(&files[0]), byte(&files[1])), (1, 9));
    // A second hold does not replace it.
    let (quiet, is_quiet) = channel();
    bed.change(FileChange::Hold { slot: 0, limit: Nanos::ZERO, quiet });
    assert_eq!(is_quiet.try_recv(), Err(TryRecvError::Disconnected));
    let (held, was_held) = channel();
    bed.change(FileChange::Release { slot: 0, held });
    assert!(was_held.recv().expect("answered").is_some());
    assert!(bed.end(last).result.is_ok());
    let (held, was_held) = channel();
    bed.change(FileChange::Release { slot: 0, held });
    assert_eq!(was_held.recv(), Ok(None), "it has ended");

    // By its time limit.
    let (quiet, _is_quiet) = channel();
    bed.change(FileChange::Hold { slot: 0, limit: Nanos::millis(20), quiet });
    let late = bed.write(0, 10);
    assert!(bed.end(late).result.is_ok());
    assert_eq!(byte(&files[0]), 10);
    let stats = bed.device.files().expect("it is a directory");
    assert_eq!((stats.files, stats.holds, stats.expired), (2, 2, 1));
    assert!(stats.held >= Nanos::millis(20));
}
