//! ICReq and ICResp: the handshake, one PDU in each direction.
//!
//! They negotiate the digests, the alignment of data that each receiver needs (HPDA, CPDA: dwords, 0-based),
//! the outstanding R2Ts per command, and the longest H2CData.

use super::common::{CommonHeader, Header, PduType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The only defined PDU format version.
pub const PDU_FORMAT_VERSION: u16 = 0;
/// Largest HPDA or CPDA: 128-byte alignment.
pub const ALIGNMENT_FIELD_MAX: u8 = 31;
/// Smallest MAXH2CDATA that a controller may send.
pub const MAXH2CDATA_MIN: u32 = 4096;

/// Byte offset of PFV, for the FEI of a TermReq.
pub const OFFSET_PFV: u32 = 8;
/// Byte offset of HPDA in ICReq, CPDA in ICResp.
pub const OFFSET_ALIGNMENT: u32 = 10;
/// Byte offset of DGST.
pub const OFFSET_DGST: u32 = 11;
/// Byte offset of MAXH2CDATA in ICResp.
pub const OFFSET_MAXH2CDATA: u32 = 12;

/// Alignment in bytes that an HPDA or CPDA field requests.
pub fn alignment_from_wire(field: u8) -> u8 {
    debug_assert!(field <= ALIGNMENT_FIELD_MAX, "alignment field {field} out of range");
    (field + 1) * 4
}

/// Initialize connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcReq {
    common: CommonHeader,
    /// PDU format version.
    pub pfv: U16,
    /// HPDA: alignment of data in PDUs to the host.
    pub hpda: u8,
    /// Digests requested.
    pub dgst: u8,
    /// Outstanding R2Ts per command, 0-based.
    pub maxr2t: U32,
    reserved: [u8; 112],
}

impl IcReq {
    /// A request with these fields.
    pub fn new(hpda: u8, dgst: u8, maxr2t: u32) -> Self {
        IcReq {
            common: CommonHeader::default(),
            pfv: PDU_FORMAT_VERSION.into(),
            hpda,
            dgst,
            maxr2t: maxr2t.into(),
            reserved: [0; 112],
        }
    }
}

impl Header for IcReq {
    const TYPE: PduType = PduType::IcReq;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}

/// Initialize connection response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcResp {
    common: CommonHeader,
    /// PDU format version.
    pub pfv: U16,
    /// CPDA: alignment of data in PDUs to the controller.
    pub cpda: u8,
    /// Digests granted.
    pub dgst: u8,
    /// Longest data of one H2CData PDU, in bytes.
    pub maxh2cdata: U32,
    reserved: [u8; 112],
}

impl IcResp {
    /// A response with these fields.
    pub fn new(cpda: u8, dgst: u8, maxh2cdata: u32) -> Self {
        IcResp {
            common: CommonHeader::default(),
            pfv: PDU_FORMAT_VERSION.into(),
            cpda,
            dgst,
            maxh2cdata: maxh2cdata.into(),
            reserved: [0; 112],
        }
    }
}

impl Header for IcResp {
    const TYPE: PduType = PduType::IcResp;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}
