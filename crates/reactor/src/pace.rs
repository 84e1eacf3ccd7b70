//! Detects that data on its way comes more slowly than it is taken.
//!
//! Data that comes as fast as it is taken is better polled for: it is taken sooner, and the other side is acknowledged
//! sooner (a sender with late acknowledgements may begin to pace itself, as TCP's BBR does, and then stays slow). Data
//! that comes more slowly is better slept for: a wake-up delays none of it, and takes more of it at once. So waiting
//! and work are compared, and polling for slow data is tried again now and then.
//!
//! Holds: `what_comes_slowly_is_slow_until_it_is_tried_again`, `what_comes_quickly_is_not_slow`.

use units::{Instant, Nanos};

/// Span over which waiting and work are compared; nothing is decided before half of it is known.
const COMPARED: Nanos = Nanos::millis(2);
/// Interval after which a slow source is tried again.
const TRIED_AGAIN: Nanos = Nanos::millis(100);

/// Waiting and work, lately.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    waited: Nanos,
    worked: Nanos,
    /// When the last wait for data ended.
    woken: Option<Instant>,
    slow_since: Option<Instant>,
}

impl Pace {
    /// Notes the begin of a wait, for data or for other things.
    pub(crate) fn on_wait(&mut self, now: Instant, is_for_data: bool) {
        if let Some(woken) = self.woken.take().filter(|_| is_for_data) {
            self.worked += now.saturating_since(woken);
        }
    }

    /// Notes the end of a wait for data.
    pub(crate) fn on_wait_end(&mut self, now: Instant, waited: Nanos) {
        self.woken = Some(now);
        self.waited += waited;
        if self.waited + self.worked > COMPARED {
            (self.waited, self.worked) = (Nanos(self.waited.0 / 2), Nanos(self.worked.0 / 2));
        }
    }

    /// Whether waiting exceeded work lately; false until enough of both is known.
    pub(crate) fn is_slow(&mut self, now: Instant) -> bool {
        if self.waited + self.worked < Nanos(COMPARED.0 / 2) || self.waited <= self.worked {
            self.slow_since = None;
            return false;
        }
        let since = *self.slow_since.get_or_insert(now);
        if now.saturating_since(since) < TRIED_AGAIN {
            return true;
        }
        *self = Pace::default();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 100 waits of length `waits`, each after work of length `works`: whether data counts as slow at each.
    fn slow(pace: &mut Pace, now: &mut Instant, waits: Nanos, works: Nanos) -> Vec<bool> {
        let mut wait = || {
            pace.on_wait(*now, true);
            let is_slow = pace.is_slow(*now);
            *now += waits;
            pace.on_wait_end(*now, waits);
            *now += works;
            is_slow
        };
        (0..100).map(|_| wait()).collect()
    }

    #[test]
    fn what_comes_slowly_is_slow_until_it_is_tried_again() {
        let (mut pace, mut now) = (Pace::default(), Instant(1_000));
        let [long, short] = [Nanos::micros(30), Nanos::micros(10)];
        let first = slow(&mut pace, &mut now, long, short);
        assert_eq!(first.iter().position(|is_slow| *is_slow), Some(25), "after a millisecond");
        assert!(first[25..].iter().all(|is_slow| *is_slow));
        now += TRIED_AGAIN;
        let again = slow(&mut pace, &mut now, short, long);
        assert!(again.iter().all(|is_slow| !is_slow), "it is fast now");
    }

    #[test]
    fn what_comes_quickly_is_not_slow() {
        let (mut pace, mut now) = (Pace::default(), Instant(1_000));
        for (waits, works) in [(0, 20), (20, 21)] {
            let is_slow = slow(&mut pace, &mut now, Nanos::micros(waits), Nanos::micros(works));
            assert!(is_slow.iter().all(|is_slow| !is_slow));
        }
        // Waiting between data is not work.
        pace.on_wait(now, false);
        now += Nanos::secs(1);
        let is_slow = slow(&mut pace, &mut now, Nanos::micros(20), Nanos::micros(10));
        assert!(is_slow[99], "nor has it hidden that it is slow");
    }
}
