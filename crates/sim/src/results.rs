//! The results of a run: bandwidth over time and three kinds of latency, per tenant and direction.

use hdrhistogram::Histogram;
use sched::{BusyPeriod, Fixed, Learnt, ObjectiveView, SsdView};
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// The results of one run.
#[derive(Clone, Debug)]
pub struct Results {
    /// In the order of the world's tenants.
    pub tenants: Vec<TenantResults>,
    /// Measured time.
    pub duration: Nanos,
    /// Length of one point of the series.
    pub interval: Nanos,
    /// A hash of every decision and completion with its time: equal for equal worlds, on every machine.
    pub fingerprint: u64,
    /// IOs answered, including the warm-up.
    pub ios: u64,
    /// Reports of the scheduler at the end of each interval, including the warm-up; empty if it reports
    /// nothing.
    pub views: Vec<(Instant, SsdView)>,
    /// Whether the SSD was slow at the end of each interval, including the warm-up, whatever the scheduler.
    pub busy: Vec<(Instant, Option<BusyPeriod>)>,
    /// The scheduler's view of each objective at the end of each interval, including the warm-up.
    pub objectives: Vec<(Instant, TenantId, ObjectiveView)>,
    /// The scheduler's learnt facts about the SSD.
    pub learnt: Option<Learnt>,
    /// PARDA's windows per host; no points for hosts without one.
    pub windows: Vec<Windows>,
}

/// The window of one host over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The tenants that are the host's VMs.
    pub tenants: Vec<TenantId>,
    /// At the end of each period, including the warm-up.
    pub points: Vec<WindowPoint>,
}

/// The result of one period for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPoint {
    /// When it ended.
    pub at: Instant,
    /// IOs that may be outstanding from then on.
    pub window: Fixed,
    /// The latency that it uses; `None` before the first sample.
    pub latency: Option<Nanos>,
    /// The host's β, from the shares of its VMs.
    pub beta: Fixed,
}

impl Results {
    /// Bandwidth of all tenants together.
    pub fn bandwidth(&self) -> ByteRate {
        ByteRate(self.tenants.iter().map(|tenant| tenant.bandwidth(self.duration).0).sum())
    }
}

/// The results of one tenant.
#[derive(Clone, Debug)]
pub struct TenantResults {
    /// Its name.
    pub name: String,
    /// Its reads.
    pub read: Direction,
    /// Its writes.
    pub write: Direction,
    /// The IOs answered in each interval of the measured time.
    pub series: Vec<Point>,
}

/// The IOs of one tenant answered in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Its reads.
    pub read: Tally,
    /// Its writes.
    pub write: Tally,
}

/// IOs of one direction in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of IOs.
    pub ios: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Sum of their latencies inside the SSD.
    pub device_latency: Nanos,
    /// Sum of their latencies seen from the network.
    pub network_latency: Nanos,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Tally) {
        self.ios += other.ios;
        self.bytes += other.bytes;
        self.device_latency += other.device_latency;
        self.network_latency += other.network_latency;
    }
}

impl TenantResults {
    pub(crate) fn new(name: String, points: usize) -> TenantResults {
        TenantResults {
            name,
            read: Direction::new(),
            write: Direction::new(),
            series: vec![Point::default(); points],
        }
    }

    /// Bandwidth of both directions over the measured time.
    pub fn bandwidth(&self, duration: Nanos) -> ByteRate {
        ByteRate::measured(self.read.bytes + self.write.bytes, duration).unwrap_or_default()
    }
}

/// Reads or writes of one tenant.
#[derive(Clone, Debug)]
pub struct Direction {
    /// IOs answered in the measured time.
    pub ios: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Their latencies.
    pub latency: Latencies,
}

impl Direction {
    fn new() -> Direction {
        Direction { ios: 0, bytes: Bytes::ZERO, latency: Latencies::new() }
    }
}

/// Three kinds of latency, each in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Inside the SSD: submission to completion.
    pub device: Histogram<u64>,
    /// Seen from the network: from sending by the client to completion at the client (as in the papers).
    pub network: Histogram<u64>,
    /// End to end: from the request of the application to completion, including the wait for credit.
    pub end_to_end: Histogram<u64>,
}

impl Latencies {
    fn new() -> Latencies {
        let histogram = || Histogram::new(DIGITS).expect("the number of digits is valid");
        Latencies { device: histogram(), network: histogram(), end_to_end: histogram() }
    }

    /// Records one IO. Histograms grow with the longest latency; that takes a tenth of the memory needed for
    /// the longest possible one.
    pub(crate) fn record(&mut self, device: Nanos, network: Nanos, end_to_end: Nanos) {
        let readings =
            [(&mut self.device, device), (&mut self.network, network), (&mut self.end_to_end, end_to_end)];
        for (histogram, latency) in readings {
            histogram.record(latency.0).expect("a histogram that resizes takes any value");
        }
    }
}
