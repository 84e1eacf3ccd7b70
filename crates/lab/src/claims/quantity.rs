//! The subject of a claim: one number of one record.

use crate::measure::{DirectionFigures, Quantiles};
use crate::record::{GroupRecord, Record};
use serde::Deserialize;
use units::Nanos;

/// One number of a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// A group's bandwidth, 10^6 bytes per second.
    Bandwidth(String),
    /// The average bandwidth of a tenant of a group, 10^6 bytes per second.
    TenantBandwidth(String),
    /// All tenants' bandwidth, 10^6 bytes per second.
    #[serde(rename = "total")]
    Total {},
    /// A group's IOs per second.
    Iops(String),
    /// A group's mean f-Util.
    FUtil(String),
    /// A group's mean |f-Util − 1|.
    Deviation(String),
    /// The f-Util of the worst-off of all tenants.
    #[serde(rename = "least-f-util")]
    LeastFUtil {},
    /// The mean f-Util of all tenants.
    #[serde(rename = "utilisation")]
    Utilisation {},
    /// The distance between two groups' f-Util.
    FUtilGap(Gap),
    /// A latency in microseconds.
    Latency(Latency),
    /// The statistic of a group's latency (mean to 99.99th percentile, reads or writes) that most exceeds the other
    /// scheduler's, in microseconds. Seen from the network. Without a comparison, the greatest of all.
    #[serde(rename = "worst-latency")]
    WorstLatency {},
    /// A group's mean latency in a part of the run, microseconds.
    LatencyBetween(Stretch),
    /// A group's mean bandwidth in a part of the run, 10^6 bytes per second.
    BandwidthBetween(GroupStretch),
    /// The least write cost that the scheduler reported in a part of the run.
    WriteCostBetween(Between),
    /// All tenants' IOs per second.
    #[serde(rename = "total-iops")]
    TotalIops {},
    /// The mean latency of all IOs seen from the network, microseconds.
    #[serde(rename = "mean-latency")]
    MeanLatency {},
    /// PARDA's window of a group's hosts, averaged over the measured time.
    Window(String),
    /// One number over another.
    Ratio(Box<Ratio>),
}

/// One number over another.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The numerator.
    pub of: Quantity,
    /// The denominator.
    pub to: Quantity,
}

/// A direction of a group in a part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
    /// The group with this quantity.
    pub group: String,
    /// Its reads or its writes.
    pub way: Way,
    /// The place of the measurement.
    #[serde(default)]
    pub reading: StretchReading,
    /// Start of the part, after the warm-up.
    pub from: Nanos,
    /// End of the part.
    pub to: Nanos,
}

/// The place at which the latency of a part is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StretchReading {
    /// Inside the SSD.
    Device,
    /// At the client, from sending to completion.
    #[default]
    Network,
}

/// A group in a part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupStretch {
    /// The group with this quantity.
    pub group: String,
    /// Start of the part, after the warm-up.
    pub from: Nanos,
    /// End of the part.
    pub to: Nanos,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Between {
    /// Its start, after the warm-up.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
}

/// Two groups. Their gap is |a − b| / min(a, b) of their f-Util, because the papers' gaps reach 330 times 3.8 %, which
/// neither a difference of f-Util (at most 2 with two groups of equal size) nor a gap relative to the greater could.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// One group.
    pub a: String,
    /// The other.
    pub b: String,
}

/// A statistic of a group's latency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The group with this quantity.
    pub group: String,
    /// Its reads or its writes.
    pub way: Way,
    /// The statistic of the distribution.
    pub statistic: Statistic,
    /// The place of the measurement.
    #[serde(default)]
    pub reading: Reading,
}

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A number of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// Arithmetic mean.
    Mean,
    /// Median.
    P50,
    /// 99th percentile.
    P99,
    /// 99.9th percentile.
    P999,
    /// 99.99th percentile.
    P9999,
}

/// The place at which latency is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Inside the SSD.
    Device,
    /// At the client, from sending to completion, as in the papers.
    #[default]
    Network,
    /// At the application, including the wait for credit.
    EndToEnd,
}

