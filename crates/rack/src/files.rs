//! Where tables and logs lie: micro blobs in pairs, from the allocator that volumes use.

use blob::pool::{Pool, Reserve};
use blob::{Geometry, Mega, Place, SsdId};
use lsm::{Block, TableId};
use std::collections::{BTreeMap, BTreeSet};
use units::Instant;

/// Slots of the SSD in a micro blob.
pub(crate) const MICRO_SLOTS: u64 = 64;
/// Bytes of a slot.
pub(crate) const SLOT: u64 = 4096;
/// Micro blobs of the paper's size; small mega blobs, since the SSDs are small.
const GEOMETRY: Geometry = Geometry { block: 4096, micro: 256 << 10, mega: 64 << 20, slots: 16 };
/// Mega blobs that each database has on each SSD.
const MEGAS: u32 = 4;

/// A micro blob and its copy.
pub(crate) type Pair = [Place; 2];

/// Consecutive slots of both copies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) pair: Pair,
    pub(crate) first: u64,
    pub(crate) slots: u64,
}

/// Consecutive slots of a table that is being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    table: TableId,
    micro: usize,
    first: u64,
    slots: u64,
}

/// Files of one database.
pub(crate) struct Files {
    pool: Pool,
    tables: BTreeMap<TableId, Vec<Pair>>,
}

impl Files {
    /// Of database `number`, on these SSDs with their targets.
    pub(crate) fn new(number: u32, ssds: &[(SsdId, String)]) -> Files {
        let mut pool = Pool::new(GEOMETRY, u64::from(number));
        for (ssd, target) in ssds {
            pool.add_ssd(*ssd, target, MEGAS);
            pool.set_up(*ssd, true);
            for index in number * MEGAS..(number + 1) * MEGAS {
                pool.add_mega(Mega { ssd: *ssd, index }, &BTreeSet::new(), Instant::ZERO);
            }
            pool.set_exhausted(*ssd, true);
        }
        Files { pool, tables: BTreeMap::new() }
    }

    /// A new pair, on the SSDs that rank highest.
    pub(crate) fn pair(&mut self, now: Instant, rank: impl Fn(SsdId) -> i64) -> Pair {
        match self.pool.reserve(now, rank) {
            Reserve::Pair(primary, shadow) => [primary, shadow],
            other => panic!("the databases are too large for these SSDs: {other:?}"),
        }
    }

    /// A micro blob may be handed out again.
    pub(crate) fn release(&mut self, now: Instant, place: Place) {
        self.pool.release(place, now);
    }

    /// Writes of a table of this many bytes, in pieces of at most `largest` slots.
    pub(crate) fn pieces(table: TableId, bytes: u64, largest: u64) -> impl Iterator<Item = Piece> {
        let slots = bytes.div_ceil(SLOT);
        (0..slots).step_by(MICRO_SLOTS as usize).flat_map(move |micro| {
            let end = slots.min(micro + MICRO_SLOTS);
            (micro..end).step_by(largest as usize).map(move |at| Piece {
                table,
                micro: (at / MICRO_SLOTS) as usize,
                first: at % MICRO_SLOTS,
                slots: largest.min(end - at),
            })
        })
    }

    /// Where a piece goes. As a volume does, each micro blob is placed when the file reaches it.
    pub(crate) fn place(&mut self, now: Instant, piece: Piece, rank: impl Fn(SsdId) -> i64) -> Extent {
        if self.tables.get(&piece.table).map_or(0, Vec::len) <= piece.micro {
            let pair = self.pair(now, rank);
            self.tables.entry(piece.table).or_default().push(pair);
        }
        Extent { pair: self.tables[&piece.table][piece.micro], first: piece.first, slots: piece.slots }
    }

    /// Extents of a table of this many bytes.
    pub(crate) fn whole(&self, table: TableId, bytes: u64) -> Vec<Extent> {
        let slots = bytes.div_ceil(SLOT);
        let pairs = self.tables[&table].iter().enumerate();
        let extent = |(at, pair): (usize, &Pair)| {
            let before = at as u64 * MICRO_SLOTS;
            Extent { pair: *pair, first: 0, slots: (slots - before).min(MICRO_SLOTS) }
        };
        pairs.map(extent).collect()
    }

    /// Where a block of a table lies. One on the border of two micro blobs is taken to lie in the first.
    /// `None` if the table was removed.
    pub(crate) fn block(&self, block: Block, bytes: u64) -> Option<Extent> {
        let pairs = self.tables.get(&block.table)?;
        let offset = block.number * bytes;
        let slot = offset / SLOT;
        let slots = (offset % SLOT + bytes).div_ceil(SLOT);
        let pair = ((slot / MICRO_SLOTS) as usize).min(pairs.len() - 1);
        let first = (slot % MICRO_SLOTS).min(MICRO_SLOTS - slots);
        Some(Extent { pair: pairs[pair], first, slots })
    }

    /// Ends the use of a table. Returns its extents.
    pub(crate) fn remove(&mut self, table: TableId) -> Vec<Pair> {
        self.tables.remove(&table).unwrap_or_default()
    }
}
