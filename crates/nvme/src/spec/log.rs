//! Log pages: their numbers, the Get Log Page command, and the pages of fixed layout.
//!
//! Pages of variable length have their own files: `ana`, `discovery`.
//!
//! Holds: a request survives its dwords (`a_request_survives_its_dwords`), layouts have their sizes (assertions).
//! NVM Express Base Specification: "Get Log Page command" and the log pages after it.

use super::Sqe;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Supported Log Pages.
pub const SUPPORTED_PAGES: u8 = 0x00;
/// Error Information.
pub const ERROR_INFORMATION: u8 = 0x01;
/// SMART / Health Information.
pub const HEALTH: u8 = 0x02;
/// Firmware Slot Information.
pub const FIRMWARE_SLOTS: u8 = 0x03;
/// Changed Namespace List.
pub const CHANGED_NAMESPACES: u8 = 0x04;
/// Commands Supported and Effects.
pub const COMMANDS_SUPPORTED: u8 = 0x05;
/// Asymmetric Namespace Access.
pub const ANA: u8 = 0x0c;
/// Feature Identifiers Supported and Effects.
pub const FEATURES_SUPPORTED: u8 = 0x12;
/// Discovery.
pub const DISCOVERY: u8 = 0x70;
/// Reservation Notification.
pub const RESERVATION_NOTIFICATION: u8 = 0x80;

/// Bytes of the Supported Log Pages and Feature Identifiers pages: a dword for each of 256 identifiers.
pub const SUPPORTED_TABLE_SIZE: usize = 1024;
/// Bit 0 of a dword in those tables and in Commands Supported: supported.
pub const SUPPORTED: u32 = 1;
/// Commands Supported: the command may change the contents of logical blocks.
pub const EFFECT_CONTENT_CHANGES: u32 = 1 << 1;
/// Bytes of the Commands Supported and Effects page.
pub const COMMANDS_SUPPORTED_SIZE: usize = 4096;
/// Where the dwords of IO commands start in that page; those of admin commands start at 0.
pub const COMMANDS_SUPPORTED_IO: usize = 1024;
/// Most identifiers in the Changed Namespace List. If more changed, the first entry is FFFFFFFFh.
pub const CHANGED_NAMESPACES_MAX: usize = 1024;

/// The fields of a Get Log Page command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// LID.
    pub page: u8,
    /// LSP: its meaning depends on the page.
    pub specific: u8,
    /// RAE: reading clears neither the event nor the page's list of changes.
    pub retain: bool,
    /// Length in bytes, a multiple of 4. At most 16 GiB, because NUMD has 32 bits.
    pub length: u64,
    /// LPO in bytes.
    pub offset: u64,
    /// OT: the offset counts entries instead of bytes.
    pub offset_is_index: bool,
    /// CSI.
    pub command_set: u8,
}

impl LogRequest {
    const RETAIN: u32 = 1 << 15;
    const OFFSET_IS_INDEX: u32 = 1 << 23;

    /// `length` bytes at `offset` of `page`.
    pub const fn read(page: u8, offset: u64, length: u64) -> LogRequest {
        LogRequest {
            page,
            specific: 0,
            retain: false,
            length,
            offset,
            offset_is_index: false,
            command_set: 0,
        }
    }

    /// From dwords 10 to 14.
    pub fn parse(sqe: &Sqe) -> LogRequest {
        let dwords = u64::from(sqe.cdw11() & 0xffff) << 16 | u64::from(sqe.cdw10() >> 16);
        LogRequest {
            page: sqe.cdw10() as u8,
            specific: (sqe.cdw10() >> 8 & 0x7f) as u8,
            retain: sqe.cdw10() & LogRequest::RETAIN != 0,
            length: (dwords + 1) * 4,
            offset: u64::from(sqe.cdw13()) << 32 | u64::from(sqe.cdw12()),
            offset_is_index: sqe.cdw14() & LogRequest::OFFSET_IS_INDEX != 0,
            command_set: (sqe.cdw14() >> 24) as u8,
        }
    }

    /// As a command on namespace `nsid`.
    ///
    /// # Panics
    /// If the length is not a positive multiple of 4. That is a bug of the caller.
    pub fn to_sqe(self, nsid: u32) -> Sqe {
        assert!(
            self.length >= 4 && self.length.is_multiple_of(4),
            "log length {} is not a positive multiple of 4",
            self.length
        );
        let dwords = self.length / 4 - 1;
        let retain = if self.retain { LogRequest::RETAIN } else { 0 };
        let index = if self.offset_is_index { LogRequest::OFFSET_IS_INDEX } else { 0 };
        Sqe::new(super::opcode::admin::GET_LOG_PAGE).with_nsid(nsid).with_cdw10_15([
            (dwords as u32 & 0xffff) << 16 | retain | u32::from(self.specific) << 8 | u32::from(self.page),
            (dwords >> 16) as u32,
            self.offset as u32,
            (self.offset >> 32) as u32,
            index | u32::from(self.command_set) << 24,
            0,
        ])
    }
}

