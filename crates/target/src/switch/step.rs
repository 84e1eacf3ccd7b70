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

    /// Notes the end of a step. `None`: another one follows.
    pub(super) fn on_done(
        &mut self,
        work: &mut Work,
        done: DeviceDone,
        pool: &mut BufferPool,
    ) -> Option<Ended> {
        self.latency = self.latency.max(done.latency);
        self.late = self.late.max(done.late);
        if let Err(error) = done.result {
            match (work, done.buffer) {
                (Work::Write { buffer, .. }, back) => *buffer = back,
                (_, Some(read)) => pool.give(read),
                (_, None) => {}
            }
            return Some((Err(Failure::Device(error)), None));
        }
        match work {
            Work::Read(_) => Some((Ok(()), done.buffer)),
            Work::Compare { expected, .. } => {
                let found = done.buffer.expect("a read brings its buffer back");
                let result = if found[..] == expected[..] { Ok(()) } else { Err(Failure::Miscompare) };
                pool.give(found);
                Some((result, None))
            }
            Work::Verify(range) => {
                let length = range.length;
                let piece = done.buffer.expect("a read brings its buffer back");
                self.done += piece.len() as u64;
                pool.give(piece);
                (self.done == length).then_some((Ok(()), None))
            }
            Work::Write { buffer, .. } => {
                *buffer = done.buffer;
                Some((Ok(()), None))
            }
            Work::Flush => Some((Ok(()), None)),
            Work::WriteZeroes { durable, .. } => {
                self.done += 1;
                (!*durable || self.done == 2).then_some((Ok(()), None))
            }
            Work::Deallocate(ranges) => {
                self.done += 1;
                (self.done == ranges.len() as u64).then_some((Ok(()), None))
            }
        }
    }
}

fn take(pool: &mut BufferPool, length: u64) -> Option<IoBuffer> {
    pool.take(usize::try_from(length).expect("a transfer fits the address space"))
}
