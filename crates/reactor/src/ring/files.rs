//! Files and block devices through the ring.
//!
//! Everything has its request. Only the discard of a block device needs a newer one (a command to the device, Linux 6.12); where
//! it or the device lacks it, a hole is punched, which a block device does by writing zeroes with leave to unmap.
//!
//! A burst of operations goes to the kernel in pieces, each as long as all that is out already: the first at once. The kernel
//! holds the requests of one call back until it has prepared the last of them (some 2 µs each), which a device that is idle
//! would have to wait for. One that is busy has enough to do, and gets the whole burst with everything else.
//!
//! Holds: `a_burst_goes_out_in_pieces_that_double`.

use super::queue::{Kind, Queue, Request};
use super::{Flight, RingDriver, Source};
use crate::DiskOp;
use crate::disk::{Owner, Step, Transfer};
use crate::event::{Event, Events};
use crate::refused::Refused;
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;

/// `BLOCK_URING_CMD_DISCARD` of linux/blkdev.h: `_IO(0x12, 0)`; the command's `addr` is the offset, its `addr3` the length.
const BLOCK_URING_CMD_DISCARD: u32 = 0x12 << 8;

/// A file or block device.
pub(super) struct File {
    fd: OwnedFd,
    /// Whether the discard command is worth trying.
    discards_by_command: bool,
    in_flight: usize,
    is_closed: bool,
}

impl File {
    pub(super) fn new(fd: OwnedFd) -> io::Result<File> {
        let file = std::fs::File::from(fd);
        let discards_by_command = file.metadata()?.file_type().is_block_device();
        Ok(File { fd: file.into(), discards_by_command, in_flight: 0, is_closed: false })
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn may_be_freed(&self) -> bool {
        self.is_closed && self.in_flight == 0
    }

    fn entry(&self, step: Step, discards_by_command: bool) -> squeue::Entry {
        let fd = types::Fd(self.fd.as_raw_fd());
        match step {
            Step::Read { to, length, offset } => {
                opcode::Read::new(fd, to, entry_length(length)).offset(offset).build()
            }
            Step::Write { from, length, offset, durable } => {
                opcode::Write::new(fd, from, entry_length(length))
                    .offset(offset)
                    .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                    .build()
            }
            Step::Fsync { data_only: true } => {
                opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
            }
            Step::Fsync { data_only: false } => opcode::Fsync::new(fd).build(),
            Step::Discard { offset, length } if discards_by_command => {
                let mut command = [0; 16];
                command[..8].copy_from_slice(&length.to_ne_bytes());
                opcode::UringCmd16::new(fd, BLOCK_URING_CMD_DISCARD).addr(Some(offset)).cmd(command).build()
            }
            Step::Discard { offset, length } => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, length).offset(offset).mode(mode).build()
            }
            Step::WriteZeroes { offset, length } => {
                let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
                opcode::Fallocate::new(fd, length).offset(offset).mode(mode).build()
            }
        }
    }

    fn push(&self, flight: &mut Flight, index: u32, queue: &mut Queue) {
        let step = flight.transfer.step();
        flight.is_command = self.discards_by_command && matches!(step, Step::Discard { .. });
        let entry = self.entry(step, flight.is_command);
        // SAFETY: the flight, which owns the buffer, and the file, which owns the descriptor, both stay in their slots until the
        // request completes: `in_flight` keeps the file, `on_disk` alone removes the flight.
        unsafe { queue.push(entry, Request { kind: Kind::Disk, index }) };
    }
}

/// Whether operations should go to the kernel now: `pushed` of the `in_flight` have not yet.
fn is_piece(pushed: usize, in_flight: usize) -> bool {
    pushed >= in_flight - pushed
}

/// Whether the kernel or the device does not know a command.
fn is_unknown_command(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY))
}

/// A buffer's length fits: the pool's longest buffer is far below 4 GiB.
fn entry_length(length: usize) -> u32 {
    u32::try_from(length).expect("an IO buffer is below 4 GiB")
}

impl RingDriver {
    pub(super) fn start_transfer(
        &mut self,
        owner: Owner,
        op: DiskOp,
        events: &mut Events,
    ) -> Result<(), Refused<DiskOp>> {
        let Some(Source::File(file)) = self.sources.get(owner.file) else { return Err(Refused::closed(op)) };
        if self.flights.len() >= self.disk_depth {
            return Err(Refused::busy(op));
        }
        if !op.is_addressable() {
            events.push(owner.unaddressable(op));
            return Ok(());
        }
        file.in_flight += 1;
        let flight =
            self.flights.insert(|_| Flight { owner, transfer: Transfer::new(op), is_command: false }).index();
        self.push_step(flight);
        self.disk_pushed += 1;
        if is_piece(self.disk_pushed, self.flights.len()) {
            self.disk_pushed = 0;
            // Whatever is wrong with the ring, the next wait meets and reports it; the operations stay queued until then.
            let _ = self.queue.submit();
        }
        Ok(())
    }

    fn push_step(&mut self, index: u32) {
        let flight = self.flights.at(index).expect("a flight stays until its end");
        let Some(Source::File(file)) = self.sources.at(flight.owner.file.index()) else {
            unreachable!("a file stays while it has operations in flight")
        };
        file.push(flight, index, &mut self.queue);
    }

    pub(super) fn on_disk(&mut self, index: u32, result: io::Result<usize>, events: &mut Events) {
        let flight = self.flights.at(index).expect("a flight stays until its end");
        let owner = flight.owner;
        let Some(Source::File(file)) = self.sources.at(owner.file.index()) else {
            unreachable!("a file stays while it has operations in flight")
        };
        if flight.is_command && result.as_ref().is_err_and(is_unknown_command) {
            file.discards_by_command = false;
            return self.push_step(index);
        }
        let Some(result) = flight.transfer.on_step(result) else { return self.push_step(index) };
        file.in_flight -= 1;
        let is_closed = file.is_closed;
        let flight = self.flights.remove(index).expect("a flight ends once");
        let buffer = flight.transfer.into_buffer();
        if is_closed {
            drop(buffer);
            self.settle(owner.file.index(), events);
        } else {
            events.push(Event::Disk { token: owner.file, tag: owner.tag, result, buffer });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the pieces in which `count` operations go out while `busy` others are in flight.
    fn pieces(busy: usize, count: usize) -> Vec<usize> {
        let mut pushed = 0;
        let mut pieces = Vec::new();
        for new in 1..=count {
            pushed += 1;
            if is_piece(pushed, busy + new) {
                pieces.push(std::mem::take(&mut pushed));
            }
        }
        pieces
    }

    #[test]
    fn a_burst_goes_out_in_pieces_that_double() {
        assert_eq!(pieces(0, 1), [1]);
        assert_eq!(pieces(0, 32), [1, 1, 2, 4, 8, 16]);
        assert_eq!(pieces(3, 10), [3, 6], "the last one goes with the next wait");
        assert_eq!(pieces(28, 4), [0; 0], "a busy device can wait for the rest of the turn");
    }
}
