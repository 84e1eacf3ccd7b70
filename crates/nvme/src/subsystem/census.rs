//! Controllers and queues by what they are looked up by.
//!
//! Strangers connect and disconnect as often as they like, so nothing that happens then may look at everybody who is there.
//!
//! Holds: the timers, counts and names are those that a walk over all controllers would find
//!        (`a_crowd_that_comes_and_goes_is_counted_rightly` in `tests/controller/subsystem.rs`).

use super::action::QueueKey;
use crate::spec::{HostId, Nqn};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use units::Instant;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// Places of controllers by their identifiers.
    by_id: BTreeMap<u16, usize>,
    /// Controllers of each host.
    of_host: BTreeMap<Nqn, usize>,
    /// Places that no controller has, below the highest that one ever had.
    free: Vec<usize>,
    places: usize,
    /// When which controller is to be asked whether its host is gone.
    deadlines: BTreeSet<(Instant, usize)>,
    /// IO queues of each host.
    io_queues: BTreeMap<([u8; 16], u32), QueueKey>,
}

impl Census {
    /// Controllers.
    pub(super) fn controllers(&self) -> usize {
        self.by_id.len()
    }

    /// Controllers of a host.
    pub(super) fn controllers_of(&self, host: &Nqn) -> usize {
        self.of_host.get(host).copied().unwrap_or(0)
    }

    /// Where the controller of that identifier is.
    pub(super) fn place_of(&self, id: u16) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// A controller comes; answers its place.
    pub(super) fn add(&mut self, id: u16, host: &Nqn) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        self.by_id.insert(id, place);
        *self.of_host.entry(host.clone()).or_default() += 1;
        place
    }

    /// A controller goes.
    pub(super) fn remove(&mut self, id: u16, host: &Nqn, watched: Option<Instant>) {
        let place = self.by_id.remove(&id).expect("a controller has come before it goes");
        self.free.push(place);
        self.watch(place, watched, None);
        if let Some(count) = self.of_host.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.of_host.remove(host);
            }
        }
    }

    /// The controller in `place` is to be asked at another moment.
    pub(super) fn watch(&mut self, place: usize, before: Option<Instant>, after: Option<Instant>) {
        if let Some(before) = before {
            self.deadlines.remove(&(before, place));
        }
        if let Some(after) = after {
            self.deadlines.insert((after, place));
        }
    }

    /// The earliest moment at which a controller is to be asked, and where it is.
    pub(super) fn first_deadline(&self) -> Option<(Instant, usize)> {
        self.deadlines.first().copied()
    }

    /// An IO queue of a host is connected.
    pub(super) fn add_queue(&mut self, host: HostId, key: QueueKey) {
        self.io_queues.insert((host.0, key.slot), key);
    }

    /// An IO queue of a host has gone, and its commands with it.
    pub(super) fn remove_queue(&mut self, host: HostId, key: QueueKey) {
        self.io_queues.remove(&(host.0, key.slot));
    }

    /// IO queues of a host, with those whose controller has ended: their commands may still be on a device.
    pub(super) fn io_queues_of(&self, host: HostId) -> impl Iterator<Item = QueueKey> {
        self.io_queues.range((host.0, 0)..=(host.0, u32::MAX)).map(|(_, key)| *key)
    }
}
