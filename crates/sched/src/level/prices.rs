//! Prices: the device time that an IO takes, learnt.
//!
//! Equal service means: of `n` saturated tenants each has the n-th part of what the SSD would give it alone. So an IO must be charged
//! the inverse of what the SSD completes per second when it does nothing but IOs of that kind. That number cannot be measured in a
//! mix: reads and writes slow each other down by more, or less, than their sum, and a scheduler that is fair always sees the same
//! mix. So it is measured as it is defined: now and then one kind of work has the SSD for some milliseconds (`probe`).
//!
//! ```text
//!   price of an IO = a guess from its way and size  ×  scale of the kind of work that its tenant does
//!                      2 µs + 0.3 ns per byte read      measured: time that the SSD took / what was guessed
//!                      4 µs + 1 ns per byte written
//! ```
//!
//! The kind (`kind`) belongs to the tenant, not to the IO: a tenant that reads and writes at once gets less from an SSD than both parts say, and
//! its share is a part of what *it* gets alone.
//!
//! A kind with few IOs is known only between bounds (`took`). Other kinds narrow them: a byte of a large IO costs no more than a byte of a small one of
//! the same way, and a kind that reads and writes takes no less time than the longer of its parts, and no more than both together.
//!
//! Nothing makes reads faster than they are, but the SSD's own work after writes makes them slower, for seconds. So reads that seem slow are not believed
//! at once.
//!
//! A price counts nanoseconds of device time as bytes: those of an SSD of 1 GB/s.
//!
//! Holds: a scale is what was measured, or between the scales of what was, and within its bounds (`scales_stay_between_what_was_measured`);
//!        no byte costs more in larger IOs (`a_byte_costs_no_more_in_a_larger_io`); what is known only between bounds is priced by what else is known
//!        (`a_mix_is_priced_between_its_parts`, `a_small_io_costs_no_less_per_byte_than_a_large_one`);
//!        slow reads are believed in the end (`slow_reads_are_believed_in_the_end`).

use super::kind::{Kind, SIZES, guess};
use super::learnt::{LearntPrice, ReadsPart};
use super::took::Took;
use crate::IoKind;
use alloc::vec::Vec;
use core::cmp::Ordering;
use units::{Bytes, Nanos};

/// Fixed point of scales: 16 fractional bits.
const ONE: u64 = 1 << 16;
/// No SSD, disk or memory is further from the guess.
const SCALE_MIN: u64 = ONE / 256;
const SCALE_MAX: u64 = ONE * 4096;
/// A measurement weighs one part in this number at least.
const MEMORY: u32 = 4;
/// A measurement this far from what was believed (one in three) is a new truth, not noise.
const DIFFERS: u64 = 3;
/// That reads take longer is believed when it was seen so often in a row: it may be the SSD's own work after writes.
const SLOW_TIMES: u32 = 4;
/// The parts of a kind that reads and writes may take an eighth more together than one after the other, or an eighth less than the longer one alone.
const PARTS_DIFFER: u128 = 8;
/// A price that changed by less is the same price.
const CHANGED: u64 = 32;

/// What is known of one kind.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// As scales.
    took: Took,
    /// How often it was measured since it was last found different; at most [`MEMORY`].
    measured: u32,
    /// It was told and never measured; told counts as measured once.
    is_told: bool,
    /// How often in a row it has seemed to be much more expensive.
    slow: u32,
}

impl Known {
    const NOTHING: Known =
        Known { took: Took { least: 0, likely: 0, most: 0 }, measured: 0, is_told: false, slow: 0 };
}

/// What a measurement has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The price of the kind, by more than one in [`CHANGED`].
    pub(super) price: bool,
    /// What was told of it was wrong, so all that was told and not measured is forgotten.
    pub(super) told: bool,
}

/// The scales of all kinds.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    known: [Known; Kind::COUNT],
    /// Of every kind, known or not.
    scales: [u64; Kind::COUNT],
}

impl Prices {
    /// Nothing is known: every guess is taken as it is.
    pub(super) fn new() -> Prices {
        Prices { known: [Known::NOTHING; Kind::COUNT], scales: [ONE; Kind::COUNT] }
    }

    /// The price of an IO of a tenant that does this kind of work.
    #[inline]
    pub(super) fn of(&self, work: Kind, kind: IoKind, length: Bytes) -> Bytes {
        // Below 2³³ × 2²⁸.
        Bytes(((guess(kind, length) * self.scales[work.index()]) >> 16).max(1))
    }

