//! Detects that the SSD is no longer the one whose prices were measured.
//!
//! An SSD that becomes fragmented, fills its cache or recovers has other prices from then on. A kind of work has its
//! next turn to be probed after a minute or more; until then shares would be wrong. But the total service, at the
//! prices that are believed, changes at once: it is the part of the time in which the SSD is busy with work that it is
//! believed to do. So that sum is watched, and if it leaves the usual range of this mix for good, the prices are
//! measured again.
//!
//! ```text
//!   served     ▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲              windows of 100 ms
//!   per time                  ▁▁▁▁▁▁▁        three in a row that differ by a seventh: the SSD is another one
//!              └── usual ──┘     ▲
//! ```
//!
//! Service also depends on the limit on device time in flight. So with another limit nothing is usual for a while. But
//! the search for the limit takes no limit that serves much less, and a lower one does not serve more (`depth`). So a
//! difference of a quarter from the usual service before is a change; after a higher limit, a rise by half.
//!
//! Holds: noise of less than a seventh and two slow windows are no change (`what_varies_little_is_no_change`), nor is
//!        the effect of another limit (`what_another_limit_does_is_no_change`); a change is seen after three windows
//!        (`a_change_is_seen_after_three_windows`).
//! Elsewhere: the `Explorer` bounds the cost of measuring again.

/// Periods of a window.
const PERIODS: u32 = 4;
/// Periods after a probe that do not count, because buffers still hold its data.
const SETTLES: u32 = 6;
/// Number of windows before anything is usual.
const LEAST: u32 = 6;
/// A window differs if it is off by one part in this number.
const DIFFERS: u64 = 7;
/// The same against the usual service under another limit, and for a rise above the usual service under a lower one.
const DIFFERS_MUCH: u64 = 4;
const RISES: u64 = 2;
/// Number of windows in a row that must differ for the SSD to have changed.
const LASTS: u32 = 3;
/// A window weighs one part in this number at least.
const MEMORY: u32 = 16;

/// Usual service, and observations since.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    /// The mean of the windows seen until now, and their number.
    usual: u64,
    windows: u32,
    /// Usual service under the limit before; zero if nothing was. And whether that limit was lower.
    before: u64,
    was_lower: bool,
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
    /// Forgets the usual service: other tenants are busy, or prices have changed.
    pub(super) fn forget(&mut self) {
        *self = Watch { skips: SETTLES, ..Watch::default() };
    }

    /// Begins anew under another limit.
    pub(super) fn on_limit(&mut self, is_higher: bool) {
        // A difference that has begun did so under the limit before.
        if self.differing == 0 {
            let (before, was_lower) = match self.windows >= LEAST {
                true => (self.usual, is_higher),
                false => (self.before, self.was_lower | is_higher),
            };
            *self = Watch { before, was_lower, skips: SETTLES, ..Watch::default() };
        }
    }

    /// The SSD did something else.
    pub(super) fn pause(&mut self) {
        (self.served, self.span, self.periods, self.skips) = (0, 0, 0, SETTLES);
    }

    /// Ends a period in which this device time was served. Returns whether the SSD has changed.
    pub(super) fn on_period(&mut self, served: u64, span: u64) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        (self.served, self.span, self.periods) = (self.served + served, self.span + span, self.periods + 1);
        if self.periods < PERIODS {
            return false;
        }
        let rate = rate(self.served, self.span);
        (self.served, self.span, self.periods) = (0, 0, 0);
        let differs = match self.windows >= LEAST {
            true => rate.abs_diff(self.usual) * DIFFERS > self.usual,
            false => {
                let parts = if self.was_lower && rate > self.before { RISES } else { DIFFERS_MUCH };
                self.before > 0 && rate.abs_diff(self.before) * parts > self.before
            }
        };
        if differs {
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

/// Served per time, in parts of 2²⁰.
fn rate(served: u64, span: u64) -> u64 {
    ((u128::from(served) << 20) / u128::from(span.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves this much per thousand in each period; returns after how many periods a change is seen.
    fn seen(watch: &mut Watch, per_mille: impl Fn(u32) -> u64, periods: u32) -> Option<u32> {
        (1..=periods).find(|period| watch.on_period(per_mille(*period) * 25_000, 25_000_000))
    }

    fn watching() -> Watch {
        let mut watch = Watch::default();
        assert_eq!(seen(&mut watch, |_| 1000, 40 * PERIODS), None);
        watch
    }

    #[test]
    fn a_change_is_seen_after_three_windows() {
        for changed in [100, 800, 1200, 5000] {
            assert_eq!(seen(&mut watching(), |_| changed, 1000), Some(LASTS * PERIODS), "{changed} ‰");
        }
    }

    #[test]
    fn what_varies_little_is_no_change() {
        assert_eq!(seen(&mut watching(), |period| 1000 + u64::from(period / 8 % 3) * 100, 1000), None);
        let two_slow_windows = |period| if (period - 1) % (7 * PERIODS) < 2 * PERIODS { 300 } else { 1000 };
        assert_eq!(seen(&mut watching(), two_slow_windows, 1000), None);
        assert_eq!(seen(&mut watching(), |period| 1000 - u64::from(period).min(500), 400), None, "slowly");
    }

    #[test]
    fn what_another_limit_does_is_no_change() {
        let mut watch = watching();
        for (is_higher, per_mille) in [(false, 800), (true, 1000), (true, 1400), (false, 1200), (true, 1700)]
        {
            watch.on_limit(is_higher);
            assert_eq!(seen(&mut watch, |_| per_mille, 40 * PERIODS), None, "{per_mille} ‰");
        }
        for (is_higher, changed) in [(false, 1300), (false, 700), (true, 700), (true, 1550)] {
            let mut watch = watching();
            watch.on_limit(is_higher);
            assert_eq!(seen(&mut watch, |_| changed, 1000), Some(SETTLES + LASTS * PERIODS), "{changed} ‰");
        }
    }

    /// The search goes up and down before anything is usual.
    #[test]
    fn limits_that_follow_one_another_do_not_hide_a_change() {
        for changed in [700, 1550] {
            let mut watch = watching();
            watch.on_limit(true);
            assert_eq!(seen(&mut watch, |_| 1000, 3 * PERIODS), None);
            watch.on_limit(false);
            assert_eq!(seen(&mut watch, |_| changed, 1000), Some(SETTLES + LASTS * PERIODS), "{changed} ‰");
        }
    }

    #[test]
    fn a_limit_that_follows_a_change_does_not_hide_it() {
        let mut watch = watching();
        assert_eq!(seen(&mut watch, |_| 600, 2 * PERIODS), None);
        watch.on_limit(true);
        assert_eq!(seen(&mut watch, |_| 600, 1000), Some(PERIODS));
    }

    #[test]
    fn after_a_change_that_is_usual() {
        let mut watch = watching();
        assert!(seen(&mut watch, |_| 400, 1000).is_some());
        assert_eq!(seen(&mut watch, |_| 400, 1000), None);
        assert!(seen(&mut watch, |_| 1000, 1000).is_some());
    }
}
