//! Prices: the device time that an IO takes, learnt.
//!
//! Equal service means: of `n` saturated tenants each has the n-th part of the rate that the SSD would give it alone.
//! So an IO must be charged the inverse of the rate at which the SSD completes IOs of that kind when it does nothing
//! else. That rate cannot be measured in a mix: reads and writes slow each other down by more, or less, than their sum,
//! and a scheduler that is fair always sees the same mix. So it is measured as it is defined: now and then one kind of
//! work has the SSD for some milliseconds (`probe`).
//!
//! ```text
//!   price of an IO = a guess from its way and size  ×  scale of the kind of work that its tenant does
//!                      2 µs + 0.3 ns per byte read      measured: time that the SSD took / guessed time
//!                      4 µs + 1 ns per byte written
//! ```
//!
//! The kind (`kind`) belongs to the tenant, not to the IO: a tenant that reads and writes at once gets less from an SSD than both parts say, and
//! its share is a part of what *it* gets alone.
//!
//! A kind with few IOs is known only between bounds (`took`). Other kinds narrow them: a byte of a large IO costs no
//! more than a byte of a small one of the same way, and from 64 KiB on hardly less; a kind that reads and writes takes
//! no less time than the longer of its parts, and no more than both together; and reads take no longer than a kind of
//! which they are a part, or than writes of 64 KiB and more. Only the last of these rules detects a single tenant that
//! reads in sequence: its IOs may all wait for one part of the SSD, and those of several tenants would not.
//!
//! The price of a kind whose tenants went away before a probe was over has wide bounds. If the believed price lies
//! between them, they change nothing.
//!
//! A probe may fall between two stalls of an SSD that stalls in bursts, or into one. So a measurement that is far from
//! the believed price replaces it only when the next one is as far off in the same direction. Where the SSD seems to
//! have changed, one is enough for work that writes.
//!
//! A reserve of erased blocks makes writes cheaper than they are, for as long as it lasts: `evidence` says when a lower price of theirs is
//! believed.
//!
//! Nothing makes reads faster than they are, but the SSD's own work after writes makes them slower, for seconds. So reads that seem slow are not believed
//! at once.
//!
//! A price counts nanoseconds of device time as bytes: those of an SSD of 1 GB/s.
//!
//! Holds: a scale is a measured one, or between measured ones, and within its bounds
//!        (`scales_stay_between_what_was_measured`); no byte costs more in larger IOs
//!        (`a_byte_costs_no_more_in_a_larger_io`); a kind known only between bounds is priced by the kinds known better
//!        (`a_mix_is_priced_between_its_parts`, `a_small_io_costs_no_less_per_byte_than_a_large_one`); slow reads are
//!        believed in the end (`slow_reads_are_believed_in_the_end`); no single measurement replaces a belief
//!        (`what_is_far_from_what_is_believed_is_confirmed_first`).

use super::ALONE_LIMIT;
use super::evidence::{Evidence, Lower, Written};
use super::kind::{Kind, SIZES, guess};
use super::learnt::{LearntPrice, ReadsPart};
use super::took::Took;
use crate::IoKind;
use alloc::vec::Vec;
use core::cmp::Ordering;
use units::{Bytes, Nanos};

/// Fixed point of scales: 16 fractional bits.
const ONE: u64 = 1 << 16;
/// Bounds of a scale: no SSD, disk or memory is further from the guess.
const SCALE_MIN: u64 = ONE / 256;
const SCALE_MAX: u64 = ONE * 4096;
/// A measurement weighs one part in this number at least.
const MEMORY: u32 = 4;
/// IOs in flight that keep any SSD busy if each takes long.
const ENOUGH: u64 = 16;
/// A measurement that differs from the belief by more than one part in this number is a change, not noise, if the next
/// one confirms it.
const DIFFERS: u64 = 3;
/// Times in a row that reads must seem to take longer to be believed: it may be the SSD's own work after writes.
const SLOW_TIMES: u32 = 4;
/// The parts of a kind that reads and writes may together take longer than one after the other, by one part in this
/// number.
const PARTS_MORE: u128 = 12;
/// Error of conclusions from other kinds: at most one part in this number.
const KINDS_DIFFER: u64 = 4;
/// The part of a price, one in this number, by which it must differ to count as changed.
const CHANGED: u64 = 32;

