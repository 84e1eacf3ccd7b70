//! Probes: for a while, of the busy tenants only those that do one kind of work go to the SSD, and the time it takes is
//! measured.
//!
//! ```text
//!   a probe of reads      │ the buffer of the SSD drains │ counted windows │     until the windows are steady, or
//!   a probe of writes     │ the buffer of the SSD fills  │ counted windows │     LONGEST has passed
//!   other busy tenants      wait in the switch                             ►
//!   tenants that ask for little are served all the time
//! ```
//!
//! The write buffer of the SSD hides the cost of writes. While it drains, reads are slower than they are alone; while
//! it fills, writes are faster. So the beginning of a probe does not count:
//!
//! - reads: as long as the buffer takes to drain, at the rate at which writes were last seen to drain. Reads suspend programs, so meanwhile few of
//!   them are in flight;
//! - anything that writes: until completions have become slower, because the buffer is full, or many times the buffer is written.
//!
//! An SSD that collects garbage on all its parts at once serves nothing meanwhile, for tens of milliseconds. Where there are such pauses, whole
//! cycles count, from the end of one to the end of another: otherwise it would be chance how many pauses are among the windows.
//!
//! A kind of work with few tenants may have too few IOs to keep the SSD busy by itself, where all tenants together have
//! enough. So its probe goes on with half of the IOs in flight, or as near to that as it gets. From both times follow
//! the bounds of the time with as many IOs as if all busy tenants did this kind of work (`took`).
//!
//! Reads need no such inference: one more read changes nothing. So in a probe of reads the scheduler adds *extra reads*
//! like those of the kind, until as many are in flight as if all busy tenants did this kind of work, and keeps that up
//! if its tenants set the pace themselves. The rate of the SSD then is the result. If its tenants have nothing more to
//! do while the buffer drains, the extra reads are the only ones. (Without that, light readers that seemed busy before
//! their reads had a price never got one: their reads had always ended by then.) If an extra read fails, there are no
//! more in that probe, and it goes on as one of writes does.
//!
//! Tenants that leave the SSD idle by their writes (their applications set the pace) only give bounds for the price of
//! their work. (Using the time that reads beside them leave was tried, and as often made the price worse: reads and
//! writes do not add up.)
//!
//! A tenant that comes during a probe does not wait for it. Windows in which it had much do not count, and if it
//! continues, the probe is over.
//!
//! Elsewhere: the [`Explorer`] decides when a probe runs, and for which kind.
//!
//! Holds: a probe goes on until its windows are steady (`a_probe_of_reads_waits_until_the_buffer_has_drained`,
//!        `few_reads_are_in_flight_while_the_buffer_drains`, `a_probe_of_writes_waits_until_the_buffer_is_full`); a
//!        kind's price does not depend on its number of IOs (`a_kind_with_few_ios_is_priced_as_with_many`), stays open
//!        where fewer IOs say nothing (`that_hardly_fewer_are_in_flight_says_nothing_of_more`), and is lower by more
//!        IOs where latencies vary (`the_more_latencies_vary_the_more_is_gained_by_more_ios`); IOs that come seldom are
//!        waited for (`a_probe_waits_for_ios_that_come_seldom`); IOs on the network are not in the SSD
//!        (`ios_on_their_way_to_the_host_and_back_are_missing_in_the_ssd`); the price depends neither on the pace of
//!        applications that leave the SSD idle (`tenants_that_leave_the_ssd_idle_bound_their_price`), nor on the data
//!        that the buffer takes (`what_the_buffer_takes_is_no_price`), nor on the pauses of the SSD that a probe happens to see
//!        (`an_ssd_that_pauses_is_priced_by_whole_cycles`); reads are priced as with all IOs
//!        (`extra_reads_make_up_for_tenants_that_do_something_else`, `extra_reads_go_on_when_the_tenants_are_gone`),
//!        and no more are in flight than that, or than is bounded (`extra_reads_are_bounded`).

mod explorer;
mod extra;
mod latencies;
mod windows;

pub(super) use explorer::{Explorer, FIRST};

