//! A table: keys in order.

use crate::options::Options;

/// Number of a table; later ones are higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u64);

/// A table, never empty.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) id: TableId,
    keys: Vec<u64>,
    pub(crate) bytes: u64,
}

impl Table {
    /// A table of keys in order.
    pub(crate) fn new(id: TableId, keys: Vec<u64>, options: &Options) -> Table {
        assert!(!keys.is_empty(), "a table without keys");
        let bytes = options.table(keys.len() as u64);
        Table { id, keys, bytes }
    }

    pub(crate) fn first(&self) -> u64 {
        self.keys[0]
    }

    pub(crate) fn last(&self) -> u64 {
        self.keys[self.keys.len() - 1]
    }

    pub(crate) fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// Whether its range overlaps this one.
    pub(crate) fn meets(&self, (first, last): (u64, u64)) -> bool {
        self.first() <= last && first <= self.last()
    }

    /// The block that a read of this key must read; `None` if the filter excludes the key. The filter errs once in a
    /// hundred times, like one with ten bits for each key.
    pub(crate) fn block_of(&self, key: u64, options: &Options) -> Option<u64> {
        if !self.meets((key, key)) {
            return None;
        }
        let position = match self.keys.binary_search(&key) {
            Ok(position) => position,
            Err(position) if options.filter_bits == 0 || mix(self.id.0 ^ mix(key)).is_multiple_of(100) => {
                position
            }
            Err(_) => return None,
        };
        Some(position as u64 / options.block_entries())
    }

    /// Whether the table contains the key.
    pub(crate) fn has(&self, key: u64) -> bool {
        self.keys.binary_search(&key).is_ok()
    }
}

/// The range of keys of several tables.
pub(crate) fn range<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Option<(u64, u64)> {
    tables.into_iter().map(|table| (table.first(), table.last())).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Scatters the bits of a number.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
