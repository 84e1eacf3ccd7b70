//! Probes: for a while, of the busy tenants only those that do one kind of work go to the SSD, and what that takes is measured.
//!
//! ```text
//!   a probe of reads      │ the buffer of the SSD drains │ counted windows │     until the windows are steady, or
//!   a probe of writes     │ the buffer of the SSD fills  │ counted windows │     LONGEST has passed
//!   other busy tenants      wait in the switch                             ►
//!   tenants that ask for little are served all the time
//! ```
//!
//! The write buffer of the SSD hides what writes cost. While it drains, reads are slower than they are alone; while it fills, writes are
//! faster. So the beginning of a probe does not count:
//!
//! - reads: as long as the buffer takes to drain, at the rate at which writes were last seen to drain. Reads suspend programs, so meanwhile few of
//!   them are in flight;
//! - anything that writes: until completions have become slower, because the buffer is full, or many times the buffer is written.
//!
//! A kind of work with few tenants may have too few IOs to keep the SSD busy by itself, where all tenants together have enough. So its
//! probe goes on with half of the IOs in flight. From both times follows between what bounds the time is with as many IOs as if all busy tenants
//! did this kind of work (`took`).
//!
//! Reads need no such inference: nothing becomes different by a read more. So in a probe of reads the scheduler adds *extra reads* like those of the kind,
//! until as many are in flight as if all busy tenants did this kind of work, and keeps them up if its tenants set the pace themselves. What the SSD
//! reads then is what is asked for. If an extra read fails, there are no more in that probe, and it goes on as one of writes does.
//!
//! Tenants that leave the SSD idle by what they write (their applications set the pace) say only between what bounds the price of their work is. (What
//! reads beside them leave of the time was tried, and as often made the price worse: reads and writes do not add up.)
//!
//! A tenant that comes during a probe does not wait for it. Windows in which it had much do not count, and if it goes on, the probe is over.
//!
//! How much the buffer holds is learnt in passing: it is what a probe of writes completes before it becomes slower. If it takes longer to drain
//! than probes of reads had waited until then, these are repeated, and a lower price counts.
//!
//! What learning may cost is bounded: no probe takes longer than [`LONGEST`], all together take no more than [`BUDGET`], [`DOUBT_BUDGET`] for each
//! change of the SSD that is followed up (at most [`DOUBTS`] in a row, and one more every [`DOUBT_PAUSE`]), and one part in
//! [`SHARE`] of the time; and after a kind has been measured [`FIRST`] times a pause of [`SHARE`] times the probe follows. Every kind has
//! its turn. A tenant that was away when the probe began does not wait for it. With one kind of work there is nothing to measure, and
//! with one tenant nothing to share.
//!
//! Holds: probes take no more than their part of any span, and no probe takes longer (`probes_take_their_part_at_most`); a probe goes on
//!        until what it sees is steady (`a_probe_of_reads_waits_until_the_buffer_has_drained`, `few_reads_are_in_flight_while_the_buffer_drains`,
//!        `a_probe_of_writes_waits_until_the_buffer_is_full`); how many IOs a kind has does not make its price
//!        (`a_kind_with_few_ios_is_priced_as_with_many`), nor does the pace of applications that leave the SSD idle
//!        (`tenants_that_leave_the_ssd_idle_bound_their_price`); reads are priced as with all IOs
//!        (`extra_reads_make_up_for_tenants_that_do_something_else`), and no more are in flight than that, or than is bounded
//!        (`extra_reads_are_bounded`); no probe of writes comes before reads are known
//!        (`reads_are_measured_twice_before_anything_is_written_alone`).

use super::ALONE_LIMIT;
use super::books::Present;
use super::kind::{Kind, guess};
use super::prices::Prices;
use super::took::Took;
use crate::{ExtraRead, Io, IoKind, Outcome};
use units::{Bytes, Instant, Nanos};

