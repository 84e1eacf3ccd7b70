//! *This SSD is slow now, for about this long*: the busy periods of one SSD, detected from its completions.
//!
//! An SSD is in a busy period if it serves reads or writes at much less than its usual rate for the same load: its
//! cache is exhausted, it collects garbage, it is too hot. A high load alone is no busy period, nor is a different one.
//!
//! ```text
//!   on_submit, on_end ──► window of 25 ms ──► rate of reads, of writes      usual: its rate at this load (`usual`)
//!                         in which the SSD                │                               │
//!                         was used                        └──── usual rate / rate = slowdown
//!                                                                  three windows of 5/3: slow; three below 5/4: not any more
//! ```
//!
//! A window counts if the SSD had something to do in at least half of it, and of the one before (the first writes after a pause go into a
//! buffer of memory). Rates are per time in which it had something to do. So an SSD that is asked for less is not slow.
//!
//! The expected rest of a period is the mean rest of those seen before that lasted as long (`lasting`).
//!
//! It cannot know the cause, nor anything before the first IO, nor a slowness without which it has never seen the SSD,
//! nor whether reads became slower because they go to other places now. Slowness that does not end is usual after about
//! two minutes.
//!
//! Holds: without knowledge it reports nothing (`what_was_always_slow_is_usual`); its reports stay within their bounds
//!        for any IOs (`any_ios_at_all`); on simulated SSDs, `sim/tests/busy/`. Memory: 11 KiB, and no more.

mod lasting;
#[cfg(test)]
mod tests;
mod usual;

use crate::{IoKind, Outcome};
use lasting::Lasting;
use units::{Bytes, Instant, Nanos, Slowdown};
use usual::{Given, Usual};

/// The least length of a window.
const WINDOW: Nanos = Nanos::millis(25);
/// Least number of IOs of a window; one that saw fewer goes on, up to eight times the length.
const LEAST: u32 = 16;
const LONGEST: Nanos = Nanos(8 * WINDOW.0);
/// Least number of IOs of a kind in a window for the kind to be judged.
const LEAST_OF_A_KIND: u32 = 4;
/// Windows in a row that make a difference.
const LASTS: u32 = 3;
/// Slowdown from which on the SSD is slow, and below which it is not any more.
const SLOW: f32 = 5.0 / 3.0;
const FAST: f32 = 5.0 / 4.0;
/// The least slowdown reported while the SSD is slow.
const LEAST_SLOWDOWN: Slowdown = Slowdown::quarters(5);
/// Time without observations after which a period is over.
const SILENT: Nanos = Nanos::secs(1);

/// A period in which an SSD is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPeriod {
    /// Its begin.
    pub since: Instant,
    /// Its expected rest from now on; `None` if no earlier period lasted longer than this one has until now.
    pub for_about: Option<Nanos>,
    /// Slowdown of reads against the usual.
    pub reads: Slowdown,
    /// Slowdown of writes.
    pub writes: Slowdown,
}

/// Finds the busy periods of one SSD. The caller reports every IO that goes to the SSD and every one that ends.
#[derive(Clone, Debug)]
pub struct BusyDetector {
    in_flight: u32,
    /// When the SSD had something to do again.
    resumed: Instant,
    /// Time in use since the window began, without the time since `resumed`.
    used: Nanos,
    began: Instant,
    /// The window ends with the first IO from this instant on.
    closes: Instant,
    /// Whether the SSD was used in the window before.
    was_used: bool,
    /// Reads, writes.
    kinds: [Kind; 2],
    lasting: Lasting,
    /// The period that goes on, and when it was last seen.
    period: Option<(Instant, Instant)>,
}

/// Reads, or writes.
#[derive(Clone, Debug)]
struct Kind {
    ios: u32,
    /// Of 4 KiB.
    pages: u64,
    /// Their pages × latencies: pages in flight, summed up over time.
    area: u64,
    usual: Usual,
    is_slow: bool,
    /// Windows in a row that contradict the present judgement.
    against: u32,
    /// The slowdown in the last windows.
    slowdown: f32,
}

impl Kind {
    fn new() -> Kind {
        Kind { ios: 0, pages: 0, area: 0, usual: Usual::new(), is_slow: false, against: 0, slowdown: 1.0 }
    }

    #[inline]
    fn add(&mut self, length: Bytes, latency: Nanos) {
        let pages = (length.get() >> 12).max(1);
        self.ios += 1;
        self.pages = self.pages.saturating_add(pages);
        self.area = self.area.saturating_add(pages.saturating_mul(latency.get()));
    }

    /// Pages in flight on average, in a window in which the SSD was used for `used`.
    fn depth(&self, used: Nanos) -> f32 {
        self.area as f32 / used.get() as f32
    }

    fn clear(&mut self) {
        (self.ios, self.pages, self.area) = (0, 0, 0);
    }

