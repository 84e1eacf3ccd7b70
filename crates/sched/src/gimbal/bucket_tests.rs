//! Claims about the dual token bucket, alone and against an exact model that counts in fractions and steps from overflow
//! to overflow.

extern crate std;

use super::*;
use crate::DeviceConstants;
use proptest::prelude::*;

const DEPTH: Bytes = Bytes::kib(256);
const PACE: Pace = Pace { rate: ByteRate(1_000_000_000), split: Cost::ratio(3, 1) };

fn emptied(pace: Pace) -> DualBucket {
    let mut bucket = DualBucket::new(DEPTH, pace);
    bucket.empty(Instant::ZERO);
    bucket
}

#[test]
fn tokens_are_split_by_the_write_cost() {
    let mut bucket = emptied(PACE);
    bucket.advance(Instant(40_000));
    assert_eq!((bucket.bytes(IoKind::Read), bucket.bytes(IoKind::Write)), (Bytes(30_000), Bytes(10_000)));
}

#[test]
fn what_overflows_one_bucket_fills_the_other() {
    let mut bucket = emptied(PACE);
    let read_full = Instant(DEPTH.0 * 4 / 3 + 1);
    bucket.advance(read_full + Nanos(1000));
    assert_eq!(bucket.bytes(IoKind::Read), DEPTH);
    assert_eq!(bucket.bytes(IoKind::Write), Bytes(DEPTH.0 / 3 + 1001));
}

#[test]
fn an_empty_bucket_names_the_exact_moment_it_can_pay() {
    // Reads get 3/4 of a byte per nanosecond: 4096 bytes take 5461.33 ns.
    assert_eq!(emptied(PACE).pay(Instant::ZERO, IoKind::Read, Bytes(4096)), Err(Instant(5462)));
    assert_eq!(emptied(PACE).pay(Instant::ZERO, IoKind::Write, Bytes(4096)), Err(Instant(16_384)));
}

#[test]
fn the_other_buckets_overflow_brings_the_moment_forward() {
    let mut bucket = DualBucket::new(DEPTH, PACE);
    for _ in 0..2 {
        bucket.pay(Instant::ZERO, IoKind::Write, Bytes::kib(128)).expect("the bucket was full");
    }
    assert_eq!(bucket.pay(Instant::ZERO, IoKind::Write, Bytes(4096)), Err(Instant(4096)));
}

#[test]
fn an_io_larger_than_the_bucket_goes_when_it_is_full_and_leaves_a_debt() {
    let mut bucket = DualBucket::new(DEPTH, PACE);
    bucket.pay(Instant::ZERO, IoKind::Read, Bytes(1)).expect("the bucket was full");
    let full = bucket.pay(Instant::ZERO, IoKind::Read, Bytes::mib(1)).expect_err("a byte was missing");
    bucket.pay(full, IoKind::Read, Bytes::mib(1)).expect("the bucket is full again");
    let debt = Bytes::mib(1) - DEPTH;
    // The write bucket is full, so everything that comes in repays the debt.
    assert_eq!(bucket.pay(full, IoKind::Read, Bytes(4096)), Err(full + Nanos(debt.0 + 4096)));
}

#[test]
fn after_a_pause_of_centuries_at_the_highest_rate_both_are_full_and_no_more() {
    for split in [Cost::ONE, Cost::ratio(65_535, 1)] {
        let mut bucket = emptied(Pace { rate: DeviceConstants::RATE_MAX, split });
        bucket.advance(Instant::FAR_FUTURE);
        assert_eq!((bucket.bytes(IoKind::Read), bucket.bytes(IoKind::Write)), (DEPTH, DEPTH));
    }
}

#[test]
fn emptying_forgives_no_debt() {
    let mut bucket = DualBucket::new(DEPTH, PACE);
    bucket.pay(Instant::ZERO, IoKind::Read, Bytes::mib(1)).expect("the bucket was full");
    bucket.empty(Instant::ZERO);
    let debt = Bytes::mib(1) - DEPTH;
    let repaid = Instant((debt.0 + 3 * 4).div_ceil(3) * 4);
    let moment = bucket.pay(Instant::ZERO, IoKind::Read, Bytes(12)).expect_err("there is a debt");
    assert!(moment.0.abs_diff(repaid.0) <= 4, "{moment:?} against {repaid:?}");
}

