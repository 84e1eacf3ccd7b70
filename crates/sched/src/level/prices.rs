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
//! The kind belongs to the tenant, not to the IO: a tenant that reads and writes at once gets less from an SSD than both parts say, and
//! its share is a part of what *it* gets alone. Kinds are coarse (reads' part in four steps, the mean size in powers of two),
//! so what was learnt from one tenant holds for the next.
//!
//! A byte of a large IO costs no more than a byte of a small one of the same way: a kind with few IOs, which is hard to price, is bounded by
//! what is known of smaller IOs.
//!
//! A price counts nanoseconds of device time as bytes: those of an SSD of 1 GB/s.
//!
//! Holds: a scale is what was measured, or between the scales of what was, and within its bounds (`scales_stay_between_what_was_measured`);
//!        no byte costs more in larger IOs (`a_byte_costs_no_more_in_a_larger_io`).

use super::learnt::{LearntPrice, ReadsPart};
use crate::IoKind;
use alloc::vec::Vec;
use units::{Bytes, Nanos};

/// A kind of work: how much of it is read, and how large its IOs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind(u8);

/// Steps of the size: up to 4 KiB, 8, … 512 KiB and more.
const SIZES: usize = 8;
/// Steps of the reads' part: all, most, less than half, none.
const WAYS: usize = 4;
const SIZE_MIN: u64 = 4096;

impl Kind {
    pub(super) const COUNT: usize = SIZES * WAYS;

    /// The kind of `ios` IOs of `bytes` in all, of which `reads` are reads.
    pub(super) fn of(ios: u32, reads: u32, bytes: u64) -> Kind {
        let way = match (reads * 16, ios * 15, ios * 8, ios) {
            (reads, all, _, _) if reads >= all => 0,
            (reads, _, half, _) if reads >= half => 1,
            (reads, _, _, none) if reads > none => 2,
            _ => 3,
        };
        // Rounded: a mean between two steps belongs to the nearer one.
        let mean = bytes / u64::from(ios.max(1)) * 4 / 3;
        let size = (mean / SIZE_MIN).max(1).ilog2().min(SIZES as u32 - 1);
        Kind((way * SIZES as u32 + size) as u8)
    }

    /// The kind of these IOs, or this one if they are near it: a tenant between two kinds does not change its kind all the time.
    pub(super) fn or(self, ios: u32, reads: u32, bytes: u64) -> Kind {
        let (part, rest) = (ios / 16, bytes / 8);
        let near = |reads, bytes| Kind::of(ios, reads, bytes) == self;
        let is_near = [reads.saturating_sub(part), reads, ios.min(reads + part)]
            .into_iter()
            .any(|reads| [bytes - rest, bytes, bytes + rest].into_iter().any(|bytes| near(reads, bytes)));
        if is_near { self } else { Kind::of(ios, reads, bytes) }
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(super) fn all() -> impl Iterator<Item = Kind> {
        (0..Kind::COUNT as u8).map(Kind)
    }

    /// Whether any of it is written.
    pub(super) fn writes(self) -> bool {
        self.way() > 0
    }

    fn way(self) -> usize {
        self.index() / SIZES
    }

    fn size(self) -> usize {
        self.index() % SIZES
    }

    /// The kind that a price is of, or the nearest there is.
    fn of_learnt(price: &LearntPrice) -> Kind {
        let way = ReadsPart::ALL.iter().position(|part| *part == price.reads).expect("all four are there");
        let size = (price.size.0 / SIZE_MIN).max(1).ilog2().min(SIZES as u32 - 1);
        Kind((way * SIZES) as u8 + size as u8)
    }

    /// The size of its IOs.
    pub(super) fn length(self) -> Bytes {
        Bytes(SIZE_MIN << self.size())
    }

    /// What is guessed for an IO of its size, in 64ths of a nanosecond.
    fn guess(self) -> u64 {
        let length = self.length();
        // The middle of each step of the reads' part, in quarters.
        let reads = [4, 3, 1, 0][self.way()];
        (reads * guess(IoKind::Read, length) + (4 - reads) * guess(IoKind::Write, length)) * 16
    }

    /// What is guessed for 1024 bytes of it, in 64ths of a nanosecond.
    fn guess_of_kib(self) -> u64 {
        self.guess() * 1024 / self.length().0
    }
}

/// The device time of an IO on an unknown SSD, ns.
#[inline]
pub(super) fn guess(kind: IoKind, length: Bytes) -> u64 {
    // A length beyond any command is charged as the longest.
    let length = length.0.min(1 << 32);
    if kind.pays_as_write() { 4_000 + length } else { 2_000 + length * 3 / 10 }
}

/// Fixed point of scales: 16 fractional bits.
const ONE: u64 = 1 << 16;
/// No SSD, disk or memory is further from the guess.
const SCALE_MIN: u64 = ONE / 256;
const SCALE_MAX: u64 = ONE * 4096;
/// A measurement weighs one part in this number at least.
const MEMORY: u32 = 4;
/// A measurement this far from what was believed (one in three) is a new truth, not noise.
const DIFFERS: u64 = 3;
/// A price that changed by less is the same price.
const CHANGED: u64 = 32;

/// What is known of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    scale: u64,
    /// How often it was measured since it was last found different; at most [`MEMORY`].
    measured: u32,
    /// It was told and never measured; told counts as measured once.
    is_told: bool,
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
        Prices { known: [Known::default(); Kind::COUNT], scales: [ONE; Kind::COUNT] }
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

