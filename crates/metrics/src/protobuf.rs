//! The protobuf format of Prometheus (`io.prometheus.client.MetricFamily`, each with its length before it), with native histograms.
//!
//! A native histogram is one series with all of its buckets. Those of schema 3 have eight buckets for each power of two, as ours have; ours are of equal widths, theirs of equal ratios.
//! So each of our buckets counts in the one that its end belongs to: above 1 µs, a quantile that Prometheus computes is at most a quarter above the true one, and at most a tenth below it.

use crate::families::{Family, Histograms, families};
use crate::shown::Tenants;
use crate::table::{Kind, Value};
use prost::Message;
use server::Stats;
use units::Nanos;

/// The media type of [`protobuf`].
pub const PROTOBUF_KIND: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// log2 of the buckets per power of two.
const SCHEMA: i32 = 3;
/// Shorter durations count as zero: they are in the first of our buckets.
const ZERO: Nanos = Nanos(128);
/// Gaps of at most so many empty buckets are told as zeroes, wider ones as a new span.
const GAP_MAX: i32 = 2;

/// All measures of `stats`, with the series of the chosen `tenants`.
pub fn protobuf(stats: &Stats, tenants: &Tenants) -> Vec<u8> {
    let mut bytes = Vec::new();
    for family in families(stats, tenants, Histograms::OfAll) {
        told(family).encode_length_delimited(&mut bytes).expect("a vector grows");
    }
    bytes
}

fn told(family: Family<'_>) -> MetricFamily {
    let kind = family.kind;
    let metric = family.series.into_iter().map(|series| {
        let label = series.labels.into_iter();
        let label = label.map(|(name, value)| LabelPair { name: name.to_owned(), value: value.into_owned() });
        let mut metric = Metric { label: label.collect(), ..Metric::default() };
        let value = match series.value {
            Value::Histogram(of) => {
                metric.histogram = Some(native(of));
                return metric;
            }
            Value::Number(number) => number,
            Value::Count(count) => count as f64,
        };
        match kind {
            Kind::Counter => metric.counter = Some(Number { value }),
            Kind::Gauge | Kind::Histogram => metric.gauge = Some(Number { value }),
        }
        metric
    });
    let kind = match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    let (name, help) = (family.name.to_owned(), family.help.to_owned());
    MetricFamily { name, help, kind: kind as i32, metric: metric.collect() }
}

/// The buckets of `histogram`, as differences of counts in spans without wide gaps.
fn native(histogram: &measures::Histogram) -> Histogram {
    let (mut told, mut zero) = (Histogram::default(), 0);
    // The bucket after the last one that is told, and the count of that one.
    let (mut next, mut before) = (0, 0);
    for (index, count) in merged(histogram) {
        let Some(index) = index else {
            zero += count;
            continue;
        };
        let gap = index - next;
        match told.positive_span.last_mut() {
            Some(span) if gap <= GAP_MAX => {
                span.length += gap as u32 + 1;
                for _ in 0..gap {
                    told.positive_delta.push(-before);
                    before = 0;
                }
            }
            _ => told.positive_span.push(BucketSpan { offset: gap, length: 1 }),
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        told.positive_delta.push(count - before);
        (next, before) = (index + 1, count);
    }
    told.sample_count = histogram.count();
    told.sample_sum = histogram.sum() as f64 / 1e9;
    (told.schema, told.zero_threshold, told.zero_count) = (SCHEMA, ZERO.as_secs_f64(), zero);
    // A histogram without a span looks like one of the older kind.
    if told.positive_span.is_empty() {
        told.positive_span.push(BucketSpan::default());
    }
    told
}

/// The buckets with counts, in their order: the place in schema 3, `None` for zero, and the count.
fn merged(histogram: &measures::Histogram) -> Vec<(Option<i32>, u64)> {
    let mut merged: Vec<(Option<i32>, u64)> = Vec::new();
    for (end, count) in histogram.counted() {
        let place = place(end);
        match merged.last_mut() {
            Some((last, sum)) if *last == place => *sum += count,
            _ => merged.push((place, count)),
        }
    }
    merged
}

/// The place of the bucket of schema 3 that `end` belongs to: its values are above `2^((place - 1) / 8)` seconds, and at most `2^(place / 8)`.
fn place(end: Nanos) -> Option<i32> {
    // The logarithm of a bound is whole but for the last digits.
    (end > ZERO).then(|| (end.as_secs_f64().log2() * f64::from(1 << SCHEMA) - 1e-9).ceil() as i32)
}

/// The messages: names and numbers of fields are those of Prometheus' data model.
#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    help: String,
    #[prost(enumeration = "MetricType", tag = "3")]
    kind: i32,
    #[prost(message, repeated, tag = "4")]
    metric: Vec<Metric>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Number {
    #[prost(double, tag = "1")]
    value: f64,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, tag = "1")]
    sample_count: u64,
    #[prost(double, tag = "2")]
    sample_sum: f64,
    #[prost(sint32, tag = "5")]
    schema: i32,
    #[prost(double, tag = "6")]
    zero_threshold: f64,
    #[prost(uint64, tag = "7")]
    zero_count: u64,
    #[prost(message, repeated, tag = "12")]
    positive_span: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "13")]
    positive_delta: Vec<i64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts by place that a reader of `told` finds.
    fn read(told: &Histogram) -> Vec<(i32, u64)> {
        let mut deltas = told.positive_delta.iter();
        let (mut place, mut count, mut found) = (0, 0, Vec::new());
        for span in &told.positive_span {
            place += span.offset;
            for _ in 0..span.length {
                count += deltas.next().expect("a delta per bucket");
                found.push((place, u64::try_from(count).expect("counts are not negative")));
                place += 1;
            }
        }
        assert!(deltas.next().is_none());
        found.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn every_value_is_in_a_bucket_that_ends_at_most_a_quarter_above_it() {
        for nanos in (0..640).map(|n| (1_024.0 * 2f64.powf(f64::from(n) / 25.0)) as u64) {
            let mut histogram = measures::Histogram::default();
            histogram.record(Nanos(nanos));
            let found = read(&native(&histogram));
            let [(place, 1)] = found[..] else { panic!("{nanos} ns: {found:?}") };
            let [below, end] = [place - 1, place].map(|place| 2f64.powf(f64::from(place) / 8.0) * 1e9);
            let value = nanos as f64;
            assert!(value <= end && end <= value * 1.25, "{nanos} ns is counted up to {end}");
            assert!(value / 1.1 <= below && below <= value * 1.13, "{nanos} ns is counted above {below}");
        }
    }

    #[test]
    fn spans_hold_every_count_and_zeroes_apart() {
        let mut histogram = measures::Histogram::default();
        let values = [0, 100, 5_000, 5_900, 6_500, 1_000_000, 1_000_000, 70_000_000_000, 90_000_000_000];
        values.into_iter().for_each(|nanos| histogram.record(Nanos(nanos)));
        let told = native(&histogram);
        let counts = read(&told);
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>() + told.zero_count, 9);
        assert_eq!((told.zero_count, told.sample_count), (2, 9));
        assert!(counts.is_sorted_by(|a, b| a.0 < b.0), "{counts:?}");
        assert!(told.positive_span.len() >= 3, "{:?}", told.positive_span);
    }

    #[test]
    fn an_empty_histogram_is_a_native_one_all_the_same() {
        let told = native(&measures::Histogram::default());
        assert_eq!((told.positive_span.len(), told.positive_delta.len()), (1, 0));
    }
}
