//! When to try again after a failure: exponential back-off with jitter, and a limit of tries.
//!
//! Each wait is drawn evenly from [d/2, d]; d doubles from `first` up to `longest`. The fixed half gives a
//! target that comes back some time. The random half spreads a hundred hosts that lost it at the same time.
//!
//! Holds: a wait is never shorter than `first`/2 nor longer than `longest`
//!        (`waits_stay_between_their_bounds`);
//!        the same seed gives the same waits (`a_seed_replays_its_waits`).

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::Nanos;

/// The intervals and the number of attempts to reconnect to a lost controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait before the second try. The first try has no wait.
    pub first: Nanos,
    /// The longest wait.
    pub longest: Nanos,
    /// Give the controller up after this many failed tries in a row; `None` never gives up.
    pub tries_max: Option<u32>,
}

impl Default for Backoff {
    /// 100 ms, doubling to 10 s; gives up after 30 tries, a little less than five minutes.
    fn default() -> Self {
        Backoff { first: Nanos::millis(100), longest: Nanos::secs(10), tries_max: Some(30) }
    }
}

impl Backoff {
    /// One try only.
    pub const NEVER_RETRY: Backoff = Backoff { first: Nanos::ZERO, longest: Nanos::ZERO, tries_max: Some(1) };
}

/// Tries since the last success.
#[derive(Debug)]
pub(crate) struct Retries {
    backoff: Backoff,
    failed: u32,
    random: Xoshiro256PlusPlus,
}

impl Retries {
    pub(crate) fn new(backoff: Backoff, seed: u64) -> Retries {
        Retries { backoff, failed: 0, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// A try has failed. Returns how long to wait before the next one; `None` if there is no next one.
    pub(crate) fn on_failure(&mut self) -> Option<Nanos> {
        self.failed = self.failed.saturating_add(1);
        if self.backoff.tries_max.is_some_and(|max| self.failed >= max) {
            return None;
        }
        let doublings = (self.failed - 1).min(u64::BITS - 1);
        let grown = self.backoff.first.0.saturating_mul(1 << doublings);
        let wait = grown.min(self.backoff.longest.0);
        Some(Nanos(self.random.random_range(wait / 2..=wait)))
    }

    /// The controller is ready: the next failure counts as the first.
    pub(crate) fn on_success(&mut self) {
        self.failed = 0;
    }

    /// Failed tries in a row.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { first: Nanos::millis(100), longest: Nanos::secs(2), tries_max: Some(100) };

    #[test]
    fn waits_stay_between_their_bounds() {
        let mut retries = Retries::new(BACKOFF, 1);
        let mut limit = BACKOFF.first;
        while let Some(wait) = retries.on_failure() {
            assert!(wait >= Nanos(limit.0 / 2) && wait <= limit, "waited {wait} but the limit was {limit}");
            limit = Nanos(limit.0 * 2).min(BACKOFF.longest);
        }
        assert_eq!(retries.failed(), 100);
    }

    #[test]
    fn a_seed_replays_its_waits() {
        let waits = |seed| {
            let mut retries = Retries::new(BACKOFF, seed);
            core::iter::from_fn(move || retries.on_failure()).collect::<Vec<_>>()
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
    }

    #[test]
    fn a_success_resets_the_waits() {
        let mut retries = Retries::new(BACKOFF, 1);
        for _ in 0..10 {
            retries.on_failure();
        }
        retries.on_success();
        assert!(retries.on_failure().is_some_and(|wait| wait <= BACKOFF.first));
    }

    #[test]
    fn never_retry_means_one_try() {
        assert_eq!(Retries::new(Backoff::NEVER_RETRY, 1).on_failure(), None);
    }
}
