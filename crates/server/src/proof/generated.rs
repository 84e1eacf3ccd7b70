//! The keys for TLS that hosts have made by DH-HMAC-CHAP (concatenation), until they begin with TLS.
//!
//! A host that asks for it makes a key on its admin queue, closes that connection, and connects again with TLS, each queue by the same key.
//! A key is for one host and one controller. It is forgotten after an hour, when newer ones take its place, when the key by which its host
//! had proved itself is not the host's any more, and when the target ends.
//!
//! Holds: keys are bounded, by host and controller and in all (`the_oldest_key_makes_room`); a key is found for its own host and controller,
//!        for an hour (`a_key_is_found_for_an_hour_by_its_own_names`), while its origin is valid (`a_key_ends_with_its_origin`).
//! Elsewhere: an exchange makes them (`auth::concatenation`), and a ClientHello chooses one (`auth::hello`).
//! NVM Express Base Specification: "Generated PSK for TLS".

use super::exchange::Names;
use auth::{DhKey, Generated};
use std::collections::{BTreeMap, HashMap, VecDeque};
use units::{Instant, Nanos};

/// Keys of one host for one controller: one for each path of a host with several, or for tries that overlap.
const OF_PAIR_MAX: usize = 4;
/// Keys in all.
const ALL_MAX: usize = 8192;
/// The time for which a key is kept.
const LIFETIME: Nanos = Nanos::secs(3600);

/// A key that was made, and the one by which its host had proved itself.
pub(crate) type Made = (Generated, DhKey);

struct Kept {
    names: Names,
    made: Made,
    until: Instant,
}

/// See the module.
#[derive(Default)]
pub(crate) struct GeneratedKeys {
    /// By number, which is their order in time.
    kept: BTreeMap<u64, Kept>,
    /// The numbers of each host and controller, oldest first.
    of: HashMap<Names, VecDeque<u64>>,
    last: u64,
}

impl GeneratedKeys {
    /// Keeps a key of `names`.
    pub(crate) fn keep(&mut self, now: Instant, names: Names, made: Made) {
        self.last += 1;
        let numbers = self.of.entry(names.clone()).or_default();
        numbers.push_back(self.last);
        let oldest_of_pair = (numbers.len() > OF_PAIR_MAX).then(|| numbers[0]);
        self.kept.insert(self.last, Kept { names, made, until: now + LIFETIME });
        let oldest = (self.kept.len() > ALL_MAX).then(|| self.kept.keys().next().copied()).flatten();
        oldest_of_pair.or(oldest).into_iter().for_each(|number| self.forget(number));
    }

    /// The keys of `names`, of those whose origin is valid.
    pub(crate) fn find(
        &self,
        now: Instant,
        names: &Names,
        is_valid: impl Fn(&DhKey) -> bool,
    ) -> Vec<Generated> {
        let kept = self.of.get(names).into_iter().flatten().map(|number| &self.kept[number]);
        let usable = kept.filter(|kept| now < kept.until && is_valid(&kept.made.1));
        usable.map(|kept| kept.made.0.clone()).collect()
    }

    /// Forgets the keys whose origin is not valid: the key by which the host had proved itself.
    pub(crate) fn retain(&mut self, is_valid: impl Fn(&str, &DhKey) -> bool) {
        let invalid = self.kept.iter().filter(|(_, kept)| !is_valid(&kept.names.host, &kept.made.1));
        let invalid: Vec<u64> = invalid.map(|(number, _)| *number).collect();
        invalid.into_iter().for_each(|number| self.forget(number));
    }

