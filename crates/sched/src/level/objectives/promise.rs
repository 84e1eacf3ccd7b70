//! One tenant's objective: the IOs for which it holds, how late these are, and the conclusion from that.
//!
//! ```text
//!              ┌─ enough IOs, few of them late ──► Kept ◄──► Missed (too many were late in the last seconds)
//!   Unknown ───┤                                     │         │
//!      ▲       └─ late, and others have the least ◄──┴─────────┘
//!      └────────── after a pause ──────────────── Lost
//! ```
//!
//! The objective holds while the tenant asks for no more than it said. From the first IO beyond that on none counts, until the tenant's
//! queue has drained or it has asked for less for [`CALM`].
//!
//! The bound of lateness for decisions is a little less than the bound ([`HELD_TO`]), so that a decision comes before the promise is broken.
//!
//! Holds: an IO counts if the tenant keeps to its rate, and is late by its whole stay (`an_io_is_late_by_its_stay_in_switch_and_ssd`);
//!        beyond the rate nothing counts (`beyond_its_rate_nothing_counts`).

use crate::drr::ios;
use crate::drr::meter::Meter;
use crate::policy::SECOND;
use crate::{Io, IoId, IoKind, Objective, ObjectiveState, Slo};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use units::{Instant, Nanos};

/// A tenant that asks at random for less than its rate on average asks for more now and then: for this long, or for this many IOs.
const BURST: Nanos = Nanos::millis(50);
const BURST_IOS: u64 = 32;
/// Time without asking for too much after which a tenant counts as keeping to its rate again.
const CALM: Nanos = Nanos::millis(100);
/// IOs that take longer than this many eighths of the bound are late for decisions.
const HELD_TO: u64 = 7;
/// Time without IOs after which a tenant counts as asking for nothing.
const IDLE: Nanos = Nanos::secs(1);
/// The first and the longest pause after which a lost objective is tried again; it doubles each time.
const RETRY: [Nanos; 2] = [Nanos::secs(5), Nanos::secs(80)];
/// Number of latencies that are kept for the percentile that is shown.
const RECENT: usize = 1000;
/// Of the last seconds, one after the other.
const SECONDS: usize = 5;
/// Number of IOs (times the percentile's) after which the older half of the tally is forgotten.
const REMEMBERED: u64 = 20;

/// The number of IOs, and of late ones among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ios: u64,
    pub(super) late: u64,
}

/// Conclusion from the tally of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Too few IOs, or neither.
    Nothing,
    /// Far fewer were late than may be.
    Good,
    /// More were late than may be.
    Bad,
    /// Several times more.
    VeryBad,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) objective: Objective,
    pub(super) state: ObjectiveState,
    /// On the scheduler's clock.
    bound: Nanos,
    held_to: Nanos,
    /// Meter of the tenant's promised IOs.
    rate: Meter,
    /// When the tenant last exceeded its rate.
    beyond: Option<Instant>,
    /// Its outstanding IOs, whether they count or not.
    outstanding: u64,
    /// The IOs that count, and when each came.
    arrived: BTreeMap<IoId, Instant>,
    pub(super) last_arrival: Option<Instant>,
    /// The tally of IOs that arrived after `since`, for the next decision.
    since: Instant,
    seen: Tally,
    /// Tallies of the last seconds, by the bound itself.
    seconds: VecDeque<Tally>,
    second_begun: Instant,
    recent: VecDeque<Nanos>,
    /// When a lost objective is tried again, and the length of the pause before.
    pub(super) retry: Instant,
    pub(super) pause: Nanos,
    /// Whether it was lost and is being tried again.
    pub(super) is_retried: bool,
}

/// The burst of a rate of this many IOs per second.
fn burst(iops: u64) -> Nanos {
    BURST.max(Nanos(SECOND.0 / iops.max(1) * BURST_IOS))
}

/// The meter of the IOs that the tenant is promised.
pub(in crate::level) fn meter(objective: &Objective) -> Meter {
    let iops = objective.slo.iops;
    Meter::new(iops, objective.second, burst(iops))
}

impl Promise {
    pub(super) fn new(objective: Objective, now: Instant) -> Promise {
        let bound = objective.latency();
        Promise {
            objective,
            state: ObjectiveState::Unknown,
            bound,
            held_to: Nanos(bound.0 / 8 * HELD_TO),
            rate: meter(&objective),
            beyond: None,
            outstanding: 0,
            arrived: BTreeMap::new(),
            last_arrival: None,
            since: now,
            seen: Tally::default(),
            seconds: VecDeque::new(),
            second_begun: now,
            recent: VecDeque::new(),
            retry: now,
            pause: Nanos::ZERO,
            is_retried: false,
        }
    }

