//! The text format of Prometheus.

use crate::shown::Tenants;
use crate::table::{Kind, Measure, Sample, Source, TABLE, Value};
use measures::powers_of_two;
use prometheus::TextEncoder;
use prometheus::proto::{self, LabelPair, MetricFamily, MetricType};
use server::{Stats, TenantName};

/// The media type of [`text`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Bounds of the buckets of histograms: powers of two from 32.8 µs to 0.27 s, as log2 of nanoseconds.
const BOUNDS: (u32, u32) = (15, 28);

/// All measures of `stats`, with the series of the chosen `tenants`.
pub fn text(stats: &Stats, tenants: &Tenants) -> String {
    let mut families: Vec<MetricFamily> = TABLE
        .iter()
        .map(|measure| family(measure, stats, tenants))
        .filter(|it| !it.get_metric().is_empty())
        .collect();
    families.push(pairs(tenants));
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&families, &mut text).expect("families have names and samples");
    text
}

fn family(measure: &Measure, stats: &Stats, tenants: &Tenants) -> MetricFamily {
    let (mut metrics, mut samples) = (Vec::new(), Vec::new());
    match measure.source {
        Source::Target(of) => {
            of(stats, &mut samples);
            metrics.extend(samples.iter().map(|sample| metric(measure, sample, &[])));
        }
        Source::Device(of) => {
            for ssd in &stats.ssds {
                let mut samples = Vec::new();
                of(ssd, &mut samples);
                metrics.extend(samples.iter().map(|it| metric(measure, it, &[("device", &ssd.device)])));
            }
        }
        Source::Tenant(of) => {
            for (ssd, places) in stats.ssds.iter().zip(&tenants.of) {
                for (place, has_histograms) in places {
                    if measure.kind == Kind::Histogram && !has_histograms {
                        continue;
                    }
                    let tenant = &ssd.tenants[*place];
                    let mut samples = Vec::new();
                    of(tenant, &mut samples);
                    let nsid;
                    let labels: &[(&str, &str)] = match &tenant.tenant {
                        TenantName::Host(nqn) => &[("device", &ssd.device), ("host", nqn)],
                        TenantName::Namespace { subsystem, nsid: number } => {
                            nsid = number.to_string();
                            &[("device", &ssd.device), ("subsystem", subsystem), ("namespace", &nsid)]
                        }
                    };
                    metrics.extend(samples.iter().map(|sample| metric(measure, sample, labels)));
                }
            }
        }
    }
    let kind = match measure.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    };
    described(measure.name, measure.help, kind, metrics)
}

/// The number of pairs of device and tenant with series of their own, and without.
fn pairs(tenants: &Tenants) -> MetricFamily {
    let metrics = ["yes", "no"].into_iter().zip(tenants.counts).map(|(shown, count)| {
        let mut metric = proto::Metric::from_label(vec![label("shown", shown)]);
        metric.set_gauge(gauge(count as f64));
        metric
    });
    let help =
        "Pairs of device and tenant with series of their own, and those that are in the device's totals only";
    described("gimbal_tenant_pairs", help, MetricType::GAUGE, metrics.collect())
}

fn described(name: &str, help: &str, kind: MetricType, metrics: Vec<proto::Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn metric(measure: &Measure, sample: &Sample<'_>, labels: &[(&str, &str)]) -> proto::Metric {
    let mut pairs: Vec<LabelPair> = labels.iter().map(|(name, value)| label(name, value)).collect();
    if !measure.label.is_empty() {
        pairs.push(label(measure.label, sample.label));
    }
    let mut metric = proto::Metric::from_label(pairs);
    let number = match sample.value {
        Value::Number(number) => number,
        Value::Count(count) => count as f64,
        Value::Histogram(histogram) => {
            metric.set_histogram(buckets(histogram));
            return metric;
        }
    };
    match measure.kind {
        Kind::Counter => {
            let mut counter = proto::Counter::default();
            counter.set_value(number);
            metric.set_counter(counter);
        }
        Kind::Gauge | Kind::Histogram => metric.set_gauge(gauge(number)),
    }
    metric
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

fn gauge(value: f64) -> proto::Gauge {
    let mut gauge = proto::Gauge::default();
    gauge.set_value(value);
    gauge
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