    /// What is guessed to take this long, at the price of this kind.
    pub(super) fn of_guessed(&self, work: Kind, guessed: Bytes) -> Bytes {
        Bytes(((u128::from(guessed.0) * u128::from(self.scales[work.index()])) >> 16) as u64)
    }

    /// How long the SSD takes for 1024 bytes that a tenant of this kind writes, ns; `None` if that was never measured.
    pub(super) fn written_byte(&self, work: Kind) -> Option<u64> {
        let length = work.length();
        (self.measured(work) > 0).then(|| self.of(work, IoKind::Write, length).0 * 1024 / length.0)
    }

    /// How often the kind was measured, up to [`MEMORY`].
    pub(super) fn measured(&self, work: Kind) -> u32 {
        self.known[work.index()].measured
    }

    /// Whether reads seemed slow the last time.
    pub(super) fn seem_slow(&self, work: Kind) -> bool {
        self.known[work.index()].slow > 0
    }

    /// Whether a measurement says less than is believed of this kind.
    pub(super) fn is_lower(&self, work: Kind, nanos: u64, guessed: u64) -> bool {
        u128::from(nanos) * u128::from(ONE)
            < u128::from(guessed) * u128::from(self.known[work.index()].took.likely)
    }

    /// The SSD `took` this time for IOs of this kind that were guessed to take `guessed`.
    pub(super) fn measure(&mut self, work: Kind, took: Took, guessed: u64) -> Change {
        if guessed == 0 {
            return Change::default();
        }
        let before = self.scales[work.index()];
        let took = took.map(|nanos| scale(nanos, guessed, 16));
        let known = &mut self.known[work.index()];
        let differs = took.likely.abs_diff(known.took.likely) * DIFFERS > known.took.likely;
        let told = known.is_told && differs;
        let seems_slow = known.measured > 0 && differs && took.likely > known.took.likely;
        if seems_slow && !work.writes() && !known.is_told && known.slow + 1 < SLOW_TIMES {
            known.slow += 1;
            return Change::default();
        }
        if known.measured == 0 || differs {
            *known = Known { took, measured: 1, is_told: false, slow: 0 };
        } else {
            known.is_told = false;
            known.measured = (known.measured + 1).min(MEMORY);
            known.took = known.took.averaged(took, u64::from(known.measured));
            known.slow = 0;
        }
        if told {
            self.known.iter_mut().filter(|known| known.is_told).for_each(|known| *known = Known::NOTHING);
        }
        self.fill_in();
        Change { price: self.scales[work.index()].abs_diff(before) * CHANGED > before, told }
    }

    /// The SSD may have changed: what is known of each kind counts as measured once.
    pub(super) fn doubt(&mut self) {
        for known in &mut self.known {
            known.measured = known.measured.min(1);
            // Reads may be slower now, or the SSD is at work for itself: two measurements tell.
            known.slow = SLOW_TIMES - 2;
        }
    }

    /// What another Level has learnt of the SSD.
    pub(super) fn tell(&mut self, prices: &[LearntPrice]) {
        for price in prices {
            let kind = Kind::of_learnt(price);
            let took = Took::exactly(scale(price.time.0, kind.guess(), 22));
            self.known[kind.index()] = Known { took, measured: 1, is_told: true, slow: 0 };
        }
        self.fill_in();
    }

    /// What is worth being told to another Level: what was measured often enough to be known, and what was told and never tried.
    pub(super) fn learnt(&self, often: u32) -> Vec<LearntPrice> {
        let is_worth = |kind: &Kind| {
            let known = &self.known[kind.index()];
            known.measured >= often || known.is_told
        };
        let learnt = |kind: Kind| {
            let time = (u128::from(self.scales[kind.index()]) * u128::from(kind.guess())) >> 22;
            LearntPrice { reads: ReadsPart::ALL[kind.way()], size: kind.length(), time: Nanos(time as u64) }
        };
        Kind::all().filter(is_worth).map(learnt).collect()
    }

