//! When a host sends Keep Alive commands.
//!
//! A Keep Alive goes out every half timeout. If any command counts as keep-alive traffic (TBKAS), the host
//! checks every quarter of the timeout, and sends a Keep Alive only if it sent nothing since the last check.
//! So the target finds traffic at every check. If a Keep Alive is not answered within the timeout, the
//! connection to the target is lost.
//!
//! Holds: without other traffic, the target gets a Keep Alive at least every half timeout
//!        (`silence_is_at_most_half_the_timeout`).
//! NVM Express Base Specification: "Keep Alive".

use super::error::HostError;
use units::{Instant, Nanos};

#[derive(Clone, Debug)]
pub(super) struct KeepAliveSchedule {
    timeout: Nanos,
    traffic_counts: bool,
    traffic: bool,
    next: Instant,
    sent_at: Option<Instant>,
}

impl KeepAliveSchedule {
    /// A `timeout` of zero turns keep-alive off.
    pub(super) fn new(now: Instant, timeout: Nanos) -> KeepAliveSchedule {
        let mut schedule =
            KeepAliveSchedule { timeout, traffic_counts: false, traffic: false, next: now, sent_at: None };
        schedule.plan(now);
        schedule
    }

    /// Whether any command counts as keep-alive traffic; known after Identify Controller.
    pub(super) fn set_traffic_counts(&mut self, traffic_counts: bool) {
        self.traffic_counts = traffic_counts;
    }

    /// Notes that any command was sent.
    pub(super) fn on_traffic(&mut self) {
        self.traffic = true;
    }

    /// Whether to send a Keep Alive now.
    pub(super) fn is_due(&mut self, now: Instant) -> Result<bool, HostError> {
        if let Some(sent_at) = self.sent_at {
            return match now.saturating_since(sent_at) >= self.timeout {
                true => Err(HostError::KeepAliveTimeout(self.timeout)),
                false => Ok(false),
            };
        }
        if now < self.next {
            return Ok(false);
        }
        self.plan(now);
        if self.traffic_counts && core::mem::take(&mut self.traffic) {
            return Ok(false);
        }
        self.sent_at = Some(now);
        Ok(true)
    }

    /// Notes that the Keep Alive was answered.
    pub(super) fn on_answer(&mut self) {
        self.sent_at = None;
    }

    /// When to call `is_due` next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let next = self.sent_at.map_or(self.next, |sent_at| sent_at + self.timeout);
        (self.timeout > Nanos::ZERO).then_some(next)
    }

    fn plan(&mut self, now: Instant) {
        let part = if self.traffic_counts { 4 } else { 2 };
        self.next = match self.timeout {
            Nanos::ZERO => Instant::FAR_FUTURE,
            timeout => now + Nanos(timeout.get() / part),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Nanos::millis(millis)
    }

    #[test]
    fn silence_is_at_most_half_the_timeout() {
        let mut schedule = KeepAliveSchedule::new(at(0), Nanos::millis(1000));
        assert_eq!(schedule.next_timeout(), Some(at(500)));
        assert_eq!(schedule.is_due(at(499)), Ok(false));
        assert_eq!(schedule.is_due(at(500)), Ok(true));
        schedule.on_answer();
        assert_eq!(schedule.next_timeout(), Some(at(1000)));
    }

    #[test]
    fn traffic_replaces_a_keep_alive_only_where_it_counts() {
        let mut schedule = KeepAliveSchedule::new(at(0), Nanos::millis(1000));
        schedule.on_traffic();
        assert_eq!(schedule.is_due(at(500)), Ok(true));
        schedule.on_answer();
        schedule.set_traffic_counts(true);
        schedule.on_traffic();
        assert_eq!(schedule.is_due(at(1000)), Ok(false));
        assert_eq!(schedule.next_timeout(), Some(at(1250)));
        assert_eq!(schedule.is_due(at(1250)), Ok(true), "nothing was sent since");
    }

    #[test]
    fn an_unanswered_keep_alive_is_an_error() {
        let mut schedule = KeepAliveSchedule::new(at(0), Nanos::millis(1000));
        assert_eq!(schedule.is_due(at(500)), Ok(true));
        assert_eq!(schedule.next_timeout(), Some(at(1500)));
        assert_eq!(schedule.is_due(at(1499)), Ok(false));
        assert_eq!(schedule.is_due(at(1500)), Err(HostError::KeepAliveTimeout(Nanos::millis(1000))));
    }

    #[test]
    fn without_a_timeout_no_keep_alive_is_sent() {
        let mut schedule = KeepAliveSchedule::new(at(0), Nanos::ZERO);
        assert_eq!((schedule.next_timeout(), schedule.is_due(at(1 << 40))), (None, Ok(false)));
    }
}
