//! Copy: source range entries of 32 bytes say which blocks to copy, the command says where they go.
//!
//! Holds: a range and a command survive their bytes (`a_range_survives_its_bytes`, `a_command_survives_its_dwords`).
//! NVM Command Set Specification: "Copy command", "Copy - Source Range Entries Descriptor Format 0h".

use super::Sqe;
use super::opcode::nvm;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a source range entry.
pub const SOURCE_RANGE_SIZE: usize = 32;

/// CDW12 bit 30: Force Unit Access.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// CDW12: position of the descriptor format (four bits).
const FORMAT_SHIFT: u32 = 8;

/// A range of blocks to be copied, descriptor format 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct SourceRange {
    reserved_0: [u8; 8],
    /// First block.
    pub lba: U64,
    /// Length in blocks, minus one.
    pub blocks: U16,
    reserved_18: [u8; 6],
    /// Protection information; not supported here.
    protection: [u8; 8],
}

const _: () = assert!(size_of::<SourceRange>() == SOURCE_RANGE_SIZE);

impl SourceRange {
    /// `blocks` blocks from `lba`; `blocks` is 1 to 65536.
    pub fn new(lba: u64, blocks: u32) -> SourceRange {
        SourceRange { lba: lba.into(), blocks: ((blocks - 1) as u16).into(), ..SourceRange::default() }
    }

    /// Length in blocks.
    pub fn block_count(&self) -> u32 {
        u32::from(self.blocks.get()) + 1
    }
}

/// The fields of a Copy command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyCommand {
    /// SDLBA: first block of the destination.
    pub destination: u64,
    /// Number of source ranges, 1 to 256.
    pub ranges: usize,
    /// Format of the range descriptors.
    pub format: u8,
    /// The data must be on stable media when the command completes.
    pub force_unit_access: bool,
}

impl CopyCommand {
    /// From dwords 10 to 12.
    pub fn parse(sqe: &Sqe) -> CopyCommand {
        let dword = sqe.cdw12();
        CopyCommand {
            destination: sqe.cdw10_11(),
            ranges: (dword & 0xff) as usize + 1,
            format: (dword >> FORMAT_SHIFT & 0xf) as u8,
            force_unit_access: dword & FORCE_UNIT_ACCESS != 0,
        }
    }

    /// As a command on namespace `nsid`.
    pub fn to_sqe(self, nsid: u32) -> Sqe {
        let force = if self.force_unit_access { FORCE_UNIT_ACCESS } else { 0 };
        let dword = (self.ranges - 1) as u32 | u32::from(self.format) << FORMAT_SHIFT | force;
        let (low, high) = (self.destination as u32, (self.destination >> 32) as u32);
        Sqe::new(nvm::COPY).with_nsid(nsid).with_cdw10_15([low, high, dword, 0, 0, 0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_survives_its_bytes() {
        let range = SourceRange::new(0x1_0000_0007, 65536);
        let bytes = range.as_bytes();
        assert_eq!((&bytes[8..13], &bytes[16..18]), (&[7, 0, 0, 0, 1][..], &[0xff, 0xff][..]));
        let read = SourceRange::read_from_bytes(bytes).expect("32 bytes");
        assert_eq!((read, read.block_count()), (range, 65536));
    }

    #[test]
    fn a_command_survives_its_dwords() {
        let command =
            CopyCommand { destination: 0x2_0000_0001, ranges: 256, format: 2, force_unit_access: true };
        let sqe = command.to_sqe(3);
        assert_eq!((sqe.opcode(), sqe.nsid(), sqe.cdw12()), (0x19, 3, 0x4000_02ff));
        assert_eq!(CopyCommand::parse(&sqe), command);
    }
}