/// Knowledge of one kind.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The times, as scales.
    took: Took,
    /// Number of measurements since it was last found different; at most [`MEMORY`].
    measured: u32,
    /// Whether the price comes from an earlier run and was never measured in this one; it counts as measured once.
    is_told: bool,
    /// Times in a row that it has seemed to be much more expensive.
    slow: u32,
    /// The last measurement, if it was far from the believed one and awaits confirmation.
    unconfirmed: Option<Took>,
    /// Whether the SSD may have changed since it was measured.
    is_doubted: bool,
}

impl Known {
    const NOTHING: Known = Known::new(Took::exactly(0), 0);

    /// Measured this many times.
    const fn new(took: Took, measured: u32) -> Known {
        Known { took, measured, is_told: false, slow: 0, unconfirmed: None, is_doubted: false }
    }

    /// Adds a measurement that hardly differs.
    fn confirm(&mut self, took: Took) {
        self.is_told = false;
        self.measured = (self.measured + 1).min(MEMORY);
        self.took = self.took.averaged(took, u64::from(self.measured));
        (self.slow, self.unconfirmed) = (0, None);
    }
}

/// Changes by a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The price of the kind, by more than one in [`CHANGED`].
    pub(super) price: bool,
    /// Whether the price of an earlier run proved wrong, so that all its prices not measured here were forgotten.
    pub(super) told: bool,
}

/// The scales of all kinds.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    known: [Known; Kind::COUNT],
    evidence: [Evidence; Kind::COUNT],
    /// Of every kind, known or not.
    scales: [u64; Kind::COUNT],
}

impl Prices {
    /// Prices with nothing known: every guess is taken as it is.
    pub(super) fn new() -> Prices {
        let evidence = [Evidence::default(); Kind::COUNT];
        Prices { known: [Known::NOTHING; Kind::COUNT], evidence, scales: [ONE; Kind::COUNT] }
    }

    /// The price of an IO of a tenant that does this kind of work.
    #[inline]
    pub(super) fn of(&self, work: Kind, kind: IoKind, length: Bytes) -> Bytes {
        // Below 2³³ × 2²⁸.
        Bytes(((guess(kind, length) * self.scales[work.index()]) >> 16).max(1))
    }

    /// Device time, at the price of this kind, of work that is guessed to take this long.
    fn of_guessed(&self, work: Kind, guessed: Bytes) -> Bytes {
        Bytes(((u128::from(guessed.0) * u128::from(self.scales[work.index()])) >> 16) as u64)
    }

    /// The device time that a probe of this kind may have in flight if `guessed` keeps any SSD busy. On an SSD that is known to be much slower
    /// than guessed, that many IOs only wait for one another, and others wait for them.
    pub(super) fn of_probe(&self, work: Kind, guessed: Bytes) -> Bytes {
        let limit = self.of_guessed(work, guessed);
        if self.measured(work) == 0 {
            return limit;
        }
        let kind = if work.writes() { IoKind::Write } else { IoKind::Read };
        let enough = Bytes(self.of(work, kind, work.length()).0.saturating_mul(ENOUGH));
        limit.min(enough.max(ALONE_LIMIT))
    }

    /// Time of the SSD for 1024 bytes that a tenant of this kind writes, ns; `None` if that was never measured.
    pub(super) fn written_byte(&self, work: Kind) -> Option<u64> {
        let length = work.length();
        (self.measured(work) > 0).then(|| self.of(work, IoKind::Write, length).0 * 1024 / length.0)
    }

    /// Number of measurements of the kind, up to [`MEMORY`].
    pub(super) fn measured(&self, work: Kind) -> u32 {
        self.known[work.index()].measured
    }

