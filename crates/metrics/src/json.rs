//! The same as JSON, for `/v1/stats`.

use crate::table::{Measure, Sample, Source, TABLE, Value as Measured};
use measures::Histogram;
use serde_json::{Map, Value, json as object};
use server::{SsdStats, Stats, TenantName, TenantStats};

/// The fields that name a tenant: `kind`, and `host`, or `subsystem` and `namespace`.
pub fn identity(tenant: &TenantName) -> Map<String, Value> {
    let fields = match tenant {
        TenantName::Host(nqn) => vec![("kind", object!("host")), ("host", object!(**nqn))],
        TenantName::Namespace { subsystem, nsid } => {
            vec![
                ("kind", object!("namespace")),
                ("subsystem", object!(**subsystem)),
                ("namespace", object!(nsid)),
            ]
        }
    };
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// All measures of `stats`; of the tenants, those for which `wanted` says so, given the device and the tenant.
///
/// A measure is a field: a number, or an object with a field for each value of its label. A histogram is an object with `count`, `sum_seconds`, and
/// `p50_seconds`, `p99_seconds`, `p999_seconds`, which are `null` if the count is 0.
pub fn json(stats: &Stats, wanted: impl Fn(&str, &TenantName) -> bool) -> Value {
    let mut target = target_fields(stats);
    let devices = stats.ssds.iter().map(|ssd| {
        let mut device = device_fields(ssd);
        let tenants = ssd.tenants.iter().filter(|tenant| wanted(&ssd.device, &tenant.tenant));
        device
            .insert("tenants".to_owned(), tenants.map(|tenant| Value::from(tenant_fields(tenant))).collect());
        Value::from(device)
    });
    target.insert("devices".to_owned(), devices.collect());
    target.into()
}

/// The measures of a target.
pub(crate) fn target_fields(stats: &Stats) -> Map<String, Value> {
    let mut fields = Map::new();
    for measure in TABLE {
        if let Source::Target(of) = measure.source {
            put(&mut fields, measure, |to| of(stats, to));
        }
    }
    fields
}

/// The name and the measures of an SSD.
pub(crate) fn device_fields(ssd: &SsdStats) -> Map<String, Value> {
    let mut fields = Map::from_iter([("device".to_owned(), object!(ssd.device))]);
    for measure in TABLE {
        if let Source::Device(of) = measure.source {
            put(&mut fields, measure, |to| of(ssd, to));
        }
    }
    fields
}

/// The name and the measures of a tenant.
pub(crate) fn tenant_fields(tenant: &TenantStats) -> Map<String, Value> {
    let mut fields = identity(&tenant.tenant);
    for measure in TABLE {
        if let Source::Tenant(of) = measure.source {
            put(&mut fields, measure, |to| of(tenant, to));
        }
    }
    fields
}

/// Adds the field of a measure, unless it has no value now.
fn put<'s>(to: &mut Map<String, Value>, measure: &Measure, of: impl FnOnce(&mut Vec<Sample<'s>>)) {
    let mut samples = Vec::new();
    of(&mut samples);
    if let Some(value) = field(measure, &samples) {
        to.insert(measure.field().to_owned(), value);
    }
}

/// The value of the field of a measure; `None` without samples.
pub(crate) fn field(measure: &Measure, samples: &[Sample<'_>]) -> Option<Value> {
    Some(match (measure.label, samples) {
        (_, []) => return None,
        ("", [sample]) => told(sample),
        _ => {
            samples.iter().map(|sample| (sample.label.to_owned(), told(sample))).collect::<Map<_, _>>().into()
        }
    })
}

fn told(sample: &Sample<'_>) -> Value {
    match sample.value {
        Measured::Number(number) => object!(number),
        Measured::Count(count) => object!(count),
        Measured::Histogram(histogram) => of_histogram(histogram),
    }
}

fn of_histogram(histogram: &Histogram) -> Value {
    let quantile = |permille| histogram.quantile(permille).map(|span| span.as_secs_f64());
    object!({
        "count": histogram.count(),
        "sum_seconds": histogram.sum() as f64 / 1e9,
        "p50_seconds": quantile(500),
        "p99_seconds": quantile(990),
        "p999_seconds": quantile(999),
    })
}
