//! The latency monitor: decides whether the SSD is congested for one kind of IO.
//!
//! One monitor for reads and one for writes. Each keeps a moving average of the device latency and a threshold that
//! follows it down while all is well, so that a rise is noticed early, and jumps up while it is not, so that the signal
//! does not stick.
//!
//! ```text
//!   thresh_max ───────────────  above: overloaded         threshold ← thresh_max
//!   threshold  ─ ─ ─ ─ ─ ─ ─ ─  above: congested          threshold ← half way to thresh_max
//!   thresh_min ───────────────  above: avoidance          threshold ← α_T of the way down to the average
//!                               at or below: under-utilised    (the same, but never below thresh_min)
//! ```
//!
//! Holds: the threshold stays between `thresh_min` and `thresh_max` (`the_threshold_stays_in_its_band`);
//!        it arrives at a steady average (`the_threshold_settles_on_a_steady_latency`).
//! Elsewhere: the effect of the state on the rate is in `congestion`.
//! Paper: Gimbal §3.2. The first latency starts the average; the paper does not say.

use crate::view::{Congestion, MonitorView};
use crate::{DeviceConstants, Halvings};
use units::Nanos;

/// Both averages carry this many bits below a nanosecond, so that small weights do not stall.
const FRACTION_BITS: u32 = 16;

/// Upper bound for an average (over three days), so that the fixed-point number fits.
const LATENCY_MAX: Nanos = Nanos((1 << (63 - FRACTION_BITS)) - 1);

/// One kind of IO's latency, all in nanoseconds with [`FRACTION_BITS`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatencyMonitor {
    thresh_min: u64,
    thresh_max: u64,
    average_shift: u32,
    threshold_shift: Option<u32>,
    threshold: u64,
    ewma: Option<u64>,
    state: Option<Congestion>,
}

fn fixed(nanos: Nanos) -> u64 {
    nanos.0.min(LATENCY_MAX.0) << FRACTION_BITS
}

fn whole(fixed: u64) -> Nanos {
    Nanos(fixed >> FRACTION_BITS)
}

impl LatencyMonitor {
    /// A monitor before its first latency. `average` is α_D, `threshold` α_T: without it the threshold stays at
    /// `thresh_max`.
    pub(crate) fn new(
        device: &DeviceConstants,
        average: Halvings,
        threshold: Option<Halvings>,
    ) -> LatencyMonitor {
        LatencyMonitor {
            thresh_min: fixed(device.thresh_min),
            thresh_max: fixed(device.thresh_max),
            average_shift: average.0,
            threshold_shift: threshold.map(|weight| weight.0),
            threshold: fixed(device.thresh_max),
            ewma: None,
            state: None,
        }
    }

    /// Learns the latency of an IO inside the SSD. Returns the resulting state.
    #[inline]
    pub(crate) fn on_latency(&mut self, latency: Nanos) -> Congestion {
        let latency = fixed(latency);
        let ewma = match self.ewma {
            None => latency,
            Some(ewma) => ewma - (ewma >> self.average_shift) + (latency >> self.average_shift),
        };
        self.ewma = Some(ewma);
        let (state, threshold) = if ewma > self.thresh_max {
            (Congestion::Overloaded, self.thresh_max)
        } else if ewma > self.threshold {
            (Congestion::Congested, self.threshold.midpoint(self.thresh_max))
        } else {
            let follows = self.threshold_shift.map_or(0, |shift| (self.threshold - ewma) >> shift);
            let lowered = self.threshold - follows;
            let state =
                if ewma > self.thresh_min { Congestion::Avoidance } else { Congestion::Underutilised };
            (state, lowered.max(self.thresh_min))
        };
        self.threshold = threshold;
        self.state = Some(state);
        state
    }

    pub(crate) fn view(&self) -> MonitorView {
        MonitorView { ewma: self.ewma.map(whole), threshold: whole(self.threshold), state: self.state }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    fn with_weight(average: Halvings) -> LatencyMonitor {
        LatencyMonitor::new(&DeviceConstants::DCT983, average, Some(Halvings(4)))
    }

    fn monitor() -> LatencyMonitor {
        with_weight(Halvings(1))
    }

    #[test]
    fn a_threshold_that_does_not_follow_stands_still() {
        let device = DeviceConstants::DCT983;
        let mut monitor = LatencyMonitor::new(&device, Halvings(1), None);
        for micros in [100, 300, 1499, 5000, 200] {
            monitor.on_latency(Nanos::micros(micros));
            assert_eq!(monitor.view().threshold, device.thresh_max, "after {micros} µs");
        }
    }

    #[test]
    fn the_four_states_lie_between_the_thresholds() {
        for (micros, state) in [
            (250, Congestion::Underutilised),
            (251, Congestion::Avoidance),
            (1500, Congestion::Avoidance),
            (1501, Congestion::Overloaded),
        ] {
            assert_eq!(monitor().on_latency(Nanos::micros(micros)), state, "after {micros} µs");
        }
    }

    #[test]
    fn each_latency_counts_for_half() {
        let mut monitor = monitor();
        monitor.on_latency(Nanos::micros(100));
        monitor.on_latency(Nanos::micros(300));
        assert_eq!(monitor.view().ewma, Some(Nanos::micros(200)));
        monitor.on_latency(Nanos::micros(400));
        assert_eq!(monitor.view().ewma, Some(Nanos::micros(300)));
    }

    #[test]
    fn a_rise_above_the_lowered_threshold_is_congestion_and_lifts_it_half_way() {
        let mut monitor = monitor();
        for _ in 0..200 {
            monitor.on_latency(Nanos::micros(500));
        }
        assert_eq!(monitor.on_latency(Nanos::micros(900)), Congestion::Congested);
        let threshold = monitor.view().threshold;
        assert!(threshold.0.abs_diff(1_000_000) <= 2_000, "{threshold} is not half way from 500 to 1500 µs");
    }

    #[test]
    fn an_overload_resets_the_threshold_to_its_maximum() {
        let mut monitor = monitor();
        for _ in 0..200 {
            monitor.on_latency(Nanos::micros(500));
        }
        assert_eq!(monitor.on_latency(Nanos::millis(10)), Congestion::Overloaded);
        assert_eq!(monitor.view().threshold, Nanos::micros(1500));
    }

    #[test]
    fn the_threshold_settles_on_a_steady_latency() {
        let mut monitor = monitor();
        for _ in 0..500 {
            monitor.on_latency(Nanos::micros(700));
        }
        let threshold = monitor.view().threshold;
        assert!(threshold.0.abs_diff(700_000) <= 1, "{threshold} has stalled above 700 µs");
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn the_threshold_stays_in_its_band(
            shift in 0..=16u32,
            latencies in prop::collection::vec(prop_oneof![0..3_000_000u64, Just(u64::MAX)], 1..200),
        ) {
            let device = DeviceConstants::DCT983;
            let mut monitor = with_weight(Halvings(shift));
            for latency in latencies {
                monitor.on_latency(Nanos(latency));
                let threshold = monitor.view().threshold;
                prop_assert!(threshold >= device.thresh_min && threshold <= device.thresh_max);
            }
        }
    }
}
