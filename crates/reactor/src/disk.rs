//! Operations on files and block devices, and how far one of them has come.
//!
//! The kernel may do part of a read or write; [`Transfer`] remembers the part and names the rest, so that the caller sees one
//! operation that is either done in full or failed.

use crate::{Event, IoBuffer, Token};
use std::io;
use std::ops::Range;

/// One operation on a file or block device. Offsets and lengths are bytes; whoever opened the file with `O_DIRECT` keeps them
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
    /// Makes all completed writes survive a power failure, and what is needed to read them back.
    Fdatasync,
    /// As `Fdatasync`, with all of the file's metadata.
    Fsync,
    /// Gives the space back: a hole in a file, a discard on a block device. A hole reads as zeros; what a discarded range of a
    /// block device reads as is up to the device.
    Discard {
        /// Where in the file.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Makes the range read as zeros, with its space still allocated.
    WriteZeroes {
        /// Where in the file.
        offset: u64,
        /// How much.
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

    /// Whether the file's offset type can express the extent; beyond it an offset would mean something else to the kernel
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

/// What the kernel is to do next for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read { to: *mut u8, length: usize, offset: u64 },
    Write { from: *const u8, length: usize, offset: u64, durable: bool },
    Fsync { data_only: bool },
    Discard { offset: u64, length: u64 },
    WriteZeroes { offset: u64, length: u64 },
}

/// An operation in flight; it owns the buffer.
pub(crate) struct Transfer {
    op: DiskOp,
    done: usize,
}

impl Transfer {
    /// Takes on an operation whose range was checked.
    pub(crate) fn new(op: DiskOp) -> Transfer {
        op.check_range();
        Transfer { op, done: 0 }
    }

    /// The rest of the operation. Its pointers are valid until the transfer is dropped or turned into its buffer.
    pub(crate) fn step(&self) -> Step {
        let done = self.done;
        match self.op {
            DiskOp::Read { ref buffer, ref range, offset } => Step::Read {
                to: buffer.start().wrapping_add(range.start + done),
                length: range.len() - done,
                offset: offset + done as u64,
            },
            DiskOp::Write { ref buffer, ref range, offset, durable } => Step::Write {
                from: buffer.start().wrapping_add(range.start + done),
                length: range.len() - done,
                offset: offset + done as u64,
                durable,
            },
            DiskOp::Fdatasync => Step::Fsync { data_only: true },
            DiskOp::Fsync => Step::Fsync { data_only: false },
            DiskOp::Discard { offset, length } => Step::Discard { offset, length },
            DiskOp::WriteZeroes { offset, length } => Step::WriteZeroes { offset, length },
        }
    }

    /// Notes what the kernel answered to the last step; returns the operation's result if that is the end of it.
    pub(crate) fn on_step(&mut self, result: io::Result<usize>) -> Option<io::Result<()>> {
        let wanted = match &self.op {
            DiskOp::Read { range, .. } | DiskOp::Write { range, .. } => range.len() - self.done,
            DiskOp::Fdatasync | DiskOp::Fsync | DiskOp::Discard { .. } | DiskOp::WriteZeroes { .. } => 0,
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => Some(Err(error)),
            Ok(count) if count >= wanted => Some(Ok(())),
            Ok(0) => Some(Err(match self.op {
                DiskOp::Read { .. } => io::ErrorKind::UnexpectedEof.into(),
                _ => io::ErrorKind::WriteZero.into(),
            })),
            Ok(count) => {
                self.done += count;
                None
            }
        }
    }

    pub(crate) fn into_buffer(self) -> Option<IoBuffer> {
        self.op.into_buffer()
    }
}

/// Whose transfer it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) file: Token,
    pub(crate) tag: u64,
}

impl Owner {
    /// The answer to an operation beyond the end of any file.
    pub(crate) fn unaddressable(self, op: DiskOp) -> Event {
        let result = Err(io::Error::from_raw_os_error(libc::EINVAL));
        Event::Disk { token: self.file, tag: self.tag, result, buffer: op.into_buffer() }
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
        let mut transfer = Transfer::new(DiskOp::Read { buffer: buffer(), range: 1024..4096, offset: 512 });
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
        let mut read = Transfer::new(DiskOp::Read { buffer: buffer(), range: 0..10, offset: 0 });
        assert_eq!(
            read.on_step(Ok(0)).expect("an end").expect_err("cut off").kind(),
            io::ErrorKind::UnexpectedEof
        );
        let mut write =
            Transfer::new(DiskOp::Write { buffer: buffer(), range: 0..10, offset: 0, durable: true });
        assert_eq!(
            write.on_step(Ok(0)).expect("an end").expect_err("stalled").kind(),
            io::ErrorKind::WriteZero
        );
    }

    #[test]
    fn an_offset_that_the_kernel_would_misread_is_not_addressable() {
        assert!(DiskOp::Discard { offset: i64::MAX as u64 - 1, length: 1 }.is_addressable());
        assert!(!DiskOp::Discard { offset: i64::MAX as u64, length: 1 }.is_addressable());
        assert!(!DiskOp::Discard { offset: u64::MAX, length: 1 }.is_addressable());
    }
}
