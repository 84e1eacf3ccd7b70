//! Decides when to probe and which kind: every kind has its turn, and the cost of learning is bounded.
//!
//! No probe takes longer than [`LONGEST`], all together take no more than [`BUDGET`], [`DOUBT_BUDGET`] for each
//! change of the SSD that is followed up (at most [`DOUBTS`] in a row, and one more every [`DOUBT_PAUSE`]), those of a train (`evidence`)
//! once for each kind that writes, and one part in [`SHARE`] of the time; and after a kind has been measured [`FIRST`] times a pause of
//! [`SHARE`] times the probe follows. Every kind has its turn. A tenant that was away when the probe began does not wait for it. With one kind of work there is nothing to measure, and
//! with one tenant nothing to share.
//!
//! A train begins when everything is known and nothing was measured for [`TRAIN_AFTER`]: first shares are to be nearly fair, then right.
//!
//! The size of the buffer is learnt in passing: it is the amount that a probe of writes completes before it becomes
//! slower. If it takes longer to drain than probes of reads had waited until then, these are repeated, and a lower
//! price counts.
//!
//! Holds: probes take no more than their part of any span, and no probe takes longer (`probes_take_their_part_at_most`); no probe of writes
//!        comes before reads are known (`reads_are_measured_twice_before_anything_is_written_alone`).

use super::super::books::Present;
use super::super::evidence::TRAIN;
use super::super::kind::Kind;
use super::super::prices::Prices;
use super::{BUFFER_MAX, Found, LONGEST, Probe};
use units::{Bytes, Instant, Nanos};

/// Least absorbed amount that says anything about the buffer: with less, it was full already when the probe began.
const BUFFER_LEAST: u64 = 2 << 20;
/// Drain time of a buffer, before it was ever measured.
const DRAIN_UNKNOWN: Nanos = Nanos::millis(100);
/// The longest that a probe of reads waits for the buffer to drain.
const DRAIN_MAX: Nanos = Nanos(LONGEST.0 * 3 / 4);
/// Probes of a kind in quick succession, before it counts as known.
pub(in super::super) const FIRST: u32 = 2;
/// The pause between those.
const FIRST_PAUSE: Nanos = Nanos::millis(30);
/// The later pause, in multiples of the probe's length.
const SHARE: u64 = 200;
/// A probe that found nothing is repeated after twice this, then after four times this, and so on.
const BARREN_PAUSE: Nanos = Nanos::millis(250);
const BARREN_MAX: u32 = 8;
/// Time that probes may take in a row, on an SSD that is unknown.
const BUDGET: Nanos = Nanos::secs(4);
/// Time that they may take in addition when the SSD seems to have changed.
const DOUBT_BUDGET: Nanos = Nanos::millis(2500);
/// Time without a probe after which a train may begin; for a second try after one that was cut short it is [`TRAIN_AGAIN`].
const TRAIN_AFTER: Nanos = Nanos::secs(10);
const TRAIN_AGAIN: Nanos = Nanos::secs(60);
/// The pause between probes of a train: a quarter of that time is the others', and a reserve hardly refills meanwhile.
const TRAIN_PAUSE: Nanos = Nanos::millis(150);
/// Number of trains of one kind.
const TRAINS: u32 = 2;
/// Number of changes that may be followed up in a row, and the time after which one more may be.
const DOUBTS: u64 = 4;
const DOUBT_PAUSE: Nanos = Nanos::secs(250);

/// The schedule of probes.
#[derive(Clone, Debug)]
pub(in super::super) struct Explorer {
    /// When the next probe may begin: of a kind that is hardly known, and of any.
    soon: Instant,
    next: Instant,
    /// Time that probes may still take, and when that was counted.
    budget: Nanos,
    counted: Instant,
    /// The kind with a train of probes now, and how many of them may follow.
    train: Option<(Kind, u32)>,
    /// Number of trains of each kind that have begun.
    trains: [u32; Kind::COUNT],
    /// The instant at which all changes that were followed up will be paid for.
    doubts_until: Instant,
    /// When each kind last had its turn.
    turns: [u64; Kind::COUNT],
    /// Number of turns of each kind, up to [`FIRST`].
    tries: [u32; Kind::COUNT],
    turn: u64,
    /// Probes of each kind in a row that found nothing, and when the next one may begin.
    barren: [u32; Kind::COUNT],
    retries: [Instant; Kind::COUNT],
    /// Number of tenants of each kind when they left the SSD idle in its last probe; none if they did not.
    paced: [u32; Kind::COUNT],
    /// The highest rate that was ever seen of each kind.
    peaks: [u64; Kind::COUNT],
    /// Time for which the buffer could drain in the last successful probe of each kind.
    drained: [Nanos; Kind::COUNT],
    /// Size of the SSD's buffer, if known.
    buffer: Option<u64>,
}