    /// A written byte's price over that of a byte read, in 64ths, as large IOs have it.
    pub(super) fn write_cost(&self) -> u32 {
        let length = Bytes::kib(64);
        let of = |kind: IoKind| {
            let reads = if kind == IoKind::Read { 1 } else { 0 };
            self.of(Kind::of(1, reads, length.0), kind, length).0
        };
        let ratio = of(IoKind::Write) * 64 / of(IoKind::Read).max(1);
        ratio.clamp(64, 64 << 10) as u32
    }

    /// A byte of a large IO costs no more than one of a small IO of the same way: the lowest and the highest scale of a kind, as far as
    /// others of its way were measured.
    fn of_other_sizes(&self, kind: Kind) -> [u64; 2] {
        let [mut least, mut most] = [SCALE_MIN, SCALE_MAX];
        for other in Kind::all().filter(|other| other.way() == kind.way()) {
            let known = &self.known[other.index()];
            let scaled = |scale: u64| scale * other.guess_of_kib() / kind.guess_of_kib();
            match other.size().cmp(&kind.size()) {
                _ if known.measured == 0 => {}
                Ordering::Less => most = most.min(scaled(known.took.most).max(SCALE_MIN)),
                Ordering::Equal => {}
                Ordering::Greater => least = least.max(scaled(known.took.least)),
            }
        }
        [least, most]
    }

    /// The scale of the kind nearest in size that does this way of work and was measured.
    fn of_way(&self, way: usize, size: usize) -> Option<u64> {
        let known = Kind::all().filter(|kind| kind.way() == way && self.known[kind.index()].measured > 0);
        let nearest = known.min_by_key(|kind| kind.size().abs_diff(size))?;
        Some(self.priced(nearest, [SCALE_MIN, SCALE_MAX]))
    }

    /// A kind that reads and writes takes no less time than the longer of its two parts, and no more than both, one after the other: as far
    /// as these are known, and with [`PARTS_DIFFER`] for what they do to each other.
    fn parts(&self, kind: Kind) -> [u64; 2] {
        let [all, none] = [Kind::of(1, 1, kind.length().0), Kind::of(1, 0, kind.length().0)];
        // The time of a part in 64ths of a nanosecond, scaled.
        let part = |pure: Kind, quarters: u64| {
            let scale = self.of_way(pure.way(), pure.size())?;
            Some(u128::from(scale) * u128::from(pure.guess() / 4 * quarters))
        };
        let quarters = kind.reads();
        let [reads, writes] = [part(all, quarters), part(none, 4 - quarters)];
        let scale = |time: u128| u64::try_from(time / u128::from(kind.guess())).unwrap_or(u64::MAX);
        let least = reads.max(writes).map_or(SCALE_MIN, |longer| scale(longer - longer / PARTS_DIFFER));
        let sum = reads.zip(writes).map(|(reads, writes)| reads + writes);
        [least, sum.map_or(SCALE_MAX, |both| scale(both + both / PARTS_DIFFER))]
    }

    /// A kind that was never measured is priced as the known ones nearest to it in size, of its own way if there are any.
    fn fill_in(&mut self) {
        for kind in Kind::all() {
            self.scales[kind.index()] = match self.known[kind.index()].measured {
                0 => self.nearest(kind).min(self.of_other_sizes(kind)[1]),
                _ if kind.is_mixed() => self.priced(kind, self.parts(kind)),
                _ => self.priced(kind, [SCALE_MIN, SCALE_MAX]),
            };
        }
    }

    fn nearest(&self, kind: Kind) -> u64 {
        let known = Kind::all().filter(|other| self.known[other.index()].measured > 0);
        let far =
            |other: &Kind| (other.way().abs_diff(kind.way()) * SIZES, other.size().abs_diff(kind.size()));
        known.min_by_key(far).map_or(ONE, |other| self.known[other.index()].took.likely)
    }

    /// The scale of a kind that was measured, by what was measured of it and by its bounds.
    fn priced(&self, kind: Kind, [least, most]: [u64; 2]) -> u64 {
        let Took { least: from, most: to, .. } = self.known[kind.index()].took;
        let [smallest, largest] = self.of_other_sizes(kind);
        let from = from.max(least).max(smallest).min(to);
        let to = to.min(most).max(from);
        Took::between(from, to).likely.min(largest)
    }
}

