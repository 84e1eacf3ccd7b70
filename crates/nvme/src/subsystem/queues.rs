//! The connections of a subsystem: which controller each is a queue of, and which IO queues a host has.
//!
//! A connection stays here until it is closed and none of its commands is on a device any more; its controller may end before that.
//!
//! Holds: a key of an earlier connection in the same slot finds nothing, and the IO queues of a host are those that a walk over all
//!        would find (`the_queues_of_a_host_are_those_of_a_plain_list`).
//! Elsewhere: the controllers are `controllers`; what closing a connection leads to is `connect`.

use super::action::QueueKey;
use super::reservation_terms::ReservationHost;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A connection after a successful Connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) key: QueueKey,
    /// `None` once the controller has ended; the connection is then about to be closed.
    pub(super) controller: Option<usize>,
    pub(super) queue_id: u16,
    /// The host. Outlives the controller, because commands on devices do too.
    pub(super) host: ReservationHost,
    /// A reset controller that waits for the commands of this queue to end: its slot and identifier.
    pub(super) resets: Option<(usize, u16)>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    /// Indexed by `QueueKey::slot`.
    table: Vec<Option<Queue>>,
    /// IO queues, by host and slot.
    io_of_host: BTreeMap<(ReservationHost, u32), QueueKey>,
}

impl Queues {
    /// The connection with this key.
    #[inline]
    pub(super) fn get(&self, key: QueueKey) -> Option<&Queue> {
        self.table.get(key.slot as usize)?.as_ref().filter(|queue| queue.key == key)
    }

    /// The connection in a slot, whatever its generation.
    pub(super) fn in_slot(&self, slot: u32) -> Option<&Queue> {
        self.table.get(slot as usize)?.as_ref()
    }

    /// Adds a connection, in a slot that is free.
    pub(super) fn insert(&mut self, queue: Queue) {
        if queue.queue_id != 0 {
            self.io_of_host.insert((queue.host.clone(), queue.key.slot), queue.key);
        }
        let index = queue.key.slot as usize;
        if self.table.len() <= index {
            self.table.resize(index + 1, None);
        }
        self.table[index] = Some(queue);
    }

    /// Takes a connection out: it is closed, and none of its commands is left.
    pub(super) fn remove(&mut self, key: QueueKey) -> Option<Queue> {
        self.get(key)?;
        let queue = self.table[key.slot as usize].take()?;
        self.io_of_host.remove(&(queue.host.clone(), key.slot));
        Some(queue)
    }

    /// Forgets the controller of a connection, which has ended or has closed it.
    pub(super) fn on_closing(&mut self, key: QueueKey) {
        if let Some(queue) = self.table.get_mut(key.slot as usize).and_then(Option::as_mut) {
            queue.controller = None;
        }
    }

    /// The reset of the controller with this slot and identifier waits for the commands of a connection to end.
    pub(super) fn holds_up_reset(&mut self, key: QueueKey, controller: (usize, u16)) {
        if let Some(queue) = self.table.get_mut(key.slot as usize).and_then(Option::as_mut) {
            queue.resets = Some(controller);
        }
    }

    /// IO queues of a host. Includes queues of controllers that have ended: their commands may still be on a
    /// device.
    pub(super) fn io_queues_of(&self, host: &ReservationHost) -> impl Iterator<Item = QueueKey> {
        let all = (host.clone(), 0)..=(host.clone(), u32::MAX);
        self.io_of_host.range(all).map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::spec::{HostId, Nqn};
    use proptest::prelude::*;

    const HOSTS: u8 = 4;

    /// Two hosts with each identifier.
    fn host(number: u8) -> ReservationHost {
        let nqn = if number.is_multiple_of(2) { "nqn.test:a" } else { "nqn.test:b" };
        ReservationHost { id: HostId([number / 2; 16]), nqn: Nqn::new(nqn).expect("a good name") }
    }

    proptest! {
        #![proptest_config(crate::random_cases(256))]

        #[test]
        fn the_queues_of_a_host_are_those_of_a_plain_list(
            steps in prop::collection::vec((0..8u32, 0..HOSTS, 0..3u16, any::<bool>()), 0..80),
        ) {
            let mut queues = Queues::default();
            let mut plain: BTreeMap<u32, Queue> = BTreeMap::new();
            for (generation, (slot, host, queue_id, closes)) in (0..).zip(steps) {
                match plain.get(&slot).cloned() {
                    None => {
                        let key = QueueKey { slot, generation };
                        let host = super::tests::host(host);
                        let queue = Queue { key, controller: Some(1), queue_id, host, resets: None };
                        queues.insert(queue.clone());
                        plain.insert(slot, queue);
                    }
                    Some(queue) if closes => {
                        queues.on_closing(queue.key);
                        queues.holds_up_reset(queue.key, (1, queue_id));
                        let ended = Queue { controller: None, resets: Some((1, queue_id)), ..queue };
                        plain.insert(slot, ended);
                    }
                    Some(queue) => {
                        let stale = QueueKey { generation: queue.key.generation + 1, ..queue.key };
                        prop_assert_eq!(queues.get(stale), None);
                        prop_assert_eq!(queues.remove(stale), None);
                        prop_assert_eq!(queues.remove(queue.key), Some(queue.clone()));
                        prop_assert_eq!(queues.in_slot(slot), None);
                        plain.remove(&slot);
                    }
                }
                for queue in plain.values() {
                    prop_assert_eq!((queues.get(queue.key), queues.in_slot(queue.key.slot)), (Some(queue), Some(queue)));
                }
                for host in 0..HOSTS {
                    let host = super::tests::host(host);
                    let of_host = plain.values().filter(|queue| queue.queue_id != 0 && queue.host == host);
                    prop_assert!(queues.io_queues_of(&host).eq(of_host.map(|queue| queue.key)));
                }
            }
        }
    }
}