impl Explorer {
    pub(in super::super) fn new() -> Explorer {
        let none = [0; Kind::COUNT];
        Explorer {
            soon: Instant::ZERO,
            next: Instant::ZERO,
            budget: BUDGET,
            counted: Instant::ZERO,
            train: None,
            trains: [0; Kind::COUNT],
            doubts_until: Instant::ZERO,
            turns: none,
            tries: [0; Kind::COUNT],
            turn: 0,
            barren: [0; Kind::COUNT],
            retries: [Instant::ZERO; Kind::COUNT],
            paced: [0; Kind::COUNT],
            peaks: none,
            drained: [Nanos::ZERO; Kind::COUNT],
            buffer: None,
        }
    }

    /// The kind to probe now, if any: of the kinds with busy tenants one that is hardly known, reads before writes;
    /// then reads that were measured while the buffer, by its size known now, may still have drained; then the kind with a
    /// train, or one that needs a train; or the kind that was probed longest ago.
    pub(in super::super) fn choose(
        &mut self,
        now: Instant,
        present: &Present,
        prices: &mut Prices,
    ) -> Option<Probe> {
        let earned = now.since(core::mem::replace(&mut self.counted, now)).0 / SHARE;
        self.budget = self.budget.max(Nanos(self.budget.0 + earned).min(BUDGET));
        if now < self.soon || self.budget < LONGEST || present.kinds().nth(1).is_none() {
            return None;
        }
        let drain = self.drain(present, prices);
        let was_hasty = |kind: Kind| {
            let waited = self.drained[kind.index()].0;
            prices.measured(kind) >= FIRST && waited > 0 && drain.0 * 2 > waited * 3
        };
        // More tenants may keep the SSD busy.
        let are_more = |kind: Kind| (1..present.busy[kind.index()]).contains(&self.paced[kind.index()]);
        let is_known = |kind: Kind| prices.measured(kind) >= FIRST && !are_more(kind);
        self.train =
            self.train.filter(|(kind, _)| present.busy[kind.index()] > 0 && !prices.has_evidence(*kind));
        let train = self.train.map(|(kind, _)| kind);
        let are_all_known = present.kinds().all(is_known);
        let needs_train = |kind: Kind| {
            let trains = self.trains[kind.index()];
            let after = if trains == 0 { TRAIN_AFTER } else { TRAIN_AGAIN };
            let is_due = are_all_known && trains < TRAINS && now >= self.soon + after;
            train == Some(kind) || train.is_none() && is_due && !prices.has_evidence(kind)
        };
        let kind = present
            .kinds()
            .filter(|kind| now >= self.retries[kind.index()])
            .filter(|kind| now >= self.next || !is_known(*kind) || was_hasty(*kind) || needs_train(*kind))
            .min_by_key(|kind| {
                let turn = self.turns[kind.index()];
                if is_known(*kind) {
                    return match () {
                        () if was_hasty(*kind) => (1, 0, turn),
                        // Of what writes most, a reserve is used up soonest.
                        () if needs_train(*kind) => (2, kind.reads() as u32, turn),
                        () => (3, 0, turn),
                    };
                }
                // A probe of writes may leave the SSD with work of its own for seconds, which makes reads seem slow.
                let tries = if kind.writes() { FIRST } else { self.tries[kind.index()] };
                (0, tries, turn)
            })?;
        let is_again = was_hasty(kind);
        let is_in_train = !is_again && (train == Some(kind) || is_known(kind) && needs_train(kind));
        if is_in_train && train.is_none() {
            self.begin_train(kind, prices);
        }
        self.tries[kind.index()] = (self.tries[kind.index()] + 1).min(FIRST);
        self.turn += 1;
        self.turns[kind.index()] = self.turn;
        let drain = match kind.writes() {
            true => Nanos::ZERO,
            false if prices.seem_slow(kind) => DRAIN_MAX,
            false => drain,
        };
        let all = present.busy.iter().map(|tenants| u64::from(*tenants)).sum();
        let tenants = [all, u64::from(present.busy[kind.index()])];
        let found_before = present.found[kind.index()];
        let weights = [present.weights.iter().sum(), present.weights[kind.index()]];
        let probe = Probe::new(now, kind, drain, self.peaks[kind.index()], tenants);
        Some(Probe { is_again, is_in_train, found_before, weights, ..probe })
    }

