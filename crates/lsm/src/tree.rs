//! The database: memtables, levels of tables, cache; the reads and writes of operations, and the background jobs that
//! are due.
//!
//! Holds: a key that was put is found (`what_was_put_is_found_wherever_it_is`); tables of a level do not overlap
//!        (`tables_of_a_level_do_not_meet`).

use crate::compaction::{self, Inputs};
use crate::options::Options;
use crate::table::{Table, TableId};
use lru::LruCache;
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;

/// Number of levels, RocksDB's default.
const LEVELS: usize = 7;

/// `level0_stop_writes_trigger`: number of tables in L0 at which writes wait.
const STOP: usize = 36;

/// A block of a table, to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The table.
    pub table: TableId,
    /// Number of the block in it.
    pub number: u64,
}

/// The kind of a background job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// A memtable is written to L0.
    Flush,
    /// Tables are merged into the next level.
    Compaction {
        /// The upper level.
        level: usize,
    },
}

/// A background job. Its driver reads and writes these bytes, then calls [`Lsm::finish`].
#[derive(Debug)]
pub struct Job {
    /// Its kind.
    pub kind: JobKind,
    /// Tables to be read from beginning to end, with their bytes.
    pub reads: Vec<(TableId, u64)>,
    /// Tables to be written, with their bytes.
    pub writes: Vec<(TableId, u64)>,
    tables: Vec<Table>,
}

/// A database.
#[derive(Debug)]
pub struct Lsm {
    options: Options,
    memtable: BTreeSet<u64>,
    memtable_bytes: u64,
    /// Full memtables, the newest last.
    full: VecDeque<BTreeSet<u64>>,
    levels: Vec<Vec<Table>>,
    cache: Option<LruCache<Block, ()>>,
    tables: u64,
    is_flushing: bool,
    is_compacting: bool,
}

impl Lsm {
    /// An empty database.
    pub fn new(options: Options) -> Lsm {
        let blocks = usize::try_from(options.cache / options.block_bytes()).unwrap_or(usize::MAX);
        Lsm {
            options,
            memtable: BTreeSet::new(),
            memtable_bytes: 0,
            full: VecDeque::new(),
            levels: vec![Vec::new(); LEVELS],
            cache: NonZeroUsize::new(blocks).map(LruCache::new),
            tables: 0,
            is_flushing: false,
            is_compacting: false,
        }
    }

    /// Puts a key. Returns the number of bytes appended to the log.
    pub fn put(&mut self, key: u64) -> u64 {
        self.memtable.insert(key);
        self.memtable_bytes += self.options.in_memory();
        if self.memtable_bytes >= self.options.write_buffer {
            self.rotate();
        }
        self.options.log()
    }

    /// Number of memtables that are full and not flushed yet.
    pub fn full_memtables(&self) -> usize {
        self.full.len()
    }

    /// Whether RocksDB would stop writes: a memtable is full while another one is being flushed, or there are too many
    /// tables in L0.
    pub fn is_stalled(&self) -> bool {
        self.full.len() > 1 || self.levels[0].len() >= STOP
    }

    /// Makes the memtable a full one, to be flushed.
    pub fn rotate(&mut self) {
        if !self.memtable.is_empty() {
            self.full.push_back(std::mem::take(&mut self.memtable));
            self.memtable_bytes = 0;
        }
    }

    /// Looks up a key. Returns whether it exists, and the blocks to be read, one after the other.
    pub fn get(&mut self, key: u64) -> (bool, Vec<Block>) {
        let mut reads = Vec::new();
        if self.memtable.contains(&key) || self.full.iter().any(|memtable| memtable.contains(&key)) {
            return (true, reads);
        }
        let newest_first = self.levels[0].iter().rev();
        let deeper = self.levels[1..].iter().filter_map(|level| {
            let at = level.partition_point(|table| table.last() < key);
            level.get(at)
        });
        for table in newest_first.chain(deeper) {
            let Some(number) = table.block_of(key, &self.options) else { continue };
            let block = Block { table: table.id, number };
            let is_cached = self.cache.as_mut().is_some_and(|cache| cache.put(block, ()).is_some());
            if !is_cached {
                reads.push(block);
            }
            if table.has(key) {
                return (true, reads);
            }
        }
        (false, reads)
    }

    /// The next flush of a memtable; only one runs at a time.
    pub fn next_flush(&mut self) -> Option<Job> {
        if self.is_flushing {
            return None;
        }
        let keys: Vec<u64> = self.full.front()?.iter().copied().collect();
        self.is_flushing = true;
        let table = self.table(keys);
        Some(Job {
            kind: JobKind::Flush,
            reads: Vec::new(),
            writes: vec![(table.id, table.bytes)],
            tables: vec![table],
        })
    }

