//! The end of an open file: from appended bytes to sealed blocks.
//!
//! ```text
//!   appended ─► bytes: the block that is not full ─► full: sealed blocks ──cut──► Blocks, written together
//! ```
//!
//! Holds: `a_begun_block_goes_out_again_when_there_is_more_in_it`, `blocks_that_are_cut_together_lie_in_one_micro_blob`.

use crate::FileId;
use crate::format::block::{self, Header};
use crate::format::record::{Layout, Run};
use crate::volume::phase::Identity;

/// Consecutive sealed blocks of one micro blob.
pub(super) struct Blocks {
    pub(super) first: u64,
    /// Offset in the file of the first byte.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// The end of an open file; see the module.
pub(super) struct Tail {
    file: FileId,
    identity: Identity,
    /// Number of sealed bytes at which they are cut.
    write_max: u64,
    layout: Layout,
    /// Bytes of the begun block `layout.next_block`.
    bytes: Vec<u8>,
    offset: u64,
    /// Whether some of these bytes have not been sealed.
    is_dirty: bool,
    /// Whether the next byte must begin a new run.
    must_begin_run: bool,
    /// Sealed blocks that have not been cut, with the index and offset of the first one.
    full: Vec<u8>,
    full_first: u64,
    full_offset: u64,
}

impl Tail {
    /// The end of a file with this layout.
    pub(super) fn new(file: FileId, identity: Identity, write_max: u64, layout: Layout) -> Tail {
        Tail {
            file,
            identity,
            write_max,
            layout,
            bytes: Vec::new(),
            offset: 0,
            is_dirty: false,
            must_begin_run: true,
            full: Vec::new(),
            full_first: 0,
            full_offset: 0,
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether no block is begun.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Offset up to which the bytes have been cut.
    pub(super) fn cut_upto(&self) -> u64 {
        let mut least = self.layout.size;
        if self.is_dirty {
            least = least.min(self.offset);
        }
        if !self.full.is_empty() {
            least = least.min(self.full_offset);
        }
        least
    }

    /// The first block that has not been cut.
    pub(super) fn first_block(&self) -> u64 {
        if self.full.is_empty() {
            self.layout.next_block
        } else {
            self.layout.next_block.min(self.full_first)
        }
    }

    /// Takes bytes, at most up to the end of the block. Returns their number, and the blocks that this cuts.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Option<Blocks>) {
        if self.bytes.is_empty() {
            self.offset = self.layout.size;
            if self.must_begin_run {
                self.layout.runs.push(Run { block: self.layout.next_block, offset: self.layout.size });
                self.must_begin_run = false;
            }
        }
        let room = self.identity.geometry.payload() as usize;
        let taken = bytes.len().min(room - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.layout.size += taken as u64;
        self.is_dirty = true;
        let cut = if self.bytes.len() == room { self.end_block() } else { None };
        (taken, cut)
    }

    /// Ends the begun block, so that nothing is added to it any more. Returns the blocks that this cuts.
    pub(super) fn end_block(&mut self) -> Option<Blocks> {
        let index = self.layout.next_block;
        if self.full.is_empty() {
            (self.full_first, self.full_offset) = (index, self.offset);
        }
        let payload = std::mem::take(&mut self.bytes);
        let geometry = self.identity.geometry;
        self.must_begin_run |= (payload.len() as u64) < geometry.payload();
        if self.is_dirty {
            self.seal(&payload);
        }
        self.is_dirty = false;
        self.layout.next_block += 1;
        let is_full = self.full.len() as u64 >= self.write_max;
        if is_full || self.layout.next_block.is_multiple_of(geometry.micro_blocks()) {
            return self.cut();
        }
        None
    }

    /// Seals the begun block as it is. It is sealed again when it has more bytes.
    pub(super) fn seal_begun(&mut self) {
        if !self.is_dirty {
            return;
        }
        if self.full.is_empty() {
            (self.full_first, self.full_offset) = (self.layout.next_block, self.offset);
        }
        let payload = std::mem::take(&mut self.bytes);
        self.seal(&payload);
        self.bytes = payload;
        self.is_dirty = false;
    }

    fn seal(&mut self, payload: &[u8]) {
        let header = Header {
            volume: self.identity.volume,
            file: self.file,
            index: self.layout.next_block,
            era: self.layout.era,
            offset: self.offset,
            length: 0,
            generation: self.identity.generation,
        };
        block::seal(&mut self.full, self.identity.geometry.block, &header, payload);
    }

    /// Cuts all sealed blocks, if there are any.
    pub(super) fn cut(&mut self) -> Option<Blocks> {
        if self.full.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.full);
        Some(Blocks { first: self.full_first, offset: self.full_offset, bytes })
    }

    /// Moves the end of the file to this offset. The blocks stay in their places; the next block has an offset within
    /// them and replaces their bytes from there.
    pub(super) fn rewind(&mut self, offset: u64) {
        self.layout.truncate(offset);
        self.must_begin_run = true;
    }

    /// Makes the next block go to another micro blob. Returns the layout to be recorded.
    pub(super) fn end_micro(&mut self) -> Layout {
        self.must_begin_run = true;
        self.layout.era = self.layout.next_era();
        let layout = self.layout.clone();
        let micro_blocks = self.identity.geometry.micro_blocks();
        self.layout.next_block = self.layout.next_block.next_multiple_of(micro_blocks);
        layout
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generation, Geometry, VolumeId};

    const GEOMETRY: Geometry = Geometry { block: 128, micro: 512, mega: 131_072, slots: 4 };

    fn tail() -> Tail {
        let identity = Identity { volume: VolumeId(1), geometry: GEOMETRY, generation: Generation(1) };
        Tail::new(FileId::new(Generation(1), 1), identity, u64::MAX, Layout::default())
    }

    fn payload_of(blocks: &Blocks) -> usize {
        let (_, payload) = block::open(&blocks.bytes[..GEOMETRY.block as usize]).expect("a sealed block");
        payload.len()
    }

    #[test]
    fn a_begun_block_goes_out_again_when_there_is_more_in_it() {
        let mut tail = tail();
        let _ = tail.take(&[1; 10]);
        tail.seal_begun();
        assert_eq!(tail.cut_upto(), 0);
        let first = tail.cut().expect("the begun block");
        assert_eq!((first.first, first.offset, payload_of(&first), tail.cut_upto()), (0, 0, 10, 10));
        tail.seal_begun();
        assert!(tail.cut().is_none(), "nothing is new in it");
        let _ = tail.take(&[1; 5]);
        tail.seal_begun();
        let again = tail.cut().expect("the same block");
        assert_eq!((again.first, again.offset, payload_of(&again)), (0, 0, 15));
    }

    #[test]
    fn blocks_that_are_cut_together_lie_in_one_micro_blob() {
        let (mut tail, payload) = (tail(), GEOMETRY.payload() as usize);
        let mut cuts = Vec::new();
        for _ in 0..2 * GEOMETRY.micro_blocks() {
            let (taken, blocks) = tail.take(&vec![7; payload]);
            assert_eq!(taken, payload);
            cuts.extend(blocks.map(|blocks| (blocks.first, blocks.bytes.len() as u32)));
        }
        assert_eq!(cuts, [(0, GEOMETRY.micro), (GEOMETRY.micro_blocks(), GEOMETRY.micro)]);
    }
}
