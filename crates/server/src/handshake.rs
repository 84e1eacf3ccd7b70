//! Connections before Connect.
//!
//! ```text
//!   accepted ─► awaits ICReq ──ICReq──► awaits Connect ──Connect──┬─► awaits its proof ─┬─► removed
//!                 │                         │                     └─ no proof is due ────┘
//!                 └─────────────────────────┴──────────── too late, or evicted ──► closed
//! ```
//!
//! The host of such a connection is not known. So these connections have a limit of their own, apart from the limit for connected
//! queues: a client that opens connections and says nothing takes nothing from hosts that do IO.
//!
//! A new connection always gets in. If the limit is reached, another one is evicted: from the address with the most of them
//! (`eviction`), first the one that has awaited ICReq longest, then the one that has awaited Connect longest, then its proof. A host that means to
//! connect does so within milliseconds, so it gets through a flood of connections that do not.
//!
//! Some hosts open all their queues before they send the first Connect. So the time-out for Connect is longer than the one for ICReq.
//!
//! Holds: there are never more than the capacity (`a_full_table_evicts_the_one_that_awaits_icreq_longest`);
//!        a flood from one address evicts no connection of another address (`a_flood_after_icreq_evicts_its_own_connections`).

use crate::eviction::EvictionSet;
use crate::quota::Origin;
use crate::slab::Key;
use units::{Instant, Nanos};

/// The next message that a connection has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// ICReq has not arrived.
    IcReq,
    /// ICReq has arrived, Connect has not.
    Connect,
    /// Connect has arrived, and the host has to prove who it is.
    Proof,
}

/// See the module.
pub(crate) struct Handshakes {
    capacity: usize,
    /// Ordered by deadline.
    awaiting_icreq: EvictionSet,
    awaiting_connect: EvictionSet,
    awaiting_proof: EvictionSet,
    /// All of them.
    all: EvictionSet,
}

impl Handshakes {
    /// At most `capacity` connections.
    pub(crate) fn new(capacity: usize) -> Handshakes {
        Handshakes {
            capacity,
            awaiting_icreq: EvictionSet::default(),
            awaiting_connect: EvictionSet::default(),
            awaiting_proof: EvictionSet::default(),
            all: EvictionSet::default(),
        }
    }

    /// Changes the capacity. If there are more, each new connection evicts one.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The connection to evict before another one is added; `None` if there is room.
    pub(crate) fn victim(&self) -> Option<Key> {
        if self.len() < self.capacity {
            return None;
        }
        let steps = [&self.awaiting_icreq, &self.awaiting_connect, &self.awaiting_proof];
        match self.all.largest_origin() {
            Some(origin) => steps.into_iter().find_map(|step| step.oldest_from(origin)),
            None => steps.into_iter().find_map(EvictionSet::oldest).map(|(_, key)| key),
        }
    }

    /// Adds `key`, or moves it to its next step, which must be done by `now + timeout`.
    pub(crate) fn insert(
        &mut self,
        key: Key,
        origin: Origin,
        handshake: Handshake,
        now: Instant,
        timeout: Nanos,
    ) {
        self.remove(key);
        let until = now + timeout;
        self.all.insert(key, origin, until);
        match handshake {
            Handshake::IcReq => self.awaiting_icreq.insert(key, origin, until),
            Handshake::Connect => self.awaiting_connect.insert(key, origin, until),
            Handshake::Proof => self.awaiting_proof.insert(key, origin, until),
        }
    }

    /// Removes `key`, if it is in the list.
    pub(crate) fn remove(&mut self, key: Key) {
        self.sets().into_iter().for_each(|set| set.remove(key));
    }

    /// Extends all time-outs.
    pub(crate) fn extend(&mut self, by: Nanos) {
        self.sets().into_iter().for_each(|set| set.extend(by));
    }

    fn sets(&mut self) -> [&mut EvictionSet; 4] {
        [&mut self.all, &mut self.awaiting_icreq, &mut self.awaiting_connect, &mut self.awaiting_proof]
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.all.oldest().map(|(until, _)| until)
    }