    /// Whether no reserve of erased blocks hides the price of this kind: a train of it was seen, or one of another kind, and that met
    /// none.
    pub(super) fn has_evidence(&self, work: Kind) -> bool {
        let has_none = |evidence: &Evidence| evidence.is_enough() && !evidence.met_reserve();
        !work.writes()
            || self.evidence[work.index()].is_enough()
            || self.evidence.iter().any(has_none) && !self.evidence.iter().any(Evidence::met_reserve)
    }

    /// Begins a train of probes of this kind.
    pub(super) fn begin_train(&mut self, work: Kind) {
        self.evidence[work.index()].begin_train();
    }

    /// Whether reads seemed slow the last time.
    pub(super) fn seem_slow(&self, work: Kind) -> bool {
        self.known[work.index()].slow > 0
    }

    /// Whether a measurement is below the price believed for this kind.
    pub(super) fn is_lower(&self, work: Kind, nanos: u64, guessed: u64) -> bool {
        u128::from(nanos) * u128::from(ONE)
            < u128::from(guessed) * u128::from(self.known[work.index()].took.likely)
    }

    /// Learns that the SSD `took` this time for IOs of this kind that were guessed to take `guessed`, in a probe that has `written` that
    /// much.
    pub(super) fn measure(&mut self, work: Kind, took: Took, guessed: u64, written: Written) -> Change {
        if guessed == 0 {
            return Change::default();
        }
        let before = self.scales[work.index()];
        let took = took.map(|nanos| scale(nanos, guessed, 16));
        let (known, evidence) = (&mut self.known[work.index()], &mut self.evidence[work.index()]);
        evidence.add(written, took.likely);
        if known.measured > 0 && !known.is_told && took.says_less_than(known.took) {
            known.measured = (known.measured + 1).min(MEMORY);
            return Change::default();
        }
        let differs = took.differs_from(known.took);
        let told = known.is_told && differs;
        let seems_slow = known.measured > 0 && differs && took.likely > known.took.likely;
        if seems_slow && !work.writes() && !known.is_told && known.slow + 1 < SLOW_TIMES {
            (known.slow, known.unconfirmed) = (known.slow + 1, None);
            return Change::default();
        }
        let is_first = known.measured == 0 || told;
        // Several measurements in a row confirm each other.
        let is_slow = seems_slow && !work.writes();
        // The service has confirmed that something is different now.
        let is_expected = core::mem::take(&mut known.is_doubted) && work.writes();
        let is_lower = took.likely < known.took.likely;
        if is_lower && work.writes() && !is_first && evidence.is_enough() {
            let lower = match differs {
                true => evidence.on_much_lower(written.bytes, is_expected),
                false => {
                    evidence.on_other();
                    if evidence.met_reserve() { Lower::Ignore } else { Lower::Believe }
                }
            };
            match (lower, differs) {
                (Lower::Believe, true) => *known = Known::new(took, 1),
                (Lower::Believe, false) => known.confirm(took),
                (Lower::Repeat, _) => {
                    (known.measured, known.unconfirmed) = (1, None);
                    return Change::default();
                }
                (Lower::Ignore, _) => {
                    known.measured = (known.measured + 1).min(MEMORY);
                    return Change::default();
                }
            }
        } else if is_first || differs && (is_slow || is_expected) {
            evidence.on_other();
            *known = Known::new(took, 1);
        } else if differs {
            if !is_lower {
                evidence.on_other();
            }
            let is_beyond = |took: Took| took.likely > known.took.likely;
            let Some(before) = known.unconfirmed.filter(|before| is_beyond(*before) == is_beyond(took))
            else {
                (known.unconfirmed, known.measured, known.slow) = (Some(took), 1, 0);
                return Change::default();
            };
            // Both are far off in the same direction. If they also differ much from each other, only the nearer one is
            // confirmed by both.
            let believed = known.took.likely;
            *known = match took.differs_from(before) {
                false => Known::new(before.averaged(took, 2), 2),
                true if took.likely.abs_diff(believed) < before.likely.abs_diff(believed) => {
                    Known::new(took, 1)
                }
                true => Known::new(before, 1),
            };
        } else {
            evidence.on_other();
            known.confirm(took);
        }
        if told {
            self.known.iter_mut().filter(|known| known.is_told).for_each(|known| *known = Known::NOTHING);
        }
        self.fill_in();
        Change { price: self.scales[work.index()].abs_diff(before) * CHANGED > before, told }
    }

