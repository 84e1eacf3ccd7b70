//! The steps of one IO on the device.

use super::erase::{COST_MIN, Erasure};
use super::{ByteRange, Failure, Work};
use crate::device::{Device, DeviceDone, DeviceIo, DeviceOp, Erase};
use reactor::{BufferPool, IoBuffer};
use sched::IoKind;
use units::{Bytes, Nanos};

/// A verify moves no data to the host, so its length is not bounded by the transfer limit; its reads are.
const VERIFY_PIECE: u64 = 128 << 10;

/// The progress of an IO.
#[derive(Debug)]
pub(super) struct Progress {
    /// Steps that have ended; for a verify, bytes.
    done: u64,
    /// The progress of a Write Zeroes or Deallocate. Boxed, as they are rare and every IO has room for it.
    erasure: Option<Box<Erasure>>,
    /// The longest step, which is the whole of most IOs.
    pub(super) latency: Nanos,
    /// How late the latest step was known to be over, on the device's clock.
    pub(super) late: Nanos,
    /// The result.
    pub(super) result: Result<(), Failure>,
    /// The data of a read.
    pub(super) read: Option<IoBuffer>,
}

impl Default for Progress {
    fn default() -> Progress {
        let (latency, late) = (Nanos::ZERO, Nanos::ZERO);
        Progress { done: 0, erasure: None, latency, late, result: Ok(()), read: None }
    }
}

/// The successor of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next one.
    Step,
    /// The scheduler, for the next piece.
    Piece,
    /// Nothing: the result is known.
    End,
}

impl Progress {
    /// Describes `work`, or its next piece, to the scheduler, and plans that piece.
    ///
    /// A flush costs as much as the least write. An erasure is charged its cost on the device ([`Device::quote`]), and 4 KiB for
    /// every range at least.
    pub(super) fn price(&mut self, work: &Work, device: &dyn Device) -> (IoKind, Bytes) {
        if let Some((erase, ranges)) = work.erases() {
            let erasure = self.erasure.get_or_insert_default();
            let cost = erasure.plan(device, erase, ranges);
            let flushes = work.is_durable_erasure() && erasure.is_last_piece(ranges);
            return (IoKind::Management, if flushes { cost + COST_MIN } else { cost });
        }
        match work {
            Work::Read(range) | Work::Verify(range) | Work::Compare { range, .. } => {
                (IoKind::Read, Bytes(range.length))
            }
            Work::Write { range, .. } => (IoKind::Write, Bytes(range.length)),
            // It reads the block as well, which costs no more than writing it.
            Work::CompareAndWrite { range, .. } => (IoKind::Write, Bytes(2 * range.length)),
            Work::Copy(copying) => (IoKind::Write, copying.charge()),
            Work::Flush(_) | Work::WriteZeroes { .. } | Work::Deallocate(_) | Work::Sent => {
                (IoKind::Management, COST_MIN)
            }
        }
    }

    /// The next step of `work`, or `None` if it needs a buffer and the pool has none now.
    #[inline]
    pub(super) fn next(&self, work: &mut Work, tag: u64, pool: &mut BufferPool) -> Option<DeviceIo> {
        if let Some((erase, ranges)) = work.erases()
            && let Some(erasure) = &self.erasure
            && let Some(ByteRange { offset, length }) = erasure.step(ranges)
        {
            let op = match erase {
                Erase::Zero => DeviceOp::WriteZeroes,
                Erase::Forget => DeviceOp::Discard,
            };
            return Some(DeviceIo { tag, offset, length, op });
        }
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
            Work::Sent => unreachable!("another SSD's thread has it"),
            Work::Flush(range) => (*range, DeviceOp::Flush),
            // The flush after an erasure, or all there is to do if it has no bytes.
            Work::WriteZeroes { range, .. } => (*range, DeviceOp::Flush),
            Work::Deallocate(ranges) => {
                (ranges.first().copied().unwrap_or(ByteRange::EMPTY), DeviceOp::Flush)
            }
        };
        Some(DeviceIo { tag, offset: range.offset, length: range.length, op })
    }

    /// Whether the next step of `work` reads, into a buffer of the switch's pool.
    pub(super) fn needs_memory(&self, work: &Work) -> bool {
        match work {
            Work::Read(_) | Work::Verify(_) | Work::Compare { .. } => true,
            Work::CompareAndWrite { .. } => self.done == 0,
            Work::Copy(copying) => copying.piece.is_none(),
            Work::Write { .. }
            | Work::Flush(_)
            | Work::WriteZeroes { .. }
            | Work::Deallocate(_)
            | Work::Sent => false,
        }
    }

    /// Notes the end of a step.
    #[inline]
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
            self.result = Err(failure);
            return After::End;
        }
        let is_over = match work {
            Work::Read(_) => {
                self.read = done.buffer;
                true
            }
            Work::Compare { expected, .. } => {
                if !is_same(done.buffer, expected, pool) {
                    self.result = Err(Failure::Miscompare);
                }
                true
            }
            Work::CompareAndWrite { halves, .. } if self.done == 0 => {
                self.done = 1;
                let is_same = is_same(done.buffer, &halves.expected, pool);
                if !is_same {
                    self.result = Err(Failure::Miscompare);
                }
                !is_same
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
            Work::Flush(_) | Work::Sent => true,
            Work::WriteZeroes { .. } | Work::Deallocate(_) => return self.on_erased(work),
        };
        if is_over { After::End } else { After::Step }
    }

    /// A step of an erasure has ended, or the flush after it.
    fn on_erased(&mut self, work: &Work) -> After {
        let (_, ranges) = work.erases().expect("asked of erasures only");
        let erasure = self.erasure.as_mut().expect("an erasure is planned before its first step");
        if erasure.step(ranges).is_none() {
            return After::End;
        }
        erasure.on_step(ranges);
        if erasure.step(ranges).is_some() {
            After::Step
        } else if !erasure.is_last_piece(ranges) {
            After::Piece
        } else if work.is_durable_erasure() {
            After::Step
        } else {
            After::End
        }
    }
}

/// Whether a read has brought the expected data. Its buffer goes back.
fn is_same(found: Option<IoBuffer>, expected: &IoBuffer, pool: &mut BufferPool) -> bool {
    let found = found.expect("a read brings its buffer back");
    let is_same = found[..] == expected[..];
    pool.give(found);
    is_same
}

/// A buffer of this length, if there is one.
pub(super) fn take(pool: &mut BufferPool, length: u64) -> Option<IoBuffer> {
    pool.take(usize::try_from(length).expect("a transfer fits the address space"))
}
