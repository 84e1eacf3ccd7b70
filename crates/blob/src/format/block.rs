//! A block: the unit of writing, checking and repair. Its header identifies it.
//!
//! ```text
//!   offset  bytes
//!        0      4   CRC32C of everything behind it
//!        4      4   "GBK1"
//!        8      8   volume
//!       16      8   file (0: journal, 1: superblock)
//!       24      8   index: which block of the file, in the order of writing
//!       32      8   offset in the file of the first byte (journal, superblock: number of the checkpoint)
//!       40      4   length: bytes of the file in this block
//!       44      4   generation of the mount that wrote it
//!       48      …   the bytes, then zeroes up to the size of the block
//! ```
//!
//! All numbers are little-endian. `length` may be less than the room: a sync ends a block, and the next bytes begin a
//! new one. So a sync never rewrites data that an earlier sync has made durable.
//!
//! Holds: every change of a block is detected (`every_bit_is_covered`); a block of another file, place or time is not
//!        taken for this one.

use crate::{FileId, Generation, VolumeId};
use crc_fast::crc32_iscsi;

/// Bytes of the header.
pub const HEADER: usize = 48;
/// The highest era: three bytes.
pub const ERA_MAX: u32 = 0xff_ffff;
/// The highest index: five bytes.
const INDEX_MAX: u64 = (1 << 40) - 1;
const MAGIC: [u8; 4] = *b"GBK1";

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The volume.
    pub volume: VolumeId,
    /// The file.
    pub file: FileId,
    /// Which block of the file.
    pub index: u64,
    /// Number of times that the file's layout was recorded before the block was written; 0 follows `ERA_MAX`.
    pub era: u32,
    /// Offset in the file of its first byte.
    pub offset: u64,
    /// Bytes of the file in it.
    pub length: u32,
    /// The mount that wrote it.
    pub generation: Generation,
}

/// Appends a block of `block_size` bytes to `out`: header, `payload`, zeroes. `header.length` is set from the payload.
///
/// # Panics
/// If the payload, the index or the era does not fit.
pub fn seal(out: &mut Vec<u8>, block_size: u32, header: &Header, payload: &[u8]) {
    let room = block_size as usize - HEADER;
    assert!(payload.len() <= room, "a payload of {} bytes in a block with room for {room}", payload.len());
    assert!(header.index <= INDEX_MAX && header.era <= ERA_MAX, "{header:?} does not fit");
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&header.volume.0.to_le_bytes());
    out.extend_from_slice(&header.file.0.to_le_bytes());
    out.extend_from_slice(&(header.index | u64::from(header.era) << 40).to_le_bytes());
    out.extend_from_slice(&header.offset.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&header.generation.0.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(start + block_size as usize, 0);
    let sum = crc32_iscsi(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Header and payload of a block; `None` if it is no block, or a damaged one.
pub fn open(block: &[u8]) -> Option<(Header, &[u8])> {
    let (head, body) = block.split_at_checked(HEADER)?;
    if head[4..8] != MAGIC || u32_at(head, 0) != crc32_iscsi(&block[4..]) {
        return None;
    }
    let header = Header {
        volume: VolumeId(u64_at(head, 8)),
        file: FileId(u64_at(head, 16)),
        index: u64_at(head, 24) & INDEX_MAX,
        era: (u64_at(head, 24) >> 40) as u32,
        offset: u64_at(head, 32),
        length: u32_at(head, 40),
        generation: Generation(u32_at(head, 44)),
    };
    Some((header, body.get(..header.length as usize)?))
}

/// The first `length` bytes of the payload of a block that is whole and has as many.
pub fn payload(block: &[u8], length: usize) -> &[u8] {
    &block[HEADER..HEADER + length]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_OF_SEVEN: Header = Header {
        volume: VolumeId(0x1122_3344_5566_7788),
        file: FileId::new(Generation(3), 9),
        index: 5,
        era: 6,
        offset: 400,
        length: 7,
        generation: Generation(3),
    };

    fn sealed() -> Vec<u8> {
        let mut bytes = Vec::new();
        seal(&mut bytes, 128, &HEADER_OF_SEVEN, b"seven b");
        bytes
    }

    #[test]
    fn what_is_sealed_opens_the_same() {
        assert_eq!(open(&sealed()), Some((HEADER_OF_SEVEN, &b"seven b"[..])));
    }

    #[test]
    fn every_bit_is_covered() {
        let good = sealed();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&bad), None, "bit {bit} does not matter");
        }
        assert_eq!(open(&good[..127]), None);
        assert_eq!(open(&[]), None);
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let bytes = sealed();
        assert_eq!(&bytes[4..8], b"GBK1");
        assert_eq!(bytes[8], 0x88);
        assert_eq!(
            (bytes[16], bytes[20], bytes[24], bytes[29], bytes[32..34].to_vec()),
            (9, 3, 5, 6, vec![0x90, 1])
        );
        assert_eq!((bytes[40], bytes[44], &bytes[48..55], bytes[55]), (7, 3, &b"seven b"[..], 0));
    }
}
