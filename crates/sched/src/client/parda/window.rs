//! PARDA's control equation: how many IOs a host may have outstanding.
//!
//! ```text
//!  w(t+1) = (1 − γ)·w(t) + γ·( L/L(t)·w(t) + β )        within [w_min, w_max]
//! ```
//!
//! Below the threshold L the window grows; above it, it shrinks the faster the longer it is, until all hosts' windows are in
//! proportion to their β. They settle where the latency is L + Σβ/(IOs per second), and a window is β·(1 + L·IOPS/Σβ).
//!
//! Holds: in a fluid model the windows arrive at that point from anywhere (`windows_arrive_at_the_closed_form`).
//! Elsewhere: the latency seen by all hosts is `latency`; β while VMs idle is `shares`.
//! Paper: PARDA §3.1, equations 1 to 3.

use super::latency::Average;
use super::{Fixed, LatencySample, PardaConfig};
use units::Nanos;

/// One host's window at one SSD.
#[derive(Clone, Debug)]
pub struct PardaWindow {
    config: PardaConfig,
    window: Fixed,
    in_flight: u32,
    sample: LatencySample,
    average: Average,
}

impl PardaWindow {
    /// A window with nothing in flight, as large as it may be: a host without PARDA fills its queue too.
    ///
    /// # Panics
    /// If [`PardaConfig::check`] finds fault with `config`.
    pub fn new(config: PardaConfig) -> PardaWindow {
        if let Err(wrong) = config.check() {
            panic!("{wrong}: {config:?}");
        }
        PardaWindow {
            config,
            window: Fixed::whole(config.window_max),
            in_flight: 0,
            sample: LatencySample::default(),
            average: Average::default(),
        }
    }

    /// The constants it runs with.
    pub fn config(&self) -> &PardaConfig {
        &self.config
    }

    /// Takes one place in the window, if one is free.
    #[must_use]
    pub fn try_submit(&mut self) -> bool {
        let has_room = self.room() > 0;
        self.in_flight += u32::from(has_room);
        has_room
    }

    /// Ends an IO, `latency` after its submission; `None` if it failed, which says nothing about load. Returns how many
    /// waiting IOs could go now.
    ///
    /// # Panics
    /// If nothing was in flight.
    pub fn on_completion(&mut self, latency: Option<Nanos>) -> u32 {
        self.in_flight = self.in_flight.checked_sub(1).expect("an IO ended but none was in flight");
        if let Some(latency) = latency {
            self.sample.add(latency);
        }
        self.room()
    }

    /// Observations of this host since it was last asked: to be published.
    pub fn publish(&mut self) -> LatencySample {
        core::mem::take(&mut self.sample)
    }

    /// Ends a period in which all hosts together saw `aggregate`. `beta` is the weight of the host now. If no IO ended
    /// anywhere, nothing is known and nothing changes.
    pub fn on_period(&mut self, aggregate: LatencySample, beta: Fixed) {
        let Some(mean) = aggregate.mean() else { return };
        let latency = self.average.add(mean, self.config.latency_weight).0.max(1);
        let (window, one) = (u128::from(self.window.0), u128::from(Fixed::ONE.0));
        let aimed =
            window * u128::from(self.config.latency_threshold.0) / u128::from(latency) + u128::from(beta.0);
        let smoothing = u128::from(self.config.smoothing.0);
        let next = ((one - smoothing) * window + smoothing * aimed) / one;
        let next = Fixed(u64::try_from(next).unwrap_or(u64::MAX));
        let (min, max) = (Fixed::whole(self.config.window_min), Fixed::whole(self.config.window_max));
        self.window = next.clamp(min, max);
    }

    /// w(t).
    pub fn window(&self) -> Fixed {
        self.window
    }

    /// L(t); `None` before the first period in which an IO ended.
    pub fn latency(&self) -> Option<Nanos> {
        self.average.get()
    }

    /// IOs that may be outstanding.
    pub fn limit(&self) -> u32 {
        self.window.floor() as u32
    }

