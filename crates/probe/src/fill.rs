//! Sees when a stream of writes becomes slow: the write buffer is exhausted.
//!
//! ```text
//!  rate │▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲                      written until it is slow = where the two lines of
//!       │  start         ╲___________          bytes against time cross
//!       └──────────────────┴─────────► bytes
//!          skipped         knee  recent
//! ```
//!
//! Against an unknown device, the writes of the start are the measure: the buffer is exhausted when the recent writes, as a whole and
//! in each quarter, are much slower. The first writes are skipped, as they only fill the DRAM of the controller. One long pause makes
//! only one quarter slow. When the two rates are known, a threshold between them is the measure, again for each quarter.
//!
//! Holds: `a_knee_is_found_where_the_rate_falls`, `a_single_pause_is_no_exhaustion`.

use crate::task::{FillResult, Slow};
use units::{Instant, MIB, Nanos};

/// The series has one point per this many bytes.
const GRAIN: u64 = MIB;
/// Writes that say nothing: they fit into the controller's DRAM.
const SKIPPED: usize = 24;
/// The least recent writes that are looked at, in grains.
pub(crate) const RECENT_LEAST: usize = 64;
/// Of more writes, this part is recent.
const RECENT_PART: usize = 16;
/// Slow: below this share of the rate at the start, as a whole and in each quarter.
const SLOW: f64 = 0.67;
const SLOW_QUARTER: f64 = 0.8;
/// Points of a plot.
const POINTS: usize = 200;

/// A stream of writes so far.
pub(crate) struct Fill {
    slow: Slow,
    begun: Instant,
    /// Bytes after the last whole grain.
    rest: u64,
    /// When each grain was complete, since the begin.
    at: Vec<u64>,
    exhausted: bool,
}

impl Fill {
    pub(crate) fn new(slow: Slow, begun: Instant) -> Fill {
        Fill { slow, begun, rest: 0, at: vec![0], exhausted: false }
    }

    /// A write completed. Returns whether the buffer is exhausted.
    pub(crate) fn on_written(&mut self, now: Instant, bytes: u32) -> bool {
        if self.exhausted {
            return true;
        }
        self.rest += u64::from(bytes);
        while self.rest >= GRAIN && !self.exhausted {
            self.rest -= GRAIN;
            self.at.push(now.saturating_since(self.begun).get());
            self.exhausted = self.is_slow();
        }
        self.exhausted
    }

    /// Grains at the end that are looked at together.
    fn recent(&self) -> usize {
        RECENT_LEAST.max((self.at.len() - 1) / RECENT_PART)
    }

    /// Bytes per second between two grains.
    fn rate(&self, from: usize, to: usize) -> f64 {
        let span = Nanos(self.at[to] - self.at[from]).as_secs_f64().max(1e-9);
        ((to - from) as u64 * GRAIN) as f64 / span
    }

    fn is_slow(&self) -> bool {
        let last = self.at.len() - 1;
        let recent = self.recent();
        match self.slow {
            Slow::Below { bytes_per_s } => {
                let limit = bytes_per_s as f64;
                let quarter = RECENT_LEAST / 4;
                last >= RECENT_LEAST
                    && (1..=4).all(|n| self.rate(last - n * quarter, last - (n - 1) * quarter) < limit)
            }
            Slow::AgainstStart => {
                if last < SKIPPED + 2 * recent {
                    return false;
                }
                let start = self.rate(SKIPPED, last - recent);
                let quarter = recent / 4;
                let from = last - 4 * quarter;
                let each = (0..4)
                    .all(|n| self.rate(from + n * quarter, from + (n + 1) * quarter) < SLOW_QUARTER * start);
                each && self.rate(from, last) < SLOW * start
            }
        }
    }

    /// The findings.
    pub(crate) fn result(&self) -> FillResult {
        let last = self.at.len() - 1;
        let (bytes, span_ns) = (last as u64 * GRAIN, self.at[last]);
        let mut result = FillResult {
            bytes,
            span_ns,
            exhausted: self.exhausted,
            points: self.points(),
            ..FillResult::default()
        };
        if last <= SKIPPED + RECENT_LEAST {
            result.fast_bytes_per_s = if last == 0 { 0.0 } else { self.rate(0, last) };
            result.slow_bytes_per_s = result.fast_bytes_per_s;
            return result;
        }
        if !self.exhausted {
            result.knee_bytes = bytes;
            result.fast_bytes_per_s = self.rate(SKIPPED, last);
            result.slow_bytes_per_s = result.fast_bytes_per_s;
            return result;
        }
        // The last half of the recent writes is slow; the writes before the recent ones are fast.
        let recent = self.recent();
        let (fast, slow) = (self.rate(SKIPPED, last - recent), self.rate(last - recent / 2, last));
        result.fast_bytes_per_s = fast;
        result.slow_bytes_per_s = slow;
        // Bytes against time: a line through the grain after the skipped ones, and one through the last. They cross at the knee.
        let (x0, y0) = (self.at[SKIPPED] as f64 / 1e9, (SKIPPED as u64 * GRAIN) as f64);
        let (x1, y1) = (span_ns as f64 / 1e9, bytes as f64);
        let at = (y1 - y0 + fast * x0 - slow * x1) / (fast - slow).max(1.0);
        result.knee_bytes = (y0 + fast * (at - x0)).clamp(0.0, bytes as f64) as u64;
        result
    }