use super::evidence::Written;
use super::kind::{Kind, guess};
use super::took::{EIGHTHS, Took};
use super::{ALONE_LIMIT, PERIOD};
use crate::{ExtraRead, Io, IoKind, Outcome};
use extra::Extra;
use latencies::Latencies;
use units::{Bytes, Instant, Nanos};
use windows::{OTHERS_TOO_MANY, Window, Windows};

/// The longest probe.
pub(super) const LONGEST: Nanos = Nanos::millis(500);
/// The longest that a probe goes on with all IOs if half of them are still to be tried.
const DEEP_LONGEST: Nanos = Nanos(LONGEST.0 * 3 / 5);
/// With fewer IOs than this, the time of half of them says little about a kind that reads and writes.
const FEW: u64 = 12;
/// Place of the likely price between the most and the least if more is written than read, and if nothing is read: the
/// latency of writes says nothing, as the buffer takes them.
const OF_MORE_WRITES: u64 = EIGHTHS / 4;
const OF_WRITES: u64 = EIGHTHS / 2;
/// The same if its applications set the pace: one that asked for hardly more than its share would not seem busy for long.
const OF_PACED: u64 = EIGHTHS * 3 / 8;
/// Fixed point of IOs in flight.
const SIXTEENTHS: u64 = 16;
/// Least ratio by which IOs are fewer when half of them should be in flight: of a few IOs there is no half.
const FEWER: [u128; 2] = [5, 4];
/// A kind with less outstanding than this part of its number before the probe is paced by its applications.
const PACED: [u128; 2] = [2, 3];
/// Time without any IO after which the probe is over: its tenants are away, or ask for little. If they have a few IOs
/// each, all may be on their way to a host and back.
pub(super) const QUIET: Nanos = Nanos::micros(300);
/// The same in intervals at which its IOs came in the period before, if that is longer; but at most [`QUIET_MOST`].
const INTERVALS: u64 = 4;
const QUIET_MOST: Nanos = Nanos::millis(5);
/// Least number of windows; the result is their mean.
const LEAST: usize = 4;
/// Least number of windows of anything that writes: a buffer empties in bursts.
const LEAST_WRITING: usize = 16;
/// Cycles that are enough of an SSD that pauses again and again.
const CYCLES: usize = 3;
/// The largest buffer that SSDs have, bytes.
const BUFFER_MAX: u64 = 32 << 20;
/// After this many bytes written, a buffer that still fills makes little difference.
const BUFFER_PASSED: u64 = 6 * BUFFER_MAX;
/// A window in which others had more than one part in this number does not count if enough windows are left: the
/// others' work is known by its price only, and may have gone on at the same time.
const OTHERS_MOST: u64 = 8;
/// Limit on device time in flight while the buffer drains: with as much as fits, it would drain several times as
/// slowly.
const DRAIN_LIMIT: Bytes = Bytes(20_000);

/// A running probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    /// The kind of work that has the SSD.
    pub(super) kind: Kind,
    /// Whether it was measured before, when the buffer may still have drained, which makes reads slow, never fast. So
    /// only a lower price counts.
    pub(super) is_again: bool,
    /// Whether it follows another probe of the kind closely, or others will follow it, as evidence that the price lasts.
    is_in_train: bool,
    begun: Instant,
    /// Whether the buffer may still drain.
    is_draining: bool,
    /// The instant since which nothing is in flight.
    quiet: Option<Instant>,
    /// The instant by which the buffer has drained.
    drained: Instant,
    windows: Windows,
    /// All busy tenants, and those of the kind.
    tenants: [u64; 2],
    /// The weights of both, summed up.
    weights: [u64; 2],
    /// Device time in flight, summed up over completions, and those.
    in_flight: [u64; 2],
    /// The part of that device time that is of the kind.
    of_kind: u64,
    /// The device time of other IOs that is in flight.
    others: Bytes,
    /// Device time of the kind's IOs that have ended, summed up, and those.
    own: [u64; 2],
    /// Sum of the outstanding IOs that the kind's IOs found before the probe, and number of these.
    found_before: [u64; 2],
    /// The same since it began.
    found_since: [u64; 2],
    extra: Extra,
    /// Latencies of the kind's reads in this part of the probe.
    latencies: Latencies,
    /// Findings with all IOs in flight, and their number; now half of them are.
    deep: Option<(Found, u64)>,
}

