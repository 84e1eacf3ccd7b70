//! Delays new connections of addresses whose proofs fail.
//!
//! An address may fail a number of times per minute. Beyond it, each further failure doubles the time for which a new connection of it
//! waits for the answer to its first bytes, up to ten seconds. The delay shrinks as time goes by. Connections are never refused: hosts
//! behind one address are told apart only by their proofs.
//!
//! Holds: the delay doubles, has an upper bound, and ends (`the_delay_doubles_and_ends`); a storm from everywhere costs bounded memory
//!        (`addresses_are_bounded`).

use crate::quota::Origin;
use std::collections::HashMap;
use units::{Instant, Nanos};

/// The longest delay of a connection.
const DELAY_MAX: Nanos = Nanos::secs(10);
/// The delay after the first failure beyond the allowed ones.
const DELAY_FIRST: Nanos = Nanos::millis(100);
/// Doublings from the first delay to the longest.
const DOUBLINGS_MAX: u32 = 7;
/// Addresses that are remembered.
const ORIGINS_MAX: usize = 4096;
const MINUTE: Nanos = Nanos::secs(60);

/// See the module.
pub(crate) struct Throttle {
    /// Failures per minute that are not delayed.
    allowed: u32,
    /// When the failures of an address are forgotten: each adds its part of a minute.
    forgotten_at: HashMap<Origin, Instant>,
}

impl Throttle {
    /// Allows this many failures per minute and address.
    pub(crate) fn new(allowed: u32) -> Throttle {
        Throttle { allowed, forgotten_at: HashMap::new() }
    }

    /// Changes the number of failures that are not delayed.
    pub(crate) fn set_allowed(&mut self, allowed: u32) {
        self.allowed = allowed;
    }

    fn part(&self) -> Nanos {
        Nanos(MINUTE.get() / u64::from(self.allowed.max(1)))
    }

    /// A proof of this address has failed, or was not finished.
    pub(crate) fn on_failure(&mut self, now: Instant, origin: Origin) {
        if !self.forgotten_at.contains_key(&origin) && self.forgotten_at.len() >= ORIGINS_MAX {
            self.forgotten_at.retain(|_, at| *at > now);
            if self.forgotten_at.len() >= ORIGINS_MAX {
                // The one that is forgotten first.
                let first = self.forgotten_at.iter().min_by_key(|(origin, at)| (**at, **origin));
                if let Some(first) = first.map(|(origin, _)| *origin) {
                    self.forgotten_at.remove(&first);
                }
            }
        }
        let part = self.part();
        let longest = now + MINUTE + Nanos(part.get() * u64::from(DOUBLINGS_MAX + 1));
        let at = self.forgotten_at.entry(origin).or_insert(now);
        *at = ((*at).max(now) + part).min(longest);
    }

    /// The delay of a new connection of this address.
    pub(crate) fn delay(&self, now: Instant, origin: Origin) -> Nanos {
        let left = self.forgotten_at.get(&origin).map_or(Nanos::ZERO, |at| at.saturating_since(now));
        let beyond = left.saturating_sub(MINUTE);
        if beyond == Nanos::ZERO {
            return Nanos::ZERO;
        }
        let doublings = (beyond.get() - 1) / self.part().get();
        let doublings = u32::try_from(doublings).unwrap_or(u32::MAX).min(DOUBLINGS_MAX);
        Nanos(DELAY_FIRST.get() << doublings).min(DELAY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(n: u32) -> Origin {
        Origin::of(std::net::Ipv4Addr::from_bits(n).into())
    }

    #[test]
    fn the_delay_doubles_and_ends() {
        let mut throttle = Throttle::new(20);
        let start = Instant(1_000_000_000);
        for _ in 0..20 {
            throttle.on_failure(start, origin(1));
            assert_eq!(throttle.delay(start, origin(1)), Nanos::ZERO);
        }
        let mut delays = Vec::new();
        for _ in 0..20 {
            throttle.on_failure(start, origin(1));
            delays.push(throttle.delay(start, origin(1)).get() / 1_000_000);
        }
        assert_eq!(delays[..9], [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(delays[9..], [10_000; 11]);
        assert_eq!(throttle.delay(start, origin(2)), Nanos::ZERO, "another address");
        // Each failure is forgotten after a twentieth of a minute.
        assert_eq!(throttle.delay(start + Nanos::secs(23), origin(1)), Nanos::millis(100));
        assert_eq!(throttle.delay(start + Nanos::secs(24), origin(1)), Nanos::ZERO);
    }

    #[test]
    fn addresses_are_bounded() {
        let mut throttle = Throttle::new(1);
        for n in 0..2 * ORIGINS_MAX as u32 {
            throttle.on_failure(Instant(u64::from(n)), origin(n));
            assert!(throttle.forgotten_at.len() <= ORIGINS_MAX);
        }
        // The latest ones are remembered.
        let last = 2 * ORIGINS_MAX as u32 - 1;
        throttle.on_failure(Instant(u64::from(last)), origin(last));
        assert!(throttle.delay(Instant(u64::from(last)), origin(last)) > Nanos::ZERO);
    }
}
