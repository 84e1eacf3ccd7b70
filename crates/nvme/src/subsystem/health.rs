//! Statistics of a controller: counters for the health page, and the failed commands.
//!
//! Kept per controller, so that a tenant sees its own work and not that of its neighbours.
//!
//! Holds: the error log keeps the newest entries, newest first, and counts all (`the_newest_errors_are_kept`).
//! NVM Express Base Specification: "SMART / Health Information log page", "Error Information log page".

use crate::spec::log::{ErrorEntry, HealthPage};
use crate::spec::{Sqe, Status};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::{Bytes, Instant, Nanos};
use zerocopy::{FromZeros, IntoBytes};

/// A data unit is 1000 blocks of 512 bytes.
const DATA_UNIT: u64 = 1000 * 512;
/// The target does not know the spare capacity of its devices: report all of it.
const SPARE_PERCENT: u8 = 100;
/// Threshold below which hosts warn about spare capacity.
const SPARE_THRESHOLD_PERCENT: u8 = 10;
/// The temperature that is reported where that of the drive is not known: 40 °C. A namespace may lie on a file.
const TEMPERATURE_KELVIN: u16 = 313;
/// Transport type of an error entry: TCP.
const TRANSPORT_TCP: u8 = 3;

/// The failed command, for the error log.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedCommand {
    pub(super) queue_id: u16,
    pub(super) cid: u16,
    pub(super) nsid: u32,
    pub(super) lba: u64,
}

impl FailedCommand {
    pub(super) fn new(queue_id: u16, sqe: &Sqe) -> FailedCommand {
        let is_io = queue_id != 0 && !sqe.is_fabrics();
        FailedCommand {
            queue_id,
            cid: sqe.cid(),
            nsid: if sqe.is_fabrics() { 0 } else { sqe.nsid() },
            lba: if is_io { sqe.cdw10_11() } else { 0 },
        }
    }
}

/// Statistics of a controller.
#[derive(Clone, Debug)]
pub(super) struct Health {
    created: Instant,
    reads: u64,
    writes: u64,
    bytes_read: Bytes,
    bytes_written: Bytes,
    media_errors: u64,
    errors: u64,
    entries: VecDeque<ErrorEntry>,
    entries_max: usize,
}

impl Health {
    pub(super) fn new(now: Instant, entries_max: u16) -> Health {
        Health {
            created: now,
            reads: 0,
            writes: 0,
            bytes_read: Bytes::ZERO,
            bytes_written: Bytes::ZERO,
            media_errors: 0,
            errors: 0,
            entries: VecDeque::new(),
            entries_max: usize::from(entries_max),
        }
    }

    #[inline]
    pub(super) fn on_read(&mut self, bytes: Bytes) {
        self.reads += 1;
        self.bytes_read = self.bytes_read.saturating_add(bytes);
    }

    #[inline]
    pub(super) fn on_write(&mut self, bytes: Bytes) {
        self.writes += 1;
        self.bytes_written = self.bytes_written.saturating_add(bytes);
    }

    pub(super) fn on_failure(&mut self, command: FailedCommand, status: Status) {
        self.errors += 1;
        if status.is(Status::UNRECOVERED_READ_ERROR) || status.is(Status::WRITE_FAULT) {
            self.media_errors += 1;
        }
        self.entries.truncate(self.entries_max - 1);
        self.entries.push_front(ErrorEntry {
            error_count: self.errors.into(),
            queue_id: command.queue_id.into(),
            command_id: command.cid.into(),
            status: status.to_wire().into(),
            parameter_error_location: ErrorEntry::NO_LOCATION.into(),
            lba: command.lba.into(),
            nsid: command.nsid.into(),
            transport_type: TRANSPORT_TCP,
            ..ErrorEntry::default()
        });
    }

    /// The Error Information page.
    pub(super) fn error_page(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.entries_max * size_of::<ErrorEntry>());
        self.entries.iter().for_each(|entry| page.extend_from_slice(entry.as_bytes()));
        page.resize(self.entries_max * size_of::<ErrorEntry>(), 0);
        page
    }

    /// The health page. The target does not know the wear of its devices; that field stays 0. Hosts watch the
    /// temperature, and zero kelvin would be an alarm, or nonsense: it is that of a drive that is well.
    pub(super) fn page(&self, now: Instant, kelvin: Option<u16>) -> Vec<u8> {
        const HOUR: Nanos = Nanos::secs(3600);
        let page = HealthPage {
            composite_temperature: kelvin.unwrap_or(TEMPERATURE_KELVIN).into(),
            available_spare: SPARE_PERCENT,
            available_spare_threshold: SPARE_THRESHOLD_PERCENT,
            data_units_read: self.bytes_read.get().div_ceil(DATA_UNIT).into(),
            data_units_written: self.bytes_written.get().div_ceil(DATA_UNIT).into(),
            host_read_commands: self.reads.into(),
            host_write_commands: self.writes.into(),
            power_on_hours: (now.saturating_since(self.created).get() / HOUR.get()).into(),
            media_errors: self.media_errors.into(),
            error_log_entries: self.errors.into(),
            ..HealthPage::new_zeroed()
        };
        page.as_bytes().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn the_newest_errors_are_kept() {
        let mut health = Health::new(Instant::ZERO, 2);
        for cid in 1..=3 {
            let command = FailedCommand { queue_id: 1, cid, nsid: 1, lba: 9 };
            health.on_failure(command, Status::LBA_OUT_OF_RANGE);
        }
        let page = health.error_page();
        let entries = <[ErrorEntry; 2]>::read_from_bytes(&page).expect("two entries");
        assert_eq!(entries.map(|entry| (entry.error_count.get(), entry.command_id.get())), [(3, 3), (2, 2)]);
        let page = HealthPage::read_from_bytes(&health.page(Instant::ZERO, None)).expect("512 bytes");
        assert_eq!((page.error_log_entries.get(), page.media_errors.get()), (3, 0));
        assert_eq!(page.composite_temperature.get(), 313, "a plausible temperature");
    }

    #[test]
    fn data_units_are_rounded_up() {
        let mut health = Health::new(Instant::ZERO, 1);
        health.on_read(Bytes(1));
        health.on_write(Bytes(DATA_UNIT + 1));
        let page = HealthPage::read_from_bytes(&health.page(Instant(7_200_000_000_000), Some(300)))
            .expect("512 bytes");
        assert_eq!((page.data_units_read.get(), page.data_units_written.get()), (1, 2));
        assert_eq!(page.power_on_hours.get(), 2);
        assert_eq!(page.composite_temperature.get(), 300, "that of the drive");
    }
}