#[test]
fn tokens_that_came_in_at_the_old_pace_stay() {
    let mut bucket = emptied(PACE);
    bucket.set_pace(Instant(40_000), Pace { rate: ByteRate(1), ..PACE });
    assert_eq!(bucket.bytes(IoKind::Read), Bytes(30_000));
}

/// One thing that happens to a bucket.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    Pay(IoKind, u64),
    SetPace(Pace),
    Empty,
}

fn pace() -> impl Strategy<Value = Pace> {
    (1..5_000_000_000u64, 1000..20_000u32)
        .prop_map(|(rate, milli)| Pace { rate: ByteRate(rate), split: Cost::ratio(milli, 1000) })
}

fn kind() -> impl Strategy<Value = IoKind> {
    prop_oneof![Just(IoKind::Read), Just(IoKind::Write), Just(IoKind::Management)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![0..2000u64, 0..5_000_000u64].prop_map(Step::Wait),
        8 => (kind(), prop_oneof![1..8192u64, 1..DEPTH.0, 1..4 * DEPTH.0]).prop_map(|(k, l)| Step::Pay(k, l)),
        1 => pace().prop_map(Step::SetPace),
        1 => Just(Step::Empty),
    ]
}

/// The same buckets, with fractions and no tricks. `read` and `write` are in billionths of a byte times `parts`.
struct Exact {
    pace: Pace,
    read: i128,
    write: i128,
}

impl Exact {
    fn parts(&self) -> i128 {
        i128::from(self.pace.parts())
    }

    fn depth(&self) -> i128 {
        i128::from(DEPTH.0) * NANO * self.parts()
    }

    fn wait(&mut self, nanos: u64) {
        let avail = i128::from(self.pace.rate.0) * i128::from(nanos);
        let depth = self.depth();
        let mut read = self.read + avail * i128::from(self.pace.read_parts());
        let mut write = self.write + avail * i128::from(self.pace.write_parts());
        if read > depth {
            write += read - depth;
            read = depth;
        }
        if write > depth {
            read = (read + write - depth).min(depth);
            write = depth;
        }
        (self.read, self.write) = (read, write);
    }

    fn set_pace(&mut self, pace: Pace) {
        let (old, new) = (self.parts(), i128::from(pace.parts()));
        self.pace = pace;
        (self.read, self.write) = (self.read * new / old, self.write * new / old);
    }

    fn tokens(&mut self, kind: IoKind) -> &mut i128 {
        if kind.pays_as_write() { &mut self.write } else { &mut self.read }
    }
}

