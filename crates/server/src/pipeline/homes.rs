//! The subsystems at home on this thread, by slot.

use crate::config::Access;
use crate::home::Home;
use nvme::spec::{AnaState, Nqn};
use nvme::subsystem::{ConfigError, Output};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use units::{Instant, Nanos, TenantId};

/// See the module.
#[derive(Default)]
pub(super) struct Homes {
    slots: Vec<Option<Home>>,
    /// The hosts that the configuration names.
    named: Arc<BTreeSet<Nqn>>,
    /// Whether the target is drained: hosts cannot use any namespace.
    is_drained: bool,
    /// The numbers of the groups that were taken over: accessible, whatever the configuration says.
    taken: Arc<BTreeSet<u32>>,
}

impl Homes {
    /// The subsystem in a slot, unless it was removed.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Home> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// The tenant that a namespace of the subsystem in a slot is, if it is one.
    #[cold]
    pub(super) fn tenant_of(&self, slot: usize, nsid: u32) -> Option<TenantId> {
        self.slots.get(slot)?.as_ref()?.tenant_of(nsid)
    }

    /// A subsystem is at home here from now on.
    pub(super) fn add(&mut self, slot: usize, mut home: Home) {
        home.subsystem.set_named(Arc::clone(&self.named));
        home.subsystem.withhold_namespaces(self.is_drained);
        set_states(&mut home, &self.taken, AnaState::Optimized);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(home);
    }

    /// A subsystem is not served any more.
    pub(super) fn remove(&mut self, slot: usize) {
        self.slots[slot] = None;
    }

    /// One more than the highest slot that was ever used.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The next output of the subsystem in a slot that is not a reply.
    #[inline]
    pub(super) fn poll(&mut self, now: Instant, slot: usize) -> Option<Output> {
        self.slots[slot].as_mut()?.subsystem.poll(now)
    }

    /// When the first keep-alive time-out is over.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.slots.iter().flatten().filter_map(|home| home.subsystem.next_timeout()).min()
    }

    /// Extends all keep-alive time-outs.
    pub(super) fn extend(&mut self, by: Nanos) {
        self.slots.iter_mut().flatten().for_each(|home| home.subsystem.extend(by));
    }

    /// The hosts that the configuration names. No host has a name that is not an NQN, so such a name is left out.
    pub(super) fn set_named(&mut self, hosts: &HashSet<String>) {
        self.named = Arc::new(hosts.iter().filter_map(|host| Nqn::new(host).ok()).collect());
        let homes = self.slots.iter_mut().flatten();
        homes.for_each(|home| home.subsystem.set_named(Arc::clone(&self.named)));
    }

    /// The target is drained, or not any more.
    pub(super) fn set_drained(&mut self, is_drained: bool) {
        self.is_drained = is_drained;
        self.slots.iter_mut().flatten().for_each(|home| home.subsystem.withhold_namespaces(is_drained));
    }

    /// Says how hosts reach the namespaces of the subsystem in a slot. Those that have another state then are told.
    pub(super) fn set_access(&mut self, slot: usize, mut access: Access) -> Result<(), ConfigError> {
        let Some(home) = self.slots.get_mut(slot).and_then(Option::as_mut) else { return Ok(()) };
        let taken = access.states.iter_mut().filter(|(group, _)| self.taken.contains(group));
        taken.for_each(|(_, state)| *state = AnaState::Optimized);
        home.set_access(&access)
    }

    /// These groups were taken over, and no others. A group that is not any more is inaccessible.
    pub(super) fn set_taken(&mut self, taken: Arc<BTreeSet<u32>>) {
        let former = std::mem::replace(&mut self.taken, taken);
        let (lost, new) = (&*former - &*self.taken, &*self.taken - &*former);
        for home in self.slots.iter_mut().flatten() {
            set_states(home, &lost, AnaState::Inaccessible);
            set_states(home, &new, AnaState::Optimized);
        }
    }

    /// The name of the subsystem in a slot, unless it was removed.
    pub(super) fn name(&self, slot: usize) -> Option<&str> {
        Some(self.slots.get(slot)?.as_ref()?.subsystem.nqn().as_str())
    }

    /// Sets the longest keep-alive time-out that a host may ask for.
    pub(super) fn set_keep_alive_max(&mut self, longest: Nanos) {
        let millis = crate::assemble::millis(longest);
        self.slots.iter_mut().flatten().for_each(|home| home.subsystem.set_keep_alive_max(millis));
    }
}

/// Sets the state of groups in a subsystem.
fn set_states(home: &mut Home, groups: &BTreeSet<u32>, state: AnaState) {
    for group in groups {
        let set = home.subsystem.set_ana_state(*group, state);
        set.expect("the check bounds the numbers of groups");
    }
}
