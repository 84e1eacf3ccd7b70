//! Files, block devices and NVMe namespaces through the rings.
//!
//! Everything has its request. Only the discard of a block device needs a newer one (a command to the device, Linux 6.12); where
//! it or the device lacks it, a hole is punched, which a block device does by writing zeroes with leave to unmap.
//!
//! ```text
//!   how it was added     reads and writes     flush, discard, zeroes
//!   file                 main ring            main ring
//!   polled               polled ring          main ring: the kernel polls for reads and writes only
//!   NVMe                 passthrough ring     passthrough ring
//!   NVMe, polled         polled ring          passthrough ring
//! ```
//!
//! A burst of operations goes to the kernel in pieces, each as long as all that is out already: the first at once. The kernel
//! holds the requests of one call back until it has prepared the last of them (some 2 µs each), which a device that is idle
//! would have to wait for. One that is busy has enough to do, and gets the whole burst with everything else.
//!
//! Holds: `a_burst_goes_out_in_pieces_that_double`.
//! Elsewhere: which rings there are is `device`; that files and buffers are registered is `registry`.

use super::device::Lane;
use super::queue::{Kind, Request};
use super::{RingDriver, Source};
use crate::disk::{Owner, Pieces, Step, Transfer};
use crate::event::{Event, Events};
use crate::nvme::{self, NVME_URING_CMD_IO, NvmeNamespace, ZEROES_KEPT};
use crate::refused::Refused;
use crate::region::Region;
use crate::{DiskAccess, DiskOp, Token};
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt;

/// `BLOCK_URING_CMD_DISCARD` of linux/blkdev.h: `_IO(0x12, 0)`; the command's `addr` is the offset, its `addr3` the length.
const BLOCK_URING_CMD_DISCARD: u32 = 0x12 << 8;

/// A file, block device or namespace.
pub(super) struct File {
    fd: OwnedFd,
    access: DiskAccess,
    pieces: Pieces,
    /// By ring, where it is registered: main, passthrough, polled.
    slots: [Option<u32>; 3],
    /// Whether to try the discard command.
    discards_by_command: bool,
    in_flight: usize,
    is_closed: bool,
}

/// A disk operation in flight.
pub(super) struct Flight {
    owner: Owner,
    transfer: Transfer,
    lane: Lane,
    /// The slot of its buffer on that ring.
    buffer_slot: Option<u16>,
    /// The range that a Dataset Management is to discard, for the device to read.
    range: Option<Box<[u32; 4]>>,
    /// Whether it is out as a command to a block device, which may turn out to be unknown.
    is_command: bool,
}

impl File {
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn may_be_freed(&self) -> bool {
        self.is_closed && self.in_flight == 0
    }

    /// The ring for an operation.
    fn lane(&self, op: &DiskOp) -> Lane {
        let moves_data = matches!(op, DiskOp::Read { .. } | DiskOp::Write { .. });
        match self.access {
            DiskAccess::Polled | DiskAccess::Nvme { is_polled: true, .. } if moves_data => Lane::Polled,
            DiskAccess::File | DiskAccess::Polled => Lane::Main,
            DiskAccess::Nvme { .. } => Lane::Passthrough,
        }
    }