/// The longest probe.
pub(super) const LONGEST: Nanos = Nanos::millis(500);
/// The longest that it goes on with all IOs if half of them are still to be tried.
const DEEP_LONGEST: Nanos = Nanos(LONGEST.0 * 3 / 5);
/// With fewer IOs than this, what half of them take says little of a kind that reads and writes.
const FEW: u64 = 12;
/// So many extra reads, and so many bytes of them, are in flight at most: what keeps any SSD busy. And there are none while so much device time is in
/// flight: a light tenant's IO waits behind all that.
const EXTRA_MOST: u64 = 1024;
const EXTRA_BYTES_MOST: Bytes = Bytes(8 << 20);
const EXTRA_TIME_MOST: Bytes = Bytes(2_000_000);
/// A kind with less than this part of what it had outstanding before is paced by its applications.
const PACED: [u128; 2] = [2, 3];
/// Without any IO for so long, the probe is over: its tenants are gone, or ask for little. If they have a few IOs each, all may be on their way
/// to a host and back.
pub(super) const QUIET: Nanos = Nanos::micros(300);
/// Completions are counted in windows of this length.
const WINDOW: Nanos = Nanos::millis(10);
/// Windows of the longest probe.
const WINDOWS: usize = (LONGEST.0 / WINDOW.0) as usize;
/// The result is the mean of this many windows at least.
const LEAST: usize = 4;
/// The same of anything that writes: a buffer empties in bursts.
const LEAST_WRITING: usize = 16;
/// The largest buffer that SSDs have, bytes.
const BUFFER_MAX: u64 = 32 << 20;
/// What is absorbed less than this says nothing of the buffer: it was full already when the probe began.
const BUFFER_LEAST: u64 = 2 << 20;
/// After this many bytes written, a buffer that still fills makes little difference.
const BUFFER_PASSED: u64 = 6 * BUFFER_MAX;
/// The rate by which a full buffer is known is that of so many windows.
const LATELY: usize = 4;
/// The buffer was full when the rate has fallen by one part in this number.
const FALLEN: u64 = 6;
/// A window of which others had more than one part in this number does not count if there are others: what they did is known by its price
/// only, and may have gone on at the same time.
const OTHERS_MOST: u64 = 8;
/// If others had more than one part in this number, nothing was seen.
const OTHERS_TOO_MANY: u64 = 3;
/// A probe is over when that was so in each of this many windows in a row: a tenant has come that does not wait for it.
const CROWDED: usize = 8;
/// Two spans are equally fast if their rates differ by at most one part in this number.
const STEADY: u64 = 33;
/// How long a buffer takes to drain, before that was ever measured.
const DRAIN_UNKNOWN: Nanos = Nanos::millis(100);
/// What may be in flight while the buffer drains: with as much as fits, it would drain several times as slowly.
const DRAIN_LIMIT: Bytes = Bytes(20_000);
/// The longest that a probe of reads waits for the buffer to drain.
const DRAIN_MAX: Nanos = Nanos(LONGEST.0 * 3 / 4);
/// Probes of a kind in quick succession, before it counts as known.
pub(super) const FIRST: u32 = 2;
/// The pause between those.
const FIRST_PAUSE: Nanos = Nanos::millis(30);
/// After those, the pause is this many times the probe.
const SHARE: u64 = 200;
/// A probe that found nothing is repeated after twice this, then after four times this, and so on.
const BARREN_PAUSE: Nanos = Nanos::millis(250);
const BARREN_MAX: u32 = 8;
/// What probes may take in a row, on an SSD that is unknown.
const BUDGET: Nanos = Nanos::secs(4);
/// What they may take in addition when the SSD seems to have changed.
const DOUBT_BUDGET: Nanos = Nanos::millis(2500);
/// So many changes may be followed up in a row, and one more after this time for each.
const DOUBTS: u64 = 4;
const DOUBT_PAUSE: Nanos = Nanos::secs(250);

/// What completed in a span: guesses of the kind's IOs, charges of all others', bytes written by the kind.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    span: u64,
    guessed: u64,
    others: u64,
    written: u64,
    /// How many of their tenant's outstanding the kind's IOs found, summed up, and those that arrived.
    found: u64,
    arrived: u64,
}

/// The extra reads of a probe.
#[derive(Clone, Copy, Debug, Default)]
struct Extra {
    /// Like the kind's last read.
    like: Option<ExtraRead>,
    /// Whether there were any, and whether one has failed.
    any: bool,
    failed: bool,
}