    /// The same, in a probe that is no evidence for longer.
    #[cfg(test)]
    pub(super) fn measure_once(&mut self, work: Kind, took: Took, guessed: u64) -> Change {
        self.measure(work, took, guessed, Written { bytes: 0, is_in_train: false })
    }

    /// Counts each kind as measured once only: the SSD may have changed.
    pub(super) fn doubt(&mut self) {
        for known in &mut self.known {
            known.measured = known.measured.min(1);
            // Reads may be slower now, or the SSD may be busy with work of its own: two measurements decide.
            known.slow = SLOW_TIMES - 2;
            known.is_doubted = true;
        }
    }

    /// Takes over what another Level has learnt of the SSD.
    pub(super) fn tell(&mut self, prices: &[LearntPrice]) {
        for price in prices {
            let kind = Kind::of_learnt(price);
            let took = Took::exactly(scale(price.time.0, kind.guess(), 22));
            self.known[kind.index()] = Known { is_told: true, ..Known::new(took, 1) };
        }
        self.fill_in();
    }

    /// Prices for another Level: those measured often enough to be known, and those told and never measured.
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

    /// The lowest and the highest scale of a kind by the measured kinds of its way: a byte of a large IO costs no more
    /// than one of a small IO of the same way, and hardly less if both are large.
    fn of_other_sizes(&self, kind: Kind) -> [u64; 2] {
        let [mut least, mut most] = [SCALE_MIN, SCALE_MAX];
        for other in Kind::all().filter(|other| other.way() == kind.way()) {
            let known = &self.known[other.index()];
            let scaled = |scale: u64| scale * other.guess_of_kib() / kind.guess_of_kib();
            match other.size().cmp(&kind.size()) {
                _ if known.measured == 0 => {}
                Ordering::Less => {
                    most = most.min(scaled(known.took.most).max(SCALE_MIN));
                    if other.is_large() {
                        let lowest = scaled(known.took.least);
                        least = least.max(lowest - lowest / KINDS_DIFFER);
                    }
                }
                Ordering::Equal => {}
                Ordering::Greater => {
                    least = least.max(scaled(known.took.least));
                    if kind.is_large() {
                        let highest = scaled(known.took.most);
                        most = most.min((highest + highest / KINDS_DIFFER).max(SCALE_MIN));
                    }
                }
            }
        }
        [least, most]
    }

    /// The least and the most time of an IO of this kind, in 64ths of a nanosecond, scaled, by the measured kind
    /// nearest in size that does as much reading: its bytes may take as long as those of the other size, or longer or
    /// shorter by the ratio of the guesses.
    fn of_way(&self, pure: Kind) -> Option<[u128; 2]> {
        let known =
            Kind::all().filter(|kind| kind.way() == pure.way() && self.known[kind.index()].measured > 0);
        let nearest = known.min_by_key(|kind| kind.size().abs_diff(pure.size()))?;
        let Took { least, most, .. } = self.bounded(nearest, [SCALE_MIN, SCALE_MAX]);
        let as_guessed = u128::from(pure.guess());
        let by_bytes =
            u128::from(nearest.guess()) * u128::from(pure.length().0) / u128::from(nearest.length().0);
        Some([u128::from(least) * as_guessed.min(by_bytes), u128::from(most) * as_guessed.max(by_bytes)])
    }

