//! Checks whether a block is the one that a layout requires.

use super::phase::Identity;
use crate::format::block;
use crate::format::record::Layout;
use crate::{FileId, Geometry};

/// The block that a layout requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) index: u64,
    /// Offset in the file of its first byte.
    pub(crate) offset: u64,
    /// Least number of bytes of the file that it must contain.
    pub(crate) length: u64,
}

/// The block of a file with this index; `None` if no byte of the file is in it.
pub(crate) fn wanted(layout: &Layout, index: u64, payload: u64) -> Option<Wanted> {
    let after = layout.runs.partition_point(|run| run.block <= index);
    let run = layout.runs.get(after.checked_sub(1)?)?;
    let end = layout.runs.get(after).map_or(layout.size, |next| next.offset);
    let offset = run.offset + (index - run.block) * payload;
    (offset < end).then(|| Wanted { index, offset, length: payload.min(end - offset) })
}

/// The blocks of a micro blob that hold bytes of the file.
pub(crate) fn wanted_blocks(layout: &Layout, extent: u64, geometry: &Geometry) -> Vec<Wanted> {
    let (payload, micro_blocks) = (geometry.payload(), geometry.micro_blocks());
    let blocks = extent * micro_blocks..(extent + 1) * micro_blocks;
    blocks.filter_map(|index| wanted(layout, index, payload)).collect()
}

/// Whether these bytes are the wanted block.
pub(crate) fn is_wanted(identity: &Identity, file: FileId, bytes: &[u8], wanted: &Wanted) -> bool {
    block::open(bytes).is_some_and(|(header, _)| {
        header.volume == identity.volume
            && header.file == file
            && header.index == wanted.index
            && header.offset == wanted.offset
            && u64::from(header.length) >= wanted.length
    })
}

/// Whether these bytes are the block with this index that was written to a file in an era, regardless of the bytes of
/// the file in it.
pub(crate) fn is_block(identity: &Identity, file: FileId, bytes: &[u8], index: u64, era: u32) -> bool {
    block::open(bytes).is_some_and(|(header, _)| {
        header.volume == identity.volume && header.file == file && header.index == index && header.era == era
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Run;

    #[test]
    fn only_blocks_with_bytes_of_the_file_are_wanted() {
        let runs =
            vec![Run { block: 0, offset: 0 }, Run { block: 3, offset: 90 }, Run { block: 8, offset: 300 }];
        let layout = Layout { size: 310, next_block: 9, era: 0, runs };
        let seen = |index| wanted(&layout, index, 80).map(|wanted| (wanted.offset, wanted.length));
        assert_eq!([seen(0), seen(1), seen(2)], [Some((0, 80)), Some((80, 10)), None]);
        assert_eq!([seen(3), seen(4), seen(5)], [Some((90, 80)), Some((170, 80)), Some((250, 50))]);
        assert_eq!([seen(6), seen(7), seen(8), seen(9)], [None, None, Some((300, 10)), None]);
    }
}