/// A running probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// The kind of work that has the SSD.
    pub(super) kind: Kind,
    /// It was measured, but the buffer may still have drained, which makes reads slow, never fast. So only a lower price counts.
    pub(super) is_again: bool,
    begun: Instant,
    /// Whether the buffer may still drain.
    is_draining: bool,
    /// Since when nothing is in flight.
    quiet: Option<Instant>,
    /// The buffer has drained by then.
    drained: Instant,
    window_begun: Instant,
    now: Window,
    windows: [Window; WINDOWS],
    ended: usize,
    /// The first window that counts.
    first: Option<usize>,
    written: u64,
    /// The highest rate that was ever seen of the kind.
    peak: u64,
    /// All busy tenants, and those of the kind.
    tenants: [u64; 2],
    /// The weights of both, summed up.
    weights: [u64; 2],
    /// Device time in flight, summed up over completions, and those.
    in_flight: [u64; 2],
    /// Device time of the kind's IOs that have ended, summed up, and those.
    own: [u64; 2],
    /// How many outstanding the kind's IOs found before the probe, summed up, and those.
    found_before: [u64; 2],
    /// The same since it began.
    found_since: [u64; 2],
    extra: Extra,
    /// What was found with all IOs in flight; now half of them are.
    deep: Option<Found>,
}

/// What comes after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The probe goes on.
    Continue,
    /// The buffer has drained: it goes on with [`Probe::limit`] in flight.
    Open,
    /// It goes on with this much device time in flight.
    Limit(Bytes),
    /// Enough was seen.
    End,
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The time that the SSD took, and the guess for it, ns.
    pub(super) took: Took,
    pub(super) guessed: u64,
    /// What the buffer has absorbed, bytes.
    absorbed: u64,
    /// The kind's tenants left the SSD idle: they ask for more than they get beside others, and for less than the SSD can do.
    is_paced: bool,
}

/// When to probe, and what.
#[derive(Clone, Debug)]
pub(super) struct Explorer {
    /// When the next probe may begin: of a kind that is hardly known, and of any.
    soon: Instant,
    next: Instant,
    /// What probes may still take, and when that was counted.
    budget: Nanos,
    counted: Instant,
    /// Until when all changes that were followed up will be paid for.
    doubts_until: Instant,
    /// When each kind last had its turn.
    turns: [u64; Kind::COUNT],
    /// How often each kind had its turn, up to [`FIRST`].
    tries: [u32; Kind::COUNT],
    turn: u64,
    /// Probes of each kind in a row that found nothing, and when the next one may begin.
    barren: [u32; Kind::COUNT],
    retries: [Instant; Kind::COUNT],
    /// How many tenants of each kind there were when they left the SSD idle in its last probe; none if they did not.
    paced: [u32; Kind::COUNT],
    /// The highest rate that was ever seen of each kind.
    peaks: [u64; Kind::COUNT],
    /// How long the buffer could drain in the last successful probe of each kind.
    drained: [Nanos; Kind::COUNT],
    /// What the buffer of the SSD holds, as far as is known.
    buffer: Option<u64>,
}

