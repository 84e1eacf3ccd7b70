//! The superblock, which locates the current journal of a mount.
//!
//! A slot for metadata is `[superblock 0][superblock 1][half 0][half 1]`. A journal begins with a snapshot. When a half is
//! full, a new snapshot goes to the other half, and then to the other superblock. The valid superblock with the higher
//! number is the current one, so a torn superblock leaves the one before in force.

use super::block::{self, Header};
use super::codec::{Reader, put_u64};
use super::stream::Journal;
use crate::{FileId, Generation, VolumeId};

/// The version of all formats.
pub const VERSION: u64 = 2;

/// The superblock of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The journal. Its checkpoint's number modulo 2 selects the half of the slot and the place of the superblock.
    pub journal: Journal,
    /// Number of blocks of the snapshot. If there are fewer, the journal is not valid.
    pub snapshot_blocks: u64,
}

impl Superblock {
    /// The superblock as one block.
    pub fn seal(&self, block_size: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        put_u64(&mut payload, VERSION);
        put_u64(&mut payload, self.snapshot_blocks);
        let header = Header {
            volume: self.journal.volume,
            file: FileId::SUPERBLOCK,
            index: 0,
            era: 0,
            offset: self.journal.checkpoint,
            length: 0,
            generation: self.journal.generation,
        };
        let mut block = Vec::new();
        block::seal(&mut block, block_size, &header, &payload);
        block
    }

    /// The superblock in a block, if it is one of this volume and mount, in a version that we know.
    pub fn open(bytes: &[u8], volume: VolumeId, generation: Generation) -> Option<Superblock> {
        let (header, payload) = block::open(bytes)?;
        if header.volume != volume || header.file != FileId::SUPERBLOCK || header.generation != generation {
            return None;
        }
        let mut reader = Reader(payload);
        if reader.u64() != Ok(VERSION) {
            return None;
        }
        let snapshot_blocks = reader.u64().ok()?;
        Some(Superblock {
            journal: Journal { volume, generation, checkpoint: header.offset },
            snapshot_blocks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_is_only_that_of_its_mount() {
        let journal = Journal { volume: VolumeId(4), generation: Generation(5), checkpoint: 6 };
        let superblock = Superblock { journal, snapshot_blocks: 7 };
        let bytes = superblock.seal(128);
        assert_eq!(Superblock::open(&bytes, VolumeId(4), Generation(5)), Some(superblock));
        assert_eq!(Superblock::open(&bytes, VolumeId(4), Generation(4)), None);
        assert_eq!(Superblock::open(&bytes, VolumeId(5), Generation(5)), None);
    }
}
