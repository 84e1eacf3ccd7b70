//! The state of the flash between clean and fragmented, estimated from completions.
//!
//! The cost of a write depends on the state of its flash (seven times as much on a fragmented DCT983 as on a clean one),
//! and the SSD does not report that state. Latencies do not show it either: the buffer hides it from writes until it is full. But the
//! sum does: the device time of everything that is served adds up to the time that passes. So all that completes is charged
//! twice, at the costs of a clean SSD and at those of a fragmented one, and both sums are compared with the clock:
//!
//! ```text
//!              at clean costs              at fragmented costs
//!   1 ┄┄┄┄┄┄┄┄ ▇ ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ ▇ ┄┄┄┄┄  more than a fragmented SSD could do: it is clean(er)
//!   least ┄┄┄┄ ▇ ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ ▇ ┄┄┄┄┄
//!              ▇      ▇                    ▇     ▇     less than a clean SSD would do, though more waits: it is fragmented
//! ```
//!
//! A mix of reads and writes gets less out of the SSD than its parts alone (Gimbal, figure 14), so a clean SSD may fall
//! as far short as [`MIXED_LEAST_PERCENT`]. Between the two bounds both states explain the observations, or neither
//! does. Then the estimate stays, or moves to where the line between them crosses. At either end it stops exactly, and
//! prices do not change.
//!
//! There is no feedback: a wrong price changes the mix but not the work that the SSD does in that time, and one of the
//! sums is off for every mix except those with next to no writes, where the price hardly matters.
//!
//! Holds: an SSD that serves as a clean one does is found clean, one that serves as a fragmented one does is found
//!        fragmented, from any belief and for any mix with enough writes (`the_truth_is_found_from_either_end`); an
//!        idle SSD changes the estimate only by the work that it does (`idleness_is_no_fragmentation`); a burst into
//!        the buffer misleads for a moment only (`a_burst_into_the_buffer_is_forgotten`).
//! Elsewhere: what follows from it is `costs`.

use super::costs::DeviceCosts;
use crate::Io;
use units::{Bytes, Instant, Nanos};

/// Fragmentation of the flash: 0 when clean, 1 in the steady state of random overwrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fragmentation(u32);

impl Fragmentation {
    /// Written once, in order.
    pub const NONE: Fragmentation = Fragmentation(0);
    /// Overwritten at random for long.
    pub const FULL: Fragmentation = Fragmentation(ONE as u32);

    /// `numerator / denominator`, but no more than 1.
    ///
    /// # Panics
    /// If the denominator is zero.
    pub const fn ratio(numerator: u32, denominator: u32) -> Fragmentation {
        let fragmentation = numerator as u64 * ONE as u64 / denominator as u64;
        Fragmentation(if fragmentation > ONE as u64 { ONE as u32 } else { fragmentation as u32 })
    }

    /// The value as a number for plots; never for decisions.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / ONE as f64
    }

    /// The point at this fraction of the way from `clean` to `fragmented`, rounded down.
    #[inline]
    pub(super) fn blend(self, clean: Bytes, fragmented: Bytes) -> Bytes {
        let further = u128::from((fragmented - clean).0) * u128::from(self.0) / ONE as u128;
        clean + Bytes(further as u64)
    }
}

/// Fixed point: parts of a capacity, of a fragmentation, of a sum.
const ONE: i64 = 1 << 16;
/// Interval at which the fragmentation is reconsidered. Ours: some ten times the latency of a loaded SSD.
const PERIOD: Nanos = Nanos::millis(50);
/// A period that was closed so late was mostly idle: all that was seen before it is forgotten.
const PERIOD_LATEST: Nanos = Nanos::millis(100);
/// The part of the observations that is forgotten with every period: an eighth. That is a memory of 400 ms, several
/// times as long as an SSD's buffer takes to drain in a steady state.
const MEMORY: u64 = 8;
/// The error of measured costs, and the precision of a sum.
const MARGIN: i64 = ONE / 20;
/// Distance at which the fragmentation arrives; it goes half of the way at a time.
const ARRIVED: i64 = ONE / 16;
/// The least that a clean SSD does of a mix, in per cent of what its parts do alone: 4 KiB reads and writes get 66
/// (Gimbal, figure 14, in the model as well), other mixes more.
const MIXED_LEAST_PERCENT: i64 = 60;
/// Percentage of completions that must leave a tenant waiting for the SSD to count as busy.
const WAITING_PERCENT: u64 = 75;

