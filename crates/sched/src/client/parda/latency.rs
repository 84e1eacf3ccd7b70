//! The SSD's latency as one host has seen it, and as all hosts together have.
//!
//! Each host publishes how many of its IOs ended in a period and how long they took; the sum over hosts is what all of them
//! steer by. Hosts that only looked at their own IOs would drift apart as soon as they see different latencies, and the one that
//! happens to see less would take the other's part.
//!
//! Paper: PARDA §3.2. There, the hosts share a file on the volume; what carries the sample here is the caller's business.

use super::Fixed;
use units::Nanos;

/// IOs that ended in a period, and their latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySample {
    /// Sum of the latencies.
    pub total: Nanos,
    /// Number of IOs.
    pub count: u64,
}

impl LatencySample {
    /// Adds the latency of an IO that has ended.
    pub fn add(&mut self, latency: Nanos) {
        self.total = Nanos(self.total.0.saturating_add(latency.0));
        self.count += 1;
    }

    /// Observations of two hosts together.
    pub fn with(self, other: LatencySample) -> LatencySample {
        let total = Nanos(self.total.0.saturating_add(other.total.0));
        LatencySample { total, count: self.count + other.count }
    }

    /// The mean, rounded down; `None` if no IO ended.
    pub fn mean(&self) -> Option<Nanos> {
        self.total.0.checked_div(self.count).map(Nanos)
    }
}

/// L(t): the moving average over periods.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average {
    latency: Option<Nanos>,
}

impl Average {
    /// A period's mean latency l(t). Returns `L(t) = α·l(t) + (1 − α)·L(t−1)`.
    pub(super) fn add(&mut self, latency: Nanos, weight: Fixed) -> Nanos {
        let before = u128::from(self.latency.unwrap_or(latency).0);
        let (new, old) = (u128::from(weight.0), u128::from(Fixed::ONE.0 - weight.0));
        let sum = new * u128::from(latency.0) + old * before;
        let average = Nanos((sum / u128::from(Fixed::ONE.0)) as u64);
        self.latency = Some(average);
        average
    }

    pub(super) fn get(&self) -> Option<Nanos> {
        self.latency
    }
}
