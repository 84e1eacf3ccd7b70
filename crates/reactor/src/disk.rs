//! Operations on files and block devices, and the progress of each.
//!
//! The kernel may do part of a read or write; [`Transfer`] remembers the part and names the rest, so that the caller sees one
//! operation that is either done in full or failed.

use crate::nvme::NvmeNamespace;
use crate::{Event, IoBuffer, Token};
use std::io;
use std::ops::Range;

/// The way to read and write a file, block device or namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskAccess {
    /// As a file.
    File,
    /// A block device with polled queues, opened with `O_DIRECT`: reads and writes are polled for completion. A thread that
    /// has some in flight does not sleep.
    Polled,
    /// By NVMe commands to the generic character device of a namespace (`/dev/ng0n1`). Offsets and lengths are multiples of its blocks.
    Nvme {
        /// Its description.
        namespace: NvmeNamespace,
        /// Whether reads and writes are polled for, as for `Polled`.
        is_polled: bool,
    },
}

/// One operation on a file or block device. Offsets and lengths are bytes; the caller who opened the file with `O_DIRECT` keeps them
/// multiples of the logical block size.
#[derive(Debug)]
pub enum DiskOp {
    /// Fills `range` of `buffer` from the file at `offset`.
    Read {
        /// Owned until the event.
        buffer: IoBuffer,
        /// Which of its bytes.
        range: Range<usize>,
        /// Where in the file.
        offset: u64,
    },
    /// Writes `range` of `buffer` to the file at `offset`.
    Write {
        /// Owned until the event.
        buffer: IoBuffer,
        /// Which of its bytes.
        range: Range<usize>,
        /// Where in the file.
        offset: u64,
        /// Done only when it would survive a power failure (`RWF_DSYNC`, a forced unit access).
        durable: bool,
    },
    /// Makes all completed writes survive a power failure, and the metadata needed to read them back.
    Fdatasync,
    /// As `Fdatasync`, with all of the file's metadata.
    Fsync,
    /// Gives the space back: a hole in a file, a discard on a block device. A hole reads as zeros; the contents of a
    /// discarded range of a block device are up to the device.
    Discard {
        /// Where in the file.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Makes the range read as zeros, with its space still allocated.
    WriteZeroes {
        /// Where in the file.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl DiskOp {
    /// The buffer of a read or write.
    pub fn into_buffer(self) -> Option<IoBuffer> {
        match self {
            DiskOp::Read { buffer, .. } | DiskOp::Write { buffer, .. } => Some(buffer),
            DiskOp::Fdatasync | DiskOp::Fsync | DiskOp::Discard { .. } | DiskOp::WriteZeroes { .. } => None,
        }
    }

    /// The buffer of a read or write, which stays in the operation.
    pub(crate) fn buffer(&self) -> Option<&IoBuffer> {
        match self {
            DiskOp::Read { buffer, .. } | DiskOp::Write { buffer, .. } => Some(buffer),
            DiskOp::Fdatasync | DiskOp::Fsync | DiskOp::Discard { .. } | DiskOp::WriteZeroes { .. } => None,
        }
    }

    /// Offset and length of the part of the file that is touched.
    pub(crate) fn extent(&self) -> (u64, u64) {
        match *self {
            DiskOp::Read { ref range, offset, .. } | DiskOp::Write { ref range, offset, .. } => {
                (offset, range.len() as u64)
            }
            DiskOp::Discard { offset, length } | DiskOp::WriteZeroes { offset, length } => (offset, length),
            DiskOp::Fdatasync | DiskOp::Fsync => (0, 0),
        }
    }

    /// Whether the file's offset type can hold the extent; a larger offset would mean something else to the kernel
    /// (-1 is the current position).
    pub(crate) fn is_addressable(&self) -> bool {
        let (offset, length) = self.extent();
        offset.checked_add(length).is_some_and(|end| end <= i64::MAX as u64)
    }

    /// Asserts that a read or write stays within its buffer.
    pub(crate) fn check_range(&self) {
        if let DiskOp::Read { buffer, range, .. } | DiskOp::Write { buffer, range, .. } = self {
            assert!(
                range.start <= range.end && range.end <= buffer.len(),
                "bytes {range:?} of a buffer of {} bytes",
                buffer.len()
            );
        }
    }
}

/// The next step of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read { to: *mut u8, length: usize, offset: u64 },
    Write { from: *const u8, length: usize, offset: u64, durable: bool },
    Fsync { data_only: bool },
    Discard { offset: u64, length: u64 },
    WriteZeroes { offset: u64, length: u64 },
}

/// The most that one step may cover, of each kind. The kernel cuts longer ones by itself, a device that gets commands does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) data: u64,
    pub(crate) zeroes: u64,
    pub(crate) discard: u64,
}

