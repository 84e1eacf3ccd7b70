//! `latency_target`: finds the largest depth at which a job's IOs stay below a latency.
//!
//! The search is fio's. Each depth is tried for a window; it passes if enough IOs of the window were fast enough.
//!
//! ```text
//!   1 ─pass─► 2 ─pass─► 4 … double until one fails, then bisect between the largest that passed and the smallest that failed
//! ```
//!
//! The depth that was found runs for one more window, and the results are from that window alone. With `latency_run` the job
//! continues instead, and tries one more IO whenever three windows in a row have passed. If even one IO at a time is too slow, the
//! job fails.
//!
//! Holds: the depth that is found passes, and the next one fails (`the_search_finds_the_border`).

use units::{Instant, Nanos};

/// Windows in a row that must pass before one more IO is tried (with `latency_run`).
const STABLE: u32 = 3;

/// The request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyTarget {
    /// The latency.
    pub target: Nanos,
    /// Length of the trial of each depth.
    pub window: Nanos,
    /// Percentage of IOs that must not take longer.
    pub percentile: f64,
    /// The job continues after the search.
    pub keeps_running: bool,
}

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The largest depth that passed.
    Depth(u32),
    /// One IO at a time takes too long.
    Nothing,
    /// The job ended first; the largest depth that had passed, if any.
    Unfinished(Option<u32>),
}

/// The action after a completed IO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Wait,
    /// Use this depth from now on.
    Try(u32),
    /// This depth is the result: measure it from now on.
    Confirm(u32),
    /// The search is over.
    End,
}

/// The search of one job.
#[derive(Debug)]
pub(crate) struct Search {
    asked: LatencyTarget,
    depth: u32,
    depth_max: u32,
    /// The largest depth that passed; 0 is none.
    passed: u32,
    /// The smallest depth that failed.
    failed: Option<u32>,
    is_confirming: bool,
    found: Option<Found>,
    stable: u32,
    window_start: Instant,
    ios: u64,
    slow: u64,
}

impl Search {
    /// Begins with one IO at a time.
    pub(crate) fn new(asked: LatencyTarget, depth_max: u32, start: Instant) -> Search {
        Search {
            asked,
            depth: 1,
            depth_max,
            passed: 0,
            failed: None,
            is_confirming: false,
            found: None,
            stable: 0,
            window_start: start,
            ios: 0,
            slow: 0,
        }
    }

    /// An IO that left at `sent` has completed at `now`.
    pub(crate) fn on_completed(&mut self, now: Instant, sent: Instant, latency: Nanos) -> Verdict {
        // An IO that was sent before the depth changed says nothing about this depth.
        if self.found.is_some() || sent < self.window_start {
            return Verdict::Wait;
        }
        self.ios += 1;
        self.slow += u64::from(latency > self.asked.target);
        if now.saturating_since(self.window_start) < self.asked.window {
            return Verdict::Wait;
        }
        let fast = 100.0 * (self.ios - self.slow) as f64 / self.ios as f64;
        let before = self.depth;
        let verdict = if fast >= self.asked.percentile { self.on_pass() } else { self.on_fail() };
        (self.window_start, self.ios, self.slow) = (now, 0, 0);
        match verdict {
            Verdict::Try(depth) if depth == before => Verdict::Wait,
            other => other,
        }
    }

    fn on_pass(&mut self) -> Verdict {
        self.passed = self.passed.max(self.depth);
        if self.is_confirming {
            self.found = Some(Found::Depth(self.depth));
            return Verdict::End;
        }
        let next = match self.failed {
            Some(failed) => (self.depth + failed) / 2,
            None => (self.depth * 2).min(self.depth_max),
        };
        if next != self.depth {
            return self.attempt(next);
        }
        if !self.asked.keeps_running {
            self.is_confirming = true;
            return Verdict::Confirm(self.depth);
        }
        self.stable += 1;
        if self.stable == STABLE && self.depth < self.depth_max {
            self.failed = None;
            return self.attempt(self.depth + 1);
        }
        Verdict::Wait
    }