/// Completions of a span of time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    span: u64,
    /// At clean costs and at fragmented ones.
    costs: [u64; 2],
    /// Writes' part of the first.
    writes: u64,
    /// Σ of cost × latency, in byte-microseconds: divided by the span, the cost in flight.
    in_flight: u64,
    ios: u64,
    /// Completions after which a tenant was waiting.
    waiting: u64,
}

/// The observations, and the estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentationEstimator {
    fragmentation: Fragmentation,
    /// The cost in flight that keeps the SSD busy, whether or not a tenant waits.
    busy: Bytes,
    begun: Option<Instant>,
    now: Seen,
    past: Seen,
}

impl FragmentationEstimator {
    /// Believes the worst until it knows better. `slots`: see [`DeviceConstants::slots`](crate::DeviceConstants::slots).
    pub(super) fn new(slots: u32) -> FragmentationEstimator {
        let busy = Bytes(u64::from(slots) * SEQUENTIAL_READ.0);
        let (now, past) = (Seen::default(), Seen::default());
        FragmentationEstimator { fragmentation: Fragmentation::FULL, busy, begun: None, now, past }
    }

    pub(super) fn fragmentation(&self) -> Fragmentation {
        self.fragmentation
    }

    /// Counts an IO that completed after `latency` inside the SSD; `waiting`: others waited for the SSD meanwhile.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        now: Instant,
        costs: &DeviceCosts,
        io: &Io,
        latency: Nanos,
        waiting: bool,
    ) {
        let clean = costs.clean.of(io.kind, io.length).0;
        let fragmented = costs.fragmented.of(io.kind, io.length).0;
        let seen = &mut self.now;
        seen.costs = [seen.costs[0].saturating_add(clean), seen.costs[1].saturating_add(fragmented)];
        if io.kind.pays_as_write() {
            seen.writes = seen.writes.saturating_add(clean);
        }
        let in_flight = u128::from(clean) * u128::from(latency.0) / NANOS_PER_MICRO;
        seen.in_flight = seen.in_flight.saturating_add(u64::try_from(in_flight).unwrap_or(u64::MAX));
        seen.ios += 1;
        seen.waiting += u64::from(waiting);
        let begun = *self.begun.get_or_insert(now);
        let span = now.since(begun);
        if span >= PERIOD {
            self.close_period(now, span, costs);
        }
    }

    fn close_period(&mut self, now: Instant, span: Nanos, costs: &DeviceCosts) {
        self.begun = Some(now);
        let seen = Seen { span: span.0, ..core::mem::take(&mut self.now) };
        if span > PERIOD_LATEST {
            self.past = Seen::default();
            return;
        }
        self.past.fade();
        self.past.add(seen);
        let to = self.past.judge(costs, self.busy, i64::from(self.fragmentation.0));
        let fragmentation = i64::from(self.fragmentation.0);
        let moved = fragmentation + (to - fragmentation) / 2;
        self.fragmentation = Fragmentation(if (to - moved).abs() < ARRIVED { to } else { moved } as u32);
    }
}

impl Seen {
    fn fade(&mut self) {
        let [clean, fragmented] = &mut self.costs;
        for number in [
            &mut self.span,
            clean,
            fragmented,
            &mut self.writes,
            &mut self.in_flight,
            &mut self.ios,
            &mut self.waiting,
        ] {
            *number -= *number / MEMORY;
        }
    }