    fn begin_train(&mut self, kind: Kind, prices: &mut Prices) {
        prices.begin_train(kind);
        self.train = Some((kind, TRAIN));
        let trains = &mut self.trains[kind.index()];
        *trains += 1;
        if *trains == 1 {
            self.budget += Nanos(LONGEST.0 * u64::from(TRAIN));
        }
    }

    /// Notes that the SSD seems to have changed. Returns whether everything is to be measured again.
    pub(in super::super) fn doubt(&mut self, now: Instant) -> bool {
        let until = self.doubts_until.max(now) + DOUBT_PAUSE;
        if until > now + Nanos(DOUBT_PAUSE.0 * DOUBTS) {
            return false;
        }
        self.doubts_until = until;
        self.budget += DOUBT_BUDGET;
        // The highest rates seen before the change may be out of reach now.
        self.peaks = [0; Kind::COUNT];
        // Reads come before writes again.
        self.tries = [0; Kind::COUNT];
        true
    }

    /// Time that the buffer may take to drain while others read.
    fn drain(&self, present: &Present, prices: &Prices) -> Nanos {
        let writers = present.kinds().filter(|kind| kind.writes());
        let drain = |kind: Kind| {
            let per_byte = prices.written_byte(kind)?;
            let buffer = self.buffer.unwrap_or(BUFFER_MAX);
            // Reads slow it down.
            Some(Nanos((u128::from(buffer) * u128::from(per_byte) * 3 / 2 / 1024) as u64).min(DRAIN_MAX))
        };
        writers.map(|kind| drain(kind).unwrap_or(DRAIN_UNKNOWN)).max().unwrap_or(Nanos::ZERO)
    }

    /// Size of the SSD's buffer, if probes have found it.
    pub(in super::super) fn buffer(&self) -> Option<Bytes> {
        self.buffer.map(Bytes)
    }

    /// Takes over the size of the buffer that another Level has found.
    pub(in super::super) fn tell_buffer(&mut self, buffer: Option<Bytes>) {
        self.buffer = buffer.map(|buffer| buffer.0.min(BUFFER_MAX));
    }

    /// Forgets the size of the buffer, when facts told of the SSD proved wrong.
    pub(in super::super) fn forget_buffer(&mut self) {
        self.buffer = None;
    }

    /// Notes the end of a probe, after which its kind was measured this many times.
    pub(in super::super) fn on_end(
        &mut self,
        now: Instant,
        probe: &Probe,
        found: Option<Found>,
        measured: u32,
    ) {
        let taken = now.since(probe.begun);
        if measured >= FIRST {
            self.next = now + Nanos(taken.0.saturating_mul(SHARE));
        }
        self.budget = Nanos(self.budget.0.saturating_sub(taken.0));
        self.peaks[probe.kind.index()] = probe.windows.peak();
        if let Some(found) = found {
            self.drained[probe.kind.index()] = probe.drained.since(probe.begun);
            self.paced[probe.kind.index()] = if found.is_paced { probe.tenants[1] as u32 } else { 0 };
        }
        let barren = &mut self.barren[probe.kind.index()];
        // Others that came in between may come again whenever it is repeated as soon.
        *barren = if found.is_none() { (*barren + 1).min(BARREN_MAX) } else { 0 };
        // A train without findings has been cut short.
        self.train = self.train.filter(|_| found.is_some()).and_then(|(kind, left)| {
            let left = left - u32::from(kind == probe.kind);
            (left > 0).then_some((kind, left))
        });
        self.soon = now + if self.train.is_some() { TRAIN_PAUSE } else { FIRST_PAUSE };
        if found.is_none() {
            self.retries[probe.kind.index()] = now + Nanos(BARREN_PAUSE.0 << *barren);
        }
        let absorbed = found.map_or(0, |found| found.absorbed);
        if absorbed >= BUFFER_LEAST {
            self.buffer = Some(self.buffer.unwrap_or(0).max(absorbed).min(BUFFER_MAX));
        }
    }
}

#[cfg(test)]
#[path = "explorer_tests.rs"]
mod tests;