    /// Whether a measurement says less than is believed of this kind.
    pub(super) fn is_lower(&self, work: Kind, nanos: u64, guessed: u64) -> bool {
        u128::from(nanos) * u128::from(ONE) < u128::from(guessed) * u128::from(self.known[work.index()].scale)
    }

    /// The SSD took `nanos` for IOs of this kind that were guessed to take `guessed`.
    pub(super) fn measure(&mut self, work: Kind, nanos: u64, guessed: u64) -> Change {
        if guessed == 0 {
            return Change::default();
        }
        let before = self.scales[work.index()];
        let scale = u128::from(nanos) * u128::from(ONE) / u128::from(guessed);
        let scale = u64::try_from(scale).unwrap_or(u64::MAX).clamp(SCALE_MIN, SCALE_MAX);
        let known = &mut self.known[work.index()];
        let differs = scale.abs_diff(known.scale) * DIFFERS > known.scale;
        let told = known.is_told && differs;
        if known.measured == 0 || differs {
            *known = Known { scale, measured: 1, is_told: false };
        } else {
            known.is_told = false;
            known.measured = (known.measured + 1).min(MEMORY);
            let weight = u64::from(known.measured);
            known.scale = (known.scale * (weight - 1) + scale) / weight;
        }
        if told {
            self.known.iter_mut().filter(|known| known.is_told).for_each(|known| *known = Known::default());
        }
        self.fill_in();
        Change { price: self.scales[work.index()].abs_diff(before) * CHANGED > before, told }
    }

    /// The SSD may have changed: what is known of each kind counts as measured once.
    pub(super) fn doubt(&mut self) {
        self.known.iter_mut().for_each(|known| known.measured = known.measured.min(1));
    }