    /// Judges a window. Returns whether the SSD was slow in it.
    fn judge(&mut self, used: Nanos, others: f32) -> bool {
        if self.ios < LEAST_OF_A_KIND {
            return false;
        }
        let rate = self.pages as f32 / used.get() as f32;
        let given = Given { size: self.pages as f32 / self.ios as f32, depth: self.depth(used), others };
        let expected = self.usual.expected(given);
        let slowdown = expected.map_or(1.0, |expected| expected / rate);
        let is_against = expected.is_some() && if self.is_slow { slowdown < FAST } else { slowdown > SLOW };
        self.against = if is_against { self.against + 1 } else { 0 };
        if self.against == LASTS {
            self.is_slow = !self.is_slow;
            (self.against, self.slowdown) = (0, slowdown);
        }
        self.slowdown += (slowdown - self.slowdown) / 4.0;
        if self.is_slow {
            self.usual.doubt(given, rate);
        } else if !is_against {
            self.usual.learn(given, rate);
        }
        self.is_slow && slowdown >= FAST
    }

    fn slowdown(&self) -> Slowdown {
        if !self.is_slow {
            return Slowdown::NONE;
        }
        // At least a quarter, or it would not be slow. (`as` saturates.)
        Slowdown::quarters((self.slowdown * 4.0) as u8).max(LEAST_SLOWDOWN)
    }
}

impl Default for BusyDetector {
    fn default() -> BusyDetector {
        BusyDetector {
            in_flight: 0,
            resumed: Instant::ZERO,
            used: Nanos::ZERO,
            began: Instant::ZERO,
            closes: Instant::ZERO,
            was_used: false,
            kinds: [Kind::new(), Kind::new()],
            lasting: Lasting::default(),
            period: None,
        }
    }
}

impl BusyDetector {
    /// Notes an IO that goes to the SSD.
    #[inline]
    pub fn on_submit(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.resumed = now;
        }
        self.in_flight += 1;
    }

    /// Notes the end of an IO.
    ///
    /// # Panics
    /// If more end than were submitted.
    #[inline]
    pub fn on_end(&mut self, now: Instant, kind: IoKind, length: Bytes, outcome: Outcome) {
        self.in_flight = self.in_flight.checked_sub(1).expect("an IO ends once");
        if let Outcome::Success { latency } = outcome {
            match kind {
                IoKind::Read => self.kinds[0].add(length, latency),
                IoKind::Write => self.kinds[1].add(length, latency),
                IoKind::Management => {}
            }
        }
        if self.in_flight == 0 {
            self.used += now.saturating_since(self.resumed);
        }
        if now >= self.closes {
            self.close(now);
        }
    }

    /// The end of a window.
    #[cold]
    fn close(&mut self, now: Instant) {
        let span = now.saturating_since(self.began);
        let ios = self.kinds[0].ios + self.kinds[1].ios;
        if ios < LEAST && span < LONGEST {
            self.closes = now + Nanos(WINDOW.0 / 8);
            return;
        }
        if self.in_flight > 0 {
            self.used += now.saturating_since(self.resumed);
            self.resumed = now;
        }
        let used = self.used;
        let is_used = used.get() > 0 && used.get() >= span.get() / 2;
        if is_used && self.was_used {
            self.judge(now, used);
        }
        self.was_used = is_used;
        self.kinds.iter_mut().for_each(Kind::clear);
        (self.used, self.began, self.closes) = (Nanos::ZERO, now, now + WINDOW);
    }

    fn judge(&mut self, now: Instant, used: Nanos) {
        let began = self.began;
        if let Some((since, seen)) = self.period
            && began.saturating_since(seen) > SILENT
        {
            self.end(since, seen);
        }
        let [reads, writes] = &mut self.kinds;
        let depths = [reads.depth(used), writes.depth(used)];
        let seen = [reads.judge(used, depths[1]), writes.judge(used, depths[0])];
        let is_slow = reads.is_slow || writes.is_slow;
        match self.period {
            None if is_slow => self.period = Some((began - Nanos((LASTS as u64 - 1) * WINDOW.0), now)),
            Some((since, last)) if !is_slow => self.end(since, last),
            Some((since, _)) if seen[0] || seen[1] => self.period = Some((since, now)),
            _ => {}
        }
    }

    fn end(&mut self, since: Instant, until: Instant) {
        self.lasting.add(until.saturating_since(since));
        self.period = None;
        for kind in &mut self.kinds {
            (kind.is_slow, kind.against) = (false, 0);
        }
    }

    /// The busy period that goes on, if one does.
    #[inline]
    pub fn period(&self, now: Instant) -> Option<BusyPeriod> {
        let (since, seen) = self.period?;
        self.said(now, since, seen)
    }

    #[cold]
    fn said(&self, now: Instant, since: Instant, seen: Instant) -> Option<BusyPeriod> {
        if now.saturating_since(seen) > SILENT {
            return None;
        }
        let for_about = self.lasting.rest(now.saturating_since(since));
        let [reads, writes] = &self.kinds;
        Some(BusyPeriod { since, for_about, reads: reads.slowdown(), writes: writes.slowdown() })
    }
}
