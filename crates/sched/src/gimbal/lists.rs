//! Where each tenant stands: doubly linked lists threaded through one array.
//!
//! A tenant is in exactly one place, because its place is one field of its link. Moving is O(1), and tenants in
//! [`Place::Idle`] are linked nowhere, so thousands of them cost nothing.
//!
//! Elsewhere: when a tenant moves is `drr`.

use alloc::vec::Vec;
use units::TenantId;

/// Where a tenant stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No backlog.
    Idle,
    /// In the round: backlog and a slot.
    Active,
    /// Backlog, but every allotted slot is busy.
    Deferred,
    /// Backlog, but a limit of the tenant's own forbids the next IO until some instant.
    Limited,
    /// Backlog, but too far ahead of the tenant that was served least.
    Ahead,
}

const LISTS: usize = 4;

impl Place {
    fn list(self) -> Option<usize> {
        match self {
            Place::Idle => None,
            Place::Active => Some(0),
            Place::Deferred => Some(1),
            Place::Limited => Some(2),
            Place::Ahead => Some(3),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    place: Place,
    previous: Option<TenantId>,
    next: Option<TenantId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    front: Option<TenantId>,
    back: Option<TenantId>,
}

/// The places of all tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    links: Vec<Link>,
    ends: [Ends; LISTS],
}

impl Lists {
    /// Makes room for `tenants` tenants; new ones are idle.
    pub(super) fn grow(&mut self, tenants: usize) {
        self.links.resize(tenants, Link { place: Place::Idle, previous: None, next: None });
    }

    pub(super) fn place(&self, tenant: TenantId) -> Place {
        self.links[tenant.index()].place
    }

    /// The tenant that has been in `place` longest since it was last moved.
    pub(super) fn front(&self, place: Place) -> Option<TenantId> {
        self.ends[place.list()?].front
    }

    /// The tenant behind `tenant` in the same place.
    pub(super) fn after(&self, tenant: TenantId) -> Option<TenantId> {
        self.links[tenant.index()].next
    }

    /// Takes `tenant` from where it stands to the back of `place` (which may be the same).
    pub(super) fn move_to_back(&mut self, tenant: TenantId, place: Place) {
        self.unlink(tenant);
        let back = place.list().and_then(|list| {
            let ends = &mut self.ends[list];
            ends.front = ends.front.or(Some(tenant));
            ends.back.replace(tenant)
        });
        if let Some(back) = back {
            self.links[back.index()].next = Some(tenant);
        }
        self.links[tenant.index()] = Link { place, previous: back, next: None };
    }

    fn unlink(&mut self, tenant: TenantId) {
        let Link { place, previous, next } = self.links[tenant.index()];
        let Some(list) = place.list() else { return };
        match previous {
            Some(previous) => self.links[previous.index()].next = next,
            None => self.ends[list].front = next,
        }
        match next {
            Some(next) => self.links[next.index()].previous = previous,
            None => self.ends[list].back = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const PLACES: [Place; 5] = [Place::Idle, Place::Active, Place::Deferred, Place::Limited, Place::Ahead];
    const TENANTS: usize = 7;

    fn contents(lists: &Lists, place: Place) -> Vec<u32> {
        std::iter::successors(lists.front(place), |&tenant| lists.after(tenant))
            .map(|tenant| tenant.0)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn lists_partition_tenants_in_the_order_of_their_moves(
            moves in prop::collection::vec((0..TENANTS as u32, 0..PLACES.len()), 0..100),
        ) {
            let mut lists = Lists::default();
            lists.grow(TENANTS);
            let mut naive = vec![Vec::new(); PLACES.len()];
            naive[0] = (0..TENANTS as u32).collect();
            for (tenant, place) in moves {
                for list in &mut naive {
                    list.retain(|&other| other != tenant);
                }
                naive[place].push(tenant);
                lists.move_to_back(TenantId(tenant), PLACES[place]);
                prop_assert_eq!(lists.place(TenantId(tenant)), PLACES[place]);
                for (place, expected) in PLACES.iter().zip(&naive).skip(1) {
                    prop_assert_eq!(&contents(&lists, *place), expected);
                }
            }
        }
    }
}
