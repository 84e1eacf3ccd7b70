//! Windows of a probe: the completions in each, the first one that counts, and whether they are steady.

use super::LONGEST;
use units::{Instant, Nanos};

/// Completions are counted in windows of this length.
pub(super) const WINDOW: Nanos = Nanos::millis(10);
/// Windows of the longest probe.
const WINDOWS: usize = (LONGEST.0 / WINDOW.0) as usize;
/// Number of windows over which the rate shows that the buffer is full.
const LATELY: usize = 4;
/// The part of the rate, one in this number, by which it falls when the buffer is full.
const FALLEN: u64 = 6;
/// If others had more than one part in this number, the probe has seen nothing.
pub(super) const OTHERS_TOO_MANY: u64 = 3;
/// Number of windows in a row with too much work of others after which a probe is over: a tenant has come that does not
/// wait for it.
pub(super) const CROWDED: usize = 8;
/// The part of the rate, one in this number, by which two equally fast spans may differ.
const STEADY: u64 = 33;
/// A window is a pause of the SSD if its rate is less than one part in this number of the highest.
const PAUSED: u64 = 2;
/// IOs that the fastest window has at least if others are to be pauses: with fewer, chance makes windows so different.
const ENOUGH: u64 = 8;

/// Completions of a span: guesses of the kind's IOs, charges of all others', bytes written by the kind, number of the kind's IOs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Window {
    pub(super) span: u64,
    pub(super) guessed: u64,
    pub(super) others: u64,
    pub(super) written: u64,
    pub(super) ios: u64,
    /// Sum over the kind's IOs of their tenant's outstanding at arrival, and number of these IOs.
    pub(super) found: u64,
    pub(super) arrived: u64,
    /// Whether nothing of the kind was in flight at its end.
    pub(super) is_idle: bool,
}

impl Window {
    /// The guessed time of the kind's completed work, per time.
    pub(super) fn rate(&self) -> u64 {
        let span = self.span.saturating_sub(self.others).max(1);
        (u128::from(self.guessed) * (1 << 20) / u128::from(span)) as u64
    }

    /// The sum of windows.
    pub(super) fn sum<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Window {
        windows.into_iter().fold(Window::default(), |sum, window| Window {
            span: sum.span + window.span,
            guessed: sum.guessed + window.guessed,
            others: sum.others + window.others,
            written: sum.written + window.written,
            ios: sum.ios + window.ios,
            found: sum.found + window.found,
            arrived: sum.arrived + window.arrived,
            is_idle: sum.is_idle || window.is_idle,
        })
    }
}

/// The windows of a part of a probe.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    begun: Instant,
    now: Window,
    ended: [Window; WINDOWS],
    count: usize,
    /// The first window that counts.
    first: Option<usize>,
    written: u64,
    /// The highest rate that was ever seen of the kind.
    peak: u64,
}

impl Windows {
    /// No windows yet, for a kind whose highest rate until now is `peak`.
    pub(super) fn new(now: Instant, peak: u64) -> Windows {
        let window = Window::default();
        Windows { begun: now, now: window, ended: [window; WINDOWS], count: 0, first: None, written: 0, peak }
    }

    /// The window that is open.
    #[inline]
    pub(super) fn open(&mut self) -> &mut Window {
        &mut self.now
    }

    /// Moves the beginning of the open window to now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// Discards all windows.
    pub(super) fn discard(&mut self, now: Instant) {
        (self.begun, self.count, self.now) = (now, 0, Window::default());
        (self.first, self.written) = (None, 0);
    }

    /// Begins another part of the probe, after which the open window goes on.
    pub(super) fn begin_part(&mut self) {
        (self.count, self.first) = (0, None);
    }

    /// The length of the open window if it is over.
    #[inline]
    pub(super) fn over(&self, now: Instant) -> Option<Nanos> {
        let span = now.since(self.begun);
        (span >= WINDOW).then_some(span)
    }