    /// Whether the device can be asked for an operation; if not, why.
    fn check(&self, op: &DiskOp) -> io::Result<()> {
        let is_addressable = op.is_addressable();
        let (offset, length) = op.extent();
        match &self.access {
            DiskAccess::Nvme { namespace, .. } => {
                if !is_addressable || !namespace.is_aligned(offset, length) {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                match op {
                    DiskOp::Discard { .. } if !namespace.has_deallocate => {
                        Err(io::ErrorKind::Unsupported.into())
                    }
                    _ => Ok(()),
                }
            }
            DiskAccess::File | DiskAccess::Polled if is_addressable => Ok(()),
            DiskAccess::File | DiskAccess::Polled => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }

    /// The request for a step through the file system or the block layer.
    fn entry(
        &self,
        step: Step,
        buffer_slot: Option<u16>,
        discards_by_command: bool,
        lane: Lane,
    ) -> squeue::Entry {
        let (fd, flags) = self.named(lane);
        entry_of(fd, step, buffer_slot, discards_by_command).flags(flags)
    }

    /// How requests on a ring name the file: by its slot, or by its descriptor.
    fn named(&self, lane: Lane) -> (types::Fd, squeue::Flags) {
        match self.slots[lane as usize] {
            Some(slot) => (types::Fd(slot as RawFd), squeue::Flags::FIXED_FILE),
            None => (types::Fd(self.fd.as_raw_fd()), squeue::Flags::empty()),
        }
    }
}

fn entry_of(fd: types::Fd, step: Step, buffer_slot: Option<u16>, discards_by_command: bool) -> squeue::Entry {
    match (step, buffer_slot) {
        (Step::Read { to, length, offset }, None) => {
            opcode::Read::new(fd, to, entry_length(length)).offset(offset).build()
        }
        (Step::Read { to, length, offset }, Some(slot)) => {
            opcode::ReadFixed::new(fd, to, entry_length(length), slot).offset(offset).build()
        }
        (Step::Write { from, length, offset, durable }, None) => {
            opcode::Write::new(fd, from, entry_length(length))
                .offset(offset)
                .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                .build()
        }
        (Step::Write { from, length, offset, durable }, Some(slot)) => {
            opcode::WriteFixed::new(fd, from, entry_length(length), slot)
                .offset(offset)
                .rw_flags(if durable { libc::RWF_DSYNC } else { 0 })
                .build()
        }
        (Step::Fsync { data_only: true }, _) => {
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build()
        }
        (Step::Fsync { data_only: false }, _) => opcode::Fsync::new(fd).build(),
        (Step::Discard { offset, length }, _) if discards_by_command => {
            let mut command = [0; 16];
            command[..8].copy_from_slice(&length.to_ne_bytes());
            opcode::UringCmd16::new(fd, BLOCK_URING_CMD_DISCARD).addr(Some(offset)).cmd(command).build()
        }
        (Step::Discard { offset, length }, _) => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(fd, length).offset(offset).mode(mode).build()
        }
        (Step::WriteZeroes { offset, length }, _) => {
            let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
            opcode::Fallocate::new(fd, length).offset(offset).mode(mode).build()
        }
    }
}

/// The request for a step as a command to a namespace.
fn nvme_entry(
    file: &File,
    namespace: &NvmeNamespace,
    flight: &mut Flight,
    zeroes: Option<&Region>,
) -> squeue::Entry128 {
    let step = flight.transfer.step();
    let memory = match step {
        Step::Read { to, .. } => to as u64,
        Step::Write { from, .. } => from as u64,
        Step::Discard { offset, length } => {
            let range = flight.range.insert(Box::new(namespace.range(offset, length)));
            range.as_ptr() as u64
        }
        Step::WriteZeroes { .. } => zeroes.map_or(0, |zeroes| zeroes.start().as_ptr() as u64),
        Step::Fsync { .. } => 0,
    };
    let command = namespace.command(step, memory).to_bytes();
    let (fd, flags) = file.named(flight.lane);
    let entry = opcode::UringCmd80::new(fd, NVME_URING_CMD_IO).cmd(command).buf_index(flight.buffer_slot);
    entry.build().flags(flags)
}

/// Whether operations should go to the kernel now: `pushed` of the `in_flight` have not yet.
fn is_piece(pushed: usize, in_flight: usize) -> bool {
    pushed >= in_flight - pushed
}

/// Whether the kernel or the device does not know a command.
fn is_unknown_command(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY))
}

/// The length for a submission entry. It fits: the pool's longest buffer is far below 4 GiB.
fn entry_length(length: usize) -> u32 {
    u32::try_from(length).expect("an IO buffer is below 4 GiB")
}

impl RingDriver {
    pub(super) fn start_disk(&mut self, file: OwnedFd, access: DiskAccess) -> io::Result<Token> {
        let file = std::fs::File::from(file);
        let discards_by_command = file.metadata()?.file_type().is_block_device();
        let (pieces, lanes) = match &access {
            DiskAccess::File => (Pieces::WHOLE, &[Lane::Main][..]),
            DiskAccess::Polled => (Pieces::WHOLE, &[Lane::Main, Lane::Polled][..]),
            DiskAccess::Nvme { namespace, is_polled } => {
                if !namespace.has_write_zeroes && self.zeroes.is_none() {
                    self.zeroes = Some(Region::new(ZEROES_KEPT as usize)?);
                }
                let lanes = &[Lane::Passthrough, Lane::Polled][..if *is_polled { 2 } else { 1 }];
                (namespace.pieces(), lanes)
            }
        };
        let mut slots = [None; 3];
        for &lane in lanes {
            self.devices.make(lane)?;
            slots[lane as usize] = match self.devices.get(lane) {
                Some(ring) => ring.registry.add_file(&ring.queue.submitter(), file.as_raw_fd()),
                None => self.registry.add_file(&self.queue.submitter(), file.as_raw_fd()),
            };
        }
        let fd = file.into();
        let file = File { fd, access, pieces, slots, discards_by_command, in_flight: 0, is_closed: false };
        Ok(self.sources.insert(|_| Source::File(file)))
    }