impl Explorer {
    pub(super) fn new() -> Explorer {
        let none = [0; Kind::COUNT];
        Explorer {
            soon: Instant::ZERO,
            next: Instant::ZERO,
            budget: BUDGET,
            counted: Instant::ZERO,
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

    /// Whether to probe now, and what: of the kinds with busy tenants one that is hardly known, reads before writes, then reads that were
    /// measured while the buffer may still have drained, as is known by now, or the kind that was probed longest ago.
    pub(super) fn choose(&mut self, now: Instant, present: &Present, prices: &Prices) -> Option<Probe> {
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
        let kind = present
            .kinds()
            .filter(|kind| now >= self.retries[kind.index()])
            .filter(|kind| now >= self.next || !is_known(*kind) || was_hasty(*kind))
            .min_by_key(|kind| {
                let turn = self.turns[kind.index()];
                if is_known(*kind) {
                    return (if was_hasty(*kind) { 1 } else { 2 }, 0, turn);
                }
                // A probe of writes may leave the SSD with work of its own for seconds, which makes reads seem slow.
                let tries = if kind.writes() { FIRST } else { self.tries[kind.index()] };
                (0, tries, turn)
            })?;
        let is_again = was_hasty(kind);
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
        Some(Probe { is_again, found_before, weights, ..probe })
    }

    /// The SSD seems to have changed. Answers whether everything is to be measured again.
    pub(super) fn doubt(&mut self, now: Instant) -> bool {
        let until = self.doubts_until.max(now) + DOUBT_PAUSE;
        if until > now + Nanos(DOUBT_PAUSE.0 * DOUBTS) {
            return false;
        }
        self.doubts_until = until;
        self.budget += DOUBT_BUDGET;
        // What was fast then may never be so again.
        self.peaks = [0; Kind::COUNT];
        // Reads come before writes again.
        self.tries = [0; Kind::COUNT];
        true
    }

    /// How long the buffer may take to drain while others read.
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

    /// What the buffer of the SSD holds, as far as probes have seen.
    pub(super) fn buffer(&self) -> Option<Bytes> {
        self.buffer.map(Bytes)
    }

    /// What another has seen of the buffer.
    pub(super) fn tell_buffer(&mut self, buffer: Option<Bytes>) {
        self.buffer = buffer.map(|buffer| buffer.0.min(BUFFER_MAX));
    }

    /// What was told of the SSD is wrong.
    pub(super) fn forget_buffer(&mut self) {
        self.buffer = None;
    }

    /// A probe has ended, and its kind was measured this many times by now.
    pub(super) fn on_end(&mut self, now: Instant, probe: &Probe, found: Option<Found>, measured: u32) {
        let taken = now.since(probe.begun);
        self.soon = now + FIRST_PAUSE;
        if measured >= FIRST {
            self.next = now + Nanos(taken.0.saturating_mul(SHARE));
        }
        self.budget = Nanos(self.budget.0.saturating_sub(taken.0));
        self.peaks[probe.kind.index()] = probe.peak;
        if let Some(found) = found {
            self.drained[probe.kind.index()] = probe.drained.since(probe.begun);
            self.paced[probe.kind.index()] = if found.is_paced { probe.tenants[1] as u32 } else { 0 };
        }
        let barren = &mut self.barren[probe.kind.index()];
        // Others that came in between say nothing of the kind.
        let is_barren = found.is_none() && !probe.is_crowded();
        *barren = if is_barren { (*barren + 1).min(BARREN_MAX) } else { 0 };
        if found.is_none() {
            self.retries[probe.kind.index()] = now + Nanos(BARREN_PAUSE.0 << *barren);
        }
        let absorbed = found.map_or(0, |found| found.absorbed);
        if absorbed >= BUFFER_LEAST {
            self.buffer = Some(self.buffer.unwrap_or(0).max(absorbed).min(BUFFER_MAX));
        }
    }
}

impl Probe {
    /// A probe of a kind whose highest rate so far is `peak`; the buffer takes `drain` to drain. `tenants` are how many tenants are busy, and
    /// how many of them are of the kind.
    pub(super) fn new(now: Instant, kind: Kind, drain: Nanos, peak: u64, tenants: [u64; 2]) -> Probe {
        let window = Window::default();
        Probe {
            kind,
            is_again: false,
            begun: now,
            is_draining: drain > Nanos::ZERO,
            quiet: None,
            drained: now + drain,
            window_begun: now,
            now: window,
            windows: [window; WINDOWS],
            ended: 0,
            first: None,
            written: 0,
            peak,
            tenants,
            weights: tenants,
            in_flight: [0; 2],
            own: [0; 2],
            found_before: [0; 2],
            found_since: [0; 2],
            extra: Extra::default(),
            deep: None,
        }
    }

    /// How long it has lasted.
    pub(super) fn lasts(&self, now: Instant) -> Nanos {
        now.since(self.begun)
    }

    /// How much may be in flight now, device time as it was guessed before anything was measured.
    pub(super) fn limit(&self) -> Bytes {
        if self.is_draining { DRAIN_LIMIT } else { ALONE_LIMIT }
    }

    /// When it is over at the latest.
    pub(super) fn ends(&self) -> Instant {
        self.begun + LONGEST
    }

    /// When it is over at the latest if nothing is in flight now, and nothing comes.
    pub(super) fn ends_if_quiet(&mut self, now: Instant) -> Instant {
        self.ends().min(*self.quiet.get_or_insert(now) + QUIET)
    }

    /// An IO of the kind has arrived, and found this many of its tenant's outstanding.
    #[inline]
    pub(super) fn on_arrival(&mut self, outstanding: usize) {
        self.now.found += outstanding as u64;
        self.now.arrived += 1;
        self.found_since = [self.found_since[0] + outstanding as u64, self.found_since[1] + 1];
    }

    /// An IO of the kind goes to the SSD.
    #[inline]
    pub(super) fn on_submit(&mut self, io: &Io) {
        if io.kind == IoKind::Read {
            self.extra.like = Some(ExtraRead { tenant: io.tenant, length: io.length });
        }
    }

    /// The extra read to do now, if this much device time is in flight besides `extra` such reads, each of which counts as its price.
    pub(super) fn extra_read(
        &mut self,
        in_flight: Bytes,
        extra: u64,
        price: impl Fn(Bytes) -> Bytes,
    ) -> Option<ExtraRead> {
        if self.kind.writes() || self.is_draining || self.extra.failed {
            return None;
        }
        let read = self.extra.like?;
        let fits = extra < EXTRA_MOST && (extra + 1).saturating_mul(read.length.0) <= EXTRA_BYTES_MOST.0;
        let [before, since] =
            [self.found_before, self.found_since].map(|[found, ios]| found.div_ceil(ios.max(1)) + 1);
        let wanted = before.max(since).saturating_mul(self.tenants[0]);
        let price = price(read.length).0.max(1);
        let time = in_flight.0 + extra * price;
        if !fits || time >= EXTRA_TIME_MOST.0 || time / price >= wanted {
            return None;
        }
        self.extra.any = true;
        Some(read)
    }

    /// An extra read has ended.
    pub(super) fn on_extra_read(&mut self, now: Instant, read: ExtraRead, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Failed => self.extra.failed = true,
            // That of an earlier probe says nothing.
            Outcome::Success { latency } if latency <= self.lasts(now) && !self.is_draining => {
                self.now.guessed += guess(IoKind::Read, read.length);
                return self.on_time(now);
            }
            Outcome::Success { .. } => {}
        }
        Step::Continue
    }

    /// An IO has ended: of the kind that is probed (`own`), of a tenant that waits for the probe and that was in the SSD before
    /// (`is_left_over`), or another one. This much device time is in flight with it.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        now: Instant,
        own: bool,
        is_left_over: bool,
        io: &Io,
        in_flight: Bytes,
    ) -> Step {
        self.quiet = None;
        if is_left_over {
            // Until all of those have ended there is nothing to see.
            (self.window_begun, self.ended, self.now) = (now, 0, Window::default());
            (self.first, self.written, self.in_flight, self.own) = (None, 0, [0; 2], [0; 2]);
            return Step::Continue;
        }
        if self.is_draining {
            if now < self.drained {
                return Step::Continue;
            }
            self.is_draining = false;
            self.window_begun = now;
            return Step::Open;
        }
        if own {
            self.own = [self.own[0] + u64::from(io.mark.0), self.own[1] + 1];
            self.now.guessed += guess(io.kind, io.length);
            self.now.written += if io.kind.pays_as_write() { io.length.0 } else { 0 };
        } else {
            self.now.others += u64::from(io.mark.0);
        }
        self.in_flight = [self.in_flight[0] + in_flight.0, self.in_flight[1] + 1];
        self.on_time(now)
    }

