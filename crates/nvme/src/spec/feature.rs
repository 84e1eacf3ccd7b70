//! Features: settings of a controller that a host reads and changes.
//!
//! NVM Express Base Specification: "Get Features command", "Set Features command"; NVM Command Set Specification likewise.

/// Arbitration.
pub const ARBITRATION: u8 = 0x01;
/// Power Management.
pub const POWER_MANAGEMENT: u8 = 0x02;
/// Temperature Threshold.
pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
/// Error Recovery.
pub const ERROR_RECOVERY: u8 = 0x05;
/// Volatile Write Cache.
pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
/// Number of Queues.
pub const NUMBER_OF_QUEUES: u8 = 0x07;
/// Write Atomicity Normal.
pub const WRITE_ATOMICITY: u8 = 0x0a;
/// Asynchronous Event Configuration.
pub const ASYNC_EVENT_CONFIGURATION: u8 = 0x0b;
/// Timestamp: 8 bytes of data.
pub const TIMESTAMP: u8 = 0x0e;
/// Keep Alive Timer.
pub const KEEP_ALIVE_TIMER: u8 = 0x0f;
/// Host Behavior Support: 512 bytes of data.
pub const HOST_BEHAVIOR: u8 = 0x16;
/// Host Identifier: 16 bytes of data.
pub const HOST_IDENTIFIER: u8 = 0x81;
/// Reservation Notification Mask, of a namespace.
pub const RESERVATION_NOTIFICATION_MASK: u8 = 0x82;
/// Reservation Persistence, of a namespace.
pub const RESERVATION_PERSISTENCE: u8 = 0x83;
/// Vendor specific: credits in dword 0 and busy periods in dword 1 of IO completions (CDW11 bit 0).
pub const CREDITS: u8 = 0xc0;

/// Set Features CDW10 bit 31: keep the value across restarts.
pub const SAVE: u32 = 1 << 31;
/// Feature 06h CDW11 bit 0: the write cache is on.
pub const WRITE_CACHE_ENABLED: u32 = 1;
/// Feature C0h CDW11 bit 0: this host wants credits.
pub const CREDITS_ENABLED: u32 = 1;
/// Feature 81h CDW11 bit 0: the 128-bit host identifier.
pub const EXTENDED_HOST_ID: u32 = 1;

/// Get Features CDW10 bits 10:8: which value to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// The value in effect.
    Current,
    /// The default value.
    Default,
    /// The saved value, or the default if none was saved.
    Saved,
    /// The capabilities of the feature: see `supported`.
    Supported,
}

impl Select {
    /// From CDW10; `None` for a reserved value.
    pub const fn from_cdw10(cdw10: u32) -> Option<Select> {
        match cdw10 >> 8 & 0x7 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Supported),
            _ => None,
        }
    }
}

/// The answer to `Select::Supported`.
pub mod supported {
    /// Each namespace has its own value.
    pub const NAMESPACE_SPECIFIC: u32 = 1 << 1;
    /// The value can be changed.
    pub const CHANGEABLE: u32 = 1 << 2;
}

/// Feature 07h: numbers of submission queues (low half) and completion queues (high half). Zero-based on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// Submission queues; never zero.
    pub submission: u32,
    /// Completion queues; never zero.
    pub completion: u32,
}

impl QueueCounts {
    /// The same number of each.
    pub const fn both(count: u16) -> QueueCounts {
        QueueCounts { submission: count as u32, completion: count as u32 }
    }

    /// From CDW11 of the command or dword 0 of the answer.
    pub const fn from_wire(dword: u32) -> QueueCounts {
        QueueCounts { submission: (dword & 0xffff) + 1, completion: (dword >> 16) + 1 }
    }

    /// As CDW11 of the command or dword 0 of the answer.
    pub const fn to_wire(self) -> u32 {
        (self.completion - 1) << 16 | (self.submission - 1)
    }
}

/// Feature 82h: which notifications a host does not want.
pub mod notification_mask {
    /// Registration preempted.
    pub const REGISTRATION_PREEMPTED: u32 = 1 << 1;
    /// Reservation released.
    pub const RESERVATION_RELEASED: u32 = 1 << 2;
    /// Reservation preempted.
    pub const RESERVATION_PREEMPTED: u32 = 1 << 3;
    /// All defined bits.
    pub const ALL: u32 = REGISTRATION_PREEMPTED | RESERVATION_RELEASED | RESERVATION_PREEMPTED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_counts_are_zero_based_on_the_wire() {
        assert_eq!(QueueCounts::from_wire(0x7f007f), QueueCounts::both(128));
        assert_eq!(QueueCounts::both(128).to_wire(), 0x7f007f);
        assert_eq!(QueueCounts::both(1).to_wire(), 0);
    }

    #[test]
    fn reserved_selections_are_none() {
        assert_eq!(Select::from_cdw10(0x307), Some(Select::Supported));
        assert_eq!(Select::from_cdw10(0x407), None);
    }
}