impl Pieces {
    /// Limits under which every operation is one step.
    pub(crate) const WHOLE: Pieces = Pieces { data: u64::MAX, zeroes: u64::MAX, discard: u64::MAX };
}

/// An operation in flight; it owns the buffer.
pub(crate) struct Transfer {
    op: DiskOp,
    done: u64,
    pieces: Pieces,
}

impl Transfer {
    /// A transfer for an operation with a checked range.
    pub(crate) fn new(op: DiskOp, pieces: Pieces) -> Transfer {
        op.check_range();
        Transfer { op, done: 0, pieces }
    }

    /// The buffer of a read or write.
    pub(crate) fn buffer(&self) -> Option<&IoBuffer> {
        self.op.buffer()
    }

    /// Length of the next step.
    fn piece(&self) -> u64 {
        let most = match self.op {
            DiskOp::Read { .. } | DiskOp::Write { .. } => self.pieces.data,
            DiskOp::Discard { .. } => self.pieces.discard,
            DiskOp::WriteZeroes { .. } => self.pieces.zeroes,
            DiskOp::Fdatasync | DiskOp::Fsync => 0,
        };
        (self.op.extent().1 - self.done).min(most)
    }

    /// The rest of the operation, or as much of it as one step may cover. Its pointers are valid until the transfer is dropped or turned
    /// into its buffer.
    pub(crate) fn step(&self) -> Step {
        let (done, length) = (self.done, self.piece());
        // A buffer is in memory.
        let (skipped, part) = (done as usize, length as usize);
        match self.op {
            DiskOp::Read { ref buffer, ref range, offset } => Step::Read {
                to: buffer.start().wrapping_add(range.start + skipped),
                length: part,
                offset: offset + done,
            },
            DiskOp::Write { ref buffer, ref range, offset, durable } => Step::Write {
                from: buffer.start().wrapping_add(range.start + skipped),
                length: part,
                offset: offset + done,
                durable,
            },
            DiskOp::Fdatasync => Step::Fsync { data_only: true },
            DiskOp::Fsync => Step::Fsync { data_only: false },
            DiskOp::Discard { offset, .. } => Step::Discard { offset: offset + done, length },
            DiskOp::WriteZeroes { offset, .. } => Step::WriteZeroes { offset: offset + done, length },
        }
    }