    /// The next compaction; only one runs at a time.
    pub fn next_compaction(&mut self) -> Option<Job> {
        if self.is_compacting {
            return None;
        }
        let Inputs { level, upper, lower } = compaction::pick(&self.levels, &self.options)?;
        self.is_compacting = true;
        let kind = JobKind::Compaction { level };
        let inputs: Vec<&Table> = (upper.iter().map(|at| &self.levels[level][*at]))
            .chain(lower.iter().map(|at| &self.levels[level + 1][*at]))
            .collect();
        let reads: Vec<(TableId, u64)> = inputs.iter().map(|table| (table.id, table.bytes)).collect();
        if let ([table], true) = (&inputs[..], lower.is_empty()) {
            // Nothing overlaps: the table moves down as it is, without reads or writes.
            let tables = vec![(*table).clone()];
            return Some(Job { kind, reads: Vec::new(), writes: Vec::new(), tables });
        }
        let keys: BTreeSet<u64> = inputs.iter().flat_map(|table| table.keys().iter().copied()).collect();
        let keys: Vec<u64> = keys.into_iter().collect();
        let below = self.levels.get(level + 2).map_or(&[][..], Vec::as_slice);
        let cuts = compaction::cut(&keys, below, &self.options);
        let tables: Vec<Table> = cuts.into_iter().map(|keys| self.table(keys)).collect();
        let writes = tables.iter().map(|table| (table.id, table.bytes)).collect();
        Some(Job { kind, reads, writes, tables })
    }

    fn table(&mut self, keys: Vec<u64>) -> Table {
        self.tables += 1;
        Table::new(TableId(self.tables), keys, &self.options)
    }

    /// Ends a job whose bytes are read and written: its tables replace its inputs. Returns the identifiers of the
    /// tables that were read and removed.
    pub fn finish(&mut self, job: Job) -> Vec<TableId> {
        match job.kind {
            JobKind::Flush => {
                self.is_flushing = false;
                self.full.pop_front();
                self.levels[0].extend(job.tables);
                Vec::new()
            }
            JobKind::Compaction { level } => {
                self.is_compacting = false;
                let moved: Vec<TableId> = job.tables.iter().map(|table| table.id).collect();
                let read: Vec<TableId> = job.reads.iter().map(|(id, _)| *id).collect();
                for level in &mut self.levels[level..level + 2] {
                    level.retain(|table| !read.contains(&table.id) && !moved.contains(&table.id));
                }
                self.levels[level + 1].extend(job.tables);
                self.levels[level + 1].sort_by_key(Table::first);
                read
            }
        }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.levels.iter().flatten().map(|table| table.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options {
        key: 16,
        value: 100,
        write_buffer: 20_000,
        l0_trigger: 4,
        level_base: 80_000,
        target_file: 20_000,
        block: 4096,
        cache: 100_000,
        filter_bits: 10,
    };

    fn scattered(number: u64) -> u64 {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// A database of several levels, which runs every job as soon as it is due.
    fn filled(records: u64) -> Lsm {
        let mut lsm = Lsm::new(OPTIONS);
        for number in 0..records {
            lsm.put(scattered(number % 5000));
            while let Some(job) = lsm.next_flush().or_else(|| lsm.next_compaction()) {
                lsm.finish(job);
            }
        }
        lsm
    }

    #[test]
    fn what_was_put_is_found_wherever_it_is() {
        let mut lsm = filled(20_000);
        assert!(lsm.levels[2..].iter().any(|level| !level.is_empty()), "there are few levels");
        assert!((0..5000).all(|number| lsm.get(scattered(number)).0));
        assert!((5000..6000).all(|number| !lsm.get(scattered(number)).0));
    }

    #[test]
    fn tables_of_a_level_do_not_meet() {
        let lsm = filled(20_000);
        for level in &lsm.levels[1..] {
            assert!(level.windows(2).all(|pair| pair[0].last() < pair[1].first()));
        }
        let keys: usize = lsm.levels.iter().flatten().map(|table| table.keys().len()).sum();
        assert!(keys < 8000, "old values are not dropped: {keys}");
    }

    #[test]
    fn a_block_that_was_read_is_not_read_again_soon() {
        let mut lsm = filled(20_000);
        let first: usize = (0..20).map(|number| lsm.get(scattered(number)).1.len()).sum();
        let again: usize = (0..20).map(|number| lsm.get(scattered(number)).1.len()).sum();
        assert!(first > 5 && again == 0, "{first} {again}");
    }
}
