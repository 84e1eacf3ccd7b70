//! What a run found: per tenant and direction, bandwidth over time and latency in three readings.

use hdrhistogram::Histogram;
use sched::{Fixed, SsdView};
use units::{ByteRate, Bytes, Instant, Nanos, TenantId};

/// Significant decimal digits kept of a latency.
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
    /// IOs that came back, the warm-up's included.
    pub ios: u64,
    /// What the scheduler showed at the end of each interval, the warm-up's included; empty if it shows nothing.
    pub views: Vec<(Instant, SsdView)>,
    /// PARDA's windows, host by host; without points for hosts that have none.
    pub windows: Vec<Windows>,
}

/// The course of one host's window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// The tenants that are the host's VMs.
    pub tenants: Vec<TenantId>,
    /// At the end of each period, the warm-up's included.
    pub points: Vec<WindowPoint>,
}

/// What a host made of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPoint {
    /// When it ended.
    pub at: Instant,
    /// IOs that may be outstanding from now on.
    pub window: Fixed,
    /// The latency that it goes by; `None` before the first.
    pub latency: Option<Nanos>,
    /// What its VMs' shares came to.
    pub beta: Fixed,
}

impl Results {
    /// Bandwidth of all tenants together.
    pub fn bandwidth(&self) -> ByteRate {
        ByteRate(self.tenants.iter().map(|tenant| tenant.bandwidth(self.duration).0).sum())
    }
}

/// One tenant's part.
#[derive(Clone, Debug)]
pub struct TenantResults {
    /// Its name.
    pub name: String,
    /// Its reads.
    pub read: Direction,
    /// Its writes.
    pub write: Direction,
    /// What came back in each interval of the measured time.
    pub series: Vec<Point>,
}

/// What came back to one tenant in one interval.
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
    /// How many.
    pub ios: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Their latencies inside the SSD, added up.
    pub device_latency: Nanos,
    /// Their latencies seen from the network, added up.
    pub network_latency: Nanos,
}

impl Tally {
    /// Adds what another tally counted.
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

    /// Both directions together, over the measured time.
    pub fn bandwidth(&self, duration: Nanos) -> ByteRate {
        ByteRate::measured(self.read.bytes + self.write.bytes, duration).unwrap_or_default()
    }
}

/// Reads or writes of one tenant.
#[derive(Clone, Debug)]
pub struct Direction {
    /// IOs that came back in the measured time.
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

/// The three readings of latency, each in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// Inside the SSD: submission to completion.
    pub device: Histogram<u64>,
    /// Seen from the network: sent by the client to completion at the client (the papers' reading).
    pub network: Histogram<u64>,
    /// End to end: asked for by the application to completion, the wait for credit included.
    pub end_to_end: Histogram<u64>,
}

impl Latencies {
    fn new() -> Latencies {
        let histogram = || Histogram::new(DIGITS).expect("the number of digits is valid");
        Latencies { device: histogram(), network: histogram(), end_to_end: histogram() }
    }

    /// Notes one IO. Histograms grow with the longest latency: a tenth of what they would take for the longest thinkable one.
    pub(crate) fn record(&mut self, device: Nanos, network: Nanos, end_to_end: Nanos) {
        let readings =
            [(&mut self.device, device), (&mut self.network, network), (&mut self.end_to_end, end_to_end)];
        for (histogram, latency) in readings {
            histogram.record(latency.0).expect("a histogram that resizes takes any value");
        }
    }
}
