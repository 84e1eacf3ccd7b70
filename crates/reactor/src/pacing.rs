//! Whether to busy-poll for a moment before going to sleep.
//!
//! A sleep and a wake-up cost several microseconds of processor time, and more of latency. While events come faster than that,
//! busy polling is quicker and costs no more; when they come rarely it only wastes processor time. Two things decide:
//!
//! - The last gap between events predicts the next one: only if it was within the budget, the reactor polls, for at most the
//!   budget. An idle reactor therefore polls at most once and then uses no processor time.
//! - Polling that finds nothing makes the next polling rarer: after the first time the reactor sleeps once without polling, then
//!   twice, four times and so on. So polling that cannot help (the other side may need this very processor to answer)
//!   soon costs nothing; and where it helps, one success brings it back.
//!
//! Much data on its way is slept for if it comes more slowly than it is taken (`pace`). The caller announces it
//! (`rest`); other events bring polling back for as long as the budget.
//!
//! A polite reactor lets other threads run while it polls. If one of them keeps the processor for longer than the
//! budget, the processor has other work, and polling delays the very events that it waits for: the scheduler counts
//! each offer to let others run as a full turn used up, whereas a thread that was asleep continues at once. So the
//! reactor sleeps for a while, twice as long each time that happens again.
//!
//! A deadline is known, so nothing has to be guessed: the reactor polls until a near deadline; before a far one it wakes up
//! early and polls for the rest. A thread on a virtual machine wakes up 20 to 40 µs late; this way a deadline is met. It costs at most
//! the budget in processor time for each deadline.
//!
//! Holds: `an_idle_reactor_polls_once_and_then_sleeps`, `polling_in_vain_becomes_rare_and_one_success_brings_it_back`,
//!        `a_near_deadline_is_polled_for_and_a_far_one_slept_for`, `a_reactor_that_may_not_poll_never_does`,
//!        `slow_data_is_slept_for_unless_there_were_other_news`, `a_crowded_processor_is_not_polled_on`.

use crate::pace::Pace;
use std::mem;
use units::{Instant, Nanos};

/// log2 of the most sleeps in a row after polling without success.
const RESTS_LOG2_MAX: u32 = 10;
/// Time without polling where the processor has other work; twice as long each time, up to the longest.
const CROWDED: Nanos = Nanos::millis(20);
const CROWDED_LOG2_MAX: u32 = 6;
/// Time without other work after which the next time counts as the first.
const CALM: Nanos = Nanos::secs(1);

/// The decision and its memory.
#[derive(Debug)]
pub(crate) struct Pacing {
    budget: Nanos,
    last_gap: Nanos,
    /// Polls without success since the last success.
    failures: u32,
    /// Waits to sleep through before polling again.
    rests: u32,
    /// Until when the processor is taken to have other work, and how often in a row it had.
    crowded_until: Instant,
    crowds: u32,
    /// Whether the awaited data may wait for a wake-up.
    may_sleep: bool,
    pace: Pace,
    /// Whether an event was reported since the last wait that more will follow soon; and until when that counts.
    is_lively: bool,
    lively_until: Instant,
}

impl Pacing {
    pub(crate) fn new(budget: Nanos) -> Pacing {
        Pacing {
            budget,
            last_gap: Nanos(u64::MAX),
            failures: 0,
            rests: 0,
            crowded_until: Instant::ZERO,
            crowds: 0,
            may_sleep: false,
            pace: Pace::default(),
            is_lively: false,
            lively_until: Instant::ZERO,
        }
    }

    /// Whether polling is ever allowed; if not, no clock has to be read.
    pub(crate) fn is_on(&self) -> bool {
        self.budget > Nanos::ZERO
    }

    /// Whether `deadline` is so near that a sleep would end about when it has passed.
    pub(crate) fn is_near(&self, now: Instant, deadline: Instant) -> bool {
        let sleep_min = self.budget;
        self.is_on() && now >= self.crowded_until && deadline <= now + self.budget + sleep_min
    }

    /// When to wake up in order to meet `deadline`, if nothing else happens.
    pub(crate) fn sleep_until(&self, deadline: Instant) -> Instant {
        Instant(deadline.0.saturating_sub(self.budget.get()))
    }

    /// When to stop polling and sleep; `None` to sleep at once.
    pub(crate) fn spin_until(&mut self, now: Instant) -> Option<Instant> {
        if mem::take(&mut self.is_lively) {
            self.lively_until = now + self.budget;
        }
        self.pace.on_wait(now, self.may_sleep);
        let is_slow = self.may_sleep && self.pace.is_slow(now);
        let is_crowded = now < self.crowded_until;
        if !self.is_on() || is_crowded || self.last_gap > self.budget || (is_slow && now >= self.lively_until)
        {
            return None;
        }
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        Some(if is_slow { self.lively_until } else { now + self.budget })
    }

    /// Sets whether the awaited data may wait for a wake-up: then it is slept for if it comes slowly, unless a lively
    /// event was reported lately.
    #[inline]
    pub(crate) fn rest(&mut self, may_sleep: bool) {
        self.may_sleep = may_sleep;
    }

    /// Notes an event that more will follow soon.
    #[inline]
    pub(crate) fn on_lively(&mut self) {
        self.is_lively = true;
    }