    #[inline]
    fn on_time(&mut self, now: Instant) -> Step {
        let span = now.since(self.window_begun);
        if span < WINDOW { Step::Continue } else { self.close_window(now, span) }
    }

    #[cold]
    fn close_window(&mut self, now: Instant, span: Nanos) -> Step {
        self.window_begun = now;
        if self.ended == WINDOWS {
            return Step::End;
        }
        let window = Window { span: span.0, ..core::mem::take(&mut self.now) };
        self.windows[self.ended] = window;
        self.ended += 1;
        self.written += window.written;
        // A single window says little: garbage collection makes some of them slow.
        let lately = Window::sum(&self.windows[self.ended.saturating_sub(LATELY)..self.ended]).rate();
        if self.ended >= LATELY {
            self.peak = self.peak.max(lately);
        }
        if self.is_crowded() {
            return Step::End;
        }
        // Half of the IOs need their time, too.
        let is_late = self.deep.is_none()
            && self.lasts(now) >= DEEP_LONGEST
            && self.needs_half()
            && self.measured().is_some();
        if self.first.is_none() && !is_late {
            let is_full = self.ended >= LATELY && lately <= self.peak - self.peak / FALLEN;
            let is_past_buffer = match self.kind.writes() {
                true => self.deep.is_some() || is_full || self.written >= BUFFER_PASSED,
                false => now >= self.drained,
            };
            self.first = is_past_buffer.then_some(self.ended);
            return Step::Continue;
        }
        if self.steady().is_none() && !is_late {
            return Step::Continue;
        }
        if self.deep.is_some() || !self.needs_half() {
            return Step::End;
        }
        self.deep = self.measured();
        if self.deep.is_some_and(|deep| deep.is_paced) {
            // With fewer in flight it would be no other.
            return Step::End;
        }
        // What is in flight takes its time to become less.
        (self.ended, self.first) = (0, None);
        let [sum, completions] = self.in_flight;
        Step::Limit(Bytes(sum / completions.max(1) / 2))
    }

