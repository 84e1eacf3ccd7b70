//! The IOs on the device in the order of submission, and those that are late.
//!
//! Two limits are watched: the patience of other tenants (a scheduler should not wait for a tenant whose IOs may never end), and
//! the time after which the device is said to hang. IOs pass each in the order of their submission, so a mark in that order
//! suffices: a check costs in proportion to the IOs that passed it since, not to all IOs.
//!
//! Holds: the count of late IOs equals that of a walk over all IOs (`late_ios_are_those_that_a_walk_would_find`).

use crate::intrusive_list::{Links, List};
use crate::slab::Key;
use std::collections::BTreeMap;
use units::{Instant, TenantId};

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Others should wait for the tenant no more.
    Patience = 0,
    /// The device hangs.
    Hang = 1,
}

#[derive(Clone, Copy)]
struct Entry {
    at: Instant,
    tenant: TenantId,
    /// Whether it has passed each limit.
    is_late: [bool; 2],
}

/// The content of a slot that no IO has had yet.
const UNUSED: Entry = Entry { at: Instant::ZERO, tenant: TenantId(0), is_late: [false; 2] };

/// The progress of one limit.
#[derive(Default)]
struct Mark {
    /// The first IO that has not passed it.
    next: Option<Key>,
    late: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Watch {
    links: Links,
    order: List,
    /// By slot of the key; only those of IOs in the order mean anything.
    entries: Vec<Entry>,
    marks: [Mark; 2],
    /// IOs beyond the patience of others, by tenant.
    overdue: BTreeMap<TenantId, usize>,
}

impl Watch {
    /// Adds an IO that goes to the device, behind all others.
    pub(super) fn on_submit(&mut self, now: Instant, key: Key, tenant: TenantId) {
        self.links.push(&mut self.order, key);
        if self.entries.len() <= key.index() {
            self.grow(key.index());
        }
        self.entries[key.index()] = Entry { at: now, tenant, is_late: [false; 2] };
        self.marks.iter_mut().for_each(|mark| _ = mark.next.get_or_insert(key));
    }

    /// An IO has ended.
    pub(super) fn on_end(&mut self, key: Key) {
        let is_next = self.marks.each_ref().map(|mark| mark.next == Some(key));
        if is_next != [false; 2] {
            let after = self.links.after(key);
            for (mark, _) in self.marks.iter_mut().zip(is_next).filter(|(_, is_next)| *is_next) {
                mark.next = after;
            }
        }
        if self.entries[key.index()].is_late != [false; 2] {
            self.forget_late(key);
        }
        self.links.remove(&mut self.order, key);
    }

    #[cold]
    fn forget_late(&mut self, key: Key) {
        [Limit::Patience, Limit::Hang].into_iter().for_each(|limit| self.set_late(limit, key, false));
    }

    #[cold]
    fn grow(&mut self, slot: usize) {
        self.entries.resize(slot + 1, UNUSED);
    }

    /// Looks which IOs have passed a limit, by `is_late` of the moment of submission: true for all up to some moment.
    pub(super) fn look(&mut self, limit: Limit, is_late: impl Fn(Instant) -> bool) {
        let next = self.marks[limit as usize].next;
        // The limit may have become longer.
        let mut last = match next {
            Some(next) => self.links.before(next),
            None => self.links.last(&self.order),
        };
        while let Some(key) = last.filter(|key| !is_late(self.entry(*key).at)) {
            self.set_late(limit, key, false);
            self.marks[limit as usize].next = Some(key);
            last = self.links.before(key);
        }
        while let Some(key) = self.marks[limit as usize].next.filter(|key| is_late(self.entry(*key).at)) {
            self.set_late(limit, key, true);
            self.marks[limit as usize].next = self.links.after(key);
        }
    }

    /// IOs that had passed a limit when that was last looked at, and have not ended.
    pub(super) fn late(&self, limit: Limit) -> usize {
        self.marks[limit as usize].late
    }

    /// Tenants with IOs that had passed the patience of others.
    pub(super) fn overdue(&self) -> impl Iterator<Item = TenantId> {
        self.overdue.keys().copied()
    }

    /// The time of submission of the oldest IO on the device.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.links.first(&self.order).map(|key| self.entry(key).at)
    }

    fn entry(&self, key: Key) -> &Entry {
        &self.entries[key.index()]
    }

    fn set_late(&mut self, limit: Limit, key: Key, is_late: bool) {
        let entry = &mut self.entries[key.index()];
        let was_late = std::mem::replace(&mut entry.is_late[limit as usize], is_late);
        let tenant = entry.tenant;
        let mark = &mut self.marks[limit as usize];
        match (was_late, is_late) {
            (false, true) => mark.late += 1,
            (true, false) => mark.late -= 1,
            _ => return,
        }
        if limit == Limit::Patience {
            let overdue = self.overdue.entry(tenant).or_default();
            *overdue = if is_late { *overdue + 1 } else { *overdue - 1 };
            if *overdue == 0 {
                self.overdue.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::{Slab, steps};
    use proptest::prelude::*;
    use units::Nanos;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

        #[test]
        fn late_ios_are_those_that_a_walk_would_find(
            ops in prop::collection::vec((0..4u8, 0..60u64, any::<prop::sample::Index>()), 0..200),
        ) {
            let (mut slab, mut watch, mut now) = (Slab::new(), Watch::default(), Instant(1000));
            let mut naive: Vec<(Key, Instant, TenantId)> = Vec::new();
            for (op, number, index) in ops {
                match op {
                    0 => {
                        let (key, tenant) = (slab.insert(()), TenantId(number as u32 % 3));
                        watch.on_submit(now, key, tenant);
                        naive.push((key, now, tenant));
                    }
                    1 if !naive.is_empty() => {
                        let (key, ..) = naive.remove(index.index(naive.len()));
                        watch.on_end(key);
                        slab.remove(key);
                    }
                    2 => now += Nanos(number),
                    _ => {
                        // The limit is another each time.
                        let is_late = |at: Instant| now.saturating_since(at) >= Nanos(number);
                        let late = naive.iter().filter(|(_, at, _)| is_late(*at));
                        let mut tenants: Vec<TenantId> = late.clone().map(|(.., tenant)| *tenant).collect();
                        tenants.sort_unstable();
                        tenants.dedup();
                        for limit in [Limit::Patience, Limit::Hang] {
                            watch.look(limit, is_late);
                            prop_assert_eq!(watch.late(limit), late.clone().count());
                        }
                        prop_assert!(watch.overdue().eq(tenants));
                    }
                }
                prop_assert_eq!(watch.oldest(), naive.first().map(|(_, at, _)| *at));
            }
        }
    }

    #[test]
    fn looking_again_costs_no_more_the_more_are_late() {
        let cost_of = |ios: usize| {
            let (mut slab, mut watch) = (Slab::new(), Watch::default());
            (0..ios).for_each(|_| watch.on_submit(Instant(1), slab.insert(()), TenantId(0)));
            watch.look(Limit::Hang, |_| true);
            let before = steps::so_far();
            watch.look(Limit::Hang, |_| true);
            assert_eq!(watch.late(Limit::Hang), ios);
            steps::so_far() - before
        };
        assert_eq!(cost_of(100_000), cost_of(10));
    }
}
