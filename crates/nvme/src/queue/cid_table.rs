//! Finds an outstanding command by its identifier (CID).
//!
//! A CID can be any 16-bit value. Linux keeps a dense index in the low 12 bits and a generation in the upper
//! 4. So a CID must not be used as an index: this is a hash table with linear probing, at most half full. The
//! hash multiplies by the golden ratio, which spreads dense CIDs evenly. (Hashed by their low bits, they
//! would form one long run, and every removal would walk it: a third of all instructions per command at queue
//! depth 64.)
//!
//! Holds: the table behaves like a map (`behaves_like_a_map`).

/// 2^16 divided by the golden ratio, made odd.
const GOLDEN_RATIO: u16 = 0x9e37;

/// A map from command identifier to `V`, of limited size.
#[derive(Debug)]
pub(crate) struct CidTable<V> {
    /// The length is a power of two and at least twice `capacity`.
    buckets: Box<[Option<(u16, V)>]>,
    /// The hash shifted right by this is a bucket index.
    shift: u32,
    length: usize,
    capacity: usize,
}

impl<V: Copy> CidTable<V> {
    /// A table for at most `capacity` commands.
    pub(crate) fn new(capacity: usize) -> Self {
        let buckets = vec![None; (capacity.max(1) * 2).next_power_of_two()].into_boxed_slice();
        // A table with more buckets than there are identifiers uses only the first 65536.
        let shift = u16::BITS.saturating_sub(buckets.len().ilog2());
        CidTable { buckets, shift, length: 0, capacity }
    }

    /// Changes the capacity. Commands that are present stay, even if they are more than the new capacity.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        let mut resized = CidTable::new(capacity.max(self.length));
        for (cid, value) in self.buckets.iter().copied().flatten() {
            resized.insert(cid, value);
        }
        resized.capacity = capacity;
        *self = resized;
    }

    /// Number of commands present.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Whether the table is full.
    pub(crate) fn is_full(&self) -> bool {
        self.length >= self.capacity
    }

    /// The value of `cid`, if present.
    pub(crate) fn get(&self, cid: u16) -> Option<V> {
        self.buckets[self.bucket_of(cid)].map(|(_, value)| value)
    }

    /// Adds `cid`, which must not be present; the table must not be full.
    pub(crate) fn insert(&mut self, cid: u16, value: V) {
        debug_assert!(!self.is_full(), "{} commands in a table for {}", self.length, self.capacity);
        let bucket = self.bucket_of(cid);
        debug_assert!(self.buckets[bucket].is_none(), "command {cid:#x} added twice");
        self.buckets[bucket] = Some((cid, value));
        self.length += 1;
    }

    /// Replaces the value of `cid`, which must be present.
    pub(crate) fn set(&mut self, cid: u16, value: V) {
        let bucket = self.bucket_of(cid);
        debug_assert!(self.buckets[bucket].is_some(), "command {cid:#x} is not present");
        self.buckets[bucket] = Some((cid, value));
    }

    /// Removes `cid` and returns its value.
    pub(crate) fn remove(&mut self, cid: u16) -> Option<V> {
        let mask = self.buckets.len() - 1;
        let mut hole = self.bucket_of(cid);
        let (_, removed) = self.buckets[hole].take()?;
        self.length -= 1;
        // Entries behind the hole move up, unless that would put them before their first probe.
        let mut at = (hole + 1) & mask;
        while let Some((cid, _)) = self.buckets[at] {
            let first_probe = self.first_probe(cid);
            if (at.wrapping_sub(first_probe) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.buckets[hole] = self.buckets[at].take();
                hole = at;
            }
            at = (at + 1) & mask;
        }
        Some(removed)
    }

    /// The first bucket to probe for `cid`: the upper bits of its hash.
    fn first_probe(&self, cid: u16) -> usize {
        usize::from(cid.wrapping_mul(GOLDEN_RATIO)) >> self.shift
    }

    /// The bucket of `cid`, or the empty bucket where it would be inserted.
    fn bucket_of(&self, cid: u16) -> usize {
        let mask = self.buckets.len() - 1;
        let mut at = self.first_probe(cid);
        while let Some((present, _)) = self.buckets[at] {
            if present == cid {
                break;
            }
            at = (at + 1) & mask;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Steps of one case; few under Miri.
    const STEPS_MAX: usize = if cfg!(miri) { 20 } else { 200 };

    proptest! {
        #![proptest_config(crate::random_cases(256))]

        #[test]
        fn behaves_like_a_map(steps in proptest::collection::vec((0u16..4, 0u16..12, any::<bool>()), 0..STEPS_MAX)) {
            let mut table = CidTable::new(16);
            let mut map = BTreeMap::new();
            for (step, (generation, index, add)) in steps.into_iter().enumerate() {
                let cid = generation << 12 | index;
                if add && !map.contains_key(&cid) && !table.is_full() {
                    table.insert(cid, step);
                    map.insert(cid, step);
                } else if !add {
                    prop_assert_eq!(table.remove(cid), map.remove(&cid));
                }
                prop_assert_eq!(table.len(), map.len());
                for generation in 0..4 {
                    for index in 0..12 {
                        let cid = generation << 12 | index;
                        prop_assert_eq!(table.get(cid), map.get(&cid).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn a_resized_table_keeps_what_it_held() {
        let mut table = CidTable::new(4);
        for cid in 0..4u16 {
            table.insert(cid << 12, cid);
        }
        assert!(table.is_full());
        table.set_capacity(2);
        assert!(table.is_full());
        table.set_capacity(64);
        assert!(!table.is_full());
        for cid in 0..4u16 {
            assert_eq!(table.get(cid << 12), Some(cid));
        }
    }
}
