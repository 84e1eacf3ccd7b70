//! CapsuleCmd and CapsuleResp: a PDU header followed by a queue entry.

use super::common::{CommonHeader, Header, PduType};
use crate::spec::{Cqe, Sqe};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Byte offset of the command identifier in CapsuleResp, for the FEI of a TermReq.
pub const OFFSET_RESPONSE_CID: u32 = 20;

/// Command capsule; in-capsule data may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleCmd {
    common: CommonHeader,
    /// The command.
    pub sqe: Sqe,
}

impl CapsuleCmd {
    /// A capsule with this command.
    pub fn new(sqe: Sqe) -> Self {
        CapsuleCmd { common: CommonHeader::default(), sqe }
    }
}

impl Header for CapsuleCmd {
    const TYPE: PduType = PduType::CapsuleCmd;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}

/// Response capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleResp {
    common: CommonHeader,
    /// The completion.
    pub cqe: Cqe,
}

impl CapsuleResp {
    /// A capsule with this completion.
    pub fn new(cqe: Cqe) -> Self {
        CapsuleResp { common: CommonHeader::default(), cqe }
    }
}

impl Header for CapsuleResp {
    const TYPE: PduType = PduType::CapsuleResp;

    fn common_mut(&mut self) -> &mut CommonHeader {
        &mut self.common
    }
}