/// Next step after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Continue the probe.
    Continue,
    /// Continue with [`Probe::limit`] in flight: the buffer has drained.
    Open,
    /// Continue with this much device time in flight.
    Limit(Bytes),
    /// End the probe: enough was seen.
    End,
}

/// Findings of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The time that the SSD took, and the guess for it, ns.
    pub(super) took: Took,
    pub(super) guessed: u64,
    /// Bytes that the buffer has absorbed.
    absorbed: u64,
    /// The kind's tenants left the SSD idle: they ask for more than they get together with others, and for less than the SSD can do.
    is_paced: bool,
}

impl Probe {
    /// A probe of a kind whose highest rate until now is `peak`; the buffer takes `drain` to drain. `tenants` are the
    /// numbers of all busy tenants and of those of the kind.
    pub(super) fn new(now: Instant, kind: Kind, drain: Nanos, peak: u64, tenants: [u64; 2]) -> Probe {
        Probe {
            kind,
            is_again: false,
            is_in_train: false,
            begun: now,
            is_draining: drain > Nanos::ZERO,
            quiet: None,
            drained: now + drain,
            windows: Windows::new(now, peak),
            tenants,
            weights: tenants,
            in_flight: [0; 2],
            of_kind: 0,
            others: Bytes::ZERO,
            own: [0; 2],
            found_before: [0; 2],
            found_since: [0; 2],
            extra: Extra::default(),
            latencies: Latencies::default(),
            deep: None,
        }
    }

    /// Its age.
    pub(super) fn lasts(&self, now: Instant) -> Nanos {
        now.since(self.begun)
    }

    /// The bytes that its kind has written.
    pub(super) fn written(&self) -> Written {
        Written { bytes: self.windows.written(), is_in_train: self.is_in_train }
    }

    /// Limit on device time in flight now, in the guesses used before anything was measured.
    pub(super) fn limit(&self) -> Bytes {
        if self.is_draining { DRAIN_LIMIT } else { ALONE_LIMIT }
    }

    /// When it is over at the latest.
    pub(super) fn ends(&self) -> Instant {
        self.begun + LONGEST
    }

    /// When something is to be done at the latest if nothing is in flight now, and nothing comes: the probe is over, or
    /// extra reads go on without its tenants.
    pub(super) fn wakes_if_quiet(&mut self, now: Instant) -> Instant {
        let quiet = *self.quiet.get_or_insert(now);
        let wakes =
            if self.fills_itself() && self.is_draining { self.drained } else { quiet + self.patience() };
        wakes.min(self.ends())
    }

    /// Time for which it waits for an IO: some that are large come seldom.
    fn patience(&self) -> Nanos {
        let [_, ios] = self.found_before;
        let seldom = (PERIOD.0 * INTERVALS).checked_div(ios).map_or(QUIET, Nanos);
        seldom.clamp(QUIET, QUIET_MOST)
    }

    /// Handles that quiet time. Extra reads take over when the buffer has drained.
    pub(super) fn on_quiet(&mut self, now: Instant) -> Step {
        match self.fills_itself() && self.is_draining && now < self.ends() {
            true => self.open(now),
            false => Step::End,
        }
    }

    /// Begins the measurement: the buffer has drained.
    fn open(&mut self, now: Instant) -> Step {
        self.is_draining = false;
        self.windows.begin(now);
        Step::Open
    }

    /// Whether extra reads can do what its tenants do.
    fn fills_itself(&self) -> bool {
        !self.kind.writes() && self.extra.can_go()
    }

    /// Counts an IO of the kind that has arrived and found this many of its tenant's outstanding.
    #[inline]
    pub(super) fn on_arrival(&mut self, outstanding: usize) {
        let window = self.windows.open();
        window.found += outstanding as u64;
        window.arrived += 1;
        self.found_since = [self.found_since[0] + outstanding as u64, self.found_since[1] + 1];
    }