    /// IOs in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// IOs that could go now.
    pub fn room(&self) -> u32 {
        self.limit().saturating_sub(self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const THRESHOLD: Nanos = Nanos::millis(1);

    fn config() -> PardaConfig {
        PardaConfig { window_max: 1000, ..PardaConfig::new(THRESHOLD, Nanos::millis(20)) }
    }

    fn of(window: u32) -> PardaWindow {
        PardaWindow { window: Fixed::whole(window), ..PardaWindow::new(config()) }
    }

    /// Runs hosts with full windows before a device that completes `iops` with any number of IOs: by Little's law all
    /// IOs take Σw/iops. After each period the hosts see that.
    fn settle(windows: &mut [PardaWindow], betas: &[u32], iops: u64) -> Nanos {
        let mut latency = Nanos::ZERO;
        for _ in 0..400 {
            let outstanding: u64 = windows.iter().map(|window| window.window().0).sum();
            latency = Nanos(outstanding * 1_000_000_000 / Fixed::ONE.0 / iops);
            let seen = LatencySample { total: latency, count: 1 };
            for (window, beta) in windows.iter_mut().zip(betas) {
                window.on_period(seen, Fixed::whole(*beta));
            }
        }
        latency
    }

    #[test]
    fn windows_arrive_at_the_closed_form() {
        const IOPS: u64 = 40_000;
        for betas in [&[1, 1, 2, 2][..], &[5], &[1, 9], &[3, 3, 3, 1, 7]] {
            for starts in [[1, 900, 30, 2, 500], [400; 5], [1; 5]] {
                let mut windows: Vec<PardaWindow> = starts.iter().take(betas.len()).map(|w| of(*w)).collect();
                let latency = settle(&mut windows, betas, IOPS);
                let sum: u64 = betas.iter().map(|beta| u64::from(*beta)).sum();
                let expected = THRESHOLD.0 + sum * 1_000_000_000 / IOPS;
                assert!(latency.0.abs_diff(expected) < expected / 1000, "{latency} with {betas:?}");
                for (window, beta) in windows.iter().zip(betas) {
                    let expected = f64::from(*beta) * (1.0 + 40.0 / sum as f64);
                    let found = window.window().as_f64();
                    assert!(
                        (found - expected).abs() < expected / 500.0,
                        "{found}, not {expected}: {betas:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_window_stays_within_its_bounds() {
        let mut window = of(10);
        let sample = |latency| LatencySample { total: latency, count: 1 };
        for _ in 0..100 {
            window.on_period(sample(Nanos(1)), Fixed::ONE);
        }
        assert_eq!(window.window(), Fixed::whole(1000));
        for _ in 0..200 {
            window.on_period(sample(Nanos::secs(1)), Fixed(0));
        }
        assert_eq!(window.limit(), 1);
    }

    #[test]
    fn a_step_is_the_control_equation() {
        let mut window = of(20);
        window.on_period(LatencySample { total: Nanos::millis(8), count: 4 }, Fixed::whole(3));
        // 0.2 × 20 + 0.8 × (1/2 × 20 + 3)
        assert!((window.window().as_f64() - 14.4).abs() < 0.001, "{}", window.window().as_f64());
        assert_eq!((window.latency(), window.limit()), (Some(Nanos::millis(2)), 14));
    }

    #[test]
    fn a_period_without_ios_changes_nothing() {
        let mut window = of(20);
        window.on_period(LatencySample::default(), Fixed::ONE);
        assert_eq!((window.window(), window.latency()), (Fixed::whole(20), None));
    }

    #[test]
    fn a_shrunken_window_lets_the_excess_drain() {
        let mut window = of(3);
        assert!(window.try_submit() && window.try_submit() && window.try_submit() && !window.try_submit());
        for _ in 0..20 {
            window.on_period(LatencySample { total: Nanos::secs(1), count: 1 }, Fixed(0));
        }
        assert_eq!(window.on_completion(Some(Nanos(1))), 0);
        assert_eq!(window.on_completion(Some(Nanos(2))), 0);
        assert_eq!(window.on_completion(None), 1);
        assert_eq!(window.publish(), LatencySample { total: Nanos(3), count: 2 });
        assert_eq!(window.publish(), LatencySample::default());
    }
}