    fn add(&mut self, other: Seen) {
        self.span += other.span;
        self.costs = [0, 1].map(|state| self.costs[state].saturating_add(other.costs[state]));
        self.writes = self.writes.saturating_add(other.writes);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.ios += other.ios;
        self.waiting += other.waiting;
    }

    /// Where the fragmentation should be, if it is `fragmentation` now.
    fn judge(&self, costs: &DeviceCosts, busy: Bytes, fragmentation: i64) -> i64 {
        let capacity = u128::from(costs.rate.0) * u128::from(self.span) / NANOS_PER_SEC;
        let part = |of: u64, whole: u128| {
            let part = u128::from(of) * ONE as u128 / whole.max(1);
            i64::try_from(part).unwrap_or(PART_MAX).min(PART_MAX)
        };
        let [clean, fragmented] = self.costs.map(|cost| part(cost, capacity));
        // A mix loses most at half and half, and most of that with a small part already.
        let writes = part(self.writes, self.costs[0].into());
        let mixed = (8 * writes * (ONE - writes) / ONE).min(ONE);
        let clean_least = ONE - MARGIN - mixed * (100 - MIXED_LEAST_PERCENT) / 100;
        let fragmented_most = ONE + MARGIN;
        let (above, beyond) = (clean - clean_least, fragmented - fragmented_most);
        if !self.is_busy(busy) {
            // An idle SSD shows only that it is no more fragmented than one that can do the work seen.
            let differs = fragmented - clean;
            let most = if differs > 0 { (fragmented_most - clean).max(0) * ONE / differs } else { ONE };
            return fragmentation.min(most);
        }
        match (above >= 0, beyond <= 0) {
            (true, true) => fragmentation,
            (true, false) => 0,
            (false, true) => ONE,
            (false, false) => -above * ONE / (beyond - above),
        }
    }

    fn is_busy(&self, busy: Bytes) -> bool {
        let mean = u128::from(self.in_flight) * NANOS_PER_MICRO / u128::from(self.span.max(1));
        self.waiting * 100 >= self.ios * WAITING_PERCENT || mean >= u128::from(busy.0)
    }
}

