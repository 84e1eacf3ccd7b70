//! The target rate: how many bytes per second may go to the SSD.
//!
//! Both latency monitors steer one rate. Every completed IO of `len` bytes moves it:
//!
//! ```text
//!   overloaded      min(rate, completion_rate) − len      (the owner also empties the token buckets)
//!   congested       rate − len
//!   avoidance       rate + len
//!   under-utilised  rate + β · len
//! ```
//!
//! The completion rate is measured over windows of 16 MiB. Two things would falsify it, and are kept out: time in which
//! the SSD had nothing to do (it is not counted), and the measurement of a load that has passed (an idle spell of
//! `completion_idle_max` forgets it). While it is unknown an overload only subtracts `len`.
//!
//! Holds: the rate stays within its clamp (`the_rate_stays_within_its_clamp`); an idle spell never lowers the rate to
//!        which an overload falls back (`idle_time_does_not_count_as_slowness`,
//!        `a_long_idle_spell_forgets_the_measurement`).
//! Elsewhere: the state comes from `latency`; the rate is spent in `bucket`.
//! Paper: Gimbal §3.2.

use super::GimbalConfig;
use crate::view::Congestion;
use units::{ByteRate, Bytes, Instant, Nanos};

/// The rate and the measurement that bounds it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetRate {
    rate: ByteRate,
    rate_min: ByteRate,
    rate_max: ByteRate,
    underutilised_growth: u64,
    completions: CompletionRate,
}

impl TargetRate {
    pub(super) fn new(config: &GimbalConfig) -> TargetRate {
        let device = &config.device;
        TargetRate {
            rate: config.rate_start.clamp(device.rate_min, device.rate_max),
            rate_min: device.rate_min,
            rate_max: device.rate_max,
            underutilised_growth: config.underutilised_growth,
            completions: CompletionRate::new(config),
        }
    }

    pub(super) fn rate(&self) -> ByteRate {
        self.rate
    }

    pub(super) fn completion_rate(&self) -> Option<ByteRate> {
        self.completions.rate
    }

    /// Notes that the SSD is given work after it had none.
    pub(super) fn on_busy(&mut self, now: Instant) {
        self.completions.on_busy(now);
    }

    /// Notes that the last IO in the SSD has ended.
    pub(super) fn on_idle(&mut self, now: Instant) {
        self.completions.on_idle(now);
    }

    /// Moves the rate after an IO of `length` completed and left its kind's monitor in `state`.
    #[inline]
    pub(super) fn on_completion(&mut self, now: Instant, state: Congestion, length: Bytes) {
        self.completions.on_completion(now, length);
        let rate = match state {
            Congestion::Overloaded => {
                let known = self.completions.rate.unwrap_or(self.rate);
                self.rate.min(known).0.saturating_sub(length.0)
            }
            Congestion::Congested => self.rate.0.saturating_sub(length.0),
            Congestion::Avoidance => self.rate.0.saturating_add(length.0),
            Congestion::Underutilised => {
                self.rate.0.saturating_add(length.0.saturating_mul(self.underutilised_growth))
            }
        };
        self.rate = ByteRate(rate).clamp(self.rate_min, self.rate_max);
    }
}

/// Bytes per second of busy time, over the last full window.
#[derive(Clone, Copy, Debug)]
struct CompletionRate {
    window: Bytes,
    idle_max: Nanos,
    rate: Option<ByteRate>,
    /// Completed in the current window.
    completed: Bytes,
    /// When the current window would have begun, had the SSD been busy ever since; while idle, the busy time so far lies
    /// between this and `idle_since`.
    begun: Instant,
    idle_since: Option<Instant>,
}

impl CompletionRate {
    fn new(config: &GimbalConfig) -> CompletionRate {
        CompletionRate {
            window: config.completion_window,
            idle_max: config.completion_idle_max,
            rate: None,
            completed: Bytes::ZERO,
            begun: Instant::ZERO,
            idle_since: Some(Instant::ZERO),
        }
    }

    fn on_busy(&mut self, now: Instant) {
        let Some(idle_since) = self.idle_since.take() else { return };
        let idle = now.since(idle_since);
        if idle > self.idle_max {
            (self.rate, self.completed, self.begun) = (None, Bytes::ZERO, now);
        } else {
            self.begun += idle;
        }
    }

