//! Dataset Management and the access hints of Read and Write.
//!
//! Holds: a range survives its 16 bytes (`a_range_survives_its_bytes`).
//! NVM Command Set Specification: "Dataset Management command", "Read command" (dataset management field).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most ranges in one command: NR has eight bits and is zero-based.
pub const RANGES_MAX: usize = 256;
/// CDW11: deallocate the ranges. The other attributes are hints.
pub const DEALLOCATE: u32 = 1 << 2;

/// A range of blocks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct DatasetRange {
    /// Hints.
    pub context: U32,
    /// Length in blocks.
    pub blocks: U32,
    /// First block.
    pub lba: U64,
}

const _: () = assert!(size_of::<DatasetRange>() == 16);

/// CDW13 bits 5:4 of Read and Write: the latency that the host needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessLatency {
    /// As soon as possible.
    Low,
    /// The host gives no hint.
    #[default]
    Unspecified,
    /// Typical latency is acceptable.
    Normal,
    /// Long latency is acceptable.
    Idle,
}

impl AccessLatency {
    /// From CDW13.
    pub const fn from_cdw13(cdw13: u32) -> AccessLatency {
        match cdw13 >> 4 & 0x3 {
            0 => AccessLatency::Unspecified,
            1 => AccessLatency::Idle,
            2 => AccessLatency::Normal,
            _ => AccessLatency::Low,
        }
    }

    /// As CDW13.
    pub const fn to_cdw13(self) -> u32 {
        let coded = match self {
            AccessLatency::Unspecified => 0,
            AccessLatency::Idle => 1,
            AccessLatency::Normal => 2,
            AccessLatency::Low => 3,
        };
        coded << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_survives_its_bytes() {
        let range = DatasetRange { context: 0.into(), blocks: 8.into(), lba: 64.into() };
        assert_eq!(range.as_bytes()[4], 8);
        assert_eq!(range.as_bytes()[8], 64);
        assert_eq!(DatasetRange::read_from_bytes(range.as_bytes()).expect("16 bytes"), range);
    }

    #[test]
    fn latency_survives_its_dword() {
        for latency in
            [AccessLatency::Low, AccessLatency::Unspecified, AccessLatency::Normal, AccessLatency::Idle]
        {
            assert_eq!(AccessLatency::from_cdw13(latency.to_cdw13()), latency);
        }
        assert_eq!(AccessLatency::from_cdw13(0x07), AccessLatency::Unspecified, "read-ahead of a Linux host");
    }
}
