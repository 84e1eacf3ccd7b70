//! Indexes of controllers and queues.
//!
//! A host may connect and disconnect as often as it likes, so none of this may cost a walk over all
//! controllers.
//!
//! Holds: the timers, counts and names are those that a walk over all controllers would find
//!        (`the_indexes_of_controllers_match_a_plain_list` in `tests/controller/subsystem.rs`).

use super::action::QueueKey;
use crate::spec::{HostId, Nqn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use units::Instant;

/// Indexes of the controllers and queues of a subsystem.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// Table index of each controller, by controller identifier.
    by_id: BTreeMap<u16, usize>,
    /// Number of controllers per host.
    of_host: BTreeMap<Nqn, usize>,
    /// Free table indexes, below the highest index ever used.
    free: Vec<usize>,
    slots: usize,
    /// When to check the keep-alive timer of which controller.
    deadlines: BTreeSet<(Instant, usize)>,
    /// IO queues, by host.
    io_queues: BTreeMap<([u8; 16], u32), QueueKey>,
}

impl Index {
    /// Number of controllers.
    pub(super) fn controllers(&self) -> usize {
        self.by_id.len()
    }

    /// Number of controllers of a host.
    pub(super) fn controllers_of(&self, host: &Nqn) -> usize {
        self.of_host.get(host).copied().unwrap_or(0)
    }

    /// Table index of the controller with this identifier.
    pub(super) fn slot_of(&self, id: u16) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// Adds a controller; returns its table index.
    pub(super) fn add(&mut self, id: u16, host: &Nqn) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.by_id.insert(id, slot);
        *self.of_host.entry(host.clone()).or_default() += 1;
        slot
    }

    /// Removes a controller.
    pub(super) fn remove(&mut self, id: u16, host: &Nqn, watched: Option<Instant>) {
        let slot = self.by_id.remove(&id).expect("a controller is added before it is removed");
        self.free.push(slot);
        self.watch(slot, watched, None);
        if let Some(count) = self.of_host.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.of_host.remove(host);
            }
        }
    }

    /// Changes the time at which the controller at `slot` is checked.
    pub(super) fn watch(&mut self, slot: usize, before: Option<Instant>, after: Option<Instant>) {
        if let Some(before) = before {
            self.deadlines.remove(&(before, slot));
        }
        if let Some(after) = after {
            self.deadlines.insert((after, slot));
        }
    }

    /// The earliest time at which a controller is to be checked, and its table index.
    pub(super) fn first_deadline(&self) -> Option<(Instant, usize)> {
        self.deadlines.first().copied()
    }

    /// Adds an IO queue of a host.
    pub(super) fn add_queue(&mut self, host: HostId, key: QueueKey) {
        self.io_queues.insert((host.0, key.slot), key);
    }

    /// Removes an IO queue of a host; none of its commands is left.
    pub(super) fn remove_queue(&mut self, host: HostId, key: QueueKey) {
        self.io_queues.remove(&(host.0, key.slot));
    }

    /// IO queues of a host. Includes queues whose controller has ended: their commands may still be on a
    /// device.
    pub(super) fn io_queues_of(&self, host: HostId) -> impl Iterator<Item = QueueKey> {
        self.io_queues.range((host.0, 0)..=(host.0, u32::MAX)).map(|(_, key)| *key)
    }
}
