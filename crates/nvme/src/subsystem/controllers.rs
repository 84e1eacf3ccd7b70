//! The controllers of a subsystem, and what finds them: by identifier, by host, by the time at which a keep-alive timer is checked.
//!
//! A controller has a *slot* from its beginning to its end. A slot is used again afterwards, so whoever keeps one beyond that keeps the
//! controller's identifier too.
//!
//! A host may connect and disconnect as often as it likes, so none of this may cost a walk over all controllers.
//!
//! Holds: identifiers, counts and timers are those that a walk over all controllers would find
//!        (`the_indexes_of_controllers_match_a_plain_list` in `tests/controller/subsystem.rs`);
//!        a timer is checked no later than its deadline (`a_timer_is_checked_when_it_is_due_and_not_after_its_controller_has_ended`).
//! Elsewhere: one controller is `controller`; their connections are `queues`.

use super::action::QueueKey;
use super::config::Limits;
use super::controller::Controller;
use super::controller_ids::ControllerIds;
use super::keep_alive::KeepAlive;
use crate::spec::{HostId, Nqn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use units::{Instant, Nanos};

#[derive(Clone, Debug)]
struct Entry {
    controller: Controller,
    /// When its keep-alive timer is checked.
    watched: Option<Instant>,
    /// Whether it was connected from where its host is.
    is_at_home: bool,
}

/// Numbers of controllers of one host.
#[derive(Clone, Copy, Debug, Default)]
struct OfHost {
    all: usize,
    at_home: usize,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Controllers {
    table: Vec<Option<Entry>>,
    /// Slots without a controller.
    free: Vec<usize>,
    /// Slots, by controller identifier.
    by_id: BTreeMap<u16, usize>,
    /// Number of controllers per host.
    of_host: BTreeMap<Nqn, OfHost>,
    /// When to check which timer.
    deadlines: BTreeSet<(Instant, usize)>,
    id_last: u16,
}

impl Controllers {
    /// Number of controllers.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Number of controllers of a host.
    pub(super) fn count_of(&self, host: &Nqn) -> usize {
        self.of_host.get(host).map_or(0, |of_host| of_host.all)
    }

    /// Whether a host has a controller that was connected from where the host is.
    pub(super) fn has_one_at_home(&self, host: &Nqn) -> bool {
        self.of_host.get(host).is_some_and(|of_host| of_host.at_home > 0)
    }

    /// The slot of the controller with this identifier.
    pub(super) fn slot_of(&self, id: u16) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// All slots that were ever used; some may be empty.
    pub(super) fn slots(&self) -> core::ops::Range<usize> {
        0..self.table.len()
    }

    /// The controller in a slot, if there is one.
    #[inline]
    pub(super) fn find(&self, slot: usize) -> Option<&Controller> {
        self.table.get(slot)?.as_ref().map(|entry| &entry.controller)
    }

    /// The controller in a slot, if there is one.
    #[inline]
    pub(super) fn find_mut(&mut self, slot: usize) -> Option<&mut Controller> {
        self.table.get_mut(slot)?.as_mut().map(|entry| &mut entry.controller)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Controller> {
        self.table.iter().flatten().map(|entry| &entry.controller)
    }

    /// All of them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Controller> {
        self.table.iter_mut().flatten().map(|entry| &mut entry.controller)
    }

    /// Adds a controller with an identifier that no other has, drawn here unless it is given; returns its slot. Its timer runs.
    pub(super) fn add(
        &mut self,
        now: Instant,
        (admin, id): (QueueKey, Option<u16>),
        (nqn, host_id, is_at_home): (Nqn, HostId, bool),
        keep_alive: KeepAlive,
        limits: &Limits,
    ) -> usize {
        let id = id.unwrap_or_else(|| self.next_id(limits.controller_ids));
        let slot = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        self.by_id.insert(id, slot);
        let of_host = self.of_host.entry(nqn.clone()).or_default();
        of_host.all += 1;
        of_host.at_home += usize::from(is_at_home);
        let controller = Controller::new(now, (id, admin), (nqn, host_id), keep_alive, limits);
        self.table[slot] = Some(Entry { controller, watched: None, is_at_home });
        self.expect_timeout(slot);
        slot
    }

    /// The next identifier that no controller uses. There always is one, because there are fewer controllers
    /// than identifiers.
    fn next_id(&mut self, ids: ControllerIds) -> u16 {
        loop {
            self.id_last = ids.after(self.id_last);
            if !self.by_id.contains_key(&self.id_last) {
                return self.id_last;
            }
        }
    }

    /// Takes a controller out. Its slot is free.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Controller> {
        self.watch(slot, None);
        let Entry { controller, is_at_home, .. } = self.table.get_mut(slot)?.take()?;
        self.by_id.remove(&controller.id);
        self.free.push(slot);
        if let Some(of_host) = self.of_host.get_mut(&controller.host_nqn) {
            of_host.all -= 1;
            of_host.at_home -= usize::from(is_at_home);
            if of_host.all == 0 {
                self.of_host.remove(&controller.host_nqn);
            }
        }
        Some(controller)
    }

    /// When to check a timer next.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Takes the slot of a controller with a timer to be checked by now. It is not checked again unless
    /// `expect_timeout` asks for it.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<usize> {
        let (_, slot) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        self.watch(slot, None);
        Some(slot)
    }

    /// Watches the keep-alive timer of a controller after it was started. If traffic postpones the deadline, that is
    /// noticed when the old deadline passes.
    pub(super) fn expect_timeout(&mut self, slot: usize) {
        let Some(Some(Entry { controller, watched, .. })) = self.table.get(slot) else { return };
        let deadline = controller.keep_alive.deadline();
        if deadline < watched.unwrap_or(Instant::FAR_FUTURE) {
            self.watch(slot, Some(deadline));
        }
    }

    /// Extends all keep-alive timers that run.
    pub(super) fn extend(&mut self, by: Nanos) {
        self.deadlines.clear();
        for (slot, entry) in self.table.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            entry.controller.keep_alive.extend(by);
            entry.watched = entry.watched.map(|at| at + by);
            self.deadlines.extend(entry.watched.map(|at| (at, slot)));
        }
    }

    fn watch(&mut self, slot: usize, at: Option<Instant>) {
        let Some(Some(entry)) = self.table.get_mut(slot) else { return };
        if let Some(before) = core::mem::replace(&mut entry.watched, at) {
            self.deadlines.remove(&(before, slot));
        }
        self.deadlines.extend(at.map(|at| (at, slot)));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    fn host(n: u8) -> (Nqn, HostId, bool) {
        let name = std::format!("nqn.2014-08.org.nvmexpress:host-{n}");
        (Nqn::new(&name).expect("the name is in order"), HostId([n + 1; 16]), n.is_multiple_of(2))
    }

    #[test]
    fn a_timer_is_checked_when_it_is_due_and_not_after_its_controller_has_ended() {
        let (start, key) = (Instant(5), QueueKey { slot: 0, generation: 0 });
        let mut controllers = Controllers::default();
        let add = |controllers: &mut Controllers, kato| {
            let keep_alive = KeepAlive::new(start, kato);
            controllers.add(start, (key, None), host(1), keep_alive, &Limits::default())
        };
        let (late, early) = (add(&mut controllers, 20_000), add(&mut controllers, 10_000));
        let due = controllers.next_check().expect("two timers run");
        assert_eq!(controllers.take_due(Instant(due.0 - 1)), None);
        assert_eq!(controllers.take_due(due), Some(early));
        assert_eq!(controllers.take_due(due), None, "it is checked once");
        controllers.expect_timeout(early);
        assert_eq!(controllers.next_check(), Some(due));
        controllers.remove(early);
        assert!(controllers.next_check().is_some_and(|at| at > due));
        controllers.remove(late);
        assert_eq!(controllers.next_check(), None);
    }

    proptest! {
        #![proptest_config(crate::random_cases(256))]

        #[test]
        fn a_slot_is_used_again_and_an_identifier_is_not_while_its_controller_lives(
            steps in prop::collection::vec((any::<bool>(), 0..4u8, any::<prop::sample::Index>()), 0..60),
        ) {
            let mut controllers = Controllers::default();
            let mut plain: Vec<(usize, u16, Nqn)> = Vec::new();
            let mut most = 0;
            for (adds, n, index) in steps {
                if adds || plain.is_empty() {
                    let (name, id, is_at_home) = host(n);
                    let key = QueueKey { slot: 0, generation: 0 };
                    let keep_alive = KeepAlive::new(Instant(1), 0);
                    let slot = controllers.add(Instant(1), (key, None), (name.clone(), id, is_at_home), keep_alive, &Limits::default());
                    let id = controllers.find(slot).expect("just added").id;
                    prop_assert!(plain.iter().all(|(other, taken, _)| *other != slot && *taken != id));
                    plain.push((slot, id, name));
                } else {
                    let (slot, id, name) = plain.swap_remove(index.index(plain.len()));
                    let gone = controllers.remove(slot).expect("it was added");
                    prop_assert_eq!((gone.id, gone.host_nqn), (id, name));
                    prop_assert!(controllers.find(slot).is_none() && controllers.slot_of(id).is_none());
                    prop_assert!(controllers.remove(slot).is_none());
                }
                most = most.max(plain.len());
                prop_assert_eq!(controllers.slots(), 0..most);
                prop_assert_eq!(controllers.len(), plain.len());
                for (slot, id, name) in &plain {
                    prop_assert_eq!(controllers.slot_of(*id), Some(*slot));
                    prop_assert_eq!(controllers.count_of(name), plain.iter().filter(|(_, _, other)| other == name).count());
                }
            }
        }
    }
}
