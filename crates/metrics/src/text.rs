//! The text format of Prometheus.

use crate::families::{Family, Histograms, Series, families};
use crate::shown::Tenants;
use crate::table::{Kind, Value};
use measures::powers_of_two;
use prometheus::TextEncoder;
use prometheus::proto::{self, LabelPair, MetricFamily, MetricType};
use server::Stats;

/// The media type of [`text`].
pub const TEXT_KIND: &str = prometheus::TEXT_FORMAT;

/// Bounds of the buckets of histograms: powers of two from 32.8 µs to 0.27 s, as log2 of nanoseconds.
const BOUNDS: (u32, u32) = (15, 28);

/// All measures of `stats`, with the series of the chosen `tenants`.
pub fn text(stats: &Stats, tenants: &Tenants) -> String {
    let families: Vec<MetricFamily> = families(stats, tenants, Histograms::OfSome).map(described).collect();
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&families, &mut text).expect("families have names and samples");
    text
}

fn described(of: Family<'_>) -> MetricFamily {
    let kind = match of.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    };
    let mut family = MetricFamily::default();
    family.set_name(of.name.to_owned());
    family.set_help(of.help.to_owned());
    family.set_field_type(kind);
    family.set_metric(of.series.iter().map(|series| metric(of.kind, series)).collect());
    family
}

fn metric(kind: Kind, series: &Series<'_>) -> proto::Metric {
    let labels = series.labels.iter().map(|(name, value)| label(name, value)).collect();
    let mut metric = proto::Metric::from_label(labels);
    let number = match series.value {
        Value::Number(number) => number,
        Value::Count(count) => count as f64,
        Value::Histogram(histogram) => {
            metric.set_histogram(buckets(histogram));
            return metric;
        }
    };
    match kind {
        Kind::Counter => {
            let mut counter = proto::Counter::default();
            counter.set_value(number);
            metric.set_counter(counter);
        }
        Kind::Gauge | Kind::Histogram => {
            let mut gauge = proto::Gauge::default();
            gauge.set_value(number);
            metric.set_gauge(gauge);
        }
    }
    metric
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn buckets(histogram: &measures::Histogram) -> proto::Histogram {
    let bucket = |bound: units::Nanos| {
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(bound.as_secs_f64());
        bucket.set_cumulative_count(histogram.below(bound));
        bucket
    };
    let mut told = proto::Histogram::default();
    told.set_bucket(powers_of_two(BOUNDS.0, BOUNDS.1).map(bucket).collect());
    told.set_sample_count(histogram.count());
    told.set_sample_sum(histogram.sum() as f64 / 1e9);
    told
}
