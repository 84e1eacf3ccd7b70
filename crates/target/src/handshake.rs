//! The waiting handshakes: connections that have not said Connect.
//!
//! ```text
//!   accepted ─► silent ──ICReq──► greeted ──Connect──► left
//!                 └──────────────────┴── too late, or crowded out ──► closed
//! ```
//!
//! Nobody knows yet who they are, so they share one bound of their own, apart from that of the connections which are queues:
//! whoever opens connections and says nothing takes no place from those that do IO. When the handshakes is full, somebody goes from the
//! address that has most in it (`eviction`): of these the one that has been silent for longest, and if none is silent, the one that
//! was greeted first. The newcomer never goes: a host that means to connect speaks within milliseconds, and gets in through any
//! flood of those that do not.
//!
//! Hosts connect all their queues before they say Connect on the first, so a greeted connection has more time than a silent one.
//!
//! Holds: the handshakes never has more than its capacity (`a_full_room_lets_go_of_the_longest_silent`); a flood from one address costs
//!        no other address its place (`a_flood_of_greetings_pushes_out_itself`).

use crate::eviction::EvictionSet;
use crate::quota::Origin;
use crate::slab::Key;
use units::{Instant, Nanos};

/// How far a connection in the handshakes has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// It has not sent its ICReq.
    AwaitsIcReq,
    /// It has.
    AwaitsConnect,
}

/// See the module.
pub(crate) struct Handshakes {
    capacity: usize,
    /// By when each must have gone on, the earliest first.
    awaiting_icreq: EvictionSet,
    awaiting_connect: EvictionSet,
    /// Both, for where they come from.
    all: EvictionSet,
}

impl Handshakes {
    /// A handshakes for so many.
    pub(crate) fn new(capacity: usize) -> Handshakes {
        Handshakes {
            capacity,
            awaiting_icreq: EvictionSet::default(),
            awaiting_connect: EvictionSet::default(),
            all: EvictionSet::default(),
        }
    }

    /// Changes for how many there is handshakes. Of those who are in beyond it, one goes whenever another comes.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Number of those in it.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Who has to leave before another can come in; nobody if there is handshakes.
    pub(crate) fn victim(&self) -> Option<Key> {
        if self.len() < self.capacity {
            return None;
        }
        match self.all.largest_origin() {
            Some(origin) => {
                self.awaiting_icreq.oldest_from(origin).or_else(|| self.awaiting_connect.oldest_from(origin))
            }
            None => {
                self.awaiting_icreq.oldest().or_else(|| self.awaiting_connect.oldest()).map(|(_, key)| key)
            }
        }
    }

    /// `key` comes in, or goes on to better handshake, and has until `now + timeout` for its next step.
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
            Handshake::AwaitsIcReq => self.awaiting_icreq.insert(key, origin, until),
            Handshake::AwaitsConnect => self.awaiting_connect.insert(key, origin, until),
        }
    }

    /// `key` leaves, if it is in.
    pub(crate) fn remove(&mut self, key: Key) {
        [&mut self.all, &mut self.awaiting_icreq, &mut self.awaiting_connect]
            .into_iter()
            .for_each(|set| set.remove(key));
    }

    /// When the timeout with one of them ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.all.oldest().map(|(until, _)| until)
    }

    /// One who was too slow, and at what.
    pub(crate) fn overdue(&self, now: Instant) -> Option<(Key, Handshake)> {
        let late = |side: &EvictionSet| side.oldest().filter(|(until, _)| *until <= now).map(|(_, key)| key);
        let silent = late(&self.awaiting_icreq).map(|key| (key, Handshake::AwaitsIcReq));
        silent.or_else(|| late(&self.awaiting_connect).map(|key| (key, Handshake::AwaitsConnect)))
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
    fn a_full_room_lets_go_of_the_longest_silent() {
        let mut handshakes = Handshakes::new(3);
        for index in 0..3 {
            assert_eq!(handshakes.victim(), None);
            handshakes.insert_from(key(index), Handshake::AwaitsIcReq, at(u64::from(index)), Nanos::secs(10));
        }
        handshakes.insert_from(key(0), Handshake::AwaitsConnect, at(5), Nanos::secs(1));
        assert_eq!(handshakes.victim(), Some(key(1)), "the first has spoken");
        handshakes.insert_from(key(1), Handshake::AwaitsConnect, at(6), Nanos::secs(1));
        handshakes.insert_from(key(2), Handshake::AwaitsConnect, at(7), Nanos::secs(1));
        assert_eq!((handshakes.len(), handshakes.victim()), (3, Some(key(0))), "all have: the first goes");
        handshakes.remove(key(0));
        assert_eq!(handshakes.victim(), None);
    }

    #[test]
    fn a_flood_of_greetings_pushes_out_itself() {
        let origin = |n: u32| Origin::of(std::net::Ipv4Addr::from_bits(n).into());
        let mut handshakes = Handshakes::new(8);
        for index in 0..3 {
            handshakes.insert(key(index), origin(1), Handshake::AwaitsIcReq, at(0), Nanos::secs(10));
        }
        for index in 3..1000 {
            if let Some(out) = handshakes.victim() {
                assert!(out.index() >= 3, "{out:?} goes although its address has few");
                handshakes.remove(out);
            }
            handshakes.insert(
                key(index),
                origin(2),
                Handshake::AwaitsConnect,
                at(index.into()),
                Nanos::secs(30),
            );
        }
        assert_eq!(handshakes.len(), 8);
    }

    #[test]
    fn each_step_has_its_own_time() {
        let mut handshakes = Handshakes::new(8);
        handshakes.insert_from(key(0), Handshake::AwaitsIcReq, at(0), Nanos::secs(10));
        handshakes.insert_from(key(1), Handshake::AwaitsIcReq, at(1), Nanos::secs(10));
        handshakes.insert_from(key(0), Handshake::AwaitsConnect, at(2), Nanos::secs(60));
        assert_eq!(handshakes.deadline(), Some(at(10_001)));
        assert_eq!(handshakes.overdue(at(10_000)), None);
        assert_eq!(handshakes.overdue(at(10_001)), Some((key(1), Handshake::AwaitsIcReq)));
        handshakes.remove(key(1));
        assert_eq!(handshakes.overdue(at(60_001)), None);
        assert_eq!(handshakes.overdue(at(60_002)), Some((key(0), Handshake::AwaitsConnect)));
        handshakes.remove(key(0));
        assert_eq!((handshakes.len(), handshakes.deadline()), (0, None));
    }
}
