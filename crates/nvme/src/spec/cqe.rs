//! The completion queue entry: 16 bytes that say how a command ended.
//!
//! The phase tag does not exist on fabrics and stays 0. The connection fills in SQHD, because only the
//! connection knows it.
//!
//! Holds: a completion is read back as it was written (`a_completion_reads_back`).
//! NVM Express Base Specification: "Completion Queue Entry".

use super::status::Status;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A completion queue entry.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Cqe {
    dw0: U32,
    dw1: U32,
    sqhd: U16,
    sqid: U16,
    cid: U16,
    status: U16,
}

impl Cqe {
    /// Bytes on the wire.
    pub const SIZE: usize = 16;

    /// Its bytes, as they are on the wire.
    pub fn to_bytes(&self) -> [u8; Cqe::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// The completion of command `cid` with `status`; no result.
    pub fn new(cid: u16, status: Status) -> Self {
        Cqe { cid: cid.into(), status: status.to_wire().into(), ..Cqe::default() }
    }

    /// The successful completion of command `cid`; no result.
    pub fn success(cid: u16) -> Self {
        Cqe::new(cid, Status::SUCCESS)
    }

    /// Sets dword 0, the result.
    #[must_use]
    pub fn with_dw0(mut self, dw0: u32) -> Self {
        self.dw0 = dw0.into();
        self
    }

    /// Sets dword 1.
    #[must_use]
    pub fn with_dw1(mut self, dw1: u32) -> Self {
        self.dw1 = dw1.into();
        self
    }

    /// Sets dwords 0 and 1, an 8-byte result.
    #[must_use]
    pub fn with_result(mut self, result: u64) -> Self {
        self.dw0 = (result as u32).into();
        self.dw1 = ((result >> 32) as u32).into();
        self
    }

    /// Sets the submission queue head pointer.
    #[must_use]
    pub fn with_sqhd(mut self, sqhd: u16) -> Self {
        self.sqhd = sqhd.into();
        self
    }

    /// Command specific result, low half.
    pub fn dw0(&self) -> u32 {
        self.dw0.get()
    }

    /// Command specific result, high half.
    pub fn dw1(&self) -> u32 {
        self.dw1.get()
    }

    /// Command specific result, 8 bytes.
    pub fn result(&self) -> u64 {
        u64::from(self.dw1()) << 32 | u64::from(self.dw0())
    }

    /// Submission queue head pointer.
    pub fn sqhd(&self) -> u16 {
        self.sqhd.get()
    }

    /// Command identifier.
    pub fn cid(&self) -> u16 {
        self.cid.get()
    }

    /// The status of the command.
    pub fn status(&self) -> Status {
        Status::from_wire(self.status.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_reads_back() {
        let cqe = Cqe::new(0x101a, Status::INVALID_OPCODE).with_result(0x1_0000_0002).with_sqhd(9);
        let cqe = Cqe::read_from_bytes(cqe.as_bytes()).expect("16 bytes");
        assert_eq!((cqe.dw0(), cqe.dw1(), cqe.result()), (2, 1, 0x1_0000_0002));
        assert_eq!((cqe.cid(), cqe.sqhd(), cqe.status()), (0x101a, 9, Status::INVALID_OPCODE));
    }
}
