//! One IO of a back-end as a row of commands: one at a time, each as long as the other target takes.
//!
//! Most IOs are one command with the caller's own buffer. A longer one goes in pieces through buffers of the worker. Where Write Zeroes is
//! missing, zeros are written; where deallocation is missing, nothing is done, which the specification allows.
//!
//! Holds: the pieces of an IO cover its range once, in order (`what_is_longer_than_the_other_target_takes_goes_in_pieces` in
//!        `tests/back_end.rs`).

use super::found::Found;
use crate::device::{DeviceDone, DeviceIo, DeviceOp};
use host::{Operation, Request};
use reactor::{BufferPool, IoBuffer};
use std::io;
use units::{Instant, Lba, Nanos};

/// The work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Read,
    Write { durable: bool },
    Flush,
    Discard,
    WriteZeroes,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Job {
    tag: u64,
    submitted: Instant,
    work: Work,
    offset: u64,
    length: u64,
    /// Bytes that are done.
    cursor: u64,
    /// Bytes of the command that is outstanding.
    piece: u64,
    /// The caller's buffer, unless the outstanding command has it.
    buffer: Option<IoBuffer>,
    /// Whether a Flush is the outstanding command.
    is_flushing: bool,
    /// Whether a command of it was lost with its connection.
    was_lost: bool,
}

/// The next step of a job.
#[derive(Debug)]
pub(super) enum Step {
    /// Send this command.
    Send(Request),
    /// It has ended well.
    Done,
}

impl Job {
    /// An IO that was submitted at `now`.
    pub(super) fn new(now: Instant, io: DeviceIo) -> Job {
        let (work, buffer) = match io.op {
            DeviceOp::Read(buffer) => (Work::Read, Some(buffer)),
            DeviceOp::Write { buffer, durable } => (Work::Write { durable }, Some(buffer)),
            DeviceOp::Flush => (Work::Flush, None),
            DeviceOp::Discard => (Work::Discard, None),
            DeviceOp::WriteZeroes => (Work::WriteZeroes, None),
        };
        let DeviceIo { tag, offset, length, .. } = io;
        Job {
            tag,
            submitted: now,
            work,
            offset,
            length,
            cursor: 0,
            piece: 0,
            buffer,
            is_flushing: false,
            was_lost: false,
        }
    }

    /// The next command, under the identifier `id`.
    pub(super) fn next(&mut self, id: u64, found: &Found, pool: &mut BufferPool) -> Step {
        let left = self.length - self.cursor;
        let flush = |job: &mut Job| {
            job.is_flushing = true;
            Step::Send(Request::new(id, found.namespace.nsid, Operation::Flush, Lba(0), 0))
        };
        match self.work {
            _ if self.is_flushing => return Step::Done,
            Work::Flush => return flush(self),
            Work::Discard if !found.has_deallocate => return Step::Done,
            // Its zeros must last, too (see the module `back_end`).
            Work::WriteZeroes if left == 0 && found.volatile_write_cache => return flush(self),
            _ if left == 0 => return Step::Done,
            _ => {}
        }
        let durable = found.volatile_write_cache;
        let (operation, most) = match self.work {
            Work::Read => (Operation::Read, found.transfer_max),
            Work::Write { durable: asked } => {
                (Operation::Write { durable: asked || durable }, found.transfer_max)
            }
            Work::WriteZeroes if found.has_write_zeroes => {
                (Operation::WriteZeroes { deallocate: true }, found.range_max)
            }
            Work::WriteZeroes => (Operation::Write { durable }, found.transfer_max),
            Work::Discard | Work::Flush => (Operation::Deallocate, found.range_max),
        };
        self.piece = left.min(most);
        let block = u64::from(found.block_size);
        let (lba, blocks) = (Lba((self.offset + self.cursor) / block), (self.piece / block) as u32);
        let request = Request::new(id, found.namespace.nsid, operation, lba, blocks);
        Step::Send(match operation.has_buffer() {
            true => request.with_buffer(self.lend(pool)),
            false => request,
        })
    }

    /// The buffer of the next piece: the caller's, or one of the worker's with the bytes of the piece.
    fn lend(&mut self, pool: &mut BufferPool) -> IoBuffer {
        if self.piece == self.length
            && let Some(own) = self.buffer.take()
        {
            return own;
        }
        let length = self.piece as usize;
        let mut lent =
            pool.take(length).expect("its pool has no limit: a piece is shorter than a buffer that there is");
        match (&self.buffer, self.work) {
            (Some(own), Work::Write { .. }) => lent.copy_from_slice(&own[self.cursor as usize..][..length]),
            (None, _) => lent.fill(0),
            _ => {}
        }
        lent
    }

    /// The outstanding command has succeeded.
    pub(super) fn on_success(&mut self, buffer: Option<IoBuffer>) {
        if self.is_flushing {
            return;
        }
        let piece = buffer.filter(|_| !matches!(self.work, Work::WriteZeroes));
        if let (Some(own), Some(piece), Work::Read) = (&mut self.buffer, &piece, self.work) {
            own[self.cursor as usize..][..piece.len()].copy_from_slice(piece);
        }
        self.keep(piece);
        self.cursor += self.piece;
    }

    /// Whether a lost command of it goes again: the first one does.
    pub(super) fn may_go_again(&mut self) -> bool {
        !std::mem::replace(&mut self.was_lost, true)
    }

    /// The command of the last step was not sent, or was lost; it comes again.
    pub(super) fn on_refused(&mut self, buffer: Option<IoBuffer>) {
        self.is_flushing = false;
        self.keep(buffer);
    }

    /// Takes the caller's buffer back, if this is it.
    pub(super) fn keep(&mut self, buffer: Option<IoBuffer>) {
        if self.buffer.is_none() && matches!(self.work, Work::Read | Work::Write { .. }) {
            self.buffer = buffer;
        }
    }

    /// The end of the job.
    pub(super) fn end(self, now: Instant, result: io::Result<()>) -> DeviceDone {
        let latency = now.saturating_since(self.submitted);
        DeviceDone { tag: self.tag, result, buffer: self.buffer, latency, late: Nanos::ZERO }
    }
}
