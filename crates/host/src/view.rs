//! The virtual view: a snapshot of what a client knows about each SSD that it uses, for its application.
//!
//! The target reports it only in completions: the credit they carry, whether the SSD is slow, how long they took, how much they
//! moved. That is enough to prefer one replica to another, or to place new data where there is room.
//!
//! Paper: Gimbal §3.7.

use crate::request::Operation;
use nvme::spec::Busy;
use units::{ByteRate, Bytes, Instant, Nanos, Slowdown};

/// Weight 1/8 per completion of the mean latency: it follows a change within some twenty IOs, and one IO does
/// not make it jump.
const EWMA_SHIFT: u32 = 3;
/// Shortest window for measuring bandwidth.
const BANDWIDTH_WINDOW: Nanos = Nanos::millis(100);

/// One SSD (one controller), as its client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Whether IOs can be sent now.
    pub is_ready: bool,
    /// Credit: most outstanding IOs, as the switch last reported; `None` if it reports no credit. The higher,
    /// the less loaded the SSD is.
    pub credit: Option<u32>,
    /// The SSD is slow now, as the switch last said; `None` if it is not, or if the switch does not say.
    pub busy: Option<BusyView>,
    /// Outstanding IOs.
    pub in_flight: u32,
    /// IOs that wait in the client.
    pub waiting: usize,
    /// Recent mean latency of reads, from sending to completion; `None` before the first.
    pub read_latency: Option<Nanos>,
    /// Recent mean latency of writes.
    pub write_latency: Option<Nanos>,
    /// Bytes read and written per second in the last full window; `None` before the first.
    pub bandwidth: Option<ByteRate>,
}

/// An SSD is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyView {
    /// The slowdown of reads.
    pub reads: Slowdown,
    /// The slowdown of writes.
    pub writes: Slowdown,
    /// When it is expected to be over; after that the switch should be heard again. If the switch cannot say, that is after
    /// [`BusyView::UNKNOWN`].
    pub until: Instant,
}

impl BusyView {
    /// Time for which an SSD is believed to be slow if its report has no duration.
    pub const UNKNOWN: Nanos = Nanos::millis(500);
    /// Upper bound for the time that a report is believed without a new one.
    pub const LONGEST: Nanos = Nanos::secs(5);

    /// A completion that came at `now` says this.
    pub(crate) fn told(now: Instant, busy: Busy) -> BusyView {
        let rest = busy.rest.unwrap_or(BusyView::UNKNOWN).min(BusyView::LONGEST);
        BusyView { reads: busy.reads, writes: busy.writes, until: now + rest }
    }
}

impl View {
    /// Number of further IOs that could be sent now; `None` if the switch reports no credit.
    pub fn room(&self) -> Option<u32> {
        self.credit.map(|credit| credit.saturating_sub(self.in_flight))
    }
}

/// Measures the contents of a view.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    read_latency: Option<Nanos>,
    write_latency: Option<Nanos>,
    window_start: Instant,
    window_bytes: Bytes,
    bandwidth: Option<ByteRate>,
}

impl Meter {
    /// An IO has succeeded.
    pub(crate) fn on_completed(&mut self, now: Instant, operation: Operation, length: Bytes, latency: Nanos) {
        let ewma = match operation {
            Operation::Read => &mut self.read_latency,
            Operation::Write { .. } => &mut self.write_latency,
            _ => return,
        };
        *ewma = Some(match *ewma {
            None => latency,
            Some(Nanos(mean)) => Nanos(mean - (mean >> EWMA_SHIFT) + (latency.0 >> EWMA_SHIFT)),
        });
        self.window_bytes += length;
        let span = now.saturating_since(self.window_start);
        if span >= BANDWIDTH_WINDOW {
            self.bandwidth = ByteRate::measured(self.window_bytes, span);
            self.window_start = now;
            self.window_bytes = Bytes::ZERO;
        }
    }

    /// Copies the measurements into `view`.
    pub(crate) fn show(&self, view: &mut View) {
        view.read_latency = self.read_latency;
        view.write_latency = self.write_latency;
        view.bandwidth = self.bandwidth;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_follows_and_bandwidth_is_per_second() {
        let mut meter = Meter::default();
        let mut view = View { credit: Some(32), in_flight: 40, ..View::default() };
        for io in 1..=200 {
            let latency = if io <= 100 { Nanos::micros(100) } else { Nanos::micros(200) };
            meter.on_completed(Instant(io * 1_000_000), Operation::Read, Bytes(4096), latency);
        }
        meter.show(&mut view);
        let mean = view.read_latency.expect("200 reads completed");
        assert!(mean > Nanos::micros(199) && mean <= Nanos::micros(200), "{mean}");
        assert_eq!((view.write_latency, view.bandwidth), (None, Some(ByteRate(4_096_000))));
        assert_eq!(view.room(), Some(0));
    }
}
