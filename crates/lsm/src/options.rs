//! The options of a database, by RocksDB's names, and the sizes of its records.

/// The options of a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Bytes of a key.
    pub key: u64,
    /// Bytes of a value.
    pub value: u64,
    /// `write_buffer_size`: bytes of a memtable.
    pub write_buffer: u64,
    /// `level0_file_num_compaction_trigger`: number of tables in L0 at which they are compacted.
    pub l0_trigger: usize,
    /// `max_bytes_for_level_base`: bytes of L1; each further level has ten times as many.
    pub level_base: u64,
    /// `target_file_size_base`: bytes of a table.
    pub target_file: u64,
    /// `block_size`: bytes at which a block ends.
    pub block: u64,
    /// Bytes of the block cache.
    pub cache: u64,
    /// Bits of the filter for each key.
    pub filter_bits: u64,
}

/// Size of a level relative to the one before.
const MULTIPLIER: u64 = 10;
/// Bytes at the end of each key: sequence number and type.
const TRAILER: u64 = 8;
/// Bytes for the lengths of the parts of a record in a table.
const LENGTHS: u64 = 4;
/// Bytes added to a record in the log, as a batch of its own: sequence number, count, type and lengths.
const BATCH: u64 = 16;
/// Bytes added to a record in a memtable: its links in the skip list, and lengths.
const LINKS: u64 = 20;
/// Bytes of the block's location in an entry of the index.
const HANDLE: u64 = 6;
/// Bytes of a table other than blocks, index and filter: properties, footer.
const TABLE: u64 = 1200;

impl Options {
    /// Bytes of a record in a block. The prefix that a key shares with the one before is not repeated; it is short,
    /// because keys are random.
    pub(crate) fn entry(&self) -> u64 {
        self.key + TRAILER + LENGTHS + self.value - self.shared()
    }

    fn shared(&self) -> u64 {
        self.key.min(6)
    }

    /// Number of records in a block: it ends with the record that fills it, or before that record if it is nine tenths
    /// full.
    pub(crate) fn block_entries(&self) -> u64 {
        let entry = self.entry();
        let before = self.block / entry;
        if before * entry * 10 > self.block * 9 || before * entry == self.block {
            before.max(1)
        } else {
            before + 1
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.block_entries() * self.entry()
    }

    /// Bytes of a record in the log.
    pub(crate) fn log(&self) -> u64 {
        BATCH + self.key + self.value
    }

    /// Bytes of a record in a memtable.
    pub(crate) fn in_memory(&self) -> u64 {
        self.key + TRAILER + self.value + LINKS
    }

    /// Number of records that fill a memtable.
    pub fn puts_of_memtable(&self) -> u64 {
        self.write_buffer.div_ceil(self.in_memory())
    }

    /// Bytes of a table with this many records.
    pub(crate) fn table(&self, records: u64) -> u64 {
        let blocks = records.div_ceil(self.block_entries());
        records * self.entry() + blocks * (self.key + HANDLE) + records * self.filter_bits / 8 + TABLE
    }

    /// Maximum number of bytes of a level. For L0, the number of tables counts instead.
    pub(crate) fn level(&self, level: usize) -> u64 {
        self.level_base * MULTIPLIER.pow(level.saturating_sub(1) as u32)
    }

    /// `max_compaction_bytes`: inputs are not added beyond this.
    pub(crate) fn compaction_max(&self) -> u64 {
        self.target_file * 25
    }
}