    /// On the scheduler's clock.
    pub(super) fn bound(&self) -> Nanos {
        self.bound
    }

    fn one_in(&self) -> u64 {
        self.objective.slo.percentile.one_in()
    }

    /// Whether the objective is about IOs of this kind.
    fn is_about(&self, kind: IoKind) -> bool {
        match self.objective.slo {
            Slo { read_percent: 0, .. } => kind == IoKind::Write,
            _ => kind == IoKind::Read,
        }
    }

    /// Whether the tenant asks for anything.
    pub(super) fn is_asking(&self, now: Instant) -> bool {
        self.outstanding > 0 || self.last_arrival.is_some_and(|at| now.saturating_since(at) < IDLE)
    }

    /// Whether others are held back for its sake.
    pub(super) fn squeezes(&self, now: Instant) -> bool {
        (self.state != ObjectiveState::Lost || self.is_retried) && self.is_asking(now)
    }

    pub(super) fn on_arrival(&mut self, now: Instant, io: &Io) {
        self.last_arrival = Some(now);
        let calm = |at: Instant| self.outstanding == 0 || now.saturating_since(at) >= CALM;
        if self.beyond.is_some_and(calm) {
            self.beyond = None;
        }
        self.outstanding += 1;
        if self.rate.due() > now {
            self.beyond = Some(now);
            return;
        }
        self.rate.charge(now, ios(io.length));
        if self.beyond.is_none() && self.is_about(io.kind) {
            self.arrived.insert(io.id, now);
        }
    }

    /// Notes the end of an IO, by the SSD (`counts`) or otherwise, or its withdrawal.
    pub(super) fn on_end(&mut self, now: Instant, id: IoId, counts: bool) {
        self.outstanding = self.outstanding.saturating_sub(1);
        let Some(came) = self.arrived.remove(&id) else { return };
        if !counts {
            return;
        }
        let stay = now.saturating_since(came);
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(stay);
        self.count_second(now, stay);
        if came >= self.since {
            self.seen.ios += 1;
            self.seen.late += u64::from(stay > self.held_to);
            if self.seen.ios >= REMEMBERED * self.one_in() {
                self.seen = Tally { ios: self.seen.ios / 2, late: self.seen.late / 2 };
            }
        }
    }

    fn count_second(&mut self, now: Instant, stay: Nanos) {
        if self.seconds.is_empty() || now.saturating_since(self.second_begun) >= SECOND {
            self.second_begun = now;
            self.seconds.push_back(Tally::default());
            if self.seconds.len() > SECONDS {
                self.seconds.pop_front();
            }
        }
        let tally = self.seconds.back_mut().expect("one was just there");
        tally.ios += 1;
        tally.late += u64::from(stay > self.bound);
    }

    /// The tally of the last seconds.
    pub(super) fn lately(&self) -> Tally {
        let sum = |sum: Tally, of: &Tally| Tally { ios: sum.ios + of.ios, late: sum.late + of.late };
        self.seconds.iter().fold(Tally::default(), sum)
    }

    /// Forgets the tally of other circumstances.
    pub(super) fn forget_lately(&mut self) {
        self.seconds.clear();
    }

    /// Gives the objective up for now: others do as little as they may, and still it is missed.
    pub(super) fn lose(&mut self, now: Instant) {
        self.state = ObjectiveState::Lost;
        self.is_retried = false;
        self.pause = Nanos(self.pause.0 * 2).clamp(RETRY[0], RETRY[1]);
        self.retry = now + self.pause;
    }

    /// Lets only IOs that arrive after `since` count for the next decision.
    pub(super) fn look_anew(&mut self, since: Instant) {
        (self.since, self.seen) = (since, Tally::default());
    }

    /// Tally since the last change.
    pub(super) fn finding(&self) -> Finding {
        let (Tally { ios, late }, one_in) = (self.seen, self.one_in());
        match late * one_in {
            // By chance, a few may be late at first.
            of if of > 5 * (ios + 2 * one_in) => Finding::VeryBad,
            of if of > ios + 2 * one_in => Finding::Bad,
            of if ios >= 3 * one_in && of * 2 <= ios => Finding::Good,
            _ => Finding::Nothing,
        }
    }