/// `time` over what was guessed for it, with this many fractional bits, within bounds.
fn scale(time: u64, guessed: u64, bits: u32) -> u64 {
    let scale = (u128::from(time) << bits) / u128::from(guessed);
    u64::try_from(scale).unwrap_or(u64::MAX).clamp(SCALE_MIN, SCALE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const READS: Kind = Kind::SMALL_READS;

    #[test]
    fn a_price_is_what_was_measured() {
        let mut prices = Prices::new();
        let guessed = guess(IoKind::Read, Bytes::kib(4));
        prices.measure(READS, Took::exactly(1_000_000), guessed * 400);
        let price = prices.of(READS, IoKind::Read, Bytes::kib(4)).0;
        assert!((2499..=2500).contains(&price), "400 IOs in a millisecond: {price} ns");
    }

    #[test]
    fn what_differs_much_is_a_new_truth_and_what_differs_little_is_averaged() {
        let mut prices = Prices::new();
        prices.measure(READS, Took::exactly(100), 100);
        prices.measure(READS, Took::exactly(110), 100);
        assert_eq!(prices.scales[0], (ONE + ONE * 11 / 10) / 2);
        prices.measure(READS, Took::exactly(50), 100);
        assert_eq!((prices.scales[0], prices.measured(READS)), (ONE / 2, 1));
    }

    #[test]
    fn what_is_lower_is_less_than_is_believed() {
        let mut prices = Prices::new();
        prices.measure(READS, Took::exactly(200), 100);
        assert!(prices.is_lower(READS, 199, 100) && prices.is_lower(READS, 398, 200));
        assert!(!prices.is_lower(READS, 200, 100) && !prices.is_lower(READS, 201, 100));
    }

    #[test]
    fn a_byte_costs_no_more_in_a_larger_io() {
        let (small, large) = (Kind::of(1, 1, 32 << 10), Kind::of(1, 1, 128 << 10));
        let mut prices = Prices::new();
        let of = |prices: &Prices, kib| prices.of(large, IoKind::Read, Bytes::kib(kib)).0;
        prices.measure(large, Took::exactly(40_000_000), guess(IoKind::Read, Bytes::kib(128)) * 100);
        assert_eq!(of(&prices, 128), 399_999, "it has only a few IOs");
        prices.measure(small, Took::exactly(1_000_000), guess(IoKind::Read, Bytes::kib(32)) * 100);
        assert!((39_500..=40_000).contains(&of(&prices, 128)), "four times 10 µs, not {}", of(&prices, 128));
        prices.measure(small, Took::exactly(1_000_000), guess(IoKind::Read, Bytes::kib(32)));
        prices.measure(large, Took::exactly(20_000_000), guess(IoKind::Read, Bytes::kib(128)) * 1000);
        assert_eq!(of(&prices, 128), 19_999, "a large one may be cheaper");
    }

    #[test]
    fn a_small_io_costs_no_less_per_byte_than_a_large_one() {
        let (small, large) = (Kind::of(1, 1, 64 << 10), Kind::of(1, 1, 256 << 10));
        let mut prices = Prices::new();
        let of = |prices: &Prices| prices.of(small, IoKind::Read, Bytes::kib(64)).0;
        // Between 10 and 40 µs.
        let guessed = guess(IoKind::Read, Bytes::kib(64));
        prices.measure(small, Took::between(10_000_000, 40_000_000), guessed * 1000);
        assert!((19_900..=20_000).contains(&of(&prices)), "{}", of(&prices));
        prices.measure(large, Took::exactly(160_000_000), guess(IoKind::Read, Bytes::kib(256)) * 1000);
        assert!((39_900..=40_000).contains(&of(&prices)), "{}", of(&prices));
    }

    #[test]
    fn a_mix_is_priced_between_its_parts() {
        let [reads, writes] = [1, 0].map(|reads| Kind::of(1, reads, 64 << 10));
        let mix = Kind::of(4, 3, 4 * (64 << 10));
        let length = Bytes::kib(64);
        let time = |prices: &Prices| {
            let [reads, writes] = [IoKind::Read, IoKind::Write].map(|kind| prices.of(mix, kind, length).0);
            (3 * reads + writes) / 4
        };
        let guessed = 3 * guess(IoKind::Read, length) + guess(IoKind::Write, length);
        for (wide, expected) in [
            // Anything between 1 and 400 µs; its parts say: between 30 × 7/8 and 50 × 9/8 µs.
            (Took::between(4_000_000, 1_600_000_000), 38_425),
            // Known: then its parts say nothing.
            (Took::exactly(400_000_000), 100_000),
            (Took::exactly(40_000_000), 10_000),
        ] {
            let mut prices = Prices::new();
            prices.measure(mix, wide, guessed * 1000);
            prices.measure(reads, Took::exactly(40_000_000), guess(IoKind::Read, length) * 1000);
            prices.measure(writes, Took::exactly(80_000_000), guess(IoKind::Write, length) * 1000);
            assert!(
                time(&prices).abs_diff(expected) <= expected / 500,
                "{} ns, not {expected}",
                time(&prices)
            );
        }
    }

    #[test]
    fn slow_reads_are_believed_in_the_end() {
        let guessed = guess(IoKind::Read, Bytes::kib(4));
        let of = |prices: &Prices| prices.of(READS, IoKind::Read, Bytes::kib(4)).0;
        let mut prices = Prices::new();
        prices.measure(READS, Took::exactly(3_000), guessed);
        for _ in 1..SLOW_TIMES {
            prices.measure(READS, Took::exactly(9_000), guessed);
            assert!(of(&prices) <= 3_000 && prices.seem_slow(READS), "it may be the SSD's own work");
        }
        prices.measure(READS, Took::exactly(9_000), guessed);
        assert!(of(&prices) >= 8_999 && !prices.seem_slow(READS));
        // Faster reads are believed at once, and end a doubt.
        prices.measure(READS, Took::exactly(20_000), guessed);
        prices.measure(READS, Took::exactly(3_000), guessed);
        assert!(of(&prices) <= 3_000 && !prices.seem_slow(READS));
    }

    #[test]
    fn what_was_told_is_believed_until_one_of_it_is_found_wrong() {
        let mut teacher = Prices::new();
        let writes = Kind::of(1, 0, 128 << 10);
        for _ in 0..2 {
            teacher.measure(READS, Took::exactly(3_000), guess(IoKind::Read, Bytes::kib(4)));
            teacher.measure(writes, Took::exactly(90_000), guess(IoKind::Write, Bytes::kib(128)));
        }
        let learnt = teacher.learnt(2);
        assert_eq!(learnt.len(), 2);
        assert_eq!((learnt[0].reads, learnt[0].size), (ReadsPart::All, Bytes::kib(4)));
        assert!(learnt[0].time.0.abs_diff(3_000) <= 1, "{learnt:?}");
        let told = || {
            let mut prices = Prices::new();
            prices.tell(&learnt);
            prices
        };
        let of = |prices: &Prices| prices.of(writes, IoKind::Write, Bytes::kib(128)).0;
        assert!(of(&told()).abs_diff(90_000) < 50, "{}", of(&told()));
        // Right: measured once more, it is known, and the rest is still believed.
        let mut prices = told();
        let change = prices.measure(READS, Took::exactly(3_100), guess(IoKind::Read, Bytes::kib(4)));
        assert!(!change.told && prices.measured(READS) == 2 && prices.measured(writes) == 1);
        assert_eq!(prices.learnt(2).len(), 2, "what was told and not tried is worth telling again");
        // Wrong: nothing of it is believed.
        let mut prices = told();
        let change = prices.measure(READS, Took::exactly(9_000), guess(IoKind::Read, Bytes::kib(4)));
        assert!(change.told && prices.measured(writes) == 0);
        // A kind of its own way is priced as its nearest, which is the measured one.
        assert!(of(&prices) > 300_000, "{}", of(&prices));
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn scales_stay_between_what_was_measured(
            samples in prop::collection::vec((0..Kind::COUNT, 1..1u64 << 40, 0..1u64 << 40), 1..40),
        ) {
            let mut prices = Prices::new();
            for (kind, nanos, guessed) in samples {
                let kind = Kind::all().nth(kind).expect("there are so many");
                prices.measure(kind, Took::exactly(nanos), guessed);
            }
            let known = prices.known.iter().filter(|known| known.measured > 0).map(|known| known.took.likely);
            let (least, most) = (known.clone().min().unwrap_or(ONE), known.max().unwrap_or(ONE));
            prop_assert!((SCALE_MIN..=SCALE_MAX).contains(&least) && most <= SCALE_MAX);
            // Per byte, the smallest IOs are guessed to take several times as long as the largest.
            let least = (least / 8).max(SCALE_MIN);
            prop_assert!(prices.scales.iter().all(|scale| (least..=most).contains(scale)));
        }
    }
}