/// An entry of the Error Information page.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ErrorEntry {
    /// Counts up from 1; 0 marks an unused entry.
    pub error_count: U64,
    /// The queue.
    pub queue_id: U16,
    /// The command.
    pub command_id: U16,
    /// The status field of the completion.
    pub status: U16,
    /// Byte and bit of the wrong parameter; FFFFh if there is none in particular.
    pub parameter_error_location: U16,
    /// First block affected.
    pub lba: U64,
    /// The namespace.
    pub nsid: U32,
    /// Vendor specific log page; none here.
    pub vendor_specific_page: u8,
    /// Transport type.
    pub transport_type: u8,
    /// Reserved.
    pub reserved_30: [u8; 2],
    /// Command specific information; unused here.
    pub command_specific: U64,
    /// Transport specific information; unused here.
    pub transport_specific: U16,
    /// Reserved.
    pub reserved_42: [u8; 22],
}

const _: () = assert!(size_of::<ErrorEntry>() == 64);

impl ErrorEntry {
    /// Parameter error location: none in particular.
    pub const NO_LOCATION: u16 = 0xffff;
}

/// A 128-bit counter.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Counter128([u8; 16]);

impl From<u64> for Counter128 {
    fn from(count: u64) -> Self {
        Counter128(u128::from(count).to_le_bytes())
    }
}

impl Counter128 {
    /// The count.
    pub fn get(self) -> u128 {
        u128::from_le_bytes(self.0)
    }
}

/// The SMART / Health Information page.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the specification's field names")]
pub struct HealthPage {
    pub critical_warning: u8,
    /// Kelvin.
    pub composite_temperature: U16,
    pub available_spare: u8,
    pub available_spare_threshold: u8,
    pub percentage_used: u8,
    pub endurance_group_critical_warning: u8,
    pub reserved_7: [u8; 25],
    /// In units of 1,000 × 512 bytes, rounded up.
    pub data_units_read: Counter128,
    /// In units of 1,000 × 512 bytes, rounded up.
    pub data_units_written: Counter128,
    pub host_read_commands: Counter128,
    pub host_write_commands: Counter128,
    /// Minutes.
    pub controller_busy_time: Counter128,
    pub power_cycles: Counter128,
    pub power_on_hours: Counter128,
    pub unsafe_shutdowns: Counter128,
    pub media_errors: Counter128,
    pub error_log_entries: Counter128,
    pub reserved_192: [u8; 320],
}

const _: () = assert!(size_of::<HealthPage>() == 512);

/// The Firmware Slot Information page.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FirmwareSlots {
    /// AFI: the active slot.
    pub active: u8,
    /// Reserved.
    pub reserved_1: [u8; 7],
    /// The revision in each slot, ASCII.
    pub revisions: [[u8; 8]; 7],
    /// Reserved.
    pub reserved_64: [u8; 448],
}

const _: () = assert!(size_of::<FirmwareSlots>() == 512);

/// The Reservation Notification page.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReservationNotificationPage {
    /// Counts up from 1. 0 marks an empty page and is skipped.
    pub count: U64,
    /// The kind of notification.
    pub kind: u8,
    /// Further pages that wait to be read.
    pub available: u8,
    /// Reserved.
    pub reserved_10: [u8; 2],
    /// The namespace.
    pub nsid: U32,
    /// Reserved.
    pub reserved_16: [u8; 48],
}

const _: () = assert!(size_of::<ReservationNotificationPage>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_dwords() {
        let request = LogRequest {
            page: ANA,
            specific: 1,
            retain: true,
            length: 1 << 20,
            offset: 0x1_0000_0004,
            offset_is_index: false,
            command_set: 2,
        };
        assert_eq!(LogRequest::parse(&request.to_sqe(0)), request);
        assert_eq!(request.to_sqe(9).nsid(), 9);
        let longest = LogRequest::read(HEALTH, 0, 16 << 30);
        assert_eq!(LogRequest::parse(&longest.to_sqe(0)).length, 16 << 30);
    }

    #[test]
    fn a_health_page_has_its_counters_where_hosts_look() {
        let mut page = <HealthPage as zerocopy::FromZeros>::new_zeroed();
        page.data_units_read = 7.into();
        page.error_log_entries = 9.into();
        assert_eq!((page.as_bytes()[32], page.as_bytes()[176]), (7, 9));
        assert_eq!(page.data_units_read.get(), 7);
    }
}
