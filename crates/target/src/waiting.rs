//! The waiting room: connections that have not said Connect.
//!
//! ```text
//!   accepted ─► silent ──ICReq──► greeted ──Connect──► left
//!                 └──────────────────┴── too late, or crowded out ──► closed
//! ```
//!
//! Nobody knows yet who they are, so they share one bound of their own, apart from that of the connections which are queues:
//! whoever opens connections and says nothing takes no place from those that do IO. When the room is full, somebody goes from the
//! address that has most in it (`eviction`): of these the one that has been silent for longest, and if none is silent, the one that
//! was greeted first. The newcomer never goes: a host that means to connect speaks within milliseconds, and gets in through any
//! flood of those that do not.
//!
//! Hosts connect all their queues before they say Connect on the first, so a greeted connection has more time than a silent one.
//!
//! Holds: the room never has more than its capacity (`a_full_room_lets_go_of_the_longest_silent`); a flood from one address costs
//!        no other address its place (`a_flood_of_greetings_pushes_out_itself`).

use crate::eviction::EvictionSet;
use crate::places::Origin;
use crate::slab::Key;
use units::{Instant, Nanos};

/// How far a connection in the room has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    /// It has not sent its ICReq.
    Silent,
    /// It has.
    Greeted,
}

/// See the module.
pub(crate) struct WaitingRoom {
    capacity: usize,
    /// By when each must have gone on, the earliest first.
    silent: EvictionSet,
    greeted: EvictionSet,
    /// Both, for where they come from.
    all: EvictionSet,
}

impl WaitingRoom {
    /// A room for so many.
    pub(crate) fn new(capacity: usize) -> WaitingRoom {
        WaitingRoom {
            capacity,
            silent: EvictionSet::default(),
            greeted: EvictionSet::default(),
            all: EvictionSet::default(),
        }
    }

    /// Changes for how many there is room. Of those who are in beyond it, one goes whenever another comes.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Number of those in it.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Who has to leave before another can come in; nobody if there is room.
    pub(crate) fn crowded_out(&self) -> Option<Key> {
        if self.len() < self.capacity {
            return None;
        }
        match self.all.largest_origin() {
            Some(origin) => self.silent.oldest_from(origin).or_else(|| self.greeted.oldest_from(origin)),
            None => self.silent.oldest().or_else(|| self.greeted.oldest()).map(|(_, key)| key),
        }
    }

    /// `key` comes in, or goes on to better manners, and has until `now + patience` for its next step.
    pub(crate) fn place(
        &mut self,
        key: Key,
        origin: Origin,
        manners: Manners,
        now: Instant,
        patience: Nanos,
    ) {
        self.leave(key);
        let until = now + patience;
        self.all.insert(key, origin, until);
        match manners {
            Manners::Silent => self.silent.insert(key, origin, until),
            Manners::Greeted => self.greeted.insert(key, origin, until),
        }
    }

    /// `key` leaves, if it is in.
    pub(crate) fn leave(&mut self, key: Key) {
        [&mut self.all, &mut self.silent, &mut self.greeted].into_iter().for_each(|set| set.remove(key));
    }

    /// When the patience with one of them ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.all.oldest().map(|(until, _)| until)
    }

    /// One who was too slow, and at what.
    pub(crate) fn overdue(&self, now: Instant) -> Option<(Key, Manners)> {
        let late = |side: &EvictionSet| side.oldest().filter(|(until, _)| *until <= now).map(|(_, key)| key);
        let silent = late(&self.silent).map(|key| (key, Manners::Silent));
        silent.or_else(|| late(&self.greeted).map(|key| (key, Manners::Greeted)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key::new(index, 0)
    }

    impl WaitingRoom {
        /// All of one address.
        fn place_from(&mut self, key: Key, manners: Manners, now: Instant, patience: Nanos) {
            self.place(key, Origin::of(std::net::Ipv4Addr::LOCALHOST.into()), manners, now, patience);
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Nanos::millis(millis)
    }

    #[test]
    fn a_full_room_lets_go_of_the_longest_silent() {
        let mut room = WaitingRoom::new(3);
        for index in 0..3 {
            assert_eq!(room.crowded_out(), None);
            room.place_from(key(index), Manners::Silent, at(u64::from(index)), Nanos::secs(10));
        }
        room.place_from(key(0), Manners::Greeted, at(5), Nanos::secs(1));
        assert_eq!(room.crowded_out(), Some(key(1)), "the first has spoken");
        room.place_from(key(1), Manners::Greeted, at(6), Nanos::secs(1));
        room.place_from(key(2), Manners::Greeted, at(7), Nanos::secs(1));
        assert_eq!((room.len(), room.crowded_out()), (3, Some(key(0))), "all have: the first goes");
        room.leave(key(0));
        assert_eq!(room.crowded_out(), None);
    }

    #[test]
    fn a_flood_of_greetings_pushes_out_itself() {
        let origin = |n: u32| Origin::of(std::net::Ipv4Addr::from_bits(n).into());
        let mut room = WaitingRoom::new(8);
        for index in 0..3 {
            room.place(key(index), origin(1), Manners::Silent, at(0), Nanos::secs(10));
        }
        for index in 3..1000 {
            if let Some(out) = room.crowded_out() {
                assert!(out.index() >= 3, "{out:?} goes although its address has few");
                room.leave(out);
            }
            room.place(key(index), origin(2), Manners::Greeted, at(index.into()), Nanos::secs(30));
        }
        assert_eq!(room.len(), 8);
    }

    #[test]
    fn each_step_has_its_own_time() {
        let mut room = WaitingRoom::new(8);
        room.place_from(key(0), Manners::Silent, at(0), Nanos::secs(10));
        room.place_from(key(1), Manners::Silent, at(1), Nanos::secs(10));
        room.place_from(key(0), Manners::Greeted, at(2), Nanos::secs(60));
        assert_eq!(room.deadline(), Some(at(10_001)));
        assert_eq!(room.overdue(at(10_000)), None);
        assert_eq!(room.overdue(at(10_001)), Some((key(1), Manners::Silent)));
        room.leave(key(1));
        assert_eq!(room.overdue(at(60_001)), None);
        assert_eq!(room.overdue(at(60_002)), Some((key(0), Manners::Greeted)));
        room.leave(key(0));
        assert_eq!((room.len(), room.deadline()), (0, None));
    }
}