/// Sequential reads that a slot holds, by which the device's slots are counted (Gimbal §3.5).
const SEQUENTIAL_READ: Bytes = Bytes::kib(128);
const NANOS_PER_MICRO: u128 = 1000;
const NANOS_PER_SEC: u128 = 1_000_000_000;
/// Upper bound for the ratio of a sum to its expected value: far beyond any real one, and products of it fit.
const PART_MAX: i64 = ONE << 24;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::level::calibrated::costs::CostCurve;
    use crate::{DeviceConstants, IoId, IoKind, Mark, Priority};
    use proptest::prelude::*;
    use units::TenantId;

    const STEP: Nanos = Nanos::micros(500);

    fn estimator(fragmentation: Fragmentation) -> FragmentationEstimator {
        FragmentationEstimator { fragmentation, ..FragmentationEstimator::new(DeviceConstants::DCT983.slots) }
    }

    fn io(kind: IoKind, length: Bytes) -> Io {
        let (tenant, priority, mark) = (TenantId(0), Priority::default(), Mark::default());
        Io { id: IoId(0), tenant, priority, kind, length, mark }
    }

    /// Serves at `percent` of the rate of an SSD in this state, with `writes_percent` of its time for writes.
    struct Served {
        truth: Fragmentation,
        percent: u64,
        writes_percent: u64,
        sizes: [Bytes; 2],
        waiting: bool,
    }

    impl Served {
        fn run(&self, estimator: &mut FragmentationEstimator, from: Instant, span: Nanos) -> Instant {
            let mut owed = [0u64; 2];
            let mut now = from;
            while now < from + span {
                now += STEP;
                let earned = DeviceCosts::DCT983.rate.0 / 1_000_000 * STEP.0 / 1000 * self.percent / 100;
                let shares = [100 - self.writes_percent, self.writes_percent];
                for (kind, direction) in [IoKind::Read, IoKind::Write].into_iter().zip(0..) {
                    owed[direction] += earned * shares[direction] / 100;
                    let io = io(kind, self.sizes[direction]);
                    let cost = DeviceCosts::DCT983.of(self.truth, kind, io.length).0;
                    while owed[direction] >= cost {
                        owed[direction] -= cost;
                        estimator.on_completion(
                            now,
                            &DeviceCosts::DCT983,
                            &io,
                            Nanos::micros(50),
                            self.waiting,
                        );
                    }
                }
            }
            now
        }
    }

    const SECOND: Nanos = Nanos::secs(1);
    const SMALL: [Bytes; 2] = [Bytes::kib(4); 2];

    #[test]
    fn a_wear_is_the_ratio_it_says_and_one_at_most() {
        assert_eq!(
            [Fragmentation::ratio(0, 7), Fragmentation::ratio(9, 9), Fragmentation::ratio(3, 2)]
                .map(Fragmentation::as_f64),
            [0.0, 1.0, 1.0]
        );
        assert_eq!(Fragmentation::ratio(3, 8).as_f64(), 0.375);
        assert_eq!(Fragmentation::ratio(1, 4).blend(Bytes(100), Bytes(200)), Bytes(125));
    }

    /// Periods that are closed by IOs of a clean SSD at its full speed, with others waiting.
    #[test]
    fn the_wear_goes_half_of_the_way_at_a_time_and_arrives() {
        let mut found = estimator(Fragmentation::FULL);
        let served = Served {
            truth: Fragmentation::NONE,
            percent: 100,
            writes_percent: 50,
            sizes: SMALL,
            waiting: true,
        };
        let (mut now, mut seen) = (Instant::ZERO, std::vec![found.fragmentation()]);
        while found.fragmentation() > Fragmentation::NONE {
            now = served.run(&mut found, now, STEP);
            if found.fragmentation() != seen[seen.len() - 1] {
                seen.push(found.fragmentation());
            }
            assert!(now < Instant::ZERO + SECOND, "it never arrives: {seen:?}");
        }
        let halves: std::vec::Vec<Fragmentation> =
            (0..5).map(|n| Fragmentation::ratio(1, 1 << n)).chain([Fragmentation::NONE]).collect();
        assert_eq!(seen, halves, "to a sixteenth, which is as good as none");
        let periods = now.since(Instant::ZERO).0 / PERIOD.0;
        assert!((5..=6).contains(&periods), "{periods} periods for five steps");
    }

    #[test]
    fn a_pause_teaches_nothing() {
        let served = Served {
            truth: Fragmentation::NONE,
            percent: 100,
            writes_percent: 50,
            sizes: SMALL,
            waiting: true,
        };
        let write = io(IoKind::Write, SMALL[1]);
        for (pause, is_forgotten) in [(Nanos(PERIOD_LATEST.0 + 1), true), (PERIOD_LATEST, false)] {
            let mut clean = estimator(Fragmentation::NONE);
            let mut now = served.run(&mut clean, Instant::ZERO, SECOND);
            for _ in 0..10 {
                now += pause;
                clean.on_completion(now, &DeviceCosts::DCT983, &write, STEP, true);
            }
            assert_eq!(
                clean.fragmentation() == Fragmentation::NONE,
                is_forgotten,
                "after pauses of {pause}: {:?}",
                clean.fragmentation()
            );
        }
    }

    #[test]
    fn an_ssd_is_busy_if_three_of_four_completions_leave_a_tenant_waiting_or_enough_is_in_flight() {
        let busy = Bytes(1000);
        let seen =
            |waiting, in_flight| Seen { ios: 100, waiting, in_flight, span: 1_000_000, ..Seen::default() };
        assert!(seen(75, 0).is_busy(busy) && !seen(74, 0).is_busy(busy));
        // Byte-microseconds in a millisecond.
        assert!(seen(0, 1_000_000).is_busy(busy) && !seen(0, 999_999).is_busy(busy));
    }

    #[test]
    fn idleness_is_no_fragmentation() {
        let idle = Served {
            truth: Fragmentation::NONE,
            percent: 10,
            writes_percent: 50,
            sizes: SMALL,
            waiting: false,
        };
        let mut clean = estimator(Fragmentation::NONE);
        idle.run(&mut clean, Instant::ZERO, SECOND);
        assert_eq!(clean.fragmentation(), Fragmentation::NONE);
    }

    #[test]
    fn what_a_fragmented_ssd_could_not_do_is_a_sign_whoever_waits() {
        let half = Served {
            truth: Fragmentation::NONE,
            percent: 60,
            writes_percent: 50,
            sizes: SMALL,
            waiting: false,
        };
        let mut worst = estimator(Fragmentation::FULL);
        half.run(&mut worst, Instant::ZERO, SECOND);
        assert!(worst.fragmentation() < Fragmentation::ratio(1, 4), "still {:?}", worst.fragmentation());
    }

    #[test]
    fn an_ssd_that_is_not_busy_is_as_fragmented_as_what_it_did_allows() {
        let served = Served {
            truth: Fragmentation::NONE,
            percent: 30,
            writes_percent: 50,
            sizes: SMALL,
            waiting: false,
        };
        let mut worst = estimator(Fragmentation::FULL);
        served.run(&mut worst, Instant::ZERO, SECOND);
        // Clean it takes 0.3 of its time, fragmented 0.3 × (7961/7961 + 76551/10155)/2: at three quarters it takes all, and the margin.
        let allowed = (1.05 - 0.3) / (0.3 * (1.0 + 76_551.0 / 10_155.0) / 2.0 - 0.3);
        assert!(
            (worst.fragmentation().as_f64() - allowed).abs() < 0.02,
            "{} where {allowed} is allowed",
            worst.fragmentation().as_f64()
        );
    }

    #[test]
    fn a_burst_into_the_buffer_is_forgotten() {
        let mut found = estimator(Fragmentation::FULL);
        let served = Served {
            truth: Fragmentation::FULL,
            percent: 90,
            writes_percent: 50,
            sizes: SMALL,
            waiting: true,
        };
        let now = served.run(&mut found, Instant::ZERO, SECOND);
        for _ in 0..3072 {
            found.on_completion(now, &DeviceCosts::DCT983, &io(IoKind::Write, Bytes::kib(4)), STEP, true);
        }
        served.run(&mut found, now, SECOND);
        assert_eq!(found.fragmentation(), Fragmentation::FULL);
    }

    #[test]
    fn reads_of_the_least_size_say_nothing_of_the_wear() {
        for fragmentation in [Fragmentation::NONE, Fragmentation::FULL] {
            let reads =
                Served { truth: fragmentation, percent: 100, writes_percent: 0, sizes: SMALL, waiting: true };
            let mut before = estimator(fragmentation);
            reads.run(&mut before, Instant::ZERO, SECOND);
            assert_eq!(before.fragmentation(), fragmentation);
        }
    }

    proptest! {
        #![proptest_config(crate::random_cases(100))]

        #[test]
        fn the_truth_is_found_from_either_end(
            clean in any::<bool>(),
            belief in 0..=4u32,
            (percent, writes_percent) in prop_oneof![(70..=100u64, 25..=80u64), (96..=100u64, Just(100))],
            sizes in prop::array::uniform2(0..CostCurve::SIZES),
        ) {
            let truth = if clean { Fragmentation::NONE } else { Fragmentation::FULL };
            let sizes = sizes.map(|n| CostCurve::sizes()[n]);
            let mut estimator = estimator(Fragmentation::ratio(belief, 4));
            Served { truth, percent, writes_percent, sizes, waiting: true }.run(
                &mut estimator,
                Instant::ZERO,
                Nanos::secs(2),
            );
            prop_assert_eq!(estimator.fragmentation(), truth);
        }
    }
}
