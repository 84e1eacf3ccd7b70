//! The flushes and records that an open file still needs in order to survive power losses.
//!
//! Holds: `a_flush_covers_only_the_writes_before_it`, `writes_to_the_old_place_of_a_copy_do_not_count_for_the_new_one`.

use crate::volume::disks::Sequence;
use crate::volume::journal::Lsn;
use crate::{Fault, SsdId};
use std::collections::BTreeMap;

/// A micro blob of the file, and one of its copies.
pub(crate) type CopyKey = (u64, u8);

/// Writes to a copy of a micro blob that no flush has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unflushed {
    pub(crate) ssd: SsdId,
    pub(crate) first: Sequence,
    pub(crate) last: Sequence,
    /// The connection was lost while one of these writes was in flight.
    pub(crate) is_lost: bool,
}

/// The durability of an open file; see the module.
#[derive(Default)]
pub(crate) struct Durability {
    unflushed: BTreeMap<CopyKey, Unflushed>,
    /// The records up to this one are needed to find the whole file.
    lsn: Lsn,
    /// A part that was written but never synced is lost.
    is_lost: bool,
}

impl Durability {
    /// Notes that this record is needed to find the whole file.
    pub(crate) fn need(&mut self, lsn: Lsn) {
        self.lsn = self.lsn.max(lsn);
    }

    /// The last record that is needed.
    pub(crate) fn needed(&self) -> Lsn {
        self.lsn
    }

    /// Fails if a part is lost.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.is_lost { Err(Fault::WritesLost) } else { Ok(()) }
    }

    /// Notes that a written part is not on any copy any more.
    pub(crate) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Whether flushes cover all writes.
    pub(super) fn is_flushed(&self) -> bool {
        self.unflushed.is_empty()
    }

    /// Whether flushes cover all writes, and none is lost.
    pub(super) fn is_whole(&self) -> bool {
        self.is_flushed() && !self.is_lost
    }

    /// Notes a write to a copy. `None`: the connection was lost since, so that the write may be lost too.
    pub(crate) fn on_written(&mut self, key: CopyKey, ssd: SsdId, sequence: Option<Sequence>) {
        let new = Unflushed { ssd, first: Sequence::MAX, last: 0, is_lost: false };
        let entry = self.unflushed.entry(key).or_insert(new);
        if entry.ssd != ssd {
            *entry = new;
        }
        match sequence {
            Some(sequence) => {
                entry.first = entry.first.min(sequence);
                entry.last = entry.last.max(sequence);
            }
            None => entry.is_lost = true,
        }
    }

    /// Notes that a copy is stale: it need not be flushed.
    pub(crate) fn on_stale(&mut self, key: CopyKey) {
        self.unflushed.remove(&key);
    }

    /// The writes that no flush has covered, by copy.
    pub(crate) fn unflushed(&self) -> Vec<(CopyKey, Unflushed)> {
        self.unflushed.iter().map(|(key, entry)| (*key, *entry)).collect()
    }

    /// The writes to a micro blob on an SSD that no flush has covered.
    pub(crate) fn unflushed_on(&self, extent: u64, ssd: SsdId) -> Option<Unflushed> {
        let mut entries = (0..2).filter_map(|side| self.unflushed.get(&(extent, side)).copied());
        entries.find(|entry| entry.ssd == ssd)
    }

    /// Notes that flushes have covered these writes.
    pub(crate) fn on_flushed(&mut self, covered: &[(CopyKey, Unflushed)]) {
        for (key, before) in covered {
            if self.unflushed.get(key).is_some_and(|entry| entry == before) {
                self.unflushed.remove(key);
            } else if let Some(entry) = self.unflushed.get_mut(key) {
                entry.first = entry.first.max(before.last + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_only_the_writes_before_it() {
        let (key, ssd) = ((0, 1), SsdId(7));
        let mut durability = Durability::default();
        durability.on_written(key, ssd, Some(3));
        let covered = durability.unflushed();
        durability.on_written(key, ssd, Some(4));
        durability.on_flushed(&covered);
        let left = Unflushed { ssd, first: 4, last: 4, is_lost: false };
        assert_eq!((durability.unflushed(), durability.is_flushed()), (vec![(key, left)], false));
        durability.on_flushed(&[(key, left)]);
        assert!(durability.is_whole());
    }

    #[test]
    fn writes_to_the_old_place_of_a_copy_do_not_count_for_the_new_one() {
        let key = (0, 1);
        let mut durability = Durability::default();
        durability.on_written(key, SsdId(7), None);
        durability.on_written(key, SsdId(8), Some(2));
        let left = Unflushed { ssd: SsdId(8), first: 2, last: 2, is_lost: false };
        assert_eq!(durability.unflushed_on(0, SsdId(8)), Some(left));
        assert_eq!(durability.unflushed_on(0, SsdId(7)), None);
    }
}