    fn on_fail(&mut self) -> Verdict {
        if self.depth == 1 {
            self.found = Some(Found::Nothing);
            return Verdict::End;
        }
        self.failed = Some(self.depth);
        self.is_confirming = false;
        // A depth that passed before and fails now is too deep now.
        self.passed = self.passed.min(self.depth - 1);
        self.attempt((self.passed + self.depth) / 2)
    }

    fn attempt(&mut self, depth: u32) -> Verdict {
        (self.depth, self.stable) = (depth.max(1), 0);
        Verdict::Try(self.depth)
    }

    /// The current depth.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// The result.
    pub(crate) fn found(&self) -> Found {
        self.found.unwrap_or_else(|| match self.asked.keeps_running {
            true if self.passed > 0 => Found::Depth(self.passed),
            _ => Found::Unfinished((self.passed > 0).then_some(self.passed)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: LatencyTarget = LatencyTarget {
        target: Nanos::micros(100),
        window: Nanos::millis(1),
        percentile: 90.0,
        keeps_running: false,
    };

    /// Runs windows of ten IOs on a device that is fast enough up to `border` at once. Returns the verdicts.
    fn search(search: &mut Search, border: u32, windows: u64) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for window in 0..windows {
            let latency = if search.depth() <= border { Nanos::micros(90) } else { Nanos::micros(110) };
            for io in 1..=10 {
                let now = Instant(window * 1_000_000 + io * 100_000);
                verdicts.push(search.on_completed(now, search.window_start, latency));
            }
            if verdicts.last() == Some(&Verdict::End) {
                break;
            }
        }
        verdicts
    }

    #[test]
    fn the_search_finds_the_border() {
        for depth_max in [1, 5, 64, 100] {
            for border in 1..=depth_max {
                let mut state = Search::new(ASKED, depth_max, Instant::ZERO);
                let verdicts = search(&mut state, border, 100);
                assert_eq!(verdicts.last(), Some(&Verdict::End), "{depth_max}, {border}");
                assert!(verdicts.contains(&Verdict::Confirm(border)), "{depth_max}, {border}: {verdicts:?}");
                assert_eq!(state.found(), Found::Depth(border));
            }
        }
    }

    #[test]
    fn one_at_a_time_may_be_too_many() {
        let mut state = Search::new(ASKED, 64, Instant::ZERO);
        assert_eq!(search(&mut state, 0, 5).last(), Some(&Verdict::End));
        assert_eq!(state.found(), Found::Nothing);
    }

    #[test]
    fn few_slow_ios_do_no_harm_and_more_do() {
        for (slow, found) in [(1, Verdict::Try(2)), (2, Verdict::End)] {
            let mut state = Search::new(ASKED, 64, Instant::ZERO);
            let mut last = Verdict::Wait;
            for io in 1..=10 {
                let latency = if io <= slow { Nanos::millis(9) } else { Nanos::micros(1) };
                last = state.on_completed(Instant(io * 100_000), Instant::ZERO, latency);
            }
            assert_eq!(last, found, "{slow} of 10 were slow, 90 % have to be fast");
        }
    }

    #[test]
    fn ios_of_the_depth_before_count_for_nothing() {
        let mut state = Search::new(ASKED, 64, Instant::ZERO);
        search(&mut state, 64, 1);
        let (depth, late) = (state.depth(), Instant(5_000_000));
        assert_eq!(state.on_completed(late, Instant(0), Nanos::secs(1)), Verdict::Wait);
        assert_eq!(state.depth(), depth);
    }

    #[test]
    fn a_job_that_goes_on_tries_deeper_when_it_is_stable() {
        let asked = LatencyTarget { keeps_running: true, ..ASKED };
        let mut state = Search::new(asked, 64, Instant::ZERO);
        search(&mut state, 6, 30);
        assert_eq!(state.found(), Found::Depth(6));
        let mut deepest = 0;
        for window in 30..60u64 {
            for io in 1..=10 {
                let now = Instant(window * 1_000_000 + io * 100_000);
                state.on_completed(now, state.window_start, Nanos::micros(10));
            }
            deepest = deepest.max(state.depth());
        }
        assert!(deepest > 6, "the device has become faster, and the job is still at {deepest}");
    }
}
