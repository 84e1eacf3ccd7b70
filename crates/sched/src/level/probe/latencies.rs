//! Variation of latencies.

use super::super::took::EIGHTHS;
use units::Nanos;

/// Sums over latencies that tell how much they vary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latencies {
    ios: u64,
    /// In units of 512 ns.
    sum: u64,
    squares: u64,
}

impl Latencies {
    /// Adds the latency of an IO.
    #[inline]
    pub(super) fn add(&mut self, latency: Nanos) {
        // 8 s at most.
        let latency = (latency.0 >> 9).min(1 << 24);
        (self.ios, self.sum) = (self.ios + 1, self.sum + latency);
        self.squares = self.squares.saturating_add(latency * latency);
    }

    /// The squared coefficient of variation, in [`EIGHTHS`]; `None` if there were none.
    pub(super) fn variation(&self) -> Option<u64> {
        let square = u128::from(self.sum) * u128::from(self.sum);
        let above = (u128::from(self.ios) * u128::from(self.squares)).saturating_sub(square);
        let eighths = (above * u128::from(EIGHTHS) + square / 2) / square.max(1);
        (self.ios > 0).then(|| u64::try_from(eighths).unwrap_or(u64::MAX))
    }
}
