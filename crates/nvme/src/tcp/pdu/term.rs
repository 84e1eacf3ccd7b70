//! H2CTermReq and C2HTermReq: the last PDU before a connection is closed; it says why.
//!
//! It carries a fatal error status (FES), information that depends on it (FEI), and a copy of the faulty
//! header.
//!
//! NVM Express NVMe/TCP Transport Specification, "Transport Specific Fatal Error Handling".

use super::common::{CommonHeader, End, PduType};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Longest copy of the faulty header that a TermReq may carry.
pub const HEADER_COPY_MAX: usize = 128;
/// Bytes of a TermReq without that copy.
pub const TERM_REQ_SIZE: usize = 24;

/// Fatal error status (FES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FatalStatus {
    /// A header field has an impossible value; FEI is its byte offset.
    InvalidHeaderField = 0x01,
    /// A PDU or its data is out of sequence.
    SequenceError = 0x02,
    /// The header digest does not match; FEI is the received digest.
    HeaderDigest = 0x03,
    /// Data is outside the range of the command or R2T.
    OutOfRange = 0x04,
    /// A limit is exceeded: MAXH2CDATA (seen by a controller) or MAXR2T (seen by a host).
    LimitExceeded = 0x05,
    /// A parameter that is not supported; FEI is its byte offset.
    UnsupportedParameter = 0x06,
}

impl FatalStatus {
    /// From the FES field; `None` is a reserved value.
    pub fn from_wire(field: u16) -> Option<FatalStatus> {
        Some(match field {
            0x01 => FatalStatus::InvalidHeaderField,
            0x02 => FatalStatus::SequenceError,
            0x03 => FatalStatus::HeaderDigest,
            0x04 => FatalStatus::OutOfRange,
            0x05 => FatalStatus::LimitExceeded,
            0x06 => FatalStatus::UnsupportedParameter,
            _ => return None,
        })
    }
}

/// A protocol violation of the peer, as reported in a TermReq.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// FES.
    pub status: FatalStatus,
    /// FEI.
    pub information: u32,
}

impl Violation {
    /// The header field at this byte offset has an impossible value.
    pub const fn field(offset: u32) -> Self {
        Violation { status: FatalStatus::InvalidHeaderField, information: offset }
    }

    /// The parameter at this byte offset is not supported.
    pub const fn parameter(offset: u32) -> Self {
        Violation { status: FatalStatus::UnsupportedParameter, information: offset }
    }

    /// The received header digest does not match.
    pub const fn header_digest(received: u32) -> Self {
        Violation { status: FatalStatus::HeaderDigest, information: received }
    }

    /// A PDU or its data is out of sequence.
    pub const SEQUENCE: Violation = Violation { status: FatalStatus::SequenceError, information: 0 };
    /// Data is outside the range of the command or R2T.
    pub const OUT_OF_RANGE: Violation = Violation { status: FatalStatus::OutOfRange, information: 0 };
    /// A limit is exceeded.
    pub const LIMIT: Violation = Violation { status: FatalStatus::LimitExceeded, information: 0 };
}

impl core::fmt::Display for Violation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let information = self.information;
        match self.status {
            FatalStatus::InvalidHeaderField => write!(f, "invalid PDU header field at byte {information}"),
            FatalStatus::SequenceError => f.write_str("PDU out of sequence"),
            FatalStatus::HeaderDigest => write!(f, "header digest {information:#010x} does not match"),
            FatalStatus::OutOfRange => f.write_str("data transfer out of range"),
            FatalStatus::LimitExceeded => f.write_str("data transfer or R2T limit exceeded"),
            FatalStatus::UnsupportedParameter => write!(f, "unsupported parameter at byte {information}"),
        }
    }
}

/// Terminate connection request, with the same layout in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TermReq {
    common: CommonHeader,
    fes: U16,
    fei: U32,
    reserved: [u8; 10],
}

impl TermReq {
    /// FES and FEI, as received.
    pub fn reason(&self) -> (u16, u32) {
        (self.fes.get(), self.fei.get())
    }
}

/// A TermReq ready to send: header and copy of the faulty header.
#[derive(Clone, Copy, Debug)]
pub struct TermReqImage {
    bytes: [u8; TERM_REQ_SIZE + HEADER_COPY_MAX],
    length: usize,
}

impl TermReqImage {
    /// The TermReq that `sender` sends because of `violation` in the PDU that starts with `faulty` (truncated
    /// if too long).
    pub fn new(sender: End, violation: Violation, faulty: &[u8]) -> Self {
        let faulty = &faulty[..faulty.len().min(HEADER_COPY_MAX)];
        let length = TERM_REQ_SIZE + faulty.len();
        let pdu_type = match sender {
            End::Host => PduType::H2cTermReq,
            End::Controller => PduType::C2hTermReq,
        };
        let term_req = TermReq {
            common: CommonHeader {
                pdu_type: pdu_type as u8,
                flags: 0,
                hlen: pdu_type.header_length(),
                pdo: 0,
                plen: (length as u32).into(),
            },
            fes: (violation.status as u16).into(),
            fei: violation.information.into(),
            reserved: [0; 10],
        };
        let mut bytes = [0; TERM_REQ_SIZE + HEADER_COPY_MAX];
        bytes[..TERM_REQ_SIZE].copy_from_slice(term_req.as_bytes());
        bytes[TERM_REQ_SIZE..length].copy_from_slice(faulty);
        TermReqImage { bytes, length }
    }

    /// The PDU.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