    /// Notes the kernel's result of the last step; returns the operation's result if that is the end of it. Only reads and writes
    /// are ever done in part.
    pub(crate) fn on_step(&mut self, result: io::Result<usize>) -> Option<io::Result<()>> {
        let piece = self.piece();
        let done = match (result, &self.op) {
            (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => return None,
            (Err(error), _) => return Some(Err(error)),
            (Ok(0), DiskOp::Read { .. }) if piece > 0 => {
                return Some(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            (Ok(0), DiskOp::Write { .. }) if piece > 0 => return Some(Err(io::ErrorKind::WriteZero.into())),
            (Ok(count), DiskOp::Read { .. } | DiskOp::Write { .. }) => piece.min(count as u64),
            (Ok(_), _) => piece,
        };
        self.done += done;
        (self.done == self.op.extent().1).then_some(Ok(()))
    }

    pub(crate) fn into_buffer(self) -> Option<IoBuffer> {
        self.op.into_buffer()
    }
}

/// The owner of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) file: Token,
    pub(crate) tag: u64,
}

impl Owner {
    /// The answer to an operation that the kernel is not asked for.
    pub(crate) fn refused(self, op: DiskOp, error: io::Error) -> Event {
        Event::Disk { token: self.file, tag: self.tag, result: Err(error), buffer: op.into_buffer() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;
    use units::Bytes;

    fn buffer() -> IoBuffer {
        BufferPool::new(Bytes::kib(4)).take(4096).expect("the pool is empty")
    }

    #[test]
    fn a_short_read_is_carried_on_where_it_stopped() {
        let mut transfer =
            Transfer::new(DiskOp::Read { buffer: buffer(), range: 1024..4096, offset: 512 }, Pieces::WHOLE);
        let Step::Read { to: first, length: 3072, offset: 512 } = transfer.step() else {
            panic!("{:?}", transfer.step())
        };
        assert!(transfer.on_step(Ok(1024)).is_none());
        assert_eq!(transfer.step(), Step::Read { to: first.wrapping_add(1024), length: 2048, offset: 1536 });
        assert!(transfer.on_step(Err(io::ErrorKind::Interrupted.into())).is_none());
        assert!(matches!(transfer.on_step(Ok(2048)), Some(Ok(()))));
    }

    #[test]
    fn a_read_past_the_end_and_a_write_that_stalls_are_errors() {
        let mut read =
            Transfer::new(DiskOp::Read { buffer: buffer(), range: 0..10, offset: 0 }, Pieces::WHOLE);
        assert_eq!(
            read.on_step(Ok(0)).expect("an end").expect_err("cut off").kind(),
            io::ErrorKind::UnexpectedEof
        );
        let op = DiskOp::Write { buffer: buffer(), range: 0..10, offset: 0, durable: true };
        let mut write = Transfer::new(op, Pieces::WHOLE);
        assert_eq!(
            write.on_step(Ok(0)).expect("an end").expect_err("stalled").kind(),
            io::ErrorKind::WriteZero
        );
    }

    #[test]
    fn what_is_longer_than_a_device_takes_goes_in_pieces() {
        let pieces = Pieces { data: 1536, zeroes: 1 << 20, discard: 1 << 30 };
        let lengths = |op: DiskOp| {
            let mut transfer = Transfer::new(op, pieces);
            let mut lengths = Vec::new();
            loop {
                lengths.push(match transfer.step() {
                    Step::Write { length, offset, .. } => (offset, length as u64),
                    Step::Discard { length, offset } | Step::WriteZeroes { length, offset } => {
                        (offset, length)
                    }
                    other => panic!("{other:?}"),
                });
                if transfer.on_step(Ok(usize::MAX)).is_some() {
                    return lengths;
                }
            }
        };
        let write = DiskOp::Write { buffer: buffer(), range: 0..4096, offset: 512, durable: false };
        assert_eq!(lengths(write), [(512, 1536), (2048, 1536), (3584, 1024)]);
        let zeroes = DiskOp::WriteZeroes { offset: 4096, length: 3 << 19 };
        assert_eq!(lengths(zeroes), [(4096, 1 << 20), ((1 << 20) + 4096, 1 << 19)]);
        let discard = DiskOp::Discard { offset: 0, length: 1 << 30 };
        assert_eq!(lengths(discard), [(0, 1 << 30)]);
    }

    #[test]
    fn an_offset_that_the_kernel_would_misread_is_not_addressable() {
        assert!(DiskOp::Discard { offset: i64::MAX as u64 - 1, length: 1 }.is_addressable());
        assert!(!DiskOp::Discard { offset: i64::MAX as u64, length: 1 }.is_addressable());
        assert!(!DiskOp::Discard { offset: u64::MAX, length: 1 }.is_addressable());
    }
}
