//! Records what completes while a job runs.
//!
//! Each IO has two latencies, for two different questions:
//!
//! ```text
//!   due ──(wait for iodepth, for credit)──> sent ──(network, switch, SSD)──> completed
//!   └────────────────────── latency ──────────────────────────────────────┘
//!                                           └────────── service ──────────┘
//! ```
//!
//! `latency` is the time that a user of the tenant sees; `service` is the time in a network trace, and usually in papers.
//!
//! Totals count IOs that completed in the measured window (after the ramp). The time series has everything, so that a plot shows how
//! the run settled.

use crate::direction::{DIRECTIONS, Direction};
use hdrhistogram::Histogram;
use units::{Bytes, Instant, Nanos};

/// The shortest latency that is resolved, the longest one recorded (longer ones count as this), and the digits kept.
const SHORTEST: u64 = 100;
const LONGEST: u64 = 1_000_000_000_000;
const DIGITS: u8 = 3;
/// Intervals are for plots, where two digits are enough.
const INTERVAL_DIGITS: u8 = 2;

/// One completed IO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    /// Its direction.
    pub direction: Direction,
    /// Its length.
    pub length: Bytes,
    /// From when it was due until its completion.
    pub latency: Nanos,
    /// From when it was sent until its completion.
    pub service: Nanos,
}

/// Everything that completed in the measured window, one direction.
#[derive(Clone, Debug)]
pub struct Tally {
    /// IOs.
    pub ios: u64,
    /// Bytes.
    pub bytes: Bytes,
    /// In nanoseconds, from when an IO was due.
    pub latency: Histogram<u64>,
    /// In nanoseconds, from when it was sent.
    pub service: Histogram<u64>,
}

/// One direction in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slice {
    /// IOs completed.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Mean latency; 0 if there were no IOs.
    pub mean: Nanos,
    /// Mean time from when an IO was sent; 0 if there were no IOs.
    pub service_mean: Nanos,
    /// 99th percentile of latency; 0 if there were no IOs.
    pub p99: Nanos,
}

/// One job in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// End of the interval, from the start of the run.
    pub end: Nanos,
    /// Its length.
    pub span: Nanos,
    /// By direction, as [`Direction::index`] orders them.
    pub slices: [Slice; DIRECTIONS],
    /// The credit: IOs that the switch allows the job to have outstanding, if it gives credits.
    pub credit: Option<u32>,
}

impl Interval {
    /// Bytes per second, all directions.
    pub fn bytes_per_second(&self) -> f64 {
        let bytes: Bytes = self.slices.iter().map(|slice| slice.bytes).sum();
        per_second(bytes.get(), self.span)
    }

    /// IOs per second, all directions.
    pub fn iops(&self) -> f64 {
        per_second(self.slices.iter().map(|slice| slice.ios).sum(), self.span)
    }
}

/// `count` per second over `span`; 0 over no time.
pub(crate) fn per_second(count: u64, span: Nanos) -> f64 {
    if span == Nanos::ZERO { 0.0 } else { count as f64 / span.as_secs_f64() }
}

/// The window in which completions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its first moment.
    pub from: Instant,
    /// The first moment after it.
    pub until: Instant,
}

impl Window {
    fn contains(&self, moment: Instant) -> bool {
        self.from <= moment && moment < self.until
    }
}

/// The records of one job.
#[derive(Debug)]
pub(crate) struct Recorder {
    window: Window,
    run_start: Instant,
    interval_start: Instant,
    tallies: [Tally; DIRECTIONS],
    open: [OpenSlice; DIRECTIONS],
    series: Vec<Interval>,
}

/// The finished records of one job.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// Length of the window.
    pub measured: Nanos,
    /// The IOs that completed in it, by direction.
    pub tallies: [Tally; DIRECTIONS],
    /// Interval by interval from the start of the run.
    pub series: Vec<Interval>,
}

#[derive(Debug)]
struct OpenSlice {
    bytes: Bytes,
    /// Total of all IOs.
    service: Nanos,
    latency: Histogram<u64>,
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(SHORTEST, LONGEST, digits).expect("the bounds are constants in range")
}

impl Tally {
    fn new() -> Tally {
        Tally { ios: 0, bytes: Bytes::ZERO, latency: histogram(DIGITS), service: histogram(DIGITS) }
    }

    /// Adds another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
        self.service.add(&other.service).expect("all histograms have the same bounds");
    }

    fn add(&mut self, io: &Completed) {
        self.ios += 1;
        self.bytes += io.length;
        self.latency.saturating_record(io.latency.get());
        self.service.saturating_record(io.service.get());
    }
}

impl OpenSlice {
    fn new() -> OpenSlice {
        OpenSlice { bytes: Bytes::ZERO, service: Nanos::ZERO, latency: histogram(INTERVAL_DIGITS) }
    }

