//! The saved results of a run: bandwidth and latency per group of tenants, both also as time series. Histograms are
//! merged and dropped.

use hdrhistogram::Histogram;
use sched::{BusyPeriod, SsdView};
use serde::Serialize;
use sim::{Direction, Latencies, Point, Results, TenantResults, Windows};
use units::{Instant, Nanos};

/// One run, measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// In the order of the case.
    pub groups: Vec<GroupMeasured>,
    /// The states that the scheduler reported, one for each interval.
    pub views: Vec<(Instant, SsdView)>,
    /// The ends of the intervals at which the switch found the SSD slow.
    pub busy: Vec<(Instant, BusyPeriod)>,
    /// Number of completed IOs, warm-up included.
    pub ios: u64,
    /// A hash of every decision and completion; none if the run cannot be repeated.
    pub fingerprint: Option<u64>,
}

/// One group of one run.
#[derive(Clone, Debug)]
pub struct GroupMeasured {
    /// Bytes per second of each tenant.
    pub bandwidths: Vec<f64>,
    /// Reads of all its tenants; `None` if there were none.
    pub read: Option<DirectionFigures>,
    /// Writes of all its tenants; `None` if there were none.
    pub write: Option<DirectionFigures>,
    /// The time series of all its tenants together.
    pub series: Vec<Point>,
    /// The windows of its tenants' hosts after each period; empty without PARDA.
    pub windows: Vec<WindowMeasured>,
}

/// The windows of a group's hosts after one period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowMeasured {
    /// The end of the period.
    pub at: Instant,
    /// Number of IOs that a host may have outstanding, averaged over the hosts.
    pub window: f64,
}

/// Reads or writes of a group: bandwidth, and latencies in three readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionFigures {
    /// Number of IOs completed in the measured time.
    pub ios: u64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Inside the SSD: submission to completion.
    pub device: Quantiles,
    /// Seen from the network: sent by the client to completion at the client (the papers' reading).
    pub network: Quantiles,
    /// End to end: the wait for credit in the client included.
    pub end_to_end: Quantiles,
}

/// A distribution of latencies, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Arithmetic mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
}

impl Measured {
    /// Extracts the figures to keep from `results`; `counts` are the numbers of tenants of the groups.
    pub fn new(results: &Results, counts: &[u32]) -> Measured {
        let mut tenants = &results.tenants[..];
        let mut groups = Vec::with_capacity(counts.len());
        let mut first = 0;
        for count in counts {
            let (group, rest) = tenants.split_at(*count as usize);
            let members = first..first + *count;
            let hosts = results.windows.iter().filter(|host| {
                // The VMs of a host may belong to several groups; the host counts for the group of its first one.
                host.tenants.first().is_some_and(|tenant| members.contains(&tenant.0))
            });
            groups.push(GroupMeasured {
                windows: windows(&hosts.collect::<Vec<_>>()),
                ..GroupMeasured::new(group, results.duration)
            });
            (tenants, first) = (rest, first + *count);
        }
        assert!(tenants.is_empty(), "{} tenants belong to no group", tenants.len());
        let fingerprint = Some(results.fingerprint);
        let busy = results.busy.iter().filter_map(|(at, period)| Some((*at, (*period)?))).collect();
        Measured { groups, views: results.views.clone(), busy, ios: results.ios, fingerprint }
    }
}

impl GroupMeasured {
    fn new(tenants: &[TenantResults], duration: Nanos) -> GroupMeasured {
        let points = tenants.first().map_or(0, |tenant| tenant.series.len());
        let mut series = vec![Point::default(); points];
        for tenant in tenants {
            for (sum, point) in series.iter_mut().zip(&tenant.series) {
                sum.read.add(point.read);
                sum.write.add(point.write);
            }
        }
        GroupMeasured {
            bandwidths: tenants.iter().map(|tenant| tenant.bandwidth(duration).0 as f64).collect(),
            read: DirectionFigures::of(tenants.iter().map(|tenant| &tenant.read), duration),
            write: DirectionFigures::of(tenants.iter().map(|tenant| &tenant.write), duration),
            series,
            windows: Vec::new(),
        }
    }

    /// Bytes per second of all its tenants.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidths.iter().sum()
    }
}

/// The mean over hosts, which all have the same periods, except those that PARDA does not limit.
fn windows(hosts: &[&Windows]) -> Vec<WindowMeasured> {
    let held: Vec<_> = hosts.iter().filter(|host| !host.points.is_empty()).collect();
    let periods = held.iter().map(|host| host.points.len()).min().unwrap_or(0);
    let mean = |period: usize| WindowMeasured {
        at: held[0].points[period].at,
        window: held.iter().map(|host| host.points[period].window.as_f64()).sum::<f64>() / held.len() as f64,
    };
    (0..periods).map(mean).collect()
}

impl DirectionFigures {
    fn of<'a>(
        directions: impl Iterator<Item = &'a Direction> + Clone,
        duration: Nanos,
    ) -> Option<DirectionFigures> {
        let ios: u64 = directions.clone().map(|direction| direction.ios).sum();
        if ios == 0 {
            return None;
        }
        let merged = |reading: fn(&Latencies) -> &Histogram<u64>| {
            let mut latencies = directions.clone().map(|direction| reading(&direction.latency));
            let mut sum = latencies.next().expect("some IOs came back").clone();
            latencies.for_each(|other| sum.add(other).expect("a histogram that resizes takes any value"));
            Quantiles::of(&sum)
        };
        let bytes: u64 = directions.clone().map(|direction| direction.bytes.0).sum();
        Some(DirectionFigures {
            ios,
            mb_per_s: bytes as f64 / duration.as_secs_f64() / 1e6,
            device: merged(|latency| &latency.device),
            network: merged(|latency| &latency.network),
            end_to_end: merged(|latency| &latency.end_to_end),
        })
    }
}

impl Quantiles {
    /// From a histogram of nanoseconds.
    fn of(histogram: &Histogram<u64>) -> Quantiles {
        Quantiles::new(histogram.mean(), |quantile| histogram.value_at_quantile(quantile) as f64)
    }

    /// From a mean and a function that gives a quantile (0 to 1), in nanoseconds.
    pub fn new(mean: f64, at: impl Fn(f64) -> f64) -> Quantiles {
        let micros = |quantile: f64| at(quantile) / 1e3;
        Quantiles {
            mean_us: mean / 1e3,
            p50_us: micros(0.5),
            p95_us: micros(0.95),
            p99_us: micros(0.99),
            p999_us: micros(0.999),
            p9999_us: micros(0.9999),
        }
    }
}