    /// The lowest and the highest scale of a kind that reads and writes, by its measured parts: it takes no less time
    /// than the longer of the two, and no more than both, one after the other, with [`PARTS_MORE`] because they slow
    /// each other down.
    fn parts(&self, kind: Kind) -> [u64; 2] {
        let [all, none] = [Kind::of(1, 1, kind.length().0), Kind::of(1, 0, kind.length().0)];
        let part =
            |pure: Kind, quarters: u64| Some(self.of_way(pure)?.map(|time| time * u128::from(quarters) / 4));
        let quarters = kind.reads();
        let [reads, writes] = [part(all, quarters), part(none, 4 - quarters)];
        let scale = |time: u128| u64::try_from(time / u128::from(kind.guess())).unwrap_or(u64::MAX);
        let longer = [reads, writes].into_iter().flatten().map(|[least, _]| least).max();
        let sum = reads.zip(writes).map(|(reads, writes)| reads[1] + writes[1]);
        [longer.map_or(SCALE_MIN, scale), sum.map_or(SCALE_MAX, |both| scale(both + both / PARTS_MORE))]
    }

    /// The highest scale of a kind by the measured kinds that write more: the more of a kind is written, the longer it
    /// takes. Reads alone may take as long as reads during writes, as data goes both ways at once; and small ones
    /// longer than writes.
    fn of_more_written(&self, kind: Kind) -> u64 {
        let others = Kind::all().filter(|other| {
            let are_large = kind.is_large() && other.is_large();
            let are_alike = are_large || kind.size() == other.size() && (kind.writes() || other.is_mixed());
            other.way() > kind.way() && are_alike && self.known[other.index()].measured > 0
        });
        let bound = |other: Kind| {
            let quarters = if kind.writes() || other.is_written() { 4 } else { other.reads() };
            let time = self.known[other.index()].took.most * other.guess_of_kib() / quarters * 4;
            ((time + time / KINDS_DIFFER) / kind.guess_of_kib()).max(SCALE_MIN)
        };
        others.map(bound).min().unwrap_or(SCALE_MAX)
    }

    /// A kind that was never measured is priced as the known ones nearest to it in size, of its own way if there are any.
    fn fill_in(&mut self) {
        for kind in Kind::all() {
            self.scales[kind.index()] = match self.known[kind.index()].measured {
                0 => self.nearest(kind).min(self.of_other_sizes(kind)[1]),
                _ if kind.is_mixed() => self.bounded(kind, self.parts(kind)).likely,
                _ => self.bounded(kind, [SCALE_MIN, SCALE_MAX]).likely,
            };
        }
    }

    fn nearest(&self, kind: Kind) -> u64 {
        let known = Kind::all().filter(|other| self.known[other.index()].measured > 0);
        let far =
            |other: &Kind| (other.way().abs_diff(kind.way()) * SIZES, other.size().abs_diff(kind.size()));
        known.min_by_key(far).map_or(ONE, |other| self.known[other.index()].took.likely)
    }

    /// The scale of a measured kind, by its measurements and its bounds.
    fn bounded(&self, kind: Kind, [least, most]: [u64; 2]) -> Took {
        let Took { lowest, least: from, most: to, .. } = self.known[kind.index()].took;
        let [smallest, largest] = self.of_other_sizes(kind);
        let possible = if from < to { to.min(self.of_more_written(kind)).min(most) } else { to };
        // If it cannot take this long, its IOs got in each other's way, and those of several tenants would not: the
        // more, the longer it seemed to take.
        let part = u128::from(possible) * u128::from(possible) / u128::from(from.max(1));
        let from = if possible < from { lowest.max(part as u64) } else { from };
        let to = possible;
        let from = from.max(least).max(smallest).min(to).min(largest);
        Took::between(from, to.min(largest).max(from))
    }
}

impl Took {
    /// Whether it is far from another one.
    fn differs_from(self, other: Took) -> bool {
        self.likely.abs_diff(other.likely) * DIFFERS > other.likely
    }
}

/// Ratio of `time` to the guess for it, with this many fractional bits, within bounds.
fn scale(time: u64, guessed: u64, bits: u32) -> u64 {
    let scale = (u128::from(time) << bits) / u128::from(guessed);
    u64::try_from(scale).unwrap_or(u64::MAX).clamp(SCALE_MIN, SCALE_MAX)
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