    fn close(&mut self) -> Slice {
        let latency = &self.latency;
        let slice = Slice {
            ios: latency.len(),
            bytes: self.bytes,
            mean: Nanos(latency.mean() as u64),
            service_mean: Nanos(self.service.get().checked_div(latency.len()).unwrap_or_default()),
            p99: Nanos(latency.value_at_quantile(0.99)),
        };
        self.latency.reset();
        (self.bytes, self.service) = (Bytes::ZERO, Nanos::ZERO);
        slice
    }
}

impl Recorder {
    /// Begins at `run_start`; the totals count what completes in `window`.
    pub(crate) fn new(run_start: Instant, window: Window) -> Recorder {
        Recorder {
            window,
            run_start,
            interval_start: run_start,
            tallies: std::array::from_fn(|_| Tally::new()),
            open: std::array::from_fn(|_| OpenSlice::new()),
            series: Vec::new(),
        }
    }

    /// An IO has completed at `now`.
    pub(crate) fn on_completed(&mut self, now: Instant, io: &Completed) {
        let slice = &mut self.open[io.direction.index()];
        slice.bytes += io.length;
        slice.service += io.service;
        slice.latency.saturating_record(io.latency.get());
        if self.window.contains(now) {
            self.tallies[io.direction.index()].add(io);
        }
    }

    /// Clears the totals: the window begins at `now`.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.window.from = now;
        self.tallies = std::array::from_fn(|_| Tally::new());
    }

    /// Ends the interval at `now`, and returns it; `None` if it has no length.
    pub(crate) fn close_interval(&mut self, now: Instant, credit: Option<u32>) -> Option<Interval> {
        let span = now.saturating_since(self.interval_start);
        if span == Nanos::ZERO {
            return None;
        }
        self.interval_start = now;
        let interval = Interval {
            end: now.saturating_since(self.run_start),
            span,
            slices: self.open.each_mut().map(OpenSlice::close),
            credit,
        };
        self.series.push(interval);
        Some(interval)
    }

    /// Finishes at `now`, which may be before the window ends.
    pub(crate) fn finish(self, now: Instant) -> Recorded {
        let measured = self.window.until.min(now).saturating_since(self.window.from);
        Recorded { measured, tallies: self.tallies, series: self.series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn recorder() -> Recorder {
        let window = Window { from: Instant(10 * MS), until: Instant(30 * MS) };
        Recorder::new(Instant::ZERO, window)
    }

    fn read(latency: u64) -> Completed {
        let direction = Direction::Read;
        Completed { direction, length: Bytes(4096), latency: Nanos(latency), service: Nanos(latency / 2) }
    }

    #[test]
    fn totals_hold_the_window_and_the_series_holds_everything() {
        let mut recorder = recorder();
        for at in [5, 15, 25, 35] {
            recorder.on_completed(Instant(at * MS), &read(at * MS));
        }
        let interval = recorder.close_interval(Instant(40 * MS), Some(32)).expect("40 ms have passed");
        assert_eq!((interval.slices[0].ios, interval.slices[1].ios, interval.credit), (4, 0, Some(32)));
        assert_eq!(interval.iops(), 100.0);
        assert_eq!(interval.slices[0].service_mean, Nanos(10 * MS), "half of the latencies");
        let Recorded { measured, tallies: [reads, writes, _], series } = recorder.finish(Instant(40 * MS));
        assert_eq!((reads.ios, reads.bytes, writes.ios, series.len()), (2, Bytes(8192), 0, 1));
        assert_eq!(measured, Nanos(20 * MS));
        let longest = reads.latency.max();
        assert!(
            (24 * MS..26 * MS).contains(&longest),
            "the longest latency in the window was 25 ms, not {longest}"
        );
        assert!(reads.service.max() < 13 * MS);
    }

    #[test]
    fn totals_may_begin_anew() {
        let mut recorder = recorder();
        recorder.on_completed(Instant(15 * MS), &read(MS));
        recorder.restart(Instant(20 * MS));
        recorder.on_completed(Instant(21 * MS), &read(MS));
        let Recorded { measured, tallies, .. } = recorder.finish(Instant(40 * MS));
        assert_eq!((tallies[0].ios, tallies[0].latency.len(), measured), (1, 1, Nanos(10 * MS)));
    }

    #[test]
    fn intervals_do_not_leak_into_each_other() {
        let mut recorder = recorder();
        recorder.on_completed(Instant(MS), &read(MS));
        let first = recorder.close_interval(Instant(2 * MS), None).expect("2 ms");
        let second = recorder.close_interval(Instant(3 * MS), None).expect("1 ms");
        assert_eq!((first.slices[0].ios, second.slices[0].ios), (1, 0));
        assert_eq!((first.end, second.end, second.span), (Nanos(2 * MS), Nanos(3 * MS), Nanos(MS)));
        assert_eq!(recorder.close_interval(Instant(3 * MS), None), None);
    }

    #[test]
    fn a_latency_beyond_the_scale_still_counts() {
        let mut recorder = recorder();
        recorder.on_completed(Instant(11 * MS), &read(u64::MAX));
        let recorded = recorder.finish(Instant(12 * MS));
        assert_eq!((recorded.tallies[0].ios, recorded.measured), (1, Nanos(2 * MS)));
    }
}
