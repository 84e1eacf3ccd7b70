//! Keep-alive: a host that sends nothing for too long is considered gone.
//!
//! A Keep Alive command restarts the timer. If the timer expires and any command came since its start
//! (traffic based keep-alive), it restarts once more. So a silent host is dropped after one to two timeouts,
//! and a busy host needs no Keep Alive commands. The IO path only sets a flag.
//!
//! Holds: a host is dropped no earlier than one timeout after its last command, and no later than two
//!        (`a_silent_host_is_gone_after_one_to_two_timeouts`).
//! NVM Express Base Specification: "Keep Alive".

use units::{Instant, Nanos};

/// KAS: granularity of the timer, in units of 100 ms.
pub(super) const GRANULARITY: u16 = 1;
const GRANULARITY_MILLIS: u32 = 100 * GRANULARITY as u32;

/// Idle time after which a discovery controller is dropped if its host disables keep-alive (Base
/// Specification, "Discovery controller initialization").
const DISCOVERY_IDLE_MILLIS: u32 = 120_000;

/// A controller's timer.
#[derive(Clone, Debug)]
pub(super) struct KeepAlive {
    /// In milliseconds; 0 is off.
    timeout: u32,
    /// Used when `timeout` is 0; in milliseconds; 0 is off.
    idle_timeout: u32,
    deadline: Instant,
    traffic: bool,
}

impl KeepAlive {
    /// The timer of an IO controller.
    pub(super) fn new(now: Instant, kato: u32) -> KeepAlive {
        KeepAlive::with_idle_timeout(now, kato, 0)
    }

    /// The timer of a discovery controller.
    pub(super) fn of_discovery(now: Instant, kato: u32) -> KeepAlive {
        KeepAlive::with_idle_timeout(now, kato, DISCOVERY_IDLE_MILLIS)
    }

    fn with_idle_timeout(now: Instant, kato: u32, idle_timeout: u32) -> KeepAlive {
        let mut timer = KeepAlive { timeout: 0, idle_timeout, deadline: Instant::FAR_FUTURE, traffic: false };
        timer.set_timeout(now, kato);
        timer
    }

    /// Sets a new timeout in milliseconds, rounded up to the granularity, and restarts the timer.
    pub(super) fn set_timeout(&mut self, now: Instant, kato: u32) {
        self.timeout = kato.checked_next_multiple_of(GRANULARITY_MILLIS).unwrap_or(kato);
        self.restart(now);
    }

    /// The timeout in milliseconds, as feature 0Fh returns it.
    pub(super) fn timeout(&self) -> u32 {
        self.timeout
    }

    /// Restarts the timer: a Keep Alive command arrived, or the controller was enabled.
    pub(super) fn restart(&mut self, now: Instant) {
        self.traffic = false;
        self.deadline = match self.span() {
            Some(span) => now + span,
            None => Instant::FAR_FUTURE,
        };
    }

    /// Extends the deadline by a time in which the target did not run.
    pub(super) fn extend(&mut self, by: Nanos) {
        if self.span().is_some() {
            self.deadline += by;
        }
    }

    /// Any command arrived.
    #[inline]
    pub(super) fn on_traffic(&mut self) {
        self.traffic = true;
    }

    /// The latest time to call `has_expired` again.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the time has passed without traffic, so that the host counts as lost.
    pub(super) fn has_expired(&mut self, now: Instant) -> bool {
        if now < self.deadline {
            return false;
        }
        if self.traffic {
            self.restart(now);
            return false;
        }
        true
    }

    fn span(&self) -> Option<Nanos> {
        match (self.timeout, self.idle_timeout) {
            (0, 0) => None,
            (0, idle) => Some(Nanos::millis(u64::from(idle))),
            (kato, _) => Some(Nanos::millis(u64::from(kato))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Nanos::millis(millis)
    }

    #[test]
    fn a_silent_host_is_gone_after_one_to_two_timeouts() {
        let mut timer = KeepAlive::new(at(0), 5000);
        timer.on_traffic();
        assert!(!timer.has_expired(at(4999)));
        assert!(!timer.has_expired(at(5000)), "there was traffic");
        assert_eq!(timer.deadline(), at(10_000));
        assert!(!timer.has_expired(at(9_999)));
        assert!(timer.has_expired(at(10_000)), "no traffic since");
    }

    #[test]
    fn keep_alive_commands_postpone_it() {
        let mut timer = KeepAlive::new(at(0), 5000);
        timer.restart(at(2500));
        assert!(!timer.has_expired(at(7499)));
        assert!(timer.has_expired(at(7500)));
    }

    #[test]
    fn a_timer_is_extended() {
        let mut timer = KeepAlive::new(at(0), 5000);
        timer.extend(Nanos::secs(60));
        assert!(!timer.has_expired(at(64_999)));
        assert!(timer.has_expired(at(65_000)));
        let mut off = KeepAlive::new(at(0), 0);
        off.extend(Nanos::secs(60));
        assert_eq!(off.deadline(), Instant::FAR_FUTURE);
    }

    #[test]
    fn without_a_timeout_only_a_discovery_controller_expires() {
        assert!(!KeepAlive::new(at(0), 0).has_expired(Instant(u64::MAX - 1)));
        let mut discovery = KeepAlive::of_discovery(at(0), 0);
        assert_eq!(discovery.timeout(), 0);
        assert!(!discovery.has_expired(at(119_999)));
        assert!(discovery.has_expired(at(120_000)));
    }

    #[test]
    fn timeouts_are_rounded_up() {
        assert_eq!(KeepAlive::new(at(0), 5001).timeout(), 5100);
        assert_eq!(KeepAlive::new(at(0), u32::MAX).timeout(), u32::MAX);
    }
}
