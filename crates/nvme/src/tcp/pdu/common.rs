//! The common header of all PDUs, and the PDU types.
//!
//! Eight bytes: type, flags, and three lengths. With the lengths, a receiver can find the parts of a PDU
//! without knowing its type.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// FLAGS bit 0: a header digest follows the header.
pub const FLAG_HEADER_DIGEST: u8 = 0x01;
/// FLAGS bit 1: a data digest follows the data.
pub const FLAG_DATA_DIGEST: u8 = 0x02;
/// FLAGS bit 2 of H2CData and C2HData: the last one of the transfer.
pub const FLAG_LAST: u8 = 0x04;
/// FLAGS bit 3 of C2HData: the command succeeded and no response capsule follows.
pub const FLAG_SUCCESS: u8 = 0x08;

/// Byte offset of the type, for the FEI of a TermReq.
pub const OFFSET_TYPE: u32 = 0;
/// Byte offset of FLAGS.
pub const OFFSET_FLAGS: u32 = 1;
/// Byte offset of HLEN.
pub const OFFSET_HLEN: u32 = 2;
/// Byte offset of PDO.
pub const OFFSET_PDO: u32 = 3;
/// Byte offset of PLEN.
pub const OFFSET_PLEN: u32 = 4;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Sends commands.
    Host,
    /// Executes them.
    Controller,
}

/// The PDU types of NVMe/TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PduType {
    /// Initialize connection request.
    IcReq = 0x00,
    /// Initialize connection response.
    IcResp = 0x01,
    /// Host to controller terminate connection request.
    H2cTermReq = 0x02,
    /// Controller to host terminate connection request.
    C2hTermReq = 0x03,
    /// Command capsule.
    CapsuleCmd = 0x04,
    /// Response capsule.
    CapsuleResp = 0x05,
    /// Host to controller data.
    H2cData = 0x06,
    /// Controller to host data.
    C2hData = 0x07,
    /// Ready to transfer.
    R2t = 0x09,
}

impl PduType {
    /// From the first byte of a PDU; `None` is a reserved type.
    pub fn from_wire(byte: u8) -> Option<PduType> {
        Some(match byte {
            0x00 => PduType::IcReq,
            0x01 => PduType::IcResp,
            0x02 => PduType::H2cTermReq,
            0x03 => PduType::C2hTermReq,
            0x04 => PduType::CapsuleCmd,
            0x05 => PduType::CapsuleResp,
            0x06 => PduType::H2cData,
            0x07 => PduType::C2hData,
            0x09 => PduType::R2t,
            _ => return None,
        })
    }

    /// The end that receives this type.
    pub fn receiver(self) -> End {
        match self {
            PduType::IcReq | PduType::H2cTermReq | PduType::CapsuleCmd | PduType::H2cData => End::Controller,
            PduType::IcResp
            | PduType::C2hTermReq
            | PduType::CapsuleResp
            | PduType::C2hData
            | PduType::R2t => End::Host,
        }
    }

    /// HLEN, the same for every PDU of a type.
    pub fn header_length(self) -> u8 {
        match self {
            PduType::IcReq | PduType::IcResp => 128,
            PduType::CapsuleCmd => 72,
            _ => 24,
        }
    }
}

/// The first 8 bytes of every PDU.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CommonHeader {
    /// PDU type.
    pub pdu_type: u8,
    /// Flags, their meaning depends on the type.
    pub flags: u8,
    /// Header length in bytes, without the header digest.
    pub hlen: u8,
    /// Where the data starts, in bytes from the start of the PDU.
    pub pdo: u8,
    /// Length of the whole PDU in bytes.
    pub plen: U32,
}

impl CommonHeader {
    /// Bytes on the wire.
    pub const SIZE: usize = 8;
}

/// The full header of one PDU type: a wire layout that begins with a `CommonHeader`.
pub trait Header: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// The type of PDU that begins with this header.
    const TYPE: PduType;

    /// The common header, to be filled in.
    fn common_mut(&mut self) -> &mut CommonHeader;
}