    /// Makes the kernel forget a file that is about to be dropped.
    pub(super) fn forget_file(&mut self, file: &File) {
        for lane in [Lane::Main, Lane::Passthrough, Lane::Polled] {
            let Some(slot) = file.slots[lane as usize] else { continue };
            match self.devices.get(lane) {
                Some(ring) => ring.registry.remove_file(&ring.queue.submitter(), slot),
                None => self.registry.remove_file(&self.queue.submitter(), slot),
            }
        }
    }

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
        if let Err(error) = file.check(&op) {
            events.push(owner.refused(op, error));
            return Ok(());
        }
        file.in_flight += 1;
        let (lane, transfer) = (file.lane(&op), Transfer::new(op, file.pieces));
        let flight = Flight { owner, transfer, lane, buffer_slot: None, range: None, is_command: false };
        let flight = self.flights.insert(|_| flight).index();
        self.register_buffer(flight);
        self.push_step(flight);
        self.disk_pushed += 1;
        if is_piece(self.disk_pushed, self.flights.len()) {
            self.disk_pushed = 0;
            // Whatever is wrong with a ring, the next wait meets and reports it; the operations stay queued until then.
            let _ = match self.devices.get(lane) {
                Some(ring) => ring.queue.submit(),
                None => self.queue.submit(),
            };
        }
        Ok(())
    }

    /// Finds or makes the slot of a flight's buffer.
    fn register_buffer(&mut self, index: u32) {
        let flight = self.flights.at(index).expect("a flight stays until its end");
        let Some(buffer) = flight.transfer.buffer() else { return };
        flight.buffer_slot = match self.devices.get(flight.lane) {
            Some(ring) => ring.registry.take_buffer(&ring.queue.submitter(), buffer.memory()),
            None => self.registry.take_buffer(&self.queue.submitter(), buffer.memory()),
        };
    }

    fn push_step(&mut self, index: u32) {
        let flight = self.flights.at(index).expect("a flight stays until its end");
        let Some(Source::File(file)) = self.sources.at(flight.owner.file.index()) else {
            unreachable!("a file stays while it has operations in flight")
        };
        let request = Request { kind: Kind::Disk, index };
        if let DiskAccess::Nvme { namespace, .. } = &file.access {
            let entry = nvme_entry(file, namespace, flight, self.zeroes.as_ref());
            let ring = self.devices.get(flight.lane).expect("made when the file was added");
            // SAFETY: the flight, which owns the buffer and the range, and the file, which owns the descriptor, both stay in their slots
            // until the request completes: `in_flight` keeps the file, `on_disk` alone removes the flight. Only writes name the zeros,
            // which stay as long as the driver.
            return unsafe { ring.queue.push(entry, request) };
        }
        let step = flight.transfer.step();
        flight.is_command = file.discards_by_command && matches!(step, Step::Discard { .. });
        let entry = file.entry(step, flight.buffer_slot, flight.is_command, flight.lane);
        match self.devices.get(flight.lane) {
            // SAFETY: as above.
            Some(ring) => unsafe { ring.queue.push(entry, request) },
            // SAFETY: as above.
            None => unsafe { self.queue.push(entry, request) },
        }
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
        let result = match file.access {
            DiskAccess::Nvme { .. } => nvme::outcome(result),
            DiskAccess::File | DiskAccess::Polled => result,
        };
        let Some(result) = flight.transfer.on_step(result) else { return self.push_step(index) };
        file.in_flight -= 1;
        let is_closed = file.is_closed;
        let flight = self.flights.remove(index).expect("a flight ends once");
        if let Some(slot) = flight.buffer_slot {
            match self.devices.get(flight.lane) {
                Some(ring) => ring.registry.put_buffer(slot),
                None => self.registry.put_buffer(slot),
            }
        }
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
