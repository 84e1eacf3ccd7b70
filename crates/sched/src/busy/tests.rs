//! An SSD scripted by the test: rates and pauses by hand, and any IOs at all.

use super::*;
use crate::random_cases;
use proptest::prelude::*;

/// A detector, and a clock.
#[derive(Default)]
struct World {
    detector: BusyDetector,
    now: Instant,
}

impl World {
    fn submit(&mut self) {
        self.detector.on_submit(self.now);
    }

    fn end(&mut self, kind: IoKind, length: Bytes, latency: Nanos) {
        self.detector.on_end(self.now, kind, length, Outcome::Success { latency });
    }

    /// Keeps `depth` IOs of 64 KiB in flight for `span`, each of which takes `latency`.
    fn closed(&mut self, kind: IoKind, depth: u64, latency: Nanos, span: Nanos) -> &mut World {
        (0..depth).for_each(|_| self.submit());
        let until = self.now + span;
        while self.now < until {
            self.now += Nanos(latency.0 / depth);
            self.end(kind, Bytes::kib(64), latency);
            self.submit();
        }
        (0..depth).for_each(|_| self.end(kind, Bytes::kib(64), latency));
        self
    }

    fn writes(&mut self, ms: u64, span: u64) -> &mut World {
        self.closed(IoKind::Write, 8, Nanos::millis(ms), Nanos::millis(span))
    }

    fn pause(&mut self, ms: u64) -> &mut World {
        self.now += Nanos::millis(ms);
        self
    }

    fn period(&self) -> Option<BusyPeriod> {
        self.detector.period(self.now)
    }
}

#[test]
fn an_ssd_that_becomes_slow_is_seen_and_one_that_recovers_too() {
    let mut world = World::default();
    assert_eq!(world.writes(1, 2000).period(), None);
    let began = world.now;
    let period = world.writes(3, 500).period().expect("three times slower");
    assert!((11..=13).contains(&period.writes.in_quarters()), "{period:?}");
    assert!(!period.reads.is_slow() && period.for_about.is_none(), "{period:?}");
    let found = period.since.saturating_since(began).max(began.saturating_since(period.since));
    assert!(found < Nanos::millis(60), "since {found}");
    assert_eq!(world.writes(1, 200).period(), None);
    let period = world.writes(3, 200).period().expect("slow again");
    let rest = period.for_about.expect("one was seen").as_secs_f64();
    assert!((0.25..0.45).contains(&rest), "{rest} s of half a second, 0.2 s later");
}

#[test]
fn what_was_always_slow_is_usual() {
    assert_eq!(World::default().writes(50, 10_000).period(), None);
}

#[test]
fn an_ssd_that_is_asked_for_less_is_not_slow() {
    let mut world = World::default();
    world.writes(1, 2000);
    for _ in 0..2000 {
        world.pause(3).writes(1, 1);
        assert_eq!(world.period(), None, "now and then");
    }
    for depth in [4, 2, 1] {
        world.closed(IoKind::Write, depth, Nanos::millis(1), Nanos::secs(1));
        assert_eq!(world.period(), None, "{depth} in flight");
    }
}

#[test]
fn one_that_is_let_less_into_is_slow_all_the_same() {
    let mut world = World::default();
    world.writes(1, 2000).writes(3, 500);
    for depth in [4, 2, 1] {
        world.closed(IoKind::Write, depth, Nanos::millis(3), Nanos::secs(1));
        assert!(world.period().is_some(), "{depth} in flight");
    }
}

#[test]
fn more_in_flight_is_not_slow_if_as_much_is_served() {
    let mut world = World::default();
    world.writes(1, 2000);
    world.closed(IoKind::Write, 64, Nanos::millis(8), Nanos::secs(2));
    assert_eq!(world.period(), None);
}

#[test]
fn two_slow_windows_are_no_period() {
    let mut world = World::default();
    for _ in 0..100 {
        world.writes(1, 300).writes(4, 40);
        assert_eq!(world.period(), None);
    }
}

#[test]
fn a_period_of_which_nothing_is_seen_is_over() {
    let mut world = World::default();
    world.writes(1, 2000).writes(3, 500);
    assert!(world.period().is_some());
    world.pause(1100);
    assert_eq!(world.period(), None);
    world.writes(1, 500);
    let period = world.writes(3, 200).period().expect("slow again");
    assert!(period.for_about.is_some(), "the first one was noted");
}

#[test]
fn failed_ios_say_nothing() {
    let mut world = World::default();
    world.writes(1, 2000);
    for _ in 0..1000 {
        world.submit();
        world.now += Nanos::millis(1);
        world.detector.on_end(world.now, IoKind::Write, Bytes::kib(64), Outcome::Failed);
        assert_eq!(world.period(), None);
    }
}

#[derive(Clone, Debug)]
struct Any {
    kind: u8,
    length: u64,
    latency: u64,
    gap: u64,
    more: u8,
}

proptest! {
    #![proptest_config(random_cases(64))]

    #[test]
    fn any_ios_at_all(ios in proptest::collection::vec(
        (0..4u8, 0..u64::MAX, 0..40u32, 0..40u32, 0..4u8).prop_map(|(kind, length, latency, gap, more)| Any {
            kind, length: length >> (latency + 20), latency: 1 << latency, gap: 1 << gap, more,
        }), 1..2000)
    ) {
        let mut world = World::default();
        let mut in_flight = 0;
        for io in ios {
            for _ in 0..=io.more {
                world.submit();
                in_flight += 1;
            }
            world.now += Nanos(io.gap);
            let kind = [IoKind::Read, IoKind::Write, IoKind::Management, IoKind::Read][usize::from(io.kind)];
            let outcome = if io.kind == 3 { Outcome::Failed } else { Outcome::Success { latency: Nanos(io.latency) } };
            world.detector.on_end(world.now, kind, Bytes(io.length), outcome);
            in_flight -= 1;
            prop_assert_eq!(world.detector.in_flight, in_flight);
            if let Some(period) = world.period() {
                prop_assert!(period.since <= world.now);
                prop_assert!(period.reads.is_slow() || period.writes.is_slow());
                prop_assert!(period.for_about.is_none_or(|rest| rest.get() <= world.now.0));
            }
        }
    }
}
