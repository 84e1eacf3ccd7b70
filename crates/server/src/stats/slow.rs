//! The slowest IOs of an SSD in the last minute, each with the reasons for its time.
//!
//! An IO that is slower than the hundredth of its ten seconds is kept; the others cost one comparison. Six such lists are a minute.
//!
//! Holds: the kept ones are the slowest of all (`the_slowest_of_the_last_minute_are_kept`).

use super::Waits;
use crate::tenants::TenantName;
use measures::Gauge;
use sched::IoKind;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Mutex, PoisonError};
use units::{Bytes, Instant, Nanos};

/// IOs that are kept for each span, and shown of all.
pub const SLOW_MAX: usize = 100;
const SPAN: Nanos = Nanos::secs(10);
const SPANS: usize = 6;

/// A slow IO. Times are on the machine's clock, except where the field says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowIo {
    /// Its end.
    pub ended: Instant,
    /// Its tenant.
    pub tenant: TenantName,
    /// Its kind.
    pub kind: IoKind,
    /// Its bytes.
    pub length: Bytes,
    /// Its namespace and first block; `None` if its connection is with another SSD's thread.
    pub place: Option<(u32, u64)>,
    /// The time from its admission to its end: the sum of the next three.
    pub total: Nanos,
    /// It waited for memory for the data that it reads.
    pub memory: Nanos,
    /// It waited in the scheduler.
    pub queued: Nanos,
    /// It was on the device, or waited for another write there.
    pub device: Nanos,
    /// The reasons for which its tenant waited in the scheduler meanwhile, by looks every 50 ms; none of them is longer than `queued`.
    pub why: Waits,
}

/// The slow IOs of all SSDs.
#[derive(Clone, Debug)]
pub struct SlowIos {
    /// The moment at which they were read.
    pub at: Instant,
    /// The devices, each with at most [`SLOW_MAX`] IOs, the slowest first.
    pub ssds: Vec<(String, Vec<SlowIo>)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Slowest {
    /// IOs that took no longer, in nanoseconds, are not kept.
    threshold: Gauge,
    spans: Mutex<VecDeque<Span>>,
}

/// The slowest of ten seconds.
struct Span {
    began: Instant,
    slowest: BinaryHeap<Reverse<ByTotal>>,
}

struct ByTotal(SlowIo);

impl Ord for ByTotal {
    fn cmp(&self, other: &ByTotal) -> Ordering {
        self.0.total.cmp(&other.0.total)
    }
}

impl PartialOrd for ByTotal {
    fn partial_cmp(&self, other: &ByTotal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByTotal {
    fn eq(&self, other: &ByTotal) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByTotal {}

impl Slowest {
    /// Whether an IO that took `total` may be one of the slowest.
    #[inline]
    pub(crate) fn wants(&self, total: Nanos) -> bool {
        total.get() > self.threshold.get()
    }

    /// Keeps an IO if it is one of the slowest, unless somebody is reading them.
    pub(crate) fn offer(&self, io: SlowIo) {
        let Ok(mut spans) = self.spans.try_lock() else { return };
        self.begin_span(&mut spans, io.ended);
        let span = spans.back_mut().expect("one has begun");
        span.slowest.push(Reverse(ByTotal(io)));
        if span.slowest.len() > SLOW_MAX {
            span.slowest.pop();
        }
        if let (SLOW_MAX, Some(Reverse(ByTotal(least)))) = (span.slowest.len(), span.slowest.peek()) {
            self.threshold.set(least.total.get());
        }
    }

    /// Begins the next span if the last one is over: from then on every IO is slow at first.
    pub(crate) fn tick(&self, now: Instant) {
        if let Ok(mut spans) = self.spans.try_lock()
            && !spans.is_empty()
        {
            self.begin_span(&mut spans, now);
        }
    }

    fn begin_span(&self, spans: &mut VecDeque<Span>, now: Instant) {
        if spans.back().is_some_and(|span| now.saturating_since(span.began) < SPAN) {
            return;
        }
        spans.push_back(Span { began: now, slowest: BinaryHeap::new() });
        spans.retain(|span| now.saturating_since(span.began) < Nanos(SPAN.get() * SPANS as u64));
        self.threshold.set(0);
    }

    /// The slowest of the last minute, the slowest first.
    pub(crate) fn list(&self, now: Instant) -> Vec<SlowIo> {
        let minute = Nanos(SPAN.get() * SPANS as u64);
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let all = spans.iter().flat_map(|span| &span.slowest).map(|Reverse(ByTotal(io))| io);
        let mut all: Vec<SlowIo> =
            all.filter(|io| now.saturating_since(io.ended) < minute).cloned().collect();
        drop(spans);
        all.sort_by_key(|io| Reverse(io.total));
        all.truncate(SLOW_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    fn io(ended: Instant, total: Nanos) -> SlowIo {
        let (memory, queued, why) = Default::default();
        let tenant = TenantName::Host("host".into());
        let (kind, length, place) = (IoKind::Read, Bytes(4096), None);
        SlowIo { ended, tenant, kind, length, place, total, memory, queued, device: total, why }
    }

    #[test]
    fn the_slowest_of_the_last_minute_are_kept() {
        for seed in 0..8 {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let (slow, mut all, mut now) = (Slowest::default(), Vec::new(), Instant(1));
            for _ in 0..60_000 {
                now += Nanos(random.next_u64() % 4_000_000);
                let one = io(now, Nanos(1 + random.next_u64() % 1_000_000_000));
                slow.tick(now);
                if slow.wants(one.total) {
                    slow.offer(one.clone());
                }
                all.push(one);
            }
            // A span may have begun up to ten seconds before the minute, and is dropped as a whole.
            let recent = all.iter().filter(|one| now.saturating_since(one.ended) < Nanos::secs(50));
            let mut expected: Vec<Nanos> = recent.map(|one| one.total).collect();
            expected.sort_unstable_by_key(|total| Reverse(*total));
            let found = slow.list(now);
            assert_eq!(found.len(), SLOW_MAX);
            let least = found[SLOW_MAX - 1].total;
            let missing = expected.iter().filter(|total| **total > least);
            let kept = found.iter().filter(|one| now.saturating_since(one.ended) < Nanos::secs(50));
            assert_eq!(missing.count(), kept.filter(|one| one.total > least).count(), "seed {seed}");
            assert!(found.is_sorted_by_key(|one| Reverse(one.total)));
        }
    }

    #[test]
    fn a_fast_minute_forgets_the_slow_one_before() {
        let slow = Slowest::default();
        let at = |seconds| Instant(1) + Nanos::secs(seconds);
        for number in 0..300 {
            slow.offer(io(at(0), Nanos::millis(500 + number)));
        }
        assert!(!slow.wants(Nanos::millis(500)));
        slow.tick(at(11));
        assert!(slow.wants(Nanos::micros(1)));
        slow.offer(io(at(11), Nanos::micros(1)));
        assert_eq!(slow.list(at(12)).len(), SLOW_MAX);
        let left: Vec<Nanos> = slow.list(at(61)).iter().map(|one| one.total).collect();
        assert_eq!(left, [Nanos::micros(1)]);
    }
}