    /// What another Level has learnt of the SSD.
    pub(super) fn tell(&mut self, prices: &[LearntPrice]) {
        for price in prices {
            let kind = Kind::of_learnt(price);
            let guessed = kind.guess();
            let scale = (u128::from(price.time.0) << 22) / u128::from(guessed);
            let scale = u64::try_from(scale).unwrap_or(u64::MAX).clamp(SCALE_MIN, SCALE_MAX);
            self.known[kind.index()] = Known { scale, measured: 1, is_told: true };
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
            let time = (u128::from(self.known[kind.index()].scale) * u128::from(kind.guess())) >> 22;
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

    /// The highest scale of a kind at which its bytes cost no more than those of smaller IOs of its way, as far as these were measured.
    fn most(&self, kind: Kind) -> u64 {
        let smaller = Kind::all().filter(|other| other.way() == kind.way() && other.size() < kind.size());
        let known = smaller.filter(|other| self.known[other.index()].measured > 0);
        known
            .map(|other| self.known[other.index()].scale * other.guess_of_kib() / kind.guess_of_kib())
            .min()
            .map_or(SCALE_MAX, |most| most.max(SCALE_MIN))
    }

    /// A kind that was never measured is priced as the known ones nearest to it in size, of its own way if there are any.
    fn fill_in(&mut self) {
        for kind in Kind::all() {
            let own = self.known[kind.index()];
            let nearest = || {
                let known = Kind::all().filter(|other| self.known[other.index()].measured > 0);
                let far = |other: &Kind| {
                    (other.way().abs_diff(kind.way()) * SIZES, other.size().abs_diff(kind.size()))
                };
                known.min_by_key(far).map_or(ONE, |other| self.known[other.index()].scale)
            };
            let scale = if own.measured > 0 { own.scale } else { nearest() };
            self.scales[kind.index()] = scale.min(self.most(kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const READS: Kind = Kind(0);

    #[test]
    fn kinds_go_by_the_part_that_is_read_and_the_mean_size() {
        let kind = |ios, reads, kib: u64| Kind::of(ios, reads, (u64::from(ios) * kib) << 10);
        assert_eq!(kind(64, 64, 4), READS);
        assert_eq!(kind(64, 61, 4), READS, "a few writes do not count");
        assert_ne!(kind(64, 45, 4), READS);
        assert_ne!(kind(64, 45, 4), kind(64, 19, 4));
        assert_eq!((kind(64, 0, 128).way(), kind(64, 0, 128).size()), (3, 5));
        assert_eq!(kind(1, 1, 1 << 20).size(), SIZES - 1);
        assert_eq!(kind(64, 64, 100), kind(64, 64, 128), "the nearer step");
    }

    #[test]
    fn a_tenant_between_two_kinds_keeps_its_kind() {
        let bytes = 256 * 4096;
        let mostly_reads = Kind::of(256, 140, bytes);
        assert_ne!(Kind::of(256, 120, bytes), mostly_reads);
        assert_eq!(mostly_reads.or(256, 120, bytes), mostly_reads);
        assert_ne!(mostly_reads.or(256, 90, bytes), mostly_reads);
        assert_ne!(mostly_reads.or(256, 140, bytes * 2), mostly_reads);
    }

    #[test]
    fn a_price_is_what_was_measured() {
        let mut prices = Prices::new();
        let guessed = guess(IoKind::Read, Bytes::kib(4));
        prices.measure(READS, 1_000_000, guessed * 400);
        let price = prices.of(READS, IoKind::Read, Bytes::kib(4)).0;
        assert!((2499..=2500).contains(&price), "400 IOs in a millisecond: {price} ns");
    }

    #[test]
    fn what_differs_much_is_a_new_truth_and_what_differs_little_is_averaged() {
        let mut prices = Prices::new();
        prices.measure(READS, 100, 100);
        prices.measure(READS, 110, 100);
        assert_eq!(prices.scales[0], (ONE + ONE * 11 / 10) / 2);
        prices.measure(READS, 200, 100);
        assert_eq!((prices.scales[0], prices.measured(READS)), (2 * ONE, 1));
    }

    #[test]
    fn what_is_lower_is_less_than_is_believed() {
        let mut prices = Prices::new();
        prices.measure(READS, 200, 100);
        assert!(prices.is_lower(READS, 199, 100) && prices.is_lower(READS, 398, 200));
        assert!(!prices.is_lower(READS, 200, 100) && !prices.is_lower(READS, 201, 100));
    }

    #[test]
    fn a_byte_costs_no_more_in_a_larger_io() {
        let (small, large) = (Kind::of(1, 1, 32 << 10), Kind::of(1, 1, 128 << 10));
        let mut prices = Prices::new();
        let of = |prices: &Prices, kib| prices.of(large, IoKind::Read, Bytes::kib(kib)).0;
        prices.measure(large, 40_000_000, guess(IoKind::Read, Bytes::kib(128)) * 100);
        assert_eq!(of(&prices, 128), 399_999, "it has only a few IOs");
        prices.measure(small, 1_000_000, guess(IoKind::Read, Bytes::kib(32)) * 100);
        assert!((39_500..=40_000).contains(&of(&prices, 128)), "four times 10 µs, not {}", of(&prices, 128));
        prices.measure(small, 1_000_000, guess(IoKind::Read, Bytes::kib(32)));
        prices.measure(large, 20_000_000, guess(IoKind::Read, Bytes::kib(128)) * 1000);
        assert_eq!(of(&prices, 128), 19_999, "a large one may be cheaper");
    }

    #[test]
    fn what_was_told_is_believed_until_one_of_it_is_found_wrong() {
        let mut teacher = Prices::new();
        let writes = Kind::of(1, 0, 128 << 10);
        for _ in 0..2 {
            teacher.measure(READS, 3_000, guess(IoKind::Read, Bytes::kib(4)));
            teacher.measure(writes, 90_000, guess(IoKind::Write, Bytes::kib(128)));
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
        let change = prices.measure(READS, 3_100, guess(IoKind::Read, Bytes::kib(4)));
        assert!(!change.told && prices.measured(READS) == 2 && prices.measured(writes) == 1);
        assert_eq!(prices.learnt(2).len(), 2, "what was told and not tried is worth telling again");
        // Wrong: nothing of it is believed.
        let mut prices = told();
        let change = prices.measure(READS, 9_000, guess(IoKind::Read, Bytes::kib(4)));
        assert!(change.told && prices.measured(writes) == 0);
        // A kind of its own way is priced as its nearest, which is the measured one.
        assert!(of(&prices) > 300_000, "{}", of(&prices));
    }

    proptest! {
        #![proptest_config(crate::random_cases(200))]

        #[test]
        fn scales_stay_between_what_was_measured(
            samples in prop::collection::vec((0..Kind::COUNT as u8, 1..1u64 << 40, 0..1u64 << 40), 1..40),
        ) {
            let mut prices = Prices::new();
            for (kind, nanos, guessed) in samples {
                prices.measure(Kind(kind), nanos, guessed);
            }
            let known = prices.known.iter().filter(|known| known.measured > 0).map(|known| known.scale);
            let (least, most) = (known.clone().min().unwrap_or(ONE), known.max().unwrap_or(ONE));
            prop_assert!((SCALE_MIN..=SCALE_MAX).contains(&least) && most <= SCALE_MAX);
            // Per byte, the smallest IOs are guessed to take several times as long as the largest.
            let least = (least / 8).max(SCALE_MIN);
            prop_assert!(prices.scales.iter().all(|scale| (least..=most).contains(scale)));
        }
    }
}