    fn on_idle(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    #[inline]
    fn on_completion(&mut self, now: Instant, length: Bytes) {
        self.completed += length;
        if self.completed >= self.window {
            // Windows that complete within one instant cannot be measured; they run on.
            if let Some(rate) = ByteRate::measured(self.completed, now.since(self.begun)) {
                (self.rate, self.completed, self.begun) = (Some(rate), Bytes::ZERO, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::DeviceConstants;
    use proptest::prelude::*;

    const IO: Bytes = Bytes::kib(128);

    fn target(config: GimbalConfig) -> TargetRate {
        let mut target = TargetRate::new(&config);
        target.on_busy(Instant::ZERO);
        target
    }

    fn published() -> GimbalConfig {
        GimbalConfig::published(DeviceConstants::DCT983)
    }

    /// One window of completions at an even pace over `span`, in a state that leaves the rate where it was on the whole.
    fn complete_a_window(target: &mut TargetRate, from: Instant, span: Nanos) {
        let count = published().completion_window.0 / IO.0;
        for i in 1..=count {
            let state = if i % 2 == 0 { Congestion::Congested } else { Congestion::Avoidance };
            target.on_completion(from + Nanos(span.0 * i / count), state, IO);
        }
    }

    #[test]
    fn each_state_moves_the_rate_as_the_table_says() {
        let start = published().rate_start.0;
        for (state, rate) in [
            (Congestion::Overloaded, start - IO.0),
            (Congestion::Congested, start - IO.0),
            (Congestion::Avoidance, start + IO.0),
            (Congestion::Underutilised, start + 8 * IO.0),
        ] {
            let mut target = target(published());
            target.on_completion(Instant(1), state, IO);
            assert_eq!(target.rate(), ByteRate(rate), "{state:?}");
        }
    }

    #[test]
    fn an_overload_falls_back_to_what_really_completed() {
        let mut target = target(published());
        let span = Nanos::millis(40);
        complete_a_window(&mut target, Instant::ZERO, span);
        let measured =
            ByteRate::measured(published().completion_window, span).expect("the span is not empty");
        assert_eq!(target.completion_rate(), Some(measured));
        target.on_completion(Instant::ZERO + span, Congestion::Overloaded, IO);
        assert_eq!(target.rate(), ByteRate(measured.0 - IO.0));
    }

    #[test]
    fn an_overload_before_the_first_window_only_subtracts() {
        let mut target = target(published());
        target.on_completion(Instant(1), Congestion::Overloaded, IO);
        assert_eq!(target.rate(), ByteRate(published().rate_start.0 - IO.0));
    }

    #[test]
    fn idle_time_does_not_count_as_slowness() {
        let mut busy = target(published());
        complete_a_window(&mut busy, Instant::ZERO, Nanos::millis(20));
        let mut paused = target(published());
        let pause = published().completion_idle_max;
        paused.on_idle(Instant::ZERO);
        paused.on_busy(Instant::ZERO + pause);
        complete_a_window(&mut paused, Instant::ZERO + pause, Nanos::millis(20));
        assert_eq!(paused.completion_rate(), busy.completion_rate());
    }

    #[test]
    fn a_long_idle_spell_forgets_the_measurement() {
        let mut target = target(published());
        complete_a_window(&mut target, Instant::ZERO, Nanos::secs(1));
        assert!(target.completion_rate().is_some());
        let stop = Instant(1_000_000_000);
        target.on_idle(stop);
        let start = stop + published().completion_idle_max + Nanos(1);
        target.on_busy(start);
        assert_eq!(target.completion_rate(), None);
        complete_a_window(&mut target, start, Nanos::millis(20));
        assert_eq!(
            target.completion_rate(),
            ByteRate::measured(published().completion_window, Nanos::millis(20)),
            "the new window has time or bytes of the old one in it"
        );
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_rate_stays_within_its_clamp(
            steps in prop::collection::vec((0..4u8, 1..1u64 << 40, 0..10_000_000u64), 1..200),
        ) {
            let device = DeviceConstants::DCT983;
            let mut target = target(published());
            let mut now = Instant::ZERO;
            for (state, length, wait) in steps {
                now += Nanos(wait);
                let state = [
                    Congestion::Overloaded,
                    Congestion::Congested,
                    Congestion::Avoidance,
                    Congestion::Underutilised,
                ][usize::from(state)];
                target.on_completion(now, state, Bytes(length));
                prop_assert!(target.rate() >= device.rate_min && target.rate() <= device.rate_max);
            }
        }
    }
}