    /// Notes an IO that goes to the SSD, of the kind (`own`) or not.
    #[inline]
    pub(super) fn on_submit(&mut self, own: bool, io: &Io) {
        if !own {
            self.others += Bytes(u64::from(io.mark.0));
            return;
        }
        self.extra.on_submit(io);
    }

    /// The part of `all` device time in flight at the end of an IO that is of the kind. IOs that others had submitted
    /// before the probe count, too.
    #[inline]
    fn of_kind(&mut self, all: Bytes, own: bool, io: &Io) -> Bytes {
        let of_kind = Bytes(all.0.saturating_sub(self.others.0));
        if !own {
            self.others = Bytes(self.others.0.saturating_sub(u64::from(io.mark.0)));
        }
        of_kind
    }

    /// The extra read to do now, if this much device time is in flight in addition to `extra` such reads, each of which counts as its price.
    pub(super) fn extra_read(
        &mut self,
        in_flight: Bytes,
        extra: u64,
        price: impl Fn(Bytes) -> Bytes,
    ) -> Option<ExtraRead> {
        if self.is_draining || !self.fills_itself() {
            return None;
        }
        let [before, since] =
            [self.found_before, self.found_since].map(|[found, ios]| found.div_ceil(ios.max(1)) + 1);
        let wanted = before.max(since).saturating_mul(self.tenants[0]);
        self.extra.next(wanted, in_flight, extra, price)
    }