    fn points(&self) -> Vec<(u64, f64)> {
        let last = self.at.len() - 1;
        let step = last.div_ceil(POINTS).max(1);
        (step..=last).step_by(step).map(|to| (to as u64 * GRAIN, self.rate(to - step, to))).collect()
    }
}

impl FillResult {
    /// Bytes that were written fast, when both rates are known: `span = fast bytes / fast rate + others / slow rate`.
    pub(crate) fn fast_bytes(&self, fast: f64, slow: f64) -> f64 {
        let all_slow = self.bytes as f64 / slow;
        let saved = all_slow - self.span_ns as f64 / 1e9;
        (saved / (1.0 / slow - 1.0 / fast)).clamp(0.0, self.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes of 1 MiB, each taking as long as `micros` says of its number, until it is exhausted or there are 4000.
    fn write(slow: Slow, micros: impl Fn(u64) -> u64) -> FillResult {
        let mut fill = Fill::new(slow, Instant::ZERO);
        let mut now = Instant::ZERO;
        for n in 0..4000 {
            now += Nanos::micros(micros(n));
            if fill.on_written(now, MIB as u32) {
                break;
            }
        }
        fill.result()
    }

    #[test]
    fn a_knee_is_found_where_the_rate_falls() {
        for knee in [160, 500, 3000] {
            let found = write(Slow::AgainstStart, |n| if n < knee { 1000 } else { 2000 });
            assert!(found.exhausted, "after {knee} MiB");
            let error = found.knee_bytes as f64 / (knee * MIB) as f64 - 1.0;
            assert!(error.abs() < 0.01, "{knee} MiB: found {} MiB", found.knee_bytes / MIB);
            assert!((found.fast_bytes_per_s / found.slow_bytes_per_s - 2.0).abs() < 0.02);
        }
    }

    #[test]
    fn an_even_stream_is_not_exhausted() {
        let found = write(Slow::AgainstStart, |n| 900 + n * 7919 % 200);
        assert!(!found.exhausted);
        assert_eq!(found.bytes, 4000 * MIB);
    }

    #[test]
    fn a_single_pause_is_no_exhaustion() {
        assert!(!write(Slow::AgainstStart, |n| if n == 700 { 500_000 } else { 1000 }).exhausted);
    }

    #[test]
    fn the_first_megabytes_of_the_controllers_memory_do_not_count() {
        assert!(!write(Slow::AgainstStart, |n| if n < 12 { 300 } else { 1000 }).exhausted);
    }

    #[test]
    fn a_known_threshold_ends_a_stream_that_starts_slow() {
        let found = write(Slow::Below { bytes_per_s: 700 * MIB }, |_| 2000);
        assert!(found.exhausted);
        assert_eq!(found.bytes, RECENT_LEAST as u64 * MIB);
        let fast = found.fast_bytes(1000.0 * MIB as f64, 500.0 * MIB as f64);
        assert!(fast < MIB as f64, "{fast} bytes were fast, but none was");
    }

    #[test]
    fn long_pauses_are_no_exhaustion_for_a_known_threshold_either() {
        // As a simulated drive does that erases while it is written: two pauses within 64 MiB.
        let pauses = |n| if [300, 320].contains(&n) { 140_000 } else { 600 };
        let found = write(Slow::Below { bytes_per_s: 900 * MIB }, pauses);
        assert!(!found.exhausted, "after {} MiB", found.bytes / MIB);
    }

    #[test]
    fn known_rates_tell_how_much_was_fast() {
        let found = write(Slow::Below { bytes_per_s: 700 * MIB }, |n| if n < 100 { 1000 } else { 2000 });
        let fast = found.fast_bytes(1000.0 * MIB as f64, 500.0 * MIB as f64) / MIB as f64;
        assert!((99.0..101.0).contains(&fast), "{fast} MiB");
    }
}
