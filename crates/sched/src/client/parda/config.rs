//! PARDA's constants.
//!
//! Paper: PARDA (Gulati, Ahmad, Waldspurger, FAST 2009) §3. The paper's values are for disk arrays; an SSD needs a threshold
//! and a period that are as much shorter as it is faster.

use units::Nanos;

/// A number of IOs, or a share, in steps of 1/65 536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fixed(pub u64);

impl Fixed {
    /// The number that means 1.
    pub const ONE: Fixed = Fixed(1 << 16);

    /// `n`.
    pub const fn whole(n: u32) -> Fixed {
        Fixed((n as u64) << 16)
    }

    /// `numerator / denominator`, rounded down.
    ///
    /// # Panics
    /// If the denominator is zero.
    pub const fn ratio(numerator: u32, denominator: u32) -> Fixed {
        Fixed(((numerator as u64) << 16) / denominator as u64)
    }

    /// The whole part.
    pub const fn floor(self) -> u64 {
        self.0 >> 16
    }

    /// The value as a number for plots; never for decisions.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Fixed::ONE.0 as f64
    }
}

/// The constants of one host's window. All hosts of an SSD have the same, except β, which depends on their VMs' shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PardaConfig {
    /// L: the latency that is aimed at, seen from the host. Paper: 25 or 30 ms for a disk array.
    pub latency_threshold: Nanos,
    /// γ, how fast the window follows: above 0, at most 1. Paper: 0.8.
    pub smoothing: Fixed,
    /// α, the weight of a new period's latency in the average: above 0, at most 1.
    pub latency_weight: Fixed,
    /// β of one unit of share: a host's β is this × the shares of its VMs. The distance above L at which the latency settles grows with the
    /// sum of all β.
    pub beta_per_share: Fixed,
    /// The smallest window; at least 1, or a host could never notice that the load has ended.
    pub window_min: u32,
    /// The largest window. Paper: 64, or the depth of the host's queue.
    pub window_max: u32,
    /// Interval at which the window is reconsidered. Paper: 2 s.
    pub period: Nanos,
}

impl PardaConfig {
    /// The paper's constants with this threshold and this period, both to be calibrated on the SSD. β of one share is 1 and α
    /// is 1/2 (ours: the paper gives neither a value that carries over).
    pub const fn new(latency_threshold: Nanos, period: Nanos) -> PardaConfig {
        PardaConfig {
            latency_threshold,
            smoothing: Fixed::ratio(4, 5),
            latency_weight: Fixed::ratio(1, 2),
            beta_per_share: Fixed::ONE,
            window_min: 1,
            window_max: 64,
            period,
        }
    }

    /// A fault of these constants, in words, if there is one.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_part = |part: Fixed| part > Fixed(0) && part <= Fixed::ONE;
        let rules = [
            (self.latency_threshold > Nanos::ZERO, "the latency threshold must be above zero"),
            (self.latency_threshold < Nanos::secs(3600), "the latency threshold must be below an hour"),
            (is_part(self.smoothing), "the smoothing γ must be above 0 and at most 1"),
            (is_part(self.latency_weight), "the weight α of a new latency must be above 0 and at most 1"),
            (self.beta_per_share > Fixed(0), "β of a share must be above zero"),
            (self.beta_per_share <= Fixed::whole(1 << 16), "β of a share must be at most 65536"),
            (self.window_min > 0, "the smallest window must be at least 1"),
            (self.window_min <= self.window_max, "the smallest window must not exceed the largest"),
            (self.period > Nanos::ZERO, "the period must not be empty"),
        ];
        rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, wrong)| Err(wrong))
    }
}