    /// Whether enough was seen with others at their least to say that it cannot be kept.
    pub(super) fn is_hopeless(&self) -> bool {
        match self.finding() {
            Finding::VeryBad => self.seen.ios >= 2 * self.one_in(),
            Finding::Bad => self.seen.ios >= 4 * self.one_in(),
            Finding::Good | Finding::Nothing => false,
        }
    }

    /// Whether more were late in the last seconds than may be.
    pub(super) fn is_missed(&self) -> bool {
        let Tally { ios, late } = self.lately();
        ios >= self.one_in() && late * self.one_in() > ios + self.one_in()
    }

    /// Whether so few were late in the last seconds that others may try to do more.
    pub(super) fn has_spare(&self) -> bool {
        let Tally { ios, late } = self.lately();
        late * self.one_in() * 2 <= ios
    }

    /// The percentile over the last IOs.
    pub(super) fn percentile(&self) -> Option<Nanos> {
        let mut sorted: Vec<Nanos> = self.recent.iter().copied().collect();
        let late = sorted.len() / self.one_in() as usize;
        let place = sorted.len().checked_sub(1 + late)?;
        Some(*sorted.select_nth_unstable(place).1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Mark, Percentile, Priority};
    use units::{Bytes, TenantId};

    const START: Instant = Instant(1_000_000_000);

    fn promise(iops: u64) -> Promise {
        let slo = Slo { iops, read_percent: 100, percentile: Percentile::P99, latency: Nanos::millis(1) };
        Promise::new(Objective { slo, second: SECOND }, START)
    }

    fn read(id: u64) -> Io {
        let (tenant, priority, mark) = (TenantId(0), Priority::default(), Mark::default());
        Io { id: IoId(id), tenant, priority, kind: IoKind::Read, length: Bytes::kib(4), mark }
    }

    /// Sends an IO every ten milliseconds, each of which takes as long as `stays` says.
    fn run(promise: &mut Promise, ios: std::ops::Range<u64>, stays: impl Fn(u64) -> Nanos) {
        for n in ios {
            let now = START + Nanos::millis(10 * n);
            promise.on_arrival(now, &read(n));
            promise.on_end(now + stays(n), IoId(n), true);
        }
    }

    #[test]
    fn an_io_is_late_by_its_stay_in_switch_and_ssd() {
        let mut promise = promise(1000);
        run(&mut promise, 0..300, |_| Nanos::micros(500));
        assert_eq!((promise.finding(), promise.is_missed()), (Finding::Good, false));
        assert_eq!(promise.percentile(), Some(Nanos::micros(500)));
        promise.look_anew(START + Nanos::secs(3));
        run(&mut promise, 300..600, |n| Nanos::micros(if n % 50 == 0 { 1100 } else { 500 }));
        assert_eq!((promise.finding(), promise.is_missed()), (Finding::Bad, false), "{:?}", promise.lately());
        run(&mut promise, 600..1000, |_| Nanos::micros(1100));
        assert_eq!((promise.finding(), promise.is_missed()), (Finding::VeryBad, true));
        assert_eq!(promise.percentile(), Some(Nanos::micros(1100)));
    }

    #[test]
    fn beyond_its_rate_nothing_counts() {
        let mut promise = promise(1000);
        let slow = Nanos::millis(5);
        // 32 at once are a burst; further IOs are too many.
        for n in 0..200 {
            promise.on_arrival(START + BURST, &read(n));
        }
        let counted = promise.arrived.len();
        assert!((BURST_IOS as usize..=52).contains(&counted), "{counted}");
        for n in 0..200 {
            promise.on_end(START + BURST + slow, IoId(n), true);
        }
        let before = promise.lately();
        assert_eq!(before, Tally { ios: counted as u64, late: counted as u64 });
        promise.on_arrival(START + Nanos::secs(1), &read(501));
        promise.on_end(START + Nanos::secs(2), IoId(501), true);
        assert_eq!(promise.lately().ios, before.ios + 1, "it keeps to its rate again");
    }

    #[test]
    fn an_objective_without_reads_is_about_writes() {
        let mut promise = promise(1000);
        promise.objective.slo.read_percent = 0;
        promise.on_arrival(START, &read(0));
        promise.on_arrival(START, &Io { kind: IoKind::Write, ..read(1) });
        assert_eq!(promise.arrived.keys().collect::<Vec<_>>(), [&IoId(1)]);
    }
}