proptest! {
    #![proptest_config(crate::random_cases(400))]

    #[test]
    fn the_named_instant_is_the_first_that_pays(first in pace(), steps in prop::collection::vec(step(), 1..60)) {
        let mut bucket = DualBucket::new(DEPTH, first);
        let mut now = Instant::ZERO;
        for step in steps {
            match step {
                Step::Wait(nanos) => now += Nanos(nanos),
                Step::SetPace(pace) => bucket.set_pace(now, pace),
                Step::Empty => bucket.empty(now),
                Step::Pay(kind, length) => {
                    if let Err(moment) = bucket.pay(now, kind, Bytes(length)) {
                        prop_assert!(moment > now);
                        let before = moment - Nanos(1);
                        prop_assert!(bucket.clone().pay(before, kind, Bytes(length)).is_err(), "{before:?} pays");
                        prop_assert!(bucket.clone().pay(moment, kind, Bytes(length)).is_ok(), "{moment:?} does not pay");
                    }
                }
            }
        }
    }

    #[test]
    fn looking_more_often_changes_nothing(first in pace(), steps in prop::collection::vec(step(), 1..60), looks in 2..9u64) {
        let mut seldom = DualBucket::new(DEPTH, first);
        let mut often = seldom;
        let mut now = Instant::ZERO;
        for step in steps {
            match step {
                Step::Wait(nanos) => {
                    for look in 1..looks {
                        often.advance(now + Nanos(nanos * look / looks));
                    }
                    now += Nanos(nanos);
                }
                Step::SetPace(pace) => {
                    seldom.set_pace(now, pace);
                    often.set_pace(now, pace);
                }
                Step::Empty => {
                    seldom.empty(now);
                    often.empty(now);
                }
                Step::Pay(kind, length) => {
                    prop_assert_eq!(seldom.pay(now, kind, Bytes(length)), often.pay(now, kind, Bytes(length)));
                }
            }
        }
    }

    #[test]
    fn it_agrees_with_exact_fractions_to_a_billionth_of_a_byte_per_step(
        first in pace(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut bucket = DualBucket::new(DEPTH, first);
        let full = i128::from(DEPTH.0) * NANO * i128::from(first.parts());
        let mut exact = Exact { pace: first, read: full, write: full };
        let mut now = Instant::ZERO;
        for (count, step) in steps.iter().enumerate() {
            match *step {
                Step::Wait(nanos) => {
                    now += Nanos(nanos);
                    exact.wait(nanos);
                }
                Step::SetPace(pace) => {
                    bucket.set_pace(now, pace);
                    exact.set_pace(pace);
                }
                Step::Empty => {
                    bucket.empty(now);
                    (exact.read, exact.write) = (exact.read.min(0), exact.write.min(0));
                }
                Step::Pay(kind, length) => {
                    // The bucket decides; the model only follows, as a billionth of a byte may tip the balance.
                    if bucket.pay(now, kind, Bytes(length)).is_ok() {
                        *exact.tokens(kind) -= i128::from(length) * NANO * exact.parts();
                    }
                }
            }
            bucket.advance(now);
            for kind in [IoKind::Read, IoKind::Write] {
                let (ours, model) = (bucket.tokens(kind) * exact.parts(), *exact.tokens(kind));
                let allowed = (count as i128 + 1) * exact.parts();
                prop_assert!((ours - model).abs() <= allowed, "{kind:?}: {ours} against {model} of {}", exact.parts());
            }
        }
    }

    #[test]
    fn payments_stay_within_depth_and_rate(first in pace(), steps in prop::collection::vec(step(), 1..80)) {
        let mut bucket = DualBucket::new(DEPTH, first);
        let mut pace = first;
        let mut now = Instant::ZERO;
        // Billionths of a byte that came in since the start, and what each payment left paid since then.
        let mut supplied: u128 = 0;
        let mut paid: u128 = 0;
        // For each starting point so far: (supplied, paid) then. The bound must hold from every one of them.
        let mut starts = std::vec![(0u128, 0u128)];
        let mut longest = 0u128;
        for step in steps {
            match step {
                Step::Wait(nanos) => {
                    now += Nanos(nanos);
                    supplied += u128::from(pace.rate.0) * u128::from(nanos);
                }
                Step::SetPace(next) => {
                    bucket.set_pace(now, next);
                    pace = next;
                }
                Step::Empty => bucket.empty(now),
                Step::Pay(kind, length) => {
                    starts.push((supplied, paid));
                    if bucket.pay(now, kind, Bytes(length)).is_ok() {
                        paid += u128::from(length) * NANO.unsigned_abs();
                        longest = longest.max(u128::from(length.saturating_sub(DEPTH.0)));
                    }
                }
            }
            for &(supplied_then, paid_then) in &starts {
                // Two full buckets, what came in, and the part of each bucket's last IO that its depth does not cover.
                let bound = 2 * (u128::from(DEPTH.0) + longest) * NANO.unsigned_abs() + supplied - supplied_then;
                prop_assert!(paid - paid_then <= bound, "{} paid, bound {bound}", paid - paid_then);
            }
        }
    }
}