    /// Closes the open window; `is_idle` says that nothing of the kind is in flight at its end. Returns the rate of the last ones; `None` if
    /// the probe has had all its windows.
    pub(super) fn close(&mut self, now: Instant, span: Nanos, is_idle: bool) -> Option<u64> {
        self.begun = now;
        if self.count == WINDOWS {
            return None;
        }
        let window = Window { span: span.0, is_idle, ..core::mem::take(&mut self.now) };
        self.ended[self.count] = window;
        self.count += 1;
        self.written += window.written;
        // A single window says little: garbage collection makes some of them slow.
        let lately = Window::sum(&self.all()[self.count.saturating_sub(LATELY)..]).rate();
        if self.count >= LATELY {
            self.peak = self.peak.max(lately);
        }
        Some(lately)
    }

    /// Whether the rate has fallen to `lately` because the buffer is full.
    pub(super) fn is_full(&self, lately: u64) -> bool {
        self.count >= LATELY && lately <= self.peak - self.peak / FALLEN
    }

    /// Lets windows count from the next one on.
    pub(super) fn count_from_now(&mut self) {
        self.first = Some(self.count);
    }

    /// The windows that have ended.
    pub(super) fn all(&self) -> &[Window] {
        &self.ended[..self.count]
    }

    /// The first window that counts.
    pub(super) fn first(&self) -> Option<usize> {
        self.first
    }

    /// Bytes that the kind has written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// The highest rate that was ever seen of the kind.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// Whether others have come that do not wait for the probe, and have had too much for a while.
    pub(super) fn is_crowded(&self) -> bool {
        let latest = &self.all()[self.count.saturating_sub(CROWDED)..];
        let are_too_many = |window: &Window| window.others >= window.span / OTHERS_TOO_MANY;
        self.count >= CROWDED && latest.iter().all(are_too_many)
    }

    /// The windows that count, `least` at least, if their two halves are equally fast: all since the buffer made no difference, or the later
    /// half of them.
    pub(super) fn steady(&self, least: usize) -> Option<&[Window]> {
        let counted = &self.all()[self.first?..];
        let is_steady = |windows: &&[Window]| {
            let (early, late) = windows.split_at(windows.len() / 2);
            let [early, late] = [early, late].map(|half| Window::sum(half).rate());
            windows.len() >= least && early.abs_diff(late) <= late / STEADY
        };
        [counted, &counted[counted.len() / 2..]].into_iter().find(is_steady)
    }

    /// The windows that count of an SSD that pauses: whole cycles, from the end of one pause to the end of another, and their number; or, if those
    /// are less than half of it, all. `None` if there was no pause. The SSD pauses only while the kind has IOs in flight and others have little: if the
    /// kind was ever without IOs, its silence may be the tenants'.
    pub(super) fn cycles(&self) -> Option<(&[Window], usize)> {
        // The pause that ended what does not count begins the first cycle.
        let counted = &self.all()[self.first?.saturating_sub(1)..];
        let is_own = |window: &&Window| window.others < window.span / OTHERS_TOO_MANY;
        let highest = counted.iter().filter(is_own).max_by_key(|window| window.rate())?;
        let all = Window::sum(counted);
        let has_enough =
            u128::from(highest.guessed) * u128::from(all.ios) >= u128::from(all.guessed) * u128::from(ENOUGH);
        if all.is_idle || !has_enough {
            return None;
        }
        let is_pause = |window: &Window| is_own(&window) && window.rate() < highest.rate() / PAUSED;
        // Windows after which a pause is over.
        let ends = || {
            let pairs = counted.iter().zip(counted.iter().skip(1)).enumerate();
            pairs.filter(|(_, (one, next))| is_pause(one) && !is_pause(next)).map(|(at, _)| at + 1)
        };
        let cycles = &counted[ends().next()?..ends().next_back()?];
        let is_most = Window::sum(cycles).span * 2 >= Window::sum(counted).span;
        Some(if is_most { (cycles, ends().count() - 1) } else { (counted, 0) })
    }

    /// Fills all windows with `window`.
    #[cfg(test)]
    pub(super) fn fill(&mut self, window: Window) {
        (self.ended, self.count) = ([window; WINDOWS], WINDOWS);
    }
}
