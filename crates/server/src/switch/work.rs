//! Operations of IOs on a device, and the reasons why they fail.

use super::copying::Copying;
use super::regions::Footprint;
use crate::device::Erase;
use reactor::IoBuffer;
use std::fmt;
use std::io;

/// A range of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// Where it begins, in bytes of the device.
    pub(crate) offset: u64,
    /// The length.
    pub(crate) length: u64,
}

impl ByteRange {
    /// No bytes.
    pub(crate) const EMPTY: ByteRange = ByteRange { offset: 0, length: 0 };
}

/// The operation of an IO.
#[derive(Debug)]
pub(crate) enum Work {
    /// Read the range; the answer brings a buffer with it.
    Read(ByteRange),
    /// Write the buffer, which is as long as the range.
    Write {
        /// Where to.
        range: ByteRange,
        /// The bytes; absent while the device has them.
        buffer: Option<IoBuffer>,
        /// Done only when it would survive a power failure.
        durable: bool,
    },
    /// Compare the range with the buffer, which is as long.
    Compare {
        /// Where.
        range: ByteRange,
        /// The expected data.
        expected: IoBuffer,
    },
    /// Compare the range, one block, with one buffer and write the other if they are the same, with no other write between.
    CompareAndWrite {
        /// Where.
        range: ByteRange,
        /// The expected data and the data to write.
        halves: Box<Halves>,
        /// Done only when it would survive a power failure.
        durable: bool,
    },
    /// Read the range to see whether it can be read.
    Verify(ByteRange),
    /// Make earlier writes survive a power failure: of the file that the range is in, or of the whole device if it is empty.
    Flush(ByteRange),
    /// Make the range read as zeros.
    WriteZeroes {
        /// Where.
        range: ByteRange,
        /// Done only when it would survive a power failure.
        durable: bool,
    },
    /// Forget the ranges.
    Deallocate(Vec<ByteRange>),
    /// Copy ranges, piece by piece.
    Copy(Box<Copying>),
    /// The work was sent to another SSD's thread.
    Sent,
}

/// The buffers of a Compare and Write.
#[derive(Debug)]
pub(crate) struct Halves {
    /// The expected data.
    pub(crate) expected: IoBuffer,
    /// The data to write; absent while the device has it.
    pub(crate) written: Option<IoBuffer>,
}

/// The buffers that came with a request.
#[derive(Debug)]
pub(crate) enum Spent {
    /// None did.
    Nothing,
    /// That of a write, a compare, or the list of a copy.
    One(IoBuffer),
    /// Those of a Compare and Write: the first command's and the second's.
    Two(Box<[IoBuffer; 2]>),
}

impl From<Option<IoBuffer>> for Spent {
    fn from(buffer: Option<IoBuffer>) -> Spent {
        buffer.map_or(Spent::Nothing, Spent::One)
    }
}

impl Work {
    /// The ranges that it erases, and the kind of erasure.
    pub(super) fn erases(&self) -> Option<(Erase, &[ByteRange])> {
        match self {
            Work::WriteZeroes { range, .. } => Some((Erase::Zero, std::slice::from_ref(range))),
            Work::Deallocate(ranges) => Some((Erase::Forget, ranges)),
            _ => None,
        }
    }

    /// Whether a flush follows when all is erased.
    pub(super) fn is_durable_erasure(&self) -> bool {
        matches!(self, Work::WriteZeroes { durable: true, .. })
    }

    /// Whether it may end between two steps as if it had not been asked for, with nothing in hand.
    pub(super) fn may_stop(&self) -> bool {
        matches!(self, Work::Verify(_) | Work::WriteZeroes { .. } | Work::Deallocate(_))
    }

    /// Bytes that it reads for its host.
    pub(crate) fn read_length(&self) -> usize {
        match self {
            Work::Read(range) => usize::try_from(range.length).expect("a transfer fits the address space"),
            _ => 0,
        }
    }

    /// Takes out the buffers that came with it, once it is over.
    #[inline]
    pub(crate) fn take_buffers(&mut self) -> Spent {
        match self {
            Work::Read(_) => Spent::Nothing,
            Work::Write { buffer, .. } => buffer.take().into(),
            _ => std::mem::replace(self, Work::Sent).into_buffers(),
        }
    }

    fn into_buffers(self) -> Spent {
        match self {
            Work::Write { buffer, .. } => buffer.into(),
            Work::Compare { expected, .. } => Spent::One(expected),
            Work::CompareAndWrite { halves, .. } => {
                let Halves { expected, written } = *halves;
                match written {
                    Some(written) => Spent::Two(Box::new([expected, written])),
                    None => Spent::One(expected),
                }
            }
            Work::Copy(copying) => copying.into_list().into(),
            Work::Read(_)
            | Work::Verify(_)
            | Work::Flush(_)
            | Work::WriteZeroes { .. }
            | Work::Deallocate(_)
            | Work::Sent => Spent::Nothing,
        }
    }

    /// Whether it changes blocks.
    #[inline]
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Work::Read(_) | Work::Verify(_) | Work::Compare { .. } | Work::Flush(_) | Work::Sent)
    }

    /// The ranges that it writes, within the part that was submitted.
    pub(super) fn footprint(&self) -> Footprint {
        match self {
            Work::Read(_) | Work::Verify(_) | Work::Compare { .. } | Work::Flush(_) | Work::Sent => {
                Footprint::Nothing
            }
            Work::Write { range, .. } | Work::WriteZeroes { range, .. } => Footprint::Range(*range),
            Work::CompareAndWrite { range, .. } => Footprint::Claim(*range),
            Work::Copy(copying) => Footprint::Range(copying.destination()),
            Work::Deallocate(ranges) => match ranges[..] {
                [range] => Footprint::Range(range),
                _ => Footprint::Everywhere,
            },
        }
    }
}

/// Why an IO was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The device's fault.
    Device(io::Error),
    /// The device's fault, before any write: the compared data of a Compare and Write could not be read.
    Unread(io::Error),
    /// The device's fault, in the middle of a copy.
    Copy {
        /// The first source range that was not copied whole.
        range: u32,
        /// It could not be read; otherwise, its copy could not be written.
        is_read: bool,
        /// The device's error.
        error: io::Error,
    },
    /// The blocks differ from the host's expectation.
    Miscompare,
    /// It was taken back before it, or all of it, reached the device.
    Withdrawn,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Device(error) | Failure::Unread(error) | Failure::Copy { error, .. } => error.fmt(f),
            Failure::Miscompare => f.write_str("the blocks are not what the host expected"),
            Failure::Withdrawn => f.write_str("it was taken back before it reached the device"),
        }
    }
}

impl Failure {
    /// Whether the device is at fault.
    pub(crate) fn is_of_device(&self) -> bool {
        matches!(self, Failure::Device(_) | Failure::Unread(_) | Failure::Copy { .. })
    }
}
