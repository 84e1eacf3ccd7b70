//! The list of each tenant: doubly linked rings threaded through one array.
//!
//! A tenant is in exactly one place: its place is one field of its link. Moving is O(1), and tenants in
//! [`Place::Idle`] are linked nowhere, so thousands of them cost nothing.
//!
//! ```text
//!   links: [ heads of the four lists │ tenant 0 │ tenant 1 │ … ]     a head's next is the front, its previous the back;
//!                                                                   an idle tenant is a ring of its own
//! ```
//!
//! Elsewhere: when a tenant moves is `drr`.

use alloc::vec::Vec;
use units::TenantId;

/// The list that a tenant is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the round: backlog, and room in the SSD.
    Active = 0,
    /// Backlog, but no room in the SSD.
    Deferred = 1,
    /// Backlog, but a limit of the tenant's own forbids the next IO until some instant.
    Limited = 2,
    /// Backlog, but served too much more than another tenant.
    Ahead = 3,
    /// No backlog.
    Idle = 4,
}

/// The places that are lists; the head of each is the link with its number.
const LISTS: [Place; 4] = [Place::Active, Place::Deferred, Place::Limited, Place::Ahead];

#[derive(Clone, Copy, Debug)]
struct Link {
    place: Place,
    previous: u32,
    next: u32,
}

/// The places of all tenants.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    links: Vec<Link>,
}

impl Default for Lists {
    fn default() -> Lists {
        let heads = LISTS.map(|place| Link { place, previous: place as u32, next: place as u32 });
        Lists { links: heads.to_vec() }
    }
}

#[inline]
fn node(tenant: TenantId) -> u32 {
    tenant.0 + LISTS.len() as u32
}

#[inline]
fn tenant(node: u32) -> Option<TenantId> {
    node.checked_sub(LISTS.len() as u32).map(TenantId)
}

impl Lists {
    /// Makes room for `tenants` tenants; new ones are idle.
    pub(super) fn grow(&mut self, tenants: usize) {
        let known = self.links.len() - LISTS.len();
        let new = (known..tenants).map(|id| {
            let alone = node(TenantId(id as u32));
            Link { place: Place::Idle, previous: alone, next: alone }
        });
        self.links.extend(new);
    }

    #[inline]
    pub(super) fn place(&self, tenant: TenantId) -> Place {
        self.links[node(tenant) as usize].place
    }

    /// The tenant that has been in `place` longest since it was last moved.
    #[inline]
    pub(super) fn front(&self, place: Place) -> Option<TenantId> {
        if place == Place::Idle { None } else { tenant(self.links[place as usize].next) }
    }

    /// The tenant behind `id` in the same place.
    #[inline]
    pub(super) fn after(&self, id: TenantId) -> Option<TenantId> {
        let link = self.links[node(id) as usize];
        if link.place == Place::Idle { None } else { tenant(link.next) }
    }

    /// Moves `tenant` from its list to the back of `place` (which may be the same).
    #[inline]
    pub(super) fn move_to_back(&mut self, tenant: TenantId, place: Place) {
        let own = node(tenant);
        let Link { previous, next, .. } = self.links[own as usize];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        let head = if place == Place::Idle { own } else { place as u32 };
        // For a ring of its own the link of `own` is still the old one here, and overwritten at once.
        let back = if place == Place::Idle { own } else { self.links[head as usize].previous };
        self.links[back as usize].next = own;
        self.links[head as usize].previous = own;
        self.links[own as usize] = Link { place, previous: back, next: head };
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
        #![proptest_config(crate::random_cases(300))]

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
