//! A map from ranges of bytes to values: an inserted range replaces those that it overlaps.
//!
//! Holds: it says the same as a list with an entry for each byte (`it_says_the_same_as_a_list_of_bytes`).

use std::collections::BTreeMap;

/// Disjoint ranges with a value each.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<V> {
    /// By start: end and value.
    by_start: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Ranges<V> {
    fn default() -> Ranges<V> {
        Ranges { by_start: BTreeMap::new() }
    }
}

/// A range and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<V> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) value: V,
}

impl<V> Entry<V> {
    pub(crate) fn length(&self) -> u64 {
        self.end - self.start
    }
}

impl<V: Copy> Ranges<V> {
    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<V>> + '_ {
        self.by_start.iter().map(|(&start, &(end, value))| Entry { start, end, value })
    }

    /// Entries that overlap `start..end`, cut to it, in order.
    pub(crate) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Entry<V>> + '_ {
        let before = self.by_start.range(..start).next_back().filter(|(_, (until, _))| *until > start);
        before.into_iter().chain(self.by_start.range(start..end)).map(move |(&from, &(until, value))| Entry {
            start: from.max(start),
            end: until.min(end),
            value,
        })
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.within(start, end).next().is_some()
    }

    /// Whether every byte of `start..end` has a value.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        self.within(start, end).map(|entry| entry.length()).sum::<u64>() == end - start
    }

    /// Removes `start..end` and returns the ranges that were there, in order.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> Vec<Entry<V>> {
        let removed: Vec<Entry<V>> = self.within(start, end).collect();
        for entry in &removed {
            // The entry that it was cut from begins at or before it.
            let (&from, &(until, value)) =
                self.by_start.range(..=entry.start).next_back().expect("it was found there");
            self.by_start.remove(&from);
            if from < entry.start {
                self.by_start.insert(from, (entry.start, value));
            }
            if until > entry.end {
                self.by_start.insert(entry.end, (until, value));
            }
        }
        removed
    }

    /// Inserts a range and returns those that it replaces.
    pub(crate) fn insert(&mut self, start: u64, end: u64, value: V) -> Vec<Entry<V>> {
        let replaced = self.remove(start, end);
        self.by_start.insert(start, (end, value));
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const SPACE: u64 = 64;

    #[test]
    fn it_says_the_same_as_a_list_of_bytes() {
        for seed in 0..200 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (mut ranges, mut bytes) = (Ranges::default(), [None; SPACE as usize]);
            for value in 0..50u32 {
                let start = random.random_range(0..SPACE);
                let end = random.random_range(start + 1..=SPACE);
                let (from, to) = (start as usize, end as usize);
                let there = bytes[from..to].iter().flatten().count() as u64;
                assert_eq!(ranges.covers(start, end), there == end - start, "seed {seed}");
                assert_eq!(ranges.overlaps(start, end), there > 0, "seed {seed}");
                let inserts = random.random_bool(0.6);
                let out = if inserts { ranges.insert(start, end, value) } else { ranges.remove(start, end) };
                assert_eq!(out.iter().map(Entry::length).sum::<u64>(), there, "seed {seed}");
                assert!(out.iter().all(|e| (e.start..e.end).all(|b| bytes[b as usize] == Some(e.value))));
                bytes[from..to].fill(inserts.then_some(value));
                let mut listed = [None; SPACE as usize];
                ranges.iter().for_each(|e| listed[e.start as usize..e.end as usize].fill(Some(e.value)));
                assert_eq!(listed, bytes, "seed {seed}");
            }
        }
    }
}