    /// Counts an extra read that has ended.
    pub(super) fn on_extra_read(&mut self, now: Instant, read: ExtraRead, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Failed => self.extra.fail(),
            // That of an earlier probe says nothing.
            Outcome::Success { latency } if latency <= self.lasts(now) && !self.is_draining => {
                let window = self.windows.open();
                window.guessed += guess(IoKind::Read, read.length);
                window.ios += 1;
                return self.on_time(now, false);
            }
            Outcome::Success { .. } => {}
        }
        Step::Continue
    }

    /// Notes the end of an IO: of the kind that is probed (`own`), of a tenant that waits for the probe and that was in
    /// the SSD before (`is_left_over`), or another one. This much device time is in flight with it.
    #[inline]
    pub(super) fn on_completion(
        &mut self,
        now: Instant,
        own: bool,
        is_left_over: bool,
        io: &Io,
        latency: Nanos,
        in_flight: Bytes,
    ) -> Step {
        self.quiet = None;
        let of_kind = self.of_kind(in_flight, own, io);
        if is_left_over {
            // Until all of those have ended there is nothing to see.
            self.windows.discard(now);
            self.latencies = Latencies::default();
            (self.in_flight, self.of_kind, self.own) = ([0; 2], 0, [0; 2]);
            return Step::Continue;
        }
        if self.is_draining {
            if now < self.drained {
                return Step::Continue;
            }
            return self.open(now);
        }
        if own {
            self.own = [self.own[0] + u64::from(io.mark.0), self.own[1] + 1];
            let window = self.windows.open();
            window.guessed += guess(io.kind, io.length);
            window.ios += 1;
            if io.kind == IoKind::Read {
                self.latencies.add(latency);
            }
            window.written += if io.kind.pays_as_write() { io.length.0 } else { 0 };
        } else {
            self.windows.open().others += u64::from(io.mark.0);
        }
        self.in_flight = [self.in_flight[0] + in_flight.0, self.in_flight[1] + 1];
        self.of_kind += of_kind.0;
        self.on_time(now, of_kind == Bytes::ZERO)
    }

    #[inline]
    fn on_time(&mut self, now: Instant, is_idle: bool) -> Step {
        match self.windows.over(now) {
            None => Step::Continue,
            Some(span) => self.close_window(now, span, is_idle),
        }
    }

    #[cold]
    fn close_window(&mut self, now: Instant, span: Nanos, is_idle: bool) -> Step {
        let Some(lately) = self.windows.close(now, span, is_idle) else { return Step::End };
        if self.windows.is_crowded() {
            return Step::End;
        }
        // Half of the IOs need their time, too.
        let is_late = self.deep.is_none()
            && self.lasts(now) >= DEEP_LONGEST
            && self.needs_half()
            && self.measured().is_some();
        if self.windows.first().is_none() && !is_late {
            let is_past_buffer = match self.kind.writes() {
                true => {
                    self.deep.is_some()
                        || self.windows.is_full(lately)
                        || self.windows.written() >= BUFFER_PASSED
                }
                false => now >= self.drained,
            };
            if is_past_buffer {
                self.windows.count_from_now();
            }
            return Step::Continue;
        }
        if !self.is_enough() && !is_late {
            return Step::Continue;
        }
        if self.deep.is_some() || !self.needs_half() {
            return Step::End;
        }
        self.deep = self.measured().map(|found| (found, self.in_flight()));
        if self.deep.is_some_and(|(deep, _)| deep.is_paced) {
            // With fewer in flight it would be no other.
            return Step::End;
        }
        let [sum, completions] = self.in_flight;
        // IOs in flight take their time to become fewer.
        self.windows.begin_part();
        self.latencies = Latencies::default();
        (self.in_flight, self.of_kind, self.own) = ([0; 2], 0, [0; 2]);
        Step::Limit(Bytes(sum / completions.max(1) / 2))
    }

    /// Whether the windows that count say what more of them would.
    fn is_enough(&self) -> bool {
        match self.windows.cycles() {
            Some((windows, cycles)) => cycles >= CYCLES && windows.len() >= LEAST,
            None => self.steady().is_some(),
        }
    }

    /// The windows that count, if they are steady.
    fn steady(&self) -> Option<&[Window]> {
        self.windows.steady(if self.kind.writes() { LEAST_WRITING } else { LEAST })
    }

    /// The findings; `None` if too little was seen, or too much of others.
    pub(super) fn result(&self) -> Option<Found> {
        let of_part = |nanos: u64, [all, own]: [u64; 2]| {
            let least = u128::from(nanos) * u128::from(own) / u128::from(all.max(1));
            Took::between(least as u64, nanos)
        };
        // The SSD may do nothing better with more IOs, or all of them at once.
        let of_few = |nanos: u64| of_part(nanos, self.tenants);
        let Some((deep, deep_ios)) = self.deep.filter(|(deep, _)| !deep.is_paced) else {
            let found = self.measured()?;
            let took = match found.is_paced {
                // The SSD could do more of it; and busy tenants ask for more than their share.
                true => of_part(found.took.likely, self.weights).leaning(OF_PACED),
                // They went away before half of their IOs were tried.
                false if self.needs_half() => of_few(found.took.likely),
                false => found.took,
            };
            return Some(Found { took, ..found });
        };
        let deep_nanos = deep.took.likely;
        // The time of half of the IOs for the guess of the deep part.
        let half = self.measured().map(|shallow| {
            let half =
                u128::from(shallow.took.likely) * u128::from(deep.guessed) / u128::from(shallow.guessed);
            u64::try_from(half).unwrap_or(u64::MAX)
        });
        let shallow_ios = self.in_flight();
        // With hardly fewer IOs nothing else can be seen; and that much longer is not their doing.
        let says = |half: &u64| {
            let [deep, shallow] = [deep_ios, shallow_ios].map(u128::from);
            let is_theirs = u128::from(*half) * shallow * 8 <= u128::from(deep_nanos) * deep * 9;
            deep * FEWER[1] >= shallow * FEWER[0] && is_theirs
        };
        let took = match half.filter(says) {
            Some(half) => {
                let took = Took::with_all(deep_nanos, half, [deep_ios, shallow_ios], self.part(deep_ios));
                took.leaning(self.leans())
            }
            None if self.has_few() => of_few(deep_nanos),
            None => deep.took,
        };
        Some(Found { took, ..deep })
    }

    /// Number of [`EIGHTHS`] of the way from the most to the least at which the price likely is.
    fn leans(&self) -> u64 {
        match self.kind.writes_most() {
            true => OF_MORE_WRITES,
            false => self.latencies.variation().unwrap_or(OF_WRITES),
        }
    }

    /// Whether more IOs than there are might get more from the SSD. Writes fill the buffer, and then some are enough; and of an SSD that
    /// pauses, both parts of the probe would be too short.
    fn needs_half(&self) -> bool {
        let [all, own] = self.tenants;
        all > own
            && (!self.kind.is_written() || self.has_few())
            && !self.extra.fills()
            && (self.deep.is_some() || self.windows.cycles().is_none())
    }

    /// Whether there are so few IOs of the kind that all of them often wait for the same part of the SSD.
    fn has_few(&self) -> bool {
        self.deep.map_or_else(|| self.in_flight(), |(_, ios)| ios) < FEW * SIXTEENTHS
    }

    /// IOs of the kind's mean price that were in flight on average, in [`SIXTEENTHS`]: its own and the others' work.
    fn in_flight(&self) -> u64 {
        self.ios_of(self.in_flight[0])
    }

    /// Device time in flight, summed up over completions, as IOs of the kind's mean price, in [`SIXTEENTHS`].
    fn ios_of(&self, in_flight: u64) -> u64 {
        let ([_, completions], [marks, ios]) = (self.in_flight, self.own);
        let per_io = u128::from(marks) * u128::from(completions);
        let sum = u128::from(in_flight) * u128::from(ios) * u128::from(SIXTEENTHS);
        u64::try_from(sum / per_io.max(1)).unwrap_or(u64::MAX)
    }

    /// The part of the IOs that would be in flight if all busy tenants did this kind of work: that of the kind's
    /// tenants, or less if some of theirs were on their way to the host and back.
    fn part(&self, ios: u64) -> [u64; 2] {
        let [all, own] = self.tenants;
        let [before, since] =
            [self.found_before, self.found_since].map(|[found, ios]| found / ios.max(1) + 1);
        let wanted = before.max(since).saturating_mul(all).saturating_mul(SIXTEENTHS);
        let is_less = u128::from(ios) * u128::from(all) < u128::from(wanted) * u128::from(own);
        if is_less { [ios, wanted] } else { [own, all] }
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
        is_much_less(found, ios, found_before)
            && is_much_less(self.ios_of(self.of_kind) / SIXTEENTHS, 1, before)
    }

    /// Conclusion from the windows.
    fn measured(&self) -> Option<Found> {
        let all = self.windows.all();
        // Windows that are not steady in the longest probe are measured all the same, as late as possible.
        let middle = usize::midpoint(self.windows.first().unwrap_or(0), all.len());
        let late = &all[middle.min(all.len().saturating_sub(LEAST))..];
        let counted = match self.windows.cycles() {
            Some((windows, _)) if windows.len() >= LEAST => windows,
            _ => self.steady().unwrap_or(late),
        };
        let Window { span, guessed, others, written, found, arrived, .. } =
            clean(counted).unwrap_or_else(|| Window::sum(counted));
        // Others' work counts as it was charged. They ask for little; if not, the probe says nothing.
        let most = span / OTHERS_TOO_MANY;
        // Data that the buffer takes says nothing of the cost of writes.
        let is_absorbed = self.kind.writes() && self.windows.first().is_none() && all.len() < LEAST_WRITING;
        if is_absorbed
            || self.windows.is_crowded()
            || counted.len() < LEAST / 2
            || guessed == 0
            || others >= most
        {
            return None;
        }
        let nanos = span - others;
        let before = Window::sum(&all[..all.len() - counted.len()]);
        let drained = u128::from(written) * u128::from(before.span) / u128::from(span.max(1));
        let absorbed = u128::from(before.written).saturating_sub(drained) as u64;
        let is_paced = !self.extra.fills() && self.is_paced(found, arrived);
        Some(Found { took: Took::exactly(nanos), guessed, absorbed, is_paced })
    }
}

/// The sum of the windows in which others had little; `None` if those are too few, or the pauses of an SSD whose others had much whenever
/// it served anything.
fn clean(counted: &[Window]) -> Option<Window> {
    let are_clean = || counted.iter().filter(|window| window.others <= window.span / OTHERS_MOST);
    let number = are_clean().count();
    let [clean, all] = [Window::sum(are_clean()), Window::sum(counted)];
    let is_like_all =
        u128::from(clean.guessed) * counted.len() as u128 * 2 >= u128::from(all.guessed) * number as u128;
    (number >= LEAST / 2 && is_like_all).then_some(clean)
}

#[cfg(test)]
mod tests;