    /// Forgets the keys whose hour is over.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some((&number, _)) = self.kept.first_key_value().filter(|(_, kept)| kept.until <= now) {
            self.forget(number);
        }
    }

    /// When the next hour is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kept.first_key_value().map(|(_, kept)| kept.until)
    }

    fn forget(&mut self, number: u64) {
        let Some(kept) = self.kept.remove(&number) else { return };
        let numbers = self.of.get_mut(&kept.names).expect("every key has its number there");
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            self.of.remove(&kept.names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::{Hash, Secret};

    const MADE_AT: Instant = Instant(1_000);

    fn names(host: &str) -> Names {
        Names { host: host.to_owned(), controller: "nqn.a:1".to_owned() }
    }

    fn origin(seed: u8) -> DhKey {
        DhKey::new(None, Secret::new(vec![seed; 32])).expect("32 bytes")
    }

    fn made(seed: u8) -> Made {
        (Generated::new(Hash::Sha256, &Secret::new(vec![seed; 256]), [&[1; 32], &[2; 32]]), origin(seed))
    }

    /// The identities of the keys that are found, which name the key.
    fn found(keys: &GeneratedKeys, now: Instant, names: &Names) -> Vec<String> {
        keys.find(now, names, |_| true).iter().map(identity).collect()
    }

    fn identity(key: &Generated) -> String {
        key.retained("h", "c")[0].identity(auth::psk::Version::One)
    }

    #[test]
    fn a_key_is_found_for_an_hour_by_its_own_names() {
        let mut keys = GeneratedKeys::default();
        assert_eq!(keys.deadline(), None);
        keys.keep(MADE_AT, names("a"), made(1));
        let end = MADE_AT + Nanos::secs(3600);
        assert_eq!(keys.deadline(), Some(end));
        let before = Instant(end.0 - 1);
        for (now, count) in [(MADE_AT, 1), (before, 1), (end, 0)] {
            assert_eq!(
                found(&keys, now, &names("a")).len(),
                count,
                "for every queue, as often as it is asked for"
            );
        }
        assert_eq!(found(&keys, MADE_AT, &names("b")).len(), 0, "another host");
        let other = Names { controller: "nqn.a:2".to_owned(), ..names("a") };
        assert_eq!(found(&keys, MADE_AT, &other).len(), 0, "another controller");
        keys.expire(before);
        assert_eq!((keys.kept.len(), keys.of.len()), (1, 1));
        keys.expire(end);
        assert_eq!((keys.kept.len(), keys.of.len()), (0, 0));
    }

    #[test]
    fn the_oldest_key_makes_room() {
        let mut keys = GeneratedKeys::default();
        keys.keep(MADE_AT, names("b"), made(99));
        for seed in 1..=6 {
            keys.keep(MADE_AT, names("a"), made(seed));
        }
        let expected: Vec<String> = (3..=6).map(|seed| identity(&made(seed).0)).collect();
        assert_eq!(found(&keys, MADE_AT, &names("a")), expected);
        assert_eq!(found(&keys, MADE_AT, &names("b")).len(), 1, "it has no part in that");
        for host in 0..ALL_MAX {
            keys.keep(MADE_AT, names(&format!("host {host}")), made(1));
            assert!(keys.kept.len() <= ALL_MAX && keys.of.len() <= ALL_MAX);
        }
        assert_eq!(found(&keys, MADE_AT, &names("b")).len(), 0, "it was the oldest");
    }

    #[test]
    fn a_key_ends_with_its_origin() {
        let mut keys = GeneratedKeys::default();
        for (host, seed) in [("a", 1), ("a", 2), ("b", 1)] {
            keys.keep(MADE_AT, names(host), made(seed));
        }
        let found = |keys: &GeneratedKeys, host, seed| {
            keys.find(MADE_AT, &names(host), |by| *by == origin(seed)).len()
        };
        assert_eq!([found(&keys, "a", 1), found(&keys, "a", 2), found(&keys, "a", 3)], [1, 1, 0]);
        keys.retain(|host, by| host == "a" && *by == origin(2));
        assert_eq!([found(&keys, "a", 1), found(&keys, "a", 2), found(&keys, "b", 1)], [0, 1, 0]);
    }
}
