//! The command of an IO, kept in its slot, and the statuses that the host gets at its end.

use super::Origin;
use super::commands::FirstHalf;
use crate::account::Permit;
use crate::device;
use crate::slab::Key;
use crate::switch::{Failure, IoSlot};
use nvme::spec::Status;
use nvme::spec::status::SCT_PATH;
use nvme::subsystem::{IoCommand, IoOp};
use reactor::CommandStatus;
use std::io;
use std::sync::Arc;
use tracing::warn;
use units::Nanos;

/// The command of an IO, kept in its slot.
pub(crate) struct HostIo {
    pub(super) session: Key,
    pub(super) cid: u16,
    pub(super) command: IoCommand,
    /// The device it is for.
    pub(super) device: usize,
    /// The right to hold the data that it writes, or has been admitted to read.
    pub(super) permit: Option<Permit>,
    /// The status for its host if it is taken back before it has reached the device.
    pub(super) if_withdrawn: Status,
    /// The first command, if the host has fused it with this one.
    pub(super) first: Option<Box<FirstHalf>>,
    /// The time that it waited for memory, in microseconds.
    pub(super) waited_for_memory: u32,
    /// IOs that had started before it, of all connections.
    pub(super) sequence: u64,
    /// The place of its lane among its session's.
    pub(super) lane: u32,
    /// Its connection has ended, and later ones of the host wait for it (`orphans`).
    pub(super) is_orphan: bool,
}

impl IoSlot<Origin> {
    /// The time that an IO of a session here waited for memory before it was admitted.
    #[inline]
    pub(super) fn waited_for_memory(&self) -> Nanos {
        match &self.owner {
            Origin::Local(io) => Nanos::micros(u64::from(io.waited_for_memory)),
            _ => Nanos::ZERO,
        }
    }

    /// Of an IO of a session here: the command that it came with.
    pub(super) fn host_io(&self) -> &HostIo {
        match &self.owner {
            Origin::Local(io) => io,
            _ => unreachable!("only IOs of sessions here are in their lists"),
        }
    }

    /// As [`IoSlot::host_io`].
    pub(super) fn host_io_mut(&mut self) -> &mut HostIo {
        match &mut self.owner {
            Origin::Local(io) => io,
            _ => unreachable!("only IOs of sessions here are in their lists"),
        }
    }
}

/// The statuses for the host.
pub(super) struct Statuses {
    /// Of the first command, if there are two.
    pub(super) of_first: Status,
    /// Of the only or second one.
    pub(super) status: Status,
    /// With it.
    pub(super) dword: u32,
}

impl Statuses {
    pub(super) const SUCCESS: Statuses = Statuses::of(Status::SUCCESS, Status::SUCCESS);

    const fn of(of_first: Status, status: Status) -> Statuses {
        Statuses { of_first, status, dword: 0 }
    }
}

/// The log of what devices failed.
pub(super) struct DeviceErrors {
    /// The device of this thread.
    home: Arc<str>,
    count: u64,
}

impl DeviceErrors {
    pub(super) fn new(home: Arc<str>) -> DeviceErrors {
        DeviceErrors { home, count: 0 }
    }
}

impl HostIo {
    #[cold]
    pub(super) fn statuses(
        &self,
        first: Option<&FirstHalf>,
        failure: Failure,
        errors: &mut DeviceErrors,
    ) -> Statuses {
        let op = &self.command.op;
        match failure {
            Failure::Miscompare if first.is_some() => {
                Statuses::of(Status::COMPARE_FAILURE, Status::FAILED_FUSED)
            }
            Failure::Miscompare => Statuses::of(Status::SUCCESS, Status::COMPARE_FAILURE),
            Failure::Withdrawn => {
                let of_first = first.and_then(|first| first.if_withdrawn);
                Statuses::of(of_first.unwrap_or(self.if_withdrawn), self.if_withdrawn)
            }
            Failure::Device(error) => {
                self.log_device_error(errors, &error);
                Statuses::of(Status::SUCCESS, status_of_error(op, &error))
            }
            Failure::Unread(error) => {
                self.log_device_error(errors, &error);
                Statuses::of(status_of_error(&IoOp::Compare, &error), Status::FAILED_FUSED)
            }
            Failure::Copy { is_read, error, range } => {
                self.log_device_error(errors, &error);
                let status = status_of_error(if is_read { &IoOp::Read } else { &IoOp::Write }, &error);
                Statuses { dword: range, ..Statuses::of(Status::SUCCESS, status) }
            }
        }
    }

    fn log_device_error(&self, errors: &mut DeviceErrors, error: &io::Error) {
        errors.count += 1;
        // A device that fails fails often: the log gets the first, the second, the fourth …
        if errors.count.is_power_of_two() {
            let (op, lba, nsid) = (&self.command.op, self.command.lba.0, self.command.nsid);
            let (home, device, count) = (&errors.home, self.device, errors.count);
            warn!(%home, device, ?op, lba, nsid, count, %error, "the device failed an IO");
        }
    }
}

/// The device's answer in the words of NVMe.
fn status_of_error(op: &IoOp, error: &io::Error) -> Status {
    if is_gone(error) {
        return Status::INTERNAL_ERROR.do_not_retry();
    }
    if error.kind() == device::PATH_LOST {
        return Status::INTERNAL_PATH_ERROR;
    }
    if let Some(CommandStatus { code_type, code, do_not_retry }) = CommandStatus::of(error) {
        return match code_type {
            // The path between the device and this machine's driver is no host's path.
            SCT_PATH => Status::INTERNAL_ERROR,
            sct => Status { sct, sc: code, dnr: do_not_retry },
        };
    }
    if error.kind() == io::ErrorKind::TimedOut {
        // Its driver gave it up; the device may have done it or not.
        return Status::INTERNAL_ERROR;
    }
    match (op, error.kind()) {
        (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Status::CAPACITY_EXCEEDED,
        (IoOp::Read | IoOp::Compare | IoOp::Verify, _) => Status::UNRECOVERED_READ_ERROR,
        // Of a pair or a copy that is left to be told: the write.
        (
            IoOp::Write
            | IoOp::CompareAndWrite
            | IoOp::Copy(_)
            | IoOp::WriteZeroes { .. }
            | IoOp::Deallocate(_)
            | IoOp::Flush,
            _,
        ) => Status::WRITE_FAULT,
    }
}

/// Whether the device, or the thread that could ask it, has failed: then no block is at fault, and a retry is useless.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
        || error.kind() == io::ErrorKind::BrokenPipe
}
