//! Whether the SSD is still the one whose prices were measured.
//!
//! An SSD that becomes fragmented, fills its cache or recovers has other prices from then on. A kind of work has its next turn to be probed
//! after a minute or more; until then shares would be wrong. But the sum of what is served, at the prices that are believed, changes at once: it is the
//! part of the time in which the SSD is busy with work that it is believed to do. So that sum is watched, and if it leaves
//! what is usual for this mix, for good, the prices are measured again.
//!
//! ```text
//!   served     ▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲              windows of 200 ms
//!   per time                  ▁▁▁▁▁▁▁        two in a row that differ by a fifth: the SSD is another one
//!              └── usual ──┘     ▲
//! ```
//!
//! Holds: noise of less than a fifth and a single slow window are no change (`what_varies_little_is_no_change`), and a change is seen after two
//!        windows (`a_change_is_seen_after_two_windows`).
//! Elsewhere: what measuring again may cost is bounded by the `Explorer`.

/// Periods of a window.
const PERIODS: u32 = 8;
/// Periods after a probe that do not count: what buffers still hold of it.
const SETTLES: u32 = 6;
/// Windows before anything is usual.
const LEAST: u32 = 2;
/// A window differs if it is off by one part in this number.
const DIFFERS: u64 = 5;
/// The SSD has changed if this many windows in a row differ.
const LASTS: u32 = 2;
/// A window weighs one part in this number at least.
const MEMORY: u32 = 8;

/// What is usual, and what was seen since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// The mean of the windows so far, and how many they were.
    usual: u64,
    windows: u32,
    /// The window that has begun.
    served: u64,
    span: u64,
    periods: u32,
    /// Periods that are to be left out.
    skips: u32,
    /// Windows in a row that differ.
    differing: u32,
}

impl Watch {
    /// Nothing is usual any more: other tenants, or other prices.
    pub(super) fn forget(&mut self) {
        *self = Watch { skips: SETTLES, ..Watch::default() };
    }

    /// The SSD did something else.
    pub(super) fn pause(&mut self) {
        (self.served, self.span, self.periods, self.skips) = (0, 0, 0, SETTLES);
    }

    /// A period has ended in which this device time was served. Answers whether the SSD has changed.
    pub(super) fn on_period(&mut self, served: u64, span: u64) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        (self.served, self.span, self.periods) = (self.served + served, self.span + span, self.periods + 1);
        if self.periods < PERIODS {
            return false;
        }
        let rate = ((u128::from(self.served) << 20) / u128::from(self.span.max(1))) as u64;
        (self.served, self.span, self.periods) = (0, 0, 0);
        if self.windows >= LEAST && rate.abs_diff(self.usual) * DIFFERS > self.usual {
            self.differing += 1;
            if self.differing == LASTS {
                self.forget();
                return true;
            }
            return false;
        }
        self.differing = 0;
        self.windows = (self.windows + 1).min(MEMORY);
        let weight = u64::from(self.windows);
        self.usual = (self.usual * (weight - 1) + rate) / weight;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so much per thousand in each period; answers after how many periods a change is seen.
    fn seen(watch: &mut Watch, per_mille: impl Fn(u32) -> u64, periods: u32) -> Option<u32> {
        (1..=periods).find(|period| watch.on_period(per_mille(*period) * 25_000, 25_000_000))
    }

    fn watching() -> Watch {
        let mut watch = Watch::default();
        assert_eq!(seen(&mut watch, |_| 1000, 10 * PERIODS), None);
        watch
    }

    #[test]
    fn a_change_is_seen_after_two_windows() {
        for changed in [100, 700, 1300, 5000] {
            assert_eq!(seen(&mut watching(), |_| changed, 1000), Some(LASTS * PERIODS), "{changed} ‰");
        }
    }

    #[test]
    fn what_varies_little_is_no_change() {
        assert_eq!(seen(&mut watching(), |period| 1000 + u64::from(period / 8 % 3) * 150, 1000), None);
        let one_slow_window = |period| if period % (5 * PERIODS) < PERIODS { 300 } else { 1000 };
        assert_eq!(seen(&mut watching(), one_slow_window, 1000), None);
        assert_eq!(seen(&mut watching(), |period| 1000 - u64::from(period).min(500), 400), None, "slowly");
    }

    #[test]
    fn after_a_change_that_is_usual() {
        let mut watch = watching();
        assert!(seen(&mut watch, |_| 400, 1000).is_some());
        assert_eq!(seen(&mut watch, |_| 400, 1000), None);
        assert!(seen(&mut watch, |_| 1000, 1000).is_some());
    }
}