    /// Whether another thread, which was let run first, kept the processor so long (`gone`) that the processor has
    /// other work.
    pub(crate) fn is_crowded(&mut self, now: Instant, gone: Nanos) -> bool {
        if gone <= self.budget {
            return false;
        }
        if now.saturating_since(self.crowded_until) >= CALM {
            self.crowds = 0;
        }
        self.crowded_until = now + Nanos(CROWDED.0 << self.crowds.min(CROWDED_LOG2_MAX));
        self.crowds += 1;
        true
    }

    /// Learns whether polling for the whole budget, or until an event ended it, found one.
    pub(crate) fn on_spin(&mut self, found: bool) {
        if found {
            self.failures = 0;
        } else {
            self.rests = 1 << self.failures.min(RESTS_LOG2_MAX);
            self.failures += 1;
        }
    }

    /// Learns when a wait began, and how long it was. A near deadline that passes says nothing about the gap between events.
    pub(crate) fn on_gap(&mut self, start: Instant, gap: Nanos) {
        self.last_gap = gap;
        if self.may_sleep {
            self.pace.on_wait_end(start + gap, gap);
        }
    }

    /// Notes that there was nothing to wait for.
    pub(crate) fn on_no_gap(&mut self) {
        self.last_gap = Nanos::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000_000);

    #[test]
    fn an_idle_reactor_polls_once_and_then_sleeps() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        assert_eq!(pacing.spin_until(NOW), None, "nothing is known yet");
        pacing.on_gap(NOW, Nanos::micros(5));
        assert_eq!(pacing.spin_until(NOW), Some(NOW + Nanos::micros(20)));
        pacing.on_gap(NOW, Nanos::millis(3));
        assert_eq!(pacing.spin_until(NOW), None);
    }

    #[test]
    fn slow_data_is_slept_for_unless_there_were_other_news() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        pacing.rest(true);
        assert_eq!(pacing.spin_until(NOW), None, "nothing is known of a gap yet");
        (0..200).for_each(|_| pacing.on_gap(NOW, Nanos::micros(15)));
        assert_eq!(
            [pacing.spin_until(NOW), pacing.spin_until(NOW)],
            [None, None],
            "it holds until it is taken back"
        );
        pacing.on_lively();
        let later = NOW + Nanos::micros(19);
        assert_eq!(pacing.spin_until(NOW), Some(NOW + Nanos::micros(20)));
        assert_eq!(pacing.spin_until(later), Some(NOW + Nanos::micros(20)), "no longer for more data");
        assert_eq!(pacing.spin_until(NOW + Nanos::micros(20)), None);
        pacing.rest(false);
        assert_eq!(pacing.spin_until(later), Some(later + Nanos::micros(20)));
    }

    #[test]
    fn a_crowded_processor_is_not_polled_on() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        pacing.on_gap(NOW, Nanos::micros(5));
        assert!(!pacing.is_crowded(NOW, Nanos::micros(20)) && pacing.spin_until(NOW).is_some());
        let mut now = NOW;
        for rest in [20, 40, 80, 160, 320, 640, 1280, 1280] {
            assert!(pacing.is_crowded(now, Nanos::micros(21)));
            let almost = now + Nanos(Nanos::millis(rest).0 - 1);
            assert!(pacing.spin_until(almost).is_none() && !pacing.is_near(almost, almost));
            now = almost + Nanos(1);
            assert!(pacing.spin_until(now).is_some(), "after {rest} ms");
        }
        now += CALM;
        assert!(pacing.is_crowded(now, Nanos::millis(3)));
        assert!(pacing.spin_until(now + CROWDED).is_some(), "it was calm meanwhile");
    }

    #[test]
    fn a_near_deadline_is_polled_for_and_a_far_one_slept_for() {
        let pacing = Pacing::new(Nanos::micros(20));
        assert!(pacing.is_near(NOW, NOW) && pacing.is_near(NOW, NOW + Nanos::micros(40)));
        assert!(!pacing.is_near(NOW, NOW + Nanos::micros(41)));
        assert_eq!(pacing.sleep_until(NOW + Nanos::millis(1)), NOW + Nanos::micros(980));
        assert_eq!(pacing.sleep_until(Instant(3)), Instant::ZERO);
    }

    #[test]
    fn a_reactor_that_may_not_poll_never_does() {
        let mut off = Pacing::new(Nanos::ZERO);
        for gap in [Nanos::ZERO, Nanos::micros(1), Nanos::secs(1)] {
            off.on_gap(NOW, gap);
            assert!(!off.is_on() && off.spin_until(NOW).is_none() && !off.is_near(NOW, NOW));
        }
        assert_eq!(off.sleep_until(NOW), NOW, "it does not wake up early either");
    }

    #[test]
    fn polling_in_vain_becomes_rare_and_one_success_brings_it_back() {
        let mut pacing = Pacing::new(Nanos::micros(20));
        pacing.on_gap(NOW, Nanos::micros(5));
        let mut rests_before_spin = |found| {
            let rests = (0..).find(|_| pacing.spin_until(NOW).is_some());
            pacing.on_spin(found);
            rests.expect("every rest ends")
        };
        let rests: Vec<i32> = (0..14).map(|_| rests_before_spin(false)).collect();
        assert_eq!(rests, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
        assert_eq!(rests_before_spin(true), 1024);
        assert_eq!([true, false, true].map(&mut rests_before_spin), [0, 0, 1]);
    }
}
