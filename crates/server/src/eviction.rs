//! A set of connections that chooses which one to evict when it is full.
//!
//! The victim is the oldest connection from the address with the most connections. So a client that floods the set evicts its own
//! connections. If no address has more than one, the victim is the oldest connection of all.
//!
//! Holds: an address that has fewer connections than another loses none (`a_flood_evicts_its_own_connections`).
//!        Every step is O(log n).

use crate::quota::Origin;
use crate::slab::Key;
use std::collections::{BTreeSet, HashMap};
use units::{Instant, Nanos};

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
    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// The number of connections from `origin`.
    pub(crate) fn count_from(&self, origin: Origin) -> usize {
        self.counts.get(&origin).copied().unwrap_or(0)
    }

    /// Adds `key`, or moves it. Its place in the order of time is `at`.
    pub(crate) fn insert(&mut self, key: Key, origin: Origin, at: Instant) {
        self.remove(key);
        self.members.insert(key, (origin, at));
        self.by_time.insert((at, key));
        self.by_origin.insert((origin, at, key));
        let count = self.count_from(origin);
        self.count(origin, count + 1);
    }

    /// Removes `key`, if it is in the list.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some((origin, at)) = self.members.remove(&key) else { return };
        self.by_time.remove(&(at, key));
        self.by_origin.remove(&(origin, at, key));
        let count = self.count_from(origin);
        self.count(origin, count - 1);
    }

    /// Moves all connections in the order of time.
    pub(crate) fn extend(&mut self, by: Nanos) {
        self.members.values_mut().for_each(|(_, at)| *at += by);
        self.by_time = self.members.iter().map(|(key, (_, at))| (*at, *key)).collect();
        self.by_origin = self.members.iter().map(|(key, (origin, at))| (*origin, *at, *key)).collect();
    }

    /// The first connection in the order of time.
    pub(crate) fn oldest(&self) -> Option<(Instant, Key)> {
        self.by_time.first().copied()
    }

    /// The first connection from `origin` in the order of time.
    pub(crate) fn oldest_from(&self, origin: Origin) -> Option<Key> {
        let from_there = self.by_origin.range((origin, Instant::ZERO, Key::new(0, 0))..);
        from_there.map(|(of, _, key)| (*of, *key)).next().filter(|(of, _)| *of == origin).map(|(_, key)| key)
    }

    /// The origin with the most connections, if any has more than one.
    pub(crate) fn largest_origin(&self) -> Option<Origin> {
        self.sizes.last().filter(|(count, _)| *count > 1).map(|(_, origin)| *origin)
    }

    /// The connection to evict when there must be room for another one.
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
    fn a_flood_evicts_its_own_connections() {
        let origin = |n: u32| Origin::of(Ipv4Addr::from_bits(n).into());
        let key = |index: u32| Key::new(index, 0);
        let mut set = EvictionSet::default();
        for index in 0..100u32 {
            let from = if index.is_multiple_of(10) { index } else { 7 };
            set.insert(key(index), origin(from), Instant::ZERO + Nanos::secs(index.into()));
        }
        for _ in 0..89 {
            let out = set.victim().expect("a full set has a victim");
            assert!(!out.index().is_multiple_of(10), "{out:?} is alone");
            set.remove(out);
        }
        assert_eq!((set.len(), set.count_from(origin(7)), set.largest_origin()), (11, 1, None));
        assert_eq!(set.victim(), Some(key(0)), "all are alone now: the oldest one");
        (0..100).for_each(|index| set.remove(key(index)));
        assert_eq!((set.len(), set.sizes.len(), set.counts.len(), set.by_origin.len()), (0, 0, 0, 0));
    }
}
