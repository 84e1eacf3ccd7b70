//! Identify Namespace: the size of a namespace, its block format, and its capabilities.
//!
//! Holds: fields lie where the specification has them (`fields_lie_where_hosts_look`).
//! NVM Command Set Specification: "Identify Namespace data structure"; Base Specification: "I/O Command Set Independent
//! Identify Namespace data structure".

use super::identify::IDENTIFY_SIZE;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One block format.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LbaFormat {
    /// Metadata bytes per block.
    pub metadata_size: U16,
    /// Bytes per block, as a power of two.
    pub data_size_log2: u8,
    /// Relative performance; 0 is best.
    pub relative_performance: u8,
}

/// CNS 00h.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the specification's field names")]
pub struct IdentifyNamespace {
    /// Size in blocks.
    pub nsze: U64,
    /// Capacity in blocks.
    pub ncap: U64,
    /// Blocks in use.
    pub nuse: U64,
    pub nsfeat: u8,
    pub nlbaf: u8,
    pub flbas: u8,
    pub mc: u8,
    pub dpc: u8,
    pub dps: u8,
    pub nmic: u8,
    pub rescap: u8,
    pub fpi: u8,
    pub dlfeat: u8,
    pub nawun: U16,
    pub nawupf: U16,
    pub nacwu: U16,
    pub nabsn: U16,
    pub nabo: U16,
    pub nabspf: U16,
    pub noiob: U16,
    pub nvmcap: [u8; 16],
    pub npwg: U16,
    pub npwa: U16,
    pub npdg: U16,
    pub npda: U16,
    pub nows: U16,
    pub mssrl: U16,
    pub mcl: U32,
    pub msrc: u8,
    pub reserved_81: [u8; 11],
    pub anagrpid: U32,
    pub reserved_96: [u8; 3],
    pub nsattr: u8,
    pub nvmsetid: U16,
    pub endgid: U16,
    pub nguid: [u8; 16],
    pub eui64: [u8; 8],
    pub lbaf: [LbaFormat; 64],
    pub vendor_specific: [u8; 3712],
}

const _: () = assert!(size_of::<IdentifyNamespace>() == IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyNamespace, npwg) == 64);
const _: () = assert!(offset_of!(IdentifyNamespace, anagrpid) == 92);
const _: () = assert!(offset_of!(IdentifyNamespace, nguid) == 104);
const _: () = assert!(offset_of!(IdentifyNamespace, lbaf) == 128);

impl IdentifyNamespace {
    /// Block size in bytes of the format in use; `None` if it is below 512 or too large.
    pub fn block_size(&self) -> Option<u32> {
        let format = usize::from(self.flbas & 0x0f) | usize::from(self.flbas >> 5 & 0x3) << 4;
        1u32.checked_shl(u32::from(self.lbaf[format].data_size_log2)).filter(|&size| size >= 512)
    }
}

/// CNS 08h.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the specification's field names")]
pub struct IdentifyNamespaceIndependent {
    pub nsfeat: u8,
    pub nmic: u8,
    pub rescap: u8,
    pub fpi: u8,
    pub anagrpid: U32,
    pub nsattr: u8,
    pub reserved_9: u8,
    pub nvmsetid: U16,
    pub endgid: U16,
    pub nstat: u8,
    pub reserved_15: [u8; 4081],
}

const _: () = assert!(size_of::<IdentifyNamespaceIndependent>() == IDENTIFY_SIZE);

/// NSFEAT: thin provisioning; NUSE counts the allocated blocks only (THINP).
pub const NSFEAT_THIN_PROVISIONING: u8 = 1;
/// NSFEAT: NPWG, NPWA, NPDG, NPDA and NOWS are defined.
pub const NSFEAT_OPTIMAL_PERFORMANCE: u8 = 1 << 4;
/// NMIC: more than one controller may attach the namespace.
pub const NMIC_SHARED: u8 = 1;
/// RESCAP: all reservation types, and Ignore Existing Key as defined since version 1.3.
pub const RESCAP_ALL_TYPES: u8 = 0xfe;
/// RESCAP: reservations can persist through power loss (PTPL).
pub const RESCAP_PERSISTENCE: u8 = 1;
/// DLFEAT: deallocated blocks read as zeroes.
pub const DLFEAT_READS_ZEROES: u8 = 1;
/// DLFEAT: Write Zeroes can deallocate.
pub const DLFEAT_WRITE_ZEROES_DEALLOCATES: u8 = 1 << 3;
/// NSATTR: the namespace is write protected.
pub const NSATTR_WRITE_PROTECTED: u8 = 1;
/// NSTAT: ready.
pub const NSTAT_READY: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn fields_lie_where_hosts_look() {
        let mut identify = IdentifyNamespace::new_zeroed();
        identify.nsze = 0x1122.into();
        identify.nmic = NMIC_SHARED;
        identify.rescap = RESCAP_ALL_TYPES;
        identify.lbaf[0].data_size_log2 = 12;
        let bytes = identify.as_bytes();
        assert_eq!((bytes[0], bytes[1], bytes[30], bytes[31], bytes[130]), (0x22, 0x11, 1, 0xfe, 12));
        assert_eq!(IdentifyNamespace::read_from_bytes(bytes).expect("4096 bytes"), identify);
        assert_eq!(identify.block_size(), Some(4096));
        identify.lbaf[0].data_size_log2 = 99;
        assert_eq!(identify.block_size(), None);
    }
}
