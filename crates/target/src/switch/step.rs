//! The steps of one IO on the device.

use super::{ByteRange, Failure, Work};
use crate::device::{DeviceDone, DeviceIo, DeviceOp};
use reactor::{BufferPool, IoBuffer};
use units::Nanos;

/// A verify moves no data to the host, so its length is not bounded by the transfer limit; its reads are.
const VERIFY_PIECE: u64 = 128 << 10;

/// How far an IO has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Steps that have ended; for a verify, bytes.
    done: u64,
    /// The longest step, which is the whole of most IOs.
    pub(super) latency: Nanos,
    /// How late the latest step was known to be over, on the device's clock.
    pub(super) late: Nanos,
}

/// How an IO ended, and what it read.
pub(super) type Ended = (Result<(), Failure>, Option<IoBuffer>);

/// What follows on a step.
pub(super) enum After {
    /// The next one.
    Step,
    /// The scheduler, for the next piece.
    Piece,
    /// Nothing.
    End(Ended),
}

impl From<Ended> for After {
    fn from(ended: Ended) -> After {
        After::End(ended)
    }
}

impl Progress {
    /// The next step of `work`, or `None` if it needs a buffer and the pool has none now.
    pub(super) fn next(&self, work: &mut Work, tag: u64, pool: &mut BufferPool) -> Option<DeviceIo> {
        let whole = ByteRange { offset: 0, length: 0 };
        let (range, op) = match work {
            Work::Read(range) | Work::Compare { range, .. } => {
                (*range, DeviceOp::Read(take(pool, range.length)?))
            }
            Work::Verify(range) => {
                let length = VERIFY_PIECE.min(range.length - self.done);
                let piece = ByteRange { offset: range.offset + self.done, length };
                (piece, DeviceOp::Read(take(pool, length)?))
            }
            Work::CompareAndWrite { range, .. } if self.done == 0 => {
                (*range, DeviceOp::Read(take(pool, range.length)?))
            }
            Work::CompareAndWrite { range, halves, durable } => {
                let buffer = halves.written.take().expect("it is written once");
                (*range, DeviceOp::Write { buffer, durable: *durable })
            }
            Work::Copy(copying) => match copying.piece.take() {
                None => (copying.origin(), DeviceOp::Read(take(pool, copying.origin().length)?)),
                Some(buffer) => {
                    copying.is_writing = true;
                    (copying.destination(), DeviceOp::Write { buffer, durable: copying.durable })
                }
            },
            Work::Write { range, buffer, durable } => {
                let buffer = buffer.take().expect("a write has one step, which takes its buffer");
                (*range, DeviceOp::Write { buffer, durable: *durable })
            }
            Work::WriteZeroes { range, .. } if self.done == 0 => (*range, DeviceOp::WriteZeroes),
            Work::Flush | Work::WriteZeroes { .. } => (whole, DeviceOp::Flush),
            Work::Deallocate(ranges) => (ranges[self.done as usize], DeviceOp::Discard),
        };
        Some(DeviceIo { tag, offset: range.offset, length: range.length, op })
    }

    /// Whether the next step of `work` reads, into a buffer of the switch's pool.
    pub(super) fn needs_memory(&self, work: &Work) -> bool {
        match work {
            Work::Read(_) | Work::Verify(_) | Work::Compare { .. } => true,
            Work::CompareAndWrite { .. } => self.done == 0,
            Work::Copy(copying) => copying.piece.is_none(),
            Work::Write { .. } | Work::Flush | Work::WriteZeroes { .. } | Work::Deallocate(_) => false,
        }
    }

    /// Notes the end of a step.
    pub(super) fn on_done(&mut self, work: &mut Work, done: DeviceDone, pool: &mut BufferPool) -> After {
        self.latency = self.latency.max(done.latency);
        self.late = self.late.max(done.late);
        if let Err(error) = done.result {
            let failure = match (work, done.buffer) {
                (Work::Write { buffer, .. }, back) => {
                    *buffer = back;
                    Failure::Device(error)
                }
                (Work::CompareAndWrite { halves, .. }, back) if self.done > 0 => {
                    halves.written = back;
                    Failure::Device(error)
                }
                (work, back) => {
                    back.into_iter().for_each(|buffer| pool.give(buffer));
                    match work {
                        Work::CompareAndWrite { .. } => Failure::Unread(error),
                        Work::Copy(copying) => {
                            Failure::Copy { range: copying.range(), is_read: !copying.is_writing, error }
                        }
                        _ => Failure::Device(error),
                    }
                }
            };
            return (Err(failure), None).into();
        }
        let is_over = match work {
            Work::Read(_) => return (Ok(()), done.buffer).into(),
            Work::Compare { expected, .. } => {
                if !is_same(done.buffer, expected, pool) {
                    return (Err(Failure::Miscompare), None).into();
                }
                true
            }
            Work::CompareAndWrite { halves, .. } if self.done == 0 => {
                self.done = 1;
                if !is_same(done.buffer, &halves.expected, pool) {
                    return (Err(Failure::Miscompare), None).into();
                }
                false
            }
            Work::CompareAndWrite { halves, .. } => {
                halves.written = done.buffer;
                true
            }
            Work::Copy(copying) if copying.is_writing => {
                pool.give(done.buffer.expect("a write brings its buffer back"));
                copying.is_writing = false;
                if !copying.advance() {
                    return After::Piece;
                }
                true
            }
            Work::Copy(copying) => {
                copying.piece = done.buffer;
                false
            }
            Work::Verify(range) => {
                let length = range.length;
                let piece = done.buffer.expect("a read brings its buffer back");
                self.done += piece.len() as u64;
                pool.give(piece);
                self.done == length
            }
            Work::Write { buffer, .. } => {
                *buffer = done.buffer;
                true
            }
            Work::Flush => true,
            Work::WriteZeroes { durable, .. } => {
                self.done += 1;
                !*durable || self.done == 2
            }
            Work::Deallocate(ranges) => {
                self.done += 1;
                self.done == ranges.len() as u64
            }
        };
        if is_over { (Ok(()), None).into() } else { After::Step }
    }
}

/// Whether a read has brought what was expected. Its buffer goes back.
fn is_same(found: Option<IoBuffer>, expected: &IoBuffer, pool: &mut BufferPool) -> bool {
    let found = found.expect("a read brings its buffer back");
    let is_same = found[..] == expected[..];
    pool.give(found);
    is_same
}

fn take(pool: &mut BufferPool, length: u64) -> Option<IoBuffer> {
    pool.take(usize::try_from(length).expect("a transfer fits the address space"))
}
