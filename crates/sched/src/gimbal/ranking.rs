//! At most one key per tenant, and the tenant with the least: the earliest timer, the least service.
//!
//! Only tenants that have a key are in it; the others cost nothing. Setting one is O(log n) of those that are set. A changed
//! key leaves its old entry in the heap; such entries are dropped when they surface, or all at once when they are the
//! majority.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use units::TenantId;

/// Fewer entries than this are never worth a clean-up.
const ENTRIES_MIN: usize = 16;

/// Keys of all tenants for one purpose.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking<K: Ord> {
    /// The key that counts, by tenant.
    set: Vec<Option<K>>,
    set_count: usize,
    entries: BinaryHeap<Reverse<(K, TenantId)>>,
}

impl<K: Copy + Ord> Ranking<K> {
    /// Makes room for `tenants` tenants; new ones have no key.
    pub(super) fn grow(&mut self, tenants: usize) {
        self.set.resize(tenants, None);
    }

    /// The tenant's key.
    pub(super) fn get(&self, tenant: TenantId) -> Option<K> {
        self.set[tenant.index()]
    }

    /// Sets the tenant's key, or clears it.
    pub(super) fn set(&mut self, tenant: TenantId, key: Option<K>) {
        let before = core::mem::replace(&mut self.set[tenant.index()], key);
        self.set_count = self.set_count + usize::from(key.is_some()) - usize::from(before.is_some());
        if let (Some(key), true) = (key, key != before) {
            if self.entries.len() >= ENTRIES_MIN.max(2 * self.set_count) {
                let set = &self.set;
                self.entries.retain(|&Reverse((key, tenant))| set[tenant.index()] == Some(key));
            }
            self.entries.push(Reverse((key, tenant)));
        }
    }

    /// The least key; of several, that of the tenant with the lowest number.
    pub(super) fn first(&mut self) -> Option<(K, TenantId)> {
        while let Some(&Reverse((key, tenant))) = self.entries.peek() {
            if self.set[tenant.index()] == Some(key) {
                return Some((key, tenant));
            }
            self.entries.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const TENANTS: usize = 5;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

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
                prop_assert_eq!(ranking.get(TenantId(tenant)), key);
                prop_assert_eq!(ranking.first(), naive.iter().flatten().min().copied());
                let kept = ranking.entries.len();
                prop_assert!(kept <= ENTRIES_MIN.max(2 * TENANTS) + 1, "{kept} entries for {TENANTS} tenants");
            }
        }
    }
}
