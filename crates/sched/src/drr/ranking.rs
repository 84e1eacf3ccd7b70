//! At most one key per tenant, and the tenant with the least: the earliest timer, the least service.
//!
//! A binary heap that knows the position of each tenant in it, so that a changed key moves its one entry instead of leaving an old
//! one behind. Setting a key is O(log n) of those that are set; asking for the least is a look at the top. Tenants without a
//! key are not in it and cost nothing.
//!
//! ```text
//!   positions[tenant] ──► entries: (key, tenant), each no less than that at (position − 1) / 2
//! ```

use alloc::vec::Vec;
use units::TenantId;

/// The position of a tenant without a key.
const ABSENT: u32 = u32::MAX;

/// Keys of all tenants for one purpose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranking<K> {
    entries: Vec<(K, TenantId)>,
    /// The position of each tenant in `entries`, by tenant.
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

    /// Sets the tenant's key, or clears it.
    #[inline]
    pub(crate) fn set(&mut self, tenant: TenantId, key: Option<K>) {
        match (key, self.positions[tenant.index()]) {
            (None, ABSENT) => {}
            (None, position) => self.remove(tenant, position as usize),
            (Some(key), ABSENT) => self.insert((key, tenant)),
            (Some(key), position) => self.replace(position as usize, (key, tenant)),
        }
    }

    /// Changes every key in a way that keeps their order.
    pub(crate) fn shift(&mut self, change: impl Fn(K) -> K) {
        self.entries.iter_mut().for_each(|(key, _)| *key = change(*key));
    }

    /// The least key; of several, that of the tenant with the lowest number.
    #[inline]
    pub(crate) fn first(&self) -> Option<(K, TenantId)> {
        self.entries.first().copied()
    }

    fn insert(&mut self, entry: (K, TenantId)) {
        self.entries.push(entry);
        self.rise(self.entries.len() - 1, entry);
    }

    fn remove(&mut self, tenant: TenantId, position: usize) {
        self.positions[tenant.index()] = ABSENT;
        let last = self.entries.pop().expect("the tenant has an entry");
        if position < self.entries.len() {
            self.replace(position, last);
        }
    }

    /// Puts `entry` where its key belongs; the one at `position` is gone.
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
                ranking.set(TenantId(tenant), key);
                naive[tenant as usize] = key.map(|key| (key, TenantId(tenant)));
                prop_assert_eq!(ranking.contains(TenantId(tenant)), key.is_some());
                prop_assert_eq!(ranking.first(), naive.iter().flatten().min().copied());
                prop_assert_eq!(ranking.entries.len(), naive.iter().flatten().count(), "entries are left behind");
            }
        }
    }
}