    /// Whether others have come that do not wait for it, and have had too much for a while.
    fn is_crowded(&self) -> bool {
        let latest = &self.windows[self.ended.saturating_sub(CROWDED)..self.ended];
        let are_too_many = |window: &Window| window.others >= window.span / OTHERS_TOO_MANY;
        self.ended >= CROWDED && latest.iter().all(are_too_many)
    }

    /// The windows that count, if their two halves are equally fast: all since the buffer made no difference, or the later half of them.
    fn steady(&self) -> Option<&[Window]> {
        let counted = &self.windows[self.first?..self.ended];
        let least = if self.kind.writes() { LEAST_WRITING } else { LEAST };
        let is_steady = |windows: &&[Window]| {
            let (early, late) = windows.split_at(windows.len() / 2);
            let [early, late] = [early, late].map(|half| Window::sum(half).rate());
            windows.len() >= least && early.abs_diff(late) <= late / STEADY
        };
        [counted, &counted[counted.len() / 2..]].into_iter().find(is_steady)
    }

    /// What was found; `None` if too little was seen, or too much of others.
    pub(super) fn result(&self) -> Option<Found> {
        let [all, own] = self.tenants;
        let of_part = |nanos: u64, [all, own]: [u64; 2]| {
            let least = u128::from(nanos) * u128::from(own) / u128::from(all.max(1));
            Took::between(least as u64, nanos)
        };
        // The SSD may do nothing better with more IOs, or all of them at once.
        let of_few = |nanos: u64| of_part(nanos, self.tenants);
        let Some(deep) = self.deep.filter(|deep| !deep.is_paced) else {
            let found = self.measured()?;
            let took = match found.is_paced {
                // The SSD could do more of it; and busy tenants ask for more than their share.
                true => of_part(found.took.likely, self.weights),
                // They went away before half of their IOs were tried.
                false if self.needs_half() => of_few(found.took.likely),
                false => found.took,
            };
            return Some(Found { took, ..found });
        };
        let deep_nanos = deep.took.likely;
        // For what was guessed in the deep part, with half of the IOs. More than twice as long is not their doing.
        let half = self.measured().map(|shallow| {
            let half =
                u128::from(shallow.took.likely) * u128::from(deep.guessed) / u128::from(shallow.guessed);
            u64::try_from(half).unwrap_or(u64::MAX)
        });
        let took = match half.filter(|half| *half / 9 <= deep_nanos / 4) {
            Some(half) => {
                let took = Took::with_all(deep_nanos, half, own, all.max(1));
                match () {
                    () if self.kind.writes_most() => took.near_the_most(),
                    () if self.kind.is_mixed() && self.has_few() => took.less_sure(own, all),
                    () => took,
                }
            }
            None if self.has_few() => of_few(deep_nanos),
            None => deep.took,
        };
        Some(Found { took, ..deep })
    }

