//! Those of whom one can be asked to go: by how long they are there, and by where they come from.
//!
//! When a room is full and another comes, somebody goes from the address that has most in it: whoever floods a room pushes out
//! itself. Where all addresses have one, it is the one that is there for longest.
//!
//! Holds: an address that has fewer than another loses nobody (`a_flood_pushes_out_itself`). Every step is O(log n).

use crate::quota::Origin;
use crate::slab::Key;
use std::collections::{BTreeSet, HashMap};
use units::Instant;

/// See the module.
#[derive(Default)]
pub(crate) struct EvictionSet {
    members: HashMap<Key, (Origin, Instant)>,
    by_time: BTreeSet<(Instant, Key)>,
    by_origin: BTreeSet<(Origin, Instant, Key)>,
    counts: HashMap<Origin, usize>,
    sizes: BTreeSet<(usize, Origin)>,
}

impl EvictionSet {
    /// Number of those in it.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// How many come from `origin`.
    pub(crate) fn count_from(&self, origin: Origin) -> usize {
        self.counts.get(&origin).copied().unwrap_or(0)
    }

    /// `key` comes in. Its place in time is `at`.
    pub(crate) fn insert(&mut self, key: Key, origin: Origin, at: Instant) {
        self.remove(key);
        self.members.insert(key, (origin, at));
        self.by_time.insert((at, key));
        self.by_origin.insert((origin, at, key));
        let count = self.count_from(origin);
        self.count(origin, count + 1);
    }

    /// `key` leaves, if it is in.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some((origin, at)) = self.members.remove(&key) else { return };
        self.by_time.remove(&(at, key));
        self.by_origin.remove(&(origin, at, key));
        let count = self.count_from(origin);
        self.count(origin, count - 1);
    }

    /// The first in time.
    pub(crate) fn oldest(&self) -> Option<(Instant, Key)> {
        self.by_time.first().copied()
    }

    /// The first in time of those from `origin`.
    pub(crate) fn oldest_from(&self, origin: Origin) -> Option<Key> {
        let from_there = self.by_origin.range((origin, Instant::ZERO, Key::new(0, 0))..);
        from_there.map(|(of, _, key)| (*of, *key)).next().filter(|(of, _)| *of == origin).map(|(_, key)| key)
    }

    /// The address that most come from, if more than one does from any.
    pub(crate) fn largest_origin(&self) -> Option<Origin> {
        self.sizes.last().filter(|(count, _)| *count > 1).map(|(_, origin)| *origin)
    }

    /// Who goes when another needs the place.
    pub(crate) fn victim(&self) -> Option<Key> {
        match self.largest_origin() {
            Some(origin) => self.oldest_from(origin),
            None => self.oldest().map(|(_, key)| key),
        }
    }

    fn count(&mut self, origin: Origin, count: usize) {
        if let Some(before) = self.counts.remove(&origin) {
            self.sizes.remove(&(before, origin));
        }
        if count > 0 {
            self.counts.insert(origin, count);
            self.sizes.insert((count, origin));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use units::Nanos;

    #[test]
    fn a_flood_pushes_out_itself() {
        let origin = |n: u32| Origin::of(Ipv4Addr::from_bits(n).into());
        let key = |index: u32| Key::new(index, 0);
        let mut set = EvictionSet::default();
        for index in 0..100u32 {
            let from = if index.is_multiple_of(10) { index } else { 7 };
            set.insert(key(index), origin(from), Instant::ZERO + Nanos::secs(index.into()));
        }
        for _ in 0..89 {
            let out = set.victim().expect("somebody");
            assert!(!out.index().is_multiple_of(10), "{out:?} is alone");
            set.remove(out);
        }
        assert_eq!((set.len(), set.count_from(origin(7)), set.largest_origin()), (11, 1, None));
        assert_eq!(set.victim(), Some(key(0)), "now the longest there");
        (0..100).for_each(|index| set.remove(key(index)));
        assert_eq!((set.len(), set.sizes.len(), set.counts.len(), set.by_origin.len()), (0, 0, 0, 0));
    }
}
