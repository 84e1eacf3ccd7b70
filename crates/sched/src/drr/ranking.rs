//! At most one key per tenant, and the tenant with the least: the earliest timer, the least service.
//!
//! A binary heap that knows the position of each tenant in it, so that a changed key moves its one entry instead of leaving an old
//! one behind. Setting a key is O(log n) of those that are set; asking for the least is a look at the top. Tenants without a
//! key are not in it and cost nothing.
//!
//! The key that was added last stays outside the heap until another is added. If each of a tenant's IOs leaves as soon
//! as it arrives, the tenant gets and loses its key with nothing in between, which moves no entry.
//!
//! ```text
//!   positions[tenant] ──► entries: (key, tenant), each no less than that at (position − 1) / 2
//!                     └─► newest: (key, tenant), if its position is NEWEST
//! ```

use alloc::vec::Vec;
use units::TenantId;

/// The position of a tenant without a key.
const ABSENT: u32 = u32::MAX;
/// The position of a tenant with its key outside the heap.
const NEWEST: u32 = u32::MAX - 1;

/// Keys of all tenants for one purpose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking<K> {
    entries: Vec<(K, TenantId)>,
    /// The key that was added last.
    newest: Option<(K, TenantId)>,
    /// Where each tenant's key is, by tenant.
    positions: Vec<u32>,
}

impl<K: Copy + Ord> Ranking<K> {
    /// Makes room for `tenants` tenants; new ones have no key.
    pub(crate) fn grow(&mut self, tenants: usize) {
        self.positions.resize(tenants, ABSENT);
    }

    /// Whether the tenant has a key.
    #[inline]
    pub(crate) fn contains(&self, tenant: TenantId) -> bool {
        self.positions[tenant.index()] != ABSENT
    }

    /// Whether no tenant has a key.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none() && self.entries.is_empty()
    }

    /// Sets the tenant's key.
    #[inline]
    pub(crate) fn set(&mut self, tenant: TenantId, key: K) {
        let position = &mut self.positions[tenant.index()];
        match *position {
            NEWEST => self.newest = Some((key, tenant)),
            ABSENT => {
                *position = NEWEST;
                if let Some(other) = self.newest.replace((key, tenant)) {
                    self.insert(other);
                }
            }
            position => self.replace(position as usize, (key, tenant)),
        }
    }

    /// Clears the tenant's key, if it has one.
    #[inline]
    pub(crate) fn clear(&mut self, tenant: TenantId) {
        if self.is_empty() {
            return;
        }
        let position = &mut self.positions[tenant.index()];
        match core::mem::replace(position, ABSENT) {
            NEWEST => self.newest = None,
            ABSENT => {}
            position => self.remove(position as usize),
        }
    }

    /// Changes every key in a way that keeps their order.
    pub(crate) fn shift(&mut self, change: impl Fn(K) -> K) {
        self.entries.iter_mut().chain(&mut self.newest).for_each(|(key, _)| *key = change(*key));
    }

    /// The least key; of several, that of the tenant with the lowest number.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, TenantId)> {
        match (self.newest, self.entries.first()) {
            (newest, None) => newest,
            (None, Some(top)) => Some(*top),
            (Some(newest), Some(top)) => Some(newest.min(*top)),
        }
    }

    /// The least key.
    #[inline]
    pub(crate) fn least(&self) -> Option<K> {
        match (self.newest, self.entries.first()) {
            (newest, None) => newest.map(|(key, _)| key),
            (None, Some((top, _))) => Some(*top),
            (Some((newest, _)), Some((top, _))) => Some(newest.min(*top)),
        }
    }

    fn insert(&mut self, entry: (K, TenantId)) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry);
    }

    /// Takes the entry at `position` out of the heap.
    fn remove(&mut self, position: usize) {
        let last = self.entries.pop().expect("the tenant has an entry");
        if position < self.entries.len() {
            self.replace(position, last);
        }
    }

    /// Puts `entry` where its key belongs, in place of the one at `position`.
    fn replace(&mut self, position: usize, entry: (K, TenantId)) {
        if entry < self.entries[position] {
            self.rise(position, entry);
        } else {
            self.sink(position, entry);
        }
    }

    /// Puts `entry` in the place of the one at `position`, or above it.
    fn rise(&mut self, mut position: usize, entry: (K, TenantId)) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent] < entry {
                break;
            }
            self.place(position, self.entries[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    /// Puts `entry` in the place of the one at `position`, or below it.
    fn sink(&mut self, mut position: usize, entry: (K, TenantId)) {
        loop {
            let mut child = 2 * position + 1;
            let Some(mut least) = self.entries.get(child).copied() else { break };
            if let Some(&other) = self.entries.get(child + 1)
                && other < least
            {
                (child, least) = (child + 1, other);
            }
            if entry < least {
                break;
            }
            self.place(position, least);
            position = child;
        }
        self.place(position, entry);
    }

    #[inline]
    fn place(&mut self, position: usize, entry: (K, TenantId)) {
        self.entries[position] = entry;
        self.positions[entry.1.index()] = position as u32;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const TENANTS: usize = 20;

    proptest! {
        #![proptest_config(crate::random_cases(300))]

        #[test]
        fn the_first_is_the_least_that_is_set(
            sets in prop::collection::vec((0..TENANTS as u32, prop::option::of(0..50u64)), 0..200),
        ) {
            let mut ranking = Ranking::default();
            ranking.grow(TENANTS);
            let mut naive = [None; TENANTS];
            for (tenant, key) in sets {
                match key {
                    Some(key) => ranking.set(TenantId(tenant), key),
                    None => ranking.clear(TenantId(tenant)),
                }
                naive[tenant as usize] = key.map(|key| (key, TenantId(tenant)));
                prop_assert_eq!(ranking.contains(TenantId(tenant)), key.is_some());
                prop_assert_eq!(ranking.first(), naive.iter().flatten().min().copied());
                prop_assert_eq!(ranking.least(), ranking.first().map(|(key, _)| key));
                let kept = ranking.entries.len() + usize::from(ranking.newest.is_some());
                prop_assert_eq!(kept, naive.iter().flatten().count(), "entries are left behind");
                prop_assert_eq!(ranking.is_empty(), kept == 0);
            }
        }
    }
}