    /// Whether more IOs than there are might get more from the SSD. Writes fill the buffer, and then some are enough.
    fn needs_half(&self) -> bool {
        let [all, own] = self.tenants;
        all > own && (!self.kind.is_written() || self.has_few()) && !self.is_filled()
    }

    /// Whether extra reads make up for the IOs that there are not.
    fn is_filled(&self) -> bool {
        self.extra.any && !self.extra.failed
    }

    /// Whether there are so few IOs of the kind that all of them often wait for the same part of the SSD.
    fn has_few(&self) -> bool {
        self.ios_in_flight() < FEW
    }

    /// IOs of the kind's mean price that were in flight on average.
    fn ios_in_flight(&self) -> u64 {
        let ([in_flight, completions], [marks, ios]) = (self.in_flight, self.own);
        let per_io = u128::from(marks) * u128::from(completions);
        u64::try_from(u128::from(in_flight) * u128::from(ios) / per_io.max(1)).unwrap_or(u64::MAX)
    }

    /// Whether the kind's tenants left the SSD idle: their IOs found much less outstanding than before, and much less was in flight.
    fn is_paced(&self, found: u64, ios: u64) -> bool {
        let [found_before, ios_before] = self.found_before;
        let is_much_less = |now: u64, ios: u64, before: u64| {
            let [now, before] =
                [(now, ios_before), (before, ios)].map(|(a, b)| u128::from(a) * u128::from(b));
            now * PACED[1] < before * PACED[0]
        };
        let before = found_before.saturating_mul(self.tenants[1]);
        is_much_less(found, ios, found_before) && is_much_less(self.ios_in_flight(), 1, before)
    }

    /// What the windows say.
    fn measured(&self) -> Option<Found> {
        let all = &self.windows[..self.ended];
        // What is not steady in the longest probe is measured all the same, as late as possible.
        let middle = usize::midpoint(self.first.unwrap_or(0), self.ended);
        let late = &all[middle.min(self.ended.saturating_sub(LEAST))..];
        let counted = self.steady().unwrap_or(late);
        let is_clean = |window: &&Window| window.others <= window.span / OTHERS_MOST;
        let are_clean = counted.iter().filter(is_clean).count() >= LEAST / 2;
        let Window { span, guessed, others, written, found, arrived } =
            Window::sum(counted.iter().filter(|window| !are_clean || is_clean(window)));
        // What others had counts as what they were charged. They ask for little; if not, the probe says nothing.
        let most = span / OTHERS_TOO_MANY;
        if self.is_crowded() || counted.len() < LEAST / 2 || guessed == 0 || others >= most {
            return None;
        }
        let nanos = span - others;
        let before = Window::sum(&all[..self.ended - counted.len()]);
        let drained = u128::from(written) * u128::from(before.span) / u128::from(span.max(1));
        let absorbed = u128::from(before.written).saturating_sub(drained) as u64;
        let is_paced = !self.is_filled() && self.is_paced(found, arrived);
        Some(Found { took: Took::exactly(nanos), guessed, absorbed, is_paced })
    }
}

impl Window {
    /// What was guessed per time.
    fn rate(&self) -> u64 {
        let span = self.span.saturating_sub(self.others).max(1);
        (u128::from(self.guessed) * (1 << 20) / u128::from(span)) as u64
    }

    fn sum<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Window {
        windows.into_iter().fold(Window::default(), |sum, window| Window {
            span: sum.span + window.span,
            guessed: sum.guessed + window.guessed,
            others: sum.others + window.others,
            written: sum.written + window.written,
            found: sum.found + window.found,
            arrived: sum.arrived + window.arrived,
        })
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
