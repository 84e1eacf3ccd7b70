//! Identify Controller: 4096 bytes that describe a controller and its capabilities.
//!
//! Holds: fields that hosts depend on lie where the specification has them (`fields_lie_where_hosts_look`).
//! NVM Express Base Specification: "Identify Controller data structure" (bytes 1792 to 2047 are for fabrics).
//! NVM Command Set Specification: "I/O Command Set specific Identify Controller".

use super::nqn::NQN_FIELD_SIZE;
use core::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// CNS 01h.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the specification's field names")]
pub struct IdentifyController {
    pub vid: U16,
    pub ssvid: U16,
    /// Serial number, ASCII padded with spaces.
    pub sn: [u8; 20],
    /// Model number, ASCII padded with spaces.
    pub mn: [u8; 40],
    /// Firmware revision, ASCII padded with spaces.
    pub fr: [u8; 8],
    pub rab: u8,
    pub ieee: [u8; 3],
    pub cmic: u8,
    /// Longest transfer: 4 KiB × 2^MDTS; 0 is no limit.
    pub mdts: u8,
    pub cntlid: U16,
    pub ver: U32,
    pub rtd3r: U32,
    pub rtd3e: U32,
    pub oaes: U32,
    pub ctratt: U32,
    pub reserved_100: [u8; 11],
    pub cntrltype: u8,
    pub fguid: [u8; 16],
    pub crdt: [U16; 3],
    pub reserved_134: [u8; 122],
    pub oacs: U16,
    pub acl: u8,
    pub aerl: u8,
    pub frmw: u8,
    pub lpa: u8,
    pub elpe: u8,
    pub npss: u8,
    pub avscc: u8,
    pub apsta: u8,
    pub wctemp: U16,
    pub cctemp: U16,
    pub mtfa: U16,
    pub hmpre: U32,
    pub hmmin: U32,
    pub tnvmcap: [u8; 16],
    pub unvmcap: [u8; 16],
    pub rpmbs: U32,
    pub edstt: U16,
    pub dsto: u8,
    pub fwug: u8,
    /// Keep-alive granularity in units of 100 ms; 0 means that keep-alive is not supported.
    pub kas: U16,
    pub reserved_322: [u8; 20],
    pub anatt: u8,
    pub anacap: u8,
    pub anagrpmax: U32,
    pub nanagrpid: U32,
    pub reserved_352: [u8; 34],
    /// After the controller loses a host, the longest time in ms until it has ended all commands of that
    /// host.
    pub cqt: U16,
    pub reserved_388: [u8; 124],
    pub sqes: u8,
    pub cqes: u8,
    pub maxcmd: U16,
    pub nn: U32,
    pub oncs: U16,
    pub fuses: U16,
    pub fna: u8,
    pub vwc: u8,
    pub awun: U16,
    pub awupf: U16,
    pub icsvscc: u8,
    pub nwpc: u8,
    pub acwu: U16,
    pub cdfs: U16,
    pub sgls: U32,
    pub mnan: U32,
    pub reserved_544: [u8; 224],
    pub subnqn: [u8; NQN_FIELD_SIZE],
    pub reserved_1024: [u8; 768],
    /// Command capsule size of an IO queue, in units of 16 bytes: 4 for the command, the rest for in-capsule
    /// data.
    pub ioccsz: U32,
    /// Response capsule size of an IO queue, in units of 16 bytes.
    pub iorcsz: U32,
    pub icdoff: U16,
    pub fcatt: u8,
    pub msdbd: u8,
    pub ofcs: U16,
    pub dctype: u8,
    pub reserved_1807: [u8; 241],
    pub power_states: [[u8; 32]; 32],
    pub vendor_specific: [u8; 1024],
}

const _: () = assert!(size_of::<IdentifyController>() == super::identify::IDENTIFY_SIZE);
const _: () = assert!(offset_of!(IdentifyController, oacs) == 256);
const _: () = assert!(offset_of!(IdentifyController, kas) == 320);
const _: () = assert!(offset_of!(IdentifyController, anatt) == 342);
const _: () = assert!(offset_of!(IdentifyController, cqt) == 386);
const _: () = assert!(offset_of!(IdentifyController, sqes) == 512);
const _: () = assert!(offset_of!(IdentifyController, sgls) == 536);
const _: () = assert!(offset_of!(IdentifyController, subnqn) == 768);
const _: () = assert!(offset_of!(IdentifyController, ioccsz) == 1792);
const _: () = assert!(offset_of!(IdentifyController, power_states) == 2048);

/// CMIC: the subsystem may have more than one of these.
pub mod cmic {
    /// Ports.
    pub const PORTS: u8 = 1;
    /// Controllers.
    pub const CONTROLLERS: u8 = 1 << 1;
    /// Asymmetric namespace access is reported.
    pub const ANA: u8 = 1 << 3;
}

