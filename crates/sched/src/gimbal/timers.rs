//! At most one timer per tenant, and the earliest of them.
//!
//! Only tenants with a limit or a reservation have timers; the others cost nothing. Setting one is O(log n) of those that
//! are set. A changed timer leaves its old entry in the heap; such entries are dropped when they surface, or all at once
//! when they are the majority.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use units::{Instant, TenantId};

/// Fewer entries than this are never worth a clean-up.
const ENTRIES_MIN: usize = 16;

/// Timers of all tenants for one purpose.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    /// The instant that counts, by tenant.
    set: Vec<Option<Instant>>,
    set_count: usize,
    entries: BinaryHeap<Reverse<(Instant, TenantId)>>,
}

impl Timers {
    /// Makes room for `tenants` tenants; new ones have no timer.
    pub(super) fn grow(&mut self, tenants: usize) {
        self.set.resize(tenants, None);
    }

    /// Sets the tenant's timer, or clears it.
    pub(super) fn set(&mut self, tenant: TenantId, at: Option<Instant>) {
        let before = core::mem::replace(&mut self.set[tenant.index()], at);
        self.set_count = self.set_count + usize::from(at.is_some()) - usize::from(before.is_some());
        if let (Some(at), true) = (at, at != before) {
            if self.entries.len() >= ENTRIES_MIN.max(2 * self.set_count) {
                let set = &self.set;
                self.entries.retain(|&Reverse((at, tenant))| set[tenant.index()] == Some(at));
            }
            self.entries.push(Reverse((at, tenant)));
        }
    }

    /// The earliest timer.
    pub(super) fn first(&mut self) -> Option<(Instant, TenantId)> {
        while let Some(&Reverse((at, tenant))) = self.entries.peek() {
            if self.set[tenant.index()] == Some(at) {
                return Some((at, tenant));
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
        fn the_first_timer_is_the_earliest_that_is_set(
            sets in prop::collection::vec((0..TENANTS as u32, prop::option::of(0..50u64)), 0..200),
        ) {
            let mut timers = Timers::default();
            timers.grow(TENANTS);
            let mut naive = [None; TENANTS];
            for (tenant, at) in sets {
                timers.set(TenantId(tenant), at.map(Instant));
                naive[tenant as usize] = at.map(|at| (Instant(at), TenantId(tenant)));
                prop_assert_eq!(timers.first(), naive.iter().flatten().min().copied());
                let kept = timers.entries.len();
                prop_assert!(kept <= ENTRIES_MIN.max(2 * TENANTS) + 1, "{kept} entries for {TENANTS} tenants");
            }
        }
    }
}
