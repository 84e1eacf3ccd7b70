//! Finds the ends of the files that were being written when the previous mount ended.
//!
//! If the two copies of the end of a file differ, the longer one is good and the other is stale: acknowledged bytes are
//! on both, or the journal records which copy lacks them. The shorter one is not extended, because a late write of the
//! previous mount could undo that; a repair replaces it elsewhere.

use crate::format::block;
use crate::format::record::{Layout, Record, Run};
use crate::task::join;
use crate::volume::disks::Disks;
use crate::volume::metadata::Metadata;
use crate::volume::parts::Parts;
use crate::volume::phase::Phase;
use crate::volume::space::Space;
use crate::volume::state::Extent;
use crate::{Class, Fault, FileId, Place, SsdId};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A block at the end of a file.
struct End {
    length: u64,
    offset: u64,
}

/// The procedure; see the module.
pub(crate) struct EndFinder {
    phase: Rc<Phase>,
    disks: Rc<Disks>,
    metadata: Rc<Metadata>,
    space: Rc<Space>,
}

impl EndFinder {
    pub(crate) fn new(parts: &Parts) -> Rc<EndFinder> {
        Rc::new(EndFinder {
            phase: Rc::clone(&parts.phase),
            disks: Rc::clone(&parts.disks),
            metadata: Rc::clone(&parts.metadata),
            space: Rc::clone(&parts.space),
        })
    }

    /// Finds the ends of the files that were being written.
    pub(super) async fn find(&self) -> Result<(), Fault> {
        let open: Vec<FileId> = {
            let state = self.metadata.state();
            state.files().filter(|(_, file)| !file.is_sealed).map(|(id, _)| id).collect()
        };
        for file in open {
            let mut layout = self.find_end(file).await?;
            layout.era = layout.next_era();
            let micro_blocks = self.phase.geometry().micro_blocks();
            let time = self.metadata.state().file(file).expect("it is open").time;
            // No need to free the places released here: the pool is filled after this.
            let record = Record::Layout { file, layout, time };
            self.metadata.apply(&record, micro_blocks).map_err(|_| Fault::BadMetadata)?;
        }
        // The blocks found must survive a power loss, because they are recorded now.
        let ssds: BTreeSet<SsdId> = self.metadata.state().places().map(|place| place.ssd).collect();
        for ssd in ssds.into_iter().filter(|ssd| self.space.is_up(*ssd)) {
            self.disks.harden_all(ssd).await?;
        }
        Ok(())
    }

    async fn find_end(&self, file: FileId) -> Result<Layout, Fault> {
        let micro_blocks = self.phase.geometry().micro_blocks();
        let (mut layout, extents) = {
            let state = self.metadata.state();
            let entry = state.file(file).expect("it is open");
            (entry.layout.clone(), entry.extents.clone())
        };
        let first = layout.next_block.div_ceil(micro_blocks);
        layout.next_block =
            layout.next_block.max(first * micro_blocks).min(extents.len() as u64 * micro_blocks);
        let recorded = layout.clone();
        // The layout of the file before a second writing of parts of it began.
        let mut before: Option<Layout> = None;
        let mut is_at_end = false;
        for (index, extent) in extents.iter().enumerate().skip(first as usize) {
            if is_at_end {
                break;
            }
            let ssds: Vec<SsdId> =
                (0..2).filter_map(|side| extent.good(side)).map(|place| place.ssd).collect();
            let ends =
                self.disks.in_time(&ssds, async || self.read_ends(file, index as u64, extent).await).await?;
            // Nothing after the first difference was acknowledged, so one copy must have all acknowledged blocks.
            let mut is_good = [0, 1].map(|side| extent.good(side).is_some());
            for within in 0..micro_blocks {
                let block = index as u64 * micro_blocks + within;
                let best = (0..2)
                    .filter(|&side| is_good[side])
                    .filter_map(|side| Some((side, ends[side].as_ref()?.get(&block)?)))
                    .max_by_key(|(side, end)| (end.length, 1 - side));
                // Nothing after the first block that neither copy has was acknowledged.
                let Some((best_side, best)) = best.filter(|(_, end)| end.offset <= layout.size) else {
                    is_at_end = true;
                    break;
                };
                if best.offset < layout.size && before.as_ref().is_none_or(|before| before.size < layout.size)
                {
                    before = Some(layout.clone());
                }
                self.add_block(&mut layout, block, best);
                before = before.filter(|before| layout.size < before.size);
                for side in (0..2).filter(|&side| side != best_side) {
                    if !is_good[side] {
                        continue;
                    }
                    let has = ends[side].as_ref().map(|ends| ends.get(&block).map(|end| end.length));
                    if has != Some(Some(best.length)) {
                        self.metadata.find_stale(file, index, side);
                        is_good[side] = false;
                    }
                }
            }
        }
        if let Some(before) = before {
            // The second writing is not complete, so the first one counts.
            layout = Layout { next_block: layout.next_block, ..before };
        }
        if layout == recorded {
            // Nothing was added; the micro blobs after the record are released.
            return Ok(self.metadata.state().file(file).expect("it is open").layout.clone());
        }
        Ok(layout)
    }

    fn add_block(&self, layout: &mut Layout, block: u64, end: &End) {
        let payload = self.phase.geometry().payload();
        if end.offset < layout.size {
            layout.truncate(end.offset);
        }
        let continues = layout.runs.last().is_some_and(|run| {
            let position = block - run.block;
            block == layout.next_block && run.offset + position * payload == end.offset
        });
        if !continues {
            layout.runs.push(Run { block, offset: end.offset });
        }
        layout.size = end.offset + end.length;
        layout.next_block = block + 1;
    }

    /// The blocks of a file in a micro blob, by index, for each copy that can be read.
    async fn read_ends(
        &self,
        file: FileId,
        index: u64,
        extent: &Extent,
    ) -> Result<[Option<BTreeMap<u64, End>>; 2], Fault> {
        let read = |side: usize| {
            let place = extent.good(side);
            async move {
                match place {
                    Some(place) => self.read_end(file, index, place).await,
                    None => None,
                }
            }
        };
        let mut ends = join([read(0), read(1)]).await.into_iter();
        let ends = [ends.next().flatten(), ends.next().flatten()];
        if ends.iter().all(Option::is_none) { Err(Fault::Unreachable) } else { Ok(ends) }
    }

    async fn read_end(&self, file: FileId, index: u64, place: Place) -> Option<BTreeMap<u64, End>> {
        let (identity, geometry) = (self.phase.identity(), self.phase.geometry());
        let era = self.metadata.state().file(file)?.layout.era;
        let bytes = self.disks.read_micro(Class::Normal, place).await.ok()?;
        let mut blocks = BTreeMap::new();
        for (within, bytes) in (0..).zip(bytes.chunks(geometry.block as usize)) {
            let block = index * geometry.micro_blocks() + within;
            if let Some((header, payload)) = block::open(bytes)
                && header.volume == identity.volume
                && header.file == file
                && header.index == block
                && header.era == era
                && !payload.is_empty()
            {
                let length = payload.len() as u64;
                blocks.insert(block, End { length, offset: header.offset });
            }
        }
        Some(blocks)
    }
}