/// CTRATT.
pub mod ctratt {
    /// 128-bit host identifiers.
    pub const HOST_ID_128: u32 = 1;
    /// Any command counts as keep-alive traffic.
    pub const TRAFFIC_BASED_KEEP_ALIVE: u32 = 1 << 6;
}

/// CNTRLTYPE.
pub mod controller_type {
    /// IO controller.
    pub const IO: u8 = 1;
    /// Discovery controller.
    pub const DISCOVERY: u8 = 2;
}

/// LPA.
pub mod lpa {
    /// The Commands Supported and Effects log page.
    pub const COMMANDS_SUPPORTED: u8 = 1 << 1;
    /// Log page offsets, and lengths of more than 16 bits.
    pub const EXTENDED: u8 = 1 << 2;
    /// The Supported Log Pages and Feature Identifiers log pages.
    pub const SUPPORTED_PAGES: u8 = 1 << 5;
}

/// ONCS.
pub mod oncs {
    /// Compare.
    pub const COMPARE: u16 = 1;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// Select in Get Features, Save in Set Features.
    pub const SAVE_AND_SELECT: u16 = 1 << 4;
    /// Reservations.
    pub const RESERVATIONS: u16 = 1 << 5;
    /// Timestamp.
    pub const TIMESTAMP: u16 = 1 << 6;
    /// Verify.
    pub const VERIFY: u16 = 1 << 7;
    /// Copy.
    pub const COPY: u16 = 1 << 8;
}

/// FUSES: Compare and Write.
pub const FUSES_COMPARE_AND_WRITE: u16 = 1;

/// CDFS: Copy descriptor format 0.
pub const CDFS_FORMAT_0: u16 = 1;

/// VWC.
pub mod vwc {
    /// There is a volatile write cache.
    pub const PRESENT: u8 = 1;
    /// Flush with NSID FFFFFFFFh is not supported (bits 2:1 = 10b).
    pub const FLUSH_ONE_NAMESPACE: u8 = 2 << 1;
}

/// ANACAP: the access states that a namespace may report, and whether its group may change.
pub mod anacap {
    /// Every state; ANAGRPID does not change while the namespace is attached.
    pub const ALL_STATES: u8 = 0x5f;
}

/// SGLS: SGLs are supported without alignment requirement (bits 1:0), as offsets into the capsule (bit 20)
/// and as transport data blocks (bit 21).
pub const SGLS_TCP: u32 = 1 | 1 << 20 | 1 << 21;
/// SGLS over RDMA: SGLs are supported without alignment requirement, and as keyed data blocks (bit 2).
pub const SGLS_RDMA: u32 = 1 | 1 << 2;

/// CNS 06h for the NVM command set. A limit of 0 means no limit other than that of the command itself.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the specification's field names")]
pub struct IdentifyNvmController {
    /// Longest Verify, as a power of two of 4 KiB (as in MDTS).
    pub vsl: u8,
    /// Longest Write Zeroes, in the same unit.
    pub wzsl: u8,
    /// Longest Write Uncorrectable, in the same unit.
    pub wusl: u8,
    /// Most ranges in one Dataset Management command.
    pub dmrl: u8,
    /// Most blocks in one range of a Dataset Management command.
    pub dmrsl: U32,
    /// Most blocks in one Dataset Management command.
    pub dmsl: U64,
    pub reserved: [u8; 4080],
}

const _: () = assert!(size_of::<IdentifyNvmController>() == super::identify::IDENTIFY_SIZE);

/// `text` as a fixed-length field: padded with spaces, truncated if too long.
pub fn padded<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut field = [b' '; LENGTH];
    let printable = text.bytes().map(|byte| if (0x20..0x7f).contains(&byte) { byte } else { b'?' });
    for (into, byte) in field.iter_mut().zip(printable) {
        *into = byte;
    }
    field
}

/// The text in a field padded with spaces.
pub fn unpadded(field: &[u8]) -> &str {
    core::str::from_utf8(field).unwrap_or_default().trim_end_matches([' ', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn fields_lie_where_hosts_look() {
        let mut identify = IdentifyController::new_zeroed();
        identify.mdts = 8;
        identify.cntlid = 0x1234.into();
        identify.maxcmd = 0x80.into();
        identify.cntrltype = controller_type::IO;
        identify.msdbd = 1;
        let bytes = identify.as_bytes();
        assert_eq!((bytes[77], bytes[78], bytes[79], bytes[111]), (8, 0x34, 0x12, 1));
        assert_eq!((bytes[514], bytes[1803]), (0x80, 1));
        assert_eq!(IdentifyController::read_from_bytes(bytes).expect("4096 bytes"), identify);
    }

    #[test]
    fn text_fields_are_padded_with_spaces() {
        assert_eq!(&padded::<4>("ab"), b"ab  ");
        assert_eq!(&padded::<4>("abcdef"), b"abcd");
        assert_eq!(&padded::<4>("é"), b"??  ");
        assert_eq!(unpadded(b"ab  "), "ab");
    }
}
