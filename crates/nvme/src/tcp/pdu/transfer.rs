//! R2T, H2CData and C2HData: data outside capsules.
//!
//!   write   controller --R2T(tag, offset, length)--> host --H2CData(tag) ... H2CData(tag, LAST)--> controller
//!   read    controller --C2HData ... C2HData(LAST[, SUCCESS])--> host
//!
//! The controller chooses the transfer tag, the host the command identifier. H2CData carries both.

use super::common::{CommonHeader, Header, PduType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the command identifier in all three, for the FEI of a TermReq.
pub const OFFSET_CCCID: u32 = 8;
/// Byte offset of the transfer tag in R2T and H2CData.
pub const OFFSET_TTAG: u32 = 10;
/// Byte offset of the data offset (DATAO, R2TO) in all three.
pub const OFFSET_OFFSET: u32 = 12;
/// Byte offset of the data length (DATAL, R2TL) in all three.
pub const OFFSET_LENGTH: u32 = 16;

/// Host to controller data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct H2cData {
    common: CommonHeader,
    /// Command identifier.
    pub cccid: U16,
    /// Transfer tag, from the R2T.
    pub ttag: U16,
    /// Offset of this data in the command's data, in bytes.
    pub datao: U32,
    /// Bytes of data.
    pub datal: U32,
    reserved: [u8; 4],
}

impl H2cData {
    /// Data of command `cid` for transfer `ttag`.
    pub fn new(cid: u16, ttag: u16, offset: u32, length: u32) -> Self {
        H2cData {
            common: CommonHeader::default(),
            cccid: cid.into(),
            ttag: ttag.into(),
            datao: offset.into(),
            datal: length.into(),
            reserved: [0; 4],
        }
    }
}

impl Header for H2cData {
    const TYPE: PduType = PduType::H2cData;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}

/// Controller to host data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct C2hData {
    common: CommonHeader,
    /// Command identifier.
    pub cccid: U16,
    reserved_tag: [u8; 2],
    /// Offset of this data in the command's data, in bytes.
    pub datao: U32,
    /// Bytes of data.
    pub datal: U32,
    reserved: [u8; 4],
}

impl C2hData {
    /// Data of command `cid`.
    pub fn new(cid: u16, offset: u32, length: u32) -> Self {
        C2hData {
            common: CommonHeader::default(),
            cccid: cid.into(),
            reserved_tag: [0; 2],
            datao: offset.into(),
            datal: length.into(),
            reserved: [0; 4],
        }
    }
}

impl Header for C2hData {
    const TYPE: PduType = PduType::C2hData;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}

/// Ready to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct R2t {
    common: CommonHeader,
    /// Command identifier.
    pub cccid: U16,
    /// Transfer tag; H2CData returns it.
    pub ttag: U16,
    /// Offset of the requested data in the command's data, in bytes.
    pub r2to: U32,
    /// Bytes requested.
    pub r2tl: U32,
    reserved: [u8; 4],
}

impl R2t {
    /// Requests data of command `cid` with transfer tag `ttag`.
    pub fn new(cid: u16, ttag: u16, offset: u32, length: u32) -> Self {
        R2t {
            common: CommonHeader::default(),
            cccid: cid.into(),
            ttag: ttag.into(),
            r2to: offset.into(),
            r2tl: length.into(),
            reserved: [0; 4],
        }
    }
}

impl Header for R2t {
    const TYPE: PduType = PduType::R2t;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}