impl Quantity {
    /// The number in `record`; `None` if there is none (no such IO completed).
    pub(crate) fn of(&self, record: &Record) -> Option<f64> {
        let group = |name: &str| record.group(name);
        match self {
            Quantity::Bandwidth(name) => group(name).map(|group| group.mb_per_s),
            Quantity::TenantBandwidth(name) => {
                group(name).map(|group| group.mb_per_s / f64::from(group.tenants))
            }
            Quantity::Total {} => Some(record.mb_per_s),
            Quantity::Iops(name) => group(name).map(GroupRecord::iops),
            Quantity::FUtil(name) => group(name).map(|group| group.f_util),
            Quantity::Deviation(name) => group(name).map(|group| group.deviation),
            Quantity::LeastFUtil {} => {
                record.groups.iter().map(|group| group.f_util_least).min_by(f64::total_cmp)
            }
            Quantity::Utilisation {} => Some(record.utilisation),
            Quantity::FUtilGap(Gap { a, b }) => {
                let (a, b) = (group(a)?.f_util, group(b)?.f_util);
                (a.min(b) > 0.0).then(|| (a - b).abs() / a.min(b))
            }
            Quantity::Latency(latency) => {
                let figures = latency.way.of(group(&latency.group)?)?;
                Some(latency.statistic.of(latency.reading.of(figures)))
            }
            Quantity::WorstLatency {} => {
                latencies(record).into_iter().map(|of| of.value).max_by(f64::total_cmp)
            }
            Quantity::LatencyBetween(stretch) => {
                let within = within(&stretch.from, &stretch.to);
                let points = group(&stretch.group)?.series.iter().filter(|point| within(point.second));
                let latencies: Vec<f64> = points
                    .filter_map(|point| match (stretch.way, stretch.reading) {
                        (Way::Read, StretchReading::Network) => point.read_us,
                        (Way::Write, StretchReading::Network) => point.write_us,
                        (Way::Read, StretchReading::Device) => point.read_device_us,
                        (Way::Write, StretchReading::Device) => point.write_device_us,
                    })
                    .collect();
                mean(&latencies)
            }
            Quantity::BandwidthBetween(GroupStretch { group: name, from, to }) => {
                let within = within(from, to);
                let points = group(name)?.series.iter().filter(|point| within(point.second));
                mean(&points.map(|point| point.mb_per_s).collect::<Vec<f64>>())
            }
            Quantity::WriteCostBetween(Between { from, to }) => {
                let within = within(from, to);
                let costs = record.time_series.iter().filter(|point| within(point.second));
                costs.map(|point| point.write_cost).min_by(f64::total_cmp)
            }
            Quantity::TotalIops {} => Some(record.groups.iter().map(GroupRecord::iops).sum()),
            Quantity::MeanLatency {} => {
                let figures = || record.groups.iter().flat_map(|group| [&group.read, &group.write]).flatten();
                let ios: u64 = figures().map(|figures| figures.ios).sum();
                let sum: f64 = figures().map(|figures| figures.network.mean_us * figures.ios as f64).sum();
                (ios > 0).then(|| sum / ios as f64)
            }
            Quantity::Window(name) => {
                let points = group(name)?.windows.iter().filter(|point| point.second >= 0.0);
                let windows: Vec<f64> = points.map(|point| point.window).collect();
                mean(&windows)
            }
            Quantity::Ratio(ratio) => Some(ratio.of.of(record)? / ratio.to.of(record)?),
        }
    }

    /// The number in `record`, and the number for comparison in `other`, of the same case. If the quantity is the worst
    /// of several numbers, returns all of them, in an order that depends only on the case.
    pub(crate) fn against(&self, record: &Record, other: &Record) -> Vec<Option<Pair>> {
        match self {
            Quantity::WorstLatency {} => {
                let both = latencies(record).into_iter().zip(latencies(other));
                both.map(|(mine, other)| Some(Pair::of(mine, other))).collect()
            }
            Quantity::Latency(Latency { group, way, statistic, reading }) => {
                let measured = |record: &Record| {
                    let figures = way.of(record.group(group)?)?;
                    Some(Measured::of(figures, *statistic, *reading))
                };
                vec![measured(record).zip(measured(other)).map(|(mine, other)| Pair::of(mine, other))]
            }
            _ => {
                let pair = self.of(record).zip(self.of(other));
                vec![pair.map(|(mine, other)| Pair { mine, other, beyond: f64::INFINITY })]
            }
        }
    }