    /// A connection whose deadline has passed, and the message that is missing.
    pub(crate) fn overdue(&self, now: Instant) -> Option<(Key, Handshake)> {
        let steps = [
            (&self.awaiting_icreq, Handshake::IcReq),
            (&self.awaiting_connect, Handshake::Connect),
            (&self.awaiting_proof, Handshake::Proof),
        ];
        steps.into_iter().find_map(|(step, handshake)| {
            let (_, key) = step.oldest().filter(|(until, _)| *until <= now)?;
            Some((key, handshake))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key::new(index, 0)
    }

    impl Handshakes {
        /// All of one address.
        fn insert_from(&mut self, key: Key, handshake: Handshake, now: Instant, timeout: Nanos) {
            self.insert(key, Origin::of(std::net::Ipv4Addr::LOCALHOST.into()), handshake, now, timeout);
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Nanos::millis(millis)
    }

    #[test]
    fn a_full_table_evicts_the_one_that_awaits_icreq_longest() {
        let mut handshakes = Handshakes::new(3);
        for index in 0..3 {
            assert_eq!(handshakes.victim(), None);
            handshakes.insert_from(key(index), Handshake::IcReq, at(u64::from(index)), Nanos::secs(10));
        }
        handshakes.insert_from(key(0), Handshake::Connect, at(5), Nanos::secs(1));
        assert_eq!(handshakes.victim(), Some(key(1)), "the first has sent ICReq");
        handshakes.insert_from(key(1), Handshake::Connect, at(6), Nanos::secs(1));
        handshakes.insert_from(key(2), Handshake::Connect, at(7), Nanos::secs(1));
        assert_eq!(
            (handshakes.len(), handshakes.victim()),
            (3, Some(key(0))),
            "all have sent ICReq: the first one"
        );
        handshakes.remove(key(0));
        assert_eq!(handshakes.victim(), None);
    }

    #[test]
    fn a_flood_after_icreq_evicts_its_own_connections() {
        let origin = |n: u32| Origin::of(std::net::Ipv4Addr::from_bits(n).into());
        let mut handshakes = Handshakes::new(8);
        for index in 0..3 {
            handshakes.insert(key(index), origin(1), Handshake::IcReq, at(0), Nanos::secs(10));
        }
        for index in 3..1000 {
            if let Some(out) = handshakes.victim() {
                assert!(out.index() >= 3, "{out:?} is evicted although its address has few");
                handshakes.remove(out);
            }
            handshakes.insert(key(index), origin(2), Handshake::Connect, at(index.into()), Nanos::secs(30));
        }
        assert_eq!(handshakes.len(), 8);
    }

    #[test]
    fn each_step_has_its_own_timeout() {
        let mut handshakes = Handshakes::new(8);
        handshakes.insert_from(key(0), Handshake::IcReq, at(0), Nanos::secs(10));
        handshakes.insert_from(key(1), Handshake::IcReq, at(1), Nanos::secs(10));
        handshakes.insert_from(key(0), Handshake::Connect, at(2), Nanos::secs(60));
        assert_eq!(handshakes.deadline(), Some(at(10_001)));
        assert_eq!(handshakes.overdue(at(10_000)), None);
        assert_eq!(handshakes.overdue(at(10_001)), Some((key(1), Handshake::IcReq)));
        handshakes.remove(key(1));
        assert_eq!(handshakes.overdue(at(60_001)), None);
        assert_eq!(handshakes.overdue(at(60_002)), Some((key(0), Handshake::Connect)));
        handshakes.remove(key(0));
        assert_eq!((handshakes.len(), handshakes.deadline()), (0, None));
    }

    #[test]
    fn one_that_proves_who_it_is_is_evicted_last() {
        let mut handshakes = Handshakes::new(3);
        for (index, step) in [(0, Handshake::Proof), (1, Handshake::Connect), (2, Handshake::IcReq)] {
            handshakes.insert_from(key(index), step, at(0), Nanos::secs(10));
        }
        for expected in [2, 1, 0] {
            let victim = handshakes.victim().expect("it is full");
            assert_eq!(
                (victim, handshakes.overdue(at(10_000)).map(|(key, _)| key)),
                (key(expected), Some(victim))
            );
            handshakes.remove(victim);
            handshakes.set_capacity(handshakes.len());
        }
    }

    #[test]
    fn each_timeout_is_extended() {
        let mut handshakes = Handshakes::new(8);
        handshakes.insert_from(key(0), Handshake::IcReq, at(0), Nanos::secs(10));
        handshakes.insert_from(key(1), Handshake::Connect, at(0), Nanos::secs(30));
        handshakes.extend(Nanos::secs(100));
        assert_eq!((handshakes.overdue(at(109_999)), handshakes.deadline()), (None, Some(at(110_000))));
        assert_eq!(handshakes.overdue(at(110_000)), Some((key(0), Handshake::IcReq)));
        handshakes.remove(key(0));
        assert_eq!(handshakes.overdue(at(129_999)), None);
        assert_eq!(handshakes.overdue(at(130_000)), Some((key(1), Handshake::Connect)));
        handshakes.remove(key(1));
        assert_eq!((handshakes.len(), handshakes.deadline()), (0, None));
    }
}