    /// The groups that the quantity names.
    pub(crate) fn groups(&self) -> Vec<&str> {
        match self {
            Quantity::Bandwidth(name)
            | Quantity::TenantBandwidth(name)
            | Quantity::Iops(name)
            | Quantity::FUtil(name)
            | Quantity::Deviation(name)
            | Quantity::Window(name) => vec![name],
            Quantity::FUtilGap(Gap { a, b }) => vec![a, b],
            Quantity::Latency(latency) => vec![&latency.group],
            Quantity::LatencyBetween(stretch) => vec![&stretch.group],
            Quantity::BandwidthBetween(stretch) => vec![&stretch.group],
            Quantity::Ratio(ratio) => [ratio.of.groups(), ratio.to.groups()].concat(),
            Quantity::Total {}
            | Quantity::TotalIops {}
            | Quantity::MeanLatency {}
            | Quantity::LeastFUtil {}
            | Quantity::WorstLatency {}
            | Quantity::Utilisation {}
            | Quantity::WriteCostBetween(_) => vec![],
        }
    }
}

/// One number under two schedulers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    /// The number that is judged.
    pub(crate) mine: f64,
    /// The number for comparison.
    pub(crate) other: f64,
    /// Number of IOs beyond the percentile, in the run with fewer of them; infinite for a number that is not a
    /// percentile of IOs.
    pub(crate) beyond: f64,
}

impl Pair {
    fn of(mine: Measured, other: Measured) -> Pair {
        Pair { mine: mine.value, other: other.value, beyond: mine.beyond.min(other.beyond) }
    }
}

/// A statistic of latency, and the number of IOs beyond it.
#[derive(Clone, Copy)]
struct Measured {
    value: f64,
    beyond: f64,
}

impl Measured {
    fn of(figures: &DirectionFigures, statistic: Statistic, reading: Reading) -> Measured {
        let beyond = figures.ios as f64 * statistic.share_beyond();
        Measured { value: statistic.of(reading.of(figures)), beyond }
    }
}

/// All statistics of all latencies, seen from the network, in an order that depends only on the case.
fn latencies(record: &Record) -> Vec<Measured> {
    let of = |figures: &DirectionFigures| {
        Statistic::ALL.map(|statistic| Measured::of(figures, statistic, Reading::Network))
    };
    record.groups.iter().flat_map(|group| [&group.read, &group.write]).flatten().flat_map(of).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Whether the interval that ends at a given second is in the part.
fn within(from: &Nanos, to: &Nanos) -> impl Fn(f64) -> bool {
    let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
    move |second| second > from && second <= to
}

impl Reading {
    pub(crate) fn of(self, figures: &DirectionFigures) -> &Quantiles {
        match self {
            Reading::Device => &figures.device,
            Reading::Network => &figures.network,
            Reading::EndToEnd => &figures.end_to_end,
        }
    }
}

impl Way {
    fn of(self, group: &GroupRecord) -> Option<&DirectionFigures> {
        match self {
            Way::Read => group.read.as_ref(),
            Way::Write => group.write.as_ref(),
        }
    }
}

impl Statistic {
    const ALL: [Statistic; 5] =
        [Statistic::Mean, Statistic::P50, Statistic::P99, Statistic::P999, Statistic::P9999];

    /// The fraction of the IOs that determine the statistic.
    fn share_beyond(self) -> f64 {
        match self {
            Statistic::Mean => 1.0,
            Statistic::P50 => 0.5,
            Statistic::P99 => 1e-2,
            Statistic::P999 => 1e-3,
            Statistic::P9999 => 1e-4,
        }
    }

    pub(crate) fn of(self, quantiles: &Quantiles) -> f64 {
        match self {
            Statistic::Mean => quantiles.mean_us,
            Statistic::P50 => quantiles.p50_us,
            Statistic::P99 => quantiles.p99_us,
            Statistic::P999 => quantiles.p999_us,
            Statistic::P9999 => quantiles.p9999_us,
        }
    }
}
